"""The few things that are done to jaxprs themselves, on `jax.extend.core`: no other module touches it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

__all__ = [
    "CALLS",
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "alone",
    "as_function",
    "called",
    "hoisted",
    "inner",
    "parted",
    "pruned",
    "walk",
]


def as_function(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    return jaxpr_as_fun(closed)


def alone(within: Jaxpr, eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Evaluate one equation of a jaxpr as it stands, whatever its primitive: by a jaxpr that holds nothing else."""
    given = {var: value for var, value in zip(eqn.invars, values) if not isinstance(var, Literal)}
    jaxpr = within.replace(constvars=[], invars=list(given), outvars=eqn.outvars, eqns=[eqn], effects=eqn.effects)
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, []))(*given.values())


CALLS = frozenset({"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"})
"""Primitives that are nothing but a jaxpr of their own."""


def called(eqn: JaxprEqn) -> ClosedJaxpr:
    """The jaxpr of one of them."""
    return inner(eqn.params["jaxpr" if "jaxpr" in eqn.params else "call_jaxpr"])


def inner(jaxpr: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    """The body of a call, closed."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, [])


def hoisted(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its constants as further inputs, after the others."""
    jaxpr = closed.jaxpr
    return ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.invars, *jaxpr.constvars]), [])


def parted(closed: ClosedJaxpr, late: set[int]) -> tuple[ClosedJaxpr, ClosedJaxpr, list[int]]:
    """A jaxpr in two: what can be computed without some late inputs, and the rest.

    The first takes all other inputs, in order. The second takes the late ones, in order, and then what it needs of the
    first one's results and inputs: the first one's results are just these. The third result numbers the inputs of the
    first.
    """
    jaxpr = closed.jaxpr
    dependent = {jaxpr.invars[number] for number in late}
    early_eqns, late_eqns = [], []
    for eqn in jaxpr.eqns:
        if eqn.effects or any(not isinstance(v, Literal) and v in dependent for v in eqn.invars):
            dependent.update(eqn.outvars)
            late_eqns.append(eqn)
        else:
            early_eqns.append(eqn)
    used = [v for eqn in late_eqns for v in eqn.invars] + list(jaxpr.outvars)
    known = {*jaxpr.constvars, *dependent}
    handed = list(dict.fromkeys(v for v in used if not isinstance(v, Literal) and v not in known))
    early_inputs = [number for number in range(len(jaxpr.invars)) if number not in late]
    early = jaxpr.replace(invars=[jaxpr.invars[n] for n in early_inputs], outvars=handed, eqns=early_eqns)
    rest = jaxpr.replace(invars=[*(jaxpr.invars[n] for n in sorted(late)), *handed], eqns=late_eqns)
    return ClosedJaxpr(early, closed.consts), ClosedJaxpr(rest, closed.consts), early_inputs


def pruned(closed: ClosedJaxpr, keep_from: int) -> tuple[ClosedJaxpr, list[int]]:
    """The jaxpr without the equations that nothing needs, and without those of its first inputs that nothing reads.

    Inputs from number `keep_from` on are kept in any case. The second result numbers the first inputs that are left.
    """
    jaxpr = closed.jaxpr
    needed: set[Var] = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    equations = []
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or any(v in needed for v in eqn.outvars):
            equations.append(eqn)
            needed.update(v for v in eqn.invars if not isinstance(v, Literal))
    left = [number for number, v in enumerate(jaxpr.invars[:keep_from]) if v in needed]
    invars = [jaxpr.invars[number] for number in left] + list(jaxpr.invars[keep_from:])
    return ClosedJaxpr(jaxpr.replace(invars=invars, eqns=equations[::-1]), closed.consts), left


def walk(jaxpr: Jaxpr) -> Iterable[JaxprEqn]:
    """Every equation, also those of inner jaxprs."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(part, (ClosedJaxpr, Jaxpr)):
                    yield from walk(inner(part).jaxpr)
