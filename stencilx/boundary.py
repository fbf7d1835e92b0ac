"""Boundary rules: what a read outside the array gives.

A rule is a value. It stands on one side of one axis of one field. Along an axis of 4 cells `a b c d`, with two ghosts
on each side, the rules that copy cells and those that NumPy's words name are

    Constant(v)      v v | a b c d | v v
    Wrap()           c d | a b c d | a b
    Edge()           a a | a b c d | d d
    Reflect()        c b | a b c d | c b      the end cell is the mirror
    Symmetric()      b a | a b c d | d c      the mirror lies between the end cell and its ghost

and the others are formulas. In their docstrings `G[k]` is the k-th ghost, counted away from the array, and `u[j]` the
j-th cell, counted inwards from the end cell `u[0]`, on either side alike. A wall lies at the *face*, half a cell
outside the end cell's centre, or at the *node*, which is the end cell itself; its normal `n` points out of the array:

    at="face"    G[2]  G[1] | u[0]  u[1]        at="node"    G[2]  G[1]  u[0]  u[1]
                      n <-- |                                       n <-- |

Any depth works: a mirror that runs out of cells turns round at the other end, as in `numpy.pad`. Axes are extended in
order, axis 0 first, each on what is there already: that is what corners hold. A value of a rule is a number, an array
over the face, or a function of some of the kernel's parameters by name, `Dirichlet(lambda t: jnp.sin(t))`. An array has
the shape of the field without the rule's axis, or one that broadcasts to it; beyond its own ends it goes on as the
other axes' copying rules say, and otherwise with its last value. Gradients flow through the values of all rules.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from stencilx.errors import BoundaryError

__all__ = [
    "Constant",
    "Dirichlet",
    "Edge",
    "Extrapolate",
    "Neumann",
    "Reflect",
    "Robin",
    "Rule",
    "Symmetric",
    "Wrap",
]

Cell = Callable[[int], Any]
"""What stands at an index of the axis."""


@dataclass(frozen=True)
class Slot:
    """Stands in a plan's rules for a value that only a call knows: the number of the array that comes with it."""

    number: int
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Rule:
    """What one side of one axis gives to reads beyond it.

    Attributes:
        VALUES: the names of what may be a number, an array or a function.
        divides: whether the formula has fractions, so that an integer field becomes float.
    """

    VALUES: ClassVar[tuple[str, ...]] = ()
    divides: ClassVar[bool] = False

    @property
    def copies(self) -> bool:
        """Whether a ghost is a copy of one cell, the one at `index`."""
        return False

    @property
    def least(self) -> int:
        """The shortest axis on which the rule has a meaning."""
        return 1

    def index(self, position: int, length: int) -> int:
        """The cell that stands in for `position`, which may lie outside `0..length-1`."""
        raise NotImplementedError

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        """The value at a position outside the axis, from those of cells. Works on numbers and on whole slices."""
        return cell(self.index(position, length))

    def _from_wall(self, position: int, length: int, cell: Cell) -> tuple[int, Cell]:
        """The depth of a ghost, and the cells counted inwards from its end of the axis."""

        def inwards(j: int) -> Any:
            place = j if position < 0 else length - 1 - j
            return cell(place) if 0 <= place < length else self.ghost(place, length, cell)

        return (-position if position < 0 else position - length + 1), inwards

    def __post_init__(self) -> None:
        for name in self.VALUES:
            value = getattr(self, name)
            if isinstance(value, np.generic):  # a NumPy scalar counts as the number that it is
                object.__setattr__(self, name, value.item())
            elif not isinstance(value, (numbers.Number, Slot)) and not callable(value) and not is_array(value):
                raise BoundaryError(
                    f"{name!r} of {type(self).__name__} must be a number, an array or a function of the kernel's "
                    f"parameters, not {type(value).__name__}.",
                    hint="for a list write np.array([...])." if isinstance(value, (list, tuple)) else None,
                )

    def _text(self, name: str) -> str:
        value = getattr(self, name)
        if is_array(value):
            return f"array{tuple(value.shape)}"
        return function_text(value) if callable(value) else str(value)

    def __str__(self) -> str:
        return ("odd " if getattr(self, "odd", False) else "") + type(self).__name__.lower()


def function_text(function: Callable[..., Any]) -> str:
    """A function of parameters as people write it: `inflow(t)`."""
    try:
        names = ", ".join(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = "..."
    return f"{getattr(function, '__name__', 'function').strip('<>')}({names})"


def is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


@dataclass(frozen=True)
class Constant(Rule):
    """Every ghost has the same value: `G[k] = value`.

    Args:
        value: a number, an array over the face or a function of parameters. It joins the dtype as it does in NumPy: 1.5
            around an integer field makes the field float before the kernel sees it; 0 fits every dtype.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> patches = sx.kmap(lambda x: x, kernel_size=3, padding="same", boundary=sx.boundary.Constant(9.0))
        >>> np.asarray(patches(np.array([1.0, 2.0], np.float32)))
        array([[9., 1., 2.],
               [1., 2., 9.]], dtype=float32)
    """

    VALUES = ("value",)
    value: Any = 0

    @property
    def least(self) -> int:
        return 0

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        return self.value

    def __str__(self) -> str:
        return f"constant {self._text('value')}"


@dataclass(frozen=True)
class Wrap(Rule):
    """Periodic: after the last cell comes the first one again (`numpy.pad` mode "wrap").

    Args:
        add: what is gained in going once round towards higher indices, and lost the other way: for a coordinate, the
            period.
        shared: whether the last node is the first one again, as in `linspace(0, 2*pi, n)`; the period is then `n - 1`
            cells.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> angle = np.array([0.0, 90.0, 180.0, 270.0], np.float32)
        >>> step = sx.kmap(lambda x: x[1] - x[0], padding=((0, 1),), boundary=sx.boundary.Wrap(add=360.0))
        >>> np.asarray(step(angle))
        array([90., 90., 90., 90.], dtype=float32)
    """

    VALUES = ("add",)
    add: Any = 0
    shared: bool = False

    @property
    def copies(self) -> bool:
        return isinstance(self.add, numbers.Number) and self.add == 0

    @property
    def least(self) -> int:
        return 2 if self.shared else 1

    def index(self, position: int, length: int) -> int:
        return position - self._turns(position, length) * (length - self.shared)

    def _turns(self, position: int, length: int) -> int:
        """How often one goes round from a cell to a position; of two nodes that are one, from the nearer end's."""
        return (position - (self.shared and position > 0)) // (length - self.shared)

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        copy = cell(self.index(position, length))
        return copy if self.copies else copy + self._turns(position, length) * self.add

    def __str__(self) -> str:
        gained = "" if self.copies else f", adding {self._text('add')}"
        return f"wrap{gained}{', last node shared' if self.shared else ''}"


@dataclass(frozen=True)
class Edge(Rule):
    """The end cell goes on for ever, `G[k] = u[0]` (`numpy.pad` mode "edge", scipy's "nearest")."""

    @property
    def copies(self) -> bool:
        return True

    def index(self, position: int, length: int) -> int:
        return min(max(position, 0), length - 1)


@dataclass(frozen=True)
class Reflect(Rule):
    """Mirrored at the end cell, which is not repeated (`numpy.pad` mode "reflect", scipy's "mirror").

    Args:
        odd: whether the mirror image is turned round the end cell's value, so that a slope goes on:
            `G[k] = 2*u[0] - u[k]` instead of `u[k]` (NumPy's `reflect_type="odd"`).

    Example:
        >>> import numpy as np, stencilx as sx
        >>> window = sx.kmap(lambda x: x, kernel_size=3, padding="same", boundary=sx.boundary.Reflect(odd=True))
        >>> np.asarray(window(np.array([1, 3, 4], np.int32)))
        array([[-1,  1,  3],
               [ 1,  3,  4],
               [ 3,  4,  5]], dtype=int32)
    """

    odd: bool = False

    @property
    def copies(self) -> bool:
        return not self.odd

    def index(self, position: int, length: int) -> int:
        if length == 1:
            return 0
        position %= 2 * (length - 1)
        return min(position, 2 * (length - 1) - position)

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        if not self.odd or length == 1:
            return cell(self.index(position, length))
        depth, u = self._from_wall(position, length, cell)
        return 2 * u(0) - u(depth)


@dataclass(frozen=True)
class Symmetric(Rule):
    """Mirrored outside the end cell, which is repeated (`numpy.pad` mode "symmetric", scipy's "reflect").

    Args:
        odd: whether the mirror image is turned round the end cell's value: `G[k] = 2*u[0] - u[k-1]` instead of `u[k-1]`
            (NumPy's `reflect_type="odd"`). For what changes its sign at a wall, as a velocity normal to it does, take
            `Dirichlet(0.0)`.
    """

    odd: bool = False

    @property
    def copies(self) -> bool:
        return not self.odd

    def index(self, position: int, length: int) -> int:
        position %= 2 * length
        return min(position, 2 * length - 1 - position)

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        if not self.odd:
            return cell(self.index(position, length))
        depth, u = self._from_wall(position, length, cell)
        return 2 * u(0) - u(depth - 1)


@dataclass(frozen=True)
class Extrapolate(Rule):
    """Ghosts go on as the polynomial through the last cells; nothing is known of a wall there.

    Of order 0 `G[k] = u[0]`, of order 1 `G[k] = (k+1)*u[0] - k*u[1]`, in general Lagrange's formula on `order + 1`
    cells with the weights `(-1)^j * k/(k+j) * C(k+order, order) * C(order, j)`, which are whole numbers.

    Args:
        order: the degree of the polynomial, 0 or more.

    Example:
        >>> import numpy as np, stencilx as sx
        >>> slope = sx.kmap(lambda u: (u[1] - u[-1]) / 2, padding="same", boundary=sx.boundary.Extrapolate(1))
        >>> np.asarray(slope(np.array([0.0, 1.0, 4.0, 9.0, 16.0], np.float32)))
        array([1., 2., 4., 6., 7.], dtype=float32)
    """

    order: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.order, bool) or not isinstance(self.order, numbers.Integral) or self.order < 0:
            raise BoundaryError(f"the order of Extrapolate must be a whole number, 0 or more, not {self.order!r}.")

    @property
    def copies(self) -> bool:
        return self.order == 0

    @property
    def least(self) -> int:
        return int(self.order) + 1

    def index(self, position: int, length: int) -> int:
        return Edge().index(position, length)

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        k, u = self._from_wall(position, length, cell)
        m, total = int(self.order), None
        for j in range(m + 1):
            weight = (-1) ** j * math.comb(k + m, m) * math.comb(m, j) * k // (k + j)
            term = u(j) if weight == 1 else weight * u(j)
            total = term if total is None else total + term
        return total

    def __str__(self) -> str:
        return f"extrapolate of order {self.order}"


@dataclass(frozen=True)
class _Wall(Rule):
    """A wall with a condition, at the face or at the node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at, dx, name = getattr(self, "at", "face"), getattr(self, "dx", 1), type(self).__name__
        if at not in ("face", "node"):
            raise BoundaryError(
                f"{name} stands at='face' (half a cell outside the end cell) or at='node' (the end cell itself), "
                f"not at={at!r}."
            )
        if isinstance(dx, (int, float)) and not dx > 0:
            raise BoundaryError(f"dx of {name}, the distance of two cells, must be positive, not {dx}.")

    @property
    def least(self) -> int:
        return 2 if getattr(self, "at", "face") == "node" else 1


@dataclass(frozen=True)
class Dirichlet(_Wall):
    """The wall has a given value, `u = value`, to second order.

    `G[k] = 2*value - u[k-1]` at a face; `G[k] = 2*value - u[k]` at a node. At a node the end cell is the wall: give it
    the value by a region, `F[0] = value`, or in the initial state; here it serves to make ghosts further out.

    Args:
        value: the value at the wall: a number, an array over the face or a function of parameters.
        at: where the wall lies, "face" or "node".

    Example:
        >>> import numpy as np, stencilx as sx
        >>> wall = sx.boundary.Dirichlet(1.0)
        >>> second = sx.kmap(lambda u: u[-1] - 2 * u[0] + u[1], padding="same", boundary={0: (wall, "edge")})
        >>> np.asarray(second(np.array([1.5, 2.5, 3.5], np.float32)))
        array([ 0.,  0., -1.], dtype=float32)
    """

    VALUES = ("value",)
    value: Any
    at: str = "face"

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        k, u = self._from_wall(position, length, cell)
        return 2 * self.value - u(k - 1 if self.at == "face" else k)

    def __str__(self) -> str:
        return f"dirichlet {self._text('value')} at the {self.at}"


@dataclass(frozen=True)
class Neumann(_Wall):
    """The slope along the outward normal is given, `du/dn = slope`, to second order.

    `G[k] = u[k-1] + (2*k-1)*dx*slope` at a face; `G[k] = u[k] + 2*k*dx*slope` at a node. Before the first cell `du/dn`
    is `-du/dx`, after the last one it is `du/dx`; a positive slope lets heat flow in on both sides. `Neumann(0.0)` is a
    wall without flux.

    Args:
        slope: a number, an array over the face or a function of parameters, in units of the field per length.
        dx: the distance of two cells along the axis. May be left out where the slope is the number 0.
        at: where the wall lies, "face" or "node".

    Example:
        >>> import numpy as np, stencilx as sx
        >>> window = sx.kmap(lambda u: u, kernel_size=3, padding="same", boundary=sx.boundary.Neumann(2.0, dx=0.5))
        >>> np.asarray(window(np.array([3.0, 5.0], np.float32)))
        array([[4., 3., 5.],
               [3., 5., 6.]], dtype=float32)
    """

    VALUES = ("slope", "dx")
    slope: Any
    dx: Any = None
    at: str = "face"

    def __post_init__(self) -> None:
        if self.dx is None:
            if not self.copies:
                raise BoundaryError(
                    "Neumann needs dx, the distance of two cells: the ghosts depend on it.",
                    hint="write Neumann(slope, dx=...); only Neumann(0.0) goes without.",
                )
            object.__setattr__(self, "dx", 1)
        super().__post_init__()

    @property
    def copies(self) -> bool:
        return isinstance(self.slope, numbers.Number) and self.slope == 0

    def index(self, position: int, length: int) -> int:
        return (Symmetric() if self.at == "face" else Reflect()).index(position, length)

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        if self.copies:
            return cell(self.index(position, length))
        k, u = self._from_wall(position, length, cell)
        if self.at == "face":
            return u(k - 1) + (2 * k - 1) * self.dx * self.slope
        return u(k) + 2 * k * self.dx * self.slope

    def __str__(self) -> str:
        return f"neumann slope {self._text('slope')} at the {self.at}"


@dataclass(frozen=True)
class Robin(_Wall):
    """Value and slope along the outward normal are tied, `a*u + b*du/dn = g`, to second order.

    At a node the slope follows from the end cell: `G[k] = u[k] + 2*k*dx * (g - a*u[0])/b`. At a face value and slope
    are those between the end cell and its ghost, `(u[0] + G[1])/2` and `(G[1] - u[0])/dx`; hence
    `G[k] = u[k-1] + (2*k-1) * (G[1] - u[0])` with `G[1] = (2*dx*g + (2*b - a*dx)*u[0]) / (2*b + a*dx)`.

    Args:
        a, b, g: numbers, arrays over the face or functions of parameters.
        dx: the distance of two cells along the axis.
        at: where the wall lies, "face" or "node". At a node b must not be 0: that would be Dirichlet's condition.

    Example:
        A wall that radiates, `du/dx = 2*(u - 1)` on the left: the outward normal points to the left, so that this is
        `2*u + du/dn = 2`.

        >>> import numpy as np, stencilx as sx
        >>> wall = sx.boundary.Robin(2.0, 1.0, 2.0, dx=0.5, at="node")
        >>> window = sx.kmap(lambda u: u, kernel_size=3, padding="same", boundary={0: (wall, 1.0)})
        >>> np.asarray(window(np.array([4.0, 2.0, 1.0], np.float32)))[0]
        array([-4.,  4.,  2.], dtype=float32)
    """

    VALUES = ("a", "b", "g", "dx")
    divides = True
    a: Any
    b: Any
    g: Any
    dx: Any
    at: str = "face"

    def __post_init__(self) -> None:
        super().__post_init__()
        known = all(isinstance(value, numbers.Number) for value in (self.a, self.b, self.dx))
        divisor = self.b if self.at == "node" else 2 * self.b + self.a * self.dx if known else 1
        if isinstance(divisor, numbers.Number) and divisor == 0:
            what = "b is 0" if self.at == "node" else "2*b + a*dx is 0"
            raise BoundaryError(
                f"Robin's condition at the {self.at} has no ghost where {what}.",
                hint="for a given value take Dirichlet(value, at='node')."
                if self.at == "node"
                else "with the outward normal a and b have the same sign at a wall that loses heat.",
            )

    def ghost(self, position: int, length: int, cell: Cell) -> Any:
        k, u = self._from_wall(position, length, cell)
        a, b, g, dx = self.a, self.b, self.g, self.dx
        if self.at == "node":
            return u(k) + 2 * k * dx * ((g - a * u(0)) / b)
        first = (2 * dx * g + (2 * b - a * dx) * u(0)) / (2 * b + a * dx)
        return first if k == 1 else u(k - 1) + (2 * k - 1) * (first - u(0))

    def __str__(self) -> str:
        a, b, g = map(self._text, ("a", "b", "g"))
        return f"robin {a}*u + {b}*du/dn = {g} at the {self.at}"
