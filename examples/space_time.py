"""Time stepping in one array of all times: row n is the state after n steps, and a sweep fills row after row.

Run it with `python examples/space_time.py`. The array has axes (time, x); a kernel reads the row above, `u[-1, ...]`,
which is new, and nothing of its own row: schedule `rows`, one `lax.scan` over whole rows. The whole history is there
to be drawn, or for a loss that looks at all times. The equations are the first ones of L. A. Barba and G. F. Forsyth,
CFD Python: the 12 steps to Navier-Stokes equations, Journal of Open Source Education 1 (9), 2018.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import stencilx as sx


def space_time(initial: ArrayLike, steps: int) -> jax.Array:
    """The initial row, and room for as many rows as there are steps: shape (steps + 1, n)."""
    first = jnp.asarray(initial)
    return jnp.zeros((steps + 1, *first.shape), first.dtype).at[0].set(first)


def initial_row(u, *parameters):
    """What the array holds there already."""
    return u[0, 0]


# Steps 1 and 2: convection to the right, with a wall on the left


def upwind(u, ratio):
    """du/dt + c du/dx = 0, backward in space; ratio is c dt/dx."""
    return u[-1, 0] - ratio * (u[-1, 0] - u[-1, -1])


def upwind_by_itself(u, ratio):
    """du/dt + u du/dx = 0; ratio is dt/dx."""
    return u[-1, 0] - ratio * u[-1, 0] * (u[-1, 0] - u[-1, -1])


linear = sx.kscan(relative=True, padding="same")
linear[:] = upwind
linear[:, 0] = 1.0  # the wall; the last assignment wins, so the initial row keeps its own first cell
linear[0] = initial_row

nonlinear = sx.kscan(relative=True, padding="same")
nonlinear[:] = upwind_by_itself
nonlinear[:, 0] = 1.0
nonlinear[0] = initial_row


def convect(initial: ArrayLike, steps: int, dt: float, dx: float, speed: ArrayLike | None = None) -> jax.Array:
    """Convection with a given speed, or with that of u itself (schedule `rows`).

    Upwind differences: R. Courant, E. Isaacson and M. Rees, On the solution of nonlinear hyperbolic differential
    equations by finite differences, Communications on Pure and Applied Mathematics 5, 1952.

    Args:
        initial: shape (n,); the wall on the left is 1 from the first step on.
        steps: how many.
        dt, dx, speed: in any units that fit. Stable where 0 <= speed * dt/dx <= 1.

    Returns:
        All states, shape (steps + 1, n).
    """
    states = space_time(initial, steps)
    return nonlinear(states, dt / dx) if speed is None else linear(states, speed * dt / dx)


# Step 4: Burgers' equation on a ring


burgers_rows = sx.kscan(relative=True, padding="same", boundary={1: "wrap"})
burgers_rows[1:] = lambda u, convection, diffusion: (
    u[-1, 0] - convection * u[-1, 0] * (u[-1, 0] - u[-1, -1]) + diffusion * (u[-1, -1] - 2 * u[-1, 0] + u[-1, 1])
)
burgers_rows[0] = initial_row


def burgers(initial: ArrayLike, steps: int, dt: float, dx: float, viscosity: ArrayLike) -> jax.Array:
    """du/dt + u du/dx = viscosity d2u/dx2, periodic (schedule `rows`).

    J. M. Burgers, A mathematical model illustrating the theory of turbulence, Advances in Applied Mechanics 1, 1948.

    Args:
        initial: shape (n,), positive; the point after the last is the first one again.
        steps: how many.
        dt, dx, viscosity: in any units that fit. Stable where u * dt/dx + 2 * viscosity * dt/dx^2 <= 1.

    Returns:
        All states, shape (steps + 1, n).
    """
    return burgers_rows(space_time(initial, steps), dt / dx, viscosity * dt / dx**2)


def saw_tooth(x: np.ndarray, time: float, viscosity: float) -> np.ndarray:
    """An exact solution with period 2 pi for short times (J. D. Cole, Quarterly of Applied Mathematics 9, 1951)."""
    centres = np.array([0.0, 2 * np.pi])[:, None] + 4 * time
    spread = 2 * viscosity * (time + 1)
    humps = np.exp(-((x - centres) ** 2) / (2 * spread))
    slope = (-(x - centres) / spread * humps).sum(0)
    return 4 - 2 * viscosity * slope / humps.sum(0)


def hat(x: np.ndarray) -> np.ndarray:
    """2 between 0.5 and 1, else 1."""
    return np.where((x >= 0.5) & (x <= 1), 2.0, 1.0)


def main() -> None:
    x = np.linspace(0, 2, 41)
    first = hat(x)
    last = convect(first, 25, 0.025, x[1] - x[0], speed=1.0)[-1]
    print(f"a hat from 0.5 to 1, at speed 1 for 0.625: its mean is at {np.sum(x * (last - 1)) / np.sum(last - 1):.3f}")
    print(f"the same at its own speed: highest {convect(first, 20, 0.025, x[1] - x[0])[-1].max():.3f}")

    def final_sum(speed: jax.Array) -> jax.Array:
        return jnp.sum(x * convect(first, 25, 0.025, x[1] - x[0], speed)[-1])

    print(f"d(sum of x u)/d(speed): {jax.jit(jax.grad(final_sum))(jnp.asarray(1.0)):.3f}")
    for n in (100, 400):
        x, dx = np.arange(n) * 2 * np.pi / n, 2 * np.pi / n
        steps = 5 * n
        last = burgers(saw_tooth(x, 0, 0.07), steps, 0.5 / steps, dx, 0.07)[-1]
        error = np.abs(last - saw_tooth(x, 0.5, 0.07)).mean()
        print(f"Burgers on {n} points: {error:.4f} from the exact solution, on average")


if __name__ == "__main__":
    main()
