"""Time loops: a step, taken many times, in one compiled loop."""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stencilx.backend import Backend, Loop, choose
from stencilx.capture import captured, unchanged
from stencilx.errors import FieldError
from stencilx.results import flatten
from stencilx.stencil import Stencil
from stencilx.window import whole_number


@dataclass(frozen=True)
class Iteration:
    """What `iterate` returns.

    Attributes:
        state: the state after the last step, like the one that was given.
        steps: how many steps were taken.
    """

    state: Any
    steps: int


def iterate(step: Callable[..., Any], state: Any, steps: int, *, donate: bool = False) -> Iteration:
    """Take a step many times: `state = step(state)`, in one compiled loop that keeps two states in memory.

    On JAX the loop is compiled once for each step and shape, for any number of steps. It works within `jit`, `vmap`
    and `grad`; a reverse pass keeps what the steps need to be turned round: nothing for steps that are linear in the
    state, a state or more for each step otherwise. On other backends it is a Python loop.

    Args:
        step: a stencil, or a function that calls stencils. It takes a state and returns one of the same structure,
            shapes and dtypes. A tuple is handed over as so many arguments: `step(u, v)` returns `(u, v)`.
        state: an array, a tuple of arrays, or any tree of them.
        steps: how many steps to take, a whole number.
        donate: whether the loop may take the memory of the given state, whose arrays cannot be used afterwards.

    Returns:
        An `Iteration`, whose `state` is the last one.

    Raises:
        FieldError: a step that returns something else than it takes.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> heat = sx.kmap(lambda u: u[0] + 0.25 * (u[-1] - 2 * u[0] + u[1]), padding="same", boundary="edge")
        >>> u = np.array([0.0, 0.0, 8.0, 0.0, 0.0], np.float32)
        >>> np.asarray(sx.iterate(heat, u, 2).state)
        array([0.5, 2. , 3. , 2. , 0.5], dtype=float32)
        >>> rotate = lambda u, v: (u - 0.5 * v, v + 0.5 * u)
        >>> sx.iterate(rotate, (np.float32(1.0), np.float32(0.0)), 2).state[1].item()
        1.0
    """
    steps = whole_number(steps, "the number of steps")
    if steps < 0:
        raise FieldError(f"the number of steps must be 0 or more, not {steps}.")
    backend = choose(step.backend if isinstance(step, Stencil) else None, flatten(state)[0])
    spread = type(state) is tuple
    return Iteration(_loop(step, backend, spread, donate)(state, steps), steps)


KEPT = 64
"""Loops that are kept compiled; the one that was used longest ago is the first to go."""

_loops: OrderedDict[Any, tuple[Any, list[Any], Loop]] = OrderedDict()
"""By the identity of the step's code and the options: the code, what it took from its surroundings, and its loop."""


def _loop(step: Callable[..., Any], backend: Backend, spread: bool, donate: bool) -> Loop:
    owner: Any = step.__func__ if isinstance(step, types.MethodType) else step
    if isinstance(
        owner, types.FunctionType
    ):  # made anew where it is written, as a lambda is, it is still the same code
        owner = owner.__code__
    key, surroundings = (id(owner), backend.name, spread, donate), _surroundings(step)
    known = _loops.pop(key, None)
    if known is None or not unchanged(known[1], surroundings):
        known = owner, surroundings, backend.loop(_of_one_argument(step) if spread else step, donate)
    _loops[key] = known
    if len(_loops) > KEPT:
        _loops.popitem(last=False)
    return known[2]


def _of_one_argument(step: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda state: step(*state)


def _surroundings(step: Callable[..., Any]) -> list[Any]:
    """All that the loop depends on: what the step captures, and what the stencils do that it calls."""
    found = [step] if isinstance(step, Stencil) else captured([step])
    seen: set[int] = set()
    for part in found:  # which grows on the way
        if isinstance(part, Stencil) and id(part) not in seen:
            seen.add(id(part))
            found += part.surroundings[1:]
    return found
