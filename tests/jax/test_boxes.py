"""Reductions of whole windows axis by axis: the numbers and gradients of reducing each window, NaN where it belongs."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stencilx_jax import trace
from stencilx_jax.boxes import factors

import stencilx as sx
from stencilx.boundary import Dirichlet

KINDS: dict[str, Any] = {"max": jnp.max, "min": jnp.min, "sum": jnp.sum, "mean": jnp.mean}
SIZES = [(4, 5), (1, 17), (13, 14)]


def field(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def both_ways(monkeypatch: pytest.MonkeyPatch, make: Any, *arguments: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same stencil by passes, and with each window reduced as it is."""
    by_passes = np.asarray(make()(*arguments))
    with monkeypatch.context() as changed:
        changed.setattr(trace, "WORTH_IT", 10_000)
        return by_passes, np.asarray(make()(*arguments))


@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    "boundary", [0, "wrap", {0: ("reflect", 1.5), 1: (Dirichlet(0.5), -1.0)}, {0: 1.0, 1: -2.0}], ids=str
)
def test_values(monkeypatch, kind, size, boundary):
    x = field(19, 23)

    def make() -> Any:
        return sx.kmap(KINDS[kind], kernel_size=size, padding="same", boundary=boundary)

    got, expected = both_ways(monkeypatch, make, x)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize(
    "options",
    [
        {"strides": (2, 3)},
        {"dilation": (1, 2)},
        {"strides": 2, "dilation": (3, 1), "padding": (4, (0, 7)), "boundary": "symmetric"},
        {"padding": ((-2, 3), 1)},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [(5, 4), (2, 13)], ids=str)
def test_strides_and_dilation(monkeypatch, kind, options, size):
    x = field(21, 34)
    got, expected = both_ways(monkeypatch, lambda: sx.kmap(KINDS[kind], kernel_size=size, **options), x)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


def test_one_axis_and_three(monkeypatch):
    for shape, size in [((60,), 20), ((7, 8, 9), (3, 2, 4))]:
        x = field(*shape)
        got, expected = both_ways(monkeypatch, lambda size=size: sx.kmap(jnp.max, kernel_size=size, padding="same"), x)
        np.testing.assert_array_equal(got, expected)


def test_regions_and_masks_as_keys(monkeypatch):
    x = field(9, 11)

    def make() -> Any:
        F = sx.kmap(kernel_size=5, padding="same", boundary="edge")
        F[...] = jnp.max
        F[1:4, ::2] = lambda w: jnp.sum(w) - w[2, 2]
        F[np.asarray(x) > 0.5] = jnp.min
        return F

    got, expected = both_ways(monkeypatch, make, x)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


def test_several_reductions_and_reads_in_one_kernel(monkeypatch):
    x, w = field(9, 11), np.outer([1.0, -2.0, 0.5, 3.0, 1.5], [0.5, 1.0, 2.0, -1.0, 0.25])
    dense = np.random.default_rng(3).normal(size=(5, 5))

    def make() -> Any:
        def kernel(u: Any) -> Any:
            return {"range": jnp.max(u) - jnp.min(u), "rest": jnp.sum(u * w) + jnp.sum(dense * u) * u[0, 4]}

        stencil = sx.kmap(kernel, kernel_size=5, padding="same", boundary=-1.5)
        return lambda x: jnp.stack(list(stencil(x).values()))

    got, expected = both_ways(monkeypatch, make, x)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float32])
def test_dtypes(monkeypatch, dtype):
    x = (np.abs(np.asarray(field(9, 11))) * 50).astype(dtype)
    for kind in KINDS:
        got, expected = both_ways(monkeypatch, lambda kind=kind: sx.kmap(KINDS[kind], kernel_size=4, padding="same"), x)
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        assert got.dtype == expected.dtype


def test_nan_and_infinity_stay_in_their_windows():
    x = np.zeros((9, 30))
    x[4, 5], x[2, 20] = np.nan, np.inf
    total = np.asarray(sx.kmap(jnp.sum, kernel_size=(3, 16), padding="same")(x))
    rows, columns = np.nonzero(np.isnan(total))
    assert {*rows} == {3, 4, 5}
    assert {*columns} == set(range(13))
    # one cell sees both
    assert (np.isinf(total).sum(axis=1) == [0, 16, 16, 15, 0, 0, 0, 0, 0]).all()


# Gradients


def test_gradients_of_the_largest_are_shared_at_ties():
    """As `jnp.max` of each window shares them, though the passes meet ties one axis at a time."""
    x = jnp.asarray(np.random.default_rng(1).integers(0, 3, (7, 8)).astype(float))

    def total(x: Any, take: Any) -> Any:
        return (take(x) * jnp.arange(56.0).reshape(7, 8)).sum()

    def by_windows(x: Any) -> Any:
        p = jnp.pad(x, 2, constant_values=-jnp.inf)
        patches = jnp.stack([p[i : i + 7, j : j + 8] for i, j in itertools.product(range(5), repeat=2)])
        return patches.max(axis=0)

    stencil = sx.kmap(jnp.max, kernel_size=5, padding="same", boundary=-np.inf)
    got, expected = (jax.grad(lambda x, f=f: total(x, f))(x) for f in (stencil, by_windows))
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("size", [3, 5])
def test_no_nan_leaks_through_the_gradient_of_a_largest(size):
    """Whose window holds a NaN and whose result is not used gives no gradient to anybody."""
    x = field(7, 9).at[2, 3].set(jnp.nan)
    stencil = sx.kmap(jnp.max, kernel_size=size, padding="same", boundary=-np.inf)
    gradient = jax.grad(lambda x: jnp.where(jnp.isnan(stencil(x)), 0.0, stencil(x)).sum())(x)
    assert np.isfinite(gradient).all()
    assert gradient[2, 3] == 0
    assert gradient.sum() == np.isfinite(stencil(x)).sum()


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize("boundary", [0.25, "wrap"])
def test_gradients_are_finite_differences(kind, boundary):
    x, move = field(8, 21), field(8, 21, seed=4)
    stencil = sx.kmap(KINDS[kind], kernel_size=(3, 14), padding="same", boundary=boundary)

    def total(x: Any) -> Any:
        return (stencil(x) ** 2).sum()

    slope = (total(x + 1e-6 * move) - total(x - 1e-6 * move)) / 2e-6
    np.testing.assert_allclose((jax.grad(total)(x) * move).sum(), slope, rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(total, (x,), (move,))[1], slope, rtol=1e-6)


def test_under_vmap_and_jit(monkeypatch):
    batch = field(3, 9, 11)
    stencil = sx.kmap(jnp.max, kernel_size=4, padding="same", boundary="edge")
    got = jax.jit(jax.vmap(stencil))(batch)
    np.testing.assert_array_equal(got, jnp.stack([stencil(x) for x in batch]))


# What is recognised


def passes(stencil: Any, x: Any) -> bool:
    """Whether the jaxpr has a pass of its own for an axis."""
    return "_pass" in str(jax.make_jaxpr(stencil)(x))


def test_weights_that_are_an_outer_product_are_seen():
    x, u, v = field(20, 20), np.arange(1.0, 8.0), np.array([0.5, -1.0, 2.0, 0.25, 3.0])
    assert passes(sx.kmap(lambda w: jnp.sum(w * np.outer(u, v)), kernel_size=(7, 5)), x)
    nearly = np.outer(u, v)
    nearly[3, 2] += 1e-9
    assert not passes(sx.kmap(lambda w: jnp.sum(w * nearly), kernel_size=(7, 5)), x)


def test_weights_that_are_parameters_are_taken_as_they_come():
    x = field(20, 20)
    stencil = sx.kmap(lambda w, k: jnp.sum(w * k), kernel_size=(7, 5))
    assert not passes(lambda x: stencil(x, jnp.ones((7, 5))), x)


def test_small_windows_are_reduced_as_they_are():
    assert passes(sx.kmap(jnp.max, kernel_size=4), field(20, 20))
    assert not passes(sx.kmap(jnp.max, kernel_size=3), field(20, 20))


def test_factors_of_weights():
    u, v, t = np.array([1.0, -2.0, 0.0]), np.array([0.5, 3.0]), np.array([2.0, 1.0, -1.0, 4.0])
    weights = np.multiply.outer(np.multiply.outer(u, v), t)
    found = factors(weights)
    assert found is not None
    np.testing.assert_allclose(np.multiply.outer(np.multiply.outer(*found[:2]), found[2]), weights, rtol=1e-14)
    assert factors(np.eye(3)) is None
    assert factors(np.zeros((3, 3))) is None
    assert factors(np.full((3, 3), np.nan)) is None
    assert factors(np.ones((3, 3), int)) is None
