"""Cases from the field: public reports of what goes wrong in stencil code, each as a test of its whole kind.

The letters are those of the list of cases. Only maps are here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stencilx as sx

from .plain_loops import agree, loop_map, run, sample, to_numpy


def one_to(n: int, dtype: Any = np.float64) -> np.ndarray:
    return np.arange(1, n + 1).astype(dtype)


def centre(x: Any) -> Any:
    return x[0]


def total(x: Any) -> Any:
    return x.__array_namespace__().sum(x)


# A. One stencil, many calls


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_a_keys_are_resolved_anew_in_every_call(library, dtype):
    F = sx.kmap(relative=True, backend=library.backend)
    F[:] = centre
    F[-1] = -1
    for n in (4, 7, 4, 1, 2, 9):
        expected = one_to(n, dtype)
        expected[-1] = -1
        agree(library.numpy(F(library.array(one_to(n, dtype)))), expected, dtype if n > 1 else None)


def test_a_negative_keys_on_many_shapes(library):
    F = sx.kmap(backend=library.backend)
    F[...] = lambda u: 2 * u[0, 0]
    F[-2:, 1] = 5.0
    F[0, -1] = lambda u: -u[0, 0]
    for shape in ((3, 5), (5, 3), (2, 7)):
        x = sample(*shape)
        expected = 2 * x
        expected[-2:, 1] = 5.0
        expected[0, -1] = -x[0, -1]
        agree(library.numpy(F(library.array(x))), expected)


@pytest.mark.parametrize("shape", [(5,), (8,), (1,)])
def test_a_whole_axis(library, shape):
    whole = sx.kmap(total, kernel_size=-1)
    x = sample(*shape)
    agree(run(library, whole, x), [x.sum()])
    agree(run(library, whole, np.append(x, 3.25)), [x.sum() + 3.25])


def test_a_whole_axis_is_measured_in_every_call(library):
    rows = sx.kmap(total, kernel_size=(2, -1), backend=library.backend)
    for shape in ((3, 5), (3, 8), (4, 2)):
        x = sample(*shape)
        agree(library.numpy(rows(library.array(x))), (x[:-1] + x[1:]).sum(1)[:, None])


# B. Offset outside the window


@pytest.mark.parametrize(
    ("kernel", "kernel_size", "texts"),
    [
        (lambda x: x[2], 3, ["offset 2", "axis 0", "-1..1", "'x'"]),
        (lambda x: x[-2], 3, ["offset -2", "axis 0", "-1..1"]),
        (lambda x: x[-1], 2, ["offset -1", "axis 0", "0..1"]),
        (lambda x: total(x[-1:3]), 3, ["offset 2", "slice -1:3", "axis 0", "-1..1"]),
        (lambda x: total(x[-2:1]), 3, ["offset -2", "slice -2:1", "axis 0", "-1..1"]),
        (lambda x: total(x[-1:4:2]), 4, ["offset 3", "slice -1:4:2", "axis 0", "-1..2"]),
    ],
)
def test_b_offset_outside_the_window_is_an_error(library, kernel, kernel_size, texts):
    with pytest.raises(sx.OffsetError) as info:
        run(library, sx.kmap(kernel, relative=True, kernel_size=kernel_size), one_to(5))
    for text in texts:
        assert text in str(info.value)


def test_b_the_error_names_the_axis(library):
    stencil = sx.kmap(lambda x: x["i", "j-3"], kernel_size=(3, 5), named_axis={0: "i", 1: "j"})
    with pytest.raises(sx.OffsetError, match=r"offset -3 on axis 1: its window there is -2\.\.2"):
        run(library, stencil, sample(4, 7))


@pytest.mark.parametrize("offset", [2, -3, 4])
def test_b_inferred_windows_hold_what_is_read(library, offset):
    x = one_to(5)
    expected = x[max(offset, 0) : len(x) + min(offset, 0)]
    agree(run(library, sx.kmap(lambda x: x[offset]), x), expected)


# C. Strided region


@pytest.mark.parametrize("key", [np.s_[1::2], np.s_[::3], np.s_[-1::-2], np.s_[4:0:-3]], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_c_strided_region(library, key, dtype):
    F = sx.kmap(relative=True)
    F[:] = centre
    F[key] = lambda x: 100 * x[0]
    expected = one_to(6, dtype)
    expected[key] *= 100
    agree(run(library, F, one_to(6, dtype)), expected, dtype)


# D. Cover, empty, list, overlap, range


def test_d_cells_in_no_region_are_named(library):
    F = sx.kmap(relative=True)
    F[0] = -1
    F[2] = -2
    with pytest.raises(sx.RegionError, match=r"no region covers cells 1 and 3:5 of the output grid of shape \(5,\)"):
        run(library, F, one_to(5))


def test_d_cells_in_no_region_of_a_plane_are_named(library):
    F = sx.kmap()
    F[:, 1:] = lambda u: u[0, 0]
    F[2, 0] = 3.0
    with pytest.raises(sx.RegionError, match=r"no region covers cells \[0:2, 0\] of the output grid of shape \(3, 5\)"):
        run(library, F, sample(3, 5))


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ([(np.s_[:], centre), (np.s_[0:0], -1)], [1, 2, 3, 4, 5]),
        ([(np.s_[:], centre), (np.s_[4:2], -1), (np.s_[9:], -1)], [1, 2, 3, 4, 5]),
        ([(np.s_[:], centre), ([], -1)], [1, 2, 3, 4, 5]),
        ([(np.s_[:], centre), ([0, 3], -1)], [-1, 2, 3, -1, 5]),
        ([(np.s_[:], centre), ([-1, 0], -1)], [-1, 2, 3, 4, -1]),
        ([(np.s_[:], centre), (np.s_[0:3], lambda x: 10 * x[0]), (0, centre)], [1, 20, 30, 4, 5]),
        ([(0, -1), (np.s_[1:], centre), (np.s_[:2], lambda x: -x[0])], [-1, -2, 3, 4, 5]),
    ],
)
def test_d_regions(library, assignments, expected):
    F = sx.kmap(relative=True)
    for key, value in assignments:
        F[key] = value
    agree(run(library, F, one_to(5)), expected)


@pytest.mark.parametrize("key", [9, -6, 5, [0, 5], [-6]], ids=str)
def test_d_keys_out_of_range(library, key):
    F = sx.kmap(relative=True)
    F[:] = centre
    F[key] = -1
    with pytest.raises(IndexError, match=r"out of range on axis 0, which has 5 cells") as info:
        run(library, F, one_to(5))
    assert isinstance(info.value, sx.RegionIndexError)


# E. Integers in, fractions out


def _divides_integers(library: Any) -> bool:
    """The array-API standard leaves int / int out, and array-api-strict refuses it."""
    return library.name != "array_api-strict"


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_e_fractions_are_not_truncated(library, dtype):
    if not _divides_integers(library):
        pytest.skip("array-api-strict divides no integers")
    x = np.array([1, 2, 4, 8], dtype)
    got = run(library, sx.kmap(lambda u: (u[0] + u[1]) / 2), x)
    assert got.dtype.kind == "f"
    agree(got, [1.5, 3, 6])
    agree(run(library, sx.kmap(lambda u: (u[0] + u[1]) * 0.25), x), [0.75, 1.5, 3])


def test_e_fractions_written_into_integers_make_floats(library):
    if not _divides_integers(library):
        pytest.skip("array-api-strict divides no integers")
    got = run(library, sx.smap(lambda u: (u[-1] + u[0]) / 2, offset=((1, 0),)), np.array([1, 2, 4, 8]))
    assert got.dtype.kind == "f"
    agree(got, [1, 1.5, 3, 6])


def test_e_mean_of_a_window_of_integers(library):
    if not _divides_integers(library):
        pytest.skip("array-api-strict divides no integers")
    x = sample(3, 5, dtype=np.int64)

    def mean(u: Any) -> Any:
        return u.__array_namespace__().sum(u) / 6

    expected = loop_map(np.mean, x, [(0, 1), (-1, 1)])
    assert expected.dtype.kind == "f"
    agree(run(library, sx.kmap(mean, kernel_size=(2, 3)), x).astype(np.float32), expected)


# F. Plain numbers


def test_f_numbers_at_the_ends(library):
    F = sx.kmap(padding="same")
    F[0] = 1
    F[-1] = 0
    F[1:-1] = lambda u: (u[-1] + u[1]) / 2
    agree(run(library, F, one_to(5)), [1, 2, 3, 4, 0], np.float64)
    agree(run(library, F, np.array([3, -7, 1, 5, 2, 9], np.float32)), [1, 2, -1, 1.5, 7, 0], np.float32)


@pytest.mark.parametrize("key", [np.int64(2), np.uint8(2), np.array(2), (..., 2), np.array([2])], ids=repr)
def test_f_numpy_integers_as_keys(library, key):
    F = sx.kmap(relative=True)
    F[:] = centre
    F[key] = -1.5
    agree(run(library, F, one_to(5)), [1, 2, -1.5, 4, 5])


def test_f_ellipsis_selects_the_last_axis(library):
    F = sx.kmap()
    F[...] = lambda u: u[0, 0]
    F[..., 0] = 1.0
    F[np.int64(2), ...] = 0.0
    x = sample(3, 5)
    expected = x.copy()
    expected[..., 0] = 1.0
    expected[2] = 0.0
    agree(run(library, F, x), expected)


# G. Map and sweep differ


@pytest.mark.parametrize("n", [4, 6])
def test_g_a_map_reads_old_values(library, n):
    x = one_to(n)
    expected = np.concatenate([x[:1], 2 * x[:-1]])
    agree(run(library, sx.smap(lambda x: 2 * x[-1], offset=((1, 0),)), x), expected)
    F = sx.smap(relative=True)
    F[1:] = lambda x: 2 * x[-1]
    agree(run(library, F, x), expected)


# H. inf and NaN stay where they are


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_h_patches_hold_what_the_window_holds(library, bad):
    got = run(library, sx.kmap(lambda x: x, kernel_size=2), np.array([1, bad, 2, 3]))
    np.testing.assert_array_equal(got, [[1, bad], [bad, 2], [2, 3]])


@pytest.mark.parametrize("boundary", ["edge", "wrap", 0.0, "reflect"])
@pytest.mark.parametrize("place", [0, 2, 7])
def test_h_a_nan_reaches_its_neighbours_only(library, boundary, place):
    x = one_to(8)
    x[place] = np.nan
    mean = sx.kmap(lambda u: (u[-1] + u[0] + u[1]) / 3, padding="same", boundary=boundary)
    expected = loop_map(np.mean, x, [(-1, 1)], padding="same", rules=boundary)
    np.testing.assert_allclose(run(library, mean, x), expected)
    assert np.isnan(expected).sum() >= 2


def test_h_running_mean(library):
    x = np.array([1, 2, np.nan, 4, 5, 6, 7, 8])
    mean = sx.kmap(lambda u: total(u) / 3, kernel_size=3, padding="same", boundary="edge")
    got = run(library, mean, x)
    np.testing.assert_array_equal(np.isnan(got), [False, True, True, True, False, False, False, False])
    agree(got[4:], [5, 6, 7, 23 / 3])


# I. Any reducer has a gradient


def value_and_gradient(library: Any, function: Callable[[Any], Any], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A map of an array, and the gradient of the sum of its results."""
    if library.backend == "jax":
        gradient = jax.grad(lambda x: jnp.sum(function(x)))(jnp.asarray(x))
        return np.asarray(function(jnp.asarray(x))), np.asarray(gradient)
    import torch

    tensor = torch.from_numpy(x.copy()).requires_grad_()
    result = function(tensor)
    torch.sum(result).backward()
    assert tensor.grad is not None
    return result.detach().numpy(), tensor.grad.numpy()


def differentiable(library: Any) -> Any:
    if library.name not in ("jax", "array_api-torch"):
        pytest.skip("this library has no gradients")
    return library.backend


REDUCERS: dict[str, Callable[[Any], Any]] = {
    "prod": lambda x: x.__array_namespace__().prod(x),
    "max": lambda x: x.__array_namespace__().max(x),
    "min": lambda x: x.__array_namespace__().min(x),
    "sum of squares": lambda x: x.__array_namespace__().sum(x * x),
    "root": lambda x: x.__array_namespace__().sqrt(x.__array_namespace__().sum(x * x)),
    "exp": lambda x: x.__array_namespace__().log(x.__array_namespace__().sum(x.__array_namespace__().exp(x))),
}


@pytest.mark.parametrize("name", REDUCERS)
def test_i_values(library, name):
    x = np.array([1.0, 2.0, 3.0, -1.5, 0.25])
    reducer = REDUCERS[name]
    agree(run(library, sx.kmap(reducer, kernel_size=2), x), loop_map(reducer, x, [(0, 1)]))


@pytest.mark.parametrize("name", REDUCERS)
def test_i_gradients(library, name):
    backend = differentiable(library)
    reducer = REDUCERS[name]
    x = np.array([1.0, 2.0, 3.0, -1.5, 0.25])
    _, got = value_and_gradient(library, sx.kmap(reducer, kernel_size=2, backend=backend), x)
    h = 1e-6
    expected = [
        (loop_map(reducer, x + h * e, [(0, 1)]).sum() - loop_map(reducer, x - h * e, [(0, 1)]).sum()) / (2 * h)
        for e in np.eye(len(x))
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7)


def test_i_pair_product(library):
    pairs = sx.kmap(REDUCERS["prod"], kernel_size=2, backend=differentiable(library))
    value, gradient = value_and_gradient(library, pairs, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(value, [2, 6])
    np.testing.assert_array_equal(gradient, [2, 4, 2])


# J. A region's kernel never runs elsewhere


def root_mesh(backend: str | None = None) -> Any:
    F = sx.kmap(relative=True, backend=backend)
    F[0] = 7.0
    F[1:] = lambda u: u[0] ** 0.5
    return F


@pytest.mark.parametrize("first", [0.0, -1.0])
def test_j_no_kernel_runs_in_the_cells_of_others(library, first):
    """A root of -1 would warn, and warnings are errors here."""
    agree(run(library, root_mesh(), np.array([first, 1.0, 4.0])), [7, 1, 2])


def test_j_no_kernel_runs_behind_a_mask(library):
    x = np.array([[4.0, -1.0, 9.0, -2.0, 1.0], [-3.0, 16.0, -1.0, 0.25, -5.0], [1.0, 1.0, -7.0, -8.0, 4.0]])
    F = sx.kmap()
    F[x < 0] = lambda u: -u[0, 0]
    F[x >= 0] = lambda u: u[0, 0] ** 0.5
    agree(run(library, F, x), np.where(x < 0, -x, np.abs(x) ** 0.5))


def test_j_nan_reaches_no_gradient(library):
    stencil = root_mesh(differentiable(library))
    _, gradient = value_and_gradient(library, stencil, np.array([0.0, 1.0, 4.0]))
    np.testing.assert_array_equal(gradient, [0, 0.5, 0.25])


# K. The border value joins the dtype


@pytest.mark.parametrize(
    ("dtype", "boundary", "kind"),
    [
        (np.int64, 1.5, "f"),
        (np.int32, 1.5, "f"),
        (np.int64, 2, "i"),
        (np.int64, 0.0, "i"),
        (np.float32, 1.5, "f"),
        (np.float32, 1.5j, "c"),
        (np.int64, {0: ("edge", 0.5)}, "f"),
    ],
)
def test_k_the_border_value_joins_the_dtype(library, dtype, boundary, kind):
    x = np.array([3, -1, 4, 1, -5], dtype)
    stencil = sx.kmap(lambda a: a[0] - a[1], padding=((0, 1),), boundary=boundary)
    expected = loop_map(lambda a: a[0] - a[1], x, [(0, 1)], padding=((0, 1),), rules=boundary)
    got = run(library, stencil, x)
    assert got.dtype.kind == expected.dtype.kind == kind
    np.testing.assert_allclose(got, expected)


def test_k_float32_is_not_widened(library):
    stencil = sx.kmap(lambda a: a[0] - a[1], padding=((0, 1),), boundary=1.5)
    agree(run(library, stencil, np.array([3, -1], np.float32)), [4, -2.5], np.float32)


@pytest.mark.parametrize(
    ("wall", "ghost"),
    [
        (sx.boundary.Dirichlet(0.75), -0.5),
        (sx.boundary.Neumann(1, 0.5), 2.5),
        (sx.boundary.Robin(1, 2, 3, 8), 10 / 3),  # (2 + G)/2 + 2*(G - 2)/8 = 3
        (sx.boundary.Wrap(add=0.25), 3.25),
    ],
    ids=str,
)
def test_k_what_walls_give_joins_the_dtype(library, wall, ghost):
    """Fractions outside make the whole field float; nothing is rounded on the way in."""
    x = np.array([3, -1, 4, 2])
    got = run(library, sx.kmap(lambda a: a[0] - a[1], padding=((0, 1),), boundary={0: (0, wall)}), x)
    assert got.dtype.kind == "f"
    agree(got.astype(np.float32), x - np.append(x[1:], ghost))


# L. No silent roll


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_l_a_linear_ghost(library, dtype):
    """The ends of a centred difference are one-sided slopes."""
    x = np.array([0, 1, 4, 9, 16], dtype)
    centred = sx.kmap(lambda u: u[1] - u[-1], padding="same", boundary=sx.boundary.Extrapolate())
    agree(run(library, centred, x), [2, 4, 8, 12, 14], dtype)
    if dtype == np.float64:
        half = sx.kmap(lambda u: (u[1] - u[-1]) / 2, padding="same", boundary=sx.boundary.Extrapolate(1))
        agree(run(library, half, x), [1, 2, 4, 6, 7])
        agree(run(library, half, x), np.gradient(x))


def test_l_slopes_of_a_plane_are_those_of_numpy(library):
    x = sample(4, 6)
    for axis, apart in ((0, 0.5), (1, 0.25)):
        offset = (1, 0) if axis == 0 else (0, 1)
        back = tuple(-o for o in offset)
        for order in (1, 2):
            slope = sx.kmap(
                lambda u, offset=offset, back=back, apart=apart: (u[offset] - u[back]) / (2 * apart),
                padding="same",
                boundary=sx.boundary.Extrapolate(order),
            )
            agree(run(library, slope, x), np.gradient(x, apart, axis=axis, edge_order=order))


@pytest.mark.parametrize("boundary", [0, 1.5, "edge", sx.boundary.Extrapolate(2), sx.boundary.Dirichlet(0.5)], ids=str)
@pytest.mark.parametrize("shape", [(5,), (3, 5)], ids=str)
def test_l_nothing_wraps_unless_asked(library, shape, boundary):
    """A spike at one end does not reach the other one."""
    x = np.zeros(shape)
    x[..., -1] = 100.0

    def around(u: Any) -> Any:
        return u[(0,) * (x.ndim - 1) + (-1,)] + u[(-1,) + (0,) * (x.ndim - 1)]

    still = run(library, sx.kmap(around, padding="same", boundary=boundary), np.zeros(shape))
    got = run(library, sx.kmap(around, padding="same", boundary=boundary), x)
    np.testing.assert_array_equal(got[..., :-1], still[..., :-1])
    wrapped = run(library, sx.kmap(around, padding="same", boundary="wrap"), x)
    assert (wrapped[..., 0] >= 100).all()


# M. reflect is not reflect


@pytest.mark.parametrize(
    ("boundary", "first", "last"),
    [
        ("reflect", [2, 1, 2], [4, 5, 4]),
        ("symmetric", [1, 1, 2], [4, 5, 5]),
        ("edge", [1, 1, 2], [4, 5, 5]),
        ("wrap", [5, 1, 2], [4, 5, 1]),
        (9, [9, 1, 2], [4, 5, 9]),
    ],
)
def test_m_patches(library, boundary, first, last):
    got = run(library, sx.kmap(lambda x: x, kernel_size=3, padding="same", boundary=boundary), one_to(5))
    agree(got[0], first)
    agree(got[-1], last)
    agree(got[2], [2, 3, 4])


def test_m_symmetric_and_edge_part_at_the_second_ghost(library):

    def patches(rule: Any) -> Any:
        return sx.kmap(lambda x: x, kernel_size=5, padding="same", boundary=rule)

    agree(run(library, patches("symmetric"), one_to(5))[0], [2, 1, 1, 2, 3])
    agree(run(library, patches("edge"), one_to(5))[0], [1, 1, 1, 2, 3])
    agree(run(library, patches("reflect"), one_to(5))[0], [3, 2, 1, 2, 3])


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("mirror", "'reflect'"),
        ("nearest", "'edge'"),
        ("grid-wrap", "'wrap'"),
        ("grid-mirror", "'symmetric'"),
        ("wrapp", "'wrap'"),
    ],
)
def test_m_words_of_others_are_errors_that_name_ours(library, word, ours):
    with pytest.raises(sx.BoundaryError, match=word) as info:
        run(library, sx.kmap(centre, padding=1, boundary=word), one_to(5))
    assert ours in str(info.value)


# N. Walls in order


def test_n_the_lid_is_set_last(library):
    F = sx.kmap()
    F[...] = lambda u: u[0, 0]
    for key in (np.s_[0, :], np.s_[:, 0], np.s_[:, -1]):
        F[key] = 0.0
    F[-1, :] = 1.0
    agree(run(library, F, np.zeros((3, 3))), [[0, 0, 0], [0, 0, 0], [1, 1, 1]])


@pytest.mark.parametrize("lid_last", [True, False])
def test_n_corners_belong_to_the_wall_that_is_set_last(library, lid_last):
    x = sample(3, 5)
    F = sx.smap()
    F[...] = lambda u: 2 * u[0, 0]
    walls: list[tuple[Any, float]] = [(np.s_[:, 0], -0.5), (np.s_[:, -1], 0.25)]
    lid: list[tuple[Any, float]] = [(np.s_[-1, :], 1.0)]
    expected = 2 * x
    for key, value in walls + lid if lid_last else lid + walls:
        F[key] = value
        expected[key] = value
    agree(run(library, F, x), expected)


# R. What lies outside must not win


def largest(x: Any) -> Any:
    return x.__array_namespace__().max(x)


def test_r_maximum_of_negative_numbers(library):
    stencil = sx.kmap(largest, kernel_size=3, padding="same", boundary=-np.inf)
    agree(run(library, stencil, np.array([-3.0, -2.0, -5.0])), [-2, -2, -2])


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize(("name", "outside"), [("max", -np.inf), ("min", np.inf)])
def test_r_extremes_against_loops(library, shape, name, outside):
    x = sample(*shape) - (100 if name == "max" else -100)
    kernel = REDUCERS[name]
    size = (3, 2, 3)[: len(shape)]
    reach = ((-1, 1), (0, 1), (-1, 1))[: len(shape)]
    stencil = sx.kmap(kernel, kernel_size=size, padding="same", boundary=outside)
    agree(run(library, stencil, x), loop_map(kernel, x, reach, padding="same", rules=outside))


def test_r_footprint(library):
    stencil = sx.kmap(lambda x: largest(x[::2]), kernel_size=3, padding="same", boundary=-np.inf)
    agree(run(library, stencil, np.array([5.0, 1.0, 1.0, 1.0, 2.0])), [1, 5, 1, 2, 1])


def test_r_footprint_of_a_plane(library):
    x = -np.abs(sample(3, 5)) - 1

    def cross(u: Any) -> Any:
        return largest(u.__array_namespace__().stack([u[0, 1], u[1, 0], u[2, 1]]))

    expected = loop_map(lambda u: max(u[0, 1], u[1, 0], u[2, 1]), x, [(-1, 1)] * 2, padding="same", rules=-np.inf)
    agree(run(library, sx.kmap(cross, kernel_size=3, padding="same", boundary=-np.inf), x), expected)


# S. float32 stays, offsets from closures, no recompiling


@pytest.mark.parametrize("c", [2, np.int64(2), np.uint8(1), 1])
def test_s_offsets_from_closures(library, c):
    calls = []

    def kernel(a: Any) -> Any:
        calls.append(1)
        return 0.5 * (a[-int(c) + 1] + a[c - 1])

    stencil = sx.kmap(kernel, backend=library.backend)
    x = sample(7, dtype=np.float32)
    near = int(c) - 1
    expected = loop_map(lambda a: (a[0] + a[-1]) / 2, x, [(-near, near)])
    for factor in (1, -3):
        got = library.numpy(stencil(library.array(factor * x)))
        agree(got, factor * expected, np.float32)
    if library.backend == "jax":
        assert len(calls) == 1


def test_s_numpy_integers_wherever_an_int_is(library):
    i = np.int64
    stencil = sx.kmap(
        lambda u: u[i(0), i(1)] - 2 * u[np.int32(-1), 0],
        kernel_size=(i(3), np.uint8(4)),
        strides=(i(1), i(2)),
        dilation=i(1),
        padding=(i(1), (i(0), i(2))),
        boundary={i(0): "wrap"},
        named_axis={i(0): "i"},
        fields=i(1),
    )
    x = sample(3, 5)
    options = {"strides": (1, 2), "padding": (1, (0, 2)), "rules": {0: "wrap"}}

    def kernel(u: Any) -> Any:
        return u[0, 1] - 2 * u[-1, 0]

    agree(run(library, stencil, x), loop_map(kernel, x, [(-1, 1), (-1, 2)], relative=True, **options))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_s_python_numbers_do_not_widen(library, dtype):
    if library.name == "array_api-strict" and dtype == np.float16:
        pytest.skip("the array-API standard has no float16")
    x = sample(3, 5, dtype=dtype)
    F = sx.kmap(padding="same", boundary=0.5)
    F[...] = lambda u: 0.5 * u[0, 1] + 2 * u[-1, 0] - 1.25
    F[0] = 3
    F[:, 1] = 2.5

    def kernel(u: Any) -> Any:
        return 0.5 * u[0, 1] + 2 * u[-1, 0] - 1.25

    expected = loop_map(kernel, x, [(-1, 0), (0, 1)], relative=True, padding="same", rules=0.5)
    expected[0] = 3
    expected[:, 1] = 2.5
    agree(run(library, F, x), expected, dtype)


# T. Vectors and several values


def test_t_several_values(library):
    extremes = sx.kmap(lambda x: {"lo": REDUCERS["min"](x), "hi": REDUCERS["max"](x)}, kernel_size=3)
    got = run(library, extremes, np.array([0.0, 3.0, -1.0, 4.0, 2.0]))
    assert set(got) == {"lo", "hi"}
    agree(got["lo"], [-1, -1, -1])
    agree(got["hi"], [3, 4, 4])


def test_t_spectrum_of_each_window(library):
    def magnitude(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.abs(xp.fft.rfft(x))

    x = np.arange(5.0)
    expected = loop_map(lambda w: np.abs(np.fft.rfft(w)), x, [(-1, 1)])
    agree(run(library, sx.kmap(magnitude, kernel_size=3), x), expected)
    both = sx.kmap(lambda x: {"sum": total(x), "spectrum": (magnitude(x), x[1])}, kernel_size=3)
    got = run(library, both, x)
    agree(got["sum"], [3, 6, 9])
    agree(got["spectrum"][0], expected)
    agree(got["spectrum"][1], [1, 2, 3])


# U. Robin and Neumann walls


def heat_step(boundary: Any, ndim: int = 1, axis: int = 0, fixed: Any = ()) -> Any:
    """A step of heat along one axis with r = 1/4; some cells keep their values."""
    up = tuple(int(a == axis) for a in range(ndim))
    down = tuple(-o for o in up)
    F = sx.kmap(padding="same", boundary=boundary)
    F[...] = lambda u: u[(0,) * ndim] + 0.25 * (u[down] - 2 * u[(0,) * ndim] + u[up])
    for key in fixed:
        F[key] = lambda u: u[(0,) * ndim]
    return F


RADIATING = sx.boundary.Robin(2.0, 1.0, 2.0, dx=0.5, at="node")
"""du/dx = 2*(u - 1) on the left is -du/dn = 2*u - 2 with the outward normal: 2*u + du/dn = 2."""


def test_u_the_ghost_and_a_step(library):
    x = np.array([4.0, 2.0, 1.0])
    left = {0: (RADIATING, 0)}
    agree(run(library, sx.kmap(lambda u: u[-1], padding=((1, 0),), boundary=left), x), [-4, 4, 2])
    agree(run(library, heat_step(left, fixed=[-1]), x), [1.5, 2.25, 1])


def test_u_the_same_wall_on_the_right(library):
    """There the outward normal is that of x: du/dx = -2*(u - 1) is the same condition, and the numbers are mirrored."""
    agree(run(library, heat_step({0: (0, RADIATING)}, fixed=[0]), np.array([1.0, 2.0, 4.0])), [1, 2.25, 1.5])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("end", [0, 1])
def test_u_on_both_sides_of_both_axes(library, axis, end):
    """Each line of a plane that meets the wall is the rod of before."""
    rod = np.array([4.0, 2.0, 1.0]) if end == 0 else np.array([1.0, 2.0, 4.0])
    new = np.array([1.5, 2.25, 1.0]) if end == 0 else np.array([1.0, 2.25, 1.5])
    scale = np.arange(1.0, 6.0)  # 1 - u is not linear in u: other lines radiate to what is scaled alike
    x, expected = (np.multiply.outer(line, scale) for line in (rod, new))
    x, expected = (x, expected) if axis == 0 else (x.T.copy(), expected.T.copy())
    wall = sx.boundary.Robin(2.0, 1.0, 2.0 * scale, dx=0.5, at="node")
    boundary = {axis: (wall, 0) if end == 0 else (0, wall)}
    still = -1 if end == 0 else 0
    fixed = [np.s_[still, :]] if axis == 0 else [np.s_[:, still]]
    agree(run(library, heat_step(boundary, 2, axis, fixed), x), expected)


@pytest.mark.parametrize("at", ["face", "node"])
def test_u_flux_with_the_outward_normal(library, at):
    """A positive slope lets heat in on both sides: the sum grows by r*dx*slope for each of them, at faces."""
    x, dx, slope = sample(6), 0.5, 1.5
    got = run(library, heat_step(sx.boundary.Neumann(slope, dx, at=at)), x)
    ghosts = (x[0], x[-1], 1) if at == "face" else (x[1], x[-2], 2)
    line = [ghosts[0] + ghosts[2] * dx * slope, *x, ghosts[1] + ghosts[2] * dx * slope]
    agree(got, [b + 0.25 * (a - 2 * b + c) for a, b, c in zip(line, line[1:], line[2:])])
    if at == "face":
        agree(got.sum(), x.sum() + 2 * 0.25 * dx * slope)
        still = run(library, heat_step(sx.boundary.Neumann(0.0)), x)
        agree(still.sum(), x.sum())


def test_u_a_steady_state_beside_walls_stays(library):
    """u = 3*x - 1 carries heat from right to left: with the flux that it has, and as it radiates, nothing changes."""
    dx = 0.5
    x = 3 * (0.25 + dx * np.arange(6)) - 1
    walls = {0: (sx.boundary.Neumann(-3.0, dx), sx.boundary.Robin(2.0, 0.5, 2.0 * 8 + 0.5 * 3.0, dx))}  # u = 8 at x = 3
    agree(run(library, heat_step(walls), x), x)


# V. Life


def life(x: Any) -> Any:
    xp = x.__array_namespace__()
    count = xp.sum(xp.astype(x, xp.int32))
    alive = (count == 3) | ((count == 4) & xp.astype(x[1, 1], xp.bool))
    return xp.where(alive, xp.ones((), dtype=x.dtype), xp.zeros((), dtype=x.dtype))


def life_by_rolling(x: np.ndarray) -> np.ndarray:
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]
    count = sum(np.roll(x.astype(int), shift, (0, 1)) for shift in around)
    return ((count == 3) | ((count == 2) & (x != 0))).astype(x.dtype)


def generations(library: Any, x: np.ndarray, steps: int) -> np.ndarray:
    step = sx.kmap(life, kernel_size=3, padding="same", boundary="wrap", backend=library.backend)
    world = library.array(x)
    for _ in range(steps):
        world = step(world)
    return to_numpy(library, world)


@pytest.mark.parametrize("dtype", [bool, np.uint8])
def test_v_blinker_and_glider_on_a_torus(library, dtype):
    blinker, glider = np.zeros((5, 5), dtype), np.zeros((6, 6), dtype)
    blinker[2, 1:4] = 1
    glider[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
    np.testing.assert_array_equal(generations(library, blinker, 1), blinker.T)
    np.testing.assert_array_equal(generations(library, glider, 4), np.roll(glider, (1, 1), (0, 1)))
    back = generations(library, glider, 24)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, glider)


@pytest.mark.parametrize("dtype", [bool, np.uint8])
def test_v_random_worlds(library, dtype):
    world = np.random.default_rng(3).integers(0, 2, (4, 7)).astype(dtype)
    expected = world
    for _ in range(5):
        expected = life_by_rolling(expected)
    assert expected.any()
    np.testing.assert_array_equal(generations(library, world, 5), expected)


# W. Upwind where


def upwind(library: Any, boundary: Any) -> Any:
    where = jnp.where if library.backend == "jax" else None

    def kernel(u: Any, c: Any) -> Any:
        pick = where or u[0].__array_namespace__().where
        return pick(c[0] > 0, u[0] - u[-1], u[1] - u[0])

    return sx.kmap(kernel, fields=2, padding="same", boundary=boundary)


@pytest.mark.parametrize("boundary", ["wrap", "edge", 1.5, sx.boundary.Extrapolate(1)], ids=str)
@pytest.mark.parametrize("n", [7, 4])
def test_w_upwind_differences(library, n, boundary):
    """The direction is each cell's own: both signs, and zero, in one array."""
    u, c = sample(n), sample(n, seed=1)
    c[1] = 0.0
    assert (c > 0).any()
    assert (c < 0).any()
    stencil = upwind(library, {"u": boundary, "c": 0})
    line = {
        "wrap": lambda: np.pad(u, 1, mode="wrap"),
        "edge": lambda: np.pad(u, 1, mode="edge"),
        "1.5": lambda: np.pad(u, 1, constant_values=1.5),
        "extrapolate of order 1": lambda: np.pad(u, 1, mode="reflect", reflect_type="odd"),
    }[str(boundary)]()
    expected = [line[i + 1] - line[i] if c[i] > 0 else line[i + 2] - line[i + 1] for i in range(n)]
    agree(run(library, stencil, u, c), expected)


def test_w_a_step_of_transport_in_a_plane(library):
    """Upwind in a plane with dx unlike dy, wind that turns: a step against plain loops."""
    u, c, d = sample(4, 5), sample(4, 5, seed=1) / 8, sample(4, 5, seed=2) / 8
    dt, dx, dy = 0.125, 0.5, 0.25

    def step(u: Any, c: Any, d: Any) -> Any:
        pick = jnp.where if library.backend == "jax" else u[0, 0].__array_namespace__().where
        along = pick(c[0, 0] > 0, u[0, 0] - u[-1, 0], u[1, 0] - u[0, 0])
        across = pick(d[0, 0] > 0, u[0, 0] - u[0, -1], u[0, 1] - u[0, 0])
        return u[0, 0] - dt * (c[0, 0] * along / dx + d[0, 0] * across / dy)

    boundary = {"u": {0: "wrap", 1: ("edge", sx.boundary.Dirichlet(2.0))}, "c": 0, "d": 0}
    wide = np.pad(u, ((1, 1), (0, 0)), mode="wrap")
    wide = np.concatenate([wide[:, :1], wide, 4 - wide[:, -1:]], 1)
    expected = np.empty((4, 5))
    for i, j in np.ndindex(4, 5):
        here = wide[i + 1, j + 1]
        along = here - wide[i, j + 1] if c[i, j] > 0 else wide[i + 2, j + 1] - here
        across = here - wide[i + 1, j] if d[i, j] > 0 else wide[i + 1, j + 2] - here
        expected[i, j] = here - dt * (c[i, j] * along / dx + d[i, j] * across / dy)
    agree(run(library, sx.kmap(step, fields=3, padding="same", boundary=boundary), u, c, d), expected)
