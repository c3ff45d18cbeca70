#!/usr/bin/env python3
"""Runs of `cplab run --operations` beside their predictions, as a table.

    scripts/runs_measured.py RECORDS CPLAB [HARDWARE]

RECORDS holds run-ALGORITHM-TRANSPORT-TOKENS.json. Each is predicted by CPLAB from the record's own scenario on HARDWARE
(hardware/h200x4.toml). The null model is the time of the kernels alone, of the rank that has most of them.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

COLUMNS = ("algorithm", "link", "tokens", "measured (ms)", "predicted (ms)", "error (%)", "kernels alone (%)",
           "exposed, predicted (ms)", "log equals plan")


def toml(scenario):
    """The scenario of a record as a file that cplab reads."""
    lines = []
    for table, keys in scenario.items():
        lines.append(f"[{table}]")
        # JSON writes numbers, booleans, strings and lists as TOML does, and all digits of slopes.
        lines += [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def algorithms_with(cplab, option):
    """The names of the algorithms that have an option."""
    listed = json.loads(subprocess.run([cplab, "list", "algorithms", "--json", "-"], capture_output=True, text=True,
                                       check=True).stdout)
    return {algorithm["name"] for algorithm in listed["algorithms"]
            if any(of["key"] == option for of in algorithm["options"])}


def with_old_options(scenario, with_row_dot):
    """What plans were like before they had these options."""
    schedule, parallel = dict(scenario.get("schedule", {})), scenario["parallel"]
    if parallel["algorithm"] == "ring" and "own_kv" not in schedule:
        schedule.update(own_kv="receive", dkv_tile_heads=0)
        if parallel["ranks"] == 1:
            schedule["accumulator"] = "nominal"
    if parallel["algorithm"] == "ring" and "gradient_sum" not in schedule:
        schedule.update(gradient_sum="apart", parts=1)
    if parallel["algorithm"] in with_row_dot:
        schedule = {"row_dot": "apart"} | schedule
    schedule = {"channels": "nccl", "head_start_us": 0} | schedule
    if schedule["channels"] == "auto":  # NCCL's own choice of linear attention's
        schedule["channels"] = "nccl"
    return {**scenario, "schedule": schedule}


def predicted(cplab, record, hardware):
    old = with_old_options(record["scenario"], algorithms_with(cplab, "row_dot"))
    scenario = {**old, "hardware": {"file": hardware}}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "record.toml")
        file.write_text(toml(scenario))
        done = subprocess.run([cplab, "simulate", str(file), "--quiet", "--json", "-"], capture_output=True, text=True,
                              check=False)
    if done.returncode != 0:
        sys.exit(f"runs_measured.py: {done.stderr.strip()}")
    return json.loads(done.stdout)


def row(cplab, path, hardware):
    record = json.loads(path.read_text())
    algorithm, link, tokens = path.stem.removeprefix("run-").rsplit("-", 2)
    ours = predicted(cplab, record, hardware)
    measured = record["time_s"]
    error = lambda time_s: f"{(time_s / measured - 1) * 100:+.1f}"
    alone = max(rank["compute_s"] for rank in ours["ranks"])
    exposed = max(rank["exposed_communication_s"] for rank in ours["ranks"])
    return (f"`{algorithm}`", link, tokens, f"{measured * 1e3:.2f}", f"{ours['time_s'] * 1e3:.2f}", error(ours["time_s"]),
            error(alone), f"{exposed * 1e3:.2f}", "yes" if record["allocation_log_equals_plan"] else "no")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    records, cplab = pathlib.Path(sys.argv[1]), sys.argv[2]
    hardware = sys.argv[3] if len(sys.argv) == 4 else "hardware/h200x4.toml"
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for path in sorted(records.glob("run-*.json")):
        print("| " + " | ".join(row(cplab, path, hardware)) + " |")


if __name__ == "__main__":
    main()
