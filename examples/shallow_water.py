"""Shallow water in a closed basin on an Arakawa C grid: depths at centres, velocities on the faces across them.

Run it with `python examples/shallow_water.py`. Four kinds of places, four shapes, and no class for a grid:

    q --- V --- q    h, b    centres   (ny, nx)            dh/dt = -(dU/dx + dV/dy)          U, V = u h, v h
    |           |    u, U    x faces   (ny, nx + 1)        du/dt = +q V - db/dx + friction
    U     h     U    v, V    y faces   (ny + 1, nx)        dv/dt = -q U - db/dy + friction
    |           |    q       corners   (ny + 1, nx + 1)    q = (f + dv/dx - du/dy) / h       b = g h + (u^2 + v^2)/2
    q --- V --- q

From one to the other goes a window of 2, and one cell outside where the result has a place more. No water crosses a
wall: u and v are 0 on the faces that lie in it, which have a region of their own. Along a wall the water slips or
sticks: that is the boundary of u in y and of v in x, half a cell from their last values. R. Sadourny, The dynamics of
finite-difference models of the shallow-water equations, Journal of the Atmospheric Sciences 32, 1975: the scheme that
keeps energy. The friction is viscosity times the Laplacian, as in a model of the ocean.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import stencilx as sx

IN_X, IN_Y = ((0, 0), (1, 1)), ((1, 1), (0, 0))
"""Paddings: one cell outside both walls, along x or along y."""


class State(NamedTuple):
    h: Any
    u: Any
    v: Any


class Basin(NamedTuple):
    """Cells of dy times dx, gravity, the Coriolis parameter and the viscosity."""

    dy: float
    dx: float
    g: float = 1.0
    f: float = 0.0
    viscosity: float = 0.0


# From centres to faces: what flows through them. The depth outside does not matter where the velocity is 0.


@sx.kmap(fields=("u", "h"), kernel_size={"u": 1, "h": (1, 2)}, padding={"u": 0, "h": IN_X}, relative=True)
def flux_x(u, h):
    return u[0, 0] * (h[0, 0] + h[0, 1]) / 2


@sx.kmap(fields=("v", "h"), kernel_size={"v": 1, "h": (2, 1)}, padding={"v": 0, "h": IN_Y}, relative=True)
def flux_y(v, h):
    return v[0, 0] * (h[0, 0] + h[1, 0]) / 2


# From faces to centres


@sx.kmap(fields=("U", "V"), kernel_size={"U": (1, 2), "V": (2, 1)}, relative=True)
def convergence(U, V, basin):
    return (U[0, 0] - U[0, 1]) / basin.dx + (V[0, 0] - V[1, 0]) / basin.dy


@sx.kmap(fields=("h", "u", "v"), kernel_size={"h": 1, "u": (1, 2), "v": (2, 1)}, relative=True)
def bernoulli(h, u, v, basin):
    return basin.g * h[0, 0] + (u[0, 0] ** 2 + u[0, 1] ** 2 + v[0, 0] ** 2 + v[1, 0] ** 2) / 4


# From both to corners. In the walls the value needs to be finite only: it is multiplied by a flux of 0.


@sx.kmap(
    fields=("u", "v", "h"),
    kernel_size={"u": (2, 1), "v": (1, 2), "h": 2},
    padding={"u": IN_Y, "v": IN_X, "h": 1},
    boundary="edge",
    relative=True,
)
def potential_vorticity(u, v, h, basin):
    curl = (v[0, 1] - v[0, 0]) / basin.dx - (u[1, 0] - u[0, 0]) / basin.dy
    return (basin.f + curl) * 4 / (h[0, 0] + h[0, 1] + h[1, 0] + h[1, 1])


# From all to faces: inside by a kernel, and in the walls by a number


def laplacian(u, basin):
    along_x = (u[0, -1] - 2 * u[0, 0] + u[0, 1]) / basin.dx**2
    return along_x + (u[-1, 0] - 2 * u[0, 0] + u[1, 0]) / basin.dy**2


def rate_x(u, q, V, b, basin):
    turned = (q[0, 0] * (V[0, 0] + V[0, 1]) + q[1, 0] * (V[1, 0] + V[1, 1])) / 4
    return turned - (b[0, 1] - b[0, 0]) / basin.dx + basin.viscosity * laplacian(u, basin)


def rate_y(v, q, U, b, basin):
    turned = (q[0, 0] * (U[0, 0] + U[1, 0]) + q[0, 1] * (U[0, 1] + U[1, 1])) / 4
    return -turned - (b[1, 0] - b[0, 0]) / basin.dy + basin.viscosity * laplacian(v, basin)


def rates_with(along_walls: sx.boundary.Rule) -> tuple[sx.Stencil, sx.Stencil]:
    """du/dt and dv/dt, where this is the rule of a velocity along a wall."""
    in_x = sx.kmap(
        fields=("u", "q", "V", "b"),
        kernel_size={"u": 3, "q": (2, 1), "V": 2, "b": (1, 2)},
        padding={"u": 1, "q": 0, "V": IN_X, "b": IN_X},
        boundary={"u": {0: along_walls}},
        relative=True,
    )
    in_x[:, 1:-1] = rate_x
    in_x[:, 0] = in_x[:, -1] = 0.0
    in_y = sx.kmap(
        fields=("v", "q", "U", "b"),
        kernel_size={"v": 3, "q": (1, 2), "U": 2, "b": (2, 1)},
        padding={"v": 1, "q": 0, "U": IN_Y, "b": IN_Y},
        boundary={"v": {1: along_walls}},
        relative=True,
    )
    in_y[1:-1] = rate_y
    in_y[0] = in_y[-1] = 0.0
    return in_x, in_y


WALLS = {"slips": rates_with(sx.boundary.Neumann(0.0)), "sticks": rates_with(sx.boundary.Dirichlet(0.0))}


# In time


def rates(state: State, basin: Basin, walls: str) -> State:
    """The time derivatives of all three fields."""
    h, u, v = state
    in_x, in_y = WALLS[walls]
    U, V = flux_x(u, h), flux_y(v, h)
    q, b = potential_vorticity(u, v, h, basin), bernoulli(h, u, v, basin)
    return State(convergence(U, V, basin), in_x(u, q, V, b, basin), in_y(v, q, U, b, basin))


@functools.partial(jax.jit, static_argnames=("steps", "walls"))
def advance(state: State, basin: Basin, dt: float, steps: int, walls: str = "slips") -> State:
    """Runge and Kutta's method of third order, in one compiled loop.

    In the form of C.-W. Shu and S. Osher, Efficient implementation of essentially non-oscillatory shock-capturing
    schemes, Journal of Computational Physics 77, 1988: averages of steps of Euler's.

    Args:
        state: h, shape (ny, nx), positive; u, shape (ny, nx + 1), and v, shape (ny + 1, nx), 0 in the walls.
        basin: spacings and constants, in any units that fit.
        dt: of a step. For slow water stable where sqrt(g h) * dt * sqrt(1/dx^2 + 1/dy^2) < 0.86.
        steps: how many.
        walls: whether the water along them "slips" or "sticks"; felt where there is viscosity.

    Returns:
        The state after all steps.
    """

    def euler(first: State, state: State, weight: float) -> State:
        """A step from a state, averaged with the first one."""
        by_rate = rates(state, basin, walls)
        return jax.tree.map(lambda old, x, rate: (1 - weight) * old + weight * (x + dt * rate), first, state, by_rate)

    def step(state: State) -> State:
        return euler(state, euler(state, euler(state, state, 1.0), 1 / 4), 2 / 3)

    return sx.iterate(step, State(*map(jnp.asarray, state)), steps).state


def mass(state: State, basin: Basin) -> float:
    """The volume, with a density of 1."""
    return float(np.sum(state.h)) * basin.dy * basin.dx


def energy(state: State, basin: Basin) -> float:
    """Kinetic energy, and potential energy above that of the same water at rest."""
    h, u, v = map(np.asarray, state)
    kinetic = np.sum(u * np.asarray(flux_x(u, h))) + np.sum(v * np.asarray(flux_y(v, h)))
    return float(kinetic + basin.g * np.sum((h - h.mean()) ** 2)) * basin.dy * basin.dx / 2


def example(ny: int = 30, nx: int = 50, viscosity: float = 0.0) -> tuple[State, Basin]:
    """A basin of 1 times 2, turning, with a hill of water out of its middle."""
    y, x = (np.arange(ny)[:, None] + 0.5) / ny, (np.arange(nx) + 0.5) * 2 / nx
    hill = 0.2 * np.exp(-(((x - 0.6) / 0.25) ** 2) - ((y - 0.4) / 0.2) ** 2)
    state = State(1 + hill, np.zeros((ny, nx + 1)), np.zeros((ny + 1, nx)))
    return state, Basin(1 / ny, 2 / nx, f=2.0, viscosity=viscosity)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    for walls, viscosity in (("slips", 0.0), ("slips", 1e-3), ("sticks", 1e-3)):
        first, basin = example(viscosity=viscosity)
        last = advance(first, basin, 0.01, 1000, walls)
        lost = mass(last, basin) / mass(first, basin) - 1
        left = energy(last, basin) / energy(first, basin)
        print(f"viscosity {viscosity}, {walls:6}: mass differs by {lost:.0e}, {left:.4f} of the energy is left,")
        print(f"    depths from {last.h.min():.3f} to {last.h.max():.3f}, fastest along x {abs(last.u).max():.3f}")


if __name__ == "__main__":
    main()
