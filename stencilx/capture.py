"""What a kernel takes from its surroundings: closures, globals, defaults.

A stencil reuses compiled code as long as these are the same objects (or equal numbers). A kernel whose module-level
`dt` was changed, or which closes over a new weight, is traced again: no silent number from yesterday. What hides
deeper inside objects (an element of a list, an array changed in place) is not looked at, as with `jax.jit`.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

_PLAIN = (int, float, complex, bool, str)


def captured(kernels: Iterable[Callable[..., Any]]) -> list[Any]:
    """All that the kernels, and the functions of theirs that they call, take from outside."""
    found: list[Any] = []
    seen: set[int] = set()
    waiting: list[Any] = list(kernels)
    while waiting:
        function = waiting.pop()
        if isinstance(function, functools.partial):
            parts = [function.func, *function.args, *function.keywords.values()]
            waiting.append(function.func)
        elif isinstance(function, types.MethodType):
            parts = [function.__func__, function.__self__]
        elif isinstance(function, types.FunctionType):
            parts = list(_outside(function))
        elif isinstance(call := inspect.getattr_static(type(function), "__call__", None), types.FunctionType):
            parts = [call, *getattr(function, "__dict__", {}).values()]  # a callable object: its attributes count
            waiting.append(call)
        else:
            continue
        if id(function) in seen:
            continue
        seen.add(id(function))
        found.extend(parts)
        module = getattr(function, "__module__", None)
        waiting.extend(part for part in parts if _follow(part, module))
    return found


def parameters(kernel: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a kernel's positional parameters; none where it does not tell."""
    try:
        found = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def defaults(kernel: Callable[..., Any]) -> dict[str, Any]:
    """The values of a kernel's parameters that a call may leave out."""
    try:
        found = inspect.signature(kernel).parameters.values()
    except (TypeError, ValueError):
        return {}
    return {p.name: p.default for p in found if p.default is not p.empty}


def described(value: Any) -> Hashable:
    """What a kernel's dtypes may depend on: shapes and dtypes of arrays, kinds of numbers, all other values."""
    if isinstance(value, (tuple, list)):
        return type(value), *map(described, value)
    if isinstance(value, dict):
        return dict, *((key, described(item)) for key, item in value.items())
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return type(value), tuple(value.shape), value.dtype
    try:
        hash(value)
    except TypeError:
        return type(value)
    return type(value) if isinstance(value, (int, float, complex)) else (type(value), value)


def unchanged(before: list[Any], now: list[Any]) -> bool:
    return len(before) == len(now) and all(map(_same, before, now))


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    # 0.0 equals -0.0, but does not compute as it does
    return type(a) is type(b) and isinstance(a, _PLAIN) and a == b and (a != 0 or repr(a) == repr(b))


def _follow(part: Any, module: str | None) -> bool:
    """Helpers of the user's own module and functions made on the way; not whole libraries."""
    if isinstance(part, types.FunctionType):
        return part.__closure__ is not None or part.__module__ == module
    return isinstance(part, (functools.partial, types.MethodType))


def _outside(function: types.FunctionType) -> Iterator[Any]:
    code = function.__code__
    written = _written(code)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name not in written:
            try:
                yield cell.cell_contents
            except ValueError:  # a name that is not bound yet
                yield None
    scope = function.__globals__
    for name in _names(code):
        if name in scope and name not in written:
            yield scope[name]
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    inner = (name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names(const))
    return (*code.co_names, *inner)


@functools.lru_cache(maxsize=4096)
def _written(code: types.CodeType) -> frozenset[str]:
    """Outer names that a function assigns to, say a counter of its calls: they follow from it, not it from them."""
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_GLOBAL", "STORE_DEREF")}
    inner = [_written(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return frozenset(own).union(*inner)
