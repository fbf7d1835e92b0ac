"""`python -m stencilx` as a new user runs it, and the stencil it is made of."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from stencilx import demo
from stencilx.__main__ import huge_pages_hint

DY, DX = 3.0, 2.0
MACHINE = ["versions", "devices", "backends"]
FORWARD = ["grid", "time", "speed", "mean", "relief", "check", "ratio"]
BACKWARD = ["data", "gradients", "D", "misfit"]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONWARN")}
    clean["STENCILX_BACKEND"] = "numpy"  # which the job must not mind
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=clean, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("quick")
    return run("-m", "stencilx", "--quick", "--out", "picture.png", cwd=folder), folder


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, f"{pattern!r} is not in\n{text}"
    return float(found[1].replace(",", ""))


def test_runs_clean(quick):
    done, _ = quick
    assert (done.returncode, done.stderr) == (0, "")


def test_report_has_every_line(quick):
    topics = re.findall(r"^  (\w[\w ]{0,10}?)  +\S", quick[0].stdout, re.MULTILINE)
    assert [topic for topic in topics if topic != "huge pages"] == [*MACHINE, *FORWARD, *BACKWARD, "picture"]
    assert max(map(len, quick[0].stdout.splitlines())) <= 110


def test_report_names_what_is_installed(quick):
    assert "stencilx 0.1.0" in quick[0].stdout
    assert f"NumPy {np.__version__}" in quick[0].stdout
    assert "array_api, jax, numpy" in quick[0].stdout


def test_recovers_the_diffusivity(quick):
    true, start, found = (number(rf"{word} ([\d.]+)", quick[0].stdout) for word in ("D +true", "start", "recovered"))
    assert abs(start / true - 1) > 0.5
    assert abs(found / true - 1) < 0.01
    assert number(r"([\d.e-]+) % off", quick[0].stdout) < 1


def test_crop_agrees_with_the_numpy_backend(quick):
    assert number(r"at most ([\d.e+-]+) m from the NumPy backend", quick[0].stdout) < 5e-4


def test_compiled_loop_is_faster_than_the_cell_loop(quick):
    assert number(r"([\d,]+) times as long as in JAX", quick[0].stdout) > 100


def test_keeps_the_mean_elevation(quick):
    before, after = re.findall(r"([\d.]+) m (?:before|after)", quick[0].stdout)[:2]
    assert abs(float(before) - float(after)) < 2e-3


def test_writes_the_picture(quick):
    content = (quick[1] / "picture.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (1620, 768)
    assert 100_000 < len(content) < 3_000_000


def test_help(tmp_path):
    done = run("-m", "stencilx", "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("python -m stencilx", "--out FILE", "--quick", "stencilx.png", "hillslope diffusion"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("out", "message"), [("no/where.png", "there is no folder 'no'"), ("x.xyz", "must end in .png, .jpg, .pdf or .svg")]
)
def test_refuses_a_picture_before_the_work(out, message, tmp_path):
    done = run("-m", "stencilx", "--out", out, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


def test_without_matplotlib(tmp_path):
    blocked = "import runpy, sys; sys.modules['matplotlib'] = None; sys.argv = ['stencilx', '--quick']; "
    done = run("-c", blocked + "runpy.run_module('stencilx', run_name='__main__')", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == 'python -m stencilx needs matplotlib: pip install "stencilx[plot]"\n'


def test_without_tqdm(monkeypatch):
    monkeypatch.setattr(demo, "tqdm", None)
    assert list(demo.progress(range(3), "three")) == [0, 1, 2]


def test_says_nothing_of_huge_pages_where_they_are_set(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    assert huge_pages_hint() is None


def test_spacing_in_metres():
    terrain = demo.jacksboro()
    assert terrain.elevation.shape == (344, 403)
    assert terrain.dy == pytest.approx(92.66, abs=0.01)
    assert terrain.dx == pytest.approx(92.66 * np.cos(np.radians(36.59)), abs=0.01)


# The stencil

BACKENDS = ("numpy", "jax")


def small_terrain() -> demo.Terrain:
    elevation = np.random.default_rng(3).normal(-200, 50, (3, 5)).astype(np.float32)
    return demo.Terrain(elevation, DY, DX)


def one_step_in_loops(z: np.ndarray, diffusivity: float, dt: float) -> np.ndarray:
    rows, columns = z.shape
    out = z.copy()
    for i in range(rows):
        for j in range(columns):
            for di, dj, distance in ((-1, 0, DY), (1, 0, DY), (0, -1, DX), (0, 1, DX)):
                if 0 <= i + di < rows and 0 <= j + dj < columns:  # nothing flows through a wall
                    out[i, j] += diffusivity * dt * (z[i + di, j + dj] - z[i, j]) / distance**2
    return out


@pytest.mark.parametrize("backend", BACKENDS)
def test_step_is_the_sum_of_the_fluxes(backend):
    terrain, diffusivity = small_terrain(), 0.7
    dt = terrain.time_step(diffusivity)
    ry, rx = (float(r) for r in terrain.numbers(diffusivity, dt))
    assert ry / rx == pytest.approx((DX / DY) ** 2, rel=1e-6)
    got = np.asarray(demo.diffuse.with_backend(backend)(terrain.elevation, ry, rx))
    np.testing.assert_allclose(got, one_step_in_loops(terrain.elevation, diffusivity, dt), rtol=2e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_steps_keep_the_mean(backend):
    terrain = small_terrain()
    ry, rx = (float(r) for r in terrain.numbers(0.7, terrain.time_step(0.7)))
    z = terrain.elevation
    for _ in range(20):
        z = np.asarray(demo.diffuse.with_backend(backend)(z, ry, rx))
    assert z.mean(dtype=float) == pytest.approx(terrain.elevation.mean(dtype=float), rel=1e-6)
    assert z.std() < 0.1 * terrain.elevation.std()


def test_longest_stable_step_halved():
    """One such step levels the shortest wave, a checkerboard; one twice as long would turn it upside down."""
    checkerboard = (-1.0) ** np.add.outer(np.arange(6), np.arange(8))
    terrain = demo.Terrain(checkerboard, DY, DX)
    for factor, left in ((1, 0), (2, -1)):
        ry, rx = (float(r) for r in terrain.numbers(0.7, factor * terrain.time_step(0.7)))
        inner = demo.diffuse.with_backend("numpy")(checkerboard, ry, rx)[1:-1, 1:-1]
        np.testing.assert_allclose(inner, left * checkerboard[1:-1, 1:-1], atol=1e-6)
