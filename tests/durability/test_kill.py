"""Writers that are killed: every acknowledged step is there afterwards, none in part, and the lock is free."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.command import environment
from support.kill_case import TABLES
from support.plan_case import Progress
from support.soak import SEED, pick
from tsdb.storage.check import check
from tsdb.storage.store import Store
from tsdb_format.errors import Locked

ROOT = Path(__file__).resolve().parent.parent.parent
#: Memory limits: the smaller, the more of the time goes into flushes and compactions.
_MEMORY = (2**30, 400_000, 64_000)


class Victim(Progress):
    """A writer in a process of its own."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(seed)
        self.path = path
        self.process: subprocess.Popen[bytes]
        self._rest = b""

    def start(self, memory_limit: int = 2**30) -> None:
        """Start the process; it goes on where it was."""
        steps = [str(self.done[name] + 1) for name in TABLES]
        path = f"{environment()['PYTHONPATH']}:{ROOT / 'tests'}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.kill_case", str(self.path), str(self.seed), str(memory_limit), *steps],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(PYTHONPATH=path, TSDB_KERNELS="auto"),
        )  # fmt: skip

    def await_steps(self, count: int) -> None:
        """Read until so many more steps were acknowledged."""
        while count > 0:
            count -= self._read()

    def _read(self) -> int:
        assert self.process.stdout is not None
        part = self.process.stdout.read1(65_536)
        assert part, self.process.communicate()[1].decode()
        return self._note(part)

    def _note(self, part: bytes) -> int:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            name, number = line.decode().split()
            assert int(number) == self.done[name] + 1
            self.advance(name)
        return len(lines)

    def kill(self, after_seconds: float) -> None:
        """Kill it at that moment, whatever it is at, and take in what it still acknowledged."""
        assert self.process.stdout is not None
        end = time.monotonic() + after_seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.process.stdout], [], [], left)[0]:
                self._read()
        self.process.send_signal(signal.SIGKILL)
        out, err = self.process.communicate()
        self._note(out)
        self._rest = b""
        assert not err, err.decode()
        assert self.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", range(pick(1, 4)))
def test_what_was_acknowledged_outlives_the_writer(tmp_path: Path, number: int) -> None:
    seed = SEED + number
    rng = random.Random(seed)
    victim = Victim(tmp_path / "db", seed)
    follower: Store | None = None
    for count in range(pick(10, 50)):
        memory_limit = rng.choice(_MEMORY)
        victim.start(memory_limit)
        victim.await_steps(rng.choice([1, 5, 20, 60]))
        moment = rng.random() * 0.02
        victim.kill(moment)
        print(f"seed {seed} round {count}: killed {moment:.4f} s after an acknowledgement, at {victim.done}")
        if rng.random() < 0.3:
            with Store.open(victim.path, "r", threads=1) as reader:
                victim.settle(reader)
        if follower is not None:
            follower.refresh()
            victim.settle(follower)  # and what it saw stays
        with Store.open(victim.path, threads=1, memory_limit=memory_limit) as store:
            victim.settle(store)
            assert not list(check(store))
            follower = follower or Store.open(victim.path, "r", threads=1)  # goes on through the lives of many writers
            follower.refresh()
            victim.settle(follower)
    if follower is not None:
        victim.settle(follower)
        follower.close()


def test_the_second_writer_learns_who_the_first_is_and_a_killed_ones_lock_is_free(tmp_path: Path) -> None:
    victim = Victim(tmp_path / "db", 1)
    victim.start()
    victim.await_steps(3)
    with pytest.raises(Locked, match=f"process {victim.process.pid}") as caught:
        Store.open(victim.path)
    assert caught.value.pid == victim.process.pid
    with Store.open(victim.path, "r") as reader:
        assert reader.tables()
    victim.kill(0)
    with Store.open(victim.path) as store:
        assert store.tables()
