"""What a handle has written, and why: the costs behind the rows that were asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tsdb.storage.manifest import FileEntry


@dataclass(slots=True)
class Counters:
    """Bytes and rows written since the handle was opened. Write amplification is all bytes written over those flushed."""

    bytes_logged: int = 0
    bytes_flushed: int = 0
    bytes_compacted: int = 0
    rows_flushed: int = 0
    rows_compacted: int = 0
    flushes: int = 0
    compactions: int = 0

    def count_flushed(self, file: FileEntry) -> None:
        """Count a file of rows that were in none before."""
        self.bytes_flushed += file.bytes
        self.rows_flushed += file.rows

    def count_compacted(self, file: FileEntry) -> None:
        """Count a file of rows that were in others before."""
        self.bytes_compacted += file.bytes
        self.rows_compacted += file.rows

    def to_dict(self) -> dict[str, int | float]:
        """The counters by name, with ``write_amplification``: bytes of data files written over those that flushes wrote."""
        found: dict[str, int | float] = dict(asdict(self))
        found["write_amplification"] = 1.0 + self.bytes_compacted / max(self.bytes_flushed, 1)
        return found
