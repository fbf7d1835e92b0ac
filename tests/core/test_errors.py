"""Every error text of the core, word by word: message, the user's line, Note and Hint; its kind and its builtin."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import stencilx as sx
from stencilx import errors
from stencilx.boundary import (
    Constant,
    Dirichlet,
    Edge,
    Extrapolate,
    Neumann,
    Reflect,
    Robin,
    Symmetric,
    Wrap,
)

ARRAY = np.arange(15.0).reshape(3, 5)
LINE = np.arange(1.0, 6.0)
BYTES = np.arange(15, dtype=np.uint8).reshape(3, 5)


def total(u: Any) -> Any:
    return u.sum()


def both(u: Any, h: Any) -> Any:
    return u.sum() + h.sum()


def kmap(kernel: Any = None, **options: Any) -> Any:
    return sx.kmap(kernel, backend="numpy", **options)


def raised(call: Callable[[], Any], kind: type[sx.StencilError], builtin: type[Exception]) -> str:
    """The text of the error that a call raises: of that very kind, which the builtin also catches."""
    with pytest.raises(builtin) as caught:
        call()
    assert type(caught.value) is kind
    assert isinstance(caught.value, sx.StencilError)
    return str(caught.value)


def shown(kernel: Callable[..., Any]) -> str:
    """The last line of a kernel as errors show it."""
    lines, first = inspect.getsourcelines(kernel)
    source = lines[-1].strip()
    return f"  at {__file__}:{first + len(lines) - 1}, in {kernel.__name__}\n      {source}\n      {'^' * len(source)}"


# The kinds


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (sx.WindowError, ValueError),
        (sx.OffsetError, IndexError),
        (sx.FieldError, ValueError),
        (sx.BoundaryError, ValueError),
        (sx.RegionError, ValueError),
        (sx.RegionIndexError, IndexError),
        (sx.RegionIndexError, sx.RegionError),
        (sx.KernelError, TypeError),
        (sx.BackendError, ValueError),
        (sx.BackendImportError, ImportError),
        (sx.BackendImportError, sx.BackendError),
    ],
)
def test_kinds(kind: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(kind, sx.StencilError)
    assert issubclass(kind, builtin)


def test_parts_of_a_text() -> None:
    whole = sx.StencilError("It is so.", where="  at x.py:3, in f", note="a fact.", hint="do this.")
    assert str(whole) == "It is so.\n  at x.py:3, in f\nNote: a fact.\nHint: do this."
    assert str(sx.StencilError("It is so.", hint="do this.")) == "It is so.\nHint: do this."
    assert str(sx.StencilError("It is so.")) == "It is so."


def test_words() -> None:
    assert [errors.plural(n, "axis") for n in (0, 1, 2)] == ["0 axes", "1 axis", "2 axes"]
    assert [errors.plural(n, "entry") for n in (1, 3)] == ["1 entry", "3 entries"]
    assert [errors.plural(n, "cell") for n in (1, 3)] == ["1 cell", "3 cells"]
    assert [errors.join(words) for words in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def test_did_you_mean() -> None:
    assert errors.did_you_mean("wrp", ["edge", "wrap"]) == "did you mean 'wrap'?"
    assert errors.did_you_mean("zzz", ["wrap", "edge"]) == "choose one of 'edge', 'wrap'."
    assert errors.did_you_mean("zzz", []) is None


# Offsets: the user's line is shown


def reads_two_ahead(u: Any) -> Any:
    return u[0, 2]


def reads_two_behind(u: Any) -> Any:
    return u[-2, 0]


def reads_a_long_slice(u: Any) -> Any:
    return u[-1:3, 0]


def reads_by_name(u: Any) -> Any:
    return u["i+2", "j"]


def reads_no_name(u: Any) -> Any:
    return u["jj-1", "i"]


def reads_no_offset(u: Any) -> Any:
    return u["i*2", "j"]


def names_an_axis_twice(u: Any) -> Any:
    return u["i", "i+1"]


def reads_one_axis(u: Any) -> Any:
    return u[1]


def reads_three_axes(u: Any) -> Any:
    return u[1, ..., 0, 0]


def reads_two_ellipses(u: Any) -> Any:
    return u[..., 0:1, ...]


def reads_a_fraction(u: Any) -> Any:
    return u[0.5, 0]


def reads_by_truth(u: Any) -> Any:
    return u[0, True]


def steps_back(u: Any) -> Any:
    return u[1:-1:-1, 0]


def slices_by_fraction(u: Any) -> Any:
    return u[0, 0:1.5]


OFFSETS = [
    (
        reads_two_ahead,
        "field 'u' has no offset 2 on axis 1: its window there is -1..1.\n{line}\n"
        "Hint: take a larger kernel_size (5 on axis 1), or leave kernel_size out to have it inferred.",
    ),
    (
        reads_two_behind,
        "field 'u' has no offset -2 on axis 0: its window there is -1..1.\n{line}\n"
        "Hint: take a larger kernel_size (5 on axis 0), or leave kernel_size out to have it inferred.",
    ),
    (
        reads_a_long_slice,
        "field 'u' has no offset 2 (slice -1:3) on axis 0: its window there is -1..1.\n{line}\n"
        "Hint: take a larger kernel_size (5 on axis 0), or leave kernel_size out to have it inferred.",
    ),
    (
        reads_by_name,
        "field 'u' has no offset 2 on axis 0: its window there is -1..1.\n{line}\n"
        "Hint: take a larger kernel_size (5 on axis 0), or leave kernel_size out to have it inferred.",
    ),
    (reads_no_name, "'jj-1' is no offset of field 'u'.\n{line}\nHint: did you mean 'j'?"),
    (reads_no_offset, "'i*2' is no offset of field 'u'.\n{line}\nHint: choose one of 'i', 'j'."),
    (names_an_axis_twice, "u['i', 'i+1'] names axis 0 twice.\n{line}"),
    (
        reads_one_axis,
        "u[1] must give one offset for each of the 2 axes of field 'u'.\n{line}\nHint: the centre is u[0, 0].",
    ),
    (
        reads_three_axes,
        "u[1, ..., 0, 0] must give one offset for each of the 2 axes of field 'u'.\n{line}\n"
        "Hint: the centre is u[0, 0].",
    ),
    (
        reads_two_ellipses,
        "u[..., 0:1, ...] must give one offset for each of the 2 axes of field 'u'.\n{line}\n"
        "Hint: the centre is u[0, 0].",
    ),
    (reads_a_fraction, "an offset of field 'u' must be a whole number, not float 0.5.\n{line}"),
    (reads_by_truth, "an offset of field 'u' must be a whole number, not bool True.\n{line}"),
    (steps_back, "slice 1:-1:-1 on axis 0 must have a positive step.\n{line}"),
    (slices_by_fraction, "an offset of field 'u' must be a whole number, not float 1.5.\n{line}"),
]


@pytest.mark.parametrize(("kernel", "text"), OFFSETS, ids=[kernel.__name__ for kernel, _ in OFFSETS])
def test_offset_errors(kernel: Callable[..., Any], text: str) -> None:
    F = kmap(kernel, kernel_size=3, named_axis={0: "i", 1: "j"})
    assert raised(lambda: F(ARRAY), sx.OffsetError, IndexError) == text.format(line=shown(kernel))


def test_the_window_of_a_dilated_axis_counts_taps() -> None:
    F = kmap(reads_two_ahead, kernel_size=(1, 2), dilation=(1, 2), relative=True)
    assert raised(lambda: F(ARRAY), sx.OffsetError, IndexError).startswith(
        "field 'u' has no offset 2 on axis 1: its window there is 0..1.\n"
    )


def test_name_without_named_axis() -> None:
    assert raised(lambda: kmap(reads_by_name)(ARRAY), sx.OffsetError, IndexError) == (
        f"'i+2' is no offset of field 'u'.\n{shown(reads_by_name)}\n"
        "Note: the stencil has no named_axis.\n"
        "Hint: name the axes: named_axis={0: 'i', 1: 'j'}."
    )


class Traced:
    """A number that is not known yet, as a tracer's."""

    dtype = "int32"

    def __index__(self) -> int:
        raise RuntimeError("not known")


def reads_at_run_time(u: Any) -> Any:
    return u[Traced(), 0]


def test_data_dependent_offset() -> None:
    F = kmap(reads_at_run_time, kernel_size=3, relative=True)
    assert raised(lambda: F(ARRAY), sx.OffsetError, IndexError) == (
        "an offset of field 'u' must be a whole number, not Traced known only at run time: a data-dependent offset.\n"
        f"{shown(reads_at_run_time)}\n"
        "Hint: read the whole window, u[...], and pick from it with the backend's own indexing."
    )


# Windows that are inferred have no ends


def reads_an_open_slice(u: Any) -> Any:
    return u[:2, 0]


def reads_all(u: Any) -> Any:
    return u[...]


def asks_for_the_shape(u: Any) -> Any:
    return u.shape[0]


INFERRED = "the window of field 'u' is inferred from the offsets that are read."
NEEDED = "Hint: give kernel_size, or write both ends of the slice."


def test_open_slice_of_an_inferred_window() -> None:
    assert raised(lambda: kmap(reads_an_open_slice)(ARRAY), sx.OffsetError, IndexError) == (
        f"slice :2 on axis 0 has an open end: {INFERRED}\n{shown(reads_an_open_slice)}\n{NEEDED}"
    )


def test_all_of_an_inferred_window() -> None:
    assert raised(lambda: kmap(reads_all)(ARRAY), sx.OffsetError, IndexError) == (
        f"u[...] has no known shape: {INFERRED}\n{shown(reads_all)}\nHint: give kernel_size."
    )


def test_shape_of_an_inferred_window() -> None:
    assert raised(lambda: kmap(asks_for_the_shape)(ARRAY), sx.OffsetError, IndexError) == (
        f"u.shape is unknown: {INFERRED}\n{shown(asks_for_the_shape)}\nHint: give kernel_size."
    )


# A window is no array


def makes_an_array(u: Any) -> Any:
    return np.asarray(u)


def sums_the_window(u: Any) -> Any:
    return np.sum(u)


def takes_the_sine(u: Any) -> Any:
    return np.sin(u)


def iterates(u: Any) -> Any:
    return [2 * value for value in u]


def asks_whether(u: Any) -> Any:
    return 1 if u else 0


NO_ARRAY = (
    "the window of field 'u' is indexed by offset; it is not an array.\n{line}\n"
    "Hint: for the array of the whole window write u[...], as in jnp.sum(u[...])."
)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (makes_an_array, NO_ARRAY),
        (sums_the_window, NO_ARRAY),
        (takes_the_sine, NO_ARRAY),
        (
            iterates,
            "the window of field 'u' cannot be iterated over.\n{line}\n"
            "Hint: iterate over the array: for value in u[...].",
        ),
        (asks_whether, "the window of field 'u' has no truth value.\n{line}"),
    ],
)
def test_a_window_is_no_array(kernel: Callable[..., Any], text: str) -> None:
    F = kmap(kernel, kernel_size=3, relative=True)
    assert raised(lambda: F(ARRAY), sx.KernelError, TypeError) == text.format(line=shown(kernel))


# kernel_size, strides, dilation, padding, offset

WINDOWS = [
    (
        {"kernel_size": 7},
        "the window of field 'u' spans 7 cells on axis 0, more than the 3 there are with padding.\n"
        "Note: shape (3, 5), window -3..3, -3..3, dilation (1, 1), padding ((0, 0), (0, 0)).\n"
        "Hint: give a smaller kernel_size, or more padding (padding='same').",
    ),
    (
        {"kernel_size": (1, 3), "dilation": (1, 4), "padding": (0, (1, -1))},
        "the window of field 'u' spans 9 cells on axis 1, more than the 5 there are with padding.\n"
        "Note: shape (3, 5), window 0..0, -1..1, dilation (1, 4), padding ((0, 0), (1, -1)).\n"
        "Hint: give a smaller kernel_size, or more padding (padding='same').",
    ),
    (
        {"kernel_size": (3, 3, 3)},
        "kernel_size=(3, 3, 3) has 3 entries, but field 'u' has 2 axes.\nHint: give one entry for each axis.",
    ),
    (
        {"kernel_size": (3,)},
        "kernel_size=(3,) has 1 entry, but field 'u' has 2 axes.\nHint: give one entry for each axis.",
    ),
    ({"strides": (1,)}, "strides=(1,) has 1 entry, but field 'u' has 2 axes.\nHint: give one entry for each axis."),
    ({"dilation": [1]}, "dilation=[1] has 1 entry, but field 'u' has 2 axes.\nHint: give one entry for each axis."),
    ({"padding": ()}, "padding=() has 0 entries, but field 'u' has 2 axes.\nHint: give one entry for each axis."),
    ({"kernel_size": 0}, "kernel_size on axis 0 must be 1 or more, or -1 for the whole axis, not 0."),
    ({"kernel_size": (3, -2)}, "kernel_size on axis 1 must be 1 or more, or -1 for the whole axis, not -2."),
    ({"kernel_size": 1.5}, "kernel_size on axis 0 must be a whole number, not 1.5."),
    ({"kernel_size": (3, "3")}, "kernel_size on axis 1 must be a whole number, not '3'."),
    ({"kernel_size": True}, "kernel_size on axis 0 must be a whole number, not True."),
    ({"strides": 0}, "strides on axis 0 must be 1 or more, not 0."),
    ({"strides": (1, -1)}, "strides on axis 1 must be 1 or more, not -1."),
    ({"strides": 2.0}, "strides on axis 0 must be a whole number, not 2.0."),
    ({"dilation": (1, 0)}, "dilation on axis 1 must be 1 or more, not 0."),
    ({"dilation": None}, "dilation on axis 0 must be a whole number, not None."),
    ({"padding": "full"}, "padding on axis 0 must be 'valid', 'same' or numbers, not 'full'."),
    ({"padding": ("same", "vald")}, "padding on axis 1 must be 'valid', 'same' or numbers, not 'vald'."),
    ({"padding": 1.5}, "padding on axis 0 must be a whole number, not 1.5."),
    ({"padding": (0, (1, 2, 3))}, "padding on axis 1 must be a number or (before, after), not (1, 2, 3)."),
    ({"padding": ((1, 0.5), 0)}, "padding on axis 0 must be a whole number, not 0.5."),
]


@pytest.mark.parametrize(("options", "text"), WINDOWS, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_window_errors(options: dict[str, Any], text: str) -> None:
    F = kmap(total, **{"kernel_size": 3, **options})
    assert raised(lambda: F(ARRAY), sx.WindowError, ValueError) == text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"offset": (1, 0, 0)},
            "offset=(1, 0, 0) has 3 entries, but field 'u' has 2 axes.\nHint: give one entry for each axis.",
        ),
        ({"offset": -1}, "offset on axis 0 must be 0 or more on both sides, not (-1, -1)."),
        ({"offset": (0, (1, -2))}, "offset on axis 1 must be 0 or more on both sides, not (1, -2)."),
        ({"offset": 1.5}, "offset on axis 0 must be a whole number, not 1.5."),
        ({"offset": "same"}, "offset on axis 0 must be a whole number, not 'same'."),
        ({"offset": ((1, 2, 3), 0)}, "offset on axis 0 must be a number or (before, after), not (1, 2, 3)."),
        ({"offset": (2, 0)}, "offset (2, 2) leaves no cell on axis 0 of field 'u', which has 3."),
    ],
    ids=str,
)
def test_offset_of_smap(options: dict[str, Any], text: str) -> None:
    F = sx.smap(total, kernel_size=3, backend="numpy", **options)
    assert raised(lambda: F(ARRAY), sx.WindowError, ValueError) == text


def test_a_pair_for_the_one_axis_there_is() -> None:
    padded, margin = kmap(total, kernel_size=3, padding=(1, 0)), sx.smap(total, kernel_size=3, offset=(1, 0))
    hint = "Hint: give one entry for each axis; for the two sides of the one axis write {0}=((1, 0),)."
    for what, call in (("padding", padded), ("offset", margin)):
        text = raised(lambda call=call: call(LINE), sx.WindowError, ValueError)
        assert text == f"{what}=(1, 0) has 2 entries, but field 'u' has 1 axis.\n{hint.format(what)}"


def test_a_pair_for_what_takes_no_pairs() -> None:
    assert raised(lambda: kmap(total, kernel_size=(3, 1))(LINE), sx.WindowError, ValueError) == (
        "kernel_size=(3, 1) has 2 entries, but field 'u' has 1 axis.\nHint: give one entry for each axis."
    )


# named_axis

NAMED = "named_axis takes axis numbers and their names, {{0: 'i', 1: 'j'}}, not {0!r}."


@pytest.mark.parametrize(
    ("named_axis", "text"),
    [
        ({"i": 0}, "an axis in named_axis must be a whole number, not 'i'."),
        ({0.5: "i"}, "an axis in named_axis must be a whole number, not 0.5."),
        ({0: 1}, NAMED.format({0: 1})),
        ({0: "i+1"}, NAMED.format({0: "i+1"})),
        ({0: "i", 1: "i"}, NAMED.format({0: "i", 1: "i"})),
        (["i", "j"], NAMED.format(["i", "j"])),
    ],
    ids=str,
)
def test_named_axis_errors(named_axis: Any, text: str) -> None:
    assert raised(lambda: kmap(total, named_axis=named_axis), sx.WindowError, ValueError) == text


@pytest.mark.parametrize("axis", [2, -3])
def test_named_axis_that_is_not_there(axis: int) -> None:
    assert raised(lambda: kmap(total, named_axis={axis: "k"})(ARRAY), sx.WindowError, ValueError) == (
        f"named_axis names axis {axis} 'k', but field 'u' has 2 axes."
    )


def test_named_axis_counted_from_the_end() -> None:
    F = kmap(lambda u: u["j+1", "i"], named_axis={-1: "j", 0: "i"})
    np.testing.assert_array_equal(F(ARRAY), ARRAY[:, 1:])


# Fields


def test_fields_whose_grids_differ() -> None:
    F = kmap(both, kernel_size={"u": 3, "h": 2}, padding={"u": "same", "h": (1, 0)}, fields=("u", "h"))
    assert raised(lambda: F(ARRAY, np.zeros((4, 5))), sx.FieldError, ValueError) == (
        "the fields give different output grids:\n"
        "  u: shape (3, 5), window -1..1, -1..1, padding ((1, 1), (1, 1)) -> grid (3, 5)\n"
        "  h: shape (4, 5), window 0..1, 0..1, padding ((1, 1), (0, 0)) -> grid (5, 4)\n"
        "Hint: a face field of n+1 values beside n cells takes kernel_size=2 and padding='valid': "
        "give kernel_size and padding by field, kernel_size={'u': 3, 'f': 2}."
    )


@pytest.mark.parametrize("what", ["kernel_size", "padding"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"u": 1, "h": 1, "q": 1}, "{what} by field names 'q', which is no field: the fields are 'u', 'h'."),
        ({"u": 1}, "{what} by field lacks field 'h': the fields are 'u', 'h'."),
    ],
    ids=str,
)
def test_options_by_field(what: str, value: dict[str, int], text: str) -> None:
    F = kmap(both, fields=("u", "h"), **{"kernel_size": 1, what: value})
    assert raised(lambda: F(ARRAY, ARRAY), sx.WindowError, ValueError) == text.format(what=what)


def test_boundary_by_field() -> None:
    F = kmap(both, fields=("u", "h"), kernel_size=3, boundary={"u": "wrap", "hh": 0})
    assert raised(lambda: F(ARRAY, ARRAY), sx.FieldError, ValueError) == (
        "boundary names field 'hh', and there is no such field.\nHint: did you mean 'h'?"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (("u", "hh"), "fields names 'hh', but the parameters of both are u, h.\nHint: did you mean 'h'?"),
        ("x", "fields names 'x', but the parameters of both are u, h.\nHint: choose one of 'h', 'u'."),
        (("u", "u"), "fields names 'u' twice."),
        ((1,), "fields must be a number or names, not (1,)."),
    ],
    ids=str,
)
def test_fields_that_are_no_parameters(fields: Any, text: str) -> None:
    assert raised(lambda: kmap(both, fields=fields, kernel_size=1)(ARRAY, ARRAY), sx.FieldError, ValueError) == text


def test_fields_of_a_kernel_that_does_not_tell() -> None:
    assert raised(lambda: kmap(max, fields=("u",), kernel_size=1)(ARRAY), sx.FieldError, ValueError) == (
        "fields names 'u', but max does not tell the names of its parameters.\nHint: give fields by number, fields=1."
    )


@pytest.mark.parametrize("fields", [0, -1, ()])
def test_no_field(fields: Any) -> None:
    assert raised(lambda: kmap(total, fields=fields), sx.FieldError, ValueError) == "a stencil has at least one field."


def test_fields_must_be_a_whole_number() -> None:
    assert (
        raised(lambda: kmap(total, fields=1.5), sx.WindowError, ValueError) == "fields must be a whole number, not 1.5."
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "both takes 2 fields (u, h), and the call gives 0 arguments."),
        ((ARRAY,), "both takes 2 fields (u, h), and the call gives 1 argument."),
    ],
)
def test_too_few_arguments(arguments: tuple[Any, ...], text: str) -> None:
    F = kmap(both, fields=2, kernel_size=1)
    assert raised(lambda: F(*arguments), sx.FieldError, ValueError) == text


@pytest.mark.parametrize("value", [1.5, np.float64(1.5), np.array(1.5)])
def test_a_field_that_is_a_scalar(value: Any) -> None:
    assert raised(lambda: kmap(total, kernel_size=1)(value), sx.FieldError, ValueError) == (
        "field 'u' must be an array with at least one axis, not a single number."
    )


# Kernels


def test_no_kernel_yet() -> None:
    assert raised(lambda: kmap(kernel_size=1)(ARRAY), sx.RegionError, ValueError) == (
        "the stencil has no kernel yet.\nHint: decorate one, or assign to regions: F[...] = kernel."
    )


@pytest.mark.parametrize("kernel", [3, (3, 3)])
@pytest.mark.parametrize("make", [sx.kmap, sx.smap])
def test_a_kernel_that_is_no_function(make: Callable[..., Any], kernel: Any) -> None:
    kind = make.__name__
    assert raised(lambda: make(kernel), sx.KernelError, TypeError) == (
        f"{kind} takes a function, not {kernel}.\nHint: all else is given by keyword: @{kind}(kernel_size={kernel})."
    )


def a_pair(u: Any) -> Any:
    return u.sum(), 1.0


def a_row(u: Any) -> Any:
    return u[0]


def test_results_that_are_no_scalars() -> None:
    for kernel, what in ((a_row, "an array of shape (3,)"), (a_pair, "2 values")):
        F = sx.smap(kernel, kernel_size=3, backend="numpy")
        assert raised(lambda F=F: F(ARRAY), sx.KernelError, TypeError) == (
            f"one number is written into each cell, but {kernel.__name__} returns {what}.\n"
            "Hint: return a scalar, or use kmap, whose results may be arrays and trees."
        )


def test_kernels_whose_results_differ() -> None:
    F = kmap(kernel_size=3)
    F[...] = total
    hint = "\nHint: all regions make up one output, so their results need the same structure and shape."
    for kernel, what in ((a_row, "shape (3,)"), (a_pair, "a tree of 2 leaves (a scalar, a scalar)")):
        F[0, 1:] = kernel
        assert raised(lambda: F(ARRAY), sx.RegionError, ValueError) == (
            f"the kernels of the regions return different things: total a scalar, {kernel.__name__} {what}.{hint}"
        )


# Regions


def on_background(key: Any, value: Any = 0.0) -> Any:
    F = kmap(total, kernel_size=1)
    F[key] = value
    return F


REGIONS = [
    (3, "3", "index 3 is out of range on axis 0, which has 3 cells"),
    (-4, "-4", "index -4 is out of range on axis 0, which has 3 cells"),
    ((0, 5), "0, 5", "index 5 is out of range on axis 1, which has 5 cells"),
    ((..., 9), "..., 9", "index 9 is out of range on axis 1, which has 5 cells"),
    ([0, 7], "[0, 7]", "index 7 is out of range on axis 0, which has 3 cells"),
    ((0, 0, 0), "0, 0, 0", "it indexes 3 axes"),
    ((..., 0, 0, 0), "..., 0, 0, 0", "it indexes 3 axes"),
    ((..., 0, ...), "..., 0, ...", "it has more than one '...'"),
    (np.ones(4, bool), "<mask of shape (4,)>", "its mask has 4 entries for 3 cells on axis 0"),
    ((0, np.ones(3, bool)), "0, <mask of shape (3,)>", "its mask has 3 entries for 5 cells on axis 1"),
    (
        np.ones((3, 4), bool),
        "<mask of shape (3, 4)>",
        "boolean index did not match indexed array along axis 1; size of axis is 5 but size of corresponding boolean "
        "axis is 4",
    ),
    (([0, 1], [0, 9]), "[0, 1], [0, 9]", "index 9 is out of bounds for axis 1 with size 5"),
    (
        ([0, 1], [0, 1, 2]),
        "[0, 1], [0, 1, 2]",
        "shape mismatch: indexing arrays could not be broadcast together with shapes (2,) (3,)",
    ),
    (1.5, "1.5", "1.5 is no index"),
    (None, "None", "None is no index"),
    (True, "True", "True is no index"),
    ("a", "'a'", "'a' is no index"),
    ([0.5], "[0.5]", "indices must be whole numbers, not float64"),
    (slice(0, 1.5), "0:1.5", "slice ends must be whole numbers"),
]


@pytest.mark.parametrize(("key", "shown_as", "reason"), REGIONS, ids=[text for _, text, _ in REGIONS])
def test_region_keys(key: Any, shown_as: str, reason: str) -> None:
    assert raised(lambda: on_background(key)(ARRAY), sx.RegionIndexError, IndexError) == (
        f"region F[{shown_as}] does not fit the grid of shape (3, 5): {reason}."
    )


def test_cells_in_no_region() -> None:
    """cases.md D."""
    F = kmap(kernel_size=1)
    F[0], F[2] = -1.0, -2.0
    assert raised(lambda: F(LINE), sx.RegionError, ValueError) == (
        "no region covers cells 1 and 3:5 of the output grid of shape (5,).\n"
        "Hint: give a background first, F[...] = kernel; later assignments win."
    )


def test_cells_of_two_axes_in_no_region() -> None:
    F = kmap(kernel_size=1)
    F[1:, 1:4] = total
    assert raised(lambda: F(ARRAY), sx.RegionError, ValueError) == (
        "no region covers cells [0, 0:5], [1:3, 0] and [1:3, 4] of the output grid of shape (3, 5).\n"
        "Hint: give a background first, F[...] = kernel; later assignments win."
    )


@pytest.mark.parametrize(("value", "name"), [("a", "str"), ([1, 2], "list"), (None, "NoneType"), ({}, "dict")])
def test_region_value_of_a_wrong_type(value: Any, name: str) -> None:
    assert raised(lambda: on_background(0, value), sx.RegionError, ValueError) == (
        f"a region takes a kernel, a number or an array, not {name}.\nHint: for a list write np.array([...])."
    )


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_region_value_of_a_wrong_shape(backend: str) -> None:
    F = on_background((0, slice(1, None)), np.ones(3)).with_backend(backend)
    assert raised(lambda: F(ARRAY), sx.RegionError, ValueError) == (
        "an array of shape (3,) does not fit region F[0, 1:], which has shape (4,)."
    )


# Boundary

RULE = "a boundary rule must be a number, a name or a rule of stencilx.boundary, not {0}."
FORMS = "Hint: by axis: {0: 'wrap', 1: 'edge'}; by side: {0: ('edge', 1.0)}; by field: {'u': 'wrap', 'h': 0.0}."
BOUNDARIES = [
    ("refect", "there is no boundary rule 'refect'.\nHint: did you mean 'reflect'?"),
    ("Wrap", "there is no boundary rule 'Wrap'.\nHint: did you mean 'wrap'?"),
    ("zzz", "there is no boundary rule 'zzz'.\nHint: choose one of 'edge', 'reflect', 'symmetric', 'wrap'."),
    (
        "mirror",
        "there is no boundary rule 'mirror'.\n"
        "Hint: scipy's 'mirror' is 'reflect' here, as in NumPy (scipy's own 'reflect' is 'symmetric').",
    ),
    ("nearest", "there is no boundary rule 'nearest'.\nHint: scipy's 'nearest' is 'edge' here, as in NumPy."),
    (
        "grid-mirror",
        "there is no boundary rule 'grid-mirror'.\nHint: scipy's 'grid-mirror' is 'symmetric' here, as in NumPy.",
    ),
    ("grid-wrap", "there is no boundary rule 'grid-wrap'.\nHint: scipy's 'grid-wrap' is 'wrap' here, as in NumPy."),
    ("replicate", "there is no boundary rule 'replicate'.\nHint: PyTorch's 'replicate' is 'edge' here, as in NumPy."),
    ("periodic", "there is no boundary rule 'periodic'.\nHint: a periodic axis is 'wrap' here, as in NumPy."),
    ("circular", "there is no boundary rule 'circular'.\nHint: a periodic axis is 'wrap' here, as in NumPy."),
    ("constant", "there is no boundary rule 'constant'.\nHint: for a constant give the number itself: boundary=0.0."),
    ("zeros", "there is no boundary rule 'zeros'.\nHint: for zeros give the number itself: boundary=0.0."),
    (None, f"{RULE.format(None)}\n{FORMS}"),
    (("wrap", "edge"), f"{RULE.format(('wrap', 'edge'))}\n{FORMS}"),
    (
        "extrapolate",
        "there is no boundary rule 'extrapolate'.\n"
        "Hint: a line through the last two cells is stencilx.boundary.Extrapolate(1).",
    ),
    (
        "Dirichlet",
        "there is no boundary rule 'Dirichlet'.\nHint: a wall with a value is stencilx.boundary.Dirichlet(value).",
    ),
    (
        "neumann",
        "there is no boundary rule 'neumann'.\n"
        "Hint: a wall with a slope is stencilx.boundary.Neumann(slope, dx); without flux Neumann(0.0).",
    ),
    (
        "robin",
        "there is no boundary rule 'robin'.\n"
        "Hint: a wall that ties value and slope is stencilx.boundary.Robin(a, b, g, dx).",
    ),
    (Constant, "Constant is a class: write Constant(value)."),
    (Wrap, "Wrap is a class: write Wrap()."),
    ({1: (Edge, 0)}, "Edge is a class: write Edge()."),
    (Dirichlet, "Dirichlet is a class: write Dirichlet(value)."),
    (Neumann, "Neumann is a class: write Neumann(slope, dx)."),
    (Robin, "Robin is a class: write Robin(a, b, g, dx)."),
    ({2: "wrap"}, "boundary names axis 2, but field 'u' has 2 axes."),
    ({-3: "wrap"}, "boundary names axis -3, but field 'u' has 2 axes."),
    ({"k": "wrap"}, "boundary names axis 'k' of field 'u', and there is no such axis."),
    ({0: ("wrap", "edge", 0)}, "the boundary of one axis is a rule or (before, after), not ('wrap', 'edge', 0)."),
    (
        {0: (0, "mirrored")},
        "there is no boundary rule 'mirrored'.\nHint: choose one of 'edge', 'reflect', 'symmetric', 'wrap'.",
    ),
]


@pytest.mark.parametrize(("boundary", "text"), BOUNDARIES, ids=[str(value) for value, _ in BOUNDARIES])
def test_boundary_errors(boundary: Any, text: str) -> None:
    text_of = raised(lambda: kmap(total, kernel_size=3, boundary=boundary)(ARRAY), sx.BoundaryError, ValueError)
    assert text_of == text


@pytest.mark.parametrize("boundary", ["refect", Wrap, {0: (0, None)}, {"u": {1: "mirror"}}], ids=str)
def test_rules_that_are_none_are_told_at_once(boundary: Any) -> None:
    """Where they are written, and not in the first call."""
    for decorator in (sx.kmap, sx.smap, sx.kscan, sx.sscan):
        with pytest.raises(sx.BoundaryError):
            decorator(boundary=boundary)


NO_VALUE = "must be a number, an array or a function of the kernel's parameters, not"
LIST = "\nHint: for a list write np.array([...])."
RULES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Constant("a"), f"'value' of Constant {NO_VALUE} str."),
    (lambda: Constant(None), f"'value' of Constant {NO_VALUE} NoneType."),
    (lambda: Wrap(add="a"), f"'add' of Wrap {NO_VALUE} str."),
    (lambda: Dirichlet([1.0, 2.0]), f"'value' of Dirichlet {NO_VALUE} list.{LIST}"),
    (lambda: Neumann((1.0,), dx=1), f"'slope' of Neumann {NO_VALUE} tuple.{LIST}"),
    (lambda: Neumann(1.0, dx=[0.5]), f"'dx' of Neumann {NO_VALUE} list.{LIST}"),
    (lambda: Robin({}, 1, 1, 1), f"'a' of Robin {NO_VALUE} dict."),
    (lambda: Robin(1, 1, "g", 1), f"'g' of Robin {NO_VALUE} str."),
    *(
        (
            lambda rule=rule: rule(at="wall"),
            f"{rule.func.__name__} stands at='face' (half a cell outside the end cell) or at='node' (the end cell "
            "itself), not at='wall'.",
        )
        for rule in (partial(Dirichlet, 1.0), partial(Neumann, 1.0, 0.5), partial(Robin, 1, 2, 3, 0.5))
    ),
    *(
        (
            lambda slope=slope: Neumann(slope),
            "Neumann needs dx, the distance of two cells: the ghosts depend on it.\n"
            "Hint: write Neumann(slope, dx=...); only Neumann(0.0) goes without.",
        )
        for slope in (-1.5, np.zeros(3), lambda t: t)
    ),
    *(
        (lambda dx=dx: Neumann(0.0, dx), f"dx of Neumann, the distance of two cells, must be positive, not {dx}.")
        for dx in (0, -0.5, float("nan"))
    ),
    (lambda: Robin(1, 1, 1, -2), "dx of Robin, the distance of two cells, must be positive, not -2."),
    (
        lambda: Robin(1, 0.0, 1, 0.5, at="node"),
        "Robin's condition at the node has no ghost where b is 0.\n"
        "Hint: for a given value take Dirichlet(value, at='node').",
    ),
    (
        lambda: Robin(-4.0, 1, np.ones(5), 0.5),
        "Robin's condition at the face has no ghost where 2*b + a*dx is 0.\n"
        "Hint: with the outward normal a and b have the same sign at a wall that loses heat.",
    ),
    *(
        (
            lambda order=order: Extrapolate(order),
            f"the order of Extrapolate must be a whole number, 0 or more, not {order!r}.",
        )
        for order in (-1, 1.0, True, "1", None)
    ),
]


@pytest.mark.parametrize(("make", "text"), RULES, ids=[text[:60] for _, text in RULES])
def test_rules_that_cannot_be(make: Callable[[], Any], text: str) -> None:
    assert raised(make, sx.BoundaryError, ValueError) == text


def test_rules_that_can_just_be() -> None:
    """On the other side of each border."""
    Neumann(np.float32(0)), Neumann(0, at="node"), Neumann(0.0, dx=1e-9)
    (
        Robin(1, 0.0, 1, 0.5),
        Robin(-4.0, 1, 1, 0.5, at="node"),
        Robin(0, 1, 1, 0.5),
        Extrapolate(0),
        Extrapolate(np.int8(2)),
    )


def pair(u: Any, t: Any, gain: Any = 2.0) -> Any:
    return u[-1, 0] + gain * t * u[0, 1]


def inflow(t: Any, u: Any) -> Any:
    return t * u


def outflow(tt: Any) -> Any:
    return tt


def profile(*, t: Any) -> Any:
    return [t, t]


FIELD = "Hint: what depends on cells near the wall is a rule (Robin, Extrapolate), or a region F[0] = kernel."
VALUES: list[tuple[Any, str]] = [
    (
        {1: np.ones(2)},
        "a boundary value of shape (2,) does not fit axis 1 of field 'u': the field has shape (3, 5), and its face "
        "there (3,).\nHint: give a number, or an array of the face's shape.",
    ),
    (
        {0: (0, Dirichlet(np.ones((3, 1))))},
        "a boundary value of shape (3, 1) does not fit axis 0 of field 'u': the field has shape (3, 5), and its face "
        "there (5,).\nHint: give a number, or an array of the face's shape.",
    ),
    (
        Neumann(lambda t: np.full(5, t), 0.5),  # on both axes: it fits the first one only
        "a boundary value of shape (5,) does not fit axis 1 of field 'u': the field has shape (3, 5), and its face "
        "there (3,).\nHint: give a number, or an array of the face's shape.",
    ),
    (
        Dirichlet(inflow),
        "the boundary function inflow(t, u) takes 'u', which is a field: a boundary value may depend on parameters "
        f"only.\n{FIELD}",
    ),
    (
        Constant(outflow),
        "the boundary function outflow(tt) takes 'tt', which is no parameter of the kernel.\nHint: did you mean 't'?",
    ),
    (
        Wrap(add=lambda mass: mass),
        "the boundary function lambda(mass) takes 'mass', which is no parameter of the kernel.\n"
        "Hint: choose one of 'gain', 't'.",
    ),
    (
        {"u": {0: (Dirichlet(profile), 0)}},
        "the boundary function profile(t) must return a number or an array, not list.",
    ),
]


@pytest.mark.parametrize(("boundary", "text"), VALUES, ids=[text[:60] for _, text in VALUES])
def test_values_that_do_not_fit_a_call(boundary: Any, text: str) -> None:
    F = kmap(pair, padding="same", boundary=boundary)
    assert raised(lambda: F(ARRAY, 1.5), sx.BoundaryError, ValueError) == text


def test_a_function_of_a_parameter_of_a_call_that_gives_none() -> None:
    F = kmap(lambda u: u[-1, 0], padding="same", boundary=Dirichlet(outflow))
    assert raised(lambda: F(ARRAY), sx.BoundaryError, ValueError) == (
        "the boundary function outflow(tt) takes 'tt', which is no parameter of the kernel.\nHint: the call gives none."
    )


@pytest.mark.parametrize(
    ("rule", "needs", "text"),
    [
        (Extrapolate(1), 2, "extrapolate of order 1"),
        (Extrapolate(3), 4, "extrapolate of order 3"),
        (Wrap(shared=True), 2, "wrap, last node shared"),
        (Dirichlet(-1.5, at="node"), 2, "dirichlet -1.5 at the node"),
        (Neumann(2, 0.5, at="node"), 2, "neumann slope 2 at the node"),
        (Robin(1, 2, np.ones(5), 0.5, at="node"), 2, "robin 1*u + 2*du/dn = array(5,) at the node"),
    ],
    ids=str,
)
def test_an_axis_that_is_too_short(rule: Any, needs: int, text: str) -> None:
    F = kmap(lambda u: u[-1, 0], padding="same", boundary={0: (rule, 0)})
    F(np.zeros((needs, 5)))
    short = np.zeros((needs - 1, 5))
    assert raised(lambda: F(short), sx.BoundaryError, ValueError) == (
        f"boundary '{text}' needs {needs} cells or more along its axis, and axis 0 of field 'u' has {needs - 1}."
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, bool])
@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Reflect(odd=True), "odd reflect"),
        (Symmetric(odd=True), "odd symmetric"),
        (Extrapolate(1), "extrapolate of order 1"),
        (Extrapolate(2), "extrapolate of order 2"),
    ],
    ids=str,
)
def test_ghosts_that_may_be_negative(dtype: Any, rule: Any, text: str) -> None:
    F = kmap(lambda u: u[-1, 0], padding="same", boundary=rule)
    name = np.dtype(dtype).name
    assert raised(lambda: F(BYTES.astype(dtype)), sx.BoundaryError, ValueError) == (
        f"boundary '{text}' may give negative ghosts, and field 'u' of dtype {name} cannot hold them.\n"
        "Hint: convert the field first: to float, or to a signed integer."
    )


@pytest.mark.parametrize("rule", [Dirichlet(1), Neumann(1, 2), Wrap(add=3), Dirichlet(np.uint8(3), at="node")], ids=str)
def test_values_of_an_unsigned_field(rule: Any) -> None:
    F = kmap(lambda u: u[-1, 0], padding="same", boundary=rule)
    assert raised(lambda: F(BYTES), sx.BoundaryError, ValueError) == (
        f"boundary '{rule}' may give negative ghosts, and field 'u' of dtype uint8 cannot hold them.\n"
        "Hint: convert the field first: to float, or to a signed integer."
    )


@pytest.mark.parametrize("value", [300, -1, np.int64(256)])
def test_boundary_value_that_does_not_fit(value: Any) -> None:
    F = kmap(total, kernel_size=3, padding="same", boundary={0: (value, 0)})
    assert raised(lambda: F(BYTES), sx.BoundaryError, ValueError) == (
        f"the boundary value {value} does not fit field 'u' of dtype uint8.\n"
        f"Hint: convert the field first, or give the value as a float: {float(value)}."
    )


@pytest.mark.parametrize("rule", ["wrap", "edge", "reflect", "symmetric"])
def test_boundary_of_an_empty_axis(rule: str) -> None:
    F = kmap(total, kernel_size=3, padding=2, boundary=rule)
    assert raised(lambda: F(np.zeros((3, 0))), sx.BoundaryError, ValueError) == (
        f"axis 1 of field 'u' is empty: boundary '{rule}' has no cell to copy."
    )


# Backends: those that fail to import are in tests/test_backends.py


@pytest.mark.parametrize(
    ("name", "hint"),
    [("nump", "did you mean 'numpy'?"), ("JAX", "choose one of {all}."), ("zzz", "choose one of {all}.")],
)
def test_unknown_backend(name: str, hint: str) -> None:
    text = f"there is no backend {name!r} installed.\nHint: {hint.format(all=', '.join(map(repr, sx.backends())))}"
    for call in (
        lambda: sx.kmap(total, backend=name),
        lambda: sx.kmap(total).with_backend(name),
        lambda: sx.use_backend(name).__enter__(),
    ):
        assert raised(call, sx.BackendError, ValueError) == text
