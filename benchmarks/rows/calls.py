"""What a call costs beside its work: from Python on a small array, and the first time, with trace and compilation."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import stencilx as sx
from benchmarks.row import Case, Row, Size, Target, Way, calls, jitted, laplacian_of, normal, weighted_slices
from benchmarks.rows.maps import five_points, padded_slices
from benchmarks.rows.windows import around


def small(size: Size) -> Case:
    host = normal(*size)
    x = jnp.asarray(host)
    stencil = sx.kmap(five_points, padding="same")

    def theirs() -> Way:
        return calls(
            importlib.import_module("kernex").kmap(kernel_size=(3, 3), padding="same", relative=True)(five_points), x
        )()

    ways = {"stencilx": calls(stencil, x), "stencilx, jitted": jitted(stencil, x), "kernex": theirs}
    ways["jnp.pad and slices"] = calls(padded_slices, x, "constant")
    ways["jnp.pad and slices, jitted"] = jitted(lambda x: padded_slices(x, "constant"), x)
    return Case(ways, laplacian_of(host), moved=0)


def first(kernel: Callable[[Any], Any], x: jax.Array, **options: Any) -> Callable[[], Any]:
    """A stencil that nobody has seen, called once; the kernel must not run for a second call."""

    def way() -> Any:
        jax.clear_caches()
        traces = [0]

        def counted(u: Any) -> Any:
            traces[0] += 1
            return kernel(u)

        stencil = sx.kmap(counted, padding="same", **options)
        result = stencil(x)
        seen = traces[0]
        assert stencil(x).shape == result.shape and traces[0] == seen, "the second call has traced the kernel again"
        return result

    return way


def first_of_jitted(function: Callable[[jax.Array], Any], x: jax.Array) -> Callable[[], Any]:
    def way() -> Any:
        jax.clear_caches()
        return jax.jit(lambda x: function(x))(x)

    return way


def first_five(size: Size) -> Case:
    host = normal(*size)
    x = jnp.asarray(host)
    ways = {
        "stencilx": lambda: first(five_points, x),
        "jnp.pad and slices": lambda: first_of_jitted(lambda x: padded_slices(x, "constant"), x),
    }
    return Case(ways, laplacian_of(host))


def first_window(size: Size) -> Case:
    *shape, width = size
    host, weights = normal(*shape), normal(width, width, seed=1)
    x, w = jnp.asarray(host), jnp.asarray(weights)
    ways = {
        "stencilx": lambda: first(lambda u: jnp.sum(u * w), x, kernel_size=width),
        "jnp.pad and slices": lambda: first_of_jitted(lambda x: weighted_slices(around(x, width // 2), w), x),
    }
    return Case(ways, weighted_slices(around(host, width // 2), weights))


def first_wide(size: Size) -> Case:
    """As many reads as jnp slices cannot have."""
    case = first_window(size)
    return dataclasses.replace(case, ways={"stencilx": case.ways["stencilx"]})


ROWS: tuple[Row, ...] = (
    Row(
        "eager",
        "a call from Python, {} x {}",
        (16, 16),
        (5, 7),
        small,
        (Target("stencilx, jitted", plus=100e-6),),
    ),
    Row(
        "first-call-5",
        "first call, 5 points, {} x {}",
        (256, 256),
        (16, 20),
        first_five,
        (Target(plus=0.3),),
    ),
    Row(
        "first-call-225",
        "first call, dense {2} x {2}, {0} x {1}",
        (256, 256, 15),
        (16, 20, 3),
        first_window,
        (Target(plus=1.5),),
    ),
    Row(
        "first-call-961",
        "first call, dense {2} x {2}, {0} x {1}",
        (256, 256, 31),
        (16, 20, 5),
        first_wide,
        without={"jnp.pad and slices": "compiling 961 of them exhausts the memory"},
    ),
)
