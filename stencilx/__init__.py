"""stencilx: stencil computations on NumPy, JAX and array-API arrays.

The one rule: a kernel is written for one cell. It is traced once, on a window of symbolic offsets; what it returns is
a formula over shifted copies of the whole array.
"""

from stencilx import boundary
from stencilx.backend import backends, use_backend
from stencilx.decorators import kmap, kscan, smap, sscan
from stencilx.errors import (
    BackendError,
    BackendImportError,
    BoundaryError,
    FieldError,
    KernelError,
    OffsetError,
    RegionError,
    RegionIndexError,
    ScheduleError,
    StencilError,
    WindowError,
)
from stencilx.iterate import Iteration, iterate
from stencilx.stencil import Stencil

__version__ = "0.1.0"

__all__ = [
    "BackendError",
    "BackendImportError",
    "BoundaryError",
    "FieldError",
    "Iteration",
    "KernelError",
    "OffsetError",
    "RegionError",
    "RegionIndexError",
    "ScheduleError",
    "Stencil",
    "StencilError",
    "WindowError",
    "backends",
    "boundary",
    "iterate",
    "kmap",
    "kscan",
    "smap",
    "sscan",
    "use_backend",
]
