"""The errors a user can meet, and how they are worded (layer 0 of the path of the data: everything may raise them).

Each error says what is wrong in the user's words; a `Note:` adds a fact and a `Hint:` says what to do instead. Where a
line of the user's kernel is to blame, the text shows it. Every kind is a `StencilError` and also the builtin that fits.
"""

from __future__ import annotations

import difflib
import linecache
import sys
from collections.abc import Iterable
from types import CodeType, FrameType

_OWN_PACKAGES = ("stencilx", "stencilx_jax", "stencilx_array_api", "stencilx_numpy")
_LIBRARIES = ("jax", "jaxlib", "numpy", "torch", "array_api_compat", "array_api_strict")


class StencilError(Exception):
    """Any error that stencilx raises for something the user can mend.

    Args:
        message: what is wrong, in one sentence.
        where: the user's line, as `user_line` gives it.
        note: a fact that helps to see why.
        hint: what to do instead.
    """

    def __init__(
        self, message: str, *, where: str | None = None, note: str | None = None, hint: str | None = None
    ) -> None:
        lines = [message]
        if where:
            lines.append(where)
        if note:
            lines.append(f"Note: {note}")
        if hint:
            lines.append(f"Hint: {hint}")
        super().__init__("\n".join(lines))


class WindowError(StencilError, ValueError):
    """kernel_size, strides, dilation, padding or offset that do not fit the array."""


class OffsetError(StencilError, IndexError):
    """A kernel reads an offset that its window does not have."""


class FieldError(StencilError, ValueError):
    """The fields of a stencil do not fit its kernel, or each other."""


class BoundaryError(StencilError, ValueError):
    """A boundary rule that does not exist or does not fit the array."""


class RegionError(StencilError, ValueError):
    """Regions that do not cover the output, or whose results do not fit together."""


class RegionIndexError(RegionError, IndexError):
    """A region's key that does not index the output grid."""


class KernelError(StencilError, TypeError):
    """A kernel does something that its backend cannot evaluate."""


class ScheduleError(StencilError, ValueError):
    """A schedule that does not exist, or that would change the numbers of a sweep."""


class BackendError(StencilError, ValueError):
    """No such backend, or none that suits the arrays."""


class BackendImportError(BackendError, ImportError):
    """A backend is installed, and fails to import."""


def did_you_mean(word: str, options: Iterable[str]) -> str | None:
    """A hint that names the option nearest to a misspelt word, or lists all of them."""
    options = sorted(options)
    close = difflib.get_close_matches(word, options, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"choose one of {', '.join(map(repr, options))}." if options else None


def user_line() -> str | None:
    """The innermost line on the stack that is neither ours nor an array library's: where it is, and its source."""
    frame = sys._getframe(1)
    while frame is not None and _package(frame) in (*_OWN_PACKAGES, *_LIBRARIES):
        frame = frame.f_back
    return _line(frame.f_code, frame.f_lineno) if frame else None


def line_of(error: BaseException) -> str | None:
    """The innermost line of an error's traceback that belongs neither to us nor to an array library."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if _package(trace.tb_frame) not in (*_OWN_PACKAGES, *_LIBRARIES):
            found = _line(trace.tb_frame.f_code, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _package(frame: FrameType) -> str:
    return frame.f_globals.get("__name__", "").split(".")[0]


def _line(code: CodeType, number: int) -> str:
    name = code.co_filename
    text = f"  at {name}:{number}, in {code.co_name}"
    source = linecache.getline(name, number).strip()
    return f"{text}\n      {source}\n      {'^' * len(source)}" if source else text


def plural(count: int, noun: str) -> str:
    """`1 axis`, `2 axes`, `2 entries`: a count with its noun."""
    if count == 1:
        return f"1 {noun}"
    for ending, many in (("is", "es"), ("ry", "ries"), ("", "s")):
        if noun.endswith(ending):
            return f"{count} {noun[: len(noun) - len(ending)]}{many}"
    raise AssertionError("every noun has the empty ending")


def join(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
