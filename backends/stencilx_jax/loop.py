"""Time loops: many steps in one compiled loop.

The body holds two steps: state, next state, next but one. With one, XLA would copy each new state to where the loop
expects it; with two, the second writes over the first, and two buffers are all that is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from stencilx.backend import Loop
from stencilx.results import check_same_state, shown

Step = Callable[[Any], Any]


def loop(step: Step, donate: bool) -> Loop:
    """A function of a state and a number of steps that gives the state after them.

    Called from outside, the loop is compiled once for all numbers of steps. Where anything is traced, it is a scan of
    known length, which can be differentiated.
    """
    outside: dict[Any, bool] = {}

    def twice(state: Any) -> Any:
        return step(step(state))

    def counted(state: Any, pairs: Any, odd: bool) -> Any:
        state = lax.fori_loop(0, pairs, lambda _, state: twice(state), state)
        return step(state) if odd else state

    compiled = jax.jit(counted, static_argnums=2, donate_argnums=0 if donate else ())

    def run(state: Any, steps: int) -> Any:
        state = jax.tree.map(_as_array, state)
        if not steps:
            return state
        leaves, tree = jax.tree.flatten(state)
        key = tree, *((leaf.shape, leaf.dtype) for leaf in leaves)
        traced = any(isinstance(leaf, Tracer) for leaf in leaves)
        if traced or key not in outside:
            outside[key] = _checked(step, state) and not traced
        if outside[key]:
            return compiled(state, steps // 2, steps % 2 == 1)
        state, _ = lax.scan(lambda state, _: (twice(state), None), state, length=steps // 2)
        return step(state) if steps % 2 else state

    return run


def _as_array(leaf: Any) -> Any:
    """A leaf with a dtype of its own: what is weak, as a Python number is, may not be so after a step."""
    array = jnp.asarray(leaf)
    return lax.convert_element_type(array, array.dtype)


def _checked(step: Step, state: Any) -> bool:
    """Check that a step keeps structure, shapes and dtypes; whether it closes over nothing that is traced."""
    closed, after = jax.make_jaxpr(step, return_shape=True)(state)
    same = jax.tree.structure(after) == jax.tree.structure(state)
    check_same_state(list(map(shown, jax.tree.leaves(state))), list(map(shown, jax.tree.leaves(after))), same)
    return not any(isinstance(constant, Tracer) for constant in closed.consts)
