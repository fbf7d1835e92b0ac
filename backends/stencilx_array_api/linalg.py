"""Sums of products over a window: matmul, dot, einsum, norms.

Place in the path: entries of the table in `functions.py`. All products are one contraction: indices are
labelled as in Einstein's convention, and each entry of the result is a running sum of products of slices.
No patches are stored, and not more than two slices beside the results.
"""

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stencilx.errors import KernelError
from stencilx_array_api.cells import Array, Cells, apply, build, cast, common_dtype, lift, positions
from stencilx_array_api.elementwise import astype, is_complex, to_floating
from stencilx_array_api.moves import diagonal, expand_dims, moveaxis, ravel, stack
from stencilx_array_api.reductions import Axis, count_nonzero, max_, min_, sum_
from stencilx_array_api.stacked import of_matrices


def contract(labels: Sequence[str], result: str, operands: Sequence[Cells]) -> Cells:
    """The sum over all labels that the result lacks of the products of the operands' elements."""
    sizes = _sizes(labels, operands)
    unknown = set(result) - set(sizes)
    if unknown:
        raise ValueError(f"no operand has the index {min(unknown)!r} of the result")
    summed = [label for label in sizes if label not in result]
    order = [*result, *summed]
    shape = tuple(sizes[label] for label in result)
    terms = math.prod(sizes[label] for label in summed)
    xp, dtype = operands[0].xp, common_dtype(operands)
    tables = [_table(own, x, order, sizes, terms) for own, x in zip(labels, operands, strict=True)]
    pools = [[cast(x, e, dtype) for e in x.elements.flat] for x in operands]

    def entry(at: int) -> Array:
        total = None
        for term in range(terms):
            factors = (pool[table[at, term]] for pool, table in zip(pools, tables, strict=True))
            product = functools.reduce(xp.multiply, factors)
            total = product if total is None else xp.add(total, product)
        return xp.zeros((), dtype=dtype) if total is None else total

    return build((entry(at) for at in range(math.prod(shape))), shape, xp)


def _sizes(labels: Sequence[str], operands: Sequence[Cells]) -> dict[str, int]:
    """The length of each label; a length of one gives way to another, as in NumPy."""
    sizes: dict[str, int] = {}
    for own, x in zip(labels, operands, strict=True):
        if len(own) != x.ndim:
            raise ValueError(f"{len(own)} labels for an operand of {x.ndim} dimensions")
        for label, n in zip(own, x.shape, strict=True):
            known = sizes.setdefault(label, n)
            if known == 1:
                sizes[label] = n
            elif n not in (1, known):
                raise ValueError(f"index {label!r} has lengths {known} and {n}")
    return sizes


def _table(own: str, x: Cells, order: Sequence[str], sizes: dict[str, int], terms: int) -> np.ndarray:
    """Which element of an operand stands in which term of which result: shape (results, terms)."""
    unique = sorted(set(own), key=order.index)
    numbers = [order.index(label) for label in own]
    diagonal = np.einsum(positions(x), numbers, [order.index(label) for label in unique])
    lengths = dict(zip(unique, diagonal.shape, strict=True))
    spread = diagonal.reshape([lengths.get(label, 1) for label in order])
    whole = np.broadcast_to(spread, [sizes[label] for label in order])
    return whole.reshape(-1, terms) if terms else np.empty((0, 0), dtype=int)


def einsum(subscripts: Any, *operands: Any, **options: Any) -> Cells:
    """NumPy's subscripts; `optimize` and the like choose an order and change nothing here."""
    if not isinstance(subscripts, str):
        raise KernelError(
            "the array-API backend cannot evaluate `einsum` of lists of labels",
            hint="write the subscripts as a string, such as 'ij,ij->'",
        )
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    cells = lift(*operands)
    inputs, arrow, result = subscripts.replace(" ", "").partition("->")
    labels = inputs.split(",")
    if len(labels) != len(cells):
        raise ValueError(f"einsum: {len(labels)} groups of subscripts for {len(cells)} operands")
    free = [c for c in string.ascii_letters if c not in subscripts]
    spans = [x.ndim - len(own.replace("...", "")) for own, x in zip(labels, cells, strict=True)]
    longest = max((n for n, own in zip(spans, labels, strict=True) if "..." in own), default=0)
    dots = "".join(free[:longest])
    # broadcasting aligns at the end
    labels = [own.replace("...", dots[longest - n :]) for n, own in zip(spans, labels, strict=True)]
    if not arrow:
        once = sorted(c for c in set(inputs) - set(",.") if inputs.count(c) == 1)
        result = ("..." if "..." in inputs else "") + "".join(once)
    return contract(labels, result.replace("...", dots), cells)


def _same_length(name: str, a: int, b: int) -> None:
    if a != b:
        raise ValueError(f"{name}: the lengths of the axes to be summed differ, {a} and {b}")


def matmul(a: Any, b: Any) -> Cells:
    a, b = lift(a, b)
    if not (a.ndim and b.ndim):
        raise ValueError("matmul: a number is no matrix; use * for a factor")
    _same_length("matmul", a.shape[-1], b.shape[max(b.ndim - 2, 0)])
    left = "j" if a.ndim == 1 else "...ij"
    right = "j" if b.ndim == 1 else "...jk"
    result = "..." + "i" * (a.ndim > 1) + "k" * (b.ndim > 1)
    return einsum(f"{left},{right}->{result}", a, b)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Cells:
    a, b = lift(a, b)
    if isinstance(axes, int):
        axes = (range(a.ndim - axes, a.ndim), range(axes))
    ours, theirs = (np.atleast_1d(part) for part in axes)
    left, right = string.ascii_lowercase[: a.ndim], string.ascii_uppercase[: b.ndim]
    pairs = [(int(i) % a.ndim, int(j) % b.ndim) for i, j in zip(ours, theirs, strict=True)]
    for i, j in pairs:
        _same_length("tensordot", a.shape[i], b.shape[j])
    shared = {right[j]: left[i] for i, j in pairs}
    free = "".join(c for c in left if c not in shared.values())
    free += "".join(c for c in right if c not in shared)
    return contract([left, "".join(shared.get(c, c) for c in right)], free, [a, b])


def dot(a: Any, b: Any) -> Cells:
    a, b = lift(a, b)
    if not (a.ndim and b.ndim):
        return a * b
    return tensordot(a, b, axes=([-1], [max(b.ndim - 2, 0)]))


def inner(a: Any, b: Any) -> Cells:
    a, b = lift(a, b)
    return tensordot(a, b, axes=([-1], [-1])) if a.ndim and b.ndim else a * b


def outer(a: Any, b: Any) -> Cells:
    a, b = lift(a, b)
    return expand_dims(ravel(a), 1) * expand_dims(ravel(b), 0)


def _conjugate(x: Cells) -> Cells:
    return apply("conj", x) if is_complex(x) else x


def vdot(a: Any, b: Any) -> Cells:
    a, b = lift(a, b)
    return dot(_conjugate(ravel(a)), ravel(b))


def vecdot(a: Any, b: Any, *, axis: int = -1) -> Cells:
    a, b = (moveaxis(x, axis, -1) for x in lift(a, b))
    _same_length("vecdot", a.shape[-1], b.shape[-1])
    return einsum("...i,...i->...", _conjugate(a), b)


def cross(a: Any, b: Any, *, axis: int = -1) -> Cells:
    a, b = (moveaxis(x, axis, 0) for x in lift(a, b))
    _same_length("cross", len(a), 3)
    _same_length("cross", len(b), 3)
    parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    return moveaxis(stack(parts), 0, axis)


def _batched_diagonal(x: Any, offset: int = 0) -> Cells:
    # the array API takes the last two axes where NumPy takes the first two
    return diagonal(x, offset, axis1=-2, axis2=-1)


def _tracing(diagonal: Callable[..., Any]) -> Callable[..., Cells]:
    def rule(x: Any, *args: Any, dtype: Any = None, **options: Any) -> Cells:
        return sum_(diagonal(x, *args, **options), -1, dtype)

    return rule


def vector_norm(x: Any, ord: Any = 2, axis: Axis = None, *, keepdims: bool = False) -> Cells:
    (x,) = lift(x)
    size = abs(to_floating(x))
    if ord == math.inf:
        return max_(size, axis, keepdims=keepdims)
    if ord == -math.inf:
        return min_(size, axis, keepdims=keepdims)
    if ord == 0:
        return astype(count_nonzero(x, axis, keepdims=keepdims), size.dtype)
    if ord == 1:
        return sum_(size, axis, keepdims=keepdims)
    if ord == 2:
        return apply("sqrt", sum_(size * size, axis, keepdims=keepdims))
    return sum_(size**ord, axis, keepdims=keepdims) ** (1 / ord)


# ord -> (which axis of the matrix is summed first, what is taken of the sums)
_SUM_NORMS = {1: (0, max_), -1: (0, min_), math.inf: (1, max_), -math.inf: (1, min_)}
# ord -> what is taken of the singular values
_SINGULAR_NORMS = {"nuc": sum_, 2: max_, -2: min_}


def matrix_norm(x: Any, ord: Any = "fro", axis: tuple[int, int] = (-2, -1), *, keepdims: bool = False) -> Cells:
    (x,) = lift(x)
    x = to_floating(x)
    if ord == "fro":
        return vector_norm(x, 2, axis, keepdims=keepdims)
    last = moveaxis(x, axis, (-2, -1))
    if ord in _SUM_NORMS:
        summed, take = _SUM_NORMS[ord]
        norm = take(sum_(abs(last), summed - 2), -1)
    elif ord in _SINGULAR_NORMS:
        norm = _SINGULAR_NORMS[ord](of_matrices("linalg.svdvals")(last), -1)
    else:
        raise ValueError(f"linalg.norm: no such order of a matrix norm: {ord!r}")
    return expand_dims(norm, axis) if keepdims else norm


def norm(x: Any, ord: Any = None, axis: Any = None, *, keepdims: bool = False) -> Cells:
    """NumPy's and PyTorch's `linalg.norm`: of a vector or a matrix, by the number of axes."""
    (x,) = lift(x)
    if ord is None:
        return vector_norm(x, 2, axis, keepdims=keepdims)
    axes = tuple(range(x.ndim)) if axis is None else axis
    if isinstance(axes, int) or len(axes) == 1:
        return vector_norm(x, ord, axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ValueError(f"linalg.norm: a norm of order {ord!r} needs one axis or two")
    return matrix_norm(x, ord, axes, keepdims=keepdims)


LINALG_RULES: dict[str, Callable[..., Any]] = {
    "cross": cross,
    "dot": dot,
    "einsum": einsum,
    "inner": inner,
    "linalg.diagonal": _batched_diagonal,
    "linalg.matrix_norm": matrix_norm,
    "linalg.norm": norm,
    "linalg.trace": _tracing(_batched_diagonal),
    "linalg.vector_norm": vector_norm,
    "matmul": matmul,
    "outer": outer,
    "tensordot": tensordot,
    "trace": _tracing(diagonal),
    "vdot": vdot,
    "vecdot": vecdot,
}
