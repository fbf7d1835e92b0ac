"""The JAX backend: what the core asks of it, answered by `trace.py` and `map.py`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stencilx.backend import Arguments, Leaf, Loop, Runner, WindowSpec
from stencilx.errors import FieldError, KernelError
from stencilx.offsets import OffsetWindow
from stencilx.plan import Plan
from stencilx.results import check_alike, check_updates
from stencilx_jax import affine, sweeps
from stencilx_jax import map as maps
from stencilx_jax.fences import fenced
from stencilx_jax.loop import loop
from stencilx_jax.trace import LARGE, JaxFormula, field_dtype, is_dynamic, split, trace

_CONFIG = ("jax_enable_x64", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion")
"""Settings of JAX's that change what a trace gives, or whether it is an error."""


class JaxBackend:
    """Compiled by XLA; works under jit, grad, jvp, vmap; fields are JAX arrays, NumPy arrays or lists."""

    name = "jax"

    def as_field(self, value: Any, like: Any = None) -> Any:
        if isinstance(value, np.ndarray):  # float64 becomes float32 here where JAX would do it later
            return value.astype(jax.dtypes.canonicalize_dtype(value.dtype), copy=False)
        return value if isinstance(value, jax.Array) else jnp.asarray(value)

    def signature(self, arguments: Arguments) -> Hashable:
        leaves, tree = jax.tree.flatten((arguments.args, arguments.kwargs, arguments.walls))
        config = tuple(getattr(jax.config, name) for name in _CONFIG)
        return tree, config, tuple(map(_leaf_signature, leaves))

    def joined(self, array: Any, joins: Sequence[Any]) -> Any:
        return field_dtype(array, joins)

    def where(self, condition: Any, tree: Any, other: Any) -> Any:
        return jax.tree.map(lambda leaf: _where(condition, leaf, other), tree)

    def trace(self, kernel: Callable[..., Any], windows: Sequence[WindowSpec], arguments: Arguments) -> JaxFormula:
        return trace(kernel, windows, arguments)

    def output(self, plan: Plan, formulas: Sequence[JaxFormula], arguments: Arguments) -> tuple[Leaf, ...]:
        leaves = jax.eval_shape(_body(plan, formulas), _inputs(plan, formulas)(arguments))
        return tuple(Leaf(leaf.shape, str(leaf.dtype)) for leaf in leaves)

    def loop(self, step: Callable[[Any], Any], donate: bool) -> Loop:
        return loop(step, donate)

    def runner(self, plan: Plan, formulas: Sequence[JaxFormula]) -> Runner:
        _check_results(plan, formulas)
        if plan.schedule.name == "associative":
            affine.check(plan, formulas)
        body = _body(plan, formulas)
        tree = formulas[0].tree if formulas else jax.tree.structure(0)
        if len(plan.updates) > 1:
            tree = jax.tree.structure((0,) * len(plan.updates))
        # What closes over a traced value serves one call only: it is jitted just to be fenced.
        reusable = all(formula.reusable for formula in formulas)
        compiled = jax.jit(body) if reusable or not plan.fuse else body
        inputs_of = _inputs(plan, formulas)
        into = jax.jit(lambda out, inputs: body(inputs), donate_argnums=0, keep_unused=True)

        def run(arguments: Arguments, out: Any) -> Any:
            inputs = inputs_of(arguments)
            if out is None:
                return jax.tree.unflatten(tree, compiled(inputs) if plan.fuse else fenced(compiled, inputs))
            buffers = _buffers(out, tree, jax.eval_shape(body, inputs), arguments)
            return jax.tree.unflatten(tree, into(buffers, inputs))

        return run


def _where(condition: Any, leaf: Any, other: Any) -> Any:
    if isinstance(leaf, OffsetWindow):
        return leaf  # an error of its own
    if isinstance(other, int) and jnp.issubdtype(jnp.result_type(leaf), jnp.bool_):
        other = bool(other)
    return jnp.where(condition, leaf, other)


def _leaf_signature(leaf: Any) -> Hashable:
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)
    if is_dynamic(leaf):
        return (), jnp.result_type(type(leaf)), True  # as a number that is traced
    try:
        hash(leaf)
    except TypeError:
        raise KernelError(
            f"a parameter of type {type(leaf).__name__} is neither an array nor hashable.",
            hint="pass numbers and arrays, or containers of them, and close over the rest.",
        ) from None
    return type(leaf), leaf


def _body(plan: Plan, formulas: Sequence[JaxFormula]) -> Callable[[maps.Inputs], list[Any]]:
    run = sweeps.run if plan.schedule.axes else maps.run

    return lambda inputs: run(plan, formulas, inputs)


def _inputs(plan: Plan, formulas: Sequence[JaxFormula]) -> Callable[[Arguments], maps.Inputs]:
    """How the arrays of a call are put together."""
    owners = {part.owner for part in plan.parts}
    fillings = [value.constant if number in owners else None for number, value in enumerate(plan.values)]
    constants = [f.constants for f in formulas]

    def inputs(arguments: Arguments) -> maps.Inputs:
        return maps.Inputs(arguments.arrays, split(arguments).dynamic, constants, fillings, list(arguments.walls))

    return inputs


def _check_results(plan: Plan, formulas: Sequence[JaxFormula]) -> None:
    leaf = jax.tree.structure(0)
    trees = ["*" if formula.tree == leaf else formula.tree for formula in formulas]
    for formula, tree in zip(formulas, trees):
        if plan.into_copy or plan.updates:
            check_updates(formula.kernel, max(len(plan.updates), 1), formula.shapes, tree == "*")
        first = formulas[0]
        check_alike(first.kernel, trees[0], first.shapes, formula.kernel, tree, formula.shapes)
        if plan.updates and formula.inputs is None:
            raise KernelError(
                f"a sweep takes windows of at most {LARGE} cells as arrays.",
                hint="index the window by offset: relative=True, or leave kernel_size out.",
            )


def _buffers(out: Any, tree: Any, results: Sequence[Any], arguments: Arguments) -> list[Any]:
    """The arrays that give up their memory to the result."""
    buffers, given = jax.tree.flatten(out)
    if given != tree:
        raise FieldError(f"out has the structure {given}, but the result has {tree}.")
    for buffer in buffers:
        if not isinstance(buffer, jax.Array):
            raise FieldError(
                f"out must be a JAX array to give up its memory, not {type(buffer).__name__}.",
                hint="leave out= away: the result is a new array; or use the NumPy backend, which writes in place.",
            )
        if any(buffer is array for array in arguments.arrays):
            raise FieldError("out is a field of the call, which is still read.", hint="give another array.")
    shown = [f"{b.dtype}{list(b.shape)}" for b in buffers]
    needed = [f"{r.dtype}{list(r.shape)}" for r in results]
    if shown != needed:
        raise FieldError(f"out is {', '.join(shown)}, but the result is {', '.join(needed)}.")
    return buffers


BACKEND = JaxBackend()
