"""The plan: the one frozen datum that a backend executes.

Made by `stencil.py` from the geometry of each field, the boundary rules and the regions. It holds plain integers, rules
and what the user put into regions besides kernels; no fields and no functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stencilx.dependence import PARALLEL, Schedule
from stencilx.fields import FieldPlan
from stencilx.regions import Box, Frame, Part, Points
from stencilx.window import Window, mirrored

Values = tuple["RegionValue", ...]


@dataclass(frozen=True)
class RegionValue:
    """What stands in a region: the number of a kernel, or a constant (a number or an array)."""

    key: Any = field(compare=False)
    kernel: int | None = None
    constant: Any = field(default=None, compare=False)


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
        fields: one entry for each field, in the order of the kernel's parameters.
        grid: how many cells are computed along each axis.
        frame: what the keys of regions count.
        values: what each assignment put there, in order.
        parts: disjoint parts of the grid, each with the number of its value.
        into_copy: whether results are written into a copy of the first field (smap), at `frame.cells`.
        schedule: in which order cells are computed, and why.
        updates: for a sweep the numbers of the fields that it writes; empty for a map.
        reverse: whether a sweep visits the last cell first.
        fuse: whether a compiler may merge the stencil with what stands around it.
    """

    fields: tuple[FieldPlan, ...]
    grid: tuple[int, ...]
    frame: Frame
    values: Values
    parts: tuple[Part, ...]
    into_copy: bool
    schedule: Schedule = PARALLEL
    updates: tuple[int, ...] = ()
    reverse: bool = False
    fuse: bool = False

    @property
    def cells(self) -> int:
        return math.prod(self.grid)

    def owners(self) -> np.ndarray:
        """The assignment that owns each cell of the grid, -1 where there is none."""
        owner = np.full(self.grid, -1, np.int32)
        for part in self.parts:
            owner[part.index] = part.owner
        return owner


def forward(plan: Plan) -> Plan:
    """A sweep in reverse as a forward one over arrays with all axes turned round. Keys of regions stay as they were."""
    if not plan.reverse:
        return plan
    fields = tuple(
        replace(
            f,
            geometry=mirrored(f.geometry),
            rules=tuple((after, before) for before, after in f.rules),
            reads=Window(tuple(-h for h in f.reads.hi), tuple(-low for low in f.reads.lo))
            if isinstance(f.reads, Window)
            else tuple(sorted(tuple(-o for o in offset) for offset in f.reads)),
            ghosts=tuple((after, before) for before, after in f.ghosts),
        )
        for f in plan.fields
    )
    parts = tuple(replace(part, cells=_turned(part.cells, plan.grid)) for part in plan.parts)
    return replace(plan, fields=fields, parts=parts, reverse=False)


def permuted(plan: Plan) -> Plan:
    """A sweep over arrays whose axes stand in its schedule's order: those that are walked along come first."""
    order = plan.schedule.order
    parts = tuple(replace(part, cells=_permuted(part.cells, order)) for part in plan.parts)
    return replace(
        plan,
        fields=tuple(f.on_axes(order) for f in plan.fields),
        grid=tuple(plan.grid[axis] for axis in order),
        parts=parts,
        schedule=replace(plan.schedule, order=tuple(range(len(order)))),
    )


def _permuted(cells: Box | Points, order: Sequence[int]) -> Box | Points:
    if isinstance(cells, Points):
        return Points(tuple(cells.index[axis] for axis in order))
    return tuple(cells[axis] for axis in order)


def _turned(cells: Box | Points, grid: tuple[int, ...]) -> Box | Points:
    if isinstance(cells, Points):
        return Points(tuple(n - 1 - index[::-1] for n, index in zip(grid, cells.index, strict=True)))
    return tuple(range(n - 1 - r[-1], n - r[0], r.step) for n, r in zip(grid, cells, strict=True))
