"""All rows, family by family."""

from __future__ import annotations

from benchmarks.row import Row
from benchmarks.rows import calls, gradients, maps, steps, sweeps, windows

ROWS: tuple[Row, ...] = (*maps.ROWS, *steps.ROWS, *windows.ROWS, *sweeps.ROWS, *gradients.ROWS, *calls.ROWS)
