"""As much of JSON Schema as the published schema of requests uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def violations(value: Any, schema: Any, root: Any = None, path: str = "$") -> list[str]:
    """What in a value does not fit a schema; raises KeyError for a word that is not known here."""
    root = root or schema
    if isinstance(schema, bool):
        return [] if schema else [f"{path}: nothing may be here"]
    found: list[str] = []
    for word, rule in schema.items():
        found += _WORDS[word](value, rule, schema, root, path)
    return found


def _type(value: Any, rule: Any, _schema: Any, _root: Any, path: str) -> list[str]:
    return [] if any(_is(value, kind) for kind in ([rule] if isinstance(rule, str) else rule)) else [f"{path}: no {rule}"]


def _is(value: Any, kind: str) -> bool:
    if kind in ("number", "integer"):
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, _TYPES[kind])


def _ref(value: Any, rule: str, _schema: Any, root: Any, path: str) -> list[str]:
    found = root
    for part in rule.removeprefix("#/").split("/"):
        found = found[part]
    return violations(value, found, root, path)


def _properties(value: Any, rule: Mapping[str, Any], _schema: Any, root: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [
        each for name, inner in rule.items() if name in value for each in violations(value[name], inner, root, f"{path}.{name}")
    ]


def _additional(value: Any, rule: Any, schema: Any, root: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    more = [name for name in value if name not in schema.get("properties", {})]
    return [each for name in more for each in violations(value[name], rule, root, f"{path}.{name}")]


def _required(value: Any, rule: list[str], _schema: Any, _root: Any, path: str) -> list[str]:
    return [f"{path}: no {name}" for name in rule if isinstance(value, dict) and name not in value]


def _names(value: Any, rule: Any, _schema: Any, root: Any, path: str) -> list[str]:
    return [each for name in value for each in violations(name, rule, root, path)] if isinstance(value, dict) else []


def _items(value: Any, rule: Any, _schema: Any, root: Any, path: str) -> list[str]:
    if not isinstance(value, list):
        return []
    return [each for at, item in enumerate(value) for each in violations(item, rule, root, f"{path}[{at}]")]


def _prefix(value: Any, rule: list[Any], _schema: Any, root: Any, path: str) -> list[str]:
    if not isinstance(value, list):
        return []
    pairs = enumerate(zip(value, rule, strict=False))
    return [each for at, (item, inner) in pairs for each in violations(item, inner, root, f"{path}[{at}]")]


def _count_of(value: Any, rule: list[Any], root: Any, path: str) -> int:
    return sum(not violations(value, inner, root, path) for inner in rule)


_WORDS: dict[str, Any] = {
    "type": _type,
    "$ref": _ref,
    "properties": _properties,
    "additionalProperties": _additional,
    "required": _required,
    "propertyNames": _names,
    "items": _items,
    "prefixItems": _prefix,
    "enum": lambda value, rule, _s, _r, path: [] if value in rule else [f"{path}: none of {rule}"],
    "const": lambda value, rule, _s, _r, path: [] if value == rule else [f"{path}: not {rule}"],
    "oneOf": lambda value, rule, _s, root, path: [] if _count_of(value, rule, root, path) == 1 else [f"{path}: not one"],
    "anyOf": lambda value, rule, _s, root, path: [] if _count_of(value, rule, root, path) else [f"{path}: none"],
    "minItems": lambda v, rule, _s, _r, path: [f"{path}: few"] if isinstance(v, list) and len(v) < rule else [],
    "maxItems": lambda v, rule, _s, _r, path: [f"{path}: many"] if isinstance(v, list) and len(v) > rule else [],
    "uniqueItems": lambda v, _rule, _s, _r, path: (
        [f"{path}: twice"] if isinstance(v, list) and len(set(map(repr, v))) < len(v) else []
    ),
    "minLength": lambda v, rule, _s, _r, path: [f"{path}: short"] if isinstance(v, str) and len(v) < rule else [],
    "minimum": lambda v, rule, _s, _r, path: [f"{path}: low"] if _is(v, "number") and v < rule else [],
    **dict.fromkeys(("$schema", "$defs", "title", "description", "default", "examples"), lambda *_: []),
}
