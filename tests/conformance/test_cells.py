"""Cells of the array-API backend: each function gives for each cell what it gives on that cell's window.

The expected value is always the library's own function (NumPy's for `np.` spellings), called on one window at a time.
"""

from __future__ import annotations

import importlib
import math
import operator
import re
from pathlib import Path

import array_api_compat
import numpy as np
import pytest
from stencilx_array_api.cells import Cells, as_cells, find_rule, from_stacked, stack
from stencilx_array_api.functions import TABLE
from stencilx_array_api.names import ALIASES

from stencilx.errors import KernelError, StencilError

GRID = (3, 5)
DTYPES = ("float32", "int32", "bool", "uint8")


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
    return np.asarray(array.detach().resolve_conj() if hasattr(array, "detach") else array)


def leaves(result):
    """The arrays of a result: itself, or the parts of a tuple or list."""
    return list(result) if isinstance(result, (list, tuple)) else [result]


def check(function, arrays, xp, *, one_cell=None, one_cell_xp=None, same_dtype=True):
    """`function` on Cells against `function` (or `one_cell`) on the windows, one cell at a time."""
    one_cell = one_cell or function
    one_cell_xp = one_cell_xp or xp
    stacked = [xp.asarray(a) for a in arrays]
    got = [as_cells(part, xp) for part in leaves(function(*(from_stacked(a, a.ndim - len(GRID), xp) for a in stacked)))]
    places = list(np.ndindex(GRID))
    expected = [leaves(one_cell(*(one_cell_xp.asarray(a[place]) for a in arrays))) for place in places]
    assert len(got) == len(expected[0])
    for mine, *theirs in zip(got, *expected):
        whole = stack(mine, GRID)
        assert mine.shape == tuple(theirs[0].shape)
        rows = to_numpy(whole).reshape(len(places), *mine.shape)
        np.testing.assert_allclose(rows, np.stack([to_numpy(t) for t in theirs]), rtol=2e-5, atol=2e-6)
        if same_dtype:
            assert whole.dtype == theirs[0].dtype


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
    *(
        f"xp.{f}(x)"
        for f in [
            "abs",
            "bitwise_invert",
            "ceil",
            "floor",
            "trunc",
            "round",
            "exp",
            "expm1",
            "isfinite",
            "isinf",
            "isnan",
        ]
    ),
    *(
        f"xp.{f}(x)"
        for f in [
            "logical_not",
            "negative",
            "positive",
            "sign",
            "signbit",
            "square",
            "sin",
            "cos",
            "tan",
            "atan",
            "asinh",
            "tanh",
        ]
    ),
    *(f"xp.{f}(x * x + 1)" for f in ["log", "log10", "log1p", "log2", "sqrt", "acosh", "reciprocal"]),
    *(f"xp.{f}(x / 9)" for f in ["acos", "asin", "atanh", "cosh", "sinh"]),
    *(
        f"xp.{f}(x, x[1, :] * x[1, :] + 1)"
        for f in ["add", "subtract", "multiply", "divide", "remainder", "floor_divide", "pow"]
    ),
    *(f"xp.{f}(x, x[1, :])" for f in ["atan2", "hypot", "copysign", "logaddexp", "nextafter", "maximum", "minimum"]),
    *(f"xp.{f}(x[:, 1:], x[1, :2])" for f in ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]),
    *(
        f"xp.{f}(x, x[1, :])"
        for f in ["bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or", "logical_xor"]
    ),
    "xp.bitwise_left_shift(x, 2)",
    "xp.bitwise_right_shift(3, x * x)",
    "xp.real(x)",
    "xp.conj(x)",
    "xp.ones_like(xp.empty_like(x))",
    "xp.astype(x, xp.float64)",
    "xp.astype(x, xp.result_type(x, xp.int8))",
    "xp.linalg.qr(x)[1] ** 2",
    "xp.linalg.svd(x, full_matrices=False)[1]",
    "xp.linalg.matrix_rank(x)",
    "xp.vecdot(x[0, :], x)",
    "xp.zeros_like(x)",
    "xp.ones_like(x, dtype=xp.int64)",
    "xp.full_like(x, 3)",
    "xp.asarray(x)",
    "xp.where(x > 1, x, 2 * x)",
    "xp.clip(x + 1, 1, 3)",
    "xp.clip(x + 1, -2)",
    "xp.clip(x + 1, max=1)",
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
    *(f"xp.fft.{f}(x, n=3)" for f in ("hfft", "ihfft", "irfft")),
    "xp.fft.fftn(x)",
    "xp.fft.ifftn(x, axes=(0,))",
    "xp.fft.rfftn(x, s=(2, 4), axes=(0, 1))",
    "xp.fft.irfftn(x)",
    "xp.fft.ifftshift(x, axes=1)",
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
MORE_THAN_THE_LIBRARY = (
    "xp.matmul(",
    "xp.tensordot(",
    "xp.vecdot(",
    "xp.diff(",
    "xp.linalg.",
    "xp.fft.fftshift(",
    "xp.fft.ifftshift(",
)


@pytest.mark.parametrize("text", ONE_OPERAND)
def test_namespace_function(library, text):
    code = compile(text, "<case>", "eval")

    def function(x):
        return eval(code, {"xp": library_of(x, library), "x": x, "math": math})

    for dtype in DTYPES:
        array = windows(dtype)
        with np.errstate(all="ignore"):
            if not refuses(function, [array], library):
                check(function, [array], library)
            elif not text.startswith(MORE_THAN_THE_LIBRARY):
                with pytest.raises((TypeError, RuntimeError, NotImplementedError, ValueError, AttributeError)):
                    stack(as_cells(function(cells_of(array, library)), library), GRID)


def library_of(x, library):
    return x.__array_namespace__() if isinstance(x, Cells) else library


def test_square_matrices(library):
    matrices = windows("float64", (3, 3)) + 8 * np.eye(3)
    symmetric = matrices + np.swapaxes(matrices, -1, -2)
    check(lambda x: library_of(x, library).linalg.inv(x), [matrices], library)
    check(lambda x: library_of(x, library).linalg.det(x), [matrices], library)
    check(lambda x: library_of(x, library).linalg.matrix_power(x, 3), [matrices], library)
    check(lambda x: library_of(x, library).linalg.eigvalsh(x), [symmetric], library)
    check(lambda x: library_of(x, library).linalg.slogdet(x), [matrices], library)
    check(lambda x: library_of(x, library).linalg.svd(x).S, [matrices], library)
    check(lambda x: library_of(x, library).linalg.pinv(x), [matrices], library)


@pytest.mark.parametrize("cell", [(3,), (3, 2)])
def test_solve(library, cell):
    matrices = windows("float64", (3, 3)) + 9 * np.eye(3)
    right = windows("float64", cell, seed=1)
    check(lambda a, b: library_of(a, library).linalg.solve(a, b), [matrices, right], library)


# ---------------------------------------------------------------- operators

BINARY = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
]


@pytest.mark.parametrize("other", ["cells", "scalar", "parameter"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_operator(library, name, dtype, other):
    operate = getattr(operator, name)
    left, right = windows(dtype), windows(dtype, (3,), seed=1)
    if name in ("lshift", "rshift", "pow", "floordiv", "mod") and dtype != "bool":
        left, right = abs(left) + 1, abs(right) + 1
    scalar = {"float32": 1.5, "int32": 3, "bool": True}[dtype]
    parameter = library.asarray(right[1, 2])

    def function(x, y):
        z = {"cells": y, "scalar": scalar, "parameter": parameter}[other]
        if other == "parameter" and library.__name__ == "array_api_strict":
            # its arrays refuse foreign operands on their right instead of giving way
            return operate(x, z)
        return operate(x, z), operate(z, x)

    with np.errstate(all="ignore"):
        if refuses(function, [left, right], library):
            with pytest.raises((TypeError, RuntimeError, NotImplementedError)):
                function(cells_of(left, library), cells_of(right, library, 1))
        else:
            check(function, [left, right], library)


@pytest.mark.parametrize("operate", [operator.neg, operator.pos, abs, lambda x: x.T, lambda x: x.mT])
def test_unary_operator(library, operate):
    check(operate, [windows("int32")], library)


def test_invert_matmul_divmod_round(library):
    ints, floats = windows("int32"), windows("float32")
    check(operator.invert, [ints], library)
    check(lambda x: x @ x.T, [ints], library)
    check(lambda x: x[0, :] @ x[1, :], [floats], library)
    check(lambda x: x @ x[0, :], [floats], library)
    check(lambda x: divmod(x, 3), [ints], library, one_cell=lambda x: (x // 3, x % 3))
    check(round, [floats], library, one_cell=library.round)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy_parameter_promotes_as_the_library_does(library, dtype):
    weights = np.asarray([[0.5, -1, 2], [3, 0.25, -7]], dtype=dtype)
    weights.flags.writeable = False

    def one_cell(x):
        return x * library.asarray(weights.copy()), library.asarray(weights.copy()) - x

    check(lambda x: (x * weights, weights - x), [windows()], library, one_cell=one_cell)
    check(lambda x: x * weights[::-1, ::-1], [windows()], library, one_cell=lambda x: x * flipped(weights, library))


def flipped(weights, library):
    return library.asarray(weights[::-1, ::-1].copy())


def test_python_and_numpy_scalars_leave_the_dtype(library):
    x = cells_of(windows(), library)
    for scalar in (2, 2.5, np.int8(3)):
        assert (x * scalar).dtype == library.float32
        assert (scalar + x).dtype == library.float32
    strong = np.float64(2) * x
    # in NumPy, and there alone, a NumPy scalar is as strong as an array
    assert strong.dtype == (library.float64 if array_api_compat.is_numpy_namespace(library) else library.float32)


def test_parameter_without_dimensions_is_strong(library):
    x = cells_of(windows(), library)
    assert (x * library.asarray(2.0, dtype=library.float64)).dtype == library.float64


def test_operator_gives_way_to_who_opts_out_of_ufuncs(library):
    class Window:
        __array_ufunc__ = None

        def __rmul__(self, other):
            return "the window's own"

    assert cells_of(windows(), library) * Window() == "the window's own"
    with pytest.raises(TypeError):
        cells_of(windows(), library) - Window()


# ---------------------------------------------------------------- indexing

KEYS = [
    (0,),
    (-1, 2),
    (slice(None), 1),
    (..., slice(None, None, -1)),
    (None, slice(0, 1)),
    ([1, 0, 1],),
    (slice(None), [2, 0]),
    (np.array([[True, False, True], [False, True, False]]),),
    (np.array([0, 1]), np.array([2, 0])),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_is_that_of_numpy(key):
    key = key[0] if len(key) == 1 else key
    check(lambda x: x[key], [windows("int32")], array_api_compat.array_namespace(np.zeros(1)))


def test_iteration_and_length(library):
    x = cells_of(windows(), library)
    assert (len(x), x.ndim, x.size, x.shape, x.grid) == (2, 2, 6, (2, 3), GRID)
    top, bottom = x
    np.testing.assert_array_equal(to_numpy(stack(bottom, GRID)), windows()[..., 1, :])
    assert top.shape == (3,)
    with pytest.raises(IndexError, match="out of bounds"):
        x[2]


# ---------------------------------------------------------------- NumPy's own functions

NUMPY = [
    "np.sum(x, 0)",
    "np.sum(x, axis=(0, 1), keepdims=True)",
    "np.add.reduce(x)",
    "np.maximum.reduce(x, axis=None)",
    "np.logical_and.reduce(x > 0, axis=1)",
    "np.mean(x, axis=1)",
    "np.std(x, ddof=1)",
    "np.amax(x, axis=0)",
    "np.ptp(x, axis=1)",
    "np.average(x, axis=1, weights=np.array([1.0, 2.0, 4.0]))",
    "np.average(x)",
    "np.median(x)",
    "np.median(x, axis=0)",
    "np.median(x, axis=(1,), keepdims=True)",
    "np.quantile(x, 0.3)",
    "np.quantile(x, [0.1, 0.75], axis=1)",
    "np.percentile(x, 60, axis=0, keepdims=True)",
    "np.nansum(np.where(x > 1, np.nan, x), axis=0)",
    "np.nanmax(np.where(x > 1, np.nan, x), axis=0)",
    "np.nanmin(np.where(x > 1, np.nan, x), axis=0)",
    "np.nanmean(np.where(x > 3, np.nan, x))",
    "np.cumsum(x)",
    "np.cumsum(x, axis=0)",
    "np.cumprod(x, 1)",
    "np.diff(x, axis=1, prepend=0)",
    "np.diff(x, axis=0, append=x[:1])",
    "np.where(x > 0, 1.0, -1.0)",
    "np.where([True, False, True], x, 0)",
    "np.select([x > 2, x < -2], [x, -x], 7)",
    "np.maximum(x, 0)",
    "np.absolute(x) ** 2",
    "np.arctan2(x, x[::-1])",
    "np.hypot(3.0, x)",
    "np.deg2rad(x)",
    "np.degrees(x)",
    "np.nan_to_num(np.log(np.abs(x) * 0), neginf=-3)",
    "np.isclose(x, x + 1e-9)",
    "np.clip(x, -2, 2.5)",
    "np.clip(x, None, x[1])",
    "np.round(x / 7, 2)",
    "np.round(x * 100, decimals=-2)",
    "np.sort(x)",
    "np.sort(x, axis=None)",
    "np.argmax(x, axis=1)",
    "np.stack([x[0], x[1] * 2.5])",
    "np.concatenate([x, x[:, :1]], axis=1)",
    "np.vstack([x, x[0]])",
    "np.hstack([x[0], x[1]])",
    "np.column_stack([x[0], x[1]])",
    "np.dstack([x, x])",
    "np.transpose(x)",
    "np.reshape(x, (3, 2), order='F')",
    "np.ravel(x)",
    "np.rot90(x)",
    "np.fliplr(x)",
    "np.swapaxes(x, 0, 1)",
    "np.expand_dims(x, (0, 2))",
    "np.atleast_3d(x)",
    "np.split(x, 3, axis=1)",
    "np.delete(x, 1, axis=1)",
    "np.pad(x, 1)",
    "np.pad(x, ((1, 0), (0, 2)), constant_values=-4)",
    "np.pad(x, 1, mode='reflect')",
    "np.pad(x, ((0, 0), (2, 1)), 'edge')",
    "np.diag(x[0])",
    "np.diag(x, 1)",
    "np.tril(x, -1)",
    "np.trace(x, 1)",
    "np.diagonal(x, 1)",
    "np.take(x, [2, 0], axis=1)",
    "np.dot(x, x[0])",
    "np.dot(x, x.T)",
    "np.dot(2, x)",
    "np.inner(x, x)",
    "np.outer(x[0], x)",
    "np.vdot(x, x)",
    "np.tensordot(x, x, axes=([1], [1]))",
    "np.tensordot(x, x, 0)",
    "np.cross(x[0], x)",
    "np.matmul(x, x[1])",
    "np.einsum('ij,kj->ik', x, x)",
    "np.einsum('ij,kj', x, x)",
    "np.einsum('...j,j->...', x, x[0])",
    "np.einsum('ij,ij', x, x)",
    "np.einsum('ii->i', x[:, :2])",
    "np.einsum('ii', x[:, :2])",
    "np.einsum('i,j,k->ikj', x[0], x[1], x[:, 1])",
    "np.einsum('ji', x)",
    "np.linalg.norm(x)",
    "np.linalg.norm(x, axis=0)",
    "np.linalg.norm(x, 1, axis=1, keepdims=True)",
    "np.linalg.norm(x, -2)",
    "np.linalg.norm(x, np.inf)",
    "np.linalg.norm(x[0], 0)",
    "np.linalg.norm(x, 'nuc', axis=(1, 0))",
    "np.fft.rfft(x, axis=0)",
    "np.full_like(x, 2)",
    "np.multiply(x, np.shape(x)[0] + 10 * np.ndim(x) + np.size(x))",
    "np.array([[1, 2, 4], [0, -1, 3]], dtype=np.float64) * x",
    "x[1] @ x.T",
    "x.sum() + x.prod(axis=0) + x.max(axis=1, keepdims=True) - x.min()",
    "x.mean() + x.std(axis=0) + x.var()",
    "(x > 0).any(axis=0) | (x > 1).all(axis=0)",
    "x.reshape(3, 2).dot(x[:, 0]) + x.T.ravel().cumsum()[:3]",
    "x.transpose(1, 0).flatten().clip(-1, 2).round()",
    "x[None].squeeze(0).transpose().argmax(axis=0) + x.argmin()",
    "x.astype('int64') if isinstance(x, np.ndarray) else x.astype(x.__array_namespace__().int64)",
    "x.real + x.conj()",
]


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("text", NUMPY)
def test_numpy_function(library, text):
    check_numpy_function(text, windows("float64"), library)


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("text", NUMPY)
def test_numpy_function_of_integers(text):
    check_numpy_function(text, windows("int64"), array_api_compat.array_namespace(np.zeros(1)))


ONLY_IN_NUMPY = [
    "np.cbrt(x)",
    "np.exp2(x)",
    "np.float_power(x, 2)",
    "np.fmax(x, x[0])",
    "np.fmin(x, x[0])",
    "np.fmod(x, 4)",
    "np.gcd(x, x[0])",
    "np.lcm(x, x[0])",
    "np.heaviside(x, 0.5)",
    "np.logaddexp2(x, x[0])",
    "np.sinc(x)",
    "np.imag(x)",
    "np.isposinf(1 / (x * 0))",
    "np.isneginf(-1 / (x * 0))",
    "np.invert(x)",
    "np.divmod(x, 4)",
    "np.array_split(x, 2, axis=1)",
    "np.hsplit(x, 3)",
    "np.vsplit(x, 2)",
    "np.flipud(x)",
    "np.copy(x)",
    "np.atleast_1d(x[0, 0])",
    "np.atleast_2d(x[0], x)",
]


@pytest.mark.parametrize("text", ONLY_IN_NUMPY)
def test_function_that_only_numpy_has(text):
    check_numpy_function(text, windows("int64"), array_api_compat.array_namespace(np.zeros(1)))


COMPLEX = [
    "xp.sum(x, axis=0)",
    "xp.prod(x)",
    "xp.mean(x)",
    "xp.abs(x)",
    "xp.conj(x) * xp.imag(x)",
    "xp.real(x)",
    "xp.vecdot(x, x[1, :])",
    "xp.matmul(x, x.T)",
    "xp.linalg.vector_norm(x)",
    "xp.linalg.matrix_norm(x, ord='nuc')",
    "xp.linalg.svdvals(x)",
    "xp.fft.fft(x)",
    "xp.fft.ifftn(x)",
    "xp.fft.irfft(x, axis=0, n=3)",
    "xp.any(x)",
    "xp.linalg.eigh(xp.matmul(x, xp.conj(x.T)))[0]",
    "xp.linalg.cholesky(xp.matmul(x, xp.conj(x.T)) + 3 * xp.eye(2, dtype=x.dtype))",
]


@pytest.mark.parametrize("text", COMPLEX)
def test_complex_values(library, text):
    code = compile(text, "<case>", "eval")
    array = windows("complex128")
    check(lambda x: eval(code, {"xp": library_of(x, library), "x": x}), [array], library)


def test_complex_in_numpy():
    for text in ("np.var(x)", "np.std(x, axis=0, ddof=1)", "np.vdot(x, x[::-1] * 1j)", "np.dot(x, x.T)"):
        check_numpy_function(text, windows("complex128"), array_api_compat.array_namespace(np.zeros(1)))


def check_numpy_function(text, array, library):
    code = compile(text, "<case>", "eval")

    def function(x):
        return eval(code, {"np": np, "x": x})

    plain = array_api_compat.is_numpy_namespace(library)
    with np.errstate(all="ignore"):
        check(function, [array], library, one_cell_xp=np, same_dtype=plain)


# ---------------------------------------------------------------- PyTorch's own functions

TORCH = [
    "torch.sum(x * w)",
    "torch.sum(x, 0, True)",
    "torch.sum(x, dim=(0, 1), keepdim=True)",
    "torch.mean(x, dim=1)",
    "torch.prod(x, 1, keepdim=True)",
    "torch.all(x < 5, 1)",
    "torch.var(x)",
    "torch.var(x, False)",
    "torch.std(x, dim=1, keepdim=True)",
    "torch.std(x, dim=0, correction=0)",
    "torch.var(x, 1, unbiased=False)",
    "torch.max(x)",
    "torch.max(x, 1)",
    "torch.min(x, dim=0, keepdim=True)",
    "torch.max(x, w)",
    "torch.amax(x, 0, True)",
    "torch.amin(x, dim=(0, 1))",
    "torch.argmax(x, 1, True)",
    "torch.argmin(x)",
    "torch.any(x > 0, dim=0)",
    "torch.median(x)",
    "torch.median(x, 1, keepdim=True)",
    "torch.median(torch.where(x > 1, torch.nan, x), 0)",
    "torch.sort(x, dim=1, stable=True)",
    "torch.sort(x, dim=0, descending=True, stable=True)",
    "torch.nansum(torch.where(x > 1, torch.nan, x), dim=1)",
    "torch.nanmean(torch.where(x > 3, torch.nan, x))",
    "torch.quantile(x, 0.3, dim=1)",
    "torch.cumsum(x, 1)",
    "torch.cumprod(x, dim=0)",
    "torch.diff(x, dim=0)",
    "torch.where(x > 0, x, 0.0)",
    "torch.clamp(x, min=-1, max=2)",
    "torch.relu(x)",
    "torch.nn.functional.relu(x)",
    "torch.sigmoid(x)",
    "torch.rsqrt(x.abs() + 1 if isinstance(x, torch.Tensor) else abs(x) + 1)",
    "torch.erf(x) + torch.erfc(w * x)",
    "torch.pow(x, 2)",
    "torch.true_divide(x, w)",
    "torch.round(x / 7, decimals=1)",
    "torch.stack([x, w], dim=1)",
    "torch.cat([x, w], 1)",
    "torch.concat([x, x], dim=0)",
    "torch.transpose(x, 0, 1)",
    "torch.permute(x, dims=(1, 0))",
    "torch.t(x)",
    "torch.movedim(x, 0, 1)",
    "torch.reshape(x, (3, 2))",
    "torch.unsqueeze(x, 1)",
    "torch.squeeze(x[None], 0)",
    "torch.flip(x, dims=(1,))",
    "torch.roll(x, shifts=1, dims=1)",
    "torch.unbind(x, 1)",
    "torch.tril(x)",
    "torch.broadcast_to(x[0], (2, 3))",
    "torch.matmul(x, w.T)",
    "torch.dot(x[0], w[1])",
    "torch.mv(w, x[0])",
    "torch.einsum('ij,ij->', x, w)",
    "torch.tensordot(x, w, dims=2)",
    "torch.tensordot(x, w, ([1], [1]))",
    "torch.norm(x)",
    "torch.norm(x, 1, 0)",
    "torch.linalg.norm(x)",
    "torch.linalg.vector_norm(x, 1, dim=1)",
    "torch.linalg.matrix_norm(x)",
    "torch.linalg.svdvals(x)",
    "torch.linalg.inv(x[:, :2] + 20 * torch.eye(2))",
    "torch.fft.fft(x)",
    "torch.fft.rfft(x, dim=0)",
    "w + x, w - x, w / x, w * x, w // 3 - x, w @ x.T, w ** (x * 0)",
    "w < x, w == x, w >= x, w.add(x)",
]


@pytest.mark.parametrize("text", TORCH)
def test_torch_function(text):
    torch = pytest.importorskip("torch")
    xp = array_api_compat.array_namespace(torch.zeros(1))
    code = compile(text, "<case>", "eval")
    w = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -7.0]])

    check(lambda x: eval(code, {"torch": torch, "x": x, "w": w}), [windows()], xp)


def test_torch_gradients_reach_field_and_weights():
    torch = pytest.importorskip("torch")
    xp = array_api_compat.array_namespace(torch.zeros(1))
    values = torch.tensor(windows("float64"))

    def loss(x, w, one):
        return torch.tanh(one(torch.sum(x * w) * torch.max(x) + w[0, 1] * torch.linalg.norm(x)))

    def gradients(evaluate):
        x = values.clone().requires_grad_()
        w = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -7.0]], dtype=torch.float64, requires_grad=True)
        evaluate(x, w).backward()
        return x.grad, w.grad

    whole = gradients(lambda x, w: loss(from_stacked(x, 2, xp), w, lambda y: stack(y / 40, GRID)).sum())
    by_cell = gradients(lambda x, w: sum(loss(x[c], w, lambda y: y / 40) for c in np.ndindex(GRID)))
    for mine, theirs in zip(whole, by_cell):
        torch.testing.assert_close(mine, theirs)


# ---------------------------------------------------------------- the table itself


def test_every_function_of_the_table_has_a_case():
    texts = [Path(__file__).read_text(encoding="utf-8"), *ONE_OPERAND, *NUMPY, *TORCH]
    called = {
        id(find_rule(door, name))
        for door in ("xp", "np", "torch")
        for text in texts
        for name in re.findall(rf"\b{door}\.([\w.]+)\(", re.sub(r"library_of\(\w, library\)", "xp", text))
    }
    missing = [name for name, rule in TABLE.items() if id(rule) not in called]
    assert missing == []


def test_aliases_lead_to_the_table():
    assert [name for name in ALIASES.values() if name not in TABLE] == []
    # an alias that is also a rule would never be followed
    assert [name for name in ALIASES if name in TABLE] == []


# ---------------------------------------------------------------- errors

UNKNOWN = "the array-API backend cannot evaluate `{}` on whole slices"


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("np.fft.irfft2", lambda x: np.fft.irfft2(x)),
        ("np.unique", lambda x: np.unique(x)),
        ("np.linalg.lstsq", lambda x: np.linalg.lstsq(x, x[0])),
        ("np.multiply.accumulate", lambda x: np.multiply.accumulate(x)),
        ("np.modf", lambda x: np.modf(x)),
        ("xp.nonzero", lambda x: x.__array_namespace__().nonzero(x)),
        ("xp.linalg.lu", lambda x: x.__array_namespace__().linalg.lu),
    ],
)
def test_unknown_function(library, name, call):
    with pytest.raises(KernelError) as caught:
        call(cells_of(windows(), library))
    text = str(caught.value)
    assert text.startswith(UNKNOWN.format(name))
    assert "backend='numpy'" in text and "backend='jax'" in text


def test_unknown_function_of_torch():
    torch = pytest.importorskip("torch")
    x = cells_of(windows(), array_api_compat.array_namespace(torch.zeros(1)))
    for name, call in {
        "torch.nn.functional.pad": lambda: torch.nn.functional.pad(x, (1, 1)),
        "torch.topk": lambda: torch.topk(x, 2),
    }.items():
        with pytest.raises(KernelError, match=re.escape(UNKNOWN.format("torch." + name.split(".")[-1]))):
            call()


def test_namespace_can_be_asked_what_it_has(library):
    xp = cells_of(windows(), library).__array_namespace__()
    assert hasattr(xp, "sum") and not hasattr(xp, "unique_values")
    assert xp is cells_of(windows("int32"), library).__array_namespace__()
    assert (xp.float32, xp.pi, xp.newaxis) == (library.float32, math.pi, None)
    # without a kernel's value in them, functions are the library's own
    assert float(xp.sum(xp.ones(3))) == 3.0


def test_option_that_has_no_rule(library):
    x = cells_of(windows(), library)
    with pytest.raises(KernelError, match=r"cannot evaluate `np\.sum` with these arguments: .*'where'"):
        np.sum(x, where=np.array([True, False, True]))
    with pytest.raises(KernelError, match=r"cannot evaluate `np\.add` with these arguments: .*'out'"):
        np.add(x, 1, out=np.zeros(3))
    with pytest.raises(KernelError, match=r"`np\.pad` with mode='linear_ramp'"):
        np.pad(x, 1, mode="linear_ramp")


def test_einsum_of_lists_of_labels(library):
    with pytest.raises(KernelError, match=r"cannot evaluate `einsum` of lists of labels"):
        np.einsum(cells_of(windows(), library), [0, 1], [0])


def test_function_that_the_library_lacks():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(KernelError, match="`cbrt` is not among the functions of array_api_strict"):
        np.cbrt(cells_of(windows(), strict))


ONE_VALUE = [
    (lambda x: bool(x[0, 0] > 0), "one truth for each cell: `if` cannot choose", "np.where"),
    (lambda x: x[0, 0] > 0 and x[0, 1], "one truth for each cell", "combine conditions with & | ~"),
    (lambda x: max(x[0, 0], x[0, 1]), "one truth for each cell", "np.where"),
    (lambda x: int(x[0, 0]), "cannot serve as int()", "astype"),
    (lambda x: math.sqrt(x[0, 0]), "cannot serve as float()", "np.sqrt and the like instead of the math module"),
    (lambda x: complex(x[0, 0]), "cannot serve as complex()", "astype"),
    (lambda x: range(x[0, 0]), "cannot serve as an index", "np.where"),
    (lambda x: x[x[0, 0]], "a data-dependent index", "where(condition, a, b)"),
    (lambda x: x[x > 0], "a data-dependent index", "where(condition, a, b)"),
    (lambda x: np.asarray(x), "cannot be converted to a NumPy array", "np.stack"),
    (lambda x: np.array([x[0, 0], x[0, 1]]), "cannot be converted to a NumPy array", "np.stack"),
    (lambda x: x.__setitem__(0, 1), "cannot write into its window", "np.stack"),
    (lambda x: np.where(x > 0), "lists positions", "where(condition, a, b)"),
    (lambda x: x + "1", "a value of type str", "numbers or arrays"),
]


@pytest.mark.parametrize(("use", "message", "hint"), ONE_VALUE)
def test_a_value_for_all_cells_is_not_one_value(library, use, message, hint):
    with pytest.raises(KernelError) as caught:
        use(cells_of(windows(), library))
    first, *rest = str(caught.value).splitlines()
    assert message in first
    assert hint in "\n".join(rest)
    assert isinstance(caught.value, StencilError) and isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + np.ones(4),
        lambda x: x @ x,
        lambda x: np.dot(x, x),
        lambda x: np.tensordot(x, x, axes=1),
        lambda x: np.einsum("ij,jk", x, x),
        lambda x: np.einsum("ij->k", x),
        lambda x: np.einsum("ij,ij->", x),
        lambda x: np.reshape(x, (4, 2)),
        lambda x: np.concatenate([x, x[:, :2]]),
        lambda x: np.linalg.det(x[0]),
        lambda x: np.linalg.norm(x, 7),
        lambda x: np.cross(x[:, :2], x[:, :2]),
        lambda x: np.quantile(x, 1.5),
        lambda x: np.max(x[:0]),
        lambda x: x.__array_namespace__().cumulative_sum(x),
    ],
)
def test_what_numpy_refuses_for_its_shapes(use):
    """ValueError, as NumPy has it, and not a wrong number by broadcasting."""
    with pytest.raises(ValueError):
        use(cells_of(windows(), array_api_compat.array_namespace(np.zeros(1))))


# ---------------------------------------------------------------- helpers for the backend


def test_stack_repeats_what_is_the_same_in_every_cell(library):
    field = library.asarray(windows(cell=())[..., None])
    x = from_stacked(field, 1, library)
    mixed = np.stack([x[0], as_cells(2.5, library), as_cells(library.asarray(-1.0, dtype=library.float32), library)])
    whole = stack(mixed, GRID)
    assert whole.dtype == library.float32
    expected = np.stack([windows(cell=()), np.full(GRID, 2.5), np.full(GRID, -1.0)], axis=-1)
    np.testing.assert_array_equal(to_numpy(whole), expected)


@pytest.mark.parametrize("value", [True, 3, -2.5])
def test_stack_of_one_number(library, value):
    whole = stack(as_cells(value, library), GRID)
    assert whole.dtype == library.asarray(value).dtype
    np.testing.assert_array_equal(to_numpy(whole), np.full(GRID, value))


def test_stack_of_no_elements(library):
    assert tuple(stack(cells_of(windows(), library)[:, :0], GRID).shape) == (*GRID, 2, 0)


def test_as_cells_of_a_list_joins(library):
    x = cells_of(windows(), library)
    joined = as_cells([x[0, 0], 2.0, [1.0, 2.0][0]], library)
    assert joined.shape == (3,)
    assert as_cells(x, library) is x
    assert as_cells(np.ones((2, 1)), library).shape == (2, 1)


def test_repr_says_shape_dtype_and_grid():
    x = cells_of(windows(), array_api_compat.array_namespace(np.zeros(1)))
    assert repr(x) == "Cells(shape=(2, 3), dtype=float32, grid=(3, 5))"


def test_inputs_are_not_modified(library):
    array = windows("float64")
    array.flags.writeable = False
    before = array.copy()
    weights = np.asarray([[0.5, -1, 2], [3, 0.25, -7]])
    weights.flags.writeable = False
    x = from_stacked(library.asarray(array.copy()), 2, library)
    source = to_numpy(stack(x, GRID)).copy()
    stack(np.sort(np.cumsum(x * weights, axis=1) + np.linalg.norm(x), axis=0), GRID)
    np.testing.assert_array_equal(to_numpy(stack(x, GRID)), source)
    if array_api_compat.is_numpy_namespace(library):
        locked = from_stacked(array, 2, library)
        assert stack(np.median(locked * weights + np.roll(locked, 1)), GRID).shape == GRID
    np.testing.assert_array_equal(array, before)


def test_no_patches_for_sums_of_products(library, monkeypatch):
    """Operators, sums, moves and contractions never store grid + cell shape: `stack` is not called."""

    def refuse(*args, **options):
        raise AssertionError("patches were stored")

    monkeypatch.setattr("stencilx_array_api.stacked.stack_grid", refuse)
    x = cells_of(windows(), library)
    np.sum(x * x) + np.einsum("ij,ij->", x, x) + np.var(x) + np.linalg.norm(np.flip(x)) + np.max(x @ x.T)
    with pytest.raises(AssertionError):
        np.median(x)


def test_everything_stays_on_the_device_of_the_field():
    strict = pytest.importorskip("array_api_strict")
    device = strict.Device("device1")
    x = from_stacked(strict.asarray(windows("float64"), device=device), 2, strict)
    weights = np.asarray([[0.5, -1, 2], [3, 0.25, -7]])
    for value in (
        x * weights,
        np.pad(x, 1),
        np.pad(x, 1, constant_values=2.5),
        np.tril(x),
        np.stack([x[0, 0], as_cells(2.0, strict)]),
        np.where(x > 0, 1.0, -1.0),
        np.where(weights > 0, x, 0),
        np.full_like(x, 2),
        np.clip(x, -1, weights),
        np.einsum("ij,kj->ik", x, weights),
        np.nanmax(x, axis=0),
        np.median(x) + np.linalg.norm(x, axis=0),
        np.linalg.svdvals(x @ weights.T),
    ):
        assert stack(value, GRID).device == device
