"""Plots from their data; needs matplotlib, which only benchmarks do (`pip install '.[bench]'`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.benchmarks.report import Plot


def draw(plot: Plot, folder: Path) -> Path:
    """Writes `<file>.png`; returns where."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), dpi=110)
    axes.set_xscale("log" if plot.log_x else "linear")
    axes.set_yscale("log" if plot.log_y else "linear")
    if plot.spans:
        _spans(axes, plot)
    elif plot.categories:
        _groups(axes, plot)
    else:
        _lines(axes, plot)
    for label, height in plot.bars:
        axes.axhline(height, linestyle="--", linewidth=1, color="0.4")
        axes.annotate(label, (1.0, height), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7, color="0.3")
    axes.set(title=plot.title, xlabel=plot.x_label, ylabel=plot.y_label)
    axes.grid(True, axis="y", alpha=0.3)
    if not plot.log_y and not plot.spans:
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    path = folder / f"{plot.file}.png"
    # Without the version of the library a file changes only when the figures do.
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)
    return path


def _lines(axes: Any, plot: Plot) -> None:
    for series in plot.series:
        x, middle, low, high = zip(*series.points, strict=True)
        axes.plot(x, middle, marker="o", markersize=4, label=series.name)
        axes.fill_between(x, low, high, alpha=0.2)
    places = sorted({point[0] for series in plot.series for point in series.points})
    if len(places) <= 8 and not plot.log_x and all(place.is_integer() for place in places):
        axes.set_xticks(places)


def _spans(axes: Any, plot: Plot) -> None:
    """A row per category, a colour per series."""
    for number, series in enumerate(plot.series):
        for row in range(len(plot.categories)):
            spans = [(begin, end - begin) for place, begin, end, _ in series.points if place == row]
            label = series.name if row == 0 else None
            axes.broken_barh(spans, (row - 0.4, 0.8), facecolor=f"C{number}", label=label)
    axes.set_yticks(range(len(plot.categories)), plot.categories, fontsize=8)


def _groups(axes: Any, plot: Plot) -> None:
    """Bars side by side, with their intervals; one on the other where the plot is stacked."""
    width = 0.6 if plot.stacked else 0.8 / len(plot.series)
    heights = [0.0] * len(plot.categories)
    for number, series in enumerate(plot.series):
        offset = 0.0 if plot.stacked else (number - (len(plot.series) - 1) / 2) * width
        x, middle, low, high = zip(*series.points, strict=True)
        bottoms = [heights[int(place)] for place in x] if plot.stacked else None
        errors = (
            None
            if plot.stacked
            else [[m - a for m, a in zip(middle, low, strict=True)], [b - m for b, m in zip(high, middle, strict=True)]]
        )
        axes.bar([place + offset for place in x], middle, width, bottom=bottoms, yerr=errors, capsize=2, label=series.name)
        for place, height in zip(x, middle, strict=True):
            heights[int(place)] += height
    axes.set_xticks(range(len(plot.categories)), plot.categories, fontsize=8)
