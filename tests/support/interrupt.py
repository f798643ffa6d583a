"""Ctrl-C at any line: an exception out of nowhere, as signal handlers raise them between two steps of the main thread."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

import tsdb.storage

_STORAGE = os.path.dirname(tsdb.storage.__file__)
#: Lines that a tracer stops at but Python delivers no signal at: a ``with`` that is left would keep its lock.
_UNDELIVERED = ("with ", "try:")
#: What only ``finally`` calls, and nothing in Python protects from an exception out of nowhere.
_CLEANING = {"end_turn"}


class Interrupts:
    """Counts the lines of tsdb/storage that ``run`` executes in this thread, and raises KeyboardInterrupt before number ``at``.

    With 0 it only counts. ``place`` tells where it was. ``within``: only lines of functions of these names count, all where empty.
    """

    def __init__(self, at: int = 0, within: Collection[str] = ()) -> None:
        self.at = at
        self.within = within
        self.lines = 0
        self.place = ""

    def run(self, act: Callable[[], object]) -> None:
        """Do it."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            act()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(_STORAGE) or code.co_name in _CLEANING:
            return None
        return self._line if not self.within or code.co_name in self.within else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if event == "line" and not linecache.getline(code.co_filename, frame.f_lineno).lstrip().startswith(_UNDELIVERED):
            self.lines += 1
            if self.lines == self.at:
                self.place = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}"
                raise KeyboardInterrupt
        return self._line
