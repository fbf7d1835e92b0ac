"""Regions: assignments `F[key] = value` become disjoint parts of the output grid, the last assignment first.

Keys are kept as the user wrote them and resolved here for each call's shape, so one stencil serves many shapes. Keys
that select whole ranges on each axis (integers, slices, one list) are resolved without ever touching the cells: each
axis is cut into classes of indices that the same keys select, and a part is a product of such classes:

    F[:] = f, F[0, :] = g, F[:, -1] = h          axis 1: 0..n-2 | n-1
                                      axis 0: 0      g    |  h
                                         1..n-1      f    |  h

Masks and several lists at once fall back to an array with the number of the owner of each cell.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stencilx.errors import RegionError, RegionIndexError, join, plural

Box = tuple[range, ...]


@dataclass(frozen=True)
class Frame:
    """What keys count: a grid of `shape`, of which only the `cells` (a range for each axis) are computed.

    For kmap both are the output grid. For smap keys count the cells of the array, and a margin or a stride may leave
    some of them out.
    """

    shape: tuple[int, ...]
    cells: Box


@dataclass(frozen=True, eq=False)
class Points:
    """Cells that form no box: one array of indices for each axis."""

    index: tuple[np.ndarray, ...]

    def __str__(self) -> str:
        bounds = ", ".join(f"{a.min()}:{a.max() + 1}" for a in self.index)
        return f"{plural(self.index[0].size, 'cell')} in {bounds}"


@dataclass(frozen=True)
class Part:
    """Cells of the computed grid and the number of the assignment that owns them."""

    owner: int
    cells: Box | Points

    @property
    def count(self) -> int:
        if isinstance(self.cells, Points):
            return self.cells.index[0].size
        return int(np.prod([len(r) for r in self.cells], dtype=np.int64))

    @property
    def index(self) -> tuple[np.ndarray, ...]:
        """What selects these cells in a NumPy array over the grid."""
        return self.cells.index if isinstance(self.cells, Points) else np.ix_(*self.cells)

    def __str__(self) -> str:
        return str(self.cells) if isinstance(self.cells, Points) else box_text(self.cells)


def parts(keys: Sequence[Any], frame: Frame) -> tuple[Part, ...]:
    """Disjoint parts that hold every computed cell which some key selects; the last key wins."""
    per_axis = [_ranges(key, frame.shape) for key in keys]
    if all(choice is not None for choice in per_axis):
        found = _from_classes([choice for choice in per_axis if choice is not None], frame)
    else:
        found = _from_owners(owners(keys, frame.shape), frame, len(keys))
    return tuple(part for part in found if part.count)


def owners(keys: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
    """The number of the key that owns each cell of the frame, -1 where there is none."""
    owner = np.full(shape, -1, np.int32)
    for number, key in enumerate(keys):
        try:
            owner[key] = number
        except IndexError as error:
            raise _key_error(key, shape, str(error).strip()) from None
    return owner


def uncovered(found: Iterable[Part], frame: Frame) -> str | None:
    """The computed cells that no part holds, as keys would select them; None where all are covered."""
    grid = tuple(len(r) for r in frame.cells)
    found = list(found)
    if sum(part.count for part in found) == int(np.prod(grid, dtype=np.int64)):
        return None
    free = np.ones(grid, bool)
    for part in found:
        free[part.index] = False
    holes = _from_owners(np.where(free, 0, -1), _whole(grid), 1, boxes_only=True)
    boxes = [part.cells for part in holes[:6] if not isinstance(part.cells, Points)]
    shown = [_cells_text(frame, box) for box in boxes]
    return join(shown) if len(holes) <= 6 else f"{', '.join(shown)} and more"


def _cells_text(frame: Frame, box: Box) -> str:
    """A box of computed cells as keys of the frame would select it."""
    text = box_text(tuple(f[r.start : r.stop : r.step] for f, r in zip(frame.cells, box, strict=True)))
    return f"[{text}]" if len(box) > 1 else text


def cover_error(cells: str, grid: Sequence[int]) -> RegionError:
    return RegionError(
        f"no region covers cells {cells} of the output grid of shape {tuple(grid)}.",
        hint="give a background first, F[...] = kernel; later assignments win.",
    )


def check_fits(key: Any, shape: Sequence[int], given: tuple[int, ...]) -> None:
    """An array given to a region broadcasts to it."""
    selected = np.empty(shape, np.int8)[key].shape if given else ()
    fits = len(given) <= len(selected) and all(n in (1, m) for n, m in zip(reversed(given), reversed(selected)))
    if given and not fits:
        raise RegionError(
            f"an array of shape {given} does not fit region F[{key_text(key)}], which has shape {selected}."
        )


def positions(key: Any, shape: Sequence[int]) -> tuple[np.ndarray, tuple[int, ...]]:
    """For each cell of the frame its place in the raveled selection `grid[key]` (-1: not in it), and that one's shape.

    It says which element of an array given as a region's value belongs to which cell.
    """
    selected = np.empty(shape, np.int8)[key].shape
    place = np.full(shape, -1, np.int64)
    place[key] = np.arange(int(np.prod(selected, dtype=np.int64))).reshape(selected)
    return place, selected


def box_text(box: Box) -> str:
    """`0, 1:5, ::2` as one would write the key."""
    return ", ".join(_range_text(r) for r in box)


def _range_text(r: range) -> str:
    if len(r) == 1:
        return str(r[0])
    return f"{r.start}:{r[-1] + 1 if r else r.start}" + (f":{r.step}" if r.step != 1 else "")


def _whole(grid: Sequence[int]) -> Frame:
    return Frame(tuple(grid), tuple(range(n) for n in grid))


# Keys


def _ranges(key: Any, shape: Sequence[int]) -> list[range | list[int]] | None:
    """The indices that a key selects on each axis; None for keys that select cells one by one."""
    items = list(key) if isinstance(key, tuple) else [key]
    if any(isinstance(item, (np.ndarray, list)) and np.ndim(item) != 1 for item in items):
        return None
    if sum(isinstance(item, (np.ndarray, list)) for item in items) > 1:
        return None
    dots = [position for position, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise _key_error(key, shape, "it has more than one '...'")
    if len(items) - len(dots) > len(shape):
        raise _key_error(key, shape, f"it indexes {plural(len(items) - len(dots), 'axis')}")
    at = dots[0] if dots else len(items)
    items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + len(dots))
    return [_axis_indices(item, n, axis, key, shape) for axis, (item, n) in enumerate(zip(items, shape, strict=True))]


def _axis_indices(item: Any, n: int, axis: int, key: Any, shape: Sequence[int]) -> range | list[int]:
    if isinstance(item, slice):
        try:
            return range(*item.indices(n))
        except TypeError:
            raise _key_error(key, shape, "slice ends must be whole numbers") from None
    if isinstance(item, (np.ndarray, list)):
        array = np.asarray(item)
        if array.dtype == bool:
            if array.size != n:
                raise _key_error(
                    key, shape, f"its mask has {array.size} entries for {plural(n, 'cell')} on axis {axis}"
                )
            return np.flatnonzero(array).tolist()
        array = array.astype(np.intp) if array.size == 0 else array
        if not np.issubdtype(array.dtype, np.integer):
            raise _key_error(key, shape, f"indices must be whole numbers, not {array.dtype}")
        return [_in_range(int(i), n, axis, key, shape) for i in array]
    try:
        if isinstance(item, (bool, np.bool_)):
            raise TypeError
        index = _in_range(operator.index(item), n, axis, key, shape)
    except TypeError:
        raise _key_error(key, shape, f"{item!r} is no index") from None
    return range(index, index + 1)


def _in_range(index: int, n: int, axis: int, key: Any, shape: Sequence[int]) -> int:
    if not -n <= index < n:
        raise _key_error(key, shape, f"index {index} is out of range on axis {axis}, which has {plural(n, 'cell')}")
    return index % n


def _key_error(key: Any, shape: Sequence[int], reason: str) -> RegionIndexError:
    return RegionIndexError(f"region F[{key_text(key)}] does not fit the grid of shape {tuple(shape)}: {reason}.")


def same_key(a: Any, b: Any) -> bool:
    """Whether two keys are written alike, and so select the same cells."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same_key, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is b
    return type(a) is type(b) and bool(a == b)


def key_text(key: Any) -> str:
    """A key as the user wrote it between the brackets."""
    items = key if isinstance(key, tuple) else (key,)
    return ", ".join(_item_text(item) for item in items)


def _item_text(item: Any) -> str:
    if item is Ellipsis:
        return "..."
    if isinstance(item, slice):
        ends = ("" if end is None else str(end) for end in (item.start, item.stop))
        return ":".join(ends) + ("" if item.step is None else f":{item.step}")
    if isinstance(item, np.ndarray) and item.dtype == bool:
        return f"<mask of shape {item.shape}>"
    return repr(item) if isinstance(item, str) else str(item)


# Parts


def _from_classes(chosen: Sequence[Sequence[range | list[int]]], frame: Frame) -> list[Part]:
    """Cut each axis into classes selected by the same keys; every product of classes has one owner."""
    classes = [
        _classes([key[axis] for key in chosen], cells, frame.shape[axis]) for axis, cells in enumerate(frame.cells)
    ]
    owner = np.full([len(found) for found in classes], -1)
    for index in np.ndindex(*owner.shape):
        chosen_here = np.logical_and.reduce([classes[axis][i][0] for axis, i in enumerate(index)])
        owner[index] = max(np.flatnonzero(chosen_here), default=-1)
    boxes: dict[int, list[Box]] = {}
    _collect(owner, [[where for _, where in found] for found in classes], (), boxes)
    return [Part(number, box) for number in sorted(boxes) for box in _merge(boxes[number])]


def _collect(owner: np.ndarray, classes: Sequence[Sequence[np.ndarray]], box: Box, boxes: dict[int, list[Box]]) -> None:
    """Enter the boxes of each owner; classes of an axis whose owners agree everywhere are one."""
    if not classes:
        if owner >= 0:
            boxes.setdefault(int(owner), []).append(box)
        return
    alike: dict[bytes, list[int]] = {}
    for number, below in enumerate(owner):
        alike.setdefault(below.tobytes(), []).append(number)
    for numbers in alike.values():
        where = np.sort(np.concatenate([classes[0][number] for number in numbers]))
        for r in _as_ranges(where):
            _collect(owner[numbers[0]], classes[1:], (*box, r), boxes)


def _classes(choices: Sequence[range | list[int]], cells: range, length: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The classes of one axis: which keys select them, and where they lie."""
    all_selected = all(choice == range(length) for choice in choices)
    if all_selected and cells and cells[0] >= 0 and cells[-1] < length:
        return [(np.ones(len(choices), bool), np.arange(len(cells)))]
    index = _array(cells)
    member = [np.isin(index, choice) if isinstance(choice, list) else _in(index, choice) for choice in choices]
    code = np.zeros(len(cells), np.int64)
    for selected in member:
        _, code = np.unique(2 * code + selected, return_inverse=True)
    found = []
    for number in range(code.max(initial=-1) + 1):
        where = np.flatnonzero(code == number)
        found.append((np.array([selected[where[0]] for selected in member]), where))
    return found


def _array(cells: range) -> np.ndarray:
    return np.arange(cells.start, cells.stop, cells.step)


def _in(index: np.ndarray, choice: range) -> np.ndarray:
    if not choice:
        return np.zeros(index.shape, bool)
    low, high, step = min(choice[0], choice[-1]), max(choice[0], choice[-1]), choice.step
    return (index >= low) & (index <= high) & ((index - low) % abs(step) == 0)


def _from_owners(owner: np.ndarray, frame: Frame, count: int, boxes_only: bool = False) -> list[Part]:
    """Parts of an array of owners: a box where the cells form one, else points."""
    owner = _computed(owner, frame)
    found: list[Part] = []
    for number in range(count):
        index = np.nonzero(owner == number)
        if not index[0].size:
            continue
        sides = [_as_ranges(np.unique(i)) for i in index]
        is_box = all(len(s) == 1 for s in sides) and np.prod([len(s[0]) for s in sides]) == index[0].size
        if is_box:
            found.append(Part(number, tuple(s[0] for s in sides)))
        elif boxes_only:
            rows = zip(*(i.tolist() for i in index), strict=True)
            cells = [tuple(range(i, i + 1) for i in row) for row in rows]
            found.extend(Part(number, box) for box in _merge(cells))
        else:
            found.append(Part(number, Points(index)))
    return found


def _computed(owner: np.ndarray, frame: Frame) -> np.ndarray:
    """The owners of the computed cells; those outside the frame have none."""
    for axis, cells in enumerate(frame.cells):
        index = np.asarray(cells, np.int64)
        inside = (index >= 0) & (index < frame.shape[axis])
        taken = owner.take(np.where(inside, index, 0), axis=axis)
        owner = np.where(np.expand_dims(inside, tuple(range(1, owner.ndim - axis))), taken, -1)
    return owner


def _as_ranges(sorted_indices: np.ndarray) -> list[range]:
    """Sorted indices as few evenly spaced ranges: 0 1 2 7 9 11 -> 0:3, 7:12:2."""
    gaps = np.diff(sorted_indices)
    if len(gaps) > 1 and (gaps == gaps[0]).all():  # the usual case, for any length
        return [range(int(sorted_indices[0]), int(sorted_indices[-1]) + 1, int(gaps[0]))]
    indices = sorted_indices.tolist()
    found: list[range] = []
    at = 0
    while at < len(indices):
        step = indices[at + 1] - indices[at] if at + 1 < len(indices) else 1
        end = at + 1
        while end < len(indices) and indices[end] - indices[end - 1] == step:
            end += 1
        if end - at == 2 and step > 1:  # two far ends are no stride
            end, step = at + 1, 1
        found.append(range(indices[at], indices[end - 1] + 1, step))
        at = end
    return found


def _merge(boxes: list[Box]) -> list[Box]:
    """Join boxes that touch along one axis and agree on all others."""
    for axis in reversed(range(len(boxes[0]))):
        joined: list[Box] = []
        for box in sorted(
            boxes, key=lambda b: [*((r.start, r.stop) for i, r in enumerate(b) if i != axis), b[axis].start]
        ):
            last = joined[-1] if joined else None
            if (
                last
                and box[:axis] == last[:axis]
                and box[axis + 1 :] == last[axis + 1 :]
                and _touch(last[axis], box[axis])
            ):
                joined[-1] = (*box[:axis], range(last[axis].start, box[axis].stop), *box[axis + 1 :])
            else:
                joined.append(box)
        boxes = joined
    return sorted(boxes, key=lambda b: [r.start for r in b])


def _touch(first: range, second: range) -> bool:
    return first.step == second.step == 1 and first.stop == second.start
