"""`stencil(x, out=buffer)`: the result takes the buffer's memory, and the buffer is given up."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stencilx as sx

X = jnp.array([[1.0, -2.0, 4.0, 0.5, 3.0], [2.0, 1.0, -1.0, 5.0, 0.0], [0.0, 6.0, 2.0, -3.0, 1.0]])
sums = sx.kmap(lambda u: u[0, 0] + 10 * u[1, 1])
SUMS = np.asarray(X)[:-1, :-1] + 10 * np.asarray(X)[1:, 1:]


def test_the_result_takes_the_memory_of_the_buffer() -> None:
    buffer = jnp.full((2, 4), 7.0)
    address = buffer.unsafe_buffer_pointer()
    result = sums(X, out=buffer)
    np.testing.assert_array_equal(result, SUMS)
    assert result.unsafe_buffer_pointer() == address
    assert buffer.is_deleted()
    assert not X.is_deleted()


def test_the_buffer_is_gone_afterwards() -> None:
    buffer = jnp.zeros((2, 4))
    sums(X, out=buffer)
    with pytest.raises(RuntimeError, match="deleted"):
        _ = buffer + 1


def test_two_buffers_in_turn() -> None:
    step = sx.smap(lambda u: 0.5 * (u[0, -1] + u[0, 1]), offset=((0, 0), (1, 1)))
    now, spare, expected = X, jnp.zeros_like(X), np.array(X)
    now = step(now)
    expected[:, 1:-1] = 0.5 * (expected[:, :-2] + expected[:, 2:])
    for _ in range(3):
        now, spare = step(now, out=spare), now
        expected[:, 1:-1] = 0.5 * (expected[:, :-2] + expected[:, 2:])
    np.testing.assert_allclose(now, expected)


def test_tracing_once_with_and_without_a_buffer() -> None:
    calls: list[int] = []

    @sx.kmap
    def kernel(u: Any) -> Any:
        calls.append(1)
        return u[0, 0] * 2.0

    kernel(X)
    kernel(X, out=jnp.zeros((3, 5)))
    kernel(2 * X, out=jnp.zeros((3, 5)))
    assert len(calls) == 1


def test_trees_of_buffers() -> None:
    stencil = sx.kmap(lambda w: {"hi": w.max(), "row": w[0]}, kernel_size=2)
    buffers = {"hi": jnp.zeros((2, 4)), "row": jnp.zeros((2, 4, 2))}
    result = stencil(X, out=buffers)
    x = np.asarray(X)
    np.testing.assert_array_equal(result["row"], np.stack([x[:-1, :-1], x[:-1, 1:]], axis=-1))
    np.testing.assert_array_equal(result["hi"][1, 1], 6.0)
    assert all(buffer.is_deleted() for buffer in buffers.values())


def test_under_jit_and_grad() -> None:
    np.testing.assert_array_equal(jax.jit(lambda x, b: sums(x, out=b))(X, jnp.zeros((2, 4))), SUMS)
    gradient = jax.grad(lambda x: jnp.sum(sums(x, out=jnp.zeros((2, 4)))))(X)
    expected = np.zeros((3, 5))
    expected[:-1, :-1] += 1
    expected[1:, 1:] += 10
    np.testing.assert_array_equal(gradient, expected)


def test_a_buffer_for_a_kernel_with_a_traced_weight() -> None:
    def loss(w: Any) -> Any:
        return sx.kmap(lambda u: w * u[0, 0] ** 2)(X, out=jnp.zeros((3, 5))).sum()

    np.testing.assert_allclose(jax.grad(loss)(2.0), np.sum(np.asarray(X) ** 2))


@pytest.mark.parametrize(
    ("buffer", "given"),
    [
        (jnp.zeros((2, 5)), "float64[2, 5]"),
        (jnp.zeros((4, 2)), "float64[4, 2]"),
        (jnp.zeros((2, 4), jnp.float32), "float32[2, 4]"),
        (jnp.zeros((2, 4), int), "int64[2, 4]"),
        (jnp.zeros(()), "float64[]"),
    ],
    ids=["shape", "transposed", "single", "int", "scalar"],
)
def test_wrong_shape_or_dtype(buffer: Any, given: str) -> None:
    message = f"out is {given}, but the result is float64[2, 4]."
    with pytest.raises(sx.FieldError, match=f"^{re.escape(message)}"):
        sums(X, out=buffer)
    np.testing.assert_array_equal(sums(X, out=jnp.zeros((2, 4))), SUMS)


def test_wrong_number_of_buffers() -> None:
    message = "out has the structure PyTreeDef((*, *)), but the result has PyTreeDef(*)."
    with pytest.raises(sx.FieldError, match=re.escape(message)):
        sums(X, out=(jnp.zeros((2, 4)), jnp.zeros((2, 4))))


def test_the_field_itself_as_the_buffer() -> None:
    field = jnp.array(X)
    shifted = sx.kmap(lambda u: u[0, 1] - u[0, 0], padding=((0, 0), (0, 1)))
    expected = np.concatenate([np.diff(np.asarray(X), axis=1), -np.asarray(X)[:, -1:]], axis=1)
    try:
        result = shifted(field, out=field)
    except sx.FieldError as error:
        assert "out" in str(error)
    else:
        np.testing.assert_array_equal(result, expected)


def test_a_numpy_buffer_is_left_alone_or_filled() -> None:
    buffer = np.zeros((2, 4))
    try:
        result = sums(X, out=buffer)
    except sx.StencilError as error:
        assert "out" in str(error)
    else:
        np.testing.assert_array_equal(buffer, result)
