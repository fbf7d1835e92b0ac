"""Random mixtures of boundary rules: maps say what ghosts by hand say, and all backends what the reference says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import stencilx_jax.map
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import stencilx as sx

from .test_walls import RULES
from .wall_loops import Sides, Wall, as_boundary, extended

Offset = tuple[int, ...]
SHAPES = {1: [(5,), (4,), (2,)], 2: [(3, 5), (4, 2), (2, 6)], 3: [(2, 3, 4), (3, 4, 2)]}
SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
T = 1.5  # the parameter of functions


@dataclass(frozen=True)
class Value:
    """What a rule is given: a number, an array over the face, or a function of t; `known` is what it comes to."""

    given: Any = field(compare=False)
    known: Any = field(compare=False)
    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Mixture:
    """Two fields with walls, and a stencil that reads them."""

    shape: Offset
    names: tuple[tuple[tuple[str, str], ...], ...]  # of rules, by field, axis and side
    values: tuple[tuple[tuple[Value, Value], ...], ...]
    reads: tuple[tuple[int, Offset, float], ...]
    key: Any  # of a region with a kernel of its own
    options: tuple[tuple[str, Any], ...]

    def walls(self, number: int, known: bool = False) -> list[Sides]:
        def wall(name: str, value: Value) -> Wall:
            return RULES[name](value.known if known else value.given)

        rows = zip(self.names[number], self.values[number], strict=True)
        return [(wall(low, v), wall(high, w)) for (low, high), (v, w) in rows]

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(len(self.reads))
        return [np.round(rng.normal(0.2, 1.0, self.shape), 3) for _ in range(2)]

    def kernel(self, u: Any, h: Any) -> Any:
        total = 0.25
        for number, offset, weight in self.reads:
            total = total + weight * (u, h)[number][offset]
        return total

    def other(self, u: Any, h: Any) -> Any:
        _, offset, weight = self.reads[0]
        return weight * u[offset] - 0.5 * h[(0,) * len(offset)]

    def stencil(self, maker: Callable[..., Any], backend: str) -> Any:
        boundary = {name: as_boundary(self.walls(number)) for number, name in enumerate("uh")}
        F = maker(fields=2, padding="same", boundary=boundary, backend=backend, **dict(self.options))
        F[...] = lambda u, h, t: self.kernel(u, h) + 0 * t
        F[self.key] = lambda u, h, t: self.other(u, h)
        return F


@st.composite
def values(draw: st.DrawFn, face: Sequence[int]) -> Value:
    kind = draw(st.sampled_from(["number", "number", "array", "function", "profile"]))
    number = draw(st.integers(-12, 12)) / 4
    if kind == "number":
        return Value(number, number, str(number))
    if kind == "function":
        return Value(lambda t: number - t, number - T, f"{number} - t")
    shape = tuple(draw(st.sampled_from([n, n, 1])) for n in face)
    array = np.round(np.random.default_rng(draw(st.integers(0, 99))).normal(0, 2, shape), 2)
    if kind == "array":
        return Value(array, array, f"array{shape}")
    return Value(lambda t: t * array, T * array, f"t * array{shape}")


def fits(name: str, n: int) -> bool:
    """Whether an axis is long enough for a rule; an odd mirror on one cell is another test's."""
    if "extrapolate" in name:
        return n > int(name.split()[1])
    return n > 1 or not any(word in name for word in ("node", "shared", "reflect, odd"))


@st.composite
def mixtures(draw: st.DrawFn, sweep: bool) -> Mixture:
    ndim = draw(st.sampled_from([1, 2, 2, 2, 3]))
    shape = draw(st.sampled_from(SHAPES[ndim]))
    names, given_values = [], []
    for _ in range(2):
        fitting = [st.sampled_from([name for name in RULES if fits(name, n)]) for n in shape]
        names.append(tuple((draw(name), draw(name)) for name in fitting))
        faces = [values((*shape[:axis], *shape[axis + 1 :])) for axis in range(ndim)]
        given_values.append(tuple((draw(value), draw(value)) for value in faces))
    reach = draw(st.sampled_from({1: [1, 2, 4], 2: [1, 1, 2], 3: [1]}[ndim]))
    offsets = st.tuples(*[st.integers(-reach, reach)] * ndim)
    weights = st.sampled_from([0.1, -0.15, 0.2, -0.25])
    count = draw(st.integers(2, 4))
    reads = tuple((draw(st.integers(0, 1)), draw(offsets), draw(weights)) for _ in range(count))
    ends = draw(st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[-1] - 1)))
    key = draw(st.sampled_from([ends[0], (..., slice(ends[1], None)), np.random.default_rng(ends).random(shape) < 0.3]))
    options: dict[str, Any] = {"dilation": draw(st.sampled_from([1, 1, 1, 2]))}
    if sweep:
        options["reverse"] = draw(st.booleans())
    return Mixture(shape, tuple(names), tuple(given_values), reads, key, tuple(options.items()))


def close(got: Any, expected: np.ndarray) -> None:
    got = np.asarray(got)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))


def by_hand(case: Mixture) -> np.ndarray:
    """The two kernels on arrays that are longer by all their ghosts."""
    deep = 2 * max(max(map(abs, offset)) for _, offset, _ in case.reads)
    step = dict(case.options)["dilation"]
    wide = [
        extended(array, [(deep, deep)] * array.ndim, case.walls(number, known=True))
        for number, array in enumerate(case.arrays())
    ]

    def read(number: int, offset: Offset) -> np.ndarray:
        return wide[number][tuple(slice(deep + step * o, deep + step * o + n) for o, n in zip(offset, case.shape))]

    class Moved:
        def __init__(self, number: int) -> None:
            self.number = number

        def __getitem__(self, offset: Offset) -> np.ndarray:
            return read(self.number, offset)

    views = Moved(0), Moved(1)
    result = case.kernel(*views)
    result[case.key] = case.other(*views)[case.key]
    return result


@settings(SETTINGS, max_examples=140)
@given(mixtures(sweep=False), st.booleans())
def test_maps(case: Mixture, strips: bool) -> None:
    """On JAX by each of its two ways: strips along walls, as in large fields, or one copy with ghosts."""
    expected = case.stencil(sx.kmap, "numpy")(*case.arrays(), T)
    close(by_hand(case), expected)
    close(case.stencil(sx.kmap, "array_api")(*case.arrays(), T), expected)
    with mock.patch.object(stencilx_jax.map, "STRIPS_FROM", 0 if strips else 1 << 60):
        close(case.stencil(sx.kmap, "jax")(*case.arrays(), T), expected)


@settings(SETTINGS, max_examples=60)
@given(mixtures(sweep=True))
def test_sweeps(case: Mixture) -> None:
    expected = case.stencil(sx.kscan, "numpy")(*case.arrays(), T)
    event(case.stencil(sx.kscan, "jax").schedule(*case.arrays(), T))
    for backend in ("array_api", "jax"):
        close(case.stencil(sx.kscan, backend)(*case.arrays(), T), expected)


def test_the_mixtures_are_varied() -> None:
    """Guards the generator itself: each rule, each kind of value and each schedule turns up."""
    seen: list[Mixture] = []

    @settings(SETTINGS, max_examples=200)
    @given(mixtures(sweep=True))
    def collect(case: Mixture) -> None:
        seen.append(case)

    collect()
    rules = [name for case in seen for sides in case.names for pair in sides for name in pair]
    assert min(rules.count(name) for name in RULES) >= 15
    texts = [v.text for case in seen for sides in case.values for pair in sides for v in pair]
    assert min(sum(word in text for text in texts) for word in ("array", "- t", "t *")) >= 100
    schedules = [case.stencil(sx.kscan, "numpy").schedule(*case.arrays(), T) for case in seen]
    assert min(schedules.count(name) for name in ("parallel", "rows", "cells")) >= 5
    assert sum(len(case.shape) == 3 for case in seen) >= 20
