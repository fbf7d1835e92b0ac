"""kernex's API as its programs use it. Where kernex itself was wrong, what is right."""

import functools

import jax
import jax.numpy as jnp
import kernex_loops as loops
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import stencilx as sx
import stencilx.kernex as kex

MAP_KINDS = ["vmap", "lmap", "pmap"]


def mesh(*items, **options):
    F = kex.kmap(**options)
    for key, value in items:
        F[key] = value
    return F


def first(x):
    return x[0]


# Windows


def test_keywords_may_be_given_by_position():
    x = jnp.arange(6.0).reshape(2, 3)
    assert_array_equal(kex.kmap((2, 2), 1, ((0, 1), (0, 1)), True)(lambda x: x[0, 0])(x), x)
    assert_array_equal(
        kex.kmap((1, 2), (1, 2), "valid", False, {1: "j"}, "lmap", {})(lambda x: x[0, "j+1"])(x), x[:, 1:2]
    )
    assert_array_equal(kex.smap((1, 2), 1, ((0, 0), (1, 0)), True)(lambda x: -x[0, 0])(x), [[0, -1, -2], [3, -4, -5]])


def test_relative_window_is_the_rolled_array():
    mat = jnp.arange(1, 26).reshape(5, 5)
    rolled = kex.kmap(kernel_size=(5, 5), relative=True)(lambda x: x)(mat)[0, 0]
    expected = [[13, 14, 15, 11, 12], [18, 19, 20, 16, 17], [23, 24, 25, 21, 22], [3, 4, 5, 1, 2], [8, 9, 10, 6, 7]]
    assert_array_equal(rolled, expected)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (lambda x: x[0], [1, 2, 4, 7, 11]),
        (lambda x: x[-1], [0, 1, 2, 4, 7]),
        (lambda x: x[1] + 10 * x[2], [42, 74, 117, 11, 0]),
        (lambda x: jnp.sum(x), [7, 14, 24, 22, 18]),
        (lambda x: jnp.sum(x[0:2]), [3, 6, 11, 18, 11]),
        (lambda x: jnp.max(x[-1:]), [0, 1, 2, 4, 7]),
    ],
)
def test_relative_window_of_even_size_has_its_centre_before_the_middle(kernel, expected):
    x = jnp.array([1, 2, 4, 7, 11])
    assert_array_equal(kex.kmap(kernel_size=(4,), padding="same", relative=True)(kernel)(x), expected)


@pytest.mark.parametrize("relative", [False, True])
def test_window_is_an_array(relative):
    F = kex.kmap(kernel_size=(2, 3), relative=relative)(lambda x: jnp.sort(x.reshape(-1))[1] + x.shape[1])
    x = np.array([[3, 1, 2, 9], [5, 8, 0, 4]])
    assert_array_equal(F(x), [[1 + 3, 1 + 3]])


@pytest.mark.parametrize("size", [3, (3,), -1, (-1,), np.int64(3)])
def test_kernel_size_may_be_an_int_and_means_the_same_in_each_call(size):
    total = kex.kmap(kernel_size=size)(jnp.sum)
    for n in (5, 8):
        x = np.arange(n) ** 2
        k = n if size in (-1, (-1,)) else 3
        assert_array_equal(total(x), np.convolve(x, np.ones(k, int), "valid"))


def test_default_kernel_size_serves_any_number_of_axes():
    x = jnp.arange(6).reshape(2, 3)
    assert_array_equal(kex.kmap()(lambda x: -x[0, 0])(x), -x)
    assert_array_equal(kex.kmap(relative=True)(first)(x[0]), x[0])


def test_whole_axis_with_same_padding():
    x = jnp.array([1, 2, 4, 7])
    F = kex.kmap(kernel_size=(-1,), padding="same")(jnp.sum)
    assert_array_equal(F(x), loops.kmap(lambda _, w: w.sum(), np.asarray(x), (4,), 1, "same"))


# Names

OFFSETS = [(0, 0), (1, 0), (-1, 1), (1, -1), (0, 1)]
NAMES = ["i", "i+1", "i-1"], ["j", "j+1", "j-1"]


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("relative", [False, True])
def test_names_index_the_window_that_the_kernel_would_have_seen(offset, relative):
    x = np.arange(20.0, dtype=np.float32).reshape(4, 5) ** 2
    i, j = NAMES[0][offset[0]], NAMES[1][offset[1]]
    options = {"kernel_size": (3, 3), "padding": "same", "relative": relative}
    expected = kex.kmap(**options)(lambda u: u[offset])(x)
    assert_array_equal(expected, loops.kmap(lambda _, window: window[offset], x, (3, 3), 1, "same", relative))
    for names, kernel in [
        ({0: "i", 1: "j"}, lambda u: u[i, j]),
        ({0: "i", 1: "j"}, lambda u: u[j, i]),
        ({0: "i"}, lambda u: u[i, offset[1]]),
        ({1: "j"}, lambda u: u[offset[0], j]),
        ({-1: "j"}, lambda u: u[offset[0], j]),
    ]:
        assert_array_equal(kex.kmap(**options, named_axis=names)(kernel)(x), expected)


def test_names_on_one_axis():
    F = kex.kmap(kernel_size=(3,), relative=True, named_axis={0: "n"})(lambda u: u["n+1"] - u["n-1",])
    assert_array_equal(F(jnp.array([1, 2, 4, 8])), [3, 6])


def test_window_with_names_is_a_mapping():
    seen = {}

    def note(u):
        seen.update(u)
        seen.update(length=len(u), has="i+1" in u, lacks="i+2" in u, get=u.get("i+2", 5))
        return sum(u.values())

    F = kex.kmap(kernel_size=(3,), relative=True, named_axis={0: "i"})(note)
    assert_array_equal(F.with_backend("numpy")(np.array([1, 2, 4])), [7])
    numbers = {("i-1",): 1, ("i",): 2, ("i+1",): 4}
    assert seen == {**numbers, "length": 3, "has": True, "lacks": False, "get": 5}
    partly = kex.kmap(kernel_size=(2, 2), named_axis={1: "j"}, relative=True)(lambda u: jnp.stack([u[k] for k in u]))
    assert_array_equal(partly(jnp.array([[1, 2], [3, 4]])), [[[1, 2, 3, 4]]])


@pytest.mark.parametrize("error", [sx.OffsetError, IndexError, KeyError, kex.OffsetKeyError])
@pytest.mark.parametrize("relative", [False, True])
def test_name_outside_the_window_is_an_error(error, relative):
    F = kex.kmap(kernel_size=(3, 5), relative=relative, named_axis={0: "i", 1: "j"})(lambda u: u["i+2", "j-2"])
    with pytest.raises(error) as caught:
        F(jnp.ones((5, 6)))
    text = str(caught.value).splitlines()
    assert text[0] == "field 'u' has no offset 2 on axis 0: its window there is -1..1."
    assert text[2].endswith('lambda u: u["i+2", "j-2"])')
    assert text[-1] == "Hint: take a larger kernel_size (5 on axis 0)"


def test_unknown_name_is_an_error():
    F = kex.kmap(kernel_size=(3,), named_axis={0: "i"})(lambda u: u["x+1"])
    with pytest.raises(sx.OffsetError, match=r"'x\+1' is no offset of field 'u'"):
        F(jnp.ones(4))


@pytest.mark.parametrize("names", [{0: "i", 1: "i"}, {0: 1}, {0: "i+1"}, {"i": 0}])
def test_names_that_are_no_names(names):
    with pytest.raises(sx.WindowError, match="named_axis"):
        kex.kmap(kernel_size=(3, 3), named_axis=names)


def test_named_axis_that_the_array_lacks():
    F = kex.kmap(kernel_size=(3,), named_axis={1: "j"})(lambda u: u["j"])
    with pytest.raises(sx.WindowError, match="names axis 1 'j', but field 'u' has 1 axis"):
        F(jnp.ones(4))


# Keywords


@pytest.mark.parametrize("function", [kex.kmap, kex.smap])
def test_all_kinds_of_map_give_the_same(function):
    x = jnp.array([1.0, 4.0, 2.0, 8.0])
    kinds = {"vmap": {"axis_name": "i"}, "lmap": {"batch_size": 2}, "pmap": None}
    results = [function((2,), map_kind=kind, map_kwargs=kwargs)(jnp.max)(x) for kind, kwargs in kinds.items()]
    assert_array_equal(results, [results[0]] * 3)


@pytest.mark.parametrize("function", [kex.kmap, kex.smap])
def test_unknown_kind_of_map(function):
    with pytest.raises(sx.StencilError, match="map_kind must be 'vmap', 'lmap' or 'pmap', not 'vmpa'") as caught:
        function(map_kind="vmpa")
    assert "did you mean 'vmap'?" in str(caught.value)
    with pytest.raises(sx.StencilError, match="map_kwargs must be a dict or None, not 3"):
        function(map_kwargs=3)


@pytest.mark.parametrize("size", [None, first, (3, 2.0), "same"])
def test_kernel_size_that_is_no_number(size):
    with pytest.raises(sx.WindowError, match="kernel_size must be a whole number"):
        kex.kmap(size)


# Regions


def test_keys_are_resolved_for_each_shape():
    F = mesh((slice(None), first), (-1, lambda x: -1), kernel_size=(1,))
    assert_array_equal(F(jnp.arange(1, 5)), [1, 2, 3, -1])
    assert_array_equal(F(jnp.arange(1, 8)), [1, 2, 3, 4, 5, 6, -1])


def test_strided_region():
    F = mesh((slice(None), first), (slice(1, None, 2), lambda x: 100 * x[0]), kernel_size=(1,))
    assert_array_equal(F(jnp.arange(1, 7)), [1, 200, 3, 400, 5, 600])


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (slice(0, 0), [1, 2, 3, 4, 5]),
        ([0, 3], [-1, 2, 3, -1, 5]),
        (np.array([True, False, False, False, True]), [-1, 2, 3, 4, -1]),
        (slice(-2, None), [1, 2, 3, -1, -1]),
        (slice(None, None, -2), [-1, 2, -1, 4, -1]),
        (np.int64(2), [1, 2, -1, 4, 5]),
        (..., [-1] * 5),
    ],
)
def test_keys_mean_what_they_mean_in_numpy(key, expected):
    assert_array_equal(mesh((slice(None), first), (key, lambda x: -1))(jnp.arange(1, 6)), expected)
    assert_array_equal(mesh((slice(None), first), (key, -1))([1, 2, 3, 4, 5]), expected)


def test_key_out_of_range():
    with pytest.raises(IndexError, match=r"F\[9\] does not fit the grid of shape \(5,\)"):
        mesh((slice(None), first), (9, first))(jnp.arange(5))


def test_last_assignment_wins_also_for_a_function_used_twice():
    items = [(slice(None), first), (slice(0, 3), lambda x: -x[0]), (0, first)]
    assert_array_equal(mesh(*items)(jnp.arange(1, 6)), [1, -2, -3, 4, 5])
    F = mesh((slice(None), lambda x: 0), relative=True)
    F[0] = F[-1] = first
    assert_array_equal(F(jnp.arange(1, 6)), [1, 0, 0, 0, 5])


def test_cells_in_no_region_are_an_error():
    with pytest.raises(sx.RegionError, match="no region covers cells 1 and 3:5"):
        mesh((0, first), (2, first))(jnp.arange(5))


def test_mesh_of_numbers_and_functions():
    F = mesh(
        (0, 1), (-1, 0), (slice(1, -1), lambda u: (u[-1] + u[1]) / 2), kernel_size=3, padding="same", relative=True
    )
    assert_array_equal(F(np.arange(1.0, 6.0, dtype=np.float32)), [1, 2, 3, 4, 0])


@pytest.mark.parametrize("relative", [False, True])
def test_keys_count_cells_of_the_array_by_window_centre(relative):
    x = np.array([[1, 2, 4, 7, 9], [3, 0, 5, 8, 1], [6, 2, 2, 1, 0], [4, 4, 3, 9, 7]])
    options = {"kernel_size": (2, 3), "strides": (1, 2), "padding": ("valid", (0, 1)), "relative": relative}
    F = mesh((slice(None), jnp.sum), ((1, 1), 50), ((slice(2, None), 3), jnp.max), ((0, 2), 70), **options)

    def kernel(centre, window):
        if centre == (1, 1):
            return 50
        return window.max() if centre == (2, 3) else window.sum()

    assert_array_equal(F(x), loops.kmap(kernel, x, (2, 3), (1, 2), ("valid", (0, 1)), relative))
    assert_array_equal(F(x)[1], [50, sum([5, 8, 1, 2, 1, 0])])


def test_windows_centred_outside_belong_to_the_background():
    x = jnp.array([[1, 2, 3], [4, 5, 6]])
    F = mesh((slice(None), jnp.sum), ((0, slice(None)), lambda x: -1), kernel_size=(1, 3), padding=(0, 2))
    assert_array_equal(F(x), [[1, -1, -1, -1, 3], [4, 9, 15, 11, 6]])
    assert_array_equal(kex.kmap((1, 3), padding=(0, 2))(jnp.sum)(x)[0], [1, 3, 6, 5, 3])
    F = mesh((slice(None), jnp.sum), (x > 2, jnp.array([30, 40, 50, 60])), kernel_size=(1, 3), padding=(0, 2))
    assert_array_equal(F.with_backend("numpy")(x), [[1, 3, 6, 30, 3], [4, 40, 50, 60, 6]])
    assert_array_equal(F(x), [[1, 3, 6, 30, 3], [4, 40, 50, 60, 6]])


def test_windows_centred_outside_without_a_background():
    F = mesh((slice(0, 2), jnp.sum), (slice(2, 4), jnp.max), kernel_size=3, padding=((2, 3),))
    with pytest.raises(sx.RegionError, match=r"outside the array of shape \(4,\).*\(1, 2\) cells on axis 0") as caught:
        F(jnp.arange(4))
    assert "F[:] = kernel" in str(caught.value)
    with pytest.raises(IndexError, match=r"F\[4\] does not fit the grid of shape \(4,\)"):
        mesh((slice(None), jnp.sum), (4, 0), kernel_size=3, padding=2)(jnp.arange(4))


# kernex's own tests, rewritten


@pytest.mark.parametrize("map_kind", MAP_KINDS)
def test_mesh(map_kind):
    F = kex.kmap(kernel_size=(1,), relative=True, padding="same", map_kind=map_kind)
    F[0] = lambda x: x[0] * 10
    F[1] = lambda x: x[0] * -10
    F[2:] = lambda x: x[0] * 100
    assert_array_equal(F(jnp.arange(1, 11)), [10, -20, 300, 400, 500, 600, 700, 800, 900, 1000])

    F = kex.kmap(kernel_size=(3, 3), relative=True, padding="same")
    F[0, 0] = lambda x: x[0, 0] * 10
    F[1, 1:] = lambda x: x[0, 0] * -10
    F[2:] = lambda x: x[0, 0] * 100
    array = jnp.arange(1, 13).reshape(4, 3)
    with pytest.raises(sx.RegionError, match=r"no region covers cells \[0, 1:3\] and \[1, 0\] of"):
        F(array)
    F[0, 1:] = F[1, 0] = lambda x: x[0, 0]
    assert_array_equal(F(array), [[10, 2, 3], [4, -50, -60], [700, 800, 900], [1000, 1100, 1200]])


@pytest.mark.parametrize("map_kind", MAP_KINDS)
def test_lax_scan_with_kmap(map_kind):
    def repeated(F, x, count):
        return jax.lax.scan(lambda carry, _: (F(carry), None), x, jnp.arange(count))[0]

    keep = kex.kmap(kernel_size=(1,), relative=True, padding="same", map_kind=map_kind)
    keep[1:-1] = lambda x: x[0] + 1
    keep[0] = keep[-1] = first
    assert_array_equal(repeated(keep, jnp.ones([10]), 9), [1, 10, 10, 10, 10, 10, 10, 10, 10, 1])

    add = kex.kmap(kernel_size=(3,), relative=True, padding="same", map_kind=map_kind)
    add[1:-1] = lambda x: x[0] + x[-1] + x[1]
    add[0] = add[-1] = first
    assert_array_equal(add(jnp.ones([10])), [1, 3, 3, 3, 3, 3, 3, 3, 3, 1])
    assert_array_equal(repeated(add, jnp.ones([10]), 2), [1, 7, 9, 9, 9, 9, 9, 9, 7, 1])


def test_conv2d_and_its_gradients():
    @jax.jit
    @kex.kmap(kernel_size=(3, 3, 3), padding=("valid", "same", "same"), map_kind="lmap")
    def conv(x, w):
        return jnp.sum(x * w)

    def conv_of_jax(x, w):
        return jax.lax.conv_general_dilated(x[None], w[None], (1, 1), "SAME")[0]

    rng = np.random.default_rng(0)
    x, w, c = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in [(3, 6, 9), (3, 3, 3), (1, 6, 9)])
    assert_allclose(conv(x, w), conv_of_jax(x, w), rtol=1e-4, atol=1e-4)
    ours = jax.grad(lambda x, w: jnp.sum(c * conv(x, w) ** 2), (0, 1))(x, w)
    jaxs = jax.grad(lambda x, w: jnp.sum(c * conv_of_jax(x, w) ** 2), (0, 1))(x, w)
    for a, b in zip(ours, jaxs, strict=True):
        assert_allclose(a, b, rtol=1e-3, atol=1e-3)


# smap


def test_scalar_map_keeps_what_it_does_not_write():
    x = np.array([[1, 2, 4, 7, 9], [3, 0, 5, 8, 1], [6, 2, 2, 1, 0]])
    F = kex.smap(kernel_size=(3, 2), strides=(1, 2), offset=((1, 0), (1, 1)), relative=True)(jnp.sum)
    expected = x.copy()
    for i in (1, 2):
        for j in (1, 3):
            expected[i, j] = x[i - 1 : i + 2, j : j + 2].sum()
    assert_array_equal(F(x), expected)


def test_scalar_map_with_regions_keeps_cells_in_none():
    F = kex.smap(kernel_size=(3,), offset=1, relative=True, named_axis={0: "i"})
    F[1:3] = lambda u: u["i-1"] + u["i+1"]
    F[2] = F[-1] = 50
    assert_array_equal(F(jnp.array([1, 2, 4, 7, 9])), [1, 5, 50, 7, 9])


def test_scalar_map_never_truncates():
    F = kex.smap(kernel_size=(2,), offset=((0, 1),))(jnp.mean)
    assert_array_equal(F(jnp.array([1, 2, 4, 8])), [1.5, 3, 6, 8])


def test_scalar_map_of_patches_is_an_error():
    with pytest.raises(sx.KernelError, match=r"one number is written into each cell"):
        kex.smap(kernel_size=(2,))(lambda x: x)(jnp.arange(4))


# Programs around it


def test_transformations_stack():
    scale = kex.kmap(kernel_size=(3,), padding="same", relative=True)(lambda x, w: w * x[-1] * x[1])
    x, w = jnp.array([[1.0, 2.0, 3.0, 5.0], [7.0, 1.0, 0.0, 2.0]]), jnp.array([2.0, 3.0])
    expected = np.array([[0, 6, 20, 0], [0, 0, 6, 0]])
    assert_array_equal(jax.jit(jax.vmap(scale))(x, w), expected)
    assert_array_equal(jax.vmap(jax.jit(scale))(x, w), expected)
    jacobian = jax.jacfwd(lambda x: scale(x, 2.0))(x[0])
    assert_array_equal(jacobian, [[0, 0, 0, 0], [6, 0, 2, 0], [0, 10, 0, 4], [0, 0, 0, 0]])
    hessian = jax.hessian(lambda x: scale(x, 2.0).sum())(x[0])
    assert_array_equal(hessian, [[0, 0, 2, 0], [0, 0, 0, 2], [2, 0, 0, 0], [0, 2, 0, 0]])


def test_mesh_under_jit_and_grad():
    F = mesh(
        (..., lambda u, a: a * u["i", "j+1"] * u["i-1", "j"]),
        ((slice(None), 0), lambda u, a: u["i", "j"] ** 2),
        kernel_size=(3, 3),
        padding="same",
        relative=True,
        named_axis={0: "i", 1: "j"},
    )
    x = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    solver = jax.jit(F.__call__)
    assert_array_equal(solver(x, 2.0), [[1, 0, 0], [16, 2 * 6 * 2, 0]])
    by_x, by_a = jax.grad(lambda x, a: F(x, a).sum(), (0, 1))(x, 2.0)
    assert_array_equal(by_x, [[2, 12, 0], [8, 0, 4]])
    assert by_a == 12


def test_smap_has_a_gradient():
    F = kex.smap(kernel_size=(3,), offset=1, relative=True)(lambda x: x[-1] * x[1])
    x = jnp.array([1.0, 2.0, 3.0, 5.0])
    assert_array_equal(F(x), [1, 3, 10, 5])
    assert_array_equal(jax.grad(lambda x: F(x).sum())(x), [1 + 3, 5, 1, 2 + 1])


def test_decorated_function_keeps_its_name_and_docstring():
    def laplacian(x):
        """Second difference."""
        return x[1] - 2 * x[0] + x[-1]

    F = kex.kmap(kernel_size=(3,), relative=True)(laplacian)
    assert (F.__name__, F.__doc__, F.__wrapped__) == ("laplacian", "Second difference.", laplacian)
    assert (jax.jit(F).__name__, jax.jit(F).__doc__) == ("laplacian", "Second difference.")
    assert F.with_backend("numpy").__wrapped__ is laplacian


def test_repr():
    F = kex.kmap(kernel_size=(3,), padding="same", relative=True)(first)
    assert repr(F) == ("<kmap first(kernel_size=(3,), strides=1, padding='same', relative=True, named_axis=None)>")
    F = kex.smap(kernel_size=(3, 3), offset=1, named_axis={0: "i"})
    F[0] = F[1] = first
    assert repr(F) == (
        "<smap mesh of 2 regions(kernel_size=(3, 3), strides=1, offset=1, relative=False, named_axis={0: 'i'})>"
    )


def test_one_decorator_serves_several_functions():
    window = kex.kmap(kernel_size=(2,))
    low, high = window(jnp.min), window(jnp.max)
    x = jnp.array([3, 1, 4])
    assert_array_equal(low(x), [1, 1])
    assert_array_equal(high(x), [3, 4])


@pytest.mark.parametrize("relative", [False, True])
def test_kernel_sees_new_values_of_what_it_captures(relative):
    def pair(weight):
        return lambda x: weight * x[0]

    for weight in (2.0, 3.0):
        assert kex.kmap(kernel_size=(2,), relative=relative)(pair(weight))(jnp.ones(2)) == weight

    loss = jax.grad(lambda w: kex.kmap(kernel_size=(2,), relative=relative)(pair(w))(jnp.ones(4)).sum())
    assert loss(2.0) == 3


def test_kernel_is_traced_once():
    traces = []

    def kernel(x):
        traces.append(x)
        return x[0] + x[-1]

    F = kex.kmap(kernel_size=(3,), padding="same", relative=True)
    F[:] = kernel
    F[0] = F[-1] = kernel
    for start in range(3):
        F(jnp.arange(start, start + 5))
    assert len(traces) == 1


def test_partial_and_numpy_backend():
    def weighted(x, w):
        return w * x[1] - x[-1]

    F = kex.kmap(kernel_size=(3,), relative=True)(functools.partial(weighted, w=2))
    x = np.array([1, 2, 4, 8])
    assert_array_equal(F(x), [7, 14])
    with sx.use_backend("numpy"):
        assert_array_equal(F(x), [7, 14])
        assert_array_equal(F(x.tolist()), [7, 14])
