"""The operators and array methods of a kernel's value, each one call into the table of functions.

Place in the path: `Cells` (cells.py) inherits these; what they do is in the table (functions.py).
"""

from __future__ import annotations

from typing import Any, Self

from stencilx.offsets import OffsetWindow


class Operators:
    """Every operator and method as a call by the array API's name of the function."""

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    def _operate(self, name: str, left: Any, right: Any) -> Any:
        # a window to be indexed by offset, and who opts out of NumPy's ufuncs, has the reflected operator
        if any(isinstance(s, OffsetWindow) or getattr(s, "__array_ufunc__", self) is None for s in (left, right)):
            return NotImplemented
        return self._call(name, left, right)

    def __add__(self, other: Any) -> Self:
        return self._operate("add", self, other)

    def __radd__(self, other: Any) -> Self:
        return self._operate("add", other, self)

    def __sub__(self, other: Any) -> Self:
        return self._operate("subtract", self, other)

    def __rsub__(self, other: Any) -> Self:
        return self._operate("subtract", other, self)

    def __mul__(self, other: Any) -> Self:
        return self._operate("multiply", self, other)

    def __rmul__(self, other: Any) -> Self:
        return self._operate("multiply", other, self)

    def __truediv__(self, other: Any) -> Self:
        return self._operate("divide", self, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._operate("divide", other, self)

    def __floordiv__(self, other: Any) -> Self:
        return self._operate("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._operate("floor_divide", other, self)

    def __mod__(self, other: Any) -> Self:
        return self._operate("remainder", self, other)

    def __rmod__(self, other: Any) -> Self:
        return self._operate("remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self._operate("divmod", self, other)

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return self._operate("divmod", other, self)

    def __pow__(self, other: Any) -> Self:
        return self._operate("pow", self, other)

    def __rpow__(self, other: Any) -> Self:
        return self._operate("pow", other, self)

    def __matmul__(self, other: Any) -> Self:
        return self._operate("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return self._operate("matmul", other, self)

    def __and__(self, other: Any) -> Self:
        return self._operate("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Self:
        return self._operate("bitwise_and", other, self)

    def __or__(self, other: Any) -> Self:
        return self._operate("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Self:
        return self._operate("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Self:
        return self._operate("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Self:
        return self._operate("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Self:
        return self._operate("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Self:
        return self._operate("bitwise_left_shift", other, self)

    def __rshift__(self, other: Any) -> Self:
        return self._operate("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Self:
        return self._operate("bitwise_right_shift", other, self)

    def __lt__(self, other: Any) -> Self:
        return self._operate("less", self, other)

    def __le__(self, other: Any) -> Self:
        return self._operate("less_equal", self, other)

    def __gt__(self, other: Any) -> Self:
        return self._operate("greater", self, other)

    def __ge__(self, other: Any) -> Self:
        return self._operate("greater_equal", self, other)

    # `object` promises bool for these two; Any keeps the promise for the type checker.
    def __eq__(self, other: Any) -> Any:
        return self._operate("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return self._operate("not_equal", self, other)

    def __neg__(self) -> Self:
        return self._call("negative", self)

    def __pos__(self) -> Self:
        return self._call("positive", self)

    def __abs__(self) -> Self:
        return self._call("abs", self)

    def __invert__(self) -> Self:
        return self._call("bitwise_invert", self)

    def __round__(self, ndigits: int = 0) -> Self:
        return self._call("round", self, ndigits)

    @property
    def real(self) -> Self:
        return self._call("real", self)

    @property
    def imag(self) -> Self:
        return self._call("imag", self)

    def conj(self) -> Self:
        return self._call("conj", self)

    def sum(self, axis: Any = None, **options: Any) -> Self:
        return self._call("sum", self, axis, **options)

    def prod(self, axis: Any = None, **options: Any) -> Self:
        return self._call("prod", self, axis, **options)

    def mean(self, axis: Any = None, **options: Any) -> Self:
        return self._call("mean", self, axis, **options)

    def std(self, axis: Any = None, **options: Any) -> Self:
        return self._call("std", self, axis, **options)

    def var(self, axis: Any = None, **options: Any) -> Self:
        return self._call("var", self, axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Self:
        return self._call("max", self, axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Self:
        return self._call("min", self, axis, **options)

    def any(self, axis: Any = None, **options: Any) -> Self:
        return self._call("any", self, axis, **options)

    def all(self, axis: Any = None, **options: Any) -> Self:
        return self._call("all", self, axis, **options)

    def argmax(self, axis: int | None = None, **options: Any) -> Self:
        return self._call("argmax", self, axis, **options)

    def argmin(self, axis: int | None = None, **options: Any) -> Self:
        return self._call("argmin", self, axis, **options)

    def cumsum(self, axis: int | None = None, **options: Any) -> Self:
        return self._call("cumsum", self, axis, **options)

    def dot(self, other: Any) -> Self:
        return self._call("dot", self, other)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        return self._call("clip", self, min, max)

    def round(self, decimals: int = 0) -> Self:
        return self._call("round", self, decimals)

    def astype(self, dtype: Any) -> Self:
        return self._call("astype", self, dtype)

    def reshape(self, *shape: Any) -> Self:
        return self._call("reshape", self, shape[0] if len(shape) == 1 else shape)

    def ravel(self) -> Self:
        return self._call("ravel", self)

    def flatten(self) -> Self:
        return self._call("ravel", self)

    def transpose(self, *axes: Any) -> Self:
        return self._call("permute_dims", self, axes[0] if len(axes) == 1 else axes or None)

    def squeeze(self, axis: Any = None) -> Self:
        return self._call("squeeze", self, axis)

    @property
    def T(self) -> Self:
        return self._call("permute_dims", self)

    @property
    def mT(self) -> Self:
        return self._call("matrix_transpose", self)
