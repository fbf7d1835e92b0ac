"""What takes more than one call of scipy."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import correlate1d
from scipy.signal import lfilter


def two_passes(x: np.ndarray, taps: np.ndarray) -> np.ndarray:
    return correlate1d(correlate1d(x, taps, 0, mode="constant"), taps, 1, mode="constant")


def gauss_seidel(u: np.ndarray) -> np.ndarray:
    """Row by row: along a row the sweep is a filter of first order over what the other neighbours give."""
    u = u.astype(np.float64)
    for i in range(1, u.shape[0] - 1):
        given = 0.25 * (u[i - 1, 1:-1] + u[i + 1, 1:-1] + u[i, 2:])
        given[0] += 0.25 * u[i, 0]
        u[i, 1:-1] = lfilter([1.0], [1.0, -0.25], given)
    return u


def recurrence(x: np.ndarray, a: float, b: float) -> np.ndarray:
    return np.asarray(lfilter([b], [1.0, -a], x.astype(np.float64)))
