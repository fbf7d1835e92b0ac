"""What a call would do, in words: the text behind `stencil.explain(...)`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stencilx.backend import Arguments, Backend, Formula, Leaf
from stencilx.errors import join, plural
from stencilx.fields import FieldPlan
from stencilx.plan import Plan, RegionValue
from stencilx.regions import box_text, key_text
from stencilx.results import kernel_name

_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


@dataclass(frozen=True)
class Explanation:
    """Fields, windows, boundary, regions, schedule and cost of one call. Print it, or read its attributes."""

    name: str
    kind: str
    backend: Backend
    plan: Plan
    formulas: tuple[Formula, ...]
    kernels: Sequence[Callable[..., Any]]
    arguments: Arguments

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    @property
    def output(self) -> tuple[Leaf, ...] | None:
        """Shape and dtype of each array of the result; None where only a run can tell."""
        return self.backend.output(self.plan, self.formulas, self.arguments)

    @property
    def operations(self) -> int | None:
        """Arithmetic operations in a cell, the most that any kernel needs; None where they are not counted."""
        counts = [formula.operations for formula in self.formulas]
        return None if None in counts else max((c for c in counts if c is not None), default=0)

    @property
    def bytes(self) -> tuple[float, float]:
        """Bytes read and written for each output cell, each array counted once."""
        cells = max(self.plan.cells, 1)
        arrays = zip(self.plan.fields, self.arguments.arrays, strict=True)
        read = sum(math.prod(f.shape) * itemsize(str(array.dtype)) for f, array in arrays if f.reads)
        written = sum(math.prod(leaf.shape) * itemsize(leaf.dtype) for leaf in self.output or ())
        return read / cells, written / cells

    def _lines(self) -> Iterator[str]:
        plan = self.plan
        yield f"{self.name}: {self.kind} on backend {self.backend.name!r}"
        for f, array in zip(plan.fields, self.arguments.arrays, strict=True):
            yield from _field_lines(f, short(str(array.dtype), f.shape))
        output = self.output
        shown = "known after a run" if output is None else ", ".join(short(leaf.dtype, leaf.shape) for leaf in output)
        yield f"  output      {shown}"
        yield from _grid_lines(plan)
        for part in plan.parts:
            yield f"  region      {part}: {self._value(plan.values[part.owner])}"
        yield f"  schedule    {plan.schedule.name}: {plan.schedule.reason}"
        read, written = self.bytes
        count = "not counted" if self.operations is None else plural(self.operations, "operation")
        yield f"  per cell    {read:.3g} bytes read, {written:.3g} written; {count}"

    def _value(self, value: RegionValue) -> str:
        key = f"F[{key_text(value.key)}]"
        if value.kernel is not None:
            return f"{kernel_name(self.kernels[value.kernel])}, from {key}"
        shape = getattr(value.constant, "shape", ())
        return f"{'array of shape ' + str(tuple(shape)) if shape else value.constant}, from {key}"


def _grid_lines(plan: Plan) -> Iterator[str]:
    geometry = plan.fields[0].geometry
    for what, values in (("strides", geometry.strides), ("dilation", geometry.dilation)):
        if set(values) != {1}:
            yield f"  {what:<12}{', '.join(map(str, values))}"
    if plan.into_copy:
        names = join(plan.fields[number].name for number in plan.updates or (0,))
        yield f"  written     into a copy of {names}, at {box_text(plan.frame.cells)}"


def _field_lines(f: FieldPlan, array: str) -> Iterator[str]:
    reads = f"{plural(len(f.reads), 'read')} of {len(f.covered)}"
    yield f"  field       {f.name}: {array}, window {f.window}, {reads}"
    if any(map(any, f.geometry.padding)):
        yield f"  padding     {', '.join(map(str, f.geometry.padding))}"
    for axis, (sides, counts) in enumerate(zip(f.rules, f.ghosts, strict=True)):
        for rule, count, word in zip(sides, counts, ("before", "after"), strict=True):
            if count:
                yield f"  outside     axis {axis}, {plural(count, 'cell')} {word}: {rule}"
    if f.inside:
        rules = dict.fromkeys(str(rule) for sides in f.inside for rule in sides)
        yield f"  inside      for cells that do not exist: {join(rules)}"


def itemsize(dtype: str) -> int:
    """Bytes of one element of the dtype of that name."""
    bits = re.search(r"\d+", dtype)
    return int(bits[0]) // 8 if bits else 1


def short(dtype: str, shape: Sequence[int]) -> str:
    """`f32[3,5]`: dtype and shape as array people write them."""
    match = re.fullmatch(r"(?:.*\.)?([a-z]+)(\d*)", dtype)
    word, bits = (match[1], match[2]) if match else (dtype, "")
    return f"{_SHORT.get(word, word)}{bits}[{','.join(map(str, shape))}]"
