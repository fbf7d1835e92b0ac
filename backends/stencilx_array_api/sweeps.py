"""Sweeps in any array library: the cells in an order that respects what each reads, many of them at once.

Called by the backend in place of a map. A *step* is what may be computed together: all its cells are evaluated, and
then written. Between steps lives the state of the fields that are updated, as values that are replaced and never
modified, so that automatic differentiation goes through:

    parallel, rows   a slab for each index along the walked axes, read by slices          `Slabs`
    wavefront, cells a value for each cell, those that are read together put in a row     `Singles`

A wavefront gives the numbers of single cells with fewer calls of the kernel, so it is also taken for "cells" where the
order was left to us.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import array_api_compat
import numpy as np

from stencilx.boundary import Rule
from stencilx.fields import FieldPlan
from stencilx.plan import Plan
from stencilx.regions import Box, Part, Points
from stencilx.window import Offset
from stencilx_array_api.shifts import Shifts, Source, Walls, as_slice, like, put, sizes

Evaluate = Callable[[Part, Sequence[Source]], Sequence[Any]]
"""For each update the values in the cells of a part: a number, or an array of their shape."""


def run(plan: Plan, arrays: Sequence[Any], walls: Walls, evaluate: Evaluate, xp: Any) -> list[Any]:
    """The updated fields of a sweep, or what was written on the output grid."""
    if not plan.cells:
        return [_result(plan, plan.fields[n], xp.astype(arrays[n], arrays[n].dtype, copy=True)) for n in plan.updates]
    states: dict[int, Slabs | Singles] = {}
    walked = plan.schedule.order[: plan.schedule.axes]
    by_slabs = len(walked) < len(plan.grid)
    for number in plan.updates:
        f, own = plan.fields[number], xp.astype(arrays[number], arrays[number].dtype, copy=True)
        states[number] = Slabs(plan, f, own, walls, xp) if by_slabs else Singles(plan, f, own, walls, xp)
    sources = [
        states.get(n) or Shifts(f, arrays[n], walls.of_field(f, arrays[n]), xp) for n, f in enumerate(plan.fields)
    ]
    for step in _walks(plan, walked) if by_slabs else _groups(plan):
        computed = [(part.cells, evaluate(part, sources)) for part in step]
        for cells, results in computed:
            for number, values in zip(plan.updates, results, strict=True):
                states[number].write(values, cells)
    return [_result(plan, plan.fields[number], states[number].whole()) for number in plan.updates]


def _result(plan: Plan, f: FieldPlan, state: Any) -> Any:
    """The whole field for sscan, the cells that were written for kscan."""
    if plan.into_copy:
        return state
    return state[tuple(map(as_slice, f.geometry.centres))]


# Steps


def _walks(plan: Plan, walked: Sequence[int]) -> Iterator[list[Part]]:
    """Along some axes one by one: for each index the parts of its slab."""
    ahead = list(np.ndindex(*(plan.grid[axis] for axis in walked)))
    for index in reversed(ahead) if plan.reverse else ahead:
        found = ((part.owner, _within(part.cells, dict(zip(walked, index)))) for part in plan.parts)
        yield [Part(owner, cells) for owner, cells in found if cells is not None]


def _within(cells: Box | Points, place: Mapping[int, int]) -> Box | Points | None:
    """The cells with those indices along the walked axes."""
    if isinstance(cells, Points):
        here = np.full(cells.index[0].shape, True)
        for axis, i in place.items():
            here &= cells.index[axis] == i
        return Points(tuple(a[here] for a in cells.index)) if here.any() else None
    if all(i in cells[axis] for axis, i in place.items()):
        return tuple(range(place[axis], place[axis] + 1) if axis in place else r for axis, r in enumerate(cells))
    return None


def _groups(plan: Plan) -> Iterator[list[Part]]:
    """Cells one by one in row-major order; along a wavefront all those together that lie equally far."""
    owner = plan.owners()
    schedule = plan.schedule
    if schedule.name == "wavefront" or schedule.automatic:
        distance = np.tensordot(schedule.direction, np.indices(plan.grid), 1)
    else:
        distance = np.arange(plan.cells).reshape(plan.grid)
    cells = np.flatnonzero(owner >= 0)
    keys = np.stack([distance.ravel()[cells] * (-1 if plan.reverse else 1), owner.ravel()[cells]], 1)
    cells = cells[np.lexsort((keys[:, 1], keys[:, 0]))]
    numbered = zip(distance.ravel()[cells].tolist(), owner.ravel()[cells].tolist(), cells.tolist())
    for _, step in itertools.groupby(numbered, lambda cell: cell[0]):
        yield [
            Part(number, Points(np.unravel_index(np.array([cell for *_, cell in some]), plan.grid)))
            for number, some in itertools.groupby(step, lambda cell: cell[1])
        ]


# States


class Slabs:
    """The values of a field as they are: for each index along the walked axes a slab over those that remain."""

    def __init__(self, plan: Plan, f: FieldPlan, array: Any, walls: Walls, xp: Any) -> None:
        self.plan, self.xp, self._order, self._walls = f, xp, plan.schedule.order, walls
        self._walked, self._free = self._order[: plan.schedule.axes], self._order[plan.schedule.axes :]
        self.device, self._array = array_api_compat.device(array), array
        self._ahead, self._rest = f.on_axes(self._walked), f.on_axes(self._free)
        self._places = self._rest.geometry.centres
        self._slabs: dict[Any, Any] = {}
        for index in np.ndindex(*self._ahead.shape):
            at = self._by_axis(index)
            self._slabs[index] = array[tuple(at.get(axis, slice(None)) for axis in range(array.ndim))]
        self._shifts: dict[Any, Shifts] = {}

    def read(self, tap: Offset, cells: Box | Points) -> Any:
        behind = tuple(tap[axis] for axis in self._free)
        values = self._at(self._place(tap, cells)).read(behind, self._behind(cells))
        return self.xp.reshape(values, sizes(cells))

    def write(self, values: Any, cells: Box | Points) -> None:
        place, behind = self._place((0,) * len(self.plan.shape), cells), self._behind(cells)
        if hasattr(values, "dtype") and values.shape:
            values = self.xp.reshape(values, sizes(behind))
        slab = self._slabs[place]
        slab = self.xp.astype(slab, slab.dtype, copy=True)
        self._slabs[place] = put(slab, values, behind, self._places, self.xp)
        self._shifts.pop(place, None)

    def whole(self) -> Any:
        slabs = list(self._slabs.values())
        if not self._walked:
            return slabs[0]
        stacked = self.xp.reshape(self.xp.stack(slabs), tuple(self.plan.shape[axis] for axis in self._order))
        return self.xp.permute_dims(stacked, tuple(np.argsort(self._order).tolist()))

    def _place(self, tap: Offset, cells: Box | Points) -> tuple[int, ...]:
        """Where along the walked axes a slab of cells reads; it may lie outside the array."""
        ahead = cells.index if isinstance(cells, Points) else cells
        return tuple(self.plan.geometry.position(axis, int(ahead[axis][0]), tap[axis]) for axis in self._walked)

    def _behind(self, cells: Box | Points) -> Box | Points:
        """Cells by the axes that remain."""
        if isinstance(cells, Points):
            return Points(tuple(cells.index[axis] for axis in self._free))
        return tuple(cells[axis] for axis in self._free)

    def _at(self, place: tuple[int, ...]) -> Shifts:
        """The slab at a place; outside the array it is made from others as the rules say."""
        if place in self._shifts:
            return self._shifts[place]
        slab = self._ahead.value(place, self._slabs.__getitem__, self._rule)
        stays = place in self._slabs or not getattr(slab, "shape", ())  # a ghost follows what it is made from
        slab = _as_array(slab, self._rest.shape, self._array, self.xp)
        rules = self._walls.of_field(self.plan, self._array, self._by_axis(place))
        shifts = Shifts(self._rest, slab, rules, self.xp)
        if stays:
            self._shifts[place] = shifts
        return shifts

    def _rule(self, number: int, place: Offset) -> Rule:
        return self._walls.at_place(self.plan, self._array, self._walked[number], self._by_axis(place))

    def _by_axis(self, place: Offset) -> dict[int, int]:
        return dict(zip(self._walked, place))


def _as_array(value: Any, shape: tuple[int, ...], array: Any, xp: Any) -> Any:
    """A number or an array as one of that shape, of the dtype of another."""
    value = like(value, array, xp)
    return value if value.shape == shape else xp.broadcast_to(value, shape)


class Singles:
    """The values of a field one by one, each an array of one element.

    A wavefront may write a cell before one that still has to read the old value, so old values are kept.
    """

    def __init__(self, plan: Plan, f: FieldPlan, array: Any, walls: Walls, xp: Any) -> None:
        self.plan, self.xp, self._walls, self._array = f, xp, walls, array
        self.device, self.dtype = array_api_compat.device(array), array.dtype
        flat = xp.reshape(array, (-1,))
        self._old = [flat[i : i + 1] for i in range(math.prod(f.shape))]
        self._now = list(self._old)
        self._grid, self._reverse = plan.grid, plan.reverse
        self._centres = f.sources((0,) * len(f.shape), plan.grid)[0]
        self._writer = np.full(len(self._old), -1)
        self._writer[self._centres.ravel()] = np.arange(plan.cells)
        self._tables: dict[Offset, tuple[np.ndarray, list[Any]]] = {}

    def read(self, tap: Offset, cells: Box | Points) -> Any:
        assert isinstance(cells, Points), "stencilx fault: single cells come as points"
        if tap not in self._tables:
            places, constants = self.plan.sources(tap, self._grid)
            full = [None if value is None else _as_array(value, (1,), self._array, self.xp) for value in constants]
            self._tables[tap] = places, full
        places, constants = self._tables[tap]
        values = []
        for place, reader in zip(places[cells.index].tolist(), np.stack(cells.index, 1).tolist()):
            value = self._value(place, self._number(reader)) if place >= 0 else constants[-1 - place]
            values.append(self._made(tap, reader) if value is None else value)
        return values[0] if len(values) == 1 else self.xp.concat(values)

    def _number(self, cell: Sequence[int]) -> int:
        return int(np.ravel_multi_index(tuple(cell), self._grid))

    def _made(self, tap: Offset, reader: Sequence[int]) -> Any:
        """A ghost that is made by a formula, from values as they are when its reader's turn comes."""
        number, shape = self._number(reader), self.plan.shape
        place = tuple(self.plan.geometry.position(axis, i, o) for axis, (i, o) in enumerate(zip(reader, tap)))
        value = self.plan.value(
            place,
            lambda inside: self._value(int(np.ravel_multi_index(inside, shape)), number),
            lambda axis, at: self._walls.at_place(self.plan, self._array, axis, dict(enumerate(at))),
        )
        return _as_array(value, (1,), self._array, self.xp)

    def _value(self, place: int, reader: int) -> Any:
        """What stands at a place when its reader's turn comes in row-major order."""
        writer = self._writer[place]
        return self._now[place] if (writer > reader if self._reverse else writer < reader) else self._old[place]

    def write(self, values: Any, cells: Box | Points) -> None:
        assert isinstance(cells, Points), "stencilx fault: single cells come as points"
        places = self._centres[cells.index].tolist()
        if hasattr(values, "dtype"):
            values = array_api_compat.to_device(self.xp.astype(values, self.dtype), self.device)
            values = self.xp.broadcast_to(values, (len(places),))
        else:
            values = self.xp.full((len(places),), values, dtype=self.dtype, device=self.device)
        for number, place in enumerate(places):
            self._now[place] = values[number : number + 1]

    def whole(self) -> Any:
        return self.xp.reshape(self.xp.concat(self._now), self.plan.shape)
