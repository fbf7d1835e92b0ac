"""The text of `stencil.explain`, word by word, with a backend that only tells shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stencilx.backend import Arguments, Leaf
from stencilx.explain import Explanation, itemsize, short
from stencilx.fields import FieldPlan, plan_field
from stencilx.plan import Plan, RegionValue
from stencilx.regions import Frame, parts
from stencilx.walls import resolve
from stencilx.window import Geometry, Window, padding_pairs


class Told:
    """A backend that knows the result beforehand."""

    name = "told"

    def __init__(self, leaves: tuple[Leaf, ...] | None) -> None:
        self._leaves = leaves

    def output(self, *_: Any) -> tuple[Leaf, ...] | None:
        return self._leaves


class Counted:
    """A formula, of which only the operations are asked."""

    def __init__(self, operations: int | None) -> None:
        self.operations = operations


def field(name: str, shape: tuple[int, ...], boundary: Any, padding: Any, **steps: Any) -> FieldPlan:
    window = Window((-1, 0), (1, 1))
    strides, dilation = steps.get("strides", (1, 1)), steps.get("dilation", (1, 1))
    g = Geometry(name, shape, window, strides, dilation, padding_pairs(padding, window, dilation, name))
    return plan_field(g, resolve(boundary, 2, {}, name), ((-1, 0), (0, 1)), g.grid, ())


def explain(
    f: FieldPlan,
    leaves: tuple[Leaf, ...] | None = (Leaf((3, 5), "float32"),),
    operations: tuple[int | None, ...] = (3,),
    assignments: tuple[tuple[Any, Any], ...] = ((..., 0),),
    margin: int | None = None,
) -> Explanation:
    """Assignments name a kernel by its number, or hold a constant that is a float or an array."""
    grid = f.geometry.grid
    frame = Frame(grid, tuple(range(n) for n in grid))
    if margin is not None:
        cells = tuple(f.geometry.positions(axis, range(n), 0) for axis, n in enumerate(grid))
        frame = Frame(f.shape, cells)
    values = tuple(
        RegionValue(key, kernel=value) if type(value) is int else RegionValue(key, constant=value)
        for key, value in assignments
    )
    plan = Plan((f,), grid, frame, values, parts([key for key, _ in assignments], frame), margin is not None)
    arguments = Arguments((np.zeros(f.shape, np.float32),), {}, (0,))
    kind, formulas = "kmap" if margin is None else "smap", tuple(map(Counted, operations))
    return Explanation("slope", kind, Told(leaves), plan, formulas, [max, min], arguments)  # type: ignore[arg-type]


def test_one_field_and_one_kernel() -> None:
    told = explain(field("u", (3, 5), {0: ("edge", 1.5)}, "same"))
    assert str(told) == (
        "slope: kmap on backend 'told'\n"
        "  field       u: f32[3,5], window -1..1, 0..1, 2 reads of 6\n"
        "  padding     (1, 1), (0, 1)\n"
        "  outside     axis 0, 1 cell before: edge\n"
        "  outside     axis 0, 1 cell after: constant 1.5\n"
        "  outside     axis 1, 1 cell after: constant 0\n"
        "  output      f32[3,5]\n"
        "  region      0:3, 0:5: max, from F[...]\n"
        "  schedule    parallel: every cell reads old values\n"
        "  per cell    4 bytes read, 4 written; 3 operations"
    )
    assert repr(told) == str(told)


def test_regions_with_kernels_numbers_and_arrays() -> None:
    assignments = ((..., 0), (0, -1.0), (np.s_[1:, :2], 1), (np.s_[1:, 4], np.ones(2)))
    text = str(explain(field("u", (5, 6), 0, "valid"), assignments=assignments))
    assert [line for line in text.splitlines() if line.startswith("  region")] == [
        "  region      1:3, 2:4: max, from F[...]",
        "  region      0, 0:5: -1.0, from F[0]",
        "  region      1:3, 0:2: min, from F[1:, :2]",
        "  region      1:3, 4: array of shape (2,), from F[1:, 4]",
    ]


def test_a_mask_is_told_in_short() -> None:
    eye = np.eye(3, 5, dtype=bool)
    text = str(explain(field("u", (5, 6), 0, "valid"), assignments=((..., 0), (eye, 1.0))))
    assert "  region      3 cells in 0:3, 0:3: 1.0, from F[<mask of shape (3, 5)>]" in text


def test_nothing_is_said_of_what_is_usual() -> None:
    words = {line.split()[0] for line in str(explain(field("u", (5, 6), "wrap", "valid"))).splitlines()}
    assert words == {"slope:", "field", "output", "region", "schedule", "per"}


def test_strides_and_dilation() -> None:
    text = str(explain(field("u", (9, 9), 0, "valid", strides=(2, 1), dilation=(1, 3))))
    assert "  strides     2, 1\n  dilation    1, 3\n" in text


def test_what_is_written_into_a_copy() -> None:
    f = field("u", (7, 9), 0, ((-1, -1), (-2, -1)), strides=(2, 1))
    text = str(explain(f, leaves=(Leaf((7, 9), "float32"),), margin=1))
    assert "  written     into a copy of u, at 2:5:2, 2:7\n  region      0:2, 0:5: max, from F[...]\n" in text


def test_what_only_a_run_can_tell() -> None:
    told = explain(field("u", (3, 5), 0, "same"), leaves=None, operations=(3, None))
    assert "  output      known after a run\n" in str(told)
    assert str(told).endswith("  per cell    4 bytes read, 0 written; not counted")
    assert (told.output, told.operations) == (None, None)


def test_several_results() -> None:
    told = explain(field("u", (3, 5), 0, "same"), leaves=(Leaf((3, 5), "bool"), Leaf((3, 5, 2), "complex64")))
    assert "  output      bool[3,5], c64[3,5,2]\n" in str(told)
    assert told.bytes == (4.0, 17.0)


def test_operations_are_those_of_the_longest_kernel() -> None:
    f = field("u", (3, 5), 0, "same")
    assert [explain(f, operations=counts).operations for counts in ((3, 7, 1), (0,), ())] == [7, 0, 0]
    assert str(explain(f, operations=(1,))).endswith("; 1 operation")


@pytest.mark.parametrize(
    ("dtype", "shape", "text", "size"),
    [
        ("float32", (3, 5), "f32[3,5]", 4),
        ("float64", (), "f64[]", 8),
        ("int8", (2,), "i8[2]", 1),
        ("uint16", (2,), "u16[2]", 2),
        ("complex128", (2,), "c128[2]", 16),
        ("bfloat16", (2,), "bf16[2]", 2),
        ("bool", (2,), "bool[2]", 1),
        ("torch.float32", (2,), "f32[2]", 4),
        ("array_api_strict.int64", (2,), "i64[2]", 8),
        ("float8_e4m3fn", (2,), "float8_e4m3fn[2]", 1),
    ],
)
def test_dtypes_in_short(dtype: str, shape: tuple[int, ...], text: str, size: int) -> None:
    assert short(dtype, shape) == text
    assert itemsize(dtype) == size
