"""Reading the whole log when a database is opened: the commits that are in no file yet, in order, up to the first that is missing.

The state that results is always a prefix of what was committed. An unfinished end of the newest segment is what a crash leaves and
is passed over. Anything else, a bad record or head, or a segment that is not there, ends the replay for good: later segments may
build on what is lost. They are reported, to be set aside once what was replayed is in files, and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tsdb.storage.log_record import Change, decode
from tsdb.storage.log_segment import CHANGE, END, HEAD_BYTES, list_segments, read_head, read_record, was_durable
from tsdb_format.disk import DISK, Storage
from tsdb_format.errors import Corruption, UnsupportedFormat
from tsdb_format.vector import ByteArray

DAMAGED_SUFFIX = ".damaged"


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay found.

    ``last_sequence`` is the last commit that is known, in the log or before it; ``applied`` counts those applied. ``problem`` says
    what ended the replay early, with path and offset; ``damaged`` names the segment where that was, whose commits up to there were
    applied, and those after it, of which none was. ``unfinished_bytes`` were passed over at the end of the log.
    """

    last_sequence: int
    applied: int = 0
    problem: Corruption | None = None
    damaged: tuple[str, ...] = ()
    unfinished_bytes: int = 0


@dataclass(slots=True)
class _Reader:
    """Where a replay is: ``last`` is the newest commit known, ``at`` how far the segment is good, 0 where not even its head is."""

    apply: Callable[[int, Change], None]
    last: int
    applied: int = 0
    at: int = 0

    def read(self, raw: ByteArray, path: str, first: int) -> None:
        """Apply the commits of one segment that come after ``last``, up to the first bad byte.

        Raises Corruption for what cannot be there, though its checksum is right.
        """
        self.at = 0
        view = raw.data
        found = read_head(view, path)
        if found is None:
            return
        if found != first:
            raise Corruption(f"the segment says that it begins with commit {found}", path=path, offset=0)
        if first > self.last + 1:
            raise self._missing(first, path)
        self.at, newest = HEAD_BYTES, first - 1
        while (record := read_record(view, self.at)) is not None:
            if record.kind == END:
                self.at = len(raw)  # what is behind it was never a record
                return
            if record.kind != CHANGE:
                raise UnsupportedFormat(f"{path} has a record of kind {record.kind:#x}, which this build does not know")
            if record.sequence <= newest:
                raise Corruption(f"commit {record.sequence} comes after {newest}", path=path, offset=self.at)
            newest = record.sequence
            if newest > self.last + 1:
                raise self._missing(newest, path)
            if newest > self.last:
                self.apply(newest, decode(raw[record.start : record.stop], path=path, offset=record.start))
                self.last = newest
                self.applied += 1
            self.at = record.stop

    def _missing(self, sequence: int, path: str) -> Corruption:
        commits = f"commit {sequence - 1} is" if sequence == self.last + 2 else f"commits {self.last + 1} to {sequence - 1} are"
        return Corruption(f"{commits} missing in the log before commit {sequence}", path=path, offset=self.at)


def replay(folder: str, after: int, apply: Callable[[int, Change], None], storage: Storage = DISK) -> Replay:
    """Call ``apply`` for every commit of the log with a number above ``after``, in order; changes nothing.

    Arrays of the changes are views of the mapped segments, which they keep. Raises UnsupportedFormat for the log of a later build,
    Error where a segment cannot be read, and what ``apply`` raises.
    """
    segments = list_segments(folder, storage)
    begin = max((place for place, (_, first) in enumerate(segments) if first <= after + 1), default=0)
    reader = _Reader(apply, after)
    bad: tuple[int, Corruption] | None = None  # the segment that ended badly: no harm if the next one goes on from there
    unfinished = 0
    for place, (name, first) in enumerate(segments[begin:], begin):
        path = f"{folder}/{name}"
        raw = storage.read(path)
        try:
            reader.read(raw, path, first)
        except Corruption as error:
            bad = bad or (place, error)
            break
        unfinished = len(raw) - reader.at
        lost = Corruption("the log is damaged: a commit that was durable cannot be read", path=path, offset=reader.at)
        if reader.at:
            bad = (place, lost) if unfinished else None
        else:
            bad = bad or (place, lost)
        if bad and bad[0] == len(segments) - 1 and not was_durable(raw, reader.at):
            bad = None
    if bad is None:
        return Replay(reader.last, reader.applied, unfinished_bytes=unfinished)
    place, problem = bad
    return Replay(reader.last, reader.applied, problem, tuple(name for name, _ in segments[place:]))


def set_aside(folder: str, names: Iterable[str], storage: Storage = DISK) -> list[str]:
    """Give damaged segments names that no replay reads, durably, and keep their bytes; returns the new names.

    Only after what was replayed of them is in files, and before the log is opened for writing. Raises OSError.
    """
    taken = set(storage.list(folder))
    renamed = []
    for name in names:
        target, number = name + DAMAGED_SUFFIX, 1
        while target in taken:
            number += 1
            target = f"{name}{DAMAGED_SUFFIX}{number}"
        storage.rename(f"{folder}/{name}", f"{folder}/{target}")
        taken.add(target)
        renamed.append(target)
    return renamed
