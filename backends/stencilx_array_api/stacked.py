"""Functions that need all elements of a window together: sort, median, argmax, svd, fft ...

Place in the path: entries of the table in `functions.py`. Here, and nowhere else, patches are stored:
the elements are stacked into one array of shape grid + cell shape, the library's function runs over the
last axes, and the result is taken apart again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from stencilx_array_api.cells import Cells, from_stacked, library_function, lift
from stencilx_array_api.cells import stack as stack_grid
from stencilx_array_api.elementwise import to_floating, where
from stencilx_array_api.moves import broadcast_to, expand_dims, moveaxis, ravel, reshape, squeeze, stack
from stencilx_array_api.reductions import Axis

_TRANSFORMS = ("fft", "hfft", "ifft", "ihfft", "irfft", "rfft")
_TRANSFORMS_OF_ALL_AXES = ("fftn", "ifftn", "irfftn", "rfftn")
_OF_MATRICES = """
    cholesky det eigh eigvalsh inv matrix_power matrix_rank pinv qr slogdet svd svdvals
"""


def _evaluate(name: str, cells: list[Cells], *args: Any, **options: Any) -> Any:
    """A library function on stacked operands, its result (or results) as Cells again."""
    xp = cells[0].xp
    grid = max((c.grid for c in cells), key=len)
    result = library_function(xp, name)(*(stack_grid(c, grid) for c in cells), *args, **options)
    return _unstacked(result, len(grid), xp)


def _unstacked(result: Any, grid_ndim: int, xp: Any) -> Any:
    if not isinstance(result, tuple):
        return from_stacked(result, result.ndim - grid_ndim, xp)
    parts = [_unstacked(part, grid_ndim, xp) for part in result]
    # keep the names of a result like SVDResult(U, S, Vh): a named tuple, or PyTorch's own kind
    make = getattr(result, "_make", type(result))
    return make(parts)


def _from_the_end(axis: int, ndim: int) -> int:
    """The same axis of a cell, counted so that the grid's axes in front do not matter."""
    return normalize_axis_index(axis, ndim) - ndim


def ordering(name: str) -> Callable[..., Cells]:
    """The rule of sort and argsort; axis=None flattens, as in NumPy."""

    def rule(x: Any, axis: int | None = -1, **options: Any) -> Cells:
        (x,) = lift(x)
        if axis is None:
            x, axis = ravel(x), -1
        return _evaluate(name, [x], axis=_from_the_end(axis, x.ndim), **options)

    return rule


def transform(name: str) -> Callable[..., Cells]:
    """The rule of a Fourier transform along one axis."""

    def rule(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Cells:
        (x,) = lift(x)
        options = _given(n=n, norm=norm)
        return _evaluate(name, [x], axis=_from_the_end(axis, x.ndim), **options)

    return rule


def transform_all(name: str) -> Callable[..., Cells]:
    """The rule of a Fourier transform along several axes, without the grid's."""

    def rule(x: Any, s: Any = None, axes: Any = None, norm: str | None = None) -> Cells:
        (x,) = lift(x)
        last = range(x.ndim if s is None else len(s))
        axes = [i - len(last) for i in last] if axes is None else axes
        axes = tuple(_from_the_end(axis, x.ndim) for axis in axes)
        return _evaluate(name, [x], axes=axes, **_given(s=s, norm=norm))

    return rule


def _given(**options: Any) -> dict[str, Any]:
    return {k: v for k, v in options.items() if v is not None}


def of_matrices(name: str) -> Callable[..., Any]:
    def rule(x: Any, *args: Any, **options: Any) -> Any:
        (x,) = lift(x)
        if x.ndim < 2:
            raise ValueError(f"{name} needs a window of at least 2 dimensions, not of {x.ndim}")
        return _evaluate(name, [x], *args, **options)

    return rule


def _argument_of(name: str) -> Callable[..., Cells]:
    """The rule of argmax and argmin."""

    def rule(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Cells:
        (x,) = lift(x)
        flat = ravel(x) if axis is None else x
        found = _evaluate(name, [flat], axis=_from_the_end(-1 if axis is None else axis, flat.ndim))
        if not keepdims:
            return found
        return reshape(found, (1,) * x.ndim) if axis is None else expand_dims(found, axis)

    return rule


argmax = _argument_of("argmax")
argmin = _argument_of("argmin")


def solve(a: Any, b: Any) -> Cells:
    a, b = lift(a, b)
    # stacked, a vector could be taken for a matrix: always hand over a matrix
    columns = expand_dims(b, -1) if b.ndim == 1 else b
    batch = np.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    a, columns = (broadcast_to(m, batch + m.shape[-2:]) for m in (a, columns))
    solution = _evaluate("linalg.solve", [a, columns])
    return squeeze(solution, -1) if b.ndim == 1 else solution


def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Cells:
    x, indices = lift(x, indices)
    return _evaluate("take_along_axis", [x, indices], axis=_from_the_end(axis, x.ndim))


argsort = ordering("argsort")
sort = ordering("sort")


def _sorted_lanes(x: Cells, axis: Axis) -> tuple[Cells, tuple[int, ...]]:
    """The lanes along the axes, sorted, as the first axis; and the shape of a result with keepdims."""
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    lanes = reshape(moveaxis(x, axes, list(range(len(axes)))), (-1, *kept))
    keepdims_shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    return sort(to_floating(lanes), axis=0), keepdims_shape


def quantile(x: Any, q: Any, axis: Axis = None, *, keepdims: bool = False) -> Cells:
    """Linear between neighbours; NaN in a lane is its quantile, as in NumPy."""
    (x,) = lift(x)
    lanes, keepdims_shape = _sorted_lanes(x, axis)
    levels = np.asarray(q)
    found = [_quantile(lanes, float(level)) for level in levels.flat]
    if keepdims:
        found = [reshape(f, keepdims_shape) for f in found]
    return found[0] if levels.ndim == 0 else reshape(stack(found), levels.shape + found[0].shape)


def _quantile(lanes: Cells, level: float) -> Cells:
    if not 0 <= level <= 1:
        raise ValueError(f"quantiles are between 0 and 1, not {level}")
    place = level * (len(lanes) - 1)
    below = math.floor(place)
    value = lanes[below]
    if place > below:
        value = value + (lanes[below + 1] - value) * (place - below)
    return _nan_where_any(lanes, value)


def _nan_where_any(lanes: Cells, value: Cells) -> Cells:
    last = lanes[-1]  # every library sorts NaN to the end
    return where(last != last, math.nan, value)


def percentile(x: Any, q: Any, axis: Axis = None, *, keepdims: bool = False) -> Cells:
    return quantile(x, np.asarray(q) / 100, axis, keepdims=keepdims)


def median(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Cells:
    """The mean of the two in the middle, as in NumPy (`torch.median` has the lower one)."""
    (x,) = lift(x)
    lanes, keepdims_shape = _sorted_lanes(x, axis)
    half = len(lanes) // 2
    middle = lanes[half] if len(lanes) % 2 else (lanes[half - 1] + lanes[half]) / 2
    result = _nan_where_any(lanes, middle)
    return reshape(result, keepdims_shape) if keepdims else result


STACKED_RULES: dict[str, Callable[..., Any]] = {
    **{f"fft.{name}": transform(f"fft.{name}") for name in _TRANSFORMS},
    **{f"fft.{name}": transform_all(f"fft.{name}") for name in _TRANSFORMS_OF_ALL_AXES},
    **{f"linalg.{name}": of_matrices(f"linalg.{name}") for name in _OF_MATRICES.split()},
    "argmax": argmax,
    "argmin": argmin,
    "argsort": argsort,
    "linalg.solve": solve,
    "median": median,
    "percentile": percentile,
    "quantile": quantile,
    "sort": sort,
    "take_along_axis": take_along_axis,
}
