"""Boundary rules: what a read outside the array gives.

A rule is a value. It stands on one side of one axis of one field; `resolve` turns every way to write `boundary=` into
one rule for each side. Along an axis of 4 cells `a b c d`, with two ghosts on each side:

    Constant(v)    v v | a b c d | v v
    Wrap()         c d | a b c d | a b
    Edge()         a a | a b c d | d d
    Reflect()      c b | a b c d | c b      the end cell is the mirror
    Symmetric()    b a | a b c d | d c      the mirror lies between the end cell and its ghost

Any depth works: a reflection that runs out of cells turns round again, as in `numpy.pad`. Axes are extended in order,
axis 0 first, each on what is there already: that is what corners hold.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stencilx.errors import BoundaryError, did_you_mean, plural

__all__ = ["Constant", "Edge", "Reflect", "Rule", "Symmetric", "Wrap"]


@dataclass(frozen=True)
class Constant:
    """Every ghost has the same value.

    Args:
        value: a number. It joins the dtype as a Python number does in NumPy: 1.5 around an integer field makes the
            field float before the kernel sees it; 0 fits every dtype.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> patches = sx.kmap(lambda x: x, kernel_size=3, padding="same", boundary=sx.boundary.Constant(9.0))
        >>> np.asarray(patches(np.array([1.0, 2.0], np.float32)))
        array([[9., 1., 2.],
               [1., 2., 9.]], dtype=float32)
    """

    value: Any = 0

    def __post_init__(self) -> None:
        if not isinstance(self.value, numbers.Number):
            raise BoundaryError(
                f"the constant of a boundary must be a number, not {type(self.value).__name__}.",
                hint="for a value that is traced or varies, write the ghost cells with a region: F[0] = ...",
            )
        if isinstance(self.value, np.generic):  # a NumPy scalar counts as the number that it is
            object.__setattr__(self, "value", self.value.item())

    def __str__(self) -> str:
        return f"constant {self.value}"


@dataclass(frozen=True)
class IndexRule:
    """A ghost copies a cell of the array: the base of all rules but `Constant`."""

    def index(self, position: int, length: int) -> int:
        """The cell that stands in for `position`, which may lie outside `0..length-1`."""
        raise NotImplementedError

    def __str__(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Wrap(IndexRule):
    """Periodic: after the last cell comes the first one again (`numpy.pad` mode "wrap")."""

    def index(self, position: int, length: int) -> int:
        return position % length


@dataclass(frozen=True)
class Edge(IndexRule):
    """The end cell goes on for ever (`numpy.pad` mode "edge", scipy's "nearest")."""

    def index(self, position: int, length: int) -> int:
        return min(max(position, 0), length - 1)


@dataclass(frozen=True)
class Reflect(IndexRule):
    """Mirrored at the end cell, which is not repeated (`numpy.pad` mode "reflect", scipy's "mirror")."""

    def index(self, position: int, length: int) -> int:
        if length == 1:
            return 0
        position %= 2 * (length - 1)
        return min(position, 2 * (length - 1) - position)


@dataclass(frozen=True)
class Symmetric(IndexRule):
    """Mirrored outside the end cell, which is repeated (`numpy.pad` mode "symmetric", scipy's "reflect")."""

    def index(self, position: int, length: int) -> int:
        position %= 2 * length
        return min(position, 2 * length - 1 - position)


Rule = Constant | IndexRule
Sides = tuple[Rule, Rule]

_SHORTHANDS: dict[str, Rule] = {"wrap": Wrap(), "edge": Edge(), "reflect": Reflect(), "symmetric": Symmetric()}
_OTHER_LIBRARIES = {
    "nearest": "scipy's 'nearest' is 'edge' here, as in NumPy.",
    "replicate": "PyTorch's 'replicate' is 'edge' here, as in NumPy.",
    "mirror": "scipy's 'mirror' is 'reflect' here, as in NumPy (scipy's own 'reflect' is 'symmetric').",
    "periodic": "a periodic axis is 'wrap' here, as in NumPy.",
    "circular": "a periodic axis is 'wrap' here, as in NumPy.",
    "grid-wrap": "scipy's 'grid-wrap' is 'wrap' here, as in NumPy.",
    "grid-mirror": "scipy's 'grid-mirror' is 'symmetric' here, as in NumPy.",
    "constant": "for a constant give the number itself: boundary=0.0.",
    "zero": "for zeros give the number itself: boundary=0.0.",
    "zeros": "for zeros give the number itself: boundary=0.0.",
}


def as_rule(value: Any) -> Rule:
    """A number, a NumPy name or a rule, as a rule."""
    if isinstance(value, (Constant, IndexRule)):
        return value
    if isinstance(value, str):
        if value in _SHORTHANDS:
            return _SHORTHANDS[value]
        hint = _OTHER_LIBRARIES.get(value) or did_you_mean(value, _SHORTHANDS)
        raise BoundaryError(f"there is no boundary rule {value!r}.", hint=hint)
    if isinstance(value, type) and issubclass(value, (Constant, IndexRule)):
        raise BoundaryError(f"{value.__name__} is a class: write {value.__name__}().")
    if isinstance(value, numbers.Number):
        return Constant(value)
    raise BoundaryError(
        f"a boundary rule must be a number, a name or a rule of stencilx.boundary, not {value!r}.",
        hint="by axis: {0: 'wrap', 1: 'edge'}; by side: {0: ('edge', 1.0)}; by field: {'u': 'wrap', 'h': 0.0}.",
    )


def resolve(boundary: Any, ndim: int, axis_names: Mapping[str, int], field: str) -> tuple[Sides, ...]:
    """One rule for each side of each axis of a field. Axes that a dict leaves out hold zeros outside."""
    if not isinstance(boundary, Mapping):
        rule = as_rule(boundary)
        return ((rule, rule),) * ndim
    sides: list[Sides] = [(Constant(0), Constant(0))] * ndim
    for key, value in boundary.items():
        sides[_axis(key, ndim, axis_names, field)] = _both_sides(value)
    return tuple(sides)


def _axis(key: Any, ndim: int, axis_names: Mapping[str, int], field: str) -> int:
    if isinstance(key, str):
        if key in axis_names:
            return axis_names[key]
        raise BoundaryError(f"boundary names axis {key!r} of field {field!r}, and there is no such axis.")
    if isinstance(key, numbers.Integral) and -ndim <= int(key) < ndim:
        return int(key) % ndim
    raise BoundaryError(f"boundary names axis {key!r}, but field {field!r} has {plural(ndim, 'axis')}.")


def _both_sides(value: Any) -> Sides:
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise BoundaryError(f"the boundary of one axis is a rule or (before, after), not {value!r}.")
        return (as_rule(value[0]), as_rule(value[1]))
    rule = as_rule(value)
    return (rule, rule)


def boundary_constants(rules: Sequence[Sides]) -> tuple[Any, ...]:
    """The numbers that may lie outside a field and so join its dtype; 0 fits every dtype and is left out."""
    values = (rule.value for sides in rules for rule in sides if isinstance(rule, Constant))
    return tuple(value for value in values if value != 0)


def check_fits(constants: Sequence[Any], dtype: str, field: str) -> None:
    """A whole number outside an integer field must be one of its dtype: no silent overflow."""
    name = dtype.split(".")[-1]  # "torch.uint8"
    if not re.fullmatch(r"u?int\d+", name):
        return
    limits = np.iinfo(name)
    for value in constants:
        if isinstance(value, int) and not isinstance(value, bool) and not limits.min <= value <= limits.max:
            raise BoundaryError(
                f"the boundary value {value} does not fit field {field!r} of dtype {dtype}.",
                hint=f"convert the field first, or give the value as a float: {float(value)}.",
            )


@dataclass(frozen=True)
class Run:
    """Ghosts that copy `count` cells from `start` on, going up (step 1), down (-1) or standing still (0)."""

    start: int
    step: int
    count: int


def ghost_runs(rule: IndexRule, places: Iterable[int], length: int) -> list[Run]:
    """The cells that ghosts at these places copy, in order, as few runs as may be."""
    runs: list[Run] = []
    for place in places:
        index = rule.index(place, length)
        last = runs[-1] if runs else None
        step = index - (last.start + last.step * (last.count - 1)) if last else 0
        if last and last.count == 1 and step in (-1, 0, 1):
            runs[-1] = Run(last.start, step, 2)
        elif last and step == last.step:
            runs[-1] = Run(last.start, step, last.count + 1)
        else:
            runs.append(Run(index, 1, 1))
    return runs


def check_not_empty(
    rules: Sequence[Sides], shape: Sequence[int], ghosts: Sequence[tuple[int, int]], field: str
) -> None:
    """A ghost of an empty axis has nothing to copy."""
    for axis, (sides, length, counts) in enumerate(zip(rules, shape, ghosts, strict=True)):
        for rule, count in zip(sides, counts, strict=True):
            if count and not length and isinstance(rule, IndexRule):
                raise BoundaryError(
                    f"axis {axis} of field {field!r} is empty: boundary {str(rule)!r} has no cell to copy."
                )
