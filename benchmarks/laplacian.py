"""The 5-point Laplacian of a square float32 field, `same`: stencilx on each boundary, kernex, and plain jnp.

python -m benchmarks.laplacian            (after pip install ".[bench]"; --size 1024 for a quick look)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import kernex
import numpy as np

import stencilx as sx
from benchmarks.timing import alternate, check, machine, report


def formula(u: Any) -> Any:
    return u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0]


@jax.jit
def padded_slices(x: jax.Array) -> jax.Array:
    p = jnp.pad(x, 1)
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


def expected(x: np.ndarray, mode: str) -> np.ndarray:
    p = np.pad(x, 1, mode)  # type: ignore[call-overload]
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4096, help="cells on each axis (4096)")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each way (7)")
    options = parser.parse_args()
    host = np.random.default_rng(0).normal(size=(options.size, options.size)).astype(np.float32)
    x = jnp.asarray(host)

    by_boundary = {b: sx.kmap(formula, padding="same", boundary=b) for b in ("wrap", "edge", "reflect", "symmetric")}
    zero = sx.kmap(formula, padding="same")
    seed = jax.jit(kernex.kmap(kernel_size=(3, 3), padding="same", relative=True)(formula))
    ways: dict[str, Callable[[], Any]] = {
        "stencilx, zeros outside": lambda: zero(x),
        "jnp.pad and slices": lambda: padded_slices(x),
        "kernex": lambda: seed(x),
    }
    check(ways, expected(host, "constant"), 1e-4)
    for boundary, stencil in by_boundary.items():
        check({boundary: lambda s=stencil: s(x)}, expected(host, boundary), 1e-4)
        ways[f"stencilx, {boundary}"] = lambda s=stencil: s(x)
    add_one = jax.jit(lambda a: a + 1)
    add_one(x)
    ways["x + 1"] = lambda: add_one(x)

    print(f"{options.size} x {options.size} float32, {machine()}; ms")
    seconds = alternate(ways, options.rounds)
    report(seconds, "x + 1")


if __name__ == "__main__":
    main()
