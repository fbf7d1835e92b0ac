"""What somebody would write by hand for all cores: plain loops over float32 arrays, rows in parallel, by numba.

Inner loops count from 0 and read ahead, never behind: an index that might be negative keeps numba from vectorising.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange

Pair = tuple[np.ndarray, np.ndarray]
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
Five = tuple[np.float32, np.float32, np.float32, np.float32, np.float32]
LEAST = np.float32(-3e38)  # fast mathematics knows no infinity

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin take the cores from the other ways
parallel: Callable[[Any], Any] = numba.njit(parallel=True, fastmath=True)
row_by_row: Callable[[Any], Any] = numba.njit(fastmath=True)
inlined: Callable[[Any], Any] = numba.njit(fastmath=True, inline="always")


# The 5-point Laplacian; low and high are the cells that stand in for those before and after an axis, -1 for zeros


@parallel
def laplacian_into(x: np.ndarray, out: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    rows, columns = x.shape
    zeros = np.zeros(columns, x.dtype)
    for i in prange(rows):
        above = x[i - 1] if i > 0 else (x[low[0]] if low[0] >= 0 else zeros)
        below = x[i + 1] if i < rows - 1 else (x[high[0]] if high[0] >= 0 else zeros)
        here, last = x[i], columns - 1
        for j in range(columns - 2):
            out[i, j + 1] = above[j + 1] + below[j + 1] + here[j] + here[j + 2] - np.float32(4) * here[j + 1]
        left = here[low[1]] if low[1] >= 0 else np.float32(0)
        right = here[high[1]] if high[1] >= 0 else np.float32(0)
        out[i, 0] = above[0] + below[0] + left + here[1] - np.float32(4) * here[0]
        out[i, last] = above[last] + below[last] + here[last - 1] + right - np.float32(4) * here[last]
    return out


@row_by_row
def laplacian(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return laplacian_into(x, np.empty_like(x), low, high)


@numba.stencil
def _five_points(u: Any) -> Any:
    return u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - np.float32(4) * u[0, 0]


@parallel
def laplacian_by_stencil(x: np.ndarray) -> np.ndarray:
    """numba.stencil leaves borders alone, so it works on a copy with zeros around."""
    p = np.zeros((x.shape[0] + 2, x.shape[1] + 2), x.dtype)
    p[1:-1, 1:-1] = x
    return _five_points(p)[1:-1, 1:-1]


# Time loops, between two buffers with ghost cells


@parallel
def _warm(old: np.ndarray, new: np.ndarray, rate: np.float32) -> None:
    for i in prange(old.shape[0] - 2):
        for j in range(old.shape[1] - 2):
            here = old[i + 1, j + 1]
            around = old[i, j + 1] + old[i + 2, j + 1] + old[i + 1, j] + old[i + 1, j + 2]
            new[i + 1, j + 1] = here + rate * (around - np.float32(4) * here)


@row_by_row
def heat(u: np.ndarray, rate: np.float32, steps: int) -> np.ndarray:
    old = np.zeros((u.shape[0] + 2, u.shape[1] + 2), u.dtype)
    new = np.zeros_like(old)
    old[1:-1, 1:-1] = u
    for _ in range(steps):
        _warm(old, new, rate)
        old, new = new, old
    return old[1:-1, 1:-1]


@row_by_row
def heat_gradient(u: np.ndarray, rate: np.float32, steps: int) -> np.ndarray:
    """Of the sum of squares after some steps: a step of the heat equation is its own transpose."""
    return heat(np.float32(2) * heat(u, rate, steps), rate, steps)


@inlined
def _star(x: np.ndarray, i: int, j: int, k: int, w: Five) -> np.float32:
    """25 points in three dimensions; i, j and k are those of the corner of the window."""
    a, b, c = i + 4, j + 4, k + 4
    total = np.float32(3) * w[0] * x[a, b, c]
    total += w[1] * (
        x[i + 3, b, c] + x[i + 5, b, c] + x[a, j + 3, c] + x[a, j + 5, c] + x[a, b, k + 3] + x[a, b, k + 5]
    )
    total += w[2] * (
        x[i + 2, b, c] + x[i + 6, b, c] + x[a, j + 2, c] + x[a, j + 6, c] + x[a, b, k + 2] + x[a, b, k + 6]
    )
    total += w[3] * (
        x[i + 1, b, c] + x[i + 7, b, c] + x[a, j + 1, c] + x[a, j + 7, c] + x[a, b, k + 1] + x[a, b, k + 7]
    )
    return total + w[4] * (x[i, b, c] + x[i + 8, b, c] + x[a, j, c] + x[a, j + 8, c] + x[a, b, k] + x[a, b, k + 8])


@parallel
def star(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    planes, rows, columns = x.shape
    out = np.empty((planes - 8, rows - 8, columns - 8), x.dtype)
    w = (weights[0], weights[1], weights[2], weights[3], weights[4])
    for i in prange(planes - 8):
        for j in range(rows - 8):
            for k in range(columns - 8):
                out[i, j, k] = _star(x, i, j, k, w)
    return out


@parallel
def _leap(old: np.ndarray, new: np.ndarray, w: Five, rate: np.float32) -> None:
    """The new state takes the place of the one before the old one: each cell of that is read once, by itself."""
    planes, rows, columns = old.shape
    for i in prange(planes - 8):
        for j in range(rows - 8):
            for k in range(columns - 8):
                a, b, c = i + 4, j + 4, k + 4
                new[a, b, c] = np.float32(2) * old[a, b, c] - new[a, b, c] + rate * _star(old, i, j, k, w)


@row_by_row
def wave(u: np.ndarray, before: np.ndarray, weights: np.ndarray, rate: np.float32, steps: int) -> np.ndarray:
    planes, rows, columns = u.shape
    old = np.zeros((planes + 8, rows + 8, columns + 8), u.dtype)
    new = np.zeros_like(old)
    old[4:-4, 4:-4, 4:-4], new[4:-4, 4:-4, 4:-4] = u, before
    w = (weights[0], weights[1], weights[2], weights[3], weights[4])
    for _ in range(steps):
        _leap(old, new, w, rate)
        old, new = new, old
    return old[4:-4, 4:-4, 4:-4]


@row_by_row
def _react(a: Rows, b: Rows, feed: np.float32, kill: np.float32, out: Pair, at: tuple[int, int, int]) -> None:
    """One cell of Gray-Scott, from the rows above, here and below of both substances, and columns beside and at it."""
    left, here, right = at
    four, u, v = np.float32(4), a[1][here], b[1][here]
    spread_u = a[0][here] + a[2][here] + a[1][left] + a[1][right] - four * u
    spread_v = b[0][here] + b[2][here] + b[1][left] + b[1][right] - four * v
    reaction = u * v * v
    out[0][here] = u + np.float32(0.16) * spread_u - reaction + feed * (np.float32(1) - u)
    out[1][here] = v + np.float32(0.08) * spread_v + reaction - (feed + kill) * v


@parallel
def gray_scott(a: np.ndarray, b: np.ndarray, feed: np.float32, kill: np.float32, steps: int) -> Pair:
    n, m = a.shape
    old_a, old_b, new_a, new_b = a.copy(), b.copy(), np.empty_like(a), np.empty_like(b)
    for _ in range(steps):
        for i in prange(n):
            up, down = (i - 1) % n, (i + 1) % n
            rows_a, rows_b = (old_a[up], old_a[i], old_a[down]), (old_b[up], old_b[i], old_b[down])
            out = (new_a[i], new_b[i])
            for j in range(m - 2):
                _react(rows_a, rows_b, feed, kill, out, (j, j + 1, j + 2))
            _react(rows_a, rows_b, feed, kill, out, (m - 1, 0, 1))
            _react(rows_a, rows_b, feed, kill, out, (m - 2, m - 1, 0))
        old_a, new_a = new_a, old_a
        old_b, new_b = new_b, old_b
    return old_a, old_b


# Windows


@row_by_row
def _add_taps(total: np.ndarray, line: np.ndarray, taps: np.ndarray) -> None:
    """total[j] += sum of taps[k] * line[j + k], three taps a pass."""
    for k in range(0, taps.size, 3):
        first, second, third = line[k:], line[k + 1 :], line[k + 2 :]
        p, q, r = taps[k], taps[k + 1], taps[k + 2]
        for j in range(total.size):
            total[j] += p * first[j] + q * second[j] + r * third[j]


@parallel
def _with_zeros_around(x: np.ndarray, half: int) -> np.ndarray:
    channels, rows, columns = x.shape
    padded = np.empty((channels, rows + 2 * half, columns + 2 * half), x.dtype)
    for at in prange(channels * (rows + 2 * half)):
        c, i = at // (rows + 2 * half), at % (rows + 2 * half)
        padded[c, i] = 0
        if half <= i < rows + half:
            padded[c, i, half : columns + half] = x[c, i - half]
    return padded


@parallel
def conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Channels are summed; zeros outside; the number of columns of w is a multiple of 3."""
    channels, rows, columns = x.shape
    padded = _with_zeros_around(x, w.shape[1] // 2)
    out = np.empty((rows, columns), x.dtype)
    for i in prange(rows):
        out[i] = 0
        for c in range(channels):
            for a in range(w.shape[1]):
                _add_taps(out[i], padded[c, i + a], w[c, a])
    return out


@parallel
def two_passes(x: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """Columns into a line, and from there along the row; the number of taps is a multiple of 3."""
    rows, columns = x.shape
    half = taps.size // 2
    out = np.empty_like(x)
    for i in prange(rows):
        line = np.zeros(columns + 2 * half, x.dtype)
        middle = line[half : half + columns]
        for a in range(max(0, half - i), min(taps.size, rows + half - i)):
            tap, row = taps[a], x[i + a - half]
            for j in range(columns):
                middle[j] += tap * row[j]
        out[i] = 0
        _add_taps(out[i], line, taps)
    return out


@parallel
def patches(x: np.ndarray) -> np.ndarray:
    out = np.empty((x.size - 2, 3), x.dtype)
    for i in prange(x.size - 2):
        out[i, 0] = x[i]
        out[i, 1] = x[i + 1]
        out[i, 2] = x[i + 2]
    return out


@parallel
def max_pool(x: np.ndarray) -> np.ndarray:
    """3 x 3, stride 2: the largest of three rows first, then of three columns."""
    images, rows, columns = x.shape
    n, m = (rows - 3) // 2 + 1, (columns - 3) // 2 + 1
    out = np.empty((images, n, m), x.dtype)
    for at in prange(images * n):
        image, i = at // n, at % n
        first, second, third = x[image, 2 * i], x[image, 2 * i + 1], x[image, 2 * i + 2]
        most = np.empty(columns, x.dtype)
        for j in range(columns):
            most[j] = max(first[j], max(second[j], third[j]))
        for j in range(m):
            out[image, i, j] = max(most[2 * j], max(most[2 * j + 1], most[2 * j + 2]))
    return out


@parallel
def max_filter(x: np.ndarray) -> np.ndarray:
    """5 x 5, nothing outside."""
    rows, columns = x.shape
    out = np.empty_like(x)
    for i in prange(rows):
        most = np.full(columns + 4, LEAST, x.dtype)
        for a in range(max(0, i - 2), min(rows, i + 3)):
            line = x[a]
            for j in range(columns):
                most[j + 2] = max(most[j + 2], line[j])
        for j in range(columns):
            sides = max(max(most[j], most[j + 1]), max(most[j + 3], most[j + 4]))
            out[i, j] = max(sides, most[j + 2])
    return out
