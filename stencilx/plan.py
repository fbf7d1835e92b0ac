"""The plan: the one frozen datum that a backend executes.

Made by `stencil.py` from the geometry of each field, the boundary rules and the regions. It holds plain integers, rules
and what the user put into regions besides kernels; no fields and no functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stencilx.boundary import Sides, boundary_constants, check_not_empty
from stencilx.errors import FieldError
from stencilx.regions import Frame, Part
from stencilx.window import Geometry, Pair, Reads, Window

Values = tuple["RegionValue", ...]


@dataclass(frozen=True)
class FieldPlan:
    """One field: where its windows lie, what kernels read of them, and what lies outside the array.

    `ghosts` counts the cells outside the array that windows cover on each side, whether or not a kernel reads them.
    """

    geometry: Geometry
    rules: tuple[Sides, ...]
    reads: Reads
    ghosts: tuple[Pair, ...]

    @property
    def name(self) -> str:
        return self.geometry.field

    @property
    def shape(self) -> tuple[int, ...]:
        return self.geometry.shape

    @property
    def window(self) -> Window:
        return self.geometry.window

    @property
    def constants(self) -> tuple[Any, ...]:
        return boundary_constants(self.rules)


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
        schedule: in which order cells are visited, and why.
    """

    fields: tuple[FieldPlan, ...]
    grid: tuple[int, ...]
    frame: Frame
    values: Values
    parts: tuple[Part, ...]
    into_copy: bool
    schedule: str = "parallel"
    reason: str = "every cell reads old values"

    @property
    def cells(self) -> int:
        return math.prod(self.grid)


def common_grid(geometries: Sequence[Geometry]) -> tuple[int, ...]:
    """The output grid, on which all fields must agree."""
    grids = [g.grid for g in geometries]
    if len(set(grids)) > 1:
        lines = [
            f"  {g.field}: shape {g.shape}, window {g.window}, padding {g.padding} -> grid {grid}"
            for g, grid in zip(geometries, grids, strict=True)
        ]
        raise FieldError(
            "the fields give different output grids:\n" + "\n".join(lines),
            hint="a face field of n+1 values beside n cells takes kernel_size=2 and padding='valid': "
            "give kernel_size and padding by field, kernel_size={'u': 3, 'f': 2}.",
        )
    return grids[0]


def plan_field(geometry: Geometry, rules: tuple[Sides, ...], reads: Reads, grid: Sequence[int]) -> FieldPlan:
    ghosts = geometry.ghosts(geometry.window, grid)
    check_not_empty(rules, geometry.shape, ghosts, geometry.field)
    return FieldPlan(geometry, rules, reads, ghosts)
