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

from stencilx.backend import Leaf, Loop
from stencilx.errors import check_same_state

Step = Callable[[Any], Any]


def loop(step: Step, donate: bool) -> Loop:
    """A function of a state and a number of steps that gives the state after them.

    Traced, the loop is a scan of known length, which can be differentiated; called from outside it is compiled once for
    all numbers of steps.
    """

    def twice(state: Any) -> Any:
        return step(step(state))

    def counted(state: Any, pairs: Any, odd: bool) -> Any:
        state = lax.fori_loop(0, pairs, lambda _, state: twice(state), state)
        return step(state) if odd else state

    compiled = jax.jit(counted, static_argnums=2, donate_argnums=0 if donate else ())

    def run(state: Any, steps: int) -> Any:
        state = jax.tree.map(_as_array, state)
        if steps:
            _check(step, state)
        if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(state)):
            return compiled(state, steps // 2, steps % 2 == 1)
        state, _ = lax.scan(lambda state, _: (twice(state), None), state, length=steps // 2)
        return step(state) if steps % 2 else state

    return run


def _as_array(leaf: Any) -> Any:
    """A leaf with a dtype of its own: what is weak, as a Python number is, may not be so after a step."""
    array = jnp.asarray(leaf)
    return lax.convert_element_type(array, array.dtype)


def _check(step: Step, state: Any) -> None:
    """After a step the state has the same structure, shapes and dtypes."""
    after, before = jax.eval_shape(step, state), jax.eval_shape(lambda state: state, state)
    trees = jax.tree.structure(before), jax.tree.structure(after)
    leaves = [[Leaf(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(tree)] for tree in (before, after)]
    check_same_state(trees, leaves)
