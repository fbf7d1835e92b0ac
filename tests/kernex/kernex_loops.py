"""What kernex means, as plain loops over NumPy arrays: the oracle of the tests in this folder."""

import itertools

import numpy as np


def pairs(padding, kernel_size):
    """Padding as (before, after) for each axis."""
    entries = padding if isinstance(padding, tuple) else (padding,) * len(kernel_size)
    named = [{"valid": (0, 0), "same": ((k - 1) // 2, k // 2)} for k in kernel_size]
    return [
        named[axis][e] if isinstance(e, str) else (e, e) if isinstance(e, int) else e for axis, e in enumerate(entries)
    ]


def windows(x, kernel_size, strides, padding):
    """The grid, and for each of its cells: the cell, the array index of its window's centre, the window."""
    pads = pairs(padding, kernel_size)
    grid = [
        (n + before + after - k) // s + 1
        for n, k, s, (before, after) in zip(x.shape, kernel_size, strides, pads, strict=True)
    ]
    found = []
    for cell in np.ndindex(*grid):
        first = [c * s - before for c, s, (before, _) in zip(cell, strides, pads, strict=True)]
        window = np.zeros(kernel_size, x.dtype)
        for tap in np.ndindex(*kernel_size):
            place = tuple(f + t for f, t in zip(first, tap, strict=True))
            if all(0 <= p < n for p, n in zip(place, x.shape, strict=True)):
                window[tap] = x[place]
        centre = tuple(f + (k - 1) // 2 for f, k in zip(first, kernel_size, strict=True))
        found.append((cell, centre, window))
    return tuple(grid), found


def rolled(window):
    """The centre at index 0, the cell before it at index -1, on each axis."""
    result = np.empty_like(window)
    sides = [range(-((k - 1) // 2), k // 2 + 1) for k in window.shape]
    for offset in itertools.product(*sides):
        tap = tuple(o + (k - 1) // 2 for o, k in zip(offset, window.shape, strict=True))
        result[offset] = window[tap]
    return result


def kmap(kernel, x, kernel_size, strides=1, padding=0, relative=False):
    """`kernel(centre, window)` of every window."""
    strides = strides if isinstance(strides, tuple) else (strides,) * x.ndim
    grid, found = windows(x, kernel_size, strides, padding)
    results = [kernel(centre, rolled(window) if relative else window) for _, centre, window in found]
    return np.array(results).reshape(grid + np.shape(results[0]))
