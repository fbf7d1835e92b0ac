"""Windows and grids against index arithmetic written out: which cell of the padded axis does a tap read?"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stencilx.errors import WindowError
from stencilx.window import (
    Geometry,
    Window,
    by_field,
    offset_pairs,
    padding_pairs,
    per_axis,
    reach,
    steps,
    union,
    whole_number,
    window_of_size,
)

offsets_2d = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=6)
pads = st.tuples(st.integers(-2, 4), st.integers(-2, 4))


@st.composite
def axes(draw: st.DrawFn) -> Geometry:
    """A field of one axis, with any kernel size, stride, dilation and padding."""
    size = draw(st.integers(1, 5))
    window = Window((-((size - 1) // 2),), (size // 2,))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return Geometry("u", (draw(st.integers(0, 9)),), window, (stride,), (dilation,), (draw(pads),))


def windows_by_hand(g: Geometry) -> list[list[int]]:
    """Slide over the padded axis, whose cells are named by their index in the array: -1 is the ghost before cell 0."""
    (before, after), n, d = g.padding[0], g.shape[0], g.dilation[0]
    padded = list(range(-before, n + after))
    starts = range(0, len(padded), g.strides[0])
    spans = [[start + tap * d for tap in range(g.window.size[0])] for start in starts]
    return [[padded[i] for i in span] for span in spans if span[-1] < len(padded)]


# Windows


@pytest.mark.parametrize(
    ("size", "lo", "hi"), [(1, 0, 0), (2, 0, 1), (3, -1, 1), (4, -1, 2), (5, -2, 2), (6, -2, 3), (7, -3, 3)]
)
def test_kernel_size_around_the_centre(size: int, lo: int, hi: int) -> None:
    assert window_of_size(size, (9, 9), "u") == Window((lo, lo), (hi, hi))


def test_kernel_size_for_each_axis() -> None:
    assert window_of_size((2, np.int64(5)), (3, 5), "u") == Window((0, -2), (1, 2))
    assert window_of_size([1, 3], (3, 5), "u") == Window((0, -1), (0, 1))


@pytest.mark.parametrize("length", range(1, 7))
def test_minus_one_is_the_whole_axis(length: int) -> None:
    window = window_of_size((-1, 2), (length, 5), "u")
    assert window == window_of_size((length, 2), (length, 5), "u")
    geometry = Geometry("u", (length, 5), window, (1, 1), (1, 1), ((0, 0), (0, 0)))
    assert geometry.grid == (1, 4)
    assert [geometry.position(0, 0, tap) for tap in range(window.lo[0], window.hi[0] + 1)] == list(range(length))


def test_minus_one_on_an_empty_axis() -> None:
    assert window_of_size(-1, (0,), "u") == Window((0,), (0,))


def test_window_lists_its_offsets_in_row_major_order() -> None:
    window = Window((-1, 0), (0, 2))
    assert list(window) == [(-1, 0), (-1, 1), (-1, 2), (0, 0), (0, 1), (0, 2)]
    assert (len(window), window.size, str(window)) == (6, (2, 3), "-1..0, 0..2")


@given(offsets_2d)
def test_reach_is_the_smallest_window_with_centre_and_reads(reads: list[tuple[int, int]]) -> None:
    window = reach(reads, 2)
    for axis in range(2):
        taps = [0, *(offset[axis] for offset in reads)]
        assert (window.lo[axis], window.hi[axis]) == (min(taps), max(taps))


@given(st.lists(offsets_2d, min_size=1, max_size=4))
def test_union_of_reads(several: list[list[tuple[int, int]]]) -> None:
    together = union([tuple(reads) for reads in several])
    assert list(together) == sorted(set(itertools.chain(*several)))


def test_union_with_a_whole_window_is_that_window() -> None:
    window = Window((-1,), (1,))
    assert union([((0,),), window, ((1,),)]) == window


# Options


@pytest.mark.parametrize("value", [3, np.int8(3), np.array(3)])
def test_whole_numbers(value: object) -> None:
    number = whole_number(value, "x")
    assert (number, type(number)) == (3, int)


@pytest.mark.parametrize("value", [True, np.True_, 3.0, np.float32(3), "3", None, 3 + 0j])
def test_no_whole_numbers(value: object) -> None:
    with pytest.raises(WindowError, match="must be a whole number"):
        whole_number(value, "x")


def test_one_entry_for_each_axis() -> None:
    assert per_axis("same", 3, "padding", "u") == ("same", "same", "same")
    assert per_axis([1, (2, 3)], 2, "padding", "u") == (1, (2, 3))


def test_steps_for_each_axis() -> None:
    assert steps(2, 3, "strides", "u") == (2, 2, 2)
    assert steps((1, np.int64(3)), 2, "dilation", "u") == (1, 3)


@pytest.mark.parametrize(
    ("padding", "pairs"),
    [
        ("valid", ((0, 0), (0, 0))),
        ("same", ((2, 4), (0, 1))),
        ("SAME", ((2, 4), (0, 1))),
        (3, ((3, 3), (3, 3))),
        (-1, ((-1, -1), (-1, -1))),
        ((1, 2), ((1, 1), (2, 2))),
        (("same", 2), ((2, 4), (2, 2))),
        (["valid", (0, 5)], ((0, 0), (0, 5))),
        (((1, -2), [np.int64(3), 4]), ((1, -2), (3, 4))),
    ],
)
def test_every_spelling_of_padding(padding: object, pairs: object) -> None:
    """A window of 4 x 2 cells, -1..2 and 0..1, the first dilated by 2."""
    assert padding_pairs(padding, Window((-1, 0), (2, 1)), (2, 1), "u") == pairs


@pytest.mark.parametrize(
    ("offset", "pairs"),
    [(0, ((0, 0), (0, 0))), (2, ((2, 2), (2, 2))), ((1, (0, 3)), ((1, 1), (0, 3))), ([[1, 2], 0], ((1, 2), (0, 0)))],
)
def test_every_spelling_of_offset(offset: object, pairs: object) -> None:
    assert offset_pairs(offset, 2, "u") == pairs


def test_options_by_field() -> None:
    assert by_field(3, ("u", "h"), "kernel_size") == {"u": 3, "h": 3}
    assert list(by_field({"h": 2, "u": (3, 1)}, ("u", "h"), "kernel_size").items()) == [("u", (3, 1)), ("h", 2)]


# Geometry


@given(axes())
def test_grid_and_positions(g: Geometry) -> None:
    windows = windows_by_hand(g)
    assume(windows or g.shape == (0,))
    assert g.grid == (len(windows),)
    taps = range(g.window.lo[0], g.window.hi[0] + 1)
    assert [[g.position(0, cell, tap) for tap in taps] for cell in range(len(windows))] == windows


@given(axes())
def test_no_window_fits(g: Geometry) -> None:
    assume(not windows_by_hand(g) and g.shape != (0,))
    with pytest.raises(WindowError, match=f"spans {g.extent[0]} cell"):
        _ = g.grid


@given(axes(), st.sets(st.integers(0, 4), max_size=3))
def test_ghosts_are_the_cells_outside_that_reads_reach(g: Geometry, chosen: set[int]) -> None:
    windows = windows_by_hand(g)
    taps = [tap for tap in chosen if tap < g.window.size[0]]
    touched = [window[tap] for window in windows for tap in taps]
    before, after = max([0, *(-i for i in touched)]), max([0, *(i - g.shape[0] + 1 for i in touched)])
    reads = tuple((g.window.lo[0] + tap,) for tap in sorted(taps))
    assert g.ghosts(reads, (len(windows),)) == ((before, after),)


@given(axes())
def test_ghosts_of_a_whole_window(g: Geometry) -> None:
    grid = (len(windows_by_hand(g)),)
    assert g.ghosts(g.window, grid) == g.ghosts(tuple(g.window), grid)


@given(axes(), st.integers(-3, 5), st.integers(0, 9), st.integers(1, 3), st.integers(-3, 3))
def test_positions_of_a_range_of_cells(g: Geometry, first: int, length: int, step: int, tap: int) -> None:
    cells = range(first, first + length, step)
    assert list(g.positions(0, cells, tap)) == [g.position(0, cell, tap) for cell in cells]


def test_axes_are_independent() -> None:
    g = Geometry("u", (4, 9), Window((-1, 0), (1, 1)), (1, 2), (1, 3), ((1, 1), (0, -1)))
    assert (g.extent, g.grid) == ((3, 4), (4, 3))
    assert [g.position(0, cell, -1) for cell in range(4)] == [-1, 0, 1, 2]
    assert [g.position(1, cell, 1) for cell in range(3)] == [3, 5, 7]
    assert g.ghosts(g.window, g.grid) == ((1, 1), (0, 0))


@pytest.mark.parametrize("size", range(1, 7))
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("length", range(1, 6))
def test_same_gives_as_many_cells_as_there_are(size: int, dilation: int, length: int) -> None:
    window = window_of_size(size, (length,), "u")
    g = Geometry("u", (length,), window, (1,), (dilation,), padding_pairs("same", window, (dilation,), "u"))
    assert g.grid == (length,)
    assert [g.position(0, cell, 0) for cell in range(length)] == list(range(length))
