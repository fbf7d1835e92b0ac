"""The benchmarks: rows are well formed, their ways agree on small sizes, and what is written says what was measured.

Peers that only the extra `bench` installs (kernex, numba) do not run here; that they are left out by name is tested.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # last, so that an installed stencilx comes first

from benchmarks import __main__ as program  # noqa: E402
from benchmarks import chart, measure, report, row, timing  # noqa: E402
from benchmarks.rows import ROWS  # noqa: E402
from benchmarks.rows.calls import first  # noqa: E402

NAMES = [
    *(f"laplacian-{word}" for word in ("zero", "edge", "wrap", "reflect", "symmetric", "out")),
    *("star", "heat", "wave", "gray-scott"),
    *("conv", "patches", "blur", "blur-separable", "max-pool", "max-filter"),
    *("gauss-seidel-512", "gauss-seidel-2048", "recurrence", "convection"),
    *("heat-gradient", "conv-gradient", "chain"),
    *("eager", "first-call-5", "first-call-225", "first-call-961"),
]
every_row = pytest.mark.parametrize("work", ROWS, ids=lambda work: work.name)


def test_table_of_rows_is_complete() -> None:
    assert [work.name for work in ROWS] == NAMES
    without_target = [work.name for work in ROWS if not work.targets]
    assert without_target == ["first-call-961"]


@every_row
def test_row_is_well_formed(work: row.Row) -> None:
    assert len(work.full) == len(work.quick)
    assert all(small <= large for small, large in zip(work.quick, work.full))
    assert work.title(work.full) != work.title(work.quick)


@every_row
def test_ways_agree(work: row.Row) -> None:
    """On the small size, as `measure` does it; and targets speak of ways that are there, or left out on purpose."""
    case = work.make(work.quick)
    assert set(case.others) <= set(case.ways)
    assert not set(case.ways) & set(work.without)
    if work.name != "chain":  # which is shorter there
        named = {name for target in work.targets for name in (target.way, target.peer) if name}
        assert named <= set(case.ways)
    here = {name: maker for name, maker in case.ways.items() if chart.family(name) not in row.PEERS}
    assert any(name.startswith(row.OURS) for name in here)
    ways, left_out = measure.checked(dataclasses.replace(case, ways=here))
    assert list(ways) == list(here)
    assert left_out == {}


def test_missing_peers_are_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "benchmarks.peers.loops", raising=False)
    for name in row.PEERS:
        monkeypatch.setitem(sys.modules, name, None)
    patches = next(work for work in ROWS if work.name == "patches")
    result = measure.measure(patches, quick=True, rounds=1)
    assert result.left_out == {"kernex": "kernex is not installed", "numba loops": "numba is not installed"}
    assert list(result.seconds) == ["stencilx", "jnp.stack of slices", "lax.conv_general_dilated_patches"]
    shown = report.table(patches, {"stock": result})
    assert "without numba loops: numba is not installed" in shown


def test_other_missing_modules_are_errors() -> None:
    case = row.Case({"way": row.peer("no_such_module", "f")}, 0)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        measure.prepared(case)


def test_wrong_results_are_refused() -> None:
    right = np.array([1.0, -2.0])
    ways = {"a": lambda: right, "b": lambda: (right + 1e-3,)}
    timing.check(ways, right, {}, 1e-3)
    for wrong in (right + 3e-3, right[:1], np.array([1.0, np.nan])):
        with pytest.raises(AssertionError, match="a "):
            timing.check({"a": lambda wrong=wrong: wrong}, right, {}, 1e-3)
    timing.check({"a": lambda: right, "x": lambda: 5.0}, right, {"x": 5.0}, 1e-3)


def test_ways_alternate() -> None:
    order: list[str] = []

    def noting(name: str) -> Callable[[], Any]:
        return lambda: order.append(name)

    seconds = timing.alternate({"a": noting("a"), "b": noting("b")}, rounds=2)
    assert {name: len(times) for name, times in seconds.items()} == {"a": 2, "b": 2}
    without_repeats = [name for n, name in enumerate(order) if n == 0 or order[n - 1] != name]
    assert without_repeats == ["a", "b", "a", "b", "a", "b"]


def test_a_slow_way_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "SLOW", 0.0)
    calls: list[int] = []
    seconds = timing.alternate({"a": lambda: calls.append(1)}, rounds=5)
    assert len(calls) == len(seconds["a"]) == 1


def test_copy_bandwidth() -> None:
    assert 1e8 < timing.copy_bandwidth(1 << 20, rounds=3) < 1e13


def test_first_call_notices_a_second_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(kernel: Any, **options: Any) -> Any:
        return lambda x: kernel(x)

    first(lambda u: u[0, 0], jnp.ones((3, 5)))()
    monkeypatch.setattr("stencilx.kmap", forgetful)
    with pytest.raises(AssertionError, match="traced the kernel again"):
        first(lambda u: u, jnp.ones((3, 5)))()


TIMES = {"stencilx": 0.02, "stencilx, two passes": 0.004, "fast": 0.01, "slow": 50.0}


@pytest.mark.parametrize(
    ("target", "text", "reached"),
    [
        (row.Target("fast", 1.15), "≤ 1.15 × fast", ("2", False)),
        (row.Target("fast", 2.0), "≤ 2 × fast", ("2", True)),
        (row.times_as_fast(2000, "slow"), "≥ 2,000 × as fast as slow", ("2,500", True)),
        (row.times_as_fast(5, "fast", "stencilx, two passes"), "two passes ≥ 5 × as fast as fast", ("2.5", False)),
        (row.Target("fast", plus=100e-6), "≤ fast + 100 µs", ("10 ms", False)),
        (row.Target(plus=0.3), "≤ 0.3 s", ("20 ms", True)),
        (row.Target("absent", 2.0), "≤ 2 × absent", None),
    ],
)
def test_target(target: row.Target, text: str, reached: tuple[str, bool] | None) -> None:
    assert target.text == text
    assert target.reached(TIMES) == reached


# What is written, from made-up numbers


def work(name: str, *targets: row.Target) -> row.Row:
    return row.Row(name, "work on {} x {}", (300, 500), (3, 5), lambda size: row.Case({}, 0), targets)


def result(name: str, scale: float, **changes: Any) -> measure.Result:
    seconds = {
        "stencilx": [0.002 * scale, 0.004 * scale, 0.003 * scale],
        "x + 1": [0.001] * 3,
        "jnp slices": [0.006] * 3,
        "C loop": [12.0],
    }
    given = {"others": ["x + 1"], "left_out": {"kernex": "kernex is not installed"}, "moved": 3000, "bandwidth": 1e7}
    return measure.Result(name, (300, 500), seconds, **(given | changes))


MADE_UP = [work("a", row.Target("x + 1", 2.0), row.times_as_fast(1000, "C loop")), work("b")]
RESULTS = {
    "a": {"stock": result("a", 1.0), "huge pages": result("a", 0.5)},
    "b": {"stock": result("b", 1.0, moved=0)},
}


def test_table() -> None:
    assert report.table(MADE_UP[0], RESULTS["a"]).splitlines() == [
        "a: work on 300 x 500",
        f"           | {'stock':^44} | {'huge pages':^44}",
        "           |       ms      min      max   / peer  of copy |       ms      min      max   / peer  of copy",
        "stencilx   |     3.00     2.00     4.00     0.50      10% |     1.50     1.00     2.00     0.25      20%",
        "x + 1      |     1.00     1.00     1.00     0.17          |     1.00     1.00     1.00     0.17         ",
        "jnp slices |     6.00     6.00     6.00     1.00       5% |     6.00     6.00     6.00     1.00       5%",
        "C loop     |   12,000   12,000   12,000  2000.00       0% |   12,000   12,000   12,000  2000.00       0%",
        "  target ≤ 2 × x + 1: 3, NOT MET (stock)",
        "  target ≥ 1,000 × as fast as C loop: 4,000, met (stock)",
        "  target ≤ 2 × x + 1: 1.5, met (huge pages)",
        "  target ≥ 1,000 × as fast as C loop: 8,000, met (huge pages)",
        "  without kernex: kernex is not installed",
    ]


def test_small_sizes_judge_no_target() -> None:
    small = {"stock": dataclasses.replace(result("a", 1.0), size=(3, 5))}
    assert "target" not in report.table(MADE_UP[0], small)
    assert report.summary(MADE_UP, {"a": small}, "c", "m").splitlines()[-1].endswith("|  |")


def test_summary() -> None:
    assert report.summary(MADE_UP, RESULTS, "python -m benchmarks", "some machine").splitlines() == [
        "`python -m benchmarks`, some machine; medians in ms, float32.",
        "",
        "| work | stencilx, stock | stencilx, huge pages | best peer | / peer, stock | / peer, huge pages | of copy "
        "| target: measured |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| work on 300 x 500 | 3.00 | 1.50 | jnp slices: 6.00 | 0.50 | 0.25 | 10% "
        "| ≤ 2 × x + 1: 3 NOT MET / 1.5 met; ≥ 1,000 × as fast as C loop: 4,000 met / 8,000 met |",
        "| work on 300 x 500 | 3.00 |  | jnp slices: 6.00 | 0.50 |  |  |  |",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(24.0, "24,000"), (0.0954, "95.4"), (2.5e-3, "2.50"), (4.2e-5, "0.0420"), (7e-7, "0.0007")]
)
def test_milliseconds(seconds: float, text: str) -> None:
    assert report.milliseconds(seconds) == text


def test_json_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    report.write_json(file, RESULTS, "the command", "some machine")
    assert report.read_json(file) == (RESULTS, {"command": "the command", "machine": "some machine"})


def test_chart(tmp_path: Path) -> None:
    no_peer = dataclasses.replace(result("c", 1.0), others=["x + 1", "jnp slices", "C loop"])
    assert chart.relative(result("a", 1.0)) == pytest.approx(
        {"stencilx": 0.5, "x + 1": 1 / 6, "jnp slices": 1.0, "C loop": 2000.0}
    )
    assert chart.relative(no_peer)["stencilx"] == 1.0
    file = tmp_path / "chart.svg"
    chart.draw(file, {"a": result("a", 1.0), "c": no_peer}, "some machine")
    assert file.read_text().startswith("<?xml")


def test_machine_names_no_host() -> None:
    assert timing.machine().endswith(f"JAX {jax.__version__}, NumPy {np.__version__}")


# The command line


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--list", "--only", "pool", "gauss"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "max-pool",
        "gauss-seidel-512",
        "gauss-seidel-2048",
    ]


def test_no_row_is_an_error() -> None:
    assert program.main(["--only", "no such row", "--stock"]) == 1


def test_a_row_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*args: Any) -> measure.Result:
        raise subprocess.CalledProcessError(1, "row")

    monkeypatch.setattr(program, "run", fail)
    assert program.main(["--only", "conv-gradient"]) == 1
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "failed: conv-gradient (stock), exit status 1",
        "failed: conv-gradient (huge pages), exit status 1",
    ]


def test_runs_as_a_program(tmp_path: Path) -> None:
    """One cheap row, whose peers need no extra, in a process of its own."""
    options = [
        "--only",
        "recurrence",
        "--quick",
        "--json",
        str(tmp_path / "r.json"),
        "--chart",
        str(tmp_path / "r.png"),
    ]
    command = [sys.executable, "-m", "benchmarks", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| work | stencilx, stock |" in done.stdout
    assert "recurrence, stock: 100%" in done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["rows"]["recurrence"]["stock"]["size"] == [1000]
    assert (tmp_path / "r.png").stat().st_size > 1000
