"""The table of the array-API backend: from a function's name to what it does with a kernel's values.

Place in the path: a kernel's operators, methods and library functions all end here (`cells.call`). The
names are the array API's where it has one, else NumPy's; `names.py` has the other spellings. The rules
stand in one module a kind: `elementwise`, `moves`, `reductions`, `stacked`, `linalg`. An entry
"torch.max" is for PyTorch's spelling alone, where it means something else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stencilx_array_api.cells import RULES, Cells, Rule, apply, lift
from stencilx_array_api.elementwise import ELEMENTWISE_RULES, astype, where
from stencilx_array_api.linalg import LINALG_RULES, tensordot, vector_norm
from stencilx_array_api.moves import MOVE_RULES, expand_dims, moveaxis, permute_dims, ravel, swapaxes
from stencilx_array_api.reductions import REDUCTION_RULES, Axis, max_, min_, std, var
from stencilx_array_api.stacked import STACKED_RULES, argmax, argmin, argsort, sort


class ValuesAndIndices(NamedTuple):
    """What PyTorch's max, min, sort and median along an axis return."""

    values: Cells
    indices: Cells


def _torch_reduction(rule: Rule) -> Rule:
    """PyTorch's order of arguments: keepdim comes third."""

    def reduction(x: Any, axis: Axis = None, keepdims: bool = False, **options: Any) -> Cells:
        return rule(x, axis, keepdims=keepdims, **options)

    return reduction


def _torch_extremum(largest: Rule, place: Rule, of_two: str) -> Rule:
    """torch.max(x), torch.max(x, dim) with the indices, and torch.max(x, y) by element."""

    def extremum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if axis is None:
            return largest(x)
        if not isinstance(axis, int):
            return apply(of_two, x, axis)
        return ValuesAndIndices(largest(x, axis, keepdims=keepdims), place(x, axis, keepdims=keepdims))

    return extremum


def _torch_spread(rule: Callable[..., Cells]) -> Rule:
    """torch.var and torch.std divide by n - 1 unless told otherwise."""

    def spread(
        x: Any,
        axis: Axis = None,
        unbiased: bool = True,
        keepdims: bool = False,
        *,
        correction: float | None = None,
    ) -> Cells:
        if isinstance(axis, bool):
            # torch.var(x, False) means unbiased
            axis, unbiased = None, axis
        correction = int(unbiased) if correction is None else correction
        return rule(x, axis, correction=correction, keepdims=keepdims)

    return spread


def _torch_sort(x: Any, axis: int = -1, descending: bool = False, **options: Any) -> Any:
    options["descending"] = descending
    return ValuesAndIndices(sort(x, axis, **options), argsort(x, axis, **options))


def _torch_median(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The lower of the two in the middle, with its index where an axis is named; NaN where one is."""
    (x,) = lift(x)
    lanes = ravel(x) if axis is None else moveaxis(x, axis, 0)
    values, indices = _torch_sort(lanes, 0)
    middle, last = (len(lanes) - 1) // 2, len(lanes) - 1
    ended_by_nan = values[last] != values[last]
    value = where(ended_by_nan, values[last], values[middle])
    if axis is None:
        return value
    first_nan = argmax(astype(lanes != lanes, indices.dtype), 0)
    index = where(ended_by_nan, first_nan, indices[middle])
    pair = (value, index)
    return ValuesAndIndices(*(expand_dims(p, axis) for p in pair) if keepdims else pair)


def _torch_norm(x: Any, p: Any = "fro", axis: Axis = None, keepdims: bool = False) -> Cells:
    return vector_norm(x, 2 if p == "fro" else p, axis, keepdims=keepdims)


TORCH_RULES: dict[str, Rule] = {
    **{
        f"torch.{name}": _torch_reduction(REDUCTION_RULES[name])
        for name in ("all", "any", "mean", "nanmean", "nansum", "prod", "sum")
    },
    "torch.amax": _torch_reduction(max_),
    "torch.amin": _torch_reduction(min_),
    "torch.argmax": _torch_reduction(argmax),
    "torch.argmin": _torch_reduction(argmin),
    "torch.max": _torch_extremum(max_, argmax, "maximum"),
    "torch.median": _torch_median,
    "torch.min": _torch_extremum(min_, argmin, "minimum"),
    "torch.norm": _torch_norm,
    "torch.permute": lambda x, axis: permute_dims(x, axis),
    "torch.sort": _torch_sort,
    "torch.std": _torch_spread(std),
    "torch.tensordot": lambda a, b, axis=2: tensordot(a, b, axis),
    "torch.transpose": lambda x, dim0, dim1: swapaxes(x, dim0, dim1),
    "torch.var": _torch_spread(var),
}

TABLE: dict[str, Rule] = {
    **ELEMENTWISE_RULES,
    **MOVE_RULES,
    **REDUCTION_RULES,
    **STACKED_RULES,
    **LINALG_RULES,
    **TORCH_RULES,
}

RULES.update(TABLE)
