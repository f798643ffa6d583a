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
LAST_HALF_HOUR = "SELECT time, usage, memory FROM cpu WHERE host = 'host_0042' AND time > '2025-12-31 23:30:00' ORDER BY time"
TIMED = """\
import time, tsdb
db = tsdb.open("demo.db", mode="r")
taken = []
for _ in range(100):
    started = time.perf_counter()
    rows = db.sql("SELECT * FROM cpu ORDER BY time DESC LIMIT 10").fetchall()
    taken.append(time.perf_counter() - started)
print(f"newest 10 of 2,000,000 rows: {1e3 * sorted(taken)[50]:.2f} ms, the middle of 100 runs")
"""
BUSY = "SELECT time, host, usage, memory FROM cpu WHERE region = 'eu-west-1' AND usage > 90 ORDER BY time DESC LIMIT 5"


def say(text: str) -> None:
    """A paragraph of the tour."""
    print("\n" + "\n".join(paint(line, "1") for line in textwrap.wrap(" ".join(text.split()), 100)) + "\n", flush=True)


def paint(text: str, code: str) -> str:
    """Text in a terminal style, where there is a terminal."""
    return f"\x1b[{code}m{text}\x1b[0m" if COLOUR else text


def shown(argument: str) -> str:
    """An argument as one would type it: in double quotes where SQL has single ones."""
    return f'"{argument}"' if "'" in argument and not set(argument) & set('"$`\\!') else shlex.quote(argument)


def run(*arguments: str) -> None:
    """Show and run one ``tsdb`` command; ends the tour when it fails."""
    print(paint("$ tsdb " + " ".join(shown(argument) for argument in arguments), "36"), flush=True)
    done = subprocess.run([sys.executable, "-m", "tsdb_cli", *arguments], cwd=FOLDER, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def run_python(program: str) -> None:
    """Show and run a few lines of Python in the demo's folder."""
    print(paint(program.rstrip(), "36"), flush=True)
    done = subprocess.run([sys.executable, "-c", program], cwd=FOLDER, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """The tour."""
    started = time.perf_counter()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()

    say("1. Real data first: three seconds in the life of this machine, recorded to a CSV file.")
    run("generate", "machine", "--seconds", "3", "-o", "machine.csv")
    run("ingest", "demo.db", "machine.csv", "--table", "machine", "--create", "--tags", "host,cpu")
    run("query", "demo.db", "SELECT time, cpu, busy, load, memory FROM machine ORDER BY time DESC LIMIT 4")

    say("2. Then more of it: 1,000 machines that report every five seconds, two million rows.")
    run("generate", "fleet", "--fleet", "A", "--rows", "2000000", "-o", "fleet.parquet")
    run("ingest", "demo.db", "fleet.parquet", "--table", "cpu", "--create", "--tags", "host,region")
    run("tables", "demo.db")

    say("3. The question everybody asks: what came in last?")
    run("query", "demo.db", NEWEST)

    say("4. How much of the table did that take? Every level counts its units, and what became of them.")
    run("explain", "demo.db", NEWEST, "--analyze")

    say("5. With a condition, statistics say which devices and pages are worth reading at all. --stats shows the same as a grid.")
    run("query", "demo.db", BUSY, "--stats")

    say("6. One machine's last half hour, as a picture.")
    run("query", "demo.db", LAST_HALF_HOUR, "--plot")

    say("7. From Python, and how long it takes once the process is warm.")
    run_python(TIMED)

    say("8. The same rows come back with the runtime filter off. Only the work differs.")
    run("query", "demo.db", NEWEST, "-o", "with.csv")
    run("query", "demo.db", NEWEST, "-o", "without.csv", "--set", "enable_topk_runtime_filter=false", "--stats")
    same = (FOLDER / "with.csv").read_bytes() == (FOLDER / "without.csv").read_bytes()
    print(f"with.csv and without.csv are {'identical' if same else 'different: please report that'}")

    took = time.perf_counter() - started
    say(f"That was {took:.0f} seconds. Everything is in {FOLDER.name}; go on with  .venv/bin/tsdb shell {FOLDER.name}/demo.db")
    if not same:
        sys.exit(1)


if __name__ == "__main__":
    main()
