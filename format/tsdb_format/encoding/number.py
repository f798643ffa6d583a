"""Encode columns of numbers: try the encodings on a sample of blocks, then write all pages in one kernel call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tsdb_format.encoding.chunk import EncodedChunk, room
from tsdb_format.encoding.compression import compress_pages, pack_frame
from tsdb_format.encoding.page_set import BLOCK_ROWS, Encoding, WordArray, item_bytes, kernel_kind
from tsdb_format.kernels.block import NO_DECIMALS
from tsdb_format.kernels.block_encode import count_decimals
from tsdb_format.kernels.page_encode import count_runs, encode_pages, fill_nulls, write_blocks
from tsdb_format.types import Kind
from tsdb_format.vector import BoolArray, Vector

DoubleArray = NDArray[np.float64]
_SAMPLE_BLOCKS = 8
_NO_BOOLS = np.empty(0, np.bool_)
_NO_DOUBLES = np.empty(0, np.float64)
#: What a stored bit weighs, by how much slower or faster than FOR the encoding is to decode.
_PLAIN_WEIGHT = 0.95
_DELTA_WEIGHT = 1.1
_SPLIT_WEIGHT = 1.3
_ALP_EXCEPTIONS_MAX = 0.3


class Choice(NamedTuple):
    """An encoding with its parameters, and the bits that a value takes, weighed with the time that decoding takes."""

    cost: float
    encoding: Encoding
    delta: int = 0
    decimals: int = NO_DECIMALS


class Numbers(NamedTuple):
    """A chunk's values as the kernels take them: 8-byte words and, for floats, the same as doubles."""

    kind: Kind
    words: WordArray
    doubles: DoubleArray

    def part(self, rows: NDArray[np.int64]) -> Numbers:
        """Some of the values."""
        return Numbers(self.kind, self.words[rows], self.doubles[rows] if len(self.doubles) else _NO_DOUBLES)


def encode_numbers(vector: Vector, rows_per_page: int) -> EncodedChunk:
    """Encode a chunk of a numeric column."""
    validity = _NO_BOOLS if vector.validity is None else np.require(vector.validity, np.bool_, "C")
    numbers = as_numbers(vector, validity)
    return write_numbers(numbers, validity, rows_per_page, choose(numbers, rows_per_page))


def as_numbers(vector: Vector, validity: BoolArray) -> Numbers:
    """The vector's values as words, with NULLs filled; the vector's own memory is used where nothing changes."""
    kind = vector.type.kind
    values = np.require(vector.values, vector.type.physical, ["C", "A"])
    if values.dtype.itemsize == 8:
        words = values.view(np.uint64)
        words = words.copy() if len(validity) else words
    elif kind is Kind.FLOAT:
        words = values.view(np.uint32).astype(np.uint64)
    else:
        words = values.astype(np.int64).view(np.uint64)
    if len(validity):
        fill_nulls(words, validity)
    if kind is Kind.DOUBLE:
        return Numbers(kind, words, words.view(np.float64))
    if kind is Kind.FLOAT:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return Numbers(kind, words, words.astype(np.uint32).view(np.float32).astype(np.float64))
    return Numbers(kind, words, _NO_DOUBLES)


def write_numbers(numbers: Numbers, validity: BoolArray, rows_per_page: int, choice: Choice) -> EncodedChunk:
    """Write pages in the chosen encoding; byte-split pages are compressed."""
    rows = len(numbers.words)
    chunk = EncodedChunk.empty(-(-rows // rows_per_page))
    out = room(rows, rows_per_page)
    size = encode_pages(
        numbers.words, numbers.doubles, validity, rows_per_page, kernel_kind(numbers.kind), item_bytes(numbers.kind),
        int(choice.encoding), choice.delta, choice.decimals, out, chunk.page_offset, chunk.page_bytes, chunk.page_checksum,
        chunk.page_encoding,
    )  # fmt: skip
    chunk.data = out[:size].view(np.uint8)
    if choice.encoding is Encoding.BYTE_SPLIT:
        compress_pages(chunk, 0.9)
    return chunk


def choose(numbers: Numbers, rows_per_page: int) -> Choice:
    """The cheapest encoding by a sample of up to eight blocks."""
    rows = len(numbers.words)
    runs = int(count_runs(numbers.words))
    plain_bits = 1 if numbers.kind is Kind.BOOLEAN else 8 * item_bytes(numbers.kind)
    pages = -(-rows // rows_per_page)
    candidates = [Choice(96.0 * (runs + pages) / max(rows, 1), Encoding.RLE)]
    if numbers.kind is Kind.BOOLEAN:
        candidates.append(Choice(1.0, Encoding.BITMAP))
        return min(candidates)
    candidates.append(Choice(plain_bits * _PLAIN_WEIGHT, Encoding.PLAIN_4 if plain_bits == 32 else Encoding.PLAIN))
    if runs == 1:
        return candidates[1]
    sample = numbers.part(_sample_rows(rows))
    if len(numbers.doubles):
        candidates += _decimal_choices(sample)
    if not len(numbers.doubles) or min(candidates).cost > plain_bits / 2:
        candidates.append(_measure(sample, Encoding.FOR, 0, NO_DECIMALS))
        candidates.append(_measure(sample, Encoding.DELTA, 1, NO_DECIMALS))
    if len(numbers.doubles) and min(candidates).cost > plain_bits * 0.7:
        candidates.append(_measure_split(sample))
    return min(candidates)


def _sample_rows(rows: int) -> NDArray[np.int64]:
    if rows <= _SAMPLE_BLOCKS * BLOCK_ROWS:
        return np.arange(rows)
    starts = np.linspace(0, rows - BLOCK_ROWS, _SAMPLE_BLOCKS).astype(np.int64)
    return (starts[:, None] + np.arange(BLOCK_ROWS)).ravel()


def _measure(sample: Numbers, encoding: Encoding, delta: int, decimals: int) -> Choice:
    rows = len(sample.words)
    work = np.empty(2080, np.uint64)
    integers = np.empty(BLOCK_ROWS, np.uint64)
    exceptional = np.empty(2 * BLOCK_ROWS, np.int64)
    words = write_blocks(
        sample.words, sample.doubles, 0, rows, kernel_kind(sample.kind), delta, decimals,
        room(rows, rows), 0, work, integers, exceptional,
    )  # fmt: skip
    return Choice(64.0 * words / rows * (_DELTA_WEIGHT if delta else 1.0), encoding, delta, decimals)


def _decimal_choices(sample: Numbers) -> list[Choice]:
    """ALP with the number of decimals that leaves few exceptions for few bits, on top of FOR and of DELTA."""
    histogram = np.zeros(20, np.int64)
    count_decimals(sample.doubles[::4].copy(), sample.words[::4].copy(), kernel_kind(sample.kind), histogram)
    total = int(histogram.sum())
    exceptions = total - np.cumsum(histogram[:19])
    cost = exceptions * 80.0 + total * np.arange(19) * np.log2(10)
    decimals = int(np.argmin(cost))
    if exceptions[decimals] > _ALP_EXCEPTIONS_MAX * total:
        return []
    return [_measure(sample, Encoding.ALP, delta, decimals) for delta in (0, 1)]


def _measure_split(sample: Numbers) -> Choice:
    size = item_bytes(sample.kind)
    planes = sample.words.view(np.uint8).reshape(-1, 8)[:, :size].T.tobytes()
    packed = pack_frame(planes, 1.0)
    cost = float("inf") if packed is None else 8.0 * len(packed) / len(sample.words) * _SPLIT_WEIGHT
    return Choice(cost, Encoding.BYTE_SPLIT)
