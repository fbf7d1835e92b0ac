"""Stencils within compiled programs: stages of their own on CPU, and how much memory they take."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stencilx_jax import fences

import stencilx as sx
from stencilx.boundary import Dirichlet, Neumann

MARK = 'inlineable = "false"'


def laplacian(**options: Any) -> Any:
    return sx.kmap(lambda u: u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0], padding="same", **options)


def chain(stencil: Any, length: int) -> Any:
    def apply(x: Any) -> Any:
        for _ in range(length):
            x = stencil(x)
        return x

    return apply


def field(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).normal(size=shape or (6, 9)))


def marks(function: Any, x: Any) -> int:
    return jax.jit(function).lower(x).as_text().count(MARK)


def test_each_stencil_of_a_chain_is_a_stage():
    assert marks(chain(laplacian(), 3), field()) >= 3
    assert marks(lambda x: (laplacian()(x) ** 2).sum(), field()) >= 1


def test_so_it_is_in_gradients_and_batches():
    def total(x: Any) -> Any:
        return (chain(laplacian(), 2)(x) ** 2).sum()

    assert marks(jax.grad(total), field()) >= 4
    assert marks(jax.vmap(chain(laplacian(), 2)), field(3, 6, 9)) >= 2
    assert marks(lambda x: jax.jvp(total, (x,), (x,)), field()) >= 2


def test_fuse_takes_the_fence_away():
    merged = laplacian(fuse=True)
    assert marks(chain(merged, 3), field()) == 0
    np.testing.assert_allclose(jax.jit(chain(merged, 3))(field()), jax.jit(chain(laplacian(), 3))(field()), rtol=1e-12)
    assert "fuse=True" in repr(merged)


def test_sweeps_are_stages_too():
    sweep = sx.kscan(lambda u: 0.5 * u[-1] + u[0], padding="same")
    assert marks(chain(sweep, 2), field(7)) >= 2


def test_only_cpus_have_fences(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert marks(chain(laplacian(), 2), field()) == 0


def test_without_the_experimental_mark_the_numbers_are_the_same(monkeypatch):
    expected = jax.jit(chain(laplacian(), 2))(field())
    monkeypatch.setattr(fences, "set_xla_metadata", lambda **marks: contextlib.nullcontext())
    assert marks(chain(laplacian(), 2), field()) == 0
    np.testing.assert_allclose(jax.jit(chain(laplacian(), 2))(field()), expected, rtol=1e-12)


def test_a_stencil_that_closes_over_a_tracer_is_fenced():
    def scaled(weight: Any) -> Any:
        return sx.kmap(lambda u: weight * (u[-1] + u[1]), padding="same")(field(7)).sum()

    assert marks(scaled, 2.0) >= 1
    assert marks(jax.grad(scaled), 2.0) >= 1


# Memory


def temporary_bytes(function: Any, *shape: int) -> int:
    """What a compiled program needs besides its arguments and results."""
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    analysis: Any = jax.jit(function).lower(x).compile().memory_analysis()
    return analysis.temp_size_in_bytes


@pytest.mark.parametrize("boundary", [0, 1.5, "edge", "wrap", Dirichlet(1.0), Neumann(1.0, 0.5)], ids=str)
def test_a_laplacian_needs_no_memory_but_strips(boundary):
    size = 1024 * 1500 * 4
    assert temporary_bytes(laplacian(boundary=boundary), 1024, 1500) <= 0.05 * size


def test_a_loop_needs_one_more_state():
    step = sx.kmap(lambda u: u[0, 0] + 0.1 * (u[1, 0] + u[0, -1] - 2 * u[0, 0]), padding="same")
    size = 512 * 300 * 4
    assert temporary_bytes(lambda u: sx.iterate(step, u, 50).state, 512, 300) <= 1.05 * size


def test_a_reverse_pass_keeps_nothing_of_linear_steps():
    linear = sx.kmap(lambda u: u[0, 0] + 0.1 * (u[1, 0] + u[0, -1] - 2 * u[0, 0]), padding="same")
    squared = sx.kmap(lambda u: u[0, 0] - 0.1 * u[0, 0] * u[1, 0], padding="same")
    size = 128 * 200 * 4

    def kept(step: Any, steps: int) -> float:
        return temporary_bytes(jax.grad(lambda u: (sx.iterate(step, u, steps).state ** 2).sum()), 128, 200) / size

    assert kept(linear, 10) == kept(linear, 50) <= 2
    assert 40 <= kept(squared, 50) - kept(squared, 10) <= 40 * 3
