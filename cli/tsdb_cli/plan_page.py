"""A plan as a page for the browser: the nodes as a tree, and for each level of each scan a bar of what became of its units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from tsdb.exec.stats import LEVELS

_FATES = (
    ("read", "read", "#1f5f8b"),
    ("from_statistics", "answered from statistics", "#6aa9d2"),
    ("pruned_by_filter", "left out by the filter", "#d9a441"),
    ("pruned_by_topk", "left out by TopK", "#7fb58a"),
    ("pruned_by_key_domain", "left out by the key domain", "#b58ab5"),
)
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>tsdb explain</title><style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; color: #1c2733; }
pre, .node { background: #f4f6f8; border-radius: 6px; padding: .8rem 1rem; overflow-wrap: anywhere; white-space: pre-wrap; }
.child { margin-left: 1.6rem; } .node { margin: .5rem 0; white-space: normal; }
.verb { font-weight: 650; } .detail { color: #4a5a68; }
table { border-collapse: collapse; margin-top: .6rem; width: 100%; font-variant-numeric: tabular-nums; }
td, th { padding: .12rem .7rem .12rem 0; text-align: right; font-weight: 400; white-space: nowrap; }
td:first-child, th:first-child { text-align: left; } th { color: #4a5a68; } td.wide { width: 45%; padding-right: 0; }
.bar { display: flex; height: .8rem; border-radius: 3px; overflow: hidden; background: #e3e8ec; } .bar span { min-width: 2px; }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; vertical-align: -.05rem; margin: 0 .3rem 0 1rem; }
</style></head><body>
"""


def plan_page(title: str, sql: str, plan: Mapping[str, Any]) -> str:
    """The whole page for a plan in the form of EXPLAIN (FORMAT JSON)."""
    parts = [_HEAD, f"<h1>{escape(title)}</h1>\n<pre>{escape(sql.strip())}</pre>\n"]
    if _has_counters(plan):
        keys = "".join(f'<span class="key" style="background:{colour}"></span>{label}' for _, label, colour in _FATES)
        parts.append(f"<p>{keys}</p>\n")
    return "".join([*parts, *_node(plan), "</body></html>\n"])


def _has_counters(node: Mapping[str, Any]) -> bool:
    return bool(node.get("counters")) or any(_has_counters(child) for child in node.get("children", ()))


def _node(node: Mapping[str, Any]) -> Iterator[str]:
    details = {name: value for name, value in node.items() if name not in ("operator", "counters", "children")}
    shown = "  ".join(f"{name} = {_text(value)}" for name, value in details.items())
    yield f'<div class="node"><span class="verb">{escape(str(node.get("operator", "")))}</span>'
    yield f' <span class="detail">{escape(shown)}</span>'
    yield from _counters(node.get("counters") or {})
    yield "</div>\n"
    for child in node.get("children", ()):
        yield '<div class="child">'
        yield from _node(child)
        yield "</div>\n"


def _counters(counters: Mapping[str, Any]) -> Iterator[str]:
    levels = [level for level in LEVELS if counters.get(f"{level}_total")]
    if levels:
        yield "<table><tr><th></th><th>in all</th>"
        yield from (f"<th>{label}</th>" for _, label, _ in _FATES)
        yield "<th></th></tr>\n"
        for level in levels:
            total = int(counters[f"{level}_total"])
            counts = [int(counters.get(f"{level}_{fate}", 0)) for fate, _, _ in _FATES]
            cells = "".join(f"<td>{count:,}</td>" for count in (total, *counts))
            yield f'<tr><td>{level}</td>{cells}<td class="wide"><div class="bar">{_bar(counts, total)}</div></td></tr>\n'
        yield "</table>"
    grid = {f"{level}_{fate}" for level in LEVELS for fate in ("total", *(name for name, _, _ in _FATES))}
    others = {name: value for name, value in counters.items() if name not in grid}
    if others:
        yield f'<div class="detail">{escape("  ".join(f"{name} = {_text(value)}" for name, value in others.items()))}</div>'


def _bar(counts: list[int], total: int) -> str:
    spans = zip(counts, _FATES, strict=True)
    return "".join(f'<span style="width:{100 * n / total:.3f}%;background:{colour}"></span>' for n, (_, _, colour) in spans if n)


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    return f"{value:,}" if type(value) is int else str(value)
