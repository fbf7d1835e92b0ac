"""Cells that do not exist: reads of them, results in them, conservation; against loops that look along the grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stencilx as sx
from stencilx.boundary import Constant, Dirichlet, Edge, Extrapolate, Neumann, Reflect, Robin, Symmetric

from .plain_loops import agree, run, sample

WET = np.array(
    [
        [1, 1, 0, 1, 1, 1, 1],
        [1, 0, 0, 1, 1, 0, 1],
        [1, 1, 1, 1, 0, 0, 1],
        [0, 1, 1, 1, 1, 1, 1],
        [0, 1, 1, 0, 1, 1, 0],
    ],
    bool,
)
DX = 0.5
RULES = [
    Constant(1.5),
    Edge(),
    Symmetric(),
    Reflect(),
    Reflect(odd=True),
    Symmetric(odd=True),
    Extrapolate(1),
    Dirichlet(2.0),
    Dirichlet(2.0, at="node"),
    Neumann(-1.5, DX),
    Neumann(-1.5, DX, at="node"),
    Robin(2.0, 1.0, 3.0, DX),
    Robin(2.0, 1.0, 3.0, DX, at="node"),
]


def formula(rule: Any, k: int, u: Any) -> Any:
    """The k-th ghost behind a wall, from the cells before it: each rule's textbook formula."""
    match rule:
        case Constant(value):
            return value
        case Edge():
            return u(0)
        case Symmetric(odd):
            return 2 * u(0) - u(k - 1) if odd else u(k - 1)
        case Reflect(odd):
            return 2 * u(0) - u(k) if odd else u(k)
        case Extrapolate():
            return u(0) + k * (u(0) - u(1))
        case Dirichlet(value, at):
            return 2 * value - (u(k - 1) if at == "face" else u(k))
        case Neumann(slope, dx, at):
            return u(k - 1) + (2 * k - 1) * dx * slope if at == "face" else u(k) + 2 * k * dx * slope
        case Robin(a, b, g, dx, "node"):
            return u(k) + 2 * k * dx * (g - a * u(0)) / b
        case Robin(a, b, g, dx, _):
            first = (g - u(0) * (a / 2 - b / dx)) / (a / 2 + b / dx)
            return u(k - 1) + (2 * k - 1) * (first - u(0))
    raise AssertionError(rule)


class Looking:
    """What a cell sees of a field with a mask; arrays go on beyond their ends as they are given, padded by `pad`."""

    def __init__(self, x: np.ndarray, wet: np.ndarray, rule: Any, pad: int) -> None:
        self.x, self.wet, self.rule, self.pad = x, wet, rule, pad

    def __call__(self, cell: tuple[int, ...], offset: tuple[int, ...]) -> Any:
        at = tuple(c + o + self.pad for c, o in zip(cell, offset))
        if self.wet[at]:
            return self.x[at]
        moves = [axis for axis in range(len(offset)) if offset[axis]]
        for axis in reversed(moves):
            step = 1 if offset[axis] > 0 else -1
            line = [self.moved(at, axis, -step * depth) for depth in range(1, abs(offset[axis]) + 1)]
            for depth, place in enumerate(line, start=1):
                if self.wet[place]:
                    return formula(self.rule, depth, lambda j, p=place, a=axis, s=step: self.inwards(p, a, -s, j))
        axis = moves[-1]
        before = (*offset[:axis], 0, *offset[axis + 1 :])
        first, step = self(cell, before), 1 if offset[axis] > 0 else -1
        start = tuple(c + o + self.pad for c, o in zip(cell, before))
        return formula(
            self.rule, abs(offset[axis]), lambda j: first if j == 0 else self.inwards(start, axis, -step, j, first)
        )

    def moved(self, place: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
        return (*place[:axis], place[axis] + by, *place[axis + 1 :])

    def inwards(self, place: tuple[int, ...], axis: int, step: int, j: int, first: Any = None) -> Any:
        """The j-th cell from a wall on; the last one that exists counts for those that lack."""
        found = self.x[place] if first is None else first
        for i in range(1, j + 1):
            there = self.moved(place, axis, step * i)
            found = self.x[there] if self.wet[there] else found
        return found


def looked(x: np.ndarray, wet: np.ndarray, rule: Any, kernel: Any, pad: int = 6) -> np.ndarray:
    """The kernel in all cells that exist, 0 in the others, with copies of the end cells outside."""
    see = Looking(np.pad(x, pad, mode="edge"), np.pad(wet, pad, mode="edge"), rule, pad)
    result = np.zeros(x.shape)
    for cell in np.ndindex(*x.shape):
        if wet[cell]:
            result[cell] = kernel(lambda *offset, cell=cell: see(cell, offset))
    return result


def field(wet: np.ndarray = WET, seed: int = 0) -> np.ndarray:
    """A field with rubbish where no cells are."""
    x = sample(*wet.shape, seed=seed)
    x[~wet] = np.nan
    return x


def star(u: Any) -> Any:
    return 0.5 * u(1, 0) - 2.0 * u(-1, 0) + 3.0 * u(0, 1) - 0.25 * u(0, -1) + u(0, 0)


def far(u: Any) -> Any:
    return u(2, 0) - 3.0 * u(-2, 0) + 0.5 * u(0, 3) - 2.0 * u(0, -2) + u(0, 1)


def skew(u: Any) -> Any:
    return u(1, 1) - 2.0 * u(-1, 1) + 0.5 * u(2, -1) - u(-1, -2)


def indexed(kernel: Any) -> Any:
    return lambda u: kernel(lambda *offset: u[offset])


@pytest.mark.parametrize("kernel", [star, far, skew])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_reads_of_missing_cells(library, rule, kernel):
    x, boundary = field(), {0: "edge", 1: "edge", "mask": rule}
    stencil = sx.kmap(indexed(kernel), padding="same", boundary=boundary, mask=WET)
    agree(run(library, stencil, x), looked(x, WET, rule, kernel))


def test_the_rule_of_an_axis_holds_for_walls_inside(library):
    """Axis by axis and side by side, as for the ends of the array."""
    inner = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    alone = np.zeros((3, 3), bool)
    alone[1, 1] = True
    stencil = sx.kmap(
        lambda u: u[-1, 0] + 10 * u[1, 0] + 100 * u[0, -1] + 1000 * u[0, 1],
        padding="same",
        boundary={0: (Dirichlet(2.0), "edge"), 1: (1.5, Neumann(3.0, DX))},
        mask=alone,
    )
    expected = (2 * 2.0 - 5.0) + 10 * 5.0 + 100 * 1.5 + 1000 * (5.0 + DX * 3.0)
    agree(run(library, stencil, inner), np.where(alone, expected, 0.0))


def test_values_may_be_parameters(library):
    x = field()
    stencil = sx.kmap(
        lambda u, wall: u[0, 1] + 2 * u[-1, 0], padding="same", boundary=Dirichlet(lambda wall: 3 * wall), mask=WET
    )
    expected = looked(x, WET, Dirichlet(4.5), lambda u: u(0, 1) + 2 * u(-1, 0))
    inner = (slice(1, None), slice(None, -1))  # the ends of the array have walls, too
    agree(run(library, stencil, x, 1.5)[inner], expected[inner])


def test_a_periodic_axis_with_islands(library):
    x, wet = field(), WET
    stencil = sx.kmap(lambda u: u[0, -1] - 2 * u[0, 1], padding="same", boundary={1: "wrap", "mask": "edge"}, mask=wet)
    expected = np.zeros(x.shape)
    for i, j in zip(*np.nonzero(wet)):
        west, east = (j - 1) % 7, (j + 1) % 7
        expected[i, j] = (x[i, west] if wet[i, west] else x[i, j]) - 2 * (x[i, east] if wet[i, east] else x[i, j])
    agree(run(library, stencil, x), expected)


def test_a_ghost_beyond_the_array_exists_if_its_cell_does(library):
    """Land at the end of the array: its mirror image is land, too, so the wall stands before it."""
    x, wet = np.array([np.nan, 3.0, 4.0, 6.0]), np.array([False, True, True, True])
    stencil = sx.kmap(lambda u: u[-2] + 0 * u[2], padding="same", boundary={0: Dirichlet(1.0)}, mask=wet)
    second, first = 2 * 1.0 - 4.0, 2 * 1.0 - 3.0  # behind the wall between cells 0 and 1
    agree(run(library, stencil, x), np.array([0.0, second, first, 3.0]))


def test_no_flux_conserves(library):
    rng = np.random.default_rng(5)
    wet = rng.random((8, 11)) < 0.7
    x = np.where(wet, rng.normal(size=wet.shape), np.nan)
    step = sx.kmap(
        lambda u, wet, dt: u[0, 0] + dt * (u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0]),
        padding="same",
        boundary="edge",
        mask="wet",
    )
    total, now = x[wet].sum(), x
    for _ in range(3 if library.backend == "numpy" else 20):
        now = run(library, step, now, wet, 0.2)
    assert abs(now.sum() - total) < 1e-12 * np.abs(x[wet]).sum()
    assert (now[~wet] == 0).all()


# Windows, fields, results


def test_array_windows(library):
    x = field()
    largest = sx.kmap(
        lambda w: w.__array_namespace__().max(w), kernel_size=3, padding="same", boundary=-np.inf, mask=WET
    )
    expected = np.zeros(x.shape)
    for i, j in zip(*np.nonzero(WET)):
        expected[i, j] = np.nanmax(np.pad(x, 1, constant_values=np.nan)[i : i + 3, j : j + 3])
    agree(run(library, largest, x), expected)


def test_smap_keeps_what_lies_under_the_mask(library):
    x = field()
    stencil = sx.smap(indexed(star), boundary="edge", mask=WET, offset=(1, 0))
    expected = np.where(WET, looked(x, WET, Edge(), star), x)
    expected[[0, -1]] = x[[0, -1]]
    agree(run(library, stencil, x), expected)


def test_masks_by_field(library):
    """Cells and faces: each field with the mask of its own shape; the first one says where results are."""
    h, u = np.array([1.0, np.nan, 4.0, 8.0]), np.array([5.0, np.nan, np.nan, 2.0, 1.0])
    wet, open_ = np.array([True, False, True, True]), np.array([True, False, False, True, True])
    stencil = sx.kmap(
        lambda h, u: 10 * h[0] + u[1] - u[0],
        fields=2,
        kernel_size={"h": 1, "u": 2},
        relative=True,
        boundary={"h": 0.0, "u": Constant(0.0)},
        mask={"h": wet, "u": open_},
    )
    agree(run(library, stencil, h, u), np.array([10 + 0.0 - 5, 0.0, 40 + 2.0 - 0.0, 80 + 1.0 - 2]))


def test_one_mask_for_all_fields_of_its_shape(library):
    x, y = field(), field(seed=3)
    stencil = sx.kmap(lambda u, v: u[0, 1] * v[1, 0], fields=2, padding="same", boundary="edge", mask=WET)
    east, south = (looked(f, WET, Edge(), k) for f, k in [(x, lambda u: u(0, 1)), (y, lambda u: u(1, 0))])
    agree(run(library, stencil, x, y), east * south)


def test_trees_patches_and_dtypes(library):
    x = np.arange(35).reshape(5, 7)
    stencil = sx.kmap(
        lambda u: {"sum": u[0, 0] + u[0, 1], "low": u[0, 0] < u[0, 1]}, padding="same", boundary="edge", mask=WET
    )
    result = run_tree(library, stencil, x)
    expected = np.where(WET, x + looked(x.astype(float), WET, Edge(), lambda u: u(0, 1)), 0)
    agree(result["sum"], expected)
    assert result["sum"].dtype.kind == "i"
    assert result["low"].dtype == bool
    assert not result["low"][~WET].any()


def run_tree(library: Any, stencil: Any, *arrays: Any) -> dict[str, np.ndarray]:
    result = stencil.with_backend(library.backend)(*map(library.array, arrays))
    return {key: library.numpy(value) for key, value in result.items()}


# Sweeps


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rule", [Edge(), Dirichlet(2.0), Constant(1.5)], ids=str)
def test_sweeps_around_islands(library, rule, reverse):
    """Gauss and Seidel's: a wall gives what the rule makes of the current value before it."""
    x = field()
    kernel = lambda u: 0.3 * u[-1, 0] + 0.2 * u[0, -1] + 0.1 * u[1, 0] + 0.25 * u[0, 1]  # noqa: E731
    boundary = {0: "edge", 1: "edge", "mask": rule}
    stencil = sx.sscan(kernel, boundary=boundary, mask=WET, reverse=reverse)
    now = x.copy()
    cells = list(zip(*np.nonzero(WET)))
    for i, j in reversed(cells) if reverse else cells:

        def near(di: int, dj: int, i: int = i, j: int = j) -> Any:
            there = min(max(i + di, 0), 4), min(max(j + dj, 0), 6)
            return now[there] if WET[there] else formula(rule, 1, lambda _: now[i, j])

        now[i, j] = 0.3 * near(-1, 0) + 0.2 * near(0, -1) + 0.1 * near(1, 0) + 0.25 * near(0, 1)
    agree(run(library, stencil, x), now)


# Between backends


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_backends_agree(data):
    shape = data.draw(st.sampled_from([(6,), (3, 5), (2, 3, 4)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    wet = rng.random(shape) < 0.6
    x = np.where(wet, rng.normal(size=shape), np.nan)
    offset = st.tuples(*[st.integers(-2, 2)] * len(shape))
    taps = data.draw(st.lists(offset, min_size=1, max_size=4))
    rule, ends = data.draw(st.sampled_from(RULES)), data.draw(st.sampled_from(["edge", "wrap", 1.5, Dirichlet(0.5)]))
    make = data.draw(st.sampled_from([sx.kmap, sx.kscan]))

    def kernel(u: Any) -> Any:
        return sum((n + 1) / 10 * u[tap] for n, tap in enumerate(taps)) + 0 * u[(0,) * len(shape)]

    boundary = dict.fromkeys(range(len(shape)), ends) | {"mask": rule}
    stencil = make(kernel, padding="same", boundary=boundary, mask=wet)
    expected = stencil.with_backend("numpy")(x)
    for backend in ("jax", "array_api"):
        np.testing.assert_allclose(np.asarray(stencil.with_backend(backend)(x)), expected, rtol=1e-9, atol=1e-12)


# Errors


def slope(u: Any, wet: Any = None) -> Any:
    return u[0, 1] - u[0, 0]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mask": WET.astype(int)}, "a mask must be an array of booleans, True for cells that exist, not int64"),
        ({"mask": [True]}, "a mask must be an array of booleans, True for cells that exist, not list"),
        ({"mask": WET[:3]}, r"the mask has shape \(3, 7\), and no field has: u \(5, 7\)"),
        ({"mask": {"u": WET[0]}}, r"the mask of field 'u' has shape \(7,\), the field \(5, 7\)"),
        ({"mask": {"v": WET}}, "mask names field 'v', and there is no such field"),
        ({"mask": "wat"}, "mask names parameter 'wat', which the call does not give"),
        ({"mask": WET, "boundary": "wrap"}, "'wrap' of field 'u' does not say what lies behind a wall inside"),
        (
            {"mask": WET, "boundary": {1: ("edge", Dirichlet(np.ones(5)))}},
            r"'dirichlet array\(5,\) at the face' has an array over a face, which walls inside do not have",
        ),
        (
            {"mask": WET, "boundary": {1: Extrapolate(1), "mask": "edge"}},
            "'extrapolate of order 1' of field 'u' might take cells that its mask says do not exist",
        ),
        (
            {"boundary": {1: "edge", "mask": "edge"}},
            "boundary names a rule for cells that do not exist, and there is no mask",
        ),
    ],
    ids=str,
)
def test_errors(library, options, text):
    stencil = sx.kmap(slope, **{"padding": "same", **options})
    with pytest.raises(sx.StencilError, match=text):
        run(library, stencil, field())


def test_two_fields_are_updated_where_cells_are(library):
    u, v, wet = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, np.nan, 1.0, 1.0]), np.array([True, False, True, True])
    sweep = sx.sscan(fields=2, updates=("u", "v"), boundary="edge", mask={"v": wet, "u": wet})
    sweep[...] = lambda u, v: (u[-1] + v[0], v[-1] + 1)
    stencil = sweep.with_backend(library.backend)
    new_u, new_v = (library.numpy(a) for a in stencil(library.array(u), library.array(v)))
    agree(new_u, np.array([2.0, 2.0, 4.0, 5.0]))
    agree(new_v, np.array([2.0, np.nan, 2.0, 3.0]))
    sweep[...] = lambda u, v: u[-1] + v[0]
    with pytest.raises(sx.KernelError, match="2 fields are updated, each by a number"):
        sweep.with_backend(library.backend)(library.array(u), library.array(v))
