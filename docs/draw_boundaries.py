"""Draw what each boundary rule gives outside the array, from what the library itself returns.

Run it with `python docs/draw_boundaries.py`; it writes docs/pictures/<rule>.svg. Another folder may be named behind it.
The numbers also stand in each picture's description, where a test compares them with those of today.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import stencilx as sx
from stencilx.boundary import Constant, Dirichlet, Edge, Extrapolate, Neumann, Reflect, Robin, Rule, Symmetric, Wrap

FOLDER = Path(__file__).parent / "pictures"
CELLS = (1.0, 1.9, 1.3, 1.7, 2.4)
GHOSTS = 3
INSIDE, OUTSIDE, WALL = "#1f4e79", "#d9741a", "#8a8a8a"
STYLE: dict[Any, Any] = {
    "font.family": "monospace",
    "font.monospace": ["DejaVu Sans Mono", "Menlo", "Consolas", "monospace"],
    "font.size": 7.5,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "svg.fonttype": "none",
    "svg.hashsalt": "stencilx",
}


@dataclass(frozen=True)
class Panel:
    """A rule at work on some cells.

    Attributes:
        title: how it is written, and its formula.
        before, after: the rule on either side.
        wall: how far outside the end cells' centres the walls lie; None where the rule has none.
        shows: what the rule says of the wall: its "value", or the "slope" there.
    """

    title: str
    before: Rule
    after: Rule
    wall: float | None = None
    shows: str = ""
    cells: tuple[float, ...] = CELLS

    def padded(self) -> np.ndarray:
        """The cells with their ghosts, as a kernel reads them."""
        identity = sx.kmap(lambda u: u[0], padding=GHOSTS, boundary={0: (self.before, self.after)})
        return np.asarray(identity(np.array(self.cells)))

    def described(self) -> str:
        numbers = [f"{value:.3f}" for value in self.padded()]
        parts = numbers[:GHOSTS], numbers[GHOSTS:-GHOSTS], numbers[-GHOSTS:]
        return f"{self.title.splitlines()[0]}: " + " | ".join(map(" ".join, parts))


def alike(
    title: str, rule: Rule, wall: float | None = None, shows: str = "", cells: tuple[float, ...] = CELLS
) -> Panel:
    """The same rule on both sides."""
    return Panel(title, rule, rule, wall, shows, cells)


FACE, NODE = 0.5, 0.0
PICTURES = {
    "constant": [alike("Constant(0.5)\nG[k] = 0.5", Constant(0.5))],
    "wrap": [
        alike("Wrap()\nG[k] = k-th from the other end", Wrap(), FACE),
        alike("Wrap(add=2)\nG[k] = that cell +- 2", Wrap(add=2.0), FACE, cells=(0.1, 0.5, 0.8, 1.3, 1.7)),
        alike(
            "Wrap(shared=True)\nthe last cell is the first", Wrap(shared=True), NODE, cells=(1.4, 1.9, 1.1, 2.4, 1.4)
        ),
    ],
    "edge": [alike("Edge()\nG[k] = u[0]", Edge())],
    "reflect": [
        alike("Reflect()\nG[k] = u[k]", Reflect(), NODE),
        alike("Reflect(odd=True)\nG[k] = 2*u[0] - u[k]", Reflect(odd=True), NODE),
    ],
    "symmetric": [
        alike("Symmetric()\nG[k] = u[k-1]", Symmetric(), FACE),
        alike("Symmetric(odd=True)\nG[k] = 2*u[0] - u[k-1]", Symmetric(odd=True), FACE),
    ],
    "extrapolate": [
        alike("Extrapolate(1)\nG[k] = (k+1)*u[0] - k*u[1]", Extrapolate(1), cells=(1.0, 1.3, 1.9, 2.2, 2.3)),
        alike("Extrapolate(2)\na parabola through u[0], u[1], u[2]", Extrapolate(2), cells=(1.0, 1.3, 1.9, 2.2, 2.3)),
    ],
    "dirichlet": [
        alike("Dirichlet(1.5)\nG[k] = 2*1.5 - u[k-1]", Dirichlet(1.5), FACE, "value"),
        alike(
            'Dirichlet(1.5, at="node")\nG[k] = 2*1.5 - u[k]',
            Dirichlet(1.5, at="node"),
            NODE,
            "value",
            cells=(1.5, 2.1, 1.2, 1.0, 1.5),
        ),
    ],
    "neumann": [
        alike("Neumann(0.0)\nG[k] = u[k-1]", Neumann(0.0), FACE, "slope"),
        alike("Neumann(0.4, dx=1)\nG[k] = u[k-1] + (2*k-1)*0.4", Neumann(0.4, dx=1.0), FACE, "slope"),
        alike('Neumann(0.4, dx=1, at="node")\nG[k] = u[k] + 2*k*0.4', Neumann(0.4, dx=1.0, at="node"), NODE, "slope"),
    ],
    "robin": [
        alike("Robin(1, 2, 2, dx=1)\nat the face: u + 2*du/dn = 2", Robin(1.0, 2.0, 2.0, dx=1.0), FACE, "slope"),
        alike(
            'Robin(1, 2, 2, dx=1, at="node")\nat the node: u + 2*du/dn = 2',
            Robin(1.0, 2.0, 2.0, dx=1.0, at="node"),
            NODE,
            "slope",
        ),
    ],
}


def draw(axes: Axes, panel: Panel) -> None:
    """Cells joined in the array's colour; on either side the end cell and its ghosts, in the colour of the outside."""
    values, n = panel.padded(), len(panel.cells)
    places = np.arange(-GHOSTS, n + GHOSTS)
    axes.axvspan(-0.5, n - 0.5, color="#f1f4f8", lw=0)
    for side in (slice(None, GHOSTS + 1), slice(n + GHOSTS - 1, None)):
        axes.plot(places[side], values[side], "--o", color=OUTSIDE, lw=1, ms=4)
    inner = slice(GHOSTS, n + GHOSTS)
    axes.plot(places[inner], values[inner], "-o", color=INSIDE, lw=1.5, ms=5)
    if panel.wall is not None:
        draw_walls(axes, panel, values)
    low, high = values.min(), values.max()
    axes.set_ylim(low - 0.18 * (high - low), high + 0.18 * (high - low))
    axes.set_xlim(places[0] - 0.5, places[-1] + 0.5)
    names = ["G[3]", "G[2]", "G[1]", "u[0]", "u[1]", *[""] * (n - 4), "u[1]", "u[0]", "G[1]", "G[2]", "G[3]"]
    axes.set_xticks(places, names, fontsize=6)
    axes.tick_params(length=0)
    axes.set_yticks([])
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.spines["bottom"].set_color("#c0c0c0")
    axes.set_title(panel.title)


def draw_walls(axes: Axes, panel: Panel, values: np.ndarray) -> None:
    """A line where each wall lies, and on it what the rule says: a value, or the slope between cell and ghost."""
    wall, n = panel.wall or 0.0, len(panel.cells)
    for outwards, end in ((-1, GHOSTS), (1, n + GHOSTS - 1)):
        place = end - GHOSTS + outwards * wall
        axes.axvline(place, color=WALL, lw=1.2, zorder=1)
        inside, ghost = values[end if wall else end - outwards], values[end + outwards]
        height, rise = (inside + ghost) / 2, (ghost - inside) / (1 if wall else 2)
        if panel.shows == "value":
            axes.plot(place, height, "D", color="black", ms=4.5)
        elif panel.shows == "slope":
            height = height if wall else values[end]
            across = np.array([-0.9, 0.9])
            axes.plot(place + outwards * across, height + rise * across, color="black", lw=1.8)


def picture(panels: list[Panel]) -> Figure:
    figure = Figure(figsize=(2.75 * len(panels), 1.75), layout="constrained", facecolor="white")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw(axes, panel)
    return figure


def description(panels: list[Panel]) -> str:
    """What is drawn, in numbers: ghosts | cells | ghosts."""
    return "\n".join(panel.described() for panel in panels)


def draw_all(folder: Path) -> None:
    """Write a picture for each rule: the same bytes each time, with one version of matplotlib."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        for name, panels in PICTURES.items():
            metadata = {"Date": None, "Creator": None, "Description": description(panels)}
            picture(panels).savefig(folder / f"{name}.svg", metadata=metadata)


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
