"""Run a sweep along its leading axes: nested scans whose bodies are small.

The first `schedule.axes` axes are walked along one by one, whatever remains is computed at once. On each walked axis
the cells are cut into *bands* within which every read comes from one place:

    wall cell | inner cells ... | wall cell         a wall that copies a cell makes a band of its own
    region A  | region B .......                    so does a region

A band of many cells becomes a `lax.scan`. It carries only the slabs that are reached back to; reads of what lies ahead,
of other bands and of fields that are not written are handed to it as inputs. `Slabs` says where reads come from at
one level; when no walked axis is left, `_write_slab` evaluates the formulas on it. A schedule "associative" composes
the steps of a band instead (`affine.py`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.boundary import Constant
from stencilx.fields import FieldPlan, ghost_cells
from stencilx.plan import Plan
from stencilx.regions import Box, Points
from stencilx.window import Offset, Window
from stencilx_jax.affine import composed
from stencilx_jax.jaxprs import as_function, parted
from stencilx_jax.shifts import Shifts, along, replaced, sliced
from stencilx_jax.trace import JaxFormula

Read = tuple[int, Offset]
"""A field's number and a tap."""


def filling(owner: int) -> Read:
    """The name under which the array that a region was given travels with the fixed reads."""
    return (-1 - owner, ())


BANDS = 64
"""A sweep that falls into more bands than this, multiplied over its walked axes, is run from tables instead."""

UNROLL = 4
"""Steps of an innermost scan in one body: more hides the cost of a step; too many, and XLA no longer makes one loop."""


@dataclass(frozen=True)
class Slabs:
    """What a step knows, at a level where `level` axes are walked already.

    Attributes:
        current: each updated field, as far as it is swept: its slab over the axes that remain.
        others: slabs for those reads of updated fields that come from another slab than the current one.
        fixed: reads of other fields, and arrays given to regions, by the cells of the remaining axes.
    """

    current: dict[int, Any]
    others: dict[Read, Any]
    fixed: dict[Read, Any]


@dataclass(frozen=True)
class Sweep:
    """A forward sweep and all that its steps need."""

    plan: Plan
    formulas: Sequence[JaxFormula]
    inputs: Sequence[Sequence[Read]]
    uniform: Sequence[Sequence[Any]]
    fillings: Sequence[Any]

    @property
    def associative(self) -> bool:
        return self.plan.schedule.name == "associative"

    def reads(self, owners: Iterable[int]) -> list[Read]:
        """The reads of updated fields in the regions that these assignments own."""
        kernels = dict.fromkeys(kernel for owner in owners if (kernel := self.plan.values[owner].kernel) is not None)
        found = (read for kernel in kernels for read in self.inputs[kernel])
        return list(dict.fromkeys(read for read in found if read[0] in self.plan.updates))


FEW = 2
"""So few operations without a new value are not worth arrays of their own: each step does them as it goes."""


def fits(plan: Plan, axes: int) -> bool:
    """Whether the sweep falls into few bands."""
    if any(isinstance(part.cells, Points) for part in plan.parts):
        return False
    boxes = [(part.owner, part.cells) for part in plan.parts if not isinstance(part.cells, Points)]
    return math.prod(len(_bands(plan, axis, boxes)) for axis in range(axes)) <= BANDS


def run(sweep: Sweep, arrays: Mapping[int, Any], fixed: dict[Read, Any], axes: int) -> list[Any]:
    """The updated fields, given by number, after a forward sweep."""
    plan = sweep.plan
    current = {number: _extended(plan.fields[number], arrays[number], axes) for number in plan.updates}
    boxes = [(part.owner, part.cells) for part in plan.parts if not isinstance(part.cells, Points)]
    current = _level(sweep, 0, axes, Slabs(current, {}, fixed), boxes)
    return [_without_ghosts(plan.fields[number], current[number], axes) for number in plan.updates]


def _constant_ghosts(f: FieldPlan, axis: int) -> tuple[int, int]:
    """Ghosts that never change lie in the state itself, on walked axes; those that copy are looked up."""
    before, after = f.ghosts[axis]
    low, high = f.rules[axis]
    return before * isinstance(low, Constant), after * isinstance(high, Constant)


def _extended(f: FieldPlan, array: Any, axes: int) -> Any:
    for axis in range(axes):
        before, after = _constant_ghosts(f, axis)
        array = along(array, axis, range(-before, array.shape[axis] + after), f.rules[axis])
    return array


def _without_ghosts(f: FieldPlan, array: Any, axes: int) -> Any:
    places = [range(n) for n in array.shape]
    for axis in range(axes):
        before = _constant_ghosts(f, axis)[0]
        places[axis] = range(before, before + f.shape[axis])
    return sliced(array, places)


# Levels and bands


def _level(sweep: Sweep, level: int, axes: int, slabs: Slabs, boxes: Sequence[tuple[int, Box]]) -> dict[int, Any]:
    """Sweep the slabs; boxes are those of the parts, on all axes."""
    if level == axes:
        return _write_slab(sweep, level, slabs, boxes)
    for band in _bands(sweep.plan, level, boxes):
        inside = [(owner, box) for owner, box in boxes if band[0] in box[level] and band[-1] in box[level]]
        if inside:
            slabs = replace(slabs, current=_band(sweep, level, axes, slabs, inside, band))
    return slabs.current


def _bands(plan: Plan, axis: int, boxes: Sequence[tuple[int, Box]]) -> list[range]:
    """The cells of one axis, cut where parts begin and end, and around each cell whose ghosts copy cells."""
    cells = plan.grid[axis]
    cuts = {0, cells}
    for _, box in boxes:
        r = box[axis]
        ends = range(r.start, r[-1] + 2) if r.step > 1 else (r.start, r[-1] + 1)
        cuts.update(ends)
    for number in plan.updates:
        f = plan.fields[number]
        taps = {f.reads.lo[axis], f.reads.hi[axis]} if isinstance(f.reads, Window) else {o[axis] for o in f.reads}
        for tap in taps:
            places = f.geometry.positions(axis, range(cells), tap)
            for cell in ghost_cells(places, f.shape[axis]):
                if f.rules[axis][0 if places[cell] < 0 else 1].copies:
                    cuts.update((cell, cell + 1))
    ends = sorted(cuts)
    return [range(a, b) for a, b in itertools.pairwise(ends)]


def _places(f: FieldPlan, axis: int, band: range, tap: int) -> range:
    """Where a band reads with a tap, in the state with its constant ghosts."""
    places = f.geometry.positions(axis, band, tap)
    before = _constant_ghosts(f, axis)[0]
    if len(band) == 1 and not 0 <= places[0] < f.shape[axis]:
        rule = f.rules[axis][0 if places[0] < 0 else 1]
        if rule.copies:
            places = range(index := rule.index(places[0], f.shape[axis]), index + 1)
    return range(places.start + before, places.stop + before, places.step)


def _band(
    sweep: Sweep, level: int, axes: int, slabs: Slabs, boxes: Sequence[tuple[int, Box]], band: range
) -> dict[int, Any]:
    """Sweep one band of a level, and put what it writes into the current slabs."""
    fields = sweep.plan.fields
    centres = {number: _places(fields[number], level, band, 0) for number in slabs.current}
    back: dict[Read, int] = {}
    given: dict[Read, Any] = {}
    for read in sweep.reads(owner for owner, _ in boxes):
        number, tap = read
        places = _places(fields[number], level, band, tap[level])
        if read in slabs.others:
            given[read] = _rows(slabs.others[read], places)
            continue
        distance = _distance(places[0] - centres[number][0], fields[number].geometry.strides[level])
        if distance is not None and -len(band) < distance < 0:
            back[read] = -distance
        elif distance != 0:
            given[read] = _rows(slabs.current[number], places)
    rows = {number: _rows(slabs.current[number], centres[number]) for number in slabs.current}
    fixed = {key: _rows(array, band) for key, array in slabs.fixed.items()}
    buffers = _buffers(slabs.current, fields, centres, back, level)
    if level + 1 == axes == len(sweep.plan.grid) and len(boxes) == 1 and not sweep.associative:
        written = _scan_cells(sweep, Slabs(rows, given, fixed), boxes[0][0], back, buffers, len(band))
    else:
        written = _scan_slabs(sweep, level, axes, Slabs(rows, given, fixed), boxes, back, buffers, len(band))
    return {n: replaced(slab, written[n], _whole_but_first(slab, centres[n])) for n, slab in slabs.current.items()}


def _distance(offset: int, stride: int) -> int | None:
    return offset // stride if offset % stride == 0 else None


def _rows(array: Any, places: range) -> Any:
    return sliced(array, _whole_but_first(array, places))


def _whole_but_first(array: Any, places: range) -> list[range]:
    return [places, *(range(n) for n in array.shape[1:])]


def _buffers(
    current: Mapping[int, Any],
    fields: Sequence[FieldPlan],
    centres: Mapping[int, range],
    back: Mapping[Read, int],
    level: int,
) -> dict[int, list[Any]]:
    """For each field that is reached back to, its last slabs before the band: the oldest one first."""
    found: dict[int, list[Any]] = {}
    for number in current:
        deepest = max((k for (n, _), k in back.items() if n == number), default=0)
        stride = fields[number].geometry.strides[level]
        first = centres[number][0]
        assert first >= stride * deepest, "stencilx fault: a band reaches back beyond the array and its ghosts"
        found[number] = [current[number][first - stride * k] for k in range(deepest, 0, -1)]
    return found


def _scan_slabs(
    sweep: Sweep,
    level: int,
    axes: int,
    slabs: Slabs,
    boxes: Sequence[tuple[int, Box]],
    back: Mapping[Read, int],
    buffers: dict[int, list[Any]],
    length: int,
) -> dict[int, Any]:
    """Step through a band; each step sweeps a slab of the next level."""

    def step(buffers: dict[int, list[Any]], x: Slabs) -> tuple[dict[int, list[Any]], dict[int, Any]]:
        reached = {read: buffers[read[0]][-k] for read, k in back.items()}
        written = _level(sweep, level + 1, axes, replace(x, others={**x.others, **reached}), boxes)
        return {n: [*kept[1:], written[n]] if kept else [] for n, kept in buffers.items()}, written

    if length == 1:
        written = step(buffers, jax.tree.map(lambda array: array[0], slabs))[1]
        return {number: slab[None] for number, slab in written.items()}
    if sweep.associative:
        return composed(step, buffers, slabs, _reaching(sweep, level, boxes, back, slabs))
    return lax.scan(step, buffers, slabs)[1]


def _reaching(
    sweep: Sweep, level: int, boxes: Sequence[tuple[int, Box]], back: Collection[Read], slabs: Slabs
) -> np.ndarray:
    """The cells of a slab whose kernels reach back, for a sweep of one field."""
    ((number, rows),) = slabs.current.items()
    here = np.zeros(rows.shape[1:], bool)
    for owner, box in boxes:
        if any(read in back for read in sweep.reads([owner])):
            here[np.ix_(*_centres(sweep.plan.fields[number], level + 1, box[level + 1 :]))] = True
    return here


def _scan_cells(
    sweep: Sweep,
    slabs: Slabs,
    owner: int,
    back: Mapping[Read, int],
    buffers: dict[int, list[Any]],
    length: int,
) -> dict[int, Any]:
    """Step through the cells of a line with one formula: what needs no new value is computed for all of them first."""
    plan = sweep.plan
    kernel = plan.values[owner].kernel
    if kernel is None:
        value = slabs.fixed.get(filling(owner), sweep.fillings[owner])
        return {n: jnp.broadcast_to(jnp.asarray(value, line.dtype), line.shape) for n, line in slabs.current.items()}
    formula, inputs = sweep.formulas[kernel], sweep.inputs[kernel]
    early, late, early_inputs = parted(formula.closed, {i for i, read in enumerate(inputs) if read in back})
    lines: list[Any] = []
    for read in inputs:
        found = slabs.others.get(read)
        found = slabs.fixed.get(read) if found is None else found
        lines.append(slabs.current[read[0]] if found is None else found)
    lines = [lines[n] for n in early_inputs if n < len(inputs)]
    prepare = functools.partial(_prepare, as_function(early), sweep.uniform[kernel])
    finish = as_function(late)
    reached = [(read[0], back[read]) for read in inputs if read in back]
    at_once = len(early.jaxpr.eqns) > FEW or len(early.jaxpr.outvars) < len(lines) or not reached
    handed = jax.vmap(prepare, axis_size=length)(lines) if at_once else lines

    def step(buffers: dict[int, list[Any]], x: Sequence[Any]) -> tuple[dict[int, list[Any]], Any]:
        results = finish(*(buffers[n][-k] for n, k in reached), *(x if at_once else prepare(x)))
        results = {n: r.astype(slabs.current[n].dtype) for n, r in zip(plan.updates, results)}
        return {n: [*kept[1:], results[n]] if kept else [] for n, kept in buffers.items()}, results

    if not reached:
        results = jax.vmap(finish)(*handed) if handed else finish()
        return {n: jnp.broadcast_to(r, (length,)).astype(slabs.current[n].dtype) for n, r in zip(plan.updates, results)}
    return lax.scan(step, buffers, handed, length=length, unroll=min(UNROLL, length))[1]


def _prepare(early: Callable[..., list[Any]], uniform: Sequence[Any], reads: Sequence[Any]) -> list[Any]:
    return early(*reads, *uniform)


# The slab in which all cells are computed at once


def _write_slab(sweep: Sweep, level: int, slabs: Slabs, boxes: Sequence[tuple[int, Box]]) -> dict[int, Any]:
    plan = sweep.plan
    shifts: dict[int, Shifts] = {}

    def of_slab(number: int, slab: Any) -> Shifts:
        if id(slab) not in shifts:
            shifts[id(slab)] = Shifts(
                plan.fields[number].on_axes(range(level, len(plan.grid))), slab, plan.grid[level:]
            )
        return shifts[id(slab)]

    new = dict(slabs.current)
    for owner, box in boxes:
        cells = box[level:]
        kernel = plan.values[owner].kernel
        if kernel is None:
            value = slabs.fixed.get(filling(owner), sweep.fillings[owner])
            value = sliced(value, cells) if filling(owner) in slabs.fixed else value
            results = [
                jnp.broadcast_to(jnp.asarray(value, slab.dtype), [len(r) for r in cells]) for slab in new.values()
            ]
        else:
            reads = [
                sliced(slabs.fixed[read], cells)
                if read[0] not in plan.updates
                else of_slab(read[0], slabs.others.get(read, slabs.current[read[0]])).read(read[1][level:], cells)
                for read in sweep.inputs[kernel]
            ]
            results = _vectorised(sweep.formulas[kernel], reads, sweep.uniform[kernel], cells)
        for number, result in zip(plan.updates, results):
            new[number] = _put_box(new[number], result.astype(new[number].dtype), plan.fields[number], level, cells)
    return new


def _vectorised(formula: JaxFormula, reads: Sequence[Any], uniform: Sequence[Any], cells: Box) -> list[Any]:
    function = as_function(formula.closed)
    for r in reversed(cells):
        function = jax.vmap(function, in_axes=(*[0] * len(reads), *[None] * len(uniform)), axis_size=len(r))
    return function(*reads, *uniform)


def _put_box(slab: Any, result: Any, f: FieldPlan, level: int, cells: Box) -> Any:
    return replaced(slab, result, _centres(f, level, cells))


def _centres(f: FieldPlan, level: int, cells: Box) -> list[range]:
    """Where a slab's cells are written."""
    return [f.geometry.positions(level + axis, r, 0) for axis, r in enumerate(cells)]


jax.tree_util.register_dataclass(Slabs, ["current", "others", "fixed"], [])
