"""What a kernel cannot do under a trace, word by word; and JAX's own errors where they are to stay JAX's own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stencilx as sx

X = jnp.array([1.0, -2.0, 4.0, 0.5, 3.0])


@contextlib.contextmanager
def raised(kind: type[Exception], message: str, hint: str | None = None, line: str | None = None) -> Iterator[None]:
    """An error whose text begins with `message`, ends with `hint`, and shows the user's `line`."""
    with pytest.raises(kind, match=f"^{re.escape(message)}") as info:
        yield
    text = str(info.value)
    assert isinstance(info.value, sx.StencilError)
    if hint:
        assert text.endswith(f"\nHint: {hint}")
    if line:
        marked = f"      {line}\n      {'^' * len(line)}"
        assert marked in text
        assert re.search(rf"at {re.escape(__file__)}:\d+, in ", text)


TRUTH = "choose with jnp.where(condition, a, b) or jax.lax.cond; for and, or, not write &, |, ~."


def test_python_if() -> None:
    @sx.kmap
    def upwind(u: Any) -> Any:
        if u[0] > 0:
            return u[0] - u[-1]
        return u[1] - u[0]

    message = "upwind asks for the truth of a traced value (if, while, and, or, not, assert)."
    with raised(sx.KernelError, message, TRUTH, "if u[0] > 0:"):
        upwind(X)
    with raised(TypeError, message, TRUTH, "if u[0] > 0:"):
        jax.jit(jax.grad(lambda x: upwind(x).sum()))(X)


def test_python_and_on_an_array_window() -> None:
    def both(w: Any) -> Any:
        return w[0] > 0 and w[1] > 0

    message = "both asks for the truth of a traced value (if, while, and, or, not, assert)."
    with raised(sx.KernelError, message, TRUTH, "return w[0] > 0 and w[1] > 0"):
        sx.kmap(both, kernel_size=2)(X)


def test_an_if_in_a_helper_points_at_the_helper() -> None:
    def limited(v: Any) -> Any:
        return v if v < 1 else 1.0

    def kernel(u: Any) -> Any:
        return limited(u[0])

    message = "kernel asks for the truth of a traced value (if, while, and, or, not, assert)."
    with raised(sx.KernelError, message, TRUTH, "return v if v < 1 else 1.0"):
        sx.kmap(kernel)(X)


def test_a_data_dependent_offset() -> None:
    @sx.kmap(kernel_size=3, relative=True)
    def steepest(u: Any) -> Any:
        where = jnp.argmax(jnp.abs(u[-1:2])) - 1
        return u[where]

    message = "an offset of field 'u' must be a whole number, not DynamicJaxprTracer known only at run time: a "
    message += "data-dependent offset."
    hint = "read the whole window, u[...], and pick from it with the backend's own indexing."
    with raised(sx.OffsetError, message, hint, "return u[where]"):
        steepest(X)
    picked = sx.kmap(lambda u: u[...][jnp.argmax(jnp.abs(u[...]))], kernel_size=3, relative=True)
    np.testing.assert_array_equal(picked(X), [4, 4, 4])


def test_a_loop_count_known_only_at_run_time() -> None:
    def repeated(u: Any, n: Any) -> Any:
        total = u[0]
        for _ in range(n):
            total = total * u[1]
        return total

    message = "repeated needs a number that is known only at run time (an index, a size, a loop count)."
    hint = "index an array window with jnp.take or window[i]; for loops use jax.lax.fori_loop; a number that is the "
    hint += "same in every call may be closed over instead of passed."
    with raised(sx.KernelError, message, hint, "for _ in range(n):"):
        sx.kmap(repeated)(X, 2)
    closed_over = sx.kmap(lambda u: repeated(u, 2))
    np.testing.assert_array_equal(closed_over(X), [4, -32, 1, 4.5])


def test_a_size_known_only_at_run_time() -> None:
    message = "ranged needs a number that is known only at run time (an index, a size, a loop count)."

    def ranged(w: Any) -> Any:
        return jnp.arange(jnp.argmax(w))

    with raised(sx.KernelError, message, line="return jnp.arange(jnp.argmax(w))"):
        sx.kmap(ranged, kernel_size=2)(X)

    def floated(w: Any) -> Any:
        return float(w[0])

    with raised(sx.KernelError, message.replace("ranged", "floated"), line="return float(w[0])"):
        sx.kmap(floated, kernel_size=2)(X)


NOT_AN_ARRAY = "the window of field 'u' is indexed by offset; it is not an array."
WHOLE = "for the array of the whole window write u[...], as in jnp.sum(u[...])."


def test_jnp_functions_of_a_relative_window() -> None:
    @sx.kmap(kernel_size=3, relative=True)
    def total(u: Any) -> Any:
        return jnp.sum(u)

    with raised(sx.KernelError, NOT_AN_ARRAY, WHOLE, "return jnp.sum(u)"):
        total(X)
    for function in (jnp.sin, jnp.median, lambda u: jnp.where(u > 0, u, 0.0), lambda u: jnp.stack([u, u])):
        with raised(sx.KernelError, NOT_AN_ARRAY, WHOLE):
            sx.kmap(lambda u, f=function: f(u), kernel_size=3, relative=True)(X)


def test_the_name_of_the_field_is_the_parameters() -> None:
    message = "the window of field 'height' is indexed by offset; it is not an array."
    hint = "for the array of the whole window write height[...], as in jnp.sum(height[...])."
    with raised(sx.KernelError, message, hint):
        sx.kmap(lambda height: jnp.max(height), kernel_size=3, relative=True)(X)


def test_numpy_functions_in_a_kernel() -> None:
    def frozen(u: Any) -> Any:
        return np.asarray(u[0]) + 1

    hint = "use jax.numpy (jnp) instead of numpy in kernels for the JAX backend."
    with raised(sx.KernelError, "frozen turns a traced value into a NumPy array.", hint, "return np.asarray(u[0]) + 1"):
        sx.kmap(frozen)(X)

    def sine(w: Any) -> Any:
        return np.sin(w)

    with raised(sx.KernelError, "sine turns a traced value into a NumPy array.", hint, "return np.sin(w)"):
        sx.kmap(sine, kernel_size=2)(X)
    with raised(sx.KernelError, NOT_AN_ARRAY, WHOLE):
        sx.kmap(lambda u: np.asarray(u), kernel_size=2, relative=True)(X)


def test_returning_the_window_itself() -> None:
    def same(u: Any) -> Any:
        return u

    with raised(sx.KernelError, "same returns the window itself.", WHOLE):
        sx.kmap(same, kernel_size=3, relative=True)(X)
    with raised(sx.KernelError, "<lambda> returns the window itself.", WHOLE):
        sx.kmap(lambda u: {"a": u[0], "b": u}, kernel_size=3, relative=True)(X)


def test_smap_takes_scalars_only() -> None:
    hint = "return a scalar, or use kmap, whose results may be arrays and trees."

    def patch(w: Any) -> Any:
        return w[:2]

    with raised(
        sx.KernelError, "one number is written into each cell, but patch returns an array of shape (2,).", hint
    ):
        sx.smap(patch, kernel_size=3)(X)

    def pair(w: Any) -> Any:
        return w[0], w[1]

    with raised(sx.KernelError, "one number is written into each cell, but pair returns 2 values.", hint):
        sx.smap(pair, kernel_size=3)(X)


def test_kernels_of_one_mesh_that_do_not_fit_together() -> None:
    def patch(w: Any) -> Any:
        return w

    def total(w: Any) -> Any:
        return w.sum()

    def tree(w: Any) -> Any:
        return {"a": w[0], "b": w[1:]}

    message = "the kernels of the regions return different things: "
    hint = "all regions make up one output, so their results need the same structure and shape."
    cases = [
        (patch, total, "patch shape (3,), total a scalar."),
        (total, tree, "total a scalar, tree a tree of 2 leaves (a scalar, shape (2,))."),
    ]
    for first, second, text in cases:
        mesh = sx.kmap(kernel_size=3)
        mesh[...] = first
        mesh[0] = second
        with raised(sx.RegionError, message + text, hint):
            mesh(X)


def test_parameters_that_are_neither_arrays_nor_hashable() -> None:
    message = "a parameter of type set is neither an array nor hashable."
    hint = "pass numbers and arrays, or containers of them, and close over the rest."
    with raised(sx.KernelError, message, hint):
        sx.kmap(lambda u, p: u[0])(X, {1, 2})


def test_a_large_array_window_beside_a_relative_one() -> None:
    stencil = sx.kmap(
        lambda u, h: u.sum() + h[0, 0],
        fields=2,
        kernel_size={"u": (40, 41), "h": None},
        padding={"u": "valid", "h": ((-19, -20), (-20, -20))},
    )
    field = jnp.ones((41, 42))
    message = "a window of more than 1024 cells stands beside 'h', which is read by offset."
    hint = "give a kernel_size for every field and no relative=True, or smaller windows."
    with raised(sx.KernelError, message, hint):
        stencil(field, field)


def test_errors_in_a_kernel_that_are_the_users_own() -> None:
    def broken(u: Any) -> Any:
        raise KeyError("my own")

    with pytest.raises(KeyError, match="my own"):
        sx.kmap(broken)(X)
    with pytest.raises(TypeError, match="unsupported operand") as info:
        sx.kmap(lambda u: u[0] + "1" if False else {} + 1)(X)
    assert not isinstance(info.value, sx.StencilError)


def test_a_failed_trace_leaves_nothing_behind() -> None:
    right = False

    @sx.kmap
    def kernel(u: Any) -> Any:
        if not right:
            return u[0] if u[0] > 0 else -u[0]
        return jnp.abs(u[0])

    with pytest.raises(sx.KernelError):
        kernel(X)
    right = True
    np.testing.assert_array_equal(kernel(X), np.abs(X))


def test_gradients_of_integers_and_complex_numbers_are_reported_by_jax() -> None:
    total = sx.kmap(jnp.sum, kernel_size=2)
    with pytest.raises(TypeError, match=r"^grad requires real- or complex-valued inputs") as info:
        jax.grad(lambda x: total(x).sum())(jnp.arange(5))
    assert not isinstance(info.value, sx.StencilError)
    with pytest.raises(TypeError, match=r"^grad requires real-valued outputs") as info:
        jax.grad(lambda x: total(x).sum())(X + 1j)
    assert not isinstance(info.value, sx.StencilError)
    with pytest.raises(TypeError, match=r"^Gradient only defined for scalar-output functions"):
        jax.grad(total)(X)


def test_reverse_mode_through_a_while_loop_is_reported_by_jax() -> None:
    stencil = sx.kmap(lambda w: jax.lax.while_loop(lambda v: v < 9, lambda v: v * 2 + 1, w[0] ** 2), kernel_size=1)
    assert np.isfinite(stencil(X)).all()
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work") as info:
        jax.grad(lambda x: stencil(x).sum())(X)
    assert not isinstance(info.value, sx.StencilError)


def test_nan_checks_of_jax_work_inside() -> None:
    stencil = sx.kmap(lambda u: jnp.log(u[0]))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        stencil(X).block_until_ready()
