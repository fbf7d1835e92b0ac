"""Time loops: the same numbers as steps one by one, gradients, one compilation, and errors in the user's words."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stencilx as sx
from stencilx.boundary import Dirichlet

heat = sx.kmap(
    lambda u: u[0, 0] + 0.1 * (u[1, 0] + u[-1, 0]) + 0.05 * (u[0, 1] + u[0, -1]) - 0.3 * u[0, 0],
    padding="same",
    boundary={0: "wrap", 1: (Dirichlet(1.0), "edge")},
)


def start(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(3).normal(size=shape or (3, 5)))


def one_by_one(step: Any, state: Any, steps: int) -> Any:
    for _ in range(steps):
        state = step(state)
    return state


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 8])
def test_the_state_is_that_of_steps_one_by_one(steps):
    result = sx.iterate(heat, start(), steps)
    np.testing.assert_allclose(result.state, one_by_one(heat, start(), steps), rtol=1e-13)
    assert result.steps == steps


@pytest.mark.parametrize("backend", ["numpy", "array_api"])
def test_other_backends_take_the_steps_in_python(backend):
    with sx.use_backend(backend):
        state = sx.iterate(heat, np.asarray(start()), 5).state
    assert isinstance(state, np.ndarray)
    np.testing.assert_allclose(state, one_by_one(heat, start(), 5), rtol=1e-13)
    own = sx.iterate(heat.with_backend(backend), np.asarray(start()), 5).state
    np.testing.assert_array_equal(own, state)


def test_several_fields_go_in_as_arguments():
    @sx.kmap(fields=2, padding="same", boundary="wrap")
    def react(u, v):
        return u[0] + 0.1 * (u[-1] - u[0]) - 0.2 * u[0] * v[0], v[0] + 0.05 * (v[1] - v[0]) + 0.2 * u[0] * v[0]

    u, v = start(7), start(7) + 1
    got = sx.iterate(react, (u, v), 5).state
    for _ in range(5):
        u, v = react(u, v)
    np.testing.assert_allclose(got[0], u, rtol=1e-13)
    np.testing.assert_allclose(got[1], v, rtol=1e-13)


def test_any_other_tree_is_handed_over_whole():
    def step(state: dict[str, Any]) -> dict[str, Any]:
        return {"u": heat(state["u"]), "time": state["time"] + 0.5}

    result = sx.iterate(step, {"u": start(), "time": 0.0}, 3).state
    assert result["time"] == 1.5
    np.testing.assert_allclose(result["u"], one_by_one(heat, start(), 3), rtol=1e-13)


def test_walls_may_depend_on_time():
    wall = sx.kmap(lambda u, t: u[0] + 0.2 * (u[-1] - 2 * u[0] + u[1]), padding="same", boundary=Dirichlet(lambda t: t))
    got = sx.iterate(lambda u, t: (wall(u, t), t + 0.1), (start(5), 0.0), 4).state[0]
    u = start(5)
    for n in range(4):
        u = wall(u, 0.1 * n)
    np.testing.assert_allclose(got, u, rtol=1e-12)


# Under transformations


@pytest.mark.parametrize("steps", [4, 7])
def test_gradients_are_those_of_steps_one_by_one(steps):
    def total(run: Any) -> Any:
        return jax.grad(lambda u: (run(heat, u, steps) ** 3).sum())(start())

    got = total(lambda step, u, n: sx.iterate(step, u, n).state)
    np.testing.assert_allclose(got, total(one_by_one), rtol=1e-11)
    jitted = jax.jit(jax.grad(lambda u: (sx.iterate(heat, u, steps).state ** 3).sum()))(start())
    np.testing.assert_allclose(jitted, got, rtol=1e-12)


def test_gradients_for_what_a_step_closes_over():
    """The state is concrete, the weight is not."""

    def after(weight: Any) -> Any:
        step = sx.kmap(lambda u: u[0] + weight * (u[-1] - 2 * u[0] + u[1]), padding="same", boundary="edge")
        return (sx.iterate(step, start(6), 5).state ** 2).sum()

    slope = (after(0.2 + 1e-6) - after(0.2 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(after)(0.2), slope, rtol=1e-7)
    np.testing.assert_allclose(jax.jit(jax.grad(after))(0.2), slope, rtol=1e-7)


def test_vmap_over_states():
    batch = jnp.stack([start(), 2 * start(), start() - 1])
    got = jax.vmap(lambda u: sx.iterate(heat, u, 3).state)(batch)
    np.testing.assert_allclose(got, jnp.stack([one_by_one(heat, u, 3) for u in batch]), rtol=1e-12)


# Caches


def test_one_compilation_serves_all_numbers_of_steps():
    traces = []

    def step(u: Any) -> Any:
        traces.append(1)
        return heat(u)

    sx.iterate(step, start(), 4)
    first = len(traces)
    for steps in (6, 2, 100):
        sx.iterate(step, start(), steps)
    assert len(traces) == first


def test_a_step_that_is_written_in_a_loop_is_compiled_once():
    traces, rate, other = [], 0.1, jnp.ones((3, 5))

    def counted(u: Any) -> Any:
        traces.append(1)
        return heat(u)

    u, expected = start(), start()
    for _ in range(4):
        u = sx.iterate(lambda u: counted(u) + rate * other, u, 2).state
        expected = one_by_one(lambda u: heat(u) + rate * other, expected, 2)
    np.testing.assert_allclose(u, expected, rtol=1e-12)
    assert len(traces) < 10
    again = sx.iterate(lambda u: counted(u) + rate * other, u, 2).state  # another place, another loop
    np.testing.assert_allclose(again, one_by_one(lambda u: heat(u) + rate * other, expected, 2), rtol=1e-12)


def test_what_a_step_closes_over_may_differ_from_call_to_call():
    def after(weights: Any) -> Any:
        return sx.iterate(lambda u: heat(u) * weights, start(), 3).state

    for weights in (jnp.full((3, 5), 0.5), jnp.full((3, 5), 0.25)):
        np.testing.assert_allclose(after(weights), one_by_one(lambda u: heat(u) * weights, start(), 3), rtol=1e-12)  # noqa: B023


def test_a_number_that_has_changed_is_seen():
    rate = 0.1

    def step(u: Any) -> Any:
        return u + rate * lap(u)

    lap = sx.kmap(lambda u: u[-1] - 2 * u[0] + u[1], padding="same", boundary="edge")
    first = sx.iterate(step, start(5), 2).state
    rate = 0.3
    second = sx.iterate(step, start(5), 2).state
    np.testing.assert_allclose(second, one_by_one(lambda u: u + 0.3 * lap(u), start(5), 2), rtol=1e-13)
    assert np.abs(first - second).max() > 1e-3


def test_a_region_that_was_assigned_is_seen():
    F = sx.kmap(padding="same", boundary="edge")
    F[...] = lambda u: u[0] + 0.1 * (u[-1] - u[0])
    sx.iterate(F, start(5), 2)
    F[0] = 7.0
    assert sx.iterate(F, start(5), 2).state[0] == 7.0


def test_states_may_be_given_up():
    u = start()
    kept = one_by_one(heat, u, 3)
    np.testing.assert_allclose(sx.iterate(heat, u, 3).state, kept, rtol=1e-13)
    assert not u.is_deleted()
    np.testing.assert_allclose(sx.iterate(heat, u, 3, donate=True).state, kept, rtol=1e-13)
    assert u.is_deleted()


def test_the_body_of_the_loop_holds_two_steps_behind_fences():
    text = jax.jit(lambda u: sx.iterate(heat, u, 10).state).lower(start()).as_text()
    assert text.count("stablehlo.while") == 1
    assert text.count('inlineable = "false"') >= 2
    assert "gather" not in text


# Errors


def test_a_step_that_shrinks_the_state():
    shrink = sx.kmap(lambda u: u[-1] + u[1])
    with pytest.raises(sx.FieldError, match=r"a step makes float64\[3\] of a state of float64\[5\]"):
        sx.iterate(shrink, start(5), 2)
    with pytest.raises(sx.FieldError, match=r"a step makes float64\[3\] of a state of float64\[5\]"):
        sx.iterate(shrink.with_backend("numpy"), np.asarray(start(5)), 2)


def test_a_step_that_changes_the_dtype():
    half = sx.kmap(lambda u: u[0] / 2)
    with pytest.raises(sx.FieldError, match=r"a step makes float64\[4\] of a state of int64\[4\]"):
        sx.iterate(half, jnp.arange(4), 2)


def test_a_step_that_returns_another_structure():
    with pytest.raises(sx.FieldError, match="in another structure"):
        sx.iterate(lambda u: [heat(u)], start(), 2)


@pytest.mark.parametrize("steps", [-1, 2.5, True])
def test_steps_must_be_a_whole_number(steps):
    with pytest.raises(sx.StencilError, match="the number of steps must be"):
        sx.iterate(heat, start(), steps)
