"""The plan: one frozen, hashable, printable datum, in which all fields agree on the grid."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from stencilx.boundary import Constant, Edge, Wrap
from stencilx.dependence import Schedule
from stencilx.errors import BoundaryError, FieldError
from stencilx.fields import FieldPlan, common_grid, plan_field
from stencilx.plan import Plan, RegionValue
from stencilx.regions import Frame, parts
from stencilx.walls import Sides, resolve
from stencilx.window import Geometry, Pair, padding_pairs, window_of_size

INNER, UPPER = slice(1, None), (0, slice(None))


def geometry(name: str = "u", shape: tuple[int, ...] = (3, 5), size: Any = 3, padding: Any = "same") -> Geometry:
    window, ones = window_of_size(size, shape, name), (1,) * len(shape)
    return Geometry(name, shape, window, ones, ones, padding_pairs(padding, window, ones, name))


def field(boundary: Any = "wrap", reads: Any = ((0, -1), (0, 1)), **how: Any) -> FieldPlan:
    g = geometry(**how)
    return plan_field(g, resolve(boundary, 2, {}, g.field), reads, g.grid, ())


def plan(*fields: FieldPlan, keys: tuple[Any, ...] = (..., UPPER), constant: Any = 1.5) -> Plan:
    fields = fields or (field(),)
    grid = fields[0].geometry.grid
    frame = Frame(grid, tuple(range(n) for n in grid))
    values = (*(RegionValue(key, kernel=0) for key in keys[:-1]), RegionValue(keys[-1], constant=constant))
    return Plan(fields, grid, frame, values, parts(keys, frame), into_copy=False)


def test_equal_plans_are_equal_and_have_one_hash() -> None:
    assert plan() == plan()
    assert len({plan(), plan()}) == 1


@pytest.mark.parametrize(
    "other",
    [
        plan(field("edge")),
        plan(field(reads=((0, -1),))),
        plan(field(shape=(3, 6))),
        plan(field(size=5)),
        plan(field(name="v")),
        plan(field(padding="valid")),
        plan(field(), field(name="h")),
        plan(keys=(..., INNER)),
        plan(keys=(..., UPPER, INNER)),
        dataclasses.replace(plan(), into_copy=True),
        dataclasses.replace(plan(), schedule=Schedule("cells", "asked for")),
    ],
)
def test_different_plans_differ(other: Plan) -> None:
    assert other != plan()


def test_what_stands_in_a_region_is_no_part_of_the_plan() -> None:
    """Constants are handed to compiled code as inputs; a key counts by the cells it selects."""
    assert plan(constant=1.5) == plan(constant=np.ones(5))
    assert plan(keys=(..., (slice(0, 1), ...))) == plan(keys=(..., UPPER))
    assert RegionValue(0, kernel=0) != RegionValue(0, kernel=1)
    assert RegionValue(0, kernel=0) != RegionValue(0, constant=0)


def test_a_plan_with_a_mask_has_a_hash() -> None:
    masked = plan(keys=(..., np.eye(3, 5, dtype=bool)))
    assert hash(masked) == hash(masked)
    assert masked == masked


@pytest.mark.parametrize(
    "datum", [plan(), field(), geometry(), RegionValue(0, kernel=0)], ids=lambda d: type(d).__name__
)
def test_frozen(datum: Any) -> None:
    name = dataclasses.fields(datum)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(datum, name, None)


def test_prints_what_it_holds() -> None:
    text = repr(plan())
    for part in ("field='u'", "shape=(3, 5)", "Window(lo=(-1, -1), hi=(1, 1))", "Wrap(add=0, ", "((0, -1), (0, 1))"):
        assert part in text
    assert "grid=(3, 5)" in text
    assert "Part(owner=1, cells=(range(0, 1), range(0, 5)))" in text
    assert "schedule=Schedule(name='parallel', reason='every cell reads old values'" in text


def test_a_field_tells_of_its_geometry() -> None:
    f = field({0: (1.5, "edge"), 1: 0.0})
    assert (f.name, f.shape, f.window) == ("u", (3, 5), f.geometry.window)
    assert f.joins == ()
    assert plan(f).cells == 15


def test_ghosts_are_those_of_the_window_and_not_of_the_reads() -> None:
    assert field(reads=()).ghosts == ((1, 1), (1, 1))
    assert field(padding=((0, 1), -1)).ghosts == ((0, 1), (0, 0))


@pytest.mark.parametrize(
    ("shape", "rules", "ok"),
    [((0,), (Wrap(), Wrap()), False), ((0,), (Constant(0), Constant(0)), True), ((1,), (Wrap(), Edge()), True)],
)
def test_ghosts_need_a_cell_to_copy(shape: tuple[int, ...], rules: Sides, ok: bool) -> None:
    g = geometry(shape=shape, padding=2)
    if ok:
        assert plan_field(g, (rules,), g.window, g.grid, ()).ghosts == ((2, 2),)
        return
    with pytest.raises(BoundaryError):
        plan_field(g, (rules,), g.window, g.grid, ())


# Several fields


@pytest.mark.parametrize(
    ("shape", "size", "padding"),
    [
        ((3, 5), 1, 0),
        ((4, 6), 2, "valid"),
        ((5, 5), (3, 1), 0),
        ((1, 5), (1, 1), ((1, 1), 0)),
        ((7, 8), 3, (-1, (0, -1))),
    ],
)
def test_fields_that_agree(shape: tuple[int, ...], size: Any, padding: Any) -> None:
    """Cells, corners, faces ... of which there are 3 x 5 windows each."""
    assert common_grid([geometry(), geometry("h", shape, size, padding)]) == (3, 5)


@pytest.mark.parametrize(("size", "padding"), [(1, "valid"), (3, "valid"), (2, 1), (2, ((1, 0), 0))])
def test_faces_that_do_not_agree(size: int, padding: int | tuple[Pair, int]) -> None:
    with pytest.raises(FieldError, match="the fields give different output grids"):
        common_grid([geometry(), geometry("f", (4, 6), size, padding)])
