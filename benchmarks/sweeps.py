"""Sweeps: Gauss-Seidel, a recurrence along a line, and the seed's linear convection, beside numba loops and kernex.

python -m benchmarks.sweeps               (after pip install ".[bench]"; --quick leaves out what takes kernex long)
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import kernex
import numba
import numpy as np

import stencilx as sx
from benchmarks.timing import alternate, check, machine, report

Ways = dict[str, Callable[[], Any]]


@numba.njit
def gauss_seidel_loop(u: np.ndarray) -> np.ndarray:
    u = u.copy()
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            u[i, j] = np.float32(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


@numba.njit
def recurrence_loop(x: np.ndarray) -> np.ndarray:
    y, last = np.empty_like(x), np.float32(0)
    for i in range(x.size):
        last = np.float32(0.9) * last + np.float32(0.1) * x[i]
        y[i] = last
    return y


def gauss_seidel(size: int, seed: bool) -> Ways:
    host = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    u = jnp.asarray(host)
    kernel = lambda u: 0.25 * (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1])  # noqa: E731
    stencil = sx.sscan(kernel, offset=1)
    ways: Ways = {"numba loops": lambda: gauss_seidel_loop(host), "stencilx, cells": lambda: stencil(u)}
    check(ways, gauss_seidel_loop(host), 1e-5)
    if seed:
        margin: Any = ((1, 1), (1, 1))
        theirs = jax.jit(kernex.sscan(kernel_size=(3, 3), offset=margin, relative=True)(kernel))
        check({"kernex": lambda: theirs(u)}, gauss_seidel_loop(host), 1e-5)
        ways["kernex"] = lambda: theirs(u)
    return ways


def recurrence(length: int) -> Ways:
    host = np.random.default_rng(0).normal(size=length).astype(np.float32)
    x = jnp.asarray(host)
    kernel = lambda y: 0.9 * y[-1] + 0.1 * y[0]  # noqa: E731
    stencil = sx.kscan(kernel, padding="same")
    composed = sx.kscan(kernel, padding="same", schedule="associative")
    ways: Ways = {
        "numba loops": lambda: recurrence_loop(host),
        "stencilx, cells": lambda: stencil(x),
        "stencilx, associative": lambda: composed(x),
    }
    check(ways, recurrence_loop(host), 1e-4)
    return ways


def convection(library: Any, steps: int, cells: int, **options: Any) -> Any:
    """The README program of kernex: space-time array, walls and initial rows as regions."""
    dt, dx, speed = 0.5 / (steps - 1), 2.0 / (cells - 1), 0.5
    F = library.kscan(kernel_size=(3, 3), named_axis={0: "n", 1: "i"}, relative=True, **options)
    F[:, 0] = F[:, -1] = lambda u: 1
    F[:, : int((cells - 1) / 4) + 1] = F[:, int((cells - 1) / 2) :] = lambda u: 1
    F[0:1, int((cells - 1) / 4) + 1 : int((cells - 1) / 2)] = lambda u: 2
    F[1:, 1:-1] = lambda u: u["i", "n-1"] - (speed * dt / dx) * (u["i", "n-1"] - u["i-1", "n-1"])
    return F


def compare_convection(size: int) -> None:
    """kernex takes tens of seconds, so it runs once, between two runs of ours."""
    u = jnp.ones((size, size))
    ours = convection(sx, size, size, padding="same")
    theirs = convection(kernex, size, size, padding=((1, 1), (1, 1)))
    fast = alternate({"ours": lambda: ours(u)}, 5)["ours"]
    start = time.perf_counter()
    result = jax.block_until_ready(theirs(u))
    slow = time.perf_counter() - start
    fast += alternate({"ours": lambda: ours(u)}, 5)["ours"]
    error = float(jnp.abs(result - ours(u)).max())
    assert error < 1e-4, f"they differ by {error}"
    ratio = slow / statistics.median(fast)
    print(
        f"schedule {ours.schedule(u)}: {statistics.median(fast) * 1e3:.2f} ms; kernex {slow:.1f} s: {ratio:,.0f} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="runs of each way (7)")
    parser.add_argument("--quick", action="store_true", help="no run of more than a few seconds")
    options = parser.parse_args()
    print(f"float32, {machine()}; ms")
    for size in (512, 2048):
        print(f"\nGauss-Seidel, {size} x {size}")
        report(alternate(gauss_seidel(size, size == 512 and not options.quick), options.rounds), "numba loops")
    print("\ny[i] = 0.9 y[i-1] + 0.1 x[i], 10,000,000")
    report(alternate(recurrence(10_000_000), options.rounds), "numba loops")
    size = 101 if options.quick else 501
    print(f"\nlinear convection as in kernex's README, {size} x {size}")
    compare_convection(size)


if __name__ == "__main__":
    main()
