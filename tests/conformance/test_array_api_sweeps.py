"""Sweeps in any array library: the numbers of plain loops and of the NumPy backend, by every schedule; gradients."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stencilx_array_api import BACKEND

import stencilx as sx

from .plain_loops import agree, sample

HAS_TORCH = importlib.util.find_spec("torch") is not None


def read_only(array: np.ndarray) -> np.ndarray:
    array = np.array(array)
    array.flags.writeable = False
    return array


def tensor(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.array(array))


ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": np.array,
    "read_only": read_only,
    "strict": array_api_strict.asarray,
    "torch": tensor,
}


@pytest.fixture(params=ARRAYS)
def array(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Any]:
    """Makes an array of each library that is installed."""
    if request.param == "torch" and not HAS_TORCH:
        pytest.skip('torch is not installed: pip install "stencilx[torch]" runs these cases too')
    return ARRAYS[request.param]


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip(
        "torch", reason='torch is not installed: pip install "stencilx[torch]" runs these cases too'
    )


def as_numpy(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(as_numpy, result))
    return np.asarray(getattr(result, "_array", result))


def meshed(stencil: Any, regions: Sequence[tuple[Any, Any]]) -> Any:
    for key, value in regions:
        stencil[key] = value
    return stencil


def near(u: Any) -> Any:
    """Reads behind and ahead, on both axes, with no symmetry."""
    return 0.5 * u[-1, 0] - 0.25 * u[0, -1] + 0.75 * u[1, 0] - u[0, 1] / 8 + u[-1, 1] / 4


def above(u: Any) -> Any:
    """Of what is new only the row before."""
    return u[-1, 0] - 0.5 * u[-1, 1] + 0.25 * u[0, 1]


def ahead(u: Any) -> Any:
    """Nothing new: what lies ahead alone."""
    return u[1, 0] - 0.5 * u[0, 1]


# Against plain loops

INDEX = {"wrap": lambda i, n: i % n, "edge": lambda i, n: min(max(i, 0), n - 1)}


def looped(x: np.ndarray, kernel: Any, rule: Any, cells: Sequence[tuple[int, int]]) -> np.ndarray:
    """One cell after the other; a read outside the array is looked up in the array as it is then."""
    state = x.copy()

    class Window:
        def __init__(self, cell: tuple[int, int]) -> None:
            self.cell = cell

        def __getitem__(self, offset: tuple[int, int]) -> Any:
            place = [c + o for c, o in zip(self.cell, offset)]
            if rule not in INDEX:
                inside = all(0 <= i < n for i, n in zip(place, x.shape))
                return state[tuple(place)] if inside else rule
            return state[tuple(INDEX[rule](i, n) for i, n in zip(place, x.shape))]

    for cell in cells:
        state[cell] = kernel(Window(cell))
    return state


@pytest.mark.parametrize("rule", ["wrap", "edge", 2.5])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("schedule", ["auto", "cells", "wavefront"])
def test_plain_loops(array, schedule, reverse, rule):
    x = sample(3, 5)
    cells = list(np.ndindex(3, 5))[:: -1 if reverse else 1]
    F = sx.kscan(near, padding="same", boundary=rule, reverse=reverse, schedule=schedule, backend="array_api")
    agree(as_numpy(F(array(x))), looped(x, near, rule, cells), np.float64)


def test_rows_and_parallel(array):
    x, cells = sample(4, 5), list(np.ndindex(4, 5))
    for kernel, name in [(above, "rows"), (ahead, "parallel")]:
        F = sx.kscan(kernel, padding="same", boundary=0.5, backend="array_api")
        assert F.schedule(array(x)) == name
        agree(as_numpy(F(array(x))), looped(x, kernel, 0.5, cells), np.float64)


def test_margins_and_strides_keep_their_values(array):
    x = sample(6, 7)
    F = sx.sscan(near, offset=((1, 2), 1), strides=(1, 2), backend="array_api")
    cells = [(i, j) for i in range(1, 4) for j in range(1, 6, 2)]
    agree(as_numpy(F(array(x))), looped(x, near, 0, cells), np.float64)


# Against the NumPy backend


class Case(NamedTuple):
    sweep: Callable[..., Any]
    regions: list[tuple[Any, Any]]
    fields: list[np.ndarray]


@st.composite
def cases(draw: Any) -> Case:
    shape = tuple(draw(st.lists(st.integers(2, 5), min_size=1, max_size=3)))
    ndim, fields = len(shape), draw(st.integers(1, 2))
    offsets = st.lists(st.tuples(*[st.integers(-1, 1)] * ndim), min_size=1, max_size=3)
    reads = [(number, offset, draw(st.integers(-4, 4)) / 8) for number in range(fields) for offset in draw(offsets)]
    updates = draw(st.sampled_from([["u"], ["h"], ["u", "h"]] if fields == 2 else [["u"]]))

    def kernel(*windows: Any) -> Any:
        value = sum(weight * windows[number][offset] for number, offset, weight in reads) + 0.25
        return value if len(updates) == 1 else (value, 1 - value * value / 8)

    def u_alone(u: Any) -> Any:
        return kernel(u)

    def u_and_h(u: Any, h: Any) -> Any:
        return kernel(u, h)

    key = st.one_of(
        st.tuples(*[st.slices(n) for n in shape]),
        st.tuples(*[st.integers(0, n - 1) for n in shape]),
        st.integers(0, 99).map(lambda seed: sample(*shape, seed=seed) > 4),
    )
    number = st.sampled_from([0.5, -2, 1.25])
    extra = draw(st.lists(st.tuples(key, number), max_size=2))
    rule = st.sampled_from([0, 1.5, "wrap", "edge", "reflect", "symmetric"])
    options = {
        "fields": ("u", "h")[:fields],
        "updates": updates,
        "boundary": {axis: (draw(rule), draw(rule)) for axis in range(ndim)},
        "strides": draw(st.sampled_from([1, 1, 2])),
        "reverse": draw(st.booleans()),
        "kernel_size": draw(st.sampled_from([None, 3])),
        "relative": True,
    }
    place = {"offset": draw(st.integers(0, 1))} if draw(st.booleans()) else {"padding": "same"}
    maker = sx.sscan if "offset" in place else sx.kscan
    regions = [(..., u_alone if fields == 1 else u_and_h), *extra]
    return Case(
        lambda **more: maker(**options, **place, **more), regions, [sample(*shape, seed=s) for s in range(fields)]
    )


@settings(max_examples=40, deadline=None)
@given(case=cases(), library=st.sampled_from([name for name in ARRAYS if HAS_TORCH or name != "torch"]))
def test_random_sweeps(case, library):
    array = ARRAYS[library]
    try:
        expected = meshed(case.sweep(backend="numpy"), case.regions)(*case.fields)
    except (sx.RegionIndexError, sx.RegionError):
        return
    given_arrays = [array(x) for x in case.fields]
    for schedule in ("auto", "rows", "cells", "wavefront", "associative"):
        F = meshed(case.sweep(backend="array_api", schedule=schedule), case.regions)
        try:
            got = as_numpy(F(*given_arrays))
        except sx.ScheduleError:
            assert schedule in ("rows", "associative")
            continue
        assert isinstance(got, tuple) == isinstance(expected, tuple)
        for g, e in zip(got if isinstance(got, tuple) else (got,), expected if isinstance(got, tuple) else (expected,)):
            agree(g, e, np.float64)
    for x, before in zip(given_arrays, case.fields):
        np.testing.assert_array_equal(as_numpy(x), before)


def both(array: Any, stencil: Any, *arguments: Any) -> np.ndarray:
    """A sweep on a library's arrays, compared with the NumPy backend."""
    expected = stencil.with_backend("numpy")(*arguments)
    on_library = [array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    got = as_numpy(stencil.with_backend("array_api")(*on_library))
    agree(got, expected, expected.dtype)
    return got


@pytest.mark.parametrize("kernel", [near, above, ahead])
@pytest.mark.parametrize("maker", [sx.kscan, sx.sscan])
def test_regions(array, maker, kernel):
    mask = sample(4, 6, seed=5) > 8
    row, plane = np.arange(6) / 4, sample(4, 6, seed=8)
    F = maker(boundary="wrap", **({"padding": "same"} if maker is sx.kscan else {}))
    for key, value in [(..., kernel), (0, row), (np.s_[2:, ::2], -1.5), (mask, above), (np.s_[1, 1:3], plane[1, 1:3])]:
        F[key] = value
        both(array, F, sample(4, 6))


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_along_two_axes(array, reverse):
    """Ghosts of both walked axes meet in corners, which the later axis holds."""
    step = 1 if reverse else -1

    def kernel(u: Any) -> Any:
        return u[step, step, 0] / 2 - u[0, step, 1] + u[-step, step, -1] / 4 + u[0, 0, 0]

    for boundary in ({0: 1.5, 1: 2.5, 2: "edge"}, {0: "edge", 1: 2.5, 2: -1.5}, {0: 1.5, 1: ("edge", "reflect")}):
        F = sx.kscan(kernel, padding="same", boundary=boundary, reverse=reverse, schedule="rows")
        both(array, F, sample(3, 4, 5))


def test_array_windows(array):
    F = sx.kscan(
        lambda w: np.sum(w) / 4 - w[0, 0], kernel_size=(2, 3), dilation=(1, 2), padding="same", boundary="edge"
    )
    both(array, F, sample(3, 6))
    both(array, sx.sscan(lambda w: np.max(w) - w[0], kernel_size=4, offset=1, reverse=True), sample(9))


def test_a_field_of_faces(array):
    F = sx.kscan(
        lambda u, f: u[-1] + f[1] - f[0],
        fields=("u", "f"),
        kernel_size={"u": 3, "f": 2},
        padding={"u": "same", "f": 0},
        relative=True,
    )
    both(array, F, sample(5), sample(6, seed=3))


# Dtypes


def test_the_dtype_is_settled_before_the_sweep(array):
    x = np.array([3, 5, 8, 1], np.int32)
    got = as_numpy(sx.kscan(lambda u: u[0] + u[-1], padding="same", boundary=0.5, backend="array_api")(array(x)))
    agree(got, [3.5, 8.5, 16.5, 17.5])
    F = meshed(sx.sscan(backend="array_api"), [(..., lambda u: u[0] + u[-1]), (2, 0.5)])
    agree(as_numpy(F(array(x))), [3.0, 8.0, 0.5, 1.5])


def test_arrays_in_regions_join_the_dtype(array):
    F = meshed(sx.sscan(lambda u: u[-1] + u[0]), [(np.s_[1:3], np.array([0.5, 1.5]))])
    assert both(array, F, sample(5, dtype=np.float32)).dtype == np.float64


def test_parameters_of_another_kind_are_seen():
    F = sx.sscan(lambda u, c: c * u[-1] + u[0], kernel_size=3, relative=True, backend="array_api")
    x = np.array([1, 2, 3])
    agree(F(x, 2), [1, 4, 11], np.int64)
    agree(F(x, 0.5), [1, 2.5, 4.25], np.float64)
    agree(F(x.astype(np.float32), np.float64(0.5)), [1, 2.5, 4.25], np.float64)


def test_joined_takes_numbers_and_dtypes(array):
    x = array(np.zeros(2, np.int16))
    assert as_numpy(array(np.zeros(2, np.int64))).dtype == np.int64
    for joins, expected in [
        ((), np.int16),
        ((3, True), np.int16),
        ((np.dtype(np.int32),), np.int32),
        ((np.dtype(np.float32), 2.5), np.float32),
        ((2.5, np.dtype(np.float64)), np.float64),
        ((1j, array(np.zeros(1, np.float64)).dtype), np.complex128),
    ]:
        assert BACKEND.joined(x, joins) == array(np.zeros(1, expected)).dtype


# What is given stays as it is


@pytest.mark.parametrize("maker", [sx.kscan, sx.sscan])
@pytest.mark.parametrize(
    ("kernel", "region"), [(lambda u: u[0], ...), (lambda u: u[1], ...), (lambda u: u[-1], ...), (1.0, np.s_[0:0])]
)
def test_the_result_has_memory_of_its_own(array, maker, kernel, region):
    x = array(np.arange(4.0))
    F = maker(backend="array_api", **({"padding": "same"} if maker is sx.kscan else {}))
    result = meshed(F, [(..., lambda u: u[0]), (region, kernel)])(x)
    before = as_numpy(x).copy()
    result[...] = -1.0
    np.testing.assert_array_equal(as_numpy(x), before)


def test_a_sweep_that_writes_nothing_gives_a_copy(array):
    x = array(np.arange(4.0))
    result = meshed(sx.sscan(backend="array_api"), [(np.s_[0:0], 1.0)])(x)
    result[...] = -1.0
    np.testing.assert_array_equal(as_numpy(x), np.arange(4.0))


def test_out_is_written(array):
    x = sample(3, 5)
    F = sx.sscan(near, backend="array_api")
    out = np.zeros((3, 5)) if array is read_only else array(np.zeros((3, 5)))
    assert F(array(x), out=out) is out
    agree(as_numpy(out), F(x))


def test_no_cells():
    assert sx.kscan(lambda u: u[-1], padding="same", backend="array_api")(np.zeros((0,))).shape == (0,)
    x = np.arange(3.0)
    got = sx.sscan(lambda u: u[-1], offset=(1,), strides=2, backend="array_api")(x)
    agree(got, [0.0, 0.0, 2.0])
    agree(sx.sscan(near, offset=((1, 1), (2, 1)), backend="array_api")(np.ones((2, 3))), np.ones((2, 3)))


# Kernels are called as seldom as may be, and their errors are their own


def counted(kernel: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    sizes: list[int] = []

    def counting(u: Any) -> Any:
        sizes.append(u[0, 0].grid)
        return kernel(u)

    return counting, sizes


@pytest.mark.parametrize(
    ("kernel", "schedule", "steps"),
    [
        (ahead, "auto", [(3, 4)]),
        (above, "auto", [(1, 4)] * 3),
        (above, "cells", [(1,)] * 12),
        (lambda u: u[-1, 0] + u[0, -1], "auto", [(1,), (2,), (3,), (3,), (2,), (1,)]),
        (lambda u: u[-1, 0] + u[0, -1], "wavefront", [(1,), (2,), (3,), (3,), (2,), (1,)]),
    ],
)
def test_one_call_for_each_step(kernel, schedule, steps):
    counting, sizes = counted(kernel)
    sx.kscan(counting, padding="same", schedule=schedule, backend="array_api")(sample(3, 4))
    assert sizes[-len(steps) :] == steps
    assert len(sizes) - len(steps) <= 2  # what it reads, and of which dtype its results are


def test_errors(array):
    x = array(sample(3, 4))

    def sweep(kernel: Any, **options: Any) -> Any:
        return sx.kscan(kernel, padding="same", backend="array_api", **options)(x)

    with pytest.raises(sx.KernelError, match=r"one number is written into each cell, but <lambda> returns 2 values"):
        sweep(lambda u: (u[0, 0], u[0, 1]))
    with pytest.raises(sx.KernelError, match=r"one number is written into each cell.* an array of shape \(3, 3\)"):
        sweep(lambda u: u, kernel_size=3)
    with pytest.raises(sx.KernelError, match=r"<lambda> returns the window itself"):
        sweep(lambda u: u, kernel_size=3, relative=True)
    with pytest.raises(sx.KernelError, match=r"cannot evaluate `np.lexsort` on whole slices"):
        sweep(lambda u: np.lexsort((u, u)), kernel_size=3)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        sweep(lambda u: u[0, -1] + 1 / 0)


# Gradients


@pytest.mark.parametrize("maker", [sx.kscan, sx.sscan])
@pytest.mark.parametrize(
    ("kernel", "schedule"), [(near, "cells"), (near, "wavefront"), (above, "rows"), (ahead, "parallel")]
)
def test_gradients(torch, maker, kernel, schedule):
    def nonlinear(u: Any, c: Any) -> Any:
        return c[0] * kernel(u) ** 2 + c[1] * u[0, 0]

    place = {"padding": "same"} if maker is sx.kscan else {"offset": ((1, 0), 1)}  # no ghosts: reads are views
    F = maker(nonlinear, boundary={0: "edge", 1: 0.5}, schedule=schedule, backend="array_api", **place)
    F = meshed(F, [(np.s_[1, 1:3], lambda u, c: u[0, 1] * c[1]), (np.s_[-1, 1], 0.25)])
    x = tensor(sample(3, 4) / 16).requires_grad_()
    c = tensor(np.array([0.25, 0.5])).requires_grad_()
    assert F.schedule(x, c) == schedule
    assert torch.autograd.gradcheck(F, (x, c))


def test_gradients_of_several_updates(torch):
    def kernel(u: Any, h: Any) -> Any:
        return u[-1] * h[0] + u[1], h[-1] - u[0] ** 2

    F = sx.kscan(kernel, fields=("u", "h"), updates=("u", "h"), padding="same", boundary="edge", reverse=True)
    u, h = (tensor(sample(5, seed=s) / 16).requires_grad_() for s in range(2))
    assert torch.autograd.gradcheck(F.with_backend("array_api"), (u, h))
