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
    """A group of bars for each row, on a logarithmic axis that starts at the best peer: to the left is faster."""
    figure = Figure(figsize=(9, 1.2 + 0.17 * sum(len(r.seconds) + 2 for r in results.values())), layout="constrained")
    axes = figure.subplots()
    at, ticks, longest = 0, {}, []
    for result in results.values():
        bars = relative(result)
        ticks[at + (len(bars) - 1) / 2] = result.row
        for place, (way, length) in enumerate(bars.items(), at):
            colour = COLOURS[family(way)]
            axes.barh(place, length - 1, left=1, color=colour)
            axes.plot(length, place, "o", color=colour, markersize=4)
            axes.text(max(length, 1) * 1.1, place, f" {way}", va="center", fontsize=7)
        at += len(bars) + 2
        longest += bars.values()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(min(longest) / 1.5, max(longest) * 20)
    axes.set_ylim(at - 1.5, -1)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_xlabel(f"time / time of the best peer (shorter is better)\n{note}")
    shown = {family(way) for result in results.values() for way in result.seconds}
    handles = [Patch(color=colour, label=name) for name, colour in COLOURS.items() if name in shown]
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), frameon=False)
    figure.savefig(path, dpi=120)
