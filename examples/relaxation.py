"""Poisson's equation by relaxation: Jacobi, Gauss-Seidel, SOR, symmetric and red-black sweeps.

Run it with `python examples/relaxation.py`. One kernel, five orders of visiting the cells:

    -(d2u/dx2 + d2u/dy2) = f        u given on the walls

    jacobi        a map: every cell reads old values                                  schedule `parallel`
    forward       a sweep: from above and from the left come new values (SOR)         schedule `cells`
    symmetric     a sweep and a reverse one                                           schedule `cells`, twice
    red_black     two maps, each on the fields of one colour of a chessboard          schedule `parallel`, twice

With omega = 1 `forward` is Gauss and Seidel's method. D. M. Young, Iterative methods for solving partial difference
equations of elliptic type, Transactions of the AMS 76, 1954.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import ArrayLike

import stencilx as sx

Step = Callable[..., jax.Array]
"""u, f, 1/dy^2, 1/dx^2, omega -> a better u."""


def relaxed(u, f, wy, wx, omega):
    """Move a cell to where the equation holds in it, times omega."""
    around = wy * (u[-1, 0] + u[1, 0]) + wx * (u[0, -1] + u[0, 1])
    return u[0, 0] + omega * ((around + f[0, 0]) / (2 * wy + 2 * wx) - u[0, 0])


jacobi = sx.smap(relaxed, fields=("u", "f"), offset=1)
forward = sx.sscan(relaxed, fields=("u", "f"), offset=1)
backward = sx.sscan(relaxed, fields=("u", "f"), offset=1, reverse=True)

red = sx.smap(fields=("u", "f"), offset=1, relative=True)  # cells in no region keep their values
red[1:-1:2, 1:-1:2] = relaxed
red[2:-1:2, 2:-1:2] = relaxed
black = sx.smap(fields=("u", "f"), offset=1, relative=True)
black[1:-1:2, 2:-1:2] = relaxed
black[2:-1:2, 1:-1:2] = relaxed


def symmetric(u: ArrayLike, *rest: ArrayLike) -> jax.Array:
    """SSOR: its matrix is symmetric, as a preconditioner's must be (J. W. Sheldon, MTAC 9, 1955)."""
    return backward(forward(u, *rest), *rest)


def red_black(u: ArrayLike, *rest: ArrayLike) -> jax.Array:
    """All red cells at once, then all black ones: red cells have only black neighbours. As good as `forward`."""
    return black(red(u, *rest), *rest)


@sx.kmap(fields=("u", "f"), kernel_size=3, relative=True)
def residual(u, f, wy, wx):
    """What is left of the equation, on the inner cells: f + d2u/dy2 + d2u/dx2."""
    along_y = u[-1, 0] - 2 * u[0, 0] + u[1, 0]
    along_x = u[0, -1] - 2 * u[0, 0] + u[0, 1]
    return f[0, 0] + wy * along_y + wx * along_x


@dataclass(frozen=True)
class Poisson:
    """A problem on nodes dy and dx apart.

    Attributes:
        start: shape (ny, nx): the walls, and a first guess inside.
        f: shape (ny, nx); its walls play no part.
    """

    start: np.ndarray
    f: np.ndarray
    dy: float
    dx: float

    @property
    def weights(self) -> tuple[float, float]:
        return 1 / self.dy**2, 1 / self.dx**2

    def best_omega(self) -> float:
        """Young's: 2 / (1 + sqrt(1 - r^2)), where r is the factor by which a step of Jacobi's damps the error."""
        (ny, nx), (wy, wx) = self.start.shape, self.weights
        r = (wy * math.cos(math.pi / (ny - 1)) + wx * math.cos(math.pi / (nx - 1))) / (wy + wx)
        return 2 / (1 + math.sqrt(1 - r**2))


@functools.partial(jax.jit, static_argnames="step")
def iterate(
    step: Step, start: ArrayLike, f: ArrayLike, wy: float, wx: float, omega: float, tolerance: float, most: int
) -> tuple[jax.Array, jax.Array]:
    """Step until the largest residual is at most `tolerance`; return u and the number of steps, at most `most`."""

    def goes_on(state: tuple[jax.Array, Any]) -> jax.Array:
        u, count = state
        return (jnp.max(jnp.abs(residual(u, f, wy, wx))) > tolerance) & (count < most)

    def body(state: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        u, count = state
        return step(u, f, wy, wx, omega), count + 1

    return lax.while_loop(goes_on, body, (jnp.asarray(start), 0))


def solve(
    problem: Poisson, step: Step, omega: float = 1.0, tolerance: float = 1e-8, most: int = 100_000
) -> tuple[jax.Array, int]:
    """Solve a problem by one of the methods, in one compiled loop.

    Args:
        problem: walls, first guess, f and spacings.
        step: `jacobi`, `forward`, `symmetric` or `red_black`.
        omega: 1 for Jacobi and Gauss-Seidel; `problem.best_omega()` serves `forward` and `red_black` best.
        tolerance: of the largest residual, in the units of f.
        most: steps.

    Returns:
        u, shape (ny, nx), and the number of steps.
    """
    u, count = iterate(step, problem.start, problem.f, *problem.weights, omega, tolerance, most)
    return u, int(count)


def example(ny: int = 25, nx: int = 37) -> Poisson:
    """A problem with walls and sources, none of them symmetric, on a plate of 1 times 2."""
    y, x = np.linspace(0, 1, ny)[:, None], np.linspace(0, 2, nx)
    start = np.zeros((ny, nx))
    start[0], start[-1] = np.sin(x), 1 + x
    start[:, 0], start[:, -1] = y[:, 0], math.sin(2) + (3 - math.sin(2)) * y[:, 0] ** 2
    return Poisson(start, 10 * np.exp(-5 * y) * x, 1 / (ny - 1), 2 / (nx - 1))


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    problem = example()
    omega = problem.best_omega()
    methods: dict[str, tuple[Step, float]] = {
        "Jacobi": (jacobi, 1.0),
        "Gauss-Seidel": (forward, 1.0),
        f"SOR({omega:.2f})": (forward, omega),
        f"SSOR({omega:.2f})": (symmetric, omega),
        f"red-black SOR({omega:.2f})": (red_black, omega),
    }
    for name, (step, factor) in methods.items():
        u, count = solve(problem, step, factor)
        print(f"{name:20} {count:5} steps, u in the middle {u[u.shape[0] // 2, u.shape[1] // 2]:.9f}")


if __name__ == "__main__":
    main()
