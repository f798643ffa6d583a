"""Values as text: one spelling for tables, CSV and JSON, exact enough to be read back.

Timestamps are ISO dates with a space, with as many of 0, 3, 6 or 9 fractional digits as they need. Bytes are printable ASCII with
``\\xNN`` for the rest, as DuckDB writes them.
"""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import numpy as np

_SAFE = frozenset(range(0x20, 0x7F)) - {ord("\\"), ord("'"), ord('"')}


def as_text(value: Any) -> str:
    """One non-NULL value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, datetime.datetime):
        return timestamp_text(value)
    if isinstance(value, np.datetime64):
        return _datetime64_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return "".join(chr(byte) if byte in _SAFE else f"\\x{byte:02X}" for byte in bytes(value))
    if isinstance(value, np.generic):
        return as_text(value.item())
    if isinstance(value, list | tuple | np.ndarray):
        return "[" + ", ".join("NULL" if item is None else as_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return json.dumps(as_json(value), ensure_ascii=False)
    return str(value)


def as_json(value: Any) -> Any:
    """One value as what ``json.dumps`` takes. NaN and the infinities, which JSON has not, become null."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        return as_json(value.item())
    if isinstance(value, list | tuple | np.ndarray):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    return as_text(value)


def timestamp_text(value: datetime.datetime) -> str:
    """ISO date and time with a space; the zone's offset where there is one."""
    return _trim(value.isoformat(" "))


def _trim(text: str) -> str:
    head, dot, fraction = text.partition(".")
    if not dot:
        return text
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    number, rest = fraction[:digits], fraction[digits:]
    while number.endswith("000"):
        number = number[:-3]
    return f"{head}.{number}{rest}" if number else head + rest


def _datetime64_text(value: np.datetime64) -> str:
    if np.isnat(value):
        return ""
    text = str(value.astype("datetime64[s]") if np.datetime_data(value.dtype)[0] in "YMWDhm" else value)
    return _trim(text.replace("T", " "))
