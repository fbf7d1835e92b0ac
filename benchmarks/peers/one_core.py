"""Sequential loops on one core: in C where there is a compiler, else the same by numba, under another name."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COMPILER = shutil.which("cc")
NAME = "C loop" if COMPILER else "numba loop on one core"
FLAGS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")


def load(name: str) -> Callable[..., Any]:
    """A loop of loops.c, which takes contiguous float32 arrays, whole numbers and floats."""
    if not COMPILER:
        return getattr(importlib.import_module("benchmarks.peers.one_core_numba"), name)
    function = getattr(_library(COMPILER), name)
    function.restype = None
    return lambda *args: function(*map(_for_c, args))


def _library(compiler: str) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "loops.so"
        subprocess.run([compiler, *FLAGS, str(Path(__file__).with_name("loops.c")), "-o", str(built)], check=True)
        return ctypes.CDLL(str(built))


def _for_c(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert value.dtype == np.float32 and value.flags.c_contiguous
        return value.ctypes.data_as(ctypes.c_void_p)
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_float(value)
