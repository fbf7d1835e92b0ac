"""Maxwell's equations in one dimension on Yee's grid: two fields that live half a cell and half a step apart.

Run it with `python examples/maxwell.py`. Between two conducting walls, in units where the speed of light is 1:

    node    0       1       2       3                dH/dt = -dE/dx     at the n faces, at half steps
            E   H   E   H   E   H   E    permittivity * dE/dt = -dH/dx     at the n + 1 nodes, at whole steps
          wall                     wall

A window of 2 nodes has a place for each face: no rule is needed. A window of 2 faces with one outside each wall has a
place for each node. The wall is a node for E, which is 0 there, and a face for H, which is even about it: with H
`symmetric` the difference at the wall is 0 and E stays what it is. K. S. Yee, Numerical solution of initial boundary
value problems involving Maxwell's equations in isotropic media, IEEE Trans. Antennas and Propagation 14, 1966.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import stencilx as sx


@sx.kmap(fields=("h", "e"), kernel_size={"h": 1, "e": 2}, relative=True)
def magnetic(h, e, ratio):
    """H at a face, half a step before and half a step behind the time of E."""
    return h[0] - ratio * (e[1] - e[0])


@sx.kmap(
    fields=("e", "h", "permittivity"),
    kernel_size={"e": 1, "h": 2, "permittivity": 1},
    padding={"e": 0, "h": 1, "permittivity": 0},
    boundary={"h": "symmetric"},
    relative=True,
)
def electric(e, h, permittivity, ratio):
    """E at a node, from the faces before and behind it."""
    return e[0] - ratio / permittivity[0] * (h[1] - h[0])


def propagate(
    e: ArrayLike, h: ArrayLike, steps: int, ratio: float, permittivity: ArrayLike = 1.0
) -> tuple[jax.Array, jax.Array]:
    """Leapfrog, of second order in space and time, in one compiled loop.

    Args:
        e: shape (n + 1,), at time 0; 0 at both ends.
        h: shape (n,), half a step later.
        steps: how many.
        ratio: dt/dx. Stable up to the square root of the least permittivity; 1 is exact in a vacuum.
        permittivity: a number, or shape (n + 1,).

    Returns:
        e and h, as many steps later.
    """
    e = jnp.asarray(e)
    slowness = jnp.broadcast_to(jnp.asarray(permittivity, e.dtype), e.shape)

    def step(e: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array]:
        e = electric(e, h, slowness, ratio)
        return e, magnetic(h, e, ratio)

    return sx.iterate(step, (e, jnp.asarray(h)), steps).state


def standing_wave(n: int, time: float, ratio: float, mode: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """An exact solution between walls at 0 and 1: E on n + 1 nodes at a time, H on n faces half a step later."""
    k, x = mode * np.pi, np.linspace(0, 1, n + 1)
    middle = (x[1:] + x[:-1]) / 2
    return np.sin(k * x) * np.cos(k * time), -np.cos(k * middle) * np.sin(k * (time + ratio / n / 2))


def standing_error(n: int, time: float, ratio: float, mode: int = 1) -> float:
    """The largest error of E after a time, on n cells."""
    steps = round(time * n / ratio)
    e, _ = propagate(*standing_wave(n, 0.0, ratio, mode), steps, ratio)
    return float(np.abs(e - standing_wave(n, steps * ratio / n, ratio, mode)[0]).max())


def echo(glass: ArrayLike, n: int = 500) -> jax.Array:
    """What part of a pulse comes back from glass of a permittivity; (1 - sqrt(glass)) / (1 + sqrt(glass)) in theory.

    The pulse starts at 0.3 and runs to the right; the glass begins at 0.6, in whose node half of it counts; after a
    time of 0.5 the pulse is back at 0.4.
    """
    x = np.linspace(0, 1, n + 1)
    inside = np.where(np.arange(n + 1) == 3 * n // 5, 0.5, x > 0.6)
    e = np.exp(-(((x - 0.3) / 0.04) ** 2))
    h = np.exp(-(((x[:-1] - 0.3) / 0.04) ** 2))  # dt = dx: half a cell and half a step behind
    last, _ = propagate(np.where(e > 1e-12, e, 0), h, n // 2, 1.0, 1 + (jnp.asarray(glass) - 1) * inside)
    return last[2 * n // 5]


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    for n in (25, 50, 100):
        print(f"standing wave on {n:3} cells, dt = dx/2: error {standing_error(n, 1.3, 0.5, mode=2):.1e}")
    print(f"dt = dx, 1000 periods: error {standing_error(50, 1000.0, 1.0, mode=2):.1e}")
    back, slope = jax.jit(jax.value_and_grad(echo))(4.0)
    print(f"glass of index 2 sends {back:.4f} of a pulse back (-1/3), and d/d(permittivity) is {slope:.4f} (-1/18)")


if __name__ == "__main__":
    main()
