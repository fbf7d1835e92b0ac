"""Functions of one value at a time: arithmetic, comparison, where, clip ...

Place in the path: entries of the table in `functions.py`. Most are the library's own function, applied
to slice after slice; the rest is written with those.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stencilx.errors import KernelError
from stencilx_array_api.cells import Cells, apply, build, cast, common_dtype, first_cells, is_array, lift

# The array API's, and those of NumPy and PyTorch that have the same name in the library where they work.
_OF_THE_LIBRARY = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
    bitwise_or bitwise_right_shift bitwise_xor ceil conj copysign cos cosh divide equal exp expm1
    floor floor_divide greater greater_equal hypot isfinite isinf isnan less less_equal log log10
    log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply
    negative nextafter not_equal positive pow reciprocal remainder sign signbit sin sinh sqrt square
    subtract tan tanh trunc

    imag real cbrt exp2 float_power fmax fmin fmod gcd heaviside lcm logaddexp2 sinc
    erf erfc relu rsqrt sigmoid
"""


def is_floating(x: Cells) -> bool:
    return x.xp.isdtype(x.dtype, ("real floating", "complex floating"))


def is_complex(x: Cells) -> bool:
    return x.xp.isdtype(x.dtype, "complex floating")


def truth(x: Cells) -> Cells:
    """Bools: what is not zero. Not a cast, which some libraries refuse for complex numbers."""
    return x if x.xp.isdtype(x.dtype, "bool") else x != 0


def astype(x: Any, dtype: Any, *, copy: bool = True) -> Cells:
    """A cast; `copy` has no meaning, for a kernel's values cannot be written."""
    (x,) = lift(x)
    return build((cast(x, e, dtype) for e in x.elements.flat), x.shape, x.xp)


def to_floating(x: Cells) -> Cells:
    """Integers and bools in the library's default floating dtype, as NumPy's median or norm has it."""
    return x if is_floating(x) else astype(x, x.xp.asarray(0.0).dtype)


def where(condition: Any, *choices: Any) -> Cells:
    if len(choices) != 2:
        raise KernelError(
            "`where` with a condition alone lists positions, and their number differs from cell to cell",
            hint="choose between two values: where(condition, a, b)",
        )
    condition, a, b = lift(condition, *choices)
    if not any(is_array(e) for c in (a, b) for e in c.elements.flat):
        # two Python scalars: the library must be told what the result is made of
        dtype = common_dtype([a, b])
        a, b = (build((cast(condition, e, dtype) for e in c.elements.flat), c.shape, c.xp) for c in (a, b))
    return apply("where", condition, a, b)


def clip(x: Any, min: Any = None, max: Any = None) -> Cells:
    x, *bounds = lift(x, *(b for b in (min, max) if b is not None))
    names = [n for n, b in (("maximum", min), ("minimum", max)) if b is not None]
    for name, bound in zip(names, bounds, strict=True):
        x = apply(name, x, _within_integers(x, bound))
    return x


def _within_integers(x: Cells, bound: Cells) -> Any:
    """A Python int that the integers of x cannot hold bounds them no more than their own limit does."""
    item = bound.elements.item() if bound.size == 1 else None
    if type(item) is not int or not x.xp.isdtype(x.dtype, "integral"):
        return bound
    limits = x.xp.iinfo(x.dtype)
    return max(int(limits.min), min(item, int(limits.max)))


def round_(x: Any, decimals: int = 0) -> Cells:
    (x,) = lift(x)
    if decimals == 0:
        return apply("round", x)
    scale = 10.0 ** abs(decimals)
    wide = to_floating(x)
    rounded = apply("round", wide * scale) / scale if decimals > 0 else apply("round", wide / scale) * scale
    return astype(rounded, x.dtype)


def divmod_(x: Any, y: Any) -> tuple[Cells, Cells]:
    return apply("floor_divide", x, y), apply("remainder", x, y)


def _times(factor: float) -> Callable[[Any], Cells]:
    def rule(x: Any) -> Cells:
        return to_floating(*lift(x)) * factor

    return rule


def _equal_to(value: float) -> Callable[[Any], Cells]:
    def rule(x: Any) -> Cells:
        return to_floating(*lift(x)) == value

    return rule


def nan_to_num(
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Cells:
    """Real numbers in place of what is not finite; `copy` has no meaning here."""
    (x,) = lift(x)
    if not is_floating(x):
        return x
    limits = x.xp.finfo(x.dtype)
    x = where(x == math.inf, float(limits.max) if posinf is None else posinf, x)
    x = where(x == -math.inf, float(limits.min) if neginf is None else neginf, x)
    return where(x != x, nan, x)


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Cells:
    a, b = (to_floating(x) for x in lift(a, b))
    # a == b: two equal infinities, whose difference is not a number
    close = (a == b) | ((abs(a - b) <= atol + rtol * abs(b)) & apply("isfinite", b))
    return close | ((a != a) & (b != b)) if equal_nan else close


def select(conditions: Sequence[Any], choices: Sequence[Any], default: Any = 0) -> Cells:
    lift(*conditions, *choices, default)
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(condition, choice, result)
    return result


def full_like(x: Any, fill_value: Any, *, dtype: Any = None) -> Cells:
    x, fill = lift(x, fill_value)
    wanted = x.dtype if dtype is None else dtype
    items = np.broadcast_to(fill.elements, x.shape)
    return build((cast(x, e, wanted) for e in items.flat), x.shape, x.xp)


def _filled_with(value: int) -> Callable[..., Cells]:
    def rule(x: Any, *, dtype: Any = None) -> Cells:
        return full_like(x, value, dtype=dtype)

    return rule


def asarray(x: Any, *, dtype: Any = None, copy: bool | None = None) -> Cells:
    """Cells as they are, or joined from a list; `copy` has no meaning here."""
    (x,) = lift(x)
    return x if dtype is None else astype(x, dtype)


def result_type(*values: Any) -> Any:
    model = first_cells(values)
    assert model is not None, "internal fault: result_type without a kernel's value"
    return model.xp.result_type(*(v.dtype if isinstance(v, Cells) else v for v in values))


ELEMENTWISE_RULES: dict[str, Callable[..., Any]] = {
    **{name: functools.partial(apply, name) for name in _OF_THE_LIBRARY.split()},
    "asarray": asarray,
    "astype": astype,
    "clip": clip,
    "deg2rad": _times(math.pi / 180),
    "divmod": divmod_,
    "empty_like": _filled_with(0),
    "full_like": full_like,
    "isclose": isclose,
    "isneginf": _equal_to(-math.inf),
    "isposinf": _equal_to(math.inf),
    "nan_to_num": nan_to_num,
    "ndim": lambda x: x.ndim,
    "ones_like": _filled_with(1),
    "rad2deg": _times(180 / math.pi),
    "result_type": result_type,
    "round": round_,
    "select": select,
    "shape": lambda x: x.shape,
    "size": lambda x: x.size,
    "where": where,
    "zeros_like": _filled_with(0),
}
