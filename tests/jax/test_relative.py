"""Kernels that read by offset: values, dtypes and gradients are those of the same kernel on gathered patches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from seed_way import Function, assert_same, bent, by_loop, by_patches, kinds, quickly, slopes

import stencilx as sx

SIZE, PADDING = (3, 4), ((1, 0), (0, 2))
NAMES = {0: "i", 1: "j"}
X = jnp.asarray(np.random.default_rng(5).normal(0.2, 1.1, (4, 7)))


def hidden(read: Function) -> Any:
    return lax.cond(read(0, 0) > 0, lambda: read(1, 2) * read(0, 0), lambda: read(-1, 0) ** 3)


def differentiated(read: Function) -> Any:
    return jax.grad(lambda v: jnp.sin(v * read(0, 1)) + v * read(-1, 2) ** 2)(read(1, 0))


def looped(read: Function) -> Any:
    return lax.fori_loop(0, 3, lambda i, v: v * read(0, 1) + jnp.sin(read(1, -1)), read(0, 0))


def scanned(read: Function) -> Any:
    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        return jnp.tanh(carry + x * read(0, 2)), carry

    first = read(-1, -1)
    return lax.scan(step, first, jnp.array([0.5, -1.0], first.dtype))[1]


def selected(read: Function) -> Any:
    near = jnp.stack([read(i, 0) for i in (-1, 0, 1)])
    return near[jnp.argmax(jnp.abs(near))] - jnp.median(near)


BY_READ: dict[str, Function] = {
    "laplacian": lambda r: r(1, 0) + r(-1, 0) + r(0, 1) + r(0, -1) - 4 * r(0, 0),
    "product": lambda r: r(1, 0) * r(0, 1) - jnp.sin(r(-1, -1)),
    "far corner": lambda r: r(1, 2) / (2 + jnp.cos(r(-1, -1))),
    "same read twice": lambda r: r(0, 1) * r(0, 1) + r(0, 1),
    "upwind": lambda r: jnp.where(r(0, 0) > 0, r(0, 0) - r(-1, 0), r(1, 0) - r(0, 0)),
    "vector": lambda r: jnp.stack([r(1, 0) - r(-1, 0), r(0, 1) ** 2]),
    "tree": lambda r: {"flux": r(0, 0) * r(0, 1), "rest": (r(1, 0), 1.5)},
    "power": lambda r: jnp.abs(r(1, 0)) ** 1.5 + r(0, 2) ** 3,
    "reads in cond": hidden,
    "reads in grad": differentiated,
    "reads in fori_loop": looped,
    "reads in scan": scanned,
    "dynamic pick": selected,
    "numpy offsets": lambda r: r(np.int64(1), np.int32(-1)) * r(np.int8(0), 0),
    "jit inside": lambda r: jax.jit(jnp.hypot)(r(0, 0), r(0, 1)),
    "checkpoint": lambda r: jax.checkpoint(lambda a: jnp.sin(a) * r(1, 1))(r(0, 0)),
    "dead read": lambda r: r(0, 0) + 0.0 * r(1, 1),
    "no read": lambda r: 4.0,
}


def compare(mine: Function, seed: Function) -> None:
    def both(x: Any) -> Any:
        return [(f(x), jax.grad(lambda x, f=f: bent(f(x)))(x)) for f in (mine, seed)]

    assert_same(*quickly(both)(X))
    single = X.astype(jnp.float32)
    assert kinds(mine, single) == kinds(seed, single)


@pytest.mark.parametrize("name", BY_READ)
def test_reads_by_offset(name: str) -> None:
    kernel = BY_READ[name]
    mine = sx.kmap(
        lambda u: kernel(lambda i, j: u[i, j]), kernel_size=SIZE, padding=PADDING, boundary=0.3, relative=True
    )
    seed = by_patches(
        lambda w: kernel(lambda i, j: w[int(i) + 1, int(j) + 1]), SIZE, padding=PADDING, constant_values=0.3
    )
    compare(mine, seed)


BY_WINDOW: dict[str, tuple[Function, Function]] = {
    "slice and offset": (lambda u: u[-1:2, 0], lambda w: w[:, 1]),
    "slices": (lambda u: u[0:2, -1:2].sum(axis=0), lambda w: w[1:, :3].sum(axis=0)),
    "stepped slice": (lambda u: u[-1:2:2, 2], lambda w: w[::2, 3]),
    "open slices": (lambda u: u[:, 1:].prod(axis=1), lambda w: w[:, 2:].prod(axis=1)),
    "whole": (lambda u: jnp.sum(u[...] ** 2), lambda w: jnp.sum(w**2)),
    "ellipsis and offset": (lambda u: u[..., 1], lambda w: w[:, 2]),
    "sorted": (lambda u: jnp.sort(u[...].ravel())[3:5], lambda w: jnp.sort(w.ravel())[3:5]),
    "plus": (lambda u: (u + 1).sum(), lambda w: (w + 1).sum()),
    "from the left": (lambda u: (2 - u)[0, 1], lambda w: 2 - w[0, 1]),
    "with an array": (
        lambda u: (np.arange(12.0).reshape(3, 4) * u).sum(),
        lambda w: (np.arange(12.0).reshape(3, 4) * w).sum(),
    ),
    "matmul": (lambda u: u @ np.array([1.0, -2.0, 0.5, 3.0]), lambda w: w @ np.array([1.0, -2.0, 0.5, 3.0])),
    "itself": (lambda u: (u * u - u / 2)[2], lambda w: (w * w - w / 2)[2]),
    "minus and abs": (lambda u: abs(-u).max(), lambda w: abs(w).max()),
    "compared": (lambda u: jnp.where(u > 0, u[...], 0.1).sum(), lambda w: jnp.where(w > 0, w, 0.1).sum()),
    "shape and ndim": (lambda u: u[0, 0] * u.shape[1] + u.ndim, lambda w: w[1, 1] * 4 + 2),
    "iterated": (lambda u: sum(row[0] for row in u[...]), lambda w: w[0, 0] + w[1, 0] + w[2, 0]),
}


@pytest.mark.parametrize("name", BY_WINDOW)
def test_windows_by_slices_and_arithmetic(name: str) -> None:
    relative, absolute = BY_WINDOW[name]
    mine = sx.kmap(relative, kernel_size=SIZE, padding=PADDING, boundary="wrap", relative=True)
    compare(mine, by_patches(absolute, SIZE, padding=PADDING, mode="wrap"))


BY_NAME: dict[str, Function] = {
    "one axis": lambda u: u["i+1", 0] - u["i-1", 0],
    "both": lambda u: u["i", "j+1"] * u["i - 1", "j"],
    "other order": lambda u: u["j+1", "i"] * u["j", "i-1"],
    "name and slice": lambda u: u["j-1", 0:2].sum(),
    "plain offsets still": lambda u: u[0, 1] ** 2,
}

SAME: dict[str, Function] = {
    "one axis": lambda r: r(1, 0) - r(-1, 0),
    "both": lambda r: r(0, 1) * r(-1, 0),
    "other order": lambda r: r(0, 1) * r(-1, 0),
    "name and slice": lambda r: r(0, -1) + r(1, -1),
    "plain offsets still": lambda r: r(0, 1) ** 2,
}


@pytest.mark.parametrize("name", BY_NAME)
def test_named_axes(name: str) -> None:
    stencil = sx.kmap(BY_NAME[name], kernel_size=3, named_axis=NAMES)
    loop = by_loop(SAME[name], (-1, -1), (1, 1))
    np.testing.assert_allclose(stencil(X), loop(X))
    expected = slopes(lambda x: np.sum(np.sin(loop(x))), X)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sin(stencil(x)).sum())(X), expected, atol=1e-7)


def test_inferred_windows_reach_as_far_as_reads_do() -> None:
    stencil = sx.kmap(lambda u: u[2, 0] * u[0, -3] - u[-1, 1])
    assert stencil.reads(X) == {"u": [(-1, 1), (0, -3), (2, 0)]}
    loop = by_loop(lambda r: r(2, 0) * r(0, -3) - r(-1, 1), (-1, -3), (2, 1))
    np.testing.assert_allclose(stencil(X), loop(X))
    expected = slopes(lambda x: np.sum(np.cos(loop(x))), X)
    np.testing.assert_allclose(jax.grad(lambda x: jnp.cos(stencil(x)).sum())(X), expected, atol=1e-7)


def test_reads_in_branches_count_for_the_reach() -> None:
    stencil = sx.kmap(lambda u: lax.cond(u[0] > 0, lambda: u[2], lambda: u[-1] * 1.0))
    x = np.array([1.0, -2.0, 3.0, -4.0, 5.0, 6.0])
    np.testing.assert_array_equal(stencil(x), [x[i + 2] if x[i] > 0 else x[i - 1] for i in range(1, 4)])


def test_two_fields_by_offset_and_a_parameter() -> None:
    stencil = sx.kmap(lambda u, c, dt: u[0, 0] - dt * c[0, 0] * (u[0, 1] - u[0, -1]), fields=("u", "c"), padding="same")
    c = jnp.cos(3 * X)

    def seed(u: Any, c: Any, dt: Any) -> Any:
        p = jnp.pad(u, ((0, 0), (1, 1)))
        return u - dt * c * (p[:, 2:] - p[:, :-2])

    def gradients(function: Function) -> Any:
        return jax.grad(lambda *a: bent(function(*a)), argnums=(0, 1, 2))(X, c, 0.3)

    assert_same(stencil(X, c, 0.3), seed(X, c, 0.3))
    assert_same(gradients(stencil), gradients(seed))


def test_a_window_by_offset_in_one_dimension_and_in_three() -> None:
    line = jnp.sin(jnp.arange(6.0))
    np.testing.assert_allclose(sx.kmap(lambda u: u[1] - u[-1])(line), line[2:] - line[:-2])
    cube = jnp.sin(jnp.arange(60.0)).reshape(3, 4, 5)
    expected = cube[2:, 1:, :-1] - 2 * cube[:-2, :-1, 1:]
    np.testing.assert_allclose(sx.kmap(lambda u: u[1, 0, -1] - 2 * u[-1, -1, 0])(cube), expected)
