"""Time loops, compiled whole: the heat equation, the wave equation in three dimensions, Gray-Scott with two fields."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import stencilx as sx
from benchmarks.row import Case, Maker, Row, Size, Target, Way, calls, jitted, laplacian_of, loops, normal
from benchmarks.rows.maps import EIGHTH_ORDER, Centred, five_points, star

RATE = np.float32(0.1)
FEED, KILL = np.float32(0.035), np.float32(0.065)


def warm(u: Any) -> Any:
    """The heat equation, one step."""
    return u[0, 0] + RATE * five_points(u)


def slices_of_heat(u: jax.Array) -> jax.Array:
    return u + RATE * (lambda p: p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)(jnp.pad(u, 1))


def steps_of(step: Callable[[Any], Any], steps: int) -> Callable[[Any], Any]:
    """What a user of JAX writes."""
    return lambda state: lax.fori_loop(0, steps, lambda _, now: step(now), state)


def kernex_steps(kernel: Callable[..., Any], steps: int, state: Any, **options: Any) -> Maker:
    def make() -> Way:
        step = importlib.import_module("kernex").kmap(relative=True, **options)(kernel)
        return jitted(steps_of(step, steps), state)()

    return make


def heated(u: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        u = u + RATE * laplacian_of(u)
    return u


def heat(size: Size) -> Case:
    *shape, steps = size
    host = normal(*shape)
    u = jnp.asarray(host)
    step = sx.kmap(warm, padding="same")
    ways = {
        "stencilx": calls(lambda: sx.iterate(step, u, steps).state),
        "jnp slices in fori_loop": jitted(steps_of(slices_of_heat, steps), u),
        "kernex in fori_loop": kernex_steps(warm, steps, u, kernel_size=(3, 3), padding="same"),
        "numba loops": loops("heat", host, RATE, steps),
    }
    return Case(ways, heated(host, steps), moved=2 * steps * host.nbytes)


def wave(size: Size) -> Case:
    """The state is the field now and one step before."""
    *shape, steps = size
    now, before = normal(*shape), normal(*shape, seed=1)
    state = (jnp.asarray(now), jnp.asarray(before))

    @sx.kmap(fields=2, padding="same")
    def leap(u: Any, old: Any) -> Any:
        return 2 * u[0, 0, 0] - old[0, 0, 0] + RATE * star(u)

    def step(u: Any, old: Any) -> Any:
        return leap(u, old), u

    def slices(u: Any, old: Any) -> Any:
        return 2 * u - old + RATE * star(Centred((jnp if isinstance(u, jax.Array) else np).pad(u, 4)))

    ways = {
        "stencilx": calls(lambda: sx.iterate(step, state, steps).state[0]),
        "jnp slices in fori_loop": jitted(lambda s: steps_of(lambda s: (slices(*s), s[0]), steps)(s)[0], state),
        "numba loops": loops("wave", now, before, np.array(EIGHTH_ORDER, np.float32), RATE, steps),
    }
    moved = 3 * steps * now.nbytes
    for _ in range(steps):
        now, before = slices(now, before), now
    return Case(ways, now, tolerance=1e-4, moved=moved)


def react(a: Any, b: Any, spread_a: Any, spread_b: Any) -> Any:
    """One step of Gray-Scott from two substances and their Laplacians."""
    reaction = a * b * b
    grown = b + np.float32(0.08) * spread_b + reaction - (FEED + KILL) * b
    return a + np.float32(0.16) * spread_a - reaction + FEED * (1 - a), grown


def gray_scott(size: Size) -> Case:
    *shape, steps = size
    a, b = 1 - 0.1 * abs(normal(*shape)).clip(0, 2), np.zeros(shape, np.float32)
    middle = tuple(slice(n // 3, n // 2) for n in shape)
    a[middle], b[middle] = 0.5, 0.25
    state = (jnp.asarray(a), jnp.asarray(b))

    @sx.kmap(fields=2, padding="same", boundary="wrap")
    def step(a: Any, b: Any) -> Any:
        return react(a[0, 0], b[0, 0], five_points(a), five_points(b))

    def rolled(u: Any) -> Any:
        roll = (jnp if isinstance(u, jax.Array) else np).roll
        return roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u

    def rolling(s: Any) -> Any:
        return react(*s, *map(rolled, s))

    ways = {
        "stencilx": calls(lambda: sx.iterate(step, state, steps).state),
        "jnp.roll in fori_loop": jitted(steps_of(rolling, steps), state),
        "numba loops": loops("gray_scott", a, b, FEED, KILL, steps),
    }
    expected = (a, b)
    for _ in range(steps):
        expected = rolling(expected)
    return Case(ways, expected, tolerance=1e-4, moved=4 * steps * a.nbytes)


ROWS: tuple[Row, ...] = (
    Row(
        "heat", "heat equation, {} x {}, {} steps", (2048, 2048, 100), (48, 70, 6), heat, (Target("numba loops", 1.2),)
    ),
    Row(
        "wave",
        "wave equation of 8th order, {} x {} x {}, {} steps",
        (160, 160, 160, 50),
        (14, 16, 18, 4),
        wave,
        (Target("numba loops", 2.0),),
    ),
    Row(
        "gray-scott",
        "Gray-Scott, two periodic fields, {} x {}, {} steps",
        (1024, 1024, 200),
        (48, 70, 6),
        gray_scott,
        (Target("numba loops", 2.2),),
    ),
)
