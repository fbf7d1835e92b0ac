"""Transport by a given flow, upwind and in flux form: what leaves one cell enters the next one, so nothing is lost.

Run it with `python examples/transport.py`. Amounts live in n cells, velocities and fluxes on the n + 1 faces:

    face      0     1     2     3          flux[i] = v[i] * c[i-1]   where v[i] > 0
              |  0  |  1  |  2  |                    v[i] * c[i]     where v[i] < 0
    cell         c     c     c             c[i] -= dt/dx * (flux[i+1] - flux[i])

A window of 2 cells, with one cell outside each end, has a place for each face; a window of 2 faces has one for each
cell. What lies outside is the boundary of c: the cells of the other end on a ring, nothing between walls, and where
the flow comes in, its concentration at that time. R. Courant, E. Isaacson and M. Rees, On the solution of nonlinear
hyperbolic differential equations by finite differences, Communications on Pure and Applied Mathematics 5, 1952.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import stencilx as sx


def donor(c, v, time):
    """What crosses a face comes from the cell that lies upwind: c[0] before the face, c[1] behind it."""
    return jnp.maximum(v[0], 0) * c[0] + jnp.minimum(v[0], 0) * c[1]


def fluxes(boundary: Any) -> sx.Stencil:
    """A stencil of c, v and the time that gives the n + 1 fluxes, with this boundary of c."""
    return sx.kmap(
        donor,
        fields=("c", "v"),
        kernel_size={"c": 2, "v": 1},
        padding={"c": 1, "v": 0},
        boundary={"c": boundary},
        relative=True,
    )


@sx.kmap(fields=("c", "flux"), kernel_size={"c": 1, "flux": 2}, relative=True)
def drain(c, flux, ratio):
    """A cell loses what flows out of its right face, and gains what flows in at its left one."""
    return c[0] - ratio * (flux[1] - flux[0])


ring = fluxes("wrap")
walls = fluxes(0.0)  # with v = 0 at both ends
inflow = sx.boundary.Constant(lambda time: 1 + jnp.sin(time))  # what comes in at a time
river = fluxes({0: (inflow, "edge")})


def transport(c: ArrayLike, v: ArrayLike, steps: int, dt: float, dx: float, flux: sx.Stencil = ring) -> jax.Array:
    """dc/dt + d(v c)/dx = 0, of first order in space and time, in one compiled loop.

    Args:
        c: shape (n,), an amount per length.
        v: shape (n + 1,), the velocity at each face, of either sign. On a ring the last face is the first one; at a
            wall it is 0.
        steps: how many.
        dt, dx: of a step and of a cell. Stable and positive where no cell loses more than it has: for each,
            (max(v[i+1], 0) - min(v[i], 0)) * dt/dx <= 1.
        flux: `ring`, `walls` or `river`.

    Returns:
        c after all steps, shape (n,).
    """
    v, ratio = jnp.asarray(v), dt / dx

    def step(c: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
        return drain(c, flux(c, v, number * dt), ratio), number + 1

    return sx.iterate(step, (jnp.asarray(c), 0), steps).state[0]


def converging(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A hump, and a flow that leaves both walls and meets at 0.6 of the way: c and v."""
    x, faces = (np.arange(n) + 0.5) / n, np.linspace(0, 1, n + 1)
    v = np.sin(np.pi * faces) * (0.6 - faces)
    v[[0, -1]] = 0
    return 1 + np.exp(-(((x - 0.3) / 0.1) ** 2)), v


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    n = 50
    c, v = converging(n)
    last = transport(c, v, 200, 0.02, 1 / n, walls)
    print(f"between walls: {c.sum() / n:.12f} at first, {last.sum() / n:.12f} in the end; least {last.min():.3f}")
    print(f"it gathers at {(np.argmax(last) + 0.5) / n:.2f}, where the flow meets")
    last = transport(c, np.full(n + 1, -1.0), n, 1 / n, 1 / n)
    print(f"once round a ring at Courant number 1: {np.abs(last - c).max():.1e} from where it was")
    last = transport(np.ones(n), np.ones(n + 1), 2 * n, 0.5 / n, 1 / n, river)
    print(f"a river after a time of 1: {last[0]:.3f} upstream, {last[-1]:.3f} downstream")

    def amount_on_the_left(v: jax.Array) -> jax.Array:
        return transport(c, v, 100, 0.02, 1 / n, walls)[: n // 2].sum() / n

    slope = jax.jit(jax.grad(amount_on_the_left))(jnp.asarray(v))
    print(f"d(amount on the left)/d(v at the face between the halves): {slope[n // 2]:.3f}")


if __name__ == "__main__":
    main()
