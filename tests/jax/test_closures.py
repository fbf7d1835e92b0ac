"""Kernels that take arrays from outside: traced ones (a weight being trained), concrete ones, numbers that change."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from seed_way import Function, slopes

import stencilx as sx

X = jnp.asarray(np.random.default_rng(7).normal(0.4, 1.0, (3, 5)))
W = jnp.array([0.5, -1.0, 2.0])


@pytest.fixture(params=[False, True], ids=["", "checking leaks"])
def leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test as it stands, and again where JAX looks for tracers that outlive their trace."""
    with jax.checking_leaks() if request.param else contextlib.nullcontext():
        yield


def correlated(x: Any, w: Any) -> np.ndarray:
    """Each row correlated with three weights: the answer to most tests here."""
    x, w = np.asarray(x), np.asarray(w)
    return np.array([[sum(w[k] * row[j + k] for k in range(3)) for j in range(len(row) - 2)] for row in x])


def expected_loss(w: Any) -> float:
    return float(np.sum(np.sin(correlated(X, w))))


def inner_loss(w: Any) -> Any:
    """Defines stencil and kernel inside the function that is differentiated."""
    stencil = sx.kmap(lambda u: u[0, -1] * w[0] + u[0, 0] * w[1] + u[0, 1] * w[2])
    return jnp.sin(stencil(X)).sum()


def window_loss(w: Any) -> Any:
    @sx.kmap(kernel_size=(1, 3))
    def stencil(u: Any) -> Any:
        return u[0] @ w

    return jnp.sin(stencil(X)).sum()


weights: Any = W


@sx.kmap(kernel_size=(1, 3))
def by_global(u: Any) -> Any:
    return jnp.sum(u[0] * weights)


def global_loss(w: Any) -> Any:
    """A stencil of the module whose kernel reads a global, which is a tracer for a while."""
    global weights
    before, weights = weights, w
    try:
        return jnp.sin(by_global(X)).sum()
    finally:
        weights = before


def made() -> tuple[Function, Function]:
    current: Any = W

    def put(w: Any) -> None:
        nonlocal current
        current = w

    return sx.kmap(lambda u: u[0, -1] * current[0] + u[0, 0] * current[1] + u[0, 1] * current[2]), put


by_nonlocal, put = made()


def nonlocal_loss(w: Any) -> Any:
    put(w)
    try:
        return jnp.sin(by_nonlocal(X)).sum()
    finally:
        put(W)


LOSSES = [inner_loss, window_loss, global_loss, nonlocal_loss]


@pytest.mark.parametrize("loss", LOSSES)
def test_no_trace_leaves_a_tracer_behind(loss: Function) -> None:
    with jax.checking_leaks():
        gradient = jax.jit(jax.grad(loss))(W)
        np.testing.assert_allclose(gradient, jax.vmap(jax.grad(loss))(W[None])[0])
    np.testing.assert_allclose(gradient, slopes(expected_loss, W), atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_being_trained(loss: Function) -> None:
    slope = slopes(expected_loss, W)
    np.testing.assert_allclose(loss(W), expected_loss(W))
    np.testing.assert_allclose(jax.grad(loss)(W), slope, atol=1e-8)
    value, gradient = jax.jit(jax.value_and_grad(loss))(W)
    np.testing.assert_allclose(value, expected_loss(W))
    np.testing.assert_allclose(gradient, slope, atol=1e-8)
    batch = jnp.stack([W, 2 * W, W**2])
    np.testing.assert_allclose(jax.vmap(loss)(batch), [expected_loss(w) for w in batch])
    np.testing.assert_allclose(jax.vmap(jax.grad(loss))(batch), [slopes(expected_loss, w) for w in batch], atol=1e-8)
    np.testing.assert_allclose(loss(W), expected_loss(W))  # eager again: nothing of a trace is left


@pytest.mark.parametrize("loss", LOSSES)
def test_eager_calls_between_and_after_traced_ones(loss: Function) -> None:
    jax.grad(loss)(W)
    np.testing.assert_allclose(loss(3 * W), expected_loss(3 * W))
    jax.jit(loss)(W)
    np.testing.assert_allclose(loss(W), expected_loss(W))
    tangent = jnp.array([1.0, 0.5, -2.0])
    expected = (expected_loss(W + 1e-6 * tangent) - expected_loss(W - 1e-6 * tangent)) / 2e-6
    np.testing.assert_allclose(jax.jvp(loss, (W,), (tangent,))[1], expected, atol=1e-8)
    np.testing.assert_allclose(loss(2 * W), expected_loss(2 * W))


@pytest.mark.usefixtures("leaks")
def test_training_with_a_closed_over_weight() -> None:
    target = correlated(X, [1.0, 2.0, -3.0])

    def misfit(w: Any) -> Any:
        stencil = sx.kmap(lambda u: jnp.dot(u[0, -1:2], w))
        return jnp.mean((stencil(X) - target) ** 2)

    @jax.jit
    def step(w: Any, _: Any) -> tuple[Any, None]:
        return w - jnp.linalg.solve(jax.hessian(misfit)(w), jax.grad(misfit)(w)), None

    np.testing.assert_allclose(jax.lax.scan(step, W, length=2)[0], [1.0, 2.0, -3.0])


def test_second_derivatives_for_a_closed_over_weight() -> None:
    found = jax.jit(jax.hessian(inner_loss))(W)
    gradient = jax.jit(jax.grad(inner_loss))
    expected = np.stack([slopes(lambda w, k=k: gradient(w)[k], W) for k in range(3)])
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.usefixtures("leaks")
def test_field_and_weight_are_traced_together() -> None:
    def loss(x: Any, w: Any) -> Any:
        return jnp.sin(sx.kmap(lambda u: u[0] @ w, kernel_size=(1, 3))(x)).sum()

    for_x, for_w = jax.grad(loss, argnums=(0, 1))(X, W)
    np.testing.assert_allclose(for_x, slopes(lambda x: np.sin(correlated(x, W)).sum(), X), atol=1e-8)
    np.testing.assert_allclose(for_w, slopes(expected_loss, W), atol=1e-8)
    batch = jnp.stack([X, -X])
    found = jax.vmap(loss, in_axes=(0, None))(batch, W)
    np.testing.assert_allclose(found, [np.sin(correlated(x, W)).sum() for x in batch])


def test_a_large_window_over_a_traced_array() -> None:
    field = jnp.sin(jnp.arange(41.0 * 42)).reshape(41, 42)
    plate = jnp.cos(jnp.arange(1600.0)).reshape(40, 40)

    def loss(w: Any) -> Any:
        return sx.kmap(lambda u: jnp.sum(u * w), kernel_size=(40, 40))(field)[1, 2]

    np.testing.assert_allclose(loss(plate), np.sum(field[1:, 2:] * plate))
    np.testing.assert_allclose(jax.grad(loss)(plate), field[1:, 2:])
    np.testing.assert_allclose(loss(plate + 1), np.sum(field[1:, 2:] * (plate + 1)))


def test_a_traced_index_picks_from_the_window() -> None:
    @jax.jit
    def nth(x: Any, n: Any) -> Any:
        return sx.kmap(lambda u: u[0, n] ** 2, kernel_size=(1, 3))(x)

    for n in range(3):
        np.testing.assert_allclose(nth(X, n), np.asarray(X)[:, n : n + 3] ** 2)


@pytest.mark.usefixtures("leaks")
def test_only_the_shape_of_a_traced_value_is_used() -> None:
    size: Any = W
    stencil = sx.kmap(lambda u: u[0, 0] * size.shape[0] + u[0, 1])

    def loss(w: Any) -> Any:
        nonlocal size
        size = w
        try:
            return stencil(X).sum() + w.sum()
        finally:
            size = W

    np.testing.assert_array_equal(jax.grad(loss)(W), [1.0, 1.0, 1.0])
    np.testing.assert_allclose(stencil(X), 3 * X[:, :-1] + X[:, 1:])


# Values of regions


@pytest.mark.usefixtures("leaks")
def test_region_values_may_be_traced() -> None:
    def walled(x: Any, wall: Any, corner: Any) -> Any:
        mesh = sx.kmap(padding="same", boundary="edge")
        mesh[...] = lambda u: u[0, 0] * u[0, 1]
        mesh[0] = wall
        mesh[2, 0] = corner
        return mesh(x)

    def in_numpy(x: Any, wall: Any, corner: Any) -> np.ndarray:
        x = np.asarray(x)
        out = x * np.concatenate([x[:, 1:], x[:, -1:]], axis=1)
        out[0] = wall
        out[2, 0] = corner
        return out

    wall, corner = jnp.arange(1.0, 6.0), 0.3
    np.testing.assert_allclose(jax.jit(walled)(X, wall, corner), in_numpy(X, wall, corner))
    found = jax.grad(lambda *a: jnp.sin(walled(*a)).sum(), argnums=(0, 1, 2))(X, wall, corner)
    for place, gradient in enumerate(found):

        def moved(value: Any, place: int = place) -> float:
            arguments = [X, wall, corner]
            arguments[place] = value
            return np.sin(in_numpy(*arguments)).sum()

        np.testing.assert_allclose(gradient, slopes(moved, (X, wall, corner)[place]), atol=1e-8)
    batch = jax.vmap(walled, in_axes=(None, 0, None))(X, jnp.stack([wall, -wall]), corner)
    np.testing.assert_allclose(batch, np.stack([in_numpy(X, w, corner) for w in (wall, -wall)]))


def test_a_traced_array_in_a_mask_and_in_strides() -> None:
    mask = np.array([[1, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 1]], bool)

    def total(values: Any, odd: Any) -> Any:
        mesh = sx.smap(lambda u: 2 * u[0, 0])
        mesh[1, 1::2] = odd
        mesh[mask] = values
        return jnp.sum(mesh(X) * jnp.arange(15.0).reshape(3, 5) ** 2)

    squares = np.arange(15.0).reshape(3, 5) ** 2
    values, odd = jnp.arange(1.0, 6.0), jnp.array([7.0, 8.0])
    expected = np.array(2 * X)
    expected[1, 1::2] = odd
    expected[mask] = values
    np.testing.assert_allclose(total(values, odd), np.sum(expected * squares))
    for_values, for_odd = jax.jit(jax.grad(total, argnums=(0, 1)))(values, odd)
    np.testing.assert_allclose(for_values, squares[mask])
    np.testing.assert_allclose(for_odd, squares[1, 1::2])


def test_a_region_reassigned_in_every_step() -> None:
    mesh = sx.kmap(lambda u: u[0] * 1.0)

    def total(wall: Any) -> Any:
        mesh[0] = wall
        return jnp.sum(mesh(X[0]) ** 2)

    rest = float(np.sum(np.asarray(X)[0, 1:] ** 2))
    for wall in (2.0, 3.0):
        value, slope = jax.value_and_grad(total)(wall)
        np.testing.assert_allclose([value, slope], [wall**2 + rest, 2 * wall])
    mesh[0] = 5.0
    np.testing.assert_allclose(mesh(X[0]), [5.0, *np.asarray(X)[0, 1:]])


# Concrete arrays and numbers: the new one counts


gain = 2.0
table = jnp.array([1.0, 2.0, 3.0])


@sx.kmap
def amplified(u: Any) -> Any:
    return gain * u[0]


def amplify(v: Any) -> Any:
    return gain * v + table[1]


by_helper = sx.kmap(lambda u: amplify(u[0]))


def test_a_global_number_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([1.0, -2.0])
    compiled = jax.jit(lambda x: amplified(x))
    for value in (2.0, 3.0, 3, np.float64(-1.5), 2.0):
        monkeypatch.setitem(globals(), "gain", value)
        np.testing.assert_array_equal(amplified(x), value * x)
    np.testing.assert_array_equal(compiled(x), 2.0 * x)


def test_a_global_number_and_array_behind_a_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([1.0, -2.0])
    for value, array in ((2.0, table), (4.0, table), (4.0, -table)):
        monkeypatch.setitem(globals(), "gain", value)
        monkeypatch.setitem(globals(), "table", array)
        np.testing.assert_array_equal(by_helper(x), value * x + float(array[1]))


def test_a_nonlocal_number_that_changes() -> None:
    dt = 0.5

    @sx.smap
    def step(u: Any) -> Any:
        return u[0] + dt

    x = np.array([1.0, -2.0])
    np.testing.assert_array_equal(step(x), x + 0.5)
    dt = -4.0
    np.testing.assert_array_equal(step(x), x - 4.0)
    dt = 0.5
    np.testing.assert_array_equal(step(x), x + 0.5)


def test_zero_and_minus_zero_are_different_numbers() -> None:
    zero = 0.0
    stencil = sx.kmap(lambda u: jnp.copysign(u[0], zero))
    np.testing.assert_array_equal(stencil(np.array([3.0])), [3.0])
    zero = -0.0
    np.testing.assert_array_equal(stencil(np.array([3.0])), [-3.0])


def test_defaults_and_keyword_defaults() -> None:
    def kernel(u: Any, a: Any = 2.0, *, b: Any = 10.0) -> Any:
        return a * u[0] + b

    stencil = sx.kmap(kernel)
    x = np.array([1.0, -2.0])
    np.testing.assert_array_equal(stencil(x), 2 * x + 10)
    np.testing.assert_array_equal(stencil(x, 3.0), 3 * x + 10)
    np.testing.assert_array_equal(stencil(x, b=1.0), 2 * x + 1)
    np.testing.assert_array_equal(stencil(x, b=jnp.asarray(4.0), a=-1.0), -x + 4)
    kernel.__defaults__ = (5.0,)
    np.testing.assert_array_equal(stencil(x), 5 * x + 10)


@pytest.mark.parametrize(
    "array", [np.array([1.0, -2.0, 0.5]), jnp.array([1.0, -2.0, 0.5]), [1.0, -2.0, 0.5]], ids=["numpy", "jax", "list"]
)
def test_concrete_arrays_of_every_kind(array: Any) -> None:
    stencil = sx.kmap(lambda u: jnp.dot(u[0], jnp.asarray(array)), kernel_size=(1, 3))
    np.testing.assert_allclose(stencil(X), correlated(X, array))
    np.testing.assert_allclose(jax.jit(stencil)(X), correlated(X, array))


def test_concrete_index_arrays_from_outside() -> None:
    order = jnp.array([2, 0, 1])
    stencil = sx.kmap(lambda u: u[0, order] * jnp.array([1.0, 10.0, 100.0]), kernel_size=(1, 3))
    x = np.asarray(X)
    np.testing.assert_allclose(stencil(X)[1, 2], [x[1, 4], 10 * x[1, 2], 100 * x[1, 3]])
    assert "gather" not in str(jax.make_jaxpr(stencil)(X))


def test_partials() -> None:
    def kernel(w: Any, u: Any, scale: Any) -> Any:
        return scale * (u[0] @ w)

    stencil = sx.kmap(functools.partial(kernel, W, scale=2.0), kernel_size=(1, 3))
    np.testing.assert_allclose(stencil(X), 2 * correlated(X, W))

    def loss(w: Any) -> Any:
        return jnp.sin(sx.kmap(functools.partial(kernel, w, scale=1.0), kernel_size=(1, 3))(X)).sum()

    np.testing.assert_allclose(jax.grad(loss)(W), slopes(expected_loss, W), atol=1e-8)


class Filter:
    def __init__(self, w: Any) -> None:
        self.w = w

    def bound(self, u: Any, scale: Any) -> Any:
        return scale * (u[0] @ self.w)

    def __call__(self, u: Any) -> Any:
        return self.bound(u, 1.0)


def test_bound_methods_and_callable_objects() -> None:
    np.testing.assert_allclose(sx.kmap(Filter(W).bound, kernel_size=(1, 3))(X, 3.0), 3 * correlated(X, W))
    np.testing.assert_allclose(sx.kmap(Filter(W), kernel_size=(1, 3))(X), correlated(X, W))

    def loss(w: Any) -> Any:
        return jnp.sin(sx.kmap(Filter(w), kernel_size=(1, 3))(X)).sum()

    np.testing.assert_allclose(jax.jit(jax.grad(loss))(W), slopes(expected_loss, W), atol=1e-8)


def test_a_callable_object_whose_weight_is_replaced_by_a_traced_one() -> None:
    model = Filter(W)
    stencil = sx.kmap(model, kernel_size=(1, 3))
    np.testing.assert_allclose(stencil(X), correlated(X, W))

    def loss(w: Any) -> Any:
        model.w = w
        try:
            return jnp.sin(stencil(X)).sum()
        finally:
            model.w = W

    np.testing.assert_allclose(jax.grad(loss)(W), slopes(expected_loss, W), atol=1e-8)
    np.testing.assert_allclose(stencil(X), correlated(X, W))


def test_a_stencil_is_shared_by_losses_with_different_weights() -> None:
    """Two traced weights in one stencil at once: each trace keeps its own."""

    def outer(w: Any) -> Any:
        def inner(v: Any) -> Any:
            return global_loss(v) * global_loss(w)

        return jax.grad(inner)(w).sum()

    slope = slopes(expected_loss, W)
    np.testing.assert_allclose(outer(W), slope.sum() * expected_loss(W), atol=1e-7)

    def expected(w: Any) -> float:
        return float(slopes(expected_loss, w, 1e-4).sum() * expected_loss(w))

    np.testing.assert_allclose(jax.grad(outer)(W), slopes(expected, W, 1e-4), rtol=1e-4, atol=1e-4)
