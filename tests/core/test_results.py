"""Trees of results: taken apart and put together again."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stencilx.errors import KernelError, RegionError
from stencilx.results import check_alike, check_updates, flatten, kernel_name, unflatten

Pair = namedtuple("Pair", "lo hi")

leaves = st.integers() | st.none() | st.text(max_size=2)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.tuples(inner, inner).map(lambda pair: Pair(*pair))
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(a: Any, b: Any) -> bool:
    """Equal, and of the same types all the way down: (1, 2) is not Pair(1, 2)."""
    if type(a) is not type(b) or not isinstance(a, (list, tuple, dict)):
        return type(a) is type(b) and a == b
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return len(a) == len(b) and all(map(same, a, b))


@given(trees)
def test_round_trip(tree: Any) -> None:
    found, structure = flatten(tree)
    assert same(unflatten(structure, found), tree)


@given(trees)
def test_structure_does_not_depend_on_leaves(tree: Any) -> None:
    found, structure = flatten(tree)
    numbered = unflatten(structure, range(len(found)))
    assert flatten(numbered) == (list(range(len(found))), structure)
    assert hash(structure) == hash(flatten(numbered)[1])


@given(trees, trees)
def test_structures_differ_where_trees_do(a: Any, b: Any) -> None:
    (found, one), (_, other) = flatten(a), flatten(b)
    shaped_alike = same(unflatten(one, [0] * len(found)), unflatten(other, [0] * len(flatten(b)[0])))
    assert (one == other) == shaped_alike


def test_dicts_count_by_key_and_not_by_order() -> None:
    assert flatten({"lo": 1, "hi": 2}) == flatten({"hi": 2, "lo": 1})
    assert flatten({"lo": 1, "hi": (2, 3)})[0] == [2, 3, 1]


def test_a_leaf_is_a_tree() -> None:
    assert flatten(3.5) == ([3.5], "*")
    assert unflatten("*", [3.5]) == 3.5


def test_wrong_number_of_leaves_is_our_fault() -> None:
    with pytest.raises(AssertionError, match="stencilx fault"):
        unflatten(flatten([1, 2])[1], [1, 2, 3])


def test_named_tuples_keep_their_names() -> None:
    found, structure = flatten(Pair(1, {"x": 2}))
    assert unflatten(structure, found).hi == {"x": 2}


# Checks: the texts are in test_errors.py


@pytest.mark.parametrize(("count", "is_leaf"), [(1, True), (2, False)])
def test_scalars_pass(count: int, is_leaf: bool) -> None:
    check_updates(max, count, [()] * count, is_leaf)


@pytest.mark.parametrize(
    ("count", "shapes", "is_leaf"),
    [
        (1, [(1,)], True),
        (1, [(3, 5)], True),
        (1, [(), ()], False),
        (1, [], False),
        (1, [()], False),
        (2, [()], True),
        (2, [(), (), ()], False),
        (2, [(), (3,)], False),
    ],
)
def test_what_is_no_scalar(count: int, shapes: list[tuple[int, ...]], is_leaf: bool) -> None:
    with pytest.raises(KernelError):
        check_updates(max, count, shapes, is_leaf)


def test_alike() -> None:
    check_alike(max, "*", [(3,)], min, "*", [(3,)])
    with pytest.raises(RegionError):
        check_alike(max, "*", [(3,)], min, "*", [(5,)])
    with pytest.raises(RegionError):
        check_alike(max, flatten([0])[1], [()], min, flatten((0,))[1], [()])


def test_kernel_names() -> None:
    class Model:
        pass

    assert [kernel_name(k) for k in (max, lambda u: u, Model())] == ["max", "<lambda>", "Model"]
