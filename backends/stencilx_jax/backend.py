"""The JAX backend: what the core asks of it, answered by `trace.py` and `map.py`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stencilx.backend import Arguments, Leaf, Runner, WindowSpec
from stencilx.errors import FieldError, KernelError
from stencilx.plan import Plan
from stencilx.results import check_alike, check_updates
from stencilx_jax import map as maps
from stencilx_jax import sweeps
from stencilx_jax.trace import JaxFormula, field_dtype, is_dynamic, split, trace


class JaxBackend:
    """Compiled by XLA; works under jit, grad, jvp, vmap; fields are JAX arrays, NumPy arrays or lists."""

    name = "jax"

    def as_field(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):  # float64 becomes float32 here where JAX would do it later
            return value.astype(jax.dtypes.canonicalize_dtype(value.dtype), copy=False)
        return value if isinstance(value, jax.Array) else jnp.asarray(value)

    def signature(self, arguments: Arguments) -> Hashable:
        leaves, tree = jax.tree.flatten((arguments.args, arguments.kwargs))
        precision = jnp.result_type(float)  # tells whether 64 bits are on
        return tree, precision, tuple(map(_leaf_signature, leaves))

    def joined(self, array: Any, joins: Sequence[Any]) -> Any:
        return field_dtype(array, joins)

    def trace(self, kernel: Callable[..., Any], windows: Sequence[WindowSpec], arguments: Arguments) -> JaxFormula:
        return trace(kernel, windows, arguments)

    def output(self, plan: Plan, formulas: Sequence[JaxFormula], arguments: Arguments) -> tuple[Leaf, ...]:
        leaves = jax.eval_shape(_body(plan, formulas), *_inputs(plan, formulas, arguments))
        return tuple(Leaf(leaf.shape, str(leaf.dtype)) for leaf in leaves)

    def runner(self, plan: Plan, formulas: Sequence[JaxFormula]) -> Runner:
        _check_results(plan, formulas)
        body = _body(plan, formulas)
        tree = formulas[0].tree if formulas else jax.tree.structure(0)
        if len(plan.updates) > 1:
            tree = jax.tree.structure((0,) * len(plan.updates))
        # What closes over a traced value serves one call only: compiling it would be for nothing.
        reusable = all(formula.reusable for formula in formulas)
        compiled = jax.jit(body) if reusable else body
        into = jax.jit(lambda out, *inputs: body(*inputs), donate_argnums=0, keep_unused=True)

        def run(arguments: Arguments, out: Any) -> Any:
            inputs = _inputs(plan, formulas, arguments)
            if out is None:
                return jax.tree.unflatten(tree, compiled(*inputs))
            buffers = jax.tree.leaves(out)
            _check_out(buffers, jax.eval_shape(body, *inputs))
            return jax.tree.unflatten(tree, into(buffers, *inputs))

        return run


def _leaf_signature(leaf: Any) -> Hashable:
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)
    if is_dynamic(leaf):
        return type(leaf)
    try:
        hash(leaf)
    except TypeError:
        raise KernelError(
            f"a parameter of type {type(leaf).__name__} is neither an array nor hashable.",
            hint="pass numbers and arrays, or containers of them, and close over the rest.",
        ) from None
    return type(leaf), leaf


def _body(plan: Plan, formulas: Sequence[JaxFormula]) -> Callable[..., list[Any]]:
    run = maps.run if plan.schedule.name == "parallel" else sweeps.run

    def stencil(fields: Any, dynamic: Any, constants: Any, fillings: Any) -> list[Any]:
        return run(plan, formulas, fields, dynamic, constants, fillings)

    return stencil


def _inputs(plan: Plan, formulas: Sequence[JaxFormula], arguments: Arguments) -> tuple[Any, ...]:
    """All arrays of a call: nothing that may be traced is closed over by compiled code."""
    fillings = [value.constant for value in plan.values]
    return arguments.arrays, split(arguments).dynamic, [f.constants for f in formulas], fillings


def _check_results(plan: Plan, formulas: Sequence[JaxFormula]) -> None:
    for formula in formulas:
        if plan.into_copy or plan.updates:
            is_leaf = jax.tree.structure(0) == formula.tree
            check_updates(formula.kernel, max(len(plan.updates), 1), formula.shapes, is_leaf)
        first = formulas[0]
        check_alike(first.kernel, first.tree, first.shapes, formula.kernel, formula.tree, formula.shapes)


def _check_out(buffers: Sequence[Any], results: Sequence[Any]) -> None:
    given = [(tuple(b.shape), str(b.dtype)) for b in buffers]
    needed = [(tuple(r.shape), str(r.dtype)) for r in results]
    if given != needed:
        raise FieldError(f"out has shape and dtype {given}, but the result has {needed}.")


BACKEND = JaxBackend()
