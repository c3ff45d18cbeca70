#!/usr/bin/env python3
"""What `cplab advise` loses by what its closed form prunes: drawn studies, each searched with and without pruning.

    scripts/regret.py CPLAB [--studies 40] [--seed 1] [--csv FILE]     a row for each study, then the totals
    scripts/regret.py CPLAB --speed                                    layouts a second that the closed form looks at
    scripts/regret.py --self-check

A study is a model, a machine, how many GPUs, rows of one length or of several by weight, training or prefill, perhaps a
window in place of full attention. `--exhaustive` simulates the attention of every legal layout; the usual search prunes
by its bound. Regret: how much slower the first row of the usual search is than the fastest layout that fits of the
exhaustive one. Pruned wrongly: layouts that the usual search did not simulate and that are faster than the fastest one
that it did. Bound above: layouts whose bound is above their own time. Seconds are of the CPU, user and system.
"""
import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = ("llama3-8b", "llama3-70b", "llama3-405b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3",
          "gpt-oss-120b", "qwen3-next-80b-a3b", "qwen2.5-7b", "mixtral-8x22b")
MACHINES = ("h100x64", "h100x8", "h200x64", "h200x8", "h800x8", "a100x8", "b200x8", "gb200-nvl72", "mi300x8")
GPUS = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
LENGTHS = tuple(4096 << i for i in range(9))
DEGREES = ("tp", "cp", "pp", "dp", "ep", "micro_batch", "zero")
COLUMNS = ("study", "model", "machine", "gpus", "mode", "tokens", "window", "fastest_s", "first_s", "first", "fits",
           "regret_percent", "layouts", "pruned", "pruned_wrongly", "candidates", "bound_above", "bound_above_percent",
           "seconds", "seconds_exhaustive")


def size(tokens):
    return f"{tokens >> 20}M" if tokens % (1 << 20) == 0 else f"{tokens >> 10}K"


def draw(random_):
    """One study, as the keys of its scenario."""
    study = {"model": random_.choice(MODELS), "machine": random_.choice(MACHINES), "gpus": random_.choice(GPUS),
             "mode": random_.choice(("training", "training", "training", "prefill")),
             "window": random_.choice((0, 0, 0, 4096))}
    if random_.random() < 0.25:
        chosen = sorted(random_.sample(LENGTHS[:7], random_.randint(2, 3)))
        weights = [round(random_.uniform(0.1, 1), 2) for _ in chosen]
        study["lengths"] = list(zip(chosen, weights))
    else:
        study["lengths"] = [(random_.choice(LENGTHS), 1)]
    return study


def toml(study, scenarios):
    text = f'[model]\npreset = "{study["model"]}"\n'
    if study["window"]:
        text += f'window = {study["window"]}\n'
    text += f'[training]\nmode = "{study["mode"]}"\ngpus = {study["gpus"]}\n'
    if len(study["lengths"]) == 1:
        text += f'sequence = {study["lengths"][0][0]}\n'
    else:
        text += f'lengths = {[list(each) for each in study["lengths"]]}\n'
    return text + f'[hardware]\nfile = "{scenarios}/hardware/{study["machine"]}.toml"\n'


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ask(program, scenario, *more):
    """The answer, or the error's text; and what it took."""
    before = cpu_seconds()
    done = subprocess.run([program, "advise", scenario, "--brief", "--quiet", "--json", "-", *more],
                          capture_output=True, text=True, check=False)
    seconds = cpu_seconds() - before
    if done.returncode == 2:
        return done.stderr.strip(), seconds
    if done.returncode != 0:
        sys.exit(f"{program}: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout), seconds


def speed_of(candidate, mode):
    return candidate["time_s"] / candidate["tokens"] if mode == "training" else candidate["time_s"]


def degrees(candidate):
    return tuple(candidate[key] for key in DEGREES)


def compared(usual, exhaustive, mode):
    """The columns that follow from both answers."""
    fitting = [c for c in exhaustive["candidates"] if c["fits"]]
    first = usual["candidates"][0]
    row = {"first": f"tp{first['tp']} cp{first['cp']} pp{first['pp']} dp{first['dp']} ep{first['ep']} "
                    f"zero{first['zero']} {first['algorithm']}",
           "fits": first["fits"], "layouts": usual["considered"], "pruned": usual["pruned"],
           "candidates": len(exhaustive["candidates"]), "first_s": first["time_s"]}
    above = [c["bound_s"] / c["time_s"] - 1 for c in exhaustive["candidates"]
             if c["bound_s"] > c["time_s"] * (1 + 1e-9)]
    row["bound_above"] = len(above)
    row["bound_above_percent"] = 100 * max(above, default=0)
    simulated = {degrees(c) for c in usual["candidates"]}
    if not fitting:
        # Nothing fits: the first row is the layout that needs least memory.
        least = min(c["memory_bytes"] for c in exhaustive["candidates"])
        row.update(fastest_s=0, regret_percent=100 * (first["memory_bytes"] / least - 1) if not first["fits"] else 0,
                   pruned_wrongly=sum(c["memory_bytes"] < first["memory_bytes"] and degrees(c) not in simulated
                                      for c in exhaustive["candidates"]))
        return row
    fastest = min(fitting, key=lambda c: speed_of(c, mode))
    own = [speed_of(c, mode) for c in usual["candidates"] if c["fits"]]
    row["fastest_s"] = fastest["time_s"]
    row["regret_percent"] = 100 * (speed_of(first, mode) / speed_of(fastest, mode) - 1) if own else float("inf")
    row["pruned_wrongly"] = len({degrees(c) for c in fitting if degrees(c) not in simulated and
                                 (not own or speed_of(c, mode) < min(own))})
    return row


def rounded(row):
    return {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}


def run_studies(program, count, seed, scenarios, write):
    random_ = random.Random(seed)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        while len(rows) < count:
            study = draw(random_)
            path = Path(folder) / "study.toml"
            path.write_text(toml(study, scenarios))
            usual, seconds = ask(program, str(path))
            if isinstance(usual, str):
                print(f"not a study: {study}: {usual}", file=sys.stderr)
                continue
            exhaustive, all_seconds = ask(program, str(path), "--exhaustive")
            row = compared(usual, exhaustive, study["mode"])
            row.update(study=len(rows) + 1, model=study["model"], machine=study["machine"], gpus=study["gpus"],
                       mode=study["mode"], window=study["window"] or "",
                       tokens=" ".join(size(n) + (f":{w}" if len(study["lengths"]) > 1 else "")
                                       for n, w in study["lengths"]),
                       seconds=seconds, seconds_exhaustive=all_seconds)
            rows.append(row)
            write(rounded(row))
    return rows


def totals(rows):
    return (f"{len(rows)} studies: regret at most {max(r['regret_percent'] for r in rows):.2f} %, in the mean "
            f"{sum(r['regret_percent'] for r in rows) / len(rows):.2f} %; {sum(r['pruned'] for r in rows)} of "
            f"{sum(r['layouts'] for r in rows)} layouts pruned, {sum(r['pruned_wrongly'] for r in rows)} of them "
            f"wrongly; {sum(r['bound_above'] for r in rows)} of {sum(r['candidates'] for r in rows)} bounds above "
            f"the time; {sum(r['seconds'] for r in rows):.0f} CPU s, exhaustive "
            f"{sum(r['seconds_exhaustive'] for r in rows):.0f}")


def speed(program):
    """Many layouts of which few short rows are simulated: an upper limit of what the closed form takes."""
    least, layouts = float("inf"), 0
    for _ in range(5):
        before = cpu_seconds()
        done = subprocess.run([program, "advise", "--model", "deepseek-v3", "--gpus", "1024", "--sequence", "4K",
                               "--hardware", "h100x64", "--brief", "--quiet", "--over", "algorithm=ring",
                               "--json", "-"], capture_output=True, text=True, check=True)
        least = min(least, cpu_seconds() - before)
        layouts = json.loads(done.stdout)["considered"]
    print(f"{layouts} layouts in {least:.3f} CPU s, the program's start and six simulations included: "
          f"{layouts / least:.0f} layouts a second a core")


def self_check():
    def candidate(tp, time_s, fits=True, bound_s=0.5):
        return {"tp": tp, "cp": 1, "pp": 1, "dp": 1, "ep": 1, "micro_batch": 1, "zero": 1, "algorithm": "none",
                "time_s": time_s, "tokens": 10, "fits": fits, "bound_s": bound_s, "memory_bytes": tp}
    every = [candidate(1, 2.0), candidate(2, 1.0, bound_s=1.25), candidate(4, 0.5, fits=False)]
    row = compared({"candidates": every[:1], "considered": 3, "pruned": 2}, {"candidates": every}, "training")
    assert row["regret_percent"] == 100 and row["pruned_wrongly"] == 1 and row["bound_above"] == 1
    assert row["bound_above_percent"] == 25
    row = compared({"candidates": every, "considered": 3, "pruned": 0}, {"candidates": every}, "training")
    assert row["pruned_wrongly"] == 0
    none = [candidate(4, 1.0, fits=False), candidate(2, 1.0, fits=False)]
    row = compared({"candidates": none[:1], "considered": 2, "pruned": 1}, {"candidates": none}, "training")
    assert row["regret_percent"] == 100 and row["pruned_wrongly"] == 1
    assert [draw(random.Random(3)) for _ in range(2)] == [draw(random.Random(3)) for _ in range(2)]
    print("regret.py: self-check passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--studies", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--self-check", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_check:
        self_check()
        return
    if arguments.program is None:
        parser.error("which cplab?")
    scenarios = Path(os.environ.get("CPLAB_SCENARIOS", Path(__file__).resolve().parent.parent / "scenarios")).resolve()
    if arguments.speed:
        speed(arguments.program)
        return
    with open(arguments.csv, "w", encoding="utf-8", newline="") if arguments.csv else sys.stdout as out:
        out.write(f"# scripts/regret.py build/cpu/cplab --studies {arguments.studies} --seed {arguments.seed}"
                  f"{' --csv scenarios/studies/regret.csv' if arguments.csv else ''}\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()

        def write(row):
            writer.writerow(row)
            out.flush()
        rows = run_studies(arguments.program, arguments.studies, arguments.seed, scenarios, write)
        out.write(f"# {totals(rows)}\n")
    print(totals(rows), file=sys.stderr)


if __name__ == "__main__":
    main()
