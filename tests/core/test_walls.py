"""From what a user writes as `boundary=` to rules side by side, and to the values of a call."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from stencilx.boundary import (
    Constant,
    Dirichlet,
    Edge,
    Extrapolate,
    Neumann,
    Reflect,
    Robin,
    Rule,
    Slot,
    Symmetric,
    Wrap,
)
from stencilx.errors import BoundaryError
from stencilx.walls import (
    Run,
    as_rule,
    check_fits,
    check_lengths,
    check_numbers,
    check_values,
    copying,
    evaluated,
    face_shape,
    filled,
    ghost,
    ghost_runs,
    is_plain,
    joins,
    resolve,
    slotted,
    sources,
)

RULES = {"wrap": Wrap(), "edge": Edge(), "reflect": Reflect(), "symmetric": Symmetric()}
ZERO = Constant(0)

# Spellings


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        *RULES.items(),
        *((rule, rule) for rule in (*RULES.values(), Dirichlet(1.5), Reflect(odd=True))),
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


def test_an_array_is_a_constant_over_the_face() -> None:
    array = np.ones(5)
    rule = as_rule(array)
    assert isinstance(rule, Constant)
    assert rule.value is array


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
        ({1: (Dirichlet(1.5), Neumann(2, 0.5))}, ((ZERO, ZERO), (Dirichlet(1.5), Neumann(2, 0.5)))),
    ],
    ids=repr,
)
def test_rules_by_axis_and_side(boundary: object, sides: object) -> None:
    assert resolve(boundary, 2, {"i": 0, "j": 1}, "u") == sides


# Slots: what only a call knows


def twice(t: float) -> float:
    return 2 * t


def test_numbers_and_words_need_no_slots() -> None:
    for boundary in ("wrap", 1.5, {0: ("edge", Dirichlet(2.0)), 1: Robin(1, 2, 3, 0.5)}, {"u": {0: Neumann(0.0)}}):
        assert slotted(boundary) == (boundary, ())


def test_arrays_and_functions_leave_slots_in_the_order_in_which_they_are_written() -> None:
    first, second, third = np.ones(5), jnp.ones(()), np.zeros((2, 3))
    boundary = {
        "u": {0: (Dirichlet(first), Neumann(twice, second)), "j": 1.5},
        "h": {1: [Robin(1.0, third, 3.0, twice, at="node"), "wrap"]},
        "v": Wrap(add=twice, shared=True),
    }
    found, values = slotted(boundary)
    slots = [Slot(number, "") for number in range(6)]
    assert found == {
        "u": {0: (Dirichlet(slots[0]), Neumann(slots[1], slots[2])), "j": 1.5},
        "h": {1: (Robin(1.0, slots[3], 3.0, slots[4], at="node"), "wrap")},
        "v": Wrap(add=slots[5], shared=True),
    }
    assert [type(value) for value in values] == [type(v) for v in (first, twice, second, third, twice, twice)]
    assert all(a is b for a, b in zip(values, (first, twice, second, third, twice, twice), strict=True))
    assert hash(found["u"][0]) == hash((Dirichlet(slots[0]), Neumann(slots[1], slots[2])))


def test_slots_print_as_what_they_stand_for() -> None:
    found, _ = slotted({0: (Dirichlet(twice), Neumann(np.ones((3, 4)), jnp.ones(())))})
    assert list(map(str, found[0])) == ["dirichlet twice(t) at the face", "neumann slope array(3, 4) at the face"]


def test_a_single_traced_number_has_a_slot() -> None:
    found, values = slotted(jnp.float32(2.0))
    assert found == Constant(Slot(0, ""))
    assert len(values) == 1


def test_slots_are_filled() -> None:
    rule = Robin(Slot(2, ""), 1.0, Slot(0, ""), 0.5)
    assert filled(rule, lambda slot: 10.0 + slot.number) == Robin(12.0, 1.0, 10.0, 0.5)
    assert filled(Edge(), lambda slot: slot) == Edge()
    assert filled(Dirichlet(1.5), lambda slot: 7.0) == Dirichlet(1.5)


# Values of a call


def test_functions_are_called_with_the_parameters_that_they_name() -> None:
    known = {"u": "field", "t": 3.0, "rate": np.array([1.0, 2.0]), "mode": "slow"}
    found = evaluated(
        [
            lambda t: t + 1,
            lambda rate, t: rate * t,
            lambda *, t: -t,
            lambda t, scale=0.5: t * scale,
            lambda t, rate=None: rate[1] + t,
            lambda: 7.0,
            lambda mode: len(mode) * 1.0,
            2.5,
        ],
        known,
        ["u"],
    )
    for got, expected in zip(found, (4.0, [3.0, 6.0], -3.0, 1.5, 5.0, 7.0, 4.0, 2.5), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_arrays_are_handed_on_as_they_are() -> None:
    array = np.ones(3)
    assert evaluated([array], {}, ["u"])[0] is array


@pytest.mark.parametrize("scalar", [np.float32(1.5), np.float64(-2.5), np.int8(3), np.complex64(1j)], ids=repr)
def test_numpy_scalars_count_as_python_numbers(scalar: np.generic) -> None:
    (found,) = evaluated([lambda: scalar], {}, ["u"])
    assert (found, type(found)) == (scalar, type(scalar.item()))


@pytest.mark.parametrize("value", [None, "1.0", [1.0], (1.0,), {}, twice], ids=lambda v: type(v).__name__)
def test_functions_return_numbers_or_arrays(value: Any) -> None:
    with pytest.raises(BoundaryError, match=f"must return a number or an array, not {type(value).__name__}"):
        evaluated([lambda: value], {}, ["u"])


SHAPE = (3, 5, 4)


@pytest.mark.parametrize(
    ("shape", "axis", "met"),
    [
        ((5, 4), 0, (1, 5, 4)),
        ((3, 4), 1, (3, 1, 4)),
        ((3, 5), 2, (3, 5, 1)),
        ((1, 4), 1, (1, 1, 4)),
        ((3, 1), 1, (3, 1, 1)),
        ((4,), 0, (1, 1, 4)),
        ((4,), 1, (1, 1, 4)),
        ((5,), 2, (1, 5, 1)),
        ((1,), 2, (1, 1, 1)),
        ((), 1, (1, 1, 1)),
    ],
)
def test_a_value_meets_slices_of_its_field(shape: tuple[int, ...], axis: int, met: tuple[int, ...]) -> None:
    assert face_shape(np.ones(shape), SHAPE, axis, "u") == met
    face = np.delete(SHAPE, axis)
    spread = np.broadcast_to(np.arange(np.prod(shape)).reshape(shape), face)
    np.testing.assert_array_equal(
        np.broadcast_to(np.arange(np.prod(shape)).reshape(met), (*SHAPE[:axis], 1, *SHAPE[axis + 1 :])),
        np.expand_dims(spread, axis),
    )


@pytest.mark.parametrize(
    ("shape", "axis"), [((3, 4), 0), ((5, 4), 1), ((4, 5), 0), ((3,), 0), ((1, 5, 4), 0), ((5, 4, 1), 0), ((0,), 1)]
)
def test_a_value_that_does_not_fit(shape: tuple[int, ...], axis: int) -> None:
    with pytest.raises(BoundaryError, match=rf"shape \({shape[0]},.* does not fit axis {axis} of field 'h'"):
        face_shape(np.ones(shape), SHAPE, axis, "h")
    sides = [(ZERO, ZERO)] * 3
    sides[axis] = (Edge(), Robin(1.0, 2.0, Slot(0, ""), 0.5))
    with pytest.raises(BoundaryError, match=f"does not fit axis {axis} of field 'h'"):
        check_values(sides, [np.ones(shape)], SHAPE, "h")


def test_values_that_fit_their_own_faces() -> None:
    sides = [(Dirichlet(Slot(0, "")), ZERO), (ZERO, Neumann(Slot(1, ""), Slot(2, ""))), (Edge(), Edge())]
    check_values(sides, [np.ones((5, 4)), np.ones((3, 4)), 0.5], SHAPE, "u")
    with pytest.raises(BoundaryError, match="does not fit axis 1"):
        check_values(sides, [np.ones((5, 4)), np.ones((5, 4)), 0.5], SHAPE, "u")


# What values do to the dtype


def test_numbers_that_join_the_dtype() -> None:
    rules = ((Constant(0), Constant(1.5)), (Wrap(), Constant(0.0)), (Constant(7), Constant(False)))
    assert joins(rules, ()) == (1.5, 7)


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (Dirichlet(2), (2,)),
        (Dirichlet(0.0), ()),
        (Wrap(add=360.0), (360.0,)),
        (Neumann(3, 0.5), (3, 0.5)),
        (Neumann(0.0), ()),
        (Neumann(0.0, 0.5, at="node"), ()),
        (Extrapolate(2), ()),
        (Reflect(odd=True), ()),
        (Robin(1, 2, 3, 4), (1, 2, 3, 4, 1.0)),
    ],
    ids=str,
)
def test_what_rules_join(rule: Rule, found: tuple[Any, ...]) -> None:
    assert joins(((rule, Edge()),), ()) == found


def test_values_join_by_their_dtype_and_numbers_as_numbers() -> None:
    rules = ((Dirichlet(Slot(0, "")), Constant(Slot(1, ""))), (Constant(Slot(2, "")), Constant(Slot(3, ""))))
    values = (np.ones(5, np.float32), 2.5, np.ones((), np.int64), 0j)
    assert joins(rules, values) == (np.float32, 1.0, np.int64, 1j)


@pytest.mark.parametrize("value", [0, 0.0, 0j, -3, 2.5, 1e300], ids=str)
def test_what_a_function_gives_joins_by_its_kind(value: Any) -> None:
    """A plan serves later calls, too, in which the value is another."""
    (found,) = joins(((Dirichlet(Slot(0, "")), ZERO),), [value])
    assert (abs(found), type(found)) == (1, type(value))


@pytest.mark.parametrize(
    ("value", "number"),
    [(jnp.asarray(2), 1), (jnp.asarray(2.5), 1.0), (jnp.asarray(2j), 1j), (jnp.asarray(True), bool)],
    ids=str,
)
def test_weak_types_join_as_numbers(value: Any, number: Any) -> None:
    """What was a Python number before it was traced widens no float32."""
    assert joins(((Constant(Slot(0, "")), ZERO),), [value]) == (number,)


# Checks


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
def test_values_that_fit(value: Any, dtype: str) -> None:
    check_fits(((Constant(value), ZERO),), dtype, dtype, "u")


@pytest.mark.parametrize(("value", "dtype"), [(256, "uint8"), (-1, "torch.uint8"), (-129, "int8"), (2**31, "int32")])
@pytest.mark.parametrize(
    "make", [Constant, Dirichlet, lambda v: Robin(1, v, 0, 1)], ids=["constant", "dirichlet", "robin"]
)
def test_values_that_do_not_fit(value: int, dtype: str, make: Callable[[int], Rule]) -> None:
    with pytest.raises(BoundaryError, match=f"the boundary value {value} does not fit field 'u' of dtype {dtype}"):
        check_fits(((ZERO, ZERO), (ZERO, make(value))), dtype, dtype, "u")


COMPUTING = [Wrap(add=1), Reflect(odd=True), Extrapolate(1), Dirichlet(1), Neumann(1, 2), Dirichlet(Slot(0, "t"))]


@pytest.mark.parametrize("rule", COMPUTING, ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "torch.uint8", "uint32", "bool"])
def test_rules_that_compute_need_a_sign(rule: Rule, dtype: str) -> None:
    with pytest.raises(BoundaryError, match="may give negative ghosts"):
        check_fits(((ZERO, rule),), dtype, dtype, "u")
    check_fits(((ZERO, rule),), dtype, "float32", "u")  # joined with what is float, it has one
    check_fits(((ZERO, rule),), "int32", "int32", "u")


@pytest.mark.parametrize(
    "rule", [*RULES.values(), Constant(3), Extrapolate(0), Neumann(0.0), Wrap(shared=True)], ids=str
)
def test_rules_that_copy_need_none(rule: Rule) -> None:
    for dtype in ("uint8", "torch.uint8", "bool"):
        check_fits(((rule, rule),), dtype, dtype, "u")
    check_fits(((Neumann(0.0, 300), Neumann(0, 10**9, at="node")),), "uint8", "uint8", "u")  # which do without dx


def test_no_ghost_needs_no_cell() -> None:
    check_lengths(((Wrap(), Edge()), (ZERO, ZERO)), (0, 0), ((0, 0), (2, 2)), "u")
    check_lengths(((Extrapolate(3), Edge()), (Edge(), Extrapolate(3))), (1, 1), ((0, 1), (2, 0)), "u")


@pytest.mark.parametrize("ghosts", [((1, 0), (0, 0)), ((0, 0), (0, 3))], ids=str)
def test_ghosts_need_as_many_cells_as_their_rule_does(ghosts: Any) -> None:
    sides = ((Extrapolate(2), Edge()), (Edge(), Wrap(shared=True)))
    check_lengths(sides, (3, 2), ghosts, "u")
    with pytest.raises(BoundaryError, match=r"needs . cells or more along its axis, and axis . of field 'u' has [12]"):
        check_lengths(sides, (2, 1), ghosts, "u")
    with pytest.raises(BoundaryError, match="of field 'u' is empty"):
        check_lengths(sides, (0, 0), ghosts, "u")


# Ghosts that copy cells

COPIES: list[tuple[Rule, str]] = [
    (Wrap(), "wrap"),
    (Edge(), "edge"),
    (Reflect(), "reflect"),
    (Symmetric(), "symmetric"),
    (Neumann(0.0), "symmetric"),
    (Neumann(0.0, at="node"), "reflect"),
    (Extrapolate(0), "edge"),
]
DEPTHS = range(16)

by_rule = pytest.mark.parametrize(("rule", "mode"), COPIES, ids=str)
by_length = pytest.mark.parametrize("length", range(1, 7))


@by_rule
@by_length
@pytest.mark.parametrize("step", [1, 2])
def test_ghost_runs_spell_out_the_index_map(rule: Rule, mode: str, length: int, step: int) -> None:
    deepest = DEPTHS[-1]
    padded = np.pad(np.arange(length), deepest, mode=mode)
    for places in places_of_ghosts(length, step):
        ghosts = [int(padded[deepest + place]) for place in places]
        assert spelled_out(ghost_runs(rule, places, length)) == ghosts


@by_rule
@by_length
def test_ghost_runs_are_as_few_as_may_be(rule: Rule, mode: str, length: int) -> None:
    for places in places_of_ghosts(length):
        runs = ghost_runs(rule, places, length)
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
    assert ghost_runs(Wrap(shared=True), range(-2, 0), 5) == [Run(2, 1, 2)]
    assert ghost_runs(Edge(), range(5, 8), 5) == [Run(4, 0, 3)]
    assert ghost_runs(Reflect(), range(-2, 0), 5) == [Run(2, -1, 2)]
    assert ghost_runs(Symmetric(), range(5, 7), 5) == [Run(4, -1, 2)]
    assert ghost_runs(Symmetric(), range(5, 6), 5) == [Run(4, 1, 1)]


# Ghosts and what they are made of


@by_rule
def test_a_place_inside_is_its_cell(rule: Rule, mode: str) -> None:
    cells = [7, -3, 4]
    expected = np.pad(cells, 2, mode=mode).tolist()
    assert [ghost(rule, place, 3, cells.__getitem__) for place in range(-2, 5)] == expected
    assert ghost(Dirichlet(1.5), 1, 3, cells.__getitem__) == -3
    assert ghost(Dirichlet(1.5), -1, 3, cells.__getitem__) == -4


@dataclass(frozen=True)
class MadeOf:
    """Stands for a sum of cells, so that arithmetic shows which ones it takes."""

    cells: frozenset[int]

    def plus(self, other: Any) -> MadeOf:
        return MadeOf(self.cells | other.cells) if isinstance(other, MadeOf) else self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = plus


@pytest.mark.parametrize(
    "rule",
    [
        Constant(Slot(0, "")),
        Wrap(add=Slot(0, ""), shared=True),
        Reflect(odd=True),
        Symmetric(odd=True),
        Extrapolate(3),
        Dirichlet(Slot(0, "")),
        Dirichlet(2.0, at="node"),
        Neumann(1.0, Slot(0, "")),
        Neumann(0.0, at="node"),
        Robin(Slot(0, ""), Slot(1, ""), Slot(2, ""), Slot(3, "")),
        Robin(1.0, 2.0, Slot(2, ""), 0.5, at="node"),
    ],
    ids=str,
)
def test_sources_are_the_cells_of_the_formula(rule: Rule) -> None:
    for length, place in itertools.product((4, 5), (*range(-9, 0), *range(5, 12))):
        made = filled(rule, lambda slot: 0.75).ghost(place, length, lambda i: MadeOf(frozenset([i])))
        expected = made.cells if isinstance(made, MadeOf) else set()
        found = sources(rule, place, length)
        assert set(found) == expected
        assert len(found) == len(expected)


def test_plain_rules() -> None:
    assert is_plain(Constant(1.5))
    assert not any(map(is_plain, (Constant(Slot(0, "")), Constant(np.ones(3)), Edge(), Dirichlet(1.5))))


def test_faces_go_on_by_copies_or_with_their_last_value() -> None:
    for rule, _ in COPIES:
        assert copying(rule) == rule
    for rule in (*COMPUTING, ZERO, Constant(3), Robin(1, 1, 1, 1)):
        assert copying(rule) == Edge()


@pytest.mark.parametrize("value", [300, -1])
def test_whole_numbers_that_functions_give_must_fit(value: int) -> None:
    check_numbers([value, 2.5, True], ["float32", "int64"])
    with pytest.raises(BoundaryError, match=f"a boundary function gives {value}, which does not fit .* dtype uint8"):
        check_numbers([2.5, value], ["float32", "uint8"])
