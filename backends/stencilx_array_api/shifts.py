"""Shifted slices of a field in any array library: the field is extended by its ghosts once, then sliced."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np

from stencilx.boundary import IndexRule, Rule, ghost_runs
from stencilx.fields import FieldPlan
from stencilx.regions import Box, Points
from stencilx.window import Offset


class Shifts:
    """The shifted slices of one field in one run."""

    def __init__(self, plan: FieldPlan, array: Any, xp: Any) -> None:
        self.plan, self.xp = plan, xp
        self.device = array_api_compat.device(array)
        self._given: list[Any] = []
        for axis, (rules, counts) in enumerate(zip(plan.rules, plan.ghosts, strict=True)):
            before, after = (self._ghosts(array, axis, side, rules[side], counts[side]) for side in (0, 1))
            if before or after:
                array = xp.concat([*before, array, *after], axis=axis)
        self.extended = array

    def read(self, tap: Offset, cells: Box | Points) -> Any:
        """What the cells of a part read with one tap: an array of a box's shape, or with one axis for points."""
        g = self.plan.geometry
        if isinstance(cells, Points):
            index = [
                i * stride + g.position(axis, 0, tap[axis]) + self.plan.ghosts[axis][0]
                for axis, (i, stride) in enumerate(zip(cells.index, g.strides, strict=True))
            ]
            flat = np.ravel_multi_index(index, self.extended.shape)
            numbers = self.xp.asarray(flat, device=self.device)
            return self.xp.take(self.xp.reshape(self.extended, (-1,)), numbers, axis=0)
        places = [g.positions(axis, r, tap[axis]) for axis, r in enumerate(cells)]
        first = [p.start + before for p, (before, _) in zip(places, self.plan.ghosts, strict=True)]
        last = [f + (len(p) - 1) * p.step for f, p in zip(first, places, strict=True)]
        key = tuple(slice(f, end + 1, p.step) for f, end, p in zip(first, last, places, strict=True))
        self._given.append(self.extended[key])
        return self._given[-1]

    def shares_memory(self, array: Any) -> bool:
        """Whether an array may be a view of the field."""
        if isinstance(array, np.ndarray):
            return np.may_share_memory(array, self.extended)
        return any(array is given for given in self._given)

    def _ghosts(self, array: Any, axis: int, side: int, rule: Rule, count: int) -> list[Any]:
        """The ghosts on one side of one axis, piece by piece, as copies of what is there already."""
        if not count:
            return []
        shape = list(array.shape)
        if not isinstance(rule, IndexRule):
            shape[axis] = count
            return [self.xp.full(tuple(shape), rule.value, dtype=array.dtype, device=self.device)]
        pieces = []
        n = array.shape[axis]
        for run in ghost_runs(rule, range(n, n + count) if side else range(-count, 0), n):
            low = min(run.start, run.start + run.step * (run.count - 1))
            key = [slice(None)] * array.ndim
            key[axis] = slice(low, low + 1 + (run.count - 1) * abs(run.step))
            piece = array[tuple(key)]
            if run.step == 0:
                shape[axis] = run.count
                piece = self.xp.broadcast_to(piece, tuple(shape))
            pieces.append(self.xp.flip(piece, axis=axis) if run.step < 0 else piece)
        return pieces
