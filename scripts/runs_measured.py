#!/usr/bin/env python3
"""Runs of `cplab run --operations` beside their predictions, as a table.

    scripts/runs_measured.py CAMPAIGN CPLAB [HARDWARE]

CAMPAIGN, a file that scripts/campaign.py packed or a folder, holds run-ALGORITHM-TRANSPORT-TOKENS.json. Each is
predicted by CPLAB from the run's own scenario on HARDWARE (hardware/h200x4.toml). The null model is the time of the kernels alone, of the rank that has most of them.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import campaign

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


def predicted(cplab, record, hardware):
    scenario = {**record["scenario"], "hardware": {"file": hardware}}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "record.toml")
        file.write_text(toml(scenario))
        done = subprocess.run([cplab, "simulate", str(file), "--quiet", "--json", "-"], capture_output=True, text=True,
                              check=False)
    if done.returncode != 0:
        sys.exit(f"runs_measured.py: {done.stderr.strip()}")
    return json.loads(done.stdout)


def row(cplab, name, record, hardware):
    algorithm, link, tokens = pathlib.Path(name).stem.removeprefix("run-").rsplit("-", 2)
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
    for name, record in campaign.records(records, "run-*.json"):
        print("| " + " | ".join(row(cplab, name, record, hardware)) + " |")


if __name__ == "__main__":
    main()
