"""Dependence: which reads of a sweep see what the sweep itself has written, and the orders that respect them.

A cell that reads an updated field at an offset reads what another cell writes, some whole number of cells away: the
*distance*, an integer vector. Cells are visited in row-major order, so the read is *carried* (it sees the new value) if
the distance is negative in that order, and sees the old value otherwise:

    . . .      distance (-1, 0), (0, -1): carried
    c c c      distance (1, 0), (0, 1):   old
    c x .      a schedule is right if every carried read is computed before its reader

From the distances follow the schedules. Some axes are walked along one by one, and the cells of all others are computed
at once. That is right if along the walked axes alone every carried distance is negative still and no other one is:

    none is walked -> `parallel`      some -> `rows`      all -> `cells`, or `wavefront` by hyperplanes

A ghost stands for the cells it is made from, so near walls there are further distances. Where each carried value comes
from the cell just before along one axis, a backend may compose the steps in any grouping: `associative`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stencilx.boundary import Constant, Rule
from stencilx.errors import ScheduleError, did_you_mean, join
from stencilx.fields import FieldPlan, ghost_cells
from stencilx.walls import Sides, is_plain, sources
from stencilx.window import Geometry, Offset

SCHEDULES = ("auto", "parallel", "rows", "cells", "wavefront", "associative")


@dataclass(frozen=True)
class Dependence:
    """A read of what a sweep writes: the field, the offset in cells, and the distance of the cell that writes it."""

    field: str
    offset: Offset
    distance: Offset

    def __str__(self) -> str:
        return f"{self.field}[{', '.join(map(str, self.offset))}]"

    def carried(self, reverse: bool) -> bool:
        """Whether the read sees the new value."""
        zero = (0,) * len(self.distance)
        return self.distance > zero if reverse else self.distance < zero


@dataclass(frozen=True)
class Schedule:
    """In which order the cells of a stencil are computed.

    Attributes:
        name: "parallel", "rows", "cells", "wavefront" or "associative".
        reason: why, in words.
        axes: how many axes are walked along one by one (0 for parallel).
        order: for a sweep all axes, first those that are walked along.
        direction: for a wavefront, cells with equal products with it are computed together.
        carried: the carried reads.
        automatic: whether a backend may take another one of the valid orders, where that is cheaper.
    """

    name: str
    reason: str
    axes: int = 0
    order: tuple[int, ...] = ()
    direction: Offset = ()
    carried: tuple[Dependence, ...] = ()
    automatic: bool = False


PARALLEL = Schedule("parallel", "every cell reads old values")


def schedule(
    asked: str, fields: Sequence[FieldPlan], updates: Sequence[int], grid: Sequence[int], reverse: bool
) -> Schedule:
    """The schedule that was asked for, if it gives the numbers of the row-major order; for "auto" the cheapest one."""
    if asked not in SCHEDULES:
        raise ScheduleError(f"there is no schedule {asked!r}.", hint=did_you_mean(asked, SCHEDULES))
    found = [read for number in updates for read in dependences(fields[number], grid)]
    carried = tuple(read for read in found if read.carried(reverse))
    walked = _walked(found, fields, grid, reverse)
    ndim, automatic = len(grid), asked == "auto"
    cheapest = "parallel" if not walked else "rows" if len(walked) < ndim else "cells"
    asked = cheapest if automatic else asked
    if asked == "parallel":
        if carried:
            raise _forbidden(asked, carried[0], cheapest)
        return Schedule(asked, "no read sees what the sweep has written", order=_order((), ndim), automatic=automatic)
    if asked == "rows":
        if ndim == 1:
            raise ScheduleError("schedule 'rows' needs an array of two or more axes.", hint="leave it to 'auto'.")
        if cheapest == "cells":
            raise _forbidden(asked, next(read for read in carried if not any(read.distance[:-1])), cheapest)
        walked = walked or (0,)
        reason = _rows_reason(carried, walked)
        return Schedule("rows", reason, len(walked), _order(walked, ndim), (), carried, automatic)
    if asked == "associative":
        if carried:
            _check_recurrence([fields[number].name for number in updates], found, carried, walked, cheapest)
        return Schedule(asked, _associative_reason(carried, walked), len(walked), _order(walked, ndim), (), carried)
    along = direction([read.distance for read in carried], ndim, reverse)
    return Schedule(
        asked, _cells_reason(asked, carried, along), ndim, _order(range(ndim), ndim), along, carried, automatic
    )


def dependences(f: FieldPlan, grid: Sequence[int]) -> Iterator[Dependence]:
    """The reads of an updated field, each with all distances of what it reads."""
    for tap in f.reads:
        by_axis = [_distances(f.geometry, f.rules[axis], axis, tap[axis], grid[axis]) for axis in range(len(grid))]
        offset = f.geometry.in_cells(tap)
        for distance in sorted(set(itertools.product(*by_axis))):
            yield Dependence(f.name, offset, distance)


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


# Orders


def _walked(
    found: Sequence[Dependence], fields: Sequence[FieldPlan], grid: Sequence[int], reverse: bool
) -> tuple[int, ...]:
    """The fewest axes that must be walked along, leading ones if possible; all of them, in order, always do."""
    ndim = len(grid)
    distances = {tuple(-d for d in read.distance) if reverse else read.distance for read in found}
    choices = itertools.chain.from_iterable(itertools.combinations(range(ndim), count) for count in range(ndim))
    fitting = (
        axes
        for axes in choices
        if all(_in_order(distance, axes) for distance in distances)
        and all(_corners_stay(f, _order(axes, ndim), grid) for f in fields)
    )
    return next(fitting, tuple(range(ndim)))


def _order(walked: Sequence[int], ndim: int) -> tuple[int, ...]:
    return (*walked, *(axis for axis in range(ndim) if axis not in walked))


def _in_order(distance: Offset, walked: Sequence[int]) -> bool:
    """Whether a cell at that distance comes earlier along some axes alone just if it does in row-major order."""
    along = tuple(distance[axis] for axis in walked)
    return (along < (0,) * len(along)) == (distance < (0,) * len(distance))


def _corners_stay(f: FieldPlan, order: Sequence[int], grid: Sequence[int]) -> bool:
    """Whether all reads of ghosts give the same if the axes are extended in another order."""
    turned = [(late, early) for late, early in itertools.combinations(order, 2) if early < late]
    for tap in f.reads if turned else ():
        counts = f.geometry.ghosts((tap,), grid)
        met = [[rule for rule, n in zip(sides, pair) if n] for sides, pair in zip(f.rules, counts, strict=True)]
        if not all(_commute(*rules) for a, b in turned for rules in itertools.product(met[a], met[b])):
            return False
    return True


def _commute(one: Rule, other: Rule) -> bool:
    """Whether a corner between two axes holds the same whichever axis is extended first."""
    if isinstance(one, Constant) and isinstance(other, Constant):
        return is_plain(one) and one == other
    return all(rule.copies or is_plain(rule) for rule in (one, other))


def _check_recurrence(
    updates: Sequence[str],
    found: Sequence[Dependence],
    carried: Sequence[Dependence],
    walked: Sequence[int],
    cheapest: str,
) -> None:
    """Each carried value must come from the cell just before along one axis, the only one that is walked along."""
    if len(updates) > 1:
        raise _not_associative(f"{join(updates)} are updated together", cheapest)
    first = carried[0]
    for read in carried:
        if sum(map(abs, read.distance)) != 1 or read.distance != first.distance:
            beside = "" if read is first else f", and {first} what is written {_text(first.distance)} cells away"
            raise _not_associative(f"{read} reads what is written {_text(read.distance)} cells away{beside}", cheapest)
    axis = next(axis for axis, d in enumerate(first.distance) if d)
    for read in found:
        if read.distance != first.distance and read.distance[axis] * first.distance[axis] > 0:
            raise _not_associative(f"{read} reads an old value, which along axis {axis} alone is new", cheapest)
    if tuple(walked) != (axis,):
        raise _not_associative(f"axis {axis} would come first, which changes what lies beyond the corners", cheapest)


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


# Words


def _names(carried: Iterable[Dependence]) -> str:
    names = list(dict.fromkeys(map(str, carried)))
    return join(names) if len(names) <= 4 else f"{', '.join(names[:4])} and more"


def _rows_reason(carried: Sequence[Dependence], walked: Sequence[int]) -> str:
    if not carried:
        return "asked for; no read is carried"
    along = f"{'axis' if len(walked) == 1 else 'axes'} {join(map(str, walked))}"
    return f"{_names(carried)} {_see(carried)} new values, all of them from earlier along {along}"


def _cells_reason(name: str, carried: Sequence[Dependence], along: Offset) -> str:
    if not carried:
        return "asked for; no read is carried"
    how = f"; cells with equal products with {along} go together" if name == "wavefront" else ""
    return f"{_names(carried)} {_see(carried)} new values{how}"


def _associative_reason(carried: Sequence[Dependence], walked: Sequence[int]) -> str:
    if not carried:
        return "asked for; no read is carried"
    return f"asked for; {_names(carried)} {_see(carried)} the value just before along axis {walked[0]}"


def _see(carried: Sequence[Dependence]) -> str:
    return "sees" if len(set(map(str, carried))) == 1 else "see"


def _forbidden(asked: str, read: Dependence, instead: str) -> ScheduleError:
    where = "in the same row" if asked == "rows" else "earlier in the sweep"
    return ScheduleError(
        f"schedule {asked!r} would change the numbers: {read} reads what is written {where}, "
        f"{_text(read.distance)} cells away.",
        hint=_cheapest(instead),
    )


def _not_associative(reason: str, instead: str) -> ScheduleError:
    return ScheduleError(
        f"schedule 'associative' takes one value from each cell to the next along one axis, and here {reason}.",
        hint=_cheapest(instead),
    )


def _cheapest(name: str) -> str:
    return f"the cheapest schedule here is {name!r}, which 'auto' takes."


def _text(distance: Offset) -> str:
    return f"({', '.join(map(str, distance))})"
