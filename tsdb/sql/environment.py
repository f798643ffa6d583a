"""What a statement is bound in: its parameters, its moment, and DuckDB's opinion on constants where it is worth asking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tsdb.sql.constant import Constant, of_python
from tsdb.sql.token import PARAMETER, Token
from tsdb_format.errors import InvalidInput

if TYPE_CHECKING:
    from tsdb.resultset.member_set import MemberSet

Parameters = Sequence[object] | Mapping[str, object] | None


def _cannot(_: object) -> None:
    return None


@dataclass
class Environment:
    """One binding of one statement. ``used_now``, ``used_outside`` (the caller's data, or the whole catalog) and ``compared_zone``
    are set while binding and steer what follows.

    ``now_ns`` is read once, so that every ``now()`` of a statement is the same moment. ``fold_text`` evaluates SQL without columns
    by DuckDB, ``fold_tree`` the text of such a part of the statement; both answer None where they cannot. ``native_joins`` is
    cleared where what joins would hold is too large for memory: DuckDB's spill. ``members`` are those of result sets, by the name
    of the set's table, None where there are none.
    """

    values: Mapping[str, object]
    now_ns: int = 0
    fold_text: Callable[[str], Constant | None] = _cannot
    fold_tree: Callable[[Any], Constant | None] = _cannot
    members: Mapping[str, MemberSet | None] = field(default_factory=dict)
    native_joins: bool = True
    #: What was left to DuckDB that might have been native, and why.
    remarks: list[str] = field(default_factory=list)
    used_now: bool = False
    used_outside: bool = False
    compared_zone: bool = False

    def parameter(self, name: str) -> Constant | None:
        """The constant of a parameter, by number or name."""
        return of_python(self.values[name]) if name in self.values else None


def bind_parameters(tokens: Sequence[Token], given: Parameters) -> dict[str, object]:
    """Values by parameter name, ``'1'`` and so on for those given by position, for exactly the parameters that the tokens use.

    Raises InvalidInput for one that is missing, or for one too many.
    """
    names = parameter_names(tokens)
    wanted = dict.fromkeys(name for _, name in names)
    if isinstance(given, Mapping):
        values = {str(name): value for name, value in given.items()}
    elif given is None:
        values = {}
    elif isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidInput(f"parameters are a list or a dictionary, not {type(given).__name__}")
    else:
        values = {str(number): value for number, value in enumerate(given, 1)}
    missing = [name for name in wanted if name not in values]
    if missing:
        raise InvalidInput(f"the statement has parameters without a value: {', '.join('$' + name for name in missing)}")
    extra = [name for name in values if name not in wanted]
    if extra:
        raise InvalidInput(f"the statement takes {len(wanted)} parameters; not used: {', '.join('$' + name for name in extra)}")
    return {name: values[name] for name in wanted}


def parameter_names(tokens: Sequence[Token]) -> list[tuple[Token, str]]:
    """Parameter tokens with their names."""
    return [(token, token.text[1:]) for token in tokens if token.kind == PARAMETER]
