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

from stencilx.backend import Arguments, Leaf, Runner, WindowSpec, trial_reads
from stencilx.boundary import Constant, Edge, Reflect, Rule, Symmetric, Wrap
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

    def as_field(self, value: Any) -> np.ndarray:
        return np.asarray(value)

    def signature(self, arguments: Arguments) -> Hashable:
        return described(arguments.arrays), described(arguments.with_fields([None] * len(arguments.fields)))

    def joined(self, array: np.ndarray, joins: Sequence[Any]) -> np.dtype:
        return _dtype(array, joins)

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

    def runner(self, plan: Plan, formulas: Sequence[Looked]) -> Runner:
        return lambda arguments, out: into(_run(plan, formulas, arguments), out)


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
            result = _call(formulas[value.kernel], plan, arrays, arguments, cell, key_text(value.key))
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


def _call(
    looked: Looked, plan: Plan, arrays: Sequence[np.ndarray], arguments: Arguments, cell: Index, region: str
) -> Any:
    views = [_view(spec, f, array, cell) for spec, f, array in zip(looked.windows, plan.fields, arrays)]
    args, kwargs = arguments.with_fields(views)
    try:
        return looked.kernel(*args, **kwargs)
    except Exception as error:
        place = ", ".join(str(cells[i]) for cells, i in zip(plan.frame.cells, cell))
        error.add_note(f"in cell ({place}) of the output grid {plan.frame.shape}, region F[{region}]")
        for f, array in zip(plan.fields, arrays):
            taps = [range(lo, hi + 1) for lo, hi in zip(f.window.lo, f.window.hi)]
            error.add_note(f"with the window of {f.name!r} ({f.window}):\n{_cut(f, array, cell, taps)}")
        raise


def _view(spec: WindowSpec, f: FieldPlan, array: np.ndarray, cell: Index) -> Any:
    """What the kernel sees of one field: an array, or an object to be indexed by offset."""
    if not spec.relative:
        return _cut(f, array, cell, [range(lo, hi + 1) for lo, hi in zip(f.window.lo, f.window.hi)])

    def read(offset: Offset) -> Any:
        return _cut(f, array, cell, [range(o, o + 1) for o in offset]).reshape(())[()]

    return _relative_view(spec, f.window, read)


def _relative_view(spec: WindowSpec, window: Window | None, read: Callable[[Offset], Any]) -> OffsetWindow:
    return OffsetWindow(spec.field, spec.ndim, window, spec.axis_names, read, _stack)


def _cut(f: FieldPlan, array: np.ndarray, cell: Index, taps: Sequence[range]) -> np.ndarray:
    """A copy of the window of a cell, or of some taps of it."""
    centre = _centre(f, cell)
    places = [[m + o * d for o in t] for m, t, d in zip(centre, taps, f.geometry.dilation)]
    window = np.empty([len(p) for p in places], array.dtype)
    for index in np.ndindex(*window.shape):
        window[index] = _value(f, array, [p[i] for p, i in zip(places, index)])
    return window


def _value(f: FieldPlan, array: np.ndarray, place: list[int]) -> Any:
    """The array's value at a place, or what its boundary rules say: the axis that was extended last is asked first."""
    for axis in reversed(range(array.ndim)):
        n = array.shape[axis]
        if place[axis] < 0 or place[axis] >= n:
            rule = f.rules[axis][0 if place[axis] < 0 else 1]
            if isinstance(rule, Constant):
                return rule.value
            place[axis] = _stand_in(rule, place[axis], n)
    return array[tuple(place)]


def _stand_in(rule: Rule, i: int, n: int) -> int:
    match rule:
        case Wrap():
            while i < 0:
                i += n
            while i >= n:
                i -= n
        case Edge():
            i = 0 if i < 0 else n - 1
        case Reflect():
            while n > 1 and not 0 <= i < n:
                i = -i if i < 0 else 2 * (n - 1) - i
            i = i if n > 1 else 0
        case Symmetric():
            while not 0 <= i < n:
                i = -1 - i if i < 0 else 2 * n - 1 - i
        case _:
            raise KernelError(f"the NumPy backend does not know the boundary rule {rule}.")
    return i


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
