"""Sweeps on JAX: prepare what does not change, and run the schedule by nested scans or from tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.plan import Plan, forward
from stencilx_jax import map as maps
from stencilx_jax import planes, sweep
from stencilx_jax.shifts import Shifts, sliced
from stencilx_jax.sweep import Read, Sweep
from stencilx_jax.trace import JaxFormula, field_dtype


def run(
    plan: Plan,
    formulas: Sequence[JaxFormula],
    fields: Sequence[Any],
    dynamic: Sequence[Any],
    constants: Sequence[Sequence[Any]],
    fillings: Sequence[Any],
) -> list[Any]:
    """The updated fields of a sweep, or what was written on the output grid; arguments as for `map.run`."""
    arrays = [jnp.asarray(a, field_dtype(a, f.joins)) for a, f in zip(fields, plan.fields)]
    if plan.cells == 0:
        return [_result(plan, number, arrays[number]) for number in plan.updates]
    turned = forward(plan)
    given = {sweep.filling(n): _filled(plan, n, value) for n, value in enumerate(fillings) if np.ndim(value)}
    inputs = [list(formula.inputs or ()) for formula in formulas]
    if plan.reverse:
        arrays = [lax.rev(array, range(array.ndim)) for array in arrays]
        given = {key: lax.rev(array, range(array.ndim)) for key, array in given.items()}
        inputs = [[(number, tuple(-o for o in tap)) for number, tap in reads] for reads in inputs]
    uniform = [[*dynamic, *captured] for captured in constants]
    all_of_it = Sweep(turned, formulas, inputs, uniform, fillings)
    fixed = _fixed(turned, inputs, arrays) | given
    states = _scheduled(all_of_it, arrays, fixed)
    if plan.reverse:
        states = [lax.rev(state, range(state.ndim)) for state in states]
    return [_result(plan, number, state) for number, state in zip(plan.updates, states)]


def _scheduled(all_of_it: Sweep, arrays: Sequence[Any], fixed: dict[Read, Any]) -> list[Any]:
    plan = all_of_it.plan
    schedule = plan.schedule
    updated = {number: arrays[number] for number in plan.updates}

    def nested(updated: dict[int, Any], fixed: dict[Read, Any]) -> list[Any]:
        if sweep.fits(plan, schedule.axes):
            return sweep.run(all_of_it, updated, fixed, schedule.axes)
        return planes.run(all_of_it, updated, fixed, ())

    def wavefront(updated: dict[int, Any], fixed: dict[Read, Any]) -> list[Any]:
        return planes.run(all_of_it, updated, fixed, schedule.direction)

    if schedule.name == "wavefront":
        return wavefront(updated, fixed)
    if schedule.name == "cells" and schedule.automatic and len(plan.grid) > 1 and jax.default_backend() != "cpu":
        # where starting a computation is dear, many cells at once win over few operations
        return lax.platform_dependent(updated, fixed, cpu=nested, default=wavefront)
    return nested(updated, fixed)


def _fixed(plan: Plan, inputs: Sequence[Sequence[Read]], arrays: Sequence[Any]) -> dict[Read, Any]:
    """What is read of fields that the sweep does not write, for all cells at once."""
    whole = tuple(range(n) for n in plan.grid)
    shifts = {n: Shifts(f, arrays[n], plan.grid) for n, f in enumerate(plan.fields) if n not in plan.updates}
    reads = dict.fromkeys(read for used in inputs for read in used if read[0] in shifts)
    return {(number, tap): shifts[number].read(tap, whole) for number, tap in reads}


def _filled(plan: Plan, owner: int, value: Any) -> Any:
    """An array given to a region, on the grid of all cells."""
    grid = jnp.zeros(plan.grid, jnp.result_type(value))
    for part in plan.parts:
        if part.owner == owner:
            grid = grid.at[part.index].set(maps.filling(plan, part, value, ()))
    return grid


def _result(plan: Plan, number: int, state: Any) -> Any:
    """The whole field for sscan, the cells that were written for kscan."""
    if plan.into_copy:
        return state
    return sliced(state, plan.fields[number].geometry.centres)
