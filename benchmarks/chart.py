"""The picture: for each row, how long every way takes, relative to the best peer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.measure import Result
from benchmarks.report import OURS, best_peer, medians

COLOURS = {
    OURS: "tab:red",
    "jnp, lax": "tab:blue",
    "kernex": "tab:orange",
    "numba": "tab:green",
    "C": "tab:olive",
    "scipy": "tab:purple",
    "other": "tab:gray",
}


def family(way: str) -> str:
    """Whom a way belongs to: the first word of its name."""
    word = way.replace(",", " ").replace(".", " ").split()[0]
    word = "jnp, lax" if word in ("jnp", "lax") else word
    return word if word in COLOURS else "other"


def relative(result: Result) -> dict[str, float]:
    """Times over that of the best peer; over that of the first way where there is no peer."""
    times = medians(result)
    base = times[best_peer(result) or next(iter(times))]
    return {name: time / base for name, time in times.items()}


def draw(path: Path, results: Mapping[str, Result], note: str) -> None:
    """A group of bars for each row, on a logarithmic axis; shorter is better."""
    figure = Figure(figsize=(9, 1.2 + 0.17 * sum(len(r.seconds) + 2 for r in results.values())), layout="constrained")
    axes = figure.subplots()
    at, ticks = 0.0, []
    for result in results.values():
        bars = relative(result)
        places = [at + n for n in range(len(bars))]
        axes.barh(
            places, [length - 1 for length in bars.values()], left=1, color=[COLOURS[family(way)] for way in bars]
        )
        for place, (way, length) in zip(places, bars.items()):
            axes.text(max(length, 1), place, f" {way}", va="center", fontsize=7)
        ticks.append((places[0] + len(bars) / 2 - 0.5, result.row))
        at = places[-1] + 3
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.margins(x=0.25, y=0.01)
    axes.set_yticks([place for place, _ in ticks], [name for _, name in ticks])
    axes.invert_yaxis()
    axes.set_xlabel(f"time / time of the best peer (shorter is better)\n{note}")
    shown = {family(way) for result in results.values() for way in result.seconds}
    handles = [Patch(color=colour, label=name) for name, colour in COLOURS.items() if name in shown]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), frameon=False)
    figure.savefig(path, dpi=120)
