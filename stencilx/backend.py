"""The door between the core and its backends: the protocol, the registry, and the choice for a call.

A backend is any object with the methods of `Backend`, registered under the entry point group `stencilx.backends`:

    [project.entry-points."stencilx.backends"]
    mine = "my_package:BACKEND"

Backends are imported when they are first used, so `import stencilx` loads none of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

import numpy as np

from stencilx.errors import BackendError, BackendImportError, did_you_mean
from stencilx.offsets import OffsetWindow
from stencilx.plan import Plan
from stencilx.results import check_same_state, flatten, shown
from stencilx.window import Offset, Reads, Window

GROUP = "stencilx.backends"
VARIABLE = "STENCILX_BACKEND"


@dataclass(frozen=True)
class WindowSpec:
    """What the kernel is to see of one field.

    Attributes:
        field: its name.
        ndim: its number of axes.
        window: the taps it may read; None where they are inferred from what the kernel reads.
        relative: whether the kernel gets an `OffsetWindow` (else the backend's own array).
        axis_names: axis name -> axis number.
        joins: numbers and dtypes with which the field's dtype is joined: what may lie outside, what a sweep writes.
    """

    field: str
    ndim: int
    window: Window | None
    relative: bool
    axis_names: Mapping[str, int]
    joins: tuple[Any, ...]


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        args, kwargs: as the kernel gets them, but with whole arrays as fields.
        fields: the places of the fields in `args`.
        walls: the values of boundary rules that are no plain numbers, as slots of the plan's rules count them.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    fields: tuple[int, ...]
    walls: tuple[Any, ...] = ()

    def with_fields(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments with the fields replaced by `values` (windows, or arrays)."""
        args = list(self.args)
        for place, value in zip(self.fields, values, strict=True):
            args[place] = value
        return tuple(args), dict(self.kwargs)

    @property
    def arrays(self) -> list[Any]:
        return [self.args[place] for place in self.fields]


@dataclass(frozen=True)
class Leaf:
    """Shape and dtype of one array of a result."""

    shape: tuple[int, ...]
    dtype: str


@runtime_checkable
class Formula(Protocol):
    """A traced kernel.

    Attributes:
        reads: for each field the offsets that it reads, or a window of which it may read anything.
        operations: arithmetic operations for one cell; None where they are not counted.
        reusable: whether it may be used again in a later call (it holds no value that is being traced).
    """

    @property
    def reads(self) -> tuple[Reads, ...]: ...
    @property
    def operations(self) -> int | None: ...
    @property
    def reusable(self) -> bool: ...

    def dtypes(self) -> Sequence[Any]:
        """For each number that it returns its dtype, or a Python number where it returns one. Asked for in sweeps."""
        ...


_METHODS = ("name", "as_field", "signature", "joined", "where", "trace", "output", "runner", "loop")

Runner = Callable[[Arguments, Any], Any]
Loop = Callable[[Any, int], Any]


@runtime_checkable
class Backend(Protocol):
    """How stencils are evaluated. The three steps are called in this order, the first two once for given shapes."""

    @property
    def name(self) -> str: ...

    def as_field(self, value: Any, like: Any = None) -> Any:
        """A field as the backend's own array (with `shape` and `dtype`), copied only where that is needed.

        Where there are several kinds of arrays, as one of the kind of another field.
        """
        ...

    def signature(self, arguments: Arguments) -> Hashable:
        """What a trace and a plan depend on: shapes and dtypes of arrays, also of walls; values of everything else."""
        ...

    def joined(self, array: Any, joins: Sequence[Any]) -> Any:
        """The dtype in which the elements of an array, some Python numbers and some dtypes all fit."""
        ...

    def where(self, condition: Any, tree: Any, other: Any) -> Any:
        """Within a kernel: each leaf of a tree where the condition holds, the other number or value where not."""
        ...

    def trace(self, kernel: Callable[..., Any], windows: Sequence[WindowSpec], arguments: Arguments) -> Formula:
        """Find out what a kernel reads and computes."""
        ...

    def output(self, plan: Plan, formulas: Sequence[Formula], arguments: Arguments) -> tuple[Leaf, ...] | None:
        """Shape and dtype of each array of the result; None where only a run can tell."""
        ...

    def loop(self, step: Callable[[Any], Any], donate: bool) -> Loop:
        """A function of a state and a number of steps that gives the state after them.

        Args:
            step: a function of the state that calls stencils.
            donate: whether the arrays of the state may be written over.
        """
        ...

    def runner(self, plan: Plan, formulas: Sequence[Formula]) -> Runner:
        """A function of the arguments and of `out` (a buffer to be reused, or None) that gives the result."""
        ...


def trial_reads(
    kernel: Callable[..., Any],
    windows: Sequence[WindowSpec],
    arguments: Arguments,
    samples: Sequence[Any],
    stack: Callable[[np.ndarray], Any],
) -> tuple[Reads, ...]:
    """What a kernel reads, for backends that do not trace: from one call on windows that answer with a sample.

    Args:
        samples: for each field the value that every read of it gives.
        stack: an object array of such values -> an array as the kernel knows it.
    """
    seen: list[set[Offset]] = [set() for _ in windows]

    def view(spec: WindowSpec, sample: Any, reads: set[Offset]) -> OffsetWindow:
        def read(offset: Offset) -> Any:
            reads.add(offset)
            return sample

        return OffsetWindow(spec.field, spec.ndim, spec.window, spec.axis_names, read, stack)

    views = [view(spec, sample, reads) for spec, sample, reads in zip(windows, samples, seen, strict=True)]
    args, kwargs = arguments.with_fields(views)
    kernel(*args, **kwargs)
    return tuple(spec.window or tuple(sorted(reads)) for spec, reads in zip(windows, seen, strict=True))


def step_by_step(step: Callable[[Any], Any]) -> Loop:
    """A loop for backends that do not compile."""

    def run(state: Any, steps: int) -> Any:
        for _ in range(steps):
            after = step(state)
            (old, structure), (new, made) = flatten(state), flatten(after)
            check_same_state([shown(a) for a in old], [shown(a) for a in new], structure == made)
            state = after
        return state

    return run


# The registry


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


_loaded: dict[str, Backend] = {}


def backends() -> list[str]:
    """The names of all installed backends, also of those that other packages brought along.

    Example:
        >>> import stencilx as sx
        >>> sorted(set(sx.backends()) & {"array_api", "jax", "numpy"})
        ['array_api', 'jax', 'numpy']
    """
    return sorted(_installed())


def load(name: str) -> Backend:
    """The backend of that name, imported at its first use."""
    if name not in _loaded:
        points = _installed()
        if name not in points:
            raise BackendError(
                f"there is no backend {name!r} installed.", hint=did_you_mean(name, points) or "reinstall stencilx."
            )
        try:
            backend = points[name].load()
        except Exception as error:
            raise BackendImportError(
                f"backend {name!r} ({points[name].value}) is installed but fails to import: "
                f"{type(error).__name__}: {error}"
            ) from error
        if not isinstance(backend, Backend):
            raise BackendError(
                f"backend {name!r} ({points[name].value}) is no backend: it lacks "
                f"{', '.join(m for m in _METHODS if not hasattr(backend, m))}."
            )
        _loaded[name] = backend
    return _loaded[name]


# The choice

_in_block: ContextVar[str | None] = ContextVar("stencilx_backend", default=None)


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run every stencil of a block on one backend, save those that name their own.

    Raises:
        BackendError: there is no such backend.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> total = sx.kmap(np.sum, kernel_size=3)
        >>> with sx.use_backend("numpy"):
        ...     total(np.arange(5))
        array([3, 6, 9])
    """
    load(name)
    token = _in_block.set(name)
    try:
        yield
    finally:
        _in_block.reset(token)


def choose(own: str | None, arrays: Sequence[Any]) -> Backend:
    """The backend of a call: the stencil's own, the block's, the process's, or the one that suits the arrays."""
    return load(own or _in_block.get() or os.environ.get(VARIABLE) or _by_type(arrays))


def _by_type(arrays: Sequence[Any]) -> str:
    """NumPy arrays, lists and JAX's arrays go to JAX, those of any other array library to `array_api`."""
    libraries = {library for library in map(_library, arrays) if library}
    if len(libraries) > 1:
        raise BackendError(
            f"the fields come from different array libraries: {', '.join(sorted(libraries))}.",
            hint="convert them to one, or name a backend: stencil.with_backend('numpy').",
        )
    return "array_api" if libraries - {"jax"} else "jax"


def _library(array: Any) -> str | None:
    """The array library a field comes from; None for NumPy and for Python numbers, which any backend takes."""
    if isinstance(array, (np.ndarray, np.generic)):
        return None
    library = type(array).__module__.split(".")[0]
    if library in ("jax", "jaxlib"):
        return "jax"
    return library if library in ("torch", "dask") or hasattr(array, "__array_namespace__") else None
