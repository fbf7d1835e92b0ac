"""Masks under JAX's transformations: clean gradients, one trace for many masks, batches, the text of the jaxpr."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stencilx as sx
from stencilx.boundary import Dirichlet, Neumann, Reflect, Robin

WET = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 1], [1, 1, 1, 0, 1]], bool)


def rubbish(wet: np.ndarray = WET, value: float = np.nan) -> jax.Array:
    """A field with NaN, or something else, where no cells are."""
    x = np.random.default_rng(2).uniform(0.5, 2.0, wet.shape)
    return jnp.asarray(np.where(wet, x, value))


def check_gradient(function: Any, x: jax.Array, wet: np.ndarray) -> None:
    """In cells that exist the central difference, 0 in the others."""
    function = jax.jit(function)
    gradient = np.asarray(jax.jit(jax.grad(function))(x))
    assert (gradient[~wet] == 0).all()
    for cell in zip(*np.nonzero(wet)):
        ahead, behind = (function(x.at[cell].add(s)) for s in (1e-6, -1e-6))
        np.testing.assert_allclose(gradient[cell], (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)


def kernel(u: Any) -> Any:
    """Not linear, positive, and not finite where a cell is 0."""
    return 0.3 * (u[0, 1] / (u[0, 0] + u[1, 0]) + jnp.sqrt(u[0, -1]) / u[-1, 1] ** 0.25)


@pytest.mark.parametrize(
    "rule", ["edge", "symmetric", Reflect(), 1.5, Dirichlet(3.0), Robin(1.0, 2.0, 3.0, 0.5)], ids=str
)
@pytest.mark.parametrize("make", [sx.kmap, sx.kscan])
def test_gradients_are_clean_of_what_lies_under_the_mask(make, rule):
    stencil = make(kernel, padding="same", boundary=rule, mask=WET)
    check_gradient(lambda x: (jnp.where(WET, stencil(x), 0.0) ** 2).sum(), rubbish(), WET)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
def test_no_result_depends_on_what_lies_under_the_mask(value):
    stencil = sx.kmap(kernel, padding="same", boundary="edge", mask=WET)
    np.testing.assert_array_equal(stencil(rubbish(value=value)), stencil(rubbish()))


def test_gradient_for_values_of_walls():
    wall = sx.kmap(
        lambda u, v: u[0, 1] * u[-1, 0],
        padding="same",
        boundary={1: Dirichlet(lambda v: v**2), "mask": Neumann(lambda v: jnp.sin(v), 0.5)},
        mask=WET,
    )

    def total(v: Any) -> Any:
        return (wall(rubbish(), v) ** 2).sum()

    slope = (total(0.7 + 1e-6) - total(0.7 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(total)(0.7), slope, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(total))(0.7), slope, rtol=1e-6)


def test_one_trace_serves_many_masks():
    traces = []

    @sx.kmap(padding="same", boundary="edge", mask="wet")
    def slope(u, wet):
        traces.append(1)
        return u[0, 1] - u[0, -1]

    x = jnp.arange(15.0).reshape(3, 5)
    masks = [WET, ~WET, np.ones((3, 5), bool)]
    results = [np.asarray(slope(x, wet)) for wet in masks]
    assert len(traces) == 1
    for wet, result in zip(masks, results, strict=True):
        expected = slope.with_backend("numpy")(np.asarray(x), wet)
        np.testing.assert_array_equal(result, expected)
    together = jax.vmap(slope, in_axes=(None, 0))(x, jnp.asarray(np.stack(masks)))
    np.testing.assert_array_equal(together, np.stack(results))
    np.testing.assert_array_equal(jax.jit(slope)(x, jnp.asarray(WET)), results[0])


def test_a_mask_that_is_traced_may_be_closed_over():
    @jax.jit
    def outer(x, wet):
        return sx.kmap(lambda u: u[1, 0] + u[0, 0], padding="same", boundary="edge", mask=wet > 0)(x)

    x = rubbish()
    expected = sx.kmap(lambda u: u[1, 0] + u[0, 0], padding="same", boundary="edge", mask=WET)(x)
    np.testing.assert_array_equal(outer(x, jnp.asarray(WET, jnp.int32)), expected)


def test_no_gather_and_no_padded_copy():
    wet = np.random.default_rng(0).random((300, 200)) < 0.8
    stencil = sx.kmap(
        lambda u: u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0], padding="same", boundary="edge", mask=wet
    )
    text = str(jax.make_jaxpr(stencil)(jnp.ones((300, 200))))
    assert "gather" not in text
    assert "302" not in text
    assert "202" not in text
