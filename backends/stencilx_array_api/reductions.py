"""Functions that make one element out of several of the same window: sum, max, mean, cumulative sum ...

Place in the path: entries of the table in `functions.py`. Each folds the slices of a window one after
the other with an elementwise function. Which dtype a library gives to the sum of bytes or the mean of
integers, or whether it refuses, is asked of the library itself, on an array of one entry.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from stencilx_array_api.cells import Array, Cells, apply, build, cast, library_function, lift, positions
from stencilx_array_api.elementwise import astype, full_like, is_complex, is_floating, to_floating, truth, where
from stencilx_array_api.moves import broadcast_to, concat, ravel, reshape, stack, unstack

Axis = int | tuple[int, ...] | None


@functools.lru_cache(maxsize=1024)
def result_dtype(xp: Any, name: str, dtype: Any, wanted: Any = None) -> Any:
    """The dtype that a library's reduction gives for a dtype; raises what the library raises."""
    options = {} if wanted is None else {"dtype": wanted}
    return library_function(xp, name)(xp.ones((1,), dtype=dtype), **options).dtype


def reduce(x: Any, axis: Axis, keepdims: bool, fold: Callable[[list[Array]], Array], dtype: Any) -> Cells:
    """Each lane along the axes, cast to a dtype, folded into one element."""
    (x,) = lift(x)
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    length = math.prod(x.shape[i] for i in axes)
    lanes = np.moveaxis(positions(x), axes, list(range(-len(axes), 0))).reshape(math.prod(kept), length)
    flat = [cast(x, e, dtype) for e in x.elements.flat]
    folded = build((fold([flat[p] for p in lane]) for lane in lanes), kept, x.xp)
    if keepdims:
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        return reshape(folded, shape)
    return folded


def folding(name: str, step: str) -> Callable[..., Cells]:
    """The rule of a reduction that is an elementwise function between the elements of a lane."""

    def rule(x: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Cells:
        (x,) = lift(x)
        xp = x.xp
        result = result_dtype(xp, name, x.dtype, dtype)
        function = library_function(xp, step)

        def fold(lane: list[Array]) -> Array:
            if lane:
                return functools.reduce(function, lane)
            # zero, one, True, or the library's refusal
            return library_function(xp, name)(xp.zeros((0,), dtype=result))

        return reduce(x, axis, keepdims, fold, result)

    return rule


sum_ = folding("sum", "add")
max_ = folding("max", "maximum")
min_ = folding("min", "minimum")


def _of_truths(name: str, step: str) -> Callable[..., Cells]:
    rule = folding(name, step)

    def of_truths(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Cells:
        return rule(truth(*lift(x)), axis, keepdims=keepdims)

    return of_truths


all_ = _of_truths("all", "logical_and")
any_ = _of_truths("any", "logical_or")


def mean(x: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Cells:
    (x,) = lift(x)
    x = astype(x, result_dtype(x.xp, "mean", x.dtype, dtype))
    return sum_(x, axis, keepdims=keepdims) / _lane_length(x, axis)


def _lane_length(x: Cells, axis: Axis) -> int:
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return math.prod(x.shape[i] for i in axes)


def var(x: Any, axis: Axis = None, *, correction: float = 0, ddof: float = 0, keepdims: bool = False) -> Cells:
    (x,) = lift(x)
    result_dtype(x.xp, "var", x.dtype)  # for the library's refusal
    deviation = x - mean(x, axis, keepdims=True)
    square = abs(deviation) ** 2 if is_complex(deviation) else deviation * deviation
    freedom = _lane_length(x, axis) - (correction or ddof)
    return sum_(square, axis, keepdims=keepdims) / max(freedom, 0)


def std(x: Any, axis: Axis = None, **options: Any) -> Cells:
    return apply("sqrt", var(x, axis, **options))


def count_nonzero(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Cells:
    (x,) = lift(x)
    ones = astype(truth(x), x.xp.asarray(0).dtype)
    return sum_(ones, axis, keepdims=keepdims)


def cumulating(name: str, step: str) -> Callable[..., Cells]:
    """The rule of a running sum or product."""

    def rule(x: Any, axis: int | None = None, dtype: Any = None, *, include_initial: bool = False) -> Cells:
        (x,) = lift(x)
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"{name}: axis is needed for a window of {x.ndim} dimensions")
            axis = 0
        xp = x.xp
        x = astype(x, result_dtype(xp, name, x.dtype, dtype))
        parts = unstack(x, axis)
        if include_initial:
            # the library's own: zero for the sum, one for the product
            first = library_function(xp, name)(xp.zeros((0,), dtype=x.dtype), include_initial=True)
            parts = (full_like(parts[0], first[0]), *parts)
        return stack(list(itertools.accumulate(parts, functools.partial(apply, step))), axis)

    return rule


cumulative_sum = cumulating("cumulative_sum", "add")
cumulative_prod = cumulating("cumulative_prod", "multiply")


def _flat_by_default(rule: Callable[..., Cells]) -> Callable[..., Cells]:
    """NumPy's spelling, in which axis=None flattens."""

    def flattening(x: Any, axis: int | None = None, dtype: Any = None) -> Cells:
        (x,) = lift(x)
        return rule(ravel(x), 0, dtype) if axis is None else rule(x, axis, dtype)

    return flattening


def diff(x: Any, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Cells:
    (x,) = lift(x)
    before, after = (None if e is None else _edge(x, e, axis) for e in (prepend, append))
    x = concat([part for part in (before, x, after) if part is not None], axis=axis)
    step = "not_equal" if x.xp.isdtype(x.dtype, "bool") else "subtract"
    for _ in range(n):
        parts = unstack(x, axis)
        x = stack([apply(step, b, a) for a, b in itertools.pairwise(parts)], axis=axis)
    return x


def _edge(x: Cells, value: Any, axis: int) -> Cells:
    """What `diff` puts before or after: a number stands for one layer of it."""
    (_, edge) = lift(x, value)
    shape = list(x.shape)
    shape[axis] = 1
    return edge if edge.ndim else broadcast_to(edge, tuple(shape))


def ptp(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Cells:
    return max_(x, axis, keepdims=keepdims) - min_(x, axis, keepdims=keepdims)


def average(x: Any, axis: int | None = None, weights: Any = None, *, keepdims: bool = False) -> Cells:
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    x, weights = lift(x, weights)
    if axis is not None and weights.ndim == 1:
        # one weight for each entry along the axis, as in NumPy
        shape = [1] * x.ndim
        shape[axis] = weights.size
        weights = reshape(weights, shape)
    total = sum_(x * weights, axis, keepdims=keepdims)
    return total / sum_(weights, axis, keepdims=keepdims)


def _skipping_nan(rule: Callable[..., Cells], neutral: float) -> Callable[..., Cells]:
    """The rule of `nansum` and its like: NaN counts as the neutral value; all NaN stays NaN for max, min."""

    def skipping(x: Any, axis: Axis = None, **options: Any) -> Cells:
        (x,) = lift(x)
        if not is_floating(x):
            return rule(x, axis, **options)
        missing = x != x
        result = rule(where(missing, neutral, x), axis, **options)
        if math.isfinite(neutral):
            return result
        return where(all_(missing, axis, **options), math.nan, result)

    return skipping


nansum = _skipping_nan(sum_, 0.0)


def nanmean(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Cells:
    (x,) = lift(x)
    present = astype(x == x, to_floating(x).dtype)
    return nansum(x, axis, keepdims=keepdims) / sum_(present, axis, keepdims=keepdims)


REDUCTION_RULES: dict[str, Callable[..., Any]] = {
    "all": all_,
    "any": any_,
    "average": average,
    "count_nonzero": count_nonzero,
    "cumprod": _flat_by_default(cumulative_prod),
    "cumsum": _flat_by_default(cumulative_sum),
    "cumulative_prod": cumulative_prod,
    "cumulative_sum": cumulative_sum,
    "diff": diff,
    "max": max_,
    "mean": mean,
    "min": min_,
    "nanmax": _skipping_nan(max_, -math.inf),
    "nanmean": nanmean,
    "nanmin": _skipping_nan(min_, math.inf),
    "nansum": nansum,
    "prod": folding("prod", "multiply"),
    "ptp": ptp,
    "std": std,
    "sum": sum_,
    "var": var,
}
