"""Ghosts by hand: np.pad where it has the mode, plain loops otherwise. It knows nothing of how the library makes them.

A `Wall` holds a rule as the library takes it and, beside it, how a line of cells grows beyond its first one. The array
is turned so that this is all: the axis comes first, and the wall lies before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import stencilx as sx

Array = np.ndarray
Cell = Callable[[int], Any]
B = sx.boundary


@dataclass(frozen=True, repr=False)
class Wall:
    """One side of one axis.

    Attributes:
        rule: what the library is given.
        grow: from a line, a count of ghosts, the values of the rule, and -1 or 1 for the side before or after the
            array: the ghosts, the farthest one first.
        values: what the rule was given: numbers, arrays over the face, or functions.
        mode: how what lies over another axis' face goes on beyond this side: a mode of np.pad, or "shared".
    """

    rule: Any
    grow: Callable[[Array, int, Sequence[Any], int], Array]
    values: tuple[Any, ...] = ()
    mode: str = "edge"

    def __repr__(self) -> str:
        return str(self.rule)


Sides = tuple[Wall, Wall]


def before(line: Array, count: int, mode: str, **how: Any) -> Array:
    """The first of a line that np.pad makes longer. Of a shared node the farther one does not count."""
    line = line[:-1] if mode == "shared" else line
    widths = [(count, 0)] + [(0, 0)] * (line.ndim - 1)
    return np.pad(line, widths, mode="wrap" if mode == "shared" else mode, **how)[:count]  # type: ignore[call-overload]


def copied(rule: Any, mode: str) -> Wall:
    return Wall(rule, lambda line, count, values, side: before(line, count, mode), mode=mode)


def computed(rule: Any, formula: Callable[..., Any], *values: Any) -> Wall:
    """A formula of k, of the cells counted inwards, and of values. The two ends of a line grow by turns."""

    def grow(line: Array, count: int, values: Sequence[Any], side: int) -> Array:
        n, known = len(line), dict(enumerate(line))

        def from_the_other_end(j: int) -> Any:
            return known[n - 1 - j]

        for k in range(1, count + 1):
            known[-k] = formula(k, known.__getitem__, *values)
            known[n - 1 + k] = formula(k, from_the_other_end, *values)
        return np.stack([known[-k] for k in range(count, 0, -1)])

    return Wall(rule, grow, values)


def fulfilled(condition: Callable[..., Any]) -> Callable[..., Any]:
    """The ghost that makes a condition, which is linear in it, zero."""

    def formula(k: int, u: Cell, *values: Any) -> Any:
        at_zero, at_one = (condition(k, u, ghost, *values) for ghost in (0.0, 1.0))
        return at_zero / (at_zero - at_one)

    return formula


# The rules


def constant(value: Any) -> Wall:
    def grow(line: Array, count: int, values: Sequence[Any], side: int) -> Array:
        return np.broadcast_to(values[0], (count, *line.shape[1:]))

    return Wall(B.Constant(value), grow, (value,))


def wrap(add: Any = None, shared: bool = False) -> Wall:
    mode = "shared" if shared else "wrap"
    if add is None:
        return copied(B.Wrap(shared=shared), mode)

    def grow(line: Array, count: int, values: Sequence[Any], side: int) -> Array:
        period = len(line) - shared
        rounds = np.array([1 + (k - 1) // period for k in range(count, 0, -1)])
        return before(line, count, mode) + side * rounds.reshape(-1, *[1] * (line.ndim - 1)) * values[0]

    return Wall(B.Wrap(add=add, shared=shared), grow, (add,))


def edge() -> Wall:
    return copied("edge", "edge")


def reflect() -> Wall:
    return copied("reflect", "reflect")


def symmetric() -> Wall:
    return copied("symmetric", "symmetric")


def odd(mode: str) -> Wall:
    rule = B.Reflect(odd=True) if mode == "reflect" else B.Symmetric(odd=True)
    return Wall(rule, lambda line, count, values, side: before(line, count, mode, reflect_type="odd"))


NEXT = {0: [1], 1: [2, -1], 2: [3, -3, 1], 3: [4, -6, 4, -1]}
"""The number before some others, as multiples of them, if their differences of that order stay the same."""


def extrapolate(order: int) -> Wall:
    def formula(k: int, u: Cell) -> Any:
        cells = [u(j) for j in range(order + 1)]
        for _ in range(k):
            cells = [sum(w * c for w, c in zip(NEXT[order], cells, strict=True)), *cells[:-1]]
        return cells[0]

    return computed(B.Extrapolate(order), formula)


def dirichlet(value: Any, at: str = "face") -> Wall:
    """The mean of a ghost and its mirror image is the value."""

    def condition(k: int, u: Cell, ghost: float, value: Any) -> Any:
        return (ghost + u(k - (at == "face"))) / 2 - value

    return computed(B.Dirichlet(value, at=at), fulfilled(condition), value)


def neumann(slope: Any, dx: Any, at: str = "face") -> Wall:
    """From the mirror image to the ghost the field gains the slope times their distance."""

    def condition(k: int, u: Cell, ghost: float, slope: Any, dx: Any) -> Any:
        mirror, cells_apart = (u(k - 1), 2 * k - 1) if at == "face" else (u(k), 2 * k)
        return (ghost - mirror) / (cells_apart * dx) - slope

    return computed(B.Neumann(slope, dx, at=at), fulfilled(condition), slope, dx)


def insulated(at: str = "face") -> Wall:
    return copied(B.Neumann(0.0, at=at), "symmetric" if at == "face" else "reflect")


def robin(a: Any, b: Any, g: Any, dx: Any, at: str = "face") -> Wall:
    def at_face(k: int, u: Cell, ghost: float, a: Any, b: Any, g: Any, dx: Any) -> Any:
        return a * (u(0) + ghost) / 2 + b * (ghost - u(0)) / dx - g

    def at_node(k: int, u: Cell, ghost: float, a: Any, b: Any, g: Any, dx: Any) -> Any:
        return a * u(0) + b * (ghost - u(k)) / (2 * k * dx) - g

    def beyond_the_face(k: int, u: Cell, *values: Any) -> Any:
        """The slope of the first ghost holds for the others and their mirror images."""
        gained = fulfilled(at_face)(1, u, *values) - u(0)
        return u(k - 1) + (2 * k - 1) * gained

    formula = fulfilled(at_node) if at == "node" else beyond_the_face
    return computed(B.Robin(a, b, g, dx, at=at), formula, a, b, g, dx)


# Arrays


def as_boundary(walls: Sequence[Sides]) -> dict[int, Any]:
    return {axis: (low.rule, high.rule) for axis, (low, high) in enumerate(walls)}


def extended(
    array: Array, counts: Sequence[tuple[int, int]], walls: Sequence[Sides], known: Callable[[Any], Any] = lambda v: v
) -> Array:
    """The array with ghosts, axis after axis. `known` gives the value of a function of parameters."""
    shape = array.shape
    for axis, (pair, sides) in enumerate(zip(counts, walls, strict=True)):
        longer = [array]
        for end, (count, wall) in enumerate(zip(pair, sides, strict=True)):
            line = np.moveaxis(array, axis, 0)[:: -1 if end else 1]
            values = [over_face(known(value), shape, axis, counts, walls) for value in wall.values]
            if count:
                ghosts = np.moveaxis(wall.grow(line, count, values, 1 if end else -1)[:: -1 if end else 1], 0, axis)
                longer = [*longer, ghosts] if end else [ghosts, *longer]
        array = np.concatenate(longer, axis)
    return array


def over_face(
    value: Any, shape: Sequence[int], axis: int, counts: Sequence[tuple[int, int]], walls: Sequence[Sides]
) -> Any:
    """A value for each line that meets the face, ghosts of earlier axes included."""
    if not np.ndim(value):
        return value
    face = np.broadcast_to(value, [*shape[:axis], *shape[axis + 1 :]])
    for other in range(axis):
        line = np.moveaxis(face, other, 0)
        (low, high), (first, last) = counts[other], walls[other]
        line = np.concatenate([before(line, low, first.mode), line, before(line[::-1], high, last.mode)[::-1]])
        face = np.moveaxis(line, 0, other)
    return face


def same(reach: int, ndim: int) -> list[tuple[int, int]]:
    return [(reach, reach)] * ndim
