"""The schedule "associative": recurrences that are affine in what they carry, composed in any grouping.

Values up to rounding: against loops in NumPy where they are short, else against the NumPy backend.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.test_util import check_grads
from stencilx_jax.jaxprs import walk

import stencilx as sx

RNG = np.random.default_rng(11)
X, C = RNG.normal(0.3, 1.0, (4, 6)), RNG.uniform(-0.9, 0.9, (4, 6))
LINE, GAINS = RNG.normal(0.3, 1.0, 13), RNG.uniform(-0.9, 0.9, 13)


def swept(stencil: Any, *arguments: Any) -> Any:
    """A stencil that runs as asked for, and gives what the NumPy backend gives."""
    assert stencil.schedule(*arguments) == "associative"
    got, expected = stencil(*arguments), stencil.with_backend("numpy")(*arguments)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    return got


def names(stencil: Any, *arguments: Any) -> set[str]:
    """The operations in a jaxpr."""
    return {eqn.primitive.name for eqn in walk(jax.make_jaxpr(stencil)(*arguments).jaxpr)}


def scan(kernel: Any = None, **options: Any) -> Any:
    place = {} if "offset" in options else {"padding": "same"}
    maker = sx.sscan if "offset" in options else sx.kscan
    return maker(kernel, schedule="associative", **place, **options)


# Values


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_a_line(n: int) -> None:
    x, a = LINE[:n], GAINS[:n]
    expected, last = [], 0.5
    for gain, value in zip(a, x, strict=True):
        last = gain * last + value
        expected.append(last)
    stencil = scan(lambda y, a: a[0] * y[-1] + y[0], fields=2, boundary=0.5)
    np.testing.assert_allclose(stencil(x, a), expected, rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "boundary", [0, {0: 0.5, 1: -1.5}, {0: "edge", 1: 0.0}, {0: ("wrap", "edge"), 1: "edge"}], ids=str
)
def test_a_plane_along_either_axis(boundary: Any, axis: int, reverse: bool) -> None:
    """What lies beside a cell and ahead of it is old, and read as it was."""
    if boundary == {0: ("wrap", "edge"), 1: "edge"} and reverse:
        boundary = {0: ("edge", "wrap"), 1: "edge"}
    back, on = (1, -1) if reverse else (-1, 1)

    def at(u: Any, along: int, beside: int = 0) -> Any:
        return u[(along, beside) if axis == 0 else (beside, along)]

    def kernel(u: Any, c: Any) -> Any:
        return at(c, 0) * at(u, back) + at(u, on) / 2 - at(u, 0, on) * at(c, back, on) + 0.25

    swept(scan(kernel, fields=("u", "c"), boundary={"u": boundary, "c": "wrap"}, reverse=reverse), X, C)


@pytest.mark.parametrize("shape", [(3, 4, 5), (5, 1, 2)])
@pytest.mark.parametrize("back", [(-1, 0, 0), (0, -1, 0), (0, 0, -1)])
def test_a_block_along_each_axis(back: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = RNG.normal(size=shape)
    swept(scan(lambda u: 0.5 * u[back] + u[0, 0, 0] * 2, boundary=1.0), x)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "options", [{"strides": (2, 1)}, {"strides": (2, 3), "dilation": 2}, {"strides": (3, 2), "dilation": (3, 1)}]
)
def test_strides_and_dilation(options: dict[str, Any], reverse: bool) -> None:
    back = (-2 if options.get("dilation", 1) == 1 else -1) * (-1 if reverse else 1)
    x = RNG.normal(size=(9, 7))
    swept(scan(lambda u: 0.5 * u[back, 0] + u[0, 0] - 0.25 * u[-back, 1], reverse=reverse, **options), x)


def first_a_number(stencil: Any, interior: Any) -> Any:
    stencil[0], stencil[1:] = 0.7, interior
    return stencil


@pytest.mark.parametrize("n", [2, 3, 13])
def test_the_first_cell_is_a_number(n: int) -> None:
    swept(first_a_number(scan(fields=2), lambda y, a: a[0] * y[-1] + y[0]), LINE[:n], GAINS[:n])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("options", [{}, {"offset": 0}, {"offset": ((0, 1), (1, 1)), "boundary": 0.5}], ids=str)
def test_regions(options: dict[str, Any], reverse: bool) -> None:
    """Another kernel in a box, walls of numbers and arrays, a column that carries nothing."""
    back = 1 if reverse else -1
    F = scan(reverse=reverse, **options)
    F[...] = lambda u: 0.5 * u[back, 0] - u[-back, 1] + 0.25
    F[1:3, 2:4], F[:, 1] = lambda u: u[back, 0] / 4 + u[0, 0], lambda u: u[-back, 0] - u[0, -back]
    F[:, -1], F[2, ::2], F[0] = 1.5, RNG.normal(size=3), np.arange(6.0)
    swept(F, RNG.normal(size=(5, 6)))
    swept(F, RNG.normal(size=(9, 6)))


def test_a_mask_runs_cell_by_cell() -> None:
    F = scan(lambda u: 0.5 * u[-1, 0] + u[0, 0])
    F[X > 0.5] = lambda u: u[-1, 0] - 1.0
    swept(F, X)


def test_what_no_sweep_writes_stays_as_it_is() -> None:
    """A margin that holds NaN, and one row of it that other kernels read."""
    x = X.copy()
    x[:, 0], x[2, -1] = np.nan, np.nan
    swept(scan(lambda u: 0.5 * u[-1, 0] + u[0, 0], offset=((1, 0), 1)), x)
    swept(scan(lambda u: 0.5 * u[-1, 0] + u[0, -1], offset=((1, 0), (4, 1))), np.where(np.isnan(x), 7.0, x))
    F = scan(lambda u: 0.5 * u[-1, 0] + u[0, 0], offset=((2, 0), 0))
    F[:, 0] = 1.0
    swept(F, x[:, :-1])


def test_a_cell_that_does_not_read_the_one_before_gets_no_nan() -> None:
    def kernel(y: Any, c: Any) -> Any:
        return jnp.where(c[0] > 0, c[0] * y[-1], 1.0) + y[0]

    x, c = LINE.copy(), np.abs(GAINS)
    x[4], x[8], c[5], c[9:11] = np.nan, np.inf, -1.0, -1.0
    stencil = sx.kscan(kernel, fields=2, padding="same", schedule="associative")
    expected = sx.kscan(kernel, fields=2, padding="same")(x, c)
    assert np.isfinite(expected[5]) and np.isfinite(expected[9:]).all()
    np.testing.assert_allclose(stencil(x, c), expected, rtol=1e-12)
    gradient = jax.grad(lambda x, c: jnp.sum(stencil(x, c)[9:]), (0, 1))(x, c)
    assert np.isfinite(gradient[0]).all()
    assert np.isfinite(gradient[1]).all()


def test_nan_goes_on_to_the_end() -> None:
    """However small the product of all factors is."""
    x = np.zeros(3000)
    x[5] = np.nan
    result = scan(lambda y: 0.1 * y[-1] + y[0])(x)
    assert np.isfinite(result[:5]).all()
    assert np.isnan(result[5:]).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_cells_that_do_not_exist(reverse: bool) -> None:
    """Land keeps its NaN and hands it on to nobody."""
    back, exists = (1 if reverse else -1), RNG.random((4, 6)) < 0.7
    x = np.where(exists, X, np.nan)
    for boundary in (0.5, {0: "edge", "mask": sx.boundary.Dirichlet(1.5)}):
        swept(scan(lambda u: 0.5 * u[back, 0] + u[0, 0], mask=exists, boundary=boundary, reverse=reverse), x)
        swept(scan(lambda u: 0.5 * u[0, back] + u[0, 0], mask=exists, boundary=boundary, reverse=reverse), x)


@pytest.mark.parametrize("axis", [0, 1])
def test_walls(axis: int) -> None:
    """Formulas on all sides, with values that are traced."""
    back = (-1, 0) if axis == 0 else (0, -1)

    def run(x: Any, value: Any, face: Any) -> Any:
        boundary = {0: sx.boundary.Dirichlet(value), 1: (sx.boundary.Dirichlet(face), sx.boundary.Neumann(0.5, 0.25))}
        return scan(lambda u: 0.5 * u[back] + u[0, 0] * u[1, 0] - u[0, 1], boundary=boundary)(x)

    face = np.linspace(0.0, 1.0, 4)
    boundary = {0: sx.boundary.Dirichlet(0.3), 1: (sx.boundary.Dirichlet(face), sx.boundary.Neumann(0.5, 0.25))}
    swept(scan(lambda u: 0.5 * u[back] + u[0, 0] * u[1, 0] - u[0, 1], boundary=boundary), X)
    slopes(run, X, 0.3, face)


def test_reads_of_old_values_two_cells_before() -> None:
    """They lie in columns that no cell is centred in."""
    swept(scan(lambda u: 0.5 * u[-1, 0] + u[-2, 1] - u[-1, -1], offset=((2, 0), ((2, 3)))), RNG.normal(size=(7, 6)))


def test_ghosts_that_copy_what_is_new() -> None:
    """At the last cell `y[1]` is the mirror's `y[-1]`."""
    swept(scan(lambda y: 0.5 * y[-1] + y[0] - 0.25 * y[1], boundary=("reflect")), LINE)
    swept(scan(lambda u: 0.5 * u[-1, 1] + u[0, 0], boundary={1: "edge"}), X[:, :1])


def test_nothing_is_carried() -> None:
    stencil = scan(lambda y: y[0] + y[1])
    swept(stencil, LINE)
    assert not names(stencil, LINE) & {"scan", "while"}
    swept(scan(lambda y: y[0] + y[-1]), LINE[:1])
    assert scan(lambda y: y[0] + y[-1])(np.zeros(0)).shape == (0,)


def test_dtypes() -> None:
    kernel = lambda y: 0.5 * y[-1] + y[0]  # noqa: E731
    assert swept(scan(kernel), np.arange(9)).dtype == np.float64  # integers that become floats before the sweep
    np.testing.assert_allclose(scan(kernel)(LINE.astype(np.float32)), scan(kernel)(LINE), rtol=1e-5)
    assert scan(kernel)(jnp.asarray(LINE, jnp.bfloat16)).dtype == jnp.bfloat16
    narrow = lambda y: y[-1].astype(jnp.float32) / 2 + y[0]  # noqa: E731
    np.testing.assert_allclose(scan(narrow)(LINE), scan(kernel)(LINE), rtol=1e-5)


def test_complex_numbers() -> None:
    z = LINE + 1j * GAINS
    swept(scan(lambda y: (0.5 + 0.25j) * y[-1] + jnp.conj(y[0])), z)
    for kernel, what in [
        (lambda y: jnp.conj(y[-1]) + y[0], "applies 'conj' to it"),
        (lambda y: jnp.real(y[-1]) + y[0], "applies 'real' to it"),
        (lambda y: lax.convert_element_type(y[-1], float) + y[0], "converts it to float64"),
    ]:
        with warnings.catch_warnings(), pytest.raises(sx.ScheduleError, match=what):
            warnings.simplefilter("ignore")  # that the imaginary part is lost
            scan(kernel)(z)


def test_other_backends_run_it_in_order() -> None:
    stencil = (
        scan(lambda u: jnp.sin(u[0, -1]) + u[0, 0]) if False else scan(lambda u: u[0, -1] * u[0, -1] / 4 + u[0, 0])
    )
    for backend in ("numpy", "array_api"):
        assert stencil.with_backend(backend).schedule(X) == "associative"
    expected = stencil.with_backend("numpy")(X)
    np.testing.assert_allclose(stencil.with_backend("array_api")(X), expected, rtol=1e-12)
    line = scan(lambda y: y[-1] * y[-1] / 4 + y[0])
    np.testing.assert_allclose(line.with_backend("array_api")(LINE), line.with_backend("numpy")(LINE), rtol=1e-12)


# Kernels that are affine


@pytest.mark.parametrize(
    "kernel",
    [
        lambda y, c: y[-1],
        lambda y, c: -y[-1] - (2.0 - y[-1]) + jnp.sin(y[0]),
        lambda y, c: (y[-1] - y[0]) / (3 + c[0] ** 2),
        lambda y, c: jnp.where(c[0] > 0, 0.5 * y[-1], y[0]),
        lambda y, c: jnp.where(y[0] > 0, y[-1] / 2, y[-1] / 4 + 1),
        lambda y, c: jax.jit(lambda last: last * c[0] + y[0])(y[-1]),
        lambda y, c: jax.checkpoint(lambda last: jax.jit(jnp.negative)(last) * c[0])(y[-1]),
        lambda y, c: jnp.sum(jnp.stack([y[-1], y[0], c[0]]) * jnp.array([0.5, 1.0, -1.0])),
        lambda y, c: jnp.dot(jnp.array([0.5, 1.0]), jnp.stack([y[-1], y[0]])),
        lambda y, c: jnp.tile(jnp.reshape(jnp.broadcast_to(y[-1], (2, 1)), (2,)), 2)[::-1][1] / 2 + y[0],
        lambda y, c: lax.cond(c[0] > 0, jnp.sin, jnp.cos, y[0]) * y[-1] + y[-1] / 2,
        lambda y, c: lax.stop_gradient(y[0]) * y[-1] / 2,
        lambda y, c: jnp.mean(y[-1:1]) + c[0],
        lambda y, c: jnp.take(jnp.cumsum(jnp.stack([y[-1], y[0]])), (c[0] > 0).astype(int)) / 4,
    ],
    ids=range(14),
)
def test_affine_kernels(kernel: Callable[..., Any]) -> None:
    fast = sx.kscan(kernel, fields=2, padding="same", boundary=0.5, schedule="associative")
    slow = sx.kscan(kernel, fields=2, padding="same", boundary=0.5)
    assert "scan" not in names(fast, LINE, GAINS)
    np.testing.assert_allclose(fast(LINE, GAINS), slow(LINE, GAINS), rtol=1e-10)


def test_array_windows() -> None:
    weights = np.array([0.5, 1.0, -0.25])
    stencil = sx.kscan(lambda w: jnp.sum(w * weights), kernel_size=3, padding="same", schedule="associative")
    slow = sx.kscan(lambda w: np.sum(w * weights), kernel_size=3, padding="same", backend="numpy")
    np.testing.assert_allclose(stencil(LINE), slow(LINE), rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (lambda y: jnp.sin(y[-1]), "applies 'sin' to it"),
        (lambda y: y[-1] * y[-1], "multiplies it by itself"),
        (lambda y: (y[-1] + 1) * (y[0] - y[-1]), "multiplies it by itself"),
        (lambda y: y[0] / (1 + y[-1]), "divides by it"),
        (lambda y: jnp.where(y[-1] > 0, 1.0, 2.0), "compares it"),
        (lambda y: jnp.maximum(y[-1], y[0]), "applies 'max' to it"),
        (lambda y: y[0] + jnp.abs(y[-1] - 1), "applies 'abs' to it"),
        (lambda y: lax.stop_gradient(y[-1]), "applies 'stop_gradient' to it"),
        (lambda y: y[-1].astype(int) + y[0], "converts it to int64"),
        (lambda y: jax.jit(jnp.exp)(y[-1]), "applies 'exp' to it"),
        (lambda y: jnp.where(y[0] > 0, y[-1], y[-1] ** 3), "applies 'integer_pow' to it"),
        (lambda y: lax.fori_loop(0, 2, lambda _, v: v / 2, y[-1]), "applies 'scan' to it"),
    ],
    ids=range(12),
)
def test_other_kernels_are_refused(kernel: Callable[..., Any], what: str) -> None:
    stencil = scan(kernel, boundary=1.0)
    for call in (stencil, stencil.schedule, jax.jit(stencil)):
        with pytest.raises(sx.ScheduleError) as info:
            call(LINE)
        assert str(info.value) == (
            "schedule 'associative' needs a kernel that is affine in what it carries, a * y[-1] + b, "
            f"and <lambda> {what}.\nHint: leave schedule= away: then every kernel goes."
        )
    assert sx.kscan(kernel, padding="same", boundary=1.0).schedule(LINE) == "cells"


def test_each_kernel_is_looked_at() -> None:
    def squared(u: Any) -> Any:
        return u[0, -1] ** 2

    F = scan(lambda u: u[0, -1] + u[0, 0], boundary="edge")
    F[1:] = squared
    with pytest.raises(sx.ScheduleError, match=r"a \* u\[0, -1\] \+ b, and squared applies '\w+' to it"):
        F(X)
    F[1:] = lambda u: u[0, 0] ** 2
    swept(F, X)


def test_whole_numbers_are_refused() -> None:
    with pytest.raises(sx.ScheduleError) as info:
        scan(lambda y: y[-1] + y[0])(np.arange(4, dtype=np.int32))
    assert str(info.value) == (
        "schedule 'associative' needs a field of floats, and 'y' is int32."
        "\nHint: convert it first, or leave schedule= away: then every field goes."
    )


# Under JAX's transformations


def slopes(function: Callable[..., Any], *arguments: Any) -> None:
    check_grads(function, arguments, order=1, modes=("fwd", "rev"), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_a_line(reverse: bool) -> None:
    back = 1 if reverse else -1
    stencil = scan(lambda y, a, g: a[0] * y[back] + jnp.sin(y[0]) * g, fields=2, boundary=0.5, reverse=reverse)
    slopes(stencil, LINE, GAINS, 0.7)
    slopes(stencil, LINE, 0.0 * GAINS, 0.0)  # a factor of zero has a slope, too


@pytest.mark.parametrize("back", [(-1, 0), (0, -1)])
def test_gradients_of_a_plane_with_regions(back: tuple[int, int]) -> None:
    def run(x: Any, c: Any, wall: Any) -> Any:
        F = scan(fields=2, offset=((0, 1), 0), boundary=0.25)
        F[...], F[1:3, 2:] = lambda u, c: c[0, 0] * u[back] + u[0, 0] ** 2, lambda u, c: u[back] - c[0, 0] * u[0, 0]
        F[0], F[:, 0] = wall, 0.7
        return F(x, c)

    slopes(run, X, C, np.linspace(0.0, 1.0, 6))


def test_gradients_for_traced_values_that_kernels_close_over() -> None:
    def loss(x: Any, a: Any, w: Any) -> Any:
        stencil = scan(lambda u: a * w[0] * u[-1, 0] + w[1] * u[0, 0] * u[1, 0])
        return jnp.sum(stencil(x) ** 2)

    slopes(loss, X, 0.7, jnp.array([0.4, -0.3]))
    np.testing.assert_allclose(
        jax.jit(jax.grad(loss, (0, 1)))(X, 0.7, jnp.array([0.4, -0.3]))[1],
        jax.grad(loss, 1)(X, 0.7, jnp.array([0.4, -0.3])),
        rtol=1e-10,
    )


def test_second_derivatives() -> None:
    stencil = scan(lambda y, a: a[0] * y[-1] + y[0] ** 2, fields=2)
    check_grads(stencil, (LINE[:4], GAINS[:4]), order=2, modes=("fwd", "rev"), atol=1e-5, rtol=1e-5)


def test_vmap_and_jit() -> None:
    stencil = scan(lambda y, g: g * y[-1] + y[0])
    gains = jnp.array([0.5, -1.0, 0.25, 1.5])
    rows = [stencil(x, g) for x, g in zip(X, gains, strict=True)]
    np.testing.assert_allclose(jax.vmap(stencil)(X, gains), rows, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(stencil))(X, gains), rows, rtol=1e-12)
    gradient = jax.grad(lambda x, g: jnp.sum(stencil(x, g) ** 2), (0, 1))
    both = jax.vmap(gradient)(X, gains)
    np.testing.assert_allclose(both[1], [gradient(x, g)[1] for x, g in zip(X, gains, strict=True)], rtol=1e-10)


# What jaxprs hold


@pytest.mark.parametrize("back", [-1, (-1, 0), (0, -1)])
def test_no_loop_is_left(back: Any) -> None:
    stencil = scan(lambda u: 0.5 * u[back] + u[0 if back == -1 else (0, 0)])
    found = names(stencil, jnp.zeros(1000 if back == -1 else (300, 400)))
    assert not found & {"scan", "while", "cond", "gather", "scatter"}


def test_a_band_that_carries_nothing_is_not_composed() -> None:
    F = scan(lambda u: u[0, 0] + u[1, 0])
    F[-1] = lambda u: u[-1, 0] + u[0, 0]
    assert swept(F, X) is not None
    assert "pad" not in names(F, X)
