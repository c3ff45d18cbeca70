#!/usr/bin/env python3
"""Time of the backward of dynamic mask attention by density, the scan of the keep mask and the matrix work apart.

    plots/dynamic_mask.py [RECORD.json] [--out PATH]

RECORD.json is what `tests/gpu/tiles --bench --only masked` prints; without one, the newest that is shipped. Writes
PATH.svg and PATH.png (docs/figures/dynamic-mask.svg alone). Needs matplotlib 3.6.
"""
import argparse
import json
from pathlib import Path

from lib.figure import ROOT, folder, save


def parts(row):
    """Milliseconds of a row: a bias gradient of pairs is set to 0 before the products, which have that in their time."""
    return {"scan of the keep mask": 1e3 * row["scan_seconds"],
            "bias gradient set to 0": 1e3 * row["fill_seconds"],
            "matrix work": 1e3 * (row["product_seconds"] - row["fill_seconds"]),
            "all": 1e3 * row["seconds"]}


STYLES = {"all": ("#222222", 2.0), "matrix work": ("#1f4e79", 1.4), "bias gradient set to 0": ("#9a9a9a", 1.4),
          "scan of the keep mask": ("#f2a33a", 1.4)}


def draw_shape(axes, rows, densities):
    blocks = {bias: {row["density"]: row for row in rows if row["bias"] == bias and row["pattern"] == "blocks"}
              for bias in ("full", "keys")}
    places = range(len(densities))
    for name, (colour, width) in STYLES.items():
        times = [parts(blocks["full"][density])[name] for density in densities]
        axes.plot(places, times, "o-", color=colour, linewidth=width, markersize=3, label=f"bias of pairs: {name}")
    axes.plot(places, [1e3 * blocks["keys"][density]["seconds"] for density in densities], "s--", color="#2e8b57",
              linewidth=1.4, markersize=3, label="bias of keys: all")
    scattered = [(densities.index(row["density"]), 1e3 * row["seconds"]) for row in rows if row["pattern"] == "pairs"]
    axes.plot(*zip(*scattered), "x", color="#222222", label="bias of pairs: all, single pairs kept")
    first = rows[0]
    axes.set_title(f"{first['sequence'] // 1024}K tokens, {first['heads']} heads", fontsize=9)
    axes.set_yscale("log")
    axes.set_xticks(list(places), [f"{100 * density:g} %" for density in densities])
    axes.set_xlabel("cells of 64 x 64 pairs (x: single pairs) that are kept")


def said(rows):
    """"32K tokens, 100 % of the cells kept, bias of pairs: 59.6 ms, of which the two floors 3.0", as page 15 says it."""
    lines = []
    for row in rows:
        if row["pattern"] == "blocks" and row["bias"] == "full":
            floors = row["scan_seconds"] + row["fill_seconds"]
            lines.append(f"{row['sequence'] // 1024}K tokens, {100 * row['density']:g} % of the cells kept, bias of pairs: "
                         f"{1e3 * row['seconds']:.1f} ms, of which the two floors {1e3 * floors:.1f}")
    return lines


def draw(record, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    rows = [row for row in record if row["class"] == "attend_backward"]
    densities = sorted({row["density"] for row in rows if row["pattern"] == "blocks"})
    lengths = sorted({row["sequence"] for row in rows})
    with plt.rc_context({"svg.hashsalt": "cplab", "font.size": 9}):
        figure, panels = plt.subplots(1, len(lengths), figsize=(9, 3.8), layout="constrained")
        for axes, length in zip(panels, lengths):
            draw_shape(axes, [row for row in rows if row["sequence"] == length], densities)
        panels[0].set_ylabel("time of the backward, ms")
        panels[-1].legend(frameon=False, fontsize=7)
        figure.suptitle("Dynamic mask attention on an H200: bf16, head size 128, causal", fontsize=9)
        save(figure, path, said(rows), dpi=150)
        plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", nargs="?")
    parser.add_argument("--out", default=folder() / "dynamic-mask")
    arguments = parser.parse_args()
    shipped = ROOT / "scenarios/measured/h200-2026-11-23-dynamic-mask.json"
    draw(json.loads(Path(arguments.record or shipped).read_text()), arguments.out)


if __name__ == "__main__":
    main()
