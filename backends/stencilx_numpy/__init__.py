"""The NumPy backend of stencilx: one cell at a time, with real windows. The reference, and the debugging mode."""

from stencilx_numpy.reference import BACKEND

__all__ = ["BACKEND"]
