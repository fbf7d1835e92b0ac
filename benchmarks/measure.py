"""One row in this process: the command line starts one for each row and environment, and reads what it prints."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.row import PEERS, Case, Row, Way
from benchmarks.rows import ROWS
from benchmarks.timing import alternate, check, copy_bandwidth


@dataclass(frozen=True)
class Result:
    """What a process found out about a row."""

    row: str
    size: tuple[int, ...]
    seconds: Mapping[str, list[float]]
    others: list[str]  # ways that compute something else, so no peers
    left_out: Mapping[str, str]
    moved: int  # bytes, at least
    bandwidth: float  # bytes a second, of a copy

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Result:
        return cls(**{**data, "size": tuple(data["size"])})


def prepared(case: Case) -> tuple[dict[str, Way], dict[str, str]]:
    """The ways that can run here, and the names of those that cannot, with the reason."""
    ways, left_out = {}, {}
    for name, maker in case.ways.items():
        try:
            ways[name] = maker()
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if package not in PEERS:
                raise
            left_out[name] = f"{package} is not installed"
    return ways, left_out


def checked(case: Case) -> tuple[dict[str, Way], dict[str, str]]:
    """As `prepared`, after each way has given the right result."""
    ways, left_out = prepared(case)
    check(ways, case.expected, case.others, case.tolerance)
    return ways, left_out


def measure(row: Row, quick: bool, rounds: int) -> Result:
    size = row.quick if quick else row.full
    case = row.make(size)
    ways, left_out = checked(case)
    bandwidth = copy_bandwidth(1 << 22 if quick else 1 << 27)
    seconds = alternate(ways, rounds)
    return Result(row.name, size, seconds, list(case.others), {**left_out, **row.without}, case.moved, bandwidth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=[row.name for row in ROWS])
    parser.add_argument("--quick", action="store_true", help="the small size")
    parser.add_argument("--rounds", type=int, default=7, help="runs of each way (7)")
    options = parser.parse_args()
    row = next(row for row in ROWS if row.name == options.row)
    print(json.dumps(asdict(measure(row, options.quick, options.rounds))))


if __name__ == "__main__":
    main()
