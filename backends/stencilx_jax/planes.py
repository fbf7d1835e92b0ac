"""Run a sweep from tables: cells that may be computed together form a plane, planes are stepped through in order.

For a wavefront a plane is a hyperplane of the grid; for `cells` it is a single cell. Where each cell reads, in the
raveled state, is worked out in NumPy beforehand, so any boundary rule and any shape of region will do; each step
gathers what a plane reads, evaluates the formulas and scatters the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.plan import Plan
from stencilx_jax.jaxprs import as_function
from stencilx_jax.sweep import Read, Sweep, filling


@dataclass(frozen=True)
class Order:
    """Which cells are computed when.

    Attributes:
        cells: raveled numbers of cells, one row for each plane, filled up with copies of the row's first cell.
        real: whether an entry stands for itself and not for filling up.
        owner: the assignment that owns each cell of a row.
        plane: the plane of each cell of the grid, -1 for cells that are not computed.
    """

    cells: np.ndarray
    real: np.ndarray
    owner: np.ndarray
    plane: np.ndarray


def run(sweep: Sweep, arrays: Mapping[int, Any], fixed: dict[Read, Any], direction: Sequence[int]) -> list[Any]:
    """The updated fields, given by number, after a forward sweep; an empty direction means cell by cell."""
    plan = sweep.plan
    order = _order(plan, direction)
    kernels = sorted({k for value in plan.values if (k := value.kernel) is not None})
    state = {number: arrays[number].ravel() for number in plan.updates}
    tables: dict[Read, np.ndarray] = {}
    for number in plan.updates:
        reads = [read for read in sweep.reads(range(len(plan.values))) if read[0] == number]
        places, constants, old = _tables(plan, number, reads, order.plane)
        tables.update(zip(reads, places))
        ghosts = jnp.asarray(constants, arrays[number].dtype).reshape(-1)
        state[number] = jnp.concatenate([state[number], ghosts, *([state[number]] if old else [])])
    flat = {key: array.ravel() for key, array in fixed.items()}
    centres = {number: jnp.asarray(_centres(plan, number)) for number in plan.updates}

    def step(state: dict[int, Any], x: tuple[Any, Any, Any]) -> tuple[dict[int, Any], None]:
        cells, real, owner = x
        results = _results(sweep, kernels, tables, flat, state, cells, owner)
        for number, values in zip(plan.updates, results):
            places = jnp.where(real, centres[number][cells], state[number].size)  # beyond the end: dropped
            state[number] = state[number].at[places].set(values.astype(state[number].dtype), mode="drop")
        return state, None

    state, _ = lax.scan(step, state, (order.cells, order.real, order.owner))
    return [state[n][: arrays[n].size].reshape(arrays[n].shape) for n in plan.updates]


def _order(plan: Plan, direction: Sequence[int]) -> Order:
    owner = plan.owners()
    cells = np.flatnonzero(owner.ravel() >= 0)
    plane = np.arange(owner.size)
    if direction:
        index = np.indices(plan.grid).reshape(len(plan.grid), -1)
        plane = (np.asarray(direction)[:, None] * index).sum(axis=0)
    _, row, counts = np.unique(plane[cells], return_inverse=True, return_counts=True)
    sort = np.argsort(row, kind="stable")
    column = np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(counts), int(counts.max()))
    real = np.zeros(shape, bool)
    real[row[sort], column] = True
    first = cells[sort][np.cumsum(counts) - counts]
    table = np.repeat(first[:, None], shape[1], axis=1)
    table[row[sort], column] = cells[sort]
    return Order(table.astype(np.int32), real, owner.ravel()[table], np.where(owner.ravel() >= 0, plane, -1))


def _tables(
    plan: Plan, number: int, reads: Sequence[Read], plane: np.ndarray
) -> tuple[list[np.ndarray], list[Any], bool]:
    """Where each cell reads, in a vector of the raveled array, constants, and (if the last result says so) the array
    as it was: for cells whose old value is wanted after a plane has written it."""
    f = plan.fields[number]
    size = math.prod(f.shape)
    writer = np.full(size, -1)
    writer[_centres(plan, number)] = np.where(plane >= 0, np.arange(len(plane)), -1)
    found, constants, late = [], [], []
    for _, tap in reads:
        source, values = f.sources(tap, plan.grid)
        source = source.ravel()
        written_by = np.where(source >= 0, writer[np.maximum(source, 0)], -1)
        too_early = (written_by > np.arange(len(plane))) & (plane[np.maximum(written_by, 0)] < plane)
        found.append(np.where(source < 0, size + len(constants) - 1 - source, source))
        late.append(too_early)
        constants += values
    old = any(too_early.any() for too_early in late)
    shift = size + len(constants)
    return [np.where(t, places + shift, places) for places, t in zip(found, late)], constants, old


def _centres(plan: Plan, number: int) -> np.ndarray:
    """Where each cell writes, in the raveled array."""
    places, _ = plan.fields[number].sources((0,) * len(plan.grid), plan.grid)
    return places.ravel().astype(np.int32)


def _results(
    sweep: Sweep,
    kernels: Sequence[int],
    tables: dict[Read, np.ndarray],
    flat: dict[Read, Any],
    state: dict[int, Any],
    cells: Any,
    owner: Any,
) -> list[Any]:
    """What the cells of a plane write, for each updated field."""
    plan = sweep.plan
    kernel_of = np.array([-1 if value.kernel is None else value.kernel for value in plan.values])
    results = [jnp.zeros(cells.shape, state[number].dtype) for number in plan.updates]
    for number, value in enumerate(plan.values):
        if value.kernel is None and sweep.fillings[number] is not None:
            key = filling(number)
            constant = flat[key][cells] if key in flat else jnp.asarray(sweep.fillings[number])
            results = [jnp.where(owner == number, constant.astype(r.dtype), r) for r in results]
    for kernel in kernels:
        mine = jnp.asarray(kernel_of)[owner] == kernel

        # a cell of another kernel reads what some cell of this one reads: no NaN comes from where it does not belong
        some = cells[jnp.argmax(mine, axis=0)]

        def evaluate(
            kernel: int = kernel, mine: Any = mine, some: Any = some, before: list[Any] = results
        ) -> list[Any]:
            reads = [
                _read(tables[read], state[read[0]], cells, mine, some)
                if read in tables
                else jnp.where(mine, flat[read][cells], lax.stop_gradient(flat[read][some]))
                for read in sweep.inputs[kernel]
            ]
            uniform = sweep.uniform[kernel]
            mapped = (*[0] * len(reads), *[None] * len(uniform))
            function = jax.vmap(as_function(sweep.formulas[kernel].closed), mapped, axis_size=len(cells))
            return [v.astype(r.dtype) for v, r in zip(function(*reads, *uniform), before)]

        if len(kernels) == 1:
            values = evaluate()
        else:
            values = lax.cond(mine.any(), evaluate, lambda before=results: list(before))
        results = [jnp.where(mine, v, r) for v, r in zip(values, results)]
    return results


def _read(table: np.ndarray, state: Any, cells: Any, mine: Any, some: Any) -> Any:
    places = jnp.asarray(table.astype(np.int32))
    return jnp.where(mine, state[places[cells]], lax.stop_gradient(state[places[some]]))
