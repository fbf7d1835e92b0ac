"""Time stencilx beside its peers. Each row runs in a process of its own, after every result has been checked.

python -m benchmarks                      (after pip install ".[bench]")
python -m benchmarks --quick              a smoke test on small sizes, in the stock environment only
python -m benchmarks --only conv blur     rows whose name contains one of the words
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from benchmarks import chart
from benchmarks.measure import Result
from benchmarks.report import HUGE_PAGES, STOCK, Environment, Results, summary, table, write_json
from benchmarks.row import Row
from benchmarks.rows import ROWS
from benchmarks.timing import machine


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="WORD", help="rows whose name contains one of the words")
    parser.add_argument("--quick", action="store_true", help="small sizes, 2 rounds, no second environment")
    parser.add_argument("--rounds", type=int, help="runs of each way (7)")
    parser.add_argument("--stock", action="store_true", help="leave out the second environment, with huge pages")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all times there")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw all ways there (.png, .svg, .pdf)")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (2 if options.quick else 7)
    return options


def chosen(words: Sequence[str] | None) -> list[Row]:
    return [row for row in ROWS if not words or any(word in row.name for word in words)]


def run(row: Row, environment: Environment, quick: bool, rounds: int) -> Result:
    """A row in a fresh process. One that fails prints why, and raises CalledProcessError."""
    command = [sys.executable, "-m", "benchmarks.measure", row.name, "--rounds", str(rounds), *["--quick"] * quick]
    inherited = {name: value for name, value in os.environ.items() if name not in HUGE_PAGES.variables}
    done = subprocess.run(
        command, env=inherited | dict(environment.variables), stdout=subprocess.PIPE, text=True, check=True
    )
    return Result.read(json.loads(done.stdout.splitlines()[-1]))


def run_all(
    rows: Sequence[Row], environments: Sequence[Environment], options: argparse.Namespace
) -> tuple[Results, list[str]]:
    """The results by row and environment, each row printed when it is done, and the names of those that failed."""
    results: dict[str, dict[str, Result]] = {}
    failed: list[str] = []
    with tqdm(total=len(rows) * len(environments), file=sys.stderr) as bar:
        for row in rows:
            found: dict[str, Result] = {}
            for environment in environments:
                bar.set_description(f"{row.name}, {environment.name}")
                try:
                    found[environment.name] = run(row, environment, options.quick, options.rounds)
                except subprocess.CalledProcessError as error:
                    failed.append(f"{row.name} ({environment.name}), exit status {error.returncode}")
                bar.update()
            if found:
                results[row.name] = found
                tqdm.write(f"{table(row, found)}\n", file=sys.stdout)
    return results, failed


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    rows = chosen(options.only)
    if options.list:
        for row in rows:
            print(f"{row.name:20} {row.title(row.full)}")
        return 0
    environments = [STOCK] if options.stock or options.quick else [STOCK, HUGE_PAGES]
    results, failed = run_all(rows, environments, options)
    command = " ".join(["python -m benchmarks", *(sys.argv[1:] if arguments is None else arguments)])
    if results:
        print(summary(rows, results, command, machine()))
    if options.json:
        write_json(options.json, results, command, machine())
    if options.chart and results:
        first = {name: next(iter(found.values())) for name, found in results.items()}
        chart.draw(options.chart, first, machine())
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
