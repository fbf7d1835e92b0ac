"""The text of the jaxpr: maps are slices, pads and arithmetic; nothing is gathered and nothing larger is stored."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from seed_way import Function, equations_of, names_of, shapes_of

import stencilx as sx

X = jnp.asarray(np.random.default_rng(8).normal(size=(5, 7)))
ARITHMETIC = {"add", "sub", "mul", "neg", "convert_element_type", "broadcast_in_dim"}
DEAR = {"gather", "scatter", "scatter-add", "dynamic_slice", "dynamic_update_slice", "concatenate", "dot_general"}
DEAR |= {"conv_general_dilated", "reduce_sum", "transpose", "select_n", "rev", "while", "scan"}


def five_points(u: Any) -> Any:
    return u[1, 0] + u[-1, 0] + u[0, 1] + u[0, -1] - 4 * u[0, 0]


def test_laplacian_with_zeros_outside() -> None:
    names = Counter(names_of(sx.kmap(five_points, padding="same"), X))
    assert set(names) <= ARITHMETIC | {"slice", "pad"}
    assert (names["slice"], names["pad"]) == (4, 4)
    assert (names["add"], names["sub"], names["mul"]) == (3, 1, 1)


def test_laplacian_valid() -> None:
    stencil = sx.kmap(five_points)
    names = Counter(names_of(stencil, X))
    assert set(names) <= ARITHMETIC | {"slice"}
    assert names["slice"] == 5
    assert shapes_of(equations_of(stencil, X)) == {(5, 7), (3, 5), ()}


def test_laplacian_on_array_windows_reads_no_more() -> None:
    def kernel(w: Any) -> Any:
        return w[2, 1] + w[0, 1] + w[1, 2] + w[1, 0] - 4 * w[1, 1]

    names = Counter(names_of(sx.kmap(kernel, kernel_size=3, padding="same"), X))
    assert set(names) <= ARITHMETIC | {"slice", "pad"}
    assert (names["slice"], names["pad"]) == (4, 4)


@pytest.mark.parametrize("boundary", [0, 1.5, -np.inf], ids=str)
def test_a_corner_read_needs_one_pad_for_each_axis_at_most(boundary: float) -> None:
    names = Counter(names_of(sx.kmap(lambda u: u[-1, 2], padding="same", boundary=boundary), X))
    assert names["slice"] == 1
    assert 1 <= names["pad"] <= 2
    assert not DEAR & set(names)


def test_smap_puts_its_result_into_a_copy() -> None:
    names = Counter(names_of(sx.smap(five_points, offset=1), X))
    assert names["slice"] == 5
    assert not {"pad", "gather", "scatter"} & set(names)


@pytest.mark.parametrize("padding", ["valid", "same"])
def test_weighted_sums_hold_no_patches(padding: str) -> None:
    weights = jnp.arange(9.0).reshape(3, 3)
    stencil = sx.kmap(lambda w, k: jnp.sum(w * k), kernel_size=3, padding=padding)
    eqns = equations_of(stencil, X, weights)
    assert max(np.prod(shape, dtype=int) for shape in shapes_of(eqns)) == X.size
    names = Counter(eqn.primitive.name for eqn in eqns)
    assert not DEAR & set(names)
    assert (names["mul"], names["add"]) == (9, 8)


def test_matrix_products_of_windows_hold_no_patches() -> None:
    stencil = sx.kmap(lambda w, k: jnp.einsum("ij,ij->", w, k), kernel_size=(2, 3))
    eqns = equations_of(stencil, X, jnp.ones((2, 3)))
    assert max(np.prod(shape, dtype=int) for shape in shapes_of(eqns)) == X.size
    assert not DEAR & {eqn.primitive.name for eqn in eqns}


MOVES: dict[str, Function] = {
    "flip": lambda w: jnp.flip(w, 0)[0],
    "roll": lambda w: jnp.roll(w, 1, axis=1)[1],
    "pad": lambda w: jnp.pad(w, 1)[1, 1:-1],
    "tile": lambda w: jnp.tile(w, (2, 1))[3],
    "repeat": lambda w: jnp.repeat(w, 2, axis=1)[1, ::2],
    "stack": lambda w: jnp.stack([w[1], w[0]])[0],
    "concatenate": lambda w: jnp.concatenate([w[1], w[0]])[2:4],
    "transpose": lambda w: w.T.reshape(2, 3)[0],
    "swapaxes": lambda w: jnp.rot90(w)[0],
    "diag": lambda w: jnp.diagonal(w, 1),
    "take": lambda w: jnp.take(w, np.array([2, 0]), axis=1)[0],
    "index arrays": lambda w: w[np.array([0, 1]), np.array([2, 0])],
    "split": lambda w: jnp.split(w, 3, axis=1)[1].ravel(),
    "strided": lambda w: w[::-1, ::2][0],
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_within_a_window_choose_among_slices(name: str) -> None:
    """Two numbers of the window are added: what moves them about leaves no equation behind."""

    def kernel(w: Any) -> Any:
        moved = MOVES[name](w).ravel()
        return moved[0] * moved[1]

    names = Counter(names_of(sx.kmap(kernel, kernel_size=(2, 3)), X))
    assert names == {"slice": 2, "mul": 1}


REDUCTIONS: dict[str, tuple[Function, str, int]] = {
    "sum": (jnp.sum, "add", 5),
    "max": (jnp.max, "max", 5),
    "min": (lambda w: w.min(axis=1)[0], "min", 2),
    "prod": (jnp.prod, "mul", 5),
    "cumsum": (lambda w: jnp.cumsum(w[0])[2], "add", 2),
    "cummax": (lambda w: jax.lax.cummax(w[0])[1], "max", 1),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_a_window_fold_slices(name: str) -> None:
    kernel, operation, count = REDUCTIONS[name]
    names = Counter(names_of(sx.kmap(kernel, kernel_size=(2, 3)), X))
    assert {key: n for key, n in names.items() if key not in ARITHMETIC - {"add", "mul"}} == {
        "slice": count + 1,
        operation: count,
    }


def test_strides_are_those_of_the_slices() -> None:
    stencil = sx.kmap(lambda u: u[0, 0] * u[1, 2], strides=(2, 3))
    slices = [eqn for eqn in equations_of(stencil, X) if eqn.primitive.name == "slice"]
    assert [eqn.params["strides"] for eqn in slices] == [(2, 3), (2, 3)]
    assert shapes_of(equations_of(stencil, X)) == {(5, 7), (2, 2)}


def test_dilation_moves_slices_apart() -> None:
    stencil = sx.kmap(lambda w: w[0, 0] - w[1, 1], kernel_size=2, dilation=(3, 2))
    slices = [eqn for eqn in equations_of(stencil, X) if eqn.primitive.name == "slice"]
    assert {eqn.params["start_indices"] for eqn in slices} == {(0, 0), (3, 2)}


def cells_of(eqns: list[Any], name: str) -> list[tuple[int, ...]]:
    return [eqn.outvars[0].aval.shape for eqn in eqns if eqn.primitive.name == name]


def test_region_kernels_see_their_own_cells_only() -> None:
    mesh = sx.kmap(padding="same")
    mesh[...] = lambda u: jnp.sin(u[1, 0])
    mesh[0] = lambda u: jnp.cos(u[0, 0])
    mesh[1:3, 2:6] = lambda u: jnp.tan(u[0, -1])
    eqns = equations_of(mesh, X)
    assert sum(map(np.prod, cells_of(eqns, "sin"))) == 35 - 7 - 8
    assert cells_of(eqns, "cos") == [(1, 7)]
    assert cells_of(eqns, "tan") == [(2, 4)]


def test_strided_regions_are_computed_with_strides() -> None:
    mesh = sx.kmap(padding="same")
    mesh[:, ::2] = lambda u: jnp.sin(u[1, 0])
    mesh[:, 1::2] = lambda u: jnp.cos(u[0, 2])
    eqns = equations_of(mesh, X)
    assert (cells_of(eqns, "sin"), cells_of(eqns, "cos")) == ([(5, 4)], [(5, 3)])
    assert {eqn.params["strides"] for eqn in eqns if eqn.primitive.name == "slice"} == {(1, 2)}


def test_a_strided_edge_does_not_cut_the_interior() -> None:
    # halves along that axis.
    mesh = sx.kmap(padding="same")
    mesh[...] = lambda u: jnp.sin(u[1, 0])
    mesh[-1, ::2] = lambda u: jnp.tan(u[0, 0])
    eqns = equations_of(mesh, X)
    assert cells_of(eqns, "tan") == [(1, 4)]
    assert (4, 7) in cells_of(eqns, "sin")
    assert len(cells_of(eqns, "sin")) == 2


def test_points_of_a_mask_are_computed_one_by_one() -> None:
    mesh = sx.smap(lambda u: jnp.sin(u[0, 0]))
    mask = np.zeros((5, 7), bool)
    mask[[1, 2, 4], [3, 6, 0]] = True
    mesh[mask] = lambda u: jnp.cos(u[0, 0])
    shapes = {eqn.primitive.name: eqn.outvars[0].aval.shape for eqn in equations_of(mesh, X)}
    assert shapes["cos"] == (3,)


def test_unread_cells_of_a_window_cost_nothing() -> None:
    names = Counter(names_of(sx.kmap(lambda w: w[4, 4] * w[0, 0], kernel_size=5, padding="same"), X))
    assert (names["slice"], names["mul"]) == (2, 1)


def test_input_gradients_are_mirrored_stencils() -> None:
    gradient = jax.grad(lambda x: jnp.sum(jnp.sin(sx.kmap(five_points, padding="same")(x))))
    names = set(names_of(gradient, X))
    assert not DEAR & names - {"reduce_sum"}


def test_walls_that_copy_cells_are_no_gathers() -> None:
    for boundary in ("wrap", "edge", "reflect", "symmetric"):
        names = set(names_of(sx.kmap(five_points, padding="same", boundary=boundary), X))
        assert not {"gather", "scatter", "dynamic_slice", "select_n"} & names


def test_compiled_code_takes_closed_over_arrays_as_arguments() -> None:
    """An array that a kernel closes over is no constant inside the compiled stencil."""
    table = jnp.arange(6.0).reshape(2, 3)
    jaxpr = jax.make_jaxpr(sx.kmap(lambda w: jnp.sum(w * table), kernel_size=(2, 3)))(X)
    calls = [eqn for eqn in jaxpr.jaxpr.eqns if "jaxpr" in eqn.params]
    assert calls
    assert all(not eqn.params["jaxpr"].consts for eqn in calls)
