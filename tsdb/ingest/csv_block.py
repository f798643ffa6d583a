"""A CSV file as blocks: pieces are split in order, their columns converted in threads, their strings looked up in order again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tsdb.exec.kernels import csv_split
from tsdb.ingest.block import Block, TextPools
from tsdb.ingest.cells import Cells, read_cells
from tsdb.ingest.convert import reason, refuse_missing
from tsdb.ingest.csv_text import Piece, read_pieces
from tsdb.ingest.file_plan import FilePlan
from tsdb.ingest.reject import RAW_BYTES_MAX, Reject
from tsdb.ingest.source import Position
from tsdb_format.parallel import ordered_map
from tsdb_format.types import Kind, Role
from tsdb_format.vector import Vector


@dataclass(slots=True)
class _Converted:
    """A piece's rows that are fine, strings still as cells, and the rejects."""

    vectors: dict[str, Vector]
    cells: dict[str, Cells]
    row_count: int
    rejects: list[Reject]


def read_csv_blocks(plan: FilePlan, pools: TextPools, start: Position, threads: int) -> Iterator[Block]:
    """The file's rows from ``start`` on. Raises InvalidInput where the file cannot be read."""
    layout = plan.layout
    assert layout is not None
    constants = plan.constants(pools.schema)
    pieces = read_pieces(plan.source, layout, [each.index for each in plan.columns], start.offset, start.line)
    rows = start.rows

    def convert(piece: Piece) -> tuple[Piece, _Converted]:
        return piece, _convert(plan, piece)

    for piece, converted in ordered_map(convert, pieces, threads, ahead=threads + 1):
        rows += len(piece.verdict)
        columns = dict(converted.vectors)
        for each in plan.columns:
            if each.column.name in converted.cells:
                columns[each.column.name] = pools.of_cells(each.column, converted.cells[each.column.name])
        for name, constant in constants.items():
            columns[name] = pools.of_vector(pools.schema.column(name), constant).take(np.zeros(converted.row_count, np.int64))
        yield Block(columns, converted.row_count, converted.rejects, Position(rows, piece.offset, piece.next_line))


def _convert(plan: FilePlan, piece: Piece) -> _Converted:
    width = len(plan.layout.names) if plan.layout is not None else 0
    rejects: list[tuple[int, Reject]] = []
    bad = piece.verdict != csv_split.FINE

    def refuse(row: int, column: str, why: str) -> None:
        line = int(piece.record_line[row])
        rejects.append((row, Reject(plan.source.path, line, column, why, piece.raw(row, RAW_BYTES_MAX))))

    for row in np.flatnonzero(bad).tolist():
        refuse(row, "", _why(int(piece.verdict[row]), int(piece.cell_count[row]), width))
    sound = np.flatnonzero(~bad) if bad.any() else None
    vectors: dict[str, Vector] = {}
    texts: dict[str, Cells] = {}
    for number, each in enumerate(plan.columns):
        cells = piece.cells(number) if sound is None else piece.cells(number).take(sound)
        if each.column.type.kind is Kind.STRING:
            texts[each.column.name] = cells
            continue
        converted = read_cells(cells, each.column, each.reading, numbers=each.numbers)
        if each.column.role is Role.TIME:
            refuse_missing(converted)
        vectors[each.column.name] = converted.vector
        wrong = converted.refused()
        if wrong is not None and converted.status is not None:
            for at in np.flatnonzero(wrong).tolist():
                row = at if sound is None else int(sound[at])
                if not bad[row]:
                    refuse(row, each.column.name, reason(converted.status[at], each.column, cells.text(at) or None))
                    bad[row] = True
    count = len(bad) if sound is None else len(sound)
    good = np.flatnonzero(~bad) if sound is None else np.flatnonzero(~bad[sound])
    if len(good) < count:
        vectors = {name: vector.take(good) for name, vector in vectors.items()}
        texts = {name: cells.take(good) for name, cells in texts.items()}
    return _Converted(vectors, texts, len(good), [reject for _, reject in sorted(rejects, key=lambda pair: pair[0])])


def _why(verdict: int, cells: int, width: int) -> str:
    """What is wrong with a whole record."""
    if verdict == csv_split.BAD_QUOTE:
        return "a quote is not closed, or closed before the end of its cell"
    if verdict == csv_split.BAD_TEXT:
        return "not UTF-8"
    return f"{cells} cells where there should be {width}"
