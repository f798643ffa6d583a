"""The files of an ingest: which ones, what their paths say, and how to recognise them again."""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import xxhash

from tsdb.storage.manifest import SourceEntry
from tsdb_format.errors import InvalidInput, NotFound

#: Endings by which files in a directory are taken, and what they hold.
FORMATS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
COMPRESSED = (".gz", ".zst")
#: Bytes at each end of a file by which it is recognised.
FINGERPRINT_BYTES = 65_536
#: Compressed bytes taken at a time.
BUFFER_BYTES = 131_072


@dataclass(frozen=True, slots=True)
class Position:
    """How far a file was read: rows (the refused ones included), and for text the byte and line after them."""

    rows: int = 0
    offset: int = 0
    line: int = 1


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read. ``path_tags`` are the values that its path gives."""

    path: str
    format: str
    bytes: int
    modified_ns: int
    path_tags: dict[str, str] = field(default_factory=dict)

    @property
    def compressed(self) -> bool:
        """Whether the bytes on disk are not the text itself."""
        return self.path.endswith(COMPRESSED)

    def record(self, position: Position, rejected: int, *, finished: bool) -> SourceEntry:
        """What the manifest remembers of having read this far."""
        head, tail = fingerprint(self.path, self.bytes)
        place = position.rows, rejected, position.offset, position.line
        return SourceEntry(self.path, self.bytes, self.modified_ns, head, tail, *place, finished)


def find_sources(paths: str | Path | Sequence[str | Path], kind: str | None, pattern: str | None) -> list[Source]:
    """The files that paths, globs and directories stand for, in order, none twice. Raises NotFound, InvalidInput."""
    if kind is not None and kind not in set(FORMATS.values()):
        raise InvalidInput(f"unknown format {kind!r}; known: csv, parquet")
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise InvalidInput("no file was given to ingest")
    matcher = PathPattern(pattern) if pattern is not None else None
    found: dict[str, Source] = {}
    for each in given:
        for path in _expanded(os.path.expanduser(str(each))):
            absolute = os.path.abspath(path)
            if absolute not in found:
                state = os.stat(absolute)
                if not stat.S_ISREG(state.st_mode):  # a file is read more than once: to know its form, its rows, and where to go on
                    raise InvalidInput(f"{path} is a pipe or a device; only files can be ingested: write its text to one first")
                tags = matcher.match(absolute) if matcher is not None else {}
                found[absolute] = Source(absolute, kind or _format_of(absolute), state.st_size, state.st_mtime_ns, tags)
    return list(found.values())


def _expanded(path: str) -> list[str]:
    if os.path.isdir(path):
        inside = sorted(str(each) for each in Path(path).rglob("*") if each.is_file() and _ending(str(each)) in FORMATS)
        if not inside:
            raise NotFound(f"the directory {path} holds no {', '.join(FORMATS)} file")
        return inside
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        matching = sorted(each for each in glob.glob(path, recursive=True) if os.path.isfile(each))
        if matching:
            return matching
        raise NotFound(f"no file matches {path}")
    raise NotFound(f"no file {path}")


def _ending(path: str) -> str:
    for suffix in COMPRESSED:
        path = path.removesuffix(suffix)
    return os.path.splitext(path)[1].lower()


def _format_of(path: str) -> str:
    known = FORMATS.get(_ending(path))
    if known is None:
        with open(path, "rb") as file:
            known = "parquet" if file.read(4) == b"PAR1" else "csv"
    return known


class PathPattern:
    """A pattern with placeholders, matched against the end of a path: ``{group}/{metric}.csv``.

    A placeholder stands for text within one path component; ``*`` for any such text without a name, ``**`` for any components.
    """

    def __init__(self, text: str) -> None:
        parts = re.split(r"(\{[^{}]*\}|\*\*/?|\*)", text.strip().removeprefix("./"))
        self.names: list[str] = []
        self.text = text
        out = ""
        for part in parts:
            if part.startswith("{"):
                name = part[1:-1].strip()
                if not name or name in self.names:
                    raise InvalidInput(f"the path pattern {text!r} has a placeholder without a name of its own: {part}")
                self.names.append(name)
                out += f"(?P<g{len(self.names)}>[^/]+?)"
            else:
                out += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}.get(part, re.escape(part))
        if not self.names:
            raise InvalidInput(f"the path pattern {text!r} names no tag; write it like '{{group}}/{{metric}}.csv'")
        self._regex = re.compile(f"(?:^|.*/){out.removeprefix('/')}$", re.DOTALL)

    def match(self, path: str) -> dict[str, str]:
        """The placeholders' values. Raises InvalidInput where the path has another form."""
        found = self._regex.match(path.replace(os.sep, "/"))
        if found is None:
            raise InvalidInput(f"{path} does not end as the path pattern {self.text!r} says")
        return {name: found[f"g{number}"] for number, name in enumerate(self.names, 1)}


def fingerprint(path: str, size: int) -> tuple[str, str]:
    """Checksums of the first and last bytes of the file's first ``size`` bytes."""
    with open(path, "rb") as file:
        head = file.read(min(size, FINGERPRINT_BYTES))
        file.seek(max(0, size - FINGERPRINT_BYTES))
        tail = file.read(min(size, FINGERPRINT_BYTES))
    return xxhash.xxh3_64_hexdigest(head), xxhash.xxh3_64_hexdigest(tail)


def open_text(source: Source) -> IO[bytes]:
    """The file's bytes as text, decompressed. Reading raises EOFError where a compressed file was cut."""
    if source.path.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(source.path, "rb"))
    raw = open(source.path, "rb")  # noqa: SIM115 - closed by whom it is handed to
    return cast("IO[bytes]", io.BufferedReader(_ZstdText(raw), BUFFER_BYTES)) if source.path.endswith(".zst") else raw


class _ZstdText(io.RawIOBase):
    """The text of zstd frames end to end, which must be whole; the library's own reader takes a cut file for a short one."""

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard

        self._file = file
        self._decompressor = zstandard.ZstdDecompressor()
        self._frame: Any = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            self._input = self._input or self._file.read(BUFFER_BYTES)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("compressed file ended before the end-of-frame marker was reached")
                return 0
            self._frame = self._frame or self._decompressor.decompressobj()
            self._output = memoryview(self._frame.decompress(self._input))
            self._input = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def skip_text(file: IO[bytes], offset: int) -> None:
    """Go on to byte ``offset`` of a text just opened."""
    if file.seekable():
        file.seek(offset)
        return
    while offset:
        read = len(file.read(min(offset, BUFFER_BYTES)))
        if not read:
            raise EOFError("the text is shorter than it was")
        offset -= read


def resume_point(source: Source, known: SourceEntry | None, *, append: bool, again: bool) -> tuple[Position | None, str]:
    """(where to start, a note): None where there is nothing to do. Raises InvalidInput where reading on could double rows."""
    if known is None or again:
        return Position(), ""
    reached = Position(known.rows, known.offset, known.line)
    same = (known.bytes, known.modified_ns) == (source.bytes, source.modified_ns)
    if same and fingerprint(source.path, source.bytes) == (known.head, known.tail):
        if known.finished:
            return None, f"{source.path}: already ingested ({known.rows:,} rows) and unchanged; again=True (--again) reads it anew"
        return reached, f"{source.path}: resumed after {known.rows:,} rows"
    if not append:
        return Position(), f"{source.path}: changed since it was ingested; read anew"
    if _only_grew(source, known):
        return reached, f"{source.path}: grew; continued after {known.rows:,} rows"
    raise InvalidInput(
        f"{source.path} changed since it was ingested, other than by growing, and its table keeps every row: "
        "again=True (--again) appends all of it"
    )


def _only_grew(source: Source, known: SourceEntry) -> bool:
    if source.format != "csv" or source.compressed or source.bytes < known.bytes or not known.bytes:
        return False
    with open(source.path, "rb") as file:
        file.seek(known.bytes - 1)
        ended = file.read(1) in (b"\n", b"\r")
    return ended and fingerprint(source.path, known.bytes) == (known.head, known.tail)
