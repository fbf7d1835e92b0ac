"""Windows in plain integers: kernel_size, strides, dilation and padding become offsets and an output grid.

First stage after the user's call. Along one axis of `n` cells, with padding `(before, after)`, a window of taps
`lo..hi` and dilation `d`, output cell `c` stands at its centre and reads tap `o` here:

    position(c, o) = c*stride - before + (o - lo)*d        0 <= position < n inside, a ghost otherwise

    ghost ghost | 0   1   2   3  ...  n-1 | ghost
    ^ -before     ^ array                   ^ n-1+after
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stencilx.errors import WindowError, plural

Offset = tuple[int, ...]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """The taps `lo..hi` around the centre, both included, axis by axis."""

    lo: Offset
    hi: Offset

    @property
    def size(self) -> tuple[int, ...]:
        return tuple(h - low + 1 for low, h in zip(self.lo, self.hi, strict=True))

    def __len__(self) -> int:
        return math.prod(self.size)

    def __iter__(self) -> Iterator[Offset]:
        """All offsets of the window, in row-major order."""
        return itertools.product(*(range(low, h + 1) for low, h in zip(self.lo, self.hi, strict=True)))

    def __str__(self) -> str:
        return ", ".join(f"{low}..{h}" for low, h in zip(self.lo, self.hi, strict=True))


Reads = Window | tuple[Offset, ...]
"""What a kernel reads of a field: some offsets, sorted; or every one of a window."""


def union(reads: Sequence[Reads]) -> Reads:
    """All that several kernels read of one field."""
    for whole in reads:
        if isinstance(whole, Window):
            return whole
    return tuple(sorted({offset for offsets in reads for offset in offsets}))


def whole_number(value: Any, what: str) -> int:
    """An int or NumPy integer as an int; anything else is an error that names `what`."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise WindowError(f"{what} must be a whole number, not {value!r}.")


def per_axis(value: Any, ndim: int, what: str, field: str) -> tuple[Any, ...]:
    """One entry for each axis: a sequence as it stands, anything else repeated."""
    if not isinstance(value, (tuple, list)):
        return (value,) * ndim
    if len(value) != ndim:
        raise WindowError(
            f"{what}={value!r} has {plural(len(value), 'entry')}, but field {field!r} has {plural(ndim, 'axis')}.",
            hint=f"give one entry for each axis{_pair_hint(value, ndim, what)}.",
        )
    return tuple(value)


def _pair_hint(value: Sequence[Any], ndim: int, what: str) -> str:
    takes_pairs = what in ("padding", "offset")
    if takes_pairs and ndim == 1 and len(value) == 2:
        return f"; for the two sides of the one axis write {what}=({tuple(value)!r},)"
    return ""


def window_of_size(kernel_size: Any, shape: Sequence[int], field: str) -> Window:
    """`kernel_size=k` is the window `-((k-1)//2) .. k//2`; -1 stands for the whole axis."""
    lo, hi = [], []
    for axis, (entry, length) in enumerate(zip(per_axis(kernel_size, len(shape), "kernel_size", field), shape)):
        size = whole_number(entry, f"kernel_size on axis {axis}")
        if size == -1:
            size = max(length, 1)
        if size < 1:
            raise WindowError(f"kernel_size on axis {axis} must be 1 or more, or -1 for the whole axis, not {size}.")
        lo.append(-((size - 1) // 2))
        hi.append(size // 2)
    return Window(tuple(lo), tuple(hi))


def reach(reads: Iterable[Offset], ndim: int) -> Window:
    """The smallest window that holds the centre and all reads."""
    lo, hi = [0] * ndim, [0] * ndim
    for offset in reads:
        lo = [min(a, b) for a, b in zip(lo, offset, strict=True)]
        hi = [max(a, b) for a, b in zip(hi, offset, strict=True)]
    return Window(tuple(lo), tuple(hi))


def steps(value: Any, ndim: int, what: str, field: str) -> tuple[int, ...]:
    """strides or dilation: a positive whole number for each axis."""
    entries = per_axis(value, ndim, what, field)
    numbers = tuple(whole_number(e, f"{what} on axis {axis}") for axis, e in enumerate(entries))
    for axis, number in enumerate(numbers):
        if number < 1:
            raise WindowError(f"{what} on axis {axis} must be 1 or more, not {number}.")
    return numbers


def padding_pairs(padding: Any, window: Window, dilation: Sequence[int], field: str) -> tuple[Pair, ...]:
    """Every form of `padding` as `(before, after)` for each axis. Negative padding keeps windows further inside."""
    pairs = []
    for axis, entry in enumerate(per_axis(padding, len(window.lo), "padding", field)):
        d = dilation[axis]
        if isinstance(entry, str):
            named = {"valid": (0, 0), "same": (-window.lo[axis] * d, window.hi[axis] * d)}
            if entry.lower() not in named:
                raise WindowError(f"padding on axis {axis} must be 'valid', 'same' or numbers, not {entry!r}.")
            pairs.append(named[entry.lower()])
        else:
            pairs.append(_sides(entry, "padding", axis))
    return tuple(pairs)


def offset_pairs(offset: Any, ndim: int, field: str) -> tuple[Pair, ...]:
    """The margin of smap that keeps its old values, as `(before, after)` for each axis."""
    pairs = tuple(_sides(entry, "offset", axis) for axis, entry in enumerate(per_axis(offset, ndim, "offset", field)))
    for axis, pair in enumerate(pairs):
        if min(pair) < 0:
            raise WindowError(f"offset on axis {axis} must be 0 or more on both sides, not {pair}.")
    return pairs


def _sides(entry: Any, what: str, axis: int) -> Pair:
    if isinstance(entry, (tuple, list)):
        if len(entry) != 2:
            raise WindowError(f"{what} on axis {axis} must be a number or (before, after), not {entry!r}.")
        return (whole_number(entry[0], f"{what} on axis {axis}"), whole_number(entry[1], f"{what} on axis {axis}"))
    number = whole_number(entry, f"{what} on axis {axis}")
    return (number, number)


@dataclass(frozen=True)
class Geometry:
    """Where the windows of one field lie: the datum behind every shifted slice.

    `by_centre` says that windows were placed by their centres, as smap does: then there may be none.
    """

    field: str
    shape: tuple[int, ...]
    window: Window
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[Pair, ...]
    by_centre: bool = False

    @property
    def extent(self) -> tuple[int, ...]:
        """How many cells a window spans along each axis."""
        return tuple((size - 1) * d + 1 for size, d in zip(self.window.size, self.dilation, strict=True))

    @property
    def grid(self) -> tuple[int, ...]:
        """How many output cells there are along each axis."""
        counts = []
        for axis, (n, extent, stride) in enumerate(zip(self.shape, self.extent, self.strides, strict=True)):
            before, after = self.padding[axis]
            room = n + before + after - extent
            if room < 0 and n > 0 and not self.by_centre:
                raise WindowError(
                    f"the window of field {self.field!r} spans {plural(extent, 'cell')} on axis {axis}, "
                    f"more than the {n + before + after} there are with padding.",
                    note=f"shape {self.shape}, window {self.window}, dilation {self.dilation}, padding {self.padding}.",
                    hint="give a smaller kernel_size, or more padding (padding='same').",
                )
            counts.append(max(room // stride + 1, 0) if n or room >= 0 else 0)
        return tuple(counts)

    @property
    def centres(self) -> tuple[range, ...]:
        """Where the windows of all cells are centred, along each axis."""
        return tuple(self.positions(axis, range(n), 0) for axis, n in enumerate(self.grid))

    def in_cells(self, tap: Offset) -> Offset:
        """A tap's offset from the centre in cells of the array."""
        return tuple(t * d for t, d in zip(tap, self.dilation, strict=True))

    def position(self, axis: int, cell: int, tap: int) -> int:
        """The index along one axis that a cell's tap reads; outside 0..n-1 it is a ghost."""
        before = self.padding[axis][0]
        return cell * self.strides[axis] - before + (tap - self.window.lo[axis]) * self.dilation[axis]

    def positions(self, axis: int, cells: range, tap: int) -> range:
        """The indices along one axis that a range of cells reads with one tap."""
        if not cells:
            return range(0)
        first = self.position(axis, cells[0], tap)
        step = cells.step * self.strides[axis]
        return range(first, first + step * len(cells), step)

    def ghosts(self, reads: Reads, grid: Sequence[int]) -> tuple[Pair, ...]:
        """How many ghost cells the reads reach, before and after the array, on each axis."""
        pairs = []
        corners = (reads.lo, reads.hi) if isinstance(reads, Window) else reads
        for axis, count in enumerate(grid):
            taps = [corner[axis] for corner in corners]
            if not taps or not count:
                pairs.append((0, 0))
                continue
            first, last = self.position(axis, 0, min(taps)), self.position(axis, count - 1, max(taps))
            pairs.append((max(0, -first), max(0, last - self.shape[axis] + 1)))
        return tuple(pairs)


def mirrored(g: Geometry) -> Geometry:
    """The geometry of the same windows, seen with all axes turned round: cell c is now cell count - 1 - c."""
    lo, hi = tuple(-h for h in g.window.hi), tuple(-low for low in g.window.lo)
    padding = []
    for axis, count in enumerate(g.grid):
        before, after = g.padding[axis]
        unused = g.shape[axis] + before + after - g.extent[axis] - (count - 1) * g.strides[axis]
        padding.append((after - unused, before))
    return replace(g, window=Window(lo, hi), padding=tuple(padding))


def by_field(value: Any, fields: Sequence[str], what: str) -> dict[str, Any]:
    """An option for each field: a dict by field name is looked up, anything else serves all of them."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(fields, value)
    unknown = [name for name in value if name not in fields]
    missing = [name for name in fields if name not in value]
    if unknown or missing:
        wrong = f"names {unknown[0]!r}, which is no field" if unknown else f"lacks field {missing[0]!r}"
        raise WindowError(f"{what} by field {wrong}: the fields are {', '.join(map(repr, fields))}.")
    return {name: value[name] for name in fields}
