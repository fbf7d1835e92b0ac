"""The JAX backend of stencilx: a kernel's jaxpr becomes a formula over shifted slices. Production, and the default."""

from stencilx_jax.backend import BACKEND

__all__ = ["BACKEND"]
