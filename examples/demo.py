"""A guided tour: record this machine, make a fleet, ask for the newest rows, and see what was not read.

Runs the installed ``tsdb`` command as a person would and prints each command line before its output. Everything it makes goes to
``demo-data`` beside this folder, so that you can go on from there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "demo-data"
COLOUR = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
NEWEST = "SELECT * FROM cpu ORDER BY time DESC LIMIT 10"
BUSY = "SELECT time, host, usage, memory FROM cpu WHERE region = 'eu-west-1' AND usage > 90 ORDER BY time DESC LIMIT 5"


def say(text: str) -> None:
    """A paragraph of the tour."""
    print("\n" + "\n".join(paint(line, "1") for line in textwrap.wrap(" ".join(text.split()), 100)) + "\n", flush=True)


def paint(text: str, code: str) -> str:
    """Text in a terminal style, where there is a terminal."""
    return f"\x1b[{code}m{text}\x1b[0m" if COLOUR else text


def run(*arguments: str) -> float:
    """Show and run one ``tsdb`` command; ends the tour when it fails. Returns the seconds it took."""
    print(paint("$ tsdb " + " ".join(shlex.quote(argument) for argument in arguments), "36"), flush=True)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "tsdb_cli", *arguments], cwd=FOLDER, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return time.perf_counter() - started


def main() -> None:
    """The tour."""
    started = time.perf_counter()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()

    say("1. Real data first: three seconds in the life of this machine, recorded to a CSV file.")
    run("generate", "machine", "--seconds", "3", "-o", "machine.csv")
    run("ingest", "demo.db", "machine.csv", "--table", "machine", "--create", "--tags", "host,cpu")
    run("query", "demo.db", "SELECT time, cpu, busy, load, memory FROM machine ORDER BY time DESC LIMIT 4")
    run("query", "demo.db", "SELECT time, cpu, busy FROM machine ORDER BY time", "--plot")

    say("2. Then more of it: 1,000 machines that report every five seconds, two million rows.")
    run("generate", "fleet", "--fleet", "A", "--rows", "2000000", "-o", "fleet.parquet")
    run("ingest", "demo.db", "fleet.parquet", "--table", "cpu", "--create", "--tags", "host,region")
    run("tables", "demo.db")

    say("3. The question everybody asks: what came in last?")
    run("query", "demo.db", NEWEST)

    say("4. How much of the table did that take? Every line says how many units there are, and what became of them.")
    run("explain", "demo.db", "--analyze", "--timings", NEWEST)

    say("5. With a condition, the statistics of each page say whether it is worth reading at all.")
    run("query", "demo.db", BUSY)
    run("explain", "demo.db", "--analyze", "--timings", BUSY)

    say("6. The proof of the pudding: the same rows with the runtime filter off, and the rows read for them.")
    run("query", "demo.db", NEWEST, "--format", "csv", "-o", "with.csv")
    run("query", "demo.db", NEWEST, "--format", "csv", "-o", "without.csv", "--set", "enable_topk_runtime_filter=false", "--stats")
    same = (FOLDER / "with.csv").read_bytes() == (FOLDER / "without.csv").read_bytes()
    print(f"with.csv and without.csv are {'identical' if same else 'different: please report that'}")

    took = time.perf_counter() - started
    say(f"That was {took:.0f} seconds. Everything is in {FOLDER.name}; go on with  .venv/bin/tsdb shell {FOLDER.name}/demo.db")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
