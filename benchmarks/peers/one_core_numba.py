"""The loops of loops.c, for machines without a C compiler. All numbers are float32, as there."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(fastmath=True)
def gauss_seidel(u: np.ndarray, rows: int, columns: int) -> None:
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            u[i, j] = np.float32(0.25) * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@numba.njit(fastmath=True)
def recurrence(x: np.ndarray, y: np.ndarray, n: int, a: float, b: float) -> None:
    a32, b32, last = np.float32(a), np.float32(b), np.float32(0)
    for i in range(n):
        last = a32 * last + b32 * x[i]
        y[i] = last


@numba.njit(fastmath=True)
def convection(u: np.ndarray, rows: int, columns: int, ratio: float) -> None:
    ratio32 = np.float32(ratio)
    for n in range(1, rows):
        for i in range(1, columns - 1):
            u[n, i] = u[n - 1, i] - ratio32 * (u[n - 1, i] - u[n - 1, i - 1])
