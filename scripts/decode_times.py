#!/usr/bin/env python3
"""A step of decoding, one token against many keys on one GPU: forecast, run, and beside PyTorch.

    scripts/decode_times.py predict FOLDER [PROGRAM]    forecasts, on any machine: before a run
    scripts/decode_times.py run FOLDER [PROGRAM]        the same on a GPU, each three times, in turns
    scripts/decode_times.py verify FILE [PROGRAM]       tree and Helix on 1 to 4 ranks of one GPU against the reference
    scripts/decode_times.py problems                    what scripts/peer_decode.py is asked, a line each
    scripts/decode_times.py table RECORD.jsonl          docs/14-kernels.md's table, of a campaign (scripts/campaign.py)
"""
import concurrent.futures
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import campaign  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
FORMS = {"32x8-128": (32, 8, 128, 128), "128x1-576": (128, 1, 576, 512), "16x1-576": (16, 1, 576, 512)}
KEYS = {"128K": 131072, "1M": 1048576}
DATA_SHEET_BYTES_S = 4.8e12


def settings(keys, form):
    heads, kv_heads, head_size, value_size = FORMS[form]
    values = {"problem.kv_sequence": keys, "problem.heads": heads, "problem.kv_heads": kv_heads,
              "problem.head_size": head_size, "problem.value_size": value_size, "parallel.ranks": 1,
              "hardware.file": "hardware/h200x4.toml"}
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def cplab(program, reader, keys, form, file, *more):
    command = [program, reader, "scenarios/decode.toml", *settings(keys, form), "--operations", "--quiet", "--json", file]
    return subprocess.run([*command, *more], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


def predict(folder, program):
    for form in FORMS:
        for name, keys in KEYS.items():
            result = cplab(program, "simulate", keys, form, f"{folder}/prediction-{name}-{form}.json")
            if result.returncode:
                sys.exit(result.stdout)


def run(folder, program):
    for turn, form, name in itertools.product(range(int(os.environ.get("TURNS", "3"))), FORMS, KEYS):
        file = f"{folder}/run-{name}-{form}-{turn}.json"
        result = cplab(program, "run", KEYS[name], form, file, "--graph", "--iterations", "30")
        if result.returncode:
            print(f"{name} {form}: rc {result.returncode}: {result.stdout.strip()[-300:]}", flush=True)
            continue
        operation = attend(json.loads(Path(file).read_text(encoding="utf-8")))
        print(f"{name} {form}: {operation['variant']}: {seconds(operation) * 1e6:.1f} us", flush=True)


def verify(file, program):
    """Small sequences: the reference is slow on CPUs."""
    codes = {}
    few = ["--set", "problem.sequence=1", "--set", "problem.kv_sequence=4000", "--set", "problem.align=bottom_right",
           "--set", "problem.direction=forward", "--set", "parallel.placement=contiguous"]
    latents = ["--set", "problem.heads=32", "--set", "problem.kv_heads=1", "--set", "problem.head_size=576", "--set",
               "problem.value_size=512", "--set", "problem.kv_sequence=1500"]
    grouped = ["--set", "problem.heads=32", "--set", "problem.kv_heads=8"]
    forms = {"grouped": grouped, "latents": latents, "fp16": [*grouped, "--set", "problem.dtype=fp16"],
             "window": [*grouped, "--set", "problem.window=[900,0]"],
             "three tokens": [*grouped, "--set", "problem.sequence=3"],
             "head size 64": [*grouped, "--set", "problem.head_size=64"],
             "192/128": [*grouped, "--set", "problem.head_size=192", "--set", "problem.value_size=128"],
             "256": [*grouped, "--set", "problem.head_size=256"]}
    def code(name, algorithm, ranks):
        command = [program, "verify", "scenarios/forms.toml", *few, "--set", f"parallel.algorithm={algorithm}", "--set",
                   f"parallel.ranks={ranks}", *forms[name], "--device", "gpu", "--ranks-per-gpu", "4", "--timeout", "60",
                   "--set", "schedule.transport=copy", "--quiet"]
        result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode:
            print(f"{algorithm} {ranks}: {name}: {result.returncode}: {result.stdout[-300:]}", flush=True)
        return result.returncode

    cells = list(itertools.product(forms, ("tree", "helix"), (1, 2, 3, 4)))
    with concurrent.futures.ThreadPoolExecutor(6) as workers:
        for (name, algorithm, ranks), told in zip(cells, workers.map(lambda cell: code(*cell), cells)):
            codes[f"{algorithm} {ranks}: {name}"] = told
    Path(file).write_text(json.dumps(codes) + "\n", encoding="utf-8")
    print(f"{sum(code == 0 for code in codes.values())} of {len(codes)} right", flush=True)
    return 0 if not any(codes.values()) else 1


def attend(record):
    return next(operation for operation in record["operations"] if operation["kind"] == "attend")


def seconds(operation):
    return operation["end_s"] - operation["start_s"]


def key_bytes(keys, form):
    _, kv_heads, head_size, value_size = FORMS[form]
    return 2 * keys * kv_heads * (head_size + value_size)


def kernels_alone(of, keys, heads, kv_heads, head_size):
    """(seconds, name) of each kernel that `cplab tune` measured, the fastest first."""
    tried = of[f"tune-{keys}-{heads}x{kv_heads}-{head_size}.json"]["choices"][0]["tried"]
    return sorted((kernel["median_s"], kernel["variant"]) for kernel in tried if kernel["median_s"])


def table(file):
    of = dict(campaign.records(file))
    print("| keys | heads | forecast (us) | measured (us) | kernel | fastest alone (us) | kernel | TB/s | of 4.8 (%) | of a copy (%) | PyTorch (us) | by |")
    print("|---|---|---:|---:|---|---:|---|---:|---:|---:|---:|---|")
    for form, (heads, kv_heads, head_size, value_size) in FORMS.items():
        for name, keys in KEYS.items():
            runs = [record for key, record in of.items() if re.fullmatch(f"run-{name}-{form}-\\d.json", key)]
            took = statistics.median(seconds(attend(record)) for record in runs)
            forecast = seconds(attend(of[f"prediction-{name}-{form}.json"]))
            alone, fastest = kernels_alone(of, keys, heads, kv_heads, head_size)[0]
            peers = [record for key, record in of.items() if key.startswith(f"peer-{keys}-{heads}x{kv_heads}-{head_size}-")]
            copied = next(record["bytes"] / record["time_s"] for record in peers if record["peer"] == "copy")
            best = min((record for record in peers if record["peer"] != "copy" and "time_s" in record),
                       key=lambda record: record["time_s"])
            rate = key_bytes(keys, form) / min(took, alone)
            sizes = str(head_size) if head_size == value_size else f"{head_size}/{value_size}"
            print(f"| {name} | {heads}/{kv_heads} of {sizes} | {forecast * 1e6:.0f} | {took * 1e6:.0f} | "
                  f"{rows_of(attend(runs[0])['variant'])} | {alone * 1e6:.0f} | {rows_of(fastest)} | "
                  f"{rate * 1e-12:.2f} | {100 * rate / DATA_SHEET_BYTES_S:.0f} | {100 * rate / copied:.0f} | "
                  f"{best['time_s'] * 1e6:.0f} | {best['peer']} |")


def rows_of(variant):
    return "64 rows" if variant.endswith("64 rows") else "16 rows"


def main():
    what, *words = sys.argv[1:] or [""]
    program = words[1] if len(words) > 1 else "cplab"
    if what == "problems":
        for form, sizes in FORMS.items():
            for keys in KEYS.values():
                print(keys, *sizes)
    elif what in ("predict", "run", "verify") and words:
        sys.exit({"predict": predict, "run": run, "verify": verify}[what](words[0], program))
    elif what == "table" and words:
        table(words[0])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
