"""From what a user writes as `boundary=` to one rule for each side of each axis of a field, and to its values.

boundary ──slotted──> rules with slots + values ──resolve──> sides by axis ──> plan
                                │
call ──> evaluated: numbers and arrays that travel beside the fields ──filled──> rules that can be computed with
"""

from __future__ import annotations

import inspect
import itertools
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from stencilx.boundary import Constant, Edge, Reflect, Rule, Slot, Symmetric, Wrap, function_text, is_array
from stencilx.errors import BoundaryError, did_you_mean, plural

Sides = tuple[Rule, Rule]

INSIDE = "mask"
"""The key, beside axes, of the rule for cells that a mask says do not exist."""

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
    "extrapolate": "a line through the last two cells is stencilx.boundary.Extrapolate(1).",
    "dirichlet": "a wall with a value is stencilx.boundary.Dirichlet(value).",
    "neumann": "a wall with a slope is stencilx.boundary.Neumann(slope, dx); without flux Neumann(0.0).",
    "robin": "a wall that ties value and slope is stencilx.boundary.Robin(a, b, g, dx).",
}


# From the user's words to rules


def as_rule(value: Any) -> Rule:
    """A number, an array, a NumPy name or a rule, as a rule."""
    if isinstance(value, Rule):
        return value
    if isinstance(value, str):
        if value in _SHORTHANDS:
            return _SHORTHANDS[value]
        hint = _OTHER_LIBRARIES.get(value.lower()) or did_you_mean(value, _SHORTHANDS)
        raise BoundaryError(f"there is no boundary rule {value!r}.", hint=hint)
    if isinstance(value, type) and issubclass(value, Rule):
        needed = [name for name in value.VALUES if name != "add"]
        raise BoundaryError(f"{value.__name__} is a class: write {value.__name__}({', '.join(needed)}).")
    if isinstance(value, numbers.Number) or is_array(value):
        return Constant(value)
    raise BoundaryError(
        f"a boundary rule must be a number, a name or a rule of stencilx.boundary, not {value!r}.",
        hint="by axis: {0: 'wrap', 1: 'edge'}; by side: {0: ('edge', 1.0)}; by field: {'u': 'wrap', 'h': 0.0}.",
    )


def slotted(boundary: Any) -> tuple[Any, tuple[Any, ...]]:
    """The same, with a slot in place of each value that is no number; and those values."""
    values: list[Any] = []

    def emptied(given: Any) -> Any:
        if isinstance(given, Mapping):
            return {key: emptied(value) for key, value in given.items()}
        if isinstance(given, (tuple, list)):
            return tuple(map(emptied, given))
        rule = as_rule(given)
        slots = {}
        for name in rule.VALUES:
            value = getattr(rule, name)
            if not isinstance(value, numbers.Number):
                slots[name] = Slot(len(values), rule._text(name))
                values.append(value)
        return replace(rule, **slots) if slots else given

    return emptied(boundary), tuple(values)


def resolve(boundary: Any, ndim: int, axis_names: Mapping[str, int], field: str) -> tuple[Sides, ...]:
    """One rule for each side of each axis of a field. Axes that a dict leaves out hold zeros outside."""
    if not isinstance(boundary, Mapping):
        rule = as_rule(boundary)
        return ((rule, rule),) * ndim
    sides: list[Sides] = [(Constant(0), Constant(0))] * ndim
    for key, value in boundary.items():
        if key == INSIDE:
            continue
        sides[_axis(key, ndim, axis_names, field)] = _both_sides(value)
    return tuple(sides)


def inside(boundary: Any) -> Rule | None:
    """The rule for cells that do not exist, if there is one of its own."""
    given = boundary.get(INSIDE) if isinstance(boundary, Mapping) else None
    return None if given is None else as_rule(given)


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


# Values


def evaluated(values: Sequence[Any], known: Mapping[str, Any], fields: Iterable[str]) -> tuple[Any, ...]:
    """The values of a call: a function is called with those of the kernel's parameters that it names."""
    return tuple(_called(value, known, fields) if callable(value) else value for value in values)


def _called(function: Callable[..., Any], known: Mapping[str, Any], fields: Iterable[str]) -> Any:
    text = function_text(function)
    given = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in fields:
            raise BoundaryError(
                f"the boundary function {text} takes {parameter.name!r}, which is a field: "
                "a boundary value may depend on parameters only.",
                hint="what depends on cells near the wall is a rule (Robin, Extrapolate), or a region F[0] = kernel.",
            )
        if parameter.name in known:
            given[parameter.name] = known[parameter.name]
        elif parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        ):
            others = [name for name in known if name not in fields]
            raise BoundaryError(
                f"the boundary function {text} takes {parameter.name!r}, which is no parameter of the kernel.",
                hint=did_you_mean(parameter.name, others) or f"the call gives {', '.join(others) or 'none'}.",
            )
    value = function(**given)
    if isinstance(value, np.generic):  # a NumPy scalar counts as the number that it is, as in a rule
        return value.item()
    if not isinstance(value, numbers.Number) and not is_array(value):
        raise BoundaryError(
            f"the boundary function {text} must return a number or an array, not {type(value).__name__}."
        )
    return value


def check_numbers(values: Sequence[Any], dtypes: Iterable[str]) -> None:
    """A whole number that a function gave must fit integer fields, as one that is written does."""
    for value, dtype in itertools.product(values, dtypes):
        if _overflows(value, dtype):
            raise BoundaryError(
                f"a boundary function gives {value}, which does not fit a field of dtype {dtype}.",
                hint=f"convert the field first, or let the function give a float: {float(value)}.",
            )


def _overflows(value: Any, dtype: str) -> bool:
    """Whether a value is a whole number, and none of an integer dtype."""
    name = dtype.split(".")[-1]  # "torch.uint8"
    if not isinstance(value, int) or isinstance(value, bool) or not re.fullmatch(r"u?int\d+", name):
        return False
    return not np.iinfo(name).min <= value <= np.iinfo(name).max


def filled(rule: Rule, value: Callable[[Slot], Any]) -> Rule:
    """The rule with values in its slots."""
    slots = {name: slot for name in rule.VALUES if isinstance(slot := getattr(rule, name), Slot)}
    return replace(rule, **{name: value(slot) for name, slot in slots.items()}) if slots else rule


def face_shape(value: Any, shape: Sequence[int], axis: int, field: str) -> tuple[int, ...]:
    """The shape in which a value meets slices of its field: 1 along the rule's axis, and where it is broadcast."""
    given = tuple(getattr(value, "shape", ()))
    face = (*shape[:axis], *shape[axis + 1 :])
    fits = len(given) <= len(face) and all(g in (1, n) for g, n in zip(reversed(given), reversed(face), strict=False))
    if not fits:
        raise BoundaryError(
            f"a boundary value of shape {given} does not fit axis {axis} of field {field!r}: "
            f"the field has shape {tuple(shape)}, and its face there {face}.",
            hint="give a number, or an array of the face's shape.",
        )
    spread = (1,) * (len(face) - len(given)) + given
    return (*spread[:axis], 1, *spread[axis:])


def check_values(rules: Sequence[Sides], values: Sequence[Any], shape: Sequence[int], field: str) -> None:
    """Arrays must fit the faces for which they are meant."""
    for axis, sides in enumerate(rules):
        for rule in sides:
            for slot in (getattr(rule, name) for name in rule.VALUES):
                if isinstance(slot, Slot):
                    face_shape(values[slot.number], shape, axis, field)


def joins(rules: Sequence[Sides], values: Sequence[Any]) -> tuple[Any, ...]:
    """The numbers and dtypes that a field is joined with by what may lie outside; 0 fits every dtype."""
    found: list[Any] = []
    for rule in dict.fromkeys(rule for sides in rules for rule in sides if not rule.copies):
        for name in rule.VALUES:
            value = getattr(rule, name)
            found.append(_joining(values[value.number]) if isinstance(value, Slot) else value)
        if rule.divides:
            found.append(1.0)
    return tuple(value for value in found if not isinstance(value, numbers.Number) or value != 0)


def _joining(value: Any) -> Any:
    """The dtype of an array; for a number one of its kind, whatever its value: plans are kept for later calls."""
    kinds = {"b": False, "i": 1, "u": 1, "f": 1.0, "c": 1j}
    if isinstance(value, (bool, int, float, complex)):
        return kinds[np.dtype(type(value)).kind]
    return kinds[np.dtype(value.dtype).kind] if getattr(value, "weak_type", False) else value.dtype


# Checks


def check_fits(rules: Sequence[Sides], dtype: str, joined: str, field: str) -> None:
    """No silent overflow: whole numbers outside an integer field are of its dtype, and formulas have signs."""
    for rule in (rule for sides in rules for rule in sides if not rule.copies):
        for value in (getattr(rule, value) for value in rule.VALUES):
            if _overflows(value, dtype):
                raise BoundaryError(
                    f"the boundary value {value} does not fit field {field!r} of dtype {dtype}.",
                    hint=f"convert the field first, or give the value as a float: {float(value)}.",
                )
    if re.fullmatch(r"uint\d+|bool", joined.split(".")[-1]):
        for rule in (rule for sides in rules for rule in sides):
            if not rule.copies and not isinstance(rule, Constant):
                raise BoundaryError(
                    f"boundary {str(rule)!r} may give negative ghosts, "
                    f"and field {field!r} of dtype {dtype} cannot hold them.",
                    hint="convert the field first: to float, or to a signed integer.",
                )


def check_lengths(rules: Sequence[Sides], shape: Sequence[int], ghosts: Sequence[tuple[int, int]], field: str) -> None:
    """A rule needs cells to copy or to compute with."""
    for axis, (sides, length, counts) in enumerate(zip(rules, shape, ghosts, strict=True)):
        for rule, count in zip(sides, counts, strict=True):
            if count and length < rule.least:
                if not length:
                    raise BoundaryError(
                        f"axis {axis} of field {field!r} is empty: boundary {str(rule)!r} has no cell to copy."
                    )
                raise BoundaryError(
                    f"boundary {str(rule)!r} needs {rule.least} cells or more along its axis, "
                    f"and axis {axis} of field {field!r} has {length}."
                )


# Ghosts that copy cells


@dataclass(frozen=True)
class Run:
    """Ghosts that copy `count` cells from `start` on, going up (step 1), down (-1) or standing still (0)."""

    start: int
    step: int
    count: int


def ghost_runs(rule: Rule, places: Iterable[int], length: int) -> list[Run]:
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


def ghost(rule: Rule, place: int, length: int, cell: Callable[[int], Any]) -> Any:
    """What stands at a place along one axis, inside or outside."""
    return cell(place) if 0 <= place < length else rule.ghost(place, length, cell)


def sources(rule: Rule, place: int, length: int) -> list[int]:
    """The cells along one axis from which a ghost is made."""
    found: list[int] = []

    def cell(index: int) -> float:
        found.append(index)
        return 1.0

    filled(rule, lambda slot: np.array(0.75)).ghost(place, length, cell)
    return list(dict.fromkeys(found))


def is_plain(rule: Rule) -> TypeGuard[Constant]:
    """Whether one number, known in advance, lies outside."""
    return isinstance(rule, Constant) and isinstance(rule.value, numbers.Number)


def copying(rule: Rule) -> Rule:
    """How an array over a face goes on beyond the ends of another axis: by copies, and else with its last value."""
    return rule if rule.copies else Edge()
