"""Kernels of every kind on array windows: values, shapes, dtypes and gradients are those of the seed's way."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from seed_way import Function, assert_same, bent, by_patches, kinds, quickly

import stencilx as sx

SIZE, PADDING = (2, 3), ((1, 0), (0, 2))
X = jnp.asarray(np.random.default_rng(0).normal(-0.3, 1.2, (4, 7)))
ROUGH = {jnp.float16: 4e-3, jnp.bfloat16: 3e-2}


def pair(kernel: Function, **outside: Any) -> tuple[Function, Function]:
    """A kernel as a stencil, and the seed's way."""
    rule = outside.get("constant_values", "edge")
    mine = sx.kmap(kernel, kernel_size=SIZE, padding=PADDING, boundary=rule)
    mode = "constant" if outside else "edge"
    return mine, by_patches(kernel, SIZE, padding=PADDING, mode=mode, **outside)


def compare(mine: Function, seed: Function, *arguments: Any, tolerance: float = 1e-9) -> None:
    """Both give the same result, and the same gradient of a nonlinear sum of it for every argument."""

    def with_gradients(function: Function, *arguments: Any) -> Any:
        def loss(*arguments: Any) -> Any:
            result = function(*arguments)
            return bent(result), result

        return jax.grad(loss, argnums=tuple(range(len(arguments))), has_aux=True)(*arguments)

    def both(*arguments: Any) -> Any:
        return with_gradients(mine, *arguments), with_gradients(seed, *arguments)

    assert_same(*quickly(both)(*arguments), rtol=tolerance, atol=tolerance)


def square(w: Any) -> Any:
    """A well-conditioned 3 x 3 matrix made of a window."""
    return w.T @ w + jnp.diag(jnp.array([2.0, 3.0, 5.0], w.dtype))


def network(w: Any) -> Any:
    hidden = jnp.tanh(w.ravel() @ jnp.sin(jnp.arange(24.0, dtype=w.dtype)).reshape(6, 4) + w.dtype.type(0.1))
    return jax.nn.softplus(hidden) @ jnp.array([1.0, -2.0, 0.5, 0.3], w.dtype)


def halved(w: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, v: v * 0.5 + i * w[0, 0], w.sum())


def branches(w: Any) -> Any:
    index = jnp.clip(jnp.floor(w[0, 1]).astype(int), 0, 2)
    return lax.switch(index, [lambda v: v.sum(), lambda v: v[0, 0] * v[1, 1], lambda v: jnp.sin(v[1, 2])], w)


def scanned(w: Any) -> Any:
    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = jnp.sin(carry) + row.prod()
        return carry, carry * row

    last, rows = lax.scan(step, w[0, 0], w)
    return last + rows[1, 2]


def upwards(w: Any) -> Any:
    return jax.grad(lambda v: jnp.sum(jnp.sin(v) * v[::-1]))(w)[1, 0]


def curvature(w: Any) -> Any:
    return jnp.trace(jax.hessian(lambda v: jnp.prod(v) + jnp.sum(v**3))(w[:, 1]))


def slope(w: Any) -> Any:
    primal, tangent = jax.jvp(lambda v: jnp.exp(v / 3).sum(), (w,), (jnp.cos(w),))
    return primal * tangent


def remembered(w: Any) -> Any:
    return jax.checkpoint(lambda v: jnp.sin(v).sum() ** 2)(w)


@jax.jit
def compiled(w: Any) -> Any:
    return jnp.sqrt(w * w + 1).sum()


def within(w: Any) -> Any:
    inner = sx.kmap(lambda v: v[0, 0] * v[0, 1] - v[1, 0])
    return inner(w).sum()


def put(w: Any) -> Any:
    return w.at[1, 0].set(w[0, 2] ** 2).at[:, 1].add(3.0).sum(axis=0)


def picked(w: Any) -> Any:
    return jnp.take(w, np.array([2, 0, 2]), axis=1)[1] * w[np.array([1, 0]), np.array([0, 2])].sum()


KERNELS: dict[str, Function] = {
    "sum": jnp.sum,
    "mean": jnp.mean,
    "max": jnp.max,
    "min": lambda w: w.min(axis=1),
    "prod": jnp.prod,
    "var": lambda w: jnp.var(w, axis=0),
    "std": jnp.std,
    "ptp": jnp.ptp,
    "sum keepdims": lambda w: w.sum(axis=1, keepdims=True),
    "average": lambda w: jnp.average(w, weights=jnp.array([[1.0, 2.0, 3.0], [0.5, -1.0, 4.0]], w.dtype)),
    "median": jnp.median,
    "quantile": lambda w: jnp.quantile(w, 0.3),
    "sort": lambda w: jnp.sort(w.ravel())[2:4],
    "argsort": lambda w: w.ravel()[jnp.argsort(w.ravel())][1],
    "top_k": lambda w: lax.top_k(w.ravel(), 2)[0],
    "argmax": lambda w: jnp.argmax(w),
    "argmin axis": lambda w: jnp.argmin(w, axis=1),
    "dynamic index": lambda w: w.ravel()[jnp.argmax(jnp.abs(w))],
    "dynamic slice": lambda w: lax.dynamic_slice(w, (jnp.argmax(w[:, 0]), 1), (1, 2)).sum(),
    "take_along_axis": lambda w: jnp.take_along_axis(w, jnp.argsort(-w, axis=1), axis=1)[:, 0],
    "searchsorted": lambda w: jnp.searchsorted(jnp.sort(w[0]), w[1]),
    "svd": lambda w: jnp.linalg.svd(w, compute_uv=False),
    "inv": lambda w: jnp.linalg.inv(square(w))[0],
    "det": lambda w: jnp.linalg.det(square(w)),
    "solve": lambda w: jnp.linalg.solve(square(w), w[1]),
    "cholesky": lambda w: jnp.linalg.cholesky(square(w))[2],
    "eigvalsh": lambda w: jnp.linalg.eigvalsh(square(w)),
    "slogdet": lambda w: jnp.linalg.slogdet(square(w))[1],
    "norm": jnp.linalg.norm,
    "norm 1": lambda w: jnp.linalg.norm(w, ord=1, axis=1),
    "einsum": lambda w: jnp.einsum("ij,kj->ik", w, jnp.cos(w)),
    "einsum batch": lambda w: jnp.einsum("ij,ij->i", w, w[:, ::-1]),
    "matmul constant": lambda w: w @ jnp.sin(jnp.arange(12.0, dtype=w.dtype)).reshape(3, 4),
    "matmul large": lambda w: (w.ravel() @ jnp.sin(jnp.arange(1200.0, dtype=w.dtype)).reshape(6, 200)).sum(),
    "outer": lambda w: jnp.outer(w[0], w[1]).sum(axis=1),
    "kron": lambda w: jnp.kron(w[0], w[1, :2]),
    "cross": lambda w: jnp.cross(w[0], w[1]),
    "network": network,
    "relu": lambda w: jax.nn.relu(w).sum(),
    "gelu": lambda w: jax.nn.gelu(w).sum(axis=0),
    "logsumexp": jax.nn.logsumexp,
    "softmax": lambda w: jax.nn.softmax(w, axis=1)[0],
    "where": lambda w: jnp.where(w > 0, w**2, -w).sum(),
    "where constant mask": lambda w: jnp.where(np.array([[True, False, True], [False, False, True]]), w, 0.5).sum(),
    "safe where": lambda w: jnp.where(w > 0, jnp.sqrt(jnp.where(w > 0, w, 1.0)), 0.0).sum(),
    "select": lambda w: jnp.select([w > 0.5, w > -0.5], [w, w**2], 0.1).sum(),
    "cond": lambda w: lax.cond(w[0, 0] > w[1, 1], lambda v: v.sum(), lambda v: v.prod(), w),
    "switch": branches,
    "fori_loop": halved,
    "scan": scanned,
    "map": lambda w: lax.map(lambda row: jnp.sin(row).sum(), w),
    "associative_scan": lambda w: lax.associative_scan(jnp.multiply, w, axis=1)[:, 2],
    "vmap": lambda w: jax.vmap(lambda row: row[0] * row[1:].sum())(w),
    "cumsum": lambda w: jnp.cumsum(w, axis=1)[1],
    "cumsum reverse": lambda w: lax.cumsum(w, axis=0, reverse=True)[0],
    "cumprod": lambda w: jnp.cumprod(w.ravel())[3:],
    "cummax": lambda w: lax.cummax(w, axis=1)[0],
    "cumlogsumexp": lambda w: lax.cumlogsumexp(w, axis=1)[0],
    "diff": lambda w: jnp.diff(w, axis=1) * w[:, :2],
    "convolve": lambda w: jnp.convolve(w[0], w[1], mode="same"),
    "reduce_window": lambda w: lax.reduce_window(w, -jnp.inf, lax.max, (1, 2), (1, 1), "VALID"),
    "fft": lambda w: jnp.abs(jnp.fft.fft(w[0])),
    "rfft complex": lambda w: jnp.fft.rfft(w.ravel()),
    "flip": lambda w: jnp.flip(w, 1)[0] * w[1],
    "roll": lambda w: jnp.roll(w, 1, axis=1)[1] * w[0],
    "rot90": lambda w: jnp.rot90(w)[0],
    "pad": lambda w: jnp.pad(w, ((1, 0), (0, 2)), constant_values=0.5)[:, 2:].sum(axis=1),
    "pad sorted": lambda w: jnp.sort(jnp.pad(w[0], 1))[:2],
    "pad reflect": lambda w: jnp.pad(w, ((0, 0), (1, 1)), mode="reflect").prod(axis=1),
    "tile": lambda w: jnp.tile(w[0], 2) ** 2,
    "repeat": lambda w: jnp.repeat(w[1], 2),
    "diag": lambda w: jnp.diag(w[0])[1] + jnp.diagonal(w, 1).sum(),
    "triu": lambda w: jnp.triu(w).sum(axis=0),
    "transpose": lambda w: w.T.reshape(2, 3)[1],
    "stack": lambda w: jnp.stack([w[0], w[1, ::-1], w[0] * 2]).sum(axis=0),
    "split": lambda w: jnp.split(w, [1], axis=1)[1][0] * w[1, 1:],
    "take constant": picked,
    "strided": lambda w: w[::-1, ::2].ravel(),
    "at set": put,
    "one hot": lambda w: jax.nn.one_hot(jnp.argmax(w[0]), 3, dtype=w.dtype) @ w[1],
    "interp": lambda w: jnp.interp(0.1, jnp.array([-1.0, 0.0, 2.0], w.dtype), w[0]),
    "trapezoid": lambda w: jnp.trapezoid(w[0], w[1]),
    "gradient": lambda w: jnp.gradient(w[0] ** 2),
    "clip": lambda w: jnp.clip(w, -0.5, 0.7).sum(),
    "powers": lambda w: (jnp.abs(w) ** 1.5 + w**3 + 2.0**w).sum(),
    "special": lambda w: (lax.erf(w) + jax.scipy.special.gammaln(w**2 + 1) + jnp.arctan2(w, w[0, 0] + 9)).sum(),
    "remainder": lambda w: (w % 0.7 + w // 0.3 + jnp.floor(w) + jnp.round(w) + jnp.sign(w)).sum(),
    "stop_gradient": lambda w: (w * lax.stop_gradient(w)).sum(),
    "grad inside": upwards,
    "hessian inside": curvature,
    "jvp inside": slope,
    "checkpoint inside": remembered,
    "jit inside": compiled,
    "stencil inside": within,
    "comparison": lambda w: (w > 0) & (w < 1),
    "any all": lambda w: jnp.any(w > 1.5) | jnp.all(w < 0),
    "count": lambda w: jnp.sum(w > 0),
    "constant result": lambda w: 2.5,
    "constant array": lambda w: jnp.array([1, 2]),
    "constant and read": lambda w: (w[0, 0], jnp.zeros(2, w.dtype)),
    "patch": lambda w: w,
    "tree": lambda w: {"lo": w.min(), "hi": (w.max(axis=1), [jnp.argmax(w), None])},
    "float32 result": lambda w: w.sum().astype(jnp.float32),
    "complex result": lambda w: w[0, 0] + 1j * w[1, 1],
}


@pytest.mark.parametrize("name", KERNELS)
def test_values_dtypes_and_gradients_are_the_seeds(name: str) -> None:
    mine, seed = pair(KERNELS[name])
    compare(mine, seed, X)


@pytest.mark.parametrize("name", KERNELS)
def test_single_precision_stays_as_the_kernel_has_it(name: str) -> None:
    mine, seed = pair(KERNELS[name])
    x = X.astype(jnp.float32)
    assert kinds(mine, x) == kinds(seed, x)


HALVES = ["sum", "mean", "max", "prod", "sort", "relu", "softmax", "cumsum", "where", "pad", "matmul constant", "tree"]


@pytest.mark.parametrize("dtype", ROUGH, ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALVES)
def test_half_precision(name: str, dtype: Any) -> None:
    mine, seed = pair(KERNELS[name])
    x = (X / 4).astype(dtype)
    assert_same(*quickly(lambda x: (mine(x), seed(x)))(x), rtol=ROUGH[dtype], atol=ROUGH[dtype])


WHOLE: dict[str, Function] = {
    "sum": jnp.sum,
    "mean": jnp.mean,
    "median": jnp.median,
    "max": lambda w: w.max(axis=0),
    "argmax": jnp.argmax,
    "sort": lambda w: jnp.sort(w, axis=1),
    "any": jnp.any,
    "all": lambda w: jnp.all(w, axis=1),
    "count": lambda w: (w == 1).sum(),
    "invert": lambda w: ~w,
    "xor": lambda w: lax.reduce(w, w.dtype.type(0), lax.bitwise_xor, (0, 1)),
    "cumsum": lambda w: jnp.cumsum(w, axis=1)[0],
    "dot": lambda w: w[0] @ w[1],
    "where": lambda w: jnp.where(w > 0, w, 1).sum(),
    "pad": lambda w: jnp.pad(w, 1, constant_values=1)[0:2, 1],
    "index by it": lambda w: jnp.arange(10.0, 18.0)[w.astype(int) % 8].sum(),
    "bincount": lambda w: jnp.bincount(w.ravel().astype(int) % 3, length=3),
    "mixed": lambda w: w * 0.5,
}


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32], ids=["bool", "uint8", "int32"])
@pytest.mark.parametrize("name", WHOLE)
def test_integer_and_bool_windows(name: str, dtype: Any) -> None:
    values = np.random.default_rng(1).integers(-3 if np.issubdtype(dtype, np.signedinteger) else 0, 4, (4, 7))
    x = jnp.asarray(values > 1 if dtype is bool else values.astype(dtype))
    mine, seed = pair(WHOLE[name])
    assert_same(*quickly(lambda x: (mine(x), seed(x)))(x))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32], ids=["uint8", "int32"])
def test_integer_arithmetic_wraps_as_in_the_seed(dtype: Any) -> None:
    x = jnp.asarray(np.random.default_rng(2).integers(0, 256, (4, 7)), dtype)
    mine, seed = pair(lambda w: (w[0] << 3) // (w[1] | 1) + (w[0] & w[1]) * w[1] - (w[0] ^ 7) % (w[1] | 1))
    assert_same(mine(x), seed(x))


COMPLEX: dict[str, Function] = {
    "sum": jnp.sum,
    "prod": jnp.prod,
    "abs": lambda w: jnp.abs(w).sum(),
    "angle": lambda w: jnp.angle(w[0]),
    "conj": lambda w: (w * jnp.conj(w[0, 0])).sum(axis=1),
    "real imag": lambda w: w.real.sum() * w.imag[0, 0],
    "fft": lambda w: jnp.fft.ifft(w[1] * w[0]),
    "matmul": lambda w: w @ (jnp.arange(6.0).reshape(3, 2) + 1j),
    "vdot": lambda w: jnp.vdot(w[0], w[1]),
    "det": lambda w: jnp.linalg.det(w[:, 1:]),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_windows(name: str) -> None:
    z = X + 1j * jnp.cos(3 * X)
    mine, seed = pair(COMPLEX[name])
    compare(mine, seed, z)


HOLES: dict[str, Function] = {
    "nanmean": jnp.nanmean,
    "nanmax": jnp.nanmax,
    "nansum": lambda w: jnp.nansum(w, axis=0),
    "nanmedian": jnp.nanmedian,
    "isnan where": lambda w: jnp.where(jnp.isnan(w), 0.0, w).prod(),
    "nan_to_num": lambda w: jnp.nan_to_num(w, nan=2.0).sum(),
    "max": jnp.max,
    "sum": jnp.sum,
    "sort": lambda w: jnp.sort(w.ravel())[0],
    "argmax": jnp.argmax,
}


@pytest.mark.parametrize("name", HOLES)
def test_nan_and_inf_as_in_the_seed(name: str) -> None:
    holes = X.at[1, 2].set(jnp.nan).at[3, 5].set(jnp.inf).at[0, 6].set(jnp.nan)
    mine, seed = pair(HOLES[name])
    np.testing.assert_array_equal(jax.jit(mine)(holes), jax.jit(seed)(holes))

    def known(function: Function) -> Function:
        """Only the finite results: what gradient a NaN has is nobody's business, and none may leak elsewhere."""
        return lambda x: (lambda r: jnp.where(jnp.isfinite(r), r, 0))(function(x))

    compare(known(mine), known(seed), holes)


def layers() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = {"in": (6, 5), "out": (5, 2), "shift": (5,)}
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}


def two_layers(w: Any, params: dict[str, Any], gain: Any) -> Any:
    return gain * jax.nn.relu(w.ravel() @ params["in"] + params["shift"]) @ params["out"]


PARAMETRIC: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "weights": (lambda w, k: jnp.sum(w * k), (jnp.asarray([[1.0, -2.0, 0.5], [0.3, 4.0, -1.0]]),)),
    "matrix": (lambda w, m: w.ravel() @ m, (jnp.asarray(np.random.default_rng(4).normal(size=(6, 3))),)),
    "network": (two_layers, (layers(), 0.7)),
    "scalar": (lambda w, a, b: jnp.sin(a * w).sum() ** 2 + b, (1.3, -0.4)),
    "tuple": (lambda w, p: p[0] * w[0] + p[1][1] * w[1], ((2.0, [1.0, 3.0]),)),
    "exponent": (lambda w, p: jnp.abs(w) ** p, (jnp.asarray(1.7),)),
    "chosen row": (lambda w, m: m[jnp.argmax(w)], (jnp.asarray([1.0, 5.0, 2.0, -3.0, 0.5, 0.25]),)),
    "unused": (lambda w, p: w.sum(), (jnp.asarray([1.0, 2.0]),)),
    "alone": (lambda w, p: p * p, (jnp.asarray([1.0, 2.0]),)),
}


@pytest.mark.parametrize("name", PARAMETRIC)
def test_gradients_for_parameters(name: str) -> None:
    kernel, params = PARAMETRIC[name]
    mine, seed = pair(kernel, constant_values=-0.7)
    compare(mine, seed, X, *params)


def test_while_loop_forwards() -> None:
    def doubled_until(w: Any, limit: Any) -> Any:
        return lax.while_loop(lambda v: jnp.abs(v) < limit, lambda v: 2 * v + v**3, w[0, 0] * w[1, 2])

    mine, seed = pair(doubled_until)
    tangent = jnp.cos(X)
    assert_same(jax.jvp(lambda x: mine(x, 9.0), (X,), (tangent,)), jax.jvp(lambda x: seed(x, 9.0), (X,), (tangent,)))


def test_python_loops_and_static_parameters() -> None:
    def polynomial(w: Any, mode: str, upside_down: bool) -> Any:
        total = w.sum() * 0
        for power in range(3):
            total += (w[::-1] if upside_down else w)[0, power] ** power
        return total if mode == "plain" else -total

    mine, _ = pair(polynomial)
    for mode, upside_down, sign in [("plain", True, 1), ("minus", True, -1), ("plain", False, 1)]:
        seed = by_patches(lambda w, m=mode, f=upside_down: polynomial(w, m, f), SIZE, padding=PADDING, mode="edge")
        np.testing.assert_allclose(mine(X, mode, upside_down), seed(X))
        row = 1 if upside_down else 0
        assert float(mine(X, mode, upside_down)[1, 0]) == pytest.approx(sign * (1 + X[row, 1] + X[row, 2] ** 2))


# Rules of the user's own. Each differs from the true derivative, so it shows which of the two was used.


@jax.custom_jvp
def squared(v: Any) -> Any:
    return v * v


@squared.defjvp
def _squared_rule(primals: Any, tangents: Any) -> Any:
    return squared(primals[0]), 7 * tangents[0]


@jax.custom_vjp
def cubed(v: Any) -> Any:
    return v**3


cubed.defvjp(lambda v: (v**3, jnp.cos(v)), lambda cosine, g: (11 * cosine * g,))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def scaled(factor: float, v: Any) -> Any:
    return factor * v


scaled.defvjp(lambda factor, v: (factor * v, None), lambda factor, _, g: (100 * factor * g,))

COUNT = np.outer([1, 2, 2, 1], [1, 2, 3, 3, 3, 2, 1])
"""How many windows of 2 x 3 hold each cell of 4 x 7."""

OWN_RULES: dict[str, tuple[Function, np.ndarray]] = {
    "custom_jvp on the window": (lambda w: squared(w).sum(), 7.0 * COUNT),
    "custom_jvp on elements": (lambda w: sum(squared(w[i, j]) for i in range(2) for j in range(3)), 7.0 * COUNT),
    "custom_vjp on the window": (lambda w: cubed(w).sum(), 11 * np.cos(np.asarray(X)) * COUNT),
    "custom_vjp under jit": (lambda w: jax.jit(cubed)(w).sum(), 11 * np.cos(np.asarray(X)) * COUNT),
    "custom_vjp with a static argument": (lambda w: scaled(3.0, w).sum(), 300.0 * COUNT),
}


@pytest.mark.parametrize("name", OWN_RULES)
def test_own_derivative_rules_are_used(name: str) -> None:
    kernel, expected = OWN_RULES[name]
    stencil = sx.kmap(kernel, kernel_size=SIZE)
    np.testing.assert_allclose(jax.grad(lambda x: stencil(x).sum())(X), expected)
    np.testing.assert_allclose(stencil(X), by_patches(kernel, SIZE)(X))


def test_own_rules_forwards_and_through_scan() -> None:
    def kernel(w: Any) -> Any:
        return lax.scan(lambda c, row: (c + squared(row).sum(), None), 0.0, w)[0]

    stencil = sx.kmap(kernel, kernel_size=SIZE)
    tangent = jnp.sin(X)
    expected = by_patches(lambda t: 7 * t.sum(), SIZE)(tangent)
    np.testing.assert_allclose(jax.jvp(stencil, (X,), (tangent,))[1], expected)
    np.testing.assert_allclose(jax.grad(lambda x: stencil(x).sum())(X), 7.0 * COUNT)


@pytest.mark.parametrize("reduce", [jnp.max, jnp.min], ids=["max", "min"])
def test_ties_share_their_gradient_equally(reduce: Function) -> None:
    mine, seed = pair(reduce)
    flat = jnp.zeros((4, 7)).at[2, 3].set(1.0)
    slopes = [quickly(jax.grad(lambda x, f=f: f(x).sum()))(flat) for f in (mine, seed)]
    assert_same(*slopes)


def test_products_of_zeros_have_their_gradient() -> None:
    mine, seed = pair(jnp.prod, constant_values=2.0)
    x = X.at[1, 1].set(0.0).at[2, 4].set(0.0).at[2, 5].set(0.0)
    compare(mine, seed, x)


def test_half_precision_dot_products_are_not_summed_in_half_precision() -> None:
    weights = jnp.ones(272, jnp.bfloat16)
    stencil = sx.kmap(lambda w: w.ravel() @ weights, kernel_size=(16, 17))
    np.testing.assert_array_equal(quickly(stencil)(jnp.ones((16, 18), jnp.bfloat16)).astype(float), [[272.0, 272.0]])


# Randomness and effects


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey], ids=["key", "PRNGKey"])
def test_random_numbers_from_a_key(make: Function) -> None:
    def dropout(w: Any, key: Any) -> Any:
        return jnp.where(jax.random.bernoulli(key, 0.5, w.shape), w, 0.0).sum() + jax.random.normal(key)

    mine, seed = pair(dropout)
    assert_same(mine(X, make(5)), seed(X, make(5)))


def test_callbacks_run_at_every_call() -> None:
    calls: list[int] = []

    def kernel(w: Any) -> Any:
        jax.debug.callback(lambda: calls.append(1))
        return w.sum()

    stencil = sx.kmap(kernel, kernel_size=SIZE)
    stencil(X).block_until_ready()
    jax.effects_barrier()
    first = len(calls)
    stencil(X).block_until_ready()
    jax.effects_barrier()
    assert len(calls) == 2 * first > 0


def test_callbacks_see_every_cell() -> None:
    seen: list[float] = []

    def kernel(w: Any) -> Any:
        jax.debug.callback(lambda v: seen.append(float(v)), w[0, 1])
        return w.sum()

    sx.kmap(kernel, kernel_size=SIZE)(X).block_until_ready()
    jax.effects_barrier()
    assert sorted(seen) == sorted(np.asarray(X)[:3, 1:6].ravel().tolist())


def test_functions_of_jax_themselves_as_kernels() -> None:
    np.testing.assert_allclose(sx.kmap(jnp.max, kernel_size=SIZE)(X), by_patches(jnp.max, SIZE)(X))
    np.testing.assert_allclose(sx.kmap(jax.nn.logsumexp, kernel_size=3)(X[0]), by_patches(jax.nn.logsumexp, (3,))(X[0]))
