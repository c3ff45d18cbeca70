#!/usr/bin/env python3
"""How predictions do where nobody tuned: draws points, predicts them, and only then runs them.

    scripts/gpu/off_grid.py predict OUT_DIR  [options]   OUT_DIR/predicted.json: the points and their predictions
    scripts/gpu/off_grid.py campaign OUT_DIR [options]   the same, then runs every point: record.json, table.md
    scripts/gpu/off_grid.py again OUT_DIR --record RECORD.json    what is predicted now of the points of a record, beside
                                                         what was measured then; needs no GPU
    scripts/gpu/off_grid.py table RECORD.json [--brief]  the table of a record, as markdown; --brief: of its kinds of
                                                         points alone, in few columns

A point is drawn from --seed alone. Of every six, one each is: plain (batch 1, one sequence), a batch of 2 to 4, a packed
list, a window, one GPU, and anything of these together; in 18 each of these has each placement once. Heads, key heads
and length (log-uniform) are drawn at random, a full mask for half of the contiguous ones (the other placements are for
causal masks); of two GPUs half go over `copy`, half over `nccl`. Points predicted to take longer than --most-s or more
memory than --most-gib are drawn again: the record counts them.
With --draw families, sixteen families of all algorithms take turns instead (drawn_families.py).
The null model is compute alone: compute_s of the rank that computes longest, in the same simulation, and not a
microsecond for launches, messages and waiting. Errors are predicted / measured - 1. Phases are of the instrumented
iterations.
"""
import argparse
import datetime
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drawn_families import FAMILIES, draw_family, log_uniform, split
from off_grid_table import brief_table_of, table_of

FORMS = ("plain", "batch", "packed", "window", "one GPU", "mixed")
PLACEMENTS = ("zigzag", "contiguous", "striped")
GIB = 2**30


# ---- drawing ---------------------------------------------------------------------------------------------------------

def draw(rng, form, transport, placement, options):
    """One point: the sections of its scenario file."""
    shortest, longest = options.tokens
    def has(feature):
        return form == feature or form == "mixed" and rng.random() < 0.5

    one_gpu = has("one GPU") or options.gpus < 2
    tokens = log_uniform(rng, shortest, longest)
    kv_heads = rng.choice([1, 2, 4, 8, 16])
    most = 32 // kv_heads
    problem = {}
    if has("packed"):
        problem["lengths"] = split(rng, tokens, rng.randint(2, 12))
    else:
        problem["batch"] = rng.randint(2, 4) if has("batch") else 1
        problem["sequence"] = tokens
    problem["heads"] = kv_heads * rng.randint(max(1, 8 // kv_heads), most)
    problem["kv_heads"] = kv_heads
    full = placement == "contiguous" and rng.random() < 0.5
    problem |= {"head_size": 128, "dtype": "bf16", "mask": "full" if full else "causal"}
    if has("window"):
        left = log_uniform(rng, max(1, min(256, tokens // 4)), max(2, tokens // 2))
        problem["window"] = [left, 0 if problem["mask"] == "causal" else rng.choice([-1, left])]
    if options.head_sizes:
        key, value = rng.choice(options.head_sizes)
        problem |= {"head_size": key, "value_size": value}
    if options.softcap:
        problem |= {"attention": "dynamic_mask", "bias": "none", "keep": "none", "softcap": options.softcap}
    problem["direction"] = "forward+backward"
    parallel = {"ranks": 1 if one_gpu else 2, "algorithm": "ring", "placement": placement}
    schedule = {"transport": "copy" if one_gpu else transport}
    return {"problem": problem, "parallel": parallel, "schedule": schedule}


def scenario_text(sections, hardware):
    sections = sections | {"hardware": {"file": hardware}}
    lines = []
    for section, keys in sections.items():
        lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""]
    return "\n".join(lines)


def describe(sections):
    """The point in a line: "5 sequences, 41007 tokens, 24/8 heads, causal, window 900, striped"."""
    problem, parallel = sections["problem"], sections["parallel"]
    kv_heads = problem.get("kv_heads", problem["heads"])
    if "lengths" in problem:
        shape = f"{len(problem['lengths'])} packed, {sum(problem['lengths'])}"
    else:
        shape = f"{problem['batch']} x {problem['sequence']}"
    window = f", window {problem['window'][0]}" if "window" in problem else ""
    sizes = f" of {problem['head_size']}/{problem['value_size']}" if "value_size" in problem else ""
    softcap = f", softcap {problem['softcap']:g}" if "softcap" in problem else ""
    size = f" of {problem['head_size']}" if problem["head_size"] != 128 and not sizes else ""
    alone = ", forward" if problem["direction"] == "forward" else ""
    return (f"{parallel['algorithm']}, {shape}, heads {problem['heads']}/{kv_heads}{size}{sizes}, "
            f"{problem['mask']}{window}{softcap}{alone}, {parallel.get('placement', 'contiguous')}")


# ---- cplab -----------------------------------------------------------------------------------------------------------

def cplab(*arguments, limit_s):
    """(JSON or None, what went wrong)."""
    try:
        result = subprocess.run([os.environ.get("CPLAB", "cplab"), *arguments, "--quiet", "--json", "-"], text=True,
                                capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return None, f"not finished after {limit_s} s"
    except OSError as error:
        sys.exit(f"off_grid.py: {error}: put cplab on PATH, or set CPLAB to it")
    if result.returncode == 0:
        try:
            return json.loads(result.stdout[result.stdout.index("{"):]), ""
        except ValueError as error:
            return None, f"no JSON: {error}"
    said = (result.stderr.strip() or result.stdout.strip() or "nothing").splitlines()
    return None, f"exit {result.returncode}: {said[-1][:300]}"


def phases_of(result):
    """Of a run those of its undisturbed iterations, where it has them (one phase, a graph: none)."""
    return {phase["name"]: phase["time_s"] for phase in result.get("undisturbed_phases") or result["phases"]}


def median_iteration(warmup, iterations):
    """Which iteration since the GPUs were idle has the median time; None: of GPUs that are long under load."""
    return None if warmup is None else warmup + (iterations + 1) // 2


def predict(path, iteration, graph=False):
    """What `cplab simulate` says of the scenario file `path`, before anything is measured."""
    set_graph = ["--set", "simulate.cuda_graph=true"] if graph else []
    at = ["--set", f"simulate.iteration={iteration}"] if iteration else []
    result, wrong = cplab("simulate", str(path), *at, *set_graph, limit_s=60)
    if result is None:
        return {"failed": wrong}
    return {"time_s": result["time_s"], "low_s": result["low_s"], "high_s": result["high_s"],
            "null_s": max(rank["compute_s"] for rank in result["ranks"]), "phases": phases_of(result),
            "origins": result["origins"], "peak_bytes": result["peak_bytes"], "versions": result["versions"]}


class Gauge:
    """Clock, power and temperature of the GPUs while a point runs: medians of the samples under load."""

    QUERY = "clocks.sm,power.draw,temperature.gpu,utilization.gpu"

    def __enter__(self):
        self.file = tempfile.TemporaryFile("w+")
        # By lines: what is still in a buffer is lost when the loop is ended.
        command = ["stdbuf", "-oL", "nvidia-smi", f"--query-gpu={self.QUERY}", "--format=csv,noheader,nounits", "-lms",
                   "100"]
        try:
            self.process = subprocess.Popen(command, stdout=self.file, stderr=subprocess.DEVNULL)
        except OSError:
            self.process = None
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()

    def read(self):
        self.file.seek(0)
        samples = []
        for line in self.file:
            try:
                samples.append([float(cell) for cell in line.split(",")])
            except ValueError:
                continue
        loaded = [sample for sample in samples if len(sample) == 4 and sample[3] >= 50]
        if not loaded:
            return {"samples": 0}
        clocks, watts, degrees, _ = zip(*loaded)
        return {"samples": len(loaded), "clock_sm_mhz": statistics.median(clocks), "clock_sm_lowest_mhz": min(clocks),
                "power_w": statistics.median(watts), "power_highest_w": max(watts),
                "temperature_highest_c": max(degrees)}


def measure(path, options, work, graph=False):
    """What `cplab run` says of it; the whole result stays in `work`."""
    repeats = [] if options.warmup is None else ["--warmup", str(options.warmup)]
    repeats += ["--iterations", str(options.iterations)]
    began = time.monotonic()
    with Gauge() as gauge:
        result, wrong = cplab("run", str(path), "--device", options.device, "--timeout", "40", "--operations", *repeats,
                              *(["--graph"] if graph else []), limit_s=50)
    if result is None:
        return {"failed": wrong}
    (work / f"{path.stem}.json").write_text(json.dumps(result))
    times = result["times_s"]
    return {"time_s": result["time_s"], "lowest_s": min(times), "highest_s": max(times),
            "times_s": times, "phases": phases_of(result),
            "instrumented_s": result.get("instrumented_s"), "peak_bytes": result["peak_bytes"],
            "gauge": gauge.read(), "wall_s": round(time.monotonic() - began, 2),
            "environment": result.get("environment", {}), "versions": result["versions"]}


# ---- the campaign ----------------------------------------------------------------------------------------------------

def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def machine():
    """Who measured: the host and what the driver says of each GPU."""
    query = "name,uuid,driver_version,vbios_version,power.limit,clocks.max.sm,clocks.max.mem,temperature.gpu"
    try:
        text = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], text=True, timeout=30,
                              capture_output=True, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        text = ""
    cpus = Path("/proc/cpuinfo")
    models = [line.split(":")[1].strip() for line in cpus.read_text().splitlines() if line.startswith("model name")] \
        if cpus.exists() else []
    system = platform.system() + " " + platform.release().split("-")[0]
    return {"host": {"system": system, "cpu": models[0] if models else platform.machine(),
                     "cpus": os.cpu_count(), "python": platform.python_version()},
            "gpus": [dict(zip(query.split(","), map(str.strip, line.split(",")))) for line in text.splitlines()],
            "nccl_variables": {key: value for key, value in sorted(os.environ.items()) if key.startswith("NCCL_")}}


def drawing(number, options):
    """The form of a point and what draws it anew from its own rng."""
    if options.draw == "families":
        form = options.families[number % len(options.families)]
        return form, lambda rng: draw_family(rng, form, options)
    form = FORMS[number % len(FORMS)]
    turn, place = divmod(number, len(FORMS))
    transport = ("copy", "nccl")[(turn + place) % 2]
    placement = PLACEMENTS[(turn + place) % len(PLACEMENTS)]
    return form, lambda rng: draw(rng, form, transport, placement, options)


def draw_points(options, work):
    """`options.points` points with their predictions. Each point has its own rng: redrawing one changes no other."""
    points = []
    for number in range(options.points):
        rng = random.Random(f"{options.seed}/{number}")
        form, draw_one = drawing(number, options)
        path = work / f"point-{number:03}.toml"
        again = 0
        while True:
            sections = draw_one(rng)
            path.write_text(scenario_text(sections, options.hardware))
            predicted = predict(path, median_iteration(options.warmup, options.iterations), form == "graph")
            if "failed" in predicted:
                break
            if predicted["time_s"] <= options.most_s and predicted["peak_bytes"] <= options.most_gib * GIB:
                break
            again += 1
        points.append({"number": number, "form": form, "drawn_again": again, "what": describe(sections), **sections,
                       "predicted": predicted})
    return points


def again(options):
    """The points of a record, predicted by the program and the hardware file of today."""
    options.out.mkdir(parents=True, exist_ok=True)
    record = json.loads(options.record.read_text())
    record |= {"hardware": options.hardware, "predicted_at": now(), "predicted_after_measuring": True}
    iteration = median_iteration(record["warmup"], len(record["points"][0]["measured"].get("times_s", [0] * 20)))
    with tempfile.TemporaryDirectory() as folder:
        for point in record["points"]:
            path = Path(folder) / "point.toml"
            sections = {key: point[key] for key in ("problem", "parallel", "schedule")}
            path.write_text(scenario_text(sections, options.hardware))
            point["predicted"] = predict(path, iteration, point["form"] == "graph")
            point.pop("errors", None)
            if "failed" not in point["measured"] and "failed" not in point["predicted"]:
                point["errors"] = errors_of(point)
    save(options.out / "record.json", record)
    (options.out / "table.md").write_text(table_of(record))
    print(table_of(record), end="")
    return 0


def errors_of(point):
    predicted, measured = point["predicted"], point["measured"]

    def error(a, b):
        return a / b - 1 if a is not None and b else None

    return {"time": error(predicted["time_s"], measured["time_s"]), "null": error(predicted["null_s"], measured["time_s"]),
            "phases": {name: error(predicted["phases"].get(name), seconds)
                       for name, seconds in measured["phases"].items()},
            "peak_bytes": predicted["peak_bytes"] - measured["peak_bytes"]}


def save(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def campaign(options):
    options.out.mkdir(parents=True, exist_ok=True)
    work = options.work or Path(tempfile.mkdtemp())
    record = {"schema": "cplab.off_grid.1", "seed": options.seed, "tokens": options.tokens, "most_s": options.most_s,
              "most_gib": options.most_gib, "hardware": options.hardware, "predicted_at": now()}
    record["points"] = draw_points(options, work)
    save(options.out / "predicted.json", record)
    print(f"{len(record['points'])} points drawn from seed {options.seed} and predicted", flush=True)
    if options.command == "predict":
        return 0
    record |= {"measured_at": now(), "device": options.device, "warmup": options.warmup, "machine": machine()}
    began = time.monotonic()
    failed = 0
    for point in record["points"]:
        if "failed" in point["predicted"]:
            point["measured"] = {"failed": "not run: no prediction"}
        elif time.monotonic() - began > options.budget_s:
            point["measured"] = {"failed": f"not run: {options.budget_s:.0f} s were over"}
        else:
            point["measured"] = measure(work / f"point-{point['number']:03}.toml", options, work,
                                        point["form"] == "graph")
        measured = point["measured"]
        if "failed" in measured:
            failed += 1
        else:
            point["errors"] = errors_of(point)
            record |= {key: measured.pop(key) for key in ("environment", "versions")}
        save(options.out / "record.json", record)  # after every point: what is measured stays
        print(f"{time.monotonic() - began:6.1f} s  {point['number']:2}  {point['what']}: "
              + (measured.get("failed") or f"{point['errors']['time'] * 100:+.1f} %"), flush=True)
    table = table_of(record)
    (options.out / "table.md").write_text(table)
    print(table)
    return 1 if failed == len(record["points"]) else 0


def head_sizes(text):
    """"80,192/128" -> [(80, 80), (192, 128)]"""
    pairs = [[int(size) for size in each.split("/")] for each in text.split(",")]
    return [(pair[0], pair[-1]) for pair in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["predict", "campaign", "again", "table"])
    parser.add_argument("out", type=Path, help="OUT_DIR or RECORD.json")
    parser.add_argument("--draw", default="ring", choices=["ring", "families"], help="of what points are drawn")
    parser.add_argument("--families", type=lambda text: text.split(","), default=FAMILIES,
                        help="names, of --draw families: these alone")
    parser.add_argument("--seed", default="2026-11-22", help="any word")
    parser.add_argument("--record", type=Path, help="of again")
    parser.add_argument("--brief", action="store_true", help="of table")
    parser.add_argument("--points", type=int, default=18)
    parser.add_argument("--hardware", default="hardware/h200x4.toml")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--device", default="gpu", choices=["gpu", "cpu"])
    parser.add_argument("--tokens", type=int, nargs=2, default=[3 * 1024, 128 * 1024], metavar=("SHORTEST", "LONGEST"))
    parser.add_argument("--head-sizes", type=head_sizes, metavar="D,D/E,...",
                        help="of keys and, where they differ, values: each point has one of them (128)")
    parser.add_argument("--softcap", type=float, help="of all points")
    parser.add_argument("--most-s", type=float, default=0.25, help="of predicted time")
    parser.add_argument("--most-gib", type=float, default=100, help="of predicted peak memory")
    parser.add_argument("--warmup", type=int, help="iterations, as many of a GPU that was idle (default: until its clocks "
                        "have settled, as run does)")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--budget-s", type=float, default=240, help="no point begins later")
    parser.add_argument("--work", type=Path, help="folder for scenarios and whole results")
    options = parser.parse_args()
    if options.command == "table":
        record = json.loads(options.out.read_text())
        print(brief_table_of(record) if options.brief else table_of(record), end="")
        return 0
    if options.command == "again":
        if options.record is None:
            parser.error("again needs --record RECORD.json")
        return again(options)
    return campaign(options)


if __name__ == "__main__":
    sys.exit(main())
