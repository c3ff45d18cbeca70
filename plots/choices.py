#!/usr/bin/env python3
"""Time over that of the fastest kernel, for each way to choose one, over the calls of a study.

    plots/choices.py STUDY.json --out PATH     writes PATH.svg and PATH.png (scripts/choice_study.py measured STUDY.json)
    plots/choices.py                           docs/figures/choices of the record that is shipped

A line for each way: its calls from the worst to the best; hollow dots are of shapes that the model was not fitted to.
Needs matplotlib 3.6.
"""
import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from choice_study import mean, regrets  # noqa: E402

from lib.figure import folder, save  # noqa: E402

COLOURS = {"first": "#9a9a9a", "static": "#1f4e79", "heuristic": "#f2a33a", "hybrid": "#2e8b57", "autotune": "#222222"}


def said(rows):
    """The means and the worst that page 14 has in its table: "held out, static: 0.41 % mean, 12.8 % worst"."""
    lines = []
    for held_out, name in ((True, "held out"), (False, "in the tables")):
        for way in COLOURS:
            values = [regret[way] for call, regret in rows if call["held_out"] == held_out and way in regret]
            lines.append(f"{name}, {way}: {100 * mean(values):.2f} % mean, {100 * max(values):.1f} % worst")
    return lines


def draw(record, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    rows = regrets(record)
    with plt.rc_context({"svg.hashsalt": "cplab", "font.size": 9}):
        figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
        for way, colour in COLOURS.items():
            points = sorted(((regret[way], call["held_out"]) for call, regret in rows if way in regret), reverse=True)
            places = range(1, len(points) + 1)
            axes.plot(places, [1 + regret for regret, _ in points], color=colour, linewidth=1, label=way)
            for held_out in (False, True):
                inside = [(x, 1 + regret) for x, (regret, held) in zip(places, points) if held == held_out]
                axes.plot([x for x, _ in inside], [y for _, y in inside], "o", markersize=3.5, color=colour,
                          markerfacecolor="white" if held_out else colour)
        axes.set_xlabel("calls, from the worst of each way to its best")
        axes.set_ylabel("time over that of the fastest kernel")
        axes.set_title(f"{record['machine']['gpu']}: what each way of choosing loses", fontsize=9)
        axes.legend(frameon=False)
        save(figure, path, said(rows), dpi=150)
        plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    study = arguments.study
    if study is None:
        study = ROOT / "scenarios/measured/h200x2-2026-11-23-choices.json"
    draw(json.loads(Path(study).read_text()), arguments.out or folder() / "choices")


if __name__ == "__main__":
    main()
