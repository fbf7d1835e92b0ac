"""Dependence against brute force: who writes what a cell reads, and was it visited before? Plans turned round, too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import stencilx as sx
from stencilx.boundary import (
    Constant,
    Dirichlet,
    Edge,
    Extrapolate,
    Neumann,
    Reflect,
    Robin,
    Rule,
    Slot,
    Symmetric,
    Wrap,
)
from stencilx.dependence import Dependence, Schedule, dependences, direction, schedule
from stencilx.errors import ScheduleError
from stencilx.fields import FieldPlan, plan_field
from stencilx.plan import Plan, forward, permuted
from stencilx.regions import Frame, Points, parts
from stencilx.walls import Sides
from stencilx.window import Geometry, Offset, Window, reach

COPIES: dict[Rule, str] = {
    Wrap(): "wrap",
    Edge(): "edge",
    Reflect(): "reflect",
    Symmetric(): "symmetric",
    Extrapolate(0): "edge",
    Neumann(0.0): "symmetric",
    Neumann(0.0, at="node"): "reflect",
}
FORMULAS: dict[Rule, Callable[[int], set[int]]] = {  # from which cells, counted inwards, the k-th ghost is made
    Reflect(odd=True): lambda k: {0, k},
    Symmetric(odd=True): lambda k: {0, k - 1},
    Extrapolate(2): lambda k: {0, 1, 2},
    Dirichlet(1.5): lambda k: {k - 1},
    Dirichlet(1.5, at="node"): lambda k: {k},
    Neumann(-2.0, 0.5): lambda k: {k - 1},
    Neumann(1.0, Slot(1, "dx"), at="node"): lambda k: {k},
    Robin(1.0, 2.0, 3.0, 0.5): lambda k: {0, k - 1},
    Robin(1.0, 2.0, Slot(0, "t"), 0.5, at="node"): lambda k: {0, k},
}
CONSTANTS = [Constant(0), Constant(7), Constant(Slot(0, "t"))]
RULES = [*CONSTANTS, *COPIES]
WRAPS = [Wrap(add=2.5), Wrap(shared=True), Wrap(add=Slot(2, "period"), shared=True)]
ZERO = Constant(0)
DEEP = 40  # ghosts on each side of the tables of numpy.pad


def make(
    shape: Sequence[int],
    reads: Sequence[Offset],
    rules: Sequence[Sides] | None = None,
    strides: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
    padding: Sequence[tuple[int, int]] | None = None,
    name: str = "u",
) -> FieldPlan:
    """A field with padding "same" where no other is given."""
    ndim = len(shape)
    window, dilation = reach(reads, ndim), tuple(dilation or (1,) * ndim)
    same = [(-low * d, high * d) for low, high, d in zip(window.lo, window.hi, dilation, strict=True)]
    g = Geometry(name, tuple(shape), window, tuple(strides or (1,) * ndim), dilation, tuple(padding or same))
    return plan_field(g, tuple(rules or ((ZERO, ZERO),) * ndim), tuple(sorted(set(reads))), g.grid, ())


# The oracle: index arithmetic in plain loops, numpy.pad for what lies outside


def centre(f: FieldPlan, cell: Offset) -> Offset:
    g = f.geometry
    lows = [before + low * d for (before, _), low, d in zip(g.padding, g.window.lo, g.dilation, strict=True)]
    return tuple(c * s - low for c, s, low in zip(cell, g.strides, lows, strict=True))


def place_read(f: FieldPlan, cell: Offset, tap: Offset) -> Offset:
    return tuple(m + t * d for m, t, d in zip(centre(f, cell), tap, f.geometry.dilation, strict=True))


def ghost_sources(rule: Rule, place: int, n: int) -> set[int]:
    """The cells along one axis from which what stands at a place is made; none for a constant."""
    if 0 <= place < n:
        return {place}
    if rule in CONSTANTS:
        return set()
    if rule in COPIES:
        return {int(np.pad(np.arange(n), DEEP, mode=COPIES[rule])[place + DEEP])}
    if isinstance(rule, Wrap):
        period = n - 1 if rule.shared else n
        return ghost_sources(rule, place + (period if place < 0 else -period), n)
    if n == 1 and rule == Reflect(odd=True):
        return {0}
    inwards = FORMULAS[rule](-place if place < 0 else place - n + 1)
    moved = [j if place < 0 else n - 1 - j for j in inwards]
    return set().union(*(ghost_sources(rule, j, n) for j in moved))  # a mirror that runs out of cells turns round


def source(f: FieldPlan, place: Offset, order: Sequence[int] | None = None) -> set[Offset] | Constant:
    """The cells of the array that a place is made from; or the constant there. Later axes hold the corners."""
    found = {tuple(place)}
    for axis in reversed(order or range(len(place))):
        rule = f.rules[axis][0 if place[axis] < 0 else 1]
        made_of = ghost_sources(rule, place[axis], f.shape[axis])
        if not made_of:
            assert isinstance(rule, Constant)
            return rule
        found = {(*p[:axis], i, *p[axis + 1 :]) for p in found for i in made_of}
    return found


def pairs(f: FieldPlan) -> Iterator[tuple[Offset, Offset, Offset]]:
    """The cells that read what some cell writes: offset (in cells of the array), reader and writer."""
    cells = list(np.ndindex(*f.geometry.grid))
    writer = {centre(f, cell): cell for cell in cells}
    for cell, tap in itertools.product(cells, f.reads):
        made_of = source(f, place_read(f, cell, tap))
        for by in () if isinstance(made_of, Constant) else filter(None, map(writer.get, made_of)):
            yield tuple(t * d for t, d in zip(tap, f.geometry.dilation, strict=True)), cell, by


def brute_force(f: FieldPlan, reverse: bool = False) -> set[tuple[Offset, Offset]]:
    """Offset and distance (in cells of the grid) of each carried read."""
    new = ((offset, cell, by) for offset, cell, by in pairs(f) if (by > cell if reverse else by < cell))
    return {(offset, tuple(b - c for b, c in zip(by, cell, strict=True))) for offset, cell, by in new}


def found_by(f: FieldPlan, reverse: bool = False) -> set[tuple[Offset, Offset]]:
    reads = list(dependences(f, f.geometry.grid))
    assert len(reads) == len(set(reads))
    assert {read.field for read in reads} <= {f.name}
    return {(read.offset, read.distance) for read in reads if read.carried(reverse)}


def shortest(rule: Rule) -> int:
    """On how many cells a rule has a meaning."""
    if isinstance(rule, Extrapolate):
        return rule.order + 1
    return 2 if getattr(rule, "shared", False) or getattr(rule, "at", "face") == "node" else 1


@st.composite
def fields(draw: st.DrawFn, centred: bool = True, rules_of: Sequence[Rule] = (*RULES, *FORMULAS, *WRAPS)) -> FieldPlan:
    """Any field; with all windows centred on cells of the array, as a sweep needs it, unless said otherwise."""
    ndim = draw(st.integers(1, 3))
    shape = draw(st.tuples(*[st.integers(1, 6 if ndim < 3 else 3)] * ndim))
    reads = draw(st.lists(st.tuples(*[st.integers(-2, 2)] * ndim), min_size=1, max_size=4))
    steps = st.tuples(*[st.integers(1, 3)] * ndim)
    strides, dilation = draw(steps), draw(steps)
    fitting = [st.sampled_from([rule for rule in rules_of if shortest(rule) <= n]) for n in shape]
    rules = draw(st.tuples(*[st.tuples(rule, rule) for rule in fitting]))
    window = reach(reads, ndim)
    padding = []
    for n, low, high, d in zip(shape, window.lo, window.hi, dilation, strict=True):
        most = (-low * d, high * d)
        pair = tuple(m + draw(st.integers(-2, 0 if centred else 2)) for m in most)
        assume(n + sum(pair) >= (high - low) * d + 1)
        padding.append(pair)
    return make(shape, reads, rules, strides, dilation, padding)


# Carried reads


@settings(max_examples=300, deadline=None, derandomize=True)
@given(fields())
def test_distances_are_those_of_brute_force(f: FieldPlan) -> None:
    expected = {(offset, tuple(b - c for b, c in zip(by, cell, strict=True))) for offset, cell, by in pairs(f)}
    assert {(read.offset, read.distance) for read in dependences(f, f.geometry.grid)} == expected


@settings(max_examples=300, deadline=None, derandomize=True)
@given(fields(), st.booleans())
def test_carried_reads_are_those_of_brute_force(f: FieldPlan, reverse: bool) -> None:
    assert found_by(f, reverse) == brute_force(f, reverse)


@pytest.mark.parametrize(
    ("reads", "keywords", "carried"),
    [
        ([(-1,), (0,), (1,)], {}, {((-1,), (-1,))}),
        ([(0,), (1,), (2,)], {}, set()),
        ([(-7,)], {}, set()),  # beyond the array: zeros
        ([(-4,)], {}, {((-4,), (-4,))}),
        ([(-1,), (-2,)], {"strides": [2]}, {((-2,), (-1,))}),  # between strides nothing is written
        ([(-1,), (1,)], {"dilation": [2]}, {((-2,), (-2,))}),
        ([(-3,), (-1,)], {"dilation": [2], "strides": [3]}, {((-6,), (-2,))}),
        ([(1,)], {"rules": [(ZERO, Wrap())]}, {((1,), (-6,))}),
        ([(2,)], {"rules": [(ZERO, Wrap())]}, {((2,), (-5,))}),
        ([(1,)], {"rules": [(Wrap(), Edge())]}, set()),  # the copy of a cell that is not written yet
        ([(2,)], {"rules": [(ZERO, Reflect())]}, {((2,), (-2,))}),
        ([(1,)], {"rules": [(ZERO, Reflect())]}, {((1,), (-1,))}),
        ([(1,)], {"rules": [(ZERO, Symmetric())]}, set()),
        ([(2,)], {"rules": [(ZERO, Symmetric())]}, {((2,), (-1,))}),
        ([(2,)], {"rules": [(ZERO, Edge())]}, set()),
        ([(-1,)], {"rules": [(Wrap(), ZERO)]}, {((-1,), (-1,))}),
        ([(-1,)], {"rules": [(Dirichlet(1.5), ZERO)]}, {((-1,), (-1,))}),  # at the wall the ghost is made of the cell
        ([(-2,)], {"rules": [(Dirichlet(1.5), ZERO)]}, {((-2,), (-2,)), ((-2,), (-1,))}),
        ([(-2,)], {"rules": [(Robin(1.0, 2.0, 3.0, 0.5), ZERO)]}, {((-2,), (-2,)), ((-2,), (-1,))}),
        ([(1,)], {"rules": [(ZERO, Dirichlet(1.5))]}, set()),
        ([(1,)], {"rules": [(ZERO, Dirichlet(1.5, at="node"))]}, {((1,), (-1,))}),
        ([(2,)], {"rules": [(ZERO, Neumann(-2.0, 0.5))]}, {((2,), (-1,))}),
        ([(1,)], {"rules": [(ZERO, Neumann(0.0))]}, set()),
        ([(1,)], {"rules": [(ZERO, Extrapolate(2))]}, {((1,), (-2,)), ((1,), (-1,))}),
        ([(1,)], {"rules": [(ZERO, Wrap(shared=True))]}, {((1,), (-5,))}),
    ],
)
def test_carried_reads_of_seven_cells(
    reads: list[Offset], keywords: dict[str, Any], carried: set[tuple[Offset, Offset]]
) -> None:
    f = make((7,), reads, **keywords)
    assert found_by(f) == carried == brute_force(f)


@pytest.mark.parametrize(
    ("reads", "keywords", "carried"),
    [
        ([(-1,), (0,), (1,)], {}, {((1,), (1,))}),
        ([(-1,)], {"rules": [(Wrap(), ZERO)]}, {((-1,), (6,))}),
        ([(-2,)], {"rules": [(Reflect(), ZERO)]}, {((-2,), (2,))}),
        ([(-2,)], {"rules": [(Symmetric(), ZERO)]}, {((-2,), (1,))}),
        ([(2,), (1,)], {"strides": [2]}, {((2,), (1,))}),
    ],
)
def test_carried_reads_in_reverse(
    reads: list[Offset], keywords: dict[str, Any], carried: set[tuple[Offset, Offset]]
) -> None:
    f = make((7,), reads, **keywords)
    assert found_by(f, reverse=True) == carried == brute_force(f, reverse=True)


@pytest.mark.parametrize(("reads", "padding", "reverse"), [([(1,)], [(0, 1)], True), ([(-1,)], [(1, 0)], False)])
def test_what_nothing_writes_is_not_carried(reads: list[Offset], padding: list[tuple[int, int]], reverse: bool) -> None:
    """Windows of two cells, two apart: the last one's ghost copies a cell at which no window is centred."""
    f = make((3,), reads, [(Edge(), Edge())], dilation=[2], padding=padding)
    assert f.geometry.grid == (2,)
    assert found_by(f, reverse) == brute_force(f, reverse) == set()
    assert schedule("parallel", [f], (0,), (2,), reverse).name == "parallel"


def test_a_read_may_be_carried_over_several_distances() -> None:
    f = make((3, 5), [(0, 1)], [(ZERO, ZERO), (Wrap(), Wrap())])
    assert found_by(f) == {((0, 1), (0, -4))}
    f = make((3, 5), [(-1, 1)], [(Wrap(), Wrap())] * 2)
    assert found_by(f) == {((-1, 1), (-1, 1)), ((-1, 1), (-1, -4))}  # (2, *) are written later
    f = make((3, 5), [(1, -1)], [(Wrap(), Wrap())] * 2)
    assert found_by(f) == {((1, -1), (-2, -1)), ((1, -1), (-2, 4))}


def test_whole_windows_read_each_of_their_taps() -> None:
    f = make((3, 5), [(-1, -1), (1, 1)])
    whole = replace(f, reads=Window((-1, -1), (1, 1)))
    assert {offset for offset, _ in found_by(whole)} == {(-1, -1), (-1, 0), (-1, 1), (0, -1)}


def test_a_carried_read_prints_as_it_is_written() -> None:
    assert str(Dependence("h", (-1, 2), (-1, 2))) == "h[-1, 2]"
    assert str(next(dependences(make((7,), [(-1,)], dilation=[2], name="v"), (7,)))) == "v[-2]"


# Schedules

UP, LEFT, RIGHT, DOWN = (-1, 0), (0, -1), (0, 1), (1, 0)


def chosen(reads: Sequence[Offset], asked: str = "auto", reverse: bool = False, **keywords: Any) -> Schedule:
    f = make(keywords.pop("shape", (3, 5)), reads, **keywords)
    return schedule(asked, [f], (0,), f.geometry.grid, reverse)


@pytest.mark.parametrize(
    ("reads", "name", "axes", "reason"),
    [
        ([(0, 0), RIGHT, DOWN], "parallel", 0, "no read sees what the sweep has written"),
        ([UP], "rows", 1, "u[-1, 0] sees new values, all of them from earlier along axis 0"),
        ([UP, (-1, 1)], "rows", 1, "u[-1, 0] and u[-1, 1] see new values, all of them from earlier along axis 0"),
        ([LEFT, RIGHT], "rows", 1, "u[0, -1] sees new values, all of them from earlier along axis 1"),
        ([LEFT, (1, 0), (1, 1)], "rows", 1, "u[0, -1] sees new values, all of them from earlier along axis 1"),
        ([LEFT, (1, -1)], "cells", 2, "u[0, -1] sees new values"),
        ([(-1, -1), (1, 0)], "rows", 1, "u[-1, -1] sees new values, all of them from earlier along axis 0"),
        ([UP, LEFT, RIGHT], "cells", 2, "u[-1, 0] and u[0, -1] see new values"),
        (
            [UP, LEFT, (-1, 1), (-1, -1)],
            "cells",
            2,
            "u[-1, -1], u[-1, 0], u[-1, 1] and u[0, -1] see new values",
        ),
        (
            [UP, LEFT, (-1, 1), (-1, -1), (-2, 0)],
            "cells",
            2,
            "u[-2, 0], u[-1, -1], u[-1, 0], u[-1, 1] and more see new values",
        ),
    ],
)
def test_schedules_of_a_plane(reads: list[Offset], name: str, axes: int, reason: str) -> None:
    found = chosen(reads)
    assert (found.name, found.axes, found.reason, found.automatic) == (name, axes, reason, True)


def test_rows_walk_along_as_many_axes_as_they_must() -> None:
    found = chosen([(0, -1, 1), (-1, 0, 0), (0, 0, 1)], shape=(3, 4, 5))
    assert (found.name, found.axes) == ("rows", 2)
    assert found.reason == "u[-1, 0, 0] and u[0, -1, 1] see new values, all of them from earlier along axes 0 and 1"
    assert chosen([(-1, 1, -1)], shape=(3, 4, 5)).axes == 1
    assert chosen([(-1, 1, 0), (0, 0, -1), (0, -1, 0)], shape=(3, 4, 5)).name == "cells"


def test_a_wall_that_wraps_may_forbid_rows() -> None:
    wraps = [(ZERO, ZERO), (Wrap(), Wrap())]
    assert chosen([RIGHT]).name == "parallel"
    assert chosen([RIGHT], rules=wraps).order == (1, 0)
    assert chosen([RIGHT, (1, -1)], rules=wraps).name == "cells"
    assert chosen([DOWN], rules=wraps[::-1]).name == "rows"


@pytest.mark.parametrize(
    ("reads", "axes", "order"),
    [
        ([(0, -1, 0)], 1, (1, 0, 2)),
        ([(0, 0, -1)], 1, (2, 0, 1)),
        ([(0, 0, -1), (-1, 0, 0)], 2, (0, 2, 1)),
        ([(0, 0, -1), (0, -1, 0)], 2, (1, 2, 0)),
        ([(0, 0, -1), (0, -1, 1)], 2, (1, 2, 0)),
        ([(0, -1, -1)], 1, (1, 0, 2)),
        ([(-1, 1, -1), (0, 0, -1)], 1, (2, 0, 1)),
        ([(0, -1, -1), (1, -1, 0)], 1, (2, 0, 1)),  # along axis 1 what must be old would be new
        ([(0, -1, 0), (1, -1, 0)], 2, (0, 1, 2)),
        ([(0, 0, -1), (0, -1, 0), (-1, 0, 0)], 3, (0, 1, 2)),
        ([(0, 0, 1)], 0, (0, 1, 2)),
    ],
)
def test_as_few_axes_as_may_be_are_walked_along(reads: list[Offset], axes: int, order: tuple[int, ...]) -> None:
    found = chosen(reads, shape=(3, 4, 5))
    assert (found.axes, found.order) == (axes, order)
    backwards = chosen([tuple(-o for o in offset) for offset in reads], shape=(3, 4, 5), reverse=True)
    assert (backwards.axes, backwards.order) == (axes, order)


def test_the_reason_names_the_axes_that_are_walked_along() -> None:
    assert chosen([(0, 0, -1), (-1, 0, 0)], shape=(3, 4, 5)).reason == (
        "u[-1, 0, 0] and u[0, 0, -1] see new values, all of them from earlier along axes 0 and 2"
    )
    assert chosen([LEFT], "rows").order == (1, 0)


ONE = Constant(1)
FORMULA = Dirichlet(1.0)  # neither a number nor a copy


@pytest.mark.parametrize(
    ("rules", "reads", "order"),
    [
        ([(ZERO, ZERO), (ZERO, ZERO)], [(1, 1)], (1, 0)),
        ([(ONE, ZERO), (ZERO, ONE)], [(1, 1)], (0, 1)),
        ([(ONE, ZERO), (ONE, ZERO)], [(1, 1)], (1, 0)),  # they differ in corners that are not read
        ([(ONE, ZERO), (ZERO, ONE)], [RIGHT, DOWN], (1, 0)),  # no corner is read
        ([(Wrap(), Edge()), (ZERO, ONE)], [(1, 1)], (1, 0)),
        ([(ONE, ONE), (Edge(), Edge())], [(1, 1)], (1, 0)),
        ([(Edge(), Edge()), (Reflect(), Symmetric())], [(1, 1)], (1, 0)),
        ([(ZERO, FORMULA), (ZERO, ZERO)], [(1, 1)], (0, 1)),
        ([(ZERO, FORMULA), (ZERO, Edge())], [(1, 1)], (0, 1)),
        ([(ZERO, FORMULA), (ZERO, FORMULA)], [(1, 1)], (0, 1)),
        ([(FORMULA, ZERO), (ZERO, ZERO)], [(1, 1)], (1, 0)),
    ],
    ids=str,
)
def test_axes_are_permuted_only_where_corners_stay(rules: Any, reads: list[Offset], order: tuple[int, ...]) -> None:
    found = chosen([LEFT, *reads], rules=rules)
    assert (found.order, found.name) == (order, "rows" if order == (1, 0) else "cells")


def test_corners_of_fields_that_are_not_written_count_too() -> None:
    u, h = make((3, 5), [LEFT]), make((3, 5), [(1, 1)], [(ONE, ONE), (ZERO, ZERO)], name="h")
    assert schedule("auto", [u, h], (0,), (3, 5), False).name == "cells"
    assert schedule("auto", [u, replace(h, reads=Window((0, 0), (1, 1)))], (0,), (3, 5), False).name == "cells"
    assert schedule("auto", [u, replace(h, reads=Window((0, 0), (0, 1)))], (0,), (3, 5), False).name == "rows"


@settings(max_examples=300, deadline=None, derandomize=True)
@given(fields(), st.booleans())
def test_walked_axes_keep_every_reader_and_writer_in_order(f: FieldPlan, reverse: bool) -> None:
    ndim, grid = len(f.shape), f.geometry.grid
    found = schedule("auto", [f], (0,), grid, reverse)
    fewer = [axes for count in range(ndim) for axes in itertools.combinations(range(ndim), count)]
    walked = found.order[: found.axes]
    assert sorted(found.order) == list(range(ndim))
    assert found.order[found.axes :] == tuple(sorted(found.order[found.axes :]))
    fitting = [axes for axes in fewer if keeps_order(f, axes, reverse)]
    assert walked in [*fitting, tuple(range(ndim))]
    for cell, tap in itertools.product(np.ndindex(*grid), f.reads):
        place = place_read(f, cell, tap)
        assert source(f, place, found.order) == source(f, place)
    if len({rule for sides in f.rules for rule in sides if rule not in (*COPIES, Wrap(shared=True))}) < 2:
        assert walked == [*fitting, tuple(range(ndim))][0]


def keeps_order(f: FieldPlan, walked: Sequence[int], reverse: bool) -> bool:
    """Whether all that is new is written in an earlier step, and all that is old in none."""
    for _, cell, by in pairs(f):
        here, there = ([i[axis] for axis in walked] for i in (cell, by))
        new, earlier = (by > cell, there > here) if reverse else (by < cell, there < here)
        if new != earlier:
            return False
    return True


def test_a_name_counts_once_in_the_reason_whatever_its_distances() -> None:
    assert chosen([(-1, 1)], rules=[(ZERO, ZERO), (Wrap(), Wrap())]).reason == (
        "u[-1, 1] sees new values, all of them from earlier along axis 0"
    )


def test_in_reverse_what_lies_behind_is_new() -> None:
    assert chosen([UP, LEFT], reverse=True).name == "parallel"
    assert chosen([DOWN], reverse=True).reason == "u[1, 0] sees new values, all of them from earlier along axis 0"
    found = chosen([DOWN, RIGHT], reverse=True)
    assert (found.name, found.direction) == ("cells", (1, 1))


@pytest.mark.parametrize(("asked", "axes"), [("rows", 1), ("cells", 2), ("wavefront", 2), ("associative", 0)])
def test_a_dearer_schedule_may_be_asked_for(asked: str, axes: int) -> None:
    found = chosen([RIGHT], asked)
    assert (found.name, found.reason, found.automatic) == (asked, "asked for; no read is carried", False)
    assert (found.axes, found.order) == (axes, (0, 1))


@pytest.mark.parametrize(
    ("reads", "keywords", "order"),
    [
        ([(-1,), (0,), (2,)], {"shape": (7,)}, (0,)),
        ([(-2,), (1,)], {"shape": (7,), "strides": [2]}, (0,)),
        ([UP, RIGHT, DOWN, (0, 0)], {}, (0, 1)),
        ([LEFT, RIGHT, DOWN, (1, 1)], {}, (1, 0)),
        ([(0, -1, 0), (1, 0, 1)], {"shape": (3, 4, 5)}, (1, 0, 2)),
        ([RIGHT, UP], {"reverse": True}, (1, 0)),
        ([DOWN, (-1, 1)], {"reverse": True}, (0, 1)),
        ([UP, (-1, 1)], {"shape": (3, 1), "rules": [(ZERO, ZERO), (ZERO, Edge())]}, (0, 1)),
    ],
)
def test_associative(reads: list[Offset], keywords: dict[str, Any], order: tuple[int, ...]) -> None:
    found = chosen(reads, "associative", **keywords)
    assert (found.name, found.axes, found.order, found.automatic) == ("associative", 1, order, False)
    assert f"the value just before along axis {order[0]}" in found.reason
    assert chosen(reads, **keywords).name != "associative"


def test_the_reason_of_an_associative_schedule() -> None:
    assert chosen([LEFT], "associative").reason == "asked for; u[0, -1] sees the value just before along axis 1"


def test_the_reason_of_a_wavefront_names_its_direction() -> None:
    found = chosen([UP, LEFT, (-1, 1)], "wavefront")
    assert (found.axes, found.direction, found.automatic) == (2, (2, 1), False)
    assert found.reason == (
        "u[-1, 0], u[-1, 1] and u[0, -1] see new values; cells with equal products with (2, 1) go together"
    )


def test_only_updated_fields_carry() -> None:
    u, h = make((3, 5), [RIGHT]), make((3, 5), [UP, LEFT], name="h")
    assert schedule("auto", [u, h], (0,), (3, 5), False).name == "parallel"
    found = schedule("auto", [u, h], (0, 1), (3, 5), False)
    assert (found.name, found.reason) == ("cells", "h[-1, 0] and h[0, -1] see new values")
    assert {read.field for read in found.carried} == {"h"}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields(), st.booleans())
def test_the_schedule_follows_from_the_reads(f: FieldPlan, reverse: bool) -> None:
    found = schedule("auto", [f], (0,), f.geometry.grid, reverse)
    carried = {(read.offset, read.distance) for read in found.carried}
    assert carried == brute_force(f, reverse)
    assert (found.name == "parallel") == (found.axes == 0) == (not carried)
    assert (found.name == "cells") == (found.axes == len(f.shape))


# Errors, word by word


def error(reads: Sequence[Offset], asked: str, **keywords: Any) -> str:
    with pytest.raises(ScheduleError) as info:
        chosen(reads, asked, **keywords)
    assert isinstance(info.value, ValueError)
    return str(info.value)


NO_ROW = "there is no schedule 'row'.\nHint: did you mean 'rows'?"
NO_COLUMN = "there is no schedule 'diagonal'.\nHint: choose one of 'associative', 'auto', 'cells', 'parallel', \
'rows', 'wavefront'."


@pytest.mark.parametrize(("asked", "text"), [("row", NO_ROW), ("diagonal", NO_COLUMN)])
def test_unknown_schedules(asked: str, text: str) -> None:
    assert error([UP], asked) == text
    for decorator in (sx.kscan, sx.sscan):
        with pytest.raises(sx.ScheduleError) as info:
            decorator(lambda u: u[-1], schedule=asked)
        assert str(info.value) == text


@pytest.mark.parametrize(
    ("reads", "keywords", "text"),
    [
        (
            [UP, RIGHT],
            {},
            "schedule 'parallel' would change the numbers: u[-1, 0] reads what is written earlier in the sweep, "
            "(-1, 0) cells away.\nHint: the cheapest schedule here is 'rows', which 'auto' takes.",
        ),
        (
            [LEFT, UP],
            {"name": "h"},
            "schedule 'parallel' would change the numbers: h[-1, 0] reads what is written earlier in the sweep, "
            "(-1, 0) cells away.\nHint: the cheapest schedule here is 'cells', which 'auto' takes.",
        ),
        (
            [(-2,)],
            {"shape": (7,), "dilation": [2], "strides": [2]},
            "schedule 'parallel' would change the numbers: u[-4] reads what is written earlier in the sweep, "
            "(-2) cells away.\nHint: the cheapest schedule here is 'cells', which 'auto' takes.",
        ),
        (
            [DOWN],
            {"rules": [(ZERO, Wrap()), (ZERO, ZERO)]},
            "schedule 'parallel' would change the numbers: u[1, 0] reads what is written earlier in the sweep, "
            "(-2, 0) cells away.\nHint: the cheapest schedule here is 'rows', which 'auto' takes.",
        ),
    ],
)
def test_parallel_is_refused_where_a_read_is_carried(reads: list[Offset], keywords: dict[str, Any], text: str) -> None:
    assert error(reads, "parallel", **keywords) == text


@pytest.mark.parametrize(
    ("reads", "keywords", "text"),
    [
        (
            [UP, LEFT],
            {},
            "schedule 'rows' would change the numbers: u[0, -1] reads what is written in the same row, "
            "(0, -1) cells away.\nHint: the cheapest schedule here is 'cells', which 'auto' takes.",
        ),
        (
            [RIGHT, (1, -1)],
            {"rules": [(ZERO, ZERO), (ZERO, Wrap())], "name": "h"},
            "schedule 'rows' would change the numbers: h[0, 1] reads what is written in the same row, "
            "(0, -4) cells away.\nHint: the cheapest schedule here is 'cells', which 'auto' takes.",
        ),
        ([(1,)], {"shape": (7,)}, "schedule 'rows' needs an array of two or more axes.\nHint: leave it to 'auto'."),
        ([(-1,)], {"shape": (7,)}, "schedule 'rows' needs an array of two or more axes.\nHint: leave it to 'auto'."),
    ],
)
def test_rows_are_refused(reads: list[Offset], keywords: dict[str, Any], text: str) -> None:
    assert error(reads, "rows", **keywords) == text


NEXT = "schedule 'associative' takes one value from each cell to the next along one axis, and here "


@pytest.mark.parametrize(
    ("reads", "keywords", "text", "cheapest"),
    [
        ([(-2,), (-1,)], {"shape": (7,)}, "u[-2] reads what is written (-2) cells away", "cells"),
        ([(-3,), (0,)], {"shape": (7,), "name": "y"}, "y[-3] reads what is written (-3) cells away", "cells"),
        (
            [UP, LEFT],
            {},
            "u[0, -1] reads what is written (0, -1) cells away, and u[-1, 0] what is written (-1, 0) cells away",
            "cells",
        ),
        ([(-1, 1)], {}, "u[-1, 1] reads what is written (-1, 1) cells away", "rows"),
        (
            [UP, (-1, 1)],
            {},
            "u[-1, 1] reads what is written (-1, 1) cells away, and u[-1, 0] what is written (-1, 0) cells away",
            "rows",
        ),
        (
            [(1,), (2,)],
            {"shape": (7,), "reverse": True},
            "u[2] reads what is written (2) cells away, and u[1] what is written (1) cells away",
            "cells",
        ),
        ([LEFT, (1, -1)], {}, "u[1, -1] reads an old value, which along axis 1 alone is new", "cells"),
        (
            [LEFT, (1, 1)],
            {"rules": [(ONE, ONE), (ZERO, ZERO)]},
            "axis 1 would come first, which changes what lies beyond the corners",
            "cells",
        ),
    ],
)
def test_associative_is_refused(reads: list[Offset], keywords: dict[str, Any], text: str, cheapest: str) -> None:
    hint = f"\nHint: the cheapest schedule here is {cheapest!r}, which 'auto' takes."
    assert error(reads, "associative", **keywords) == f"{NEXT}{text}.{hint}"


def test_associative_is_refused_for_two_fields() -> None:
    u, h = make((3, 5), [UP]), make((3, 5), [RIGHT], name="h")
    with pytest.raises(ScheduleError) as info:
        schedule("associative", [u, h], (0, 1), (3, 5), False)
    assert str(info.value) == (
        f"{NEXT}u and h are updated together.\nHint: the cheapest schedule here is 'rows', which 'auto' takes."
    )
    assert schedule("associative", [u, h], (0,), (3, 5), False).axes == 1


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields(), st.booleans())
def test_associative_takes_from_the_cell_before_alone(f: FieldPlan, reverse: bool) -> None:
    grid, ndim = f.geometry.grid, len(f.shape)
    try:
        found = schedule("associative", [f], (0,), grid, reverse)
    except ScheduleError:
        return
    steps = {tuple((1 if reverse else -1) * (a == axis) for a in range(ndim)) for axis in found.order[: found.axes]}
    assert {distance for _, distance in brute_force(f, reverse)} == steps
    assert len(steps) <= 1
    assert keeps_order(f, found.order[: found.axes], reverse)


def test_a_stencil_says_the_same() -> None:
    sweep = sx.kscan(lambda u: u[-1, 0] + u[0, -1], padding="same", schedule="rows", backend="numpy")
    with pytest.raises(sx.ScheduleError, match=r"'rows' would change the numbers: u\[0, -1\] reads"):
        sweep(np.zeros((3, 5)))
    with pytest.raises(sx.ScheduleError, match=r"'rows' would change the numbers: u\[0, -1\] reads"):
        sweep.schedule(np.zeros((3, 5)))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields(), st.booleans())
def test_a_schedule_is_refused_only_where_it_would_change_the_numbers(f: FieldPlan, reverse: bool) -> None:
    grid, carried = f.geometry.grid, brute_force(f, reverse)
    cells = schedule("auto", [f], (0,), grid, reverse).name == "cells"
    for asked, forbidden in (("parallel", bool(carried)), ("rows", cells or len(grid) == 1)):
        if forbidden:
            with pytest.raises(ScheduleError):
                schedule(asked, [f], (0,), grid, reverse)
        else:
            assert schedule(asked, [f], (0,), grid, reverse).name == asked


# Directions


def negative(vector: Sequence[int], distances: Sequence[Offset]) -> bool:
    return all(sum(v * d for v, d in zip(vector, distance, strict=True)) < 0 for distance in distances)


@st.composite
def carried_distances(draw: st.DrawFn) -> list[Offset]:
    """Distances that are negative in row-major order."""
    ndim = draw(st.integers(1, 3))
    vectors = draw(st.lists(st.tuples(*[st.integers(-3, 3)] * ndim), min_size=1, max_size=4))
    return [tuple(-d for d in v) if v > (0,) * ndim else v for v in vectors if any(v)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(carried_distances())
def test_direction_is_valid_and_smallest(distances: list[Offset]) -> None:
    assume(distances)
    ndim = len(distances[0])
    found = direction(distances, ndim, reverse=False)
    assert negative(found, distances)
    assert min(found) >= 0
    valid = [v for v in itertools.product(range(5), repeat=ndim) if negative(v, distances)]
    if valid:
        assert (max(found), sum(found)) == min((max(v), sum(v)) for v in valid)
    turned = [tuple(-d for d in distance) for distance in distances]
    assert direction(turned, ndim, reverse=True) == found


@pytest.mark.parametrize(
    ("distances", "vector"),
    [
        ([(-1, 0), (0, -1)], (1, 1)),
        ([(-1, 0)], (1, 0)),
        ([(0, -1)], (0, 1)),
        ([(0, -1), (-1, 1)], (2, 1)),
        ([(0, -1), (-1, 3)], (4, 1)),
        ([(0, -1), (-1, 4)], (5, 1)),  # none up to 4: row-major order, as near as may be
        ([(0, -1), (-1, 9), (-2, -1)], (10, 1)),
        ([(0, 0, -1), (0, -1, 5), (-1, 5, 5)], (36, 6, 1)),
    ],
)
def test_directions(distances: list[Offset], vector: Offset) -> None:
    assert direction(distances, len(vector), reverse=False) == vector
    assert negative(vector, distances)


# Sources


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields(centred=False, rules_of=[Constant(0), Constant(7), *COPIES, Wrap(shared=True)]))
def test_sources_are_those_of_numpy_pad(f: FieldPlan) -> None:
    for tap in f.reads:
        number, constants = f.sources(tap, f.geometry.grid)
        assert number.shape == f.geometry.grid
        for cell in np.ndindex(*f.geometry.grid):
            expected = source(f, place_read(f, cell, tap))
            if isinstance(expected, Constant):
                assert constants[-1 - number[cell]] == expected.value
            else:
                assert number[cell] == np.ravel_multi_index(*expected, f.shape)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields(centred=False))
def test_sources_tell_formulas_from_copies(f: FieldPlan) -> None:
    """What is computed, or known in a call only, stands among the constants without a value."""
    for tap in f.reads:
        number, constants = f.sources(tap, f.geometry.grid)
        for cell in np.ndindex(*f.geometry.grid):
            place = place_read(f, cell, tap)
            rules = [f.rules[axis][0 if i < 0 else 1] for axis, i in enumerate(place) if not 0 <= i < f.shape[axis]]
            last = next((rule for rule in reversed(rules) if rule not in (*COPIES, Wrap(shared=True))), None)
            if last is None:
                (only,) = source(f, place)
                assert number[cell] == np.ravel_multi_index(only, f.shape)
            else:
                known = last.value if last in CONSTANTS[:2] else None
                assert constants[-1 - number[cell]] == known


def test_sources_of_a_corner() -> None:
    """The axis that is extended last holds the corner: there 5, and not what wraps."""
    f = make((2, 3), [(-1, -1)], [(Wrap(), Wrap()), (Constant(5), ZERO)])
    number, constants = f.sources((-1, -1), (2, 3))
    assert [[constants[-1 - k] if k < 0 else k for k in row] for row in number.tolist()] == [[5, 3, 4], [5, 0, 1]]


# Plans turned round


def plan_of(f: FieldPlan, key: Any = ...) -> Plan:
    grid = f.geometry.grid
    frame = Frame(grid, tuple(range(n) for n in grid))
    found = schedule("auto", [f], (0,), grid, True)
    return Plan((f,), grid, frame, (), parts([..., key], frame), False, found, (0,), reverse=True)


def turned_twice(plan: Plan) -> Plan:
    return forward(replace(forward(plan), reverse=True))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields())
def test_turning_round_twice_is_the_identity(f: FieldPlan) -> None:
    g = f.geometry
    assume(math.prod(g.grid))
    again = turned_twice(plan_of(f)).fields[0]
    span = [(count - 1) * s + e for count, s, e in zip(g.grid, g.strides, g.extent, strict=True)]
    # cells at the far end that no window reaches are no longer counted as padded
    used = tuple((before, s - before - n) for (before, _), s, n in zip(g.padding, span, g.shape, strict=True))
    assert again.geometry == replace(g, padding=used)
    assert again.geometry.grid == g.grid
    assert (again.rules, again.reads, again.ghosts) == (f.rules, f.reads, f.ghosts)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields())
def test_turned_round_each_cell_reads_the_same_places(f: FieldPlan) -> None:
    grid = f.geometry.grid
    assume(math.prod(grid))
    turned = forward(plan_of(f)).fields[0]
    assert turned.geometry.grid == grid
    assert turned.reads == tuple(sorted(tuple(-t for t in tap) for tap in f.reads))
    assert turned.ghosts == turned.geometry.ghosts(turned.window, grid)
    for axis, n in enumerate(f.shape):
        for cell, tap in itertools.product(range(grid[axis]), {tap[axis] for tap in f.reads}):
            there = turned.geometry.position(axis, grid[axis] - 1 - cell, -tap)
            assert there == n - 1 - f.geometry.position(axis, cell, tap)
    whole = forward(plan_of(replace(f, reads=f.window))).fields[0].reads
    assert set(whole) == {tuple(-t for t in tap) for tap in f.window}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(fields())
def test_turned_round_what_was_new_is_new(f: FieldPlan) -> None:
    grid = f.geometry.grid
    assume(math.prod(grid))
    turned = forward(plan_of(f)).fields[0]
    opposite = {tuple(tuple(-x for x in v) for v in read) for read in brute_force(turned)}
    assert opposite == brute_force(f, reverse=True)


@pytest.mark.parametrize(
    "key",
    [np.s_[1:, ::2], np.s_[::2, 1:4:2], np.s_[0], np.s_[[0, 2], 1:], np.eye(3, 5, dtype=bool), np.s_[:, -1]],
    ids=repr,
)
def test_turned_round_parts_hold_the_same_cells(key: Any) -> None:
    plan = plan_of(make((3, 5), [UP]), key)
    owner = np.zeros((3, 5), int)
    owner[key] = 1
    turned = forward(plan)
    found = np.full((3, 5), -1)
    for part in turned.parts:
        found[part.cells.index if isinstance(part.cells, Points) else np.ix_(*part.cells)] = part.owner
    np.testing.assert_array_equal(found[::-1, ::-1], owner)
    assert turned.parts != plan.parts
    assert not turned.reverse


def test_points_of_a_region_are_turned_round_in_order() -> None:
    """The elements of an array given to a region go to its cells in this order."""
    plan = plan_of(make((3, 5), [UP]), np.eye(3, 5, dtype=bool))
    points = forward(plan).parts[1].cells
    assert isinstance(points, Points)
    assert [index.tolist() for index in points.index] == [[0, 1, 2], [2, 3, 4]]


# Plans with their axes permuted


def sweep_of(f: FieldPlan, order: tuple[int, ...], key: Any = ...) -> Plan:
    return replace(plan_of(f, key), schedule=Schedule("rows", "", 1, order), reverse=False)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(fields(), st.randoms(use_true_random=False))
def test_permuted_each_cell_reads_the_same_places(f: FieldPlan, random: Any) -> None:
    order = tuple(random.sample(range(len(f.shape)), len(f.shape)))
    plan = sweep_of(f, order)
    turned = permuted(plan)
    g = turned.fields[0]
    assert turned.grid == g.geometry.grid == tuple(plan.grid[axis] for axis in order)
    assert g.rules == tuple(f.rules[axis] for axis in order)
    assert g.reads == tuple(sorted(tuple(tap[axis] for axis in order) for tap in f.reads))
    assert g.ghosts == g.geometry.ghosts(g.window, turned.grid)
    for new, axis in enumerate(order):
        for cell, tap in itertools.product(range(plan.grid[axis]), {tap[axis] for tap in f.reads}):
            assert g.geometry.position(new, cell, tap) == f.geometry.position(axis, cell, tap)
    whole = permuted(replace(plan, fields=(replace(f, reads=f.window),))).fields[0].reads
    assert set(whole) == {tuple(tap[axis] for axis in order) for tap in f.window}
    assert permuted(turned) == turned


@pytest.mark.parametrize("key", [np.s_[1:, ::2], np.s_[0], np.eye(3, 5, dtype=bool)], ids=repr)
def test_permuted_parts_hold_the_same_cells(key: Any) -> None:
    plan = sweep_of(make((3, 5), [LEFT]), (1, 0), key)
    turned = permuted(plan)
    assert turned.grid == (5, 3)
    np.testing.assert_array_equal(turned.owners(), plan.owners().T)


def test_a_forward_plan_stays_as_it_is() -> None:
    plan = replace(plan_of(make((3, 5), [UP])), reverse=False)
    assert forward(plan) is plan
