"""Random stencils: all backends say what the NumPy backend says, and that says what plain loops say.

A case is drawn as a datum, so that a failure prints it whole; `build` makes a stencil of it for any backend.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import stencilx as sx

from .plain_loops import Around, Pair, extend, padding_pairs, taps

Index = tuple[int, ...]
Reach = tuple[Pair, ...]

RANDOM = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@dataclass(frozen=True)
class Kernel:
    """A sum of weighted reads of each field, some of them multiplied or bent: (field, offset, weight)."""

    reads: tuple[tuple[int, Index, float], ...]
    bend: str

    def __call__(self, *fields: Any) -> Any:
        terms = [weight * fields[number][offset] for number, offset, weight in self.reads]
        value = sum(terms[1:], start=terms[0])
        if self.bend == "square":
            return value * value + terms[0]
        if self.bend == "rational":
            return value / (terms[-1] * terms[-1] + 1.5)
        return value if self.bend == "none" else value * terms[0] - 0.25


@dataclass(frozen=True)
class Case:
    """Everything about a stencil and its arrays."""

    shapes: tuple[Index, ...]
    sizes: tuple[Index, ...] | None  # None: the windows are inferred
    reaches: tuple[Reach, ...]
    kernels: tuple[Kernel, ...]
    regions: tuple[tuple[Any, Any], ...]  # a key, and the number of a kernel or a float
    strides: Index
    dilation: Index
    padding: tuple[Any, ...]
    rules: tuple[Any, ...]
    relative: bool
    written: bool  # smap
    seed: int

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.seed)
        return [np.round(rng.normal(0.1, 1, shape), 3) for shape in self.shapes]


FIELDS = ("u", "h")


# Drawing


def small(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


def rules() -> st.SearchStrategy[Any]:
    one = st.sampled_from(["wrap", "edge", "reflect", "symmetric", 0, 0.75, -1.25])
    return st.one_of(one, st.tuples(one, one))


@st.composite
def kernels(draw: Any, sizes: tuple[Index, ...]) -> Kernel:
    reads = []
    for number, size in enumerate(sizes):
        for _ in range(draw(small(1, 3))):
            offset = tuple(draw(small(*taps(k))) for k in size)
            reads.append((number, offset, draw(small(-8, 8).filter(bool)) / 4))
    return Kernel(tuple(reads), draw(st.sampled_from(["none", "square", "rational", "product"])))


def axis_keys(n: int) -> st.SearchStrategy[Any]:
    ends = st.one_of(st.none(), small(-n - 1, n + 1))
    steps = st.sampled_from([None, 1, 2, 3, -1, -2])
    return st.one_of(st.builds(slice, ends, ends, steps), small(-n, n - 1), st.just(slice(None)))


@st.composite
def keys(draw: Any, grid: Index) -> Any:
    kind = draw(st.sampled_from(["axes", "axes", "axes", "dots", "mask", "list"]))
    if kind == "mask":
        return np.random.default_rng(draw(small(0, 99))).random(grid) < 0.4
    if kind == "dots":
        return (..., draw(axis_keys(grid[-1])))
    key = [draw(axis_keys(n)) for n in grid[: draw(small(1, len(grid)))]]
    if kind == "list":
        place = draw(small(0, len(key) - 1))
        key = [k if isinstance(k, slice) else slice(None) for k in key]
        key[place] = draw(st.lists(small(-grid[place], grid[place] - 1), max_size=3))
    return tuple(key)


def grid_of(shape: Index, reach: Reach, strides: Index, dilation: Index, padding: Any) -> Index:
    rows = zip(shape, reach, strides, dilation, padding_pairs(padding, reach, dilation), strict=True)
    return tuple((n + sum(pair) - (hi - lo) * d - 1) // s + 1 for n, (lo, hi), s, d, pair in rows)


def hull(used: list[Kernel], number: int, ndim: int) -> Reach:
    """The smallest window of a field that holds the centre and all reads."""
    offsets = [(0,) * ndim, *(offset for kernel in used for n, offset, _ in kernel.reads if n == number)]
    return tuple((min(column), max(column)) for column in zip(*offsets, strict=True))


@st.composite
def paddings(draw: Any, ndim: int) -> tuple[Any, ...]:
    entry = st.one_of(st.sampled_from(["valid", "same"]), small(-1, 3), st.tuples(small(-1, 3), small(-1, 3)))
    return tuple(draw(entry) for _ in range(ndim))


@st.composite
def cases(draw: Any) -> Case:
    ndim, count, written = draw(small(1, 3)), draw(small(1, 2)), draw(st.booleans())
    shape = tuple(draw(small(1, {1: 9, 2: 6, 3: 4}[ndim])) for _ in range(ndim))
    strides = tuple(draw(st.sampled_from([1, 1, 1, 2, 3])) for _ in range(ndim))
    dilation = tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in range(ndim))
    sizes = tuple(tuple(draw(small(1, 4 if ndim < 3 else 3)) for _ in range(ndim)) for _ in range(count))
    padding = ("same",) * ndim if written else draw(paddings(ndim))
    chosen = tuple(draw(kernels(sizes)) for _ in range(draw(small(1, 3))))
    values = draw(st.lists(st.one_of(small(0, len(chosen) - 1), st.sampled_from([1.5, -0.25])), max_size=3))
    covered = not written or not values or draw(st.booleans())
    values = [0, *values] if covered else values
    used = [chosen[value] for value in values if isinstance(value, int)]
    assume(used)
    inferred = draw(st.sampled_from([False, False, True]))
    reaches = tuple(hull(used, n, ndim) if inferred else tuple(map(taps, sizes[n])) for n in range(count))
    shapes = [shape, *(alike(shape, reaches, dilation, padding) for _ in range(count - 1))]
    grid = grid_of(shape, reaches[0], strides, dilation, padding)
    assume(all(n >= 1 for n in grid) and all(n >= 1 for s in shapes for n in s))
    selected = [draw(keys(shape if written else grid)) for _ in values]
    selected[0] = ... if covered else selected[0]
    return Case(
        tuple(shapes),
        None if inferred else sizes,
        reaches,
        chosen,
        tuple(zip(selected, values, strict=True)),
        strides,
        dilation,
        padding,
        tuple({axis: draw(rules()) for axis in range(ndim)} for _ in range(count)),
        relative=inferred or draw(st.booleans()),
        written=written,
        seed=draw(small(0, 999)),
    )


def alike(shape: Index, reaches: tuple[Reach, ...], dilation: Index, padding: Any) -> Index:
    """The shape of a second field whose windows make the same grid."""
    first, second = ([(hi - lo) * d for (lo, hi), d in zip(r, dilation, strict=True)] for r in reaches)
    rows = zip(shape, first, second, padding, strict=True)
    return tuple(n if p == "same" else n + b - a for n, a, b, p in rows)


# Building


def of_windows(kernel: Kernel, reaches: tuple[Reach, ...]) -> Kernel:
    """The same kernel on array windows, which are indexed from their corner."""
    lows = [[low for low, _ in reach] for reach in reaches]
    reads = tuple(
        (number, tuple(o - low for o, low in zip(offset, lows[number], strict=True)), weight)
        for number, offset, weight in kernel.reads
    )
    return Kernel(reads, kernel.bend)


def build(case: Case, backend: str) -> Any:
    count = len(case.shapes)
    options: dict[str, Any] = {
        "kernel_size": case.sizes and dict(zip(FIELDS, case.sizes)),
        "boundary": dict(zip(FIELDS, case.rules)),
        "strides": case.strides,
        "dilation": case.dilation,
        "relative": case.relative,
        "fields": FIELDS[:count],
        "backend": backend,
    }
    F = sx.smap(**options) if case.written else sx.kmap(padding=case.padding, **options)
    made = [named(k if case.relative else of_windows(k, case.reaches), count) for k in case.kernels]
    for key, value in case.regions:
        F[key] = made[value] if isinstance(value, int) else value
    return F


def named(kernel: Kernel, count: int) -> Any:
    if count == 1:
        return lambda u: kernel(u)
    return lambda u, h: kernel(u, h)


# Plain loops


def placed_windows(case: Case) -> Iterator[tuple[Index, list[Around]]]:
    """Each cell's windows: the ghosts by np.pad, the rest by index arithmetic."""
    grids, whole, starts = [], [], []
    for array, reach, rules in zip(case.arrays(), case.reaches, case.rules, strict=True):
        pairs = padding_pairs(case.padding, reach, case.dilation)
        ghosts = [(max(a, 0), max(b, 0)) for a, b in pairs]
        whole.append(extend(array, ghosts, rules))
        starts.append([max(-a, 0) for a, _ in pairs])
        grids.append(grid_of(array.shape, reach, case.strides, case.dilation, case.padding))
    assert len(set(grids)) == 1
    for cell in np.ndindex(*grids[0]):
        views = []
        for array, reach, start in zip(whole, case.reaches, starts, strict=True):
            rows = zip(cell, case.strides, start, case.dilation, reach, strict=True)
            taken = [[c * s + a + i * d for i in range(hi - lo + 1)] for c, s, a, d, (lo, hi) in rows]
            views.append(Around(array[np.ix_(*taken)], [lo for lo, _ in reach]))
        yield cell, views


def in_loops(case: Case) -> np.ndarray:
    cells = list(placed_windows(case))
    grid = tuple(n + 1 for n in cells[-1][0])
    field = case.arrays()[0]
    owner = np.full(field.shape if case.written else grid, -1)
    for number, (key, _) in enumerate(case.regions):
        owner[key] = number
    out = field.copy() if case.written else np.empty(grid)
    for cell, views in cells:
        place = tuple(c * s for c, s in zip(cell, case.strides, strict=True)) if case.written else cell
        if owner[place] >= 0:
            value = case.regions[owner[place]][1]
            out[place] = case.kernels[value](*views) if isinstance(value, int) else value
    return out


# Values


def close(got: Any, expected: np.ndarray) -> None:
    got = np.asarray(got)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


@RANDOM
@given(cases())
def test_the_reference_says_what_plain_loops_say(case):
    close(build(case, "numpy")(*case.arrays()), in_loops(case))


@RANDOM
@given(cases())
def test_array_api_says_what_the_reference_says(case):
    close(build(case, "array_api")(*case.arrays()), build(case, "numpy")(*case.arrays()))


@RANDOM
@given(cases())
def test_jax_says_what_the_reference_says(case):
    # Compiled: on small arrays XLA takes 0.1 s for a case, and jax.disable_jit() 0.14 s, as every operation of the
    # formula is then dispatched, and compiled, by itself.
    close(build(case, "jax")(*case.arrays()), build(case, "numpy")(*case.arrays()))


@settings(RANDOM, max_examples=20)
@given(cases())
def test_jax_without_jit_says_the_same(case):
    with jax.disable_jit():
        got = build(case, "jax")(*case.arrays())
    close(got, build(case, "numpy")(*case.arrays()))


# Gradients


@settings(RANDOM, max_examples=40)
@given(cases())
def test_gradients_along_random_directions(case):
    """Central differences of the plain loops, weighted at random so that no cell's error can hide behind another's."""
    rng = np.random.default_rng(case.seed + 1)
    arrays = [jnp.asarray(a) for a in case.arrays()]
    directions = [rng.normal(size=a.shape) for a in arrays]
    weights = jnp.asarray(rng.normal(size=in_loops(case).shape))
    stencil = build(case, "jax")

    def loss(*fields: Any) -> Any:
        return jnp.sum(stencil(*fields) * weights)

    gradients = jax.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)
    along = sum(float((np.asarray(g) * d).sum()) for g, d in zip(gradients, directions, strict=True))
    reference = build(case, "numpy")

    def at(h: float) -> float:
        moved = [np.asarray(a) + h * d for a, d in zip(arrays, directions, strict=True)]
        return float((reference(*moved) * np.asarray(weights)).sum())

    h = 1e-4
    # fourth order: what is left is rounding
    expected = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    assert math.isclose(along, expected, rel_tol=1e-7, abs_tol=1e-7 * (1 + abs(at(0))))


@settings(RANDOM, max_examples=15)
@given(cases())
def test_gradients_reach_nothing_that_is_not_read(case):
    """Where a cell's value changes nothing, its gradient is exactly zero: no NaN, no stray sum."""
    arrays = case.arrays()
    reference = build(case, "numpy")
    stencil = build(case, "jax")
    gradient = np.asarray(jax.grad(lambda u, *rest: jnp.sum(stencil(u, *rest)))(*map(jnp.asarray, arrays)))
    expected = reference(*arrays)
    for cell in list(np.ndindex(*arrays[0].shape))[:6]:
        changed = [arrays[0].copy(), *arrays[1:]]
        changed[0][cell] += 1.0
        if np.array_equal(reference(*changed), expected):
            assert gradient[cell] == 0


def test_the_cases_are_varied():
    """Guards the generator itself: every feature turns up often enough to be tested."""
    seen: list[Case] = []

    @settings(RANDOM, max_examples=200)
    @given(cases())
    def collect(case: Case) -> None:
        seen.append(case)

    collect()
    counts = {
        "smap": sum(c.written for c in seen),
        "two fields": sum(len(c.shapes) == 2 for c in seen),
        "relative": sum(c.relative for c in seen),
        "space": sum(len(c.strides) == 3 for c in seen),
        "strided": sum(set(c.strides) != {1} for c in seen),
        "dilated": sum(set(c.dilation) != {1} for c in seen),
        "masks": sum(isinstance(k, np.ndarray) for c in seen for k, _ in c.regions),
        "overlaps": sum(len(c.regions) > 1 for c in seen),
        "inferred": sum(c.sizes is None for c in seen),
        "numbers": sum(isinstance(v, float) for c in seen for _, v in c.regions),
        "sides that differ": sum(any(isinstance(r, tuple) for r in c.rules[0].values()) for c in seen),
    }
    assert min(counts.values()) >= 15, counts


@pytest.mark.parametrize("backend", ["numpy", "array_api", "jax"])
def test_the_oracle_can_fail(backend):
    """A case with one weight changed is told from the right one."""
    kernel, wrong = (Kernel(((0, (offset,), 0.5),), "none") for offset in (1, -1))
    geometry = {"strides": (1,), "dilation": (1,), "padding": ("same",), "rules": ({0: "wrap"},)}
    options = {"relative": True, "written": False, "seed": 1, **geometry}
    right = Case(((5,),), ((3,),), (((-1, 1),),), (kernel,), ((..., 0),), **options)
    got = build(right, backend)(*right.arrays())
    close(got, in_loops(right))
    with pytest.raises(AssertionError):
        close(got, in_loops(replace(right, kernels=(wrong,))))
