"""JAX's transformations of stencils, against loops in NumPy, finite differences and closed forms, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.test_util import check_grads
from seed_way import Function, by_loop, slopes

import stencilx as sx

X = jnp.asarray(np.random.default_rng(6).normal(0.1, 1.0, (3, 5)))
FIELDS = jnp.stack([X, 2 - X, X**2])
GAINS = jnp.array([0.5, -1.0, 2.0])


@sx.kmap
def bend(u: Any, k: Any) -> Any:
    """Asymmetric and nonlinear: reads up, left, and two to the right."""
    return k * u[-1, 0] * u[0, 2] - jnp.sin(u[0, -1]) + k**2 * u[0, 0]


def looped(x: Any, k: Any) -> np.ndarray:
    def cell(read: Function, k: Any) -> Any:
        return k * read(-1, 0) * read(0, 2) - np.sin(read(0, -1)) + k**2 * read(0, 0)

    return by_loop(cell, (-1, -1), (0, 2))(x, k)


def loss(x: Any, k: Any = 0.7) -> Any:
    return jnp.sum(jnp.cos(bend(x, k)) * jnp.array([[1.0, 2.0], [-0.5, 3.0]]))


def looped_loss(x: Any, k: Any = 0.7) -> Any:
    return np.sum(np.cos(looped(x, k)) * np.array([[1.0, 2.0], [-0.5, 3.0]]))


def test_jit() -> None:
    np.testing.assert_allclose(jax.jit(bend)(X, 0.7), looped(X, 0.7))
    np.testing.assert_allclose(jax.jit(bend, static_argnums=1)(X, 0.7), looped(X, 0.7))
    np.testing.assert_allclose(jax.jit(lambda x: bend(2 * x, 0.7) + 1)(X), looped(2 * X, 0.7) + 1)


def test_grad_and_value_and_grad() -> None:
    expected = slopes(looped_loss, X)
    np.testing.assert_allclose(jax.grad(loss)(X), expected, atol=1e-8)
    value, gradient = jax.jit(jax.value_and_grad(loss))(X)
    np.testing.assert_allclose(value, looped_loss(X))
    np.testing.assert_allclose(gradient, expected, atol=1e-8)


def test_grad_for_a_parameter() -> None:
    expected = (looped_loss(X, 0.7 + 1e-6) - looped_loss(X, 0.7 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(loss, argnums=1)(X, 0.7), expected, rtol=1e-7)


def test_jvp_and_linearize() -> None:
    tangent = jnp.sin(5 * X)
    expected = (looped(X + 1e-6 * tangent, 0.7) - looped(X - 1e-6 * tangent, 0.7)) / 2e-6
    value, along = jax.jvp(lambda x: bend(x, 0.7), (X,), (tangent,))
    np.testing.assert_allclose(value, looped(X, 0.7))
    np.testing.assert_allclose(along, expected, atol=1e-8)
    value, linear = jax.linearize(lambda x: bend(x, 0.7), X)
    np.testing.assert_allclose(value, looped(X, 0.7))
    np.testing.assert_allclose(linear(tangent), expected, atol=1e-8)
    np.testing.assert_allclose(linear(3 * tangent), 3 * expected, atol=1e-8)


def test_vjp_and_linear_transpose() -> None:
    cotangent = jnp.array([[1.0, -2.0], [0.5, 3.0]])
    _, pull = jax.vjp(lambda x: bend(x, 0.7), X)
    expected = slopes(lambda x: np.sum(looped(x, 0.7) * np.asarray(cotangent)), X)
    np.testing.assert_allclose(pull(cotangent)[0], expected, atol=1e-8)
    linear = sx.kmap(lambda u: 2 * u[1, 0] - u[0, 1])
    (transposed,) = jax.linear_transpose(linear, X)(jnp.ones((2, 4)))
    np.testing.assert_allclose(transposed, slopes(lambda x: float(linear(x).sum()), X), atol=1e-8)


def test_jacobians() -> None:
    expected = np.stack([slopes(lambda x, c=cell: looped(x, 0.7)[c], X) for cell in np.ndindex(2, 2)])
    for jacobian in (jax.jacfwd, jax.jacrev):
        found = jacobian(lambda x: bend(x, 0.7))(X)
        assert found.shape == (2, 2, 3, 5)
        np.testing.assert_allclose(found.reshape(4, 3, 5), expected, atol=1e-8)


def test_hessian_of_pair_products_is_tridiagonal() -> None:
    pairs = sx.kmap(lambda u: u[0] * u[1])
    expected = np.eye(5, k=1) + np.eye(5, k=-1)
    np.testing.assert_allclose(jax.hessian(lambda x: pairs(x).sum())(X[0]), expected, atol=1e-12)


def test_hessian_is_the_slope_of_the_gradient() -> None:
    found = jax.jit(jax.hessian(loss))(X)
    gradient = jax.jit(jax.grad(loss))
    expected = np.stack([slopes(lambda x, c=cell: gradient(x)[c], X) for cell in np.ndindex(3, 5)])
    np.testing.assert_allclose(found.reshape(15, 3, 5), expected, atol=1e-7)


def test_vmap_over_fields_parameters_and_both() -> None:
    over_fields = jax.vmap(bend, in_axes=(0, None))(FIELDS, 0.7)
    np.testing.assert_allclose(over_fields, np.stack([looped(x, 0.7) for x in FIELDS]))
    over_gains = jax.vmap(bend, in_axes=(None, 0))(X, GAINS)
    np.testing.assert_allclose(over_gains, np.stack([looped(X, k) for k in np.asarray(GAINS)]))
    over_both = jax.jit(jax.vmap(bend))(FIELDS, GAINS)
    np.testing.assert_allclose(over_both, np.stack([looped(x, k) for x, k in zip(FIELDS, np.asarray(GAINS))]))
    last = jax.vmap(bend, in_axes=(2, None), out_axes=1)(jnp.moveaxis(FIELDS, 0, 2), 0.7)
    np.testing.assert_allclose(last, np.stack([looped(x, 0.7) for x in FIELDS], axis=1))


def test_vmap_of_vmap_and_of_grad() -> None:
    twice = jax.vmap(jax.vmap(bend, in_axes=(None, 0)), in_axes=(0, None))(FIELDS, GAINS)
    expected = np.stack([np.stack([looped(x, k) for k in np.asarray(GAINS)]) for x in FIELDS])
    np.testing.assert_allclose(twice, expected)
    gradients = jax.vmap(jax.grad(loss))(FIELDS, GAINS)
    expected = np.stack([slopes(lambda x, k=k: looped_loss(x, k), x) for x, k in zip(FIELDS, np.asarray(GAINS))])
    np.testing.assert_allclose(gradients, expected, atol=1e-8)


def test_grad_of_vmap() -> None:
    found = jax.grad(lambda xs: jnp.sum(jax.vmap(bend, in_axes=(0, None))(xs, 0.7) ** 2))(FIELDS)
    expected = np.stack([slopes(lambda x: np.sum(looped(x, 0.7) ** 2), x) for x in FIELDS])
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_checkpoint_around_a_stencil() -> None:
    np.testing.assert_allclose(jax.grad(jax.checkpoint(loss))(X), slopes(looped_loss, X), atol=1e-8)


# Time loops: explicit diffusion with a source and walls, where steps and gradients are checked against a NumPy loop.


@sx.smap(offset=1)
def heat(u: Any, r: Any) -> Any:
    return u[0, 0] + r * (u[1, 0] + u[-1, 0] + u[0, 1] + 2 * u[0, -1] - 5 * u[0, 0]) + 0.1 * u[0, 0] ** 2


def heat_loop(x: Any, r: Any, steps: int) -> np.ndarray:
    u = np.array(x)
    for _ in range(steps):
        old = u.copy()
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = old[i + 1, j] + old[i - 1, j] + old[i, j + 1] + 2 * old[i, j - 1] - 5 * old[i, j]
                u[i, j] = old[i, j] + r * around + 0.1 * old[i, j] ** 2
    return u


def by_scan(x: Any, r: Any) -> Any:
    return lax.scan(lambda u, _: (heat(u, r), None), x, length=4)[0]


def by_fori(x: Any, r: Any) -> Any:
    return lax.fori_loop(0, 4, lambda _, u: heat(u, r), x)


def by_while(x: Any, r: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, heat(s[1], r)), (0, x))[1]


def by_python(x: Any, r: Any) -> Any:
    for _ in range(4):
        x = heat(x, r)
    return x


@pytest.mark.parametrize("march", [by_scan, by_fori, by_while, by_python])
def test_loops(march: Function) -> None:
    np.testing.assert_allclose(jax.jit(march)(X, 0.1), heat_loop(X, 0.1, 4))
    tangent = jnp.cos(X)
    expected = (heat_loop(X + 1e-6 * tangent, 0.1, 4) - heat_loop(X - 1e-6 * tangent, 0.1, 4)) / 2e-6
    np.testing.assert_allclose(jax.jvp(lambda x: march(x, 0.1), (X,), (tangent,))[1], expected, atol=1e-8)


@pytest.mark.parametrize("march", [by_scan, by_fori, by_python])
def test_gradients_through_loops(march: Function) -> None:
    for_field, for_rate = jax.jit(jax.grad(lambda x, r: jnp.sum(march(x, r) ** 3), argnums=(0, 1)))(X, 0.1)
    np.testing.assert_allclose(for_field, slopes(lambda x: np.sum(heat_loop(x, 0.1, 4) ** 3), X), atol=1e-6)
    np.testing.assert_allclose(for_rate, slopes(lambda r: np.sum(heat_loop(X, r, 4) ** 3), 0.1), rtol=1e-6)


def test_a_loop_that_keeps_every_step_and_checkpoints_it() -> None:
    @jax.checkpoint
    def step(u: Any, rate: Any) -> tuple[Any, Any]:
        u = heat(u, rate)
        return u, u.sum()

    rates = jnp.array([0.1, 0.05, 0.2])
    sums = lax.scan(step, X, rates)[1]
    u, expected = np.asarray(X), []
    for rate in np.asarray(rates):
        u = heat_loop(u, rate, 1)
        expected.append(u.sum())
    np.testing.assert_allclose(sums, expected)
    gradient = jax.grad(lambda rates: jnp.prod(lax.scan(step, X, rates)[1]))(rates)

    def product(rates: Any) -> Any:
        u, total = np.asarray(X), 1.0
        for rate in np.asarray(rates):
            u = heat_loop(u, rate, 1)
            total *= u.sum()
        return total

    np.testing.assert_allclose(gradient, slopes(product, rates), rtol=1e-6)


# check_grads: first and second order, forwards and backwards, for the geometry and the walls


def mesh() -> sx.Stencil:
    made = sx.kmap(kernel_size=3, padding="same", relative=True)
    made[...] = lambda u: u[0, 0] ** 3 * u[0, 1] - u[-1, 0]
    made[0, 1:] = lambda u: jnp.exp(u[1, -1] / 2)
    made[::2, 0] = lambda u: u[0, 1] * u[0, 0]
    made[1, [0, 3]] = lambda u: jnp.sin(u[...]).sum()
    return made


def cubic(w: Any) -> Any:
    return jnp.sum(w[0] * w[-1] ** 2) + w[-1, 0] ** 3


STENCILS: dict[str, Function] = {
    "walls": sx.kmap(cubic, kernel_size=(2, 3), padding="same", boundary={0: ("edge", 0.5), 1: "wrap"}),
    "mirrors": sx.kmap(cubic, kernel_size=(2, 3), padding=((1, 0), (0, 3)), boundary={0: "symmetric", 1: "reflect"}),
    "strided": sx.kmap(cubic, kernel_size=2, strides=(1, 2), padding=((0, 0), (1, 1)), boundary=0.7),
    "dilated": sx.kmap(cubic, kernel_size=2, dilation=(1, 3)),
    "smap": sx.smap(lambda w: jnp.sum(w**3), kernel_size=(1, 3), offset=((0, 1), 1)),
    "regions": mesh(),
}


@pytest.mark.parametrize("name", STENCILS)
def test_check_grads(name: str) -> None:
    stencil = jax.jit(STENCILS[name])
    check_grads(stencil, (X,), order=2, modes=("fwd", "rev"), eps=1e-4)


def test_check_grads_of_two_fields_and_parameters() -> None:
    stencil = sx.kmap(
        lambda u, h, p: p["a"] * u[0, 0] * h[0, 1] - jnp.sin(p["b"][1] * u[0, 1]),
        fields=2,
        kernel_size={"u": (1, 2), "h": (1, 3)},
        padding={"u": ((0, 0), (0, 1)), "h": "same"},
        boundary={"u": "edge", "h": 0.7},
        relative=True,
    )
    params = {"a": jnp.asarray(0.8), "b": jnp.array([1.0, 2.0])}
    check_grads(jax.jit(stencil), (X, jnp.cos(X), params), order=2, modes=("fwd", "rev"), eps=1e-4)


def test_newton_on_a_custom_loss() -> None:
    """Uses gradient and Hessian together: finds the field whose pair products are those given."""
    pairs = sx.kmap(lambda u: u[0] * u[1], padding=((0, 1),), boundary=1.0)
    target = jnp.array([6.0, 8.0, 20.0, 5.0])

    def misfit(x: Any) -> Any:
        return jnp.sum((pairs(x) - target) ** 2)

    x = jnp.array([2.9, 2.1, 3.9, 5.1])
    for _ in range(8):
        x = x - jnp.linalg.solve(jax.hessian(misfit)(x), jax.grad(misfit)(x))
    np.testing.assert_allclose(x, [3.0, 2.0, 4.0, 5.0], rtol=1e-6)


def test_results_of_several_shapes_under_transforms() -> None:
    stencil = sx.kmap(lambda w: {"sum": w.sum(), "sorted": (jnp.sort(w), 2.0)}, kernel_size=3)

    def shapes(tree: Any) -> Sequence[tuple[int, ...]]:
        return [leaf.shape for leaf in jax.tree.leaves(tree)]

    batch = jax.vmap(stencil)(X)
    assert shapes(batch) == [(3, 3, 3), (3, 3), (3, 3)] or shapes(batch) == [(3, 3), (3, 3, 3), (3, 3)]
    for row, x in enumerate(np.asarray(X)):
        np.testing.assert_allclose(batch["sum"][row], [x[i : i + 3].sum() for i in range(3)])
        np.testing.assert_allclose(batch["sorted"][0][row], [np.sort(x[i : i + 3]) for i in range(3)])
    jacobian = jax.jacrev(lambda x: stencil(x)["sum"])(X[0])
    np.testing.assert_array_equal(jacobian, [[1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]])
