"""The seed's spelling of the same API: `import stencilx.kernex as kex` runs programs written for kernex 0.2.1.

A thin layer before `stencil.py` on the path of the data. Two things differ from stencilx, and both are put right here:

    F[key] = f    key counts the cells of the array, by window centre      -> another frame for the regions
    f(x)          x is the window, rolled window or mapping of the seed    -> a kernel that gets it from a plain window

    window of 4        a b c d        relative=True        b c d a        x[0] is the centre, x[-1] the cell before it
                         ^ centre                          ^
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stencilx import regions
from stencilx.capture import parameters
from stencilx.errors import BackendError, OffsetError, RegionError, WindowError, did_you_mean, join, plural
from stencilx.offsets import OffsetWindow
from stencilx.stencil import Kernel, Options, Stencil, centre_frame
from stencilx.window import Geometry, Offset, Pair, Window, whole_number, window_of_size

__all__ = ["OffsetKeyError", "kmap", "kscan", "smap", "sscan"]

_KINDS = {"map": ("vmap", "lmap", "pmap"), "scan": ("scan",)}
_SCAN_KWARGS = ("reverse", "length", "unroll", "_split_transpose")  # of jax.lax.scan, save those that kernex gives
_INFERRED = ", or leave kernel_size out to have it inferred."  # advice that is wrong here: left out, it is 1


def kmap(
    kernel_size: int | tuple[int, ...] = 1,
    strides: int | tuple[int, ...] = 1,
    padding: int | str | tuple[int | str | Pair, ...] = 0,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    map_kind: str = "vmap",
    map_kwargs: Mapping[str, Any] | None = None,
) -> Stencil:
    """Apply a function to every window of an array, as `kernex.kmap` does.

    Use the result as a decorator, or assign functions to regions: `F = kmap(kernel_size=(3,)); F[:] = f; F[0] = g`.
    Keys count the cells of the array and own the windows centred there; the last assignment wins, and every window
    needs an owner. Where padding goes beyond "same", windows centred outside the array belong to `F[:]`.

    Args:
        kernel_size: cells of the window on each axis; an int serves all axes, -1 is a whole axis.
        strides: distance of neighbouring windows, an int or one for each axis.
        padding: how many zeros surround the array: "valid", "same", an int, or for each axis one of these or
            `(before, after)`.
        relative: whether the window is rolled so that `x[0, 0]` is its centre and `x[-1, 0]` the cell before it. It is
            an array in either case, and an index wraps as on any array.
        named_axis: names for axes, `{0: "i", 1: "j"}`. The function then sees a mapping: `x["i+1", "j"]`, in any order
            if all axes are named, with ints for the others (in axis order) if not. An offset that the window lacks is
            an error. Without `relative`, `"i"` is the first cell of the window and `"i-1"` its last one.
        map_kind: "vmap", "lmap" or "pmap". All give the same values: stencilx itself chooses how to run.
        map_kwargs: accepted for the same reason, and not used.

    Returns:
        A `Stencil`. Called on an array and any further arguments of the function, it gives an array of the function's
        dtype; its shape is the grid of windows, followed by the shape of what the function returns.

    Raises:
        StencilError: keywords, keys or functions that do not fit; each kind says what and what to do.

    Example:
        >>> import numpy as np, stencilx.kernex as kex
        >>> @kex.kmap(kernel_size=(3,))
        ... def sum_all(x):
        ...     return x.sum()
        >>> np.asarray(sum_all(np.array([1, 2, 3, 4, 5]))).tolist()
        [6, 9, 12]
        >>> F = kex.kmap(kernel_size=(3,), padding="same", relative=True)
        >>> F[:] = lambda x: x[1] - x[-1]
        >>> F[0] = F[-1] = lambda x: 0
        >>> np.asarray(F(np.array([1, 2, 4, 7, 11]))).tolist()
        [0, 3, 5, 7, 0]
    """
    _check_kind("map", map_kind, map_kwargs)
    return _Mesh(_options(kernel_size, strides, relative, named_axis, padding=padding))


def smap(
    kernel_size: int | tuple[int, ...] = 1,
    strides: int | tuple[int, ...] = 1,
    offset: int | tuple[int | Pair, ...] = 0,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    map_kind: str = "vmap",
    map_kwargs: Mapping[str, Any] | None = None,
) -> Stencil:
    """Apply a function to windows of an array and write its scalar results into a copy of it, as `kernex.smap` does.

    Window centres run over the cells of the array save a margin of `offset`; zeros surround the array. The margin,
    cells that strides step over and cells in no region keep their old values.

    Args:
        offset: the margin, an int or for each axis an int or `(before, after)`, in cells.
        kernel_size, strides, relative, named_axis, map_kind, map_kwargs: as for `kmap`.

    Returns:
        A `Stencil`. Its result has the shape of the array, and the dtype in which both the array and the function's
        results fit.

    Raises:
        StencilError: as for `kmap`; also a function whose result is no scalar.

    Example:
        >>> import numpy as np, stencilx.kernex as kex
        >>> @kex.smap(kernel_size=(2,), relative=True, offset=((2, 0),))
        ... def F(x):
        ...     return x[0] + x[1]
        >>> np.asarray(F(np.array([1, 2, 3, 4, 5]))).tolist()
        [1, 2, 7, 9, 5]
    """
    _check_kind("map", map_kind, map_kwargs)
    return _Mesh(_options(kernel_size, strides, relative, named_axis, offset=offset, into_copy=True))


def kscan(
    kernel_size: int | tuple[int, ...] = 1,
    strides: int | tuple[int, ...] = 1,
    padding: int | str | tuple[int | str | Pair, ...] = 0,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    scan_kind: str = "scan",
    scan_kwargs: Mapping[str, Any] | None = None,
) -> Stencil:
    """Apply a function to one window after the other, as `kernex.kscan` does: each sees what was written before.

    A result is written where its window is centred, in row-major order. Use it as a decorator, or assign functions to
    regions, as with `kmap`.

    Args:
        padding: as for `kmap`, but at most "same": a window centred outside the array has no cell to write to.
        scan_kind: "scan", the only one.
        scan_kwargs: keywords of `jax.lax.scan`. `{"reverse": True}` visits the last window first. All others, such as
            `unroll`, are accepted and not used: stencilx itself chooses how to run.
        kernel_size, strides, relative, named_axis: as for `kmap`.

    Returns:
        A `Stencil`. Its result is what was written: an array of the shape of the grid of windows, and of the dtype in
        which both the array and the function's results fit.

    Raises:
        StencilError: as for `kmap`; also a function whose result is no scalar.

    Example:
        >>> import numpy as np, stencilx.kernex as kex
        >>> @kex.kscan(kernel_size=(3,))
        ... def sum_all(x):
        ...     return x.sum()
        >>> np.asarray(sum_all(np.array([1, 2, 3, 4, 5]))).tolist()
        [6, 13, 22]
        >>> F = kex.kscan(kernel_size=(3,), padding="same", relative=True, scan_kwargs={"reverse": True})
        >>> F[:] = lambda x: x[0] + x[1]
        >>> np.asarray(F(np.array([1, 2, 3, 4, 5]))).tolist()
        [15, 14, 12, 9, 5]
    """
    reverse = _reverse(scan_kind, scan_kwargs)
    return _Mesh(_options(kernel_size, strides, relative, named_axis, padding=padding, sweep=True, reverse=reverse))


def sscan(
    kernel_size: int | tuple[int, ...] = 1,
    strides: int | tuple[int, ...] = 1,
    offset: int | tuple[int | Pair, ...] = 0,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    scan_kind: str = "scan",
    scan_kwargs: Mapping[str, Any] | None = None,
) -> Stencil:
    """Apply a function to one window after the other and write the results into a copy, as `kernex.sscan` does.

    Window centres run over the cells of the array save a margin of `offset`; zeros surround the array. The margin,
    cells that strides step over and cells in no region keep their old values, and are read as such.

    Args:
        offset: the margin, an int or for each axis an int or `(before, after)`, in cells.
        kernel_size, strides, relative, named_axis, scan_kind, scan_kwargs: as for `kscan`.

    Returns:
        A `Stencil`. Its result has the shape of the array, and the dtype in which both the array and the function's
        results fit.

    Raises:
        StencilError: as for `kscan`.

    Example:
        >>> import numpy as np, stencilx.kernex as kex
        >>> @kex.sscan(kernel_size=(3,), relative=True, offset=((2, 0),))
        ... def F(x):
        ...     return x[-1] + x[0] + x[1]
        >>> np.asarray(F(np.array([1, 2, 3, 4, 5]))).tolist()
        [1, 2, 9, 18, 23]
    """
    reverse = _reverse(scan_kind, scan_kwargs)
    place = {"offset": offset, "into_copy": True}
    return _Mesh(_options(kernel_size, strides, relative, named_axis, **place, sweep=True, reverse=reverse))


class OffsetKeyError(OffsetError, KeyError):
    """An offset by name that the window does not have. Also a KeyError: to the seed's programs a window is a dict."""

    __str__ = Exception.__str__  # KeyError would show the repr of the text


# Keywords


@dataclass(frozen=True)
class _SeedOptions(Options):
    """The keywords in the seed's words. To the core, windows are plain arrays: `relative` and names are ours."""

    rolled: bool = False
    named_axis: Mapping[int, str] | None = None

    def __str__(self) -> str:
        place = {"offset": self.offset} if self.into_copy else {"padding": self.padding}
        shown = {"kernel_size": self.kernel_size, "strides": self.strides, **place}
        shown |= {"relative": self.rolled, "named_axis": self.named_axis}
        if self.reverse:
            shown["scan_kwargs"] = {"reverse": True}
        return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _options(
    kernel_size: Any, strides: Any, rolled: bool, named_axis: Mapping[int, str] | None, **place: Any
) -> _SeedOptions:
    """Check what can be checked before any array is seen."""
    for size in kernel_size if isinstance(kernel_size, (tuple, list)) else (kernel_size,):
        whole_number(size, "kernel_size")
    if named_axis is not None:
        named_axis = {whole_number(axis, "an axis in named_axis"): name for axis, name in named_axis.items()}
        names = [name for name in named_axis.values() if isinstance(name, str)]
        if len(names) < len(named_axis) or len(set(names)) < len(names) or not all(map(str.isidentifier, names)):
            raise WindowError(f"named_axis takes axis numbers and their names, {{0: 'i', 1: 'j'}}, not {named_axis!r}.")
    return _SeedOptions(
        kernel_size,
        strides,
        dilation=1,
        boundary=0,
        relative=False,
        axis_names={},
        fields=1,
        rolled=rolled,
        named_axis=named_axis,
        **place,
    )


def _check_kind(what: str, kind: str, kwargs: Mapping[str, Any] | None) -> None:
    """Check `map_kind` and `map_kwargs`, or `scan_kind` and `scan_kwargs`."""
    kinds = _KINDS[what]
    if kind not in kinds:
        raise BackendError(
            f"{what}_kind must be {join(map(repr, kinds))}, not {kind!r}.".replace(" and ", " or "),
            hint=did_you_mean(str(kind), kinds),
        )
    if not (kwargs is None or isinstance(kwargs, Mapping)):
        raise BackendError(f"{what}_kwargs must be a dict or None, not {kwargs!r}.")


def _reverse(scan_kind: str, scan_kwargs: Mapping[str, Any] | None) -> bool:
    """Check the keywords of a scan. Only one of them has a say in the numbers: whether it runs in reverse."""
    _check_kind("scan", scan_kind, scan_kwargs)
    given = scan_kwargs or {}
    for name in given:
        if name not in _SCAN_KWARGS:
            raise BackendError(
                f"scan_kwargs has {name!r}, and jax.lax.scan takes no such keyword.",
                hint=did_you_mean(str(name), (n for n in _SCAN_KWARGS if not n.startswith("_"))),
            )
    return bool(given.get("reverse", False))


# Regions


class _Mesh(Stencil):
    """A stencil with the seed's windows, whose keys count the cells of the array by window centre."""

    def __init__(self, options: _SeedOptions, kernel: Kernel | None = None, backend: str | None = None) -> None:
        super().__init__(options, None, backend)
        self._seed_options = options
        self._kernel_of: dict[int, Kernel] = {}
        if kernel is not None:
            self[...] = self._decorated = kernel
            functools.update_wrapper(self, kernel, updated=())

    def __setitem__(self, key: Any, value: Any) -> None:
        if callable(value):
            options = self._seed_options
            seen = _on_plain_window(value, options.rolled, options.named_axis)
            value = self._kernel_of.setdefault(id(value), seen)
        super().__setitem__(key, value)

    def _keyed(self, geometry: Geometry, grid: tuple[int, ...]) -> tuple[regions.Frame, list[Any]]:
        frame, room = _with_room(centre_frame(geometry))
        keys = [key for key, _ in self._assignments]
        if any(map(any, room)):
            if self._options.sweep:
                raise _unwritable_error(room, geometry)
            keys = [_key_with_room(key, geometry.shape, room) for key in keys]
            if not any(key is Ellipsis for key in keys):
                raise _outside_error(room, geometry.shape)
        return frame, keys


def _with_room(frame: regions.Frame) -> tuple[regions.Frame, tuple[Pair, ...]]:
    """The frame with room for windows centred outside the array, and how much room that is on each side.

    n = 4, kernel_size 3, padding 2         array       0  1  2  3
                                            centres -1  0  1  2  3  4
                                            frame    0  1  2  3  4  5       room (1, 1)
    """
    room = tuple(
        (max(0, -cells[0]), max(0, cells[-1] - n + 1)) if cells else (0, 0)
        for n, cells in zip(frame.shape, frame.cells, strict=True)
    )
    shape = tuple(n + before + after for n, (before, after) in zip(frame.shape, room, strict=True))
    cells = tuple(
        range(r.start + before, r.stop + before, r.step) for r, (before, _) in zip(frame.cells, room, strict=True)
    )
    return regions.Frame(shape, cells), room


def _key_with_room(key: Any, shape: tuple[int, ...], room: Sequence[Pair]) -> Any:
    """The key of the same cells in the frame with room; all of the frame if it selects all of the array."""
    place = regions.owners([key], shape)
    if (place == 0).all():
        return ...
    return tuple(index[key] + before for index, (before, _) in zip(np.indices(shape), room, strict=True))


def _unwritable_error(room: Sequence[Pair], geometry: Geometry) -> WindowError:
    axis = next(axis for axis, pair in enumerate(room) if any(pair))
    return WindowError(
        f"a scan writes where its windows are centred, and with padding {geometry.padding[axis]} on axis {axis} some "
        f"are centred outside the array of shape {geometry.shape}.",
        hint="take padding='same', or less.",
    )


def _outside_error(room: Sequence[Pair], shape: tuple[int, ...]) -> RegionError:
    cells = join(f"{pair} cells on axis {axis}" for axis, pair in enumerate(room) if any(pair))
    return RegionError(
        f"some windows are centred outside the array of shape {shape}, where no region is: up to {cells} before and "
        "after it.",
        note="padding goes beyond 'same' there.",
        hint="give a background first, F[:] = kernel: it holds outside, too.",
    )


# Windows


def _on_plain_window(kernel: Kernel, rolled: bool, named_axis: Mapping[int, str] | None) -> Kernel:
    """The kernel as a function of a plain window: the core's absolute one."""
    if named_axis is None and not rolled:
        return kernel
    field = (*parameters(kernel), "x")[0]

    @functools.wraps(kernel, updated=())
    def on_plain_window(array: Any, *args: Any, **kwargs: Any) -> Any:
        window = _rolled(array) if named_axis is None else _NamedWindow(array, field, named_axis, rolled)
        return kernel(window, *args, **kwargs)

    return on_plain_window


def _window_of(array: Any) -> Window:
    return window_of_size(tuple(array.shape), array.shape, "x")


def _rolled(array: Any) -> Any:
    """The window with its centre moved to index 0 on each axis."""
    xp = array.__array_namespace__()
    return xp.roll(array, _window_of(array).lo, axis=tuple(range(array.ndim)))


class _NamedWindow(OffsetWindow, Mapping):
    """A window as a mapping from offsets by name, `("i+1", "j")`, to values."""

    def __init__(self, array: Any, field: str, named_axis: Mapping[int, str], centred: bool) -> None:
        window, ndim = _window_of(array), array.ndim
        for axis, name in named_axis.items():
            if not -ndim <= axis < ndim:
                raise WindowError(
                    f"named_axis names axis {axis} {name!r}, but field {field!r} has {plural(ndim, 'axis')}."
                )
        names = {name: axis % ndim for axis, name in named_axis.items()}
        # as in the seed: without `relative`, offsets index the window from its first cell
        origin = window.lo if centred else (0,) * ndim

        def read(offset: Offset) -> Any:
            return array[tuple((o - start) % n for o, start, n in zip(offset, origin, array.shape, strict=True))]

        def stack(values: np.ndarray) -> Any:
            xp = array.__array_namespace__()
            return xp.reshape(xp.stack(list(values.flat)), values.shape)

        super().__init__(field, ndim, window, names, read, stack)

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except OffsetError as error:
            raise OffsetKeyError(str(error).removesuffix(_INFERRED)) from None

    def __iter__(self) -> Iterator[tuple[str | int, ...]]:  # type: ignore[override]
        names = {axis: name for name, axis in self._axis_names.items()}
        window = self._known_window("its keys are")
        axes = [
            [_label(names.get(axis), offset) for offset in range(lo, hi + 1)]
            for axis, (lo, hi) in enumerate(zip(window.lo, window.hi, strict=True))
        ]
        return itertools.product(*axes)

    def __len__(self) -> int:
        return int(np.prod(self.shape))


def _label(name: str | None, offset: int) -> str | int:
    """`i-1`, `i`, `i+1`, or the bare offset on an axis without a name."""
    if name is None:
        return offset
    return f"{name}{offset:+d}" if offset else name
