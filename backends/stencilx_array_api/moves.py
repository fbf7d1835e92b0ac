"""Functions that only move elements of a window: reshape, flip, concat, pad ...

Place in the path: entries of the table in `functions.py`. NumPy's own function is applied to the
*positions* of the elements, small integers, and the elements are gathered from where these went: not
one slice is touched, and every option means what it means in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stencilx.errors import KernelError
from stencilx_array_api.cells import Cells, build, cast, common_dtype, gather, lift, positions


def move(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a NumPy function that moves the entries of one array, into one array or several."""

    def rule(x: Any, *args: Any, **options: Any) -> Any:
        (x,) = lift(x)
        moved = function(positions(x), *args, **options)
        if isinstance(moved, (list, tuple)):
            return type(moved)(gather(x, part) for part in moved)
        return gather(x, moved)

    return rule


def join(function: Callable[..., Any]) -> Callable[..., Cells]:
    """The rule of a NumPy function that joins a sequence of arrays."""

    def rule(arrays: Any, *args: Any, **options: Any) -> Cells:
        parts = lift(*arrays)
        # of the field's device, if one of the parts knows it
        model = next((part for part in parts if part.device is not None), parts[0])
        dtype = common_dtype(parts)
        pool = [cast(model, e, dtype) for part in parts for e in part.elements.flat]
        starts = np.cumsum([0, *(part.size for part in parts)])
        where = [positions(part) + start for part, start in zip(parts, starts, strict=False)]
        return gather(build(pool, (len(pool),), model.xp), function(where, *args, **options))

    return rule


def keep(function: Callable[..., Any]) -> Callable[..., Cells]:
    """The rule of a NumPy function that replaces some entries of one array by zero (tril, triu, diag)."""

    def rule(x: Any, *args: Any, **options: Any) -> Cells:
        (x,) = lift(x)
        # counted from one, so that NumPy's zero is nobody's position
        return gather(x, function(positions(x) + 1, *args, **options) - 1, cast(x, 0, x.dtype))

    return rule


_COPYING_PADS = ("edge", "reflect", "symmetric", "wrap")


def pad(x: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Cells:
    (x,) = lift(x)
    if mode == "constant":
        _, filler = lift(x, constant_values)
        where = np.pad(positions(x), pad_width, constant_values=-1)
        return gather(x, where, cast(x, filler.elements.item(), x.dtype))
    if mode not in _COPYING_PADS:
        raise KernelError(
            f"the array-API backend cannot evaluate `np.pad` with mode={mode!r} on whole slices",
            hint=f"modes are 'constant' and {', '.join(map(repr, _COPYING_PADS))}",
        )
    return gather(x, np.pad(positions(x), pad_width, mode=mode))  # type: ignore[call-overload]


def broadcast_arrays(*arrays: Any) -> tuple[Cells, ...]:
    parts = lift(*arrays)
    shape = np.broadcast_shapes(*(p.shape for p in parts))
    return tuple(gather(p, np.broadcast_to(positions(p), shape)) for p in parts)


def _atleast(ndim: int) -> Callable[..., Any]:
    function = (np.atleast_1d, np.atleast_2d, np.atleast_3d)[ndim - 1]

    def rule(*arrays: Any) -> Any:
        results = tuple(move(function)(a) for a in lift(*arrays))
        return results[0] if len(results) == 1 else results

    return rule


def _take(where: np.ndarray, indices: Any, axis: int | None = None) -> np.ndarray:
    # np.asarray: an index array of another library is a NumPy array to NumPy
    return np.take(where, np.asarray(indices), axis=axis)


def _unstack(where: np.ndarray, axis: int = 0) -> tuple[np.ndarray, ...]:
    return np.unstack(where, axis=axis)


MOVES: dict[str, Callable[..., Any]] = {
    "broadcast_to": np.broadcast_to,
    "copy": np.copy,
    "delete": np.delete,
    "diagonal": np.diagonal,
    "expand_dims": np.expand_dims,
    "fft.fftshift": np.fft.fftshift,
    "fft.ifftshift": np.fft.ifftshift,
    "flip": np.flip,
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "matrix_transpose": np.matrix_transpose,
    "moveaxis": np.moveaxis,
    "permute_dims": np.transpose,
    "ravel": np.ravel,
    "repeat": np.repeat,
    "reshape": np.reshape,
    "roll": np.roll,
    "rot90": np.rot90,
    "split": np.split,
    "array_split": np.array_split,
    "hsplit": np.hsplit,
    "vsplit": np.vsplit,
    "squeeze": np.squeeze,
    "swapaxes": np.swapaxes,
    "take": _take,
    "tile": np.tile,
    "unstack": _unstack,
}

JOINS: dict[str, Callable[..., Any]] = {
    "column_stack": np.column_stack,
    "concat": np.concatenate,
    "dstack": np.dstack,
    "hstack": np.hstack,
    "stack": np.stack,
    "vstack": np.vstack,
}

KEEPS: dict[str, Callable[..., Any]] = {"diag": np.diag, "tril": np.tril, "triu": np.triu}

MOVE_RULES: dict[str, Callable[..., Any]] = {
    **{name: move(function) for name, function in MOVES.items()},
    **{name: join(function) for name, function in JOINS.items()},
    **{name: keep(function) for name, function in KEEPS.items()},
    "atleast_1d": _atleast(1),
    "atleast_2d": _atleast(2),
    "atleast_3d": _atleast(3),
    "broadcast_arrays": broadcast_arrays,
    "pad": pad,
}

# For the rules that are written with these.
broadcast_to = MOVE_RULES["broadcast_to"]
concat = MOVE_RULES["concat"]
diagonal = MOVE_RULES["diagonal"]
expand_dims = MOVE_RULES["expand_dims"]
moveaxis = MOVE_RULES["moveaxis"]
permute_dims = MOVE_RULES["permute_dims"]
ravel = MOVE_RULES["ravel"]
reshape = MOVE_RULES["reshape"]
squeeze = MOVE_RULES["squeeze"]
stack = MOVE_RULES["stack"]
swapaxes = MOVE_RULES["swapaxes"]
unstack = MOVE_RULES["unstack"]
