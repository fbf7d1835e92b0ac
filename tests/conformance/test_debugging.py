"""The NumPy backend is the debugging mode; on every library inputs stay as they are and results are its own arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import stencilx as sx

from .plain_loops import agree, sample, to_numpy

# Cell by cell, in order


def test_the_kernel_sees_the_cells_in_order(capsys):
    @sx.kmap(kernel_size=(1, 2), backend="numpy")
    def show(u: np.ndarray) -> Any:
        print(u.tolist())
        return u[0, 0]

    show(np.arange(6.0).reshape(2, 3))
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["[[0.0, 1.0]]", "[[1.0, 2.0]]", "[[3.0, 4.0]]", "[[4.0, 5.0]]"]


def test_offsets_with_a_kernel_size_are_read_cell_by_cell(capsys):
    @sx.kmap(kernel_size=3, relative=True, padding="same", boundary=-1.0, backend="numpy")
    def show(u: Any) -> Any:
        print(u[-1], u[0], u[1])
        return u[0]

    show(np.array([1.0, 2.0, 3.0]))
    assert capsys.readouterr().out.splitlines() == ["-1.0 1.0 2.0", "1.0 2.0 3.0", "2.0 3.0 -1.0"]


def test_an_inferred_window_costs_one_trial_call(capsys):
    """Its middle cell is asked first which offsets the kernel reads; then come the cells in order."""

    @sx.kmap(backend="numpy")
    def show(u: Any) -> Any:
        print(u[0], u[1])
        return u[0]

    show(np.array([1.0, 2.0, 3.0, 4.0]))
    assert capsys.readouterr().out.splitlines()[-3:] == ["1.0 2.0", "2.0 3.0", "3.0 4.0"]


def test_each_region_calls_its_own_kernel_in_the_order_of_cells():
    seen: list[tuple[str, float]] = []

    def noting(name: str) -> Any:
        def kernel(u: np.ndarray) -> Any:
            seen.append((name, float(u[0])))
            return u[0]

        return kernel

    F = sx.kmap(kernel_size=1, backend="numpy")
    F[:] = noting("all")
    F[1::2] = noting("odd")
    F[0] = -1.0
    agree(F(np.arange(10.0, 15.0)), [-1, 11, 12, 13, 14])
    assert seen == [("odd", 11.0), ("all", 12.0), ("odd", 13.0), ("all", 14.0)]


def test_a_hook_sees_real_arrays(monkeypatch):
    """`breakpoint()` in a kernel stops in each cell, with NumPy's own arrays and numbers at hand."""
    seen: list[tuple[type, tuple[int, ...], np.dtype]] = []

    @sx.kmap(kernel_size=(2, 3), padding="same", backend="numpy")
    def stopping(u: np.ndarray) -> Any:
        breakpoint()
        return u.sum()

    def hook() -> None:
        import inspect

        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        u = frame.f_back.f_locals["u"]
        seen.append((type(u), u.shape, u.dtype))

    monkeypatch.setattr("sys.breakpointhook", hook)
    stopping(sample(3, 5, dtype=np.float32))
    assert seen == [(np.ndarray, (2, 3), np.dtype(np.float32))] * 15


def test_offsets_give_numpy_numbers():
    seen: list[Any] = []

    @sx.kmap(kernel_size=3, relative=True, backend="numpy")
    def kernel(u: Any) -> Any:
        seen.extend([u[0], u[-1:2], u[...]])
        return u[0]

    kernel(np.array([1, 2, 3], np.int32))
    number, piece, whole = seen
    assert isinstance(number, np.int32)
    assert isinstance(piece, np.ndarray)
    np.testing.assert_array_equal(piece, [1, 2, 3])
    np.testing.assert_array_equal(whole, [1, 2, 3])
    assert piece.dtype == whole.dtype == np.int32


def test_any_python_works_in_a_kernel():
    """The math module, `if` on values, a data-dependent index: what other backends cannot trace."""

    @sx.kmap(kernel_size=3, backend="numpy")
    def kernel(u: np.ndarray) -> Any:
        if u[1] > 0:
            return math.sqrt(u[1])
        return u[int(np.argmax(u))]

    agree(kernel(np.array([1.0, 4.0, -3.0, 2.0, -1.0, -5.0])), [2, 4, math.sqrt(2), 2])


def test_a_kernel_that_writes_into_its_window_changes_nothing_else():
    x = sample(5)
    kept = x.copy()

    @sx.kmap(kernel_size=2, backend="numpy")
    def careless(u: np.ndarray) -> Any:
        u[:] = u[::-1].copy()
        return u[0]

    agree(careless(x), kept[1:])
    np.testing.assert_array_equal(x, kept)


# Errors keep their type and say where


def test_an_error_says_in_which_cell_region_and_window():
    @sx.kmap(kernel_size=(1, 3), padding="same", boundary=-1.0, backend="numpy")
    def kernel(u: np.ndarray) -> Any:
        return 1 // int(u[0, 1] - 5)

    with pytest.raises(ZeroDivisionError, match="integer division or modulo by zero") as info:
        kernel(np.arange(8.0).reshape(2, 4))
    assert info.value.__notes__ == [
        "in cell (1, 1) of the output grid (2, 4), region F[...]",
        "with the window of 'u' (0..0, -1..1):\n[[4. 5. 6.]]",
    ]


def test_an_error_names_the_region_that_was_assigned():
    def failing(u: Any, h: Any) -> Any:
        raise KeyError("gone")

    F = sx.kmap(fields=2, kernel_size={"u": 3, "h": 2}, padding="same", boundary="wrap", relative=True, backend="numpy")
    F[:] = lambda u, h: u[0]
    F[3:] = failing
    with pytest.raises(KeyError, match="gone") as info:
        F(np.arange(5), np.arange(10, 15))
    assert info.value.__notes__ == [
        "in cell (3) of the output grid (5,), region F[3:]",
        "with the window of 'u' (-1..1):\n[2 3 4]",
        "with the window of 'h' (0..1):\n[13 14]",
    ]


def test_an_error_of_ones_own_passes_through():
    class Mine(Exception):
        pass

    error = Mine("words")

    @sx.smap(kernel_size=1, offset=1, backend="numpy")
    def kernel(u: np.ndarray) -> Any:
        if u[0] == 7:
            raise error
        return 0.0

    with pytest.raises(Mine) as info:
        kernel(np.array([7.0, 1.0, 7.0, 7.0]))
    assert info.value is error


def test_an_error_in_an_smap_counts_the_cells_of_the_array():
    """As the keys of its regions do: the first window of a margin of one stands on cell 1."""

    @sx.smap(kernel_size=1, offset=1, backend="numpy")
    def kernel(u: np.ndarray) -> Any:
        return 1 // int(u[0])

    with pytest.raises(ZeroDivisionError) as info:
        kernel(np.array([0, 1, 0, 0]))
    assert info.value.__notes__[0] == "in cell (2) of the output grid (4,), region F[...]"


def test_an_error_goes_on_to_be_an_error_on_every_library(library):
    def kernel(u: Any) -> Any:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        sx.kmap(kernel, backend=library.backend)(library.array(sample(5)))


# The library's own arrays; inputs as they were


def own_type(library: Any) -> type:
    return type(library.array(np.zeros(1)))


def change(u: Any) -> Any:
    return 2 * u[1] + u[0]


MAKERS = {"kmap": lambda **o: sx.kmap(padding="same", **o), "smap": lambda **o: sx.smap(offset=((0, 1),), **o)}


def make(name: str, library: Any) -> Any:
    F = MAKERS[name](backend=library.backend)
    F[:] = change
    F[1] = 1.5
    F[[0, 3]] = lambda u: -u[0]
    return F


@pytest.mark.parametrize("name", MAKERS)
def test_results_are_of_the_fields_library(library, name):
    x = library.array(sample(6))
    result = make(name, library)(x)
    assert isinstance(result, own_type(library))
    assert result.dtype == x.dtype
    assert str(result.device) == str(x.device)


def test_trees_hold_arrays_of_the_fields_library(library):
    result = sx.kmap(lambda u: {"a": u[1], "b": (u[0], u[-1:2], 3.0)}, backend=library.backend)(
        library.array(sample(6))
    )
    assert all(isinstance(leaf, own_type(library)) for leaf in [result["a"], *result["b"]])


@pytest.mark.parametrize("name", MAKERS)
def test_inputs_are_never_modified(library, name):
    x, kept = library.array(sample(6)), sample(6)
    make(name, library)(x)
    np.testing.assert_array_equal(to_numpy(library, x), kept)


@pytest.mark.parametrize(
    "stencil",
    [
        sx.kmap(lambda u: u[0]),
        sx.kmap(lambda u: u[0], padding=((0, 1),)),
        sx.kmap(lambda u: u[1]),
        sx.smap(lambda u: u[0]),
        sx.smap(lambda u: u[0], offset=((2, 3),)),
        sx.kmap(lambda w: w, kernel_size=1),
        sx.kmap(lambda w: w, kernel_size=6),
    ],
    ids=["identity", "padded", "shifted", "smap", "margin", "patch of one", "patch of all"],
)
def test_the_result_has_memory_of_its_own(library, stencil):
    if library.backend == "jax":
        pytest.skip("JAX's arrays cannot be written into")
    x = library.array(sample(6))
    result = stencil.with_backend(library.backend)(x)
    result[...] = 99.0
    np.testing.assert_array_equal(to_numpy(library, x), sample(6))


def test_parameters_and_region_arrays_are_never_modified(library):
    value, weights = library.array(np.array([1.0, 2.0])), library.array(np.array([0.5, -2.0]))
    F = sx.kmap(backend=library.backend)
    F[:] = lambda u, w: u[0] * w[0] + u[1] * w[1]
    F[1:3] = value
    F[2] = 4.0
    agree(to_numpy(library, F(library.array(sample(5)), weights))[1:3], [1, 4])
    np.testing.assert_array_equal(to_numpy(library, value), [1, 2])
    np.testing.assert_array_equal(to_numpy(library, weights), [0.5, -2])


def test_results_of_two_calls_do_not_share(library):
    x = library.array(sample(6))
    F = make("kmap", library)
    first = F(x)
    kept = to_numpy(library, first).copy()
    F(library.array(-sample(6)))
    np.testing.assert_array_equal(to_numpy(library, first), kept)


# out=


@pytest.mark.parametrize("name", MAKERS)
def test_out_takes_the_result(library, name):
    x = library.array(sample(6))
    expected = to_numpy(library, make(name, library)(x))
    buffer = library.array(np.zeros(6)) if library.name != "array_api-read_only" else np.zeros(6)
    result = make(name, library)(x, out=buffer)
    agree(to_numpy(library, result), expected)
    np.testing.assert_array_equal(to_numpy(library, x), sample(6))
    if library.backend == "jax":
        assert buffer.is_deleted()
    else:
        assert result is buffer
        agree(to_numpy(library, buffer), expected)


def test_out_as_a_tree(library):
    stencil = sx.kmap(lambda u: {"a": u[1], "b": (2 * u[0],)}, backend=library.backend)
    buffers = {"a": library.array(np.zeros(5)), "b": (library.array(np.zeros(5)),)}
    if library.name == "array_api-read_only":
        buffers = {"a": np.zeros(5), "b": (np.zeros(5),)}
    result = stencil(library.array(sample(6)), out=buffers)
    agree(to_numpy(library, result["a"]), sample(6)[1:])
    agree(to_numpy(library, result["b"][0]), 2 * sample(6)[:-1])
    if library.backend != "jax":
        agree(to_numpy(library, buffers["a"]), sample(6)[1:])


@pytest.mark.parametrize(("n", "dtype"), [(5, np.float64), (6, np.float32), (7, np.float64), (1, np.float64)])
def test_out_must_fit(library, n, dtype):
    buffer = np.zeros(n, dtype)
    buffer = buffer if library.name == "array_api-read_only" else library.array(buffer)
    with pytest.raises(sx.FieldError, match="out is"):
        sx.kmap(lambda u: u[0], backend=library.backend)(library.array(sample(6)), out=buffer)


@pytest.mark.parametrize("name", MAKERS)
def test_out_may_be_the_field_itself(library, name):
    """A map reads old values only, whatever memory its result takes."""
    if library.name in ("jax", "array_api-read_only"):
        pytest.skip("these arrays cannot be written into")
    x = library.array(sample(6))
    expected = to_numpy(library, make(name, library)(library.array(sample(6))))
    make(name, library)(x, out=x)
    agree(to_numpy(library, x), expected)
