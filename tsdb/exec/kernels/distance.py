"""Distances of vectors to one vector: exactly as they are shown, or quickly and within a bound, for many rows in place.

Rows come as spans: ``rows[i]`` rows from item ``start[i]`` on; a negative start stands for rows that are all NULL. What a distance
is has DuckDB's arithmetic: sums of floats in the order of components, each product fused with the addition. ``metric`` is one of
the numbers below.
"""

# mypy: disable-error-code="no-untyped-def,assignment"
from __future__ import annotations

import numpy as np

from tsdb_format.kernels.registry import kernel

u = np.uint64
DISTANCE, COSINE_DISTANCE, COSINE_SIMILARITY, INNER_PRODUCT, NEGATIVE_INNER_PRODUCT = 0, 1, 2, 3, 4
#: Lengths, and their squares, between which cosines are computed without leaving the range of ordinary floats.
LENGTH_MIN, LENGTH_MAX = 1e-9, 1e9
SQUARE_MIN, SQUARE_MAX = 1e-18, 1e18
#: Up to here sums of products surely stay finite.
LARGE = 1e37
#: Floats that are neither zero nor so small that they lose digits.
NORMAL_MIN = 1.1754944e-38
INFINITE = np.float32(np.inf)
#: Rows that are summed side by side.
TOGETHER = 16


@kernel("(f32[in], i64[in], i64[in], f32[in], i64, f32[out]) -> void")
def distances(items, start, rows, target, metric, out):
    """The distance of every row, anything for those without items. Some are summed side by side: each sum waits for itself."""
    width = len(target)
    totals = np.empty(TOGETHER, np.float32)
    squares = np.empty(TOGETHER, np.float32)
    add_products(target, 0, 1, target, False, squares)
    square = squares[0]
    at = 0
    for span in range(len(start)):
        for done in range(0, rows[span], TOGETHER):
            count = min(TOGETHER, rows[span] - done)
            first = start[span] + done * width
            if start[span] < 0:
                totals[:] = np.float32(0.0)
            elif metric == DISTANCE:
                add_squares(items, first, count, target, totals)
            else:
                add_products(items, first, count, target, False, totals)
            if start[span] >= 0 and (metric == COSINE_DISTANCE or metric == COSINE_SIMILARITY):
                add_products(items, first, count, target, True, squares)
                for i in range(count):
                    totals[i] = similarity(items, first + i * width, target, totals[i], squares[i], square)
            for i in range(count):
                if metric == DISTANCE:
                    out[at + i] = np.float32(np.sqrt(totals[i]))
                elif metric == COSINE_DISTANCE:
                    out[at + i] = np.float32(1.0) - totals[i]
                else:
                    out[at + i] = -totals[i] if metric == NEGATIVE_INNER_PRODUCT else totals[i]
            at += count


@kernel("(f32, f32, f32) -> f32", inline=True)
def fused(x, y, total):
    """``x * y + total``, rounded once: a product of two floats is exact as a double."""
    return np.float32(np.float64(x) * np.float64(y) + np.float64(total))


@kernel("(f32[in], i64, i64, f32[in], f32[out]) -> void")
def add_squares(items, at, rows, target, totals):
    """The squared Euclidean distances of some neighbours."""
    width = u(len(target))
    totals[:] = np.float32(0.0)
    for j in range(width):
        other = target[j]
        for i in range(u(rows)):
            step = items[u(at) + i * width + j] - other
            totals[i] = fused(step, step, totals[i])


@kernel("(f32[in], i64, i64, f32[in], b1, f32[out]) -> void")
def add_products(items, at, rows, target, own, totals):
    """The inner products of some neighbours with the target or, where ``own``, with themselves."""
    width = u(len(target))
    totals[:] = np.float32(0.0)
    for j in range(width):
        other = target[j]
        for i in range(u(rows)):
            item = items[u(at) + i * width + j]
            totals[i] = fused(item, item if own else other, totals[i])


@kernel("(f32[in], i64, f32[in], f32, f32, f32) -> f32")
def similarity(items, at, target, product, own, square):
    """The cosine of the angle of a row, given its inner products: with the target, with itself, of the target with itself.

    NaN where one has no length. Where squares leave the range of floats all is taken as doubles.
    """
    both = own * square
    if both >= NORMAL_MIN and both < INFINITE and own >= NORMAL_MIN and square >= NORMAL_MIN and abs(product) < INFINITE:
        found = product / np.float32(np.sqrt(both))
    else:
        exact, first_square, second_square = 0.0, 0.0, 0.0
        for j in range(u(len(target))):
            item, other = np.float64(items[u(at) + j]), np.float64(target[j])
            exact += item * other
            first_square += item * item
            second_square += other * other
        length = np.sqrt(first_square) * np.sqrt(second_square)
        found = np.float32(exact / length) if length > 0.0 else np.float32(np.nan)
    if found > np.float32(1.0):
        return np.float32(1.0)
    if found < np.float32(-1.0):
        return np.float32(-1.0)
    return found


@kernel("(f32[in], i64[in], i64[in], f32[in], i64, f64, b1, b1[out]) -> void")
def may_reach(items, start, rows, target, metric, limit, descending, out):
    """Which rows' distance may be ``limit`` or better: less is better, or ``descending`` more. No row is left out wrongly.

    Sums are taken in any order here: they are off by a share of themselves (inner products: of the product of the lengths).
    """
    width = len(target)
    share = share_off(width)
    square = np.float64(inner_quickly(target, 0, target, 0, width))
    at = 0
    for span in range(len(start)):
        for row in range(rows[span]):
            if start[span] < 0:
                out[at] = True
            elif metric == DISTANCE:
                total = np.float64(square_quickly(items, start[span] + row * width, target))
                bound = np.sqrt(total) * (1.0 + share if descending else 1.0 - share)
                tiny = width * 2.0**-72
                hopeless = bound + tiny < limit if descending else bound - tiny > limit
                out[at] = not (total < LARGE and hopeless)
            else:
                first = start[span] + row * width
                product = np.float64(inner_quickly(items, first, target, 0, width))
                own = np.float64(inner_quickly(items, first, items, first, width))
                off = share * np.sqrt(own * square) + width * 2.0**-148
                bounded = own < LARGE and square < LARGE and own * square < LARGE
                if metric == COSINE_DISTANCE or metric == COSINE_SIMILARITY:
                    bounded = own > SQUARE_MIN and own < SQUARE_MAX and square > SQUARE_MIN and square < SQUARE_MAX
                    if bounded:
                        product /= np.sqrt(own * square)
                        off = 4.0 * share
                value = shown(product, metric)
                hopeless = value + off < limit if descending else value - off > limit
                out[at] = not (bounded and hopeless)
            at += 1


@kernel("(f32[in], f64[in], f32[in], i64, f64[out], f64[out]) -> void")
def bounds_of_balls(centroid, radius, target, metric, low, high):
    """Between which values the distances of all vectors in a ball are as they are computed; infinities where that is not known.

    ``centroid`` is as many floats a ball as ``target`` has. A ball of nothing (a negative radius) gets 0.
    """
    width = len(target)
    share = share_off(width)
    length = 0.0
    for j in range(width):
        length += np.float64(target[j]) * np.float64(target[j])
    length = np.sqrt(length)
    for ball in range(len(radius)):
        low[ball] = -np.inf
        high[ball] = np.inf
        reach = radius[ball]
        if reach < 0.0:
            low[ball] = 0.0
            high[ball] = 0.0
            continue
        if not (reach < np.inf and length < np.inf):
            continue
        apart, product, own = 0.0, 0.0, 0.0
        for j in range(width):
            item, other = np.float64(centroid[ball * width + j]), np.float64(target[j])
            apart += (item - other) * (item - other)
            product += item * other
            own += item * item
        apart = np.sqrt(apart)
        own = np.sqrt(own)
        if metric == DISTANCE:
            rounding = 1e-12 * (apart + reach) + width * 2.0**-72
            low[ball] = (apart - reach) * (1.0 - share) - rounding
            if apart + reach < SQUARE_MAX:
                high[ball] = (apart + reach) * (1.0 + share) + rounding
        elif metric == INNER_PRODUCT or metric == NEGATIVE_INNER_PRODUCT:
            if length * (own + reach) < LARGE:
                off = length * reach + (share + 1e-12) * length * (own + reach) + width * 2.0**-148
                value = shown(product, metric)
                low[ball] = value - off
                high[ball] = value + off
        elif LENGTH_MIN < own - reach and own + reach < LENGTH_MAX and LENGTH_MIN < length and length < LENGTH_MAX:
            angle = np.arccos(min(1.0, max(-1.0, product / (own * length))))
            spread = np.arcsin(min(1.0, reach / own))
            off = 4.0 * share + 1e-6  # of the angles, which are least exact where they are small
            nearest = np.cos(max(0.0, angle - spread)) + off
            farthest = np.cos(min(np.pi, angle + spread)) - off
            low[ball] = farthest if metric == COSINE_SIMILARITY else 1.0 - nearest
            high[ball] = nearest if metric == COSINE_SIMILARITY else 1.0 - farthest


@kernel("(i64) -> f64", inline=True)
def share_off(width):
    """By what share a sum of so many products, and what is computed of it, is at most off, whatever the order of addition."""
    return (width + 16) * 2.0**-22


@kernel("(f64, i64) -> f64", inline=True)
def shown(product, metric):
    """What a metric makes of an inner product, or a cosine."""
    if metric == COSINE_DISTANCE:
        return 1.0 - product
    return -product if metric == NEGATIVE_INNER_PRODUCT else product


@kernel("(f32[in], i64, f32[in]) -> f32", reassociates=True)
def square_quickly(items, at, target):
    """The squared distance, in any order of addition."""
    total = np.float32(0.0)
    first = u(at)
    for j in range(u(len(target))):
        step = items[first + j] - target[j]
        total += step * step
    return total


@kernel("(f32[in], i64, f32[in], i64, i64) -> f32", reassociates=True)
def inner_quickly(items, at, others, other, width):
    """The inner product, in any order of addition."""
    total = np.float32(0.0)
    first, second = u(at), u(other)
    for j in range(u(width)):
        total += items[first + j] * others[second + j]
    return total
