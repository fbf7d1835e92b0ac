"""Every lowering gives the same numbers: strips or a padded copy along walls; work before a line or within it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stencilx_jax.map
import stencilx_jax.sweep

import stencilx as sx
from stencilx.boundary import Dirichlet, Extrapolate, Neumann, Robin

RNG = np.random.default_rng(0)
X = RNG.normal(size=(11, 14))
RULES: list[Any] = [
    "wrap",
    "edge",
    "reflect",
    "symmetric",
    {0: "wrap", 1: 2.5},
    {0: (1.5, "edge"), 1: ("reflect", 2.0)},
    {0: 3.0, 1: "wrap"},
    {0: 3.0, 1: 4.0},
    {0: ("edge", "wrap"), 1: ("symmetric", 1.0)},
    {0: ("wrap", Dirichlet(1.5)), 1: (Extrapolate(1), "edge")},
    {0: (Neumann(RNG.normal(size=14), 0.5), "reflect"), 1: (RNG.normal(size=11), Robin(1.0, 2.0, 3.0, 0.5))},
]
GEOMETRIES: list[dict[str, Any]] = [
    {"kernel_size": (3, 5), "padding": "same"},
    {"kernel_size": (3, 5), "padding": (3, 4)},
    {"kernel_size": (4, 2), "padding": "same", "dilation": (2, 3), "strides": (2, 1)},
    {"kernel_size": (3, 3), "padding": (2, 1), "strides": (3, 2)},
]


@pytest.fixture(params=[0, 1 << 60], ids=["strips", "padded copy"])
def walls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stencilx_jax.map, "STRIPS_FROM", request.param)


def weighted(size: tuple[int, int]) -> Callable[[Any], Any]:
    weights = RNG.normal(size=size)
    return lambda x: (x * weights).sum() + x[0, 0] * x[-1, -1]


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize("options", GEOMETRIES, ids=str)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_walls(rule: Any, options: dict[str, Any]) -> None:
    F = sx.kmap(weighted(options["kernel_size"]), boundary=rule, **options)
    with jax.disable_jit():  # to compile takes many times as long as to run
        found = F(jnp.asarray(X))
    np.testing.assert_allclose(found, F.with_backend("numpy")(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rule", RULES[:6], ids=str)
def test_strips_are_cut(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two lowerings really differ: with strips, nothing as large as the padded field is ever stored."""
    F = sx.kmap(lambda u: u[-1, 0] - 2 * u[0, 1] + u[1, -1], padding="same", boundary=rule)
    largest = []
    for threshold in (0, 1 << 60):
        monkeypatch.setattr(stencilx_jax.map, "STRIPS_FROM", threshold)
        jaxpr = jax.make_jaxpr(sx.kmap(F.__wrapped__, padding="same", boundary=rule))(jnp.asarray(X))
        body = jaxpr.eqns[0].params["jaxpr"].jaxpr
        largest.append(max(var.aval.size for eqn in body.eqns for var in eqn.outvars))
    assert largest[0] == X.size < largest[1]


@pytest.mark.parametrize("few", [0, 100], ids=["before", "in the scan"])
def test_lines(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stencilx_jax.sweep, "FEW", few)
    F = sx.kscan(lambda y, x: 0.5 * y[-1] - jnp.sin(x[0]) * x[1] + y[0], fields=2, kernel_size=3, relative=True)
    y, x = RNG.normal(size=(2, 9))
    expected = y.copy()
    for i in range(1, 8):
        expected[i] = 0.5 * expected[i - 1] - np.sin(x[i]) * x[i + 1] + y[i]
    np.testing.assert_allclose(F(y, x), expected[1:-1], rtol=1e-12)


def test_cells_or_wavefront_by_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the default device is no CPU, both are offered to the compiler, and a CPU takes `cells`."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    F = sx.sscan(lambda u: 0.5 * u[-1, 0] - u[0, -1] + u[1, 1], offset=1)
    text = str(jax.make_jaxpr(F)(jnp.asarray(X)))
    assert "platform_index" in text
    np.testing.assert_allclose(F(jnp.asarray(X)), F.with_backend("numpy")(X), rtol=1e-9)
    gradient = jax.grad(lambda x: jnp.sum(jnp.sin(F(x))))(jnp.asarray(X))
    monkeypatch.undo()
    alone = sx.sscan(F.__wrapped__, offset=1)
    np.testing.assert_allclose(gradient, jax.grad(lambda x: jnp.sum(jnp.sin(alone(x))))(jnp.asarray(X)), rtol=1e-9)
