"""Shifted slices of a field in any array library, and how values are put into cells.

The field is extended by its ghosts once, then sliced. What is written goes into arrays of our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import array_api_compat
import numpy as np

from stencilx.boundary import Constant, Rule, Slot
from stencilx.fields import FieldPlan
from stencilx.regions import Box, Points
from stencilx.walls import copying, face_shape, filled, ghost, ghost_runs
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

    def __init__(self, plan: FieldPlan, array: Any, rule: Callable[[Rule, int], Rule], xp: Any) -> None:
        """`rule` gives a rule of one of the axes the values with which it meets slices of the array."""
        self.plan, self.xp, self._with_values = plan, xp, rule
        self.device = array_api_compat.device(array)
        for axis, (rules, counts) in enumerate(zip(plan.rules, plan.ghosts, strict=True)):
            n = plan.shape[axis]
            before = self._ghosts(array, axis, range(-counts[0], 0), rules[0])
            after = self._ghosts(array, axis, range(n, n + counts[1]), rules[1])
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

    def _ghosts(self, array: Any, axis: int, places: range, rule: Rule) -> list[Any]:
        """The ghosts at places beyond one end of an axis, piece by piece, from what is there already."""
        if not places:
            return []
        shape, n = list(array.shape), array.shape[axis]
        rule = self._with_values(rule, axis)
        if isinstance(rule, Constant):
            shape[axis] = len(places)
            value = like(rule.value, array, self.xp)
            return [self.xp.broadcast_to(value, tuple(shape))]
        if not rule.copies:
            slabs = (ghost(rule, place, n, lambda i: array[_only(axis, i, array.ndim)]) for place in places)
            return [self.xp.astype(slab, array.dtype, copy=False) for slab in slabs]
        pieces = []
        for run in ghost_runs(rule, places, n):
            low = min(run.start, run.start + run.step * (run.count - 1))
            key = [slice(None)] * array.ndim
            key[axis] = slice(low, low + 1 + (run.count - 1) * abs(run.step))
            piece = array[tuple(key)]
            if run.step == 0:
                shape[axis] = run.count
                piece = self.xp.broadcast_to(piece, tuple(shape))
            pieces.append(self.xp.flip(piece, axis=axis) if run.step < 0 else piece)
        return pieces


def _only(axis: int, i: int, ndim: int) -> tuple[slice, ...]:
    return tuple(slice(i, i + 1) if a == axis else slice(None) for a in range(ndim))


class Walls:
    """The values of boundary rules in a call, in the library of the fields."""

    def __init__(self, values: Sequence[Any], xp: Any) -> None:
        self._values, self._xp = values, xp

    def of_field(self, f: FieldPlan, array: Any, place: Mapping[int, int] | None = None) -> Callable[[Rule, int], Rule]:
        """How rules get values that meet slices of a field; or of a slab of it, at a place along the other axes."""
        place = place or {}
        free = [axis for axis in range(len(f.shape)) if axis not in place]

        def shaped(slot: Slot, axis: int) -> Any:
            value = self._full(slot, f, array, axis)
            if not getattr(value, "shape", ()):
                return value
            value = value[self._index(f, value, place)]
            for number, other in enumerate(free[: free.index(axis)]):  # what is extended by its ghosts already
                if value.shape[number] > 1:
                    before, after = f.ghosts[other]
                    index = [_beside(f, other, i) for i in range(-before, f.shape[other] + after)]
                    numbers = self._xp.asarray(index, device=array_api_compat.device(value))
                    value = self._xp.take(value, numbers, axis=number)
            return value

        return lambda rule, number: filled(rule, lambda slot: shaped(slot, free[number]))

    def at_place(self, f: FieldPlan, array: Any, axis: int, place: Mapping[int, int]) -> Rule:
        """The rule beyond one end of an axis with the values that it has beside a place along some axes."""
        rule = f.rules[axis][0 if place[axis] < 0 else 1]

        def chosen(slot: Slot) -> Any:
            value = self._full(slot, f, array, axis)
            return value[self._index(f, value, place)] if getattr(value, "shape", ()) else value

        return filled(rule, chosen)

    def _full(self, slot: Slot, f: FieldPlan, array: Any, axis: int) -> Any:
        """A value as an array of the field's rank and dtype, as thick as 1 along the rule's axis."""
        value = self._values[slot.number]
        if isinstance(value, (int, float, complex)):
            return value
        if not array_api_compat.is_array_api_obj(value) or array_api_compat.array_namespace(value) is not self._xp:
            value = self._xp.asarray(np.array(value), device=array_api_compat.device(array))
        value = self._xp.astype(value, array.dtype, copy=False)
        return self._xp.reshape(value, face_shape(value, f.shape, axis, f.name)) if value.shape else value

    def _index(self, f: FieldPlan, value: Any, place: Mapping[int, int]) -> tuple[Any, ...]:
        found = {b: _beside(f, b, i) if value.shape[b] > 1 else 0 for b, i in place.items()}
        return tuple(found.get(axis, slice(None)) for axis in range(len(f.shape)))


def _beside(f: FieldPlan, axis: int, place: int) -> int:
    """The index at which a face's value stands beside a place."""
    n, rule = f.shape[axis], f.rules[axis][0 if place < 0 else 1]
    return place if 0 <= place < n else copying(rule).index(place, n)


def sizes(cells: Box | Points) -> tuple[int, ...]:
    """The shape of a part's values: a box's own, one axis for points."""
    return cells.index[0].shape if isinstance(cells, Points) else tuple(len(r) for r in cells)


def as_slice(places: range) -> slice:
    """Places that lie in an array, as an index that ends there too: some libraries insist."""
    return slice(places[0], places[-1] + 1, places.step) if places else slice(0, 0)


def like(value: Any, array: Any, xp: Any) -> Any:
    """A number or an array of the library in the dtype and on the device of another array."""
    device = array_api_compat.device(array)
    if hasattr(value, "dtype"):
        return array_api_compat.to_device(xp.astype(value, array.dtype, copy=False), device)
    return xp.asarray(value, dtype=array.dtype, device=device)


def put(array: Any, value: Any, cells: Box | Points, places: Sequence[range], xp: Any) -> Any:
    """The array, which is ours to write into, with a number or the values of some cells.

    Args:
        places: for each axis of the grid where in the array its cells lie. Further axes are written whole.
    """
    value = like(value, array, xp)
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
