"""Boundary rules as values: the cell that a ghost copies, against `numpy.pad`; the formulas, on numbers and by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

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

COPIES: list[tuple[Rule, str]] = [
    (Wrap(), "wrap"),
    (Edge(), "edge"),
    (Reflect(), "reflect"),
    (Symmetric(), "symmetric"),
    (Neumann(0.0), "symmetric"),
    (Neumann(0, 0.5, at="node"), "reflect"),
    (Extrapolate(0), "edge"),
]
LINE = [7, -3, 4, 1, -6]  # a b c d e

by_copy = pytest.mark.parametrize(("rule", "mode"), COPIES, ids=str)


def ghosts(rule: Rule, cells: list[Any], count: int) -> tuple[list[Any], list[Any]]:
    """The ghosts before the axis and after it, both counted away from it."""
    n = len(cells)

    def cell(index: int) -> Any:
        assert 0 <= index < n
        return cells[index]

    before = [rule.ghost(-k, n, cell) for k in range(1, count + 1)]
    return before, [rule.ghost(n - 1 + k, n, cell) for k in range(1, count + 1)]


# Rules that copy


@by_copy
@pytest.mark.parametrize("length", range(1, 7))
def test_index_is_that_of_numpy_pad(rule: Rule, mode: str, length: int) -> None:
    assert rule.copies
    for depth in range(16):
        indices = [rule.index(position, length) for position in range(-depth, length + depth)]
        assert indices == np.pad(np.arange(length), depth, mode=mode).tolist()


@by_copy
@pytest.mark.parametrize("length", range(1, 6))
def test_ghosts_that_copy_are_the_cells_at_index(rule: Rule, mode: str, length: int) -> None:
    padded = np.pad(LINE[:length], 9, mode=mode).tolist()
    assert ghosts(rule, LINE[:length], 9) == (padded[8::-1], padded[length + 9 :])


def test_a_shared_node_counts_once() -> None:
    """Along a b c d e, where e is a again: the period is 4 cells, and the nearer of the two stands for both."""
    before, after = ghosts(Wrap(shared=True), ["a", "b", "c", "d", "e"], 9)
    assert "".join(before) == "dcbadcbad"
    assert "".join(after) == "bcdebcdeb"
    assert [Wrap(shared=True).index(i, 5) for i in range(5)] == [0, 1, 2, 3, 4]
    assert ghosts(Wrap(shared=True), ["a", "b"], 3) == (["a"] * 3, ["b"] * 3)


def test_rules_that_compute_do_not_copy() -> None:
    computing = [Wrap(add=1), Wrap(add=Slot(0, "p")), Reflect(odd=True), Symmetric(odd=True), Extrapolate(1)]
    computing += [Constant(0), Dirichlet(0.0), Neumann(1, 1), Neumann(Slot(0, "s"), 1), Robin(0.0, 1, 0.0, 1)]
    assert not any(rule.copies for rule in computing)
    assert Wrap(shared=True).copies


@pytest.mark.parametrize("rule", [Constant(1.5), Dirichlet(1.5), Robin(1, 1, 1, 1), Rule()], ids=str)
def test_what_copies_no_cell_has_no_index(rule: Rule) -> None:
    with pytest.raises(NotImplementedError):
        rule.index(-1, 3)


# Rules that compute, by hand: a b c d e = 7 -3 4 1 -6


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (Constant(2.5), [2.5, 2.5, 2.5], [2.5, 2.5, 2.5]),
        (Wrap(add=10), [-16, -9, -6], [17, 7, 14]),  # e-10 d-10 c-10 | a+10 b+10 c+10
        (Wrap(add=10, shared=True), [-9, -6, -13], [7, 14, 11]),  # d-10 c-10 b-10 | b+10 c+10 d+10
        (Reflect(odd=True), [17, 10, 13], [-13, -16, -9]),  # 2a-b 2a-c 2a-d | 2e-d 2e-c 2e-b
        (Symmetric(odd=True), [7, 17, 10], [-6, -13, -16]),  # 2a-a 2a-b | 2e-e 2e-d
        (Extrapolate(1), [17, 27, 37], [-13, -20, -27]),  # slopes 10 and -7
        (Extrapolate(2), [34, 78, 139], [-17, -32, -51]),  # second differences 17 and -4
        (Dirichlet(2), [-3, 7, 0], [10, 3, 0]),  # 4-a 4-b 4-c | 4-e 4-d 4-c
        (Dirichlet(2, at="node"), [7, 0, 3], [3, 0, 7]),  # 4-b 4-c 4-d | 4-d 4-c 4-b
        (Neumann(2, 0.5), [8, 0, 9], [-5, 4, 9]),  # a+1 b+3 c+5 | e+1 d+3 c+5
        (Neumann(2, 0.5, at="node"), [-1, 8, 7], [3, 8, 3]),  # b+2 c+4 d+6 | d+2 c+4 b+6
        # 2*(u+G)/2 + (G-u)/0.5 = 3: G = (u + 3)/3, and on with the slope of G - u
        (Robin(2, 1, 3, 0.5), [10 / 3, -3 - 11, 4 - 55 / 3], [-1, 1 + 15, 4 + 25]),
        # 2*u + (G[k]-u[k])/(2*k*0.5) = 3: G[k] = u[k] + k*(3 - 2*u[0])
        (Robin(2, 1, 3, 0.5, at="node"), [-14, -18, -32], [16, 34, 42]),
    ],
    ids=str,
)
def test_formulas(rule: Rule, before: list[float], after: list[float]) -> None:
    found = ghosts(rule, LINE, 3)
    np.testing.assert_allclose(found, (before, after), rtol=1e-13)


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize("length", [5, 7])
def test_extrapolation_meets_every_polynomial_of_its_order(order: int, length: int) -> None:
    """Exactly: all weights are whole numbers."""

    def polynomial(x: int) -> int:
        return sum((3 - 2 * power) * (x - 2) ** power for power in range(order + 1))

    before, after = ghosts(Extrapolate(order), [polynomial(i) for i in range(length)], 6)
    assert before == [polynomial(-k) for k in range(1, 7)]
    assert after == [polynomial(length - 1 + k) for k in range(1, 7)]
    assert {type(ghost) for ghost in before} == {int}


@pytest.mark.parametrize("rule", [Reflect(odd=True), Symmetric(odd=True)], ids=str)
@pytest.mark.parametrize("length", [2, 3, 5])
def test_odd_mirrors_are_those_of_numpy_pad(rule: Reflect | Symmetric, length: int) -> None:
    count = length - 1 if isinstance(rule, Reflect) else length
    mode = "reflect" if isinstance(rule, Reflect) else "symmetric"
    padded = np.pad(LINE[:length], count, mode=mode, reflect_type="odd").tolist()
    assert ghosts(rule, LINE[:length], count) == (padded[count - 1 :: -1], padded[length + count :])


MIRRORS: list[tuple[Rule, Callable[[int, Callable[[int], float]], float]]] = [
    (Reflect(odd=True), lambda k, u: 2 * u(0) - u(k)),
    (Symmetric(odd=True), lambda k, u: 2 * u(0) - u(k - 1)),
    (Dirichlet(1.5), lambda k, u: 3 - u(k - 1)),
    (Dirichlet(1.5, at="node"), lambda k, u: 3 - u(k)),
    (Neumann(-2.0, 0.25), lambda k, u: u(k - 1) - (2 * k - 1) / 2),
    (Neumann(-2.0, 0.25, at="node"), lambda k, u: u(k) - k),
]


@pytest.mark.parametrize(("rule", "formula"), MIRRORS, ids=[str(rule) for rule, _ in MIRRORS])
@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_mirror_that_runs_out_of_cells_turns_round(
    rule: Rule, formula: Callable[[int, Callable[[int], float]], float], length: int
) -> None:
    """Both ends grow by turns: the k-th ghost of one needs at most the k-th of the other."""
    grown = dict(enumerate(map(float, LINE[:length])))

    def inwards(j: int) -> float:
        return grown[length - 1 - j]

    for k in range(1, 12):
        grown[-k], grown[length - 1 + k] = formula(k, grown.__getitem__), formula(k, inwards)
    expected = [grown[-k] for k in range(1, 12)], [grown[length - 1 + k] for k in range(1, 12)]
    np.testing.assert_allclose(ghosts(rule, LINE[:length], 11), expected, rtol=1e-13)


def test_a_single_cell() -> None:
    assert ghosts(Reflect(odd=True), [7], 3) == ([7] * 3, [7] * 3)
    assert ghosts(Symmetric(odd=True), [7], 3) == ([7] * 3, [7] * 3)
    assert ghosts(Dirichlet(2), [7], 3) == ([-3, 7, -3], [-3, 7, -3])
    assert ghosts(Neumann(1, 2), [7], 3) == ([9, 15, 25], [9, 15, 25])  # 7+2, 9+6, 15+10
    assert ghosts(Wrap(add=10), [7], 3) == ([-3, -13, -23], [17, 27, 37])


@pytest.mark.parametrize(("rule", "_"), MIRRORS, ids=[str(rule) for rule, _ in MIRRORS])
def test_formulas_work_on_slices(rule: Rule, _: Any) -> None:
    planes = np.array([[7, -3, 4, 1, -6], [2, 5, -9, 8, 0.5]])
    for k in (1, 2, 6):
        whole = rule.ghost(-k, 5, lambda i: planes[:, i])
        np.testing.assert_allclose(whole, [rule.ghost(-k, 5, row.__getitem__) for row in planes])


# Conditions that rules stand for


def test_robin_without_one_of_its_terms_is_dirichlet_or_neumann() -> None:
    pairs = [
        (Robin(4.0, 0.0, 6.0, 0.5), Dirichlet(1.5)),
        (Robin(0.0, 2.0, -3.0, 0.5), Neumann(-1.5, 0.5)),
        (Robin(0.0, 2.0, -3.0, 0.5, at="node"), Neumann(-1.5, 0.5, at="node")),
    ]
    for robin, other in pairs:
        np.testing.assert_allclose(np.array(ghosts(robin, LINE, 1)), ghosts(other, LINE, 1))


@pytest.mark.parametrize("at", ["face", "node"])
def test_walls_meet_straight_lines_exactly(at: str) -> None:
    """u = 3*x - 1 with dx = 0.5: at the left the outward slope is -3, at the right 3."""
    dx, x = 0.5, 0.25 + 0.5 * np.arange(5)
    outside = x[0] - dx * np.arange(1, 4), x[-1] + dx * np.arange(1, 4)
    places = (x[0], x[-1]) if at == "node" else (x[0] - dx / 2, x[-1] + dx / 2)
    for side, (wall, slope) in enumerate(zip(places, (-3.0, 3.0))):
        value = 3 * wall - 1
        for rule in (
            Dirichlet(value, at=at),
            Neumann(slope, dx, at=at),
            Robin(2.0, 0.5, 2 * value + slope / 2, dx, at=at),
            Robin(-1.0, 0.75, -value + 0.75 * slope, dx, at=at),
        ):
            np.testing.assert_allclose(ghosts(rule, list(3 * x - 1), 3)[side], 3 * outside[side] - 1)


# Facts about rules


@pytest.mark.parametrize(
    ("rule", "least"),
    [
        (Constant(1.5), 0),
        (Wrap(), 1),
        (Wrap(shared=True), 2),
        (Edge(), 1),
        (Reflect(odd=True), 1),
        (Symmetric(), 1),
        *((Extrapolate(order), order + 1) for order in range(4)),
        *((rule, 1) for rule in (Dirichlet(0.0), Neumann(1, 1), Robin(1, 1, 1, 1))),
        *((rule, 2) for rule in (Dirichlet(0.0, "node"), Neumann(0, 1, "node"), Robin(1, 1, 1, 1, "node"))),
    ],
    ids=str,
)
def test_least(rule: Rule, least: int) -> None:
    assert rule.least == least


def test_robin_is_the_rule_with_fractions() -> None:
    rules = [Constant(1), Wrap(), Edge(), Reflect(), Symmetric(), Extrapolate(), Dirichlet(1), Neumann(1, 1)]
    assert not any(rule.divides for rule in rules)
    assert Robin(1, 1, 1, 1).divides


def inflow(t: float, gain: float = 2.0) -> float:
    return t * gain


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Constant(1.5), "constant 1.5"),
        (Constant(np.ones((3, 4))), "constant array(3, 4)"),
        (Constant(inflow), "constant inflow(t, gain)"),
        (Wrap(), "wrap"),
        (Wrap(add=360), "wrap, adding 360"),
        (Wrap(shared=True), "wrap, last node shared"),
        (Wrap(lambda period: period, shared=True), "wrap, adding lambda(period), last node shared"),
        (Edge(), "edge"),
        (Reflect(), "reflect"),
        (Reflect(odd=True), "odd reflect"),
        (Symmetric(), "symmetric"),
        (Symmetric(odd=True), "odd symmetric"),
        (Extrapolate(), "extrapolate of order 1"),
        (Extrapolate(0), "extrapolate of order 0"),
        (Dirichlet(-1.5), "dirichlet -1.5 at the face"),
        (Dirichlet(np.ones(5), at="node"), "dirichlet array(5,) at the node"),
        (Dirichlet(functools.partial(inflow, gain=3.0)), "dirichlet function(t, gain) at the face"),
        (Dirichlet(Slot(3, "inflow(t)")), "dirichlet inflow(t) at the face"),
        (Neumann(0.0), "neumann slope 0.0 at the face"),
        (Neumann(inflow, 0.5, at="node"), "neumann slope inflow(t, gain) at the node"),
        (Robin(2, 1.0, inflow, 0.5), "robin 2*u + 1.0*du/dn = inflow(t, gain) at the face"),
        (Robin(2, 1.0, np.ones(()), 0.5, "node"), "robin 2*u + 1.0*du/dn = array() at the node"),
    ],
)
def test_text(rule: Rule, text: str) -> None:
    assert str(rule) == text


def test_rules_are_values() -> None:
    assert len({Wrap(), Wrap(), Edge(), Constant(1.5), Constant(1.5), Constant(2.5)}) == 4
    assert len({Dirichlet(1.5), Dirichlet(1.5, "face"), Dirichlet(1.5, "node"), Neumann(0.0), Neumann(0.0, 1)}) == 3
    assert len({Reflect(), Reflect(odd=True), Symmetric(odd=True), Extrapolate(), Extrapolate(1), Extrapolate(2)}) == 5
    assert repr(Constant(1.5)) == "Constant(value=1.5)"
    assert repr(Wrap(shared=True)) == "Wrap(add=0, shared=True)"
    assert repr(Neumann(0.0)) == "Neumann(slope=0.0, dx=1, at='face')"
    with pytest.raises(AttributeError):
        Wrap().add = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("scalar", "kind"), [(np.float32(1.5), float), (np.int64(7), int), (np.complex64(1j), complex), (np.True_, bool)]
)
def test_numpy_scalars_count_as_python_numbers(scalar: np.generic, kind: type) -> None:
    for value in (Constant(scalar).value, Dirichlet(scalar).value, Robin(1, 1, scalar, 1).g, Wrap(add=scalar).add):
        assert (value, type(value)) == (scalar, kind)
