#!/usr/bin/env python3
"""hardware/h100x8-hopper.toml: 8 x H100 with our kernels, from h200x4.toml and from runs of two H100.

    h100_fit.py fit       the constants that fit one half of the runs best, as the file would have them
    h100_fit.py hardware  > scenarios/hardware/h100x8-hopper.toml, with those constants
    h100_fit.py table     how far the file's predictions lie from the runs, half by half, as markdown

Of the scenarios in the order of the record one is fitted, two are held out, two fitted, and so on, each with all its runs:
neighbours differ in placement or transport alone. A run is predicted at the middle one of its timed iterations, since
clocks fall while a GPU works. Needs build/release/cplab (or what CPLAB names).
"""
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "scenarios"
RECORD = "h100x2-2026-11-25-runs.json"
CPLAB = os.environ.get("CPLAB", str(ROOT / "build/release/cplab"))
COPY_H200, COPY_H100 = 4.2161e12, 3.01e12  # bytes a second, read plus written, as the files of both say
RATIO = COPY_H200 / COPY_H100
ATTENTION = ("attend", "attend_backward")
ELEMENTWISE = ("merge", "copy", "cast", "add", "fill", "row_dot")
# What is fitted, where the search begins, and by what it steps: the times of attention's tables and of messages beside those
# of h200x4.toml, and speed of [burst].
CONSTANTS = {"attention": 1.0, "speed": 1.165, "messages": 1.0}
STEPS = {"attention": 0.01, "speed": 0.01, "messages": 0.05}


def record():
    return json.loads((SCENARIOS / "measured" / RECORD).read_text())


def value_text(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list):
        return "[" + ", ".join(value_text(one) for one in value) + "]"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def entry_text(section, entry, source):
    """An entry of a list of tables, assumed, without where its numbers were measured."""
    kept = {key: value for key, value in entry.items() if key not in ("origin", "tool", "machine", "date", "source")}
    lines = [f"{key} = {value_text(value)}" for key, value in kept.items()]
    return "\n".join([f"[[{section}]]", *lines, 'origin = "assumed"', f'source = "{source}"', ""])


def kernel_entry(entry, constants):
    """A table of h200x4.toml as it is taken for an H100, and a sentence on that."""
    seconds, kind = entry["seconds"], entry["class"]
    if kind in ATTENTION:
        scaled = [one * constants["attention"] for one in seconds]
        source = f"h200x4.toml, times {constants['attention']:g}, fitted to runs of 2 x H100: the peak is the same"
    elif kind in ELEMENTWISE:
        scaled = [one + size * (1 / COPY_H100 - 1 / COPY_H200) for one, size in zip(seconds, entry["bytes"])]
        source = "h200x4.toml, and as much longer as a copy of these bytes"
    else:
        scaled = [one * RATIO for one in seconds]
        source = f"h200x4.toml, times {RATIO:.2f}: the ratio of the rates of a copy"
    return {**entry, "seconds": [float(f"{one:.5g}") for one in scaled]}, source


def message_entry(entry, constants):
    seconds = [float(f"{one * constants['messages']:.5g}") for one in entry["seconds"]]
    source = f"h200x4.toml, times {constants['messages']:g}, fitted to runs of 2 x H100: NVLink 4 in both"
    return {**entry, "seconds": seconds}, source


HEAD = """\
# 8 x NVIDIA H100 80GB HBM3 with the kernels that run takes, scaled from tables of H200s: assumed.
# An H100 has the same multiprocessors, clocks and peak, and slower memory; nobody measured 8 of them. [accuracy] is of {points}
# runs of two H100 that had no part in the fit. h100x8.toml is the same machine with cuDNN's attention.
# Written by scripts/h100_fit.py hardware. docs/05-cost-model.md says how the tables are used.
include = "h200x4.toml"
name = "h100x8-hopper"

[node]
gpus = 8
link_bytes_s = 450e9
origin = "assumed"
source = "vendor's figure: NVLink 4, 18 links of 25 GB/s, each direction"

[gpu]
name = "NVIDIA H100 80GB HBM3"
sms = 132
compute_capability = "9.0"
capacity_bytes = 85017493504
copy_bytes_s = 3.01e12
origin = "assumed"
source = "capacity_bytes as 2 x H100 had it; copy_bytes_s: h100x8.toml; the rest is the vendor's figures"

[rates]
memory_bytes_s = 3.35e12
rowwise_bytes_s = 2.9912e12
origin = "assumed"
source = "memory_bytes_s: the data sheet; rowwise_bytes_s: h100-2026-11-21.toml; the rest as h200x4.toml, fitted to kernels of both"

[host]
kernel_launch_s = 4.1948e-6
launch_latency_s = 3.288e-6
dependency_s = 0.30649e-6
sync_s = 2.73e-6
graph_launch_s = 3.7e-6
origin = "assumed"
source = "as one H100 with an older build (h100-2026-11-21.toml); launches of communication as h200x4.toml"

[burst]
speed = {speed:g}
small_heads_speed = {small:.4g}
origin = "assumed"
source = "speed: fitted to runs of 2 x H100 ({record}); small_heads_speed: as much of it as in h200x4.toml; the rest from there"

[fixed]
bytes = 1936523264
origin = "assumed"
source = "the context of an H100, 564985856, and NCCL as for 4 ranks in h200x4.toml"

[environment]
clock_memory = "2619 MHz, at most 2619 MHz"

"""


def accuracy_text(rows):
    """[accuracy] of the runs held out, by kind."""
    kinds = sorted({row["kind"] for row in rows}, key=lambda kind: kind != "ring")
    of = {kind: [row["error"] for row in rows if row["kind"] == kind] for kind in kinds}
    lists = {"points": [len(of[kind]) for kind in kinds]}
    for name, figure in (("median", median), ("signed", statistics.mean), ("half_width", quantile)):
        lists[name] = [round(figure(of[kind]), 4) for kind in kinds]
    lines = [f"{name} = [{', '.join(str(one) for one in values)}]" for name, values in lists.items()]
    return "\n".join(["[accuracy]",
                      f"# Of {len(rows)} runs of 2 x H100 that had no part in the fit, e = predicted / measured - 1: median of |e|,",
                      "# mean of e, 90 % quantile of |e|. Kinds that were not run have the widest, and more.",
                      "# What is assumed here was so in those runs, too: it widens the band of no such kind.",
                      "with_assumed = true", f"kinds = {value_text(kinds)}", *lines, ""])


def hardware_text(constants, held_out=()):
    lower = tomllib.loads((SCENARIOS / "hardware/h200x4.toml").read_text())
    eight = tomllib.loads((SCENARIOS / "hardware/h100x8.toml").read_text())
    small = 1 + (constants["speed"] - 1) * (1.10 - 1) / (1.165 - 1)
    parts = [HEAD.format(speed=constants["speed"], small=small, record=RECORD,
                         points=len(held_out))]
    parts += [entry_text("message", *message_entry(entry, constants)) for entry in lower["message"]]
    for section in ("interference", "beside"):
        parts += [entry_text(section, entry, "h200x4.toml") for entry in lower[section]]
    parts += [entry_text("message", entry, "h100x8.toml") for entry in eight["message"]]
    parts += [entry_text("kernel", *kernel_entry(entry, constants)) for entry in lower["kernel"]]
    if held_out:
        parts.append(accuracy_text(held_out))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def scenario_text(keys):
    sections = {}
    for key, value in keys.items():
        section, name = key.split(".")
        sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    return "\n".join(f"[{section}]\n" + "\n".join(lines) for section, lines in sections.items())


def held_out(run):
    return run["scenario"] % 4 in (1, 2)


def predictions(machine, wanted=lambda run: True):
    """A row for each wanted run: error = predicted / measured - 1, and whether its band holds it."""
    campaign, rows, known = record(), [], {}
    with tempfile.TemporaryDirectory() as folder:
        for run in filter(wanted, campaign["runs"]):
            iteration = campaign["warmup"] + (run["timed"] + 1) // 2
            case = (run["scenario"], iteration)
            if case not in known:
                keys = campaign["scenarios"][run["scenario"]]
                file = pathlib.Path(folder, "scenario.toml")
                file.write_text(scenario_text(keys) + f'\n[hardware]\nfile = "{machine}"\n')
                out = subprocess.run([CPLAB, "simulate", str(file), "--quiet", "--json", "-", "--set",
                                      f"simulate.iteration={iteration}"], capture_output=True, text=True, check=True,
                                     env={**os.environ, "CPLAB_SCENARIOS": str(SCENARIOS)}).stdout
                known[case] = json.loads(out[out.index("{"):])
            predicted = known[case]
            rows.append({"file": run["file"], "error": predicted["time_s"] / run["time_s"] - 1,
                         "kind": kind_of(campaign["scenarios"][run["scenario"]]), "held_out": held_out(run),
                         "inside": predicted["low_s"] <= run["time_s"] <= predicted["high_s"]})
    return rows


def kind_of(keys):
    """As sim/accuracy.cpp names it, of the scenarios of this record."""
    return "packed" if "problem.lengths" in keys else keys["parallel.algorithm"]


def median(errors):
    return statistics.median(abs(one) for one in errors)


def quantile(errors):
    """The smallest of |e| that nine of ten do not exceed."""
    ordered = sorted(abs(one) for one in errors)
    return ordered[math.ceil(0.9 * len(ordered)) - 1]


def trial(constants, wanted=lambda run: True):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "h200x4.toml").symlink_to(SCENARIOS / "hardware/h200x4.toml")
        file = pathlib.Path(folder, "h100.toml")
        file.write_text(hardware_text(constants))
        return predictions(file, wanted)


def cost(constants):
    """Mean |log(predicted / measured)| of the runs that are fitted."""
    return statistics.mean(abs(math.log1p(row["error"])) for row in trial(constants, lambda run: not held_out(run)))


def fit():
    """By coordinates, each step halved where it no longer helps."""
    best, steps = dict(CONSTANTS), dict(STEPS)
    least = cost(best)
    for _ in range(3):
        moved = True
        while moved:
            moved = False
            for name, step in steps.items():
                for way in (step, -step):
                    tried = {**best, name: round(best[name] + way, 4)}
                    if tried["speed"] < 1 or (found := cost(tried)) >= least - 1e-6:
                        continue
                    best, least, moved = tried, found, True
                    break
        steps = {name: step / 2 for name, step in steps.items()}
    return best


def table(rows):
    print("| runs of 2 x H100 | number | median (%) | mean (%) | worst (%) | nine of ten within (%) | inside the band |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    halves = [("fitted", [row for row in rows if not row["held_out"]])]
    outside = [row for row in rows if row["held_out"]]
    halves.append(("held out", outside))
    halves += [(f"held out, {kind}", [row for row in outside if row["kind"] == kind]) for kind in ("ring", "packed")]
    for name, half in halves:
        errors = [row["error"] for row in half]
        worst = max(errors, key=abs)
        print(f"| {name} | {len(half)} | {100 * median(errors):.1f} | {100 * statistics.mean(errors):+.1f} | "
              f"{100 * worst:+.1f} | {100 * quantile(errors):.1f} | {sum(row['inside'] for row in half)} |")


def main():
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    if command == "fit":
        print(json.dumps(fit()))
    elif command == "hardware":
        constants = fit()
        sys.stdout.write(hardware_text(constants, [row for row in trial(constants) if row["held_out"]]))
    elif command == "table":
        table(predictions(SCENARIOS / "hardware/h100x8-hopper.toml"))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
