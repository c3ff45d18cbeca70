#!/usr/bin/env python3
"""The table of scripts/gpu/short_batches.sh: OUT/runs/SHAPE-MASK-BUILD-ROUND.json to OUT/short-batches.json.

    scripts/gpu/short_batches.py OUT
"""
import json
import pathlib
import re
import statistics
import sys

out = pathlib.Path(sys.argv[1])
runs = {}
for path in sorted((out / "runs").glob("*.json")):
    shape, mask, build, _ = re.fullmatch(r"(.+)-(full|causal)-(before|now)-(\d+)", path.stem).groups()
    runs.setdefault((shape, mask), {}).setdefault(build, []).append(json.loads(path.read_text(encoding="utf-8")))


def of_backward(result):
    return next(phase["time_s"] for phase in result["phases"] if phase["name"] == "backward")


rows = []
for (shape, mask), builds in runs.items():
    row = {"batch": shape, "mask": mask}
    for build, results in builds.items():
        row[build] = {"commit": results[0]["versions"]["commit"],
                      "backward_ms": [round(of_backward(r) * 1e3, 5) for r in results],
                      "iteration_ms": [round(r["time_s"] * 1e3, 5) for r in results],
                      "peak_bytes": results[0]["peak_bytes"],
                      "variants": [v["variant"] for v in results[0]["variants"]]}
    medians = {b: statistics.median(row[b]["backward_ms"]) for b in builds}
    row["backward_rate"] = round(medians["before"] / medians["now"], 4)
    rows.append(row)
    print(f"{shape:>16} {mask:6} backward {medians['before']:.3f} -> {medians['now']:.3f} ms "
          f"({row['backward_rate']:.3f} of the rate)  " + ", ".join(row["now"]["variants"]))
(out / "short-batches.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
