"""Stencils: what the decorators make, and the path of a call through the house.

    arguments -> backend -> [ trace -> reads -> geometry, boundary, regions -> plan -> runner ] -> result

The bracket is cached for given shapes, dtypes and options, for as long as the kernels capture the same things.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stencilx import mask, regions, walls
from stencilx.arguments import bound, by_name, field_names, field_places
from stencilx.backend import Arguments, Backend, Formula, Runner, WindowSpec, choose, load
from stencilx.capture import captured, unchanged
from stencilx.dependence import schedule
from stencilx.errors import BoundaryError, FieldError, KernelError, RegionError, WindowError, did_you_mean, plural
from stencilx.explain import Explanation
from stencilx.fields import FieldPlan, common_grid, plan_field
from stencilx.plan import Plan, RegionValue
from stencilx.results import kernel_name
from stencilx.window import (
    Geometry,
    Offset,
    Window,
    by_field,
    offset_pairs,
    padding_pairs,
    reach,
    steps,
    union,
    window_of_size,
)

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Options:
    """The keywords of a decorator, as given."""

    kernel_size: Any
    strides: Any
    dilation: Any
    boundary: Any
    relative: bool
    axis_names: Mapping[str, int]
    fields: int | tuple[str, ...]
    padding: Any = "valid"
    offset: Any = 0
    into_copy: bool = False
    sweep: bool = False
    updates: tuple[str, ...] = ()
    reverse: bool = False
    schedule: str = "auto"
    mask: Any = None
    fuse: bool = False

    @property
    def kind(self) -> str:
        return ("s" if self.into_copy else "k") + ("scan" if self.sweep else "map")

    def __str__(self) -> str:
        names = {axis: name for name, axis in self.axis_names.items()}
        place = {"offset": (self.offset, 0)} if self.into_copy else {"padding": (self.padding, "valid")}
        shown = {
            "kernel_size": (self.kernel_size, None),
            "strides": (self.strides, 1),
            "dilation": (self.dilation, 1),
            **place,
            "boundary": (self.boundary, 0),
            "mask": (self.mask if isinstance(self.mask, (str, Mapping)) or self.mask is None else "array", None),
            "relative": (self.relative and not names and self.kernel_size is not None, False),
            "named_axis": (names, {}),
            "fields": (self.fields, 1),
            "updates": (self.updates, ()),
            "reverse": (self.reverse, False),
            "schedule": (self.schedule, "auto"),
            "fuse": (self.fuse, False),
        }
        given = {name: value for name, (value, default) in shown.items() if hasattr(value, "shape") or value != default}
        return ", ".join(f"{name}={value!r}" for name, value in given.items())


@dataclass(frozen=True)
class Prepared:
    """All that is known before the arrays' values matter."""

    backend: Backend
    plan: Plan
    formulas: tuple[Formula, ...]
    runner: Runner


class Stencil:
    """A kernel, or several on regions, applied to every cell of arrays. Made by the decorators.

    Call it with the kernel's arguments, fields as whole arrays: it returns the result of every cell as one array (or
    a tree of arrays, if the kernel returns one), grid axes first. `stencil(x, out=buffer)` lets the result take the
    memory of `buffer`, which is given up on JAX and written in place elsewhere.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> F = sx.kmap(padding="same")
        >>> F[...] = lambda u: u[-1] + u[1]
        >>> F[0] = -1.0
        >>> np.asarray(F(np.array([1.0, 2.0, 3.0], np.float32)))
        array([-1.,  4.,  2.], dtype=float32)
        >>> F
        <kmap mesh of 2 regions(padding='same')>
    """

    def __init__(self, options: Options, kernel: Kernel | None = None, backend: str | None = None) -> None:
        self._options, self._backend = options, backend
        self._boundary, self._walls = walls.slotted(options.boundary)
        self._decorated = kernel
        self._assignments: list[tuple[Any, Any]] = []
        self._forget()
        if kernel is not None:
            if not callable(kernel):
                raise KernelError(
                    f"{options.kind} takes a function, not {kernel!r}.",
                    hint=f"all else is given by keyword: @{options.kind}(kernel_size={kernel!r}).",
                )
            self._assignments.append((..., kernel))
            functools.update_wrapper(self, kernel, updated=())

    def _forget(self) -> None:
        self._cache: dict[Any, Prepared] = {}
        self._captured: list[Any] = []
        self._field_places: tuple[int, ...] | None = None

    # Regions

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put a kernel, a number or an array into a region of the output grid; the last assignment wins.

        Args:
            key: indexes output cells as NumPy would: `F[0]`, `F[1:-1]`, `F[1::2]`, `F[..., 0]`, `F[[0, 3]]`, `F[mask]`.
            value: a kernel, a number, or an array that broadcasts to the region.
        """
        if not (callable(value) or isinstance(value, numbers.Number) or hasattr(value, "shape")):
            raise RegionError(
                f"a region takes a kernel, a number or an array, not {type(value).__name__}.",
                hint="for a list write np.array([...]).",
            )
        # an equal key is covered whole: what a loop assigns again and again must not pile up
        self._assignments = [known for known in self._assignments if not regions.same_key(known[0], key)]
        self._assignments.append((key, value))
        self._forget()

    # Calls

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if not self._assignments and len(args) == 1 and not kwargs and callable(args[0]) and out is None:
            return type(self)(self._options, args[0], self._backend)
        prepared, arguments = self._prepare(args, kwargs)
        return prepared.runner(arguments, out)

    def with_backend(self, name: str) -> Stencil:
        """The same stencil on the backend of that name.

        Raises:
            BackendError: there is no such backend.
        """
        load(name)
        other = type(self)(self._options, None, name)
        other._assignments = list(self._assignments)
        if self._decorated:
            other._decorated = self._decorated
            functools.update_wrapper(other, self._decorated, updated=())
        return other

    def reads(self, *args: Any, **kwargs: Any) -> dict[str, list[Offset]]:
        """The offsets, in cells from the centre, that the kernels read of each field.

        Example:
            >>> import numpy as np, stencilx as sx
            >>> sx.kmap(lambda u: u[1] - u[-1]).reads(np.zeros(5))
            {'u': [(-1,), (1,)]}
        """
        plan = self._prepare(args, kwargs)[0].plan
        found = {}
        for f in plan.fields[: len(field_names(self._options.fields, self._kernels))]:  # no masks
            found[f.name] = sorted(map(f.geometry.in_cells, f.reads))
        return found

    def schedule(self, *args: Any, **kwargs: Any) -> str:
        """In which order the cells are computed: "parallel" for a map; "rows", "cells" or "wavefront" for a sweep."""
        return self._prepare(args, kwargs)[0].plan.schedule.name

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What a call with these arguments would do; its text says it in plain words."""
        prepared, arguments = self._prepare(args, kwargs)
        return Explanation(
            self._name, self._options.kind, prepared.backend, prepared.plan, prepared.formulas, self._kernels, arguments
        )

    def __repr__(self) -> str:
        options = str(self._options)
        backend = f", backend={self._backend!r}" if self._backend else ""
        return f"<{self._options.kind} {self._name}({options}){backend}>"

    @property
    def _name(self) -> str:
        if self._decorated:
            return kernel_name(self._decorated)
        return f"mesh of {plural(len(self._assignments), 'region')}"

    @property
    def _kernels(self) -> list[Kernel]:
        """Each kernel once, in the order of its first assignment."""
        unique = {id(value): value for _, value in self._assignments if callable(value)}
        return list(unique.values())

    @property
    def surroundings(self) -> list[Any]:
        """What compiled code that calls this stencil depends on: its regions, and what their kernels capture."""
        return [self, *(part for pair in self._assignments for part in pair), *captured(self._kernels)]

    @property
    def backend(self) -> str | None:
        """The name of the backend that was chosen for it; None where each call chooses."""
        return self._backend

    # The path of a call

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Prepared, Arguments]:
        kernels = self._kernels
        arguments = self._bound(args, kwargs, kernels)
        backend = choose(self._backend, arguments.arrays)
        masks: dict[str, Any] = {}
        fields = [backend.as_field(array) for array in arguments.arrays]
        if self._walls or self._options.mask is not None:
            known, names = by_name(arguments, kernels), field_names(self._options.fields, kernels)
            arguments = replace(arguments, walls=walls.evaluated(self._walls, known, names))
            walls.check_numbers(arguments.walls, (str(field.dtype) for field in fields))
            if self._options.mask is not None:
                shapes = {name: tuple(field.shape) for name, field in zip(names, fields, strict=True)}
                masks = mask.find(self._options.mask, known, shapes)
        arguments = Arguments(*arguments.with_fields(fields), arguments.fields, arguments.walls)
        if masks:
            arguments = mask.with_masks(arguments, [backend.as_field(array, fields[0]) for array in masks.values()])
        surroundings = captured(kernels)
        known = unchanged(self._captured, surroundings)
        key = (backend.name, backend.signature(arguments))
        prepared = self._cache.get(key) if known else None
        if prepared is None:
            prepared = self._plan(backend, kernels, arguments, tuple(masks))
            if all(formula.reusable for formula in prepared.formulas):
                if not known:
                    self._forget()
                self._cache[key], self._captured = prepared, surroundings
        return prepared, arguments

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any], kernels: list[Kernel]) -> Arguments:
        """The call's arguments with the fields by position."""
        if not self._assignments:
            raise RegionError(
                "the stencil has no kernel yet.", hint="decorate one, or assign to regions: F[...] = kernel."
            )
        if self._field_places is None:
            self._field_places = field_places(self._options.fields, kernels)
        return bound(args, kwargs, self._field_places, kernels, self._name, self._options.fields)

    def _plan(self, backend: Backend, kernels: list[Kernel], arguments: Arguments, masked: tuple[str, ...]) -> Prepared:
        """Everything that follows from shapes, dtypes and options; `masked` names the fields that have masks."""
        names = field_names(self._options.fields, kernels)
        arrays = dict(zip(names, arguments.arrays, strict=False))  # masks follow
        for name, array in arrays.items():
            if not array.shape:
                raise FieldError(f"field {name!r} must be an array with at least one axis, not a single number.")
        sizes = by_field(self._options.kernel_size, names, "kernel_size")
        windows = {
            name: None if sizes[name] is None else window_of_size(sizes[name], array.shape, name)
            for name, array in arrays.items()
        }
        rules = self._rules(arrays, arguments.walls)
        updates = self._updates(names)
        specs = [
            self._window_spec(name, array, windows[name], walls.joins(rules[name], arguments.walls))
            for name, array in arrays.items()
        ]
        for array, spec in zip(arrays.values(), specs, strict=True):
            walls.check_fits(rules[spec.field], str(array.dtype), str(backend.joined(array, spec.joins)), spec.field)
        masking = self._masking(backend, masked, specs, rules, arguments, updates) if masked else None
        traced = [mask.MaskedKernel(kernel, masking) for kernel in kernels] if masking else kernels
        specs, formulas = self._traced(backend, traced, masking.specs if masking else specs, arguments, updates)
        reads = [union([f.reads[number] for f in formulas]) for number in range(len(specs))]
        own = [masking.seen[number] for number in range(len(names))] if masking else reads
        geometries = [
            self._geometry(name, array.shape, windows[name] or reach(own[number], len(array.shape)), names)
            for number, (name, array) in enumerate(arrays.items())
        ]
        sides = [rules[name] for name in names]
        for number in (names.index(name) for name in masked):
            geometries.append(replace(geometries[number], field=mask.name_of(names[number])))
            sides.append(mask.outside_sides(sides[number]))
        grid = common_grid(geometries)
        fields = tuple(
            plan_field(g, rules, taps, grid, spec.joins)
            for g, rules, taps, spec in zip(geometries, sides, reads, specs, strict=True)
        )
        if masking:
            fields = masking.marked(fields)
        plan = self._regions(fields, grid, kernels)
        if updates:
            plan = self._scheduled(plan, updates)
        return Prepared(backend, plan, formulas, backend.runner(plan, formulas))

    def _traced(
        self,
        backend: Backend,
        kernels: Sequence[Kernel],
        specs: list[WindowSpec],
        arguments: Arguments,
        updates: Sequence[int],
    ) -> tuple[list[WindowSpec], tuple[Formula, ...]]:
        """The formulas of all kernels; for a sweep, on windows of the dtype that holds what it will write."""
        while True:
            formulas = tuple(backend.trace(kernel, specs, arguments) for kernel in kernels)
            if not updates:
                return specs, formulas
            wider = list(specs)
            for result, number in enumerate(updates):
                written = [formula.dtypes()[result] for formula in formulas if len(formula.dtypes()) == len(updates)]
                constants = [getattr(v, "dtype", v) for _, v in self._assignments if not callable(v)]
                wider[number] = replace(specs[number], joins=(*specs[number].joins, *written, *constants))
            pairs = zip(arguments.arrays, specs, wider, strict=True)
            if all(backend.joined(array, old.joins) == backend.joined(array, new.joins) for array, old, new in pairs):
                return specs, formulas
            specs = wider

    def _masking(
        self,
        backend: Backend,
        masked: Sequence[str],
        specs: list[WindowSpec],
        rules: Mapping[str, tuple[walls.Sides, ...]],
        arguments: Arguments,
        updates: tuple[int, ...],
    ) -> mask.Masking:
        """How kernels are wrapped that see fields with masks."""
        names = [spec.field for spec in specs]
        inner = {name: mask.inner_rules(rules[name], walls.inside(self._chosen(names)[name]), name) for name in masked}
        slots = mask.single(arguments.walls)
        mask.check_single(list(inner.values()), slots)
        keep = updates or ((0,) if self._options.into_copy else ())
        fields = [mask.Masked(names.index(name), len(names) + n, inner[name]) for n, name in enumerate(masked)]
        return mask.Masking(specs, arguments.fields, fields, slots, keep, backend.where, [set() for _ in names])

    def _updates(self, names: Sequence[str]) -> tuple[int, ...]:
        """The numbers of the fields that a sweep writes: by name, or the first one."""
        if not self._options.sweep:
            return ()
        for name in self._options.updates:
            if name not in names:
                raise FieldError(f"updates names {name!r}, and there is no such field.", hint=did_you_mean(name, names))
        return tuple(names.index(name) for name in self._options.updates) or (0,)

    def _scheduled(self, plan: Plan, updates: tuple[int, ...]) -> Plan:
        for number in updates:
            f = plan.fields[number]
            for axis, centres in enumerate(f.geometry.centres):
                if centres and not 0 <= centres[0] <= centres[-1] < f.shape[axis]:
                    raise WindowError(
                        f"a sweep writes where its windows are centred, and with padding {f.geometry.padding[axis]} "
                        f"on axis {axis} of field {f.name!r} some are centred outside the array.",
                        hint="take padding='same', or less.",
                    )
        options = self._options
        found = schedule(options.schedule, plan.fields, updates, plan.grid, options.reverse)
        return replace(plan, schedule=found, updates=updates, reverse=options.reverse)

    def _axis_names(self, field: str, ndim: int) -> dict[str, int]:
        """The names of a field's axes, with axes counted from the front."""
        for label, axis in self._options.axis_names.items():
            if not -ndim <= axis < ndim:
                raise WindowError(
                    f"named_axis names axis {axis} {label!r}, but field {field!r} has {plural(ndim, 'axis')}."
                )
        return {label: axis % ndim for label, axis in self._options.axis_names.items()}

    def _window_spec(self, name: str, array: Any, window: Window | None, joins: tuple[Any, ...]) -> WindowSpec:
        axis_names, ndim = self._axis_names(name, len(array.shape)), len(array.shape)
        return WindowSpec(name, ndim, window, self._options.relative or window is None, axis_names, joins)

    def _geometry(self, name: str, shape: Sequence[int], window: Window, names: Sequence[str]) -> Geometry:
        options, ndim = self._options, len(shape)
        dilation = steps(options.dilation, ndim, "dilation", name)
        strides = steps(options.strides, ndim, "strides", name)
        if options.into_copy:
            margins = offset_pairs(options.offset, ndim, name)
            for axis, (n, margin) in enumerate(zip(shape, margins, strict=True)):
                if sum(margin) > n:
                    raise WindowError(
                        f"offset {margin} leaves no cell on axis {axis} of field {name!r}, which has {n}."
                    )
            centred = padding_pairs("same", window, dilation, name)
            padding = tuple((p[0] - m[0], p[1] - m[1]) for p, m in zip(centred, margins, strict=True))
        else:
            padding = padding_pairs(by_field(options.padding, names, "padding")[name], window, dilation, name)
        return Geometry(name, tuple(shape), window, strides, dilation, padding, options.into_copy)

    def _keyed(self, geometry: Geometry, grid: tuple[int, ...]) -> tuple[regions.Frame, list[Any]]:
        """The keys of all assignments, and what they count: output cells, or for smap those of the array."""
        keys = [key for key, _ in self._assignments]
        if self._options.into_copy:
            return centre_frame(geometry), keys
        return regions.Frame(grid, tuple(range(n) for n in grid)), keys

    def _regions(self, fields: tuple[FieldPlan, ...], grid: tuple[int, ...], kernels: Sequence[Kernel]) -> Plan:
        frame, keys = self._keyed(fields[0].geometry, grid)
        parts = regions.parts(keys, frame)
        missing = None if self._options.into_copy else regions.uncovered(parts, frame)
        if missing:
            raise regions.cover_error(missing, frame.shape)
        for key, (_, value) in zip(keys, self._assignments, strict=True):
            if not callable(value):
                regions.check_fits(key, frame.shape, tuple(getattr(value, "shape", ())))
        place = {id(kernel): number for number, kernel in enumerate(kernels)}
        values = tuple(
            RegionValue(key, kernel=place[id(value)]) if callable(value) else RegionValue(key, constant=value)
            for key, (_, value) in zip(keys, self._assignments, strict=True)
        )
        return Plan(fields, grid, frame, values, parts, self._options.into_copy, fuse=self._options.fuse)

    def _chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """What `boundary` says of each field."""
        boundary = self._boundary
        if not (isinstance(boundary, Mapping) and any(key in names for key in boundary)):
            return dict.fromkeys(names, boundary)
        for key in boundary:
            if key not in names:
                raise FieldError(
                    f"boundary names field {key!r}, and there is no such field.", hint=did_you_mean(str(key), names)
                )
        return {name: boundary.get(name, 0) for name in names}

    def _rules(self, arrays: Mapping[str, Any], values: Sequence[Any]) -> dict[str, tuple[walls.Sides, ...]]:
        """The boundary rules of each field, side by side."""
        chosen = self._chosen(list(arrays))
        if self._options.mask is None and any(walls.inside(own) for own in chosen.values()):
            raise BoundaryError(
                "boundary names a rule for cells that do not exist, and there is no mask.",
                hint="give mask=, a boolean array that is True for cells that exist.",
            )
        rules = {
            name: walls.resolve(chosen[name], len(a.shape), self._axis_names(name, len(a.shape)), name)
            for name, a in arrays.items()
        }
        for name, sides in rules.items():
            walls.check_values(sides, values, arrays[name].shape, name)
        return rules


def centre_frame(geometry: Geometry) -> regions.Frame:
    """A frame whose keys count the cells of the array: each computed cell is where its window's centre lies."""
    return regions.Frame(geometry.shape, geometry.centres)
