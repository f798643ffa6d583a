"""A writer of so many rows a second, and three processes that follow it live: every row exactly once, and how soon.

``python -m benchmarks.stream`` starts a process that commits durably, and followers in different phases: one from before the first
row, one that begins in the middle with the history, one that reads slowly. Each is killed again and again, without warning, and
goes on from the token that it wrote down with its last rows. What they wrote down must be every row once. The latency is the time
from before a row's commit to when a follower has it, of rows that were written after the follower had caught up.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

import tsdb
from benchmarks.report import Table, machine_text

_ROOT = Path(__file__).resolve().parent.parent
DDL = "CREATE STREAM facts (host VARCHAR, n BIGINT, sent_ns BIGINT) PRIMARY KEY host SHARDS 2 BY (hash(host))"
_HOSTS = 50
_HEAD = struct.Struct("<II")
#: Seconds that a slow follower rests after each batch.
_REST = 0.05
#: A follower has caught up once the newest row of a batch is no older than this.
_CAUGHT_UP_NS = 200_000_000
_PHASES = ("live", "history, then live", "slow")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one follower: rows that came more or less than once, its latencies, and how often it was killed."""

    phase: str
    rows: int
    wrong: int
    latencies_ms: list[float]
    kills: int


def write(path: Path, rate: int, commits: int, seconds: float) -> int:
    """Commit ``rate`` rows a second in so many commits; returns how many there were. Rows are numbered."""
    hosts = np.array([f"host-{number}" for number in range(_HOSTS)])
    size, made = rate // commits, 0
    with tsdb.open(path) as db:
        start = time.monotonic()
        for number in range(round(seconds * commits)):
            time.sleep(max(0.0, start + number / commits - time.monotonic()))
            n = np.arange(made, made + size, dtype=np.int64)
            db.write("facts", {"host": hosts[n % _HOSTS], "n": n, "sent_ns": np.full(size, time.monotonic_ns())})
            made += size
    return made


def follow(path: Path, kept: Path, seek: str, rest: float) -> None:
    """Follow until killed, writing down what came: a record a batch, with the token after it."""
    token = next((token for token, _, _ in reversed(list(records(kept)))), None)
    caught_up = 0
    with (
        tsdb.open(path, mode="r") as db,
        db.stream("SELECT n, sent_ns FROM facts", settings={"seek_to": seek}, resume=token) as rows,
        kept.open("ab", buffering=0) as out,
    ):
        for batch in rows:
            now = time.monotonic_ns()
            columns = batch.fetchnumpy()
            sent = columns["sent_ns"]
            if not caught_up and now - sent.max() < _CAUGHT_UP_NS:
                caught_up = now
            latency = np.where((sent >= caught_up) & (caught_up > 0), now - sent, -1)
            text = json.dumps(rows.token).encode()
            out.write(_HEAD.pack(len(text), len(sent)) + text + columns["n"].tobytes() + latency.tobytes())
            if rest:
                time.sleep(rest)


def records(kept: Path) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """What a follower wrote down: (token, numbers, latencies or −1). A record that it did not finish is cut off."""
    if not kept.exists():
        return
    raw, at = kept.read_bytes(), 0
    while at + _HEAD.size <= len(raw):
        length, count = _HEAD.unpack_from(raw, at)
        stop = at + _HEAD.size + length + 16 * count
        if stop > len(raw):
            break
        token = json.loads(raw[at + _HEAD.size : at + _HEAD.size + length])
        both = np.frombuffer(raw, np.int64, 2 * count, at + _HEAD.size + length)
        yield token, both[:count], both[count:]
        at = stop
    if at < len(raw):
        os.truncate(kept, at)


class Follower:
    """One of the followers, as a process that is started again whenever it was killed."""

    def __init__(self, folder: Path, database: Path, phase: str) -> None:
        self.phase = phase
        self.kept = folder / f"{phase.partition(',')[0]}.kept"
        self.kills = 0
        self._arguments = [str(database), str(self.kept), "earliest", str(_REST if phase == "slow" else 0.0)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, or go on."""
        self._process = start("follow", *self._arguments)

    def kill(self) -> None:
        """Kill it, and count that."""
        if self._process is not None:
            assert self._process.poll() is None, "a follower ended by itself"
            self._process.kill()
            self._process.wait()
            self._process = None
            self.kills += 1

    def size(self) -> int:
        """Bytes that it wrote down, running or not."""
        return self.kept.stat().st_size if self.kept.exists() else 0

    def outcome(self, total: int) -> Outcome:
        """What became of it."""
        found = list(records(self.kept))
        numbers = np.concatenate([each for _, each, _ in found]) if found else np.empty(0, np.int64)
        latency = np.concatenate([each for _, _, each in found]) if found else np.empty(0, np.int64)
        wrong = int(np.count_nonzero(np.bincount(numbers, minlength=total) != 1))
        return Outcome(self.phase, len(numbers), wrong, (latency[latency >= 0] / 1e6).tolist(), self.kills)


def measure(folder: Path, rate: int, commits: int, seconds: float, kills: int, patience: float) -> list[Outcome]:
    """Run it all. Raises TimeoutError where a follower does not come to the end within ``patience`` seconds after the writer."""
    database = folder / "db"
    with tsdb.open(database) as db:
        db.sql(DDL)
    chance = random.Random(0)
    followers = [Follower(folder, database, phase) for phase in _PHASES]
    live, late, slow = followers
    live.start()
    slow.start()
    started = time.monotonic()
    writer = start("write", str(database), str(rate), str(commits), str(seconds), stdout=subprocess.PIPE)
    moments = sorted((chance.uniform(0.1, 0.9) * seconds, follower) for follower in followers for _ in range(kills))
    try:
        begins = [(seconds / 2, late)]
        for at, follower in sorted([*moments, *begins], key=lambda each: each[0]):
            time.sleep(max(0.0, started + at - time.monotonic()))
            follower.kill()
            follower.start()
        output, _ = writer.communicate(timeout=patience + seconds)
        total = int(output)
        _await(followers, total, time.monotonic() + patience)
    finally:
        writer.kill()
        for follower in followers:
            follower.kill()
            follower.kills -= 1
    return [follower.outcome(total) for follower in followers]


def _await(followers: list[Follower], total: int, deadline: float) -> None:
    """Wait until each has written down so many rows, of 16 bytes with what surrounds them."""
    waiting = list(followers)
    while waiting:
        waiting = [each for each in waiting if each.size() < 16 * total or sum(len(n) for _, n, _ in _peek(each.kept)) < total]
        if time.monotonic() > deadline:
            raise TimeoutError(f"still behind: {', '.join(each.phase for each in waiting)}")
        time.sleep(0.02)


def _peek(kept: Path) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """As ``records``, of a file that is still written to."""
    copy = kept.with_suffix(".seen")
    copy.write_bytes(kept.read_bytes())
    yield from records(copy)


def start(*arguments: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
    """A process of this module."""
    paths = os.pathsep.join(str(_ROOT / part) for part in (".", "format", "cli"))
    command = [sys.executable, "-m", "benchmarks.stream", *arguments]
    return subprocess.Popen(command, cwd=_ROOT, env={**os.environ, "PYTHONPATH": paths}, stdout=stdout)


@click.group(invoke_without_command=True)
@click.option("--rate", default=50_000, show_default=True, help="Rows a second.")
@click.option("--commits", default=100, show_default=True, help="Commits a second.")
@click.option("--seconds", default=20.0, show_default=True, help="How long the writer writes.")
@click.option("--kills", default=3, show_default=True, help="How often each follower is killed.")
@click.pass_context
def main(context: click.Context, rate: int, commits: int, seconds: float, kills: int) -> None:
    """Measure."""
    if context.invoked_subcommand is not None:
        return
    with tempfile.TemporaryDirectory() as folder:
        outcomes = measure(Path(folder), rate, commits, seconds, kills, 60.0)
    title = f"Followers of {rate:,} rows a second in {commits:,} durable commits, for {seconds:g} s"
    report = Table(title, ("follower", "rows", "not once", "killed", "live rows", "median ms", "99 % ms"), note=machine_text())
    for each in outcomes:
        found = each.latencies_ms
        hundredths = statistics.quantiles(found, n=100) if len(found) > 1 else [float("nan")] * 99
        counts = f"{each.rows:,}", str(each.wrong), str(each.kills), f"{len(found):,}"
        report.rows.append((each.phase, *counts, f"{hundredths[49]:.1f}", f"{hundredths[98]:.1f}"))
    click.echo(report.as_text())
    sys.exit(any(each.wrong for each in outcomes))


@main.command("write", hidden=True)
@click.argument("path", type=Path)
@click.argument("rate", type=int)
@click.argument("commits", type=int)
@click.argument("seconds", type=float)
def write_command(path: Path, rate: int, commits: int, seconds: float) -> None:
    """Be the writer."""
    click.echo(write(path, rate, commits, seconds))


@main.command("follow", hidden=True)
@click.argument("path", type=Path)
@click.argument("kept", type=Path)
@click.argument("seek")
@click.argument("rest", type=float)
def follow_command(path: Path, kept: Path, seek: str, rest: float) -> None:
    """Be a follower."""
    follow(path, kept, seek, rest)


if __name__ == "__main__":
    main()
