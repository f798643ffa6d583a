"""The write-ahead log, as its writer sees it: commits are appended, made durable together, and dropped once they are in files.

``append`` hands a record to the operating system: it outlives this process, and readers see it. ``sync`` makes it outlive the
machine; one of the threads that wait syncs for all whose records were written when it began, and meanwhile others write. Where a
sync has failed, nobody knows what the disk holds, and a second one proves nothing: the log then refuses everything until it is
opened again, that is until somebody has read what is really there.

A segment is named by its first record and created with it. It is finished by an END record, by ``rotate`` or ``close``. A process
that dies leaves one without, of which any part may still be only in memory; before the next process appends anything, or when it
is asked to ``settle``, it replaces that segment by a durable, finished copy of its valid records. So what was replayed can no
longer vanish behind what is built on it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace

from tsdb.storage.log_group import EVERYTHING, Group
from tsdb.storage.log_record import Recorded
from tsdb.storage.log_segment import END, frame, head_bytes, list_segments, segment_name
from tsdb.storage.log_settle import remove_pending, settle_segment
from tsdb_format.disk import DISK, OutputFile, Storage
from tsdb_format.errors import Closed, Error

_Bytes = bytes | bytearray


@dataclass(frozen=True, slots=True)
class _Finished:
    """A segment that nothing is appended to any more. ``last``: no commit in it is later."""

    name: str
    first: int
    last: int
    bytes: int


#: Zero bytes kept behind the end of the open segment, so that syncing a small commit need not change the file's length.
AHEAD_BYTES = 262_144


class Log:
    """Appends to the log in ``folder``, whose commits before ``first_sequence`` were replayed (what was damaged is set aside).

    Safe to use from several threads. Positions count bytes from when the log was opened, over all segments. Creates no file before
    the first append.
    """

    def __init__(self, folder: str, first_sequence: int, storage: Storage = DISK, damaged: Collection[str] = ()) -> None:
        """Segments that are ``damaged`` are left as they are, to be set aside."""
        self._folder = folder
        self._storage = storage
        self._lock = threading.Lock()
        self._group = Group()
        found = [segment for segment in list_segments(folder, storage) if segment[0] not in damaged]
        following = [first for _, first in found[1:]] + [first_sequence]
        self._finished = [
            _Finished(name, first, after - 1, len(storage.read(f"{folder}/{name}")))
            for (name, first), after in zip(found, following, strict=False)
        ]
        self._settled = not found  # or else the newest of them may be unfinished
        self._last = first_sequence - 1
        self._file: OutputFile | None = None
        self._first = 0
        self._named = False
        self._base = 0  # position at which the open segment began
        self._position = 0
        self._durable_sequence = found[-1][1] - 1 if found else first_sequence - 1
        self._broken: BaseException | None = None  # why nothing can be appended
        self._lost: BaseException | None = None  # why nothing can be synced
        self._closed = False

    @property
    def position(self) -> int:
        """The end of the newest record: sync to it to make all durable."""
        return self._position

    @property
    def durable(self) -> int:
        """Everything up to this position is durable."""
        return self._group.reached

    @property
    def durable_sequence(self) -> int:
        """Every commit up to this number is durable, those replayed among them only from ``settle`` on."""
        return self._durable_sequence

    @property
    def failure(self) -> BaseException | None:
        """Why the log takes nothing more, or None while it does."""
        return self._lost or self._broken

    @property
    def bytes(self) -> int:
        """Size of all segments."""
        with self._lock:
            return sum(segment.bytes for segment in self._finished) + self._position - self._base

    @property
    def segments(self) -> tuple[tuple[str, int], ...]:
        """Names and first sequence numbers of all segments, ascending."""
        with self._lock:
            found = [(segment.name, segment.first) for segment in self._finished]
            return (*found, *([(segment_name(self._first), self._first)] if self._file is not None else []))

    def settle(self) -> None:
        """Make durable what earlier processes left, as the first ``append`` does; before, a crash of the machine may take it away.

        Raises Error where that fails; Corruption where the log is damaged or not what was replayed: that was to be set aside.
        """
        with self._lock:
            self._check()
            try:
                self._settle()
            except BaseException as error:
                self._break(error)
                raise

    def append(self, sequence: int, change: Recorded) -> int:
        """Write a commit, with a number above all before it, to the operating system; returns the position to sync to.

        Raises Error where that fails, then and from then on; InvalidInput and ValueError as ``change.record`` does, and then the
        log is as it was.
        """
        with self._lock:
            self._check()
            if sequence <= self._last:
                raise ValueError(f"commit {sequence} comes after {self._last}")
            synced = max(0, self.durable - self._base) if self._file is not None else 0
            record = change.record(sequence, synced)
            try:
                if self._file is None:
                    self._start(sequence)
                self._write(record)
            except BaseException as error:  # also when interrupted: part of the record may be written
                self._break(error)
                raise
            self._last = sequence
            return self._position

    def sync(self, position: int) -> None:
        """Return once everything up to that position is durable. Raises Error where it cannot be made so, then and from then on."""
        if position > self._position:
            raise ValueError(f"the log ends at {self._position}, before {position}")
        reached = 0
        try:
            if self._group.take_turn(position):
                reached = self._sync_all()
        finally:
            self._group.end_turn(reached)

    def rotate(self, first_sequence: int) -> None:
        """Make everything durable and finish the open segment; the next commit, of ``first_sequence`` or later, begins a new one.

        Syncing first, outside of the caller's own lock, leaves little to do here. Raises Error.
        """
        if first_sequence <= self._last:
            raise ValueError(f"commit {first_sequence} comes after {self._last}")
        reached = 0
        try:
            finished = not self._group.take_turn(EVERYTHING)
            while not finished:
                reached = self._sync_all()
                with self._lock:
                    self._check()
                    finished = reached == self._position
                    if finished:
                        reached = self._finish()
        finally:
            self._group.end_turn(reached)

    def drop(self, logged: int) -> None:
        """Remove the segments in which every commit is numbered ``logged`` or below; not the open one.

        What cannot be removed stays for the next time.
        """
        with self._lock:
            self._finished = [each for each in self._finished if each.last > logged or not self._removed(each.name)]

    def close(self) -> None:
        """Make everything durable, finish the open segment, and take no more. Raises Error where that fails."""
        try:
            if not self._closed and self.failure is None:
                self.rotate(self._last + 1)
        finally:
            self._closed = True
            self._close_file()

    def _close_file(self) -> None:
        """Release what ``rotate`` could not finish."""
        try:
            if self._group.take_turn(EVERYTHING):
                with self._lock, suppress(OSError):
                    file, self._file = self._file, None
                    if file is not None:
                        file.close()
        finally:
            self._group.end_turn(0)

    def _sync_all(self) -> int:
        """Make everything durable that is written now; returns its end. The caller has the turn."""
        with self._lock:
            if self._lost is not None or self._closed:
                raise self._refusal()
            file, named, target, last = self._file, self._named, self._position, self._last
        if file is not None and target > self.durable:
            try:
                file.sync(name=not named)
            except OSError as error:
                self._lost = error
                raise self._refusal() from error
            self._named = True
            self._durable_sequence = last
        return target

    def _check(self) -> None:
        if self.failure is not None or self._closed:
            raise self._refusal()

    def _break(self, error: BaseException) -> None:
        """Take nothing more; raises Error for one of the system."""
        self._broken = error
        if isinstance(error, OSError):
            raise self._refusal() from error

    def _refusal(self) -> Error:
        if self.failure is None:
            return Closed(f"the log in {self._folder} is closed")
        reason = self.failure.strerror if isinstance(self.failure, OSError) and self.failure.strerror else self.failure
        return Error(f"{reason}; the log in {self._folder} takes no more writes until the database is opened again")

    def _write(self, data: _Bytes) -> None:
        """Append to the open segment."""
        assert self._file is not None
        self._file.write(data)
        self._position += len(data)

    def _start(self, sequence: int) -> None:
        """Begin the segment whose first record is that commit."""
        self._settle()
        path = f"{self._folder}/{segment_name(sequence)}"
        file = self._storage.create(path, ahead=AHEAD_BYTES)
        self._file, self._named, self._first, self._base = file, False, sequence, self._position
        self._write(head_bytes(sequence))

    def _finish(self) -> int:
        """End the open segment, if there is one, and return the end of the log. All is durable, and the caller has the turn."""
        file = self._file
        if file is None:
            return self._position
        try:
            self._write(frame(END, self._last, self._position - self._base))
            file.sync()
            file.close()
        except BaseException as error:  # also when interrupted: nothing may follow a part of an END
            self._lost = error
            self._break(error)
            raise
        self._finished.append(_Finished(segment_name(self._first), self._first, self._last, self._position - self._base))
        self._file, self._base = None, self._position
        return self._position

    def _removed(self, name: str) -> bool:
        try:
            self._storage.remove(f"{self._folder}/{name}")
        except OSError:
            return False
        return True

    def _settle(self) -> None:
        """Make sure that the newest segment of those found is durable and finished; those without a record go."""
        if self._settled:
            return
        remove_pending(self._folder, self._storage)
        while self._finished:
            newest = self._finished[-1]
            size = settle_segment(f"{self._folder}/{newest.name}", self._last, self._storage)
            self._finished[-1:] = [replace(newest, bytes=size)] if size else []
            if size:
                break
        self._settled = True
        self._durable_sequence = self._last
