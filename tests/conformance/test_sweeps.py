"""Sweeps against plain loops: windows are read from the array as it is at that moment, by index arithmetic alone.

Each test runs on every backend; the oracle is `loop_sweep` below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import LIBRARIES, Library
from jax import lax

import stencilx as sx

from .plain_loops import agree, each, padding_pairs, run, sample, sides, taps, to_numpy

Index = tuple[int, ...]
DEEP = 30  # ghosts on each side of the tables of numpy.pad


@pytest.fixture(params=[known for known in LIBRARIES if known.name in ("numpy", "jax", "array_api-numpy")], ids=str)
def library(request: pytest.FixtureRequest) -> Library:
    """Each backend once, on the library that mixes dtypes as these cases do; others are in test_array_api_sweeps."""
    return request.param


# The oracle


class Now:
    """What a kernel sees at one cell: the array as it is now, by offset in taps from the centre."""

    def __init__(self, array: np.ndarray, centre: Index, reach: Any, dilation: Index, rules: Any) -> None:
        self.array, self.centre, self.reach, self.dilation = array, centre, reach, dilation
        self.rules = sides(rules, array.ndim)

    def __getitem__(self, offset: Any) -> Any:
        offset = offset if isinstance(offset, tuple) else (offset,)
        place = [m + o * d for m, o, d in zip(self.centre, offset, self.dilation, strict=True)]
        for axis in reversed(range(self.array.ndim)):
            n = self.array.shape[axis]
            if not 0 <= place[axis] < n:
                rule = self.rules[axis][0 if place[axis] < 0 else 1]
                if not isinstance(rule, str):
                    return self.array.dtype.type(rule)
                place[axis] = int(np.pad(np.arange(n), DEEP, mode=rule)[place[axis] + DEEP])
        return self.array[tuple(place)]

    def window(self) -> np.ndarray:
        ranges = [range(low, high + 1) for low, high in self.reach]
        values = [self[tuple(r[i] for r, i in zip(ranges, cell))] for cell in np.ndindex(*map(len, ranges))]
        return np.array(values).reshape([len(r) for r in ranges])


def centres(array: np.ndarray, reach: Any, strides: Index, dilation: Index, padding: Any, offset: Any) -> list[range]:
    """Where windows are centred, along each axis of the array."""
    found = []
    pairs = padding_pairs(padding if offset is None else offset, reach, dilation)
    for n, (low, high), s, d, (before, after) in zip(array.shape, reach, strides, dilation, pairs, strict=True):
        first, last = (before, n - after) if offset is not None else (-before - low * d, n + after - high * d)
        found.append(range(first, last, s))
    return found


def loop_sweep(
    regions: Sequence[tuple[Any, Any]],
    *arrays: Any,
    reach: Any,
    boundary: Any = 0,
    strides: Any = 1,
    dilation: Any = 1,
    padding: Any = "valid",
    offset: Any = None,
    reverse: bool = False,
    updates: Sequence[int] = (0,),
    absolute: bool = False,
    dtype: Any = None,
    parameters: Sequence[Any] = (),
) -> Any:
    """The updated arrays; with `offset` (sscan) all of them, else the written cells. Regions are keys and values."""
    state = [np.array(a, dtype if number in updates else None) for number, a in enumerate(arrays)]
    strides, dilation = each(strides, state[0].ndim), each(dilation, state[0].ndim)
    where = centres(state[0], reach, strides, dilation, padding, offset)
    grid = tuple(map(len, where))
    owner, filled = np.full(grid if offset is None else state[0].shape, -1), []
    for number, (key, value) in enumerate(regions):
        owner[key] = number
        filled.append(np.zeros(owner.shape, object))
        if not callable(value):
            filled[-1][key] = value
    cells = list(np.ndindex(*grid))
    for cell in reversed(cells) if reverse else cells:
        centre = tuple(r[c] for r, c in zip(where, cell))
        place = cell if offset is None else centre
        value = regions[owner[place]][1] if owner[place] >= 0 else None
        if callable(value):
            views = [Now(a, centre, reach, dilation, boundary) for a in state]
            written = value(*(v.window() if absolute else v for v in views), *parameters)
        elif value is not None:
            written = filled[owner[place]][place] if len(updates) == 1 else [filled[owner[place]][place]] * len(updates)
        else:
            continue
        for number, new in zip(updates, [written] if len(updates) == 1 else written, strict=True):
            state[number][centre] = new
    results = [state[n] if offset is not None else state[n][np.ix_(*where)] for n in updates]
    return results[0] if len(results) == 1 else tuple(results)


def both(
    library: Any,
    regions: Any,
    *arrays: np.ndarray,
    reach: Any,
    dtype: Any = np.float64,
    names: Sequence[str] = (),
    parameters: Sequence[Any] = (),
    schedule: str = "auto",
    **options: Any,
) -> None:
    """A sweep on a library's arrays, and by loops; nothing given is modified."""
    regions = regions if isinstance(regions, list) else [(..., regions)]
    before = [array.copy() for array in arrays]
    expected = loop_sweep(regions, *arrays, reach=reach, dtype=dtype, parameters=parameters, **options)
    absolute = options.pop("absolute", False)
    if absolute:
        options["kernel_size"] = tuple(high - low + 1 for low, high in reach)
    if "updates" in options:
        options["updates"] = [names[number] for number in options["updates"]]
    maker = sx.sscan if "offset" in options else sx.kscan
    F = maker(fields=tuple(names) or len(arrays), schedule=schedule, **options)
    for key, value in regions:
        F[key] = value
    got = run(library, F, *arrays, *parameters)
    assert isinstance(got, tuple) == isinstance(expected, tuple)
    for g, e in zip(got if isinstance(got, tuple) else (got,), expected if isinstance(got, tuple) else (expected,)):
        agree(g, e, dtype)
    for array, copy in zip(arrays, before):
        np.testing.assert_array_equal(array, copy)


def up_left(u: Any) -> Any:
    """Two carried reads, two old ones, no symmetry: weights 1/2, 1/4, -1/8, 3/8."""
    return 0.5 * u[-1, 0] + 0.25 * u[0, -1] - 0.125 * u[0, 1] + 0.375 * u[1, 0]


AROUND = [(-1, 1), (-1, 1)]


# Windows


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": "same"},
        {"padding": ("valid", "same")},
        {"padding": ((1, 0), (0, 1))},
        {"padding": (-1, (0, -1))},
        {"strides": (2, 1), "padding": "same"},
        {"strides": 2},
        {"dilation": (1, 2), "padding": "same"},
        {"dilation": 2},
        {"dilation": (2, 3), "strides": (3, 2), "padding": "same", "boundary": "wrap"},
        {"offset": 1},
        {"offset": ((2, 0), (0, 3))},
        {"offset": 0, "strides": (1, 3), "boundary": {0: "edge", 1: ("wrap", 1.5)}},
        {"offset": ((0, 1), 1), "dilation": (1, 2)},
    ],
    ids=str,
)
def test_inferred_windows(library, options, reverse):
    both(library, up_left, sample(5, 7), reach=AROUND, reverse=reverse, **options)


@pytest.mark.parametrize("size", [(3, 3), (2, 3), (1, 4), (5, 1)])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_array_windows(library, size, padding):
    weights = np.arange(1.0, 1 + np.prod(size)).reshape(size) * np.array([1, -0.5, 0.25, 1.5])[: size[1]] / 16
    kernel = lambda w: w.__array_namespace__().sum(w * weights)  # noqa: E731
    both(library, kernel, sample(5, 6), reach=[taps(n) for n in size], padding=padding, absolute=True)


def test_array_windows_of_three_axes_and_a_median(library):
    def kernel(w: Any) -> Any:
        return 0.5 * w.__array_namespace__().max(w) - w[0, 1, 1]

    both(library, kernel, sample(3, 4, 5), reach=[(-1, 1)] * 3, padding="same", absolute=True, boundary="edge")
    median = sx.kscan(lambda w: (jnp if library.backend == "jax" else np).median(w), kernel_size=3, padding="same")
    x = sample(9)
    expected = loop_sweep([(..., np.median)], x, reach=[(-1, 1)], padding="same", absolute=True)
    agree(run(library, median, x), expected)


@pytest.mark.parametrize("size", [-1, 40])
def test_a_window_of_the_whole_axis(library, size):
    kernel = lambda w: w.__array_namespace__().sum(w) / 64  # noqa: E731
    x = sample(40)
    got = run(library, sx.kscan(kernel, kernel_size=size, padding="same"), x)
    agree(got, loop_sweep([(..., kernel)], x, reach=[taps(40)], padding="same", absolute=True))


def test_a_window_of_many_cells(library):
    """More than the JAX backend takes apart into scalars, and carried reads among them."""
    weights = np.arange(33 * 33).reshape(33, 33) % 7 / 4096
    kernel = lambda w: w.__array_namespace__().sum(w * weights)  # noqa: E731
    if library.backend != "jax":
        both(library, kernel, sample(3, 5), reach=[(-16, 16)] * 2, padding="same", absolute=True, boundary=0.5)
        return
    with pytest.raises(sx.KernelError) as info:
        run(library, sx.kscan(kernel, kernel_size=33, padding="same"), sample(3, 5))
    assert str(info.value) == (
        "a sweep takes windows of at most 1024 cells as arrays."
        "\nHint: index the window by offset: relative=True, or leave kernel_size out."
    )


@pytest.mark.parametrize("size", [(3, 3), (5, 4)])
def test_windows_by_offset_with_a_size(library, size):
    x = sample(5, 7)
    stencil = sx.kscan(up_left, kernel_size=size, relative=True, padding="same", boundary="reflect")
    expected = loop_sweep([(..., up_left)], x, reach=AROUND, padding="same", boundary="reflect")
    agree(run(library, stencil, x), expected)


def test_named_axes(library):
    x = sample(5, 7)
    stencil = sx.kscan(
        lambda u: 0.5 * u["i-1", "j"] + 0.25 * u["j-1", "i"] - 0.125 * u["i", "j+1"] + 0.375 * u["i+1", 0],
        named_axis={0: "i", 1: "j"},
        padding="same",
        boundary={"j": "wrap"},
    )
    agree(run(library, stencil, x), loop_sweep([(..., up_left)], x, reach=AROUND, padding="same", boundary={1: "wrap"}))


def test_slices_of_windows(library):
    x = sample(9)
    stencil = sx.kscan(lambda u: u[-2:2].sum() / 4, padding="same")
    mean = lambda u: (u[-2] + u[-1] + u[0] + u[1]) / 4  # noqa: E731
    agree(run(library, stencil, x), loop_sweep([(..., mean)], x, reach=[(-2, 1)], padding="same"))


@pytest.mark.parametrize("shape", [(1,), (2,), (7,)])
@pytest.mark.parametrize("offsets", [(-1,), (-2, 1), (-3, -1, 2), (1, 2), ()], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_one_axis(library, shape, offsets, reverse):
    kernel = lambda u: u[0] + sum(u[o] / (2 + o % 3) for o in offsets)  # noqa: E731
    reach = [(min(0, *offsets, 0), max(0, *offsets, 0))] if offsets else [(0, 0)]
    both(library, kernel, sample(*shape, seed=3), reach=reach, padding="same", reverse=reverse, boundary=(1.5))


@pytest.mark.parametrize(
    "offsets",
    [
        [(-1, 0, 0), (0, -1, 0), (0, 0, -1), (1, 0, 0), (0, 0, 1)],
        [(-1, 1, -1), (0, 0, 1), (-1, 0, 0)],
        [(0, -1, 1), (-1, 0, 1), (0, -2, -1)],
        [(0, 0, -1), (1, -1, 0)],
    ],
    ids=["cells", "rows", "two rows", "lines"],
)
@pytest.mark.parametrize("options", [{"padding": "same"}, {"offset": (0, 1, (1, 0)), "reverse": True}], ids=str)
def test_three_axes(library, offsets, options):
    kernel = lambda u: u[0, 0, 0] / 4 + sum(u[o] * (0.5 - number / 4) for number, o in enumerate(offsets))  # noqa: E731
    boundary = {0: "wrap", 1: ("edge", 0.5), 2: "symmetric"}
    reach = [(min(0, *(o[a] for o in offsets)), max(0, *(o[a] for o in offsets))) for a in range(3)]
    both(library, kernel, sample(3, 4, 5), reach=reach, boundary=boundary, **options)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0,)])
def test_empty_arrays(library, shape):
    kernel = up_left if len(shape) == 2 else lambda u: u[-1] + u[0]
    got = run(library, sx.kscan(kernel, padding="same"), np.zeros(shape))
    assert got.shape == shape


def test_no_cell_between_margins(library):
    x = sample(4)
    agree(run(library, sx.sscan(lambda u: u[-1], offset=2), x), x)


def test_centres_must_lie_in_the_array(library):
    with pytest.raises(sx.WindowError) as info:
        run(library, sx.kscan(lambda u: u[-1, 0], padding=((2, 0), 0)), sample(3, 5))
    assert str(info.value) == (
        "a sweep writes where its windows are centred, and with padding (2, 0) on axis 0 of field 'u' some are centred "
        "outside the array.\nHint: take padding='same', or less."
    )


# Boundaries

RULES = [0, 2.5, "wrap", "edge", "reflect", "symmetric"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("reverse", [False, True])
def test_ghosts_are_what_they_mirror_is_now(library, rule, reverse):
    kernel = lambda u: 0.5 * u[-1, -1] + 0.25 * u[-1, 1] - 0.5 * u[1, 2] + 0.375 * u[0, -1]  # noqa: E731
    both(library, kernel, sample(3, 5), reach=[(-1, 1), (-1, 2)], padding="same", boundary=rule, reverse=reverse)


@pytest.mark.parametrize("rule", ["wrap", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_deep_ghosts(library, rule, n):
    """Reads that go round more than once."""
    kernel = lambda u: 0.5 * u[-6] - 0.25 * u[5] + 0.125 * u[-1]  # noqa: E731
    both(library, kernel, sample(n), reach=[(-6, 5)], padding="same", boundary=rule)


@pytest.mark.parametrize(
    "boundary",
    [
        {0: "wrap", 1: "edge"},
        {0: "edge", 1: "wrap"},
        {0: (1.0, "wrap"), 1: ("symmetric", -2.0)},
        {1: ("reflect", "wrap")},
        {0: ("wrap", 3.0), -1: (0.5, "edge")},
    ],
    ids=str,
)
def test_walls_and_corners(library, boundary):
    kernel = lambda u: 0.5 * u[-1, -1] + 0.25 * u[1, 1] - 0.5 * u[-1, 1] + 0.125 * u[1, -1]  # noqa: E731
    both(library, kernel, sample(3, 5), reach=AROUND, padding="same", boundary=boundary)
    both(library, kernel, sample(3, 5), reach=AROUND, offset=0, boundary=boundary, reverse=True)


# Regions


def halves(u: Any) -> Any:
    return (u[-1] + u[1]) / 2


@pytest.mark.parametrize("reverse", [False, True])
def test_f_plain_numbers(library, reverse):
    regions = [(0, 1), (-1, 0), (np.s_[1:-1], halves)]
    both(library, regions, np.arange(1.0, 6), reach=[(-1, 1)], padding="same", reverse=reverse)
    both(library, regions, np.arange(1.0, 6), reach=[(-1, 1)], offset=0, reverse=reverse)


def test_f_the_answer(library):
    F = sx.kscan(padding="same")
    F[0], F[-1], F[1:-1] = 1, 0, halves
    agree(run(library, F, np.arange(1.0, 6)), [1, 2, 3, 4, 0], np.float64)
    agree(run(library, F, np.array([9.0, 2, 8, -4, 7])), [1, 4.5, 0.25, 3.625, 0], np.float64)
    G = sx.kscan(padding="same")
    G[...] = halves
    G[np.int64(2)], G[..., 0] = 10.0, -1.0
    agree(run(library, G, np.arange(1.0, 6)), [-1, 1, 10, 7.5, 3.75], np.float64)


def test_g_map_and_sweep_differ(library):
    x = np.array([1, 2, 3, 4])
    for maker, expected in ((sx.smap, [1, 2, 4, 6]), (sx.sscan, [1, 2, 4, 8])):
        agree(run(library, maker(lambda x: 2 * x[-1], offset=((1, 0),)), x), expected, x.dtype)
        F = maker()
        F[1:] = lambda x: 2 * x[-1]
        agree(run(library, F, x), expected, x.dtype)
    for maker, expected in ((sx.kmap, [1, 2, 4, 6]), (sx.kscan, [1, 2, 4, 8])):
        F = maker(padding="same")
        F[0], F[1:] = (lambda x: x[0]), (lambda x: 2 * x[-1])
        agree(run(library, F, x), expected, x.dtype)


def test_n_walls_in_order(library):
    for maker in (sx.sscan, sx.kscan):
        F = maker(padding="same") if maker is sx.kscan else maker()
        F[...] = lambda u: u[0, 0] + u[-1, 0]
        F[0, :] = F[:, 0] = F[:, -1] = 0.0
        F[-1, :] = 1.0
        agree(run(library, F, np.zeros((3, 3))), [[0, 0, 0], [0, 0, 0], [1, 1, 1]], np.float64)
        agree(run(library, F, sample(3, 4)), [[0] * 4, [0, *sample(3, 4)[1, 1:3], 0], [1] * 4])


def add_left(u: Any) -> Any:
    return u[0] + u[-1]


def minus(u: Any) -> Any:
    return -u[0] + u[1]


@pytest.mark.parametrize(
    "assignments",
    [
        [(np.s_[0:0], -1.0)],
        [([0, 3], -1.0)],
        [([-1, 0, 3], minus)],
        [(np.s_[0:3], minus), (0, add_left)],
        [(np.s_[1::2], minus)],
        [(np.s_[::2], 3.0)],
        [(np.s_[-1::-2], np.array([10.0, 20.0, 30.0]))],
        [(np.s_[1:4], np.array([5.0, 6.0, 7.0]))],
        [([4, 1], np.array([5.0, 6.0]))],
        [(np.array([True, False, True, True, False]), minus)],
        [(np.array([False, True, False, True, True]), np.array([1.0, 2.0, 3.0]))],
        [(np.s_[:], minus), (np.s_[2:], add_left), (3, 0.25)],
    ],
    ids=lambda assignments: str([key for key, _ in assignments]),
)
@pytest.mark.parametrize("options", [{"padding": "same"}, {"offset": 0, "reverse": True}], ids=str)
def test_regions_of_a_line(library, assignments, options):
    both(library, [(..., add_left), *assignments], np.arange(1.0, 6), reach=[(-1, 1)], **options)


LEFT_UP = lambda u: u[0, -1] / 2 + u[-1, 0] / 4 + u[1, 1]  # noqa: E731
UP = lambda u: u[-1, 1] / 2 - u[0, 0] + u[0, 1] / 4  # noqa: E731
MASK = np.array([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 0, 1, 1, 0], [1, 0, 0, 0, 0]], bool)


@pytest.mark.parametrize(
    "assignments",
    [
        [(np.s_[1:-1, 2:], UP), (0, 1.5)],
        [(np.s_[::2, 1::3], UP)],
        [(np.s_[:, 0], np.array([1.0, -2.0, 3.0, 0.5])), (np.s_[-1], np.arange(5.0))],
        [(np.s_[1:3, 1:4], np.arange(6.0).reshape(2, 3) / 2)],
        [(np.s_[1:3], np.arange(2.0)[:, None])],
        [(MASK, UP), (np.s_[2, ::2], 0.5)],
        [(MASK, np.arange(7.0))],
        [(np.s_[[0, 2], [1, 3]], -1.0), (np.s_[[3, 1]], UP)],
        [(np.s_[..., [4, 0]], UP), (np.s_[1], LEFT_UP)],
        [(np.s_[:2], UP), (np.s_[2:], lambda u: u[0, 0] * 2)],
    ],
    ids=lambda assignments: str([key for key, _ in assignments]),
)
@pytest.mark.parametrize(
    "options",
    [{"padding": "same"}, {"offset": ((0, 1), 1), "reverse": True}, {"padding": "same", "boundary": "wrap"}],
    ids=str,
)
def test_regions_of_a_plane(library, assignments, options):
    both(library, [(..., LEFT_UP), *assignments], sample(4, 5), reach=AROUND, **options)


@pytest.mark.parametrize("schedule", ["auto", "cells", "wavefront", "rows"])
def test_regions_of_every_schedule(library, schedule):
    down = lambda u: u[-1, 0] / 2 + u[-1, 1] / 4 + u[0, 1]  # noqa: E731
    regions = [(..., down), (np.s_[1:3, 1:], UP), (np.s_[:, 0], 1.5), (np.s_[2], np.arange(5.0))]
    both(library, regions, sample(4, 5), reach=AROUND, padding="same", schedule=schedule)


def test_margins_and_free_cells_keep_old_values_and_are_read(library):
    regions = [(np.s_[1:4, 2:], LEFT_UP), (MASK, 7.0)]
    both(library, regions, sample(4, 5), reach=AROUND, offset=((1, 0), (0, 1)))
    both(library, [(np.s_[2:, ::2], UP)], sample(4, 5), reach=AROUND, offset=0, boundary="edge", strides=(1, 2))


def test_cells_in_no_region_are_an_error(library):
    F = sx.kscan(padding="same")
    F[0], F[2] = -1, -2
    with pytest.raises(sx.RegionError, match=r"no region covers cells 1 and 3:5 of the output grid of shape \(5,\)"):
        run(library, F, np.arange(1.0, 6))
    F[...], F[9] = add_left, -1
    with pytest.raises(IndexError, match=r"index 9 is out of range on axis 0, which has 5 cells"):
        run(library, F, np.arange(1.0, 6))


def test_numbers_alone(library):
    F = sx.kscan()
    F[...], F[1:3, ::2] = 1.5, -2.0
    agree(
        run(library, F, np.ones((3, 5))),
        loop_sweep([(..., 1.5), (np.s_[1:3, ::2], -2.0)], np.ones((3, 5)), reach=[(0, 0)] * 2),
    )


def test_one_stencil_serves_many_shapes(library):
    F = sx.kscan(padding="same", backend=library.backend)
    F[...], F[0], F[:, -1] = up_left, 1.0, lambda u: -u[0, 0]
    regions = [(..., up_left), (0, 1.0), (np.s_[:, -1], lambda u: -u[0, 0])]
    for shape in ((3, 5), (5, 3), (2, 2)):
        x = sample(*shape)
        agree(library.numpy(F(library.array(x))), loop_sweep(regions, x, reach=AROUND, padding="same"))


# Several fields and parameters


def coupled(u: Any, h: Any) -> tuple[Any, Any]:
    """Each reads new and old values of both."""
    return u[-1, 0] / 2 + h[0, -1] / 4 - u[1, 0] / 8, h[-1, 0] / 2 - u[0, -1] / 4 + h[0, 1] + u[0, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"padding": "same"},
        {"padding": "same", "boundary": "wrap", "reverse": True},
        {"offset": ((1, 0), (0, 1)), "boundary": "edge"},
        {"padding": "same", "strides": (1, 2), "boundary": {0: "reflect", 1: 0.5}},
    ],
    ids=str,
)
def test_two_updates(library, options):
    both(
        library, coupled, sample(4, 5), sample(4, 5, seed=1), reach=AROUND, names=["u", "h"], updates=[0, 1], **options
    )


def test_updates_in_another_order(library):
    x, y = sample(4, 5), sample(4, 5, seed=1)
    both(library, coupled, x, y, reach=AROUND, names=["u", "h"], updates=[1, 0], padding="same")
    forwards = run(library, sx.kscan(coupled, fields=2, updates=("u", "h"), padding="same"), x, y)
    swapped = run(library, sx.kscan(coupled, fields=2, updates=("h", "u"), padding="same"), x, y)
    assert not np.array_equal(forwards[0], swapped[1])


@pytest.mark.parametrize("updates", [[0], [1]])
def test_one_update_of_two_fields(library, updates):
    kernel = lambda u, h: u[-1, 0] / 2 + h[0, -1] / 4 - u[0, 1] / 8 + h[1, 1]  # noqa: E731
    both(library, kernel, sample(4, 5), sample(4, 5, seed=1), reach=AROUND, names="uh", updates=updates, padding="same")


def test_boundaries_by_field(library):
    kernel = lambda u, h: u[-1] / 2 + h[-1] / 4 + u[1]  # noqa: E731
    x, y = sample(5), sample(5, seed=1)
    got = run(library, sx.kscan(kernel, fields=2, padding="same", boundary={"u": "wrap", "h": 0.5}), x, y)
    expected, now = [], x.copy()
    for i in range(5):
        now[i] = now[i - 1] / 2 + (y[i - 1] if i else 0.5) / 4 + now[(i + 1) % 5]
        expected.append(now[i])
    agree(got, expected)


def test_two_updates_with_regions(library):
    other = lambda u, h: (h[0, 0] / 2, u[-1, -1])  # noqa: E731
    regions = [(..., coupled), (0, 1.5), (np.s_[1:3, 2:], other), (np.s_[:, 0], np.arange(4.0))]
    for options in ({"padding": "same"}, {"offset": (0, (0, 1)), "reverse": True}):
        both(library, regions, sample(4, 5), sample(4, 5, seed=1), reach=AROUND, names="uh", updates=[0, 1], **options)
    regions.append((MASK, other))
    both(library, regions, sample(4, 5), sample(4, 5, seed=1), reach=AROUND, names="uh", updates=[0, 1], padding="same")


@pytest.mark.parametrize("schedule", ["rows", "cells", "wavefront"])
def test_a_scan_of_one_field_with_another_as_input(library, schedule):
    """Each row from the one before and from coefficients that are not written."""
    kernel = lambda u, c: u[-1, 0] * c[0, 0] + u[-1, 1] * c[1, 0] + c[0, -1]  # noqa: E731
    both(library, kernel, sample(4, 5), sample(4, 5, seed=1) / 8, reach=AROUND, padding="same", schedule=schedule)


def test_a_face_field_beside_cells(library):
    x, f = sample(6), sample(7, seed=1)
    stencil = sx.kscan(
        lambda u, f: u[-1] / 2 + f[0] - f[1],
        fields=2,
        kernel_size={"u": 3, "f": 2},
        relative=True,
        padding={"u": "same", "f": "valid"},
    )
    expected, last = [], 0.0
    for i in range(6):
        last = last / 2 + f[i] - f[i + 1]
        expected.append(last)
    agree(run(library, stencil, x, f), expected, np.float64)


def test_parameters(library):
    def kernel(u: Any, a: Any, table: Any) -> Any:
        return a * u[-1, 0] + table[1] * u[0, -1] + table[0]

    table = np.array([0.5, -0.25])
    both(library, kernel, sample(3, 5), reach=[(-1, 0)] * 2, padding="same", parameters=[0.75, table])
    stencil = sx.kscan(kernel, padding="same")
    x = sample(3, 5)
    expected = loop_sweep([(..., kernel)], x, reach=[(-1, 0)] * 2, padding="same", parameters=[2.0, table])
    agree(run(library, stencil, x, table=table, a=2.0), expected)
    agree(run(library, stencil, x, 2.0, table=table), expected)


def test_unknown_updates_are_an_error(library):
    stencil = sx.kscan(coupled, fields=2, updates=("u", "hh"))
    with pytest.raises(sx.FieldError) as info:
        run(library, stencil, sample(3, 5), sample(3, 5))
    assert str(info.value) == "updates names 'hh', and there is no such field.\nHint: did you mean 'h'?"


# Dtypes


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("maker", [sx.kscan, sx.sscan])
def test_e_fractions_are_not_truncated(library, maker, dtype):
    """The second of each two cells is written, the first of the two is the carried one."""
    mean = lambda u: (u[-1] + u[0]) / 2  # noqa: E731
    x = np.array([1, 2, 4, 8], dtype)
    options = {} if maker is sx.kscan else {"offset": ((1, 0),)}
    got = run(library, maker(mean, **options), x)
    assert got.dtype.kind == "f"
    agree(got, [1.5, 2.75, 5.375] if maker is sx.kscan else [1, 1.5, 2.75, 5.375])


@pytest.mark.parametrize(
    ("kernel", "dtype", "expected"),
    [
        (lambda u: 0.5 * u[-1] + u[0], np.float32, np.float32),
        (lambda u: 0.5 * u[-1] + u[0], np.float16, np.float16),
        (lambda u: 0.5 * u[-1] + u[0], np.int64, np.float64),
        (lambda u: 1.5, np.int64, np.float64),
        (lambda u: u[-1] // 2 + u[0], np.int32, np.int32),
        (lambda u: u[-1] // 2 + 1, np.uint8, np.uint8),
        (lambda u: u[-1] + u[0], np.complex64, np.complex64),
        (lambda u: 1j * u[-1] + u[0], np.float64, np.complex128),
        (lambda u: u[-1] != u[0], np.bool_, np.bool_),
        (lambda u: u[-1] > 0, np.float32, np.float32),
        (lambda u: np.float64(0.5) * u[-1], np.float64, np.float64),
    ],
)
def test_the_dtype_holds_field_and_results(library, kernel, dtype, expected):
    x = sample(7, dtype=dtype)
    both(library, kernel, x, reach=[(-1, 0)], padding="same" if dtype != np.bool_ else 0, dtype=expected)
    both(library, kernel, x, reach=[(-1, 0)], offset=((1, 0),), dtype=expected)


def test_the_field_is_promoted_before_the_kernel_sees_it(library):
    """Also where only a later cell's kernel makes fractions: integer division would round."""
    both(library, lambda u: u[0] + u[-1] // 2 + 0.5, np.array([3, 5, 8, 1]), reach=[(-1, 0)], padding="same")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.5, np.int64, np.float64),
        (1.5, np.float32, np.float32),
        (3, np.int32, np.int32),
        (np.float64(1.5), np.float32, None),
        (np.array([1.5, -2.5]), np.int64, np.float64),
        (np.array([1.5, -2.5], np.float32), np.float64, np.float64),
        (np.array([1.5, -2.5]), np.float32, np.float64),
        (np.array([7, 9], np.int64), np.int32, np.int64),
        (2j, np.float64, np.complex128),
    ],
    ids=repr,
)
def test_numbers_and_arrays_of_regions_join_the_dtype(library, value, dtype, expected):
    F = sx.kscan(padding="same")
    F[...], F[:2] = (lambda u: u[0] + u[-1]), value
    x = sample(5, dtype=dtype)
    wide = x.astype(expected or np.float64)
    wide[:2] = value
    got = run(library, F, x)
    agree(got, [wide[0], *np.cumsum(wide[1:])], expected)


def test_the_boundary_value_joins_the_dtype(library):
    x = np.array([1, 2, 3])
    agree(run(library, sx.kscan(lambda u: u[-1] + u[0], padding="same", boundary=1.5), x), [2.5, 4.5, 7.5], np.float64)
    got = run(library, sx.kscan(lambda u: u[-1] + u[0], padding="same", boundary=1), x)
    agree(got, [2, 4, 7], x.dtype)


def test_each_updated_field_has_its_own_dtype(library):
    kernel = lambda n, x: (n[-1] + 1, x[-1] + n[0] / 2)  # noqa: E731
    stencil = sx.kscan(kernel, fields=2, updates=("n", "x"), padding="same")
    counts, values = run(library, stencil, np.array([3, 5, 8, 1]), np.zeros(4))
    agree(counts, [1, 2, 3, 4], np.int64)
    agree(values, np.cumsum([1.5, 2.5, 4, 0.5]), np.float64)


def test_wider_arrays_as_parameters_widen_the_field(library):
    x = sample(5, dtype=np.float32)
    got = run(library, sx.kscan(lambda u, a: u[-1] + a[0] * u[0], padding="same"), x, np.array([0.5]))
    agree(got, np.cumsum(x / 2), np.float64)


# What kernels return


def pair(u: Any) -> Any:
    return u[0], u[-1]


def texts(library: Any, stencil: Any, *arrays: np.ndarray) -> str:
    with pytest.raises(sx.KernelError) as info:
        run(library, stencil, *arrays)
    return str(info.value)


HINT = "\nHint: return a scalar, or use kmap, whose results may be arrays and trees."


def window(u: Any) -> Any:
    return u[-1:2]


@pytest.mark.parametrize("maker", [sx.kscan, sx.sscan])
def test_results_are_single_numbers(library, maker):
    x = sample(5)
    one = "one number is written into each cell, but "
    assert texts(library, maker(window), x) == f"{one}window returns an array of shape (3,).{HINT}"
    assert texts(library, maker(pair), x) == f"{one}pair returns 2 values.{HINT}"


def single(u: Any, h: Any) -> Any:
    return u[0] + h[0]


@pytest.mark.parametrize("maker", [sx.kscan, sx.sscan])
def test_results_are_as_many_as_updates(library, maker):
    stencil = maker(single, fields=2, updates=("u", "h"))
    assert texts(library, stencil, sample(5), sample(5)) == (
        "2 fields are updated, each by a number, but single returns one value."
        "\nHint: return 2 scalars, in the order of updates=."
    )
    stencil = maker(lambda u, h: (u[0], h[0], u[0]), fields=2, updates=("u", "h"))
    assert "2 fields are updated, each by a number, but <lambda> returns 3 values." in texts(
        library, stencil, sample(5), sample(5)
    )


def test_lists_do_as_well_as_tuples(library):
    x, y = sample(5), sample(5, seed=1)
    stencil = sx.kscan(lambda u, h: [u[-1] + h[0], h[0]], fields=2, updates=("u", "h"), padding="same")
    got = run(library, stencil, x, y)
    assert isinstance(got, tuple)
    agree(got[0], np.cumsum(y))
    agree(got[1], y)


# out=


@pytest.mark.parametrize("maker", [sx.kscan, sx.sscan])
def test_out_is_written(library, maker):
    options = {"padding": "same"} if maker is sx.kscan else {}
    stencil = maker(lambda u: u[-1] + u[0], backend=library.backend, **options)
    x, buffer = library.array(sample(6)), library.array(np.zeros(6))
    got = stencil(x, out=buffer)
    agree(library.numpy(got), np.cumsum(sample(6)))
    agree(library.numpy(x), sample(6))
    if library.backend == "jax":
        assert buffer.is_deleted()
    else:
        assert got is buffer


def test_out_of_several_updates(library):
    stencil = sx.kscan(coupled, fields=2, updates=("u", "h"), padding="same", backend=library.backend)
    x, y = sample(4, 5), sample(4, 5, seed=1)
    expected = loop_sweep([(..., coupled)], x, y, reach=AROUND, updates=[0, 1], padding="same")
    buffers = (library.array(np.zeros((4, 5))), library.array(np.zeros((4, 5))))
    for g, e in zip(to_numpy(library, stencil(library.array(x), library.array(y), out=buffers)), expected, strict=True):
        agree(g, e)


def test_out_that_does_not_fit_is_an_error(library):
    stencil = sx.kscan(lambda u: u[-1] + u[0], backend=library.backend)
    for wrong in (np.zeros(6), np.zeros(5, np.float32)):
        with pytest.raises(sx.FieldError, match="out"):
            stencil(library.array(sample(6)), out=library.array(wrong))


# Cases with a literature


def neighbours(u: Any) -> Any:
    return (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) / 4


def test_o_gauss_seidel_and_jacobi(library):
    x = np.zeros((4, 4))
    x[1:3, 1:3] = [[1, 2], [3, 4]]
    once = run(library, sx.sscan(neighbours, offset=1), x)
    agree(once[1:3, 1:3], [[1.25, 1.3125], [1.3125, 0.65625]])
    agree(run(library, sx.smap(neighbours, offset=1), x)[1:3, 1:3], [[1.25, 1.25], [1.25, 1.25]])
    assert not once[0].any()
    relaxed = run(library, sx.sscan(lambda u: u[0, 0] + 1.5 * (neighbours(u) - u[0, 0]), offset=1), x)
    both(library, lambda u: u[0, 0] + 1.5 * (neighbours(u) - u[0, 0]), x, reach=AROUND, offset=1)
    agree(relaxed[1, 1], -0.5 + 1.5 * 1.25)


def laplace() -> np.ndarray:
    """The problem of numerical-mooc 05_03: a sine on the last row, zeros on the first row and column."""
    p = np.zeros((128, 128))
    p[-1] = np.sin(1.5 * np.pi * np.linspace(0, 1, 128))
    return p


def mirror(p: Any) -> Any:
    """No flux through the last column, by second-order differences."""
    return (2 * p[0, -1] + p[1, 0] + p[-1, 0]) / 4


@pytest.mark.parametrize(
    ("maker", "omega", "count"),
    [(sx.smap, 1.0, 19993), (sx.sscan, 1.0, 13939), (sx.sscan, 1.5, 7108)],
    ids=["Jacobi", "Gauss-Seidel", "SOR"],
)
def test_o_published_numbers_of_iterations(maker, omega, count):
    step = maker()
    step[1:-1, 1:-1] = lambda p: (1 - omega) * p[0, 0] + omega * neighbours(p)
    step[1:-1, -1] = mirror

    def iterate(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        p, _, number = state
        new = step(p)
        return new, jnp.sqrt(jnp.sum((new - p) ** 2) / jnp.sum(p**2)), number + 1

    start = (jnp.asarray(laplace()), jnp.inf, 0)
    found = jax.jit(lambda start: lax.while_loop(lambda s: s[1] > 1e-8, iterate, start))(start)
    assert found[2] == count


def test_q_a_recurrence(library):
    x = np.array([100.0, 200, 300, 400, 500])
    smooth = sx.kscan(lambda y: 0.9 * y[0] + 0.1 * y[-1], padding="same")
    agree(run(library, smooth, x), [90, 189, 288.9, 388.89, 488.889])


def test_q_filters(library):
    signal = pytest.importorskip("scipy.signal")
    x = sample(200)
    smooth = sx.kscan(lambda y, x: 0.3 * x[0] - 0.2 * x[-1] + 0.5 * y[-1] - 0.25 * y[-2], fields=2, padding="same")
    agree(run(library, smooth, np.zeros(200), x), signal.lfilter([0.3, -0.2], [1, -0.5, 0.25], x))
    backwards = sx.kscan(lambda y: 0.9 * y[0] + 0.1 * y[1], padding="same", reverse=True)
    agree(run(library, backwards, x), signal.lfilter([0.9], [1, -0.1], x[::-1])[::-1])
    rows = sx.kscan(lambda y: 0.9 * y[0, 0] + 0.1 * y[0, -1], padding="same")
    agree(run(library, rows, x.reshape(8, 25)), signal.lfilter([0.9], [1, -0.1], x.reshape(8, 25), axis=1))


def test_q_ten_million_elements():
    signal = pytest.importorskip("scipy.signal")
    x = np.random.default_rng(0).normal(size=10_000_000)
    got = np.asarray(sx.kscan(lambda y: 0.9 * y[0] + 0.1 * y[-1], padding="same")(x))
    np.testing.assert_allclose(got, signal.lfilter([0.9], [1, -0.1], x), rtol=1e-10, atol=1e-12)


def test_s_single_precision_stays_and_the_kernel_is_traced_once(library):
    c, traces = np.int64(2), []

    def kernel(a: Any) -> Any:
        traces.append(a)
        return 0.5 * (a[-c + 1] + a[c - 1])

    stencil = sx.kscan(kernel, padding="same", strides=np.int32(1), dilation=np.int8(1), backend=library.backend)
    x = sample(6, dtype=np.float32)
    mean = lambda a: 0.5 * (a[-1] + a[1])  # noqa: E731
    for array in (x, x[::-1].copy()):
        expected = loop_sweep([(..., mean)], array, reach=[(-1, 1)], padding="same")
        agree(library.numpy(stencil(library.array(array))), expected, np.float32)
    if library.backend == "jax":
        assert len(traces) == 1


def thomas(library: Any, rhs: np.ndarray) -> np.ndarray:
    """Tridiagonal columns, diagonals 1, 4, 1: a forward sweep of two fields, then a backward one (case P)."""
    forward = sx.kscan(
        lambda c, d: (1 / (4 - c[-1, 0]), (d[0, 0] - d[-1, 0]) / (4 - c[-1, 0])),
        fields=2,
        updates=("c", "d"),
        padding="same",
        backend=library.backend,
    )
    backward = sx.kscan(lambda x, c: x[0, 0] - c[0, 0] * x[1, 0], fields=2, padding="same", reverse=True)
    c, d = forward(library.array(np.zeros(rhs.shape)), library.array(rhs))
    return library.numpy(backward.with_backend(library.backend)(d, c))


def test_p_tridiagonal_columns(library):
    agree(thomas(library, np.array([[5.0], [6.0], [5.0]])), np.ones((3, 1)))
    rhs = sample(6, 20)
    dense = 4 * np.eye(6) + np.eye(6, k=1) + np.eye(6, k=-1)
    agree(thomas(library, rhs), np.linalg.solve(dense, rhs))


# The backends agree


def programs() -> Iterator[Any]:
    """Kernels that a loop in this module does not cover: shapes and options at random, large enough for many bands."""
    kernel = lambda u: u[0, 0] / 2 - u[-1, 2] / 4 + u[0, -2] / 8 + u[1, -1] / 16  # noqa: E731
    for number, boundary in enumerate(["wrap", "symmetric", {0: ("edge", 1.5), 1: ("wrap", "reflect")}]):
        for options in ({}, {"reverse": True}, {"strides": (2, 1)}, {"dilation": (1, 2), "strides": (1, 3)}):
            yield pytest.param(kernel, boundary, options, id=f"{number} {options}")


@pytest.mark.parametrize(("kernel", "boundary", "options"), list(programs()))
def test_jax_and_numpy_agree(kernel, boundary, options):
    F = sx.kscan(padding="same", boundary=boundary, **options)
    F[...] = kernel
    F[::3, 1:] = lambda u: u[-1, 0] / 4 + u[0, 0]
    x = np.random.default_rng(3).normal(size=(9, 11))
    agree(np.asarray(F(jnp.asarray(x))), F.with_backend("numpy")(x), np.float64)


def test_a_large_sweep_agrees():
    stencil = sx.sscan(lambda u: u[-1, 0] / 2 + u[0, -1] / 4 + u[0, 1] / 8, offset=1)
    x = np.random.default_rng(4).normal(size=(60, 70))
    agree(np.asarray(stencil(jnp.asarray(x))), stencil.with_backend("numpy")(x), np.float64)
