"""The clock: check every way, time them turn about, and see how fast this machine copies memory."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from benchmarks.row import Way

SLOW = 2.0  # s; a way that takes longer is timed once
SHORT = 2e-3  # s; a way that takes less is called several times for one measurement


def machine() -> str:
    """What the figures were taken on."""
    return f"{platform.machine()}, {os.cpu_count()} cores, JAX {jax.__version__}, NumPy {np.__version__}"


def check(ways: Mapping[str, Way], expected: Any, others: Mapping[str, Any], tolerance: float) -> None:
    """Run each way once, which also compiles it, and compare with the expected result, leaf by leaf."""
    for name, way in ways.items():
        results, wanted = jax.tree.leaves(way()), jax.tree.leaves(others.get(name, expected))
        assert len(results) == len(wanted), f"{name} returns {len(results)} arrays, not {len(wanted)}"
        for result, right in zip(map(np.asarray, results), wanted):
            assert result.shape == np.shape(right), f"{name} has shape {result.shape}, not {np.shape(right)}"
            error = float(np.abs(result - right).max())
            bound = tolerance * float(np.abs(right).max())
            assert error <= bound, f"{name} is wrong by {error}, more than {bound}"


def clock(way: Way, repeats: int = 1) -> float:
    """Seconds of one call, waiting for what JAX computes in the background."""
    start = time.perf_counter()
    for _ in range(repeats):
        jax.block_until_ready(way())
    return (time.perf_counter() - start) / repeats


def alternate(ways: Mapping[str, Way], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run of each way: A B C A B C ..., so that a slow moment of the machine meets all of them.

    All ways have run before. Each measurement follows an untimed run of the same way, so that none pays for the memory
    that another gave back. A slow way keeps its first time.
    """
    once = {name: clock(way) for name, way in ways.items()}
    seconds = {name: [] if first < SLOW else [first] for name, first in once.items()}
    fast = {name: max(1, min(1000, int(SHORT / first))) for name, first in once.items() if first < SLOW}
    for _ in range(rounds):
        for name, repeats in fast.items():
            jax.block_until_ready(ways[name]())
            seconds[name].append(clock(ways[name], repeats))
    return seconds


def copy_bandwidth(size: int = 1 << 27, rounds: int = 5) -> float:
    """Bytes read and written in a second when all cores copy into memory that is there already; the best of some."""
    workers = os.cpu_count() or 1
    source, target = np.ones(size, np.uint8), np.ones(size, np.uint8)
    parts = list(zip(np.array_split(target, workers), np.array_split(source, workers)))
    best = float("inf")
    with ThreadPoolExecutor(workers) as pool:
        for _ in range(rounds):
            best = min(best, clock(lambda: list(pool.map(lambda part: np.copyto(*part), parts))))
    return 2 * size / best
