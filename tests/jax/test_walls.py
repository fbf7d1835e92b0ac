"""Walls under JAX's transformations, in float64 against central differences; and what they cost, by their jaxprs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.test_util import check_grads
from seed_way import equations_of, quickly, slopes
from test_caching import Counted, compilations

import stencilx as sx
from stencilx.boundary import Constant, Dirichlet, Extrapolate, Neumann, Reflect, Robin, Symmetric, Wrap

RNG = np.random.default_rng(11)
X = jnp.asarray(RNG.normal(0.3, 1.0, (4, 5)))
VALUES = {
    "a": jnp.asarray(1.25),
    "b": jnp.asarray(RNG.normal(0.0, 1.0, 4)),  # over a face of axis 1
    "c": jnp.asarray(RNG.normal(0.0, 1.0, 5)),  # over a face of axis 0
    "d": jnp.asarray([0.75]),
    "e": jnp.asarray(-0.5),
}
Walls = Callable[[Any], dict[int, Any]]

MIXTURES: dict[str, Walls] = {
    "constants": lambda v: {0: (Constant(v["a"]), Constant(v["c"])), 1: (Constant(v["b"]), "edge")},
    "dirichlet": lambda v: {
        0: (Dirichlet(v["c"]), Dirichlet(v["a"], at="node")),
        1: (Dirichlet(v["b"], at="node"), Dirichlet(v["d"])),
    },
    "neumann": lambda v: {
        0: (Neumann(v["c"], 0.5), Neumann(v["a"], v["d"], at="node")),
        1: (Neumann(0.0), Neumann(v["b"], v["a"])),
    },
    "robin": lambda v: {
        0: (Robin(v["a"], 2.0, v["c"], 0.5), Robin(2.0, v["d"], v["c"], v["a"], at="node")),
        1: (Robin(v["b"], 6.0, v["a"], v["d"]), Robin(-0.5, v["a"], v["b"], 0.5, at="node")),
    },
    "periods": lambda v: {
        0: (Wrap(add=v["c"]), Wrap(add=v["a"], shared=True)),
        1: (Wrap(add=v["b"]), Wrap(shared=True)),
    },
    "mirrors": lambda v: {0: (Reflect(odd=True), Symmetric(odd=True)), 1: (Extrapolate(2), Dirichlet(v["b"]))},
    "lines": lambda v: {
        0: (Extrapolate(1), Extrapolate(3)),
        1: (Robin(1.0, 3.0, v["b"], v["a"], at="node"), "reflect"),
    },
    "copies": lambda v: {0: ("wrap", "symmetric"), 1: (Neumann(0.0, at="node"), Extrapolate(0))},
}
LINES: dict[str, Walls] = {
    "constant and dirichlet": lambda v: {0: (Constant(v["a"]), Dirichlet(v["e"]))},
    "dirichlet and neumann": lambda v: {0: (Dirichlet(v["e"], at="node"), Neumann(v["a"], v["e"]))},
    "neumann and robin": lambda v: {0: (Neumann(v["e"], v["a"], at="node"), Robin(v["a"], 2.0, v["e"], 0.5))},
    "robin and period": lambda v: {0: (Robin(2.0, v["e"], v["a"], 0.5, at="node"), Wrap(add=v["a"]))},
    "period and mirror": lambda v: {0: (Wrap(add=v["a"], shared=True), Reflect(odd=True))},
    "mirror and line": lambda v: {0: (Symmetric(odd=True), Extrapolate(2))},
}

by_mixture = pytest.mark.parametrize("name", MIXTURES)


def around(u: Any) -> Any:
    """Nonlinear and asymmetric; corners, and two cells away along axis 1."""
    return jnp.sin(u[-1, 0]) * u[0, 2] + 0.3 * u[1, 1] * u[-1, -1] - 0.5 * u[0, -2]


def rows(u: Any) -> Any:
    return jnp.sin(0.5 * u[-1, 0]) + 0.3 * u[1, 1] * u[0, 0] - 0.25 * u[-1, 1]


def cells(u: Any) -> Any:
    return jnp.sin(0.5 * u[-1, 0]) + 0.3 * u[0, -1] * u[0, 1] - 0.25 * u[1, -1]


def along(u: Any) -> Any:
    return jnp.sin(0.5 * u[-1]) * u[-2] + 0.3 * u[1] * u[2] - 0.25 * u[0]


def given(walls: Walls) -> dict[int, Any]:
    """The same walls with functions in place of values: each takes its own from the parameter `v`."""

    class Asked(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            return lambda v: v[key]

    return walls(Asked())


def with_values(kernel: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda u, v: kernel(u) + 0 * v["a"]


def gradients(function: Callable[..., Any], *arguments: Any) -> None:
    """Under jit, along a random direction: forward mode against central differences, and reverse mode against it."""
    rng = np.random.default_rng(5)
    directions = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=np.shape(leaf))), arguments)

    @quickly
    def at(step: Any) -> tuple[Any, Any, Any, Any]:
        moved = jax.tree.map(lambda leaf, d: leaf + step * d, arguments, directions)
        value, along = jax.jvp(function, moved, directions)
        weights = jnp.cos(jnp.arange(value.size)).reshape(value.shape)
        pulled = jax.vjp(function, *moved)[1](weights)
        back = sum(jnp.vdot(p, d) for p, d in zip(jax.tree.leaves(pulled), jax.tree.leaves(directions)))
        return value, along, jnp.vdot(weights, along), back

    h = 1e-5
    _, along, weighted, back = at(0.0)
    np.testing.assert_allclose(along, (at(h)[0] - at(-h)[0]) / (2 * h), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(back, weighted, rtol=1e-9)
    assert np.abs(along).max() > 1e-3


# Gradients for fields and for values


@by_mixture
def test_gradients_of_maps(name: str) -> None:
    """Values by parameters; under jit."""
    stencil = sx.kmap(with_values(around), padding="same", boundary=given(MIXTURES[name]))
    gradients(stencil, X, VALUES)


@by_mixture
def test_gradients_for_values_that_are_traced_where_walls_are_written(name: str) -> None:
    def run(x: Any, v: Any) -> Any:
        return sx.kmap(around, padding="same", boundary=MIXTURES[name](v))(x)

    gradients(run, X, VALUES)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", LINES)
def test_gradients_of_sweeps_along_a_line(name: str, reverse: bool) -> None:
    stencil = sx.kscan(with_values(along), padding="same", boundary=given(LINES[name]), reverse=reverse)
    gradients(stencil, X[0], VALUES)


@pytest.mark.parametrize(
    ("name", "kernel", "options"),
    [
        ("constants", rows, {}),
        ("dirichlet", cells, {"schedule": "cells"}),
        ("neumann", cells, {"schedule": "wavefront"}),
    ],
    ids=["rows", "cells", "wavefront"],
)
def test_gradients_of_sweeps_in_a_plane(name: str, kernel: Any, options: dict[str, Any]) -> None:
    stencil = sx.kscan(with_values(kernel), padding="same", boundary=given(MIXTURES[name]), **options)
    assert stencil.schedule(X, VALUES) == options.get("schedule", "rows")
    gradients(stencil, X, VALUES)


@pytest.mark.parametrize("at", ["face", "node"])
def test_gradients_in_closed_form(at: str) -> None:
    """The ghost of a wall on a line, entry by entry: 2*v - u, u + dx*s, ..."""
    x, v = jnp.array([1.0, -2.0, 4.0]), jnp.asarray(0.75)
    mirror = 0 if at == "face" else 1
    apart = 0.5 if at == "face" else 1.0

    def ghost(rule: Any) -> Any:
        return sx.kmap(lambda u: u[-1], padding="same", boundary={0: (rule, 0)})

    for make, for_value, for_mirror in (
        (lambda v: Dirichlet(v, at=at), 2.0, -1.0),
        (lambda v: Neumann(v, 0.5, at=at), apart, 1.0),
        (lambda v: Neumann(0.5, v, at=at), 0.5 * apart / 0.5, 1.0),
    ):
        found, for_v = jax.grad(lambda x, v, make=make: ghost(make(v))(x)[0], argnums=(0, 1))(x, v)
        expected = np.zeros(3)
        expected[mirror] = for_mirror
        np.testing.assert_allclose(found, expected)
        np.testing.assert_allclose(for_v, for_value)


def test_a_value_gets_its_own_cells_part_of_a_gradient() -> None:
    """Each entry of an array over the face, against differences of the reference backend."""

    def boundary(c: Any) -> dict[int, Any]:
        return {0: (Dirichlet(c), Neumann(c, 0.5)), 1: "wrap"}

    def loss(run: Any, where: Any, c: Any) -> Any:
        weights = np.cos(np.arange(20.0)).reshape(4, 5)
        return (where.sin(run(c)) * weights).sum()

    def linear(u: Any) -> Any:
        return u[-1, 1] - 2 * u[1, -2] * u[0, 0]

    def on(backend: str, field: Any) -> Callable[[Any], Any]:
        return lambda c: sx.kmap(linear, padding="same", boundary=boundary(c), backend=backend)(field)

    found = jax.grad(lambda c: loss(on("jax", X), jnp, c))(VALUES["c"])
    expected = slopes(lambda c: loss(on("numpy", np.asarray(X)), np, np.asarray(c)), VALUES["c"])
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert np.abs(expected).min() > 1e-3


def test_gradients_through_a_time_loop() -> None:
    """A rod whose ends are driven: how the mean at the end depends on amplitude, loss and initial state."""
    boundary = {0: (Dirichlet(lambda t, v: v["amp"] * jnp.sin(t)), Robin(1.0, 0.5, lambda v: v["out"], 0.25))}

    @sx.kmap(padding="same", boundary=boundary)
    def heat(u: Any, t: Any, v: Any) -> Any:
        return u[0] + 0.2 * (u[-1] - 2 * u[0] + u[1]) - 0.01 * u[0] ** 2

    def run(u: Any, v: Any) -> Any:
        return lax.fori_loop(0, 12, lambda n, u: heat(u, 0.3 * n, v), u).mean()

    gradients(run, X[0], {"amp": jnp.asarray(1.5), "out": jnp.asarray(-0.5)})


def test_second_derivatives() -> None:
    stencil = sx.kmap(lambda u, v: jnp.sin(u[-1]) * u[1], padding="same", boundary=Robin(1.0, 2.0, lambda v: v, 0.5))
    check_grads(stencil, (X[0], 0.7), order=2, modes=("rev",), atol=1e-5, rtol=1e-5)


# vmap


def by_reference(maker: Any, kernel: Any, name: str, x: Any, v: Any) -> np.ndarray:
    boundary = MIXTURES[name]({key: np.asarray(value) for key, value in v.items()})
    return maker(kernel, padding="same", boundary=boundary, backend="numpy")(np.asarray(x))


@pytest.mark.parametrize(("maker", "name"), [(sx.kmap, "robin"), (sx.kmap, "periods"), (sx.kscan, "neumann")])
def test_vmap_over_values(maker: Any, name: str) -> None:
    """A batch of values around one field, and of both."""
    batch = {key: jnp.stack([value, 1.5 * value, value + 0.25]) for key, value in VALUES.items()}
    stencil = maker(with_values(cells), padding="same", boundary=given(MIXTURES[name]))
    one = [{key: value[i] for key, value in batch.items()} for i in range(3)]
    expected = [by_reference(maker, cells, name, X, v) for v in one]
    np.testing.assert_allclose(jax.vmap(stencil, in_axes=(None, 0))(X, batch), expected, rtol=1e-10)
    fields = jnp.stack([X, -X, X**2])
    expected = [by_reference(maker, cells, name, x, v) for x, v in zip(fields, one)]
    np.testing.assert_allclose(jax.jit(jax.vmap(stencil))(fields, batch), expected, rtol=1e-10)


def test_gradients_of_a_batch() -> None:
    stencil = sx.kmap(lambda u, v: u[-1] * u[1], padding="same", boundary=Dirichlet(lambda v: v))
    batch = jnp.array([0.5, -1.0, 2.0])
    whole = jax.vmap(jax.grad(lambda x, v: stencil(x, v).sum(), argnums=(0, 1)), in_axes=(None, 0))(X[0], batch)
    for number, v in enumerate(batch):
        one = jax.grad(lambda x, v: stencil(x, v).sum(), argnums=(0, 1))(X[0], v)
        np.testing.assert_allclose(whole[0][number], one[0])
        np.testing.assert_allclose(whole[1][number], one[1])


# Traced values


def difference(u: Any) -> Any:
    return u[-1, 0] - 2 * u[0, 1]


def test_a_traced_number_or_array_as_boundary() -> None:
    x = np.asarray(X)
    for given_value in (1.5, 2, jnp.asarray(-0.5), jnp.asarray([2.5])):
        run = jax.jit(lambda x, v: sx.kmap(difference, padding="same", boundary=v)(x))
        whole = np.pad(x, 1, constant_values=np.asarray(given_value).item())
        np.testing.assert_allclose(run(X, given_value), whole[:-2, 1:-1] - 2 * whole[1:-1, 2:])


def test_traced_values_by_axis_side_and_field() -> None:
    def kernel(u: Any, h: Any) -> Any:
        return u[-1, 0] * h[0, 1] - u[1, 1]

    def boundary(c: Any, d: Any) -> dict[str, Any]:
        return {"u": {0: (c, Dirichlet(c)), 1: ("wrap", d)}, "h": Neumann(d, 0.5)}

    def run(x: Any, c: Any, d: Any, backend: str = "jax") -> Any:
        stencil = sx.kmap(kernel, fields=2, padding="same", boundary=boundary(c, d), backend=backend)
        return stencil(x, 2 * x)

    c, d = VALUES["c"], jnp.asarray(0.75)
    expected = run(np.asarray(X), np.asarray(c), np.asarray(d), "numpy")
    np.testing.assert_allclose(jax.jit(run)(X, c, d), expected, rtol=1e-12)
    np.testing.assert_allclose(run(X, c, d), expected, rtol=1e-12)


def test_functions_that_close_over_traced_values() -> None:
    def run(x: Any, c: Any, t: Any) -> Any:
        F = sx.kmap(padding="same", boundary={0: (Dirichlet(lambda t: c * t), Constant(lambda: 2 * c)), 1: "edge"})
        F[...] = lambda u, t: u[-1, 0] * t - 2 * u[1, 1]
        F[1:3] = lambda u, t: u[0, 0] - u[1, 0]
        return F(x, t)

    x, c = np.asarray(X), np.asarray(VALUES["c"])
    low, high = 2 * c * 0.5 - x[0], 2 * c
    whole = np.pad(np.vstack([low, x, high]), ((0, 0), (1, 1)), mode="edge")
    expected = whole[:-2, 1:-1] * 0.5 - 2 * whole[2:, 2:]
    expected[1:3] = (whole[1:-1, 1:-1] - whole[2:, 1:-1])[1:3]
    np.testing.assert_allclose(jax.jit(run)(X, VALUES["c"], 0.5), expected, rtol=1e-12)
    gradients(run, X, VALUES["c"], jnp.asarray(0.5))


@pytest.mark.parametrize("schedule", ["cells", "wavefront"])
def test_traced_values_of_a_sweep(schedule: str) -> None:
    def run(x: Any, c: Any, backend: str = "jax") -> Any:
        walls = {0: (Dirichlet(c), Robin(1.0, 2.0, c, 0.5)), 1: (c[:4], "wrap")}
        return sx.kscan(
            lambda u: 0.5 * u[-1, 0] + 0.25 * u[0, -1] - 0.125 * u[1, 1],
            padding="same",
            boundary=walls,
            schedule=schedule,
            backend=backend,
        )(x)

    expected = run(np.asarray(X), np.asarray(VALUES["c"]), "numpy")
    np.testing.assert_allclose(jax.jit(run)(X, VALUES["c"]), expected, rtol=1e-12)


# Nothing is done twice


def test_other_values_trace_and_compile_nothing_anew() -> None:
    count = Counted()
    boundary = {0: (Dirichlet(lambda k: k), Neumann(lambda k: k**2, 0.5)), 1: (Constant(lambda k: 3 * k), "edge")}
    stencil = count.stencil(padding="same", boundary=boundary)
    x = np.asarray(X)
    first = stencil(x, 1.5).block_until_ready()
    traced = len(count)
    with compilations() as seen:
        others = [stencil(x, k).block_until_ready() for k in (2.5, -1.0, 0.0)]
    assert len(count) == traced
    assert seen == []
    assert all(not np.allclose(first, other) for other in others)


def test_other_arrays_trace_and_compile_nothing_anew() -> None:
    calls = []

    def kernel(u: Any, wall: Any) -> Any:
        calls.append(u)
        return u[-1, 0] - u[0, 0]

    stencil = sx.kmap(kernel, padding="same", boundary={0: (Dirichlet(lambda wall: wall), 0)})
    walls = [np.asarray(VALUES["c"]) * scale for scale in (1.0, 2.0, -3.0)]
    stencil(X, walls[0]).block_until_ready()
    traced = len(calls)
    with compilations() as seen:
        found = [stencil(X, wall).block_until_ready() for wall in walls[1:]]
    assert (len(calls), seen) == (traced, [])
    for wall, result in zip(walls[1:], found):
        np.testing.assert_allclose(result[0], 2 * wall - 2 * X[0], rtol=1e-12)


def test_jit_around_a_wall_traces_once() -> None:
    calls = []

    def kernel(u: Any, t: Any) -> Any:
        calls.append(t)
        return u[-1, 0] - u[1, 0]

    stencil = sx.kmap(kernel, padding="same", boundary=Dirichlet(lambda t: jnp.sin(t)))
    run = jax.jit(lambda x, t: stencil(x, t))
    for t in (0.5, 1.5, -2.0):
        np.testing.assert_allclose(run(X, t)[0], 2 * np.sin(t) - X[0] - X[1], rtol=1e-12)
    assert len(calls) == 1


# float32


@by_mixture
def test_float32_stays_float32(name: str) -> None:
    """Python numbers, traced Python numbers and arrays of float32 widen nothing, though float64 is allowed."""
    x, v = X.astype(jnp.float32), {key: value.astype(jnp.float32) for key, value in VALUES.items()}
    assert (
        jax.eval_shape(lambda x, v: sx.kmap(around, padding="same", boundary=MIXTURES[name](v))(x), x, v).dtype
        == x.dtype
    )
    plain = dict(v, a=1.25)
    assert sx.kmap(around, padding="same", boundary=MIXTURES[name](plain))(x).dtype == jnp.float32
    traced = sx.kmap(with_values(around), padding="same", boundary=given(MIXTURES[name]))
    assert jax.eval_shape(traced, x, plain).dtype == jnp.float32
    swept = sx.kscan(with_values(cells), padding="same", boundary=given(MIXTURES[name]))
    assert jax.eval_shape(swept, x, plain).dtype == jnp.float32


def test_float64_values_widen_float32() -> None:
    stencil = sx.kmap(difference, padding="same", boundary={0: (Dirichlet(VALUES["c"]), 0)})
    assert stencil(X.astype(jnp.float32)).dtype == jnp.float64


# What walls cost: on 300 x 200 cells

LARGE = jnp.zeros((300, 200))
COSTS: dict[str, Any] = {
    "wrap": "wrap",
    "edge": "edge",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "constant": Constant(1.5),
    "wrap, adding": Wrap(add=2.5),
    "wrap, shared": Wrap(shared=True),
    "odd reflect": Reflect(odd=True),
    "dirichlet": Dirichlet(1.5),
    "dirichlet at nodes": Dirichlet(1.5, at="node"),
    "neumann": Neumann(-0.5, 0.25),
    "without flux": Neumann(0.0),
    "robin": Robin(1.0, 2.0, 3.0, 0.5),
    "extrapolate": Extrapolate(2),
    "arrays": {0: (jnp.ones(200), Dirichlet(jnp.ones(200))), 1: (Neumann(jnp.ones(300), 0.5), Constant(jnp.ones(1)))},
    "functions": {0: (Dirichlet(lambda: 2.0), Neumann(lambda: jnp.ones(200), 0.5)), 1: Constant(lambda: jnp.ones(1))},
    "mixed": {0: ("wrap", Dirichlet(1.5)), 1: (Extrapolate(1), "edge")},
}
KERNELS: dict[str, Callable[[Any], Any]] = {
    "cross": lambda u: u[1, 0] + u[-1, 0] + u[0, 1] + 2 * u[0, -1] - 5 * u[0, 0],
    "corners": lambda u: u[1, 1] - u[-1, -1] + u[2, -1] * u[0, 0],
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", COSTS)
def test_walls_cost_strips(name: str, kernel: str) -> None:
    """No gather, no roll, no padded copy: what is put together is a strip, and the result is the largest array."""
    stencil = sx.kmap(KERNELS[kernel], padding="same", boundary=COSTS[name])
    eqns = equations_of(stencil, LARGE)
    sizes: dict[str, int] = {}
    for eqn in eqns:
        largest = max(var.aval.size for var in eqn.outvars)
        sizes[eqn.primitive.name] = max(sizes.get(eqn.primitive.name, 0), largest)
    assert not {"gather", "scatter", "scatter-add", "dynamic_slice", "select_n", "scan", "while"} & set(sizes)
    assert max(sizes.values()) == LARGE.size
    strips = 10 * sum(LARGE.shape)
    assert max(sizes.get(made, 0) for made in ("concatenate", "rev")) <= strips
    whole = [eqn for eqn in eqns if max(var.aval.size for var in eqn.outvars) == LARGE.size]
    assembled = {"dynamic_update_slice", "broadcast_in_dim"}  # of the result; constants are padded on, which is fused
    if name != "constant":
        assert {eqn.primitive.name for eqn in whole} <= assembled
        assert sum(eqn.primitive.name == "broadcast_in_dim" for eqn in whole) <= 1


def test_a_padded_copy_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other lowering, which small fields take, holds arrays larger than the result."""
    import stencilx_jax.map

    monkeypatch.setattr(stencilx_jax.map, "STRIPS_FROM", 1 << 60)
    stencil = sx.kmap(KERNELS["corners"], padding="same", boundary=Dirichlet(1.5))
    assert max(var.aval.size for eqn in equations_of(stencil, LARGE) for var in eqn.outvars) > LARGE.size


def test_values_of_large_fields() -> None:
    """The lowering by strips gives the numbers of the reference, here where it is taken."""
    x = RNG.normal(size=(220, 160))
    edge = RNG.normal(size=160)
    boundary = {0: (Dirichlet(edge), Extrapolate(1)), 1: (Robin(1.0, 2.0, 3.0, 0.5), "wrap")}
    found = sx.kmap(KERNELS["corners"], padding="same", boundary=boundary)(jnp.asarray(x))
    expected = sx.kmap(KERNELS["corners"], padding="same", boundary=boundary, backend="array_api")(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
