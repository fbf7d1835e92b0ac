"""Reductions of whole windows, one axis after the other.

The largest, the smallest or the sum of a k x k window is that of k shifted results of 1 x k windows: 2k operations for
a cell instead of k*k. So is a weighted sum whose weights are an outer product. The result of each axis is fenced off,
or XLA would compute it again for each shift. Along an axis on which a window is long, windows are doubled:

    m1[i] = a[i]     m2[i] = m1[i] + m1[i+1]     m4[i] = m2[i] + m2[i+2]     sum of 6 at i = m4[i] + m2[i+4]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.regions import Box, Points
from stencilx_jax.fences import fenced
from stencilx_jax.shifts import Shifts, sliced

WORTH_IT = 16
"""Windows of fewer cells are reduced as they are."""

DOUBLED_FROM = 12
"""Along an axis on which a window has so many cells, windows are doubled, each time in a pass of its own."""

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
    g, grid = shifts.plan.geometry, shifts.plan.geometry.grid
    box = tuple(range(n) for n in grid) if isinstance(cells, Points) else cells
    taps = [range(low, high + 1) for low, high in zip(g.window.lo, g.window.hi)]
    places = []
    for axis, (r, across) in enumerate(zip(box, taps)):
        found = (g.positions(axis, r, tap) for tap in across)
        before = shifts.ghosts[axis][0]
        places.append([range(p.start + before, p.stop + before, p.step) for p in found])
    result = _along_axes(reduction, shifts.extended, places)
    return result[cells.index] if isinstance(cells, Points) else result


def _along_axes(reduction: Reduction, array: Any, places: Sequence[Sequence[range]]) -> Any:
    if reduction.kind == "sum":
        return _passes(reduction, array, places)
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return _passes(reduction, array, places)

    @jax.custom_jvp
    def extremum(array: Any) -> Any:
        return _passes(reduction, array, places)

    @extremum.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Where several cells are the largest, they share its gradient, as in `jnp.max`."""
        (array,), (move,) = primals, tangents
        result = extremum(array)
        corners = [(p,) for p in places[0]]
        for axis in range(1, len(places)):
            corners = [(*corner, p) for corner in corners for p in places[axis]]
        here = [lax.convert_element_type(sliced(array, c) == result, result.dtype) for c in corners]
        moved = functools.reduce(lax.add, (lax.mul(h, sliced(move, c)) for h, c in zip(here, corners)))
        return result, lax.div(moved, functools.reduce(lax.add, here))

    return extremum(array)


def _passes(reduction: Reduction, array: Any, places: Sequence[Sequence[range]]) -> Any:
    last = len(places) - 1
    for axis, along in enumerate(places):
        weights = reduction.factors[axis] if reduction.factors else None
        step = functools.partial(_pass, _OPERATIONS[reduction.kind], axis, along, weights)
        if weights is None and len(along) >= DOUBLED_FROM and along[0].step == 1 and len(along[0]):
            array = _doubled(reduction.kind, array, axis, along)
        elif len(along) > 1 or weights is not None:
            array = step(array) if axis == last else fenced(jax.jit(step), array)
        else:
            array = _slice(array, axis, along[0])
    return array


def _pass(
    operation: Callable[[Any, Any], Any], axis: int, along: Sequence[range], weights: np.ndarray | None, array: Any
) -> Any:
    """The reduction along one axis, of the places that each tap reads."""
    values = (_slice(array, axis, places) for places in along)
    if weights is not None:
        values = (value * jnp.asarray(w, array.dtype) for value, w in zip(values, weights))
    return functools.reduce(operation, values)


def _slice(array: Any, axis: int, places: range) -> Any:
    return sliced(array, [places if a == axis else range(n) for a, n in enumerate(array.shape)])


def _doubled(kind: str, array: Any, axis: int, along: Sequence[range]) -> Any:
    """The reduction of a long window along one axis: of two halves, each of two halves ..."""
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
