"""What the tests of the JAX backend compare with: the seed's way, NumPy loops, finite differences, a jaxpr walker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Function = Callable[..., Any]


def spread(value: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    return (value,) * ndim if isinstance(value, int) else tuple(value)


def by_patches(
    kernel: Function,
    size: Sequence[int],
    *,
    padding: Any = 0,
    strides: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    mode: str = "constant",
    **outside: Any,
) -> Function:
    """The seed's way: the kernel, by `jax.vmap`, on patches that `dynamic_slice` gathers from a padded array."""

    def run(x: Any, *parameters: Any) -> Any:
        padded = jnp.pad(x, padding, mode=mode, **outside)
        step, apart = spread(strides, x.ndim), spread(dilation, x.ndim)
        extent = [(k - 1) * d + 1 for k, d in zip(size, apart)]
        grid = [(n - e) // s + 1 for n, e, s in zip(padded.shape, extent, step)]
        corners = np.indices(grid).reshape(len(grid), -1).T * np.array(step)

        def at(corner: Any) -> Any:
            patch = lax.dynamic_slice(padded, list(corner), extent)
            return kernel(patch[tuple(slice(None, None, d) for d in apart)], *parameters)

        flat = jax.vmap(at)(jnp.asarray(corners))
        return jax.tree.map(lambda leaf: leaf.reshape(*grid, *leaf.shape[1:]), flat)

    return run


def by_loop(kernel: Function, lo: Sequence[int], hi: Sequence[int]) -> Function:
    """A plain loop in NumPy over all cells whose reads `lo..hi` lie inside; the kernel gets a reader of offsets."""

    def run(x: Any, *parameters: Any) -> np.ndarray:
        x = np.asarray(x)
        out = np.empty([n - h + low for n, low, h in zip(x.shape, lo, hi)])
        for cell in np.ndindex(*out.shape):
            centre = [c - low for c, low in zip(cell, lo)]
            out[cell] = kernel(lambda *o, c=centre: x[tuple(np.add(c, o))], *parameters)
        return out

    return run


def slopes(function: Function, x: Any, step: float = 1e-6) -> np.ndarray:
    """The gradient of a scalar function by central differences, in float64."""
    x = np.asarray(x, np.float64)
    found = np.empty(x.shape)
    for index in np.ndindex(*x.shape):
        values = []
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * step
            values.append(float(function(jnp.asarray(moved))))
        found[index] = (values[0] - values[1]) / (2 * step)
    return found


def bent(tree: Any) -> Any:
    """A nonlinear, asymmetric sum over all numbers of a result: the loss whose gradients are compared."""
    total = jnp.zeros(())
    for number, leaf in enumerate(jax.tree.leaves(tree)):
        leaf = jnp.asarray(leaf)
        parts = [leaf.real, 2 * leaf.imag] if jnp.iscomplexobj(leaf) else [leaf]
        for part in parts:
            weights = jnp.cos(jnp.arange(part.size) + number).reshape(part.shape)
            total += jnp.sum(jnp.sin(part.astype(float)) * weights)
    return total


def quickly(function: Function) -> Function:
    """Compiled without much optimisation: XLA's compiler is what most tests spend their time on."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def assert_same(mine: Any, theirs: Any, rtol: float = 1e-9, atol: float = 1e-11) -> None:
    """Two trees of arrays have the same structure, shapes, dtypes and values."""
    assert jax.tree.structure(mine) == jax.tree.structure(theirs)
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def kinds(function: Function, *arguments: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Shapes and dtypes of a result, without computing it."""
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(jax.eval_shape(function, *arguments))]


def equations(jaxpr: Any) -> Iterator[Any]:
    """Every equation of a jaxpr and of those inside it."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for part in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(getattr(part, "jaxpr", part), "eqns"):
                    yield from equations(part)


def equations_of(function: Function, *arguments: Any) -> list[Any]:
    """Every equation that is computed; the calls that only hold others are left out."""
    found = equations(jax.make_jaxpr(function)(*arguments))
    return [eqn for eqn in found if eqn.primitive.name not in ("jit", "pjit", "closed_call", "custom_jvp_call")]


def names_of(function: Function, *arguments: Any) -> list[str]:
    return [eqn.primitive.name for eqn in equations_of(function, *arguments)]


def shapes_of(eqns: Sequence[Any]) -> set[tuple[int, ...]]:
    """The shapes of all arrays that some equations take and give."""
    values = itertools.chain.from_iterable((*eqn.invars, *eqn.outvars) for eqn in eqns)
    return {tuple(value.aval.shape) for value in values}
