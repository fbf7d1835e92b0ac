"""Tables that are filled from a corner: edit distance, common subsequences, time warping, integral images.

Run it with `python examples/dynamic_programming.py`. Each cell needs its left, upper and upper left neighbours, all of
them new, so every sweep here has the schedule `cells` (and runs by anti-diagonals where many cells at once are cheap,
as on a GPU). Two sequences meet in a table that says for each pair how much they differ: that is the second field.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

import stencilx as sx


def unequal(a: str, b: str) -> np.ndarray:
    """1 where `a[i] != b[j]`, else 0: shape (len(a), len(b))."""
    rows, columns = (np.array([ord(letter) for letter in text], int) for text in (a, b))
    return (rows[:, None] != columns).astype(int)


# Edit distance. The first row and column stand for the empty beginnings of both texts: walls, and kernels of their own.


edits = sx.kscan(fields=("d", "unequal"), relative=True, padding="same")
edits[:] = lambda d, unequal: jnp.minimum(jnp.minimum(d[-1, 0], d[0, -1]) + 1, d[-1, -1] + unequal[0, 0])
edits[0, :] = lambda d, unequal: d[0, -1] + 1  # insert
edits[:, 0] = lambda d, unequal: d[-1, 0] + 1  # delete
edits[0, 0] = 0


def edit_table(a: str, b: str) -> jax.Array:
    """Edits (insert, delete or change a letter) between all beginnings of two texts, by one sweep (schedule `cells`).

    R. A. Wagner and M. J. Fischer, The string-to-string correction problem, Journal of the ACM 21, 1974.

    Returns:
        Shape (len(a) + 1, len(b) + 1); entry [i, j] is the distance of `a[:i]` and `b[:j]`.
    """
    differs = np.pad(unequal(a, b), ((1, 0), (1, 0)))
    return edits(jnp.zeros(differs.shape, int), differs)


def edit_distance(a: str, b: str) -> int:
    """The least number of edits that turn one text into the other."""
    return int(edit_table(a, b)[-1, -1])


# Longest common subsequence. Outside lies 0: nothing in common with nothing.


@sx.kscan(fields=("n", "unequal"), padding="same")
def common_lengths(n, unequal):
    """D. S. Hirschberg, A linear space algorithm for computing maximal common subsequences, Commun. ACM 18, 1975."""
    return jnp.where(unequal[0, 0] == 0, n[-1, -1] + 1, jnp.maximum(n[-1, 0], n[0, -1]))


def common_subsequence(a: str, b: str) -> str:
    """The longest text, one of them if there are several, whose letters are found in order in both."""
    if not a or not b:
        return ""
    differs = unequal(a, b)
    n = np.pad(common_lengths(np.zeros_like(differs), differs), ((1, 0), (1, 0)))
    i, j, letters = len(a), len(b), ""
    while n[i, j]:
        if a[i - 1] == b[j - 1]:
            i, j, letters = i - 1, j - 1, a[i - 1] + letters
        elif n[i - 1, j] == n[i, j]:
            i -= 1
        else:
            j -= 1
    return letters


# Dynamic time warping. Outside lies infinity: no path comes from there.


warped = sx.kscan(relative=True, padding="same", boundary=np.inf)
warped[:] = lambda d: d[0, 0] + jnp.minimum(jnp.minimum(d[-1, 0], d[0, -1]), d[-1, -1])
warped[0, 0] = lambda d: d[0, 0]


def warping_distance(x: ArrayLike, y: ArrayLike) -> jax.Array:
    """The least sum of (x[i] - y[j])^2 over monotone paths that pair two series (schedule `cells`).

    H. Sakoe and S. Chiba, Dynamic programming algorithm optimization for spoken word recognition, IEEE Transactions on
    Acoustics, Speech and Signal Processing 26, 1978; steps (1, 0), (0, 1) and (1, 1) with weight 1, no window.

    Args:
        x: shape (m,). y: shape (n,). Gradients with respect to both are right wherever the best path is unique.

    Returns:
        A number.
    """
    return warped(_squares(x, y))[-1, -1]


def warping_path(x: ArrayLike, y: ArrayLike) -> np.ndarray:
    """The pairs (i, j) of the best path, shape (length, 2): where the distance depends on the cost of a pair."""
    on_path = jax.grad(lambda cost: warped(cost)[-1, -1])(_squares(x, y))
    return np.argwhere(np.asarray(on_path))


def _squares(x: ArrayLike, y: ArrayLike) -> jax.Array:
    return jnp.square(jnp.asarray(x)[:, None] - jnp.asarray(y)[None, :])


# Integral images


@sx.kscan(padding="same")
def integral_image(s):
    """Sums over all that lies above and left of each cell, with it: F. C. Crow, Summed-area tables, SIGGRAPH 1984.

    Schedule `cells`. What was written last is added last: all the rest is computed a row at a time before it.
    """
    return (s[0, 0] + s[-1, 0] - s[-1, -1]) + s[0, -1]


@functools.cache
def _corners(rows: int, columns: int) -> Any:
    """Four corners of the integral image make the sum over a box; outside, before its first row and column, lies 0."""
    return sx.kmap(lambda s: s[0, 0] - s[-rows, 0] - s[0, -columns] + s[-rows, -columns], padding=((1, 0), (1, 0)))


def box_sums(image: ArrayLike, rows: int, columns: int) -> jax.Array:
    """Sums over all boxes that fit into an image, at a cost that does not depend on their size.

    Args:
        image: shape (m, n), best of integers: sums of floats lose digits in the differences.
        rows, columns: of a box.

    Returns:
        Shape (m - rows + 1, n - columns + 1).
    """
    return _corners(rows, columns)(integral_image(image))


def main() -> None:
    print(
        "kitten, sitting:",
        edit_distance("kitten", "sitting"),
        "edits; in common",
        common_subsequence("kitten", "sitting"),
    )
    time = np.linspace(0, 1, 9)
    x, y = np.sin(2 * np.pi * time), np.sin(2 * np.pi * time**1.5)
    print(f"two sines: distance {np.square(x - y).sum():.3f}, warped {warping_distance(x, y):.3f}, by the path")
    print(" ".join(f"{i}-{j}" for i, j in warping_path(x, y)))
    image = np.arange(12).reshape(3, 4)
    print(f"sums over 2 x 3 boxes of 0 .. 11:\n{box_sums(image, 2, 3)}")


if __name__ == "__main__":
    main()
