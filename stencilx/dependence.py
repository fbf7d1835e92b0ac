"""Dependence: which reads of a sweep see what the sweep itself has written, and the orders that respect them.

A cell that reads an updated field at an offset reads what another cell writes, some whole number of cells away: the
*distance*, an integer vector. Cells are visited in row-major order, so the read is *carried* (it sees the new value) if
the distance is negative in that order, and sees the old value otherwise:

    . . .      distance (-1, 0), (0, -1): carried
    c c c      distance (1, 0), (0, 1):   old
    c x .      a schedule is right if every carried read is computed before its reader

From the distances follow the schedules: none is carried -> `parallel`; each is carried along one of the leading axes ->
`rows`; otherwise `cells`, or `wavefront` along a direction in which all distances are negative. A ghost stands
for the cells it is made from, so near walls there are further distances.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stencilx.errors import ScheduleError, did_you_mean, join
from stencilx.fields import FieldPlan, ghost_cells
from stencilx.walls import Sides, sources
from stencilx.window import Geometry, Offset

SCHEDULES = ("auto", "parallel", "rows", "cells", "wavefront")


@dataclass(frozen=True)
class Carried:
    """A read that sees a new value: the field, the offset in cells, and the distance of the cell that wrote it."""

    field: str
    offset: Offset
    distance: Offset

    def __str__(self) -> str:
        return f"{self.field}[{', '.join(map(str, self.offset))}]"


@dataclass(frozen=True)
class Schedule:
    """In which order the cells of a stencil are computed.

    Attributes:
        name: "parallel", "rows", "cells" or "wavefront".
        reason: why, in words.
        axes: how many leading axes are walked along one by one (0 for parallel).
        direction: for a wavefront, cells with equal products with it are computed together.
        carried: the carried reads.
        automatic: whether a backend may take another one of the valid orders, where that is cheaper.
    """

    name: str
    reason: str
    axes: int = 0
    direction: Offset = ()
    carried: tuple[Carried, ...] = ()
    automatic: bool = False


PARALLEL = Schedule("parallel", "every cell reads old values")


def schedule(
    asked: str, fields: Sequence[FieldPlan], updates: Sequence[int], grid: Sequence[int], reverse: bool
) -> Schedule:
    """The schedule that was asked for, if it gives the numbers of the row-major order; for "auto" the cheapest one."""
    if asked not in SCHEDULES:
        raise ScheduleError(f"there is no schedule {asked!r}.", hint=did_you_mean(asked, SCHEDULES))
    carried = tuple(read for number in updates for read in carried_reads(fields[number], grid, reverse))
    axes = max((_first_nonzero(read.distance) + 1 for read in carried), default=0)
    ndim, automatic = len(grid), asked == "auto"
    if automatic:
        asked = "parallel" if not carried else "rows" if axes < ndim else "cells"
    if asked == "parallel":
        if carried:
            raise _forbidden(asked, carried[0], "rows" if axes < ndim else "cells")
        return Schedule("parallel", "no read sees what the sweep has written", automatic=automatic)
    if asked == "rows":
        deep = [read for read in carried if _first_nonzero(read.distance) == ndim - 1]
        if ndim == 1:
            raise ScheduleError("schedule 'rows' needs an array of two or more axes.", hint="leave it to 'auto'.")
        if deep:
            raise _forbidden(asked, deep[0], "cells")
        return Schedule("rows", _rows_reason(carried, max(axes, 1)), max(axes, 1), (), carried, automatic)
    along = direction([read.distance for read in carried], ndim, reverse)
    return Schedule(asked, _cells_reason(asked, carried, along), ndim, along, carried, automatic)


def carried_reads(f: FieldPlan, grid: Sequence[int], reverse: bool) -> Iterator[Carried]:
    """The reads of an updated field that see new values, each with all its distances."""
    for tap in f.reads:
        by_axis = [_distances(f.geometry, f.rules[axis], axis, tap[axis], grid[axis]) for axis in range(len(grid))]
        for distance in sorted(set(itertools.product(*by_axis))):
            first = next((d for d in distance if d), 0)
            if first > 0 if reverse else first < 0:
                offset = tuple(t * d for t, d in zip(tap, f.geometry.dilation, strict=True))
                yield Carried(f.name, offset, distance)


def _distances(g: Geometry, rules: Sides, axis: int, tap: int, cells: int) -> set[int]:
    """Distances in cells, along one axis, between a reader and the writers of what it reads."""
    length, stride = g.shape[axis], g.strides[axis]
    places = g.positions(axis, range(cells), tap)
    ghosts = list(ghost_cells(places, length))
    before = sum(places[cell] < 0 for cell in ghosts)
    readers = [(tap * g.dilation[axis], range(before, before + cells - len(ghosts)))]
    for cell in ghosts:
        made_of = sources(rules[0 if places[cell] < 0 else 1], places[cell], length)
        readers += [(source - g.position(axis, cell, 0), range(cell, cell + 1)) for source in made_of]
    distances = ((offset // stride, some) for offset, some in readers if offset % stride == 0)
    return {d for d, some in distances if max(some.start, -d) < min(some.stop, cells - d)}  # the writer is a cell, too


def _first_nonzero(distance: Offset) -> int:
    return next(axis for axis, d in enumerate(distance) if d)


def direction(distances: Sequence[Offset], ndim: int, reverse: bool) -> Offset:
    """The smallest vector of whole numbers whose product with each distance is negative (positive in reverse)."""
    backward = [tuple(-d for d in distance) if reverse else distance for distance in distances]
    for largest in range(1, 5):
        candidates = sorted(itertools.product(range(largest + 1), repeat=ndim), key=sum)
        for vector in candidates:
            if all(_product(vector, distance) < 0 for distance in backward):
                return vector
    # row-major order itself is such a direction: an axis outweighs all that later ones can add up to
    weights = [1]
    for axis in reversed(range(1, ndim)):
        weights.insert(0, 1 + sum(w * max(abs(d[axis + i]) for d in backward) for i, w in enumerate(weights)))
    return tuple(weights)


def _product(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _names(carried: Iterable[Carried]) -> str:
    names = list(dict.fromkeys(map(str, carried)))
    return join(names) if len(names) <= 4 else f"{', '.join(names[:4])} and more"


def _rows_reason(carried: Sequence[Carried], axes: int) -> str:
    if not carried:
        return "asked for; no read is carried"
    along = "axis 0" if axes == 1 else f"the first {axes} axes"
    return f"{_names(carried)} {_see(carried)} new values, all of them from earlier along {along}"


def _cells_reason(name: str, carried: Sequence[Carried], along: Offset) -> str:
    if not carried:
        return "asked for; no read is carried"
    how = f"; cells with equal products with {along} go together" if name == "wavefront" else ""
    return f"{_names(carried)} {_see(carried)} new values{how}"


def _see(carried: Sequence[Carried]) -> str:
    return "sees" if len(set(map(str, carried))) == 1 else "see"


def _forbidden(asked: str, read: Carried, instead: str) -> ScheduleError:
    where = "in the same row" if asked == "rows" else "earlier in the sweep"
    distance = f"({', '.join(map(str, read.distance))})"
    return ScheduleError(
        f"schedule {asked!r} would change the numbers: {read} reads what is written {where}, {distance} cells away.",
        hint=f"the cheapest schedule here is {instead!r}, which 'auto' takes.",
    )
