"""How the functions that a kernel calls are spelled: NumPy, PyTorch and array-API names for one rule.

Place in the path: a kernel calls `np.concatenate`, `torch.cat` or `xp.concat` on its `Cells`; the names
here lead all of them to the one entry `concat` of the table in `functions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Other spelling -> the array API's name where there is one, else NumPy's.
ALIASES: dict[str, str] = {
    # NumPy
    "absolute": "abs",
    "fabs": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "around": "round",
    "bitwise_not": "bitwise_invert",
    "concatenate": "concat",
    "conjugate": "conj",
    "degrees": "rad2deg",
    "fix": "trunc",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "linalg.cross": "cross",
    "linalg.matmul": "matmul",
    "linalg.matrix_transpose": "matrix_transpose",
    "linalg.outer": "outer",
    "linalg.tensordot": "tensordot",
    "linalg.vecdot": "vecdot",
    "mod": "remainder",
    "power": "pow",
    "radians": "deg2rad",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "row_stack": "vstack",
    "transpose": "permute_dims",
    "true_divide": "divide",
    # PyTorch: functions
    "broadcast_tensors": "broadcast_arrays",
    "cat": "concat",
    "clamp": "clip",
    "conj_physical": "conj",
    "det": "linalg.det",
    "div": "divide",
    "eq": "equal",
    "ge": "greater_equal",
    "gt": "greater",
    "inverse": "linalg.inv",
    "le": "less_equal",
    "lt": "less",
    "mm": "matmul",
    "bmm": "matmul",
    "mv": "matmul",
    "movedim": "moveaxis",
    "mul": "multiply",
    "ne": "not_equal",
    "neg": "negative",
    "permute": "permute_dims",
    "sub": "subtract",
    "swapdims": "swapaxes",
    "t": "permute_dims",
    "unbind": "unstack",
    "unsqueeze": "expand_dims",
    # PyTorch: what a tensor's operators call themselves
    "__and__": "bitwise_and",
    "__floordiv__": "floor_divide",
    "__lshift__": "bitwise_left_shift",
    "__or__": "bitwise_or",
    "__rshift__": "bitwise_right_shift",
    "__xor__": "bitwise_xor",
}

# Functions of PyTorch that share a name with a rule, but mean something else and have no rule.
NOT_TORCH = frozenset({"flatten", "pad", "repeat", "split", "take"})

KEYWORDS: dict[str, str] = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "shifts": "shift",
    "a_min": "min",
    "a_max": "max",
    "newshape": "shape",
}

# PyTorch hands these to `__torch_function__` although the user did not write them.
_TORCH_NOISE = frozenset({"inplace", "_stacklevel"})

# `np.add.reduce` -> `sum`, and so on.
UFUNC_REDUCTIONS: dict[str, str] = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}


def numpy_name(function: Callable[..., Any]) -> str:
    """The name of a NumPy function below `np.`: "sum", "linalg.norm"."""
    submodule = function.__module__.removeprefix("numpy").removeprefix(".")
    return f"{submodule}.{function.__name__}" if submodule else function.__name__


def torch_name(function: Callable[..., Any]) -> str:
    """The name of a PyTorch function below `torch.`: "sum", "linalg.norm"."""
    name = function.__name__
    for submodule in ("linalg", "fft"):
        if name.startswith(f"{submodule}_"):
            return f"{submodule}.{name.removeprefix(f'{submodule}_')}"
    return name


def torch_keywords(keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords that the user meant: PyTorch adds its defaults, None for the most part."""
    return {k: v for k, v in keywords.items() if v is not None and k not in _TORCH_NOISE}
