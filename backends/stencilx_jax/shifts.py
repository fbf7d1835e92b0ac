"""Shifted copies of a field: what one read gives, for a box of cells at a time.

A read that stays inside the array is a plain slice. One that sticks out where constants lie outside is a slice with
that constant padded on (XLA fuses it: nothing padded is stored). For other rules a thin strip of cells is put together
from slices; for anything larger, and for many reads, the field is extended once and sliced. The values of rules are
arrays of the field's own rank, as thick as 1 along the rule's axis, which are sliced and extended as the field is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.boundary import Constant, Rule
from stencilx.fields import FieldPlan
from stencilx.regions import Box, Points
from stencilx.walls import Sides, copying, face_shape, filled, ghost, ghost_runs, is_plain
from stencilx.window import Offset

MANY = 9
"""Of more reads, all are slices of one copy of the field with its ghosts, which is then the cheapest way."""


class Shifts:
    """The shifted copies of one field in one run."""

    def __init__(self, plan: FieldPlan, array: Any, grid: Sequence[int], walls: Sequence[Any] = ()) -> None:
        self.plan, self.array = plan, array
        self.ghosts = plan.geometry.ghosts(plan.reads, grid)
        self.rules = tuple(
            (_with_values(low, walls, array, axis), _with_values(high, walls, array, axis))
            for axis, (low, high) in enumerate(plan.rules)
        )
        self._extended: Any = None

    @property
    def extended(self) -> Any:
        """The field with all ghosts that are read."""
        if self._extended is None:
            self._extended = self._with_ghosts()
        return self._extended

    def _with_ghosts(self) -> Any:
        """One copy with ghosts of one constant, into which all others are written strip by strip."""
        reached = [rule for sides, counts in zip(self.rules, self.ghosts) for rule, n in zip(sides, counts) if n]
        filler: Any = next((rule.value for rule in reached if is_plain(rule)), 0)
        array = lax.pad(self.array, jnp.asarray(filler, self.array.dtype), [(a, b, 0) for a, b in self.ghosts])
        for axis, (counts, rules) in enumerate(zip(self.ghosts, self.rules)):
            n = self.array.shape[axis]
            for places, rule in zip((range(-counts[0], 0), range(n, n + counts[1])), rules):
                if not places or (is_plain(rule) and rule.value is filler):
                    continue
                strip = [range(m) for m in self.array.shape]
                strip[:axis] = [range(-a, m + b) for (a, b), m in zip(self.ghosts[:axis], self.array.shape)]
                strip[axis] = places
                starts = [p.start + before for p, (before, _) in zip(strip, self.ghosts)]
                array = lax.dynamic_update_slice(array, self._gathered(strip), starts)
        return array

    def _placed(self, places: Sequence[range], order: Iterable[int]) -> Any:
        """The field at some places on each axis, one axis after the other."""
        array, rules = self.array, list(self.rules)
        for axis in order:
            array = along(array, axis, places[axis], rules[axis])
            self._move_values(rules, axis, places[axis])
        return array

    def _move_values(self, rules: list[Sides], axis: int, places: range) -> None:
        """Take the values of the other axes' rules at places along this one."""
        copies = (copying(rules[axis][0]), copying(rules[axis][1]))
        for other in range(self.array.ndim):
            if other != axis and any(rule.VALUES for rule in rules[other]):
                low, high = (_moved(rule, axis, places, copies) for rule in rules[other])
                rules[other] = (low, high)

    def inner(self, axis: int, cells: range, tap: int) -> tuple[int, int]:
        """Which of the cells, first to one after the last, read no ghost but plain constants with a tap."""
        places = self.plan.geometry.positions(axis, cells, tap)
        before, after = outside(places, self.array.shape[axis])
        low, high = self.rules[axis]
        return before * (not _is_plain(low)), len(cells) - after * (not _is_plain(high))

    def read(self, tap: Offset, cells: Box) -> Any:
        """What the cells of a box read with one tap: an array of the box's shape."""
        places = [self.plan.geometry.positions(axis, r, o) for axis, (r, o) in enumerate(zip(cells, tap))]
        counts = [outside(p, n) for p, n in zip(places, self.array.shape)]
        rules = [rule for pair, sides in zip(counts, self.rules) for n, rule in zip(pair, sides) if n]
        if all(map(_is_plain, rules)) and len(self.plan.reads) <= MANY:
            return self._padded(places, counts)
        if math.prod(map(len, cells)) * len(self.plan.reads) <= self.array.size:
            return self._gathered(places)
        return sliced(self.extended, [moved(p, before) for p, (before, _) in zip(places, self.ghosts)])

    def _gathered(self, places: Sequence[range]) -> Any:
        """A thin strip, put together axis by axis from slices: nothing larger is stored.

        The axes along which it is thin come first. Copies along one axis may be made before or after anything else:
        what lies over a face is copied with it. Constants and formulas along several keep the order of their axes, for
        the later one holds the corners.
        """
        counts = (outside(p, n) for p, n in zip(places, self.array.shape))
        made = [any(n and not r.copies for n, r in zip(pair, sides)) for pair, sides in zip(counts, self.rules)]
        order: list[int] = []
        rest = list(range(len(places)))
        while rest:
            next_made = next((axis for axis in rest if made[axis]), None)
            ready = [axis for axis in rest if axis == next_made or not made[axis]]
            order.append(min(ready, key=lambda axis: len(places[axis])))
            rest.remove(order[-1])
        return self._placed(places, order)

    def read_points(self, tap: Offset, points: Points) -> Any:
        """What single cells read with one tap: an array with one axis."""
        g = self.plan.geometry
        index = []
        for axis, cells in enumerate(points.index):
            first = g.position(axis, 0, tap[axis]) + self.ghosts[axis][0]
            index.append(first + cells * g.strides[axis])
        return self.extended[tuple(index)]

    def windows(self, cells: Box) -> Any:
        """The whole windows of a box of cells: an array of the box's shape followed by the window's."""
        g = self.plan.geometry
        starts = [
            jnp.asarray(np.asarray(g.positions(axis, r, g.window.lo[axis]), np.int32) + self.ghosts[axis][0])
            for axis, r in enumerate(cells)
        ]
        return self._cut(starts, one_axis=False)

    def windows_at_points(self, points: Points) -> Any:
        g = self.plan.geometry
        starts = [
            jnp.asarray(
                (g.position(axis, 0, g.window.lo[axis]) + self.ghosts[axis][0] + i * g.strides[axis]).astype(np.int32)
            )
            for axis, i in enumerate(points.index)
        ]
        return self._cut(starts, one_axis=True)

    def _cut(self, starts: Sequence[Any], one_axis: bool) -> Any:
        g, array = self.plan.geometry, self.extended

        def cut(*at: Any) -> Any:
            window = lax.dynamic_slice(array, at, g.extent)
            return lax.slice(window, (0,) * window.ndim, window.shape, g.dilation)

        if one_axis:
            return jax.vmap(cut)(*starts)
        for axis in reversed(range(len(starts))):
            cut = jax.vmap(cut, in_axes=tuple(0 if a == axis else None for a in range(len(starts))))
        return cut(*starts)

    def _padded(self, places: Sequence[range], counts: Sequence[tuple[int, int]]) -> Any:
        inside = [p[before : len(p) - after] for p, (before, after) in zip(places, counts)]
        array = sliced(self.array, inside)
        for axis, (pair, (low, high)) in enumerate(zip(counts, self.rules)):
            array = with_constants(array, axis, pair, (getattr(low, "value", None), getattr(high, "value", None)))
        return array


def with_constants(array: Any, axis: int, counts: tuple[int, int], values: tuple[Any, Any]) -> Any:
    """An array with so many constants before and after it along one axis."""
    for side, (count, value) in enumerate(zip(counts, values)):
        if count:
            widths = [(0, 0, 0)] * array.ndim
            widths[axis] = (count, 0, 0) if side == 0 else (0, count, 0)
            array = lax.pad(array, jnp.asarray(value, array.dtype), widths)
    return array


def moved(places: range, by: int) -> range:
    return range(places.start + by, places.stop + by, places.step)


def outside(places: range, length: int) -> tuple[int, int]:
    """How many of the places lie before and after an axis of that length."""
    if not places:
        return 0, 0
    before = max(0, -(places[0] // places.step))
    after = max(0, (places[-1] - length) // places.step + 1)
    return min(before, len(places)), min(after, len(places))


def replaced(array: Any, piece: Any, places: Sequence[range]) -> Any:
    """The array with a piece of it, given by places on each axis, replaced by one computed from it.

    A piece that is whole but along one axis is joined to what lies before and after it. Any other is written into the
    array behind a barrier: XLA on CPU (its issue 49176) may fuse computing and writing into one loop that works in
    place and reads what it has already overwritten.
    """
    cut = [axis for axis, (p, n) in enumerate(zip(places, array.shape)) if p != range(n)]
    if not cut:
        return piece
    if len(cut) == 1 and (places[cut[0]].step == 1 or len(places[cut[0]]) == 1):
        axis, p = cut[0], places[cut[0]]
        before = lax.slice_in_dim(array, 0, p[0], axis=axis)
        after = lax.slice_in_dim(array, p[0] + len(p), array.shape[axis], axis=axis)
        return lax.concatenate([part for part in (before, piece, after) if part.shape[axis]], axis)
    array, piece = lax.optimization_barrier((array, piece))
    if all(p.step == 1 or len(p) == 1 for p in places):
        return lax.dynamic_update_slice(array, piece, [p[0] for p in places])
    return array.at[tuple(slice(p[0], p[-1] + 1, p.step) for p in places)].set(piece)


def sliced(array: Any, places: Sequence[range]) -> Any:
    starts = [p.start if len(p) else 0 for p in places]
    limits = [p[-1] + 1 if len(p) else 0 for p in places]
    steps = [p.step if len(p) > 1 else 1 for p in places]
    whole = all(s == 0 and n == size and t == 1 for s, n, size, t in zip(starts, limits, array.shape, steps))
    return array if whole else lax.slice(array, starts, limits, steps)


def along(array: Any, axis: int, places: range, rules: Sides) -> Any:
    """An array at places along one axis, some of which lie outside it."""
    first, last = outside(places, array.shape[axis])
    inside = places[first : len(places) - last]
    middle = [range(n) for n in array.shape]
    middle[axis] = inside
    before = _ghosts(array, axis, places[:first], rules[0])
    after = _ghosts(array, axis, places[len(places) - last :], rules[1])
    pieces = [*before, *([sliced(array, middle)] if len(inside) else []), *after]
    return pieces[0] if len(pieces) == 1 else lax.concatenate(pieces, axis)


def _ghosts(array: Any, axis: int, places: range, rule: Rule) -> list[Any]:
    """The ghosts at places on one side of one axis, piece by piece, from what is there."""
    if not places:
        return []
    shape, length = list(array.shape), array.shape[axis]
    if isinstance(rule, Constant):
        shape[axis] = len(places)
        return [jnp.broadcast_to(jnp.asarray(rule.value, array.dtype), shape)]
    if not rule.copies:
        return [_made(array, axis, place, rule) for place in places]
    pieces = []
    for run in ghost_runs(rule, places, length):
        low = min(run.start, run.start + run.step * (run.count - 1))
        piece = lax.slice_in_dim(array, low, low + 1 + (run.count - 1) * abs(run.step), axis=axis)
        if run.step == 0:
            shape[axis] = run.count
            piece = lax.broadcast_in_dim(piece, shape, range(array.ndim))
        pieces.append(lax.rev(piece, (axis,)) if run.step < 0 else piece)
    return pieces


def _made(array: Any, axis: int, place: int, rule: Rule) -> Any:
    """The ghosts at one place along an axis by a rule's formula, on whole slices."""
    slab = ghost(rule, place, array.shape[axis], lambda i: lax.slice_in_dim(array, i, i + 1, axis=axis))
    return jnp.asarray(slab, array.dtype)


def _with_values(rule: Rule, walls: Sequence[Any], array: Any, axis: int) -> Rule:
    """The rule with its values as arrays that meet slices of the field; single numbers stay without axes."""

    def shaped(number: int) -> Any:
        value = jnp.asarray(walls[number], array.dtype)
        return value.reshape(face_shape(value, array.shape, axis, "")) if value.ndim else value

    return filled(rule, lambda slot: shaped(slot.number))


def _is_plain(rule: Rule) -> bool:
    """Whether a single number lies outside."""
    return isinstance(rule, Constant) and np.ndim(rule.value) == 0


def _moved(rule: Rule, axis: int, places: range, copies: Sides) -> Rule:
    """A rule whose values are taken at places along another axis."""
    moved = {}
    for name in rule.VALUES:
        value = getattr(rule, name)
        if np.ndim(value) and value.shape[axis] > 1:
            moved[name] = along(value, axis, places, copies)
    return replace(rule, **moved) if moved else rule
