"""Run a map: apply each region's formula to the shifted slices of its cells, and assemble the results.

Every region is computed on its own slices, so no kernel runs on cells that it does not own: what would be NaN there
can reach neither a result nor a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.plan import Plan
from stencilx.regions import Box, Part, Points, positions
from stencilx_jax.boxes import Reduction, reduced
from stencilx_jax.jaxprs import as_function
from stencilx_jax.shifts import MANY, Shifts, replaced
from stencilx_jax.trace import JaxFormula, field_dtype

STRIPS_FROM = 1 << 15
"""Boxes of fewer cells are not cut into an inner part and strips: the padded copy is cheaper than more code."""


@dataclass(frozen=True)
class Inputs:
    """All arrays of a call: nothing that may be traced is closed over by compiled code.

    Attributes:
        fields: the arrays, in the plan's order.
        dynamic: the traced parameters of the kernels.
        constants: for each formula what its kernel closes over.
        fillings: for each assignment the number or array it puts there (None for kernels).
        walls: the values of boundary rules.
    """

    fields: Sequence[Any]
    dynamic: Sequence[Any]
    constants: Sequence[Sequence[Any]]
    fillings: Sequence[Any]
    walls: Sequence[Any]


jax.tree_util.register_dataclass(Inputs, ["fields", "dynamic", "constants", "fillings", "walls"], [])


def run(plan: Plan, formulas: Sequence[JaxFormula], inputs: Inputs) -> list[Any]:
    """The leaves of the result, grid axes first."""
    formulas = [formula.boxed or formula for formula in formulas]
    arrays = [jnp.asarray(a, field_dtype(a, f.joins)) for a, f in zip(inputs.fields, plan.fields)]
    shifts = [Shifts(f, array, plan.grid, inputs.walls) for f, array in zip(plan.fields, arrays)]
    avals = formulas[0].closed.out_avals if formulas else [jax.ShapeDtypeStruct((), arrays[0].dtype)]
    parts: list[Part] = []
    pieces: list[list[Any]] = [[] for _ in avals]
    for part in plan.parts:
        number = plan.values[part.owner].kernel
        if number is None:
            parts.append(part)
            results = [[filling(plan, part, inputs.fillings[part.owner], aval.shape) for aval in avals]]
        else:
            strips = split_by_strips(formulas[number], part, shifts)
            parts.extend(strips)
            uniform = [*inputs.dynamic, *inputs.constants[number]]
            results = [_apply(formulas[number], some, shifts, uniform) for some in strips]
        for leaf, values in zip(pieces, zip(*results)):
            leaf.extend(values)
    return [
        _assembled(plan, parts, leaf, aval, base)
        for leaf, aval, base in zip(pieces, avals, _bases(plan, arrays, avals))
    ]


def split_by_strips(formula: JaxFormula, part: Part, shifts: Sequence[Shifts]) -> list[Part]:
    """A large box as its inner cells, whose reads are plain slices, and thin strips along walls that copy cells.

    Without it, a wall that wraps or mirrors would cost a padded copy of the whole field.
    """
    if isinstance(part.cells, Points) or formula.inputs is None:
        return [part]
    if part.count < STRIPS_FROM or any(len(reads) > MANY for reads in formula.reads):
        return [part]
    if any(isinstance(what, Reduction) for _, what in formula.inputs):
        return [part]
    strips, inner = [], part.cells
    for axis, cells in enumerate(part.cells):
        bounds = [shifts[f].inner(axis, cells, tap[axis]) for f, tap in formula.inputs]
        low, high = max((b[0] for b in bounds), default=0), min((b[1] for b in bounds), default=len(cells))
        if low >= high:
            return [part]
        walls = [some for some in (cells[:low], cells[high:]) if some]
        strips += [(*inner[:axis], some, *inner[axis + 1 :]) for some in walls]
        inner = (*inner[:axis], cells[low:high], *inner[axis + 1 :])
    return [Part(part.owner, box) for box in (inner, *strips)]


def _apply(formula: JaxFormula, part: Part, shifts: Sequence[Shifts], uniform: Sequence[Any]) -> list[Any]:
    """A formula on all cells of a part; what is uniform is the same for all of them."""
    cells = part.cells
    if formula.inputs is None:
        reads = [s.windows_at_points(cells) if isinstance(cells, Points) else s.windows(cells) for s in shifts]
    else:
        reads = [_read(shifts[number], what, cells) for number, what in formula.inputs]
    sizes = [part.count] if isinstance(cells, Points) else [len(r) for r in cells]
    function = as_function(formula.closed)
    for size in reversed(sizes):  # the last one applied maps the first axis
        function = jax.vmap(function, in_axes=(*[0] * len(reads), *[None] * len(uniform)), axis_size=size)
    return function(*reads, *uniform)


def _read(shifts: Shifts, what: Any, cells: Box | Points) -> Any:
    if isinstance(what, Reduction):
        return reduced(what, shifts, cells)
    return shifts.read_points(what, cells) if isinstance(cells, Points) else shifts.read(what, cells)


def filling(plan: Plan, part: Part, value: Any, shape: Sequence[int]) -> Any:
    """A region's number or array on the cells of a part."""
    sizes = [part.count] if isinstance(part.cells, Points) else [len(r) for r in part.cells]
    if not np.ndim(value):
        return jnp.broadcast_to(value, [*sizes, *shape])  # which keeps a Python number's weak type
    place, selected = positions(plan.values[part.owner].key, plan.frame.shape)
    frame = plan.frame.cells
    index = tuple(np.asarray(cells)[i] for cells, i in zip(frame, part.index))
    taken = place[index]
    flat = jnp.broadcast_to(value, [*selected, *shape]).reshape([math.prod(selected), *shape])
    whole = taken.size == len(flat) and (taken.ravel() == np.arange(taken.size)).all()
    return flat.reshape([*taken.shape, *shape]) if whole else flat[taken]


def _assembled(plan: Plan, parts: Sequence[Part], pieces: Sequence[Any], aval: Any, first_field: Any) -> Any:
    """The pieces of one leaf put in their places: in a new array, or in a copy of the first field."""
    if plan.into_copy:
        dtype, frame = jnp.result_type(first_field, *pieces), plan.frame.cells
        result = jnp.asarray(first_field, dtype)
    else:
        numbers_only = all(plan.values[part.owner].kernel is None for part in parts)
        members = [*pieces, first_field] if numbers_only or plan.updates else pieces  # numbers alone join its dtype
        dtype = jnp.result_type(*members) if parts else aval.dtype
        frame = tuple(range(n) for n in plan.grid)
        if len(parts) == 1 and parts[0].count == plan.cells and not isinstance(parts[0].cells, Points):
            return pieces[0].astype(dtype)
        result = jnp.zeros(plan.grid + aval.shape, dtype)
    for part, piece in zip(parts, pieces):
        result = _placed(result, piece.astype(dtype), part.cells, frame, fresh=not plan.into_copy)
    return result


def _bases(plan: Plan, arrays: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """The fields into whose copies smap and sscan write."""
    return [arrays[number] for number in plan.updates] or [arrays[0]] * len(avals)


def _placed(result: Any, piece: Any, cells: Box | Points, frame: Box, fresh: bool) -> Any:
    """The result with a piece in its place; `fresh` if it holds nothing that the piece was computed from."""
    if isinstance(cells, Points):
        return result.at[tuple(np.asarray(frame[axis])[i] for axis, i in enumerate(cells.index))].set(piece)
    places = [f[r.start : r.stop : r.step] for f, r in zip(frame, cells)]
    places += [range(n) for n in piece.shape[len(places) :]]
    if any(p.step > 1 and len(p) > 1 for p in places):
        return _interleaved(result, piece, places)
    if fresh:
        return lax.dynamic_update_slice(result, piece, [p.start for p in places])
    return replaced(result, piece, places)


def _interleaved(result: Any, piece: Any, places: Sequence[range]) -> Any:
    """Put a piece into every n-th cell: spread it out, then choose cell by cell. Cheaper than a scatter."""
    widths = [(p.start, n - p[-1] - 1, p.step - 1 if len(p) > 1 else 0) for p, n in zip(places, result.shape)]
    spread = lax.pad(piece, jnp.zeros((), piece.dtype), widths)
    here = np.ones((1,) * result.ndim, bool)
    for axis, (p, n) in enumerate(zip(places, result.shape)):
        member = np.zeros(n, bool)
        member[p.start : p[-1] + 1 : p.step] = True
        here = here & np.expand_dims(member, [a for a in range(result.ndim) if a != axis])
    return jnp.where(here, spread, result)
