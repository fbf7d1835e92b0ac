"""What is shown of the results: a table for each row, one in Markdown for all, and JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from benchmarks.row import OURS, Row

Results = Mapping[str, Mapping[str, Result]]  # by row, by environment


@dataclass(frozen=True)
class Environment:
    """A column: environment variables that the processes get."""

    name: str
    variables: Mapping[str, str]


STOCK = Environment("stock", {})
HUGE_PAGES = Environment("huge pages", {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})


def medians(result: Result) -> dict[str, float]:
    return {name: statistics.median(times) for name, times in result.seconds.items()}


def best_peer(result: Result) -> str | None:
    """The fastest way to the same result that is not ours."""
    peers = {n: t for n, t in medians(result).items() if not n.startswith(OURS) and n not in result.others}
    return min(peers, key=lambda name: peers[name], default=None)


def headline(result: Result) -> str:
    """The first of our ways."""
    return next(name for name in result.seconds if name.startswith(OURS))


def milliseconds(seconds: float) -> str:
    """Three digits, no exponent."""
    ms = seconds * 1e3
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:#.3g}" if ms >= 0.001 else f"{ms:.4f}"


# A table for each row


HEAD = ("ms", "min", "max", "/ peer", "of copy")


def cells_of(result: Result, way: str) -> tuple[str, ...]:
    """Median, least and most time, ratio to the best peer, and share of the bandwidth of a copy."""
    times = result.seconds.get(way)
    if times is None:
        return ("",) * len(HEAD)
    median, peer = statistics.median(times), best_peer(result)
    ratio = f"{median / medians(result)[peer]:.2f}" if peer else ""
    share = f"{result.moved / median / result.bandwidth:.0%}" if result.moved and way not in result.others else ""
    return milliseconds(median), milliseconds(min(times)), milliseconds(max(times)), ratio, share


def table(row: Row, found: Mapping[str, Result]) -> str:
    """Every way of a row, in each environment side by side; below it the targets, and who was left out."""
    results = list(found.values())
    ways = list(dict.fromkeys(way for result in results for way in result.seconds))
    width = max(map(len, ways))
    lines = [f"{row.name}: {row.title(results[0].size)}"]
    if len(found) > 1:
        lines.append(" " * width + "".join(f" | {name:^{9 * len(HEAD) - 1}}" for name in found))
    lines.append(" " * width + "".join(" | " + " ".join(f"{word:>8}" for word in HEAD) for _ in found))
    for way in ways:
        columns = (" ".join(f"{cell:>8}" for cell in cells_of(result, way)) for result in results)
        lines.append(f"{way:{width}}" + "".join(f" | {column}" for column in columns))
    for environment, result in found.items():
        lines += [f"  target {text} ({environment})" for text in verdicts(row, result)]
    lines += [f"  without {name}: {why}" for name, why in results[0].left_out.items()]
    return "\n".join(lines)


def verdicts(row: Row, result: Result) -> Iterator[str]:
    """Targets are for full sizes."""
    for target in row.targets if result.size == row.full else ():
        reached = target.reached(medians(result))
        yield f"{target.text}: " + ("not measured" if not reached else f"{reached[0]}, {verdict(reached[1])}")


def verdict(met: bool) -> str:
    return "met" if met else "NOT MET"


# One table for all


def summary(rows: Sequence[Row], results: Results, command: str, machine: str) -> str:
    """A table in Markdown: our first way of each row, beside the best peer, and the targets."""
    environments = list(dict.fromkeys(name for found in results.values() for name in found))
    head = ["work", *(f"stencilx, {name}" for name in environments), "best peer"]
    head += [f"/ peer, {name}" for name in environments] + ["of copy", "target: measured"]
    lines = [f"`{command}`, {machine}; medians in ms, float32.", "", line(head), line(["---"] * len(head))]
    lines += [line(summary_cells(row, results[row.name], environments)) for row in rows if row.name in results]
    return "\n".join(lines)


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def summary_cells(row: Row, found: Mapping[str, Result], environments: Sequence[str]) -> list[str]:
    first = next(iter(found.values()))
    ours, peer = headline(first), best_peer(first)
    cells = {name: cells_of(result, ours) for name, result in found.items()}
    absent = ("",) * len(HEAD)
    theirs = f"{peer}: {milliseconds(medians(first)[peer])}" if peer else ""
    return [
        row.title(first.size),
        *(cells.get(name, absent)[0] for name in environments),
        theirs,
        *(cells.get(name, absent)[3] for name in environments),
        next(iter(cells.values()))[4],
        "; ".join(_targets(row, found)),
    ]


def _targets(row: Row, found: Mapping[str, Result]) -> Iterator[str]:
    """Each target with what was measured for it at full size, in each environment."""
    full = [result for result in found.values() if result.size == row.full]
    for target in row.targets if full else ():
        reached = [target.reached(medians(result)) for result in full]
        shown = [f"{value} {verdict(met)}" for value, met in filter(None, reached)]
        yield f"{target.text}: {' / '.join(shown) or 'not measured'}"


# JSON


def write_json(path: Path, results: Results, command: str, machine: str) -> None:
    rows = {row: {name: asdict(result) for name, result in found.items()} for row, found in results.items()}
    path.write_text(json.dumps({"command": command, "machine": machine, "rows": rows}, indent=1) + "\n")


def read_json(path: Path) -> tuple[Results, dict[str, Any]]:
    """The results, and what is said about them."""
    data = json.loads(path.read_text())
    rows = data.pop("rows")
    return {row: {name: Result.read(r) for name, r in found.items()} for row, found in rows.items()}, data
