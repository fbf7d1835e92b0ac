"""Run a map: apply each region's formula to the shifted slices of its cells, and assemble the results.

Every region is computed on its own slices, so no kernel runs on cells that it does not own: what would be NaN there
can reach neither a result nor a gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.plan import Plan
from stencilx.regions import Box, Part, Points, positions
from stencilx_jax.jaxprs import as_function
from stencilx_jax.shifts import Shifts
from stencilx_jax.trace import JaxFormula, field_dtype


def run(
    plan: Plan,
    formulas: Sequence[JaxFormula],
    fields: Sequence[Any],
    dynamic: Sequence[Any],
    constants: Sequence[Sequence[Any]],
    fillings: Sequence[Any],
) -> list[Any]:
    """The leaves of the result, grid axes first.

    Args:
        fields: the arrays, in the plan's order.
        dynamic: the traced parameters of the kernels.
        constants: for each formula what its kernel closes over.
        fillings: for each assignment the number or array it puts there (None for kernels).
    """
    arrays = [jnp.asarray(a, field_dtype(a, f.constants)) for a, f in zip(fields, plan.fields)]
    shifts = [Shifts(f, array, plan.grid) for f, array in zip(plan.fields, arrays)]
    shapes = formulas[0].shapes if formulas else [()]
    if plan.cells == 0:
        dtypes = [aval.dtype for aval in formulas[0].closed.out_avals] if formulas else [arrays[0].dtype]
        pieces: list[list[Any]] = [[] for _ in shapes]
    else:
        dtypes = []
        pieces = [[] for _ in shapes]
    for part in plan.parts:
        number = plan.values[part.owner].kernel
        if number is None:
            results = [_filling(plan, part, fillings[part.owner], shape) for shape in shapes]
        else:
            results = _apply(formulas[number], part, shifts, dynamic, constants[number])
        for leaf, result in zip(pieces, results):
            leaf.append(result)
    return [_assembled(plan, leaf, shape, fields[0]) for leaf, shape in zip(pieces, shapes)]


def _apply(
    formula: JaxFormula, part: Part, shifts: Sequence[Shifts], dynamic: Sequence[Any], constants: Sequence[Any]
) -> list[Any]:
    """A formula on all cells of a part."""
    cells = part.cells
    if formula.inputs is None:
        reads = [s.windows_at_points(cells) if isinstance(cells, Points) else s.windows(cells) for s in shifts]
    elif isinstance(cells, Points):
        reads = [shifts[field].read_points(tap, cells) for field, tap in formula.inputs]
    else:
        reads = [shifts[field].read(tap, cells) for field, tap in formula.inputs]
    sizes = [part.count] if isinstance(cells, Points) else [len(r) for r in cells]
    function = as_function(formula.closed)
    uniform = [*dynamic, *constants]
    for size in reversed(sizes):  # the last one applied maps the first axis
        function = jax.vmap(function, in_axes=(*[0] * len(reads), *[None] * len(uniform)), axis_size=size)
    return function(*reads, *uniform)


def _filling(plan: Plan, part: Part, value: Any, shape: Sequence[int]) -> Any:
    """A region's number or array on the cells of a part."""
    sizes = [part.count] if isinstance(part.cells, Points) else [len(r) for r in part.cells]
    if not np.ndim(value):
        return jnp.full([*sizes, *shape], value)
    place, selected = positions(plan.values[part.owner].key, plan.frame.shape)
    frame = plan.frame.cells
    if isinstance(part.cells, Points):
        index = tuple(np.asarray(frame[axis])[i] for axis, i in enumerate(part.cells.index))
    else:
        index = np.ix_(*(np.asarray(frame[axis])[np.asarray(r)] for axis, r in enumerate(part.cells)))
    taken = place[index]
    flat = jnp.broadcast_to(value, [*selected, *shape]).reshape([math.prod(selected), *shape])
    whole = taken.size == len(flat) and (taken.ravel() == np.arange(taken.size)).all()
    return flat.reshape([*taken.shape, *shape]) if whole else flat[taken]


def _assembled(plan: Plan, pieces: Sequence[Any], shape: tuple[int, ...], first_field: Any) -> Any:
    """The pieces of one leaf put in their places: in a new array, or in a copy of the first field."""
    if plan.into_copy:
        dtype = jnp.result_type(first_field, *pieces)
        result = jnp.asarray(first_field, dtype)
        frame = plan.frame.cells
    else:
        dtype = jnp.result_type(*pieces)
        pieces = [piece.astype(dtype) for piece in pieces]
        frame = tuple(range(n) for n in plan.grid)
        if len(plan.parts) == 1 and plan.parts[0].count == plan.cells and not isinstance(plan.parts[0].cells, Points):
            return pieces[0]
        result = jnp.zeros(plan.grid + shape, dtype)
    for part, piece in zip(plan.parts, pieces):
        result = _placed(result, piece.astype(dtype), part.cells, frame)
    return result


def _placed(result: Any, piece: Any, cells: Box | Points, frame: Box) -> Any:
    if isinstance(cells, Points):
        return result.at[tuple(np.asarray(frame[axis])[i] for axis, i in enumerate(cells.index))].set(piece)
    places = [f[r.start : r.stop : r.step] for f, r in zip(frame, cells)]
    rest = [range(n) for n in piece.shape[len(places) :]]
    places += rest
    starts = [p.start for p in places]
    if all(p.step == 1 or len(p) == 1 for p in places):
        return lax.dynamic_update_slice(result, piece, starts)
    return _interleaved(result, piece, places)


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
