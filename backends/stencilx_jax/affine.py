"""Recurrences `y[i] = a[i] * y[i-1] + b[i]`: is a kernel one, and the composition of its steps in any grouping.

Called for the schedule "associative" alone. Two steps are one step of the same kind, so a whole axis is composed in a
logarithm of its length:

    y -> a1*y + b1, then y -> a2*y + b2      =      y -> (a1*a2)*y + (a2*b1 + b2)

Whether a formula is affine follows from its jaxpr, by a table of the operations that keep it so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from stencilx.errors import ScheduleError
from stencilx.plan import Plan
from stencilx.results import kernel_name
from stencilx_jax.jaxprs import CALLS, Jaxpr, JaxprEqn, Literal, called
from stencilx_jax.trace import JaxFormula


def composed(step: Callable[..., Any], buffers: dict[int, list[Any]], slabs: Any, here: np.ndarray) -> dict[int, Any]:
    """What `lax.scan(step, buffers, slabs)` stacks, for a sweep of one field whose step is affine in the slab before.

    Args:
        here: the cells of a slab that depend on the slab before; each on its own cell there alone.
    """
    ((number, kept),) = buffers.items()
    rows = slabs.current[number]
    lagged = jnp.concatenate([*(slab[None] for slab in kept), rows])  # where it is not `here`, all values are known
    before = [lagged[k : k + len(rows)] for k in range(len(kept))]

    def all_at_once(*before: Any) -> Any:
        return jax.vmap(lambda before, x: step({number: before}, x)[1][number])(before, slabs)

    if not before:
        return {number: all_at_once()}
    *further, last = before
    mask: Any = True if here.all() else here[None]
    ones = jnp.broadcast_to(jnp.asarray(mask, rows.dtype), rows.shape)
    b, a = jax.jvp(lambda last: all_at_once(*further, last), (jnp.where(mask, 0, last),), (ones,))
    cut = a == 0
    started = jnp.concatenate([_step(a[:1], cut[:1], kept[-1][None], b[:1]), b[1:]])
    return {number: lax.associative_scan(_joined, (a, cut, started))[2]}


def _joined(one: tuple[Any, Any, Any], two: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Two runs of steps as one: the factor, whether some factor in it is 0, and the sum."""
    (a1, cut1, b1), (a2, cut2, b2) = one, two
    return a1 * a2, cut1 | cut2, _step(a2, cut2, b1, b2)


def _step(a: Any, cut: Any, y: Any, b: Any) -> Any:
    """`a * y + b`; a factor of 0 lets nothing through, not even NaN: a cell may choose not to read the one before."""
    return a * jnp.where(cut & ~jnp.isfinite(y), 0, y) + b


# Which kernels are affine


class _Obstacle(Exception):
    """What a kernel does with a value that it carries, in words."""


def check(plan: Plan, formulas: Sequence[JaxFormula]) -> None:
    """Each kernel must be affine in the values that it carries."""
    offsets = {read.offset: read for read in plan.schedule.carried}
    for formula in formulas:
        inputs = formula.inputs or ()
        reads = [
            offsets.get(plan.fields[number].geometry.in_cells(tap)) if number in plan.updates else None
            for number, tap in inputs
        ]
        carried = next((read for read in reads if read is not None), None)
        if carried is None:
            continue
        invars: list[Any] = formula.closed.jaxpr.invars
        dtype = invars[reads.index(carried)].aval.dtype
        if not jnp.issubdtype(dtype, jnp.inexact):
            raise ScheduleError(
                f"schedule 'associative' needs a field of floats, and {carried.field!r} is {dtype}.",
                hint="convert it first, or leave schedule= away: then every field goes.",
            )
        try:
            _dependent(
                formula.closed.jaxpr, [read is not None for read in reads] + [False] * (len(invars) - len(reads))
            )
        except _Obstacle as obstacle:
            raise ScheduleError(
                f"schedule 'associative' needs a kernel that is affine in what it carries, a * {carried} + b, and "
                f"{kernel_name(formula.kernel)} {obstacle}.",
                hint="leave schedule= away: then every kernel goes.",
            ) from None


def _dependent(jaxpr: Jaxpr, given: Sequence[bool]) -> list[bool]:
    """Which results depend on the inputs that are marked; an `_Obstacle` where one is not affine in them."""
    marked = {var for var, mark in zip(jaxpr.invars, given, strict=True) if mark}

    def marks(variables: Sequence[Any]) -> list[bool]:
        return [not isinstance(var, Literal) and var in marked for var in variables]

    for eqn in jaxpr.eqns:
        operands = marks(eqn.invars)
        if any(operands):
            rule = _RULES.get(eqn.primitive.name, _unknown)
            marked.update(var for var, mark in zip(eqn.outvars, rule(eqn, operands)) if mark)
    return marks(jaxpr.outvars)


_Rule = Callable[[JaxprEqn, list[bool]], list[bool]]
"""Takes an equation and which of its operands depend on what is carried, at least one; marks its results."""

_RULES: dict[str, _Rule] = {}


def _rule(names: str) -> Callable[[_Rule], _Rule]:
    def enter(rule: _Rule) -> _Rule:
        _RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return enter


@_rule(
    "add add_any broadcast_in_dim concatenate copy copy_p cumsum expand_dims neg pad reduce_sum reshape rev slice split"
    " squeeze stack sub tile transpose"
)
def _linear(eqn: JaxprEqn, operands: list[bool]) -> list[bool]:
    return [True] * len(eqn.outvars)


def _unless(words: str, forbidden: Callable[[list[bool]], bool]) -> _Rule:
    """Linear, but for some combinations of operands."""

    def rule(eqn: JaxprEqn, operands: list[bool]) -> list[bool]:
        if forbidden(operands):
            raise _Obstacle(words)
        return _linear(eqn, operands)

    return rule


_rule("mul dot_general")(_unless("multiplies it by itself", all))
_rule("div")(_unless("divides by it", lambda operands: operands[1]))
_rule("select_n")(_unless("chooses by it", lambda operands: operands[0]))
_rule("gather dynamic_slice")(_unless("indexes by it", lambda operands: any(operands[1:])))
_rule("eq ge gt le lt ne")(_unless("compares it", any))


@_rule("convert_element_type")
def _convert(eqn: JaxprEqn, operands: list[bool]) -> list[bool]:
    old: Any = eqn.invars[0].aval
    new = eqn.params["new_dtype"]
    real_part = jnp.issubdtype(old.dtype, jnp.complexfloating) and not jnp.issubdtype(new, jnp.complexfloating)
    if real_part or not jnp.issubdtype(new, jnp.inexact):
        raise _Obstacle(f"converts it to {new}")
    return _linear(eqn, operands)


@_rule(" ".join(CALLS))
def _call(eqn: JaxprEqn, operands: list[bool]) -> list[bool]:
    return _dependent(called(eqn).jaxpr, operands)


def _unknown(eqn: JaxprEqn, operands: list[bool]) -> list[bool]:
    raise _Obstacle(f"applies {eqn.primitive.name!r} to it")
