"""Sweeps: Gauss-Seidel, a recurrence along a line, and the linear convection of kernex's README."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import stencilx as sx
from benchmarks.peers import by_scipy, one_core
from benchmarks.row import Case, Row, Size, Target, Way, calls, jitted, kernex, normal, times_as_fast

PLAIN = one_core.NAME
KEPT, GIVEN = 0.9, 0.1  # of the recurrence


def relax(u: Any) -> Any:
    return 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])


def gauss_seidel(size: Size) -> Case:
    host = normal(*size)
    u = jnp.asarray(host)

    def plain() -> Way:
        loop = one_core.load("gauss_seidel")

        def way() -> np.ndarray:
            copy = host.copy()
            loop(copy, *size)
            return copy

        return way

    margin: Any = {"kernel_size": (3, 3), "offset": ((1, 1), (1, 1)), "relative": True}
    ways = {
        "stencilx": calls(sx.sscan(relax, offset=1), u),
        PLAIN: plain,
        "kernex": kernex("sscan", relax, u, **margin),
    }
    return Case(ways, by_scipy.gauss_seidel(host), moved=2 * host.nbytes)


def recurrence(size: Size) -> Case:
    (n,) = size
    host = normal(n)
    x = jnp.asarray(host)

    def plain() -> Way:
        loop = one_core.load("recurrence")

        def way() -> np.ndarray:
            y = np.empty_like(host)
            loop(host, y, n, KEPT, GIVEN)
            return y

        return way

    def scanned(x: jax.Array) -> jax.Array:
        """An affine map for each cell, composed pair by pair."""

        def compose(first: Any, second: Any) -> Any:
            return first[0] * second[0], second[0] * first[1] + second[1]

        return jax.lax.associative_scan(compose, (jnp.full_like(x, KEPT), GIVEN * x))[1]

    def kernel(y: Any) -> Any:
        return KEPT * y[-1] + GIVEN * y[0]

    composed = sx.kscan(kernel, padding="same", schedule="associative")
    ways = {
        "stencilx": calls(sx.kscan(kernel, padding="same"), x),
        PLAIN: plain,
        "stencilx, associative": calls(composed, x),
        "lax.associative_scan": jitted(scanned, x),
    }
    return Case(ways, by_scipy.recurrence(host, KEPT, GIVEN), tolerance=1e-4, moved=2 * host.nbytes)


# Space-time: the first axis is time; walls and initial row are regions


def convected(library: Any, size: Size, **options: Any) -> Any:
    """The program of kernex's README, on either library."""
    _, cells = size
    ratio = courant(size)
    F = library.kscan(kernel_size=(3, 3), named_axis={0: "n", 1: "i"}, relative=True, **options)
    F[:, 0] = F[:, -1] = lambda u: 1
    F[:, : int((cells - 1) / 4) + 1] = F[:, int((cells - 1) / 2) :] = lambda u: 1
    F[0:1, int((cells - 1) / 4) + 1 : int((cells - 1) / 2)] = lambda u: 2
    F[1:, 1:-1] = lambda u: u["i", "n-1"] - ratio * (u["i", "n-1"] - u["i-1", "n-1"])
    return F


def courant(size: Size) -> float:
    steps, cells = size
    time_step, width, speed = 0.5 / (steps - 1), 2.0 / (cells - 1), 0.5
    return speed * time_step / width


def start(size: Size) -> np.ndarray:
    u = np.ones(size, np.float32)
    u[0, int((size[1] - 1) / 4) + 1 : int((size[1] - 1) / 2)] = 2
    return u


def convection(size: Size) -> Case:
    u = jnp.ones(size, jnp.float32)
    initial, ratio = start(size), courant(size)

    def plain() -> Way:
        loop = one_core.load("convection")

        def way() -> np.ndarray:
            copy = initial.copy()
            loop(copy, *size, ratio)
            return copy

        return way

    def theirs() -> Way:
        """Made anew for each call: a second call of the same mesh fails."""
        library = importlib.import_module("kernex")
        return lambda: convected(library, size, padding=((1, 1), (1, 1)))(u)

    expected = initial.copy()
    for before, row in itertools.pairwise(expected):
        row[1:-1] = before[1:-1] - ratio * (before[1:-1] - before[:-2])
    ways = {"stencilx": calls(convected(sx, size, padding="same"), u), PLAIN: plain, "kernex": theirs}
    return Case(ways, expected, moved=initial.nbytes)


ROWS: tuple[Row, ...] = (
    *(
        Row(
            f"gauss-seidel-{size}",
            "Gauss-Seidel, one sweep, {} x {}",
            (size, size),
            (23, 31),
            gauss_seidel,
            (Target(PLAIN, 2.5), times_as_fast(200, "kernex")),
        )
        for size in (512, 2048)
    ),
    Row("recurrence", "y[i] = a y[i-1] + b x[i], {:,}", (10_000_000,), (1_000,), recurrence, (Target(PLAIN, 1.5),)),
    Row(
        "convection",
        "linear convection of kernex's README, {} x {}",
        (501, 501),
        (23, 31),
        convection,
        (times_as_fast(2000, "kernex"),),
    ),
)
