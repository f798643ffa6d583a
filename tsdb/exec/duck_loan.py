"""Connections that know their inputs: making one and showing it its inputs takes longer than many a query.

A run borrows one that knows inputs of the same names and columns, or makes one; when the run is gone, and was whole, the connection
waits for the next. Inputs are pointed at whichever run has them, and keep none alive.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from tsdb.exec.duck_call import interruptible
from tsdb.exec.duck_error import DETAILED, details
from tsdb.exec.duck_input import DuckInput
from tsdb.exec.duck_instance import applied, catalog_cursor, cursor
from tsdb.plan.node import Frame
from tsdb.plan.schema import output_schema
from tsdb_format.errors import Error, InvalidInput

if TYPE_CHECKING:
    from tsdb.exec.duck import DuckRun

#: Sets of inputs of which connections wait, and connections that wait of each: as many as run at once.
_KEYS_MAX = 64
_IDLE_MAX = 4

_IDLE: dict[object, deque[Loan]] = {}


class Loan:
    """A connection that one run has. ``key`` is what its inputs are, None where no other run may have it."""

    __slots__ = ("connection", "inputs", "key", "relation")

    def __init__(self, key: object, connection: Any, inputs: dict[str, DuckInput]) -> None:
        self.key = key
        self.connection = connection
        self.inputs = inputs
        #: What was made of the connection; it goes before another run has that.
        self.relation: Any = None

    def spoil(self) -> None:
        """Have no other run use the connection: something failed, or was made on it."""
        self.key = None

    def give_back(self) -> None:
        """Let the connection wait, or close it. Called in any thread, at any time: it takes no lock."""
        self.relation = None
        if self.key is None:
            with suppress(duckdb.Error):  # inside of a query; then it closes once nothing refers to it
                self.connection.close()
            return
        while self.key not in _IDLE and len(_IDLE) >= _KEYS_MAX:
            _IDLE.pop(next(iter(_IDLE), None), None)  # the oldest; its connections close with it
        idle = _IDLE.setdefault(self.key, deque())
        if len(idle) < _IDLE_MAX:
            idle.append(self)
        else:
            self.connection.close()


def borrow(run: DuckRun) -> Loan:
    """A connection that sees the inputs of a run's plan."""
    plan, snapshot = run.plan, run.context.snapshot
    shared = not plan.catalog and not any(isinstance(child, Frame) for _, child in plan.inputs)
    schemas = [None if isinstance(child, Frame) else tuple(output_schema(child, snapshot)) for _, child in plan.inputs]
    key = (os.getpid(), tuple((name, schema) for (name, _), schema in zip(plan.inputs, schemas, strict=True))) if shared else None
    try:
        waiting = _IDLE[key].pop() if key is not None else None
    except (KeyError, IndexError):
        waiting = None
    if waiting is not None:
        applied(run.context.settings)
        for name, child in plan.inputs:
            waiting.inputs[name].serve(child, run)
        return waiting
    connection = catalog_cursor(plan.catalog) if plan.catalog else cursor(run.context.settings)
    interruptible(lambda: connection.execute(DETAILED), connection)
    inputs: dict[str, DuckInput] = {}
    for (name, child), schema in zip(plan.inputs, schemas, strict=True):
        if isinstance(child, Frame):
            _register(connection, child)
        else:
            inputs[name] = DuckInput(list(schema or ()))
            inputs[name].serve(child, run)
            interruptible(partial(connection.register, name, inputs[name]), connection)
    return Loan(key, connection, inputs)


def _register(connection: Any, frame: Frame) -> None:
    """Show DuckDB the user's data."""
    try:
        value = frame.value
        if isinstance(value, dict) and any(type(column).__module__ != "numpy" for column in value.values()):
            from tsdb.ingest.arrow import arrow_columns

            value = pa.table(arrow_columns(value))  # columns that DuckDB does not read by itself
        connection.register(frame.name, value)
    except (duckdb.Error, pa.ArrowException, Error, TypeError, ValueError) as error:
        if frame.certain:
            reason = str(details(error).get("exception_message", error)).splitlines()[0]
            raise InvalidInput(f"the variable {frame.name!r} cannot be read as a table: {reason}") from error
