"""Public bug reports about stencil code as small inputs, on JAX: H, I, J, S and T of the list of cases."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from seed_way import slopes

import stencilx as sx


def test_inf_and_nan_stay_where_they_are() -> None:
    """Case H (jax 4459, scipy 7818): patches and running means without 0 * inf."""
    patches = sx.kmap(lambda w: w, kernel_size=2)(np.array([1.0, np.inf, 2.0, 3.0]))
    np.testing.assert_array_equal(patches, [[1, np.inf], [np.inf, 2], [2, 3]])
    mean = sx.kmap(jnp.mean, kernel_size=3, padding="same", boundary="edge")
    result = np.asarray(mean(np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0, 7.0, 8.0])))
    np.testing.assert_array_equal(np.isnan(result), [False, True, True, True, False, False, False, False])
    np.testing.assert_allclose(result[[0, 4, 5, 6, 7]], [4 / 3, 5, 6, 7, 23 / 3])


def test_inf_in_a_weighted_sum_stays_in_its_windows() -> None:
    x = jnp.array([[1.0, 2.0, 3.0, 4.0, 5.0], [0.0, jnp.inf, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    out = sx.kmap(lambda w, k: jnp.sum(w * k), kernel_size=(1, 2))(x, jnp.array([[1.0, 2.0]]))
    np.testing.assert_array_equal(out, [[5, 8, 11, 14], [np.inf, np.inf, 5, 8], [3, 3, 3, 3]])


def test_any_reducer_has_a_gradient() -> None:
    """Case I (jax 7815): the gradient of the pair products of [1, 2, 3]."""
    x = jnp.array([1.0, 2.0, 3.0])
    for pairs in (sx.kmap(jnp.prod, kernel_size=2), sx.kmap(lambda u: u[0] * u[1])):
        np.testing.assert_array_equal(jax.grad(lambda x, f=pairs: f(x).sum())(x), [2, 4, 2])
        np.testing.assert_array_equal(jax.jit(jax.grad(lambda x, f=pairs: f(x).sum()))(x), [2, 4, 2])


CASE_J = jnp.array([0.0, 1.0, 4.0])


def test_a_kernel_never_runs_where_it_does_not_own_the_cells() -> None:
    """Case J (jax 5798, jax-gcm 558): sqrt on cells 1.., a constant in cell 0."""
    mesh = sx.kmap(kernel_size=1)
    mesh[1:] = lambda w: jnp.sqrt(w[0])
    mesh[0] = 3.0
    np.testing.assert_array_equal(mesh(CASE_J), [3, 1, 2])
    np.testing.assert_array_equal(jax.grad(lambda x: mesh(x).sum())(CASE_J), [0, 0.5, 0.25])
    np.testing.assert_array_equal(jax.jacfwd(mesh)(CASE_J), np.diag([0, 0.5, 0.25]))
    np.testing.assert_array_equal(jax.hessian(lambda x: mesh(x).sum())(CASE_J), np.diag([0, -0.25, -1 / 32]))


def test_the_same_in_a_copy() -> None:
    mesh = sx.smap(lambda u: u[0] * 1.0)
    mesh[1:] = lambda u: jnp.sqrt(u[0])
    np.testing.assert_array_equal(jax.grad(lambda x: mesh(x).sum())(CASE_J), [1, 0.5, 0.25])


def test_the_same_on_a_strided_region() -> None:
    x = jnp.array([0.0, 1.0, 0.0, 4.0, 0.0, 16.0])
    mesh = sx.kmap(lambda u: 5.0)
    mesh[1::2] = lambda u: jnp.sqrt(u[0])
    np.testing.assert_array_equal(mesh(x), [5, 1, 5, 2, 5, 4])
    np.testing.assert_array_equal(jax.grad(lambda x: mesh(x).sum())(x), [0, 0.5, 0, 0.25, 0, 0.125])


def test_the_same_on_a_mask() -> None:
    x = jnp.array([[0.0, 1.0, 4.0, 0.0, 0.0], [16.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 4.0, 16.0, 0.0]])
    mesh = sx.kmap(lambda u: u[0, 0] * 0.0 + 2.0)
    mesh[np.asarray(x) > 0] = lambda u: jnp.sqrt(u[0, 0])
    np.testing.assert_array_equal(mesh(x), [[2, 1, 2, 2, 2], [4, 2, 2, 2, 1], [2, 2, 2, 4, 2]])
    slope = [[0, 0.5, 0.25, 0, 0], [0.125, 0, 0, 0, 0.5], [0, 0, 0.25, 0.125, 0]]
    np.testing.assert_array_equal(jax.grad(lambda x: mesh(x).sum())(x), slope)
    np.testing.assert_array_equal(jax.jvp(mesh, (x,), (jnp.ones_like(x),))[1], slope)


def test_the_same_in_a_margin_and_beside_strides() -> None:
    x = jnp.array([0.0, 4.0, 1.0, 16.0, 0.0])
    inner = sx.smap(lambda u: jnp.sqrt(u[0]) + u[1] - u[-1], offset=1)
    np.testing.assert_array_equal(jax.grad(lambda x: inner(x)[1:4].sum())(x), [-1, -0.75, 0.5, 1.125, 1])
    even = sx.kmap(lambda u: 1 / u[0], strides=2, padding=-1)
    np.testing.assert_array_equal(jax.grad(lambda x: even(x).sum())(x), [0, -1 / 16, 0, -1 / 256, 0])


def test_ghosts_that_divide_by_zero_harm_no_gradient() -> None:
    """A kernel that is singular at the value outside gives inf there, and no NaN elsewhere."""
    x = jnp.array([1.0, 4.0])
    ratio = sx.kmap(lambda u: u[0] / u[1], padding=((0, 1),), boundary=2.0)
    np.testing.assert_array_equal(ratio(x), [0.25, 2])
    np.testing.assert_array_equal(jax.grad(lambda x: ratio(x).sum())(x), [0.25, 0.5 - 1 / 16])


def test_single_precision_offsets_from_closures_one_trace() -> None:
    """Case S (numba 3521, 4696, 6706, 6901)."""
    c, calls = 2, []

    @sx.kmap(kernel_size=3, relative=True)
    def middle(a: Any) -> Any:
        calls.append(1)
        return 0.5 * (a[-c + 1] + a[c - 1])

    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0], np.float32)
    for factor in (1, 3):
        result = middle(factor * x)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, factor * np.array([2.5, 5, 10]))
    assert len(calls) == 1
    c = 1
    np.testing.assert_array_equal(middle(x), [2, 4, 8])
    assert len(calls) == 2


def test_numpy_integers_wherever_an_int_is() -> None:
    one, two, three = np.int64(1), np.uint8(2), np.int32(3)
    x = np.arange(1.0, 7.0)
    stencil = sx.kmap(
        lambda u: u[-one] + u[np.int16(1)], kernel_size=three, strides=two, padding=((one, one),), relative=True
    )
    np.testing.assert_array_equal(stencil(x), [2, 6, 10])
    mesh = sx.smap(lambda u: u[np.int8(0)], offset=one)
    mesh[two] = -1.0
    mesh[one : three + 2 : two] = 9.0
    np.testing.assert_array_equal(mesh(x), [1, 9, -1, 9, 5, 6])
    dilated = sx.kmap(jnp.sum, kernel_size=(np.int64(2),), dilation=(two,))
    np.testing.assert_array_equal(dilated(x), [4, 6, 8, 10])


def test_vectors_and_several_values() -> None:
    """Case T (scipy 5137): a dict, and the magnitudes of a Fourier transform, of each window of 3."""
    x = jnp.arange(5.0)
    both = sx.kmap(lambda w: {"lo": w.min(), "hi": w.max()}, kernel_size=3)(x)
    np.testing.assert_array_equal(both["lo"], [0, 1, 2])
    np.testing.assert_array_equal(both["hi"], [2, 3, 4])
    fourier = sx.kmap(lambda w: jnp.abs(jnp.fft.rfft(w)), kernel_size=3)
    windows = [np.arange(i, i + 3.0) for i in range(3)]
    np.testing.assert_allclose(fourier(x), [np.abs(np.fft.rfft(w)) for w in windows])
    expected = slopes(lambda x: np.abs(np.fft.rfft(x[0:3])).sum() + np.abs(np.fft.rfft(x[1:4])).sum(), x[:4])
    np.testing.assert_allclose(jax.grad(lambda x: fourier(x).sum())(x[:4]), expected, atol=1e-7)


def test_the_border_joins_the_dtype() -> None:
    """Case K (numba 3518, 7286, 3497), under jit as well."""
    stencil = sx.kmap(lambda a: a[0] - a[1], padding=((0, 1),), boundary=1.5)
    for call in (stencil, jax.jit(stencil)):
        result = call(jnp.array([4, 1, 3]))
        assert jnp.issubdtype(result.dtype, jnp.floating)
        np.testing.assert_array_equal(result, [3, -2, 1.5])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_whole_numbers_in_fractions_out(dtype: Any) -> None:
    """Case E: a mean of integers is not truncated, and maxima stay integers."""
    x = jnp.array([1, 2, 4, 8], dtype)
    np.testing.assert_array_equal(sx.kmap(jnp.mean, kernel_size=2)(x), [1.5, 3, 6])
    assert sx.kmap(jnp.max, kernel_size=2)(x).dtype == dtype
    half = sx.smap(lambda u: u[0] / 2, offset=1)(x)
    np.testing.assert_array_equal(half, [1, 1, 2, 8])
    assert jnp.issubdtype(half.dtype, jnp.floating)


def test_upwind_where_has_its_gradient() -> None:
    """Case W (jax-gcm 663): the branch not taken leaves no trace in the gradient."""
    x, c = jnp.array([1.0, 3.0, 2.0, 5.0]), jnp.array([1.0, -1.0, 2.0, -0.5])
    upwind = sx.kmap(lambda u, c: jnp.where(c[0] > 0, u[0] - u[-1], u[1] - u[0]) * c[0], fields=2, padding="same")
    np.testing.assert_array_equal(upwind(x, c), [1, 1, -2, 2.5])
    for_u, for_c = jax.grad(lambda u, c: upwind(u, c).sum(), argnums=(0, 1))(x, c)
    np.testing.assert_array_equal(for_u, [1, 1 - 2, -1 + 2, 0.5])
    np.testing.assert_array_equal(for_c, [1, -1, -1, -5])
