"""Reductions of whole windows, one axis after the other.

The largest, the smallest or the sum of a k x k window is that of k shifted results of 1 x k windows: 2k operations for
a cell instead of k*k. So is a weighted sum whose weights are an outer product. The result of each axis is fenced off,
or XLA would compute it again for each shift. Along an axis on which a window is long, windows are doubled:

    m1[i] = a[i]     m2[i] = m1[i] + m1[i+1]     m4[i] = m2[i] + m2[i+2]     sum of 6 at i = m4[i] + m2[i+4]
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.regions import Box, Points
from stencilx.walls import is_plain
from stencilx_jax.fences import fenced
from stencilx_jax.scalars import at_least_one
from stencilx_jax.shifts import MANY, Shifts, moved, outside, sliced, with_constants

WORTH_IT = 16
"""Windows of fewer cells are reduced as they are."""

DOUBLED_FROM = 12
"""Along an axis on which a window has so many cells, windows are doubled, each time in a pass of its own."""

Places = Sequence[Sequence[range]]
"""For each axis, and for each tap of the window there, where the cells of a box read."""

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {"max": lax.max, "min": lax.min, "sum": lax.add}


@dataclass(frozen=True, eq=False)
class Reduction:
    """What is read: "max", "min" or "sum" of the window; a sum may have a factor for each place on each axis."""

    kind: str
    factors: tuple[np.ndarray, ...] = ()


def factors(weights: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """Vectors, one for each axis, whose outer product the weights are to the last digits; None if there are none."""
    if not weights.size or not np.isfinite(weights).all() or not np.issubdtype(weights.dtype, np.floating):
        return None
    largest = np.unravel_index(np.abs(weights).argmax(), weights.shape)
    pivot = weights[largest]
    if pivot == 0:
        return None
    exact = weights.astype(np.float64)
    found = []
    for axis in range(weights.ndim):
        index = tuple(slice(None) if a == axis else i for a, i in enumerate(largest))
        found.append(exact[index] / (1.0 if axis == 0 else float(pivot)))
    product = functools.reduce(np.multiply.outer, found)
    close = np.abs(product - exact).max() <= 4 * np.finfo(weights.dtype).eps * abs(float(pivot))
    return tuple(vector.astype(weights.dtype) for vector in found) if close else None


def reduced(reduction: Reduction, shifts: Shifts, cells: Box | Points) -> Any:
    """The reduction of the window of each cell: an array of a box's shape, or with one axis for points."""
    g = shifts.plan.geometry
    box = tuple(range(n) for n in g.grid) if isinstance(cells, Points) else cells
    places = [
        [g.positions(axis, r, tap) for tap in range(low, high + 1)]
        for axis, (r, low, high) in enumerate(zip(box, g.window.lo, g.window.hi))
    ]
    beyond = _beyond(reduction, shifts)
    if beyond is None:
        inside = [[moved(p, before) for p in ps] for ps, (before, _) in zip(places, shifts.ghosts)]
        result = _along_axes(reduction, shifts.extended, inside, [(0, 0)] * len(box))
    else:
        result = _along_axes(reduction, shifts.array, places, beyond)
    return result[cells.index] if isinstance(cells, Points) else result


def _beyond(reduction: Reduction, shifts: Shifts) -> list[tuple[Any, Any]] | None:
    """The constants outside, if the passes along the axes may pad them one by one; then no copy with ghosts is made."""
    values = []
    for sides, counts in zip(shifts.rules, shifts.ghosts):
        found = [rule.value if is_plain(rule) else None for rule in sides]
        if any(n and (v is None or (reduction.kind == "sum" and v != 0)) for v, n in zip(found, counts)):
            return None
        values.append((found[0] or 0, found[1] or 0))
    return values


def _along_axes(reduction: Reduction, array: Any, places: Places, beyond: Sequence[tuple[Any, Any]]) -> Any:
    if reduction.kind == "sum" or not jnp.issubdtype(array.dtype, jnp.inexact):
        return _passes(reduction, array, places, beyond)

    @jax.custom_jvp
    def extremum(array: Any) -> Any:
        return _passes(reduction, array, places, beyond)

    @extremum.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Where several cells are the largest, they share its gradient, as in `jnp.max`."""
        (array,), (move,) = primals, tangents
        result = extremum(array)
        ghosts = [
            outside(range(min(p.start for p in ps), max(p.stop for p in ps)), n) for ps, n in zip(places, array.shape)
        ]
        at = [[moved(p, before) for p in ps] for ps, (before, _) in zip(places, ghosts)]
        for axis, (counts, values) in enumerate(zip(ghosts, beyond)):
            array, move = with_constants(array, axis, counts, values), with_constants(move, axis, counts, (0, 0))
        here = [lax.convert_element_type(sliced(array, c) == result, result.dtype) for c in itertools.product(*at)]
        shared = (lax.mul(h, sliced(move, c)) for h, c in zip(here, itertools.product(*at)))
        return result, lax.div(functools.reduce(lax.add, shared), at_least_one(functools.reduce(lax.add, here)))

    return extremum(array)


def _passes(reduction: Reduction, array: Any, places: Places, beyond: Sequence[tuple[Any, Any]]) -> Any:
    for axis, (taps, values) in enumerate(zip(places, beyond)):
        weights = reduction.factors[axis] if reduction.factors else None
        step = functools.partial(_pass, reduction.kind, axis, taps, values, weights)
        array = step(array) if axis == len(places) - 1 else fenced(jax.jit(step), array)
    return array


def _pass(
    kind: str, axis: int, taps: Sequence[range], values: tuple[Any, Any], weights: np.ndarray | None, array: Any
) -> Any:
    """The reduction along one axis, of the places that each tap reads."""
    if weights is None and len(taps) >= DOUBLED_FROM and taps[0].step == 1 and len(taps[0]):
        return _doubled(kind, array, axis, taps, values)
    if len(taps) > MANY:
        array, taps = _padded(array, axis, taps, values)
    read = []
    for places in taps:
        counts = outside(places, array.shape[axis])
        inside = _slice(array, axis, places[counts[0] : len(places) - counts[1]])
        read.append(with_constants(inside, axis, counts, values))
    if weights is not None:
        read = [value * jnp.asarray(w, array.dtype) for value, w in zip(read, weights)]
    return functools.reduce(_OPERATIONS[kind], read)


def _padded(array: Any, axis: int, taps: Sequence[range], values: tuple[Any, Any]) -> tuple[Any, list[range]]:
    """One copy with all constants that taps read along an axis, and where they read in it."""
    n = array.shape[axis]
    before = max(0, -min(places.start for places in taps))
    after = max(0, max(places[-1] + 1 if places else 0 for places in taps) - n)
    return with_constants(array, axis, (before, after), values), [moved(places, before) for places in taps]


def _slice(array: Any, axis: int, places: range) -> Any:
    return sliced(array, [places if a == axis else range(n) for a, n in enumerate(array.shape)])


def _doubled(kind: str, array: Any, axis: int, taps: Sequence[range], values: tuple[Any, Any]) -> Any:
    """The reduction of a long window along one axis: of two halves, each of two halves ..."""
    array, along = _padded(array, axis, taps, values)
    operation, count = _OPERATIONS[kind], len(along)
    apart = along[1].start - along[0].start
    length, first = len(along[0]), along[0].start
    array = _slice(array, axis, range(first, along[-1].stop))
    size, total, done = 1, None, 0

    def both(shift: int, array: Any) -> Any:
        n = array.shape[axis] - shift
        return operation(_slice(array, axis, range(n)), _slice(array, axis, range(shift, shift + n)))

    while True:
        if kind == "sum" and count & size:  # this power of two is part of the count
            piece = _slice(array, axis, range(done * apart, done * apart + length))
            total, done = piece if total is None else operation(total, piece), done + size
        if 2 * size > count:
            break
        array, size = fenced(jax.jit(functools.partial(both, size * apart)), array), 2 * size
    if kind == "sum":
        return total
    rest = (count - size) * apart  # the last window overlaps: the largest of both is that of all
    return operation(_slice(array, axis, range(length)), _slice(array, axis, range(rest, rest + length)))
