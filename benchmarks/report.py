"""Measurements as text for the terminal and as Markdown for the documentation."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version


@dataclass
class Table:
    """One table of a report: a heading row and rows of cells; the first column is text, the others are right-aligned."""

    title: str
    heading: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""

    def as_text(self) -> str:
        """Aligned with spaces."""
        lines = [self.title, *self._aligned("  ", ["─", "─"])]
        return "\n".join([*lines, *([self.note] if self.note else [])]) + "\n"

    def as_markdown(self) -> str:
        """A Markdown table under a heading."""
        body = [f"| {line} |" for line in self._aligned(" | ", ["-", "-:"])]
        return "\n".join([f"### {self.title}", "", *body, *(["", self.note] if self.note else [])]) + "\n"

    def _aligned(self, gap: str, rule: Sequence[str]) -> list[str]:
        cells = [self.heading, *self.rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.heading))]
        lines = [
            gap.join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True)))
            for row in cells
        ]
        rules = [rule[0] * (w - len(rule[1 if i else 0]) + 1) + (rule[1][1:] if i else "") for i, w in enumerate(widths)]
        return [lines[0], gap.join(rules), *lines[1:]]


def machine_text() -> str:
    """What the figures were measured on."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "numpy", "numba"))
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}, {packages}"


def milliseconds(seconds: float) -> str:
    """Three significant digits."""
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(value: float) -> str:
    """Two significant digits and the sign that says times."""
    return f"{value:,.0f}×" if value >= 10 else f"{value:.1f}×" if value >= 1 else f"{value:.2f}×"
