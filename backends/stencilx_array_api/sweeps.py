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
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import array_api_compat
import numpy as np

from stencilx.boundary import Rule
from stencilx.fields import FieldPlan
from stencilx.plan import Plan
from stencilx.regions import Box, Part, Points
from stencilx.window import Offset
from stencilx_array_api.shifts import Shifts, Source, Walls, as_slice, put, sizes

Evaluate = Callable[[Part, Sequence[Source]], Sequence[Any]]
"""For each update the values in the cells of a part: a number, or an array of their shape."""


def run(plan: Plan, arrays: Sequence[Any], walls: Walls, evaluate: Evaluate, xp: Any) -> list[Any]:
    """The updated fields of a sweep, or what was written on the output grid."""
    if not plan.cells:
        return [_result(plan, plan.fields[n], xp.astype(arrays[n], arrays[n].dtype, copy=True)) for n in plan.updates]
    states: dict[int, Slabs | Singles] = {}
    walked = plan.schedule.axes if plan.schedule.name in ("parallel", "rows") else None
    for number in plan.updates:
        f, own = plan.fields[number], xp.astype(arrays[number], arrays[number].dtype, copy=True)
        states[number] = Singles(plan, f, own, walls, xp) if walked is None else Slabs(plan, f, own, walls, xp)
    sources = [
        states.get(n) or Shifts(f, arrays[n], walls.of_field(f, arrays[n]), xp) for n, f in enumerate(plan.fields)
    ]
    for step in _groups(plan) if walked is None else _walks(plan, walked):
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


def _walks(plan: Plan, walked: int) -> Iterator[list[Part]]:
    """Along the leading axes one by one: for each index the parts of its slab."""
    leading = list(np.ndindex(*plan.grid[:walked]))
    for index in reversed(leading) if plan.reverse else leading:
        found = ((part.owner, _within(part.cells, index)) for part in plan.parts)
        yield [Part(owner, cells) for owner, cells in found if cells is not None]


def _within(cells: Box | Points, index: Sequence[int]) -> Box | Points | None:
    """The cells with that index along the leading axes."""
    walked = len(index)
    if isinstance(cells, Points):
        here = np.full(cells.index[0].shape, True)
        for axis, i in enumerate(index):
            here &= cells.index[axis] == i
        return Points(tuple(a[here] for a in cells.index)) if here.any() else None
    if all(i in r for i, r in zip(index, cells)):
        return (*(range(i, i + 1) for i in index), *cells[walked:])
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
        self.plan, self.xp, self.walked, self._walls = f, xp, plan.schedule.axes, walls
        self.device, self._array = array_api_compat.device(array), array
        self._rest = f.behind(self.walked)
        self._places = self._rest.geometry.centres
        self._slabs: dict[Any, Any] = {index: array[(*index, ...)] for index in np.ndindex(*f.shape[: self.walked])}
        self._shifts: dict[Any, Shifts] = {}

    def read(self, tap: Offset, cells: Box | Points) -> Any:
        values = self._at(self._place(tap, cells)).read(tap[self.walked :], _behind(cells, self.walked))
        return self.xp.reshape(values, sizes(cells))

    def write(self, values: Any, cells: Box | Points) -> None:
        place = self._place((0,) * len(self.plan.shape), cells)
        if hasattr(values, "dtype") and values.shape:
            values = self.xp.reshape(values, sizes(_behind(cells, self.walked)))
        slab = self._slabs[place]
        slab = self.xp.astype(slab, slab.dtype, copy=True)
        self._slabs[place] = put(slab, values, _behind(cells, self.walked), self._places, self.xp)
        self._shifts.pop(place, None)

    def whole(self) -> Any:
        slabs, shape = list(self._slabs.values()), self.plan.shape
        return self.xp.reshape(self.xp.stack(slabs), shape) if self.walked and slabs else slabs[0]

    def _place(self, tap: Offset, cells: Box | Points) -> tuple[int, ...]:
        """Where along the walked axes a slab of cells reads; it may lie outside the array."""
        ahead = [int(c[0]) for c in (cells.index if isinstance(cells, Points) else cells)[: self.walked]]
        return tuple(self.plan.geometry.position(axis, i, tap[axis]) for axis, i in enumerate(ahead))

    def _at(self, place: tuple[int, ...]) -> Shifts:
        """The slab at a place; outside the array it is made from others as the rules say."""
        if place in self._shifts:
            return self._shifts[place]
        slab = self.plan.value(place, self._slabs.__getitem__, self._rule)
        stays = place in self._slabs or not getattr(slab, "shape", ())  # a ghost follows what it is made from
        slab = _as_array(slab, self._rest.shape, self._array, self.xp)
        shifts = Shifts(self._rest, slab, self._walls.of_field(self.plan, self._array, place), self.xp)
        if stays:
            self._shifts[place] = shifts
        return shifts

    def _rule(self, axis: int, place: Offset) -> Rule:
        return self._walls.at_place(self.plan, self._array, axis, place)


def _as_array(value: Any, shape: tuple[int, ...], like: Any, xp: Any) -> Any:
    """A number or an array as one of that shape, of the dtype of another."""
    value = xp.asarray(value, dtype=like.dtype, device=array_api_compat.device(like))
    return value if value.shape == shape else xp.broadcast_to(value, shape)


def _behind(cells: Box | Points, walked: int) -> Box | Points:
    """Cells by the axes that remain."""
    return Points(cells.index[walked:]) if isinstance(cells, Points) else cells[walked:]


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
            lambda axis, at: self._walls.at_place(self.plan, self._array, axis, at),
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
