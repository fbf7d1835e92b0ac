"""`python -m stencilx`: run the example of `stencilx.demo` and report on this machine. Stands outside the path."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import jax
import numpy as np

import stencilx as sx

if TYPE_CHECKING:
    from stencilx import demo

DESCRIPTION = """\
Wear down the mountains at the Jacksboro fault, Tennessee, by hillslope diffusion: a stencil in a compiled time loop.
Check a crop against the cell-by-cell NumPy backend, find the diffusivity again by gradient descent through the loop,
time it all, and write a picture. Needs matplotlib and no network; takes some ten seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        from stencilx import demo
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        print('python -m stencilx needs matplotlib: pip install "stencilx[plot]"', file=sys.stderr)
        return 1
    report_machine()
    with sx.use_backend("jax"):  # whatever STENCILX_BACKEND says
        report_example(demo, options.quick, options.out)
    return 0


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser("python -m stencilx", description=DESCRIPTION, formatter_class=raw)
    made.add_argument(
        "--out", type=picture_file, default="stencilx.png", metavar="FILE", help="the picture (default: %(default)s)"
    )
    made.add_argument("--quick", action="store_true", help="a crop of the terrain and fewer steps")
    made.add_argument("--version", action="version", version=f"stencilx {sx.__version__}")
    return made


def picture_file(text: str) -> Path:
    """A path that a picture can be written to, checked before the work rather than after it."""
    path = Path(text)
    if path.suffix.lower() not in (".png", ".jpg", ".pdf", ".svg"):
        raise argparse.ArgumentTypeError(f"{text!r} must end in .png, .jpg, .pdf or .svg")
    if not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r} that may be written to")
    return path


def say(topic: str, text: str) -> None:
    print(f"  {topic:<12}{text}", flush=True)


def report_machine() -> None:
    devices = Counter(device.device_kind for device in jax.devices())
    print(f"stencilx {sx.__version__}")
    say("versions", f"Python {platform.python_version()}, JAX {jax.__version__}, NumPy {np.__version__}")
    say("devices", ", ".join(f"{count} x {kind}" for kind, count in devices.items()))
    say("backends", ", ".join(sx.backends()))
    if hint := huge_pages_hint():
        say("huge pages", hint)


def huge_pages_hint() -> str | None:
    """How to make large fresh results on a CPU cheaper; None where that is no question, or is settled.

    With hugetlb=1, malloc (glibc 2.35 and later) calls madvise for huge pages on blocks that can hold one. That has an
    effect where the kernel's mode is `madvise`; in mode `always` huge pages come unasked, in mode `never` not at all.
    """
    library, version = platform.libc_ver()
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if library != "glibc" or tuple(map(int, version.split("."))) < (2, 35) or jax.default_backend() != "cpu":
        return None
    if "glibc.malloc.hugetlb" in os.environ.get("GLIBC_TUNABLES", "") or not mode.exists():
        return None
    if "[madvise]" not in mode.read_text():
        return None
    return "with GLIBC_TUNABLES=glibc.malloc.hugetlb=1 set, results of many MB cost fewer page faults"


def report_example(demo: ModuleType, quick: bool, out: Path) -> None:
    terrain, diffusivity, steps = demo.jacksboro(), demo.DIFFUSIVITY, 200
    if quick:
        terrain, steps = terrain.crop(slice(60, 180), slice(90, 230)), 60
    dt = terrain.time_step(diffusivity)
    duration = f"{steps * dt / 1000:,.0f} kyr"
    rows, columns = terrain.elevation.shape
    print("\nHillslope diffusion at the Jacksboro fault, dz/dt = D (d2z/dx2 + d2z/dy2)")
    say(
        "grid",
        f"{rows} x {columns} cells of {terrain.dy:.1f} m (y) x {terrain.dx:.1f} m (x), no flux through the walls",
    )
    say(
        "time",
        f"{steps} steps of {dt / 1000:.1f} kyr (half the stability limit) = {duration}, D = {diffusivity} m^2/yr",
    )

    run = demo.simulate(terrain, diffusivity, dt, steps)
    cell_seconds = run.step_seconds / terrain.elevation.size
    report_run(terrain.elevation, run, cell_seconds)
    report_check(demo.compare_with_numpy(terrain, diffusivity, dt), cell_seconds)
    report_recovery(demo.recover(terrain, diffusivity, dt, iterations=12 if quick else 20), diffusivity)

    demo.picture(terrain, run.elevation, diffusivity, duration, out)
    say("picture", str(out))


def report_run(before: np.ndarray, run: demo.Run, cell_seconds: float) -> None:
    after, compiling = run.elevation, f"after {run.first_seconds:.2f} s to trace and compile"
    say("speed", f"{1e3 * run.step_seconds:.3f} ms a step, {1e9 * cell_seconds:.2g} ns a cell, {compiling}")
    say("mean", f"{before.mean(dtype=float):.3f} m before, {after.mean(dtype=float):.3f} m after: the walls are tight")
    say("relief", f"{np.ptp(before):.0f} m before, {np.ptp(after):.0f} m after")


def report_check(check: demo.Check, cell_seconds: float) -> None:
    rows, columns = check.shape
    where = f"crop of {rows} x {columns}, {check.steps} steps"
    say("check", f"{where}: at most {check.difference:.1e} m from the NumPy backend")
    loop = f"{1e6 * check.cell_seconds:.3g} us a cell in the NumPy backend"
    say("ratio", f"{loop}, {check.cell_seconds / cell_seconds:,.0f} times as long as in JAX")


def report_recovery(recovery: demo.Recovery, true: float) -> None:
    start, found, gradient = recovery.start, recovery.found, f"{1e3 * recovery.seconds:.3g} ms each"
    print("\nThe diffusivity again, by gradient descent through the stencil and its time loop")
    say("data", f"the elevations before and after {recovery.steps} steps")
    say("gradients", f"{recovery.iterations} of the mean squared misfit by log D, {gradient}")
    say(
        "D",
        f"true {true:.5f}, start {start:.5f}, recovered {found:.5f} m^2/yr, {100 * abs(found / true - 1):.2g} % off",
    )
    say("misfit", f"{recovery.misfit_before:.2g} m before, {recovery.misfit_after:.2g} m after (root mean square)")
    print()


if __name__ == "__main__":
    sys.exit(main())
