"""What a write reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a write did: rows new to the table, rows that overlaid another one, and the commit's sequence number."""

    inserted: int
    updated: int
    sequence: int
