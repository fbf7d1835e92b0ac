"""The arguments of a call: which are the fields, and what else the kernels' parameters are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stencilx.backend import Arguments
from stencilx.capture import defaults, parameters
from stencilx.errors import FieldError, did_you_mean, plural
from stencilx.results import kernel_name

Kernels = Sequence[Callable[..., Any]]
Fields = int | tuple[str, ...]
"""How many of the first parameters are fields, or their names."""


def field_names(fields: Fields, kernels: Kernels) -> tuple[str, ...]:
    """The names of the fields, as far as kernels tell."""
    if not isinstance(fields, int):
        return fields
    for kernel in kernels:
        names = parameters(kernel)
        if len(names) >= fields:
            return tuple(names[:fields])
    return tuple(f"field {number}" for number in range(fields))


def field_places(fields: Fields, kernels: Kernels) -> tuple[int, ...]:
    """Where among the positional arguments the fields stand."""
    if isinstance(fields, int):
        return tuple(range(fields))
    for kernel in kernels:
        names = parameters(kernel)
        if all(name in names for name in fields):
            return tuple(names.index(name) for name in fields)
    if not kernels:
        return tuple(range(len(fields)))
    names = parameters(kernels[0])
    if not names:
        raise FieldError(
            f"fields names {fields[0]!r}, but {kernel_name(kernels[0])} does not tell the names of its parameters.",
            hint=f"give fields by number, fields={len(fields)}.",
        )
    unknown = next(name for name in fields if name not in names)
    raise FieldError(
        f"fields names {unknown!r}, but the parameters of {kernel_name(kernels[0])} are {', '.join(names)}.",
        hint=did_you_mean(unknown, names),
    )


def bound(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    places: tuple[int, ...],
    kernels: Kernels,
    name: str,
    fields: Fields,
) -> Arguments:
    """The call's arguments with the fields by position."""
    if kwargs:
        args, kwargs = _to_positions(args, dict(kwargs), max(places), kernels)
    if len(args) <= max(places):
        raise FieldError(
            f"{name} takes {plural(len(places), 'field')} ({', '.join(field_names(fields, kernels))}), "
            f"and the call gives {plural(len(args), 'argument')}."
        )
    return Arguments(args, kwargs, places)


def _to_positions(
    args: tuple[Any, ...], kwargs: dict[str, Any], last: int, kernels: Kernels
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move keyword arguments up to the last field to their positions."""
    names = next((names for kernel in kernels if len(names := parameters(kernel)) > last), ())
    for name in names[len(args) : last + 1]:
        if name not in kwargs:
            break
        args = (*args, kwargs.pop(name))
    return args, kwargs


def by_name(arguments: Arguments, kernels: Kernels) -> dict[str, Any]:
    """What the kernels' parameters are in a call, defaults included."""
    known: dict[str, Any] = {}
    for kernel in kernels:
        known = dict(zip(parameters(kernel), arguments.args, strict=False)) | known
        known = defaults(kernel) | dict(arguments.kwargs) | known
    return known
