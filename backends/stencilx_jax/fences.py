"""Fences: XLA on CPU computes a stencil's result once, and does not repeat it in whatever reads it.

Without one, XLA fuses a stencil into the next that reads it at k offsets and computes it k times, and it makes a scalar
loop of a stencil within a reduction. `lax.optimization_barrier` is gone before XLA fuses; a function that is marked as
not to be inlined stays one, and so do those that `grad` and `vmap` make of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer

try:
    from jax.experimental.xla_metadata import set_xla_metadata
except ImportError:  # it is experimental: without it, results are the same and chains of stencils slower

    def set_xla_metadata(**marks: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def fenced(compiled: Callable[..., Any], *arguments: Any) -> Any:
    """Call a jitted function; where the call is being traced on CPU, as a stage of its own."""
    if jax.default_backend() == "cpu" and any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arguments)):
        with set_xla_metadata(inlineable="false"):
            return compiled(*arguments)
    return compiled(*arguments)
