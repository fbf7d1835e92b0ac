"""Random sweeps: every schedule that is valid for one gives the numbers of the reference backend.

Bit for bit, too: kernels are built of maxima, minima, differences and products with powers of two. Such a product is
exact, so it does not matter whether XLA contracts it with a sum into one instruction (on CPU it does so in some loops
and not in others); differences round once wherever they stand; a maximum is one of its operands in any order.
Compiling takes nearly all of the time, so each example draws one schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

import stencilx as sx

Offset = tuple[int, ...]
Kernel = Callable[..., Any]
RULES = [0, 1.5, "wrap", "edge", "reflect", "symmetric"]
SHAPES = {1: [(7,), (4,), (1,)], 2: [(3, 5), (4, 3), (1, 4)], 3: [(2, 3, 4), (3, 2, 2)]}
SETTINGS = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@dataclass(frozen=True)
class Sweep:
    """Arrays, keywords and assignments of a stencil, and which schedule to run it by."""

    arrays: list[np.ndarray]
    options: dict[str, Any]
    assignments: list[tuple[Any, Any]]
    schedule: str

    def stencil(self, **more: Any) -> Any:
        maker = sx.sscan if "offset" in self.options else sx.kscan
        F = maker(relative=True, **self.options, **more)
        for key, value in self.assignments:
            F[key] = value
        return F


def exact(reads: Sequence[tuple[int, Offset]], results: int, flavour: int) -> Kernel:
    """A kernel of the reads (field and offset) whose steps are exact or round once, see above."""

    def kernel(*views: Any) -> Any:
        where, highest, lowest = _library(views[0]), None, 0.0
        for number, (field, offset) in enumerate(reads):
            read = views[field][offset]
            highest = read if highest is None else where.maximum(highest, read - 0.25 * (number + flavour))
            lowest = where.minimum(read, 0.5) if number == 0 else where.minimum(lowest, read)
        first = 0.5 * (highest - lowest) if flavour else highest - 0.25
        return first if results == 1 else (first, lowest - 0.5 * highest)

    return kernel


def _library(view: Any) -> Any:
    """What computes with the numbers that a window holds."""
    return np if isinstance(view[(0,) * view.ndim], (np.generic, np.ndarray)) else jnp


@st.composite
def keys(draw: st.DrawFn, shape: Sequence[int]) -> Any:
    """An index of a grid of that shape: whole ranges, single cells, strides, and now and then a mask."""
    if draw(st.integers(0, 9)) == 0:
        return np.random.default_rng(draw(st.integers(0, 9))).random(shape) < 0.4
    items = []
    for n in shape[: draw(st.integers(1, len(shape)))]:
        ends = st.none() | st.integers(-n, n)
        ranges = st.builds(slice, ends, ends, st.sampled_from([None, None, 2]))
        items.append(draw(st.integers(-n, n - 1) | ranges))
    return tuple(items) if len(items) > 1 else items[0]


@st.composite
def sweeps(draw: st.DrawFn, make: Callable[..., Kernel]) -> Sweep:
    ndim = draw(st.sampled_from([1, 2, 2, 2, 3]))
    shape = draw(st.sampled_from(SHAPES[ndim]))
    count = draw(st.integers(1, 2))
    updates = [["u"]] if count == 1 else [["u"], ["h"], ["u", "h"], ["h", "u"]]
    options: dict[str, Any] = {"fields": ("u", "h")[:count], "updates": draw(st.sampled_from(updates))}
    options["boundary"] = {a: (draw(st.sampled_from(RULES)), draw(st.sampled_from(RULES))) for a in range(ndim)}
    options["reverse"] = draw(st.booleans())
    options["strides"] = draw(st.sampled_from([1, 1, tuple(draw(st.integers(1, 2)) for _ in shape)]))
    if draw(st.booleans()):
        options |= {"kernel_size": 3, "padding": "same"}
    else:
        margins = tuple((draw(st.integers(0, 1)), draw(st.integers(0, 1))) for _ in shape)
        assume(all(sum(margin) <= n for margin, n in zip(margins, shape, strict=True)))
        options |= {"kernel_size": 3, "offset": margins}
    offsets = st.tuples(st.integers(0, count - 1), st.tuples(*[st.integers(-1, 1)] * ndim))
    reads = [draw(st.lists(offsets, min_size=1, max_size=3)) for _ in range(2)]
    first, second = (_named(make(r, len(options["updates"]), f), count) for f, r in enumerate(reads))
    assignments: list[tuple[Any, Any]] = [(..., first)]
    grid = shape if "offset" in options else tuple(-(-n // s) for n, s in zip(shape, _each(options["strides"], ndim)))
    values = st.sampled_from([second, second, 0.75, first])
    assignments += draw(st.lists(st.tuples(keys(grid), values), max_size=2))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = [rng.integers(-64, 65, shape) / 16 for _ in range(count)]
    schedule = draw(st.sampled_from(["auto", "cells", "wavefront", "rows"]))
    return Sweep(arrays, options, assignments, schedule)


def _each(strides: Any, ndim: int) -> tuple[int, ...]:
    return strides if isinstance(strides, tuple) else (strides,) * ndim


def _named(kernel: Kernel, count: int) -> Kernel:
    """The kernel under the names of its fields."""
    return (lambda u: kernel(u)) if count == 1 else (lambda u, h: kernel(u, h))


def results(sweep: Sweep, schedule: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The JAX backend's arrays and the reference's. Where rows are forbidden, some other schedule's."""
    expected = sweep.stencil(backend="numpy")(*sweep.arrays)
    cheapest = sweep.stencil(backend="jax").schedule(*sweep.arrays)
    if schedule == "rows" and (cheapest == "cells" or sweep.arrays[0].ndim == 1):
        schedule = "wavefront"
    event(f"{cheapest}, run as {schedule}")
    got = sweep.stencil(backend="jax", schedule=schedule)(*sweep.arrays)
    assert isinstance(got, tuple) == isinstance(expected, tuple)
    if isinstance(got, tuple):
        return list(map(np.asarray, got)), list(expected)
    return [np.asarray(got)], [expected]


@SETTINGS
@given(sweeps(exact))
def test_every_schedule_gives_the_reference_bit_for_bit(sweep: Sweep) -> None:
    for got, expected in zip(*results(sweep, sweep.schedule), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)


def smooth(reads: Sequence[tuple[int, Offset]], results: int, flavour: int) -> Kernel:
    """A sum of products, with weights that are no dyadic numbers and small enough for values to stay small."""

    def kernel(*views: Any) -> Any:
        total = 0.3 * (flavour + 1)
        for number, (field, offset) in enumerate(reads):
            total = total + (0.3 - 0.41 * number + 0.1 * flavour) * views[field][offset]
        return total if results == 1 else (total, 0.7 * total * views[reads[0][0]][reads[0][1]] / 4 - 0.1)

    return kernel


@SETTINGS
@given(sweeps(smooth))
def test_every_schedule_gives_the_reference_up_to_rounding(sweep: Sweep) -> None:
    with np.errstate(all="ignore"):
        found = results(sweep, sweep.schedule)
    for got, expected in zip(*found, strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10 * max(1, np.abs(expected).max(initial=0)))


def recurrent(axis: int) -> Callable[..., Kernel]:
    """Kernels that read the cells on both sides along one axis, one of which is new; of the other field anything."""

    def make(reads: Sequence[tuple[int, Offset]], results: int, flavour: int) -> Kernel:
        def kernel(*views: Any) -> Any:
            ndim, total = views[0].ndim, 0.3 * (flavour + 1)
            for field, offset in [(0, (0,) * ndim), *(read for read in reads if read[0])]:
                total = total + (0.4 - 0.3 * flavour) * views[field][offset]
            for sign in (-1, 1):
                total = total + (0.2 + 0.1 * sign) * views[0][tuple(sign * (a == axis % ndim) for a in range(ndim))]
            return total if results == 1 else (total, total)

        return kernel

    return make


@SETTINGS
@given(st.sampled_from([0, -1]).flatmap(lambda axis: sweeps(recurrent(axis))))
def test_associative_gives_the_reference_up_to_rounding(sweep: Sweep) -> None:
    stencil = sweep.stencil(backend="jax", schedule="associative")
    try:
        event(f"{stencil.explain(*sweep.arrays).plan.schedule.axes} axes")
    except sx.ScheduleError:
        event("refused")
        return
    expected = sweep.stencil(backend="numpy")(*sweep.arrays)
    np.testing.assert_allclose(stencil(*sweep.arrays), expected, rtol=1e-10, atol=1e-10)
