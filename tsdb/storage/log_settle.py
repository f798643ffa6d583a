"""What a process that died left of the newest segment, made durable and finished before anything is built on it."""

from __future__ import annotations

from tsdb.storage.log_segment import END, HEAD_BYTES, SUFFIX, frame, read_head, read_record, was_durable
from tsdb_format.disk import PENDING_SUFFIX, NewFile, Storage
from tsdb_format.errors import Corruption


def settle_segment(path: str, replayed: int, storage: Storage) -> int:
    """Replace an unfinished segment by a durable, finished copy of its valid records, and remove one that has none.

    Neither changes a file in place: readers may have it mapped.

    Returns its size, 0 where it was removed. A finished one stays as it is. ``replayed`` is the last commit that was replayed.
    Raises OSError; Corruption where the segment is damaged, or holds commits that were not replayed: it was to be set aside.
    """
    raw = storage.read(path)
    view = raw.data
    at, last, kind = (0 if read_head(view, path) is None else HEAD_BYTES), 0, 0
    while at and kind != END and (record := read_record(view, at)) is not None:
        kind, last, at = record.kind, record.sequence, record.stop
    if kind != END and was_durable(raw, at):
        raise Corruption("the log is damaged, and the segment was not set aside", path=path, offset=at)
    if last > replayed:
        raise Corruption(f"the log holds commit {last}, which was not replayed", path=path, offset=0)
    if not last:
        storage.remove(path)
        return 0
    if kind == END:
        return len(raw)
    end = frame(END, last, at)
    with NewFile(path, storage) as copy:
        copy.write(raw[:at])
        copy.write(end)
        copy.commit()
    return at + len(end)


def remove_pending(folder: str, storage: Storage) -> None:
    """Remove copies that were not completed. Raises OSError."""
    for name in storage.list(folder):
        if name.endswith(SUFFIX + PENDING_SUFFIX):
            storage.remove(f"{folder}/{name}")
