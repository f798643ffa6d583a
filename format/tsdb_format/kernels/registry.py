"""The one way to declare a compiled kernel, and the one place that decides how it runs.

A kernel is a plain Python function over arrays and scalars with an explicit signature. It is compiled on first use, never at
import: from the ahead-of-time extension ``_compiled`` beside it when that was built from exactly these sources, otherwise by
numba with an on-disk cache. Importing a kernel module imports neither numba nor the extension.

Signatures name widths and directions::

    @kernel("(u8[in], i64[in], i64, f64[out]) -> i64")

``T[in]`` is a C-contiguous 1-d array that is only read (read-only and writable arrays are accepted), ``T[out]`` one that is
written, ``T[in,2]`` and ``T[out,2]`` the 2-d forms; a bare ``T`` is a scalar. Widths are b1 (bool), u8 u16 u32 u64 i8 i16 i32 i64
f32 f64.
A kernel may call other kernels of the same package: they share one source fingerprint, which guards both the extension and the
on-disk cache (numba alone would miss a change in a callee's file).

The ahead-of-time entry points check no dtypes: callers pass exactly the declared types. The tests run every kernel both ways.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_WIDTHS = {
    "b1": "boolean", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f32": "float32", "f64": "float64", "void": "void",
}  # fmt: skip
_ARRAY = re.compile(r"^(\w+)\[(in|out)(?:,(\d))?\]$")

#: Every kernel declared so far, by "module.function". Filled by importing kernel modules.
KERNELS: dict[str, Kernel] = {}

#: ``auto`` prefers the extension, ``jit`` forces numba, ``python`` runs the plain function, and ``checked`` is ``auto`` after a
#: look at every argument: the extension's entry points take none, and a wrong type would be a crash. The tests run checked.
MODE = os.environ.get("TSDB_KERNELS", "auto")


#: Elements of every array up to which a plain function serves, and calls after which it is compiled all the same: a first answer
#: from a small database must not wait for kernels whose work takes microseconds.
SMALL_ITEMS_MAX = 4_096
SMALL_CALLS_MAX = 16


class Kernel:
    """A declared kernel: callable, and resolved to machine code by the first call."""

    __slots__ = ("_calls", "_jitted", "_run", "inline", "module", "name", "py_func", "reassociates", "signature", "small", "vector")

    def __init__(
        self, py_func: Callable[..., Any], signature: str, small: bool = False, inline: bool = False, reassociates: bool = False,
        vector: str = "",
    ) -> None:  # fmt: skip
        self.py_func = py_func
        self.signature = signature
        self.module = py_func.__module__
        self.name = py_func.__name__
        self._run: Callable[..., Any] = self._first_call
        self._jitted: dict[bool, Callable[..., Any]] = {}
        self.small = small
        self.inline = inline
        self.reassociates = reassociates
        self.vector = vector
        self._calls = 0

    def __call__(self, *args: Any) -> Any:
        """Run the kernel."""
        return self._run(*args)

    def _first_call(self, *args: Any) -> Any:
        waits = self.small and MODE in ("auto", "jit") and (MODE == "jit" or self._compiled() is None)
        self._run = self._small_call if waits else self.resolve()
        return self._run(*args)

    def _small_call(self, *args: Any) -> Any:
        """Run the plain function while inputs are small and calls few, instead of waiting for the compiler."""
        self._calls += 1
        if self._calls > SMALL_CALLS_MAX or any(getattr(arg, "size", 0) > SMALL_ITEMS_MAX for arg in args):
            self._run = self.resolve()
            return self._run(*args)
        found = self.plain(*args)
        return found.item() if hasattr(found, "item") else found  # a compiled kernel gives Python's numbers

    def plain(self, *args: Any) -> Any:
        """The plain function with the arithmetic of machine code: integers wrap, floats become infinite, and nothing warns."""
        import numpy as np

        with np.errstate(all="ignore"):
            return self.py_func(*args)

    def _compiled(self) -> Callable[..., Any] | None:
        """The kernel in the ahead-of-time extension, if there is one of these sources."""
        extension = compiled_extension(self.module.rpartition(".")[0])
        found: Callable[..., Any] | None = getattr(extension, self.symbol, None)
        return found

    def resolve(self, mode: str | None = None) -> Callable[..., Any]:
        """The callable that ``mode`` ('auto', 'jit', 'python' or 'checked'; default: the process's) stands for."""
        mode = mode or MODE
        if mode == "checked":
            return self._checked(self.resolve("auto"))
        if mode == "python":
            return self.plain
        compiled = self._compiled() if mode == "auto" else None
        return self.jit(cache=True) if compiled is None else compiled

    def _checked(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """``run`` after a check of every argument against the signature; raises TypeError."""
        expected = [(text, _ARRAY.match(text)) for text in _parts(self.signature)]

        def call(*args: Any) -> Any:
            if len(args) != len(expected):
                raise TypeError(f"{self.module}.{self.name} takes {len(expected)} arguments, not {len(args)}")
            for position, (value, (text, array)) in enumerate(zip(args, expected, strict=True)):
                if not (_is_scalar(value, text) if array is None else _is_array(value, *array.groups())):
                    found = f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else repr(value)
                    raise TypeError(f"{self.module}.{self.name}: argument {position} is {found}, not {text}")
            return run(*args)

        return call

    @property
    def symbol(self) -> str:
        """The exported name in the ahead-of-time extension."""
        return f"{self.module.rpartition('.')[2]}__{self.name}"

    def jit(self, *, cache: bool) -> Callable[..., Any]:
        """Compile with numba for exactly the declared signature; once, however many kernels call this one."""
        import numba

        if cache not in self._jitted:
            if cache:
                _drop_stale_cache(self.module.rpartition(".")[0])
            self._jitted[cache] = numba.njit(
                numba_signature(self.signature), cache=cache, nogil=True, forceinline=self.inline,
                fastmath={"reassoc", "contract", "nsz"} if self.reassociates else False,
            )(self.linked(cache))  # fmt: skip
        return self._jitted[cache]

    def callee(self, cache: bool) -> Callable[..., Any]:
        """What kernels that call this one run: its machine code, or the vector code that stands for it."""
        if not self.vector:
            return self.jit(cache=cache)
        import numba.extending

        from tsdb_format.kernels import vector

        made: Callable[..., Any] = numba.extending.intrinsic(getattr(vector, self.vector))
        return made

    def linked(self, cache: bool = False) -> Callable[..., Any]:
        """The plain function with the kernels it calls replaced by numba dispatchers."""
        source = self.py_func
        names = set(_global_names(source.__code__))
        replaced = {
            name: value.callee(cache) for name, value in source.__globals__.items() if name in names and isinstance(value, Kernel)
        }
        if not replaced:
            return source
        linked = types.FunctionType(source.__code__, {**source.__globals__, **replaced}, source.__name__, source.__defaults__)
        linked.__module__ = source.__module__
        linked.__qualname__ = source.__qualname__
        return linked


def kernel(
    signature: str, *, small: bool = False, inline: bool = False, reassociates: bool = False, vector: str = ""
) -> Callable[[Callable[..., Any]], Kernel]:
    """Declare the decorated function as a kernel of ``signature``; see the module's head for the notation.

    ``small``: where nothing is compiled ahead of time, the plain function serves the first calls with small inputs. ``inline``:
    kernels that call it take its code into their own, which spares the passing of its arrays, seven words each. ``reassociates``:
    floats may be added in any order, so that sums become vector code; kernels that call it know bounds of the difference.
    ``vector``: kernels that call it have what that function of ``vector`` writes instead, which does the same.
    """

    def declare(py_func: Callable[..., Any]) -> Kernel:
        made = Kernel(py_func, signature, small, inline, reassociates, vector)
        KERNELS[f"{made.module}.{made.name}"] = made
        return made

    return declare


def numba_signature(signature: str) -> Any:
    """Translate our notation into a numba signature."""
    from numba import types as nb

    def one(text: str) -> Any:
        array = _ARRAY.match(text)
        if array is None:
            return getattr(nb, _WIDTHS[text])
        width, direction, dimensions = array.groups()
        return nb.Array(getattr(nb, _WIDTHS[width]), int(dimensions or 1), "C", readonly=direction == "in")

    return one(signature.partition("->")[2].strip() or "void")(*(one(part) for part in _parts(signature)))


def _parts(signature: str) -> list[str]:
    """The arguments of a signature, as written."""
    inside = signature.partition("->")[0].strip()[1:-1]
    return [part.strip() for part in re.split(r",\s*(?![^\[]*\])", inside) if part.strip()]


def _is_array(value: Any, width: str, direction: str, dimensions: str | None) -> bool:
    name = "bool" if width == "b1" else _WIDTHS[width]
    flags = getattr(value, "flags", None)
    return (
        flags is not None
        and value.dtype.name == name
        and value.dtype.isnative
        and value.ndim == int(dimensions or 1)
        and flags.c_contiguous
        and flags.aligned
        and (direction == "in" or flags.writeable)
    )


def _is_scalar(value: Any, width: str) -> bool:
    """Whether a scalar is of the width's kind and in its range."""
    if width in ("f32", "f64"):
        return isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") in "f"
    if width == "b1":
        return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
    bits = int(width[1:])
    low, high = (0, 2**bits) if width[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return hasattr(value, "__index__") and low <= int(value) < high


_EXTENSIONS: dict[str, types.ModuleType | None] = {}


def compiled_extension(package: str) -> types.ModuleType | None:
    """The ahead-of-time extension of a kernel package, or None where it is absent or was built from other sources."""
    if package not in _EXTENSIONS:
        _EXTENSIONS[package] = _load_extension(package)
    return _EXTENSIONS[package]


def _load_extension(package: str) -> types.ModuleType | None:
    parent = sys.modules.get(package)
    if parent is None or parent.__file__ is None:
        return None
    folder = Path(parent.__file__).parent
    try:
        if (folder / "_compiled.stamp").read_text() != fingerprint(folder):
            return None
        return importlib.import_module(f"{package}._compiled")
    except (OSError, ImportError):
        return None


_CHECKED_CACHES: set[str] = set()


def _drop_stale_cache(package: str) -> None:
    """Remove numba's cached machine code of a package whose sources changed since it was written."""
    parent = sys.modules.get(package)
    if package in _CHECKED_CACHES or parent is None or parent.__file__ is None:
        return
    _CHECKED_CACHES.add(package)
    folder = Path(parent.__file__).parent
    stamp = folder / "__pycache__" / "kernels.stamp"
    current = fingerprint(folder)
    try:
        if stamp.exists() and stamp.read_text() == current:
            return
        for index in stamp.parent.glob("*.nbi"):
            index.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(current)
    except OSError:
        return  # a read-only installation: its sources do not change either


def fingerprint(folder: Path) -> str:
    """Identify the kernel sources of a folder together with what the machine code depends on."""
    digest = hashlib.blake2b(f"{sys.implementation.cache_tag}".encode(), digest_size=16)
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
