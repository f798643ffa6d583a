"""The terminal: how wide it is, whether it takes colours, and notes to the person in front of it.

Colour and progress appear only on a terminal; ``NO_COLOR`` (any value) and ``TERM=dumb`` turn colour off.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}


def is_terminal(stream: TextIO) -> bool:
    """Whether a person sees what is written to ``stream``."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def has_colour(stream: TextIO) -> bool:
    """Whether escape codes are welcome on ``stream``."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style(text: str, name: str, stream: TextIO) -> str:
    """``text`` in a style of ``_CODES`` where ``stream`` takes it, unchanged elsewhere."""
    return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if has_colour(stream) else text


def width(default: int = 120) -> int:
    """Columns of the terminal; ``COLUMNS`` wins, ``default`` where there is no terminal."""
    return shutil.get_terminal_size((default, 24)).columns


def note(text: str) -> None:
    """One line for the person, on standard error."""
    print(style(text, "dim", sys.stderr), file=sys.stderr)


def when_reader_goes(stream: TextIO, act: Callable[[], object]) -> None:
    """Call ``act``, in another thread, when nobody reads the pipe ``stream`` any more; writing to it would tell only then."""
    if not hasattr(select, "poll") or not stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode):
        return
    watched = select.poll()
    watched.register(stream.fileno(), 0)  # an error is told unasked

    def watch() -> None:
        watched.poll()
        act()

    threading.Thread(target=watch, daemon=True, name="tsdb-reader").start()


@contextmanager
def when_interrupted(act: Callable[[], object]) -> Iterator[None]:
    """Within, the first Ctrl-C calls ``act`` and interrupts nothing; a second one is as ever."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        act()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def bytes_text(count: float) -> str:
    """A size as people read it: 999 B, 1.5 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def seconds_text(seconds: float) -> str:
    """A duration as people read it: 840 µs, 1.2 ms, 3.4 s."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def escaped(text: str) -> str:
    """The text with everything that a terminal would not show, or would obey, spelled out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
