"""What somebody would write by hand for all cores: plain loops over float32 arrays, rows in parallel, by numba."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import prange

Pair = tuple[np.ndarray, np.ndarray]
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
LEAST = np.float32(-3e38)  # fast mathematics knows no infinity

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that spin take the cores from the other ways
parallel: Callable[[Any], Any] = numba.njit(parallel=True, fastmath=True)
row_by_row: Callable[[Any], Any] = numba.njit(fastmath=True)


# The 5-point Laplacian; low and high are the cells that stand in for those before and after an axis, -1 for zeros


@parallel
def laplacian_into(x: np.ndarray, out: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    rows, columns = x.shape
    zeros = np.zeros(columns, x.dtype)
    for i in prange(rows):
        above = x[i - 1] if i > 0 else (x[low[0]] if low[0] >= 0 else zeros)
        below = x[i + 1] if i < rows - 1 else (x[high[0]] if high[0] >= 0 else zeros)
        here, last = x[i], columns - 1
        for j in range(1, last):
            out[i, j] = above[j] + below[j] + here[j - 1] + here[j + 1] - np.float32(4) * here[j]
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
def heat(u: np.ndarray, rate: np.float32, steps: int) -> np.ndarray:
    rows, columns = u.shape
    old = np.zeros((rows + 2, columns + 2), u.dtype)
    new = np.zeros_like(old)
    old[1:-1, 1:-1] = u
    for _ in range(steps):
        for i in prange(1, rows + 1):
            for j in range(1, columns + 1):
                around = old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
                new[i, j] = old[i, j] + rate * (around - np.float32(4) * old[i, j])
        old, new = new, old
    return old[1:-1, 1:-1]


@row_by_row
def heat_gradient(u: np.ndarray, rate: np.float32, steps: int) -> np.ndarray:
    """Of the sum of squares after some steps: a step of the heat equation is its own transpose."""
    return heat(np.float32(2) * heat(u, rate, steps), rate, steps)


@parallel
def star(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """25 points in three dimensions, where they fit."""
    planes, rows, columns = x.shape
    out = np.empty((planes - 8, rows - 8, columns - 8), x.dtype)
    for i in prange(4, planes - 4):
        for j in range(4, rows - 4):
            for k in range(4, columns - 4):
                total = np.float32(3) * weights[0] * x[i, j, k]
                for d in range(1, 5):
                    along_i = x[i - d, j, k] + x[i + d, j, k]
                    along_j = x[i, j - d, k] + x[i, j + d, k]
                    total += weights[d] * (along_i + along_j + x[i, j, k - d] + x[i, j, k + d])
                out[i - 4, j - 4, k - 4] = total
    return out


@parallel
def wave(u: np.ndarray, before: np.ndarray, weights: np.ndarray, rate: np.float32, steps: int) -> np.ndarray:
    """The new state takes the place of the one before the old one: each cell of that is read once, by itself."""
    planes, rows, columns = u.shape
    old = np.zeros((planes + 8, rows + 8, columns + 8), u.dtype)
    new = np.zeros_like(old)
    old[4:-4, 4:-4, 4:-4], new[4:-4, 4:-4, 4:-4] = u, before
    for _ in range(steps):
        for i in prange(4, planes + 4):
            for j in range(4, rows + 4):
                for k in range(4, columns + 4):
                    total = np.float32(3) * weights[0] * old[i, j, k]
                    for d in range(1, 5):
                        along_i = old[i - d, j, k] + old[i + d, j, k]
                        along_j = old[i, j - d, k] + old[i, j + d, k]
                        total += weights[d] * (along_i + along_j + old[i, j, k - d] + old[i, j, k + d])
                    new[i, j, k] = np.float32(2) * old[i, j, k] - new[i, j, k] + rate * total
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
            for j in range(1, m - 1):
                _react(rows_a, rows_b, feed, kill, out, (j - 1, j, j + 1))
            _react(rows_a, rows_b, feed, kill, out, (m - 1, 0, 1))
            _react(rows_a, rows_b, feed, kill, out, (m - 2, m - 1, 0))
        old_a, new_a = new_a, old_a
        old_b, new_b = new_b, old_b
    return old_a, old_b


# Windows


@row_by_row
def _add_taps(total: np.ndarray, line: np.ndarray, taps: np.ndarray) -> None:
    """total[j] += sum of taps[k] * line[j + k - half], zeros outside. Three taps a pass."""
    half, m = taps.size // 2, line.size
    padded = np.zeros(m + 2 * half, line.dtype)
    padded[half : half + m] = line
    for k in range(0, taps.size, 3):
        first, second, third = taps[k], taps[k + 1], taps[k + 2]
        for j in range(m):
            total[j] += first * padded[j + k] + second * padded[j + k + 1] + third * padded[j + k + 2]


@parallel
def conv(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Channels are summed; zeros outside; the number of columns of w is a multiple of 3."""
    channels, rows, columns = x.shape
    half = w.shape[1] // 2
    out = np.zeros((rows, columns), x.dtype)
    for i in prange(rows):
        for c in range(channels):
            for a in range(max(0, half - i), min(w.shape[1], rows + half - i)):
                _add_taps(out[i], x[c, i + a - half], w[c, a])
    return out


@parallel
def two_passes(x: np.ndarray, taps: np.ndarray) -> np.ndarray:
    rows, columns = x.shape
    half = taps.size // 2
    out = np.zeros((rows, columns), x.dtype)
    for i in prange(rows):
        mixed = np.zeros(columns, x.dtype)
        for a in range(max(0, half - i), min(taps.size, rows + half - i)):
            tap, line = taps[a], x[i + a - half]
            for j in range(columns):
                mixed[j] += tap * line[j]
        _add_taps(out[i], mixed, taps)
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
