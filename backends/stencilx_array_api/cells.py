"""The value that a kernel sees in the array-API backend: one window, for all cells at a time.

Place in the path: the backend cuts a field into shifted slices, wraps them in `Cells` and calls the
kernel once; what the kernel returns is unwrapped by `stack`. `Cells` is an array of a small *cell
shape*, say (3, 3), each of whose elements is a whole array over the grid of cells: `x[0, 1] + 1` adds
one to a whole slice, `np.sum(x)` adds nine of them, and no patches are stored. An element may also be
the same in every cell: a Python scalar or an array of no dimensions.

Which function does what to the elements is the table `RULES`; `functions.py` fills it.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import array_api_compat
import numpy as np

from stencilx.errors import KernelError
from stencilx_array_api.names import (
    ALIASES,
    KEYWORDS,
    NOT_TORCH,
    UFUNC_REDUCTIONS,
    numpy_name,
    torch_keywords,
    torch_name,
)
from stencilx_array_api.operators import Operators

Array = Any  # an array of whatever library the field belongs to
Rule = Callable[..., Any]

# Function name, as the array API spells it -> what it does. A name may be given for one door alone:
# "torch.max". Filled by functions.py.
RULES: dict[str, Rule] = {}

_WAYS_OUT = (
    "write it with operators, NumPy functions or the array-API namespace "
    "(xp = x.__array_namespace__()), or run the kernel cell by cell: backend='numpy', "
    "or with backend='jax'"
)


class UnknownFunction(KernelError, AttributeError):
    """A function without a rule; an AttributeError too, so that `hasattr(xp, name)` works."""


class Cells(Operators):
    """An array of a cell's shape whose elements are arrays over the grid of all cells.

    Operators, methods, NumPy's and PyTorch's functions and the array-API namespace give for each cell
    what they give on that cell's window. Dtypes follow the array API's promotion, in which an array of
    no dimensions counts as any other array and only Python scalars are weak.

    Parameters
    ----------
    elements : object array of the cell shape; each element an array of the grid's shape, or a Python
        scalar or array of no dimensions that holds for every cell.
    xp : the array-API namespace of the elements, as from `array_api_compat.array_namespace`.
    """

    __slots__ = ("elements", "xp")
    __array_priority__ = 1000  # np.matrix and other old classes give way by this number

    def __init__(self, elements: np.ndarray, xp: Any) -> None:
        self.elements = elements
        self.xp = xp

    def __repr__(self) -> str:
        return f"Cells(shape={self.shape}, dtype={self.dtype}, grid={self.grid})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    @property
    def ndim(self) -> int:
        return self.elements.ndim

    @property
    def size(self) -> int:
        return self.elements.size

    @property
    def dtype(self) -> Any:
        return common_dtype([self])

    @property
    def grid(self) -> tuple[int, ...]:
        """The shape of the grid of cells; () where every element is the same in all cells."""
        return max((tuple(e.shape) for e in self.elements.flat if is_array(e)), key=len, default=())

    @property
    def device(self) -> Any:
        arrays = (e for e in self.elements.flat if is_array(e))
        first = next(arrays, None)
        return None if first is None else array_api_compat.device(first)

    def __len__(self) -> int:
        return len(self.elements)

    def __iter__(self) -> Iterator[Cells]:
        return (self[i] for i in range(len(self.elements)))

    def __getitem__(self, key: Any) -> Cells:
        if any(isinstance(k, Cells) for k in (key if isinstance(key, tuple) else (key,))):
            raise KernelError(
                "a data-dependent index: a window cannot be indexed by a kernel's value, "
                "which differs from cell to cell",
                hint="choose with xp.where(condition, a, b)",
            )
        return gather(self, positions(self)[key])

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise KernelError(
            "a kernel cannot write into its window",
            hint="build the result from pieces: np.where, np.stack, np.concatenate",
        )

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        return call("x", name, args, options)

    # ------------------------------------------------------------ doors of the array libraries

    def __array_namespace__(self, api_version: str | None = None) -> Namespace:
        return namespace(self.xp)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        if method == "__call__":
            return call("np", name, inputs, options)
        if method == "reduce" and name in UFUNC_REDUCTIONS:
            # unlike np.sum, np.add.reduce takes the first axis where none is named
            return call("np", UFUNC_REDUCTIONS[name], inputs, {"axis": 0} | options)
        raise unknown(f"np.{name}.{method}")

    def __array_function__(self, function: Rule, types: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return call("np", numpy_name(function), args, options)

    @classmethod
    def __torch_function__(cls, function: Rule, types: Any, args: tuple[Any, ...] = (), options: Any = None) -> Any:
        return call("torch", torch_name(function), args, torch_keywords(options or {}))

    # ------------------------------------------------------------ what one value for all cells is not

    def __bool__(self) -> NoReturn:
        raise KernelError(
            "a kernel's value has one truth for each cell: `if` cannot choose",
            note="the array-API backend evaluates the kernel once for all cells",
            hint="choose with np.where(condition, a, b), torch.where or xp.where; "
            "combine conditions with & | ~ instead of and, or, not",
        )

    def __int__(self) -> NoReturn:
        _not_one_number("int()")

    def __float__(self) -> NoReturn:
        _not_one_number("float()")

    def __complex__(self) -> NoReturn:
        _not_one_number("complex()")

    def __index__(self) -> NoReturn:
        _not_one_number("an index, a range or a shape")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise KernelError(
            "a kernel's value cannot be converted to a NumPy array: it stands for all cells at a time",
            hint="join values with np.stack or np.concatenate instead of np.array; otherwise " + _WAYS_OUT,
        )


def _not_one_number(target: str) -> NoReturn:
    raise KernelError(
        f"a kernel's value is one number for each cell: it cannot serve as {target}",
        note="the array-API backend evaluates the kernel once for all cells",
        hint="use np.sqrt and the like instead of the math module, x.astype(dtype) instead of int() "
        "or float(), and np.where instead of a data-dependent index",
    )


# ---------------------------------------------------------------- the table


def unknown(spelling: str) -> UnknownFunction:
    """The error for a function that has no rule."""
    return UnknownFunction(f"the array-API backend cannot evaluate `{spelling}` on whole slices", hint=_WAYS_OUT)


def find_rule(door: str, name: str) -> Rule | None:
    """The rule for a name as it is spelled at a door ("np", "torch", "xp" or "x" for methods)."""
    own = RULES.get(f"{door}.{name}")
    if own is not None or (door == "torch" and name in NOT_TORCH):
        return own
    return RULES.get(ALIASES.get(name, name))


def call(door: str, name: str, args: Iterable[Any], options: dict[str, Any]) -> Any:
    """Evaluate a function of the table; `KernelError` where it has no rule or not these arguments."""
    rule = find_rule(door, name)
    if rule is None:
        raise unknown(f"{door}.{name}")
    args = tuple(args)
    options = {KEYWORDS.get(k, k): v for k, v in options.items()}
    try:
        return rule(*args, **options)
    except TypeError:
        try:
            inspect.signature(rule).bind(*args, **options)
        except TypeError as mismatch:
            raise KernelError(
                f"the array-API backend cannot evaluate `{door}.{name}` with these arguments: {mismatch}",
                hint=_WAYS_OUT,
            ) from None
        raise


# Attributes of a namespace that have nothing to do with cells, so the library's own will do.
_THE_SAME_IN_EVERY_CELL = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128
    e pi inf nan newaxis
    arange empty eye from_dlpack full linspace meshgrid ones zeros
    broadcast_shapes can_cast finfo iinfo isdtype __array_api_version__ __array_namespace_info__
"""


class Namespace:
    """The array-API namespace of a kernel's value: `xp = x.__array_namespace__()`, `xp.sum(x)`."""

    def __init__(self, xp: Any, prefix: str = "") -> None:
        self._xp = xp
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"<array-API namespace of Cells over {self._xp.__name__}>"

    def __getattr__(self, name: str) -> Any:
        if not self._prefix:
            if name in _THE_SAME_IN_EVERY_CELL.split():
                return getattr(self._xp, name)
            if name in ("linalg", "fft"):
                return Namespace(self._xp, f"{name}.")
        if name.startswith("_"):
            raise AttributeError(name)
        full_name = self._prefix + name
        if find_rule("xp", full_name) is None:
            raise unknown(f"xp.{full_name}")
        return functools.partial(self._evaluate, full_name)

    def _evaluate(self, name: str, *args: Any, **options: Any) -> Any:
        if first_cells((*args, *options.values())) is None:
            return library_function(self._xp, name)(*args, **options)
        return call("xp", name, args, options)


@functools.cache
def namespace(xp: Any) -> Namespace:
    """The one namespace for a library, so that `xp is y.__array_namespace__()` can be asked."""
    return Namespace(xp)


def library_function(xp: Any, name: str) -> Callable[..., Any]:
    """The function "sum" or "linalg.inv" of a library; `KernelError` where the library lacks it."""
    value = xp
    for part in name.split("."):
        value = getattr(value, part, None)
    if value is None:
        raise KernelError(f"`{name}` is not among the functions of {xp.__name__}", hint=_WAYS_OUT)
    return value


# ---------------------------------------------------------------- making and unmaking


def is_array(element: Any) -> bool:
    """Whether an element is an array (of no dimensions, perhaps) and not a weak Python scalar."""
    return hasattr(element, "dtype")


def build(items: Iterable[Any], shape: tuple[int, ...], xp: Any) -> Cells:
    """Cells of a shape from its elements in row-major order."""
    elements = np.empty(math.prod(shape), dtype=object)
    # one by one: NumPy would unpack a list of arrays into its entries
    for i, item in enumerate(items):
        elements[i] = item
    return Cells(elements.reshape(shape), xp)


def positions(x: Cells) -> np.ndarray:
    """The numbers 0, 1, .. of the elements, in the cell shape: what moves elements is done to these."""
    return np.arange(x.size).reshape(x.shape)


def gather(x: Cells, where: np.ndarray, filler: Any = None) -> Cells:
    """The elements at the given positions, in the shape of `where`; the filler where it is -1."""
    where = np.asarray(where)
    flat = x.elements.ravel()
    return build((filler if p < 0 else flat[p] for p in where.flat), where.shape, x.xp)


def first_cells(values: Any) -> Cells | None:
    """The first Cells among the values, looking into lists and tuples."""
    for value in values:
        if isinstance(value, Cells):
            return value
        if isinstance(value, (list, tuple)):
            inner = first_cells(value)
            if inner is not None:
                return inner
    return None


def lift(*values: Any) -> list[Cells]:
    """All values as Cells of the same library and device as the first Cells among them."""
    model = first_cells(values)
    assert model is not None, "internal fault: no operand of a rule is a kernel's value"
    needs_device = any(isinstance(v, np.ndarray) for v in values)
    device = model.device if needs_device else None
    return [as_cells(value, model.xp, device) for value in values]


def as_cells(value: Any, xp: Any, device: Any = None) -> Cells:
    """A value as Cells; an array is a parameter, the same for all cells, of which each entry is an element.

    A NumPy array is first made an array of `xp` (of its own dtype, on `device`), so that the promotion
    and the refusals are those of the library. Indexing keeps a PyTorch parameter's graph, so gradients
    reach it. Python scalars stay weak; so do NumPy scalars in other libraries. The value is not modified.
    Raises `KernelError` for what is neither a number nor an array nor a list of these.
    """
    if isinstance(value, Cells):
        return value
    if isinstance(value, (list, tuple)):
        if first_cells(value) is not None:
            return RULES["stack"](list(value))
        value = np.asarray(value)
    if isinstance(value, np.generic) and not array_api_compat.is_numpy_namespace(xp):
        value = value.item()
    if isinstance(value, (bool, int, float, complex, np.generic)):
        return build([value], (), xp)
    if isinstance(value, np.ndarray) and not array_api_compat.is_numpy_namespace(xp):
        # a copy, for not every library takes read-only or reversed memory
        value = xp.asarray(np.array(value, order="C"), device=device)
    if not (hasattr(value, "shape") and is_array(value)):
        raise KernelError(
            f"a value of type {type(value).__name__} cannot be combined with a kernel's value",
            hint="pass numbers or arrays",
        )
    shape = tuple(value.shape)
    return build((value[index] for index in np.ndindex(shape)), shape, xp)


def stack(cells: Cells, grid_shape: tuple[int, ...]) -> Array:
    """One array of shape grid + cell shape; elements which are the same in all cells are repeated.

    For a cell shape of () whose element spans the grid, this is that element itself, not a copy.
    """
    xp, dtype, device = cells.xp, cells.dtype, cells.device
    items = [cast(cells, e, dtype) for e in cells.elements.flat]
    if cells.shape == () and tuple(items[0].shape) == grid_shape:
        return items[0]
    if not items:
        return xp.zeros(grid_shape + cells.shape, dtype=dtype, device=device)
    if device is not None:
        items = [array_api_compat.to_device(e, device) for e in items]
    whole = [e if tuple(e.shape) == grid_shape else xp.broadcast_to(e, grid_shape) for e in items]
    return xp.reshape(xp.stack(whole, axis=-1), grid_shape + cells.shape)


def from_stacked(array: Array, cell_ndim: int, xp: Any) -> Cells:
    """Cells whose elements are the slices of an array of shape grid + cell shape, cell axes last."""
    shape = tuple(array.shape)[array.ndim - cell_ndim :]
    return build((array[(..., *index)] for index in np.ndindex(shape)), shape, xp)


# ---------------------------------------------------------------- combining elements


def common_dtype(cells: Iterable[Cells]) -> Any:
    """The dtype that all elements of all the given Cells promote to."""
    elements = [e for c in cells for e in c.elements.flat]
    scalars = [e for e in elements if not is_array(e)]
    dtypes = list(dict.fromkeys(e.dtype for e in elements if is_array(e)))
    xp = next(c.xp for c in cells)
    if len(dtypes) == 1 and not scalars:
        return dtypes[0]
    if not dtypes:
        # no array at hand: the library's own choice for a Python scalar, or for nothing at all
        dtypes = [xp.asarray(s).dtype for s in scalars or [0.0]]
        return functools.reduce(xp.result_type, dtypes)
    return xp.result_type(*dtypes, *scalars)


def cast(x: Cells, element: Any, dtype: Any) -> Array:
    """An element as an array of a dtype, in the library and on the device of x."""
    xp = x.xp
    if isinstance(element, np.generic) or not is_array(element):
        return xp.asarray(element, dtype=dtype, device=x.device)
    return element if element.dtype == dtype else xp.astype(element, dtype)


def apply(name: str, *operands: Any) -> Cells:
    """An elementwise function of the library on operands whose cell shapes broadcast."""
    cells = lift(*operands)
    xp = cells[0].xp
    function = library_function(xp, name)
    grids = np.broadcast_arrays(*(c.elements for c in cells))
    items = (function(*_settle(xp, group)) for group in zip(*(g.flat for g in grids), strict=True))
    return build(items, grids[0].shape, xp)


def _settle(xp: Any, group: tuple[Any, ...]) -> Iterable[Any]:
    """The same elements, of which at least one is an array: libraries need one to dispatch on."""
    return group if any(is_array(e) for e in group) else [xp.asarray(e) for e in group]
