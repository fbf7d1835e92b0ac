"""The array-API backend: the kernel is called once on `Cells`, values whose elements are whole shifted slices.

There is no trace: each call evaluates the kernel with the library's own operations, so its automatic differentiation
(PyTorch's, say) goes through. Arrays of the fields' library come in and go out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

from stencilx.backend import Arguments, Leaf, Runner, WindowSpec, trial_reads
from stencilx.errors import FieldError, KernelError, line_of
from stencilx.offsets import OffsetWindow, whole_window_hint, whole_window_message
from stencilx.plan import Plan
from stencilx.regions import Part, Points, positions
from stencilx.results import check_alike, check_updates, flatten, kernel_name, unflatten
from stencilx.window import Offset, Reads
from stencilx_array_api import functions as functions  # importing it fills the table of what Cells can do
from stencilx_array_api.cells import Cells, as_cells, stack
from stencilx_array_api.shifts import Shifts


@dataclass(frozen=True)
class Evaluated:
    """A kernel, and what it reads: any tap of known windows, or what a trial call read."""

    kernel: Callable[..., Any]
    windows: tuple[WindowSpec, ...]
    reads: tuple[Reads, ...]
    reusable: bool
    operations: None = None


class ArrayApiBackend:
    """Whole-array slices over any array-API namespace."""

    name = "array_api"

    def as_field(self, value: Any) -> Any:
        return value if array_api_compat.is_array_api_obj(value) else np.asarray(value)

    def signature(self, arguments: Arguments) -> Hashable:
        return tuple((type(array), tuple(array.shape), array.dtype) for array in arguments.arrays)

    def trace(self, kernel: Callable[..., Any], windows: Sequence[WindowSpec], arguments: Arguments) -> Evaluated:
        if all(spec.window for spec in windows):
            return Evaluated(kernel, tuple(windows), tuple(spec.window or () for spec in windows), reusable=True)
        xp = array_api_compat.array_namespace(*arguments.arrays)
        samples = [_one_cell(xp, array) for array in arguments.arrays]
        reads = trial_reads(kernel, windows, arguments, samples, lambda values: Cells(_elements(values), xp))
        return Evaluated(kernel, tuple(windows), reads, reusable=False)

    def output(self, plan: Plan, formulas: Sequence[Evaluated], arguments: Arguments) -> tuple[Leaf, ...] | None:
        return None

    def runner(self, plan: Plan, formulas: Sequence[Evaluated]) -> Runner:
        return lambda arguments, out: _run(plan, formulas, arguments, out)


def _one_cell(xp: Any, array: Any) -> Cells:
    """A sample of a field: what a read gives on a grid of one cell."""
    shape = (1,) * array.ndim
    key = tuple(slice(n // 2, n // 2 + 1) for n in array.shape)
    sample = array[key] if math.prod(array.shape) else xp.zeros(shape, dtype=array.dtype)
    return _scalar(sample, xp)


def _scalar(element: Any, xp: Any) -> Cells:
    one = np.empty((), object)
    one[()] = element
    return Cells(one, xp)


def _elements(values: Any) -> np.ndarray:
    """The elements of an array of scalar Cells."""
    found = np.empty(values.shape, object)
    for index in np.ndindex(*values.shape):
        found[index] = values[index].elements[()]
    return found


def _run(plan: Plan, formulas: Sequence[Evaluated], arguments: Arguments, out: Any) -> Any:
    xp = array_api_compat.array_namespace(*arguments.arrays)
    shifts = []
    for array, f in zip(arguments.arrays, plan.fields, strict=True):
        dtype = joined(xp, array.dtype, f.joins)
        shifts.append(Shifts(f, array if dtype == array.dtype else xp.astype(array, dtype), xp))
    structure, shapes, pieces = _pieces(plan, formulas, arguments, shifts, xp)
    results = [_assembled(plan, p, s, arguments.arrays[0], xp) for p, s in zip(pieces, shapes, strict=True)]
    if out is not None:
        for target, result in zip(flatten(out)[0], results, strict=True):
            if tuple(target.shape) != tuple(result.shape) or target.dtype != result.dtype:
                raise FieldError(
                    f"out has shape {tuple(target.shape)} and dtype {target.dtype}, "
                    f"but the result has {tuple(result.shape)} and {result.dtype}."
                )
            target[...] = result
        return out
    return unflatten(structure, results)


def _pieces(
    plan: Plan, formulas: Sequence[Evaluated], arguments: Arguments, shifts: Sequence[Shifts], xp: Any
) -> tuple[Any, list[tuple[int, ...]], list[list[Any]]]:
    """For each leaf of the result its values on each part; constants follow the kernels, whose leaves they fill."""
    called: dict[int, list[Any]] = {}
    first: tuple[Any, Any, list[tuple[int, ...]]] | None = None
    for number, part in enumerate(plan.parts):
        kernel = plan.values[part.owner].kernel
        if kernel is None:
            continue
        leaves, structure = _call(formulas[kernel], part, arguments, shifts, xp)
        shapes = [leaf.shape for leaf in leaves]
        first = first or (formulas[kernel].kernel, structure, shapes)
        check_alike(*first, formulas[kernel].kernel, structure, shapes)
        if plan.into_copy:
            check_updates(formulas[kernel].kernel, 1, shapes)
        called[number] = [stack(leaf, sizes(part)) for leaf in leaves]
    structure, shapes = first[1:] if first else ("*", [()])
    pieces = [
        called[number] if number in called else [_filling(plan, part, shape, shifts[0], xp) for shape in shapes]
        for number, part in enumerate(plan.parts)
    ]
    return structure, shapes, [list(leaf) for leaf in zip(*pieces, strict=True)] if pieces else [[] for _ in shapes]


def _call(
    formula: Evaluated, part: Part, arguments: Arguments, shifts: Sequence[Shifts], xp: Any
) -> tuple[list[Cells], Any]:
    """What the kernel returns on all cells of a part, leaf by leaf, and the structure."""
    views = [_view(spec, s, part, xp) for spec, s in zip(formula.windows, shifts, strict=True)]
    args, kwargs = arguments.with_fields(views)
    try:
        result = formula.kernel(*args, **kwargs)
    except TypeError as error:
        explained = _explained(error, formula)
        if explained is None:
            raise
        raise explained from error
    leaves, structure = flatten(result)
    for leaf in leaves:
        if isinstance(leaf, OffsetWindow):
            raise KernelError(
                f"{kernel_name(formula.kernel)} returns the window itself.",
                hint=whole_window_hint(formula.windows[0].field),
            )
    cells = [as_cells(leaf, xp, shifts[0].device) for leaf in leaves]
    return [_with_own_memory(leaf, shifts) for leaf in cells], structure


def _with_own_memory(leaf: Cells, shifts: Sequence[Shifts]) -> Cells:
    """A kernel may return what it read: a copy, then, so that writing into the result leaves the field alone."""
    element = leaf.elements[()] if leaf.shape == () else None
    if element is not None and any(s.shares_memory(element) for s in shifts):
        return _scalar(leaf.xp.asarray(element, copy=True), leaf.xp)
    return leaf


def _explained(error: TypeError, formula: Evaluated) -> KernelError | None:
    """Another library's complaint that it does not know our objects, in the user's words."""
    text, name = str(error), kernel_name(formula.kernel)
    if isinstance(error, KernelError):
        return None
    if OffsetWindow.__name__ in text:
        field = next((spec.field for spec in formula.windows if spec.relative), "u")
        return KernelError(whole_window_message(field), where=line_of(error), hint=whole_window_hint(field))
    if Cells.__name__ in text:
        return KernelError(
            f"{name} uses a function that the array-API backend cannot evaluate on whole slices.",
            where=line_of(error),
            note=text.splitlines()[0],
            hint="write it with operators, NumPy functions or the array-API namespace "
            "(xp = x.__array_namespace__()), or choose backend='jax' or backend='numpy'.",
        )
    return None


def _view(spec: WindowSpec, shifts: Shifts, part: Part, xp: Any) -> Any:
    """What the kernel sees of one field: an array of slices, or an object to be indexed by offset."""
    window = shifts.plan.window

    def read(offset: Offset) -> Cells:
        return _scalar(shifts.read(offset, part.cells), xp)

    if spec.relative:
        return OffsetWindow(
            spec.field, spec.ndim, window, spec.axis_names, read, lambda values: Cells(_elements(values), xp)
        )
    slices = np.empty(window.size, object)
    for index, offset in zip(np.ndindex(*window.size), window, strict=True):
        slices[index] = shifts.read(offset, part.cells)
    return Cells(slices, xp)


def sizes(part: Part) -> tuple[int, ...]:
    """The shape of a part's values: a box's own, one axis for points."""
    return (part.count,) if isinstance(part.cells, Points) else tuple(len(r) for r in part.cells)


def _filling(plan: Plan, part: Part, shape: tuple[int, ...], shifts: Shifts, xp: Any) -> Any:
    """A region's number or array on the cells of a part."""
    value = plan.values[part.owner].constant
    if isinstance(value, (np.ndarray, np.generic)):
        value = xp.asarray(np.array(value), device=shifts.device)
    if not getattr(value, "shape", ()):
        return value
    place, selected = positions(plan.values[part.owner].key, plan.frame.shape)
    index = part.cells.index if isinstance(part.cells, Points) else np.ix_(*map(np.asarray, part.cells))
    frame = [np.asarray(cells)[i] for cells, i in zip(plan.frame.cells, index, strict=True)]
    taken = place[tuple(frame)]
    flat = xp.reshape(xp.broadcast_to(value, (*selected, *shape)), (math.prod(selected), *shape))
    numbers = xp.asarray(np.ascontiguousarray(taken.ravel()), device=shifts.device)
    return xp.reshape(xp.take(flat, numbers, axis=0), (*taken.shape, *shape))


def _assembled(plan: Plan, pieces: Sequence[Any], shape: tuple[int, ...], field: Any, xp: Any) -> Any:
    """The pieces of one leaf put in their places: in a new array, or in a copy of the first field."""
    whole = len(plan.parts) == 1 and plan.parts[0].count == plan.cells and not plan.into_copy
    if whole and hasattr(pieces[0], "shape") and not isinstance(plan.parts[0].cells, Points) and pieces[0].shape:
        return pieces[0]
    dtype = result_dtype(xp, [field, *pieces] if plan.into_copy else pieces or [field])
    if plan.into_copy:
        result = xp.astype(field, dtype, copy=True)
    else:
        result = xp.zeros((*plan.grid, *shape), dtype=dtype, device=array_api_compat.device(field))
    frame = plan.frame.cells if plan.into_copy else tuple(range(n) for n in plan.grid)
    for part, piece in zip(plan.parts, pieces, strict=True):
        value = xp.astype(piece, dtype) if hasattr(piece, "dtype") else piece
        if isinstance(part.cells, Points):
            result = _with_points(result, value, part.cells, frame, xp)
        else:
            places = [f[r.start : r.stop : r.step] for f, r in zip(frame, part.cells, strict=True)]
            result[tuple(slice(p[0], p[-1] + 1, p.step) for p in places)] = value
    return result


def _with_points(result: Any, value: Any, points: Points, frame: Sequence[range], xp: Any) -> Any:
    """The result with single cells replaced, in terms that every library has: values are taken, cells chosen."""
    grid = result.shape[: len(frame)]
    index = tuple(np.asarray(f)[i] for f, i in zip(frame, points.index, strict=True))
    number = np.full(grid, -1, np.int64)
    number[index] = np.arange(index[0].size)
    device = array_api_compat.device(result)
    here = xp.asarray((number >= 0).reshape(*grid, *[1] * (result.ndim - len(grid))), device=device)
    if hasattr(value, "shape") and value.shape:
        taken = xp.asarray(np.maximum(number, 0).ravel(), device=device)
        value = xp.reshape(xp.take(value, taken, axis=0), result.shape)
    return xp.where(here, value, result)


def joined(xp: Any, dtype: Any, constants: Sequence[Any]) -> Any:
    """The dtype of a field with what lies outside it: a Python number of a higher kind lifts it to that kind."""
    defaults = array_api_compat.array_namespace(xp.zeros(1)).__array_namespace_info__().default_dtypes()
    for value in constants:
        if isinstance(value, complex) and not xp.isdtype(dtype, "complex floating"):
            low = dtype if xp.isdtype(dtype, "real floating") else defaults["real floating"]
            dtype = xp.result_type(low, xp.complex64)
        elif isinstance(value, float) and not xp.isdtype(dtype, ("real floating", "complex floating")):
            dtype = defaults["real floating"]
        elif isinstance(value, int) and not isinstance(value, bool) and xp.isdtype(dtype, "bool"):
            dtype = defaults["integral"]
    return dtype


def result_dtype(xp: Any, pieces: Sequence[Any]) -> Any:
    """The dtype in which all pieces fit; Python numbers join as in `joined`, also where a library is stricter."""
    dtypes = [piece.dtype for piece in pieces if hasattr(piece, "dtype")]
    numbers = [piece for piece in pieces if not hasattr(piece, "dtype")]
    if not dtypes:
        return xp.result_type(*(xp.asarray(number) for number in numbers))
    kinds = ("bool", "integral", "real floating", "complex floating")
    highest = max(kinds.index(kind) for kind in kinds for dtype in dtypes if xp.isdtype(dtype, kind))
    return joined(xp, xp.result_type(*(d for d in dtypes if xp.isdtype(d, kinds[highest]))), numbers)


BACKEND = ArrayApiBackend()
