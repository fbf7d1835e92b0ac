"""What kernels return: trees of arrays, and the checks that they fit together.

A tree is a dict, list, tuple or named tuple of trees; anything else is a leaf. Backends whose library knows trees of
its own (JAX) use those; the others use `flatten`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from stencilx.errors import FieldError, KernelError, RegionError, plural

Structure = Hashable


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, and its structure (which compares and prints)."""
    if isinstance(tree, dict):
        keys = sorted(tree)
        inner = [flatten(tree[key]) for key in keys]
        return _joined(inner), ("dict", *zip(keys, (s for _, s in inner)))
    if isinstance(tree, (tuple, list)):
        inner = [flatten(item) for item in tree]
        return _joined(inner), (type(tree), *(s for _, s in inner))
    return [tree], "*"


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The tree of that structure with these leaves."""
    waiting = list(reversed(leaves))
    tree = _built(structure, waiting)
    assert not waiting, "stencilx fault: more leaves than the structure has"
    return tree


def _joined(inner: Sequence[tuple[list[Any], Structure]]) -> list[Any]:
    return [leaf for leaves, _ in inner for leaf in leaves]


def _built(structure: Any, waiting: list[Any]) -> Any:
    if structure == "*":
        return waiting.pop()
    kind, *inner = structure
    if kind == "dict":
        return {key: _built(s, waiting) for key, s in inner}
    items = [_built(s, waiting) for s in inner]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def into(result: Any, out: Any) -> Any:
    """The result, written into the arrays of `out` where these are given."""
    if out is None:
        return result
    (targets, given), (arrays, needed) = flatten(out), flatten(result)
    if given != needed:
        raise FieldError(f"out has the structure {given}, but the result has {needed}.")
    for target, array in zip(targets, arrays, strict=True):
        if tuple(target.shape) != tuple(array.shape) or target.dtype != array.dtype:
            raise FieldError(f"out is {shown(target)}, but the result is {shown(array)}.")
        target[...] = array
    return out


def shown(array: Any) -> str:
    """`float32[3, 5]`; a number by its type."""
    if not hasattr(array, "dtype"):
        return type(array).__name__
    return f"{str(array.dtype).split('.')[-1]}{list(array.shape)}"


def check_same_state(before: Sequence[str], after: Sequence[str], same_structure: bool) -> None:
    """A step returns what it takes: the same structure, and arrays of the same shape and dtype."""
    if same_structure and list(before) == list(after):
        return
    more = "" if same_structure else ", in another structure"
    raise FieldError(
        f"a step makes {', '.join(after) or 'nothing'} of a state of {', '.join(before) or 'nothing'}{more}.",
        hint="a step returns a state like the one it takes: the same tree, shapes and dtypes. padding='same' keeps the "
        "shape; convert the state before the loop, or the result of the step.",
    )


def check_updates(kernel: Callable[..., Any], count: int, shapes: Sequence[Sequence[int]], is_leaf: bool) -> None:
    """smap and sweeps write one number into each cell of each field that they update.

    Args:
        shapes: those of the leaves of what the kernel returns.
        is_leaf: whether that is one value, and not a tree that holds it.
    """
    if [tuple(shape) for shape in shapes] == [()] * count and is_leaf == (count == 1):
        return
    what = plural(len(shapes), "value") + (" in a tree" if len(shapes) == 1 else "")
    if is_leaf:
        what = f"an array of shape {tuple(shapes[0])}" if tuple(shapes[0]) else "one value"
    if count == 1:
        needed = "one number is written into each cell"
        hint = "return a scalar, or use kmap, whose results may be arrays and trees."
    else:
        needed = f"{count} fields are updated, each by a number"
        hint = f"return {count} scalars, in the order of updates=."
    raise KernelError(f"{needed}, but {kernel_name(kernel)} returns {what}.", hint=hint)


def check_alike(
    first: Callable[..., Any], a: Structure, shapes_a: Any, other: Callable[..., Any], b: Structure, shapes_b: Any
) -> None:
    """The kernels of one mesh return results of one structure and one shape."""
    if a != b or list(shapes_a) != list(shapes_b):
        raise RegionError(
            "the kernels of the regions return different things: "
            f"{kernel_name(first)} {_described(a, shapes_a)}, {kernel_name(other)} {_described(b, shapes_b)}.",
            hint="all regions make up one output, so their results need the same structure and shape.",
        )


def _described(structure: Structure, shapes: Sequence[Any]) -> str:
    texts = ["a scalar" if tuple(shape) == () else f"shape {tuple(shape)}" for shape in shapes]
    return texts[0] if structure == "*" and texts else f"a tree of {len(texts)} leaves ({', '.join(texts)})"


def kernel_name(kernel: Callable[..., Any]) -> str:
    return getattr(kernel, "__name__", None) or type(kernel).__name__
