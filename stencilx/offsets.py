"""The window that a kernel indexes by offset from the centre: `u[1, 0]`, `u[-1:2, 0]`, `u["i+1", "j"]`, `u[...]`.

A backend makes one `OffsetWindow` for each field of a relative kernel and says, by two functions, what a read gives
and how several reads become an array. All checks and all error texts about offsets are here.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from stencilx.errors import KernelError, OffsetError, did_you_mean, user_line
from stencilx.window import Offset, Window

_NAMED = re.compile(r"\s*([^\W\d]\w*?)\s*(?:([+-])\s*(\d+))?\s*")


class OffsetWindow:
    """What a relative kernel sees of one field.

    Args:
        name: the field's name, for messages.
        ndim: how many axes it has.
        window: the taps it may read, or None where they are inferred from what it reads.
        axis_names: axis name -> axis number.
        read: the value at an offset.
        stack: an object array of such values -> the backend's own array of the same shape.
    """

    def __init__(
        self,
        name: str,
        ndim: int,
        window: Window | None,
        axis_names: Mapping[str, int],
        read: Callable[[Offset], Any],
        stack: Callable[[np.ndarray], Any],
    ) -> None:
        self._name, self._ndim, self._window, self._axis_names = name, ndim, window, axis_names
        self._read, self.stack = read, stack

    @property
    def ndim(self) -> int:
        return self._ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return self._known_window(f"{self._name}.shape is unknown").size

    def __getitem__(self, key: Any) -> Any:
        if key is Ellipsis:
            self._known_window(f"{self._name}[...] has no known shape")
        items = self._one_item_for_each_axis(key if isinstance(key, tuple) else (key,))
        choices = [self._offsets(axis, item) for axis, item in enumerate(items)]
        ranges = [c if isinstance(c, range) else range(c, c + 1) for c in choices]
        if not any(isinstance(c, range) for c in choices):
            return self._read(tuple(r.start for r in ranges))
        values = np.empty([len(r) for r in ranges], object)
        for index, offset in zip(np.ndindex(*values.shape), itertools.product(*ranges), strict=True):
            values[index] = self._read(offset)
        return self.stack(values.reshape([len(c) for c in choices if isinstance(c, range)]))

    def _one_item_for_each_axis(self, key: tuple[Any, ...]) -> list[Any]:
        """The key spread over the axes: names go where they belong, the rest in order, `...` fills up."""
        items: dict[int, Any] = {}
        rest = []
        for item in key:
            if not isinstance(item, str):
                rest.append(item)
                continue
            axis, offset = self._named(item)
            if axis in items:
                raise OffsetError(f"{self._shown(key)} names axis {axis} twice.", where=user_line())
            items[axis] = offset
        dots = [position for position, item in enumerate(rest) if item is Ellipsis]
        open_axes = [axis for axis in range(self._ndim) if axis not in items]
        if len(dots) == 1:
            missing = max(len(open_axes) - len(rest) + 1, 0)
            rest[dots[0] : dots[0] + 1] = [slice(None)] * missing
        if len(rest) != len(open_axes) or len(dots) > 1:
            raise OffsetError(
                f"{self._shown(key)} must give one offset for each of the {self._ndim} axes of field {self._name!r}.",
                where=user_line(),
                hint=f"the centre is {self._name}[{', '.join(['0'] * self._ndim)}].",
            )
        items.update(zip(open_axes, rest, strict=True))
        return [items[axis] for axis in range(self._ndim)]

    def _named(self, item: str) -> tuple[int, int]:
        match = _NAMED.fullmatch(item)
        if match is None or match[1] not in self._axis_names:
            hint = did_you_mean(match[1] if match else item, self._axis_names)
            raise OffsetError(
                f"{item!r} is no offset of field {self._name!r}.",
                where=user_line(),
                note=None if self._axis_names else "the stencil has no named_axis.",
                hint=hint or "name the axes: named_axis={0: 'i', 1: 'j'}.",
            )
        return self._axis_names[match[1]], int(f"{match[2] or '+'}{match[3] or 0}")

    def _offsets(self, axis: int, item: Any) -> int | range:
        if isinstance(item, slice):
            return self._slice(axis, item)
        offset = self._integer(item)
        self._check(axis, offset, str(offset))
        return offset

    def _slice(self, axis: int, item: slice) -> range:
        """A slice of offsets: never a wrap; open ends are those of the window."""
        text = f"slice {_slice_text(item)}"
        step = 1 if item.step is None else self._integer(item.step)
        if step < 1:
            raise OffsetError(f"{text} on axis {axis} must have a positive step.", where=user_line())
        if item.start is None or item.stop is None:
            window = self._known_window(
                f"{text} on axis {axis} has an open end", hint="give kernel_size, or write both ends of the slice."
            )
            start, stop = window.lo[axis], window.hi[axis] + 1
        else:
            start = stop = 0
        start = start if item.start is None else self._integer(item.start)
        stop = stop if item.stop is None else self._integer(item.stop)
        offsets = range(start, stop, step)
        for end in offsets[:1], offsets[-1:]:
            for offset in end:
                self._check(axis, offset, text)
        return offsets

    def _check(self, axis: int, offset: int, text: str) -> None:
        if self._window is None:
            return
        lo, hi = self._window.lo[axis], self._window.hi[axis]
        if not lo <= offset <= hi:
            shown = f"offset {offset}" if text == str(offset) else f"offset {offset} ({text})"
            raise OffsetError(
                f"field {self._name!r} has no {shown} on axis {axis}: its window there is {lo}..{hi}.",
                where=user_line(),
                hint=f"take a larger kernel_size ({2 * abs(offset) + 1} on axis {axis}), "
                "or leave kernel_size out to have it inferred.",
            )

    def _integer(self, item: Any) -> int:
        try:
            if not isinstance(item, (bool, np.bool_)):
                return operator.index(item)
        except Exception:  # a tracer's __index__ raises an error of its library's own
            pass
        traced = hasattr(item, "dtype") and not isinstance(item, (np.ndarray, np.generic))
        raise OffsetError(
            f"an offset of field {self._name!r} must be a whole number, not {type(item).__name__}"
            + (" known only at run time: a data-dependent offset." if traced else f" {item!r}."),
            where=user_line(),
            hint=f"read the whole window, {self._name}[...], and pick from it with the backend's own indexing."
            if traced
            else None,
        )

    def _known_window(self, what: str, hint: str = "give kernel_size.") -> Window:
        if self._window is None:
            raise OffsetError(
                f"{what}: the window of field {self._name!r} is inferred from the offsets that are read.",
                where=user_line(),
                hint=hint,
            )
        return self._window

    def _shown(self, key: tuple[Any, ...]) -> str:
        parts = ("..." if k is Ellipsis else _slice_text(k) if isinstance(k, slice) else repr(k) for k in key)
        return f"{self._name}[{', '.join(parts)}]"

    # The window as a whole, in natural order: `u[...]`, or simply `u` in arithmetic.

    def _whole(self) -> Any:
        return self[...]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise KernelError(whole_window_message(self._name), where=user_line(), hint=whole_window_hint(self._name))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """`ndarray * u` is arithmetic; any other function of NumPy's wants an array."""
        if method == "__call__" and ufunc.__name__ in _UFUNCS and not options:
            return _UFUNCS[ufunc.__name__](*map(_plain, inputs))
        raise KernelError(whole_window_message(self._name), where=user_line(), hint=whole_window_hint(self._name))

    def __iter__(self) -> NoReturn:
        raise KernelError(
            f"the window of field {self._name!r} cannot be iterated over.",
            where=user_line(),
            hint=f"iterate over the array: for value in {self._name}[...].",
        )

    def __bool__(self) -> NoReturn:
        raise KernelError(f"the window of field {self._name!r} has no truth value.", where=user_line())

    def __repr__(self) -> str:
        return f"<window of {self._name!r}: {self._window if self._window else 'inferred'}>"


def whole_window_message(name: str) -> str:
    return f"the window of field {name!r} is indexed by offset; it is not an array."


def whole_window_hint(name: str) -> str:
    return f"for the array of the whole window write {name}[...], as in jnp.sum({name}[...])."


def _slice_text(item: slice) -> str:
    ends = ("" if end is None else str(end) for end in (item.start, item.stop))
    return ":".join(ends) + ("" if item.step is None else f":{item.step}")


_ARITHMETIC = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "matmul": operator.matmul,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}
_COMPARISONS = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}
_UFUNCS = _ARITHMETIC | _COMPARISONS


def _add_operators() -> None:
    """Arithmetic on the window itself works on the array `u[...]`."""
    for function in _UFUNCS.values():
        name = function.__name__.strip("_")
        setattr(OffsetWindow, f"__{name}__", lambda self, other, f=function: f(self._whole(), _plain(other)))
    for function in _ARITHMETIC.values():
        name = function.__name__.strip("_")
        setattr(OffsetWindow, f"__r{name}__", lambda self, other, f=function: f(_plain(other), self._whole()))
    for function in (operator.neg, operator.pos, operator.abs, operator.invert):
        setattr(OffsetWindow, f"__{function.__name__}__", lambda self, f=function: f(self._whole()))


def _plain(value: Any) -> Any:
    return value._whole() if isinstance(value, OffsetWindow) else value


_add_operators()
