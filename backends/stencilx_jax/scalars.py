"""From a kernel's jaxpr over windows to a formula over scalars: the walk.

A window is held as `Cells`, a NumPy object array with one traced scalar for each offset. The jaxpr is evaluated on
such arrays by a table of rules:

* a primitive that only moves data (reshape, slice, concatenate ...) moves the elements, in NumPy;
* an elementwise primitive is bound once for each element;
* a reduction is folded, a small matrix product written out;
* anything else gets its operands stacked into ordinary arrays and is evaluated as it stands.

The result speaks of scalars only. `jax.vmap` over the grid then turns each of them into a whole shifted slice, and
gradients, jvp, vmap need no rule of ours.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from stencilx_jax.jaxprs import CALLS, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, alone, called

PRODUCTS = 1024
"""A matrix product of Cells with up to so many scalar products is written out, a larger one is done on stacks."""


class Cells:
    """An array whose elements are scalars of their own: one traced value for each.

    `whole` may give the reduction of a window that was not touched yet, `whole("max", None)`, or of a window times
    weights; it gives None where that is no better than reducing the elements.
    """

    def __init__(self, elements: np.ndarray, whole: Callable[[str, Any], Any] | None = None) -> None:
        self.elements, self.whole = elements, whole

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape


Rule = Callable[[JaxprEqn, Sequence[Any]], Any]
"""Takes an equation and its operands, at least one of them Cells; gives one result, or a list of them, or None where
it cannot help."""

_RULES: dict[str, Rule] = {}


def evaluate(closed: ClosedJaxpr, operands: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr on operands that may be Cells."""
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, closed.consts)) | dict(zip(jaxpr.invars, operands))

    def value(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else values[var]

    for eqn in jaxpr.eqns:
        values.update(zip(eqn.outvars, _step(jaxpr, eqn, [value(v) for v in eqn.invars])))
    return [value(v) for v in jaxpr.outvars]


def _step(within: Jaxpr, eqn: JaxprEqn, operands: Sequence[Any]) -> list[Any]:
    name = eqn.primitive.name
    if name in CALLS:
        return evaluate(called(eqn), operands)
    if any(isinstance(o, Cells) for o in operands):
        rule = _RULES.get(name)
        result = rule(eqn, operands) if rule else None
        if result is not None:
            return result if isinstance(result, list) else [result]
    elif _is_constant_index(eqn) and not any(isinstance(o, Tracer) for o in operands):
        with jax.ensure_compile_time_eval():  # constant indices stay constant, so that a gather may be a move
            return [np.asarray(result) for result in alone(within, eqn, operands)]
    return alone(within, eqn, [stacked(o) for o in operands])


def _is_constant_index(eqn: JaxprEqn) -> bool:
    """Whether an equation computes whole numbers or truths, and does nothing else."""
    avals: list[Any] = [v.aval for v in eqn.outvars]
    whole = (jnp.issubdtype(aval.dtype, kind) for aval in avals for kind in (np.integer, np.bool_))
    return bool(avals) and not eqn.effects and sum(whole) == len(avals) and all(aval.size < 100_000 for aval in avals)


# Between the two kinds of value


def elements(value: Any) -> np.ndarray:
    """The elements of an operand, one scalar each."""
    if isinstance(value, Cells):
        return value.elements
    return object_array(np.shape(value), lambda index: _element(value, index))


def _element(array: Any, index: tuple[int, ...]) -> Any:
    if not index:
        return array
    if isinstance(array, np.ndarray):
        return array[index]
    one = lax.slice(array, index, [i + 1 for i in index])
    return lax.squeeze(one, range(len(index)))


def stacked(value: Any) -> Any:
    """An operand as an ordinary array."""
    if not isinstance(value, Cells):
        return value
    if not value.shape:
        return value.elements[()]
    return jnp.stack([jnp.asarray(e) for e in value.elements.ravel()]).reshape(value.shape)


def object_array(shape: Sequence[int], element: Callable[[tuple[int, ...]], Any]) -> np.ndarray:
    """An array of objects, each put in by itself: NumPy would try to look into a tracer."""
    found = np.empty(shape, object)
    for index in np.ndindex(*shape):
        found[index] = element(index)
    return found


# Rules


def _rule(names: str) -> Callable[[Rule], Rule]:
    def enter(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return enter


@_rule(
    "abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp complex conj"
    " convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2 expm1 floor ge gt igamma"
    " igammac imag integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg nextafter not or"
    " polygamma population_count clz pow real reduce_precision regularized_incomplete_beta rem round rsqrt"
    " shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor"
    " zeta"
)
def _elementwise(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    columns = [elements(o) for o in operands]
    shape = np.broadcast_shapes(*(c.shape for c in columns))  # scalar bounds and predicates go with any shape
    columns = [np.broadcast_to(c, shape) for c in columns]
    bind, params = eqn.primitive.bind, eqn.params
    found = object_array(shape, lambda index: bind(*(c[index] for c in columns), **params))
    return Cells(found, _weighted(operands) if eqn.primitive.name == "mul" else None)


def _weighted(operands: Sequence[Any]) -> Callable[[str, Any], Any] | None:
    """How to sum up a window times weights that are the same for each cell."""
    window, weights = operands if isinstance(operands[0], Cells) else reversed(operands)
    if isinstance(weights, Cells) or window.whole is None:
        return None
    return lambda kind, before: window.whole(kind, weights) if before is None else None


def _reduced_whole(kind: str, eqn: JaxprEqn, cells: Cells) -> Any:
    """The reduction of all cells of a window, where there is a better way than cell by cell."""
    if cells.whole is None or len(eqn.params["axes"]) < len(cells.shape):
        return None
    found = cells.whole(kind, None)
    return None if found is None else Cells(object_array((), lambda _: found))


@_rule("select_n")
def _select(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Where the choice is constant (a footprint), only what is chosen is read."""
    which, *cases = operands
    if isinstance(which, (Cells, Tracer)) or np.ndim(which) == 0:
        return _elementwise(eqn, operands)
    columns = [elements(case) for case in cases]
    which = np.asarray(which).astype(int)
    return Cells(object_array(which.shape, lambda index: columns[which[index]][index]))


def _fold(kind: str, operation: Callable[[Any, Any], Any]) -> Rule:
    def rule(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
        whole = _reduced_whole(kind, eqn, operands[0])
        if whole is not None:
            return whole
        rows = _rows(operands[0].elements, eqn.params["axes"])
        if rows.shape[-1] == 0:
            return None
        return Cells(object_array(rows.shape[:-1], lambda index: functools.reduce(operation, rows[index])))

    return rule


def _rows(array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The array with `axes` raveled into its last one."""
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    return array.transpose([*kept, *axes]).reshape([array.shape[axis] for axis in kept] + [-1])


def at_least_one(count: Any) -> Any:
    """How many share a gradient; none where the largest is NaN, and then none get any, rather than NaN all of them."""
    return lax.max(count, lax.full_like(count, 1))


def _extremum(kind: str, larger: Callable[[Any, Any], Any]) -> Rule:
    """The largest or smallest of many: where several are, they share its gradient, as in `jnp.max`."""

    @jax.custom_jvp
    def extremum(values: Sequence[Any]) -> Any:
        return functools.reduce(larger, values)

    @extremum.defjvp
    def _(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (values,), (moves,) = primals, tangents
        result = extremum(values)
        here = [lax.convert_element_type(value == result, result.dtype) for value in values]
        moved = functools.reduce(lax.add, map(lax.mul, here, moves))
        return result, lax.div(moved, at_least_one(functools.reduce(lax.add, here)))

    def rule(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
        whole = _reduced_whole(kind, eqn, operands[0])
        if whole is not None:
            return whole
        rows = _rows(operands[0].elements, eqn.params["axes"])
        if rows.shape[-1] == 0:
            return None
        plain = rows.shape[-1] <= 2 or not jnp.issubdtype(rows.flat[0].dtype, jnp.inexact)
        function = functools.partial(functools.reduce, larger) if plain else extremum
        return Cells(object_array(rows.shape[:-1], lambda index: function(list(rows[index]))))

    return rule


_RULES["reduce_max"], _RULES["reduce_min"] = _extremum("max", lax.max), _extremum("min", lax.min)

for _name, _operation in {
    "sum": lax.add,
    "prod": lax.mul,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
}.items():
    _RULES[f"reduce_{_name}"] = _fold(_name, _operation)


def _running(operation: Callable[[Any, Any], Any]) -> Rule:
    def rule(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
        axis, backwards = eqn.params["axis"], eqn.params["reverse"]
        found = np.moveaxis(operands[0].elements, axis, 0).copy()
        if backwards:
            found = found[::-1]
        for i in range(1, len(found)):
            for index in np.ndindex(*found.shape[1:]):
                found[(i, *index)] = operation(found[(i - 1, *index)], found[(i, *index)])
        return Cells(np.moveaxis(found[::-1] if backwards else found, 0, axis))

    return rule


for _name, _operation in {"sum": lax.add, "max": lax.max, "min": lax.min, "prod": lax.mul}.items():
    _RULES[f"cum{_name}"] = _running(_operation)


@_rule("reshape")
def _reshape(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    return Cells(operands[0].elements.reshape(eqn.params["new_sizes"]))


@_rule("squeeze")
def _squeeze(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    return Cells(operands[0].elements.squeeze(tuple(eqn.params["dimensions"])))


@_rule("expand_dims")
def _expand_dims(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    return Cells(np.expand_dims(operands[0].elements, tuple(eqn.params["dimensions"])))


@_rule("transpose")
def _transpose(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    return Cells(operands[0].elements.transpose(eqn.params["permutation"]))


@_rule("rev")
def _rev(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    return Cells(np.flip(operands[0].elements, tuple(eqn.params["dimensions"])))


@_rule("slice")
def _slice(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    p = eqn.params
    strides = p["strides"] or (1,) * len(p["start_indices"])
    key = tuple(slice(a, b, s) for a, b, s in zip(p["start_indices"], p["limit_indices"], strides))
    return Cells(operands[0].elements[key])


@_rule("broadcast_in_dim")
def _broadcast_in_dim(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    shape, dimensions = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    source = operands[0].elements
    aligned = [1] * len(shape)
    for axis, place in enumerate(dimensions):
        aligned[place] = source.shape[axis]
    return Cells(np.broadcast_to(source.reshape(aligned), shape))


@_rule("concatenate")
def _concatenate(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    return Cells(np.concatenate([elements(o) for o in operands], axis=eqn.params["dimension"]))


@_rule("stack")
def _stack(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    return Cells(np.stack([elements(o) for o in operands], axis=eqn.params["axis"]))


@_rule("split")
def _split(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    return [Cells(part) for part in np.split(operands[0].elements, ends, axis=eqn.params["axis"])]


@_rule("pad gather dynamic_slice tile")
def _by_numbers(eqn: JaxprEqn, operands: Sequence[Any]) -> Any:
    """Moves with rules of their own are done on element numbers: the answer says which element went where."""
    source, *rest = operands
    if eqn.primitive.name == "pad":
        table = np.append(elements(source).ravel(), elements(rest[0]).ravel())
        rest = [np.int32(len(table) - 1)]
    elif isinstance(source, Cells) and not any(isinstance(o, (Tracer, Cells)) for o in rest):
        table = source.elements.ravel()
    else:
        return None  # indices that depend on data
    numbers = np.arange(math.prod(np.shape(elements(source))), dtype=np.int32).reshape(elements(source).shape)
    with jax.ensure_compile_time_eval():
        moved = np.asarray(eqn.primitive.bind(jnp.asarray(numbers), *map(jnp.asarray, rest), **eqn.params))
    if moved.size and not 0 <= moved.min() <= moved.max() < len(table):
        return None  # an index out of range, filled with something that is no element
    return Cells(object_array(moved.shape, lambda index: table[moved[index]]))


@_rule("dot_general")
def _dot_general(eqn: Any, operands: Sequence[Any]) -> Any:
    """A small product of matrices, written out as sums of products."""
    ((left_sum, right_sum), (left_batch, right_batch)) = eqn.params["dimension_numbers"]
    dtype = eqn.outvars[0].aval.dtype
    left, right = (_shape_of(o) for o in operands)
    free_left = [a for a in range(len(left)) if a not in (*left_sum, *left_batch)]
    free_right = [a for a in range(len(right)) if a not in (*right_sum, *right_batch)]
    shape = [left[a] for a in (*left_batch, *free_left)] + [right[a] for a in free_right]
    length = math.prod(left[a] for a in left_sum)
    if not 0 < math.prod(shape) * length <= PRODUCTS or dtype.kind == "b":
        return None
    small = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4  # half precision is summed in single
    result, dtype = dtype, jnp.dtype(jnp.float32) if small else dtype
    a, b = (_converted(elements(o), dtype) for o in operands)
    batch = [left[axis] for axis in left_batch]
    a = a.transpose([*left_batch, *free_left, *left_sum]).reshape([*batch, -1, length])
    b = b.transpose([*right_batch, *free_right, *right_sum]).reshape([*batch, -1, length])

    def product(index: tuple[int, ...]) -> Any:
        *where, i, j = index
        total = functools.reduce(lax.add, map(lax.mul, a[(*where, i)], b[(*where, j)]))
        return lax.convert_element_type(total, result)

    return Cells(object_array([*batch, a.shape[-2], b.shape[-2]], product).reshape(shape))


def _shape_of(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, Cells) else np.shape(value)


def _converted(array: np.ndarray, dtype: Any) -> np.ndarray:
    return object_array(array.shape, lambda index: lax.convert_element_type(array[index], dtype))
