"""Whole windows as arrays: convolution and patches as in kernex's README, wide blurs, pooling, maximum filters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import stencilx as sx
from benchmarks.row import (
    Case,
    Row,
    Size,
    Target,
    calls,
    jitted,
    kernex,
    loops,
    normal,
    peer,
    times_as_fast,
    weighted_slices,
)


def weighted_sum(x: Any, w: Any) -> Any:
    return jnp.sum(x * w)


# The convolution of kernex's README: channels are summed


CONV: dict[str, Any] = {"kernel_size": (3, 3, 3), "padding": ("valid", "same", "same")}


def around(x: Any, half: int = 1) -> Any:
    """Zeros around the last two axes."""
    return (jnp if isinstance(x, jax.Array) else np).pad(x, [(0, 0)] * (x.ndim - 2) + [(half, half)] * 2)


def lax_conv(x: jax.Array, w: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x[None], w[None], (1, 1), "SAME")[0]


def conv(size: Size) -> Case:
    host, weights = normal(*size), normal(3, 3, 3, seed=1)
    x, w = jnp.asarray(host), jnp.asarray(weights)
    ways = {
        "stencilx": calls(sx.kmap(weighted_sum, **CONV), x, w),
        "jnp.pad and slices": jitted(lambda x, w: weighted_slices(around(x), w), x, w),
        "lax.conv": jitted(lax_conv, x, w),
        "kernex": kernex("kmap", weighted_sum, x, w, **CONV),
        "numba loops": loops("conv", host, weights),
    }
    moved = host.nbytes + host.nbytes // 3
    # numba's result has no axis for the one window that fits over the channels
    expected = weighted_slices(around(host), weights)
    return Case(ways, expected, {"numba loops": expected[0]}, moved=moved)


def patches(size: Size) -> Case:
    (n,) = size
    host = normal(n)
    x = jnp.asarray(host)

    def of_lax(x: jax.Array) -> jax.Array:
        return lax.conv_general_dilated_patches(x[None, None], (3,), (1,), "VALID")[0].T

    ways = {
        "stencilx": calls(sx.kmap(lambda x: x, kernel_size=3), x),
        "jnp.stack of slices": jitted(lambda x: jnp.stack([x[:-2], x[1:-1], x[2:]], -1), x),
        "lax.conv_general_dilated_patches": jitted(of_lax, x),
        "kernex": kernex("kmap", lambda x: x, x, kernel_size=(3,)),
        "numba loops": loops("patches", host),
    }
    expected = np.lib.stride_tricks.sliding_window_view(host, 3)
    return Case(ways, expected, moved=host.nbytes + expected.nbytes)


# Blurs, zeros outside


def blur(size: Size) -> Case:
    """Weights of full rank."""
    *shape, width = size
    host, weights = normal(*shape), abs(normal(width, width, seed=1))
    x, w = jnp.asarray(host), jnp.asarray(weights)
    ways = {
        "stencilx": calls(sx.kmap(weighted_sum, kernel_size=width, padding="same"), x, w),
        "jnp.pad and slices": jitted(lambda x, w: weighted_slices(around(x, width // 2), w), x, w),
        "lax.conv": jitted(lambda x, w: lax_conv(x[None], w[None])[0], x, w),
        "kernex": kernex("kmap", weighted_sum, x, w, kernel_size=(width, width), padding="same"),
        "scipy.ndimage.correlate": peer("scipy.ndimage", "correlate", host, weights, mode="constant"),
        "numba loops": loops("conv", host[None], weights[None]),
    }
    expected = weighted_slices(around(host, width // 2), weights)
    return Case(ways, expected, moved=2 * host.nbytes)


def separable_blur(size: Size) -> Case:
    *shape, width = size
    host = normal(*shape)
    taps = np.exp(-(np.linspace(-2, 2, width) ** 2)).astype(np.float32)
    weights = np.outer(taps, taps)
    x, t = jnp.asarray(host), jnp.asarray(taps)
    known = sx.kmap(lambda window: jnp.sum(window * weights), kernel_size=width, padding="same")
    down = sx.kmap(weighted_sum, kernel_size=(width, 1), padding="same")
    across = sx.kmap(weighted_sum, kernel_size=(1, width), padding="same")
    ways = {
        "stencilx, two passes": jitted(lambda x, t: across(down(x, t[:, None]), t[None]), x, t),
        "stencilx, known weights": calls(known, x),
        "jnp slices, two passes": jitted(two_by_slices, x, t),
        "lax.conv, two passes": jitted(two_by_lax, x, t),
        "scipy, two passes": peer("benchmarks.peers.by_scipy", "two_passes", host, taps),
        "numba loops": loops("two_passes", host, taps),
    }
    expected = weighted_slices(around(host, width // 2), weights)
    return Case(ways, expected, moved=2 * host.nbytes)


def two_by_slices(x: jax.Array, t: jax.Array) -> jax.Array:
    p = around(x, t.size // 2)
    return weighted_slices(weighted_slices(p, t[:, None]), t[None])


def two_by_lax(x: jax.Array, t: jax.Array) -> jax.Array:
    return lax_conv(lax_conv(x[None], t[None, :, None]), t[None, None])[0]


# Maxima


def max_pool(size: Size) -> Case:
    host = normal(*size)
    x = jnp.asarray(host)
    window: dict[str, Any] = {"kernel_size": (1, 3, 3), "strides": (1, 2, 2)}

    def of_lax(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3), (1, 2, 2), "VALID")

    ways = {
        "stencilx": calls(sx.kmap(jnp.max, **window), x),
        "lax.reduce_window": jitted(of_lax, x),
        "kernex": kernex("kmap", jnp.max, x, **window),
        "numba loops": loops("max_pool", host),
    }
    expected = np.lib.stride_tricks.sliding_window_view(host, (3, 3), (1, 2))[:, ::2, ::2].max((-1, -2))
    return Case(ways, expected, moved=host.nbytes + expected.nbytes)


def max_filter(size: Size) -> Case:
    """Of positive numbers, so that zeros outside are as good as nothing."""
    host = abs(normal(*size))
    x = jnp.asarray(host)

    def of_lax(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -jnp.inf, lax.max, (5, 5), (1, 1), "SAME")

    ways = {
        "stencilx": calls(sx.kmap(jnp.max, kernel_size=5, padding="same"), x),
        "lax.reduce_window": jitted(of_lax, x),
        "scipy.ndimage.maximum_filter": peer("scipy.ndimage", "maximum_filter", host, 5, mode="constant"),
        "kernex": kernex("kmap", jnp.max, x, kernel_size=(5, 5), padding="same"),
        "numba loops": loops("max_filter", host),
    }
    expected = np.lib.stride_tricks.sliding_window_view(around(host, 2), (5, 5)).max((-1, -2))
    return Case(ways, expected, moved=2 * host.nbytes)


ROWS: tuple[Row, ...] = (
    Row(
        "conv",
        "convolution of kernex's README, {} x {} x {}, window 3 x 3 x 3",
        (3, 1024, 1024),
        (3, 48, 70),
        conv,
        (times_as_fast(30, "kernex"), times_as_fast(10, "lax.conv"), Target("numba loops", 3.0)),
    ),
    Row(
        "patches",
        "patches of kernex's README, {:,}, window 3",
        (1_000_000,),
        (5_000,),
        patches,
        (Target("kernex", 1.0), times_as_fast(8, "lax.conv_general_dilated_patches")),
    ),
    Row(
        "blur",
        "blur {2} x {2}, dense weights, {0} x {1}",
        (1024, 1024, 15),
        (48, 70, 9),
        blur,
        (Target("jnp.pad and slices", 1.0),),
    ),
    Row(
        "blur-separable",
        "blur {2} x {2}, weights of rank 1, {0} x {1}",
        (1024, 1024, 15),
        (48, 70, 9),
        separable_blur,
        (
            times_as_fast(5, "scipy, two passes", "stencilx, two passes"),
            times_as_fast(5, "scipy, two passes", "stencilx, known weights"),
        ),
    ),
    Row(
        "max-pool",
        "max pool 3 x 3, stride 2, {} x {} x {}",
        (16, 1024, 1024),
        (3, 31, 44),
        max_pool,
        (times_as_fast(2, "lax.reduce_window"), Target("numba loops", 1.5)),
    ),
    Row(
        "max-filter",
        "max filter 5 x 5, same, {} x {}",
        (2048, 2048),
        (48, 70),
        max_filter,
        (times_as_fast(2, "lax.reduce_window"), Target("numba loops", 1.0)),
    ),
)
