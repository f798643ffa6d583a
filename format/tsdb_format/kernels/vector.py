"""Vector code for the loops over sixteen lanes, which compilers unroll into scalar code: they cannot know that arrays lie apart.

Each function is the definition of one of numba's intrinsics, and stands for the kernel that names it where that is called by
another: given the types of its arguments, it returns a signature and what writes LLVM's instructions. Vectors are wider than those
of any processor, whose compiler cuts them to what it has. numba is imported by whoever compiles, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Definition: TypeAlias = tuple[Any, Callable[..., Any]]
_LANES = 16


def shift_lanes(typing: Any, words: Any, source: Any, shift: Any, mask: Any, out: Any, target: Any) -> Definition:
    """``bitpack.shift_lanes``."""
    del typing

    def code(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        words, source, shift, mask, out, target = args
        low = _load(builder, _data(context, builder, signature.args[0], words), source)
        found = builder.and_(builder.lshr(low, _splat(builder, shift)), _splat(builder, mask))
        _store(builder, found, _data(context, builder, signature.args[4], out), target)
        return context.get_dummy_value()

    return _void(words, source, shift, mask, out, target), code


def join_lanes(typing: Any, words: Any, source: Any, shift: Any, back: Any, mask: Any, out: Any, target: Any) -> Definition:
    """``bitpack.join_lanes``."""
    del typing

    def code(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        words, source, shift, back, mask, out, target = args
        data = _data(context, builder, signature.args[0], words)
        low = builder.lshr(_load(builder, data, source), _splat(builder, shift))
        high = _load(builder, data, builder.add(source, source.type(_LANES)))
        joined = builder.or_(low, builder.shl(high, _splat(builder, back)))
        data = _data(context, builder, signature.args[5], out)
        _store(builder, builder.and_(joined, _splat(builder, mask)), data, target)
        return context.get_dummy_value()

    return _void(words, source, shift, back, mask, out, target), code


def sum_lanes(typing: Any, values: Any, at: Any, before: Any) -> Definition:
    """``bitpack.sum_lanes``: each step adds what is one, two, four, eight lanes before."""
    del typing
    from numba import types

    def code(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        from numba.core.cgutils import ir

        values, at, before = args
        data = _data(context, builder, signature.args[0], values)
        lanes = _load(builder, data, at)
        zero = ir.Constant(lanes.type, None)
        for step in (1, 2, 4, 8):
            places = [_LANES + lane - step if lane >= step else lane for lane in range(_LANES)]
            moved = builder.shuffle_vector(zero, lanes, ir.Constant(_vector(ir.IntType(32)), places))
            lanes = builder.add(lanes, moved)
        lanes = builder.add(lanes, _splat(builder, before))
        _store(builder, lanes, data, at)
        return builder.extract_element(lanes, ir.IntType(32)(_LANES - 1))

    return types.uint64(values, at, before), code


def _void(*arguments: Any) -> Any:
    from numba import types

    return types.void(*arguments)


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of an array's items."""
    return context.make_array(kind)(context, builder, array).data


def _vector(item: Any) -> Any:
    from numba.core.cgutils import ir

    return ir.VectorType(item, _LANES)


def _load(builder: Any, data: Any, index: Any) -> Any:
    found = builder.load(builder.bitcast(builder.gep(data, [index]), _vector(data.type.pointee).as_pointer()))
    found.align = 8
    return found


def _store(builder: Any, lanes: Any, data: Any, index: Any) -> None:
    builder.store(lanes, builder.bitcast(builder.gep(data, [index]), lanes.type.as_pointer())).align = 8


def _splat(builder: Any, item: Any) -> Any:
    """A vector of so many times the same."""
    from numba.core.cgutils import ir

    nothing = ir.Constant(_vector(item.type), ir.Undefined)
    first = builder.insert_element(nothing, item, ir.IntType(32)(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_vector(ir.IntType(32)), [0] * _LANES))
