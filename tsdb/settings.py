"""Settings: a typed registry of what can be tuned, with defaults and meanings.

A ``Settings`` value is immutable. A database has one (its session's, changed by SET), a statement may have its own (changed by
``settings=`` or a SETTINGS clause). Names, defaults and meanings live here and nowhere else; SHOW SETTINGS lists them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from tsdb.suggestion import nearest
from tsdb_format.errors import InvalidInput, NotFound

_BYTE_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


#: Threads of one statement: every engine below starts as many as it is told, and thousands stop a machine.
THREADS_MAX = 256


def cpu_count() -> int:
    """Processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def memory_default() -> int:
    """A quarter of the machine's memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, OSError, ValueError):
        return 2**30


def _boolean(value: object) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("true", "on", "yes", "1"):
            return True
        if word in ("false", "off", "no", "0"):
            return False
    elif value in (0, 1):
        return bool(value)
    raise ValueError("it takes true or false")


def _count(least: int, most: int = 2**63 - 1) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9][0-9_]*", value.strip()):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"it takes a whole number from {least}" + (f" to {most:,}" if most < 2**63 - 1 else ""))
        return value

    return parse


def parse_bytes(value: object) -> int:
    """A number of bytes, written as a number or with a unit: ``'16 MiB'``, ``'2GB'``; raises ValueError."""
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", value)
        unit = _BYTE_UNITS.get(found[2].upper()) if found else None
        if found is None or unit is None:
            raise ValueError("it takes a number of bytes, such as 1000000 or '16 MiB'")
        value = round(float(found[1].replace("_", "")) * unit)
    return _count(0)(value)


def _choice(*allowed: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value.strip().lower() not in allowed:
            raise ValueError("it takes " + ", ".join(repr(word) for word in allowed[:-1]) + f" or {allowed[-1]!r}")
        return value.strip().lower()

    return parse


def _seek(value: object) -> str:
    text = str(value).strip()
    if not text:
        raise ValueError("it takes 'latest', 'earliest', a timestamp or the number of a commit")
    return text.lower() if text.lower() in ("latest", "earliest") else text


def _text(value: object) -> str:
    return str(value).strip()


def _duration(value: object) -> str:
    from tsdb.sql.duration import parse_duration

    text = str(value).strip()
    if re.fullmatch(r"0\s*[a-z]*", text.lower()):
        return "0s"
    try:
        parse_duration(text, "it")
    except InvalidInput as error:
        raise ValueError(str(error)) from None
    return text


def _idle(value: object) -> str:
    text = str(value).strip().lower()
    return text if text in ("auto", "never") else _duration(value)


def _setting(default: Any, parse: Callable[[object], Any], meaning: str) -> Any:
    metadata = {"parse": parse, "meaning": meaning}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """All settings of a session or statement, by name."""

    enable_topk_runtime_filter: bool = _setting(
        True, _boolean, "ORDER BY … LIMIT publishes its threshold to the scan below it, which then reads less"
    )
    enable_join_late_materialization: bool = _setting(
        True, _boolean, "joins run on keys and row ids, wide columns are taken for surviving rows only"
    )
    enable_join_key_filter: bool = _setting(
        True, _boolean, "the keys of a join's side in memory keep its other side from reading what has none of them"
    )
    join_key_filter_max_keys: int = _setting(
        10_000, _count(0), "keys up to which that filter is the exact set; of more it keeps a digest that lets a few others pass"
    )
    enable_native_operators: bool = _setting(
        True, _boolean, "false: DuckDB runs everything above the scans, and scans get no predicate"
    )
    enable_statistics_aggregation: bool = _setting(
        True, _boolean, "aggregates are answered from statistics where these cover whole groups, and rows are read for the rest"
    )
    enable_streaming_join_key_domain_pushdown: bool = _setting(
        False, _boolean, "a streaming INNER LATEST JOIN prunes the left side's history by the right side's keys"
    )
    enable_streaming_join_key_domain_shard_pruning: bool = _setting(
        False, _boolean, "that key domain also leaves out shards that cannot hold a key"
    )
    enable_streaming_join_key_domain_bloom_filter: bool = _setting(
        False, _boolean, "more keys than that domain may have leave out what a digest and ranges of them exclude"
    )
    enable_streaming_join_key_domain_through_filters: bool = _setting(
        True, _boolean, "the key domain also serves where the left side has conditions of its own"
    )
    enable_streaming_join_snapshot_reuse: bool = _setting(
        False, _boolean, "live LATEST JOINs that start over the same state of their right side load it once"
    )
    enable_streaming_join_asof_bound: bool = _setting(
        False, _boolean, "with that pushdown an INNER ASOF JOIN leaves out left history before every value of its right side"
    )
    streaming_join_key_domain_pushdown_max_rows: int = _setting(10_000, _count(0), "keys above which the key domain is not used")
    streaming_join_key_domain_pushdown_max_bytes: int = _setting(
        16 * 2**20, parse_bytes, "bytes of keys above which the key domain is not used; 0 is no limit"
    )
    streaming_join_key_domain_pushdown_disjunctive_filter_max_rows: int = _setting(
        256, _count(0), "keys up to which the domain becomes point look-ups; 0 is never"
    )
    seek_to: str = _setting(
        "latest", _seek, "where a live query starts: 'latest', 'earliest', a timestamp (UTC) or the number of a commit"
    )
    enable_view_maintenance: bool = _setting(
        True, _boolean, "the process that writes keeps materialized views up in the background; false: where it is asked to"
    )
    emit: str = _setting(
        "after close",
        _text,
        "when a live query gives windows: 'after close', 'periodic 5s' (those that changed, every so often) or 'on update'",
    )
    watermark_delay: str = _setting(
        "0s", _duration, "windows of a live query are over once a time is seen that is so much later than their end"
    )
    allowed_lateness: str = _setting(
        "0s", _duration, "windows that are over take late rows for so long, and are given again; later rows are only counted"
    )
    watermark_idle_timeout: str = _setting(
        "auto",
        _idle,
        "silence after which open windows are over though no later row came; 'auto': a window's size and the delay, 'never'",
    )
    keep_versions: int = _setting(
        0, _count(0), "rows of each key that a live ASOF JOIN keeps of its right side, those of the greatest times; 0 keeps all"
    )
    stream_batch_rows: int = _setting(65_536, _count(1), "rows that a live query hands over at a time, at most")
    enable_result_set_materialization: bool = _setting(True, _boolean, "a multi-query's named sets are computed once and reused")
    result_set_materialization_max_size: int = _setting(
        100_000, _count(0), "distinct members above which a result set becomes an indexed table"
    )
    enable_result_set_tables: bool = _setting(
        True, _boolean, "such a set becomes a temporary table; false: it is computed anew by each query that uses it"
    )
    threads: int = _setting(
        lambda: min(cpu_count(), THREADS_MAX),
        _count(1, THREADS_MAX),
        "threads that one statement may use; the default is the number of processors",
    )
    memory_limit: int = _setting(
        memory_default, parse_bytes, "bytes that ingest, DuckDB and rows not yet in files may use; default: a quarter of the RAM"
    )
    last_cache_size: int = _setting(
        64 * 2**20,
        parse_bytes,
        "bytes of the last cache: what the newest and oldest rows of devices in files hold, kept between queries that ask for "
        "those of most devices; at most a sixteenth of memory_limit, 0 keeps nothing",
    )
    durability: str = _setting(
        "commit",
        _choice("commit", "interval", "off"),
        "when a write is safe from a power cut: before it returns, within a fifth of a second, or when the system gets to it",
    )

    def changed(self, values: Mapping[str, object] | Iterable[tuple[str, object]]) -> Settings:
        """A copy with some settings replaced; raises NotFound for an unknown name, InvalidInput for an unfit value."""
        made: dict[str, Any] = {}
        for name, value in dict(values).items():
            info = find(name)
            made[info.name] = info.parse(value)
        return replace(self, **made) if made else self

    @property
    def last_cache_bytes(self) -> int:
        """Bytes that the last cache may take, a part of the memory limit."""
        return min(self.last_cache_size, self.memory_limit // 16)

    @cached_property
    def planning(self) -> tuple[bool, bool, bool]:
        """The settings that change plans; equal planning and equal text give equal plans."""
        return (self.enable_native_operators, self.enable_topk_runtime_filter, self.enable_join_late_materialization)


@dataclass(frozen=True, slots=True)
class Setting:
    """One entry of the registry."""

    name: str
    meaning: str
    convert: Callable[[object], object]

    def parse(self, value: object) -> object:
        """The value in the setting's type; raises InvalidInput."""
        try:
            return self.convert(value)
        except ValueError as error:
            raise InvalidInput(f"setting {self.name} cannot be {value!r}: {error}") from None


SETTINGS: dict[str, Setting] = {
    f.name: Setting(f.name, f.metadata["meaning"], f.metadata["parse"]) for f in fields(Settings) if "parse" in f.metadata
}


def find(name: str) -> Setting:
    """The setting of that name, in any case; raises NotFound with the nearest name."""
    found = SETTINGS.get(name.lower())
    if found is None:
        close = nearest(name, SETTINGS)
        hint = f"did you mean {close}?" if close else "SHOW SETTINGS lists them"
        raise NotFound(f"no setting {name!r}; {hint}")
    return found


def show(value: object) -> str:
    """A setting's value as SHOW SETTINGS prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
