"""What a call means, as Python loops: the last stage of the path of the data, written so that anybody can check it.

For each output cell: cut out the window of each field, call the kernel, keep what it returns. Prints and breakpoints
in a kernel work, and an exception says in which cell it was raised. Windows, ghosts and regions are worked out here
anew, cell by cell, and not by the code that the vectorised backends share: this is their oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stencilx.backend import Arguments, Leaf, Loop, Runner, WindowSpec, step_by_step, trial_reads
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
from stencilx.capture import described
from stencilx.errors import KernelError
from stencilx.fields import FieldPlan
from stencilx.offsets import OffsetWindow
from stencilx.plan import Plan
from stencilx.regions import key_text
from stencilx.results import check_alike, check_updates, flatten, into, unflatten
from stencilx.window import Offset, Reads, Window

Index = tuple[int, ...]


@dataclass(frozen=True)
class Looked:
    """A kernel and what it reads: every tap of known windows, or what one trial call read."""

    kernel: Callable[..., Any]
    windows: tuple[WindowSpec, ...]
    arguments: Arguments
    reads: tuple[Reads, ...]
    reusable: bool
    operations: None = None

    def dtypes(self) -> list[Any]:
        """From one trial call, on windows full of ones."""
        samples = [np.asarray(_sample(a), _dtype(a, s.joins))[()] for a, s in zip(self.arguments.arrays, self.windows)]
        views = [
            _relative_view(spec, spec.window, lambda _, sample=sample: sample)
            if spec.relative or spec.window is None
            else np.full(spec.window.size, sample)
            for spec, sample in zip(self.windows, samples)
        ]
        args, kwargs = self.arguments.with_fields(views)
        with np.errstate(all="ignore"):
            leaves, _ = flatten(self.kernel(*args, **kwargs))
        return [leaf if isinstance(leaf, (bool, int, float, complex)) else np.asarray(leaf).dtype for leaf in leaves]


class NumpyBackend:
    """Cell by cell. Fields are NumPy arrays; kernels may use any library that takes them."""

    name = "numpy"

    def as_field(self, value: Any, like: Any = None) -> np.ndarray:
        return np.asarray(value)

    def signature(self, arguments: Arguments) -> Hashable:
        parameters = arguments.with_fields([None] * len(arguments.fields))
        return described(arguments.arrays), described(parameters), described(arguments.walls)

    def joined(self, array: np.ndarray, joins: Sequence[Any]) -> np.dtype:
        return _dtype(array, joins)

    def where(self, condition: Any, tree: Any, other: Any) -> Any:
        leaves, structure = flatten(tree)
        return unflatten(structure, [leaf if condition else _like(leaf, other) for leaf in leaves])

    def trace(self, kernel: Callable[..., Any], windows: Sequence[WindowSpec], arguments: Arguments) -> Looked:
        # what is kept in a cache must not keep the first call's fields alive: their dtypes are all that is asked for
        fieldless = Arguments(
            *arguments.with_fields([np.empty(0, a.dtype) for a in arguments.arrays]), arguments.fields
        )
        if all(spec.window for spec in windows):
            reads = tuple(spec.window or () for spec in windows)
            return Looked(kernel, tuple(windows), fieldless, reads, reusable=True)
        samples = [_sample(array) for array in arguments.arrays]
        with np.errstate(all="ignore"):
            reads = trial_reads(kernel, windows, arguments, samples, _stack)
        return Looked(kernel, tuple(windows), fieldless, reads, reusable=False)

    def output(self, plan: Plan, formulas: Sequence[Looked], arguments: Arguments) -> tuple[Leaf, ...] | None:
        return None

    def loop(self, step: Callable[[Any], Any], donate: bool) -> Loop:
        return step_by_step(step)

    def runner(self, plan: Plan, formulas: Sequence[Looked]) -> Runner:
        return lambda arguments, out: into(_run(plan, formulas, arguments), out)


def _like(leaf: Any, other: Any) -> Any:
    """A value in the shape of a leaf, and in its dtype if it is a plain number."""
    if isinstance(leaf, OffsetWindow):
        return leaf  # an error of its own
    if isinstance(leaf, (bool, int, float, complex)):
        return type(leaf)(other)
    dtype = np.asarray(leaf).dtype if isinstance(other, int) else np.result_type(leaf, other)
    return np.full(np.shape(leaf), other, dtype)[()]


def _dtype(array: np.ndarray, joins: Sequence[Any]) -> np.dtype:
    return np.result_type(array, *joins)


def _sample(array: np.ndarray) -> Any:
    """What every read gives in a trial call: 1, where most functions are at their best."""
    return np.ones((), array.dtype)[()]


def _stack(values: np.ndarray) -> np.ndarray:
    return np.array(values.tolist())


@dataclass(frozen=True)
class _Cell:
    """What a kernel returned for one cell; or, with no kernel, the constant that fills every leaf of it."""

    kernel: Callable[..., Any] | None
    value: Any


def _run(plan: Plan, formulas: Sequence[Looked], arguments: Arguments) -> Any:
    """Every cell in row-major order (the opposite in reverse). A sweep's state is copies of the fields it updates."""
    arrays = [array.astype(_dtype(array, f.joins), copy=False) for array, f in zip(arguments.arrays, plan.fields)]
    for number in plan.updates:
        arrays[number] = arrays[number].copy()
    fields = [_Field(f, array, arguments.walls) for f, array in zip(plan.fields, arrays)]
    owner = np.full(plan.frame.shape, -1)
    for number, value in enumerate(plan.values):
        owner[value.key] = number
    constants = [_constants(plan, number) for number in range(len(plan.values))]
    results: dict[Index, _Cell] = {}
    cells = list(np.ndindex(*plan.grid))
    for cell in reversed(cells) if plan.reverse else cells:
        place = tuple(cells[i] for cells, i in zip(plan.frame.cells, cell))
        inside = all(0 <= i < n for i, n in zip(place, plan.frame.shape))
        number = int(owner[place]) if inside else -1
        if number < 0:
            continue
        value = plan.values[number]
        if value.kernel is None:
            results[cell] = _Cell(None, constants[number](place))
        else:
            result = _call(formulas[value.kernel], plan, fields, arguments, cell, key_text(value.key))
            results[cell] = _Cell(formulas[value.kernel].kernel, result)
        _write(plan, arrays, cell, results[cell])
    return _swept(plan, arrays) if plan.updates else _assemble(plan, arguments, results)


def _write(plan: Plan, arrays: Sequence[np.ndarray], cell: Index, result: _Cell) -> None:
    """A sweep writes a cell's results at its windows' centres before it visits the next one."""
    leaves = [result.value] * len(plan.updates) if result.kernel is None else flatten(result.value)[0]
    if plan.updates and result.kernel is not None:
        check_updates(result.kernel, len(plan.updates), list(map(np.shape, leaves)), leaves[0] is result.value)
    for number, leaf in zip(plan.updates, leaves):
        arrays[number][_centre(plan.fields[number], cell)] = leaf


def _centre(f: FieldPlan, cell: Index) -> Index:
    g = f.geometry
    return tuple(
        c * s - before - lo * d for c, s, (before, _), lo, d in zip(cell, g.strides, g.padding, g.window.lo, g.dilation)
    )


def _swept(plan: Plan, arrays: Sequence[np.ndarray]) -> Any:
    """The updated arrays themselves for sscan, the written values for kscan."""
    if plan.into_copy:
        results = [arrays[number] for number in plan.updates]
    else:
        results = [np.empty(plan.grid, arrays[number].dtype) for number in plan.updates]
        for number, result in zip(plan.updates, results):
            for cell in np.ndindex(*plan.grid):
                result[cell] = arrays[number][_centre(plan.fields[number], cell)]
    return results[0] if len(results) == 1 else tuple(results)


def _constants(plan: Plan, number: int) -> Callable[[Index], Any]:
    """For a region that holds a number or an array: its value in a cell."""
    value = plan.values[number]
    if isinstance(value.constant, (bool, int, float, complex)) or value.kernel is not None:
        return lambda place: value.constant
    given = np.asarray(value.constant)
    spread = np.empty(plan.frame.shape, given.dtype)
    spread[value.key] = given
    return lambda place: spread[place]


def _call(looked: Looked, plan: Plan, fields: Sequence[_Field], arguments: Arguments, cell: Index, region: str) -> Any:
    views = [_view(spec, field, cell) for spec, field in zip(looked.windows, fields)]
    args, kwargs = arguments.with_fields(views)
    try:
        return looked.kernel(*args, **kwargs)
    except Exception as error:
        place = ", ".join(str(cells[i]) for cells, i in zip(plan.frame.cells, cell))
        error.add_note(f"in cell ({place}) of the output grid {plan.frame.shape}, region F[{region}]")
        for field in fields:
            f = field.plan
            error.add_note(f"with the window of {f.name!r} ({f.window}):\n{_cut(field, cell, _taps(f.window))}")
        raise


def _view(spec: WindowSpec, field: _Field, cell: Index) -> Any:
    """What the kernel sees of one field: an array, or an object to be indexed by offset."""
    if not spec.relative:
        return _cut(field, cell, _taps(field.plan.window))

    def read(offset: Offset) -> Any:
        return _cut(field, cell, [range(o, o + 1) for o in offset]).reshape(())[()]

    return _relative_view(spec, field.plan.covered, read)


def _taps(window: Window) -> list[range]:
    return [range(lo, hi + 1) for lo, hi in zip(window.lo, window.hi)]


def _relative_view(spec: WindowSpec, window: Window | None, read: Callable[[Offset], Any]) -> OffsetWindow:
    return OffsetWindow(spec.field, spec.ndim, window, spec.axis_names, read, _stack)


def _cut(field: _Field, cell: Index, taps: Sequence[range]) -> np.ndarray:
    """A copy of the window of a cell, or of some taps of it."""
    centre = _centre(field.plan, cell)
    places = [[m + o * d for o in t] for m, t, d in zip(centre, taps, field.plan.geometry.dilation)]
    window = np.empty([len(p) for p in places], field.array.dtype)
    for index in np.ndindex(*window.shape):
        window[index] = field.value(tuple(p[i] for p, i in zip(places, index)))
    return window


@dataclass(frozen=True)
class _Field:
    """A field as a sweep or map reads it: what the plan says of it, its array, the values of its boundary rules."""

    plan: FieldPlan
    array: np.ndarray
    walls: tuple[Any, ...]

    def value(self, place: Index) -> Any:
        """The array's value at a place, or what its rules say: the axis that was extended last is asked first."""
        for axis in reversed(range(self.array.ndim)):
            if not 0 <= place[axis] < self.array.shape[axis]:
                rule = self.plan.rules[axis][0 if place[axis] < 0 else 1]
                return self.array.dtype.type(self.ghost(rule, axis, place))
        return self.array[place]

    def ghost(self, rule: Rule, axis: int, place: Index) -> Any:
        """What a rule gives at a place beyond one of its axis' ends."""
        i, n = place[axis], self.array.shape[axis]
        depth = -i if i < 0 else i - n + 1

        def u(j: int) -> Any:
            """The j-th cell inwards from this end; a mirror that runs out of cells turns round at the other one."""
            moved = j if i < 0 else n - 1 - j
            there = (*place[:axis], moved, *place[axis + 1 :])
            return self.value(there) if 0 <= moved < n else self.ghost(rule, axis, there)

        def given(value: Any) -> Any:
            return self._on_face(value, axis, place) if isinstance(value, Slot) else value

        match rule:
            case Constant(value):
                return given(value)
            case Wrap(add, shared):
                period = n - 1 if shared else n
                turns = 0
                while not 0 <= i < n:
                    i, turns = (i + period, turns - 1) if i < 0 else (i - period, turns + 1)
                return self.value((*place[:axis], i, *place[axis + 1 :])) + turns * given(add)
            case Edge():
                return u(0)
            case Reflect(odd):
                image = u(depth) if n > 1 else u(0)
                return 2 * u(0) - image if odd else image
            case Symmetric(odd):
                return 2 * u(0) - u(depth - 1) if odd else u(depth - 1)
            case Extrapolate(order):
                cells = [u(j) for j in range(order + 1)]
                for _ in range(depth):  # the next value makes the differences of highest order go on as they are
                    cells = [_continued(cells), *cells[:order]]
                return cells[0]
            case Dirichlet(value, at):
                return 2 * given(value) - u(depth - 1 if at == "face" else depth)
            case Neumann(slope, dx, at):
                apart = 2 * depth - 1 if at == "face" else 2 * depth
                return u(depth - 1 if at == "face" else depth) + apart * given(dx) * given(slope)
            case Robin(a, b, g, dx, "node"):
                slope = (given(g) - given(a) * u(0)) / given(b)
                return u(depth) + 2 * depth * given(dx) * slope
            case Robin(a, b, g, dx, _):  # a*(u[0] + first)/2 + b*(first - u[0])/dx = g
                mean, slope = given(a) / 2, given(b) / given(dx)
                first = (given(g) - (mean - slope) * u(0)) / (mean + slope)
                return u(depth - 1) + (2 * depth - 1) * (first - u(0))
        raise KernelError(f"the NumPy backend does not know the boundary rule {rule}.")

    def _on_face(self, slot: Slot, axis: int, place: Index) -> Any:
        """The element of a rule's value that stands beside a place."""
        value = np.asarray(self.walls[slot.number])
        others = [b for b in range(self.array.ndim) if b != axis]
        index = []
        for b, length in zip(others[len(others) - value.ndim :], value.shape):
            i, n = place[b], self.array.shape[b]
            if not 0 <= i < n:
                rule = self.plan.rules[b][0 if i < 0 else 1]
                i = rule.index(i, n) if rule.copies else (0 if i < 0 else n - 1)
            index.append(i if length > 1 else 0)
        return value[tuple(index)][()]


def _continued(cells: Sequence[Any]) -> Any:
    """The value before the first of some cells that a polynomial through all of them takes."""
    if len(cells) == 1:
        return cells[0]
    return cells[0] + _continued([b - a for a, b in zip(cells[1:], cells)])


def _assemble(plan: Plan, arguments: Arguments, results: dict[Index, _Cell]) -> Any:
    """One array for each leaf of what the kernels return, grid axes first."""
    leaves: dict[Index, list[Any]] = {}
    first: tuple[Callable[..., Any], Any, list[Any]] | None = None
    for cell, result in results.items():
        if result.kernel is None:
            continue
        values, structure = flatten(result.value)
        shapes = [np.shape(value) for value in values]
        leaves[cell] = [v if isinstance(v, (bool, int, float, complex)) else np.asarray(v) for v in values]
        first = first or (result.kernel, structure, shapes)
        check_alike(*first, result.kernel, structure, shapes)
        if plan.into_copy:
            check_updates(result.kernel, 1, shapes, structure == "*")
    structure, shapes = first[1:] if first else ("*", [()])
    for cell, result in results.items():
        if result.kernel is None:
            leaves[cell] = [result.value] * len(shapes)
    by_leaf = [{cell: values[i] for cell, values in leaves.items()} for i in range(len(shapes))]
    arrays = [_array(plan, arguments, v, s, first is not None) for v, s in zip(by_leaf, shapes)]
    return unflatten(structure, arrays)


def _array(plan: Plan, arguments: Arguments, values: dict[Index, Any], shape: Index, has_kernel: bool) -> np.ndarray:
    """The values of all cells as one array, of the dtype in which all of them fit."""
    kinds = {type(v) if isinstance(v, (bool, int, float, complex)) else v.dtype: v for v in values.values()}
    members = [v if isinstance(v, (bool, int, float, complex)) else v.dtype for v in kinds.values()]
    if plan.into_copy:
        array = arguments.arrays[0].astype(np.result_type(arguments.arrays[0], *members))
    else:
        if not has_kernel:
            members.append(arguments.arrays[0].dtype)  # numbers alone join the field's dtype
        array = np.zeros(plan.grid + shape, np.result_type(*members))
    for cell, value in values.items():
        place = tuple(cells[i] for cells, i in zip(plan.frame.cells, cell)) if plan.into_copy else cell
        array[place] = value
    return array


BACKEND = NumpyBackend()
