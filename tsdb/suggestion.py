"""Nearest names, for errors that say what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable

#: Names listed in full when none is near; a longer list would bury the message.
_LISTED_MAX = 12


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name closest to ``name``, compared without case; None where none is close."""
    import difflib

    folded = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.55)
    return folded[close[0]] if close else None


def hint(name: str, names: Iterable[str], none: str = "there are none") -> str:
    """The end of a not-found message: the nearest name, else what there is."""
    known = list(names)
    close = nearest(name, known)
    if close is not None:
        return f"did you mean {close!r}?"
    if not known:
        return none
    listed = ", ".join(known[:_LISTED_MAX])
    return f"there are: {listed}" + (f" and {len(known) - _LISTED_MAX:,} more" if len(known) > _LISTED_MAX else "")
