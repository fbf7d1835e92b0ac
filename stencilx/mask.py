"""Cells that do not exist: land in an ocean, obstacles in a flow.

A mask is a boolean array as large as its field: True for cells that exist. It travels as one more field, and every
kernel is wrapped in one that reads it. A read of a cell that does not exist gives what the boundary rule says of a
wall there:

    x  cell that exists     # cell that does not        * the centre
    x x * x # # x           a read at offset 3: the wall lies before the first of the two #, at depth 2

The wall is the one nearest to the cell that is read, seen from the centre along one axis; where both axes would do the
last one is taken, as in corners outside the array. Where a rule needs more cells than there are between two walls, the
last one of them counts for those that lack. The first field's mask says which cells there are; a field beside it whose
own centre does not exist (a closed face of an open cell) gives the value of Constant or Dirichlet there, else 0.

In a cell that does not exist every read gives 1: whatever lies there, NaN included, reaches no result and no gradient.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stencilx.backend import Arguments, WindowSpec
from stencilx.boundary import (
    Constant,
    Dirichlet,
    Edge,
    Extrapolate,
    Neumann,
    Reflect,
    Robin,
    Rule,
    Slot,
    Symmetric,
    Wrap,
)
from stencilx.errors import BoundaryError, FieldError, did_you_mean
from stencilx.fields import FieldPlan
from stencilx.offsets import OffsetWindow
from stencilx.walls import Sides, filled
from stencilx.window import Offset

FAR = 1 << 30
"""As many cells as there may be before a wall: a rule's formula sees no other end."""


def find(mask: Any, known: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The masks of a call by field: an array, or a parameter's name, for one field or for all that have its shape."""
    if not isinstance(mask, Mapping):
        array = _array(mask, known)
        found = {name: array for name, shape in shapes.items() if shape == tuple(array.shape)}
        if not found:
            shown = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise FieldError(f"the mask has shape {tuple(array.shape)}, and no field has: {shown}.")
        return found
    for name in mask:
        if name not in shapes:
            raise FieldError(f"mask names field {name!r}, and there is no such field.", hint=did_you_mean(name, shapes))
    arrays = {name: _array(mask[name], known) for name in shapes if name in mask}
    for name, array in arrays.items():
        if tuple(array.shape) != shapes[name]:
            raise FieldError(f"the mask of field {name!r} has shape {tuple(array.shape)}, the field {shapes[name]}.")
    return arrays


def _array(mask: Any, known: Mapping[str, Any]) -> Any:
    array = mask
    if isinstance(mask, str):
        if mask not in known:
            raise FieldError(
                f"mask names parameter {mask!r}, which the call does not give.", hint=did_you_mean(mask, known)
            )
        array = known[mask]
    if not hasattr(array, "dtype") or str(array.dtype).split(".")[-1] != "bool":
        shown = getattr(array, "dtype", type(array).__name__)
        raise FieldError(
            f"a mask must be an array of booleans, True for cells that exist, not {shown}.",
            hint="write mask > 0, or mask == 1.",
        )
    return array


def outside(rule: Rule) -> Rule:
    """What lies outside the array of a mask whose field has that rule: a ghost exists if what it mirrors does."""
    if rule.copies:
        return rule
    match rule:
        case Wrap():
            return Wrap(shared=rule.shared)
        case Dirichlet() | Neumann() | Robin():
            return Symmetric() if rule.at == "face" else Reflect()
        case Reflect():
            return Reflect()
        case Symmetric():
            return Symmetric()
        case Extrapolate():
            return Edge()
    return Constant(True)


@dataclass(frozen=True)
class Masked:
    """A field with a mask: the number of each, and the rules for walls inside, on both sides of each axis."""

    field: int
    mask: int
    rules: tuple[Sides, ...]


@dataclass(frozen=True)
class Masking:
    """What the wrapped kernels of one plan share.

    Attributes:
        windows: what the user's kernels see of each of their fields.
        places: the places among the arguments of these fields, and of the masks.
        masked: the fields that have masks; the first one's mask says which cells are computed.
        slots: the slots of values that follow the masks as further arguments.
        keep: for each result the field whose value a cell that does not exist keeps; none for results of 0.
        where: the backend's choice, `where(condition, tree, other)`.
        seen: for each field what the user's kernels have read of it.
    """

    windows: Sequence[WindowSpec]
    places: Sequence[int]
    masked: Sequence[Masked]
    slots: Sequence[int]
    keep: Sequence[int]
    where: Callable[[Any, Any, Any], Any]
    seen: Sequence[set[Offset]]

    @property
    def specs(self) -> list[WindowSpec]:
        """What the wrapped kernels see: any cell of the fields and the masks, by offset."""
        fields = [replace(spec, window=None, relative=True) for spec in self.windows]
        masks = [replace(fields[m.field], field=name_of(fields[m.field].field), joins=()) for m in self.masked]
        return fields + masks

    def marked(self, fields: Sequence[FieldPlan]) -> tuple[FieldPlan, ...]:
        """The fields of the plan, those that have masks with their rules for cells that do not exist."""
        inside = {masked.field: masked.rules for masked in self.masked}
        for number in inside:
            check_ends(fields[number])
        return tuple(replace(f, inside=inside.get(number, ())) for number, f in enumerate(fields))


def name_of(field: str) -> str:
    """What the mask of a field is called."""
    return f"mask of {field}"


def with_masks(arguments: Arguments, masks: Sequence[Any]) -> Arguments:
    """Masks as further fields, and the single values of boundary rules, after all that the user's kernels take."""
    n = len(arguments.args)
    args = (*arguments.args, *masks, *(arguments.walls[slot] for slot in single(arguments.walls)))
    return replace(arguments, args=args, fields=(*arguments.fields, *range(n, n + len(masks))))


class MaskedKernel:
    """A kernel as the backend gets it: it takes masks, and values of walls inside, after the user's arguments."""

    def __init__(self, kernel: Callable[..., Any], masking: Masking) -> None:
        functools.update_wrapper(self, kernel, updated=())
        self.kernel, self.masking = kernel, masking

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        m = self.masking
        own = len(args) - len(m.masked) - len(m.slots)
        values = dict(zip(m.slots, args[own + len(m.masked) :], strict=True))
        raw: list[OffsetWindow] = [args[place] for place in m.places]
        centre = (0,) * raw[0].ndim
        exists = raw[m.masked[0].mask][centre]
        fields = {
            x.field: _Reads(raw[x.field], raw[x.mask], x.rules, values, m.where, x is m.masked[0]) for x in m.masked
        }
        given = list(args[:own])
        for number, window in enumerate(m.windows):
            read = fields[number].at if number in fields else raw[number].__getitem__
            given[m.places[number]] = self._view(number, window, raw[number], read, exists)
        result = self.kernel(*given, **kwargs)
        if not m.keep:
            return m.where(exists, result, 0)
        if len(m.keep) == 1:
            return m.where(exists, result, raw[m.keep[0]][centre])
        if not isinstance(result, (tuple, list)) or len(result) != len(m.keep):
            return result  # an error of its own
        pairs = zip(result, m.keep, strict=True)
        return tuple(m.where(exists, value, raw[number][centre]) for value, number in pairs)

    def _view(
        self, number: int, window: WindowSpec, raw: OffsetWindow, read: Callable[[Offset], Any], exists: Any
    ) -> Any:
        """What the user's kernel sees of one field."""
        m = self.masking

        def noted(offset: Offset) -> Any:
            m.seen[number].add(offset)
            return m.where(exists, read(offset), 1)

        view = OffsetWindow(window.field, window.ndim, window.window, window.axis_names, noted, raw.stack)
        return view if window.relative else view[...]


@dataclass(frozen=True)
class _Reads:
    """Reads of one field that has a mask."""

    field: OffsetWindow
    mask: OffsetWindow
    rules: tuple[Sides, ...]
    values: Mapping[int, Any]
    where: Callable[[Any, Any, Any], Any]
    first: bool

    def at(self, offset: Offset) -> Any:
        """The cell there if it exists, and what the rules say if it does not."""
        if not any(offset):
            return self._centre
        return self.where(self.mask[offset], self.field[offset], self._behind(offset, len(offset)))

    @property
    def _centre(self) -> Any:
        """The centre exists wherever a kernel's result counts, but for fields beside the first: a closed face."""
        centre, rule = (0,) * self.field.ndim, self.rules[0][0]
        if self.first:
            return self.field[centre]
        known = isinstance(rule, (Constant, Dirichlet))
        value = getattr(filled(rule, lambda slot: self.values[slot.number]), "value", 0) if known else 0
        return self.where(self.mask[centre], self.field[centre], value)

    def _behind(self, offset: Offset, axes: int) -> Any:
        """What stands for a missing cell: the first so many axes are asked for a wall, the last one first."""
        axis = next((a for a in reversed(range(axes)) if offset[a]), None)
        if axis is None:  # wall upon wall: along the last axis, beside what stands for the cell in the centre's row
            axis = max(a for a in range(len(offset)) if offset[a])
            return self._ghost(offset, axis, 0, self.at(_moved(offset, axis, 0)))
        found = self._behind(offset, axis) if any(_moved(offset, axis, 0)) else None
        for near in range(abs(offset[axis])):  # the wall nearest to the cell that is read has the last word
            base = _moved(offset, axis, near)
            ghost = self._ghost(offset, axis, near, self.field[base] if any(base) else self._centre)
            found = self.where(self.mask[base], ghost, found) if any(base) else ghost
        return found

    def _ghost(self, offset: Offset, axis: int, near: int, first: Any) -> Any:
        """What the rule makes of the cells before a wall, the first of which is so far from the centre's row."""

        def cell(j: int) -> Any:
            if j == 0:
                return first
            inwards = _moved(offset, axis, near - j)
            return self.where(self.mask[inwards], self.field[inwards], cell(j - 1))

        rule = filled(self.rules[axis][0 if offset[axis] < 0 else 1], lambda slot: self.values[slot.number])
        return rule.ghost(near - abs(offset[axis]), FAR, cell)


def _moved(offset: Offset, axis: int, steps: int) -> Offset:
    """The offset with so many steps towards the same side along one axis."""
    return (*offset[:axis], steps if offset[axis] > 0 else -steps, *offset[axis + 1 :])


def outside_sides(sides: tuple[Sides, ...]) -> tuple[Sides, ...]:
    return tuple((outside(low), outside(high)) for low, high in sides)


def check_ends(f: FieldPlan) -> None:
    """Beyond the ends of the array a ghost exists if the cell that it mirrors does; with Extrapolate there are more."""
    for sides, counts in zip(f.rules, f.ghosts, strict=True):
        for rule, count in zip(sides, counts, strict=True):
            if count and isinstance(rule, Extrapolate) and rule.order:
                raise BoundaryError(
                    f"boundary {str(rule)!r} of field {f.name!r} might take cells that its mask says do not exist.",
                    hint="beside a mask take 'edge' or a rule with one mirror.",
                )


def inner_rules(sides: tuple[Sides, ...], inner: Rule | None, field: str) -> tuple[Sides, ...]:
    """The rules for walls inside: those of the array's ends, or one of their own."""
    rules = sides if inner is None else ((inner, inner),) * len(sides)
    for rule in (rule for pair in rules for rule in pair):
        if isinstance(rule, Wrap):
            raise BoundaryError(
                f"boundary {str(rule)!r} of field {field!r} does not say what lies behind a wall inside.",
                hint="name a rule for cells that do not exist: boundary={0: 'wrap', 'mask': 'edge'}.",
            )
    return rules


def check_single(rules: Sequence[tuple[Sides, ...]], slots: Sequence[int]) -> None:
    """Walls inside have no faces on which an array could lie."""
    for rule in (rule for field in rules for pair in field for rule in pair):
        for slot in (getattr(rule, name) for name in rule.VALUES):
            if isinstance(slot, Slot) and slot.number not in slots:
                raise BoundaryError(
                    f"boundary {str(rule)!r} has an array over a face, which walls inside do not have.",
                    hint="name a rule for cells that do not exist: boundary={..., 'mask': 'edge'}.",
                )


def single(values: Sequence[Any]) -> tuple[int, ...]:
    """The numbers of the values that walls inside may have."""
    return tuple(n for n, value in enumerate(values) if isinstance(value, numbers.Number) or not value.shape)
