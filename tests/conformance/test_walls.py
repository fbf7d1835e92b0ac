"""Walls against ghosts by hand, on every library: each rule, the values that it may take, corners, and what reads them.

The oracle is `extended` of wall_loops.py: the array with its ghosts, axis after axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import stencilx as sx

from .plain_loops import agree, gathered, loop_map, run, sample, to_library, windows
from .wall_loops import (
    Sides,
    Wall,
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

VALUED: dict[str, Callable[[Any], Wall]] = {
    "constant": constant,
    "wrap, adding": lambda v: wrap(add=v),
    "wrap, adding, shared": lambda v: wrap(add=v, shared=True),
    "dirichlet, face": dirichlet,
    "dirichlet, node": lambda v: dirichlet(v, at="node"),
    "neumann, face": lambda v: neumann(v, 0.5),
    "neumann, node": lambda v: neumann(v, 0.25, at="node"),
    "robin, face": lambda v: robin(2.0, 0.75, v, 0.5),
    "robin, node": lambda v: robin(-1.5, 0.75, v, 0.25, at="node"),
}
RULES: dict[str, Callable[[Any], Wall]] = {
    **VALUED,
    "wrap": lambda _: wrap(),
    "wrap, shared": lambda _: wrap(shared=True),
    "edge": lambda _: edge(),
    "reflect": lambda _: reflect(),
    "symmetric": lambda _: symmetric(),
    "reflect, odd": lambda _: odd("reflect"),
    "symmetric, odd": lambda _: odd("symmetric"),
    **{f"extrapolate {order}": lambda _, order=order: extrapolate(order) for order in range(4)},
    "neumann 0, face": lambda _: insulated("face"),
    "neumann 0, node": lambda _: insulated("node"),
}


def centre(ndim: int) -> Callable[..., Any]:
    return lambda u: u[(0,) * ndim]


def padded(library: Any, x: np.ndarray, padding: Any, walls: list[Sides], **options: Any) -> np.ndarray:
    """The array with its ghosts, as a kernel of one tap sees them."""
    return run(library, sx.kmap(centre(x.ndim), padding=padding, boundary=as_boundary(walls), **options), x)


# Each rule


@pytest.mark.parametrize("reach", [1, 2, 4, 13])
@pytest.mark.parametrize("name", RULES)
def test_on_a_line(library, name, reach):
    x, walls = sample(6), [(RULES[name](-1.75), RULES[name](2.5))]
    with jax.disable_jit():  # to compile takes many times as long as to run
        agree(padded(library, x, reach, walls), extended(x, same(reach, 1), walls))


@pytest.mark.parametrize("reach", [1, 2, 5])
@pytest.mark.parametrize("name", RULES)
def test_in_a_plane(library, name, reach):
    x, make = sample(4, 5), RULES[name]
    walls = [(make(-1.75), make(2.5)), (make(0.75), make(-3.25))]
    with jax.disable_jit():  # to compile takes many times as long as to run
        agree(padded(library, x, reach, walls), extended(x, same(reach, 2), walls))


@pytest.mark.parametrize("reach", [1, 2, 4])
@pytest.mark.parametrize("name", RULES)
def test_in_space(library, name, reach):
    """Between two axes with rules of other kinds."""
    x = sample(2, 4, 3)
    walls = [(edge(), constant(1.5)), (RULES[name](-1.75), RULES[name](2.5)), (wrap(), reflect())]
    with jax.disable_jit():  # to compile takes many times as long as to run
        agree(padded(library, x, reach, walls), extended(x, same(reach, 3), walls))


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("make", [lambda: robin(2.0, 0.75, -1.5, 0.5), lambda: extrapolate(1)], ids=["robin", "line"])
def test_on_one_side_only(library, make, axis, end):
    """The other sides of all axes hold zeros, as where nothing is said."""
    x, wall = sample(3, 2, 4), make()
    walls = [(constant(0), constant(0))] * 3
    walls[axis] = (wall, constant(0)) if end == 0 else (constant(0), wall)
    boundary = {axis: (wall.rule, 0) if end == 0 else (0, wall.rule)}
    got = run(library, sx.kmap(centre(3), padding=2, boundary=boundary), x)
    agree(got, extended(x, same(2, 3), walls))


@pytest.mark.parametrize("name", [name for name in RULES if "extrapolate" not in name and "node" not in name])
def test_on_axes_of_one_or_two_cells(library, name):
    make = RULES[name]
    for shape in ((1, 3), (2, 1)) if "shared" not in name else ((2, 3),):
        x = sample(*shape)
        walls = [(make(-1.75), make(2.5)), (make(0.75), make(-3.25))]
        if name != "reflect, odd" or 1 not in shape:
            agree(padded(library, x, 3, walls), extended(x, same(3, 2), walls))
        else:
            agree(
                padded(library, x, 3, walls),
                extended(x, same(3, 2), [(edge(), edge()) if n == 1 else w for n, w in zip(shape, walls)]),
            )


# Values


@pytest.mark.parametrize("name", VALUED)
def test_values_over_the_faces_of_a_plane(library, name):
    """Numbers, arrays and functions; arrays of the face's shape and such that broadcast to it."""
    x, make = sample(4, 5), VALUED[name]
    across, along = sample(5, seed=1), sample(4, seed=2)

    def inflow(t: Any) -> Any:
        return t * 0.5 - 2

    walls = [(make(across), make(inflow)), (make(along[:1]), make(along))]
    stencil = sx.kmap(lambda u, t: u[0, 0] + 0 * t, padding=3, boundary=as_boundary(walls))
    expected = extended(x, same(3, 2), walls, known=lambda v: v(1.5) if callable(v) else v)
    agree(run(library, stencil, x, 1.5), expected)


@pytest.mark.parametrize("name", VALUED)
def test_values_over_the_faces_of_space(library, name):
    x, make = sample(2, 3, 4), VALUED[name]

    def profile(t: Any) -> Any:
        return sample(2, 1, seed=3) * t

    walls = [
        (make(sample(3, 4, seed=1)), edge()),
        (symmetric(), make(sample(4, seed=2))),
        (make(profile), make(sample(1, 3, seed=4))),
    ]
    stencil = sx.kmap(lambda u, t: u[0, 0, 0] + 0 * t, padding=2, boundary=as_boundary(walls))
    expected = extended(x, same(2, 3), walls, known=lambda v: v(-0.5) if callable(v) else v)
    agree(run(library, stencil, x, -0.5), expected)


def test_every_value_of_robin_may_vary(library):
    x = sample(4, 5)
    a, b, g, dx = (np.abs(sample(n, seed=s)) / 4 + 0.5 for n, s in ((5, 1), (5, 2), (5, 3), (1, 4)))
    for at in ("face", "node"):
        walls = [(robin(a, b, g, dx, at), robin(2.0, b, 1.0, dx, at)), (robin(a[:4], 0.5, 3.0, 0.25, at), edge())]
        agree(padded(library, x, 2, walls), extended(x, same(2, 2), walls))


def test_arrays_of_the_library_and_of_numpy(library):
    x, value = sample(3, 5), sample(5, seed=1)
    expected = extended(x, same(2, 2), [(dirichlet(value), constant(value)), (edge(), edge())])
    for given in (value, library.array(value)):
        boundary = {0: (sx.boundary.Dirichlet(given), given), 1: "edge"}
        agree(run(library, sx.kmap(centre(2), padding=2, boundary=boundary), x), expected)


def test_an_array_for_all_sides(library):
    """`boundary=array` is a constant over the face; of one cell, it fits every face."""
    x = sample(3, 5)
    agree(run(library, sx.kmap(centre(2), padding=1, boundary=np.array([2.5])), x), np.pad(x, 1, constant_values=2.5))
    agree(run(library, sx.kmap(centre(2), padding=1, boundary=np.array(2.5)), x), np.pad(x, 1, constant_values=2.5))


def test_functions_of_parameters(library):
    """By name: positional parameters, keywords and defaults of the kernel, in any order, and own defaults."""

    def kernel(u: Any, t: Any, rate: Any = 2.0, *, mass: Any = 0.5) -> Any:
        return u[0] * mass + rate * 0 + t * 0

    def lower(rate: Any, t: Any) -> Any:
        return rate - 3 * t

    def upper(*, mass: Any, scale: Any = 4.0) -> Any:
        return mass * scale

    boundary = {0: (sx.boundary.Dirichlet(lower), sx.boundary.Neumann(upper, lambda t: t / 2))}
    stencil, x = sx.kmap(kernel, padding=2, boundary=boundary), sample(5)
    for args, keywords, (t, rate, mass) in (
        ((1.5,), {}, (1.5, 2.0, 0.5)),
        ((1.5, -1.0), {}, (1.5, -1.0, 0.5)),
        ((1.5,), {"mass": 0.25}, (1.5, 2.0, 0.25)),
        ((), {"rate": 3.0, "t": 0.5, "mass": -0.75}, (0.5, 3.0, -0.75)),
    ):
        walls = [(dirichlet(rate - 3 * t), neumann(4 * mass, t / 2))]
        agree(run(library, stencil, x, *args, **keywords), mass * extended(x, same(2, 1), walls))


def test_a_function_of_arrays(library):
    """A parameter that is an array: which value it gives is the function's business."""
    x, profile = sample(3, 5), sample(2, 5, seed=1)
    boundary = {0: (sx.boundary.Dirichlet(lambda p: p[0, :]), sx.boundary.Dirichlet(lambda p: p[1, :]))}
    stencil = sx.kmap(lambda u, p: u[-1, 0] - u[1, 0], padding="same", boundary=boundary)
    whole = extended(x, [(1, 1), (0, 0)], [(dirichlet(profile[0]), dirichlet(profile[1])), (edge(), edge())])
    agree(run(library, stencil, x, profile), whole[:-2] - whole[2:])


def test_a_wall_that_changes_in_time(library):
    """Heat in a rod, whose left end is warmed and whose right end loses more and more."""
    boundary = {
        0: (sx.boundary.Dirichlet(lambda t: 1 + 2 * t), sx.boundary.Neumann(lambda t: -0.5 * t * t, dx=0.25)),
    }

    @sx.kmap(padding="same", boundary=boundary, backend=library.backend)
    def heat(u: Any, t: Any, r: float = 0.25) -> Any:
        return u[0] + r * (u[-1] - 2 * u[0] + u[1])

    by_hand = sample(7)
    u, dt = library.array(by_hand), 0.125
    for step in range(6):
        t = step * dt
        left, right = 2 * (1 + 2 * t) - by_hand[0], by_hand[-1] + 0.25 * -0.5 * t * t
        line = [left, *by_hand, right]
        by_hand = np.array([b + 0.25 * (a - 2 * b + c) for a, b, c in zip(line, line[1:], line[2:])])
        u = heat(u, t)
    agree(library.numpy(u), by_hand)


def test_values_shared_by_sides_and_fields(library):
    """One array and one function in five places, evaluated where they stand."""
    u, h, value = sample(4, 4), sample(4, 4, seed=1), sample(4, seed=2)

    def swing(t: Any) -> Any:
        return 3 - t

    wall, slope = dirichlet(value), neumann(swing, 0.5)
    walls = {"u": [(wall, slope), (slope, wall)], "h": [(constant(value), wall), (edge(), constant(swing))]}
    stencil = sx.kmap(
        lambda u, h, t: u[-1, 2] - 2 * h[1, -1] + h[-2, 1] * u[2, -2] + 0 * t,
        fields=2,
        padding="same",
        boundary={name: as_boundary(sides) for name, sides in walls.items()},
    )
    wide = [
        extended(x, same(2, 2), walls[name], known=lambda v: 3 - 0.75 if callable(v) else v)
        for name, x in (("u", u), ("h", h))
    ]

    def read(field: int, i: int, j: int) -> np.ndarray:
        return wide[field][2 + i : 6 + i, 2 + j : 6 + j]

    agree(run(library, stencil, u, h, 0.75), read(0, -1, 2) - 2 * read(1, 1, -1) + read(1, -2, 1) * read(0, 2, -2))


# Corners


def test_corners_in_order(library):
    """Axis 0 is extended first, axis 1 on what is there: worked out cell by cell."""
    x = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, -6.0]])
    boundary = {
        0: (sx.boundary.Dirichlet(10.0), "edge"),
        1: (sx.boundary.Neumann(2.0, 0.5), sx.boundary.Extrapolate(1)),
    }
    above = [20 - 1.0, 20 - 2.0, 20 - 4.0]  # beyond axis 0
    below = [3.0, 5.0, -6.0]
    rows = [above, [1.0, 2.0, 4.0], [3.0, 5.0, -6.0], below]
    expected = [[row[0] + 1, *row, 2 * row[2] - row[1]] for row in rows]  # and then beyond axis 1
    agree(run(library, sx.kmap(centre(2), padding=1, boundary=boundary), x), expected)


def test_corners_of_two_formulas(library):
    """The later axis has the last word: 2*v - G, where G is the ghost that axis 0 has put there."""
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    first, second = sx.boundary.Dirichlet(10.0), sx.boundary.Dirichlet(100.0)
    got = run(library, sx.kmap(centre(2), padding=1, boundary={0: first, 1: second}), x)
    agree(got[0], [200 - 19, 19, 18, 200 - 18])
    got = run(library, sx.kmap(centre(2), padding=1, boundary={0: second, 1: first}), x)
    agree(got[0], [20 - 199, 199, 198, 20 - 198])


@pytest.mark.parametrize(
    ("first", "beyond"),
    [
        ((wrap(), wrap()), [[20, 30], [10, 20]]),
        ((symmetric(), reflect()), [[20, 10], [20, 10]]),
        ((reflect(), symmetric()), [[30, 20], [30, 20]]),
        ((edge(), wrap()), [[10, 10], [10, 20]]),
        ((insulated(), extrapolate(0)), [[20, 10], [30, 30]]),
        ((wrap(shared=True), wrap(shared=True)), [[10, 20], [20, 30]]),
        ((dirichlet(5.0), extrapolate(1)), [[10, 10], [30, 30]]),
        ((constant(7.0), neumann(1.0, 0.5)), [[10, 10], [30, 30]]),
        ((wrap(add=4.0), odd("reflect")), [[10, 10], [30, 30]]),
    ],
    ids=str,
)
def test_a_face_goes_on_as_the_other_axes_copy(library, first, beyond):
    """The array 10 20 30 beside axis 1, two ghosts further on each end: copied, or its last value."""
    x, face = sample(3, 5), np.array([10.0, 20.0, 30.0])
    boundary = {0: (first[0].rule, first[1].rule), 1: (0, face)}
    got = run(library, sx.kmap(centre(2), padding=((2, 2), (0, 1)), boundary=boundary), x)
    agree(got[:, -1], [*beyond[0], 10, 20, 30, *beyond[1]])
    walls = [first, (constant(0), dirichlet(face))]
    got = run(library, sx.kmap(centre(2), padding=((2, 2), (0, 2)), boundary=as_boundary(walls)), x)
    agree(got, extended(x, [(2, 2), (0, 2)], walls))


PERIODIC: list[list[Sides]] = [
    [(wrap(), wrap()), (dirichlet(1.5), neumann(-2.0, 0.5)), (wrap(), wrap())],
    [(wrap(), wrap()), (wrap(), wrap()), (robin(1.0, 2.0, 3.0, 0.5), odd("symmetric"))],
    [(extrapolate(1), dirichlet(-2.5, at="node")), (wrap(), wrap()), (wrap(add=4.5), wrap(add=4.5))],
]


@pytest.mark.parametrize("walls", PERIODIC, ids=["walls between", "walls last", "walls first"])
def test_periodic_along_all_axes_but_one(library, walls):
    x = sample(2, 3, 4)

    def kernel(u: Any) -> Any:
        return u[-1, 1, 2] * u[1, 0, 0] - 2 * u[0, -2, 1] + u[1, 2, -2]

    expected = loop_map(kernel, extended(x, same(2, 3), walls), [(-2, 2)] * 3, relative=True)
    agree(
        run(library, sx.kmap(kernel, padding="same", kernel_size=5, relative=True, boundary=as_boundary(walls)), x),
        expected,
    )


def test_a_coordinate_on_a_ring(library):
    """What is gained in going round: the step from each node to the next one is the same everywhere."""
    angle = np.arange(12).reshape(3, 4) * 30.0
    wall = sx.boundary.Wrap(add=np.array([120.0, 360.0, -6.0]))
    angle[2] = [0.0, -1.5, -3.0, -4.5]
    step = sx.kmap(lambda a: a[0, 1] - a[0, 0], padding=(0, (0, 1)), boundary={1: wall})
    expected = np.array([[30.0] * 4, [30.0] * 3 + [270.0], [-1.5] * 4])
    agree(run(library, step, angle), expected)


def test_velocities_at_a_wall(library):
    """Each field its own rules: the normal component changes its sign there, the tangential one is mirrored."""
    u, v = sample(3, 5), sample(3, 5, seed=1)  # along axis 0 and axis 1
    still, mirrored = dirichlet(0.0), symmetric()
    walls = {
        "u": [(still, still), (mirrored, mirrored)],
        "v": [(mirrored, mirrored), (still, still)],
    }
    boundary = {name: as_boundary(sides) for name, sides in walls.items()}

    def flux(u: Any, v: Any) -> Any:
        return (u[1, 0] - u[-1, 0]) / 0.5 + (v[0, 1] - v[0, -1]) / 0.25 + u[0, -1] * v[-1, 0]

    wide_u, wide_v = np.pad(u, 1, mode="symmetric"), np.pad(v, 1, mode="symmetric")
    wide_u[[0, -1]] *= -1
    wide_v[:, [0, -1]] *= -1
    expected = (wide_u[2:, 1:-1] - wide_u[:-2, 1:-1]) / 0.5 + (wide_v[1:-1, 2:] - wide_v[1:-1, :-2]) / 0.25
    expected += wide_u[1:-1, :-2] * wide_v[:-2, 1:-1]
    agree(run(library, sx.kmap(flux, fields=2, padding="same", boundary=boundary), u, v), expected)


# What reads ghosts

MIXED: list[list[Sides]] = [
    [(dirichlet(1.5), neumann(-2.0, 0.5)), (robin(1.0, 2.0, 3.0, 0.25), extrapolate(2))],
    [(wrap(), extrapolate(1)), (dirichlet(np.array([2.0, -1.0, 0.5, 7.0])), constant(np.array([-3.0])))],
    [(odd("reflect"), neumann(np.array([1.0, -2.0, 0.25, 3.0, 5.0]), 0.5, at="node")), (edge(), dirichlet(2.5))],
]

mixed = pytest.mark.parametrize("walls", MIXED, ids=["formulas", "arrays", "copies"])


def asymmetric(u: Any) -> Any:
    return u[-1, 1] - 2 * u[1, 0] + 0.5 * u[0, -1] * u[1, 1]


@mixed
@pytest.mark.parametrize(
    "options",
    [
        {"padding": (3, 4)},
        {"strides": 2, "padding": ((1, 2), (0, 3))},
        {"dilation": 2, "padding": (2, (4, 2))},
        {"dilation": (3, 1), "strides": (2, 3), "padding": ((4, 5), 2)},
    ],
    ids=str,
)
def test_strided_and_dilated_windows(library, walls, options):
    x, reach = sample(4, 5), [(-1, 1), (-1, 1)]
    pairs = (
        [(p, p) if isinstance(p, int) else p for p in options["padding"]]
        if not isinstance(options["padding"], int)
        else same(options["padding"], 2)
    )
    steps = {name: value for name, value in options.items() if name != "padding"}
    expected = loop_map(asymmetric, extended(x, pairs, walls), reach, relative=True, **steps)
    stencil = sx.kmap(asymmetric, boundary=as_boundary(walls), **options)
    agree(run(library, stencil, x), expected)


@mixed
def test_regions_lists_and_masks(library, walls):
    """Each region's own cells see the ghosts; the mask is no box."""
    x = sample(4, 5)
    mask = x > 1
    kernels = [lambda u: u[1, -2] - u[0, 0], lambda u: u[-2, 1] * u[0, 2], lambda u: 2 * u[2, 2] - u[-1, -1]]
    F = sx.kmap(kernel_size=5, relative=True, padding="same", boundary=as_boundary(walls))
    F[...], F[1:, 3:], F[mask], F[[0, 3], -1] = *kernels, lambda u: -u[2, 1]
    wide = extended(x, same(2, 2), walls)
    parts = [loop_map(k, wide, [(-2, 2)] * 2, relative=True) for k in (*kernels, lambda u: -u[2, 1])]
    expected = parts[0]
    for key, part in zip((np.s_[1:, 3:], mask, ([0, 3], [-1, -1])), parts[1:], strict=True):
        expected[key] = part[key]
    agree(run(library, F, x), expected)


@mixed
def test_array_windows(library, walls):
    x = sample(4, 5)
    weights = np.arange(12.0).reshape(3, 4) / 4 - 1.25

    def weighted(w: Any) -> Any:
        return w.__array_namespace__().sum(w * weights)

    expected = loop_map(weighted, extended(x, [(1, 1), (1, 2)], walls), [(-1, 1), (-1, 2)])
    agree(run(library, sx.kmap(weighted, kernel_size=(3, 4), padding="same", boundary=as_boundary(walls)), x), expected)
    whole = run(library, sx.kmap(lambda w: w, kernel_size=(3, 4), padding="same", boundary=as_boundary(walls)), x)
    agree(whole, gathered(dict(windows(extended(x, [(1, 1), (1, 2)], walls), [(-1, 1), (-1, 2)]))))


@mixed
@pytest.mark.parametrize("offset", [0, ((1, 0), (0, 2))], ids=str)
def test_smap_reads_ghosts_as_kmap_does(library, walls, offset):
    x = sample(4, 5)
    expected, margins = x.copy(), offset or ((0, 0), (0, 0))
    inner = tuple(slice(a, n - b) for (a, b), n in zip(margins, x.shape, strict=True))
    expected[inner] = loop_map(asymmetric, extended(x, same(1, 2), walls), [(-1, 1)] * 2, relative=True)[inner]
    agree(run(library, sx.smap(asymmetric, offset=offset, boundary=as_boundary(walls)), x), expected)


# dtypes


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    "wall",
    [
        odd("reflect"),
        odd("symmetric"),
        extrapolate(2),
        constant(-3),
        dirichlet(2),
        dirichlet(2, at="node"),
        neumann(-2, 3),
        wrap(add=360),
        insulated(),
    ],
    ids=str,
)
def test_integers_stay_what_they_are(library, wall, dtype):
    x = sample(4, 5, dtype=dtype)
    agree(padded(library, x, 2, [(wall, wall)] * 2), extended(x, same(2, 2), [(wall, wall)] * 2), dtype)


@pytest.mark.parametrize(
    "wall",
    [constant(1.5), dirichlet(-0.5), neumann(0.5, 1), neumann(1, 0.5), wrap(add=0.25), robin(1, 2, 3, 4)],
    ids=str,
)
def test_fractions_make_integers_floats(library, wall):
    """Before the kernel sees them, and all of them."""
    x = sample(4, 5, dtype=np.int64)
    got = padded(library, x, 2, [(wall, wall)] * 2)
    assert got.dtype.kind == "f"
    agree(got.astype(np.float32), extended(x * 1.0, same(2, 2), [(wall, wall)] * 2))


@pytest.mark.parametrize("name", RULES)
def test_python_numbers_do_not_widen_float32(library, name):
    x, walls = sample(4, 5, dtype=np.float32), [(RULES[name](-1.75), RULES[name](np.float64(2.5)))] * 2
    agree(padded(library, x, 1, walls), extended(x.astype(float), same(1, 2), walls), np.float32)


@pytest.mark.parametrize(
    ("dtype", "value", "joined"),
    [
        (np.float32, np.float32, np.float32),
        (np.float32, np.float64, np.float64),
        (np.float64, np.float32, np.float64),
        (np.complex64, np.float32, np.complex64),
        (np.int32, np.int64, np.int64),
        (np.int32, np.int32, np.int32),
    ],
)
def test_arrays_join_by_their_dtype(library, dtype, value, joined):
    x, face = sample(3, 5, dtype=dtype), sample(5, dtype=value, seed=1)
    walls = [(dirichlet(face), edge()), (edge(), edge())]
    agree(padded(library, x, 1, walls), extended(x, same(1, 2), walls), joined)


@pytest.mark.parametrize("first", [0.0, -1.25])
def test_functions_join_by_the_kind_of_number_whatever_the_first_call_gives(library, first):
    """The plan of the first call serves the second one: a zero there must not make later fractions whole."""
    x = sample(5, dtype=np.int64)

    def total(u: Any) -> Any:
        return u.__array_namespace__().sum(u)

    stencil = sx.kmap(
        lambda u, t: total(u),
        kernel_size=3,
        padding="same",
        boundary=sx.boundary.Constant(lambda t: t),
        backend=library.backend,
    )
    for t in (first, 1.5, 0.0):
        got = library.numpy(stencil(library.array(x), t))
        assert got.dtype.kind == "f"
        agree(got.astype(np.float32), loop_map(np.sum, np.pad(x * 1.0, 1, constant_values=t), [(-1, 1)]))


def test_numpy_scalars_from_functions_do_not_widen(library):
    x = sample(5, dtype=np.float32)
    stencil = sx.kmap(lambda u, t: u[-1], padding="same", boundary=sx.boundary.Dirichlet(lambda t: np.sin(t) * 0 + 2))
    agree(run(library, stencil, x, 0.5), np.append(4 - x[0], x[:-1]), np.float32)


def test_complex_walls(library):
    x = sample(4, 5, dtype=np.complex128)
    walls = [(dirichlet(1 - 2j), extrapolate(1)), (neumann(0.5j, 0.5), robin(1.0, 2j, 3.0, 0.5))]
    agree(padded(library, x, 2, walls), extended(x, same(2, 2), walls), np.complex128)
    agree(padded(library, x.real, 2, walls), extended(x.real, same(2, 2), walls), np.complex128)


@pytest.mark.parametrize("dtype", [np.uint8, bool])
@pytest.mark.parametrize("wall", [insulated(), insulated("node"), extrapolate(0), wrap(shared=True)], ids=str)
def test_rules_that_copy_serve_every_dtype(library, wall, dtype):
    x = sample(4, 5, dtype=dtype)
    agree(padded(library, x, 2, [(wall, wall)] * 2), extended(x, same(2, 2), [(wall, wall)] * 2), dtype)


# Outside of what is asked


def test_values_beyond_which_nothing_is_read_change_nothing(library):
    """A kernel that looks up only: walls that are never met may need more cells than there are."""
    x = sample(2, 3)
    boundary = {0: ("edge", sx.boundary.Extrapolate(3)), 1: sx.boundary.Extrapolate(3)}
    agree(run(library, sx.kmap(lambda u: u[-1, 0], padding=((1, 0), 0), boundary=boundary), x), x[[0, 0, 1]][:2])


def test_an_empty_array_has_values_around_it(library):
    got = run(library, sx.kmap(centre(2), padding=1, boundary=sx.boundary.Constant(np.array([2.5]))), np.zeros((0, 2)))
    agree(got, np.full((2, 4), 2.5))


def test_nothing_given_is_modified(library):
    x, value = sample(3, 5), sample(5, seed=1)
    given, wall = to_library(library, x), to_library(library, value)
    boundary = {0: (sx.boundary.Dirichlet(wall), sx.boundary.Neumann(wall, 0.5)), 1: wall[:3]}
    sx.kmap(centre(2), padding=2, boundary=boundary, backend=library.backend)(given)
    np.testing.assert_array_equal(library.numpy(given), x)
    np.testing.assert_array_equal(library.numpy(wall), value)


def test_the_rules_are_all_here():
    """A rule that is added to the library is added to these tables."""
    tested = {type(make(1.5).rule) for make in RULES.values()} | {type(sx.boundary.Edge()), type(sx.boundary.Reflect())}
    tested |= {type(sx.boundary.Symmetric())}
    public = {getattr(sx.boundary, name) for name in sx.boundary.__all__} - {sx.boundary.Rule}
    assert public <= tested


def test_the_oracle_can_fail():
    """Two walls that differ in one number, one side or one place are told apart."""
    x = sample(4, 5)
    cases = [
        [(dirichlet(1.5), edge()), (edge(), edge())],
        [(dirichlet(1.75), edge()), (edge(), edge())],
        [(edge(), dirichlet(1.5)), (edge(), edge())],
        [(edge(), edge()), (dirichlet(1.5), edge())],
        [(dirichlet(1.5, at="node"), edge()), (edge(), edge())],
    ]
    whole = [extended(x, same(2, 2), walls) for walls in cases]
    for one, other in itertools.combinations(whole, 2):
        assert not np.allclose(one, other)
