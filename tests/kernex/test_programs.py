"""Scans as kernex's programs use them: marching in time over space-time arrays, against loops; what keywords mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import stencilx as sx
import stencilx.kernex as kex

LINE = {"kernel_size": (3,), "padding": "same", "relative": True}


def mesh(*items, make=kex.kscan, **options):
    F = make(**options)
    for key, value in items:
        F[key] = value
    return F


def first(x):
    return x[0]


# kernex's own tests, rewritten


@pytest.mark.parametrize(
    ("padding", "expected"),
    [
        ((1, 1), [3, 8, 15, 24, 29]),
        ((0, 1), [6, 13, 22, 27]),
        ((1, 0), [3, 8, 15, 24]),
        ((0, 0), [6, 13, 22]),
        ((-1, 0), [9, 18]),
        ((0, -1), [6, 13]),
        ((-1, -1), [9]),
    ],
)
def test_padding(padding, expected):
    x = jnp.arange(1, 6)
    for kernel in (lambda x: x[0] + x[1] + x[-1], jnp.sum):
        assert_array_equal(kex.kscan((3,), padding=(padding,), relative=True)(kernel)(x), expected)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ((0, 0), [3, 8, 15, 24, 29]),
        ((1, 0), [1, 6, 13, 22, 27]),
        ((0, 1), [3, 8, 15, 24, 5]),
        ((1, 1), [1, 6, 13, 22, 5]),
        ((2, 1), [1, 2, 9, 18, 5]),
        ((1, 2), [1, 6, 13, 4, 5]),
        ((2, 2), [1, 2, 9, 4, 5]),
    ],
)
def test_offset(offset, expected):
    x = jnp.arange(1, 6)
    for kernel in (lambda x: x[0] + x[1] + x[-1], jnp.sum):
        assert_array_equal(kex.sscan((3,), offset=(offset,), relative=True)(kernel)(x), expected)


def test_first_cell_of_its_own():
    F = mesh((slice(None), lambda x: x[-1] + x[0]), (0, lambda x: 100), **LINE)
    assert_array_equal(F(jnp.arange(1, 6)), [100, 102, 105, 109, 114])


def test_diffusion_by_sscan():
    @jax.jit
    @kex.sscan(
        kernel_size=(3, 3, 3),
        offset=((1, 0), (1, 1), (1, 1)),
        named_axis={0: "n", 1: "i", 2: "j"},
        relative=True,
    )
    def diffusion(T, nu, dt, dx, dy):
        return (
            T["n-1", "i", "j"]
            + (nu * dt) / (dy**2) * (T["n-1", "i+1", "j"] - 2 * T["n-1", "i", "j"] + T["n-1", "i-1", "j"])
            + (nu * dt) / (dx**2) * (T["n-1", "i", "j+1"] - 2 * T["n-1", "i", "j"] + T["n-1", "i", "j-1"])
        )

    nt, ny, nx, nu, dt, dx, dy = 6, 7, 10, 0.8, 0.01, 0.2, 0.3
    initial = np.ones((ny, nx))
    initial[1:4, 3:7] = 2
    result = diffusion(jnp.ones([nt, ny, nx]).at[0].set(initial), nu, dt, dx, dy)
    assert_allclose(result, diffused(initial, nt, nu * dt / dx**2, nu * dt / dy**2), rtol=1e-12)


def diffused(initial, nt, rx, ry):
    """All times of a heat equation whose walls keep 1."""
    u = np.ones((nt, *initial.shape))
    u[0] = initial
    for n in range(1, nt):
        for j in range(1, u.shape[1] - 1):
            for i in range(1, u.shape[2] - 1):
                here = u[n - 1, j, i]
                along_x = u[n - 1, j, i + 1] - 2 * here + u[n - 1, j, i - 1]
                along_y = u[n - 1, j + 1, i] - 2 * here + u[n - 1, j - 1, i]
                u[n, j, i] = here + rx * along_x + ry * along_y
    return u


def convected(nt, nx, r):
    """All times of a square wave that moves to the right."""
    u = np.ones((nt, nx))
    u[0, [i for i in range(nx) if (nx - 1) / 4 < i < (nx - 1) / 2]] = 2
    initial = u[0].copy()
    for n in range(1, nt):
        for i in range(1, nx - 1):
            u[n, i] = u[n - 1, i] - r * (u[n - 1, i] - u[n - 1, i - 1])
    return initial, u


def test_linear_convection_by_sscan():
    nt, nx, r = 40, 31, 0.3
    initial, expected = convected(nt, nx, r)
    F = kex.sscan(kernel_size=(3, 3), named_axis={0: "n", 1: "i"}, relative=True)
    F[:] = lambda u: u["i", "n"]
    F[1:, 1:-1] = lambda u: u["i", "n-1"] - r * (u["i", "n-1"] - u["i-1", "n-1"])
    u = jnp.ones((nt, nx)).at[0].set(initial)
    assert_allclose(F(u), expected, rtol=1e-12)
    assert F.schedule(u) == "rows"


def test_linear_convection_by_kscan():
    nt, nx, r = 40, 31, 0.3
    _, expected = convected(nt, nx, r)
    F = kex.kscan(kernel_size=(3, 3), padding=((1, 1), (1, 1)), named_axis={0: "n", 1: "i"}, relative=True)
    F[:, 0] = F[:, -1] = lambda u: 1
    F[0:1, int((nx - 1) / 4) + 1 : int((nx - 1) / 2)] = lambda u: 2
    F[:, : int((nx - 1) / 4) + 1] = F[:, int((nx - 1) / 2) :] = lambda u: 1
    F[1:, 1:-1] = lambda u: u["i", "n-1"] - r * (u["i", "n-1"] - u["i-1", "n-1"])
    u = jnp.zeros((nt, nx))
    assert_allclose(F(u), expected, rtol=1e-12)
    assert_allclose(jax.jit(F.__call__)(u), expected, rtol=1e-12)
    assert F.schedule(u) == "rows"


def test_lax_scan_with_kscan():
    def repeated(F, count):
        return jax.lax.scan(lambda carry, _: (F(carry), None), jnp.ones([10]), jnp.arange(count))[0]

    add = kex.kscan(kernel_size=(1,), relative=True, padding="same")
    add[1:-1] = lambda x: x[0] + 1
    add[0] = add[-1] = first
    assert_array_equal(add(jnp.ones([10])), [1, 2, 2, 2, 2, 2, 2, 2, 2, 1])
    assert_array_equal(repeated(add, 9), [1, 10, 10, 10, 10, 10, 10, 10, 10, 1])

    total = kex.kscan(kernel_size=(3,), relative=True, padding="same")
    total[1:-1] = lambda x: x[0] + x[-1] + x[1]
    total[0] = total[-1] = first
    assert_array_equal(total(jnp.ones([10])), [1, 3, 5, 7, 9, 11, 13, 15, 17, 1])
    assert_array_equal(repeated(total, 2), [1, 9, 21, 37, 57, 81, 109, 141, 159, 1])


# Space-time arrays


def test_diffusion_by_kscan():
    nt, ny, nx, rx, ry = 6, 7, 10, 0.2, 0.1
    F = kex.kscan(kernel_size=(3, 3, 3), padding="same", relative=True, named_axis={0: "n", 1: "j", 2: "i"})
    F[:] = lambda u: 1
    F[0, 1:4, 3:7] = lambda u: 2
    F[1:, 1:-1, 1:-1] = lambda u: (
        u["n-1", "j", "i"]
        + rx * (u["n-1", "j", "i+1"] - 2 * u["n-1", "j", "i"] + u["n-1", "j", "i-1"])
        + ry * (u["n-1", "j+1", "i"] - 2 * u["n-1", "j", "i"] + u["n-1", "j-1", "i"])
    )
    initial = np.ones((ny, nx))
    initial[1:4, 3:7] = 2
    u = jnp.zeros((nt, ny, nx))
    assert_allclose(F(u), diffused(initial, nt, rx, ry), rtol=1e-12)
    assert F.schedule(u) == "rows"


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_burgers_on_a_line(backend):
    nt, nx, dt, dx, nu = 12, 17, 0.02, 0.1, 0.07
    initial = np.sin(np.linspace(0, 5, nx)) + 1.5
    F = kex.kscan(kernel_size=(3, 3), padding="same", relative=True, named_axis={0: "n", 1: "i"})
    F[0] = lambda u: u["n", "i"]
    F[1:, 1:-1] = lambda u: (
        u["n-1", "i"]
        - u["n-1", "i"] * dt / dx * (u["n-1", "i"] - u["n-1", "i-1"])
        + nu * dt / dx**2 * (u["n-1", "i+1"] - 2 * u["n-1", "i"] + u["n-1", "i-1"])
    )
    F[1:, 0] = lambda u: u["n-1", "i"]
    F[1:, -1] = lambda u: u["n", "i-1"]  # no slope: the cell before it, at the same time

    expected = np.zeros((nt, nx))
    expected[0] = initial
    for n in range(1, nt):
        old = expected[n - 1]
        expected[n, 0] = old[0]
        for i in range(1, nx - 1):
            slope, curvature = (old[i] - old[i - 1]) / dx, (old[i + 1] - 2 * old[i] + old[i - 1]) / dx**2
            expected[n, i] = old[i] - old[i] * dt * slope + nu * dt * curvature
        expected[n, -1] = expected[n, -2]
    u = jnp.zeros((nt, nx)).at[0].set(initial)
    assert_allclose(F.with_backend(backend)(u), expected, rtol=1e-11)
    assert F.schedule(u) == "cells"


def test_burgers_in_the_plane():
    nt, ny, nx, dt, dx, dy, nu = 5, 6, 8, 0.01, 0.1, 0.15, 0.05

    def step(own, u, v):
        here = own("j", "i")
        return (
            here
            - dt / dx * u * (here - own("j", "i-1"))
            - dt / dy * v * (here - own("j-1", "i"))
            + nu * dt / dx**2 * (own("j", "i+1") - 2 * here + own("j", "i-1"))
            + nu * dt / dy**2 * (own("j+1", "i") - 2 * here + own("j-1", "i"))
        )

    def step_of_u(w):
        return step(lambda j, i: w["n-1", "c", j, i], w["n-1", "c", "j", "i"], w["n-1", "c+1", "j", "i"])

    def step_of_v(w):
        return step(lambda j, i: w["n-1", "c", j, i], w["n-1", "c-1", "j", "i"], w["n-1", "c", "j", "i"])

    F = kex.sscan(kernel_size=(3, 3, 3, 3), relative=True, named_axis={0: "n", 1: "c", 2: "j", 3: "i"})
    F[1:, 0, 1:-1, 1:-1] = step_of_u
    F[1:, 1, 1:-1, 1:-1] = step_of_v
    w = np.tile(np.random.default_rng(0).uniform(1, 2, (2, ny, nx)), (nt, 1, 1, 1))  # the walls keep their values

    expected = w.copy()
    for n in range(1, nt):
        old = expected[n - 1]
        for c, j, i in np.ndindex(2, ny - 2, nx - 2):

            def own(at_j, at_i, component=old[c], j=j + 1, i=i + 1):
                return component[j + int(at_j[1:] or 0), i + int(at_i[1:] or 0)]  # "j-1" is one cell before

            expected[n, c, j + 1, i + 1] = step(own, old[0, j + 1, i + 1], old[1, j + 1, i + 1])
    result = F(jnp.asarray(w))
    assert_allclose(result, expected, rtol=1e-12)
    assert F.schedule(jnp.asarray(w)) == "rows"


def test_backward_in_time():
    nt, nx, r = 7, 9, 0.2
    final = np.random.default_rng(0).uniform(size=nx)
    F = kex.kscan((3, 3), 1, "same", True, {0: "n", 1: "i"}, "scan", {"reverse": True})
    F[:] = lambda u: u["n", "i"]
    F[:-1, 1:-1] = lambda u: u["n+1", "i"] + r * (u["n+1", "i+1"] - 2 * u["n+1", "i"] + u["n+1", "i-1"])
    expected = np.zeros((nt, nx))
    expected[-1] = final
    for n in reversed(range(nt - 1)):
        for i in range(1, nx - 1):
            later = expected[n + 1]
            expected[n, i] = later[i] + r * (later[i + 1] - 2 * later[i] + later[i - 1])
    u = jnp.zeros((nt, nx)).at[-1].set(final)
    assert_allclose(F(u), expected, rtol=1e-12)
    assert F.schedule(u) == "rows"


# Order


def test_map_and_scan_differ():
    x = jnp.array([1, 2, 3, 4])
    items = [(0, first), (slice(1, None), lambda x: 2 * x[-1])]
    assert_array_equal(mesh(*items, make=kex.kmap, **LINE)(x), [1, 2, 4, 6])
    assert_array_equal(mesh(*items, **LINE)(x), [1, 2, 4, 8])
    options = {"kernel_size": (3,), "offset": ((1, 0),), "relative": True}
    assert_array_equal(kex.smap(**options)(lambda x: 2 * x[-1])(x), [1, 2, 4, 6])
    assert_array_equal(kex.sscan(**options)(lambda x: 2 * x[-1])(x), [1, 2, 4, 8])


def test_reverse():
    x = jnp.array([1, 2, 4, 8])
    kwargs = {"scan_kwargs": {"reverse": True, "unroll": 2}}
    assert_array_equal(kex.kscan(**LINE, **kwargs)(lambda x: x[0] + x[1])(x), [15, 14, 12, 8])
    assert_array_equal(kex.kscan(**LINE, **kwargs)(lambda x: x[0] + x[-1])(x), [1, 3, 6, 12])
    F = kex.sscan((3,), 1, ((0, 1),), True, None, "scan", {"reverse": True})(lambda x: x[0] + x[1])
    assert_array_equal(F(x), [15, 14, 12, 8])
    assert_array_equal(F.with_backend("numpy")(x), [15, 14, 12, 8])


def test_scan_with_strides_sees_what_earlier_windows_wrote():
    x = np.array([1, 2, 4, 7, 11, 16, 22, 31])
    expected = x.copy()
    for centre in (2, 4, 6):
        expected[centre] = expected[centre - 2] - expected[centre - 1] + expected[centre + 1]
    options = {"kernel_size": (5,), "strides": (2,), "relative": True}

    def kernel(x):
        return x[-2] - x[-1] + x[1]

    assert_array_equal(kex.sscan(**options, offset=((2, 1),))(kernel)(x), expected)
    assert_array_equal(kex.kscan(**options, padding=((0, 1),))(kernel)(x), expected[[2, 4, 6]])


# Regions


def test_numbers_as_map_and_as_scan():
    x = np.array([1.0, 9.0, 4.0, 2.0, 5.0])
    items = [(0, 1), (-1, 0), (slice(1, -1), lambda u: (u[-1] + u[1]) / 2)]
    assert_array_equal(mesh(*items, make=kex.kmap, **LINE)(x), [1, 2.5, 5.5, 4.5, 0])
    assert_array_equal(mesh(*items, **LINE)(x), [1, 2.5, 2.25, 3.625, 0])
    functions = [(0, lambda u: 1), (-1, lambda u: 0), items[2]]
    assert_array_equal(mesh(*functions, **LINE)(x), [1, 2.5, 2.25, 3.625, 0])
    assert_array_equal(mesh(*functions, **LINE)(np.arange(1.0, 6.0)), [1, 2, 3, 4, 0])
    assert_array_equal(mesh(*items, (np.int64(2), 7), **LINE)(x), [1, 2.5, 7, 6, 0])
    assert_array_equal(mesh(*items, ((..., 0), 3), **LINE)(x), [3, 3.5, 2.75, 3.875, 0])


def test_walls_in_order():
    def interior(u):
        return (u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1]) / 4

    F = kex.kscan(kernel_size=(3, 3), padding="same", relative=True)
    F[:] = interior
    F[0, :] = F[:, 0] = F[:, -1] = 0.0
    F[-1, :] = 1.0
    assert_array_equal(F(jnp.zeros((3, 3))), [[0, 0, 0], [0, 0, 0], [1, 1, 1]])  # the lid is written last

    G = kex.kscan(kernel_size=(3, 3), padding="same", relative=True, scan_kwargs={"reverse": True})
    G[:] = interior
    G[0, :] = G[:, 0] = G[:, -1] = lambda u: 0.0
    G[-1, :] = lambda u: 1.0
    assert_array_equal(G(jnp.zeros((3, 4))), [[0, 0, 0, 0], [0, 5 / 16, 1 / 4, 0], [1, 1, 1, 1]])


def test_keys_count_cells_of_the_array_by_window_centre():
    x = jnp.array([1, 2, 4, 7, 11])
    F = mesh((..., lambda x: x[-1] + x[0]), (2, lambda x: 50), kernel_size=(3,), relative=True)
    assert_array_equal(F(x), [3, 50, 57])


def test_cells_in_no_region():
    x = jnp.array([1, 2, 4, 7])
    items = [(0, first), (3, lambda x: x[-1] + x[0])]
    with pytest.raises(sx.RegionError, match="no region covers cells 1:3"):
        mesh(*items, **LINE)(x)
    assert_array_equal(mesh(*items, make=kex.sscan, kernel_size=(3,), relative=True)(x), [1, 2, 4, 11])


# Types


def test_fractions_are_not_truncated():
    x = np.array([1, 2, 4, 8])
    mean = kex.sscan(kernel_size=(3,), offset=((1, 0),), relative=True)(lambda x: (x[-1] + x[0]) / 2)
    assert_array_equal(mean(x), [1, 1.5, 2.75, 5.375])
    mean = kex.kscan(**LINE)(lambda x: (x[-1] + x[0]) / 2)
    assert_array_equal(mean(jnp.asarray(x)), [0.5, 1.25, 2.625, 5.3125])
    F = mesh((..., lambda x: x[-1] + x[0]), (0, lambda x: 0.5), **LINE)
    assert_array_equal(F(x), [0.5, 2.5, 6.5, 14.5])
    assert_array_equal(mesh((..., lambda x: x[-1] + x[0]), (0, 0.5), **LINE)(x), [0.5, 2.5, 6.5, 14.5])


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.float32, jnp.float64, jnp.complex64])
def test_python_numbers_leave_the_dtype_alone(dtype):
    F = mesh((..., lambda x: x[-1] + x[0]), (0, lambda x: 1), **LINE)
    result = F(jnp.array([5, 2, 4], dtype))
    assert result.dtype == dtype
    assert_array_equal(result, [1, 3, 7])


def test_results_join_the_dtype_also_where_nothing_is_carried():
    x = jnp.array([5, -2, 4], jnp.float32)
    for kernel, expected in [(lambda x: 7, [7, 7, 7]), (lambda x: x[0] > 0, [1, 0, 1])]:
        for result in (kex.kscan()(kernel)(x), kex.sscan()(kernel)(x)):
            assert result.dtype == jnp.float32
            assert_array_equal(result, expected)


# Programs around it


def recurrence(x, a):
    return kex.kscan(**LINE)(lambda x, a: a * x[-1] + x[0])(x, a)


def test_jit():
    F = kex.kscan(**LINE)(lambda x, a: a * x[-1] + x[0])
    x = jnp.array([1.0, 2.0, 4.0])
    assert_array_equal(jax.jit(F)(x, 3.0), [1, 5, 19])
    assert_array_equal(jax.jit(F.__call__)(x, 3.0), [1, 5, 19])


def test_grad():
    x = jnp.array([1.0, 2.0, 4.0])
    by_x, by_a = jax.grad(lambda x, a: recurrence(x, a).sum(), (0, 1))(x, 3.0)
    assert_array_equal(by_x, [1 + 3 + 9, 1 + 3, 1])
    assert by_a == 1 + (2 + 2 * 3 * 1)  # of a * x0 + x1, and a * a * x0 + a * x1 + x2


def test_vmap():
    x, a = jnp.array([[1.0, 2.0, 4.0], [7.0, 0.0, 1.0]]), jnp.array([3.0, 2.0])
    assert_array_equal(jax.vmap(recurrence)(x, a), [[1, 5, 19], [7, 14, 29]])
    assert_array_equal(jax.jit(jax.vmap(jax.grad(lambda x, a: recurrence(x, a)[-1])))(x, a), [[9, 3, 1], [4, 2, 1]])


def test_gradient_through_a_march_in_time():
    nt, nx = 5, 7
    F = kex.kscan(kernel_size=(3, 3), padding="same", relative=True, named_axis={0: "n", 1: "i"})
    F[:] = lambda u, r: u["n", "i"]
    F[1:, 1:-1] = lambda u, r: u["n-1", "i"] - r * u["n-1", "i"] * (u["n-1", "i"] - u["n-1", "i-1"])
    u = jnp.zeros((nt, nx)).at[0].set(np.random.default_rng(0).uniform(1, 2, nx))

    def by_loop(initial, r):
        for _ in range(nt - 1):
            new = initial[1:-1] - r * initial[1:-1] * (initial[1:-1] - initial[:-2])
            initial = jnp.concatenate([jnp.zeros(1), new, jnp.zeros(1)])
        return jnp.sum(initial**2)

    def by_scan(initial, r):
        return jnp.sum(F(u.at[0].set(initial), r)[-1] ** 2)

    ours, expected = (jax.jit(jax.grad(f, (0, 1)))(u[0], 0.3) for f in (by_scan, by_loop))
    for a, b in zip(ours, expected, strict=True):
        assert_allclose(a, b, rtol=1e-10)


def test_kernel_is_traced_once():
    traces = []

    def kernel(x):
        traces.append(x)
        return x[0] + x[-1]

    F = mesh((slice(None), kernel), (0, kernel), **LINE)
    for start in range(3):
        F(jnp.arange(start, start + 5))
    assert len(traces) == 1


# Keywords


def test_windows_centred_outside_have_no_cell_to_write_to():
    x = jnp.arange(12.0).reshape(3, 4)
    options = {"kernel_size": (1, 3), "padding": (0, (1, 2)), "relative": True}
    text = (
        r"a scan writes where its windows are centred, and with padding \(1, 2\) on axis 1 some are centred outside "
        r"the array of shape \(3, 4\)\.\nHint: take padding='same', or less\."
    )
    for F in (kex.kscan(**options)(jnp.sum), mesh((slice(None), jnp.sum), **options), mesh((0, jnp.sum), **options)):
        with pytest.raises(sx.WindowError, match=text):
            F(x)


@pytest.mark.parametrize("function", [kex.kscan, kex.sscan])
def test_keywords_of_the_scan(function):
    x = jnp.array([1, 2, 4, 8])
    plain = function(relative=True)(lambda x: -x[0])
    assert_array_equal(plain(x), -x)
    for kwargs in ({}, {"reverse": False, "unroll": 3, "length": 4}, {"_split_transpose": True}):
        assert repr(function(relative=True, scan_kwargs=kwargs)(first)) == repr(function(relative=True)(first))
    with pytest.raises(sx.StencilError, match=r"scan_kwargs has 'revers', and jax\.lax\.scan takes no such") as caught:
        function(scan_kwargs={"revers": True})
    assert "did you mean 'reverse'?" in str(caught.value)
    with pytest.raises(sx.StencilError, match="scan_kwargs must be a dict or None, not True"):
        function(scan_kwargs=True)
    with pytest.raises(sx.StencilError, match="scan_kind must be 'scan', not 'scam'") as caught:
        function(scan_kind="scam")
    assert "did you mean 'scan'?" in str(caught.value)


def test_result_that_is_no_scalar():
    with pytest.raises(sx.KernelError, match=r"one number.* into each cell"):
        kex.kscan(kernel_size=(2,))(lambda x: x)(jnp.arange(4))


def test_repr():
    F = kex.kscan(**LINE, scan_kwargs={"reverse": True})(first)
    assert repr(F) == (
        "<kscan first(kernel_size=(3,), strides=1, padding='same', relative=True, named_axis=None, "
        "scan_kwargs={'reverse': True})>"
    )
    F = kex.sscan(kernel_size=(3, 3), offset=1, named_axis={0: "i"})
    F[0] = F[1] = first
    assert repr(F) == (
        "<sscan mesh of 2 regions(kernel_size=(3, 3), strides=1, offset=1, relative=False, named_axis={0: 'i'})>"
    )
