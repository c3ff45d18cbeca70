#!/usr/bin/env python3
"""Points drawn over all families, predicted and then run: predicted against measured, and the error against tokens.

    plots/drawn.py RECORD.json --out PATH     writes PATH-predicted and PATH-errors, each as .svg and .png
    plots/drawn.py                            docs/figures/drawn-predicted and drawn-errors of the record that is shipped

RECORD: what scripts/gpu/off_grid.py campaign --draw families wrote. Tokens are of all sequences. Needs matplotlib 3.6.
"""
import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/gpu"))
from off_grid_table import summary_rows  # noqa: E402

from lib.figure import folder, save  # noqa: E402

# Sixteen families in six groups, each with its colour; families of one group have markers of their own.
GROUPS = {
    "ring": ("#1f4e79", ("ring", "head size 64", "one GPU", "forward alone")),
    "windows, several sequences": ("#2e8b57", ("window", "batch", "packed ring", "hybrid")),
    "gathers": ("#8c5a2b", ("all_gather", "head_strided")),
    "trades of heads": ("#f2a33a", ("all_to_all", "packed trade", "two levels")),
    "linear attention": ("#7a4fa3", ("linear", "linear long")),
    "CUDA graphs": ("#c0392b", ("graph",)),
}
MARKERS = "os^D"
INK, FAINT = "#222222", "#9a9a9a"
STYLE = {"svg.hashsalt": "cplab", "font.size": 9, "axes.edgecolor": FAINT, "axes.linewidth": 0.6, "text.color": INK,
         "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK}


def tokens(point):
    problem = point["problem"]
    return sum(problem["lengths"]) if "lengths" in problem else problem["batch"] * problem["sequence"]


def of_families(points, names):
    return [point for point in points if point["form"] in names]


def said(points):
    """The rows of the README's table: "ring: 8 points, median 2.7 %, 95 % 5.9 %, largest 5.9 %, mean +2.7 %"."""
    return [f"{name}: {count} points, median {median} %, 95 % {most} %, largest {largest} %, mean {mean} %"
            for name, count, median, most, largest, mean, *_ in summary_rows(points)]


def draw_predicted(plt, points, path):
    figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
    ends = [0.12, 80]
    axes.fill_between(ends, [0.9 * end for end in ends], [1.1 * end for end in ends], color="#e4e8ee", linewidth=0,
                      label="within 10 %")
    axes.plot(ends, ends, color=FAINT, linewidth=0.8, label="as predicted")
    for name, (colour, families) in GROUPS.items():
        some = of_families(points, families)
        measured = [point["measured"]["time_s"] * 1e3 for point in some]
        axes.vlines(measured, [point["predicted"]["low_s"] * 1e3 for point in some],
                    [point["predicted"]["high_s"] * 1e3 for point in some], color=colour, linewidth=0.6, alpha=0.45)
        axes.plot(measured, [point["predicted"]["time_s"] * 1e3 for point in some], "o", markersize=3.6, color=colour,
                  markeredgecolor="white", markeredgewidth=0.3, label=f"{name} ({len(some)})")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured (ms)", ylabel="predicted (ms)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_title(f"{len(points)} drawn points on 2 x H200, predicted before they ran; lines: from low to high",
                   fontsize=9)
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    save(figure, path, said(points), dpi=150)
    plt.close(figure)


def draw_errors(plt, points, path):
    figure, grid = plt.subplots(2, 3, figsize=(7.6, 4.4), sharex=True, sharey=True, layout="constrained")
    for axes, (name, (colour, families)) in zip(grid.flat, GROUPS.items()):
        axes.axhspan(-5, 5, color="#e4e8ee", linewidth=0)
        axes.axhline(0, color=FAINT, linewidth=0.8)
        for number, (family, marker) in enumerate(zip(families, MARKERS)):
            some = of_families(points, (family,))
            axes.plot([tokens(point) for point in some], [point["errors"]["time"] * 100 for point in some], marker,
                      markersize=4, color=colour, markerfacecolor="white" if number % 2 else colour, label=family)
        axes.set_title(name, fontsize=9)
        axes.legend(frameon=False, fontsize=7, loc="lower right", ncols=2, handletextpad=0.1, columnspacing=0.6)
    axes.set(xscale="log", ylim=(-27, 27), xlim=(3500, 6e5))
    axes.set_xticks([4096, 16384, 65536, 262144], ["4K", "16K", "64K", "256K"])
    axes.minorticks_off()
    figure.supxlabel("tokens (shaded: within 5 %)", fontsize=9)
    figure.supylabel("error of the prediction (%)", fontsize=9)
    save(figure, path, said(points), dpi=150)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", nargs="?", default=ROOT / "scenarios/measured/h200x2-2026-11-29-drawn.json")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    points = [point for point in json.loads(Path(arguments.record).read_text())["points"] if "errors" in point]
    out = arguments.out or folder() / "drawn"
    with plt.rc_context(STYLE):
        draw_predicted(plt, points, f"{out}-predicted")
        draw_errors(plt, points, f"{out}-errors")


if __name__ == "__main__":
    main()
