"""Kernels over pieces: stretches of some arrays that follow each other in another."""

from __future__ import annotations

from tsdb_format.kernels.registry import kernel


@kernel("(u8[in], i64[in], i64[in], i64[in], u8[out]) -> void", small=True)
def move(values, starts, stops, places, out):  # type: ignore[no-untyped-def]
    """Copy the bytes starts[i] to stops[i] of ``values`` to ``out``, from places[i] on."""
    for i in range(starts.shape[0]):
        length = stops[i] - starts[i]
        out[places[i] : places[i] + length] = values[starts[i] : stops[i]]
