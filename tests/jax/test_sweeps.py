"""Sweeps under JAX's transformations, in float64, and what their jaxprs hold: every schedule, both executors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stencilx_jax.sweep
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.test_util import check_grads

import stencilx as sx

Function = Callable[..., Any]
RNG = np.random.default_rng(8)
X, H = jnp.asarray(RNG.normal(0.3, 1.0, (4, 5))), jnp.asarray(RNG.normal(-0.2, 1.0, (4, 5)))
EXECUTORS = ["cells", "tables", "wavefront"]


@pytest.fixture(params=[64, 0], ids=["scans", "tables"])
def bands(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Nested scans; or tables, as for sweeps that fall into many bands."""
    monkeypatch.setattr(stencilx_jax.sweep, "BANDS", request.param)
    return request.param


@pytest.fixture(params=EXECUTORS)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each way to run cells with carried reads on all axes."""
    if request.param == "tables":
        monkeypatch.setattr(stencilx_jax.sweep, "BANDS", 0)
        return "cells"
    return request.param


def reads_rows(u: Any) -> Any:
    return jnp.sin(u[-1, 0]) * u[0, 1] + 0.3 * u[-1, 1] * u[-1, -1] - 0.5 * u[1, 0]


def reads_cells(u: Any) -> Any:
    return jnp.sin(u[-1, 0]) * u[0, -1] + 0.3 * u[0, 1] * u[-1, 1] - 0.5 * u[1, 0] * u[0, 0]


def slopes(function: Function, *arguments: Any, modes: tuple[str, ...] = ("fwd", "rev")) -> None:
    """Gradients in both modes against finite differences."""
    check_grads(function, arguments, order=1, modes=modes, atol=1e-6, rtol=1e-6)


# Gradients


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("boundary", [0.5, "wrap", {0: ("edge", "wrap"), 1: ("reflect", "symmetric")}], ids=str)
def test_gradients_of_cells(schedule: str, boundary: Any, reverse: bool) -> None:
    slopes(sx.kscan(reads_cells, padding="same", boundary=boundary, reverse=reverse, schedule=schedule), X)


@pytest.mark.parametrize(
    "boundary", [0.5, {0: ("wrap", "symmetric"), 1: ("wrap", 0.25)}, {0: ("wrap", "edge")}], ids=str
)
def test_gradients_of_rows(boundary: Any) -> None:
    slopes(_scheduled("rows", reads_rows, padding="same", boundary=boundary), X)


@pytest.mark.parametrize(
    "boundary", [0.5, {0: ("symmetric", "wrap"), 1: (0.25, "wrap")}, {0: ("edge", "wrap")}], ids=str
)
def test_gradients_of_rows_in_reverse(boundary: Any) -> None:
    kernel = lambda u: jnp.sin(u[1, 0]) * u[0, -1] + 0.3 * u[1, -1] * u[1, 1] - 0.5 * u[-1, 0]  # noqa: E731
    slopes(_scheduled("rows", kernel, padding="same", boundary=boundary, reverse=True), X)


@pytest.mark.parametrize("boundary", [0.5, {0: "edge", 1: 0.5}], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_columns(bands: int, boundary: Any, reverse: bool) -> None:
    back = 1 if reverse else -1
    kernel = lambda u: jnp.sin(u[0, back]) * u[0, 0] - 0.5 * u[-back, 0] + 0.3 * u[0, -back]  # noqa: E731
    slopes(_scheduled("rows", kernel, padding="same", boundary=boundary, reverse=reverse), X)


def _scheduled(name: str, kernel: Any, **options: Any) -> Function:
    """A sweep that is known to take a schedule of its own accord."""
    stencil = sx.kscan(kernel, **options)
    fields = [X, H][: options.get("fields", 1)]
    assert stencil.schedule(*fields) == name
    return stencil


def test_gradients_of_parallel() -> None:
    stencil = _scheduled("parallel", lambda u: jnp.sin(u[0, 1]) * u[1, 0] * u[0, 0], padding="same", boundary="edge")
    slopes(stencil, X)


def meshed(schedule: str, first: Any, **options: Any) -> Any:
    """Boxes, numbers and arrays; the kernels differ."""
    F = sx.sscan(schedule=schedule, offset=((0, 1), 0), **options)
    F[...], F[1:3, 2:], F[:, 0] = first, lambda u: jnp.cos(u[-1, 1]) - u[0, 0] * u[1, 0], 0.7
    F[2] = jnp.linspace(0.0, 1.0, 5)
    return F


@pytest.mark.parametrize("boundary", [0, "wrap"])
@pytest.mark.parametrize("reverse", [False, True])
def test_values_with_regions(schedule: str, boundary: Any, reverse: bool) -> None:
    reference = sx.sscan(offset=((0, 1), 0), boundary=boundary, reverse=reverse, backend="numpy")
    reference[...], reference[1:3, 2:] = np_cells, lambda u: np.cos(u[-1, 1]) - u[0, 0] * u[1, 0]
    reference[:, 0], reference[2] = 0.7, np.linspace(0.0, 1.0, 5)
    got = meshed(schedule, reads_cells, boundary=boundary, reverse=reverse)(X)
    np.testing.assert_allclose(got, reference(np.asarray(X)), rtol=1e-12)


@pytest.mark.parametrize("boundary", [0, "wrap"])
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_with_regions(schedule: str, boundary: Any, reverse: bool) -> None:
    slopes(meshed(schedule, reads_cells, boundary=boundary, reverse=reverse), X)


def test_gradients_of_rows_with_regions() -> None:
    slopes(meshed("rows", reads_rows), X)


def test_gradients_with_a_mask() -> None:
    F = sx.sscan(schedule="cells")
    F[...], F[np.asarray(RNG.random((4, 5)) < 0.4)] = reads_cells, lambda u: jnp.cos(u[0, -1]) * u[0, 1]
    slopes(F, X)


def coupled(u: Any, h: Any) -> tuple[Any, Any]:
    return jnp.sin(u[-1, 0]) * h[0, 0] - 0.5 * u[1, 0], h[-1, 1] * u[0, 0] + 0.25 * h[1, 0]


def tightly(u: Any, h: Any) -> tuple[Any, Any]:
    return jnp.sin(u[0, -1]) * h[-1, 0] - 0.5 * u[1, 0], h[0, -1] * u[-1, 0] + 0.25 * h[0, 1]


@pytest.mark.parametrize("boundary", [0, "wrap"])
def test_gradients_of_two_fields(schedule: str, boundary: Any) -> None:
    options: dict[str, Any] = {"fields": 2, "padding": "same", "boundary": boundary, "schedule": schedule}
    slopes(sx.kscan(tightly, updates=("u", "h"), **options), X, H)
    slopes(sx.kscan(lambda u, h: tightly(u, h)[0] * u[-1, 0], **options), X, H)


def test_gradients_of_two_fields_by_rows() -> None:
    slopes(_scheduled("rows", coupled, fields=2, updates=("u", "h"), padding="same"), X, H)


def test_gradients_for_parameters(schedule: str) -> None:
    def kernel(u: Any, a: Any, table: Any) -> Any:
        return a * jnp.sin(u[-1, 0]) + table["left"] * u[0, -1] + table["all"][1] * u[0, 1] * a

    stencil = sx.kscan(kernel, padding="same", schedule=schedule)
    slopes(stencil, X, 0.7, {"left": 0.4, "all": jnp.array([1.0, -0.5])})


def test_gradients_for_parameters_of_rows() -> None:
    stencil = sx.kscan(lambda u, a: jnp.sin(a * u[-1, 0]) * u[0, 1] + a * u[1, 0])
    assert stencil.schedule(X, 0.7) == "rows"
    slopes(stencil, X, 0.7)


def test_gradients_for_traced_values_that_kernels_close_over(schedule: str) -> None:
    def loss(x: Any, a: Any, w: Any) -> Any:
        F = sx.kscan(padding="same", schedule=schedule)
        F[...] = lambda u: a * jnp.sin(u[-1, 0]) + w[0] * u[0, -1] * u[0, 1]
        F[1:, 3] = lambda u: a * u[0, 0] - w[1]
        F[0] = a * w[1] * jnp.ones(5)
        return jnp.sum(F(x) ** 2)

    slopes(loss, X, 0.7, jnp.array([0.4, -0.3]))


def test_gradients_for_an_array_given_to_a_region() -> None:
    def run(x: Any, wall: Any) -> Any:
        F = sx.kscan(padding="same")
        F[...], F[:, 2] = reads_cells, wall
        return F(x)

    slopes(run, X, jnp.arange(4.0))


def test_hessian_of_a_sweep(schedule: str) -> None:
    stencil = sx.kscan(lambda u: jnp.sin(u[-1, 0]) * u[0, -1], padding="same", boundary=0.5, schedule=schedule)
    check_grads(stencil, (X[:2, :3],), order=2, modes=("fwd", "rev"), atol=1e-5, rtol=1e-5)


def test_the_gradient_of_a_recurrence_in_closed_form() -> None:
    stencil = sx.kscan(lambda y: y[0] + 0.5 * y[-1], padding="same")
    gradient = jax.grad(lambda x: stencil(x)[-1])(jnp.arange(5.0))
    np.testing.assert_allclose(gradient, 0.5 ** np.arange(5)[::-1])


# vmap, jit, checkpoint, loops


def test_vmap_over_fields_and_parameters(schedule: str) -> None:
    stencil = sx.kscan(lambda u, a: a * u[-1, 0] + u[0, -1] * u[0, 1], padding="same", schedule=schedule)
    fields, gains = jnp.stack([X, H, X * H]), jnp.array([0.5, -1.0, 2.0])
    both = jax.vmap(stencil)(fields, gains)
    np.testing.assert_allclose(both, [stencil(x, a) for x, a in zip(fields, gains)], rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(stencil, (None, 0))(X, gains), [stencil(X, a) for a in gains], rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(stencil, (1, None), 1)(fields.swapaxes(0, 1), 0.5)[:, 1], stencil(H, 0.5))


def test_vmap_of_rows_and_of_regions() -> None:
    stencil = _scheduled("rows", reads_rows, padding="same")
    np.testing.assert_allclose(jax.vmap(stencil)(jnp.stack([X, H])), [stencil(X), stencil(H)], rtol=1e-12)
    mesh = meshed("auto", reads_cells)
    np.testing.assert_allclose(jax.vmap(mesh)(jnp.stack([X, H])), [mesh(X), mesh(H)], rtol=1e-12)


def test_vmap_of_a_gradient(schedule: str) -> None:
    gradient = jax.grad(lambda x: jnp.sum(sx.kscan(reads_cells, padding="same", schedule=schedule)(x) ** 2))
    np.testing.assert_allclose(jax.vmap(gradient)(jnp.stack([X, H])), [gradient(X), gradient(H)], rtol=1e-10)


def test_jit_and_checkpoint(schedule: str) -> None:
    stencil = sx.kscan(reads_cells, padding="same", boundary="wrap", schedule=schedule)
    np.testing.assert_allclose(jax.jit(lambda x: stencil(2 * x) + 1)(X), stencil(2 * X) + 1, rtol=1e-12)
    loss = lambda x: jnp.sum(jnp.sin(stencil(x)))  # noqa: E731
    plain = jax.grad(loss)(X)
    np.testing.assert_allclose(jax.grad(jax.checkpoint(loss))(X), plain, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(jax.grad(jax.checkpoint(stencil_sum(stencil))))(X), plain, rtol=1e-10)


def stencil_sum(stencil: Function) -> Function:
    return lambda x: jnp.sum(jnp.sin(jax.checkpoint(stencil)(x)))


def thrice(stencil: Function, x: Any) -> Any:
    return stencil(stencil(stencil(x)))


def test_in_loops(schedule: str) -> None:
    stencil = sx.sscan(lambda u: (u[-1, 0] + u[0, -1] + u[0, 1] + u[1, 0]) / 4, offset=1, schedule=schedule)
    looped = lambda x: lax.fori_loop(0, 3, lambda _, x: stencil(x), x)  # noqa: E731
    scanned = lambda x: lax.scan(lambda x, _: (stencil(x), jnp.sum(x)), x, length=3)  # noqa: E731
    np.testing.assert_allclose(looped(X), thrice(stencil, X), rtol=1e-12)
    np.testing.assert_allclose(scanned(X)[0], thrice(stencil, X), rtol=1e-12)
    np.testing.assert_allclose(scanned(X)[1][1], jnp.sum(stencil(X)), rtol=1e-12)
    gradient = jax.grad(lambda x: jnp.sum(thrice(stencil, x) ** 2))(X)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(scanned(x)[0] ** 2))(X), gradient, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: jnp.sum(looped(x) ** 2)))(X), gradient, rtol=1e-10)


def test_in_a_while_loop_until_it_settles() -> None:
    """Gauss-Seidel for a line between 1 and 3: a straight line."""
    stencil = sx.sscan(lambda u: (u[-1] + u[1]) / 2, offset=1)

    def settled(state: tuple[Any, Any]) -> tuple[Any, Any]:
        new = stencil(state[0])
        return new, jnp.max(jnp.abs(new - state[0]))

    start = (jnp.array([1.0, 0, 0, 0, 3.0]), jnp.inf)
    end, _ = jax.jit(lambda start: lax.while_loop(lambda state: state[1] > 1e-12, settled, start))(start)
    np.testing.assert_allclose(end, [1, 1.5, 2, 2.5, 3], rtol=1e-10)


@pytest.mark.parametrize("name", ["auto", "cells", "wavefront", "rows", "parallel"])
def test_a_kernel_is_traced_once(name: str) -> None:
    traces = []

    def kernel(u: Any, a: Any) -> Any:
        traces.append(u)
        return a * u[0, 1] + u[1, 0]

    stencil = sx.kscan(kernel, padding="same", schedule=name)
    for field, gain in ((X, 0.5), (H, 2.0), (X + H, 0.5)):
        stencil(field, gain)
        stencil.schedule(field, gain)
    jax.jit(lambda x: stencil(x, 0.25))(X)
    jax.grad(lambda x: jnp.sum(stencil(x, 0.5)))(X)
    assert len(traces) == 1


def test_integers_that_become_floats_are_traced_twice_and_no_more() -> None:
    """Once to see what the sweep writes, and once on fields that can hold it."""
    traces = []

    def kernel(u: Any) -> Any:
        traces.append(u[0].dtype)
        return u[-1] / 2 + u[0]

    stencil = sx.kscan(kernel, padding="same")
    for _ in range(3):
        stencil(jnp.arange(5))
    assert traces == [jnp.dtype("int64"), jnp.dtype("float64")]


# What jaxprs hold


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Every equation, also those of inner jaxprs."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(part, (ClosedJaxpr, Jaxpr)):
                    yield from equations(part.jaxpr if isinstance(part, ClosedJaxpr) else part)


def jaxpr_of(stencil: Function, *arguments: Any) -> Jaxpr:
    return jax.make_jaxpr(stencil)(*arguments).jaxpr


def scans(jaxpr: Jaxpr) -> list[JaxprEqn]:
    return [eqn for eqn in equations(jaxpr) if eqn.primitive.name == "scan"]


def names(jaxpr: Jaxpr) -> set[str]:
    return {eqn.primitive.name for eqn in equations(jaxpr)}


def carried_sizes(scan: JaxprEqn) -> list[int]:
    """How many numbers each carry of a scan holds: what comes out of it as out of its body, and not stacked."""
    body = scan.params["jaxpr"].jaxpr
    pairs = zip(scan.outvars, body.outvars, strict=True)
    return [math.prod(var.aval.shape) for var, inner in pairs if var.aval.shape == inner.aval.shape]


LARGE = jnp.zeros((30, 40))


@pytest.mark.parametrize("boundary", [0.0, {0: 1.5, 1: "wrap"}], ids=str)
def test_rows_are_one_scan_without_a_gather(boundary: Any) -> None:
    stencil = sx.kscan(
        lambda u: u[-1, 0] + 0.1 * (u[-1, 1] - 2 * u[-1, 0] + u[-1, -1]), padding="same", boundary=boundary
    )
    assert stencil.schedule(LARGE) == "rows"
    jaxpr = jaxpr_of(stencil, LARGE)
    (scan,) = scans(jaxpr)
    assert scan.params["length"] == 30
    assert not names(jaxpr) & {"gather", "scatter", "while", "cond"}
    assert carried_sizes(scan) == [40]


@pytest.mark.parametrize("reverse", [False, True])
def test_columns_are_one_scan_without_a_gather(reverse: bool) -> None:
    back = 1 if reverse else -1
    stencil = sx.kscan(lambda u: 0.5 * u[0, back] + u[0, 0] * u[0, -back], padding="same", reverse=reverse)
    assert stencil.schedule(LARGE) == "rows"
    jaxpr = jaxpr_of(stencil, LARGE)
    (scan,) = scans(jaxpr)
    assert scan.params["length"] == 40
    assert not names(jaxpr) & {"gather", "scatter", "while", "cond"}
    assert carried_sizes(scan) == [30]
    assert [eqn.primitive.name for eqn in equations(jaxpr)].count("transpose") == 2


def test_rows_with_walls_of_numbers_are_one_scan() -> None:
    F = sx.kscan(padding="same")
    F[...], F[0], F[:, 0] = (lambda u: u[-1, 0] - 0.1 * (u[-1, 0] - u[-1, -1])), 1.0, 2.0
    jaxpr = jaxpr_of(F, LARGE)
    (scan,) = scans(jaxpr)
    assert scan.params["length"] == 29
    assert not names(jaxpr) & {"gather", "scatter"}


@pytest.mark.parametrize("boundary", [0, "wrap"])
def test_nested_scans_carry_no_whole_array(boundary: Any) -> None:
    stencil = sx.kscan(reads_cells, padding="same", boundary=boundary, schedule="cells")
    jaxpr = jaxpr_of(stencil, LARGE)
    sizes = [carried_sizes(scan) for scan in scans(jaxpr)]
    assert sizes
    assert max(max(some, default=0) for some in sizes) < 3 * max(LARGE.shape)
    assert [1] in sizes  # along a line only the last cell
    assert "gather" not in names(jaxpr)


def test_what_is_not_carried_is_computed_outside_the_innermost_scan() -> None:
    stencil = sx.kscan(
        lambda u: 0.25 * u[0, -1] + jnp.sin(u[0, 1]) * jnp.exp(u[1, 0]), padding="same", schedule="cells"
    )
    jaxpr = jaxpr_of(stencil, LARGE)
    innermost = [s for s in scans(jaxpr) if not scans(s.params["jaxpr"].jaxpr)]
    assert innermost
    for scan in innermost:
        assert not names(scan.params["jaxpr"].jaxpr) & {"sin", "exp"}
    assert {"sin", "exp"} <= names(jaxpr)


@pytest.mark.parametrize("boundary", [0, "edge"])
def test_a_sweep_that_is_a_map_has_no_scan(boundary: Any) -> None:
    stencil = sx.kscan(lambda u: u[1, 0] + u[0, 1] - 2 * u[0, 0], padding="same", boundary=boundary)
    assert stencil.schedule(LARGE) == "parallel"
    assert not names(jaxpr_of(stencil, LARGE)) & {"scan", "while", "gather", "scatter"}


def test_executors_are_chosen_by_the_number_of_bands(bands: int) -> None:
    stencil = sx.kscan(reads_cells, padding="same")
    lengths = sorted(scan.params["length"] for scan in scans(jaxpr_of(stencil, LARGE)))
    assert lengths == ([30, 40] if bands else [30 * 40])


def test_a_wavefront_steps_through_diagonals() -> None:
    stencil = sx.kscan(lambda u: u[-1, 0] + u[0, -1], padding="same", schedule="wavefront")
    (scan,) = scans(jaxpr_of(stencil, LARGE))
    assert scan.params["length"] == 30 + 40 - 1


def test_many_regions_go_by_tables() -> None:
    F = sx.kscan(padding="same")
    F[...] = reads_cells
    for i in range(0, 30, 3):
        F[i, i % 7 + 2] = 0.5
    (scan,) = scans(jaxpr_of(F, LARGE))
    assert scan.params["length"] == 30 * 40
    small = np.asarray(RNG.normal(size=(30, 40)))
    np.testing.assert_allclose(F(small), F.with_backend("numpy")(small), rtol=1e-10)


def test_an_eager_call_agrees_with_the_reference(bands: int) -> None:
    for options in ({"boundary": "wrap"}, {"boundary": 0.5, "reverse": True}, {"strides": 2}):
        stencil = sx.kscan(reads_cells, padding="same", schedule="cells", **options)
        reference = sx.kscan(np_cells, padding="same", **options, backend="numpy")
        np.testing.assert_allclose(stencil(X), reference(np.asarray(X)), rtol=1e-12)


@pytest.mark.parametrize("n", [*range(2, 14), 17])
def test_lines_of_every_length(n: int) -> None:
    """Whole unrolled scans, some with a rest, between walls that make bands of their own."""
    x = RNG.normal(0.3, 1.0, (2, n))
    found = []
    for backend in ("jax", "numpy"):
        F = sx.sscan(offset=((1, 0), 0), boundary="wrap", backend=backend)
        F[...], F[:, -1] = lambda u: u[-1, 0] * u[0, 1] + u[0, -1] * u[-1, -1], 0.7
        found.append(np.asarray(F(x)))
    np.testing.assert_allclose(*found, rtol=1e-12)


def np_cells(u: Any) -> Any:
    return np.sin(u[-1, 0]) * u[0, -1] + 0.3 * u[0, 1] * u[-1, 1] - 0.5 * u[1, 0] * u[0, 0]


# No kernel runs on cells that it does not own


def root_beside_a_wall(name: str, kernel: Function) -> Any:
    """Roots of what is positive beside a wall of zeros, at which a root has no slope."""
    F = sx.sscan(schedule=name)
    F[...], F[:, :2], F[0] = kernel, 0.0, 0.25
    return F


def rooted_cells(u: Any) -> Any:
    return jnp.sqrt(u[0, 0]) + 0.1 * u[-1, 0] + 0.1 * u[0, -1]


def rooted_rows(u: Any) -> Any:
    return jnp.sqrt(u[0, 0]) + 0.1 * u[-1, 0]


def positive() -> np.ndarray:
    """Zeros in the cells of the wall, and positive numbers elsewhere."""
    x = np.asarray(RNG.uniform(0.5, 2.0, (4, 5)))
    x[0], x[:, :2] = 0.0, 0.0
    return x


def gradient_of_roots(kernel: Function, x: np.ndarray) -> np.ndarray:
    """By central differences of a loop in NumPy, in cells that are no wall."""

    def looped(x: np.ndarray) -> float:
        u = x.copy()
        for i, j in np.ndindex(*u.shape):
            wall = 0.25 if i == 0 else 0.0 if j < 2 else None
            left = 0.1 * u[i, j - 1] if kernel is rooted_cells else 0.0
            u[i, j] = np.sqrt(u[i, j]) + 0.1 * u[i - 1, j] + left if wall is None else wall
        return float(np.sum(u))

    found = np.zeros(x.shape)
    for cell in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[cell] = 1e-6 if cell[0] and cell[1] > 1 else 0.0
        found[cell] = (looped(x + step) - looped(x - step)) / 2e-6
    return found


@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd])
def test_no_nan_from_cells_of_others(schedule: str, mode: Function) -> None:
    stencil, x = root_beside_a_wall(schedule, rooted_cells), positive()
    gradient = mode(lambda x: jnp.sum(stencil(x)))(jnp.asarray(x))
    np.testing.assert_allclose(gradient, gradient_of_roots(rooted_cells, x), atol=1e-8)


@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd])
@pytest.mark.parametrize("name", ["auto", "rows", "wavefront"])
def test_no_nan_from_cells_of_others_by_rows(name: str, mode: Function) -> None:
    stencil, x = root_beside_a_wall(name, rooted_rows), positive()
    assert name != "auto" or stencil.schedule(x) == "rows"
    gradient = mode(lambda x: jnp.sum(stencil(x)))(jnp.asarray(x))
    np.testing.assert_allclose(gradient, gradient_of_roots(rooted_rows, x), atol=1e-8)


@pytest.mark.parametrize("value", [0.75, np.arange(5.0)], ids=["number", "array"])
def test_a_region_without_computed_cells(schedule: str, value: Any) -> None:
    """It lies in the margin, which keeps its old values."""
    F = sx.sscan(offset=((1, 0), 0), schedule=schedule)
    F[...], F[0] = reads_cells, value
    alone = sx.sscan(reads_cells, offset=((1, 0), 0), schedule=schedule)
    np.testing.assert_allclose(F(X), alone(X), rtol=1e-12)


@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd])
def test_no_nan_from_the_kernel_of_another_mask(mode: Function) -> None:
    """Two kernels side by side in one plane: each has no slope where the other is at home."""
    zero = np.zeros((4, 5), bool)
    zero[::2, 1::2] = zero[1::2, ::2] = True
    x = np.where(zero, 0.0, 2.0)
    F = sx.sscan(schedule="wavefront")
    F[...], F[zero] = (lambda u: jnp.sqrt(u[0, 0])), lambda u: jnp.sqrt(1 - u[0, 0] / 2) + 0 * u[-1, 0]
    gradient = mode(lambda x: jnp.sum(F(x)))(jnp.asarray(x))
    np.testing.assert_allclose(gradient, np.where(zero, -0.25, 0.5 / np.sqrt(2.0)), rtol=1e-12)


def test_j_root_beside_zero() -> None:
    F = sx.sscan()
    F[0], F[1:] = 0.0, lambda u: jnp.sqrt(u[0]) + 0 * u[-1]
    assert F.schedule(jnp.array([0.0, 1, 4])) == "cells"
    gradient = jax.grad(lambda x: jnp.sum(F(x)))(jnp.array([0.0, 1, 4]))
    np.testing.assert_allclose(gradient, [0, 0.5, 0.25])
