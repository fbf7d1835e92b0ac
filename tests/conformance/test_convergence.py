"""Manufactured solutions: with Dirichlet, Neumann and Robin walls errors fall with the square of the cells' size.

A solution is chosen, a source makes it one of the heat equation, and each wall is told what it does there: its value,
its slope along the outward normal, or both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import stencilx as sx
from stencilx.boundary import Dirichlet, Extrapolate, Neumann, Robin

LENGTH = 1.5
FINAL = 0.25


def rms(difference: Any) -> float:
    return float(jnp.sqrt(jnp.mean(difference**2)))


def second_order(errors: list[float]) -> bool:
    """Whether errors of n, 2n and 4n cells fall by four each time."""
    return all(3.6 < coarse / fine < 4.4 for coarse, fine in itertools.pairwise(errors))


# A rod


def exact(x: Any, t: Any) -> Any:
    return 1 + jnp.sin(1.3 * x + 0.4) * jnp.exp(-t) + 0.3 * t * x**2


def slope(x: Any, t: Any) -> Any:
    return 1.3 * jnp.cos(1.3 * x + 0.4) * jnp.exp(-t) + 0.6 * t * x


def source(x: Any, t: Any) -> Any:
    """What is left of u_t - u_xx."""
    return (1.3**2 - 1) * jnp.sin(1.3 * x + 0.4) * jnp.exp(-t) + 0.3 * x**2 - 0.6 * t


Make = Callable[[float, float, float, str], Any]
WALLS: dict[str, Make] = {
    "dirichlet": lambda x, normal, dx, at: Dirichlet(lambda t: exact(x, t), at=at),
    "neumann": lambda x, normal, dx, at: Neumann(lambda t: normal * slope(x, t), dx, at=at),
    "robin": lambda x, normal, dx, at: Robin(
        2.0, 0.5, lambda t: 2.0 * exact(x, t) + 0.5 * normal * slope(x, t), dx, at=at
    ),
    "robin with a varying transfer": lambda x, normal, dx, at: Robin(
        lambda t: 1 + t, 0.75, lambda t: (1 + t) * exact(x, t) + 0.75 * normal * slope(x, t), dx, at=at
    ),
}


def error_of_rod(n: int, low: Make, high: Make, at: str) -> float:
    """The error at the end, of n cells; with walls at nodes the end cells are the walls."""
    dx = LENGTH / n if at == "face" else LENGTH / (n - 1)
    x = jnp.asarray((np.arange(n) + 0.5) * dx if at == "face" else np.arange(n) * dx)
    steps = int(np.ceil(FINAL / (0.4 * dx**2)))
    dt = FINAL / steps
    F = sx.kmap(
        fields=2, padding="same", boundary={"u": {0: (low(0.0, -1.0, dx, at), high(LENGTH, 1.0, dx, at))}, "s": 0}
    )
    F[...] = lambda u, s, t: u[0] + dt * ((u[-1] - 2 * u[0] + u[1]) / dx**2 + s[0])

    @jax.jit
    def run(u: Any) -> Any:
        def step(number: Any, u: Any) -> Any:
            t = number * dt
            new = F(u, source(x, t), t)
            if at == "node":  # a wall with a value at a node is a cell of its own, which is given that value
                for end, wall in ((0, low), (-1, high)):
                    new = new.at[end].set(exact(x[end], t + dt)) if wall is WALLS["dirichlet"] else new
            return new

        return lax.fori_loop(0, steps, step, u)

    return rms(run(exact(x, 0.0)) - exact(x, FINAL))


@pytest.mark.parametrize("at", ["face", "node"])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("dirichlet", "neumann"),
        ("neumann", "robin"),
        ("robin", "dirichlet"),
        ("robin with a varying transfer", "neumann"),
    ],
)
def test_heat_in_a_rod(low: str, high: str, at: str) -> None:
    """Both sides differ, and all values change in time."""
    errors = [error_of_rod(n + (at == "node"), WALLS[low], WALLS[high], at) for n in (10, 20, 40)]
    assert second_order(errors), errors
    assert errors[-1] < 1e-3


def test_the_measure_can_fail() -> None:
    """A wall half a cell off its place, or a normal with the wrong sign, is no longer of second order."""

    def shifted(x: float, normal: float, dx: float, at: str) -> Any:
        return Dirichlet(lambda t: exact(x + normal * dx / 2, t), at=at)

    def turned(x: float, normal: float, dx: float, at: str) -> Any:
        return Neumann(lambda t: -normal * slope(x, t), dx, at=at)

    for wrong in (shifted, turned):
        errors = [error_of_rod(n, wrong, WALLS["neumann"], "face") for n in (10, 20, 40)]
        assert not second_order(errors), errors


# A plate: dx is not dy, and values vary along the walls


def plate(x: Any, y: Any, t: Any) -> Any:
    return jnp.sin(1.2 * x + 0.3) * jnp.cos(0.9 * y - 0.2) * jnp.exp(-t) + 0.5 * y


def along_x(x: Any, y: Any, t: Any) -> Any:
    return 1.2 * jnp.cos(1.2 * x + 0.3) * jnp.cos(0.9 * y - 0.2) * jnp.exp(-t)


def along_y(x: Any, y: Any, t: Any) -> Any:
    return -0.9 * jnp.sin(1.2 * x + 0.3) * jnp.sin(0.9 * y - 0.2) * jnp.exp(-t) + 0.5


def heating(x: Any, y: Any, t: Any) -> Any:
    return (1.2**2 + 0.9**2 - 1) * jnp.sin(1.2 * x + 0.3) * jnp.cos(0.9 * y - 0.2) * jnp.exp(-t)


def error_of_plate(n: int) -> float:
    wide, high = 1.5, 1.0
    dx, dy = wide / n, high / (n + n // 2)
    x, y = jnp.asarray((np.arange(n) + 0.5) * dx), jnp.asarray((np.arange(n + n // 2) + 0.5) * dy)
    steps = int(np.ceil(FINAL * (1 / dx**2 + 1 / dy**2) / 0.4))
    dt = FINAL / steps
    boundary = {
        0: (
            Dirichlet(lambda t: plate(0.0, y, t)),
            Robin(1.5, 0.5, lambda t: 1.5 * plate(wide, y, t) + 0.5 * along_x(wide, y, t), dx),
        ),
        1: (Neumann(lambda t: -along_y(x, 0.0, t), dy), Dirichlet(lambda t: plate(x, high, t))),
    }
    F = sx.kmap(fields=2, padding="same", boundary={"u": boundary, "s": 0})
    F[...] = lambda u, s, t: (
        u[0, 0]
        + dt * (u[-1, 0] - 2 * u[0, 0] + u[1, 0]) / dx**2
        + dt * (u[0, -1] - 2 * u[0, 0] + u[0, 1]) / dy**2
        + dt * s[0, 0]
    )
    xs, ys = x.reshape(-1, 1), y.reshape(1, -1)

    @jax.jit
    def run(u: Any) -> Any:
        return lax.fori_loop(0, steps, lambda i, u: F(u, heating(xs, ys, i * dt), i * dt), u)

    return rms(run(plate(xs, ys, 0.0)) - plate(xs, ys, FINAL))


def test_heat_in_a_plate() -> None:
    errors = [error_of_plate(n) for n in (6, 12, 24)]
    assert second_order(errors), errors


# A flow that leaves


def error_of_outflow(n: int) -> float:
    """u_t + u_x = 0 with one-sided slopes of second order; what comes in is told, what leaves is extrapolated."""
    dx = 1.0 / n
    x, dt = jnp.asarray((np.arange(n) + 0.5) * dx), 0.4 * dx

    def wave(x: Any, t: Any) -> Any:
        return jnp.sin(3.0 * (x - t)) + 0.2 * (x - t) ** 2

    F = sx.kmap(padding="same", boundary={0: (Dirichlet(lambda t: wave(0.0, t)), Extrapolate(2))})
    F[...] = lambda u, t: -(u[1] - u[-1]) / (2 * dx)

    def step(i: Any, u: Any) -> Any:
        """Runge and Kutta's, of third order."""
        t = i * dt
        first = F(u, t)
        second = F(u + dt / 2 * first, t + dt / 2)
        third = F(u - dt * first + 2 * dt * second, t + dt)
        return u + dt / 6 * (first + 4 * second + third)

    steps = round(0.8 / dt)
    final = jax.jit(lambda u: lax.fori_loop(0, steps, step, u))(wave(x, 0.0))
    return rms(final - wave(x, steps * dt))


def test_outflow() -> None:
    errors = [error_of_outflow(n) for n in (20, 40, 80)]
    assert second_order(errors), errors
