"""Cells of the array-API backend: each function gives for each cell what it gives on that cell's window.

The expected value is always the library's own function (NumPy's for `np.` spellings), called on one window at a time.
"""

from __future__ import annotations

import importlib
import math
import operator

import array_api_compat
import numpy as np
import pytest
from stencilx_array_api.cells import Cells, as_cells, from_stacked, stack
from stencilx_array_api.functions import TABLE

from stencilx.errors import KernelError, StencilError

GRID = (3, 5)
DTYPES = ("float32", "int32", "bool", "uint8")


def torch_or_skip():
    return pytest.importorskip("torch")


@pytest.fixture(params=["numpy", "array_api_strict", "torch"])
def library(request):
    """An array-API namespace as `array_api_compat` hands it out."""
    name = request.param
    module = pytest.importorskip(name)
    if name == "array_api_strict":
        return module
    del module
    return importlib.import_module(f"array_api_compat.{name}")


def windows(dtype="float32", cell=(2, 3), seed=0):
    """A NumPy array of shape grid + cell: negative where it can be, without symmetries, with ties."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 8, GRID + cell)
    if dtype == "bool":
        return values > 1
    if dtype == "uint8":
        return (values + 250).astype("uint8")
    if dtype.startswith("complex"):
        return (values / 4 + 1j * rng.integers(-9, 8, GRID + cell)).astype(dtype)
    return (values / 4 if dtype.startswith("float") else values).astype(dtype)


def cells_of(array, xp, cell_ndim=2):
    return from_stacked(xp.asarray(array), cell_ndim, xp)


def to_numpy(array):
    return np.asarray(array.detach() if hasattr(array, "detach") else array)


def leaves(result):
    """The arrays of a result: itself, or the parts of a tuple or list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]


def check(function, arrays, xp, *, one_cell=None, same_dtype=True, one_cell_xp=None):
    """`function` on Cells against `function` (or `one_cell`) on the windows, one cell at a time."""
    one_cell = one_cell or function
    one_cell_xp = one_cell_xp or xp
    stacked = [xp.asarray(a) for a in arrays]
    got = [
        as_cells(part, xp) for part in leaves(function(*(from_stacked(a, a.ndim - len(GRID), xp) for a in stacked)))
    ]
    for place in np.ndindex(GRID):
        expected = leaves(one_cell(*(one_cell_xp.asarray(a[place]) for a in arrays)))
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected):
            assert mine.shape == tuple(np.shape(theirs))
            whole = stack(mine, GRID)
            np.testing.assert_allclose(to_numpy(whole)[place], to_numpy(theirs), rtol=2e-5, atol=2e-6)
            if same_dtype:
                assert whole.dtype == theirs.dtype


def refuses(function, arrays, xp):
    """Whether the library itself refuses the function on one window."""
    try:
        function(*(xp.asarray(a[(0,) * len(GRID)]) for a in arrays))
    except (TypeError, RuntimeError, NotImplementedError, ValueError, AttributeError):
        return True
    return False


# ---------------------------------------------------------------- the array-API namespace

REDUCTIONS = [
    f"xp.{name}(x{axis}{keep})"
    for name in ("sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "count_nonzero")
    for axis in ("", ", axis=0", ", axis=-1", ", axis=(0, 1)", ", axis=(1,)")
    for keep in ("", ", keepdims=True")
]

ONE_OPERAND = [
    *REDUCTIONS,
    "xp.sum(x, dtype=xp.float64)",
    "xp.prod(x, axis=1, dtype=xp.float64)",
    "xp.var(x, correction=1)",
    "xp.std(x, axis=1, correction=1)",
    *(f"xp.{f}(x)" for f in "abs bitwise_invert ceil floor trunc round exp expm1 isfinite isinf isnan".split()),
    *(f"xp.{f}(x)" for f in "logical_not negative positive sign signbit square sin cos tan atan asinh tanh".split()),
    *(f"xp.{f}(x * x + 1)" for f in "log log10 log1p log2 sqrt acosh reciprocal".split()),
    *(f"xp.{f}(x / 9)" for f in "acos asin atanh cosh sinh".split()),
    "xp.astype(x, xp.float64)",
    "xp.zeros_like(x)",
    "xp.ones_like(x, dtype=xp.int64)",
    "xp.full_like(x, 3)",
    "xp.asarray(x)",
    "xp.where(x > 1, x, 2 * x)",
    "xp.clip(x + x, 1, 3)",
    "xp.clip(x + x, -2)",
    "xp.clip(x + x, max=1)",
    "xp.reshape(x, (3, 2))",
    "xp.reshape(x, (-1,))",
    "xp.permute_dims(x, (1, 0))",
    "xp.matrix_transpose(x)",
    "xp.moveaxis(x, 0, 1)",
    "xp.flip(x)",
    "xp.flip(x, axis=1)",
    "xp.roll(x, 1)",
    "xp.roll(x, (1, -1), axis=(0, 1))",
    "xp.expand_dims(x, axis=1)",
    "xp.squeeze(xp.expand_dims(x, axis=0), axis=0)",
    "xp.concat([x, x[:1, :]], axis=0)",
    "xp.concat([x, x], axis=None)",
    "xp.stack([x[0, :], x[1, :], x[0, :]], axis=-1)",
    "xp.broadcast_to(x[1, :], (4, 3))",
    "xp.broadcast_arrays(x, x[1, :])",
    "xp.tile(x, (2, 1))",
    "xp.repeat(x, 2, axis=1)",
    "xp.take(x, xp.asarray([2, 0]), axis=1)",
    "xp.unstack(x, axis=1)",
    "xp.diff(x)",
    "xp.diff(x, axis=0)",
    "xp.diff(x, n=2)",
    "xp.tril(x)",
    "xp.triu(x, k=1)",
    "xp.cumulative_sum(x, axis=1)",
    "xp.cumulative_sum(x, axis=0, include_initial=True)",
    "xp.cumulative_prod(x, axis=-1)",
    "xp.argmax(x)",
    "xp.argmin(x, axis=0)",
    "xp.argmax(x, axis=-1, keepdims=True)",
    "xp.argmin(x, keepdims=True)",
    "xp.sort(x)",
    "xp.sort(x, axis=0)",
    "xp.argsort(x, axis=1, descending=True)",
    "xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1)",
    "xp.linalg.trace(x)",
    "xp.linalg.trace(x, offset=1)",
    "xp.linalg.diagonal(x, offset=1)",
    "xp.linalg.vector_norm(x)",
    "xp.linalg.vector_norm(x, axis=0, ord=1)",
    "xp.linalg.vector_norm(x, axis=1, ord=math.inf, keepdims=True)",
    "xp.linalg.vector_norm(x, ord=-math.inf)",
    "xp.linalg.vector_norm(x, ord=3)",
    "xp.linalg.vector_norm(x, ord=0)",
    "xp.linalg.matrix_norm(x)",
    "xp.linalg.matrix_norm(x, ord=1)",
    "xp.linalg.matrix_norm(x, ord=-math.inf, keepdims=True)",
    "xp.linalg.matrix_norm(x, ord='nuc')",
    "xp.linalg.matrix_norm(x, ord=2)",
    "xp.linalg.svdvals(x)",
    "xp.fft.fft(x)",
    "xp.fft.rfft(x, n=4, axis=0)",
    "xp.fft.ifft(x, norm='ortho')",
    "xp.fft.fftn(x)",
    "xp.fft.fftshift(x)",
    "xp.matmul(x, x.T)",
    "xp.tensordot(x, x, axes=2)",
    "xp.tensordot(x, x, axes=([0], [0]))",
    "xp.vecdot(x, x[1, :])",
    "xp.vecdot(x, x, axis=0)",
    "xp.linalg.outer(x[0, :], x[1, :])",
    "xp.linalg.cross(x, xp.flip(x, axis=0))",
    "x[0, 0] + xp.pi * xp.linspace(0.0, 1.0, 3, dtype=xp.float32)",
    "x * xp.eye(2, 3, dtype=x.dtype)",
]

# Refused by some library and given by us all the same: a norm or a median of integers, matmul of bools.
MORE_THAN_THE_LIBRARY = ("xp.matmul(", "xp.tensordot(", "xp.linalg.", "xp.fft.fftshift(")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", ONE_OPERAND)
def test_namespace_function(library, text, dtype):
    code = compile(text, "<case>", "eval")

    def function(x):
        xp = x.__array_namespace__() if isinstance(x, Cells) else library
        return eval(code, {"xp": xp, "x": x, "math": math})

    array = windows(dtype)
    with np.errstate(all="ignore"):
        if refuses(function, [array], library):
            if not text.startswith(MORE_THAN_THE_LIBRARY):
                with pytest.raises((TypeError, RuntimeError, NotImplementedError, ValueError, AttributeError)):
                    stack(as_cells(function(cells_of(array, library)), library), GRID)
        else:
            check(function, [array], library)
