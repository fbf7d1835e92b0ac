"""What lies outside the array: NumPy's rules against np.pad, and their mixtures in the documented order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stencilx as sx

from .plain_loops import agree, extend, gathered, joined, loop_map, run, sample, windows

WORDS = ["wrap", "edge", "reflect", "symmetric"]
RULES = {"wrap": sx.boundary.Wrap(), "edge": sx.boundary.Edge(), "reflect": sx.boundary.Reflect()}
RULES |= {"symmetric": sx.boundary.Symmetric()}


def padded(library: Any, x: np.ndarray, padding: Any, boundary: Any) -> np.ndarray:
    """The array with its ghosts, as a kernel of one tap sees them."""
    identity = sx.kmap(lambda u: u[(0,) * x.ndim], padding=padding, boundary=boundary)
    return run(library, identity, x)


def weighted(*shape: int) -> Callable[[Any], Any]:
    w = np.arange(1.0, np.prod(shape) + 1).reshape(shape) / 4 - 0.75
    return lambda x: x.__array_namespace__().sum(x * w)


def asymmetric(x: Any) -> Any:
    """A kernel of single offsets on a line."""
    return x[-2] - 3 * x[1] + 0.5 * x[3]


# One rule for all sides, against np.pad


@pytest.mark.parametrize("reach", [1, 2, 4, 11])
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 4)], ids=str)
def test_words_of_numpy(library, shape, word, reach):
    x = sample(*shape)
    expected = np.pad(x, reach, mode=word)
    np.testing.assert_array_equal(padded(library, x, reach, word), expected)


@pytest.mark.parametrize("reach", [1, 4])
@pytest.mark.parametrize("number", [0, 0.0, -2.5, np.inf, np.float64(1.25)], ids=repr)
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 4)], ids=str)
def test_numbers(library, shape, number, reach):
    x = sample(*shape)
    expected = np.pad(x, reach, constant_values=number)
    np.testing.assert_array_equal(padded(library, x, reach, number), expected)


def test_not_a_number_outside(library):
    x = sample(3, 5)
    np.testing.assert_array_equal(padded(library, x, 1, np.nan), np.pad(x, 1, constant_values=np.nan))


def test_zeros_lie_outside_unless_something_is_said(library):
    x = sample(3, 5)
    agree(run(library, sx.kmap(lambda u: u[0, 0], padding=2), x), np.pad(x, 2))


@pytest.mark.parametrize("word", WORDS)
def test_rules_as_values(library, word):
    x = sample(3, 5)
    agree(padded(library, x, 2, RULES[word]), np.pad(x, 2, mode=word))
    agree(padded(library, x, 2, {0: RULES[word], 1: word}), np.pad(x, 2, mode=word))


def test_a_constant_as_a_value(library):
    x = sample(3, 5)
    agree(padded(library, x, 2, sx.boundary.Constant(1.5)), np.pad(x, 2, constant_values=1.5))
    agree(padded(library, x, 2, sx.boundary.Constant()), np.pad(x, 2))


@pytest.mark.parametrize("word", [*WORDS, 1.5])
@pytest.mark.parametrize(("size", "reach"), [(3, 1), (4, 2), (9, 4), (16, 8)])
def test_windows_hold_ghosts_of_any_depth(library, word, size, reach):
    """Of an array of five cells; the windows of an even size reach further behind the centre."""
    x = sample(5)
    expected = loop_map(weighted(size), x, [(-((size - 1) // 2), reach)], padding="same", rules=word)
    agree(run(library, sx.kmap(weighted(size), kernel_size=size, padding="same", boundary=word), x), expected)


@pytest.mark.parametrize("word", [*WORDS, 1.5])
@pytest.mark.parametrize("shape", [(6,), (3, 5), (2, 3, 4)], ids=str)
def test_array_windows_with_ghosts(library, shape, word):
    size, reach = (4, 3, 2)[: len(shape)], [(-1, 2), (-1, 1), (0, 1)][: len(shape)]
    x = sample(*shape)
    stencil = sx.kmap(weighted(*size), kernel_size=size, padding="same", boundary=word)
    agree(run(library, stencil, x), loop_map(weighted(*size), x, reach, padding="same", rules=word))


@pytest.mark.parametrize("word", [*WORDS, 1.5])
@pytest.mark.parametrize("n", [7, 4, 2])
def test_offsets_with_ghosts(library, n, word):
    x = sample(n)
    expected = loop_map(asymmetric, x, [(-2, 3)], relative=True, padding="same", rules=word)
    agree(run(library, sx.kmap(asymmetric, padding="same", boundary=word), x), expected)


# By axis, by side, by field

MIXTURES: list[Any] = [
    {0: "wrap", 1: "edge"},
    {1: "reflect", 0: 2.5},
    {-1: "symmetric", 0: "wrap"},
    {0: "edge"},
    {1: ("wrap", "reflect")},
    {0: (1.5, "edge"), 1: ("symmetric", -2.5)},
    {0: ("reflect", "wrap"), 1: (0.5, 0.25)},
    {0: (0.5, "wrap"), 1: ("edge", 1.25)},
    {},
]


@pytest.mark.parametrize("padding", [1, 4, ((3, 1), (2, 5))], ids=str)
@pytest.mark.parametrize("boundary", MIXTURES, ids=str)
def test_mixtures(library, boundary, padding):
    """Corners tell the order: axis 0 is extended first, axis 1 on what is there already."""
    x = sample(3, 5)
    counts = [(p, p) if isinstance(p, int) else p for p in ((padding,) * 2 if isinstance(padding, int) else padding)]
    np.testing.assert_array_equal(padded(library, x, padding, boundary), extend(x, counts, boundary))


@pytest.mark.parametrize("boundary", [{0: "wrap", 2: ("edge", 1.5)}, {0: 2.5, 1: "symmetric", 2: "reflect"}], ids=str)
def test_mixtures_in_space(library, boundary):
    x = sample(2, 3, 4)
    padding = (1, (2, 0), (3, 5))
    expected = extend(x, [(1, 1), (2, 0), (3, 5)], boundary)
    np.testing.assert_array_equal(padded(library, x, padding, boundary), expected)


@pytest.mark.parametrize(
    ("boundary", "corner"),
    [({0: 7.0, 1: "edge"}, 7.0), ({0: "edge", 1: 7.0}, 7.0), ({0: 7.0, 1: 8.0}, 8.0), ({0: "wrap", 1: "edge"}, 4.0)],
)
def test_corners(library, boundary, corner):
    """The last axis has the last word, and copies what axis 0 put beside the array."""
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    got = padded(library, x, 1, boundary)
    assert got[0, 0] == corner
    np.testing.assert_array_equal(got, extend(x, [(1, 1)] * 2, boundary))


def test_boundary_by_axis_name(library):
    x = sample(3, 5)
    by_name = {"j": ("wrap", 1.5), "i": "edge"}
    stencil = sx.kmap(lambda u: u["i", "j"], named_axis={0: "i", 1: "j"}, padding=2, boundary=by_name)
    agree(run(library, stencil, x), extend(x, [(2, 2)] * 2, {1: ("wrap", 1.5), 0: "edge"}))


@pytest.mark.parametrize("boundary", MIXTURES[:6], ids=str)
def test_mixtures_under_a_kernel(library, boundary):
    x = sample(3, 5)

    def kernel(u: Any) -> Any:
        return u[-1, 2] * u[1, 0] - 2 * u[2, -1] + u[0, 0]

    expected = loop_map(kernel, x, [(-1, 2), (-1, 2)], relative=True, padding="same", rules=boundary)
    agree(run(library, sx.kmap(kernel, padding="same", boundary=boundary), x), expected)


def test_a_field_of_its_own_rules(library):
    u, h = sample(3, 5), sample(3, 5, seed=1)
    rules = {"u": {0: "wrap", 1: (1.5, "edge")}, "h": "reflect"}
    stencil = sx.kmap(
        lambda u, h: u[-1, -2] - 2 * h[1, 2], fields=2, padding=1, boundary=rules, kernel_size=(3, 5), relative=True
    )
    reach = [(-1, 1), (-2, 2)]
    of_h = dict(windows(h, reach, padding=1, rules="reflect"))
    expected = {c: w[0, 0] - 2 * of_h[c][2, 4] for c, w in windows(u, reach, padding=1, rules=rules["u"])}
    agree(run(library, stencil, u, h), gathered(expected))


# Under strides, dilation, regions


@pytest.mark.parametrize("boundary", [*WORDS, 1.5, {0: ("edge", "wrap"), 1: ("reflect", 0.5)}], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"strides": 2, "padding": "same"},
        {"strides": (3, 2), "padding": ((2, 3), 1)},
        {"dilation": 2, "padding": "same"},
        {"dilation": (3, 2), "strides": (2, 3), "padding": (4, (0, 5))},
        {"dilation": (1, 4), "padding": ((-1, 3), "same")},
    ],
    ids=str,
)
def test_strided_and_dilated_windows(library, options, boundary):
    x = sample(4, 5)
    reach = [(-1, 1), (0, 1)]
    expected = loop_map(weighted(3, 2), x, reach, rules=boundary, **options)
    agree(run(library, sx.kmap(weighted(3, 2), kernel_size=(3, 2), boundary=boundary, **options), x), expected)

    def kernel(u: Any) -> Any:
        return u[-1, 1] - 2 * u[1, 0]

    expected = loop_map(kernel, x, reach, relative=True, rules=boundary, **options)
    agree(run(library, sx.kmap(kernel, boundary=boundary, **options), x), expected)


@pytest.mark.parametrize("boundary", [*WORDS, 1.5], ids=str)
def test_ghosts_within_regions(library, boundary):
    x = sample(3, 5)
    F = sx.kmap(padding="same", boundary=boundary)
    F[...] = lambda u: u[1, -2]
    F[0, 1:] = lambda u: u[-2, 1] + u[0, 0]
    F[[0, 2], -1] = lambda u: -u[1, 1]
    kernels = (lambda u: u[1, -2]), (lambda u: u[-2, 1] + u[0, 0]), (lambda u: -u[1, 1])
    reach, options = [(-2, 1), (-2, 1)], {"padding": "same", "rules": boundary}
    expected, second, third = (loop_map(k, x, reach, relative=True, **options) for k in kernels)
    expected[0, 1:] = second[0, 1:]
    expected[[0, 2], -1] = third[[0, 2], -1]
    agree(run(library, F, x), expected)


@pytest.mark.parametrize("boundary", [*WORDS, 1.5], ids=str)
def test_ghosts_behind_a_mask(library, boundary):
    x = sample(3, 5)
    F = sx.kmap(padding="same", boundary=boundary)
    F[...] = lambda u: u[0, 0]
    F[x > 0] = lambda u: u[2, -1] - u[-1, 3]

    def kernel(u: Any) -> Any:
        return u[2, -1] - u[-1, 3]

    reads = loop_map(kernel, x, [(-1, 2), (-1, 3)], relative=True, padding="same", rules=boundary)
    agree(run(library, F, x), np.where(x > 0, reads, x))


# dtypes


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32, np.complex64, bool])
@pytest.mark.parametrize("word", WORDS)
def test_words_keep_the_dtype(library, word, dtype):
    x = sample(3, 5, dtype=dtype)
    agree(padded(library, x, 2, word), np.pad(x, 2, mode=word), dtype)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32, np.complex64, bool])
@pytest.mark.parametrize("zero", [0, 0.0])
def test_zero_fits_every_dtype(library, zero, dtype):
    x = sample(3, 5, dtype=dtype)
    agree(padded(library, x, 2, zero), np.pad(x, 2), dtype)


@pytest.mark.parametrize(
    ("dtype", "number", "kind"),
    [
        (np.int64, 1.5, "f"),
        (np.uint8, 1.5, "f"),
        (np.int32, 3, "i"),
        (np.uint8, 255, "u"),
        (np.int64, np.inf, "f"),
        (np.float32, 3, "f"),
        (np.float64, 1 + 2j, "c"),
        (np.int64, 2j, "c"),
        (np.complex64, 1.5, "c"),
        (bool, 1.5, "f"),
        (bool, 2, "i"),
    ],
)
def test_numbers_join_the_dtype(library, dtype, number, kind):
    x = sample(3, 5, dtype=dtype)
    expected = extend(x, [(2, 2)] * 2, number)
    got = padded(library, x, 2, number)
    assert got.dtype.kind == expected.dtype.kind == kind
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("number", [1.5, 3, np.inf])
def test_python_numbers_do_not_widen_float32(library, number):
    assert padded(library, sample(3, 5, dtype=np.float32), 1, number).dtype == np.float32


def test_the_number_joins_before_the_kernel_sees_it(library):
    """All cells are computed in the wider dtype, not only those at the border."""
    x = sample(6, dtype=np.int64)
    stencil = sx.kmap(lambda u: u[0] * 2 - u[1], padding=((0, 1),), boundary={0: (0, 1.5)})
    got = run(library, stencil, x)
    assert got.dtype.kind == "f"
    agree(got.astype(np.float32), 2 * x - np.append(x[1:], 1.5))
    assert joined(x, {0: (0, 1.5)}).dtype.kind == "f"


@pytest.mark.parametrize(
    ("dtype", "number"), [(np.uint8, -1), (np.uint8, 256), (np.int32, 2**31), (np.int32, -(2**40))]
)
def test_a_whole_number_that_does_not_fit_is_an_error(library, dtype, number):
    with pytest.raises(sx.BoundaryError, match=f"boundary value {number} does not fit field 'u'"):
        padded(library, sample(3, 5, dtype=dtype), 1, number)


# Short axes


@pytest.mark.parametrize("reach", [1, 3])
@pytest.mark.parametrize("word", [*WORDS, 1.5, {0: ("wrap", "reflect"), 1: ("symmetric", 0.5)}], ids=str)
@pytest.mark.parametrize("shape", [(1, 4), (3, 1), (1, 1), (2, 4)], ids=str)
def test_axes_of_one_or_two_cells(library, shape, word, reach):
    x = sample(*shape) + 0.25
    np.testing.assert_array_equal(padded(library, x, reach, word), extend(x, [(reach, reach)] * 2, word))


@pytest.mark.parametrize("word", WORDS)
def test_an_empty_axis_has_nothing_to_copy(library, word):
    with pytest.raises(sx.BoundaryError, match=f"axis 0 of field 'u' is empty: boundary '{word}' has no cell to copy"):
        padded(library, np.zeros((0, 3)), ((1, 0), 0), word)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)], ids=str)
def test_numbers_around_an_empty_array(library, shape):
    expected = np.full([n + 3 for n in shape], 7.0)
    agree(padded(library, np.zeros(shape), ((1, 2),) * len(shape), 7.0), expected)


# smap


@pytest.mark.parametrize("boundary", [*WORDS, 1.5, {0: ("edge", 0.5), 1: "wrap"}], ids=str)
@pytest.mark.parametrize("offset", [0, 1, ((1, 0), (0, 2))], ids=str)
def test_smap_reads_ghosts_as_kmap_does(library, offset, boundary):
    x = sample(4, 7)

    def kernel(u: Any) -> Any:
        return u[1, -2] - 2 * u[-1, 1] + u[0, 0]

    whole = loop_map(kernel, x, [(-1, 1), (-2, 1)], relative=True, padding="same", rules=boundary)
    margins = [(offset, offset)] * 2 if isinstance(offset, int) else offset
    inner = tuple(slice(a, n - b) for (a, b), n in zip(margins, x.shape, strict=True))
    expected = x.copy()
    expected[inner] = whole[inner]
    agree(run(library, sx.smap(kernel, offset=offset, boundary=boundary), x), expected)
