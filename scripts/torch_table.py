#!/usr/bin/env python3
"""A record of peer_torch.py as a table: scripts/torch_table.py RECORD. Milliseconds, medians; the fastest in bold."""
import json
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        runs = json.load(file)["runs"]
    print("| GPUs | attention | " + " | ".join(
        f"{tokens // 1024}K {phases}" for phases in ("forward", "both") for tokens in (16384, 32768, 65536)) + " |")
    print("|---:|---|" + "---:|" * 6)
    for run in runs:
        times = {}  # by candidate, then by what is timed
        for row in run["rows"]:
            times.setdefault(row["candidate"], {})[row["direction"], row["sequence"]] = row["time_s"] * 1e3
        fastest = {what: min(each[what] for each in times.values()) for what in next(iter(times.values()))}
        for candidate, each in times.items():
            cells = [f"**{ms:.2f}**" if ms == fastest[what] else f"{ms:.2f}" for what, ms in
                     sorted(each.items(), key=lambda item: (item[0][0] != "forward", item[0][1]))]
            print(f"| {run['ranks']} | {candidate} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
