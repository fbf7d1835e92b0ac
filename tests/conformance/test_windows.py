"""Windows: their size, where they stand, what a kernel sees in them, and what becomes of what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import stencilx as sx

from .plain_loops import Around, agree, each, gathered, loop_map, run, sample, sizes, windows

PLANE = (4, 7)


def weights(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    """Different for each tap, of both signs."""
    w = np.arange(1.0, np.prod(shape) + 1).reshape(shape) / 4 - 0.75
    return w.astype(dtype)


def weighted(*shape: int) -> Callable[[Any], Any]:
    """A kernel of array windows: a sum with weights, which tells every tap from every other."""
    w = weights(*shape)
    return lambda x: x.__array_namespace__().sum(x * w)


def patch(x: Any) -> Any:
    return x


# kernel_size


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, (1, 4), (3, 2), (2, 5), -1, (-1, 2), (3, -1)], ids=str)
def test_kernel_size(library, size, padding):
    x = sample(*PLANE)
    kernel = weighted(*(n if k == -1 else k for k, n in zip(each(size, 2), PLANE, strict=True)))
    expected = loop_map(kernel, x, sizes(size, PLANE), padding=padding)
    agree(run(library, sx.kmap(kernel, kernel_size=size, padding=padding), x), expected)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_even_windows_have_their_longer_arm_after_the_centre(library, size):
    x = np.arange(10.0, 17.0)
    first = run(library, sx.kmap(lambda u: u[0], kernel_size=size, relative=True), x)[0]
    assert first == 10 + (size - 1) // 2
    assert len(run(library, sx.kmap(patch, kernel_size=size), x)) == 7 - size + 1


@pytest.mark.parametrize("kernel_size", [(3, 2), [3, 2], (np.int64(3), np.uint8(2))], ids=repr)
def test_kernel_size_as_a_sequence(library, kernel_size):
    x = sample(*PLANE)
    agree(
        run(library, sx.kmap(weighted(3, 2), kernel_size=kernel_size), x),
        loop_map(weighted(3, 2), x, [(-1, 1), (0, 1)]),
    )


def test_a_window_as_large_as_the_array(library):
    x = sample(*PLANE)
    agree(run(library, sx.kmap(weighted(4, 7), kernel_size=PLANE), x), [[(x * weights(4, 7)).sum()]])


# Inferred windows

INFERRED: dict[str, tuple[Callable[[Any], Any], list[tuple[int, int]]]] = {
    "one": (lambda u: u[0, 0], [(0, 0), (0, 0)]),
    "ahead": (lambda u: u[2, 0] - u[0, 3], [(0, 2), (0, 3)]),
    "behind": (lambda u: 2 * u[-1, -2], [(-1, 0), (-2, 0)]),
    "both": (lambda u: u[-2, 1] * u[1, 0] - u[0, -3], [(-2, 1), (-3, 1)]),
    "far": (lambda u: u[3, -4], [(0, 3), (-4, 0)]),
}


@pytest.mark.parametrize("padding", ["valid", "same", 1, ((0, 2), (3, 0))], ids=str)
@pytest.mark.parametrize("name", INFERRED)
def test_windows_are_inferred_from_the_reads(library, name, padding):
    kernel, reach = INFERRED[name]
    x = sample(5, 8)
    expected = loop_map(kernel, x, reach, relative=True, padding=padding, rules=0.5)
    agree(run(library, sx.kmap(kernel, padding=padding, boundary=0.5), x), expected)


def test_an_inferred_window_holds_the_reads_of_all_regions(library):
    F = sx.kmap(padding="same", boundary="wrap")
    F[:, :3] = lambda u: u[0, -2]
    F[:, 3:] = lambda u: u[1, 0]
    x = sample(*PLANE)
    expected = np.roll(x, (0, 2), (0, 1))
    expected[:, 3:] = np.roll(x, (-1, 0), (0, 1))[:, 3:]
    agree(run(library, F, x), expected)


def test_a_kernel_that_reads_nothing(library):
    agree(run(library, sx.kmap(lambda u: 3.5), sample(3, 5)), np.full((3, 5), 3.5))
    agree(run(library, sx.kmap(lambda u: 2, kernel_size=2), sample(3, 5)), np.full((2, 4), 2))


# strides, dilation, padding

PADDINGS = [
    "valid",
    "same",
    2,
    (1, 3),
    ((1, 0), (0, 4)),
    ("same", 1),
    ("valid", "same"),
    (2, "same"),
    ((0, 3), "valid"),
    -1,
    (0, -1),
    ((-1, 2), (1, -2)),
    [(2, -1), 0],
]


@pytest.mark.parametrize("padding", PADDINGS, ids=str)
def test_every_form_of_padding(library, padding):
    x = sample(5, 7)
    expected = loop_map(weighted(2, 3), x, [(0, 1), (-1, 1)], padding=padding, rules=-2.5)
    agree(run(library, sx.kmap(weighted(2, 3), kernel_size=(2, 3), padding=padding, boundary=-2.5), x), expected)


@pytest.mark.parametrize(("word", "same_as"), [("SAME", "same"), ("Valid", "valid")])
def test_padding_words_in_capitals(library, word, same_as):
    x = sample(*PLANE)
    expected = loop_map(weighted(3, 2), x, [(-1, 1), (0, 1)], padding=same_as)
    agree(run(library, sx.kmap(weighted(3, 2), kernel_size=(3, 2), padding=word), x), expected)


@pytest.mark.parametrize("boundary", ["wrap", "edge"])
def test_padding_beyond_the_window(library, boundary):
    """Windows may stand wholly outside the array."""
    x = sample(3, 4)
    expected = loop_map(weighted(2, 2), x, [(0, 1), (0, 1)], padding=(5, (0, 6)), rules=boundary)
    agree(run(library, sx.kmap(weighted(2, 2), kernel_size=2, padding=(5, (0, 6)), boundary=boundary), x), expected)


@pytest.mark.parametrize("padding", ["valid", "same", ((1, 2), -1)], ids=str)
@pytest.mark.parametrize("dilation", [1, 2, (1, 3)], ids=str)
@pytest.mark.parametrize("strides", [1, 2, (1, 3), (4, 2)], ids=str)
def test_strides_and_dilation(library, strides, dilation, padding):
    x = sample(7, 10)
    options = {"strides": strides, "dilation": dilation, "padding": padding}
    expected = loop_map(weighted(3, 2), x, [(-1, 1), (0, 1)], rules=0.5, **options)
    agree(run(library, sx.kmap(weighted(3, 2), kernel_size=(3, 2), boundary=0.5, **options), x), expected)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_offsets_count_taps_of_a_dilated_window(library, padding):
    x = sample(7, 10)

    def kernel(u: Any) -> Any:
        return u[1, 0] - 2 * u[-1, 1]

    options = {"dilation": (2, 3), "strides": (1, 2), "padding": padding}
    expected = loop_map(kernel, x, [(-1, 1), (0, 1)], relative=True, rules="edge", **options)
    agree(run(library, sx.kmap(kernel, boundary="edge", **options), x), expected)


# Named axes


@pytest.mark.parametrize(
    ("kernel", "plain"),
    [
        (lambda u: u["i+1", "j-2"], lambda u: u[1, -2]),
        (lambda u: u["j-2", "i+1"], lambda u: u[1, -2]),
        (lambda u: u["i", "j"] - u["j+1", "i-1"], lambda u: u[0, 0] - u[-1, 1]),
        (lambda u: u[" i - 1 ", "j + 0"], lambda u: u[-1, 0]),
        (lambda u: u["j+2", -1], lambda u: u[-1, 2]),
        (lambda u: u[-1, "j+2"], lambda u: u[-1, 2]),
        (lambda u: u[2, "i-1"], lambda u: u[-1, 2]),
        (lambda u: u[1, 2], lambda u: u[1, 2]),
    ],
)
def test_named_axes(library, kernel, plain):
    x = sample(*PLANE)
    expected = loop_map(plain, x, [(-1, 1), (-2, 2)], relative=True, padding="same", rules=1.5)
    stencil = sx.kmap(kernel, kernel_size=(3, 5), named_axis={0: "i", 1: "j"}, padding="same", boundary=1.5)
    agree(run(library, stencil, x), expected)


@pytest.mark.parametrize(
    ("kernel", "plain"),
    [
        (lambda u: u[0, "t+1", -1], lambda u: u[0, 1, -1]),
        (lambda u: u["t+1", 0, -1], lambda u: u[0, 1, -1]),
        (lambda u: u[0, -1, "t"], lambda u: u[0, 0, -1]),
        (lambda u: u["t-1", ...][1, 0], lambda u: u[0, -1, -1]),
        (lambda u: u[..., "t", 1][2], lambda u: u[1, 0, 1]),
    ],
)
def test_some_axes_have_names(library, kernel, plain):
    """The rest of a key belongs to the axes that it does not name, in order."""
    x = sample(3, 4, 5)
    expected = loop_map(plain, x, [(-1, 1)] * 3, relative=True, padding="same", rules="wrap")
    stencil = sx.kmap(kernel, kernel_size=3, named_axis={1: "t"}, padding="same", boundary="wrap")
    agree(run(library, stencil, x), expected)


# Slices, the whole window, arithmetic on it


def xp_sum(x: Any) -> Any:
    return x.__array_namespace__().sum(x)


@pytest.mark.parametrize(
    ("kernel", "plain"),
    [
        (lambda u: u[-1:2, 0], lambda w: w[1:4, 2]),
        (lambda u: u[0, -2:1], lambda w: w[2, 0:3]),
        (lambda u: u[-2:3:2, 1], lambda w: w[::2, 3]),
        (lambda u: u[0:2, -1:1], lambda w: w[2:4, 1:3]),
        (lambda u: u[:, 0], lambda w: w[:, 2]),
        (lambda u: u[1:, -2], lambda w: w[3:, 0]),
        (lambda u: u[:0, -2:-1], lambda w: w[:2, 0:1]),
        (lambda u: u[..., 1], lambda w: w[:, 3]),
        (lambda u: u[-1, ...], lambda w: w[1, :]),
        (lambda u: u[...], lambda w: w),
        (lambda u: u[1, 0, ...], lambda w: w[3, 2]),
        (lambda u: u * 2 - 1, lambda w: w * 2 - 1),
        (lambda u: 1 - u, lambda w: 1 - w),
        (lambda u: u - u[0, 0], lambda w: w - w[2, 2]),
        (lambda u: u[0, 0] - u, lambda w: w[2, 2] - w),
        (lambda u: -u + abs(u), lambda w: -w + abs(w)),
        (lambda u: u * u, lambda w: w * w),
        (lambda u: u**2, lambda w: w**2),
        (lambda u: u > 0, lambda w: w > 0),
        (lambda u: u == u[0, 0], lambda w: w == w[2, 2]),
        (lambda u: u / 4, lambda w: w / 4),
        (lambda u: weights(5, 5) * u, lambda w: weights(5, 5) * w),
        (lambda u: xp_sum(u * weights(5, 5)), lambda w: (w * weights(5, 5)).sum()),
        (lambda u: xp_sum(u[-1:2, 1]), lambda w: w[1:4, 3].sum()),
    ],
)
def test_parts_of_a_relative_window(library, kernel, plain):
    x = sample(5, 7)
    stencil = sx.kmap(kernel, kernel_size=5, relative=True, padding=(0, "same"), boundary=0.5)
    expected = loop_map(plain, x, [(-2, 2)] * 2, padding=(0, "same"), rules=0.5)
    agree(run(library, stencil, x), expected, expected.dtype)


def test_slices_of_an_inferred_window(library):
    x = sample(5, 7)
    stencil = sx.kmap(lambda u: u[-1:3:2, -2] - u[0, 0:2])
    expected = loop_map(lambda w: w[::2, 0] - w[1, 2:4], x, [(-1, 1), (-2, 1)])
    agree(run(library, stencil, x), expected)


def test_an_empty_slice_reads_nothing(library):
    got = run(library, sx.kmap(lambda u: u[0, 0] + xp_sum(u[0, 2:2]), kernel_size=5, relative=True), sample(5, 7))
    agree(got, sample(5, 7)[2:-2, 2:-2])


def test_the_window_has_a_shape(library):
    x = sample(*PLANE)
    stencil = sx.kmap(lambda u: u[0, 0] * u.shape[0] + u.shape[1] - u.ndim, kernel_size=(2, 3), relative=True)
    agree(run(library, stencil, x), 2 * x[:-1, 1:-1] + 1)


# 1 to 4 dimensions


@pytest.mark.parametrize("shape", [(9,), (4, 7), (3, 4, 5), (2, 3, 4, 3)], ids=str)
def test_dimensions_by_array_windows(library, shape):
    size = (3, 2, 1, 2)[: len(shape)]
    x, kernel = sample(*shape), weighted(*size)
    padding = ("same", (1, 0), 0, "valid")[: len(shape)]
    options = {"padding": padding, "strides": (1, 2, 1, 1)[: len(shape)]}
    expected = loop_map(kernel, x, sizes(size, shape), rules="reflect", **options)
    agree(run(library, sx.kmap(kernel, kernel_size=size, boundary="reflect", **options), x), expected)


@pytest.mark.parametrize("shape", [(9,), (4, 7), (3, 4, 5), (2, 3, 4, 3)], ids=str)
def test_dimensions_by_offsets(library, shape):
    """One tap on each axis, with a weight of its own."""
    ndim = len(shape)
    steps = [tuple((-1) ** axis if a == axis else 0 for a in range(ndim)) for axis in range(ndim)]

    def kernel(u: Any) -> Any:
        return sum(((axis + 2) * u[step] for axis, step in enumerate(steps)), start=u[(0,) * ndim])

    x = sample(*shape)
    expected = loop_map(kernel, x, [(-1, 1)] * ndim, relative=True, padding="same", rules=0.25)
    agree(run(library, sx.kmap(kernel, padding="same", boundary=0.25), x), expected)


def test_an_axis_of_length_one(library):
    x = sample(1, 5)
    expected = loop_map(weighted(3, 2), x, [(-1, 1), (0, 1)], padding="same", rules=1.5)
    agree(run(library, sx.kmap(weighted(3, 2), kernel_size=(3, 2), padding="same", boundary=1.5), x), expected)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0)], ids=str)
def test_an_empty_array(library, shape):

    def kernel(u: Any) -> Any:
        return 2.0 * u[(0,) * len(shape)]

    got = run(library, sx.kmap(kernel, padding="same"), np.zeros(shape, np.float32))
    assert got.shape == shape
    assert got.dtype == np.float32


# dtypes


def _has_dtype(library: Any, dtype: Any) -> bool:
    return not (library.name == "array_api-strict" and dtype == np.float16)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_the_dtype_is_the_kernels_own(library, dtype):
    if not _has_dtype(library, dtype):
        pytest.skip("the array-API standard has no float16")
    x = sample(*PLANE, dtype=dtype)

    def kernel(u: Any) -> Any:
        return u[0, 1] * u[0, 0] - 3 * u[-1, 0]

    expected = loop_map(kernel, x, [(-1, 0), (0, 1)], relative=True, padding="same", rules="edge")
    agree(run(library, sx.kmap(kernel, padding="same", boundary="edge"), x), expected, dtype)


def test_unsigned_bytes(library):
    x = sample(*PLANE, dtype=np.uint8)

    def kernel(u: Any) -> Any:
        return u[0, 1] + 2 * u[1, 0]

    expected = loop_map(kernel, x, [(0, 1), (0, 1)], relative=True, padding="same", rules=7)
    agree(run(library, sx.kmap(kernel, padding="same", boundary=7), x), expected, np.uint8)


def test_truth_values(library):
    x = sample(*PLANE, dtype=bool)

    def kernel(u: Any) -> Any:
        return (u[0, 1] & u[1, 0]) | ~u[0, 0]

    expected = loop_map(kernel, x, [(0, 1), (0, 1)], relative=True, padding="same")
    agree(run(library, sx.kmap(kernel, padding="same"), x), expected, bool)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.complex128])
def test_comparisons_give_truth_values(library, dtype):
    x = sample(*PLANE, dtype=dtype)
    agree(run(library, sx.kmap(lambda u: u[0, 1] == u[0, 0]), x), x[:, 1:] == x[:, :-1], bool)


def test_integers_become_what_the_kernel_makes_of_them(library):
    x = sample(*PLANE, dtype=np.int32)

    def kernel(u: Any) -> Any:
        return u.__array_namespace__().astype(u[0, 1], u.__array_namespace__().float64) / 8

    agree(run(library, sx.kmap(kernel, kernel_size=(1, 2)), x), x[:, 1:] / 8, np.float64)


# Several fields

COUPLED: dict[str, Any] = {
    "by number": {"fields": 2},
    "by name": {"fields": ("u", "h")},
    "as a list": {"fields": ["u", "h"]},
}


def coupled(u: Any, h: Any, dt: float = 0.5) -> Any:
    return u[0, 0] - dt * (h[0, 1] - h[-1, 0]) * u[1, 0]


def coupled_in_loops(u: np.ndarray, h: np.ndarray, dt: float, padding: Any = "same", rules: Any = (0, 0)) -> np.ndarray:
    reach = [(0, 1), (0, 0)], [(-1, 0), (0, 1)]
    cells_u = windows(u, reach[0], padding=padding, rules=rules[0])
    cells_h = dict(windows(h, reach[1], padding=padding, rules=rules[1]))
    return gathered({c: coupled(Around(w, (0, 0)), Around(cells_h[c], (-1, 0)), dt) for c, w in cells_u})


@pytest.mark.parametrize("options", COUPLED.values(), ids=COUPLED)
def test_two_fields(library, options):
    u, h = sample(*PLANE), sample(*PLANE, seed=1)
    stencil = sx.kmap(coupled, padding="same", **options)
    agree(run(library, stencil, u, h), coupled_in_loops(u, h, 0.5))
    agree(run(library, stencil, u, h, 0.25), coupled_in_loops(u, h, 0.25))
    agree(run(library, stencil, u, h, dt=2.0), coupled_in_loops(u, h, 2.0))
    agree(run(library, stencil, u, h=h), coupled_in_loops(u, h, 0.5))
    agree(run(library, stencil, h=h, u=u), coupled_in_loops(u, h, 0.5))


def test_boundary_by_field(library):
    u, h = sample(*PLANE), sample(*PLANE, seed=1)
    boundary = {"u": "wrap", "h": {0: (2.5, 0), 1: "edge"}}
    stencil = sx.kmap(coupled, fields=2, padding="same", boundary=boundary)
    agree(run(library, stencil, u, h), coupled_in_loops(u, h, 0.5, rules=("wrap", {0: (2.5, 0), 1: "edge"})))


def test_a_field_left_out_of_the_boundaries_has_zeros_outside(library):
    u, h = sample(*PLANE), sample(*PLANE, seed=1)
    stencil = sx.kmap(coupled, fields=2, padding="same", boundary={"h": "reflect"})
    agree(run(library, stencil, u, h), coupled_in_loops(u, h, 0.5, rules=(0, "reflect")))


def test_fields_need_not_come_first(library):
    w, u, h = weights(2), sample(6), sample(6, seed=1)
    stencil = sx.kmap(
        lambda w, h, u: u[1] * w[0] + h[0] * w[1], fields=("u", "h"), padding="same", boundary={"u": "wrap"}
    )
    expected = w[0] * np.roll(u, -1) + w[1] * h
    agree(run(library, stencil, w, h, u), expected)
    agree(run(library, stencil, w, u=u, h=h), expected)


def test_one_field_by_its_name(library):
    u, dt = sample(6), 0.5
    stencil = sx.kmap(lambda dt, u: dt * u[1], fields="u")
    agree(run(library, stencil, dt, u), dt * u[1:])
    agree(run(library, stencil, u=u, dt=dt), dt * u[1:])


def test_faces_beside_cells(library):
    """n+1 face values beside n cells: the window of the faces has two taps."""
    flux, u = sample(8), sample(7, seed=1)
    stencil = sx.kmap(
        lambda u, f: u[0] - 0.5 * (f[1] - f[0]) + 0.25 * u[-1],
        fields=("u", "f"),
        kernel_size={"u": 3, "f": 2},
        padding={"u": "same", "f": "valid"},
        boundary={"u": "edge"},
        relative=True,
    )
    left = np.pad(u, 1, mode="edge")[:-2]
    agree(run(library, stencil, u, flux), u - 0.5 * (flux[1:] - flux[:-1]) + 0.25 * left)


def test_faces_of_a_plane_beside_cells(library):
    fx, fy, u = sample(3, 6), sample(4, 5, seed=1), sample(3, 5, seed=2)
    stencil = sx.kmap(
        lambda u, fx, fy: u[0, 0] - (fx[0, 1] - fx[0, 0]) / 2 - (fy[1, 0] - fy[0, 0]) / 4,
        fields=3,
        kernel_size={"u": 1, "fx": (1, 2), "fy": (2, 1)},
        relative=True,
    )
    agree(run(library, stencil, u, fx, fy), u - np.diff(fx, axis=1) / 2 - np.diff(fy, axis=0) / 4)


def test_array_windows_of_several_sizes(library):
    u, h = sample(*PLANE), sample(5, 9, seed=1)
    wu, wh = weights(2, 3), weights(3, 5)
    stencil = sx.kmap(lambda u, h: xp_sum(u * wu) - xp_sum(h * wh), fields=2, kernel_size={"u": (2, 3), "h": (3, 5)})
    expected = loop_map(weighted(2, 3), u, [(0, 1), (-1, 1)]) - loop_map(weighted(3, 5), h, [(-1, 1), (-2, 2)])
    agree(run(library, stencil, u, h), expected)


def test_fields_of_different_dtypes(library):
    u, n = sample(*PLANE, dtype=np.float32), sample(*PLANE, dtype=bool, seed=1)

    def kernel(u: Any, n: Any) -> Any:
        return u.__array_namespace__().where(n[0, 0], u[0, 1], -u[0, 0])

    got = run(library, sx.kmap(kernel, fields=2, kernel_size=(1, 2)), u, n)
    agree(got, np.where(n[:, :-1], u[:, 1:], -u[:, :-1]), np.float32)


def test_upwind_by_a_second_field(library):
    """Case W: the sign of the speed chooses the side, cell by cell."""
    u, c = sample(9), sample(9, seed=4)
    assert (c > 0).any()
    assert (c < 0).any()

    def upwind(u: Any, c: Any) -> Any:
        xp = u.__array_namespace__()
        return c[1] * xp.where(c[1] > 0, u[1] - u[0], u[2] - u[1])

    got = run(library, sx.kmap(upwind, fields=2, kernel_size=3, padding="same", boundary="wrap"), u, c)
    agree(got, c * np.where(c > 0, u - np.roll(u, 1), np.roll(u, -1) - u))


# Parameters are handed over whole


def test_numbers_as_parameters(library):
    x = sample(6)
    stencil = sx.kmap(lambda u, a, b=0.5: a * u[0] + b)
    agree(run(library, stencil, x, 2), 2 * x + 0.5)
    agree(run(library, stencil, x, -1.5, 3), -1.5 * x + 3)
    agree(run(library, stencil, x, b=4.0, a=3.0), 3 * x + 4)
    agree(run(library, stencil, x, np.float64(0.25), b=np.float64(2)), 0.25 * x + 2)


def test_arrays_as_parameters(library):
    x, w = sample(*PLANE), weights(3, 2)
    stencil = sx.kmap(lambda x, w: xp_sum(x * w), kernel_size=(3, 2))
    for factor in (1.0, -2.0):
        agree(run(library, stencil, x, factor * w), factor * loop_map(weighted(3, 2), x, [(-1, 1), (0, 1)]))
    agree(run(library, stencil, x, w=w), loop_map(weighted(3, 2), x, [(-1, 1), (0, 1)]))


def test_a_parameter_as_large_as_the_field_is_no_field(library):
    x = sample(5)
    agree(run(library, sx.kmap(lambda u, p: u[0] + p[1] * p[3]), x, x), x + x[1] * x[3])


def test_a_tree_as_a_parameter(library):
    x, w = sample(6), library.array(weights(2))
    stencil = sx.kmap(lambda u, p: p["scale"] * (u[0] * p["w"][0] + u[1] * p["w"][1]) + p["pair"][1])
    parameters = {"scale": 0.5, "w": w, "pair": (1.0, -2.0)}
    expected = 0.5 * (weights(2)[0] * x[:-1] + weights(2)[1] * x[1:]) - 2
    agree(run(library, stencil, x, parameters), expected)


def test_words_and_truths_as_parameters(library):
    x = sample(6)

    def kernel(u: Any, way: str, twice: bool = False) -> Any:
        value = u[1] if way == "ahead" else u[-1]
        return 2 * value if twice else value

    stencil = sx.kmap(kernel, kernel_size=3, relative=True)
    agree(run(library, stencil, x, "ahead"), x[2:])
    agree(run(library, stencil, x, "behind"), x[:-2])
    agree(run(library, stencil, x, "behind", twice=True), 2 * x[:-2])


def test_no_parameter_is_remembered(library):
    x = sample(6)
    stencil = sx.kmap(lambda u, a: a * u[1], backend=library.backend)
    for a in (2.0, 3.0, 3, -1):
        agree(library.numpy(stencil(library.array(x), a)), a * x[1:])


# What a kernel returns


class Pair(NamedTuple):
    low: Any
    high: Any


def test_patches(library):
    x = sample(*PLANE)
    expected = loop_map(patch, x, [(-1, 1), (0, 1)], strides=(1, 2), padding="same", rules="edge")
    stencil = sx.kmap(patch, kernel_size=(3, 2), strides=(1, 2), padding="same", boundary="edge")
    assert expected.shape == (4, 4, 3, 2)
    agree(run(library, stencil, x), expected)


def test_vectors_of_a_relative_kernel(library):
    x = sample(*PLANE)
    gradient = sx.kmap(
        lambda u: u[...].__array_namespace__().stack([u[1, 0] - u[0, 0], u[0, 1] - u[0, 0]]),
        kernel_size=2,
        relative=True,
    )
    expected = np.stack([np.diff(x, axis=0)[:, :-1], np.diff(x, axis=1)[:-1]], axis=-1)
    agree(run(library, gradient, x), expected)


def test_a_patch_of_one_element_is_no_scalar(library):
    assert run(library, sx.kmap(lambda u: u[1:], kernel_size=2), sample(5)).shape == (4, 1)
    assert run(library, sx.kmap(lambda u: u[1], kernel_size=2), sample(5)).shape == (4,)


TREES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "dict": (lambda u: {"b": u[1], "a": -u[0]}, lambda x: {"b": x[1:], "a": -x[:-1]}),
    "tuple": (lambda u: (u[0], u[1]), lambda x: (x[:-1], x[1:])),
    "list": (lambda u: [u[1], 2 * u[0]], lambda x: [x[1:], 2 * x[:-1]]),
    "named tuple": (lambda u: Pair(u[0], high=u[1]), lambda x: Pair(x[:-1], x[1:])),
    "nested": (
        lambda u: {"p": Pair(u[0], [u[1], (u[0] * u[1],)]), "q": ()},
        lambda x: {"p": Pair(x[:-1], [x[1:], (x[:-1] * x[1:],)]), "q": ()},
    ),
    "one": (lambda u: (u[1],), lambda x: (x[1:],)),
}


def agree_trees(got: Any, expected: Any) -> None:
    assert type(got) is (type(expected) if not isinstance(expected, np.ndarray) else np.ndarray)
    if isinstance(expected, dict):
        assert set(got) == set(expected)
        for key, value in expected.items():
            agree_trees(got[key], value)
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for mine, theirs in zip(got, expected, strict=True):
            agree_trees(mine, theirs)
    else:
        agree(got, expected)


@pytest.mark.parametrize("name", TREES)
def test_trees(library, name):
    kernel, expected = TREES[name]
    x = sample(6)
    agree_trees(run(library, sx.kmap(kernel), x), expected(x))


def test_trees_of_patches_and_dtypes(library):
    x = sample(6, dtype=np.float32)
    got = run(library, sx.kmap(lambda w: {"w": w, "up": w[1] > w[0], "first": w[0]}, kernel_size=2), x)
    agree(got["w"], loop_map(patch, x, [(0, 1)]), np.float32)
    agree(got["up"], x[1:] > x[:-1], bool)
    agree(got["first"], x[:-1], np.float32)


@pytest.mark.parametrize("number", [3, 2.5, True])
def test_plain_numbers_among_the_leaves(library, number):
    got = run(library, sx.kmap(lambda u: {"n": number, "u": u[0]}), sample(5, dtype=np.float32))
    agree(got["n"], np.full(5, number))
    assert got["n"].dtype.kind == np.asarray(number).dtype.kind
    agree(got["u"], sample(5, dtype=np.float32), np.float32)


# Kernels of other makes


class Method:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def kernel(self, u: Any) -> Any:
        return self.factor * u[1]

    def __call__(self, u: Any) -> Any:
        return self.factor * u[1]


@pytest.mark.parametrize("kernel", [Method(2.5).kernel, Method(2.5)], ids=["method", "object"])
def test_methods_and_callable_objects(library, kernel):
    agree(run(library, sx.kmap(kernel), sample(5)), 2.5 * sample(5)[1:])


def test_decorators(library):
    @sx.kmap
    def bare(u: Any) -> Any:
        return u[1] - u[0]

    @sx.kmap(kernel_size=2)
    def dressed(u: Any) -> Any:
        return u[1] - u[0]

    @sx.smap(offset=((0, 1),))
    def written(u: Any) -> Any:
        return u[1] - u[0]

    x = sample(6)
    agree(run(library, bare, x), np.diff(x))
    agree(run(library, dressed, x), np.diff(x))
    agree(run(library, written, x), np.append(np.diff(x), x[-1]))
