"""What kernels take from outside, and whether it is still the same."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stencilx import errors
from stencilx.capture import captured, parameters, unchanged

Kernel = Callable[..., Any]

factor = 2.0
weights = np.arange(3.0)


def reads_a_global(u: Any) -> Any:
    return factor * u


def reads_it_in_an_inner_function(u: Any) -> Any:
    return [factor * value for value in (weights * v for v in u)]


def calls_a_helper(u: Any) -> Any:
    return reads_a_global(u) + 1


def calls_itself(u: Any, n: int = 3) -> Any:
    return calls_itself(factor * u, n - 1) if n else u


def calls_another_library(u: Any) -> Any:
    return errors.join(u)


def holds(value: Any) -> Kernel:
    return lambda u: value * u


class Model:
    scale = 1.0

    def kernel(self, u: Any) -> Any:
        return factor * self.scale * u


class Scaled:
    def __init__(self, scale: Any) -> None:
        self.scale = scale

    def __call__(self, u: Any) -> Any:
        return factor * self.scale * u


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Any], None]]:
    """Change a global of this module for one test."""
    yield functools.partial(monkeypatch.setattr, sys.modules[__name__])


def contains(found: list[Any], value: Any) -> bool:
    return any(part is value for part in found)


# What is found


def test_closures() -> None:
    value = object()
    assert contains(captured([holds(value)]), value)


def test_closures_of_closures() -> None:
    value = object()
    assert contains(captured([holds(holds(value))]), value)


def test_globals() -> None:
    assert contains(captured([reads_a_global]), factor)


def test_globals_of_inner_functions() -> None:
    found = captured([reads_it_in_an_inner_function])
    assert contains(found, factor)
    assert contains(found, weights)


def test_globals_of_helpers_in_the_same_module() -> None:
    assert contains(captured([calls_a_helper]), factor)


def test_other_modules_are_not_searched() -> None:
    found = captured([calls_another_library])
    assert contains(found, errors)
    assert not contains(found, errors.join)


def test_defaults() -> None:
    a, b = object(), object()

    def kernel(u: Any, scale: Any = a, *, shift: Any = b) -> Any:
        return u

    found = captured([kernel])
    assert contains(found, a)
    assert contains(found, b)


def test_partials() -> None:
    a, b = object(), object()
    found = captured([functools.partial(reads_a_global, a, scale=b)])
    assert all(contains(found, value) for value in (a, b, factor))


def test_partials_of_partials() -> None:
    value = object()
    assert contains(captured([functools.partial(functools.partial(holds(value)), 1)]), value)


def test_methods() -> None:
    model = Model()
    found = captured([model.kernel])
    assert contains(found, model)
    assert contains(found, factor)


def test_callable_objects() -> None:
    value = object()
    found = captured([Scaled(value)])
    assert contains(found, value)
    assert contains(found, factor)


def test_wrapped_functions() -> None:
    value = object()

    @functools.wraps(reads_a_global)
    def kernel(u: Any) -> Any:
        return reads_a_global(u) * value

    found = captured([kernel])
    assert contains(found, factor)
    assert contains(found, value)


def test_several_kernels() -> None:
    a, b = object(), object()
    found = captured([holds(a), holds(b)])
    assert contains(found, a)
    assert contains(found, b)


def test_recursion_ends() -> None:
    assert contains(captured([calls_itself]), factor)


def test_names_that_are_not_bound_yet() -> None:
    def kernel(u: Any) -> Any:
        return later * u

    before = captured([kernel])
    later = 3.0
    assert None in before
    assert not unchanged(before, captured([kernel]))


@pytest.mark.parametrize("kernel", [math.sqrt, np.sin, np.sum, max, Model()], ids=repr)
def test_what_is_no_python_function_holds_nothing(kernel: Any) -> None:
    assert [part for part in captured([kernel]) if isinstance(part, (int, float, np.ndarray))] == []


# What has changed


def test_the_same_kernels_again() -> None:
    for kernel in (reads_a_global, calls_a_helper, calls_itself, Model().kernel, holds(weights), math.sqrt):
        assert unchanged(captured([kernel]), captured([kernel]))


@pytest.mark.parametrize(
    "kernel",
    [
        reads_a_global,
        calls_a_helper,
        reads_it_in_an_inner_function,
        Model().kernel,
        Scaled(1.0),
        functools.partial(reads_a_global, scale=2),
    ],
)
def test_a_changed_global_is_seen(kernel: Kernel, change: Callable[[str, Any], None]) -> None:
    before = captured([kernel])
    change("factor", 3.0)
    assert not unchanged(before, captured([kernel]))
    change("factor", 1.0 + 1.0)  # equal to what it was, and another object
    assert unchanged(before, captured([kernel]))


def test_a_number_of_another_type_is_a_change(change: Callable[[str, Any], None]) -> None:
    before = captured([reads_a_global])
    change("factor", 2)
    assert not unchanged(before, captured([reads_a_global]))


def test_an_equal_array_is_a_change(change: Callable[[str, Any], None]) -> None:
    before = captured([reads_it_in_an_inner_function])
    change("weights", weights.copy())
    assert not unchanged(before, captured([reads_it_in_an_inner_function]))


def test_a_changed_helper_is_seen(change: Callable[[str, Any], None]) -> None:
    before = captured([calls_a_helper])
    change("reads_a_global", holds(2.0))
    assert not unchanged(before, captured([calls_a_helper]))


def test_a_rebound_closure_is_seen() -> None:
    def kernel(u: Any) -> Any:
        return scale * u

    scale = 1.5
    before = captured([kernel])
    scale = 2.5
    assert not unchanged(before, captured([kernel]))


def test_a_changed_attribute_of_a_callable_is_seen() -> None:
    kernel = Scaled(1.5)
    before = captured([kernel])
    kernel.scale = 2.5
    assert not unchanged(before, captured([kernel]))


def test_a_kernel_more_or_less_is_a_change() -> None:
    assert not unchanged(captured([reads_a_global]), captured([reads_a_global, holds(1)]))
    assert not unchanged([1, 2], [1])
    assert not unchanged([1], [1, 2])


def test_what_hides_inside_objects_is_not_looked_at() -> None:
    model = Model()
    before = captured([model.kernel])
    model.scale = 5.0
    assert unchanged(before, captured([model.kernel]))


# Parameters


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (reads_a_global, ("u",)),
        (calls_itself, ("u", "n")),
        (Model().kernel, ("u",)),
        (Scaled(1.0), ("u",)),
        (lambda u, /, h, *rest, dt=1, **more: u, ("u", "h")),
        (functools.partial(calls_itself, 1.0), ("n",)),
        (max, ()),
        (3, ()),
    ],
    ids=repr,
)
def test_names_of_positional_parameters(kernel: Any, names: tuple[str, ...]) -> None:
    assert parameters(kernel) == names
