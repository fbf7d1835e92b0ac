"""Sweeps beside walls: a ghost stands for current values. The oracle makes all ghosts anew before it visits a cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from conftest import LIBRARIES, Library

import stencilx as sx

from .plain_loops import agree, run, sample
from .test_walls import RULES
from .wall_loops import (
    Sides,
    as_boundary,
    constant,
    dirichlet,
    edge,
    extended,
    extrapolate,
    insulated,
    neumann,
    odd,
    reflect,
    robin,
    same,
    symmetric,
    wrap,
)

DEEP = 3  # ghosts that the oracle makes on each side


@pytest.fixture(params=[known for known in LIBRARIES if known.name in ("numpy", "jax", "array_api-numpy")], ids=str)
def library(request: pytest.FixtureRequest) -> Library:
    """Each backend once."""
    return request.param


class Around:
    """An array with ghosts, by offset from one of its cells."""

    def __init__(self, whole: np.ndarray, cell: Sequence[int]) -> None:
        self.whole, self.cell = whole, cell

    def __getitem__(self, offset: Any) -> Any:
        offset = offset if isinstance(offset, tuple) else (offset,)
        return self.whole[tuple(DEEP + c + o for c, o in zip(self.cell, offset, strict=True))]


def loop_sweep(
    kernel: Callable[..., Any],
    walls: Sequence[Sequence[Sides]],
    *arrays: np.ndarray,
    cells: Sequence[Sequence[int]] | None = None,
    regions: Callable[[tuple[int, ...]], Any] = lambda cell: None,
    reverse: bool = False,
    updates: Sequence[int] = (0,),
    known: Callable[[Any], Any] = lambda v: v,
) -> list[np.ndarray]:
    """The updated arrays. `cells` are those on each axis that are visited; `regions` may name another kernel."""
    state = [array.astype(float) for array in arrays]
    every = [range(n) for n in arrays[0].shape] if cells is None else cells
    visited = [tuple(r[i] for r, i in zip(every, index)) for index in np.ndindex(*map(len, every))]
    for cell in reversed(visited) if reverse else visited:
        views = [Around(extended(a, same(DEEP, a.ndim), w, known), cell) for a, w in zip(state, walls, strict=True)]
        written = (regions(cell) or kernel)(*views)
        for number, value in zip(updates, written if len(updates) > 1 else [written], strict=True):
            state[number][cell] = value
    return [state[number] for number in updates]


def sweep(kernel: Callable[..., Any], walls: Sequence[Sides], **options: Any) -> Any:
    return sx.kscan(kernel, padding="same", boundary=as_boundary(walls), **options)


def all_around(u: Any) -> Any:
    return 0.25 * u[-1, 0] - 0.5 * u[0, 1] + 0.125 * u[1, -1] + 0.375 * u[0, -1] + 0.125 * u[0, 0]


def two_away(u: Any) -> Any:
    return 0.25 * u[-2] - 0.5 * u[1] + 0.375 * u[-1] + 0.25 * u[2]


# Each rule


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_on_a_line(library, name, reverse):
    x, walls = sample(5), [(RULES[name](-1.75), RULES[name](2.5))]
    agree(run(library, sweep(two_away, walls, reverse=reverse), x), *loop_sweep(two_away, [walls], x, reverse=reverse))


@pytest.mark.parametrize("name", RULES)
def test_in_a_plane(library, name):
    """Numbers before, an array and a number after."""
    x, make = sample(4, 5), RULES[name]
    walls = [(make(-1.75), make(sample(5, seed=1))), (make(0.75), make(-3.25))]
    agree(run(library, sweep(all_around, walls), x), *loop_sweep(all_around, [walls], x))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "name", ["wrap, shared", "wrap, adding, shared", "reflect, odd", "extrapolate 2", "dirichlet, node", "robin, face"]
)
def test_beyond_the_other_end(library, name, reverse):
    """Three cells, and reads three away: what lies there is made from ghosts, or from both ends."""
    x, walls = sample(3), [(RULES[name](-1.75), RULES[name](2.5))]

    def kernel(u: Any) -> Any:
        return 0.5 * u[-3] - 0.25 * u[3] + 0.125 * u[2]

    agree(run(library, sweep(kernel, walls, reverse=reverse), x), *loop_sweep(kernel, [walls], x, reverse=reverse))


def test_in_space(library):
    x = sample(2, 3, 3)
    walls = [
        (dirichlet(1.5), extrapolate(1)),
        (neumann(sample(2, 3, seed=1), 0.5), wrap()),
        (robin(1.0, 2.0, 3.0, 0.5), dirichlet(sample(3, seed=2), at="node")),
    ]

    def kernel(u: Any) -> Any:
        return 0.25 * u[-1, 0, 1] - 0.5 * u[0, 1, -1] + 0.25 * u[1, -1, 0] + 0.125 * u[-1, -1, -1]

    agree(run(library, sweep(kernel, walls), x), *loop_sweep(kernel, [walls], x))


# Values


@pytest.mark.parametrize("reverse", [False, True])
def test_functions_and_arrays(library, reverse):
    x = sample(4, 5)

    def profile(t: Any) -> Any:
        return sample(5, seed=3) * t

    walls = [
        (dirichlet(profile), neumann(lambda t: t - 2, 0.5)),
        (robin(1.0, lambda t: t + 1, sample(4, seed=1), 0.5), constant(sample(1, seed=2))),
    ]

    def kernel(u: Any, t: Any) -> Any:
        return t * u[-1, 0] - 0.25 * u[0, 1] + 0.125 * u[1, -1] + 0.25 * u[0, -1]

    expected = loop_sweep(
        lambda u: kernel(u, 0.5), [walls], x, reverse=reverse, known=lambda v: v(0.5) if callable(v) else v
    )
    agree(run(library, sweep(kernel, walls, reverse=reverse), x, 0.5), *expected)


@pytest.mark.parametrize(
    ("first", "schedule"),
    [((wrap(), wrap()), "cells"), ((symmetric(), edge()), "wavefront"), ((dirichlet(1.5), extrapolate(1)), "cells")],
    ids=["wrap", "copies", "formulas"],
)
def test_a_face_goes_on_beyond_its_ends(library, first, schedule):
    """Diagonal reads at corners: the values of axis 1 wrap as axis 0 does, or hold on."""
    x, walls = sample(3, 4), [first, (dirichlet(sample(3, seed=1)), neumann(sample(3, seed=2), 0.5))]

    def kernel(u: Any) -> Any:
        return 0.25 * u[-1, -1] - 0.5 * u[-1, 1] + 0.375 * u[1, -1] + 0.25 * u[0, -1]

    agree(run(library, sweep(kernel, walls, schedule=schedule), x), *loop_sweep(kernel, [walls], x))


# Schedules

WALLS: list[Sides] = [
    (robin(1.0, 2.0, 3.0, 0.5), neumann(-0.75, 0.5)),
    (dirichlet(1.5), odd("symmetric")),
]


@pytest.mark.parametrize(
    ("schedule", "reverse"), [("auto", False), ("auto", True), ("cells", False), ("wavefront", True)]
)
def test_rows(library, schedule, reverse):
    """All that is new lies in earlier rows. Ghosts before the first row are made of it: of cells that come later."""
    x, d = sample(4, 5), 1 if reverse else -1

    def kernel(u: Any) -> Any:
        return 0.5 * u[d, 0] - 0.25 * u[d, -d] + 0.25 * u[-d, -d] - 0.125 * u[0, 0]

    stencil = sweep(kernel, WALLS, reverse=reverse, schedule=schedule)
    if schedule == "auto":
        assert stencil.schedule(x) == "rows"
    agree(run(library, stencil, x), *loop_sweep(kernel, [WALLS], x, reverse=reverse))


@pytest.mark.parametrize(("schedule", "reverse"), [("auto", False), ("auto", True), ("wavefront", False)])
def test_cells(library, schedule, reverse):
    x, d = sample(4, 5), 1 if reverse else -1

    def kernel(u: Any) -> Any:
        return 0.5 * u[d, 0] - 0.25 * u[0, d] + 0.375 * u[d, -d] + 0.25 * u[-d, d] - 0.125 * u[0, -d]

    stencil = sweep(kernel, WALLS, reverse=reverse, schedule=schedule)
    if schedule == "auto":
        assert stencil.schedule(x) == "cells"
    agree(run(library, stencil, x), *loop_sweep(kernel, [WALLS], x, reverse=reverse))


@pytest.mark.parametrize("schedule", ["auto", "parallel", "rows", "cells", "wavefront"])
def test_parallel(library, schedule):
    """Ghosts that are made of cells which are written later, and of the cell itself."""
    x = sample(4, 5)
    walls = [(edge(), dirichlet(1.5)), (edge(), neumann(0.5, 0.5))]

    def kernel(u: Any) -> Any:
        return 0.5 * u[1, 0] - 0.25 * u[0, 1] + 0.375 * u[1, 1]

    stencil = sweep(kernel, walls, schedule=schedule)
    if schedule == "auto":
        assert stencil.schedule(x) == "parallel"
    agree(run(library, stencil, x), *loop_sweep(kernel, [walls], x))


NONE = (constant(0), constant(0))


@pytest.mark.parametrize(
    ("walls", "read", "reverse", "schedule"),
    [
        ([(dirichlet(1.5), constant(0)), NONE], (1, 0), False, "parallel"),
        ([(constant(0), dirichlet(1.5)), NONE], (1, 0), False, "parallel"),  # made of the cell that reads it
        ([(constant(0), dirichlet(1.5)), NONE], (2, 0), False, "rows"),  # of the cell before
        ([(constant(0), dirichlet(1.5, at="node")), NONE], (1, 0), False, "rows"),
        ([(constant(0), constant(1.5)), NONE], (2, 0), False, "parallel"),
        ([(constant(0), insulated()), NONE], (1, 0), False, "parallel"),
        ([(constant(0), insulated("node")), NONE], (1, 0), False, "rows"),
        ([(constant(0), extrapolate(0)), NONE], (1, 0), False, "parallel"),
        ([(constant(0), extrapolate(1)), NONE], (1, 0), False, "rows"),
        ([NONE, (constant(0), extrapolate(1))], (0, 1), False, "rows"),  # which are columns here
        ([(constant(0), extrapolate(1))] * 2, (1, 1), False, "cells"),
        ([NONE, (constant(0), dirichlet(1.5))], (1, 1), False, "parallel"),
        ([NONE, (dirichlet(1.5), constant(0))], (-1, -1), False, "rows"),
        ([NONE, (constant(0), robin(1.0, 2.0, 3.0, 0.5))], (0, 1), False, "parallel"),
        ([NONE, (constant(0), robin(1.0, 2.0, 3.0, 0.5))], (0, 2), False, "rows"),
        ([(dirichlet(1.5), constant(0)), NONE], (-1, 0), False, "rows"),
        ([(dirichlet(1.5), constant(0)), NONE], (-1, 0), True, "parallel"),
        ([(dirichlet(1.5), constant(0)), NONE], (-2, 0), True, "rows"),
        ([(odd("reflect"), constant(0)), NONE], (-1, 0), True, "rows"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else str(value),
)
def test_a_wall_decides_the_schedule(library, walls, read, reverse, schedule):
    x = sample(4, 5)

    def kernel(u: Any) -> Any:
        return 0.5 * u[read] - 0.25 * u[0, 0]

    stencil = sweep(kernel, walls, reverse=reverse)
    assert stencil.with_backend(library.backend).schedule(x) == schedule
    agree(run(library, stencil, x), *loop_sweep(kernel, [walls], x, reverse=reverse))


# Regions, fields, copies


def test_regions_and_masks(library):
    x = sample(4, 5)
    mask = x > 2
    F = sx.kscan(kernel_size=3, relative=True, padding="same", boundary=as_boundary(WALLS))
    F[...], F[0, 1:], F[mask], F[2, 2:4] = kernels = (
        lambda u: 0.25 * u[-1, 0] - 0.5 * u[0, 1] + 0.375 * u[0, -1],
        lambda u: 0.5 * u[-1, 1] + 0.25 * u[1, -1],
        lambda u: 0.5 * u[0, -1] - 0.25 * u[1, 1],
        0.75,
    )

    def region(cell: tuple[int, ...]) -> Any:
        if cell[0] == 2 and cell[1] in (2, 3):
            return lambda u: 0.75
        return kernels[2] if mask[cell] else kernels[1] if cell[0] == 0 and cell[1] > 0 else kernels[0]

    agree(run(library, F, x), *loop_sweep(kernels[0], [WALLS], x, regions=region))


@pytest.mark.parametrize("reverse", [False, True])
def test_sscan_with_margins_and_strides(library, reverse):
    x = sample(6, 5)
    walls = [(dirichlet(sample(5, seed=1)), extrapolate(1)), (robin(1.0, 2.0, 3.0, 0.5), neumann(1.5, 0.5, at="node"))]

    def kernel(u: Any) -> Any:
        return 0.5 * u[-2, 0] - 0.25 * u[0, 1] + 0.375 * u[1, -1] + 0.25 * u[2, 0]

    F = sx.sscan(kernel, offset=((1, 0), (0, 1)), strides=(2, 1), boundary=as_boundary(walls), reverse=reverse)
    expected = loop_sweep(kernel, [walls], x, cells=[range(1, 6, 2), range(4)], reverse=reverse)
    agree(run(library, F, x), *expected)


def test_dilated_sweeps(library):
    x = sample(5, 4)
    walls = [(robin(1.0, 2.0, 3.0, 0.5), dirichlet(sample(4, seed=1))), (odd("reflect"), neumann(-1.0, 0.5))]

    def kernel(step: int) -> Callable[..., Any]:
        return lambda u: 0.5 * u[-step, 0] - 0.25 * u[0, step] + 0.375 * u[step, -step]

    agree(run(library, sweep(kernel(1), walls, dilation=2), x), *loop_sweep(kernel(2), [walls], x))


@pytest.mark.parametrize("updates", [("u",), ("h",), ("u", "h")], ids=str)
def test_two_fields_with_rules_of_their_own(library, updates):
    u, h = sample(3, 4), sample(3, 4, seed=1)
    walls = {
        "u": [(dirichlet(1.5), extrapolate(1)), (wrap(), wrap())],
        "h": [(symmetric(), reflect()), (neumann(sample(3, seed=2), 0.5), robin(1.0, 2.0, 3.0, 0.5))],
    }

    def kernel(u: Any, h: Any) -> Any:
        first = 0.25 * u[-1, 0] - 0.5 * h[0, -1] + 0.125 * u[1, 1] + 0.25 * h[0, 2]
        return first if len(updates) == 1 else (first, 0.5 * h[-1, 1] + 0.25 * u[0, -1])

    boundary = {name: as_boundary(sides) for name, sides in walls.items()}
    F = sx.kscan(kernel, fields=2, updates=updates, padding="same", boundary=boundary)
    numbers = ["uh".index(name) for name in updates]
    expected = loop_sweep(kernel, [walls["u"], walls["h"]], u, h, updates=numbers)
    got = run(library, F, u, h)
    for one, other in zip(got if len(updates) > 1 else [got], expected, strict=True):
        agree(one, other)


def test_a_thomas_like_recurrence_at_a_wall(library):
    """y[i] = x[i]/2 + y[i-1]/2 with y = 3 half a cell before the first one: worked out by hand."""
    F = sx.kscan(lambda y: (y[0] + y[-1]) / 2, padding="same", boundary={0: (sx.boundary.Dirichlet(3.0), 0)})
    # first (4 + (6 - 4))/2 = 3; then (1 + 3)/2 = 2, (-6 + 2)/2 = -2
    agree(run(library, F, np.array([4.0, 1.0, -6.0])), [3, 2, -2])


@pytest.mark.parametrize("wall", [odd("reflect"), extrapolate(1), dirichlet(2), neumann(-1, 2), wrap(add=6)], ids=str)
def test_integers_stay_what_they_are(library, wall):
    x = sample(4, 3, dtype=np.int32)
    walls = [(wall, wall), (wall, wall)]

    def kernel(u: Any) -> Any:
        return u[-1, 0] - u[0, 1] + u[1, -1]

    got = run(library, sweep(kernel, walls), x)
    assert got.dtype == np.int32
    agree(got, *(whole.astype(np.int32) for whole in loop_sweep(kernel, [walls], x)))


def test_fractions_at_a_wall_make_integers_floats(library):
    x, walls = sample(4, dtype=np.int32), [(dirichlet(0.25), edge())]

    def kernel(u: Any) -> Any:
        return u[-1] + u[0]

    got = run(library, sweep(kernel, walls), x)
    assert got.dtype.kind == "f"
    agree(got, *loop_sweep(kernel, [walls], x))


def test_the_oracle_can_fail():
    """Old values in the ghosts, as a map sees them, give other numbers."""
    x, walls = sample(4), [(dirichlet(1.5), neumann(0.5, 0.5))]

    def kernel(u: Any) -> Any:
        return 0.5 * u[-1] - 0.25 * u[2]

    (swept,) = loop_sweep(kernel, [walls], x)
    whole = extended(x, same(2, 1), walls)
    assert not np.allclose(swept, 0.5 * whole[1:5] - 0.25 * whole[4:8])
