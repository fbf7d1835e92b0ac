"""Time several ways to the same result, turn about, and print their ratios."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np


def machine() -> str:
    """What the figures were taken on."""
    return f"JAX {jax.__version__}, {platform.machine()}, {os.cpu_count()} cores"


def check(ways: Mapping[str, Callable[[], Any]], expected: np.ndarray, tolerance: float) -> None:
    """Run each way once, which also compiles it, and compare with the expected result."""
    for name, way in ways.items():
        result = np.asarray(jax.block_until_ready(way()))
        error = float(np.abs(result - expected).max())
        assert error <= tolerance, f"{name} is wrong by {error}"


def alternate(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each run of each way: A B C A B C ..., so that a slow moment of the machine meets all of them.

    Each timed run follows an untimed one of the same way, so that none pays for the memory that another gave back.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            jax.block_until_ready(way())
            start = time.perf_counter()
            jax.block_until_ready(way())
            seconds[name].append(time.perf_counter() - start)
    return seconds


def report(seconds: Mapping[str, list[float]], reference: str) -> None:
    """Median and spread of each way in milliseconds, and how many times as long as the reference it takes."""
    base = statistics.median(seconds[reference])
    width = max(map(len, seconds))
    print(f"{'':{width}}   median      min      max  / {reference}")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(
            f"{name:{width}} {median * 1e3:8.1f} {min(times) * 1e3:8.1f} {max(times) * 1e3:8.1f}  {median / base:8.2f}"
        )
