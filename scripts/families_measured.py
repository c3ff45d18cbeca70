#!/usr/bin/env python3
"""Runs of scripts/gpu/families.sh beside their predictions, as a table.

    scripts/families_measured.py RECORDS CPLAB

RECORDS holds run-ALGORITHM-TRANSPORT-TOKENS.json. Each is predicted by CPLAB from the record's own scenario on
hardware/h200x4-hopper.toml. The null model is the time of the kernels alone, of the rank that has most of them.
"""
import json
import pathlib
import subprocess
import sys

COLUMNS = ("algorithm", "link", "tokens", "measured (ms)", "predicted (ms)", "error (%)", "kernels alone (%)",
           "exposed, predicted (ms)", "log equals plan")


def predicted(cplab, record):
    scenario = record["scenario"]
    options = []
    for key, value in scenario["schedule"].items():
        options += ["--set", f"schedule.{key}={json.dumps(value)}"]
    problem = scenario["problem"]
    for key in ("heads", "kv_heads", "sequence"):
        options += ["--set", f"problem.{key}={problem[key]}"]
    command = [cplab, "simulate", "ring-h200", "--quiet", "--json", "-", *options,
               "--set", f"parallel.algorithm={scenario['parallel']['algorithm']}",
               "--set", f"parallel.ranks={scenario['parallel']['ranks']}",
               "--set", "hardware.file=hardware/h200x4-hopper.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def row(cplab, path):
    record = json.loads(path.read_text())
    algorithm, link, tokens = path.stem.removeprefix("run-").rsplit("-", 2)
    ours = predicted(cplab, record)
    measured = record["time_s"]
    error = lambda time_s: f"{(time_s / measured - 1) * 100:+.1f}"
    alone = max(rank["compute_s"] for rank in ours["ranks"])
    exposed = max(rank["exposed_communication_s"] for rank in ours["ranks"])
    return (f"`{algorithm}`", link, tokens, f"{measured * 1e3:.2f}", f"{ours['time_s'] * 1e3:.2f}", error(ours["time_s"]),
            error(alone), f"{exposed * 1e3:.2f}", "yes" if record["allocation_log_equals_plan"] else "no")


def main():
    records, cplab = pathlib.Path(sys.argv[1]), sys.argv[2]
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for path in sorted(records.glob("run-*.json")):
        print("| " + " | ".join(row(cplab, path)) + " |")


if __name__ == "__main__":
    main()
