"""The array-API backend: the kernel is called once on `Cells`, values whose elements are whole shifted slices.

In a sweep (`sweeps.py`) that is done for each step, on the cells of that step. There is no trace: each call evaluates
the kernel with the library's own operations, so its automatic differentiation (PyTorch's, say) goes through. Arrays of
the fields' library come in and go out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

from stencilx.backend import Arguments, Leaf, Loop, Runner, WindowSpec, step_by_step, trial_reads
from stencilx.capture import described
from stencilx.errors import KernelError, line_of
from stencilx.offsets import OffsetWindow, whole_window_hint, whole_window_message
from stencilx.plan import Plan
from stencilx.regions import Part, Points, positions
from stencilx.results import check_alike, check_updates, flatten, into, kernel_name, unflatten
from stencilx.window import Offset, Reads, Window
from stencilx_array_api import elementwise, sweeps
from stencilx_array_api import functions as functions  # importing it fills the table of what Cells can do
from stencilx_array_api.cells import Cells, as_cells, stack
from stencilx_array_api.shifts import Shifts, Source, Walls, put, sizes


@dataclass(frozen=True)
class Evaluated:
    """A kernel, and what it reads: any tap of known windows, or what a trial call read."""

    kernel: Callable[..., Any]
    windows: tuple[WindowSpec, ...]
    trial: Arguments
    reads: tuple[Reads, ...]
    reusable: bool
    operations: None = None

    def dtypes(self) -> list[Any]:
        return self._dtypes

    @functools.cached_property
    def _dtypes(self) -> list[Any]:
        """From one trial call, on windows full of ones."""
        xp = array_api_compat.array_namespace(*self.trial.arrays)
        samples = self.trial.arrays
        views = [_view(spec, spec.window, lambda _, x=x: x, xp) for spec, x in zip(self.windows, samples)]
        with np.errstate(all="ignore"):
            leaves, _ = _leaves(self, views, self.trial, xp, array_api_compat.device(samples[0]))
        return [leaf.elements[()] if _is_number(leaf) else leaf.dtype for leaf in leaves]


def _is_number(leaf: Cells) -> bool:
    """Whether a kernel returned a Python number, the same in all cells."""
    return leaf.shape == () and not hasattr(leaf.elements[()], "dtype")


class ArrayApiBackend:
    """Whole-array slices over any array-API namespace."""

    name = "array_api"

    def as_field(self, value: Any, like: Any = None) -> Any:
        value = value if array_api_compat.is_array_api_obj(value) else np.asarray(value)
        xp = array_api_compat.array_namespace(value if like is None else like)
        if like is None or array_api_compat.array_namespace(value) is xp:
            return value
        return xp.asarray(np.array(value), device=array_api_compat.device(like))

    def signature(self, arguments: Arguments) -> Hashable:
        parameters = arguments.with_fields([None] * len(arguments.fields))
        return described(arguments.arrays), described(parameters), described(arguments.walls)

    def joined(self, array: Any, joins: Sequence[Any]) -> Any:
        return joined(array_api_compat.array_namespace(array), array.dtype, joins)

    def where(self, condition: Any, tree: Any, other: Any) -> Any:
        leaves, structure = flatten(tree)
        return unflatten(structure, [_where(condition, leaf, other) for leaf in leaves])

    def trace(self, kernel: Callable[..., Any], windows: Sequence[WindowSpec], arguments: Arguments) -> Evaluated:
        xp = array_api_compat.array_namespace(*arguments.arrays)
        samples = [_one_cell(xp, a, joined(xp, a.dtype, s.joins)) for a, s in zip(arguments.arrays, windows)]
        trial = Arguments(*arguments.with_fields(samples), arguments.fields)
        if all(spec.window for spec in windows):
            return Evaluated(kernel, tuple(windows), trial, tuple(spec.window or () for spec in windows), reusable=True)
        values = [_scalar(sample, xp) for sample in samples]
        with np.errstate(all="ignore"):
            reads = trial_reads(kernel, windows, arguments, values, lambda values: Cells(_elements(values), xp))
        return Evaluated(kernel, tuple(windows), trial, reads, reusable=False)

    def output(self, plan: Plan, formulas: Sequence[Evaluated], arguments: Arguments) -> tuple[Leaf, ...] | None:
        return None

    def loop(self, step: Callable[[Any], Any], donate: bool) -> Loop:
        return step_by_step(step)

    def runner(self, plan: Plan, formulas: Sequence[Evaluated]) -> Runner:
        return lambda arguments, out: into(_run(plan, formulas, arguments), out)


def _where(condition: Cells, leaf: Any, other: Any) -> Any:
    if isinstance(leaf, OffsetWindow):
        return leaf  # an error of its own
    if isinstance(other, int) and (leaf.xp.isdtype(leaf.dtype, "bool") if isinstance(leaf, Cells) else leaf is True):
        other = bool(other)
    return elementwise.where(condition, leaf, other)


def _one_cell(xp: Any, array: Any, dtype: Any) -> Any:
    """What a read gives in a trial call, on a grid of one cell: 1, where most functions are at their best."""
    return xp.ones((1,) * array.ndim, dtype=dtype, device=array_api_compat.device(array))


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


def _run(plan: Plan, formulas: Sequence[Evaluated], arguments: Arguments) -> Any:
    xp = array_api_compat.array_namespace(*arguments.arrays)
    arrays = []
    for array, f in zip(arguments.arrays, plan.fields, strict=True):
        dtype = joined(xp, array.dtype, f.joins)
        arrays.append(array if dtype == array.dtype else xp.astype(array, dtype))
    fillings = Fillings(plan, array_api_compat.device(arrays[0]), xp)
    walls = Walls(arguments.walls, xp)
    if plan.updates:
        results = sweeps.run(plan, arrays, walls, _evaluation(plan, formulas, arguments, fillings, xp), xp)
        return results[0] if len(results) == 1 else tuple(results)
    shifts = [Shifts(f, a, walls.of_field(f, a), xp) for f, a in zip(plan.fields, arrays, strict=True)]
    structure, shapes, pieces = _pieces(plan, formulas, arguments, shifts, fillings, xp)
    leaves = [_assembled(plan, p, s, arguments.arrays[0], xp) for p, s in zip(pieces, shapes, strict=True)]
    return unflatten(structure, leaves)


def _evaluation(
    plan: Plan, formulas: Sequence[Evaluated], arguments: Arguments, fillings: Fillings, xp: Any
) -> sweeps.Evaluate:
    """What a sweep writes into the cells of a part."""

    def evaluate(part: Part, sources: Sequence[Source]) -> list[Any]:
        number = plan.values[part.owner].kernel
        if number is None:
            return [fillings.on(part, ())] * len(plan.updates)
        formula = formulas[number]
        leaves, structure = _call(formula, part, arguments, sources, xp)
        check_updates(formula.kernel, len(plan.updates), [leaf.shape for leaf in leaves], structure == "*")
        return [stack(leaf, sizes(part.cells)) for leaf in leaves]

    return evaluate


def _pieces(
    plan: Plan,
    formulas: Sequence[Evaluated],
    arguments: Arguments,
    shifts: Sequence[Shifts],
    fillings: Fillings,
    xp: Any,
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
            check_updates(formulas[kernel].kernel, 1, shapes, structure == "*")
        called[number] = [stack(leaf, sizes(part.cells)) for leaf in leaves]
    structure, shapes = first[1:] if first else ("*", [()])
    pieces = [
        called[number] if number in called else [fillings.on(part, shape) for shape in shapes]
        for number, part in enumerate(plan.parts)
    ]
    return structure, shapes, [list(leaf) for leaf in zip(*pieces, strict=True)] if pieces else [[] for _ in shapes]


def _call(
    formula: Evaluated, part: Part, arguments: Arguments, sources: Sequence[Source], xp: Any
) -> tuple[list[Cells], Any]:
    """What the kernel returns on all cells of a part, leaf by leaf, and the structure."""
    given: list[Any] = []

    def reader(source: Source) -> Callable[[Offset], Any]:
        def read(offset: Offset) -> Any:
            given.append(source.read(offset, part.cells))
            return given[-1]

        return read

    views = [
        _view(spec, source.plan.window if spec.window else source.plan.covered, reader(source), xp)
        for spec, source in zip(formula.windows, sources, strict=True)
    ]
    leaves, structure = _leaves(formula, views, arguments, xp, sources[0].device)
    return [_with_own_memory(leaf, given) for leaf in leaves], structure


def _leaves(
    formula: Evaluated, views: Sequence[Any], arguments: Arguments, xp: Any, device: Any
) -> tuple[list[Cells], Any]:
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
    return [as_cells(leaf, xp, device) for leaf in leaves], structure


def _with_own_memory(leaf: Cells, given: Sequence[Any]) -> Cells:
    """A kernel may return what it read: a copy, then, so that writing into the result leaves the field alone."""
    element = leaf.elements[()] if leaf.shape == () else None
    if isinstance(element, np.ndarray):
        shared = any(np.may_share_memory(element, array) for array in given)
    else:
        shared = any(element is array for array in given)
    return _scalar(leaf.xp.asarray(element, copy=True), leaf.xp) if shared else leaf


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


def _view(spec: WindowSpec, window: Window | None, read: Callable[[Offset], Any], xp: Any) -> Any:
    """What the kernel sees of one field: an array of slices, or an object to be indexed by offset."""
    if spec.relative or window is None:
        return OffsetWindow(
            spec.field,
            spec.ndim,
            window,
            spec.axis_names,
            lambda offset: _scalar(read(offset), xp),
            lambda values: Cells(_elements(values), xp),
        )
    slices = np.empty(window.size, object)
    for index, offset in zip(np.ndindex(*window.size), window, strict=True):
        slices[index] = read(offset)
    return Cells(slices, xp)


class Fillings:
    """The numbers and arrays that regions hold; which cell gets which element is worked out once."""

    def __init__(self, plan: Plan, device: Any, xp: Any) -> None:
        self._plan, self._device, self._xp = plan, device, xp
        self._tables: dict[Any, tuple[np.ndarray, Any]] = {}

    def on(self, part: Part, shape: tuple[int, ...]) -> Any:
        """A region's number or array on the cells of a part, for leaves of that shape."""
        value = self._plan.values[part.owner].constant
        if isinstance(value, (np.ndarray, np.generic)):
            value = self._xp.asarray(np.array(value), device=self._device)
        if not getattr(value, "shape", ()):
            return value
        place, flat = self._table(part.owner, value, shape)
        frame = [np.asarray(cells)[i] for cells, i in zip(self._plan.frame.cells, part.index, strict=True)]
        taken = place[tuple(frame)]
        numbers = self._xp.asarray(np.ascontiguousarray(taken.ravel()), device=self._device)
        return self._xp.reshape(self._xp.take(flat, numbers, axis=0), (*taken.shape, *shape))

    def _table(self, owner: int, value: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, Any]:
        """For each cell of the frame the number of its element, and the elements."""
        if (owner, shape) not in self._tables:
            place, selected = positions(self._plan.values[owner].key, self._plan.frame.shape)
            spread = self._xp.broadcast_to(value, (*selected, *shape))
            self._tables[owner, shape] = place, self._xp.reshape(spread, (math.prod(selected), *shape))
        return self._tables[owner, shape]


def _assembled(plan: Plan, pieces: Sequence[Any], shape: tuple[int, ...], field: Any, xp: Any) -> Any:
    """The pieces of one leaf put in their places: in a new array, or in a copy of the first field."""
    whole = len(plan.parts) == 1 and plan.parts[0].count == plan.cells and not plan.into_copy
    if whole and hasattr(pieces[0], "shape") and not isinstance(plan.parts[0].cells, Points) and pieces[0].shape:
        return pieces[0]
    if plan.into_copy:
        result = xp.astype(field, result_dtype(xp, [field, *pieces]), copy=True)
    else:
        numbers_alone = not any(hasattr(piece, "dtype") for piece in pieces)  # they join the field's dtype
        dtype = result_dtype(xp, [field, *pieces] if numbers_alone else pieces)
        result = xp.zeros((*plan.grid, *shape), dtype=dtype, device=array_api_compat.device(field))
    places = plan.frame.cells if plan.into_copy else tuple(range(n) for n in plan.grid)
    for part, piece in zip(plan.parts, pieces, strict=True):
        result = put(result, piece, part.cells, places, xp)
    return result


def joined(xp: Any, dtype: Any, joins: Sequence[Any]) -> Any:
    """The dtype of a field with what lies outside it or is written into it.

    Of dtypes of several kinds (bool, integral, real, complex) those of the highest count; a Python number of a higher
    kind lifts the dtype to that kind.
    """
    numbers = [join for join in joins if isinstance(join, (bool, int, float, complex))]
    dtypes = [_own_dtype(xp, join) for join in joins if not isinstance(join, (bool, int, float, complex))]
    dtype = _promoted(xp, [dtype, *dtypes])
    defaults = array_api_compat.array_namespace(xp.zeros(1)).__array_namespace_info__().default_dtypes()
    for value in numbers:
        if isinstance(value, complex) and not xp.isdtype(dtype, "complex floating"):
            low = dtype if xp.isdtype(dtype, "real floating") else defaults["real floating"]
            dtype = xp.result_type(low, xp.complex64)
        elif isinstance(value, float) and not xp.isdtype(dtype, ("real floating", "complex floating")):
            dtype = defaults["real floating"]
        elif isinstance(value, int) and not isinstance(value, bool) and xp.isdtype(dtype, "bool"):
            dtype = defaults["integral"]
    return dtype


def _own_dtype(xp: Any, dtype: Any) -> Any:
    """A dtype as the library has it, also where it is NumPy's."""
    return xp.asarray(np.empty(0, dtype)).dtype if isinstance(dtype, np.dtype) else dtype


def _promoted(xp: Any, dtypes: Sequence[Any]) -> Any:
    kinds = ("bool", "integral", "real floating", "complex floating")
    highest = max(kinds.index(kind) for kind in kinds for dtype in dtypes if xp.isdtype(dtype, kind))
    return xp.result_type(*(dtype for dtype in dtypes if xp.isdtype(dtype, kinds[highest])))


def result_dtype(xp: Any, pieces: Sequence[Any]) -> Any:
    """The dtype in which all pieces fit, of which at least one is an array."""
    first, *others = [piece.dtype for piece in pieces if hasattr(piece, "dtype")]
    return joined(xp, first, [*others, *(piece for piece in pieces if not hasattr(piece, "dtype"))])


BACKEND = ArrayApiBackend()
