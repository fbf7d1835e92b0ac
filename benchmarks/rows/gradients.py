"""Gradients beside their forward runs: through a time loop, of a convolution, and along a chain of stencils."""

from __future__ import annotations

import importlib
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
    jitted,
    laplacian_of,
    loops,
    normal,
    weighted_slices,
)
from benchmarks.rows.maps import five_points
from benchmarks.rows.steps import RATE, heated, slices_of_heat, steps_of, warm
from benchmarks.rows.windows import CONV, around, lax_conv, weighted_sum

LONGEST = 6  # chain


def of_squares(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: jnp.sum(function(*args) ** 2)


def kernex_gradient(kernel: Callable[..., Any], then: Callable[[Any], Any], *args: Any, **options: Any) -> Maker:
    """kernex, under what is made of its stencil, for all arguments."""

    def make() -> Way:
        loss = of_squares(then(importlib.import_module("kernex").kmap(**options)(kernel)))
        return jitted(jax.grad(loss, tuple(range(len(args)))), *args)()

    return make


def heat_gradient(size: Size) -> Case:
    *shape, steps = size
    host = normal(*shape)
    u = jnp.asarray(host)
    step = sx.kmap(warm, padding="same")
    ours = of_squares(lambda u: sx.iterate(step, u, steps).state)
    ways = {
        "stencilx": jitted(jax.grad(ours), u),
        "stencilx, forward": jitted(ours, u),
        "jnp slices": jitted(jax.grad(of_squares(steps_of(slices_of_heat, steps))), u),
        "kernex": kernex_gradient(
            warm, lambda step: steps_of(step, steps), u, kernel_size=(3, 3), padding="same", relative=True
        ),
        "numba loops": loops("heat_gradient", host, RATE, steps),
    }
    end = heated(host, steps)
    moved = 5 * steps * host.nbytes
    return Case(ways, heated(2 * end, steps), {"stencilx, forward": np.sum(end**2)}, tolerance=1e-4, moved=moved)


def conv_gradient(size: Size) -> Case:
    """For input and weights."""
    host, weights = normal(*size), normal(3, 3, 3, seed=1)
    args = jnp.asarray(host), jnp.asarray(weights)
    ours = of_squares(sx.kmap(weighted_sum, **CONV))
    ways = {
        "stencilx": jitted(jax.grad(ours, (0, 1)), *args),
        "stencilx, forward": jitted(ours, *args),
        "jnp.pad and slices": jitted(jax.grad(of_squares(lambda x, w: weighted_slices(around(x), w)), (0, 1)), *args),
        "lax.conv": jitted(jax.grad(of_squares(lax_conv), (0, 1)), *args),
        "kernex": kernex_gradient(weighted_sum, lambda conv: conv, *args, **CONV),
    }
    result = weighted_slices(around(host), weights)[0]
    seen = np.lib.stride_tricks.sliding_window_view(around(host), result.shape, (1, 2))
    for_weights = np.einsum("cabyx,yx->cab", seen, 2 * result, optimize=True)
    back = [weighted_slices(around(2 * result), w[::-1, ::-1]) for w in weights]
    moved = 4 * host.nbytes
    return Case(
        ways, (np.stack(back), for_weights), {"stencilx, forward": np.sum(result**2)}, tolerance=1e-4, moved=moved
    )


def chain(size: Size) -> Case:
    """k = 1 .. 6 times the same stencil; its transpose is itself, so the gradient of the squares is a chain of 2 k."""
    *shape, longest = size
    host = normal(*shape)
    u = jnp.asarray(host)
    stencil = sx.kmap(lambda u: five_points(u) / 8, padding="same")
    ways: dict[str, Maker] = {}
    powers = [host]
    for _ in range(2 * longest):
        powers.append(laplacian_of(powers[-1]) / 8)
    others = {}
    for k in range(1, longest + 1):
        chained = repeated(stencil, k)
        ways[f"stencilx, k = {k}"] = jitted(chained, u)
        ways[f"stencilx, gradient, k = {k}"] = jitted(jax.grad(of_squares(chained)), u)
        others |= {f"stencilx, k = {k}": powers[k], f"stencilx, gradient, k = {k}": 2 * powers[2 * k]}
    return Case(ways, host, others, moved=2 * host.nbytes)


def repeated(stencil: Callable[[Any], Any], count: int) -> Callable[[Any], Any]:
    def chained(u: Any) -> Any:
        for _ in range(count):
            u = stencil(u)
        return u

    return chained


ROWS: tuple[Row, ...] = (
    Row(
        "heat-gradient",
        "gradient of {2} heat steps, {0} x {1}",
        (1024, 1024, 50),
        (48, 70, 6),
        heat_gradient,
        (Target("stencilx, forward", 3.0),),
    ),
    Row(
        "conv-gradient",
        "gradient of the convolution's squares, for input and weights, {} x {} x {}",
        (3, 1024, 1024),
        (3, 48, 70),
        conv_gradient,
        (Target("stencilx, forward", 6.0),),
    ),
    Row(
        "chain",
        "chain of k = 1 .. {2} Laplacians, and its gradient, {0} x {1}",
        (2048, 2048, LONGEST),
        (48, 70, 2),
        chain,
        tuple(
            Target(f"stencilx, {kind}k = 1", LONGEST, f"stencilx, {kind}k = {LONGEST}") for kind in ("", "gradient, ")
        ),
    ),
)
