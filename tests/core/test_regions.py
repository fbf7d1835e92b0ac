"""Regions against `owner[key] = number` on an array with one entry for each cell."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stencilx import regions
from stencilx.regions import Frame, Part, Points, key_text, owners, parts, positions, uncovered

s = np.s_
shapes = st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple)
ends = st.none() | st.integers(-8, 8)
slices = st.builds(slice, ends, ends, st.sampled_from([None, 1, 2, 3, -1, -2]))


def whole(shape: tuple[int, ...]) -> Frame:
    return Frame(shape, tuple(range(n) for n in shape))


@st.composite
def items(draw: st.DrawFn, n: int, lists: bool) -> Any:
    """What may stand in a key for one axis of n cells."""
    choices = [slices]
    if n:
        numbers = st.integers(-n, n - 1)
        choices += [numbers, numbers.map(np.int64)]
        if lists:
            choices += [st.lists(numbers, max_size=4), st.lists(numbers, max_size=4).map(lambda i: np.array(i, int))]
    if lists:
        choices.append(st.lists(st.booleans(), min_size=n, max_size=n).map(lambda m: np.array(m, bool)))
    return draw(st.one_of(choices))


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A key that NumPy accepts: a mask, two lists, or items for some axes with at most one list and one `...`."""
    if draw(st.integers(0, 9)) == 0:
        return draw(
            st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(mask(shape))
        )
    if len(shape) > 1 and min(shape[:2]) and draw(st.integers(0, 9)) == 0:
        pairs = draw(st.lists(st.tuples(*(st.integers(-n, n - 1) for n in shape[:2])), min_size=1, max_size=4))
        return tuple(list(indices) for indices in zip(*pairs))
    count = draw(st.integers(0, len(shape)))
    tail = draw(st.integers(0, count))
    axes = [*range(count - tail), *range(len(shape) - tail, len(shape))]
    with_list = draw(st.sampled_from([None, *axes]))
    chosen = [draw(items(shape[axis], axis == with_list)) for axis in axes]
    if tail or draw(st.booleans()):
        chosen.insert(count - tail, ...)
    return chosen[0] if len(chosen) == 1 and draw(st.booleans()) else tuple(chosen)


def mask(shape: tuple[int, ...]) -> Any:
    return lambda bits: np.array(bits, bool).reshape(shape)


@st.composite
def frames(draw: st.DrawFn, shape: tuple[int, ...]) -> Frame:
    """The computed cells: with a stride, and from outside the frame to outside it."""
    cells = []
    for n in shape:
        start, count, step = draw(st.integers(-2, 3)), draw(st.integers(0, n + 2)) if n else 0, draw(st.integers(1, 3))
        cells.append(range(start, start + count * step, step))
    return Frame(shape, tuple(cells))


meshes = shapes.flatmap(lambda shape: st.tuples(st.lists(keys(shape), max_size=4), st.just(whole(shape))))
meshes_in_frames = shapes.flatmap(lambda shape: st.tuples(st.lists(keys(shape), max_size=4), frames(shape)))


def owners_by_assignment(chosen: list[Any], frame: Frame) -> np.ndarray:
    """The owner of each computed cell, looked up one by one; -1 outside the frame."""
    owner = np.full(frame.shape, -1)
    for number, key in enumerate(chosen):
        owner[key] = number
    found = np.full([len(r) for r in frame.cells], -1)
    for cell in np.ndindex(*found.shape):
        place = tuple(r[i] for r, i in zip(frame.cells, cell))
        if all(0 <= i < n for i, n in zip(place, frame.shape)):
            found[cell] = owner[place]
    return found


def cells_of(part: Part) -> list[tuple[int, ...]]:
    if isinstance(part.cells, Points):
        return list(zip(*(i.tolist() for i in part.cells.index)))
    return list(itertools.product(*part.cells))


def spread(found: tuple[Part, ...], grid: tuple[int, ...]) -> np.ndarray:
    """The owners as the parts tell them; every cell may be told once."""
    owner = np.full(grid, -1)
    for part in found:
        cells = cells_of(part)
        assert len(cells) == len(set(cells)) == part.count > 0
        for cell in cells:
            assert owner[cell] == -1
            owner[cell] = part.owner
    return owner


@given(meshes)
def test_parts_own_what_assignments_own(mesh: tuple[list[Any], Frame]) -> None:
    chosen, frame = mesh
    np.testing.assert_array_equal(spread(parts(chosen, frame), frame.shape), owners_by_assignment(chosen, frame))


@given(meshes_in_frames)
def test_parts_of_a_frame(mesh: tuple[list[Any], Frame]) -> None:
    chosen, frame = mesh
    grid = tuple(len(r) for r in frame.cells)
    np.testing.assert_array_equal(spread(parts(chosen, frame), grid), owners_by_assignment(chosen, frame))


@given(meshes)
def test_owners_of_all_cells(mesh: tuple[list[Any], Frame]) -> None:
    chosen, frame = mesh
    np.testing.assert_array_equal(owners(chosen, frame.shape), owners_by_assignment(chosen, frame))


@given(meshes_in_frames)
def test_uncovered_tells_every_hole(mesh: tuple[list[Any], Frame]) -> None:
    """As keys count: an index or a range of the frame, of which only some cells may be computed."""
    chosen, frame = mesh
    free = owners_by_assignment(chosen, frame) < 0
    text = uncovered(parts(chosen, frame), frame)
    assert (text is None) == (not free.any())
    if text and free.ndim == 1 and "more" not in text:
        pieces = [list(map(int, piece.split(":"))) for piece in text.replace(" and ", ", ").split(", ")]
        told = [range(*piece) if len(piece) > 1 else piece for piece in pieces]
        holes = [place for place, is_free in zip(frame.cells[0], free) if is_free]
        assert [place for piece in told for place in piece] == holes


@given(meshes)
def test_boxes_where_keys_are_no_masks(mesh: tuple[list[Any], Frame]) -> None:
    chosen, frame = mesh
    plain = [key for key in chosen if not any(isinstance(item, (list, np.ndarray)) for item in as_tuple(key))]
    assert not any(isinstance(part.cells, Points) for part in parts(plain, frame))


def as_tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


# How many boxes


def texts(chosen: list[Any], shape: tuple[int, ...]) -> list[tuple[int, str]]:
    return [(part.owner, str(part)) for part in parts(chosen, whole(shape))]


def test_two_ends_and_the_inner_cells() -> None:
    assert texts([s[0], s[-1], s[1:-1]], (7,)) == [(0, "0"), (1, "6"), (2, "1:6")]


def test_one_kernel_is_one_box() -> None:
    assert texts([s[...]], (3, 5)) == [(0, "0:3, 0:5")]
    assert texts([s[:], s[...], s[::-1, :]], (3, 5)) == [(2, "0:3, 0:5")]


def test_walls_in_order() -> None:
    """cases.md N: the corners below belong to the wall that was assigned last."""
    walls = [s[1:-1, 1:-1], s[0, :], s[:, 0], s[:, -1], s[-1, :]]
    assert texts(walls, (6, 5)) == [(0, "1:5, 1:4"), (1, "0, 1:4"), (2, "0:5, 0"), (3, "0:5, 4"), (4, "5, 0:5")]
    assert texts([s[...], *walls[1:]], (6, 5)) == texts(walls, (6, 5))


def test_strided_regions() -> None:
    assert texts([s[:], s[1::2]], (6,)) == [(0, "0:5:2"), (1, "1:6:2")]
    colours = [s[::2, ::2], s[1::2, ::2], s[::2, 1::2], s[1::2, 1::2]]
    assert [owner for owner, _ in texts(colours, (6, 7))] == [0, 1, 2, 3]


def test_a_list_cuts_its_axis() -> None:
    assert texts([s[:], s[[0, 3]]], (5,)) == [(0, "1:3"), (0, "4"), (1, "0"), (1, "3")]


def test_a_stride_does_not_swallow_its_neighbour() -> None:
    """0, 2, 4, 6 and 7 have one owner, 3 and 5 another."""
    found = texts([s[2:7], [0, 2, 4, 6, 7]], (8,))
    assert found == [(0, "3"), (0, "5"), (1, "0:7:2"), (1, "7")]


def test_a_box_in_the_middle_leaves_four() -> None:
    found = texts([s[...], s[1:3, 1:4]], (5, 6))
    assert found == [(0, "0, 0:6"), (0, "1:3, 0"), (0, "1:3, 4:6"), (0, "3:5, 0:6"), (1, "1:3, 1:4")]


def test_a_mask_that_is_a_box_is_a_box() -> None:
    inner = np.zeros((3, 5), bool)
    inner[1:, 1:4] = True
    assert texts([inner], (3, 5)) == [(0, "1:3, 1:4")]
    assert texts([np.eye(3, 5, dtype=bool)], (3, 5)) == [(0, "3 cells in 0:3, 0:3")]


def test_the_count_of_boxes_does_not_grow_with_the_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no cell is looked at: an array of these owners would need 40 GB."""
    monkeypatch.setattr(regions, "owners", None)
    walls = [s[...], s[0, :], s[:, 0], s[:, -1], s[-1, :]]
    found = parts(walls, whole((10**5, 10**5)))
    assert len(found) == 5
    assert sum(part.count for part in found) == 10**10


def test_empty_keys_own_nothing() -> None:
    assert texts([s[:], s[0:0], s[[]]], (5,)) == [(0, "0:5")]
    assert texts([], (3, 5)) == []
    assert texts([s[:]], (0, 5)) == []


def test_parts_in_the_order_of_the_frame() -> None:
    """Every third cell of 9, from one before the array on: places -1, 2, 5, 8."""
    frame = Frame((9,), (range(-1, 10, 3),))
    assert [(p.owner, str(p)) for p in parts([s[:], s[5]], frame)] == [(0, "1"), (0, "3"), (1, "2")]


# Cells in no region


@pytest.mark.parametrize(
    ("chosen", "shape", "text"),
    [
        ([s[0], s[2]], (5,), "1 and 3:5"),
        ([s[1:-1]], (5,), "0 and 4"),
        ([s[1::2]], (6,), "0:5:2"),
        ([], (5,), "0:5"),
        ([s[:], s[0]], (5,), None),
        ([s[:3], s[2:]], (5,), None),
        ([], (0,), None),
    ],
)
def test_text_of_uncovered_cells(chosen: list[Any], shape: tuple[int, ...], text: str | None) -> None:
    assert uncovered(parts(chosen, whole(shape)), whole(shape)) == text


def test_many_holes_are_not_all_listed() -> None:
    found = uncovered(parts([s[::2, 1:3]], whole((9, 11))), whole((9, 11)))
    assert found == "[0, 0], [0, 3:11], [1, 0:11], [2, 0], [2, 3:11], [3, 0:11] and more"


# Values of regions


@given(shapes.flatmap(lambda shape: st.tuples(keys(shape), st.just(shape))))
def test_positions_number_the_selected_cells(key_and_shape: tuple[Any, tuple[int, ...]]) -> None:
    key, shape = key_and_shape
    cells = np.arange(int(np.prod(shape))).reshape(shape)
    selected = cells[key]
    expected = dict.fromkeys(cells.ravel().tolist(), -1)
    expected |= {cell: place for place, cell in enumerate(np.ravel(selected).tolist())}
    place, selected_shape = positions(key, shape)
    assert selected_shape == selected.shape
    assert dict(enumerate(place.ravel().tolist())) == expected


# Texts


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (0, "0"),
        (np.int64(-2), "-2"),
        (s[...], "..."),
        (s[1:-1], "1:-1"),
        (s[::2, :, ...], "::2, :, ..."),
        ([0, 3], "[0, 3]"),
        (s[0, [1, 2]], "0, [1, 2]"),
        (np.array([True, False]), "<mask of shape (2,)>"),
        (np.array([4, 2]), "[4 2]"),
    ],
    ids=repr,
)
def test_key_as_the_user_wrote_it(key: Any, text: str) -> None:
    assert key_text(key) == text
