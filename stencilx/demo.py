"""The example behind `python -m stencilx`: mountains worn down by hillslope diffusion, and D found again from that.

It stands outside the path of the data and uses the public API only, as a program of yours would. Soil creeps downhill
in proportion to the slope (W. E. H. Culling, Analytical theory of erosion, Journal of Geology 68, 1960), hence

    dz/dt = D (d2z/dx2 + d2z/dy2)        z elevation in m, D diffusivity in m^2/yr
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cbook import get_sample_data
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LightSource, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

import stencilx as sx

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

DIFFUSIVITY = 0.01  # m^2/yr, a usual order for hillslopes under soil
EARTH_RADIUS = 6_371_000.0  # m
EXAGGERATION = 3.0  # of heights, in the shading of the picture


# The stencil: one cell of an explicit time step. It is all that a backend needs to know about diffusion.


@sx.kmap(padding="same", boundary="edge", named_axis={0: "y", 1: "x"})
def diffuse(z, ry, rx):
    """One step with ry = D dt/dy^2 and rx = D dt/dx^2. An edge that repeats outside has no slope: no flux."""
    along_y = z["y-1", "x"] - 2 * z["y", "x"] + z["y+1", "x"]
    along_x = z["y", "x-1"] - 2 * z["y", "x"] + z["y", "x+1"]
    return z["y", "x"] + ry * along_y + rx * along_x


@dataclass(frozen=True)
class Terrain:
    """Elevations in m, the northern row first, on cells of dy times dx metres."""

    elevation: np.ndarray
    dy: float
    dx: float

    def crop(self, rows: slice, columns: slice) -> Terrain:
        return Terrain(self.elevation[rows, columns], self.dy, self.dx)

    def time_step(self, diffusivity: float) -> float:
        """Half of the longest stable step, in years: up to there no wave, however short, changes its sign."""
        return 0.5 / (2 * diffusivity * (1 / self.dy**2 + 1 / self.dx**2))

    def numbers(self, diffusivity: jax.typing.ArrayLike, dt: float) -> tuple[jax.Array, jax.Array]:
        """The parameters ry and rx of `diffuse`."""
        area = jnp.float32(dt) * diffusivity
        return area / self.dy**2, area / self.dx**2


def jacksboro() -> Terrain:
    """The Jacksboro fault in Tennessee, which comes with matplotlib. Degrees become metres on a sphere."""
    with np.load(get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)) as dem:
        latitude = math.radians((dem["ymin"] + dem["ymax"]) / 2)
        dy = EARTH_RADIUS * math.radians(dem["dy"])
        dx = EARTH_RADIUS * math.radians(dem["dx"]) * math.cos(latitude)
        return Terrain(dem["elevation"].astype(np.float32), dy, dx)


# Forward: many steps in one compiled loop


@functools.partial(jax.jit, static_argnames="steps")
def evolve(z: jax.Array, ry: jax.typing.ArrayLike, rx: jax.typing.ArrayLike, steps: int) -> jax.Array:
    """The elevation after some steps. For a fixed number of them JAX can differentiate the loop, too."""
    return sx.iterate(lambda z: diffuse(z, ry, rx), z, steps).state


@dataclass(frozen=True)
class Run:
    """The elevation after a run, and the seconds that it took: for one step, and to compile before the first."""

    elevation: np.ndarray
    step_seconds: float
    first_seconds: float


def simulate(terrain: Terrain, diffusivity: float, dt: float, steps: int, chunk: int = 20) -> Run:
    """Run `steps`, a multiple of `chunk`: the progress bar moves between chunks, the elevation stays on its device."""
    z, numbers = jnp.asarray(terrain.elevation), terrain.numbers(diffusivity, dt)
    first_seconds, _ = timed(lambda: evolve(z, *numbers, chunk))

    def all_chunks() -> jax.Array:
        now = z
        for _ in progress(range(steps // chunk), "diffusion"):
            now = jax.block_until_ready(evolve(now, *numbers, chunk))
        return now

    seconds, z_end = timed(all_chunks)
    return Run(np.asarray(z_end), seconds / steps, first_seconds)


def timed(work: Callable[[], jax.Array]) -> tuple[float, jax.Array]:
    """Seconds and result of `work()`, waiting for what JAX computes in the background."""
    start = time.perf_counter()
    result = jax.block_until_ready(work())
    return time.perf_counter() - start, result


def progress(items: Iterable[int], label: str) -> Iterator[int]:
    """The items, with a progress bar where tqdm is installed and somebody looks at the terminal."""
    if tqdm is None:
        return iter(items)
    return iter(tqdm(items, desc=label, leave=False, disable=None))


# Check: the same kernel, one cell at a time in NumPy


@dataclass(frozen=True)
class Check:
    """A crop computed by the NumPy backend against the same by JAX."""

    shape: tuple[int, int]
    steps: int
    difference: float  # m, the largest
    cell_seconds: float  # of the NumPy backend, for one cell and step


def compare_with_numpy(terrain: Terrain, diffusivity: float, dt: float, steps: int = 5) -> Check:
    crop = terrain.crop(slice(31, 55), slice(47, 77))
    ry, rx = (np.float32(r) for r in crop.numbers(diffusivity, dt))
    z = crop.elevation
    slow = diffuse.with_backend("numpy")
    start = time.perf_counter()
    for _ in range(steps):
        z = slow(z, ry, rx)
    seconds = time.perf_counter() - start
    fast = evolve(jnp.asarray(crop.elevation), ry, rx, steps)
    return Check(z.shape, steps, float(np.abs(z - np.asarray(fast)).max()), seconds / (steps * z.size))


# Backward: gradients run through the stencil and the loop around it


@dataclass(frozen=True)
class Recovery:
    """What gradient descent made of a wrong diffusivity (m^2/yr), and the root mean square misfits in m."""

    steps: int
    iterations: int
    start: float
    found: float
    misfit_before: float
    misfit_after: float
    seconds: float  # for one misfit with its gradient


def recover(terrain: Terrain, true: float, dt: float, iterations: int, steps: int = 40) -> Recovery:
    """From the elevations before and after some steps, find the diffusivity: gradient descent on its logarithm.

    The length of a move is Polyak's for data without noise, where the least misfit is 0: x -= misfit / gradient.
    """
    z, start = jnp.asarray(terrain.elevation), true / 3
    target = evolve(z, *terrain.numbers(true, dt), steps)

    @jax.jit
    @jax.value_and_grad
    def misfit(log_diffusivity: jax.Array) -> jax.Array:
        end = evolve(z, *terrain.numbers(jnp.exp(log_diffusivity), dt), steps)
        return jnp.mean((end - target) ** 2)

    x = jnp.log(jnp.float32(start))
    before, _ = misfit(x)

    def descend() -> jax.Array:
        now = x
        for _ in progress(range(iterations), "recovering D"):
            value, gradient = jax.block_until_ready(misfit(now))
            now = now - value / gradient
        return now

    seconds, x_end = timed(descend)
    after, _ = misfit(x_end)
    found = float(jnp.exp(x_end))
    return Recovery(steps, iterations, start, found, math.sqrt(before), math.sqrt(after), seconds / iterations)


# The picture


def picture(terrain: Terrain, end: np.ndarray, diffusivity: float, duration: str, path: Path) -> None:
    """Before, after and what has changed."""
    figure = Figure(figsize=(13.5, 6.4), layout=ConstrainedLayoutEngine(h_pad=0.1))
    figure.suptitle(
        f"Hillslope diffusion, D = {diffusivity} m²/yr over {duration}: Jacksboro fault, Tennessee", fontsize=14
    )
    before, after, changed = figure.subplots(1, 3, sharex=True, sharey=True)
    start, change = terrain.elevation, end - terrain.elevation
    land = ListedColormap(colormaps["gist_earth"](np.linspace(0.35, 1, 256)))  # without the blue of its seas
    heights = ScalarMappable(Normalize(float(start.min()), float(start.max())), land)
    largest = float(np.percentile(np.abs(change), 99))
    changes = ScalarMappable(Normalize(-largest, largest), "RdBu")
    panel(before, terrain, shaded(start, terrain, heights), "before")
    panel(after, terrain, shaded(end, terrain, heights), f"after {duration}")
    panel(changed, terrain, changes.to_rgba(change), "after minus before")
    before.set_ylabel("km from the southern edge")
    below = {"location": "bottom", "pad": 0.03}
    label = f"elevation (m); lit from the north-west, vertical exaggeration {EXAGGERATION:g}"
    figure.colorbar(heights, ax=[before, after], label=label, aspect=50, shrink=0.7, **below)
    figure.colorbar(changes, ax=changed, label="change (m): red worn down, blue filled up", extend="both", **below)
    figure.savefig(path, dpi=120)


def shaded(elevation: np.ndarray, terrain: Terrain, colours: ScalarMappable) -> np.ndarray:
    """The colours of the elevations, brighter where a slope faces the light."""
    light = LightSource(azdeg=315, altdeg=45)
    spacing = {"vert_exag": EXAGGERATION, "dx": terrain.dx, "dy": terrain.dy}
    return light.shade_rgb(colours.to_rgba(elevation)[..., :3], elevation, blend_mode="soft", **spacing)


def panel(axes: Axes, terrain: Terrain, image: np.ndarray, title: str) -> None:
    rows, columns = image.shape[:2]
    axes.imshow(image, extent=(0, columns * terrain.dx / 1000, 0, rows * terrain.dy / 1000))
    axes.set(title=title, xlabel="km from the western edge")
