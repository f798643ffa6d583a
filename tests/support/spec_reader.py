"""A second reader, written from ``format/SPEC.md`` alone, in plain Python and without a line of tsdb: it keeps the SPEC honest.

Slow and strict: it verifies every checksum and decodes every value one by one.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import xxhash
import zstandard

BOOLEAN, INT32, INT64, FLOAT, DOUBLE, STRING, DATE, BLOB, VECTOR = 1, 2, 3, 4, 5, 6, 7, 12, 13
PLAIN, CONSTANT, FOR, DELTA, ALP, DICTIONARY, RLE, BITMAP, BYTE_SPLIT, PLAIN_4 = range(10)
MASK = 2**64 - 1
ELEMENTS = {1: "B", 2: "b", 3: "H", 4: "h", 5: "I", 6: "i", 7: "Q", 8: "q", 9: "f", 10: "d", 11: "?"}


def xxh3(raw: bytes) -> int:
    return xxhash.xxh3_64_intdigest(raw)


def unpack(code: str, raw: bytes, at: int, count: int) -> tuple[Any, ...]:
    return struct.unpack_from(f"<{count}{code}", raw, at)


def cells(ends: list[int], raw: bytes) -> list[bytes]:
    return [raw[a:b] for a, b in zip([0, *ends], ends, strict=False)]


class Container:
    """Header, tail, directory and sections."""

    def __init__(self, raw: bytes, magic: bytes) -> None:
        self.raw = raw
        found, self.version, *rest = struct.unpack_from("<8sIIQ", raw)
        assert (found, rest) == (magic, [0, xxh3(raw[:16])])
        assert self.version in (1, 2)
        offset, size, self.digest, own, end = struct.unpack_from("<QQQQ8s", raw, len(raw) - 40)
        assert (own, end) == (xxh3(raw[-40:-16]), magic)
        assert offset + size + 40 == len(raw)
        directory = raw[offset : offset + size]
        assert xxh3(directory) == self.digest
        count, names_bytes, text_bytes, reserved = struct.unpack_from("<IIII", directory)
        assert (16 + 40 * count + names_bytes + text_bytes, reserved) == (size, 0)
        names_at = 16 + 40 * count
        names = directory[names_at : names_at + names_bytes].decode().split("\n")
        self.attributes = json.loads(directory[names_at + names_bytes :])
        self.sections: dict[str, tuple[Any, ...]] = {}
        self.bytes: dict[str, bytes] = {}
        for i, name in enumerate(names):
            at, length, digest, rows, columns, element, *zero = struct.unpack_from("<QQQQIB3B", directory, 16 + 40 * i)
            assert at % 8 == 0
            assert zero == [0, 0, 0]
            self.bytes[name] = raw[at : at + length]
            assert xxh3(self.bytes[name]) == digest
            self.sections[name] = unpack(ELEMENTS[element], raw, at, rows * max(columns, 1))


class File:
    """A ``.tsf`` file, read whole: ``tags`` and ``values`` by name, NULL as None. Payload files are in ``folder``."""

    def __init__(self, raw: bytes, sidecar: bytes | None = None, folder: Path = Path()) -> None:
        container = Container(raw, b"tsdbtsf\n")
        self.payloads: list[Path] = []
        if "payload.offsets" in container.sections:
            assert container.version == 2
            names = cells(list(container.sections["payload.offsets"])[1:], container.bytes["payload.names"])
            self.payloads = [folder / name.decode() for name in names]
            for path, size in zip(self.payloads, container.sections["payload.bytes"], strict=True):
                assert size in (-1, path.stat().st_size)
        self.raw, self.sections, self.bytes = raw, container.sections, container.bytes
        given = container.attributes
        self.rows, self.rows_per_page = given["rows"], given["rows_per_page"]
        self.pages = -(-self.rows // self.rows_per_page)
        self.chunks = -(-self.pages // 64)
        self.row_start = list(self.sections["device.row_start"])
        self.tags: dict[str, list[Any]] = {}
        self.values: dict[str, list[Any]] = {}
        for number, name, kind, width, role in given["columns"]:
            if role == 2:
                self.tags[name] = self.tag(number, kind)
            else:
                self.values[name] = self.column(number, kind, width)
                if f"radius.{number}" in self.sections:
                    self.check_balls(number, width, self.values[name])
        if sidecar is not None:
            resource = Container(sidecar, b"tsdbres\n")
            assert resource.attributes["file"] == f"{container.digest:016x}"
            self.resource = {name: list(values) for name, values in resource.sections.items()}

    def check_balls(self, number: int, width: int, vectors: list[Any]) -> None:
        """Every vector lies in the ball of its rows."""
        centroids, radii = self.sections[f"centroid.{number}"], self.sections[f"radius.{number}"]
        starts = self.sections["ball.row_start"]
        assert (starts[0], starts[-1], len(radii)) == (0, len(vectors), len(starts) - 1)
        assert set(range(0, len(vectors), self.rows_per_page)) <= set(starts)
        assert len(centroids) == width * len(radii)
        for ball, radius in enumerate(radii):
            centroid = centroids[width * ball : width * (ball + 1)]
            assert starts[ball] < starts[ball + 1]
            texts = [vector for vector in vectors[starts[ball] : starts[ball + 1]] if vector is not None]
            held = [[struct.unpack(">f", bytes.fromhex(item))[0] for item in vector] for vector in texts]
            if radius == -1:
                assert not held
            elif radius == math.inf:
                assert not all(math.isfinite(item) for vector in held for item in vector)
            else:
                assert held
                assert all(math.dist(vector, centroid) <= radius for vector in held)

    def tag(self, number: int, kind: int) -> list[Any]:
        if kind == STRING:
            ends = list(self.sections[f"tag.{number}.offsets"])[1:]
            texts = [text.decode() for text in cells(ends, self.bytes[f"tag.{number}.data"])]
            return [None if code < 0 else texts[code] for code in self.sections[f"tag.{number}.codes"]]
        values = self.sections[f"tag.{number}.values"]
        valid = self.sections.get(f"tag.{number}.validity", (True,) * len(values))
        return [value if ok else None for value, ok in zip(values, valid, strict=True)]

    def column(self, number: int, kind: int, width: int) -> list[Any]:
        table, p, c = self.bytes[f"pages.{number}"], self.pages, self.chunks
        offset, size, digest = (unpack("q" if i < 2 else "Q", table, 8 * p * i, p) for i in range(3))
        dictionary = [unpack("Q", table, 24 * p + 8 * c * i, c) for i in range(3)] if kind in (STRING, BLOB) else []
        encoding, compression = table[-2 * p : -p], table[-p:]
        nulls = unpack("q", self.bytes[f"stats.{number}"], 0, p)
        out: list[Any] = []
        for page in range(p):
            rows = min(self.rows_per_page, self.rows - page * self.rows_per_page)
            if nulls[page] == rows:
                out += [None] * rows
                continue
            body = self.stored(offset[page], size[page], digest[page])
            if compression[page]:
                body_bytes, frame_bytes = unpack("Q", body, 0, 2)
                body = zstandard.ZstdDecompressor().decompress(body[16 : 16 + frame_bytes])
                assert len(body) == body_bytes
            valid = [True] * rows
            if nulls[page]:
                valid = [body[i // 8] >> i % 8 & 1 == 1 for i in range(rows)]
                body = body[(rows + 63) // 64 * 8 :]
            values = Page(body, kind, width, rows).values(encoding[page])
            if dictionary and dictionary[1][page // 64]:
                texts = self.dictionary(*(part[page // 64] for part in dictionary))
                values = [texts[code] for code in values]
            values = [self.payload(*value) if isinstance(value, tuple) else value for value in values]
            if kind == STRING:
                values = [value.decode() if ok else value for value, ok in zip(values, valid, strict=True)]
            assert valid.count(False) == nulls[page]
            out += [value if ok else None for value, ok in zip(values, valid, strict=True)]
        return out

    def payload(self, kind: int, cell: bytes) -> bytes:
        if kind == 0:
            return cell
        source, zero, position, size, digest = struct.unpack("<IIQQQ", cell)
        assert (kind <= 3, zero) == (True, 0)
        raw = self.payloads[source].read_bytes()
        if kind < 3:
            assert struct.unpack_from("<8sIIQ", raw) == (b"tsdbblb\n", 2, 0, xxh3(raw[:16]))
        assert xxh3(raw[position : position + size]) == digest
        return raw[position : position + size]

    def stored(self, offset: int, size: int, digest: int) -> bytes:
        raw = self.raw[offset : offset + size]
        assert size % 8 == 0
        assert xxh3(raw.ljust(248, b"\0")) == digest
        return raw

    def dictionary(self, offset: int, size: int, digest: int) -> list[bytes]:
        raw = self.stored(offset, size, digest)
        count, text_bytes, frame_bytes = unpack("Q", raw, 0, 3)
        raw = raw[24:]
        if frame_bytes:
            raw = zstandard.ZstdDecompressor().decompress(raw[:frame_bytes])
        ends = []
        for length in unpack("I", raw, 0, count):
            ends.append((ends[-1] if ends else 0) + length)
        start = (count + 1) // 2 * 8
        return cells(ends, raw[start : start + text_bytes])


class Page:
    """The values of one page; floats as their bits in hexadecimal."""

    def __init__(self, body: bytes, kind: int, width: int, rows: int) -> None:
        self.body, self.kind, self.width, self.rows = body, kind, width, rows
        self.item_bytes = 4 if kind in (INT32, DATE, FLOAT, VECTOR) else 8

    def values(self, encoding: int) -> list[Any]:
        if self.kind == VECTOR:
            return self.vectors(encoding)
        if encoding == PLAIN and self.kind in (STRING, BLOB):
            return self.cells()
        words = self.words(encoding)
        if self.kind == DOUBLE:
            return [f"{word:016x}" for word in words]
        if self.kind == FLOAT:
            return [f"{word & 0xFFFFFFFF:08x}" for word in words]
        if self.kind == BOOLEAN:
            return [word == 1 for word in words]
        bits = 8 * self.item_bytes
        low = [word & 2**bits - 1 for word in words]
        return [word - 2**bits if word >> bits - 1 else word for word in low]

    def words(self, encoding: int) -> list[int]:
        if encoding == PLAIN:
            return list(unpack("Q", self.body, 0, self.rows))
        if encoding == CONSTANT:
            return list(unpack("Q", self.body, 0, 1)) * self.rows
        if encoding == PLAIN_4:
            return list(unpack("I", self.body, 0, self.rows))
        if encoding == BITMAP:
            return [self.body[i // 8] >> i % 8 & 1 for i in range(self.rows)]
        if encoding == RLE:
            runs = unpack("Q", self.body, 0, 1)[0]
            ends = unpack("I", self.body, 8, runs)
            values = unpack("Q", self.body, 8 + (runs + 1) // 2 * 8, runs)
            return [value for value, a, b in zip(values, (0, *ends), ends, strict=False) for _ in range(b - a)]
        if encoding == BYTE_SPLIT:
            return [self.joined(i, self.rows, self.item_bytes) for i in range(self.rows)]
        assert encoding in (FOR, DELTA, ALP, DICTIONARY)
        return [word for block in range(-(-self.rows // 1024)) for word in self.block(block)]

    def joined(self, item: int, items: int, size: int) -> int:
        return int.from_bytes(bytes(self.body[plane * items + item] for plane in range(size)), "little")

    def vectors(self, encoding: int) -> list[Any]:
        items = self.rows * self.width
        if encoding == PLAIN:
            flat = list(unpack("I", self.body, 0, items))
        else:
            assert encoding == BYTE_SPLIT
            flat = [self.joined(i, items, 4) for i in range(items)]
        texts = [f"{word:08x}" for word in flat]
        return [texts[i : i + self.width] for i in range(0, items, self.width)]

    def block(self, block: int) -> list[int]:
        first, base, scale, layout = unpack("Q", self.body, 32 * block, 4)
        count = min(1024, self.rows - 1024 * block)
        at = (layout & 2**27 - 1) * 8
        width, patches, exceptions = layout >> 27 & 127, layout >> 34 & 2047, layout >> 45 & 2047
        decimals, delta = layout >> 56 & 31, layout >> 61
        size = -(-(-(-count // 16) * width) // 64) * 16
        packed = unpack("Q", self.body, at, size)
        at += 8 * size
        patched = unpack("Q", self.body, at, patches)
        final = unpack("Q", self.body, at + 8 * patches, exceptions)
        places = unpack("H", self.body, at + 8 * (patches + exceptions), patches + exceptions)
        values = [base + self.packed(packed, i, width) * scale & MASK for i in range(count)]
        for place, value in zip(places, patched, strict=False):
            values[place] = value
        if delta:
            values[0] = first
            for i in range(1, count):
                values[i] = values[i - 1] + values[i] & MASK
        if decimals != 31:
            values = [self.decimal(value, decimals) for value in values]
        for place, value in zip(places[patches:], final, strict=True):
            values[place] = value
        return values

    @staticmethod
    def packed(words: tuple[int, ...], i: int, width: int) -> int:
        """Value i is the (i // 16)-th of lane i % 16, whose words are every sixteenth."""
        lane = words[i % 16 :: 16]
        bit = i // 16 * width
        here = lane[bit // 64] if width else 0
        following = lane[bit // 64 + 1] if bit % 64 + width > 64 else 0
        return (here | following << 64) >> bit % 64 & 2**width - 1

    def decimal(self, word: int, decimals: int) -> int:
        value = float(word - 2**64 if word >> 63 else word) / 10.0**decimals
        code = "<d" if self.kind == DOUBLE else "<f"
        return int.from_bytes(struct.pack(code, value), "little")

    def cells(self) -> list[Any]:
        total, before, kinds = unpack("Q", self.body, 0, 3)
        ends = Page(self.body[24:], INT64, 0, self.rows).words(DELTA)
        assert ends[-1] == total
        assert math.isfinite(total)
        found = cells(ends, self.body[8 * before : 8 * before + total])
        return list(zip(self.body[8 * kinds :], found, strict=False)) if kinds else found
