"""Sweeps that walk along other axes than the leading ones: the numbers of the NumPy backend, without symmetries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import stencilx as sx
from stencilx.boundary import Constant, Dirichlet, Extrapolate, Neumann

from .plain_loops import agree, sample

Reads = list[tuple[tuple[int, ...], float]]
"""Offsets and weights."""

COLUMNS: Reads = [((0, -1), 0.5), ((0, 0), 0.25), ((0, 1), -0.125), ((1, 0), 0.375), ((1, 1), 1.0)]
PLANES = {
    (1, 0, 2): [((0, -1, 0), 0.5), ((-1, -1, 1), -0.25), ((1, 0, 0), 0.5), ((0, 1, -1), 0.25)],
    (2, 0, 1): [((0, 0, -1), 0.5), ((0, -1, -1), -0.25), ((1, 0, 0), 0.5), ((0, 1, 1), 0.25)],
    (0, 2, 1): [((0, 0, -1), 0.5), ((-1, 1, 0), -0.25), ((1, 0, 0), 0.5), ((0, 1, 1), 0.25)],
    (1, 2, 0): [((0, 0, -1), 0.5), ((0, -1, 1), -0.25), ((1, 0, 0), 0.5), ((0, 1, 1), 0.25)],
}
MASK = np.array([[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1]], bool)


@pytest.fixture(params=["jax", "array_api"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def weighted(reads: Reads, reverse: bool = False) -> Callable[..., Any]:
    """A kernel of one field; in reverse with all offsets the other way, so that the same reads are carried."""
    sign = -1 if reverse else 1
    return lambda u: sum(weight * u[tuple(sign * o for o in offset)] for offset, weight in reads)


def swept(backend: str, order: Sequence[int], axes: int, stencil: Any, *arguments: Any) -> None:
    """A stencil gives what it gives on the NumPy backend, and walks along just those axes."""
    stencil = stencil.with_backend(backend)
    found = stencil.explain(*arguments).plan.schedule
    assert found.name in ("rows", "associative")
    assert (found.order, found.axes) == (tuple(order), axes)
    expected = stencil.with_backend("numpy")(*arguments)
    got = stencil(*arguments)
    assert isinstance(got, tuple) == isinstance(expected, tuple)
    for g, e in zip(got if isinstance(got, tuple) else (got,), expected if isinstance(got, tuple) else (expected,)):
        agree(np.asarray(g), e, e.dtype)


def meshed(stencil: Any, regions: Sequence[tuple[Any, Any]]) -> Any:
    for key, value in regions:
        stencil[key] = value
    return stencil


def mirrored(boundary: Any) -> Any:
    """The same before each axis as after it, and the other way round."""
    if not isinstance(boundary, dict):
        return boundary
    return {axis: rules[::-1] if isinstance(rules, tuple) else rules for axis, rules in boundary.items()}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "boundary", [0, 1.5, "edge", {0: "edge", 1: 0.5}, {0: 2.0, 1: ("symmetric", "edge")}, {1: ("reflect", 0.0)}]
)
def test_columns(backend: str, boundary: Any, reverse: bool) -> None:
    boundary = mirrored(boundary) if reverse else boundary
    stencil = sx.kscan(weighted(COLUMNS, reverse), padding="same", boundary=boundary, reverse=reverse)
    for shape in ((4, 6), (6, 3), (1, 5)):
        swept(backend, (1, 0), 1, stencil, sample(*shape))


@pytest.mark.parametrize("reverse", [False, True])
def test_columns_from_several_before(backend: str, reverse: bool) -> None:
    reads = [*COLUMNS, ((-1, -2), 0.25), ((-2, -1), -0.5)]
    boundary = mirrored({0: 1.0, 1: (1.0, "edge")}) if reverse else {0: 1.0, 1: (1.0, "edge")}
    stencil = sx.kscan(weighted(reads, reverse), padding="same", boundary=boundary, reverse=reverse)
    swept(backend, (1, 0), 1, stencil, sample(5, 7))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("boundary", ["wrap", {"u": "wrap", "h": {0: "wrap", 1: "edge"}}], ids=str)
def test_columns_of_a_torus(backend: str, boundary: Any, reverse: bool) -> None:
    """The first column reads the last one while it is old; the corners of another field are copies of copies."""
    sign = -1 if reverse else 1

    def kernel(u: Any, h: Any) -> Any:
        return u[0, -sign] / 2 + u[0, sign] / 4 + h[-1, -1] - h[1, 1] / 2 + h[1, -1] / 8

    stencil = sx.kscan(kernel, fields=("u", "h"), padding="same", boundary=boundary, reverse=reverse)
    swept(backend, (1, 0), 1, stencil, sample(4, 6), sample(4, 6, seed=1))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("order", PLANES, ids=str)
@pytest.mark.parametrize("boundary", [0.0, {0: "edge", 1: 1.5, 2: (1.5, "edge")}], ids=str)
def test_three_axes(backend: str, boundary: Any, order: tuple[int, ...], reverse: bool) -> None:
    axes = 1 if order in ((1, 0, 2), (2, 0, 1)) else 2
    boundary = mirrored(boundary) if reverse else boundary
    kernel = weighted(PLANES[order], reverse)
    stencil = sx.kscan(kernel, padding="same", boundary=boundary, reverse=reverse)
    swept(backend, order, axes, stencil, sample(3, 4, 5))
    stencil = sx.sscan(kernel, offset=((1, 0), (0, 1), (1, 0)), boundary=boundary, reverse=reverse)
    swept(backend, order, axes, stencil, sample(4, 5, 6))


WALLS = [
    {0: Dirichlet(1.5), 1: (Dirichlet(np.arange(4.0)), Neumann(0.5, 0.25))},
    {0: (Extrapolate(0), Dirichlet(np.arange(6.0) / 4)), 1: (Neumann(np.arange(4.0) / 8, 0.5), 2.0)},
    {0: "edge", 1: (Constant(np.arange(4.0)), Dirichlet(0.25))},
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("boundary", WALLS, ids=range(3))
@pytest.mark.parametrize("schedule", ["auto", "associative"])
def test_walls(backend: str, boundary: Any, reverse: bool, schedule: str) -> None:
    """Formulas, and values that vary along a face, before and beyond the axis that is walked along and beside it."""
    sign = -1 if reverse else 1
    kernel = weighted([((0, -1), 0.5), ((0, 0), 0.25), ((0, 1), -0.125), ((1, 0), 0.375)], reverse)
    boundary = mirrored(boundary) if reverse else boundary
    stencil = sx.kscan(kernel, padding="same", boundary=boundary, reverse=reverse, schedule=schedule)
    swept(backend, (1, 0), 1, stencil, sample(4, 6))
    F = sx.sscan(boundary=boundary, reverse=reverse, schedule=schedule)
    meshed(F, [(..., kernel), (np.s_[1:3, 2:4], lambda u: u[0, -sign] / 2 - u[sign, 0]), (np.s_[:, 1], 0.75)])
    swept(backend, (1, 0), 1, F, sample(4, 6))


def test_corners_of_formulas_keep_their_values(backend: str) -> None:
    kernel = weighted([((0, -1), 0.5), ((1, 1), 0.25)])
    for boundary in (
        {0: Dirichlet(1.0), 1: Neumann(0.5, 0.25)},
        {0: Dirichlet(1.0), 1: 0.0},
        {0: 0.0, 1: (0.0, Dirichlet(1.0))},
    ):
        stencil = sx.kscan(kernel, padding="same", boundary=boundary, backend=backend)
        assert stencil.schedule(sample(4, 6)) == "cells"
        agree(np.asarray(stencil(sample(4, 6))), stencil.with_backend("numpy")(sample(4, 6)), np.float64)


@pytest.mark.parametrize("strides", [(1, 2), (2, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_strides_and_dilation(backend: str, strides: tuple[int, int], reverse: bool) -> None:
    reads: Reads = [((0, -1), 0.5), ((0, 1), -0.125), ((1, 0), 0.375)]
    kernel = weighted(reads, reverse)
    options: dict[str, Any] = {"strides": strides, "dilation": (1, 2), "boundary": {0: 0.5, 1: "edge"}}
    for stencil in (
        sx.kscan(kernel, padding="same", reverse=reverse, **options),
        sx.sscan(kernel, offset=((0, 1), (1, 0)), reverse=reverse, **options),
    ):
        swept(backend, (1, 0), 1, stencil, sample(6, 9))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "regions",
    [
        [(np.s_[:, 0], 1.5), (np.s_[-1], np.arange(6.0))],
        [(np.s_[1:3, 2:], weighted([((0, -1), -1.0), ((0, 1), 0.5)])), (np.s_[0], np.arange(6.0) / 4)],
        [(np.s_[1::2, ::3], np.arange(4.0).reshape(2, 2)), (np.s_[:, 1], np.arange(4.0))],
        [(MASK, np.arange(9.0)), (np.s_[2, 2:4], -1.0)],
        [(MASK, weighted([((0, -1), 0.75)])), (np.s_[[3, 1]], np.arange(12.0).reshape(2, 6) / 8)],
    ],
    ids=["walls", "boxes", "strided", "points", "mask"],
)
def test_regions(backend: str, regions: Any, reverse: bool) -> None:
    """Keys, and the arrays given to them, count the axes as they are."""
    reads: Reads = [((0, -1), 0.5), ((0, 1), -0.125), ((1, 0), 0.375)]
    sign = -1 if reverse else 1
    regions = [(key, weighted([((0, -sign), 0.75)]) if callable(value) else value) for key, value in regions]
    for maker, options in ((sx.kscan, {"padding": "same"}), (sx.sscan, {"offset": 0, "boundary": "edge"})):
        F = maker(reverse=reverse, **options)
        meshed(F, [(..., weighted(reads, reverse)), *regions])
        swept(backend, (1, 0), 1, F, sample(4, 6))


@pytest.mark.parametrize("reverse", [False, True])
def test_two_fields(backend: str, reverse: bool) -> None:
    back, on = (1, -1) if reverse else (-1, 1)

    def both(u: Any, h: Any) -> Any:
        return u[0, back] / 2 + h[on, back] / 4 - u[on, 0] / 8, h[on, 0] / 2 - u[0, back] / 4 + u[0, 0]

    def one(u: Any, h: Any) -> Any:
        return u[0, back] / 2 + h[back, back] / 4 - h[on, 0] / 8

    options: dict[str, Any] = {"fields": ("u", "h"), "padding": "same", "reverse": reverse}
    x, y = sample(4, 6), sample(4, 6, seed=1)
    swept(backend, (1, 0), 1, sx.kscan(one, **options, boundary={"u": "edge", "h": "wrap"}), x, y)
    F = sx.kscan(both, updates=("h", "u"), **options)
    assert F.schedule(x, y) == "cells"  # h[on, back] is old, and would be new along axis 1

    def coupled(u: Any, h: Any) -> Any:
        return u[0, back] / 2 + h[0, back] / 4 - u[on, 0] / 8, h[on, 0] / 2 - u[0, back] / 4 + u[0, 0]

    swept(backend, (1, 0), 1, sx.kscan(coupled, updates=("h", "u"), **options), x, y)


def test_rows_may_be_asked_for(backend: str) -> None:
    stencil = sx.kscan(weighted([((0, -1), 0.5), ((1, 0), 0.25)]), padding="same", schedule="rows")
    swept(backend, (1, 0), 1, stencil, sample(4, 6))
    stencil = sx.kscan(weighted([((0, -1), 0.5), ((1, -1), 0.25)]), padding="same", schedule="rows")
    with pytest.raises(sx.ScheduleError, match=r"'rows' would change the numbers: u\[0, -1\] reads"):
        stencil.with_backend(backend)(sample(4, 6))


def test_corners_keep_their_values(backend: str) -> None:
    """Axis 1 is extended last: its number stands in the corner. So axis 1 must not be walked along alone."""
    stencil = sx.kscan(
        weighted([((0, -1), 0.5), ((1, 1), 0.25)]), padding="same", boundary={0: 1.0, 1: 2.0}, backend=backend
    )
    assert stencil.schedule(sample(4, 6)) == "cells"
    agree(np.asarray(stencil(sample(4, 6))), stencil.with_backend("numpy")(sample(4, 6)), np.float64)


def test_array_windows(backend: str) -> None:
    weights = np.array([[0.5, 1.0, 0.25, -0.125]])
    kernel = lambda w: w.__array_namespace__().sum(w * weights)  # noqa: E731
    swept(backend, (1, 0), 1, sx.kscan(kernel, kernel_size=(1, 4), padding="same", boundary="edge"), sample(4, 6))
    whole = sx.kscan(lambda w: w.__array_namespace__().sum(w), kernel_size=(2, 3), padding="same")
    assert whole.with_backend(backend).schedule(sample(4, 6)) == "cells"  # it reads u[1, -1], too
