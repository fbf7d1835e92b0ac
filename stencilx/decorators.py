"""The decorators: keywords are checked as far as they can be without an array, and become a `Stencil`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stencilx.backend import load
from stencilx.dependence import SCHEDULES
from stencilx.errors import FieldError, ScheduleError, WindowError, did_you_mean
from stencilx.stencil import Kernel, Options, Stencil
from stencilx.window import whole_number


def _options(
    fields: Any, named_axis: Mapping[int, str] | None, kernel_size: Any, relative: bool, **rest: Any
) -> Options:
    """Check what can be checked before any array is seen."""
    names = _axis_names(named_axis)
    fields = _fields(fields)
    schedule = rest.get("schedule", "auto")
    if schedule not in SCHEDULES:
        raise ScheduleError(f"there is no schedule {schedule!r}.", hint=did_you_mean(str(schedule), SCHEDULES))
    updates = rest.get("updates", ())
    rest["updates"] = (updates,) if isinstance(updates, str) else tuple(updates)
    return Options(kernel_size, axis_names=names, fields=fields, relative=relative or bool(names), **rest)


def _axis_names(named_axis: Any) -> dict[str, int]:
    """Axis name -> axis number."""
    if named_axis is None:
        return {}
    if isinstance(named_axis, Mapping):
        axes = [whole_number(axis, "an axis in named_axis") for axis in named_axis]
        names = {name: axis for name, axis in zip(named_axis.values(), axes) if isinstance(name, str)}
        if len(names) == len(axes) and all(map(str.isidentifier, names)):
            return names
    raise WindowError(f"named_axis takes axis numbers and their names, {{0: 'i', 1: 'j'}}, not {named_axis!r}.")


def _fields(fields: Any) -> int | tuple[str, ...]:
    """The number of fields, or their names."""
    if isinstance(fields, str):
        return (fields,)
    if isinstance(fields, Sequence):
        names = tuple(fields)
        if not all(isinstance(name, str) for name in names):
            raise FieldError(f"fields must be a number or names, not {fields!r}.")
        for number, name in enumerate(names):
            if name in names[:number]:
                raise FieldError(f"fields names {name!r} twice.")
        count = len(names)
    else:
        names = count = whole_number(fields, "fields")
    if count < 1:
        raise FieldError("a stencil has at least one field.")
    return names


def kmap(
    kernel: Kernel | None = None,
    *,
    kernel_size: Any = None,
    strides: Any = 1,
    dilation: Any = 1,
    padding: Any = "valid",
    boundary: Any = 0,
    mask: Any = None,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    fields: int | str | Sequence[str] = 1,
    backend: str | None = None,
    fuse: bool = False,
) -> Any:
    """Apply a kernel, written for one cell, to every window of an array: each cell reads old values.

    Use it as a decorator, with or without keywords, as `kmap(function, ...)`, or without a function to assign kernels
    to regions: `F = kmap(kernel_size=3); F[...] = inner; F[0] = 1.0`.

    Args:
        kernel: a function of windows and parameters. It returns a scalar, an array (a patch) or any tree of them.
        kernel_size: cells of the window, `-((k-1)//2) .. k//2` around its centre: an int for every axis, a tuple,
            -1 for a whole axis; a dict by field. Left out, it is inferred from the offsets that the kernel reads.
        strides: distance of neighbouring windows, an int or one for each axis.
        dilation: distance of neighbouring cells of a window, an int or one for each axis.
        padding: how far windows may stick out of the array: "valid" (not at all), "same" (as many output cells as
            input cells), an int, or for each axis an int, `(before, after)` or a word; a dict by field.
        boundary: what lies outside the array: a number (0), an array over the face, "wrap", "edge", "reflect",
            "symmetric" or a rule of `stencilx.boundary`, such as `Dirichlet(1.0)`, whose values may be functions of
            parameters; by axis `{0: "wrap"}`, by side `{0: ("edge", 1.0)}`, by field `{"u": "wrap"}`.
        mask: cells that exist: a boolean array as large as the field, or the name of a parameter that is one; a dict by
            field. Reads of other cells give what the boundary rule says of a wall there, or what a rule of their own
            does, `{0: "wrap", "mask": "edge"}`. Where cells do not exist, the result is 0.
        relative: whether the kernel indexes its windows by offset from the centre, `u[1, 0]`. Without it, and with a
            kernel_size, it gets each window as an array. Always so for named axes and inferred windows.
        named_axis: names for axes, `{0: "i", 1: "j"}`, so that a kernel may read `u["i+1", "j"]`.
        fields: which arguments are fields, by number (the first ones) or by name; all others are handed over whole.
        backend: "jax", "numpy", "array_api" or an installed one; chosen by the arrays where it is left out.
        fuse: whether XLA may merge the stencil, within `jax.jit` on a CPU, with what stands around it. It then saves a
            pass over memory, but it may compute the stencil again for each read of its result, and often does.

    Returns:
        A `Stencil`. Called on arrays, it gives an array of the kernel's dtype; its shape is the output grid, followed
        by the shape of what the kernel returns.

    Raises:
        StencilError: keywords or kernels that do not fit; each kind says what and what to do.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> @sx.kmap(padding="same", boundary="edge")
        ... def slope(u):
        ...     return (u[1] - u[-1]) / 2
        >>> np.asarray(slope(np.array([0.0, 1.0, 4.0, 9.0], np.float32)))
        array([0.5, 2. , 4. , 2.5], dtype=float32)
    """
    options = _options(
        fields,
        named_axis,
        kernel_size,
        relative,
        strides=strides,
        dilation=dilation,
        padding=padding,
        boundary=boundary,
        mask=mask,
        fuse=fuse,
    )
    return Stencil(options, kernel, backend and load(backend).name)


def smap(
    kernel: Kernel | None = None,
    *,
    kernel_size: Any = None,
    strides: Any = 1,
    dilation: Any = 1,
    offset: Any = 0,
    boundary: Any = 0,
    mask: Any = None,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    fields: int | str | Sequence[str] = 1,
    backend: str | None = None,
    fuse: bool = False,
) -> Any:
    """Apply a kernel to every window of an array and write its scalar results into a copy of that array.

    As `kmap`, but the output has the shape of the (first) field: window centres run over all cells save a margin of
    `offset`, which keeps its old values, as do cells that strides step over or that no region holds. Keys of regions
    count the cells of the array.

    Args:
        kernel: a function of windows and parameters that returns a scalar.
        offset: the margin, an int or for each axis an int or `(before, after)`, in cells.
        mask: as for `kmap`; cells that do not exist keep their old values.
        kernel_size, strides, dilation, boundary, relative, named_axis, fields, backend, fuse: as for `kmap`.

    Returns:
        A `Stencil`. Its result has the dtype in which both the array and the kernel's results fit.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> mean = sx.smap(lambda u: (u[-1] + u[1]) / 2, offset=1)
        >>> np.asarray(mean(np.array([1, 5, 2, 8])))
        array([1. , 1.5, 6.5, 8. ], dtype=float32)
    """
    options = _options(
        fields,
        named_axis,
        kernel_size,
        relative,
        strides=strides,
        dilation=dilation,
        offset=offset,
        boundary=boundary,
        mask=mask,
        fuse=fuse,
        into_copy=True,
    )
    return Stencil(options, kernel, backend and load(backend).name)


def kscan(
    kernel: Kernel | None = None,
    *,
    kernel_size: Any = None,
    strides: Any = 1,
    dilation: Any = 1,
    padding: Any = "valid",
    boundary: Any = 0,
    mask: Any = None,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    fields: int | str | Sequence[str] = 1,
    updates: str | Sequence[str] = (),
    reverse: bool = False,
    schedule: str = "auto",
    backend: str | None = None,
    fuse: bool = False,
) -> Any:
    """Visit the cells one after the other; each sees what the cells before it have written (a sweep).

    As `kmap`, but the kernel's result is written at the window's centre before the next cell is visited, in row-major
    order. A ghost is made from the current values of its cells. The inputs themselves are not modified. From the
    offsets that are read follows the cheapest order that gives the same numbers: `stencil.schedule(...)` names it.

    Args:
        kernel: a function of windows and parameters. It returns a scalar, or a tuple of as many as `updates` names.
        updates: the fields that are written, by name; the first one where it is left out.
        reverse: visit the last cell first.
        schedule: "auto", "parallel", "rows", "cells" or "wavefront". One that would change the numbers is an error.
            "associative" is for kernels that are affine in what they carry, `a * y[-1] + b`, from one cell to the next
            along one axis: on JAX their steps are composed in a tree. Sums are then rounded in another order, so "auto"
            never takes it; regions with boolean keys run cell by cell all the same.
        mask: as for `kmap`; cells that do not exist keep their old values.
        kernel_size, strides, dilation, padding, boundary, relative, named_axis, fields, backend, fuse: as for `kmap`.

    Returns:
        A `Stencil`. Its result is what was written, on the output grid: an array, or a tuple of them for several
        updates. Its dtype holds both the field and what the kernel returns; it is settled before the sweep starts.

    Raises:
        StencilError: as for `kmap`; `ScheduleError` for a schedule that does not exist or would change the numbers.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> running = sx.kscan(lambda y: y[-1] + y[0], padding="same")
        >>> np.asarray(running(np.array([1, 2, 3, 4], np.int32)))
        array([ 1,  3,  6, 10], dtype=int32)
        >>> running.schedule(np.array([1, 2, 3, 4], np.int32))
        'cells'
    """
    options = _options(
        fields,
        named_axis,
        kernel_size,
        relative,
        strides=strides,
        dilation=dilation,
        padding=padding,
        boundary=boundary,
        mask=mask,
        fuse=fuse,
        sweep=True,
        updates=updates,
        reverse=reverse,
        schedule=schedule,
    )
    return Stencil(options, kernel, backend and load(backend).name)


def sscan(
    kernel: Kernel | None = None,
    *,
    kernel_size: Any = None,
    strides: Any = 1,
    dilation: Any = 1,
    offset: Any = 0,
    boundary: Any = 0,
    mask: Any = None,
    relative: bool = False,
    named_axis: Mapping[int, str] | None = None,
    fields: int | str | Sequence[str] = 1,
    updates: str | Sequence[str] = (),
    reverse: bool = False,
    schedule: str = "auto",
    backend: str | None = None,
    fuse: bool = False,
) -> Any:
    """Visit the cells one after the other and write the results into a copy of the array.

    As `kscan`, with the margin of `smap`: the output has the shape of the updated field; cells in the margin of
    `offset`, between strides or in no region keep their old values, and are read as such.

    Args:
        kernel, updates, reverse, schedule: as for `kscan`.
        offset: the margin, an int or for each axis an int or `(before, after)`, in cells.
        kernel_size, strides, dilation, boundary, mask, relative, named_axis, fields, backend, fuse: as for `kscan`.

    Returns:
        A `Stencil`. Its result is the updated array, or a tuple of them for several updates.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> gauss_seidel = sx.sscan(lambda u: (u[-1] + u[1]) / 2, offset=1)
        >>> np.asarray(gauss_seidel(np.array([0.0, 4.0, 4.0, 8.0], np.float32)))
        array([0., 2., 5., 8.], dtype=float32)
    """
    options = _options(
        fields,
        named_axis,
        kernel_size,
        relative,
        strides=strides,
        dilation=dilation,
        offset=offset,
        boundary=boundary,
        mask=mask,
        fuse=fuse,
        into_copy=True,
        sweep=True,
        updates=updates,
        reverse=reverse,
        schedule=schedule,
    )
    return Stencil(options, kernel, backend and load(backend).name)
