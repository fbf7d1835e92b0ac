"""Regions: which kernel, number or array holds in which cell. The oracle is NumPy's own `owner[key] = number`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import stencilx as sx

from .plain_loops import agree, loop_map, run, sample

PLANE = (4, 7)
REACH = [(-1, 1), (-2, 2)]


def ahead(u: Any) -> Any:
    return u[0, 2] - 2 * u[1, 0]


def behind(u: Any) -> Any:
    return u[-1, 0] * u[0, -2] + 0.5


def here(u: Any) -> Any:
    return -3 * u[0, 0]


Assignments = Sequence[tuple[Any, Any]]


def meshed(stencil: Any, assignments: Assignments) -> Any:
    for key, value in assignments:
        stencil[key] = value
    return stencil


def values_of(value: Any, key: Any, x: np.ndarray, ndim: int) -> np.ndarray:
    """What an assignment gives in each cell of an array of that shape, also where it does not hold."""
    if callable(value):
        reach = REACH[:ndim] if ndim == 2 else [(-2, 2)]
        return loop_map(value, x, reach, relative=True, padding="same", rules="wrap")
    spread = np.zeros(x.shape, np.asarray(value).dtype)
    spread[key] = value
    return spread


def in_loops(x: np.ndarray, assignments: Assignments, background: np.ndarray | None = None) -> np.ndarray:
    """The mesh: each cell has the number of the last assignment that holds it, -1 where there is none."""
    owner = np.full(x.shape, -1)
    for number, (key, _) in enumerate(assignments):
        owner[key] = number
    given = [values_of(value, key, x, x.ndim) for key, value in assignments]
    numbers = [not callable(value) and not isinstance(value, np.ndarray) for _, value in assignments]
    kinds = [a[1] if number else g.dtype for a, g, number in zip(assignments, given, numbers, strict=True)]
    held = [kind for number, kind in enumerate(kinds) if (owner == number).any()]
    if background is None:
        assert (owner >= 0).all()
        out = np.empty(x.shape, np.result_type(*held))
    else:
        out = background.astype(np.result_type(background, *held))
    for cell in np.ndindex(*x.shape):
        if owner[cell] >= 0:
            out[cell] = given[owner[cell]][cell]
    return out


def check(library: Any, assignments: Assignments, shape: Sequence[int] = PLANE) -> None:
    """The regions of a kmap, and the same in an smap."""
    x = sample(*shape)
    expected = in_loops(x, assignments)
    agree(run(library, meshed(sx.kmap(padding="same", boundary="wrap"), assignments), x), expected, expected.dtype)
    expected = in_loops(x, assignments, x)
    agree(run(library, meshed(sx.smap(boundary="wrap"), assignments), x), expected, expected.dtype)


MASK = sample(*PLANE, seed=5) > 1
ROWS = np.array([True, False, True, True])
COLUMNS = np.array([False, True, True, False, False, True, False])

KEYS: dict[str, Any] = {
    "row": 0,
    "last row": -1,
    "column": np.s_[:, 2],
    "last column": np.s_[:, -1],
    "cell": np.s_[1, 5],
    "cell from the end": np.s_[-2, -7],
    "box": np.s_[1:3, 2:6],
    "open box": np.s_[2:, :3],
    "box from the end": np.s_[-3:-1, -4:],
    "beyond the end": np.s_[2:99, -99:3],
    "strided": np.s_[::2, 1::3],
    "backwards": np.s_[::-1, 5:0:-2],
    "empty": np.s_[2:2, :],
    "empty backwards": np.s_[1:3:-1],
    "all": np.s_[:],
    "dots": ...,
    "dots first": np.s_[..., 0],
    "dots last": np.s_[1, ...],
    "dots for nothing": np.s_[1, ..., 3],
    "list": [0, 3],
    "list with repeats": [2, -1, 2],
    "list backwards": np.s_[:, [6, 1, 3]],
    "empty list": [],
    "list beside a slice": np.s_[1:, [0, -1, 2]],
    "list beside an int": np.s_[-1, [4, 0]],
    "array": np.array([1, 2]),
    "array of bytes": np.s_[:, np.array([1, 6], np.uint8)],
    "two lists": np.s_[[0, 1, 3], [6, 2, 0]],
    "two lists crossed": np.ix_([0, 2], [5, 1, 3]),
    "list of lists": [[0, 1], [3, 3]],
    "numpy int": np.int64(2),
    "numpy ints": np.s_[np.uint8(1), np.int32(-1)],
    "mask": MASK,
    "mask of nothing": np.zeros(PLANE, bool),
    "mask of all": np.ones(PLANE, bool),
    "mask of a box": np.pad(np.ones((2, 3), bool), ((1, 1), (2, 2))),
    "mask by axis": ROWS,
    "mask of the last axis": np.s_[:, COLUMNS],
    "mask of an axis beside a slice": np.s_[ROWS, 1:5],
    "mask of an axis beside an int": np.s_[ROWS, -2],
    "list of truths": [True, False, False, True],
    "masks of both axes": np.ix_(ROWS, COLUMNS),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_select_as_in_numpy(library, name):
    check(library, [(..., here), (KEYS[name], behind)])


@pytest.mark.parametrize("name", KEYS)
def test_numbers_in_every_key(library, name):
    check(library, [(..., ahead), (KEYS[name], -2.25)])


@pytest.mark.parametrize("name", ["row", "strided", "mask", "list beside a slice", "two lists", "mask by axis"])
def test_a_region_below_another(library, name):
    check(library, [(KEYS[name], behind), (np.s_[1:, 2:], ahead), (np.s_[:1], here), (np.s_[1:, :2], here)])


OVERLAPS: dict[str, Assignments] = {
    "last wins": [(np.s_[:], here), (np.s_[0:3], ahead), (np.s_[0], behind)],
    "a function twice": [(np.s_[:], here), (np.s_[0:3], ahead), (np.s_[0], here)],
    "a function three times": [
        (np.s_[:, :4], here),
        (np.s_[:, 2:], ahead),
        (np.s_[1:3], here),
        (2, behind),
        (np.s_[:, 6], here),
    ],
    "wholly overwritten": [(np.s_[1], behind), (np.s_[...], ahead)],
    "a cross": [(..., here), (np.s_[1:3, :], ahead), (np.s_[:, 2:5], behind)],
    "walls": [(np.s_[1:-1, 1:-1], ahead), (0, 1.5), (np.s_[:, 0], behind), (np.s_[:, -1], 2.5), (-1, here)],
    "a checkerboard": [
        (np.s_[::2, ::2], here),
        (np.s_[1::2, 1::2], here),
        (np.s_[::2, 1::2], ahead),
        (np.s_[1::2, ::2], behind),
    ],
    "two strides": [(..., here), (np.s_[:, ::2], ahead), (np.s_[:, ::3], behind)],
    "a mask over a box": [(..., here), (np.s_[1:3], 2.0), (MASK, ahead)],
    "a box over a mask": [(..., here), (MASK, ahead), (np.s_[1:3], 2.0)],
    "two masks": [(MASK, ahead), (~MASK, behind)],
    "masks and lists": [(..., 0.5), (ROWS, ahead), (np.s_[:, [0, 2, -1]], behind), (MASK, here)],
    "numbers alone": [(..., 1.5), (0, -2.0), (np.s_[:, 3], 7)],
    "cell by cell": [((i, j), (here, ahead, behind, 4.0)[(i * 3 + j) % 4]) for i in range(4) for j in range(7)],
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_overlaps(library, name):
    check(library, OVERLAPS[name])


LINES: dict[str, Assignments] = {
    "ends": [(np.s_[1:-1], lambda u: u[-1] + u[2]), (0, lambda u: u[1]), (-1, -1.5)],
    "odd and even": [(np.s_[::2], lambda u: u[-2]), (np.s_[1::2], lambda u: 3 * u[1])],
    "thirds": [(np.s_[:], lambda u: u[0]), (np.s_[::3], 1.5), (np.s_[-2::-3], lambda u: u[-1])],
    "list": [(np.s_[:], lambda u: u[0]), ([1, 4, 5], lambda u: u[2] - u[-2])],
    "scattered": [(np.s_[:], lambda u: u[0]), ([0, 1, 3, 7, 8], lambda u: u[2] - u[-2])],
    "mask": [(np.s_[:], lambda u: u[0]), (np.array([1, 0, 0, 1, 1, 0, 1, 0, 0], bool), lambda u: u[2])],
}


@pytest.mark.parametrize("name", LINES)
def test_lines(library, name):
    check(library, LINES[name], (9,))


def test_space(library):
    x = sample(3, 4, 5)
    reach = [(0, 1), (-1, 0), (-1, 2)]
    first, second = (lambda u: u[1, 0, 2] - u[0, 0, 0]), (lambda u: u[0, -1, -1] * 2)
    mask = sample(3, 4, 5, seed=6) > 2
    F = sx.kmap(padding="same", boundary="edge")
    expected, other = (loop_map(k, x, reach, relative=True, padding="same", rules="edge") for k in (first, second))
    F[...] = first
    for key, value in [(np.s_[0, 1:], second), (np.s_[..., [0, 3]], 1.5), (mask, second), (np.s_[1, ::2, -1], -2.0)]:
        F[key] = value
        expected[key] = other[key] if callable(value) else value
    agree(run(library, F, x), expected)


# Keys are resolved anew for each shape


def test_one_stencil_on_many_shapes(library):
    assignments = [(..., here), (-1, ahead), (np.s_[1:, ::2], behind), (np.s_[:, -2], 1.5)]
    F = meshed(sx.kmap(padding="same", boundary="wrap", backend=library.backend), assignments)
    for shape in ((4, 7), (3, 5), (2, 6), (4, 7), (5, 3)):
        x = sample(*shape)
        agree(library.numpy(F(library.array(x))), in_loops(x, assignments))


def test_regions_may_be_added_after_a_call(library):
    x = sample(*PLANE)
    F = meshed(sx.kmap(padding="same", boundary="wrap", backend=library.backend), [(..., here)])
    agree(library.numpy(F(library.array(x))), in_loops(x, [(..., here)]))
    F[1] = 2.5
    agree(library.numpy(F(library.array(x))), in_loops(x, [(..., here), (1, 2.5)]))
    F[:, 1] = ahead
    agree(library.numpy(F(library.array(x))), in_loops(x, [(..., here), (1, 2.5), (np.s_[:, 1], ahead)]))


def test_regions_over_a_decorated_kernel(library):
    @sx.kmap(padding="same", boundary="wrap")
    def stencil(u: Any) -> Any:
        return ahead(u)

    stencil[0] = 1.5
    x = sample(*PLANE)
    agree(run(library, stencil, x), in_loops(x, [(..., ahead), (0, 1.5)]))


def test_keys_count_cells_of_the_output(library):
    x = sample(9)
    F = sx.kmap(kernel_size=3, strides=2, relative=True)
    F[:] = lambda u: u[1]
    F[-1] = lambda u: u[-1]
    F[[0, 2]] = 0.5
    agree(run(library, F, x), [0.5, x[4], 0.5, x[6]])
    with pytest.raises(sx.RegionIndexError, match="index 4 is out of range on axis 0, which has 4 cells"):
        run(library, meshed(F, [(4, 0.0)]), x)


# Keys that do not fit


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (4, "index 4 is out of range on axis 0, which has 4 cells"),
        (np.s_[:, -8], "index -8 is out of range on axis 1, which has 7 cells"),
        ([0, 4], "index 4 is out of range on axis 0"),
        (np.s_[0, 0, 0], "it indexes 3 axes"),
        (np.s_[..., 0, ...], "more than one '...'"),
        (np.s_[:, 1.5], "1.5 is no index"),
        (np.s_[0.5:], "slice ends must be whole numbers"),
        (np.array([True, False]), "its mask has 2 entries for 4 cells on axis 0"),
        (np.ones((4, 6), bool), "boolean index did not match"),
        ([0.5, 1.0], "indices must be whole numbers, not float64"),
    ],
    ids=str,
)
def test_keys_that_do_not_fit(library, key, text):
    F = meshed(sx.kmap(), [(..., here), (key, 1.0)])
    with pytest.raises(sx.RegionIndexError, match=r"does not fit the grid of shape \(4, 7\)") as info:
        run(library, F, sample(*PLANE))
    assert text in str(info.value)
    assert isinstance(info.value, IndexError)


@pytest.mark.parametrize(
    ("assignments", "cells"),
    [
        ([(0, 1.0)], "1:4, 0:7"),
        ([(np.s_[:, 1:], here)], "0:4, 0"),
        ([(np.s_[:, ::2], here)], "0:4, 1 and 0:4, 3 and 0:4, 5"),
        ([(np.s_[1:3, 2:5], here)], "0, 0:7"),
        ([(..., here)], None),
        ([(np.s_[:2], here), (np.s_[2:, :6], 0.0)], "2:4, 6"),
    ],
)
def test_cells_in_no_region(library, assignments, cells):
    x = sample(*PLANE)
    F = meshed(sx.kmap(padding="same", boundary="wrap"), assignments)
    if cells is None:
        agree(run(library, F, x), in_loops(x, assignments))
        return
    with pytest.raises(sx.RegionError, match="no region covers cells") as info:
        run(library, F, x)
    assert cells.split(" and ")[0] in str(info.value)


# Arrays as values


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (..., (4, 7)),
        (..., (7,)),
        (..., (4, 1)),
        (0, (7,)),
        (np.s_[:, 2], (4,)),
        (np.s_[1:3, 2:6], (2, 4)),
        (np.s_[1:3, 2:6], (2, 1)),
        (np.s_[1:3, 2:6], (4,)),
        (np.s_[::2, 1::3], (2, 2)),
        (np.s_[::-1, 5:0:-2], (4, 3)),
        ([3, 0], (2, 7)),
        (np.s_[:, [6, 1, 3]], (4, 3)),
        (np.s_[[0, 1, 3], [6, 2, 0]], (3,)),
        (MASK, (int(MASK.sum()),)),
        (np.s_[ROWS, 1:5], (3, 4)),
        (np.s_[1, 5], ()),
        (np.s_[1:3, 2:6], ()),
        (np.s_[2:2], (0, 7)),
    ],
    ids=str,
)
def test_arrays_broadcast_to_their_region(library, key, shape):
    value = sample(*shape, seed=7) + 0.125
    check(library, [(..., here), (key, np.asarray(value))])


def test_arrays_partly_overwritten(library):
    whole, row = sample(*PLANE, seed=7), sample(7, seed=8)
    check(library, [(..., whole), (np.s_[1:3, 2:6], ahead), (2, row), (MASK, behind)])
    check(library, [(np.s_[::2], whole[::2]), (np.s_[1::2], row), (np.s_[1:, 3:5], 0.5)])


def test_arrays_of_the_fields_library(library):
    x, row = sample(*PLANE), sample(7, seed=8)
    F = meshed(sx.kmap(padding="same", boundary="wrap", backend=library.backend), [(..., here)])
    F[1] = library.array(row)
    agree(library.numpy(F(library.array(x))), in_loops(x, [(..., here), (1, row)]))


@pytest.mark.parametrize("shape", [(6,), (3,), (2, 4, 7)], ids=str)
def test_an_array_that_does_not_broadcast(library, shape):
    F = meshed(sx.kmap(padding="same"), [(..., here), (np.s_[1:3, 2:6], sample(*shape))])
    with pytest.raises(sx.RegionError, match=r"F\[1:3, 2:6\]"):
        run(library, F, sample(*PLANE))


@pytest.mark.parametrize("value", ["wrap", None, [1.0, 2.0], {"a": 1}], ids=repr)
def test_what_no_region_takes(value):
    with pytest.raises(sx.RegionError, match="a region takes a kernel, a number or an array, not"):
        sx.kmap()[0] = value


# dtypes


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("number", [1, 1.5, True])
def test_numbers_join_as_python_numbers(library, dtype, number):
    """An int kernel beside 1.5 gives floats; a float32 kernel stays float32."""
    x = sample(5, dtype=dtype)
    got = run(library, meshed(sx.kmap(relative=True), [(np.s_[:], lambda u: u[0] * 2), (1, number)]), x)
    expected = (2 * x).astype(np.result_type(dtype, number))
    expected[1] = number
    assert got.dtype.kind == expected.dtype.kind
    if np.issubdtype(dtype, np.floating):
        assert got.dtype == dtype
    agree(got.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float64(1.5), np.float64), (np.array([1.5, 2.5]), np.float64), (np.array([1, 2], np.int32), np.float32)],
)
def test_arrays_join_as_arrays(library, value, expected):
    if np.asarray(value).dtype.kind == "i" and library.name != "array_api-strict":
        expected = None  # libraries differ in what float32 and int32 make
    x = sample(5, dtype=np.float32)
    got = run(library, meshed(sx.kmap(relative=True), [(np.s_[:], lambda u: u[0]), (np.s_[1:3], value)]), x)
    wanted = x.astype(np.float64)
    wanted[1:3] = value
    agree(got.astype(np.float64), wanted)
    if expected is not None and isinstance(value, np.ndarray):
        assert got.dtype == expected


def test_kernels_of_two_dtypes(library):
    x = sample(5, dtype=np.float32)
    F = meshed(sx.kmap(relative=True), [(np.s_[:], lambda u: u[0] * 2), (np.s_[2:], lambda u: u[0] + np.float64(1))])
    expected = (2 * x).astype(np.float64)
    expected[2:] = x[2:] + 1
    agree(run(library, F, x).astype(np.float64), expected)


def test_smap_keeps_the_dtype_of_its_field(library):
    x = sample(5, dtype=np.float32)
    assert run(library, meshed(sx.smap(), [(1, 2.5), (2, lambda u: 2 * u[1])]), x).dtype == np.float32
    n = sample(5, dtype=np.int64)
    assert run(library, meshed(sx.smap(), [(1, 2), (2, lambda u: 2 * u[1])]), n).dtype == np.int64
    assert run(library, meshed(sx.smap(), [(1, 2.5)]), n).dtype.kind == "f"
    assert run(library, meshed(sx.smap(), [(1, lambda u: u[0] > 0)]), x).dtype == np.float32


# Patches and trees


class Both(NamedTuple):
    left: Any
    right: Any


def test_patches_in_regions(library):
    x = sample(6)
    F = sx.kmap(kernel_size=2, padding="same", boundary=0.5)
    F[:] = lambda w: w
    F[1:3] = lambda w: -2 * w[::-1]
    F[-1] = 7.0
    expected = loop_map(lambda w: w, x, [(0, 1)], padding="same", rules=0.5)
    expected[1:3] = -2 * expected[1:3, ::-1]
    expected[-1] = 7
    agree(run(library, F, x), expected)


def test_patches_behind_a_mask(library):
    x = sample(3, 5)
    F = sx.kmap(kernel_size=(1, 2), padding="same", boundary="wrap")
    F[...] = lambda w: w
    F[x > 0] = lambda w: 3 * w
    F[[0, 2], [1, 4]] = -1.0
    expected = loop_map(lambda w: w, x, [(0, 0), (0, 1)], padding="same", rules="wrap")
    expected[x > 0] *= 3
    expected[[0, 2], [1, 4]] = -1
    agree(run(library, F, x), expected)


def test_trees_in_regions(library):
    x = sample(6)
    F = sx.kmap(padding="same", boundary="edge")
    F[:] = lambda u: {"p": Both(u[-1], u[1]), "q": u[0]}
    F[2:4] = lambda u: {"q": 2 * u[0], "p": Both(u[1], -u[-1])}
    F[0] = 0.25
    before, after = np.pad(x, 1, mode="edge")[:-2], np.pad(x, 1, mode="edge")[2:]
    got = run(library, F, x)
    assert isinstance(got["p"], Both)
    agree(got["p"].left, [0.25, *before[1:2], *after[2:4], *before[4:]])
    agree(got["p"].right, [0.25, *after[1:2], *-before[2:4], *after[4:]])
    agree(got["q"], [0.25, *x[1:2], *2 * x[2:4], *x[4:]])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda u: u[0], lambda u: (u[0], u[0])),
        (lambda u: {"a": u[0]}, lambda u: {"b": u[0]}),
        (lambda u: u[-1:2], lambda u: u[0]),
        (lambda u: u[-1:2], lambda u: u[0:2]),
        (lambda u: (u[0], u[0]), lambda u: [u[0], u[0]]),
    ],
)
@pytest.mark.parametrize("key", [np.s_[2:], [0, 3, 4]], ids=str)
def test_kernels_of_one_mesh_return_the_same_things(library, first, second, key):
    F = meshed(sx.kmap(kernel_size=3, relative=True, padding="same"), [(np.s_[:], first), (key, second)])
    with pytest.raises(sx.RegionError, match="the kernels of the regions return different things"):
        run(library, F, sample(6))


# smap: what no region holds keeps its old value


@pytest.mark.parametrize("name", KEYS)
def test_smap_keeps_old_values_elsewhere(library, name):
    x = sample(*PLANE)
    assignments = [(KEYS[name], ahead)]
    F = meshed(sx.smap(boundary="wrap"), assignments)
    agree(run(library, F, x), in_loops(x, assignments, x))


def test_smap_without_a_region_for_some_cells(library):
    x = sample(*PLANE)
    assignments = [(np.s_[1:-1], ahead), (np.s_[:, 0], behind), (np.s_[2, 3:], -1.5)]
    agree(run(library, meshed(sx.smap(boundary="wrap"), assignments), x), in_loops(x, assignments, x))


OFFSETS: list[Any] = [0, 1, (1, 0), ((1, 0), 2), (0, (0, 3)), ((2, 1), (1, 2)), (np.int64(1), (0, np.uint8(2)))]


def frame(offset: Any, shape: Sequence[int], strides: Any = 1) -> tuple[slice, ...]:
    """The cells that an smap computes, as a key."""
    entries = offset if isinstance(offset, tuple) else (offset,) * len(shape)
    pairs = [e if isinstance(e, tuple) else (e, e) for e in entries]
    steps = strides if isinstance(strides, tuple) else (strides,) * len(shape)
    return tuple(slice(int(a), int(n - b), s) for (a, b), n, s in zip(pairs, shape, steps, strict=True))


@pytest.mark.parametrize("offset", OFFSETS, ids=str)
def test_the_offset_is_a_margin_that_keeps_its_values(library, offset):
    x = sample(*PLANE)
    expected, whole = x.copy(), in_loops(x, [(..., ahead)])
    expected[frame(offset, PLANE)] = whole[frame(offset, PLANE)]
    agree(run(library, sx.smap(ahead, offset=offset, boundary="wrap"), x), expected)


@pytest.mark.parametrize("offset", [2, ((4, 0), 0), ((1, 3), (3, 4))], ids=str)
def test_a_margin_of_all_cells_keeps_all_values(library, offset):
    x = sample(*PLANE)
    agree(run(library, sx.smap(ahead, offset=offset, boundary="wrap"), x), x)


@pytest.mark.parametrize("offset", [0, (1, 0), ((0, 1), (2, 1))], ids=str)
@pytest.mark.parametrize("strides", [2, (1, 3), (3, 2), (5, 9)], ids=str)
def test_strides_step_over_cells_of_an_smap(library, strides, offset):
    x = sample(*PLANE)
    expected, whole = x.copy(), in_loops(x, [(..., ahead)])
    key = frame(offset, PLANE, strides)
    expected[key] = whole[key]
    agree(run(library, sx.smap(ahead, offset=offset, strides=strides, boundary="wrap"), x), expected)


@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize(
    "options", [{"offset": ((1, 0), 2)}, {"strides": (2, 3)}, {"offset": 1, "strides": 2}], ids=str
)
def test_keys_of_an_smap_count_cells_of_the_array(library, options, name):
    """A region holds where it meets the computed cells."""
    x = sample(*PLANE)
    computed = frame(options.get("offset", 0), PLANE, options.get("strides", 1))
    whole = in_loops(x, OVERLAPS[name], x)
    expected = x.astype(whole.dtype)
    expected[computed] = whole[computed]
    F = meshed(sx.smap(boundary="wrap", **options), OVERLAPS[name])
    agree(run(library, F, x), expected)


def test_smap_with_a_dilated_window(library):
    x = sample(*PLANE)
    whole = loop_map(ahead, x, REACH, relative=True, dilation=(2, 3), padding="same", rules="reflect")
    got = run(library, sx.smap(ahead, dilation=(2, 3), boundary="reflect"), x)
    agree(got, whole)


def test_arrays_in_an_smap_with_a_margin(library):
    x, value = sample(*PLANE), sample(7, seed=3)
    expected = x.copy()
    expected[1:-1, 1:-1] = np.broadcast_to(value, PLANE)[1:-1, 1:-1]
    expected[2, 1:-1] = 0.5
    F = meshed(sx.smap(offset=1), [(..., value), (2, 0.5)])
    agree(run(library, F, x), expected)


@pytest.mark.parametrize("kernel", [lambda u: (u[0], u[1]), lambda u: u[-1:2], lambda u: {"a": u[0]}])
def test_smap_takes_scalars_only(library, kernel):
    returned: Callable[..., Any] = kernel
    with pytest.raises(sx.KernelError, match="one number is written into each cell, but"):
        run(library, sx.smap(returned, kernel_size=3, relative=True), sample(6))


def test_two_fields_in_an_smap(library):
    u, h = sample(*PLANE), sample(*PLANE, seed=1)
    F = sx.smap(fields=2, boundary={"u": "wrap", "h": "edge"}, offset=(1, 0))
    F[:, :3] = lambda u, h: u[0, 1] - h[-1, 0]
    F[:, 5:] = lambda u, h: h[0, 1] * u[1, 0]
    right, up = np.pad(h, ((0, 0), (0, 1)), mode="edge")[:, 1:], np.pad(h, ((1, 0), (0, 0)), mode="edge")[:-1]
    expected = u.copy()
    expected[1:-1, :3] = (np.roll(u, -1, 1) - up)[1:-1, :3]
    expected[1:-1, 5:] = (right * np.roll(u, -1, 0))[1:-1, 5:]
    agree(run(library, F, u, h), expected)
