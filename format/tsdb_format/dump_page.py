"""The fields inside a page or dictionary, for the byte dump. Not a decoder: it names bytes and shows what each says by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tsdb_format.blob import BlobKind
from tsdb_format.encoding import COMPRESSION_ZSTD, Encoding, PageSet
from tsdb_format.encoding.page_set import BLOCK_ROWS, item_bytes
from tsdb_format.kernels.bitpack import packed_words
from tsdb_format.kernels.block import NO_DECIMALS
from tsdb_format.types import Kind

#: Bytes of values that share a line.
_GROUP_BYTES = 16


@dataclass(frozen=True, slots=True)
class Field:
    """A run of bytes with one meaning."""

    offset: int
    size: int
    name: str
    value: str


class Page:
    """A page's bytes as a cursor over fields. ``head`` describes the page and goes to its first field."""

    def __init__(self, pages: PageSet, page: int, name: str, head: str) -> None:
        self.buffer = pages.buffer
        self.kind = pages.type.kind
        self.width = pages.type.width
        self.encoding = Encoding(int(pages.page_encoding[page]))
        self.rows = min(pages.rows_per_page, pages.row_count - page * pages.rows_per_page)
        self.nulls = int(pages.page_null_count[page])
        self.compressed = pages.page_compression[page] == COMPRESSION_ZSTD
        self.at = int(pages.page_offset[page])
        self.end = self.at + int(pages.page_bytes[page])
        self.name = name
        self.head = head

    def take(self, size: int, name: str, value: str = "") -> Field:
        """The next ``size`` bytes as one field."""
        value, self.head = " ".join(part for part in (value, self.head) if part), ""
        field = Field(self.at, size, f"{self.name}.{name}", value)
        self.at += size
        return field

    def word(self, name: str) -> tuple[int, Field]:
        """The next word, which is a number."""
        value = int(self.buffer[self.at : self.at + 8].view("<u8")[0])
        return value, self.take(8, name, f"{value:,}")

    def rest(self, name: str) -> Iterator[Field]:
        """What is left, if anything."""
        if self.at < self.end:
            yield self.take(self.end - self.at, name)

    def fields(self) -> Iterator[Field]:
        """Every byte of the page, once and in order."""
        if self.compressed:
            yield self.word("body_bytes")[1]
            size, field = self.word("frame_bytes")
            yield field
            yield self.take(size, "zstd_frame")
        else:
            if self.nulls:
                yield self.take((self.rows + 63) // 64 * 8, "validity", _bits(self.buffer, self.at, self.rows))
            yield from self._values()
        yield from self.rest("padding")

    def _values(self) -> Iterator[Field]:
        wide = "f8" if self.kind is Kind.DOUBLE else "i8"
        if self.encoding is Encoding.PLAIN and self.kind in (Kind.STRING, Kind.BLOB):
            yield from self._cells()
        elif self.encoding is Encoding.CONSTANT:
            text = repr(self.buffer[self.at : self.at + 4].view("<f4")[0].item()) if self.kind is Kind.FLOAT else ""
            yield self.take(8, "value", text) if text else next(self._plain(wide, 1, "value"))
        elif self.encoding is Encoding.PLAIN_4 or (self.kind is Kind.VECTOR and self.encoding is Encoding.PLAIN):
            narrow = "f4" if self.kind in (Kind.FLOAT, Kind.VECTOR) else "i4"
            yield from self._plain(narrow, self.rows * max(self.width, 1), "values")
        elif self.encoding is Encoding.PLAIN:
            yield from self._plain(wide, self.rows, "values")
        elif self.encoding is Encoding.RLE:
            runs, field = self.word("runs")
            yield field
            yield from self._plain("u4", runs, "ends")
            self.at += -runs % 2 * 4
            yield from self._plain(wide, runs, "run_values")
        elif self.encoding is Encoding.BITMAP:
            yield self.take((self.rows + 63) // 64 * 8, "bits", _bits(self.buffer, self.at, self.rows))
        elif self.encoding is Encoding.BYTE_SPLIT:
            size = 4 if self.kind is Kind.VECTOR else item_bytes(self.kind)
            for plane in range(size):
                yield self.take(self.rows * max(self.width, 1), f"bytes_{plane}")
        else:
            yield from self._blocks(Kind.INT64 if self.kind is Kind.STRING else self.kind)

    def _plain(self, dtype: str, count: int, name: str) -> Iterator[Field]:
        size = int(dtype[1])
        values = self.buffer[self.at : self.at + size * count].view(f"<{dtype}").tolist()
        each = _GROUP_BYTES // size
        for first in range(0, count, each):
            group = values[first : first + each]
            label = name if count == 1 else f"{name}[{first}]"
            yield self.take(size * len(group), label, ", ".join(f"{v!r}" if isinstance(v, float) else f"{v:,}" for v in group))

    def _blocks(self, kind: Kind) -> Iterator[Field]:
        """A block directory and the blocks' bodies."""
        count = -(-self.rows // BLOCK_ROWS)
        start = self.at
        layouts = []
        for block in range(count):
            first, base, scale, layout = self.buffer[self.at : self.at + 32].view("<i8").tolist()
            yield self.take(8, f"block[{block}].first", f"{first:,}")
            yield self.take(8, f"block[{block}].base", f"{base:,}")
            yield self.take(8, f"block[{block}].scale", f"{scale:,}")
            layouts.append(layout)
            yield self.take(8, f"block[{block}].layout", _layout_text(layout))
        for block, layout in enumerate(layouts):
            rows = min(BLOCK_ROWS, self.rows - block * BLOCK_ROWS)
            patches, exceptions = layout >> 34 & 2047, layout >> 45 & 2047
            assert self.at == start + 8 * (layout & 0x7FFFFFF), "blocks follow each other"
            for size, name in (
                (packed_words(rows, layout >> 27 & 127), "residuals"), (patches, "patches"), (exceptions, "exceptions"),
                (-(-(patches + exceptions) // 4), "positions"),
            ):  # fmt: skip
                if size:
                    yield self.take(8 * size, f"block[{block}].{name}")

    def _cells(self) -> Iterator[Field]:
        total, field = self.word("cell_bytes")
        yield field
        before, field = self.word("words_before_cells")
        yield field
        kinds, field = self.word("words_before_kinds")
        yield field
        start = self.at - 24
        yield from self._blocks(Kind.INT64)
        if kinds:
            assert self.at == start + 8 * kinds, "kinds follow the ends"
            names = [BlobKind(kind).name for kind in self.buffer[self.at : self.at + self.rows].tolist()]
            yield self.take(-(-self.rows // 8) * 8, "kinds", ", ".join(names))
        assert self.at == start + 8 * before, "cells follow their ends"
        yield self.take(total, "cells", repr(self.buffer[self.at : self.at + total].tobytes())[1:])


def dictionary_fields(pages: PageSet, chunk: int, name: str) -> Iterator[Field]:
    """The fields of a chunk's dictionary."""
    at, size = int(pages.dict_offset[chunk]), int(pages.dict_bytes[chunk])
    end = at + size
    numbers = pages.buffer[at : at + 24].view("<i8").tolist()
    for label, value in zip(("strings", "string_bytes", "frame_bytes"), numbers, strict=True):
        yield Field(at, 8, f"{name}.{label}", f"{value:,}")
        at += 8
    count, text_bytes, frame_bytes = numbers
    if frame_bytes:
        yield Field(at, frame_bytes, f"{name}.zstd_frame", "")
        at += frame_bytes
    else:
        for index, length in enumerate(pages.buffer[at : at + 4 * count].view("<u4").tolist()):
            yield Field(at, 4, f"{name}.length[{index}]", f"{length:,}")
            at += 4
        if count % 2:
            yield Field(at, 4, f"{name}.padding", "")
            at += 4
        yield Field(at, text_bytes, f"{name}.data", repr(pages.buffer[at : at + text_bytes].tobytes())[1:])
        at += text_bytes
    if at < end:
        yield Field(at, end - at, f"{name}.padding", "")


def _bits(buffer: np.ndarray, at: int, count: int) -> str:
    bits = np.unpackbits(buffer[at : at + (count + 7) // 8], bitorder="little", count=count)
    return "".join(map(str, bits.tolist()))


def _layout_text(layout: int) -> str:
    patches, exceptions, decimals = layout >> 34 & 2047, layout >> 45 & 2047, layout >> 56 & 31
    parts = [f"body at word {layout & 0x7FFFFFF}", f"{layout >> 27 & 127} bits", f"{patches} patches", f"{exceptions} exceptions"]
    if decimals != NO_DECIMALS:
        parts.append(f"{decimals} decimals")
    return ", ".join([*parts, "DELTA"] if layout >> 61 else parts)
