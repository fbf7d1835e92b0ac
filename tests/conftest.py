"""Shared by all tests: JAX in double precision and strict about ranks; the array libraries that cases run on."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

HAS_TORCH = importlib.util.find_spec("torch") is not None


@dataclass(frozen=True)
class Library:
    """An array library and the backend that runs it."""

    name: str
    backend: str
    array: Callable[[np.ndarray], Any]
    numpy: Callable[[Any], np.ndarray]

    def __str__(self) -> str:
        return self.name


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.array(array)
    array.flags.writeable = False
    return array


def _torch(array: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(np.array(array))


LIBRARIES = [
    Library("numpy", "numpy", np.asarray, np.asarray),
    Library("jax", "jax", jnp.asarray, np.asarray),
    Library("array_api-numpy", "array_api", np.asarray, np.asarray),
    Library("array_api-read_only", "array_api", _read_only, np.asarray),
    Library("array_api-strict", "array_api", array_api_strict.asarray, lambda a: np.asarray(a._array)),
    Library("array_api-torch", "array_api", _torch, lambda a: a.detach().numpy()),
]


@pytest.fixture(params=LIBRARIES, ids=str)
def library(request: pytest.FixtureRequest) -> Library:
    """Every backend, on every array library that is installed."""
    if request.param.name.endswith("torch") and not HAS_TORCH:
        pytest.skip('torch is not installed: pip install "stencilx[torch]" runs these cases too')
    return request.param
