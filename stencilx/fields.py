"""The fields of a call: geometry, boundary rules and reads of each, on the output grid that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stencilx.boundary import Rule
from stencilx.errors import FieldError
from stencilx.walls import Sides, check_lengths, is_plain
from stencilx.window import Geometry, Offset, Pair, Reads, Window, reach


@dataclass(frozen=True)
class FieldPlan:
    """One field: where its windows lie, what kernels read of them, and what lies outside the array.

    `joins` are the numbers and dtypes that the array's dtype is joined with: what may lie outside, what a sweep writes.
    `ghosts` counts the cells outside the array that windows cover on each side, whether or not a kernel reads them.
    `inside` has the rules for cells that a mask says do not exist, if there is one.
    """

    geometry: Geometry
    rules: tuple[Sides, ...]
    reads: Reads
    ghosts: tuple[Pair, ...]
    joins: tuple[Any, ...] = field(default=(), compare=False)
    inside: tuple[Sides, ...] = ()

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
    def covered(self) -> Window:
        """All cells that may be read: the window, and what is read beyond it in place of others."""
        if isinstance(self.reads, Window):
            return self.window
        return reach([*self.reads, self.window.lo, self.window.hi], len(self.shape))

    def on_axes(self, axes: Sequence[int]) -> FieldPlan:
        """The same on some of its axes, in the order given."""

        def chosen(entries: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(entries[axis] for axis in axes)

        g, reads = self.geometry, self.reads
        geometry = replace(
            g,
            shape=chosen(g.shape),
            window=Window(chosen(g.window.lo), chosen(g.window.hi)),
            strides=chosen(g.strides),
            dilation=chosen(g.dilation),
            padding=chosen(g.padding),
        )
        if isinstance(reads, Window):
            reads = Window(chosen(reads.lo), chosen(reads.hi))
        else:
            reads = tuple(sorted({chosen(offset) for offset in reads}))
        return replace(self, geometry=geometry, rules=chosen(self.rules), reads=reads, ghosts=chosen(self.ghosts))

    def sources(self, tap: Offset, grid: Sequence[int]) -> tuple[np.ndarray, list[Any]]:
        """For each cell the element of the raveled array that a tap reads, or -1 - k for the k-th of the constants.

        A None among the constants stands for what follows from a formula: see `value`.
        """
        number = np.zeros(grid, np.int64)
        constants: list[Any] = []
        for axis, (n, cells) in enumerate(zip(self.shape, grid, strict=True)):
            places = self.geometry.positions(axis, range(cells), tap[axis])
            index = np.array(places, np.int64)
            for cell in ghost_cells(places, n):
                rule = self.rules[axis][0 if places[cell] < 0 else 1]
                if rule.copies:
                    index[cell] = rule.index(places[cell], n)
                else:
                    index[cell] = -1 - len(constants)
                    constants.append(rule.value if is_plain(rule) else None)
            index = np.expand_dims(index, [a for a in range(len(grid)) if a != axis])
            inside = np.where(number < 0, number, number * n + index)
            number = np.where(index < 0, index, inside)  # the later axis holds the corners
        return number, constants

    def value(self, place: Offset, cell: Callable[[Offset], Any], rule: Callable[[int, Offset], Rule]) -> Any:
        """What stands at a place, inside the array or outside: the axis that was extended last is asked first.

        Args:
            place: an index on each axis.
            cell: what stands at a place inside.
            rule: the rule for a place that lies outside along an axis, with the values that it has there.
        """
        for axis in reversed(range(len(place))):
            if not 0 <= place[axis] < self.shape[axis]:
                at = rule(axis, place)
                return at.ghost(
                    place[axis],
                    self.shape[axis],
                    lambda i, axis=axis: self.value((*place[:axis], i, *place[axis + 1 :]), cell, rule),
                )
        return cell(place)


def ghost_cells(places: range, length: int) -> Iterator[int]:
    """The numbers of those places that lie outside an axis."""
    for number in range(len(places)):
        if places[number] >= 0:
            break
        yield number
    for number in reversed(range(len(places))):
        if places[number] < length:
            break
        yield number


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


def plan_field(
    geometry: Geometry, rules: tuple[Sides, ...], reads: Reads, grid: Sequence[int], joins: tuple[Any, ...]
) -> FieldPlan:
    pairs = zip(geometry.ghosts(geometry.window, grid), geometry.ghosts(reads, grid), strict=True)
    ghosts = tuple((max(a, c), max(b, d)) for (a, b), (c, d) in pairs)
    check_lengths(rules, geometry.shape, ghosts, geometry.field)
    return FieldPlan(geometry, rules, reads, ghosts, joins)
