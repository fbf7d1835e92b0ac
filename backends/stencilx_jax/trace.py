"""The trace: a user's kernel becomes a `JaxFormula`, once for given shapes, dtypes and options.

The kernel is called once, by `jax.make_jaxpr`, on abstract windows. An absolute kernel gets one abstract array for each
window; a relative one gets an `OffsetWindow` whose reads each take the next of a row of abstract scalars ("slots"), so
that windows may be inferred. What comes out is walked (`scalars.py`) into a formula over the scalars that are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from stencilx.backend import Arguments, WindowSpec
from stencilx.capture import captured
from stencilx.errors import KernelError, line_of
from stencilx.offsets import OffsetWindow, whole_window_hint, whole_window_message
from stencilx.results import kernel_name
from stencilx.window import Offset, Reads
from stencilx_jax.boxes import WORTH_IT, Reduction, factors
from stencilx_jax.jaxprs import ClosedJaxpr, hoisted, pruned, walk
from stencilx_jax.scalars import Cells, evaluate, object_array, stacked

LARGE = 1024
"""Array windows of more cells than this are handed to the kernel whole, not taken apart into scalars."""

SLOTS = 256
"""Distinct offsets that may be read of an inferred window at first; a kernel that reads more is traced again."""

MANY_SLOTS = 4096
"""A known window of up to so many cells has a scalar for each from the start."""


Read = tuple[int, Any]
"""A field's number, and the offset that is read of it or the reduction of its window."""


@dataclass(frozen=True, eq=False)
class JaxFormula:
    """A traced kernel.

    Attributes:
        kernel: the user's function.
        closed: the formula. Its inputs are what it reads (scalars, or whole windows), the parameters, the constants.
        inputs: field and offset (or reduction) of each scalar read; None where it takes whole windows.
        constants: arrays that the kernel closes over.
        reads, tree, operations, reusable: as the `Formula` protocol says; the structure of the result.
        boxed: the same with reductions of whole windows among its inputs, where it has such.
    """

    kernel: Callable[..., Any]
    closed: ClosedJaxpr
    inputs: tuple[Read, ...] | None
    constants: tuple[Any, ...]
    reads: tuple[Reads, ...]
    tree: Any
    operations: int
    reusable: bool
    boxed: JaxFormula | None = None

    def dtypes(self) -> list[Any]:
        """The dtype of each result; a Python number stands for one of a weak type."""
        weak = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
        avals: list[Any] = self.closed.out_avals
        return [weak[aval.dtype.kind] if aval.weak_type else aval.dtype for aval in avals]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [aval.shape for aval in self.closed.out_avals]


@dataclass(frozen=True)
class Split:
    """The parameters of a call: what JAX traces, and what it does not."""

    dynamic: list[Any]
    places: tuple[int, ...]
    leaves: list[Any]
    tree: Any

    def rebuild(self, dynamic: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        leaves = list(self.leaves)
        for place, value in zip(self.places, dynamic, strict=True):
            leaves[place] = value
        return jax.tree.unflatten(self.tree, leaves)


def is_dynamic(leaf: Any) -> bool:
    """Numbers and arrays are traced; booleans, strings, functions and the like are part of the program."""
    if isinstance(leaf, bool):
        return False
    return isinstance(leaf, (int, float, complex)) or (hasattr(leaf, "shape") and hasattr(leaf, "dtype"))


def split(arguments: Arguments) -> Split:
    leaves, tree = jax.tree.flatten(arguments.with_fields([None] * len(arguments.fields)))
    places = tuple(place for place, leaf in enumerate(leaves) if is_dynamic(leaf))
    return Split([leaves[place] for place in places], places, leaves, tree)


def field_dtype(array: Any, joins: Sequence[Any]) -> Any:
    """The dtype of a field with what may lie outside it and what a sweep writes."""
    known = (j if is_dynamic(j) or isinstance(j, bool) else jax.dtypes.canonicalize_dtype(j) for j in joins)
    return jnp.result_type(array, *known)


def trace(kernel: Callable[..., Any], windows: Sequence[WindowSpec], arguments: Arguments) -> JaxFormula:
    parameters = split(arguments)
    dtypes = [field_dtype(array, spec.joins) for array, spec in zip(arguments.arrays, windows)]
    slots = SLOTS
    while True:
        recorder = _Recorder(kernel, windows, arguments, parameters, dtypes, slots)
        try:
            return recorder.formula()
        except _OutOfSlots:
            slots *= 8


class _OutOfSlots(Exception):
    """A relative kernel reads more offsets than there are scalars in the trace."""


class _Recorder:
    """One trace of one kernel: hands it its windows and remembers which offset took which scalar."""

    def __init__(
        self,
        kernel: Callable[..., Any],
        windows: Sequence[WindowSpec],
        arguments: Arguments,
        parameters: Split,
        dtypes: Sequence[Any],
        slots: int,
    ) -> None:
        self.kernel, self.windows, self.arguments = kernel, windows, arguments
        self.parameters, self.dtypes, self.slots = parameters, dtypes, slots
        self.slot_of: list[dict[Offset, int]] = [{} for _ in windows]
        self.tree: Any = None

    def formula(self) -> JaxFormula:
        abstract = [self._abstract(spec, dtype) for spec, dtype in zip(self.windows, self.dtypes)]
        dynamic = self.parameters.dynamic
        closed = jax.make_jaxpr(self._call)(abstract, dynamic)
        reusable = not any(isinstance(c, Tracer) for c in (*closed.consts, *captured([self.kernel])))
        if any(spec.window and not spec.relative and len(spec.window) > LARGE for spec in self.windows):
            return self._on_whole_windows(closed, reusable)
        return self._on_scalars(closed, abstract, reusable)

    def _abstract(self, spec: WindowSpec, dtype: Any) -> Any:
        if not spec.relative and spec.window:
            return jax.ShapeDtypeStruct(spec.window.size, dtype)
        slots = len(spec.window) if spec.window and len(spec.window) <= MANY_SLOTS else self.slots
        return [jax.ShapeDtypeStruct((), dtype)] * slots

    def _call(self, inputs: Sequence[Any], dynamic: Sequence[Any]) -> list[Any]:
        views = [self._view(number, spec, value) for number, (spec, value) in enumerate(zip(self.windows, inputs))]
        args, kwargs = self.parameters.rebuild(dynamic)
        args, kwargs = Arguments(args, kwargs, self.arguments.fields).with_fields(views)
        try:
            result = self.kernel(*args, **kwargs)
        except Exception as error:
            explained = _explained(error, self.kernel, self.windows)
            if explained is None:
                raise
            raise explained from error
        leaves, self.tree = jax.tree.flatten(result)
        for leaf in leaves:
            if isinstance(leaf, OffsetWindow):
                raise KernelError(
                    f"{kernel_name(self.kernel)} returns the window itself.", hint=whole_window_hint(leaf._name)
                )
        return leaves

    def _view(self, number: int, spec: WindowSpec, value: Any) -> Any:
        if not spec.relative:
            return value
        seen = self.slot_of[number]

        def read(offset: Offset) -> Any:
            slot = seen.setdefault(offset, len(seen))
            if slot >= len(value):
                raise _OutOfSlots
            return value[slot]

        def stack(values: np.ndarray) -> Any:
            return stacked(Cells(values)) if values.size else jnp.zeros(values.shape, self.dtypes[number])

        return OffsetWindow(spec.field, spec.ndim, spec.window, spec.axis_names, read, stack)

    def _on_scalars(self, closed: ClosedJaxpr, abstract: Sequence[Any], reusable: bool) -> JaxFormula:
        """The formula over single reads; beside it one over reductions of whole windows, if it has any."""
        taps: list[Read] = []
        for number, spec in enumerate(self.windows):
            own = self.slot_of[number] if spec.relative else spec.window or ()
            taps.extend((number, offset) for offset in own)
        formula = self._over(closed, abstract, taps, None, reusable)
        reductions = _Reductions(self.windows)
        if reductions.slots and any(eqn.primitive.name.startswith("reduce_") for eqn in walk(closed.jaxpr)):
            boxed = self._over(closed, abstract, taps, reductions, reusable)
            if reductions.used:
                return replace(formula, boxed=boxed)
        return formula

    def _over(
        self,
        closed: ClosedJaxpr,
        abstract: Sequence[Any],
        taps: Sequence[Read],
        reductions: _Reductions | None,
        reusable: bool,
    ) -> JaxFormula:
        """The formula over scalars, and over no more of them than it needs."""
        fixed, traced = _sorted_constants(closed)

        def on_scalars(
            scalars: Sequence[Any], boxes: Sequence[Any], dynamic: Sequence[Any], constants: Sequence[Any]
        ) -> list[Any]:
            waiting = iter(scalars)
            operands: list[Any] = []
            if reductions:
                reductions.start(boxes, zip(constants, (closed.consts[place] for place in traced)))
            for number, spec in enumerate(self.windows):
                if spec.relative:
                    given = [Cells(object_array((), lambda _: next(waiting))) for _ in self.slot_of[number]]
                    operands += given + [None] * (len(abstract[number]) - len(given))
                elif spec.window:
                    whole = reductions.of(number) if reductions else None
                    operands.append(Cells(object_array(spec.window.size, lambda _: next(waiting)), whole))
            known = dict(zip(traced, constants)) | fixed
            body = ClosedJaxpr(closed.jaxpr, [known[place] for place in range(len(closed.consts))])
            return [stacked(result) for result in evaluate(body, [*operands, *dynamic])]

        scalars = [jax.ShapeDtypeStruct((), self.dtypes[number]) for number, _ in taps]
        boxes = [jax.ShapeDtypeStruct((), self.dtypes[number]) for number in reductions.slots] if reductions else []
        constants = [closed.consts[place] for place in traced]
        formula = jax.make_jaxpr(on_scalars)(scalars, boxes, self.parameters.dynamic, constants)
        formula, left = pruned(formula, len(scalars) + len(boxes))
        inputs: list[Read] = [*taps, *(reductions.found if reductions else [])]
        inputs = [inputs[place] for place in left]
        reads = tuple(
            tuple(sorted(o for n, o in inputs if n == number and not isinstance(o, Reduction)))
            for number in range(len(self.windows))
        )
        return JaxFormula(
            self.kernel, formula, tuple(inputs), tuple(constants), reads, self.tree, operations(formula), reusable
        )

    def _on_whole_windows(self, closed: ClosedJaxpr, reusable: bool) -> JaxFormula:
        """Too many cells to name each: the kernel as it stands, on windows cut out of the array."""
        for spec in self.windows:
            if spec.relative:
                raise KernelError(
                    f"a window of more than {LARGE} cells stands beside {spec.field!r}, which is read by offset.",
                    hint="give a kernel_size for every field and no relative=True, or smaller windows.",
                )
        body = hoisted(closed)
        reads = tuple(spec.window or () for spec in self.windows)
        return JaxFormula(self.kernel, body, None, tuple(closed.consts), reads, self.tree, operations(body), reusable)


class _Reductions:
    """Scalars that stand for reductions of whole windows, handed out as the walk over a kernel asks for them."""

    EACH = 16
    """So many for each field: what is beyond is reduced cell by cell."""

    def __init__(self, windows: Sequence[WindowSpec]) -> None:
        self.windows = windows
        large = [n for n, s in enumerate(windows) if not s.relative and s.window and len(s.window) >= WORTH_IT]
        self.slots = [number for number in large for _ in range(self.EACH)]
        self.found: list[Read] = [(number, None) for number in self.slots]
        self.used = False

    def start(self, scalars: Sequence[Any], constants: Iterable[tuple[Any, Any]]) -> None:
        """Begin a walk.

        Args:
            scalars: one for each slot.
            constants: what stands for a constant in the walk, and the constant.
        """
        self._scalars = scalars
        self._constants = {id(traced): value for traced, value in constants if not isinstance(value, Tracer)}

    def of(self, number: int) -> Callable[[str, Any], Any] | None:
        return (lambda kind, weights: self._take(number, kind, weights)) if number in self.slots else None

    def _take(self, number: int, kind: str, weights: Any) -> Any:
        """The scalar for a reduction of that field's window; None where that is no better than cell by cell."""
        vectors: tuple[np.ndarray, ...] | None = ()
        if weights is not None:
            constant = self._constants.get(id(weights))
            vectors = None if constant is None else factors(np.asarray(constant))
        if kind not in ("max", "min", "sum") or vectors is None or (vectors and kind != "sum"):
            return None
        slot = next((n for n, read in enumerate(self.found) if read == (number, None)), None)
        if slot is None:
            return None
        self.found[slot] = (number, Reduction(kind, vectors))
        self.used = True
        return self._scalars[slot]


def _sorted_constants(closed: ClosedJaxpr) -> tuple[dict[int, Any], list[int]]:
    """Constants that may be indices stay concrete; places of all others, which become inputs of the formula."""
    fixed = {
        place: np.asarray(value)
        for place, value in enumerate(closed.consts)
        if not isinstance(value, Tracer)
        and np.size(value) < 100_000
        and (jnp.issubdtype(value.dtype, jnp.integer) or jnp.issubdtype(value.dtype, jnp.bool_))
    }
    return fixed, [place for place in range(len(closed.consts)) if place not in fixed]


_MOVES = {"slice", "squeeze", "reshape", "broadcast_in_dim", "concatenate", "transpose", "rev", "pad", "gather", "copy"}
_MOVES |= {"dynamic_slice", "split", "stack", "tile", "convert_element_type", "copy_p", "stop_gradient"}
_CALLS = {"jit", "pjit", "custom_jvp_call", "custom_vjp_call"}


def operations(closed: ClosedJaxpr) -> int:
    """Arithmetic operations of a formula: one for each element that an equation computes; moves are free."""
    computed = (eqn for eqn in walk(closed.jaxpr) if eqn.primitive.name not in _MOVES | _CALLS)
    avals: list[Any] = [var.aval for eqn in computed for var in eqn.outvars]
    return sum(math.prod(aval.shape) for aval in avals)


def _explained(error: Exception, kernel: Callable[..., Any], windows: Sequence[WindowSpec]) -> KernelError | None:
    """JAX's errors about traced values in the user's words; nothing for any other error."""
    name, where = kernel_name(kernel), line_of(error)
    if isinstance(error, jax.errors.TracerBoolConversionError):
        return KernelError(
            f"{name} asks for the truth of a traced value (if, while, and, or, not, assert).",
            where=where,
            hint="choose with jnp.where(condition, a, b) or jax.lax.cond; for and, or, not write &, |, ~.",
        )
    if isinstance(error, (jax.errors.TracerIntegerConversionError, jax.errors.ConcretizationTypeError)):
        return KernelError(
            f"{name} needs a number that is known only at run time (an index, a size, a loop count).",
            where=where,
            hint="index an array window with jnp.take or window[i]; for loops use jax.lax.fori_loop; a number that is "
            "the same in every call may be closed over instead of passed.",
        )
    if isinstance(error, jax.errors.TracerArrayConversionError):
        return KernelError(
            f"{name} turns a traced value into a NumPy array.",
            where=where,
            hint="use jax.numpy (jnp) instead of numpy in kernels for the JAX backend.",
        )
    text = str(error)
    if isinstance(error, TypeError) and OffsetWindow.__name__ in text:
        field = next((spec.field for spec in windows if spec.relative), "u")
        return KernelError(whole_window_message(field), where=where, hint=whole_window_hint(field))
    return None
