"""Shifted copies of a field: what one read gives, for a box of cells at a time.

A read that stays inside the array is a plain slice. One that sticks out where constants lie outside is a slice with
that constant padded on (XLA fuses it: nothing padded is stored). For other rules the field is extended once, axis 0
first, and sliced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.boundary import Constant, IndexRule, Rule, ghost_runs
from stencilx.plan import FieldPlan
from stencilx.regions import Box, Points
from stencilx.window import Offset


class Shifts:
    """The shifted copies of one field in one run."""

    def __init__(self, plan: FieldPlan, array: Any, grid: Sequence[int]) -> None:
        self.plan, self.array = plan, array
        self.ghosts = plan.geometry.ghosts(plan.reads, grid)
        self._extended: Any = None

    @property
    def extended(self) -> Any:
        """The field with all ghosts that are read."""
        if self._extended is None:
            array = self.array
            for axis, counts in enumerate(self.ghosts):
                pieces = [_ghosts(array, axis, side, self.plan.rules[axis][side], counts[side]) for side in (0, 1)]
                if any(counts):
                    array = lax.concatenate([p for p in (pieces[0], array, pieces[1]) if p is not None], axis)
            self._extended = array
        return self._extended

    def read(self, tap: Offset, cells: Box) -> Any:
        """What the cells of a box read with one tap: an array of the box's shape."""
        places = [self.plan.geometry.positions(axis, r, o) for axis, (r, o) in enumerate(zip(cells, tap))]
        outside = [_outside(p, n) for p, n in zip(places, self.array.shape)]
        used = [
            (self.plan.rules[axis][side], axis, side)
            for axis, pair in enumerate(outside)
            for side in (0, 1)
            if pair[side]
        ]
        if all(isinstance(rule, Constant) for rule, _, _ in used):
            return self._padded(places, outside)
        shifted = [range(p.start + g[0], p.stop + g[0], p.step) for p, g in zip(places, self.ghosts)]
        return _sliced(self.extended, shifted)

    def read_points(self, tap: Offset, points: Points) -> Any:
        """What single cells read with one tap: an array with one axis."""
        g = self.plan.geometry
        index = []
        for axis, cells in enumerate(points.index):
            first = g.position(axis, 0, tap[axis]) + self.ghosts[axis][0]
            index.append(first + cells * g.strides[axis])
        return self.extended[tuple(index)]

    def windows(self, cells: Box) -> Any:
        """The whole windows of a box of cells: an array of the box's shape followed by the window's."""
        g = self.plan.geometry
        starts = [
            jnp.asarray(np.asarray(g.positions(axis, r, g.window.lo[axis]), np.int32) + self.ghosts[axis][0])
            for axis, r in enumerate(cells)
        ]
        return self._cut(starts, one_axis=False)

    def windows_at_points(self, points: Points) -> Any:
        g = self.plan.geometry
        starts = [
            jnp.asarray(
                (g.position(axis, 0, g.window.lo[axis]) + self.ghosts[axis][0] + i * g.strides[axis]).astype(np.int32)
            )
            for axis, i in enumerate(points.index)
        ]
        return self._cut(starts, one_axis=True)

    def _cut(self, starts: Sequence[Any], one_axis: bool) -> Any:
        g, array = self.plan.geometry, self.extended

        def cut(*at: Any) -> Any:
            window = lax.dynamic_slice(array, at, g.extent)
            return lax.slice(window, (0,) * window.ndim, window.shape, g.dilation)

        if one_axis:
            return jax.vmap(cut)(*starts)
        for axis in reversed(range(len(starts))):
            cut = jax.vmap(cut, in_axes=tuple(0 if a == axis else None for a in range(len(starts))))
        return cut(*starts)

    def _padded(self, places: Sequence[range], outside: Sequence[tuple[int, int]]) -> Any:
        inside = [p[before : len(p) - after] for p, (before, after) in zip(places, outside)]
        array = _sliced(self.array, inside)
        for axis, counts in enumerate(outside):
            for side, count in enumerate(counts):
                if count:
                    rule = self.plan.rules[axis][side]
                    assert isinstance(rule, Constant)
                    widths = [(0, 0, 0)] * array.ndim
                    widths[axis] = (count, 0, 0) if side == 0 else (0, count, 0)
                    array = lax.pad(array, jnp.asarray(rule.value, array.dtype), widths)
        return array


def _outside(places: range, length: int) -> tuple[int, int]:
    """How many of the places lie before and after an axis of that length."""
    if not places:
        return 0, 0
    before = max(0, -(places[0] // places.step))
    after = max(0, (places[-1] - length) // places.step + 1)
    return min(before, len(places)), min(after, len(places))


def _sliced(array: Any, places: Sequence[range]) -> Any:
    starts = [p.start if len(p) else 0 for p in places]
    limits = [p[-1] + 1 if len(p) else 0 for p in places]
    steps = [p.step if len(p) > 1 else 1 for p in places]
    whole = all(s == 0 and n == size and t == 1 for s, n, size, t in zip(starts, limits, array.shape, steps))
    return array if whole else lax.slice(array, starts, limits, steps)


def _ghosts(array: Any, axis: int, side: int, rule: Rule, count: int) -> Any:
    """The ghosts on one side of one axis, as copies of what is there already."""
    if not count:
        return None
    shape = list(array.shape)
    if not isinstance(rule, IndexRule):
        shape[axis] = count
        return jnp.full(shape, rule.value, array.dtype)
    pieces = []
    for run in ghost_runs(rule, side, array.shape[axis], count):
        if run.step == 0:
            shape[axis] = run.count
            one = lax.slice_in_dim(array, run.start, run.start + 1, axis=axis)
            pieces.append(lax.broadcast_in_dim(one, shape, range(array.ndim)))
        elif run.step == 1:
            pieces.append(lax.slice_in_dim(array, run.start, run.start + run.count, axis=axis))
        else:
            low = run.start - run.count + 1
            pieces.append(lax.rev(lax.slice_in_dim(array, low, run.start + 1, axis=axis), (axis,)))
    return pieces[0] if len(pieces) == 1 else lax.concatenate(pieces, axis)
