#!/usr/bin/env python3
"""Timeline of every rank, and the memory of the peak rank under it, as SVG and PNG.

    plots/timeline.py                            simulates with the program named by CPLAB and draws
                                                 docs/figures/timeline.svg (SCENARIO below) and
                                                 docs/figures/predicted-measured.svg (RUN of RECORD below)
    plots/timeline.py --trace TRACE [--json FILE]  what simulate or run --trace wrote, a file or a folder; FILE,
                                                 the result of the same call, gives the title
    plots/timeline.py --json FILE                a result with --operations; no memory in it
    plots/timeline.py --json PREDICTED MEASURED  two results of one plan on one time axis, one above the
                                                 other; no memory (--trace TRACE TRACE too: with the steps)
    plots/timeline.py ... --ranks 0,1            these ranks only
    plots/timeline.py ... --out PATH             writes PATH.svg and PATH.png

Needs matplotlib 3.6. The same input gives the same bytes.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from lib.figure import ROOT, folder, save
from lib.results import fail, lane_order, load, read_operations, read_trace

SCENARIO = ["scenarios/ring.toml", "--set", "problem.sequence=16K"]
RECORD, RUN = "scenarios/measured/h200x2-2026-11-28-ring.jsonl", "run-16K-P2-copy.json"
HARDWARE = "hardware/h200x4.toml"

# Far apart in lightness too (about 30 and 75 of 100), so that they survive greyscale.
COMPUTE, COMMUNICATION = "#1f4e79", "#f2a33a"
INK, FAINT = "#222222", "#9a9a9a"
MEMORY = {"input": "#c9d3de", "output": "#8fa9c4", "working": "#4f7fae", "workspace": "#17314d"}
STYLE = {
    "svg.hashsalt": "cplab",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def title_of(result):
    problem, parallel = result["scenario"]["problem"], result["scenario"]["parallel"]
    tokens = problem["batch"] * problem["sequence"] if "batch" in problem else sum(problem["lengths"])
    size = f"{tokens // 1024}K" if tokens % 1024 == 0 else str(tokens)
    machine = result["scenario"].get("hardware", {}).get("file", "")
    on = f" on {Path(machine).stem}" if machine else ""
    return (
        f"{parallel['algorithm']} attention, {parallel['placement']} placement: {size} tokens, "
        f"{problem['heads']}/{problem['kv_heads']} heads, {problem['dtype']}, {problem['mask']}{on}"
    )


def subtitle_of(result):
    exposed = max(rank["exposed_communication_s"] for rank in result["ranks"])
    scale, unit = time_unit(result["time_s"])
    return (
        f"{result['time_s'] * scale:.3f} {unit}, of which the worst rank spends {exposed * scale:.3f} {unit} "
        "in communication that no computation hides"
    )


def time_unit(seconds):
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * scale >= 2:
            return scale, unit
    return 1e9, "ns"


def memory_unit(most):
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if most >= scale:
            return scale, unit
    return 1, "bytes"


def boxes(slices, low, high, scale, part):
    """Rectangles of `part` of each slice: "wait", or "work" (what is left of it)."""
    polygons = []
    for each in slices:
        middle = min(each.start + each.wait, each.end)
        start, end = (each.start, middle) if part == "wait" else (middle, each.end)
        if end > start:
            start, end = start * scale, end * scale
            polygons.append([(start, low), (end, low), (end, high), (start, high)])
    return polygons


def draw_lane(axes, slices, low, high, scale, pixels):
    work = {True: [s for s in slices if s.communicates], False: [s for s in slices if not s.communicates]}
    for communicates, color in ((False, COMPUTE), (True, COMMUNICATION)):
        polygons = boxes(work[communicates], low, high, scale, "work")
        axes.add_collection(PolyCollection(polygons, facecolor=color, edgecolor="white", linewidth=0.35))
    waits = boxes(work[True], low, high, scale, "wait")
    axes.add_collection(
        PolyCollection(waits, facecolor="white", edgecolor=COMMUNICATION, linewidth=0.5, hatch="//////")
    )
    for each in work[False]:
        if each.label and (each.end - each.start) * scale * pixels > 7 * len(each.label) + 4:
            x = (each.start + each.end) / 2 * scale
            axes.text(x, (low + high) / 2, each.label, ha="center", va="center_baseline", fontsize=6,
                      color="white")


def last_end(ranks):
    return max(s.end for rank in ranks.values() for lane in rank.lanes.values() for s in lane)


def draw_ranks(axes, ranks, scale, end, border=None):
    """One band a rank, in it one row a lane; forward ends at `border`, else with its last operation here."""
    pixels = axes.get_window_extent().width / (end * scale)
    top, ticks = 0.0, []
    for number in sorted(ranks):
        lanes = sorted(ranks[number].lanes.items(), key=lambda item: lane_order(item[0]))
        lanes = [(lane, slices) for lane, slices in lanes if any(s.end > s.start for s in slices)]
        first = top
        for _, slices in lanes:
            draw_lane(axes, slices, top + 0.06, top + 0.94, scale, pixels)
            top += 1
        if lanes:
            ticks.append(((first + top) / 2, f"rank {number}"))
        top += 0.7
    top -= 0.7
    axes.set_ylim(top + 0.25, -0.25)
    axes.set_yticks([y for y, _ in ticks], [name for _, name in ticks])
    axes.tick_params(axis="y", length=0)
    slices = [s for rank in ranks.values() for lane in rank.lanes.values() for s in lane]
    forward = [s.end for s in slices if s.phase == "forward"]
    backward = [s for s in slices if s.phase == "backward"]
    if forward and backward:
        border = (border or max(forward)) * scale
        axes.axvline(border, color=INK, linewidth=0.7, linestyle=(0, (4, 3)), zorder=0.5)
        for x, name in ((border / 2, "forward"), ((border + last_end(ranks) * scale) / 2, "backward")):
            axes.annotate(name, (x, 1), (0, 4), xycoords=("data", "axes fraction"),
                          textcoords="offset points", ha="center", va="bottom", fontsize=9)


def draw_memory(axes, number, events, scale, end):
    categories = [c for c in MEMORY if any(live[c] for _, live in events)]
    most = max(sum(live.values()) for _, live in events)
    bytes_scale, unit = memory_unit(most)
    times = [t * scale for t, _ in events] + [end * scale]
    layers = [[live[c] / bytes_scale for _, live in events + events[-1:]] for c in categories]
    axes.stackplot(times, layers, step="post", colors=[MEMORY[c] for c in categories], linewidth=0)
    axes.axhline(most / bytes_scale, color=INK, linewidth=0.7, linestyle=(0, (1, 2)))
    axes.annotate(f"{most / bytes_scale:.3g} {unit}", (end * scale, most / bytes_scale), (-2, 2),
                  textcoords="offset points", ha="right", va="bottom", fontsize=8)
    axes.set_ylim(0, most / bytes_scale * 1.22)
    axes.set_ylabel(f"live on rank {number} ({unit})")
    handles = [Patch(facecolor=MEMORY[c], label=c) for c in reversed(categories)]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.005, 0.5), frameon=False, fontsize=8,
                handlelength=1.2, handleheight=1.0)


def draw_legend(axes, ranks):
    numbered = any(s.label for rank in ranks.values() for lane in rank.lanes.values() for s in lane)
    handles = [
        Patch(facecolor=COMPUTE, label="compute\n(number: step)" if numbered else "compute"),
        Patch(facecolor=COMMUNICATION, label="communication"),
        Patch(facecolor="white", edgecolor=COMMUNICATION, hatch="//////", label="wait for peers"),
    ]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, fontsize=8,
                handlelength=1.2, handleheight=1.0)


def finish_panels(panels, unit):
    panels[-1].set_xlabel(f"time ({unit})")
    for panel in panels:
        panel.grid(axis="x", color="#e4e4e4", linewidth=0.5)
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)


def height_of(ranks, most):
    """Inches of a panel of these ranks."""
    return min(max(0.19 * sum(len(rank.lanes) + 0.7 for rank in ranks.values()), 1.2), most)


def draw(ranks, title, subtitle):
    end = last_end(ranks)
    scale, unit = time_unit(end)
    with_memory = [n for n in sorted(ranks) if ranks[n].memory]
    heights = [height_of(ranks, 9.0)] + ([1.45] if with_memory else [])
    figure, panels = plt.subplots(len(heights), 1, sharex=True, squeeze=False,
                                  figsize=(10.5, sum(heights) + 1.42), gridspec_kw={"height_ratios": heights})
    axes = panels[0][0]
    size = sum(heights) + 1.42
    figure.subplots_adjust(left=0.075, right=0.87, top=1 - 0.86 / size, bottom=0.5 / size, hspace=0.12)
    figure.text(0.075, 1 - 0.22 / size, title, fontsize=10.5, fontweight="bold", va="center")
    figure.text(0.075, 1 - 0.43 / size, subtitle, fontsize=8.5, va="center", color="#555555")
    axes.set_xlim(0, end * scale)
    draw_ranks(axes, ranks, scale, end)
    draw_legend(axes, ranks)
    if with_memory:
        peak = max(with_memory, key=lambda n: (max(sum(live.values()) for _, live in ranks[n].memory), -n))
        draw_memory(panels[1][0], peak, ranks[peak].memory, scale, end)
    finish_panels(list(panels.flat), unit)
    axes.spines["left"].set_visible(False)
    return figure


def draw_pair(sides, title):
    """Panels one above the other on one time axis; sides: [(name, subtitle, ranks, end of forward)]."""
    end = max(last_end(side[2]) for side in sides) * 1.004  # so that the line at the end is seen
    scale, unit = time_unit(end)
    heights = [height_of(side[2], 6.0) for side in sides]
    above, between, below = 0.92, 0.62, 0.5  # inches: title and header, header, time axis
    size = sum(heights) + above + between * (len(sides) - 1) + below
    figure, panels = plt.subplots(len(sides), 1, sharex=True, figsize=(10.5, size),
                                  gridspec_kw={"height_ratios": heights})
    figure.subplots_adjust(left=0.075, right=0.87, top=1 - above / size, bottom=below / size,
                           hspace=between * len(heights) / sum(heights))
    figure.text(0.075, 1 - 0.22 / size, title, fontsize=10.5, fontweight="bold", va="center")
    panels[0].set_xlim(0, end * scale)
    for axes, (name, subtitle, ranks, border) in zip(panels, sides):
        draw_ranks(axes, ranks, scale, end, border)
        axes.axvline(last_end(ranks) * scale, color=INK, linewidth=0.7, zorder=0.5)
        for text, weight, color, x in ((name, "bold", INK, 0), (subtitle, "normal", "#555555", 62)):
            axes.annotate(text, (0, 1), (x, 22), xycoords="axes fraction", textcoords="offset points",
                          fontsize=9 if x == 0 else 8.5, fontweight=weight, color=color, va="center")
        axes.spines["left"].set_visible(False)
    draw_legend(panels[0], sides[0][2])
    finish_panels(list(panels), unit)
    return figure


def pair_of(results, sides_of_ranks):
    """What draw_pair takes, of a predicted and a measured result and the ranks of each."""
    predicted, measured = results
    if sides_of_ranks[0].keys() != sides_of_ranks[1].keys():
        fail("the two results have different ranks")
    if predicted["command"] == "run" and measured["command"] == "simulate":
        fail("the prediction comes first")
    error = (predicted["time_s"] / measured["time_s"] - 1) * 100
    subtitles = [subtitle_of(predicted) + f" (error {error:+.1f} %)", subtitle_of(measured)]
    drawn = measured.get("instrumented_s", measured["time_s"])
    if abs(drawn / measured["time_s"] - 1) > 0.01:
        scale, unit = time_unit(drawn)
        subtitles[1] += f"; drawn: an instrumented iteration of {drawn * scale:.3f} {unit}"
    borders = [result["phases"][0]["time_s"] for result in results]
    return list(zip(("predicted", "measured"), subtitles, sides_of_ranks, borders))


def chosen(ranks, text):
    """The ranks that --ranks names, or all."""
    numbers = [int(word) for word in re.findall(r"\d+", text)] if text else list(ranks)
    for number in numbers:
        if number not in ranks:
            fail(f"--ranks {text}: there is no rank {number}")
    return {number: ranks[number] for number in numbers}


def call(*command):
    try:
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    except OSError as error:
        fail(f"{' '.join(command)}: {error}")
    if done.returncode != 0:
        fail(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


PROGRAM = os.environ.get("CPLAB", "build/release/cplab")


def require_one_plan(predicted, measured):
    """Two files are of one scenario if the program says so."""
    call(PROGRAM, "compare", os.path.abspath(predicted), os.path.abspath(measured), "--quiet")


def draw_scenario():
    with tempfile.TemporaryDirectory() as traces:
        path = Path(traces) / "result.json"
        call(PROGRAM, "simulate", *SCENARIO, "--trace", traces, "--json", str(path), "--quiet")
        ranks, result = read_trace(traces), load(path)
    title, subtitle = title_of(result), subtitle_of(result)
    save(draw(ranks, title, subtitle), folder() / "timeline", [title, subtitle], dpi=160)


def draw_readme():
    with tempfile.TemporaryDirectory() as work:
        call("scripts/campaign.py", "unpack", RECORD, work)
        measured = Path(work) / RUN
        predicted = Path(work) / "predicted.json"
        call("scripts/gpu/prediction.sh", str(measured), HARDWARE, str(predicted))
        require_one_plan(predicted, measured)
        results = [load(predicted), load(measured)]
    sides = pair_of(results, [read_operations(*each) for each in zip((predicted, measured), results)])
    title = title_of(results[0])
    says = [title, *(f"{name}: {subtitle}" for name, subtitle, *_ in sides)]
    save(draw_pair(sides, title), folder() / "predicted-measured", says, dpi=160)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", metavar="TRACE", nargs="+", default=[],
                        help="of all ranks, or a folder of rank*_trace.json; two: predicted, measured")
    parser.add_argument("--json", metavar="FILE", nargs="+", default=[],
                        help="result of simulate or run; two: predicted, measured")
    parser.add_argument("--ranks", metavar="LIST", help="such as 0,1 (default: all)")
    parser.add_argument("--out", metavar="PATH", help="without suffix (default docs/figures/timeline; of two "
                        "results docs/figures/predicted-measured)")
    parser.add_argument("--title", help="instead of the scenario's words")
    options = parser.parse_args()
    if max(len(options.json), len(options.trace)) > 2:
        parser.error("two results at most: predicted, measured")
    pair = max(len(options.json), len(options.trace)) == 2
    if pair and (len(options.json) != 2 or len(options.trace) == 1):
        parser.error("a comparison needs --json PREDICTED MEASURED, and with --trace two of them")

    results = [load(path) for path in options.json]
    if options.trace:
        ranks = [read_trace(folder) for folder in options.trace]
    elif results:
        ranks = [read_operations(path, result) for path, result in zip(options.json, results)]
    else:
        with plt.rc_context(STYLE):
            draw_scenario()
            draw_readme()
        return
    ranks = [chosen(each, options.ranks) for each in ranks]

    title = options.title or (title_of(results[0]) if results else "")
    default = folder() / ("predicted-measured" if pair else "timeline")
    out = Path(re.sub(r"\.(svg|png)$", "", options.out or str(default)))
    with plt.rc_context(STYLE):
        if pair:
            require_one_plan(*options.json)
            sides = pair_of(results, ranks)
            save(draw_pair(sides, title), out, [title, *(f"{name}: {said}" for name, said, *_ in sides)], dpi=160)
        else:
            subtitle = subtitle_of(results[0]) if results else ""
            save(draw(ranks[0], title, subtitle), out, [title, subtitle], dpi=160)


if __name__ == "__main__":
    main()
