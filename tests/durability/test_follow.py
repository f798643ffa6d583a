"""Readers in other processes beside a writer: whole commits, in order, and the writer waits for none of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from support.command import environment
from support.follow_case import total
from support.soak import pick

ROOT = Path(__file__).resolve().parent.parent.parent
#: Small enough for a flush every few dozen commits, so that files come, are compacted, and go under the readers' eyes.
_MEMORY = 300_000


def _start(*arguments: object) -> subprocess.Popen[str]:
    path = f"{environment()['PYTHONPATH']}:{ROOT / 'tests'}"
    return subprocess.Popen(
        [sys.executable, "-m", "support.follow_case", *map(str, arguments)], env=environment(PYTHONPATH=path, TSDB_KERNELS="auto"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _ended(process: subprocess.Popen[str]) -> dict[str, int]:
    out, err = process.communicate()
    assert process.returncode == 0, err
    found: dict[str, int] = json.loads(out.splitlines()[-1])
    return found


def test_readers_see_whole_commits_in_order(tmp_path: Path) -> None:
    count, seconds = pick((2, 3.0), (8, 60.0))
    processes = [_start("write", tmp_path / "db", _MEMORY)]
    for number in range(count + 1):
        if number:
            processes.append(_start("read", tmp_path / "db"))
        out = processes[number].stdout
        assert out is not None
        assert out.readline() == "ready\n", processes[number].communicate()[1]
    time.sleep(seconds)  # how long they run, not an order of events
    writer, *readers = processes
    wrote = _ended(writer)
    saw = [_ended(reader) for reader in readers]
    print(wrote, *saw, sep="\n")
    for each in saw:
        assert (each["commits"], each["rows"]) == (wrote["commits"], total(wrote["commits"]))
        assert each["states"] > 3
    assert wrote["flushes"] > 1
    files = list((tmp_path / "db" / "table").rglob("*.tsf"))
    manifests = list((tmp_path / "db" / "manifest").iterdir())
    print(len(files), "files,", len(manifests), "manifests")
