"""Made-up commits and logs, and what they must read as."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from support.file_case import FIELD_TYPES, plain_list, random_vector, text_vector
from tsdb.storage.log import Log
from tsdb.storage.log_record import Change
from tsdb.storage.log_replay import Replay, replay
from tsdb_format.disk import DISK, Storage
from tsdb_format.types import DOUBLE, INT64, STRING, TIMESTAMP_NS, parse_type
from tsdb_format.vector import Vector


def row(number: int, *, text: bytes | None = b"on") -> Change:
    """A commit of one row whose every value follows from the number."""
    columns = {
        1: Vector(TIMESTAMP_NS, np.array([number * 1_000], np.int64)),
        2: Vector(DOUBLE, np.array([number / 8])),
        3: Vector(INT64, np.array([number]), np.array([number % 2 == 0])),
        4: text_vector([text]),
    }
    return Change(7, numbers=np.array([number % 5], np.int32), row_start=np.array([0, 1]), columns=columns)


def random_change(seed: int, rows: int = 40, null_share: float = 0.2) -> Change:
    """A commit that has everything: new devices, attributes, rows of every type, deletes."""
    rng = np.random.default_rng(seed)
    devices = int(rng.integers(1, 6)) if rows else 0
    new, attributed, deleted = (int(count) for count in rng.integers(0, 4, 3))
    cuts = np.sort(rng.integers(0, rows + 1, max(devices - 1, 0)))
    row_start = np.concatenate([[0], cuts, [rows]]).astype(np.int64) if devices else np.zeros(1, np.int64)
    columns = {1: random_vector(TIMESTAMP_NS, rows, rng, 0.0)} if rows else {}
    if rows:
        columns |= {10 + at: random_vector(parse_type(name), rows, rng, null_share) for at, name in enumerate(FIELD_TYPES)}
    return Change(
        int(rng.integers(1, 9)),
        first_device=int(rng.integers(0, 100)),
        device_tags={2: random_vector(STRING, new, rng), 3: random_vector(INT64, new, rng)} if new else {},
        new_devices=new,
        attribute_devices=rng.integers(0, 100, attributed).astype(np.int32),
        attributes={5: random_vector(STRING, attributed, rng, 0.5), 6: random_vector(DOUBLE, attributed, rng, 0.5)}
        if attributed
        else {},
        numbers=rng.permutation(50)[:devices].astype(np.int32),
        row_start=row_start,
        columns=columns,
        deleted_device=rng.integers(-1, 50, deleted).astype(np.int32),
        deleted_low=rng.integers(-(2**63), 2**63 - 1, deleted),
        deleted_high=rng.integers(-(2**63), 2**63 - 1, deleted),
    )


def plain(change: Change) -> tuple:
    """All that a commit says, to compare; nothing of what is under a NULL."""
    arrays = ("attribute_devices", "numbers", "row_start", "deleted_device", "deleted_low", "deleted_high")
    return (
        change.table, change.first_device, change.new_devices,
        *((str(getattr(change, name).dtype), getattr(change, name).tolist()) for name in arrays),
        *({column: _plain_vector(vector) for column, vector in part.items()}
          for part in (change.device_tags, change.attributes, change.columns)),
    )  # fmt: skip


def _plain_vector(vector: Vector) -> tuple:
    valid = vector.valid()
    some = vector.take(valid)
    values = plain_list(some) if vector.pool is not None else (str(some.values.dtype), some.values.shape, some.values.tobytes())
    return vector.type, valid.tolist(), values


def write_log(
    folder: Path, sizes: list[int], *, first: int = 1, sync: bool = True, close: bool = True, storage: Storage = DISK
) -> dict[int, tuple]:
    """A log of one segment for each size, which is how many one-row commits it has; returns the commits as ``plain`` has them."""
    log = Log(str(folder), first, storage)
    expected = {}
    for size in sizes:
        log.rotate(first)
        for number in range(first, first + size):
            position = log.append(number, row(number))
            expected[number] = plain(row(number))
            if sync:
                log.sync(position)
        first += size
    if close:
        log.close()
    return expected


def read_log(folder: Path, after: int = 0, storage: Storage = DISK) -> tuple[Replay, dict[int, tuple]]:
    """What a replay finds, and the commits that it applies, as ``plain`` has them."""
    found: dict[int, tuple] = {}

    def apply(sequence: int, change: Change) -> None:
        assert not found or sequence > max(found)
        found[sequence] = plain(change)

    return replay(str(folder), after, apply, storage), found


def put(path: Path, raw: bytes | bytearray) -> None:
    """Give a file other bytes. A new file: ext4 takes milliseconds to write one anew in place, afraid of losing it."""
    path.unlink(missing_ok=True)
    path.write_bytes(raw)
