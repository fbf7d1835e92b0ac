"""Recurrences along one axis: tridiagonal systems, running sums and products, recursive filters.

Run it with `python examples/columns.py`. Each is a sweep whose kernel reads what it has just written:

    tridiagonal solve     two fields downward, one upward; schedule `rows`: all columns at once
    running sum, product  y[-1] and the cell itself; schedule `cells`
    average, filters      y[-1], y[-2], ... and the input; schedule `cells`
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import stencilx as sx

# Tridiagonal systems: for each column, lower[i] x[i-1] + diagonal[i] x[i] + upper[i] x[i+1] = right[i]


@sx.kscan(fields=("upper", "right", "lower", "diagonal"), updates=("upper", "right"), padding="same")
def eliminate(upper, right, lower, diagonal):
    """Rid each row of its lower entry and make its diagonal 1. Above the first row lies 0, which decouples it."""
    pivot = diagonal[0, 0] - lower[0, 0] * upper[-1, 0]
    return upper[0, 0] / pivot, (right[0, 0] - lower[0, 0] * right[-1, 0]) / pivot


@sx.kscan(fields=("x", "upper"), padding="same", reverse=True)
def substitute(x, upper):
    """Each row's unknown from the one below; x holds the right-hand side and becomes the solution."""
    return x[0, 0] - upper[0, 0] * x[1, 0]


def solve_tridiagonal(
    lower: ArrayLike, diagonal: ArrayLike, upper: ArrayLike, right: ArrayLike, axis: int = 0
) -> jax.Array:
    """Solve a tridiagonal system for every line of `right` along an axis (schedule `rows`, forward and then reverse).

    The method of L. H. Thomas, Elliptic problems in linear differential equations over a network, Watson Scientific
    Computing Laboratory, 1949: elimination without pivoting, safe where the diagonal dominates. The axis is moved to
    the front, so that each step of the sweep is one row of all lines, whichever the axis.

    Args:
        lower, diagonal, upper: entries by row of the system, of the shape of `right` or numbers. The first `lower` and
            the last `upper` are not in the matrix: any finite numbers.
        right: right-hand sides, of any shape.
        axis: the one along which the unknowns are coupled.

    Returns:
        The solution, of the shape of `right`.
    """
    right = jnp.asarray(right)

    def in_front(entry: ArrayLike) -> jax.Array:
        whole = jnp.broadcast_to(jnp.asarray(entry), right.shape)
        return jnp.moveaxis(whole, axis, 0).reshape(right.shape[axis], -1)

    coupling, reduced = eliminate(in_front(upper), in_front(right), in_front(lower), in_front(diagonal))
    solution = substitute(reduced, coupling)
    return jnp.moveaxis(solution.reshape(jnp.moveaxis(right, axis, 0).shape), 0, axis)


# Running sums and products


running_sum = sx.kscan(lambda y: y[-1] + y[0], padding="same")  # numpy.cumsum; outside lies 0
running_product = sx.kscan(lambda y: y[-1] * y[0], padding="same", boundary=1)  # numpy.cumprod


# Recursive filters


@sx.kscan(padding="same", boundary="edge")
def exponential_average(y, weight):
    """S. W. Roberts, Control chart tests based on geometric moving averages, Technometrics 1, 1959 (schedule `cells`).

    `y[0]` is still the input, `y[-1]` an average already. The edge's ghost repeats the first cell: it starts there.
    """
    return weight * y[0] + (1 - weight) * y[-1]


@sx.kscan(fields=("y", "x"), padding="same")
def _recursion(y, x, numerator, denominator):
    """The difference equation for `denominator[0] == 1`; before the first sample all is at rest."""
    driven = sum(numerator[k] * x[-k] for k in range(len(numerator)))
    return driven - sum(denominator[k] * y[-k] for k in range(1, len(denominator)))


def recursive_filter(numerator: ArrayLike, denominator: ArrayLike, x: ArrayLike) -> jax.Array:
    """The rational (IIR) filter of `scipy.signal.lfilter`, of any order, as one sweep (schedule `cells`).

        a[0] y[n] = b[0] x[n] + b[1] x[n-1] + ... - a[1] y[n-1] - a[2] y[n-2] - ...

    A. V. Oppenheim and R. W. Schafer, Discrete-Time Signal Processing, 1989, section 6.3 (direct form I).

    Args:
        numerator: b, of any length. denominator: a, with `a[0]` not 0; both may be traced, and have gradients.
        x: samples, shape (n,).

    Returns:
        y, shape (n,).
    """
    given = [jnp.asarray(array) for array in (numerator, denominator, x)]
    b, a, x = (array.astype(jnp.result_type(float, *given)) for array in given)
    return _recursion(jnp.zeros_like(x), x, b / a[0], a / a[0])


def main() -> None:
    print("1, 4, 1 against 5, 6, 5:", solve_tridiagonal(1.0, 4.0, 1.0, np.array([5.0, 6.0, 5.0])))
    right = np.random.default_rng(0).normal(size=(50, 1000))
    x = np.asarray(solve_tridiagonal(-1.0, 2.5, -1.2, right))
    product = 2.5 * x
    product[1:] -= x[:-1]
    product[:-1] -= 1.2 * x[1:]
    print(f"1000 systems of 50: A x differs from the right-hand side by {abs(product - right).max():.1e}")
    numbers = np.array([1, 2, 3, 4, 5], np.int32)
    print("sums and products:      ", running_sum(numbers), running_product(numbers))
    print("exponential average:    ", exponential_average(np.array([4.0, 0.0, 0.0, 8.0]), 0.5))
    print(
        "filter:                 ",
        recursive_filter(np.array([0.9]), np.array([1.0, -0.1]), np.arange(100.0, 501.0, 100.0)),
    )


if __name__ == "__main__":
    main()
