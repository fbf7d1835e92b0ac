"""Sweeps on JAX: prepare what does not change, and run the schedule by nested scans or from tables.

Both know forward sweeps over arrays whose leading axes are walked along, so arrays are turned round and transposed
before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.plan import Plan, forward, permuted
from stencilx_jax import map as maps
from stencilx_jax import planes, sweep
from stencilx_jax.map import Inputs
from stencilx_jax.shifts import Shifts, sliced
from stencilx_jax.sweep import Read, Sweep
from stencilx_jax.trace import JaxFormula, field_dtype
from stencilx_jax.walls import without_formulas


def run(plan: Plan, formulas: Sequence[JaxFormula], inputs: Inputs) -> list[Any]:
    """The updated fields of a sweep, or what was written on the output grid."""
    arrays = [jnp.asarray(a, field_dtype(a, f.joins)) for a, f in zip(inputs.fields, plan.fields)]
    if plan.cells == 0:
        return [_result(plan, number, arrays[number]) for number in plan.updates]
    uniform = [[*inputs.dynamic, *captured] for captured in inputs.constants]
    whole = Sweep(plan, formulas, [f.inputs or () for f in formulas], uniform, inputs.fillings)
    whole, beside = without_formulas(whole, arrays, inputs.walls)
    given = {sweep.filling(n): _filled(plan, n, value) for n, value in enumerate(inputs.fillings) if np.ndim(value)}
    fixed = _fixed(whole, arrays, inputs.walls) | beside | given
    turned = [[_turned_read(plan, read) for read in reads] for reads in whole.inputs]
    whole = replace(whole, plan=permuted(forward(whole.plan)), inputs=turned)
    arrays = [_turned(plan, array) for array in arrays]
    fixed = {_turned_read(plan, key): _turned(plan, array) for key, array in fixed.items()}
    states = [_turned_back(plan, state) for state in _scheduled(whole, arrays, fixed)]
    return [_result(plan, number, state) for number, state in zip(plan.updates, states)]


def _turned(plan: Plan, array: Any) -> Any:
    """An array over all axes, as the forward sweep over permuted axes knows it."""
    return lax.transpose(lax.rev(array, range(array.ndim)) if plan.reverse else array, plan.schedule.order)


def _turned_read(plan: Plan, read: Read) -> Read:
    """A read as that sweep calls it; what lies beside the fields keeps its name."""
    number, tap = read
    if number < 0:
        return read
    return number, tuple(-tap[axis] if plan.reverse else tap[axis] for axis in plan.schedule.order)


def _turned_back(plan: Plan, array: Any) -> Any:
    array = lax.transpose(array, tuple(np.argsort(plan.schedule.order).tolist()))
    return lax.rev(array, range(array.ndim)) if plan.reverse else array


def _scheduled(whole: Sweep, arrays: Sequence[Any], fixed: dict[Read, Any]) -> list[Any]:
    plan = whole.plan
    schedule = plan.schedule
    updated = {number: arrays[number] for number in plan.updates}

    def nested(updated: dict[int, Any], fixed: dict[Read, Any]) -> list[Any]:
        if sweep.fits(plan, schedule.axes):
            return sweep.run(whole, updated, fixed, schedule.axes)
        return planes.run(whole, updated, fixed, ())

    def wavefront(updated: dict[int, Any], fixed: dict[Read, Any]) -> list[Any]:
        return planes.run(whole, updated, fixed, schedule.direction)

    if schedule.name == "wavefront":
        return wavefront(updated, fixed)
    if schedule.name == "cells" and schedule.automatic and len(plan.grid) > 1 and jax.default_backend() != "cpu":
        # where starting a computation is dear, many cells at once win over few operations
        return lax.platform_dependent(updated, fixed, cpu=nested, default=wavefront)
    return nested(updated, fixed)


def _fixed(whole: Sweep, arrays: Sequence[Any], walls: Sequence[Any]) -> dict[Read, Any]:
    """What is read of fields that the sweep does not write, for all cells at once."""
    plan = whole.plan
    cells = tuple(range(n) for n in plan.grid)
    others = [n for n in range(len(plan.fields)) if n not in plan.updates]
    shifts = {n: Shifts(plan.fields[n], arrays[n], plan.grid, walls) for n in others}
    reads = dict.fromkeys(read for used in whole.inputs for read in used if read[0] in shifts)
    return {(number, tap): shifts[number].read(tap, cells) for number, tap in reads}


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
