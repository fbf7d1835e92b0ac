"""Geometry on JAX against the seed's way: large windows, strides, dilation, padding, walls, masks; with gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seed_way import Function, assert_same, bent, by_patches, quickly, slopes

import stencilx as sx

X = jnp.asarray(np.random.default_rng(9).normal(0.3, 1.0, (5, 8)))
BIG = jnp.asarray(np.random.default_rng(10).normal(0.1, 1.0, (42, 43)))
MODES = {"wrap": "wrap", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}


def compare(mine: Function, seed: Function, x: Any, *rest: Any) -> None:
    """Values, and gradients for the field and all parameters."""

    def with_gradients(function: Function, *arguments: Any) -> Any:
        places = tuple(range(len(arguments)))
        return function(*arguments), jax.grad(lambda *a: bent(function(*a)), argnums=places)(*arguments)

    assert_same(*quickly(lambda *a: (with_gradients(mine, *a), with_gradients(seed, *a)))(x, *rest), rtol=1e-8)


# Large windows: more cells than are taken apart


@pytest.mark.parametrize("mode", ["constant", "wrap", "reflect"])
def test_large_windows(mode: str) -> None:
    def kernel(w: Any, k: Any) -> Any:
        return jnp.tanh(jnp.sum(w * k) / 40) * w[3, -1] + jnp.max(w)

    weights = jnp.sin(jnp.arange(1600.0)).reshape(40, 40)
    padding = ((1, 0), (2, 3))
    rule, outside = (mode, {}) if mode != "constant" else (0.7, {"constant_values": 0.7})
    mine = sx.kmap(kernel, kernel_size=(40, 40), padding=padding, boundary=rule)
    compare(mine, by_patches(kernel, (40, 40), padding=padding, mode=mode, **outside), BIG, weights)


def test_large_windows_with_strides_and_dilation() -> None:
    def kernel(w: Any) -> Any:
        return jnp.median(w) + jnp.sum(jnp.sin(w)) / 100 * w[0, 1]

    options: dict[str, Any] = {"strides": (3, 2), "dilation": (1, 2)}
    mine = sx.kmap(kernel, kernel_size=(33, 32), padding=((0, 1), (30, 0)), boundary="symmetric", **options)
    seed = by_patches(kernel, (33, 32), padding=((0, 1), (30, 0)), mode="symmetric", **options)
    compare(mine, seed, BIG)


def test_the_whole_axis() -> None:
    def normed(w: Any) -> Any:
        return w / jnp.sqrt(jnp.sum(w**2))

    compare(sx.kmap(normed, kernel_size=(1, -1)), by_patches(normed, (1, 8)), X)
    compare(sx.kmap(normed, kernel_size=-1), by_patches(normed, (5, 8)), X)
    compare(sx.kmap(jnp.prod, kernel_size=(-1, 2)), by_patches(jnp.prod, (5, 2)), X)
    large = sx.kmap(lambda w: jnp.sum(w**2), kernel_size=-1)
    np.testing.assert_allclose(large(BIG), [[np.sum(np.asarray(BIG) ** 2)]])
    np.testing.assert_allclose(jax.grad(lambda x: large(x)[0, 0])(BIG), 2 * BIG)


def test_large_windows_in_regions_and_at_points() -> None:
    mesh = sx.kmap(kernel_size=(40, 30))
    mesh[...] = lambda w: jnp.sum(w[::7, ::5])
    mesh[0, 2:5] = lambda w: w[0, 0] * w[-1, -1]
    mask = np.zeros((3, 14), bool)
    mask[[1, 2, 2], [3, 0, 13]] = True
    mesh[mask] = lambda w: w[1, 2] ** 2
    mesh[2, 1] = 4.0

    def loop(x: Any) -> np.ndarray:
        x = np.asarray(x)
        out = np.empty((3, 14))
        for i, j in np.ndindex(3, 14):
            w = x[i : i + 40, j : j + 30]
            out[i, j] = w[1, 2] ** 2 if mask[i, j] else w[::7, ::5].sum()
        out[0, 2:5] = [x[0, j] * x[39, j + 29] for j in range(2, 5)]
        out[2, 1] = 4.0
        return out

    np.testing.assert_allclose(mesh(BIG), loop(BIG))
    found = jax.grad(lambda x: jnp.sum(jnp.sin(mesh(x))))(BIG)
    for place in [(0, 2), (1, 5), (2, 4), (39, 33), (41, 0), (20, 20)]:
        moved = [np.asarray(BIG.at[place].add(s * 1e-6)) for s in (1, -1)]
        slope = (np.sin(loop(moved[0])).sum() - np.sin(loop(moved[1])).sum()) / 2e-6
        np.testing.assert_allclose(found[place], slope, atol=1e-6)


def test_two_large_fields() -> None:
    stencil = sx.kmap(
        lambda u, h: jnp.sum(u * h[:40]),
        fields=2,
        kernel_size={"u": (40, 41), "h": (41, 41)},
        padding={"u": "valid", "h": ((1, 0), (0, 0))},
    )
    u, h = np.asarray(BIG), np.cos(np.asarray(BIG))
    above = np.concatenate([np.zeros((1, 43)), h])
    expected = [[np.sum(u[i : i + 40, j : j + 41] * above[i : i + 40, j : j + 41]) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(stencil(BIG, jnp.cos(BIG)), expected)


# Strides, dilation, padding, walls


def uneven(w: Any) -> Any:
    """Reads every cell of any window, each with a weight of its own."""
    k = jnp.arange(1.0, w.size + 1).reshape(w.shape)
    return jnp.sum(jnp.sin(w) * k) + w[0, 0] * w[-1, -1]


GEOMETRY: dict[str, dict[str, Any]] = {
    "strides": {"size": (2, 3), "strides": (2, 3)},
    "strides and padding": {"size": (2, 2), "strides": (3, 2), "padding": ((2, 1), (0, 3))},
    "dilation": {"size": (2, 3), "dilation": (3, 2)},
    "all at once": {"size": (2, 2), "strides": 2, "dilation": (1, 3), "padding": ((1, 0), (2, 2))},
    "even windows": {"size": (4, 2), "padding": ((1, 2), (0, 1))},
    "wide padding": {"size": (2, 1), "padding": ((4, 3), (1, 0))},
}


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "constant") for name in GEOMETRY),
        ("strides and padding", "wrap"),
        ("strides and padding", "reflect"),
        ("all at once", "edge"),
        ("all at once", "symmetric"),
        ("even windows", "reflect"),
        ("wide padding", "wrap"),
        ("wide padding", "symmetric"),
    ],
)
def test_geometry(name: str, mode: str) -> None:
    options = dict(GEOMETRY[name])
    size, padding = options.pop("size"), options.pop("padding", ((0, 0), (0, 0)))
    rule, outside = (mode, {}) if mode != "constant" else (-1.3, {"constant_values": -1.3})
    mine = sx.kmap(uneven, kernel_size=size, padding=padding, boundary=rule, **options)
    compare(mine, by_patches(uneven, size, padding=padding, mode=mode, **outside, **options), X)


@pytest.mark.parametrize(
    ("written", "pairs"),
    [
        ("valid", ((0, 0), (0, 0))),
        ("same", ((0, 1), (1, 1))),
        (1, ((1, 1), (1, 1))),
        ((0, 2), ((0, 0), (2, 2))),
        (("same", (3, 0)), ((0, 1), (3, 0))),
        (((1, 2), "valid"), ((1, 2), (0, 0))),
        ((np.int64(2), (np.int32(0), 1)), ((2, 2), (0, 1))),
    ],
    ids=str,
)
def test_forms_of_padding(written: Any, pairs: Any) -> None:
    mine = sx.kmap(uneven, kernel_size=(2, 3), padding=written, boundary="edge")
    assert_same(mine(X), by_patches(uneven, (2, 3), padding=pairs, mode="edge")(X), rtol=1e-9)


def test_negative_padding_keeps_windows_inside() -> None:
    mine = sx.kmap(uneven, kernel_size=2, padding=((-1, 0), (-2, -1)))
    assert_same(mine(X), by_patches(uneven, (2, 2))(X[1:, 2:-1]), rtol=1e-9)
    found = jax.grad(lambda x: mine(x).sum())(X)
    np.testing.assert_array_equal(found[0], np.zeros(8))
    np.testing.assert_array_equal(found[:, 7], np.zeros(5))


@pytest.mark.parametrize("mode", MODES)
def test_ghosts_deeper_than_the_array(mode: str) -> None:
    x = X[:3, :2]
    mine = sx.kmap(uneven, kernel_size=(2, 2), padding=((5, 7), (4, 5)), boundary=mode)
    compare(mine, by_patches(uneven, (2, 2), padding=((5, 7), (4, 5)), mode=mode), x)


def test_another_rule_on_each_side() -> None:
    """Axes are extended in order, axis 0 first, each on what is there already."""
    sides = {0: ("reflect", 2.5), 1: (-1.5, "wrap")}
    mine = sx.kmap(uneven, kernel_size=3, padding=((2, 1), (1, 2)), boundary=sides)

    def seed(x: Any) -> Any:
        x = jnp.concatenate([x[2:0:-1], x, jnp.full((1, x.shape[1]), 2.5)])
        x = jnp.concatenate([jnp.full((x.shape[0], 1), -1.5), x, x[:, :2]], axis=1)
        return by_patches(uneven, (3, 3))(x)

    compare(mine, seed, X)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.data())
def test_any_geometry_reads_the_right_cells(data: st.DataObject) -> None:
    """Index arithmetic alone: windows of whole numbers, eagerly, against padded copies in NumPy."""
    size, strides, dilation = (data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))) for _ in range(3))
    padding = data.draw(st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 2))
    mode = data.draw(st.sampled_from(["constant", *MODES]))
    shape = [max(data.draw(st.integers(2, 4)), (k - 1) * d + 1 - sum(p)) for k, d, p in zip(size, dilation, padding)]
    x = np.arange(np.prod(shape)).reshape(shape)
    outside = {"constant_values": -9} if mode == "constant" else {}
    padded = np.pad(x, padding, mode=mode, **outside)
    extent = [(k - 1) * d + 1 for k, d in zip(size, dilation)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent)
    expected = windows[:: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]
    rule = -9 if mode == "constant" else mode
    mine = sx.kmap(lambda w: w, kernel_size=size, strides=strides, dilation=dilation, padding=padding, boundary=rule)
    np.testing.assert_array_equal(mine(x), expected)


def test_empty_results_and_single_cells() -> None:
    stencil = sx.kmap(lambda w: jnp.sum(w), kernel_size=(1, 2), padding="same")
    empty = stencil(jnp.zeros((0, 4)))
    assert (empty.shape, empty.dtype) == ((0, 4), jnp.float64)
    assert jax.grad(lambda x: stencil(x).sum())(jnp.zeros((0, 4))).shape == (0, 4)
    np.testing.assert_array_equal(stencil(jnp.array([[3.0]])), [[3.0]])


# Regions


def meshed(x: Any, mask: np.ndarray) -> Any:
    mesh = sx.kmap(kernel_size=3, padding="same", boundary={0: "wrap", 1: 0.5}, relative=True)
    mesh[...] = lambda u: u[0, 0] * u[1, -1] + jnp.sin(u[-1, 1])
    mesh[1, ::3] = lambda u: u[0, 1] ** 2
    mesh[mask] = lambda u: u[-1, 0] * u[0, 1] * u[1, 1]
    mesh[[0, 3], 2] = lambda u: jnp.exp(u[0, 0])
    mesh[-1, -2:] = jnp.array([2.0, 3.0])
    return mesh(x)


def looped(x: Any, mask: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    padded = np.pad(np.pad(x, ((1, 1), (0, 0)), mode="wrap"), ((0, 0), (1, 1)), constant_values=0.5)
    out = np.empty(x.shape)
    for i, j in np.ndindex(*x.shape):

        def u(di: int, dj: int, i: int = i, j: int = j) -> float:
            return padded[i + 1 + di, j + 1 + dj]

        out[i, j] = u(0, 0) * u(1, -1) + np.sin(u(-1, 1))
        if i == 1 and j % 3 == 0:
            out[i, j] = u(0, 1) ** 2
        if mask[i, j]:
            out[i, j] = u(-1, 0) * u(0, 1) * u(1, 1)
        if i in (0, 3) and j == 2:
            out[i, j] = np.exp(u(0, 0))
    out[-1, -2:] = [2.0, 3.0]
    return out


def test_masks_lists_strides_and_arrays_in_one_mesh() -> None:
    mask = np.zeros((5, 8), bool)
    mask[[0, 1, 2, 4, 4], [1, 3, 2, 0, 7]] = True
    np.testing.assert_allclose(meshed(X, mask), looped(X, mask))
    found = quickly(jax.grad(lambda x: jnp.sum(jnp.cos(meshed(x, mask)))))(X)
    np.testing.assert_allclose(found, slopes(lambda x: np.sum(np.cos(looped(x, mask))), X), atol=1e-7)


def test_masks_in_a_copy_with_a_margin() -> None:
    mask = np.random.default_rng(11).random((5, 8)) < 0.4
    mesh = sx.smap(offset=((1, 0), (2, 1)))
    mesh[mask] = lambda u: u[0, 0] * u[-1, -2] * u[0, 1]

    def loop(x: Any) -> np.ndarray:
        x = np.asarray(x)
        out = x.copy()
        for i, j in np.ndindex(5, 8):
            if mask[i, j] and i >= 1 and 2 <= j < 7:
                out[i, j] = x[i, j] * x[i - 1, j - 2] * x[i, j + 1]
        return out

    np.testing.assert_allclose(mesh(X), loop(X))
    found = jax.grad(lambda x: jnp.sum(mesh(x) ** 2))(X)
    np.testing.assert_allclose(found, slopes(lambda x: np.sum(loop(x) ** 2), X), atol=1e-6)


def test_masks_under_vmap_and_second_derivatives() -> None:
    mask = np.array([True, False, True, True, False])
    mesh = sx.kmap(lambda u: u[0] * u[1], padding=((0, 1),), boundary="wrap")
    mesh[np.flatnonzero(mask)] = lambda u: u[0] ** 3

    def loop(x: Any) -> np.ndarray:
        x = np.asarray(x)
        return np.where(mask, x**3, x * np.roll(x, -1))

    batch = X[:3, :5]
    np.testing.assert_allclose(jax.vmap(mesh)(batch), [loop(x) for x in batch])
    hessian = jax.hessian(lambda x: mesh(x).sum())(batch[0])
    expected = np.diag(6 * np.asarray(batch[0]) * mask)
    for i in np.flatnonzero(~mask):
        expected[i, (i + 1) % 5] += 1
        expected[(i + 1) % 5, i] += 1
    np.testing.assert_allclose(hessian, expected, atol=1e-12)
