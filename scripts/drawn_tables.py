#!/usr/bin/env python3
"""Tables from records of compare_builds.py, which has a build `before` and another one, and of peer_attention.py.

    scripts/drawn_tables.py turns RECORDS    by-turns-SEED.json: the default and the deterministic backward, before and now
    scripts/drawn_tables.py peers RECORDS    peers-SEED.json: ours of FlashAttention 4, forward and backward
    scripts/drawn_tables.py shapes RECORDS [deterministic]
                                             shapes-*.json: the default, or that, where it gained 5 % or more
    scripts/drawn_tables.py runs RECORDS [OTHER_RECORDS]...
                                            peers-backward-long*.json and -short*.json: ours of FlashAttention 4, of both
                                            the fastest run; with OTHER_RECORDS, long ones also beside
                                            the fastest of theirs in any of the folders
    scripts/drawn_tables.py calls RECORDS   peers-long-*.json and -short-*.json: ours of FlashAttention 4 and of cuDNN,
                                            forward and backward, of all sides the fastest run

The first two are of problems drawn from seeds: geometric means over all seeds, by head size and mask, in brackets the least
and the most, or the least alone.
"""
import json
import math
import pathlib
import statistics
import sys

COLUMNS = [(128, False), (128, True), (64, False), (64, True)]


def loaded(folder, pattern):
    paths = sorted(pathlib.Path(folder).glob(pattern))
    if not paths:
        sys.exit(f"drawn_tables.py: {folder} has no {pattern}")
    return [json.loads(path.read_text()) for path in paths]


def width_of(row):
    return row["shape"][3] if "shape" in row else row["width"]


def problem_of(seed, row):
    return (seed, json.dumps([row.get(key) for key in ("shape", "lengths", "heads", "kv_heads", "width")]))


def ratios(rows, of, to):
    """Rates of `of` over those of `to`, by column; rows: (problem, column, candidate) -> TFLOP/s."""
    found = {column: [] for column in COLUMNS}
    for (problem, column, name), rate in rows.items():
        if name == of and (problem, column, to) in rows:
            found[column].append(rate / rows[problem, column, to])
    return found


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def line(name, found, extremes):
    cells = []
    for column in COLUMNS:
        values = found[column]
        ends = {"both": f"{min(values):.2f} to {max(values):.2f}", "least": f"{min(values):.2f}"}[extremes]
        cells.append(f"{mean(values):.2f} ({ends})")
    print(f"| {name} | " + " | ".join(cells) + " |")


def head():
    print("| | full, 128 | causal, 128 | full, 64 | causal, 64 |")
    print("|---|---:|---:|---:|---:|")


def now_of(rows):
    """The build beside `before`."""
    return next(name.split(":")[0] for _, _, name in rows if not name.startswith("before:"))


def turns(folder):
    rows = {(problem_of(seed, row), (width_of(row), row["mask"] == "causal"), row["build"]): row["flops_s"]
            for seed, record in enumerate(loaded(folder, "by-turns-*.json")) for row in record}
    now = now_of(rows)
    head()
    line("default, of the speed before", ratios(rows, f"{now}:best", "before:best"), "both")
    line("deterministic, of the speed before", ratios(rows, f"{now}:deterministic", "before:deterministic"), "both")
    line("deterministic of default before", ratios(rows, "before:deterministic", "before:best"), "least")
    line("deterministic of default now", ratios(rows, f"{now}:deterministic", f"{now}:best"), "least")


def shapes(folder, choice="best"):
    rates = {}
    for record in loaded(folder, "shapes-*.json"):
        for row in record:
            count, length, heads, width = row["shape"]
            grouped = f" on {row['kv_heads']}" if "kv_heads" in row else ""
            name = f"{count} x {length}, {heads} heads{grouped} of {width}"
            when = "before" if row["build"].startswith("before:") else "now"
            if row["build"].endswith(f":{choice}"):
                rates.setdefault(name, {})[row["mask"], when] = row["flops_s"] * 1e-12
    print("| | full: before, now (TFLOP/s) | causal: before, now |")
    print("|---|---:|---:|")
    for name, of in rates.items():
        gains = {mask: of[mask, "now"] / of[mask, "before"] for mask in ("full", "causal")}
        if max(gains.values()) >= 1.05:
            cells = [f"{of[mask, 'before']:.0f}, {of[mask, 'now']:.0f} ({gain:.2f})" for mask, gain in gains.items()]
            print(f"| {name} | " + " | ".join(cells) + " |")


def peers(folder):
    records = loaded(folder, "peers-[0-9]*.json")
    head()
    for direction in ("forward", "backward"):
        rows = {(problem_of(seed, row), (width_of(row), row["causal"]), row["candidate"]): row["flops_s"]
                for seed, record in enumerate(records) for row in record["rows"] if row["direction"] == direction}
        line(direction, ratios(rows, "best", "fa4"), "least")


def fastest(folders, pattern, direction="backward"):
    """The highest rate of each candidate in any run."""
    rows = {}
    for folder in folders:
        for record in loaded(folder, pattern):
            for row in record["rows"]:
                if row["direction"] != direction:
                    continue
                key = (problem_of(0, row), (width_of(row), row["causal"]), row["candidate"])
                rows[key] = max(rows.get(key, 0), row["flops_s"])
    return rows


def runs(folder, *others):
    of_long, of_short = "peers-backward-long*.json", "peers-backward-short*.json"
    long, short = fastest([folder], of_long), fastest([folder], of_short)
    head()
    line("long shapes", ratios(long, "best", "fa4"), "least")
    if others:
        ever = {**fastest([folder, *others], of_long), **{key: rate for key, rate in long.items() if key[2] != "fa4"}}
        line("of their fastest run in all records", ratios(ever, "best", "fa4"), "least")
    line("batches of short sequences", ratios(short, "best", "fa4"), "least")
    line("long shapes, deterministic of default", ratios(long, "deterministic", "best"), "least")


def calls(folder):
    head()
    for peer, name in (("fa4", "FlashAttention 4"), ("cudnn", "cuDNN")):
        for kind, words in (("long", "long"), ("short", "batches of short sequences")):
            for direction in ("forward", "backward"):
                rows = fastest([folder], f"peers-{kind}-*.json", direction)
                line(f"{direction}, {words}, of {name}", ratios(rows, "best", peer), "least")
    rows = fastest([folder], "peers-long-*.json")
    line("backward, long, deterministic of default", ratios(rows, "deterministic", "best"), "least")


def main():
    tables = {"turns": turns, "peers": peers, "shapes": shapes, "runs": runs, "calls": calls}
    most = {"shapes": 4, "runs": math.inf}.get(sys.argv[1] if len(sys.argv) > 1 else "", 3)
    if not 3 <= len(sys.argv) <= most or sys.argv[1] not in tables:
        sys.exit(__doc__.strip())
    tables[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
