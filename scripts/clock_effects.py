#!/usr/bin/env python3
"""What the clock of a GPU under load does to the times of attention.

    scripts/clock_effects.py measured FIRST.json SECOND.json   of two results of tests/gpu's `measure`, how much longer
                                                               calls of 1 ms and more took in the first, as markdown
    scripts/clock_effects.py turns TILES    on a GPU: causal forwards alone (F), backwards alone (B) and both by turns
                                            (FB), 16 heads of 128, each for two seconds after a second of the same
"""
import json
import statistics
import sys
import time

from gpu_power import Power
from served_tiles import ServedTiles

LONG_S = 1e-3
NAMES = {"attend": "forward", "attend_backward": "backward"}
DIRECTIONS = {"F": "forward", "B": "backward"}


def seconds_by_point(path):
    with open(path, encoding="utf-8") as file:
        tables = json.load(file)["attention"]
    return {(table["class"], table["head_size"], table["mask"], point["batch"], point["sequence"]): point["seconds"]
            for table in tables for point in table["points"]}


def measured(first, second):
    before, after = seconds_by_point(first), seconds_by_point(second)
    print("| | head size | shapes | longer by (%) | least | most |")
    print("|---|---:|---:|---:|---:|---:|")
    for kind, name in NAMES.items():
        for size in (128, 64):
            more = [100 * (before[key] / after[key] - 1) for key in after
                    if key[:2] == (kind, size) and after[key] >= LONG_S]
            print(f"| {name} | {size} | {len(more)} | {statistics.mean(more):.1f} | {min(more):.1f} | {max(more):.1f} |")


def turns(program):
    tiles = ServedTiles(program)
    for length, calls in ((32768, 2), (16384, 6)):
        tiles.ask(f"shape 1 {length} 16 128 causal")
        for _ in range(2):
            for mode in ("F", "B", "FB"):
                times = {letter: [] for letter in mode}
                for lasts_s in (1, 2):
                    for kept in times.values():
                        kept.clear()
                    power, end = Power(), time.time() + lasts_s
                    with power:
                        while time.time() < end:
                            for letter in mode:
                                times[letter].append(tiles.seconds(DIRECTIONS[letter], "best", calls) * 1e3)
                found = {letter: f"{statistics.median(kept):.3f} ms ({min(kept):.3f}..{max(kept):.3f}) n={len(kept)}"
                         for letter, kept in times.items()}
                print(length, mode, found, f"{power.watts:.0f} W {power.clock_hz / 1e6:.0f} MHz", flush=True)


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "measured":
        measured(*sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "turns":
        turns(sys.argv[2])
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
