"""Every file of a database, damaged anywhere: the database serves a prefix or the rest, or names the file; never wrong rows.

In the log damage may cost the commits behind it, and nothing else. In any other file it costs no commit: what does not need the
damaged bytes is answered as before, and what does is an error that says which file it is.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.live_model import LiveModel
from support.sample_case import FLUSH, LATER, build, observer, shown, shows
from support.soak import SEED, SOAK, pick
from support.storage import CrashStorage
from tsdb.storage.check import check
from tsdb.storage.manifest import CURRENT_NAME
from tsdb.storage.store import Store
from tsdb_format.errors import Error

KINDS = ("log", ".json", CURRENT_NAME, ".tsf", ".res", ".dev", ".del")
#: Damages of each kind tried on one file in `make test`.
_SAMPLE = 2


@dataclass(frozen=True)
class Damage:
    """What happens to a file: its bytes at ``at`` are changed by XOR with ``mask``, or it is cut there, or zero from there on."""

    kind: str
    at: int
    mask: int = 0

    def apply(self, data: bytes) -> bytes | None:
        """The damaged bytes; None where the file is gone."""
        match self.kind:
            case "flip":
                return data[: self.at] + bytes([data[self.at] ^ self.mask]) + data[self.at + 1 :]
            case "cut":
                return data[: self.at]
            case "zero":
                return data[: self.at] + bytes(len(data) - self.at)
            case "longer":
                return data + bytes(range(self.at))
        return None


def _damages(data: bytes, rng: random.Random) -> Iterator[Damage]:
    size, used = len(data), len(data.rstrip(b"\0"))  # a segment of the log is made larger than it need be
    places = set(range(used) if SOAK else (rng.randrange(used) for _ in range(_SAMPLE)))
    for at in sorted({0, *places, used - 1, rng.randrange(size)}):
        yield Damage("flip", at, 1 << rng.randrange(8))
        yield Damage("cut", at)
        if at % pick(2, 7) == 0:
            yield Damage("zero", at)
            yield Damage("flip", at, 0xFF)
    yield Damage("longer", 1)
    yield Damage("longer", 64)
    yield Damage("gone", 0)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[LiveModel]]:
    path = tmp_path_factory.mktemp("damage") / "db"
    return path, build(path)


def _files(path: Path, kind: str) -> list[Path]:
    found = [
        each
        for each in path.rglob("*")
        if each.is_file() and (each.suffix == kind or each.name == kind or each.parent.name == kind)
    ]
    assert found, f"the sample has no {kind}"
    return sorted(found)


def _each(sample: Path, tmp_path: Path, kind: str, attempt: Callable[[Path, Path, Damage], None]) -> None:
    """Try every damage of every file of a kind on a copy."""
    for file in _files(sample, kind):
        name, data = file.relative_to(sample), file.read_bytes()
        rng = random.Random(f"{SEED} {name}")
        for damage in _damages(data, rng):
            copy = tmp_path / "db"
            shutil.copytree(sample, copy, copy_function=os.link)  # nothing but what is damaged is changed in place
            changed = damage.apply(data)
            os.unlink(copy / name)
            if changed is not None:
                (copy / name).write_bytes(changed)
            try:
                attempt(copy, copy / name, damage)
            except BaseException as error:
                error.add_note(f"{name} of {len(data)} bytes, {damage}")
                raise
            shutil.rmtree(copy)


def _opened(path: Path, mode: str) -> Store:
    """A store of which nothing is really synced."""
    return Store.open(path, mode, threads=1, background=False, storage=CrashStorage(path))


def _writer(path: Path) -> Store:
    return _opened(path, "rw")


def _require(is_right: bool, error: Error) -> None:
    """Only such an error may come."""
    if not is_right:
        raise AssertionError("an error that says something else") from error


def _names(error: Error, file: Path) -> bool:
    """Whether the error says which file it is about."""
    return file.name in str(error) or file.name in str(getattr(error, "path", ""))


def test_a_damaged_log_gives_a_prefix(sample: tuple[Path, list[LiveModel]], tmp_path: Path) -> None:
    path, states = sample

    def attempt(copy: Path, file: Path, damage: Damage) -> None:
        seen = [0]
        try:
            with _opened(copy, "r") as reader:
                seen = shown(reader, states)
                assert seen, "a reader sees a prefix"
        except Error as error:  # it may also leave it to the next writer to decide what is lost
            _require(str(file.parent) in str(error), error)
        with _writer(copy) as store:
            found = shown(store, states)
            assert found, "the state is a prefix"
            assert max(found) >= min(seen), "what a reader saw stays"
            if damage.kind == "longer":
                assert max(found) == len(states) - 1
            state = states[found[0]].copy()
            LATER[0](store)
            LATER[1](state)
            assert shows(store, state)
        with _writer(copy) as store:
            assert shows(store, state)
            assert not list(check(store))
            store.flush()
            assert shows(store, state)

    _each(path, tmp_path, "log", attempt)


@pytest.mark.parametrize("kind", [".json", CURRENT_NAME])
def test_a_damaged_manifest_is_named_or_does_not_matter(sample: tuple[Path, list[LiveModel]], tmp_path: Path, kind: str) -> None:
    path, states = sample

    def attempt(copy: Path, file: Path, damage: Damage) -> None:
        for mode in ("r", "rw", "r"):
            try:
                with _opened(copy, mode) as store:
                    assert shows(store, states[-1])
            except Error as error:
                _require(kind == ".json" and (_names(error, file) or damage.kind == "gone"), error)

    _each(path, tmp_path, kind, attempt)


@pytest.mark.parametrize("kind", [".tsf", ".res", ".dev", ".del"])
def test_a_damaged_file_of_one_table_is_named_and_the_rest_is_served(
    sample: tuple[Path, list[LiveModel]], tmp_path: Path, kind: str
) -> None:
    path, states = sample
    owner = {f"table/{number}": name for number, name in ((1, "t"), (2, "u"))}

    def attempt(copy: Path, file: Path, damage: Damage) -> None:
        hurt = owner[file.parent.relative_to(copy).as_posix()]
        with _opened(copy, ("r", "rw")[damage.at % 2]) as store:
            served = 0
            for name, table in states[-1].tables.items():
                try:
                    asking = observer(store, damage.at)
                    asking.check_table(name, table.copy())
                    asking.ask(LiveModel({name: table.copy()}), 0, 2)
                    served += 1
                except Error as error:  # never for a sidecar, which is rebuilt
                    _require(name == hurt and _names(error, file) and kind != ".res", error)
            problems = list(check(store))
            assert served == len(states[-1].tables) or any(file.name in problem.path for problem in problems)

    _each(path, tmp_path, kind, attempt)


def test_rows_are_written_beside_a_damaged_file(sample: tuple[Path, list[LiveModel]], tmp_path: Path) -> None:
    """What is damaged is not made worse: new rows are committed and flushed, and the damage is still there to be seen."""
    path, states = sample
    for file in _files(path, ".tsf"):
        copy = tmp_path / file.name
        shutil.copytree(path, copy)
        damaged = copy / file.relative_to(path)
        damaged.write_bytes(damaged.read_bytes()[:-40])
        with _writer(copy) as store:
            for change in (LATER, FLUSH):
                change[0](store)
            assert any(file.name in problem.path for problem in check(store))
            try:
                store.compact()
            except Error as error:
                _require(_names(error, file), error)
            assert damaged.exists()
            expected = states[-1].copy()
            LATER[1](expected)
            served = 0
            for name, table in expected.tables.items():
                try:
                    observer(store).check_table(name, table)
                    served += 1
                except Error as error:
                    _require(_names(error, file), error)
            assert served == 1
