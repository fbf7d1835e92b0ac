"""Sweeps beside walls whose ghosts are formulas: the formulas become part of the kernels.

A ghost of a sweep stands for current values. Where it copies a cell, the sweep looks that cell up; where a rule
computes it, the cells beside the wall get a formula of their own, in which the ghost is replaced by what it is made of:

    Dirichlet(v)    | u[0]  u[1]          kernel(G, u[0], u[1])  ->  kernel(2*v - u[0], u[0], u[1])

What is left to read lies in the array, or outside where cells are copied: a sweep like any other with regions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stencilx.boundary import Edge, Slot
from stencilx.fields import FieldPlan
from stencilx.plan import Plan
from stencilx.regions import Box, Part, Points
from stencilx.walls import copying, face_shape, filled, is_plain
from stencilx.window import Offset, Window, reach
from stencilx_jax.jaxprs import as_function
from stencilx_jax.shifts import along, outside
from stencilx_jax.sweep import Read, Sweep

Beside = tuple[int | None, ...]
"""For each axis the cell, where its ghosts are formulas; None for cells whose ghosts are not."""


def without_formulas(sweep: Sweep, arrays: Sequence[Any], walls: Sequence[Any]) -> tuple[Sweep, dict[Read, Any]]:
    """The same sweep with no ghost of an updated field to be computed, and values over faces for all cells."""
    plan = sweep.plan
    plan = replace(plan, fields=tuple(_reached(f) if n in plan.updates else f for n, f in enumerate(plan.fields)))
    computed = {number for number in plan.updates if _has_formulas(plan.fields[number])}
    if not computed:
        return replace(sweep, plan=plan), {}
    inputs = [[_in_cells(plan, computed, read) for read in reads] for reads in sweep.inputs]
    plan = replace(plan, fields=tuple(_undilated(f) if n in computed else f for n, f in enumerate(plan.fields)))
    rewriting = _Rewriting(replace(sweep, plan=plan, inputs=inputs), computed, arrays, walls)
    return rewriting.result(), rewriting.beside


def _reached(f: FieldPlan) -> FieldPlan:
    """The same field without the rules of sides beyond which nothing is read."""
    pairs = (zip(sides, counts) for sides, counts in zip(f.rules, f.ghosts))
    return replace(f, rules=tuple(tuple(rule if count else Edge() for rule, count in pair) for pair in pairs))


def _has_formulas(f: FieldPlan) -> bool:
    """Constants that are plain numbers are no formulas as long as there are no others."""
    return not all(rule.copies or is_plain(rule) for sides in f.rules for rule in sides)


def _in_cells(plan: Plan, computed: set[int], read: Read) -> Read:
    number, tap = read
    if number not in computed:
        return read
    return number, plan.fields[number].geometry.in_cells(tap)


def _undilated(f: FieldPlan) -> FieldPlan:
    """The same field with offsets counted in cells: a wall may be at any distance."""
    g = f.geometry
    window = Window(g.in_cells(g.window.lo), g.in_cells(g.window.hi))
    return replace(f, geometry=replace(g, window=window, dilation=(1,) * len(g.dilation)))


@dataclass
class _Rewriting:
    """One run of the pass: the kernels beside walls that were made so far, and the values that they need."""

    sweep: Sweep
    computed: set[int]
    arrays: Sequence[Any]
    walls: Sequence[Any]
    beside: dict[Read, Any] = field(default_factory=dict)

    def result(self) -> Sweep:
        plan = self.sweep.plan
        formulas, inputs, uniform = list(self.sweep.formulas), list(self.sweep.inputs), list(self.sweep.uniform)
        values, fillings, parts = list(plan.values), list(self.sweep.fillings), []
        made: dict[tuple[int, Beside], int] = {}
        for part in plan.parts:
            kernel = plan.values[part.owner].kernel
            if kernel is None:
                parts.append(part)
                continue
            for some, beside in self._split(part, kernel):
                if not any(cell is not None for cell in beside):
                    parts.append(some)
                    continue
                if (kernel, beside) not in made:
                    made[kernel, beside] = len(values)
                    closed, reads, single = self._kernel(kernel, beside)
                    values.append(replace(plan.values[part.owner], kernel=len(formulas)))
                    formulas.append(replace(self.sweep.formulas[kernel], closed=closed))
                    inputs.append(reads)
                    uniform.append([*self.sweep.uniform[kernel], *single])
                    fillings.append(None)
                parts.append(Part(made[kernel, beside], some.cells))
        reads = [read for used in inputs for read in used]
        fields = tuple(_plain(f, n, reads, plan.grid) if n in self.computed else f for n, f in enumerate(plan.fields))
        plan = replace(plan, fields=fields, values=tuple(values), parts=tuple(parts))
        return Sweep(plan, formulas, inputs, uniform, fillings)

    # Which cells lie beside a wall

    def _split(self, part: Part, kernel: int) -> Iterator[tuple[Part, Beside]]:
        """The part cut so that each piece lies beside the same walls in the same distance, or beside none."""
        special = [self._special(axis, kernel) for axis in range(len(self.sweep.plan.grid))]
        if isinstance(part.cells, Points):
            index = np.stack([np.where(np.isin(i, list(s)), i, -1) for i, s in zip(part.cells.index, special)])
            rows, which = np.unique(index, axis=1, return_inverse=True)
            for number, row in enumerate(rows.T.tolist()):
                points = Points(tuple(i[which.ravel() == number] for i in part.cells.index))
                yield Part(part.owner, points), tuple(i if i >= 0 else None for i in row)
            return
        pieces = [list(_cut(cells, some)) for cells, some in zip(part.cells, special)]
        for chosen in itertools.product(*pieces):
            box: Box = tuple(cells for cells, _ in chosen)
            yield Part(part.owner, box), tuple(cell for _, cell in chosen)

    def _special(self, axis: int, kernel: int) -> set[int]:
        """The cells along one axis from which the kernel reads a ghost that is computed."""
        found: set[int] = set()
        for number, tap in self.sweep.inputs[kernel]:
            if number in self.computed:
                f, cells = self.sweep.plan.fields[number], range(self.sweep.plan.grid[axis])
                places = f.geometry.positions(axis, cells, tap[axis])
                before, after = outside(places, f.shape[axis])
                low, high = f.rules[axis]
                found.update([] if low.copies else cells[:before])
                found.update([] if high.copies else cells[len(cells) - after :])
        return found

    # Their kernels

    def _kernel(self, kernel: int, beside: Beside) -> tuple[Any, list[Read], list[Any]]:
        """A formula with ghosts replaced, what it reads, and single values that it takes after all other inputs."""
        formula, old = self.sweep.formulas[kernel], self.sweep.inputs[kernel]
        needed: dict[Read, None] = {}
        slots: dict[int, None] = {}

        def note(read: Read) -> float:
            needed[read] = None
            return 0.75

        def note_slot(number: int) -> Any:
            slots[number] = None
            return np.array(0.75)

        for read in old:
            self._read(read, beside, note, note_slot)
        reads, numbered = list(needed), list(slots)
        dtypes = [self.arrays[number].dtype for number, _ in old]

        def function(scalars: Sequence[Any], uniform: Sequence[Any], single: Sequence[Any]) -> list[Any]:
            known, at = dict(zip(reads, scalars)), dict(zip(numbered, single))
            values = [self._read(read, beside, known.__getitem__, at.__getitem__) for read in old]
            cast = [jnp.asarray(value, dtype) for value, dtype in zip(values, dtypes)]
            return as_function(formula.closed)(*cast, *uniform)

        scalars = [jax.ShapeDtypeStruct((), self._dtype(read)) for read in reads]
        single = [jnp.asarray(self.walls[number]) for number in numbered]
        closed = jax.make_jaxpr(function)(scalars, self.sweep.uniform[kernel], single)
        return closed, reads, single

    def _dtype(self, read: Read) -> Any:
        return self.beside[read].dtype if read[0] < 0 else self.arrays[read[0]].dtype

    def _read(self, read: Read, beside: Beside, cell: Callable[[Read], Any], single: Callable[[int], Any]) -> Any:
        """What a read gives, made from cells and values: the axis that was extended last is asked first."""
        number, tap = read
        f = self.sweep.plan.fields[number]
        for axis in reversed(range(len(beside))) if number in self.computed else ():
            at, n = beside[axis], f.shape[axis]
            place = 0 if at is None else f.geometry.position(axis, at, tap[axis])
            rule = f.rules[axis][0 if place < 0 else 1]
            if at is None or 0 <= place < n or rule.copies:
                continue
            centre = f.geometry.position(axis, at, 0)

            def value(slot: Slot, axis: int = axis) -> Any:
                if not np.ndim(self.walls[slot.number]):
                    return single(slot.number)
                return cell(self._over_face(slot.number, number, axis, tap))

            def inner(i: int, axis: int = axis, centre: int = centre) -> Any:
                moved = (*tap[:axis], i - centre, *tap[axis + 1 :])
                return self._read((number, moved), beside, cell, single)

            return filled(rule, value).ghost(place, n, inner)
        return cell(read)

    def _over_face(self, slot: int, number: int, axis: int, tap: Offset) -> Read:
        """A value over a face, for all cells, where a tap is read: the name under which it is handed on."""
        tap = (*tap[:axis], 0, *tap[axis + 1 :])
        key = (-1 - slot, (number, axis, *tap))
        if key not in self.beside:
            plan, f = self.sweep.plan, self.sweep.plan.fields[number]
            value = jnp.asarray(self.walls[slot], self.arrays[number].dtype)
            value = value.reshape(face_shape(value, f.shape, axis, f.name))
            for other in range(len(f.shape)):
                if value.shape[other] > 1:
                    places = f.geometry.positions(other, range(plan.grid[other]), tap[other])
                    copies = (copying(f.rules[other][0]), copying(f.rules[other][1]))
                    value = along(value, other, places, copies)
            self.beside[key] = jnp.broadcast_to(value, plan.grid)
        return key


def _cut(cells: range, special: set[int]) -> Iterator[tuple[range, int | None]]:
    """Special cells one by one, those between them together."""
    start = 0
    for number, cell in enumerate(cells):
        if cell in special:
            if start < number:
                yield cells[start:number], None
            yield cells[number : number + 1], cell
            start = number + 1
    if start < len(cells):
        yield cells[start:], None


def _plain(f: FieldPlan, number: int, reads: Sequence[Read], grid: Sequence[int]) -> FieldPlan:
    """The field with a window that holds all reads, and rules that copy."""
    taps = tuple(sorted({tap for n, tap in reads if n == number}))
    g, window = f.geometry, reach([*taps, f.geometry.window.lo, f.geometry.window.hi], len(f.shape))
    padding = tuple(
        (before + old_lo - lo, after + hi - old_hi)
        for (before, after), lo, hi, old_lo, old_hi in zip(g.padding, window.lo, window.hi, g.window.lo, g.window.hi)
    )
    g = replace(g, window=window, padding=padding)
    rules = tuple((copying(low), copying(high)) for low, high in f.rules)
    return replace(f, geometry=g, rules=rules, reads=taps, ghosts=g.ghosts(taps, grid))
