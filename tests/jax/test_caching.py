"""Nothing is done twice: a kernel is traced once, code is compiled once; and nothing is done to the inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import stencilx as sx

X = np.array([[1.0, -2.0, 4.0, 0.5, 3.0], [2.0, 1.0, -1.0, 5.0, 0.0], [0.0, 6.0, 2.0, -3.0, 1.0]])


class Counted:
    """A kernel that counts its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def stencil(self, **options: Any) -> Any:
        calls = self.calls

        def kernel(u: Any, k: Any = 1.0) -> Any:
            calls.append(type(k))
            return k * (u[0, 1] - u[0, 0])

        return sx.kmap(kernel, **options)

    def __len__(self) -> int:
        return len(self.calls)


@contextlib.contextmanager
def compilations() -> Iterator[list[str]]:
    """What XLA compiles in the block."""
    seen: list[str] = []

    def listen(event: str, duration: float, **details: Any) -> None:
        if event.endswith("backend_compile_duration"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def difference(x: Any) -> np.ndarray:
    return np.asarray(x)[:, 1:] - np.asarray(x)[:, :-1]


def test_eager_calls_trace_and_compile_once() -> None:
    count = Counted()
    stencil = count.stencil()
    stencil(X).block_until_ready()
    with compilations() as seen:
        for factor in range(1, 6):
            np.testing.assert_array_equal(stencil(factor * X), factor * difference(X))
    assert (len(count), seen) == (1, [])


def test_what_counts_compilations_does() -> None:
    with compilations() as seen:
        Counted().stencil()(X)
    assert seen


def test_python_numbers_are_not_baked_in() -> None:
    count = Counted()
    stencil = count.stencil()
    stencil(X, 0.5).block_until_ready()
    with compilations() as seen:
        for k in (1.5, -2.0, float("inf"), 0.0):
            np.testing.assert_array_equal(np.asarray(stencil(X, k))[1, 3], k * -5.0)
    assert (len(count), seen) == (1, [])
    stencil(X, 2)
    stencil(X, 7)
    assert len(count) == 2
    stencil(X, k=9.0)
    stencil(X, k=8.0)
    assert len(count) == 3


def test_jit_grad_and_vmap_reuse_the_trace() -> None:
    count = Counted()
    stencil = count.stencil()
    x = jnp.asarray(X)
    stencil(x, 2.0)
    jax.jit(lambda x: stencil(x, 2.0))(x)
    jax.grad(lambda x: stencil(x, 2.0).sum())(x)
    jax.jvp(lambda x: stencil(x, 2.0), (x,), (x,))
    jax.vmap(lambda x: stencil(x, 2.0))(jnp.stack([x, -x]))
    jax.jit(jax.vmap(jax.grad(lambda x: stencil(x, 3.0).sum())))(jnp.stack([x, -x]))
    assert len(count) == 1


def test_a_python_number_is_the_same_to_the_kernel_under_jit() -> None:
    count = Counted()
    stencil = count.stencil()
    stencil(X, 2.0)
    jax.jit(stencil)(X, 2.0)
    assert len(count) == 1


def test_calls_under_jit_first() -> None:
    count = Counted()
    stencil = count.stencil()
    compiled = jax.jit(lambda x: stencil(x) + stencil(2 * x))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(X), 3 * difference(X))
    np.testing.assert_array_equal(stencil(X), difference(X))
    assert len(count) == 1


def test_loops_trace_once() -> None:
    count = Counted()
    stencil = count.stencil(padding=((0, 0), (0, 1)), boundary="wrap")
    found = jax.lax.fori_loop(0, 3, lambda _, x: stencil(x), jnp.asarray(X))
    expected = X
    for _ in range(3):
        expected = np.roll(expected, -1, axis=1) - expected
    np.testing.assert_array_equal(found, expected)
    assert len(count) == 1


def test_another_shape_or_dtype_is_another_trace() -> None:
    count = Counted()
    stencil = count.stencil()
    arguments = [X, X.T, X[:, 1:], X.astype(np.float32), X.astype(np.int32), X > 0.5]
    for number, x in enumerate(arguments[:5], start=1):
        result = stencil(x)
        assert (len(count), result.shape) == (number, (x.shape[0], x.shape[1] - 1))
        np.testing.assert_array_equal(result, difference(x))
    dtypes = [np.asarray(stencil(x)).dtype for x in arguments[:5]]
    assert dtypes == [np.float64, np.float64, np.float64, np.float32, np.float64]  # the default k is 1.0
    assert len(count) == 5


def test_numpy_and_jax_arrays_share_a_trace() -> None:
    count = Counted()
    stencil = count.stencil()
    for x in (X, jnp.asarray(X), X.tolist(), X.astype(">f8").astype(float)):
        np.testing.assert_array_equal(stencil(x), difference(X))
    assert len(count) == 1


def test_options_are_separate_stencils_but_backends_keep_their_own() -> None:
    count = Counted()
    near, far = count.stencil(), count.stencil(padding="same")
    assert near(X).shape == (3, 4)
    assert far(X).shape == (3, 5)
    assert near(X).shape == (3, 4)
    assert len(count) == 2
    np.testing.assert_array_equal(near.with_backend("numpy")(X), near(X))


def test_assignments_after_a_call_are_seen() -> None:
    mesh = sx.kmap(lambda u: u[0, 0] * 1.0)
    np.testing.assert_array_equal(mesh(X), X)
    mesh[1] = lambda u: -u[0, 0]
    np.testing.assert_array_equal(mesh(X), [X[0], -X[1], X[2]])
    mesh[1, 2:4] = np.array([7.0, 8.0])
    np.testing.assert_array_equal(mesh(X)[1], [-2.0, -1.0, 7.0, 8.0, 0.0])
    mesh[...] = 3.0
    np.testing.assert_array_equal(mesh(X), np.full((3, 5), 3.0))


def test_an_array_in_a_region_counts_as_it_is_at_the_call() -> None:
    wall = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    mesh = sx.kmap(lambda u: u[0, 0] * 1.0)
    mesh[0] = wall
    np.testing.assert_array_equal(mesh(X)[0], [1.0, 2.0, 3.0, 4.0, 5.0])
    wall[2] = -9.0
    np.testing.assert_array_equal(mesh(X)[0], [1.0, 2.0, -9.0, 4.0, 5.0])


def test_meshes_trace_each_kernel_once() -> None:
    count = Counted()
    mesh = sx.kmap(padding="same")

    def inner(u: Any) -> Any:
        count.calls.append(0)
        return u[0, 1] * 2.0

    mesh[...] = inner
    mesh[0] = 1.0
    mesh[1, ::2] = inner
    for _ in range(3):
        mesh(X)
    assert len(count) == 1


def test_asking_about_a_call_does_not_trace_again() -> None:
    count = Counted()
    stencil = count.stencil()
    stencil(X)
    assert stencil.reads(X) == {"u": [(0, 0), (0, 1)]}
    assert stencil.schedule(X) == "parallel"
    assert "f64[3,4]" in str(stencil.explain(X))
    assert len(count) == 1


def test_large_relative_windows_are_traced_once() -> None:
    calls: list[int] = []
    stencil = sx.kmap(lambda u: (calls.append(1), jnp.sum(u[...]))[1], kernel_size=(17, 18), relative=True)
    np.testing.assert_allclose(stencil(np.ones((17, 19))), [[306.0, 306.0]])
    assert len(calls) == 1


def test_weak_and_strong_numbers_have_their_own_dtype() -> None:
    stencil = Counted().stencil()
    x = X.astype(np.float32)
    assert stencil(x, 2.0).dtype == np.float32
    assert stencil(x, np.float32(2.0)).dtype == np.float32
    assert stencil(x, np.float64(2.0)).dtype == np.float64
    assert stencil(x, jnp.asarray(np.float64(2.0))).dtype == np.float64
    assert stencil(x, jnp.asarray(2.0)).dtype == np.float32
    assert stencil(x, 2.0).dtype == np.float32


def test_inputs_are_never_modified() -> None:
    stencils = [
        Counted().stencil(),
        sx.smap(lambda u: 2 * u[0, 0], offset=1),
        sx.kmap(jnp.sort, kernel_size=(1, 3), padding="same"),
        sx.kmap(jnp.sum, kernel_size=(3, 5)),
    ]
    mesh = sx.smap(lambda u: -u[0, 0])
    mesh[0] = 5.0
    for stencil in [*stencils, mesh]:
        given, field = X.copy(), jnp.asarray(X)
        given.flags.writeable = False
        stencil(given)
        stencil(field)
        np.testing.assert_array_equal(given, X)
        np.testing.assert_array_equal(field, X)
        assert not field.is_deleted()


def test_results_do_not_share_memory_with_inputs() -> None:
    given = X.copy()
    same = sx.kmap(lambda u: u[0, 0])(given)
    given[...] = 0.0
    np.testing.assert_array_equal(same, X)


def test_single_precision_where_x64_is_off() -> None:
    count = Counted()
    stencil = count.stencil()
    assert stencil(X).dtype == np.float64
    with jax.enable_x64(False):
        result = stencil(X, 0.5)
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, 0.5 * difference(X))
        assert sx.kmap(lambda u: u[0] + u[1])(np.array([1, 2, 3])).dtype == np.int32
        assert sx.kmap(jnp.argmax, kernel_size=2)(np.array([1.0, 2.0])).dtype == np.int32
        assert jax.jit(stencil)(X).dtype == np.float32
    assert stencil(X, 0.5).dtype == np.float64
    with jax.enable_x64(False):
        assert stencil(X, 0.5).dtype == np.float32


def test_one_stencil_serves_many_sizes() -> None:
    mesh = sx.kmap(lambda u: u[0])
    mesh[-1] = -1
    np.testing.assert_array_equal(mesh(np.arange(1, 5)), [1, 2, 3, -1])
    np.testing.assert_array_equal(mesh(np.arange(1, 8)), [1, 2, 3, 4, 5, 6, -1])
    np.testing.assert_array_equal(mesh(np.arange(1, 5)), [1, 2, 3, -1])
    total = sx.kmap(jnp.sum, kernel_size=-1)
    assert [int(total(np.arange(n))[0]) for n in (5, 8, 5)] == [10, 28, 10]
