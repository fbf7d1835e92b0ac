"""A row of the suite: one piece of work, several ways to its result, and how fast ours is meant to be."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

Size = tuple[int, ...]
Way = Callable[[], Any]
Maker = Callable[[], Way]  # imports what the way needs, and gives the function to be timed

OURS = "stencilx"  # names of our ways begin with it
PEERS = ("kernex", "numba")  # packages without which a row goes on, and says so


@dataclass(frozen=True)
class Case:
    """A row at one size. `others` holds the results of ways that compute something else: yardsticks, gradients."""

    ways: Mapping[str, Maker]
    expected: Any
    others: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5  # of the largest number in the expected result
    moved: int = 0  # bytes that must be read and written at least, each step of a time loop by itself


@dataclass(frozen=True)
class Target:
    """`time(way) <= at_most * time(peer) + plus`; without a peer, `plus` alone counts."""

    peer: str = ""
    at_most: float = 1.0
    way: str = OURS
    plus: float = 0.0

    @property
    def text(self) -> str:
        bound = f"≤ {_seconds(self.plus)}" if not self.peer else f"≤ {self.peer} + {_seconds(self.plus)}"
        if self.peer and not self.plus:
            bound = f"≤ {number(self.at_most)} × {self.peer}"
            if self.at_most < 1:
                bound = f"≥ {number(1 / self.at_most)} × as fast as {self.peer}"
        return bound if self.way == OURS else f"{self.way.removeprefix(f'{OURS}, ')} {bound}"

    def reached(self, medians: Mapping[str, float]) -> tuple[str, bool] | None:
        """What was measured, in the words of the target, and whether it is met. None: a way of it was left out."""
        if self.way not in medians or (self.peer and self.peer not in medians):
            return None
        mine, theirs = medians[self.way], medians.get(self.peer, 0.0)
        met = mine <= self.at_most * theirs + self.plus
        if self.plus:
            return _seconds(mine - theirs), met
        return number(theirs / mine if self.at_most < 1 else mine / theirs), met


def times_as_fast(count: float, peer: str, way: str = OURS) -> Target:
    return Target(peer, 1 / count, way)


@dataclass(frozen=True)
class Row:
    """`what` has places for the numbers of a size; `without` names peers left out on purpose, and says why."""

    name: str
    what: str
    full: Size
    quick: Size
    make: Callable[[Size], Case]
    targets: tuple[Target, ...] = ()
    without: Mapping[str, str] = field(default_factory=dict)

    def title(self, size: Size) -> str:
        return self.what.format(*size)


def number(value: float) -> str:
    """Three digits, no exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _seconds(seconds: float) -> str:
    unit, factor = ("s", 1.0) if abs(seconds) >= 0.1 else ("ms", 1e3) if abs(seconds) >= 1e-3 else ("µs", 1e6)
    return f"{number(seconds * factor)} {unit}"


# Ways


def calls(function: Callable[..., Any], *args: Any, **options: Any) -> Maker:
    return lambda: lambda: function(*args, **options)


def jitted(function: Callable[..., Any], *args: Any) -> Maker:
    return calls(jax.jit(function), *args)


def peer(module: str, name: str, *args: Any, **options: Any) -> Maker:
    """A function of a module that may not be there."""
    return lambda: calls(getattr(importlib.import_module(module), name), *args, **options)()


def loops(name: str, *args: Any) -> Maker:
    """Loops written by hand, compiled by numba for all cores."""
    return peer("benchmarks.peers.loops", name, *args)


def kernex(kind: str, kernel: Callable[..., Any], *args: Any, **options: Any) -> Maker:
    """A decorator of kernex, compiled."""
    return lambda: jitted(getattr(importlib.import_module("kernex"), kind)(**options)(kernel), *args)()


# Inputs, and what is expected of linear work


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def weighted_slices(padded: Any, weights: Any) -> Any:
    """Correlation: the sum of shifted slices, each times its weight. For arrays of NumPy and of JAX."""
    shape = [n - k + 1 for n, k in zip(padded.shape, weights.shape)]
    shifts = [(at, tuple(slice(o, o + n) for o, n in zip(at, shape))) for at in np.ndindex(*weights.shape)]
    total = weights[shifts[0][0]] * padded[shifts[0][1]]
    for at, window in shifts[1:]:
        total = total + weights[at] * padded[window]
    return total


def laplacian_of(u: np.ndarray, mode: str = "constant") -> np.ndarray:
    p = np.pad(u, 1, mode)  # type: ignore[call-overload]
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
