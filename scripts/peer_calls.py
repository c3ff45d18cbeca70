#!/usr/bin/env python3
"""Attention calls of ours beside those of FlashAttention 4 and of cuDNN, as a table: what peer_attention.py wrote.

    scripts/peer_calls.py CAMPAIGN     its peers-long-*.json, peers-short-*.json and peers-drawn-*.json (a file of
                                       scripts/campaign.py, or a folder): of all sides the fastest run

Geometric means of the ratios of rates, by head size and mask, in brackets the least.
"""
import json
import math
import statistics
import sys

import campaign

COLUMNS = [(128, False), (128, True), (64, False), (64, True)]


def problem_of(row):
    return json.dumps([row.get(key) for key in ("shape", "lengths", "heads", "kv_heads", "width")])


def fastest(path, pattern, direction):
    """The highest rate of each candidate in any run, by problem, column and candidate."""
    rows = {}
    for _, record in campaign.records(path, pattern):
        for row in record["rows"]:
            if row["direction"] == direction:
                width = row["shape"][3] if "shape" in row else row["width"]
                key = (problem_of(row), (width, row["causal"]), row["candidate"])
                rows[key] = max(rows.get(key, 0), row["flops_s"])
    if not rows:
        sys.exit(f"peer_calls.py: {path} has no {pattern} with a {direction}")
    return rows


def line(name, rows, of, to):
    """The rates of `of` over those of `to`."""
    cells = []
    for wanted in COLUMNS:
        values = [rate / rows[problem, column, to] for (problem, column, candidate), rate in rows.items()
                  if column == wanted and candidate == of and (problem, column, to) in rows]
        cells.append(f"{math.exp(statistics.fmean(map(math.log, values))):.2f} ({min(values):.2f})")
    print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    path = sys.argv[1]
    print("| | full, 128 | causal, 128 | full, 64 | causal, 64 |")
    print("|---|---:|---:|---:|---:|")
    for peer, name in (("fa4", "FlashAttention 4"), ("cudnn", "cuDNN")):
        for kind, words in (("long", "long"), ("short", "batches of short sequences"), ("drawn", "drawn")):
            for direction in ("forward", "backward"):
                line(f"{direction}, {words}, of {name}", fastest(path, f"peers-{kind}-*.json", direction), "best", peer)
    line("backward, long, deterministic of default", fastest(path, "peers-long-*.json", "backward"), "deterministic", "best")


if __name__ == "__main__":
    main()
