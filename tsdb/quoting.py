"""Names and texts as SQL writes them."""

from __future__ import annotations


def quoted_name(name: str) -> str:
    """A quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"
