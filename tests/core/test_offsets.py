"""The window object of relative kernels, with reads that give back the offset they were asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stencilx.errors import KernelError, OffsetError
from stencilx.offsets import OffsetWindow
from stencilx.window import Offset, Window

INNER = Window((-1, -2), (1, 3))
NAMES = {"i": 0, "j": 1}


def window_of_offsets(window: Window | None = INNER, names: dict[str, int] | None = None, ndim: int = 2) -> Any:
    """A window `u` whose reads are offsets, and whose arrays are nested lists of them."""
    return OffsetWindow("u", ndim, window, names or {}, lambda offset: offset, lambda values: values.tolist())


def window_of_numbers(first: int = 0) -> Any:
    """A window `u` of 2 x 3 numbers, counted from `first` in row-major order."""

    def read(offset: Offset) -> int:
        return first + 3 * offset[0] + offset[1] + 1

    return OffsetWindow("u", 2, Window((0, -1), (1, 1)), {}, read, lambda values: np.array(values.tolist()))


# Reads


@pytest.mark.parametrize(
    ("key", "offset"),
    [
        ((1, -2), (1, -2)),
        ((np.int64(0), np.uint8(3)), (0, 3)),
        ((0, np.array(1)), (0, 1)),
        ((0, ..., 1), (0, 1)),
        ((..., -1, 0), (-1, 0)),
    ],
)
def test_one_offset(key: Any, offset: Offset) -> None:
    assert window_of_offsets()[key] == offset


def test_one_axis_needs_no_tuple() -> None:
    u = window_of_offsets(Window((-1,), (1,)), {"i": 0}, ndim=1)
    assert [u[-1], u["i+1"], u[..., 0], u[(1,)]] == [(-1,), (1,), (0,), (1,)]


@pytest.mark.parametrize(
    ("key", "offset"),
    [
        (("i+1", "j"), (1, 0)),
        (("j-2", "i"), (0, -2)),
        ((" i - 1 ", "j + 2"), (-1, 2)),
        (("j", 1), (1, 0)),
        ((-1, "j+3"), (-1, 3)),
        (("i", ..., 2), (0, 2)),
    ],
)
def test_offsets_by_name(key: Any, offset: Offset) -> None:
    assert window_of_offsets(names=NAMES)[key] == offset


def test_slices_are_of_offsets_and_never_wrap() -> None:
    u = window_of_offsets()
    assert u[-1:2, 0] == [(-1, 0), (0, 0), (1, 0)]
    assert u[0, -2:4:2] == [(0, -2), (0, 0), (0, 2)]
    assert u[0:2, 1:3] == [[(0, 1), (0, 2)], [(1, 1), (1, 2)]]
    assert u[1:1, 0] == []
    assert u[1:-1, 0] == []


def test_open_ends_are_those_of_the_window() -> None:
    u = window_of_offsets()
    assert u[:, 0] == [(-1, 0), (0, 0), (1, 0)]
    assert u[0, :0] == [(0, -2), (0, -1)]
    assert u[0, 2:] == [(0, 2), (0, 3)]
    assert u[0, ::3] == [(0, -2), (0, 1)]


def test_ellipsis_is_the_window_in_natural_order() -> None:
    u = window_of_offsets(Window((0, -1), (1, 0)))
    assert u[...] == u[:, :] == u[..., :, :] == [[(0, -1), (0, 0)], [(1, -1), (1, 0)]]
    assert u[1, ...] == u[1, :] == [(1, -1), (1, 0)]
    assert window_of_offsets(Window((0, -1), (1, 0)), NAMES)["j", ...] == [(0, 0), (1, 0)]


def test_a_window_that_is_inferred_has_any_offset() -> None:
    u = window_of_offsets(window=None)
    assert u[7, -9] == (7, -9)
    assert u[5:7, 0] == [(5, 0), (6, 0)]


def test_each_read_is_asked_for_once() -> None:
    asked: list[Offset] = []
    u = OffsetWindow("u", 2, INNER, {}, asked.append, lambda values: values.shape)
    assert u[-1:2, 0:2] == (3, 2)
    assert asked == [(-1, 0), (-1, 1), (0, 0), (0, 1), (1, 0), (1, 1)]


# The window as a whole


def test_shape_and_ndim() -> None:
    u = window_of_offsets()
    assert (u.shape, u.ndim, repr(u)) == ((3, 6), 2, "<window of 'u': -1..1, -2..3>")
    assert repr(window_of_offsets(window=None)) == "<window of 'u': inferred>"


BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
ARRAY = np.arange(6).reshape(2, 3)


@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_arithmetic_works_on_the_array(name: str) -> None:
    f, other = getattr(operator, name), ARRAY[::-1] + 1
    for a, b in ((ARRAY + 1, 2), (2, ARRAY + 1), (ARRAY + 1, other), (other, ARRAY + 1)):
        operands = [window_of_numbers(1) if value is a_window else value for value, a_window in marked(a, b)]
        np.testing.assert_array_equal(f(*operands), f(a, b))


def marked(a: Any, b: Any) -> list[tuple[Any, Any]]:
    """Each operand beside itself if it is what the window holds, else beside nothing."""
    return [(v, v if np.array_equal(v, ARRAY + 1) else object()) for v in (a, b)]


def test_arithmetic_of_two_windows() -> None:
    np.testing.assert_array_equal(window_of_numbers(1) - window_of_numbers(5), np.full((2, 3), -4))


def test_matrix_product() -> None:
    np.testing.assert_array_equal(window_of_numbers() @ ARRAY.T, ARRAY @ ARRAY.T)
    np.testing.assert_array_equal(ARRAY.T @ window_of_numbers(), ARRAY.T @ ARRAY)


@pytest.mark.parametrize("function", [operator.neg, operator.pos, operator.invert, abs])
def test_signs(function: Callable[[Any], Any]) -> None:
    np.testing.assert_array_equal(function(window_of_numbers(-3)), function(ARRAY - 3))


# What a window is not: the texts are in test_errors.py


@pytest.mark.parametrize(
    "key", [(2, 0), (0, -3), (0, 4), (slice(-2, 0), 0), (0, slice(1, 5)), (0, slice(None, 5, 2)), ("i+2", "j")]
)
def test_outside_the_window(key: Any) -> None:
    with pytest.raises(OffsetError, match="has no offset"):
        window_of_offsets(names=NAMES)[key]


@pytest.mark.parametrize("key", [0, (0, 0, 0), (..., 0, ...), (), ("i",), ("i", 0, 0), (..., 0, 0, 0)])
def test_wrong_number_of_offsets(key: Any) -> None:
    with pytest.raises(OffsetError, match="one offset for each of the 2 axes"):
        window_of_offsets(names=NAMES)[key]


@pytest.mark.parametrize("item", [0.5, 1.0, None, True, np.True_, [0], np.array([0, 1]), 1j, (0,)])
def test_no_whole_number(item: Any) -> None:
    with pytest.raises(OffsetError, match="must be a whole number"):
        window_of_offsets()[item, 0]


@pytest.mark.parametrize("item", ["k", "i*2", "i+", "i+1.5", "i+1+1", "", "1", "+1", "ij", "i+j"])
def test_no_name(item: str) -> None:
    with pytest.raises(OffsetError, match="is no offset of field 'u'"):
        window_of_offsets(names=NAMES)[item, "j"]


@pytest.mark.parametrize("use", [bool, iter, list, np.asarray, np.array, float], ids=lambda f: f.__name__)
def test_a_window_is_no_array(use: Callable[[Any], Any]) -> None:
    with pytest.raises((KernelError, TypeError)):
        use(window_of_offsets())


def test_a_window_takes_no_writes() -> None:
    with pytest.raises(TypeError):
        window_of_offsets()[0, 0] = 1
