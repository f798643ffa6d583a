"""Charts in the terminal: every numeric column over time, drawn with braille dots.

The first timestamp, date or (failing those) the row number is the horizontal axis. Text columns tell the lines of one chart apart,
up to ``LINES_MAX`` of them; a larger set is drawn as one cloud. What is drawn is what the query returned: nothing is interpolated,
and a column of NULLs has an empty chart.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from tsdb_cli import terminal
from tsdb_cli.value import as_text

LINES_MAX = 6
CHARTS_MAX = 8
ROWS_HIGH = 7
_COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red")
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # a braille cell's bits, by row and column


@dataclass
class Line:
    """One line of a chart: its label and its points as (x, y) pairs."""

    label: str
    points: list[tuple[float, float]] = field(default_factory=list)


def write_charts(names: Sequence[str], rows: Sequence[Sequence[Any]], stream: TextIO = sys.stdout) -> None:
    """Draw one chart for each numeric column of ``rows``."""
    kinds = [_kind([row[i] for row in rows]) for i in range(len(names))]
    axis = kinds.index("time") if "time" in kinds else None
    charts = [i for i, kind in enumerate(kinds) if kind == "number"]
    if not charts or not rows:
        stream.write(f"nothing to draw: the result has no {'numeric column' if rows else 'rows'}\n")
        return
    labels = [i for i, kind in enumerate(kinds) if kind == "text"]
    for column in charts[:CHARTS_MAX]:
        _write_chart(names[column], _lines(rows, axis, column, labels), axis is not None, stream)
    if len(charts) > CHARTS_MAX:
        stream.write(f"and {len(charts) - CHARTS_MAX} more numeric columns; select fewer to see them\n")


def _kind(values: Sequence[Any]) -> str:
    first = next((value for value in values if value is not None), None)
    if isinstance(first, bool) or first is None:
        return "other"
    if isinstance(first, int | float | np.integer | np.floating):
        return "number"
    if isinstance(first, datetime.datetime | datetime.date | np.datetime64):
        return "time"
    return "text" if isinstance(first, str) else "other"


def _lines(rows: Sequence[Sequence[Any]], axis: int | None, column: int, labels: Sequence[int]) -> list[Line]:
    lines: dict[str, Line] = {}
    for number, row in enumerate(rows):
        value = row[column]
        if value is None or not math.isfinite(value):
            continue
        x = float(number) if axis is None else _instant(row[axis])
        label = " ".join(as_text(row[i]) for i in labels if row[i] is not None)
        if not math.isnan(x):
            lines.setdefault(label, Line(label)).points.append((x, float(value)))
    if len(lines) <= LINES_MAX:
        return list(lines.values())
    return [Line(f"{len(lines):,} lines", [point for line in lines.values() for point in line.points])]


def _instant(value: Any) -> float:
    """Seconds since 1970, or NaN for NULL."""
    if value is None:
        return math.nan
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[ns]").astype(np.int64)) / 1e9
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
    return float((value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp())


def _write_chart(title: str, lines: list[Line], is_time: bool, stream: TextIO) -> None:
    points = [point for line in lines for point in line.points]
    if not points:
        stream.write(f"{terminal.style(title, 'bold', stream)}  all NULL\n")
        return
    low, high = min(y for _, y in points), max(y for _, y in points)
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    axis_labels = [f"{high:,.6g}", f"{low:,.6g}"]
    margin = max(len(text) for text in axis_labels)
    columns = max(min(terminal.width(100), 160) - margin - 2, 16)
    canvas = _Canvas(columns, ROWS_HIGH)
    for number, line in enumerate(lines):
        canvas.draw(line.points, (left, right), (low, high), number)
    named = [line for line in lines if line.label]
    legend = "  ".join(
        terminal.style("━ ", _COLOURS[i % len(_COLOURS)], stream) + line.label for i, line in enumerate(named[:LINES_MAX])
    )
    stream.write(f"{terminal.style(title, 'bold', stream)}  {legend}".rstrip() + "\n")
    for row in range(ROWS_HIGH):
        label = axis_labels[0] if row == 0 else axis_labels[1] if row == ROWS_HIGH - 1 else ""
        stream.write(f"{label:>{margin}} {terminal.style('┤', 'dim', stream)}{canvas.row_text(row, stream)}".rstrip() + "\n")
    start, end = (_instant_text(left), _instant_text(right)) if is_time else (f"row {left + 1:,.0f}", f"row {right + 1:,.0f}")
    stream.write(f"{'':>{margin}}  {terminal.style(start + end.rjust(columns - len(start)), 'dim', stream)}\n")


def _instant_text(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


class _Canvas:
    """A grid of braille cells, two dots wide and four high each; a cell shows the colour of the last line that touched it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows
        self.bits = [[0] * columns for _ in range(rows)]
        self.owner = [[0] * columns for _ in range(rows)]

    def draw(self, points: list[tuple[float, float]], across: tuple[float, float], up: tuple[float, float], owner: int) -> None:
        """Set each dot column to the span of the values that fall into it."""
        spans: dict[int, tuple[int, int]] = {}
        for x, y in points:
            column = _scaled(x, across, 2 * self.columns)
            row = 4 * self.rows - 1 - _scaled(y, up, 4 * self.rows)
            top, bottom = spans.get(column, (row, row))
            spans[column] = (min(top, row), max(bottom, row))
        for column, (top, bottom) in spans.items():
            for row in range(top, bottom + 1):
                self.bits[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
                self.owner[row // 4][column // 2] = owner

    def row_text(self, row: int, stream: TextIO) -> str:
        """One line of the canvas."""
        cells = [chr(0x2800 + bits) if bits else " " for bits in self.bits[row]]
        if not terminal.has_colour(stream):
            return "".join(cells)
        owners = self.owner[row]
        return "".join(
            cell if cell == " " else terminal.style(cell, _COLOURS[owner % len(_COLOURS)], stream)
            for cell, owner in zip(cells, owners, strict=True)
        )


def _scaled(value: float, bounds: tuple[float, float], steps: int) -> int:
    low, high = bounds
    return min(int((value - low) / (high - low) * steps), steps - 1) if high > low else steps // 2
