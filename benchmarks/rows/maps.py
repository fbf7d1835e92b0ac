"""Maps of few reads: the 5-point Laplacian on every boundary, with a fresh result and with a given one; a 3-D star."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import stencilx as sx
from benchmarks.row import (
    Case,
    Maker,
    Row,
    Size,
    Target,
    Way,
    calls,
    jitted,
    kernex,
    laplacian_of,
    loops,
    normal,
    times_as_fast,
)

MODES = {"zero": "constant", "edge": "edge", "wrap": "wrap", "reflect": "reflect", "symmetric": "symmetric"}
PLANE: Size = (4096, 4096)


def five_points(u: Any) -> Any:
    return u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0]


def laplacian(boundary: str) -> Any:
    return sx.kmap(five_points, padding="same", boundary=0 if boundary == "zero" else boundary)


def stand_ins(boundary: str, shape: Size) -> tuple[np.ndarray, np.ndarray]:
    """For each axis the cell that is read instead of the one before the first, and after the last; -1 for zeros."""
    n = np.array(shape)
    before = {"zero": 0 * n - 1, "edge": 0 * n, "wrap": n - 1, "reflect": 0 * n + 1, "symmetric": 0 * n}
    after = {"zero": 0 * n - 1, "edge": n - 1, "wrap": 0 * n, "reflect": n - 2, "symmetric": n - 1}
    return before[boundary], after[boundary]


def padded_slices(x: jax.Array, mode: str) -> jax.Array:
    p = jnp.pad(x, 1, mode)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


def rolled(x: jax.Array) -> jax.Array:
    return sum(jnp.roll(x, shift, axis) for shift in (-1, 1) for axis in (0, 1)) - 4 * x


def fresh(boundary: str) -> Callable[[Size], Case]:
    def make(size: Size) -> Case:
        host = normal(*size)
        x = jnp.asarray(host)
        ways: dict[str, Maker] = {
            "stencilx": calls(laplacian(boundary), x),
            "x + 1": jitted(lambda x: x + 1, x),
            "jnp.pad and slices": jitted(lambda x: padded_slices(x, MODES[boundary]), x),
            "numba loops": loops("laplacian", host, *stand_ins(boundary, size)),
        }
        if boundary == "wrap":
            ways["jnp.roll"] = jitted(rolled, x)
        if boundary == "zero":
            ways["kernex"] = kernex("kmap", five_points, x, kernel_size=(3, 3), padding="same", relative=True)
            ways["numba.stencil"] = loops("laplacian_by_stencil", host)
        return Case(ways, laplacian_of(host, MODES[boundary]), {"x + 1": host + 1}, moved=2 * host.nbytes)

    return make


def into_given(size: Size) -> Case:
    """The previous result is the buffer of the next."""
    host = normal(*size)
    x = jnp.asarray(host)

    def ours(boundary: str) -> Maker:
        def make() -> Way:
            stencil = laplacian(boundary)
            given = [jnp.zeros_like(x)]

            def way() -> jax.Array:
                given.append(stencil(x, out=given.pop()))
                return given[0]

            return way

        return make

    given = np.zeros_like(host)
    ways = {
        "stencilx": ours("zero"),
        "stencilx, edge": ours("edge"),
        "stencilx, wrap": ours("wrap"),
        "numba loops": loops("laplacian_into", host, given, *stand_ins("zero", size)),
    }
    others = {f"stencilx, {boundary}": laplacian_of(host, boundary) for boundary in ("edge", "wrap")}
    return Case(ways, laplacian_of(host), others, moved=2 * host.nbytes)


# The second difference of eighth order, from the centre outwards
EIGHTH_ORDER = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)


def star(u: Any) -> Any:
    total = 3 * EIGHTH_ORDER[0] * u[0, 0, 0]
    for d, weight in list(enumerate(EIGHTH_ORDER))[1:]:
        along = u[-d, 0, 0] + u[d, 0, 0] + u[0, -d, 0] + u[0, d, 0] + u[0, 0, -d] + u[0, 0, d]
        total = total + weight * along
    return total


class Centred:
    """An array as a window: an offset gives the slice shifted by it, without a margin of 4 cells."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, offset: tuple[int, ...]) -> Any:
        return self.array[tuple(slice(4 + o, n - 4 + o) for o, n in zip(offset, self.array.shape))]


def stars(size: Size) -> Case:
    host = normal(*size)
    x = jnp.asarray(host)
    ways = {
        "stencilx": calls(sx.kmap(star), x),
        "jnp slices": jitted(lambda x: star(Centred(x)), x),
        "numba loops": loops("star", host, np.array(EIGHTH_ORDER, np.float32)),
    }
    expected = star(Centred(host))
    return Case(ways, expected, moved=host.nbytes + expected.nbytes)


def _rows_of_laplacians() -> list[Row]:
    rows = []
    for boundary in MODES:
        targets = (Target("x + 1", 1.15),)
        if boundary == "zero":
            targets += (times_as_fast(15, "kernex"),)
        what = f"5-point Laplacian, same, {boundary}, {{}} x {{}}"
        rows.append(Row(f"laplacian-{boundary}", what, PLANE, (96, 130), fresh(boundary), targets))
    return rows


ROWS: tuple[Row, ...] = (
    *_rows_of_laplacians(),
    Row(
        "laplacian-out",
        "5-point Laplacian, same, into a given array, {} x {}",
        PLANE,
        (96, 130),
        into_given,
        tuple(Target("numba loops", 1.6, way) for way in ("stencilx", "stencilx, edge", "stencilx, wrap")),
    ),
    Row(
        "star",
        "25-point star, valid, {} x {} x {}",
        (256, 256, 256),
        (20, 24, 28),
        stars,
        (Target("jnp slices", 1.15),),
        {"kernex": "it gathers patches of 9 x 9 x 9, tens of gigabytes"},
    ),
)
