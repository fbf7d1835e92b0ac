"""Shifted slices of a field in any array library, and how values are put into cells.

The field is extended by its ghosts once, then sliced. What is written goes into arrays of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import array_api_compat
import numpy as np

from stencilx.boundary import IndexRule, Rule, ghost_runs
from stencilx.fields import FieldPlan
from stencilx.regions import Box, Points
from stencilx.window import Offset


class Source(Protocol):
    """A field to be read: shifted slices of an array that stays as it is, or the state of a sweep."""

    @property
    def plan(self) -> FieldPlan: ...
    @property
    def device(self) -> Any: ...

    def read(self, tap: Offset, cells: Box | Points) -> Any:
        """What the cells of a part read with one tap: an array of a box's shape, or with one axis for points."""
        ...


class Shifts:
    """The shifted slices of one field in one run."""

    def __init__(self, plan: FieldPlan, array: Any, xp: Any) -> None:
        self.plan, self.xp = plan, xp
        self.device = array_api_compat.device(array)
        for axis, (rules, counts) in enumerate(zip(plan.rules, plan.ghosts, strict=True)):
            before, after = (self._ghosts(array, axis, side, rules[side], counts[side]) for side in (0, 1))
            if before or after:
                array = xp.concat([*before, array, *after], axis=axis)
        self.extended = array

    def read(self, tap: Offset, cells: Box | Points) -> Any:
        g = self.plan.geometry
        if isinstance(cells, Points):
            index = [
                i * stride + g.position(axis, 0, tap[axis]) + self.plan.ghosts[axis][0]
                for axis, (i, stride) in enumerate(zip(cells.index, g.strides, strict=True))
            ]
            flat = np.ravel_multi_index(index, self.extended.shape)
            numbers = self.xp.asarray(flat, device=self.device)
            return self.xp.take(self.xp.reshape(self.extended, (-1,)), numbers, axis=0)
        places = [g.positions(axis, r, tap[axis]) for axis, r in enumerate(cells)]
        moved = [
            range(p.start + before, p.stop + before, p.step)
            for p, (before, _) in zip(places, self.plan.ghosts, strict=True)
        ]
        return self.extended[tuple(map(as_slice, moved))]

    def _ghosts(self, array: Any, axis: int, side: int, rule: Rule, count: int) -> list[Any]:
        """The ghosts on one side of one axis, piece by piece, as copies of what is there already."""
        if not count:
            return []
        shape = list(array.shape)
        if not isinstance(rule, IndexRule):
            shape[axis] = count
            return [self.xp.full(tuple(shape), rule.value, dtype=array.dtype, device=self.device)]
        pieces = []
        n = array.shape[axis]
        for run in ghost_runs(rule, range(n, n + count) if side else range(-count, 0), n):
            low = min(run.start, run.start + run.step * (run.count - 1))
            key = [slice(None)] * array.ndim
            key[axis] = slice(low, low + 1 + (run.count - 1) * abs(run.step))
            piece = array[tuple(key)]
            if run.step == 0:
                shape[axis] = run.count
                piece = self.xp.broadcast_to(piece, tuple(shape))
            pieces.append(self.xp.flip(piece, axis=axis) if run.step < 0 else piece)
        return pieces


def sizes(cells: Box | Points) -> tuple[int, ...]:
    """The shape of a part's values: a box's own, one axis for points."""
    return cells.index[0].shape if isinstance(cells, Points) else tuple(len(r) for r in cells)


def as_slice(places: range) -> slice:
    """Places that lie in an array, as an index that ends there too: some libraries insist."""
    return slice(places[0], places[-1] + 1, places.step) if places else slice(0, 0)


def put(array: Any, value: Any, cells: Box | Points, places: Sequence[range], xp: Any) -> Any:
    """The array, which is ours to write into, with a number or the values of some cells.

    Args:
        places: for each axis of the grid where in the array its cells lie. Further axes are written whole.
    """
    device = array_api_compat.device(array)
    if hasattr(value, "dtype"):
        value = array_api_compat.to_device(xp.astype(value, array.dtype, copy=False), device)
    else:
        value = xp.asarray(value, dtype=array.dtype, device=device)
    if isinstance(cells, Points):
        return _with_points(array, value, cells, places, xp)
    chosen = [as_slice(p[r.start : r.stop : r.step]) for p, r in zip(places, cells, strict=True)]
    array[(*chosen, ...)] = value
    return array


def _with_points(array: Any, value: Any, points: Points, places: Sequence[range], xp: Any) -> Any:
    """The array with single cells replaced, in terms that every library has: values are taken, cells chosen."""
    grid = array.shape[: len(places)]
    index = tuple(np.asarray(p)[i] for p, i in zip(places, points.index, strict=True))
    number = np.full(grid, -1, np.int64)
    number[index] = np.arange(index[0].size)
    device = array_api_compat.device(array)
    here = xp.asarray((number >= 0).reshape(*grid, *[1] * (array.ndim - len(grid))), device=device)
    if value.shape:
        taken = xp.asarray(np.maximum(number, 0).ravel(), device=device)
        value = xp.reshape(xp.take(value, taken, axis=0), array.shape)
    return xp.where(here, value, array)
