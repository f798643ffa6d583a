"""The commits of a log that can be read, also behind what cannot; a replay keeps to a prefix of what was committed."""

from __future__ import annotations

from dataclasses import dataclass, field

from tsdb.storage.finding import Problem, problem_of
from tsdb.storage.log_record import Change, decode
from tsdb.storage.log_replay import DAMAGED_SUFFIX
from tsdb.storage.log_scan import Gap, scan
from tsdb.storage.log_segment import CHANGE, list_segments
from tsdb_format.disk import Storage
from tsdb_format.errors import Corruption, Error
from tsdb_format.vector import ByteArray


@dataclass(slots=True)
class LogRemains:
    """Commits by number, ascending, with the segment that each is in; ``problems`` says what could not be read."""

    changes: list[tuple[int, Change, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_log(folder: str, after: int, storage: Storage, *, complete: bool) -> LogRemains:
    """The commits with a number above ``after``. Where the log is ``complete`` a number left out is a commit lost.

    Raises UnsupportedFormat, and Error where a segment is refused.
    """
    remains = LogRemains()
    segments = list_segments(folder, storage)
    last = after
    for place, (name, _) in enumerate(segments):
        path = f"{folder}/{name}"
        try:
            raw = storage.read(path)
        except Error as error:
            remains.problems.append(problem_of("", path, error))
            continue
        for item in scan(raw, path):
            if isinstance(item, Gap):
                unfinished = place == len(segments) - 1 and item.stop == len(raw)  # what a crash leaves, as a replay takes it
                if not unfinished:
                    text = f"{item.stop - item.start:,} bytes cannot be read, and the commits in them are lost"
                    remains.problems.append(Problem("", path, text, item.start))
            elif item.kind == CHANGE and item.sequence > last:
                if complete and item.sequence > last + 1:
                    remains.problems.append(Problem("", path, _missing(last, item.sequence)))
                last = item.sequence
                _take(remains, raw, path, item.start, item.stop, last)
    for name in storage.list(folder):
        if DAMAGED_SUFFIX in name:
            text = "was set aside when the database was opened, and is not read: later commits have the numbers of those in it"
            remains.problems.append(Problem("", f"{folder}/{name}", text, note=True))
    return remains


def _take(remains: LogRemains, raw: ByteArray, path: str, start: int, stop: int, sequence: int) -> None:
    try:
        remains.changes.append((sequence, decode(raw[start:stop], path=path, offset=start), path))
    except Corruption as error:
        remains.problems.append(problem_of("", path, error))
    except Error as error:
        remains.problems.append(Problem("", path, str(error), start))


def _missing(last: int, sequence: int) -> str:
    commits = f"commit {last + 1:,} is" if sequence == last + 2 else f"commits {last + 1:,} to {sequence - 1:,} are"
    return f"{commits} lost: the log goes on with {sequence:,}"
