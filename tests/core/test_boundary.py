"""Boundary rules against `numpy.pad`, and every way to write them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stencilx.boundary import (
    Constant,
    Edge,
    IndexRule,
    Reflect,
    Run,
    Symmetric,
    Wrap,
    as_rule,
    boundary_constants,
    check_fits,
    check_not_empty,
    ghost_runs,
    resolve,
)

RULES = {"wrap": Wrap(), "edge": Edge(), "reflect": Reflect(), "symmetric": Symmetric()}
LENGTHS, DEPTHS = range(1, 7), range(16)
ZERO = Constant(0)

by_name = pytest.mark.parametrize("name", RULES)
by_length = pytest.mark.parametrize("length", LENGTHS)


@by_name
@by_length
def test_index_is_that_of_numpy_pad(name: str, length: int) -> None:
    for depth in DEPTHS:
        indices = [RULES[name].index(position, length) for position in range(-depth, length + depth)]
        assert indices == np.pad(np.arange(length), depth, mode=name).tolist()


@by_name
@by_length
@pytest.mark.parametrize("step", [1, 2])
def test_ghost_runs_spell_out_the_index_map(name: str, length: int, step: int) -> None:
    deepest = DEPTHS[-1]
    padded = np.pad(np.arange(length), deepest, mode=name)
    for places in places_of_ghosts(length, step):
        ghosts = [int(padded[deepest + place]) for place in places]
        assert spelled_out(ghost_runs(RULES[name], places, length)) == ghosts


@by_name
@by_length
def test_ghost_runs_are_as_few_as_may_be(name: str, length: int) -> None:
    for places in places_of_ghosts(length):
        runs = ghost_runs(RULES[name], places, length)
        assert len(runs) == fewest_runs(spelled_out(runs))


def places_of_ghosts(length: int, step: int = 1) -> list[range]:
    """Before the axis and after it, to every depth."""
    before = [range(-depth, 0, step) for depth in DEPTHS]
    return before + [range(length, length + depth, step) for depth in DEPTHS]


def spelled_out(runs: list[Run]) -> list[int]:
    return [run.start + run.step * number for run in runs for number in range(run.count)]


def fewest_runs(indices: list[int]) -> int:
    """Into how few pieces with one step of -1, 0 or 1 the list can be cut, by trying all last pieces."""
    best = [0]
    for end in range(1, len(indices) + 1):
        starts = [start for start in range(end) if is_run(indices[start:end])]
        best.append(1 + min(best[start] for start in starts))
    return best[-1]


def is_run(indices: list[int]) -> bool:
    gaps = {b - a for a, b in itertools.pairwise(indices)}
    return not gaps or gaps in ({-1}, {0}, {1})


def test_usual_depths_take_one_run() -> None:
    assert ghost_runs(Wrap(), range(-2, 0), 5) == [Run(3, 1, 2)]
    assert ghost_runs(Edge(), range(5, 8), 5) == [Run(4, 0, 3)]
    assert ghost_runs(Reflect(), range(-2, 0), 5) == [Run(2, -1, 2)]
    assert ghost_runs(Symmetric(), range(5, 7), 5) == [Run(4, -1, 2)]
    assert ghost_runs(Symmetric(), range(5, 6), 5) == [Run(4, 1, 1)]


def test_base_rule_has_no_index() -> None:
    with pytest.raises(NotImplementedError):
        IndexRule().index(-1, 3)


# Spellings


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        *RULES.items(),
        *((rule, rule) for rule in RULES.values()),
        (0, ZERO),
        (-1.5, Constant(-1.5)),
        (np.float32(2), Constant(2.0)),
        (1j, Constant(1j)),
        (True, Constant(True)),
        (Constant(3), Constant(3)),
    ],
    ids=repr,
)
def test_one_rule_for_all_sides(value: object, rule: object) -> None:
    assert as_rule(value) == rule
    assert resolve(value, 2, {}, "u") == ((rule, rule), (rule, rule))


@pytest.mark.parametrize(
    ("boundary", "sides"),
    [
        ({}, ((ZERO, ZERO), (ZERO, ZERO))),
        ({0: "wrap"}, ((Wrap(), Wrap()), (ZERO, ZERO))),
        ({-1: "edge"}, ((ZERO, ZERO), (Edge(), Edge()))),
        ({np.int64(1): 2.0}, ((ZERO, ZERO), (Constant(2.0), Constant(2.0)))),
        ({"j": "edge", "i": Wrap()}, ((Wrap(), Wrap()), (Edge(), Edge()))),
        ({"j": "edge", 0: 1}, ((Constant(1), Constant(1)), (Edge(), Edge()))),
        ({0: ("edge", 1.0)}, ((Edge(), Constant(1.0)), (ZERO, ZERO))),
        ({"j": [Reflect(), "symmetric"]}, ((ZERO, ZERO), (Reflect(), Symmetric()))),
    ],
    ids=repr,
)
def test_rules_by_axis_and_side(boundary: object, sides: object) -> None:
    assert resolve(boundary, 2, {"i": 0, "j": 1}, "u") == sides


def test_rules_are_values() -> None:
    assert len({Wrap(), Wrap(), Edge(), Constant(1.5), Constant(1.5), Constant(2.5)}) == 4
    assert [str(rule) for rule in (*RULES.values(), Constant(1.5))] == [*RULES, "constant 1.5"]
    assert repr(Constant(1.5)) == "Constant(value=1.5)"
    assert repr(Wrap()) == "Wrap()"


# What constants do to the dtype


def test_constants_that_join_the_dtype() -> None:
    rules = ((Constant(0), Constant(1.5)), (Wrap(), Constant(0.0)), (Constant(7), Constant(False)))
    assert boundary_constants(rules) == (1.5, 7)


@pytest.mark.parametrize(
    ("scalar", "kind"), [(np.float32(1.5), float), (np.int64(7), int), (np.complex64(1j), complex)]
)
def test_numpy_scalars_count_as_python_numbers(scalar: np.generic, kind: type) -> None:
    value = Constant(scalar).value
    assert (value, type(value)) == (scalar, kind)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (255, "uint8"),
        (0, "torch.uint8"),
        (-128, "int8"),
        (127, "int8"),
        (300, "float32"),
        (2.5, "int8"),
        (2**40, "int64"),
        (2, "bool"),
    ],
)
def test_values_that_fit(value: object, dtype: str) -> None:
    check_fits([value], dtype, "u")


def test_no_ghost_needs_no_cell() -> None:
    check_not_empty(((Wrap(), Edge()), (ZERO, ZERO)), (0, 0), ((0, 0), (2, 2)), "u")
