"""What a call means, in plain loops over np.pad: the oracle of these tests. It knows nothing of the library.

Options are written as the library takes them; here they are read anew, in as few lines as will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Pair = tuple[int, int]
Index = tuple[int, ...]


class Around:
    """A window that is indexed by offset from its centre, so that one kernel serves the library and the oracle."""

    def __init__(self, window: np.ndarray, lo: Sequence[int]) -> None:
        self.window, self.lo = window, lo

    def __getitem__(self, offset: Any) -> Any:
        offset = offset if isinstance(offset, tuple) else (offset,)
        assert all(0 <= o - low < n for o, low, n in zip(offset, self.lo, self.window.shape, strict=True))
        return self.window[tuple(o - low for o, low in zip(offset, self.lo, strict=True))]


def each(value: Any, ndim: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * ndim


def taps(size: int) -> Pair:
    """An even window has its longer arm after the centre."""
    return -((size - 1) // 2), size // 2


def sides(rules: Any, ndim: int) -> list[tuple[Any, Any]]:
    by_axis = {axis % ndim: rule for axis, rule in rules.items()} if isinstance(rules, dict) else None
    found = [rules if by_axis is None else by_axis.get(axis, 0) for axis in range(ndim)]
    return [rule if isinstance(rule, tuple) else (rule, rule) for rule in found]


def joined(array: np.ndarray, rules: Any) -> np.ndarray:
    """The array in a dtype that holds the numbers outside it, too; 0 fits all dtypes."""
    numbers = [rule for pair in sides(rules, array.ndim) for rule in pair if not isinstance(rule, str) and rule != 0]
    return array.astype(np.result_type(array, *numbers))


def extend(array: np.ndarray, counts: Sequence[Pair], rules: Any) -> np.ndarray:
    """Pad axis after axis, each side by its own rule: np.pad at each step."""
    array = joined(array, rules)
    for axis, (pair, (low, high)) in enumerate(zip(counts, sides(rules, array.ndim), strict=True)):
        before = _padded(array, axis, (pair[0], 0), low).take(range(pair[0]), axis)
        after = _padded(array, axis, (0, pair[1]), high)
        after = after.take(range(after.shape[axis] - pair[1], after.shape[axis]), axis)
        array = np.concatenate([before, array, after], axis)
    return array


def _padded(array: np.ndarray, axis: int, pair: Pair, rule: Any) -> np.ndarray:
    widths = [(0, 0)] * array.ndim
    widths[axis] = pair
    if isinstance(rule, str):
        return np.pad(array, widths, mode=rule)
    return np.pad(array, widths, constant_values=rule)


def padding_pairs(padding: Any, reach: Sequence[Pair], dilation: Sequence[int]) -> list[Pair]:
    pairs: list[Pair] = []
    for entry, (low, high), d in zip(each(padding, len(reach)), reach, dilation, strict=True):
        if entry == "same":
            pairs.append((-low * d, high * d))
        elif entry == "valid":
            pairs.append((0, 0))
        else:
            pairs.append((entry, entry) if isinstance(entry, int) else tuple(entry))
    return pairs


def windows(
    array: np.ndarray, reach: Sequence[Pair], strides: Any = 1, dilation: Any = 1, padding: Any = 0, rules: Any = 0
) -> Iterator[tuple[Index, np.ndarray]]:
    """Every output cell and its window; `reach` is the lowest and highest offset of each axis."""
    strides, dilation = each(strides, array.ndim), each(dilation, array.ndim)
    pairs = padding_pairs(padding, reach, dilation)
    ghosts = [(max(a, 0), max(b, 0)) for a, b in pairs]
    whole = extend(array, ghosts, rules)
    crop = tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pairs, whole.shape, strict=True))
    whole = whole[crop]
    extents = [(high - low) * d + 1 for (low, high), d in zip(reach, dilation, strict=True)]
    grid = [(n - e) // s + 1 for n, e, s in zip(whole.shape, extents, strides, strict=True)]
    for cell in np.ndindex(*grid):
        starts = [c * s for c, s in zip(cell, strides, strict=True)]
        key = tuple(slice(a, a + e, d) for a, e, d in zip(starts, extents, dilation, strict=True))
        yield cell, whole[key]


def loop_map(
    kernel: Callable[..., Any], array: np.ndarray, reach: Sequence[Pair], *, relative: bool = False, **options: Any
) -> np.ndarray:
    """The kernel's result in every cell, as one array."""
    results: dict[Index, Any] = {}
    for cell, window in windows(array, reach, **options):
        view = Around(window, [low for low, _ in reach]) if relative else window
        results[cell] = np.asarray(kernel(view))
    return gathered(results)


def gathered(results: dict[Index, Any]) -> np.ndarray:
    """Results by cell as one array, grid axes first."""
    grid = tuple(max(cell[axis] for cell in results) + 1 for axis in range(len(next(iter(results)))))
    assert math.prod(grid) == len(results)
    first = np.asarray(next(iter(results.values())))
    whole = np.empty(grid + first.shape, first.dtype)
    for cell, value in results.items():
        whole[cell] = value
    return whole


def sizes(kernel_size: Any, shape: Sequence[int]) -> list[Pair]:
    """The reach of `kernel_size=`."""
    return [taps(n if k == -1 else k) for k, n in zip(each(kernel_size, len(shape)), shape, strict=True)]


def run(library: Any, stencil: Any, *arrays: Any, **keywords: Any) -> Any:
    """Call a stencil on a library's arrays; its results as NumPy arrays."""
    keywords = {name: to_library(library, value) for name, value in keywords.items()}
    result = stencil.with_backend(library.backend)(*(to_library(library, a) for a in arrays), **keywords)
    return to_numpy(library, result)


def to_library(library: Any, value: Any) -> Any:
    return library.array(value) if isinstance(value, np.ndarray) else value


def to_numpy(library: Any, result: Any) -> Any:
    """The same tree with NumPy leaves."""
    if isinstance(result, dict):
        return {key: to_numpy(library, value) for key, value in result.items()}
    if isinstance(result, (tuple, list)):
        items = [to_numpy(library, value) for value in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return library.numpy(result)


def agree(got: np.ndarray, expected: Any, dtype: Any = None) -> None:
    """Shapes the same, values the same up to rounding; the dtype too where one is named."""
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    if dtype is not None:
        assert got.dtype == np.dtype(dtype)
    precision = 2e-3 if got.dtype == np.float16 else 1e-5 if got.dtype.itemsize <= 4 else 1e-12
    np.testing.assert_allclose(got, expected, rtol=precision, atol=precision)


def sample(*shape: int, dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    """Numbers of both signs without any symmetry, exact in every dtype."""
    numbers = np.random.default_rng(seed).integers(-24, 25, shape)
    if np.dtype(dtype) == bool:
        return numbers > 3
    if np.dtype(dtype).kind == "c":
        return (numbers / 4 + 1j * np.roll(numbers, 1) / 8).astype(dtype)
    if np.dtype(dtype).kind == "u":
        return (numbers + 24).astype(dtype)
    return (numbers / 4 if np.dtype(dtype).kind == "f" else numbers).astype(dtype)
