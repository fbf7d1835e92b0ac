"""The array-API backend of stencilx: kernels on whole shifted slices of NumPy, PyTorch, CuPy, Dask ... arrays."""

from stencilx_array_api.backend import BACKEND

__all__ = ["BACKEND"]
