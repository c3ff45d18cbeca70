#!/usr/bin/env python3
"""Several builds of `tiles` on one GPU by turns, or several choices of one: which kernel is faster.

    scripts/compare_builds.py TILES[:CHOICE]... [--shapes 2x8192x16x128,...] [--masks full,causal]
                              [--directions forward,backward] [--choice best] [--rounds 9] [--json FILE]
                              [--drawn POINTS --seed N]

--drawn: instead of --shapes, so many problems drawn from the seed (attention_problem.py).
CHOICE: which kernels a build may take, where not --choice (tests/gpu/gpu_tile.hpp, serve()). Every round times all
builds in a new order, launches hidden; medians, and the ratio to the first build.
"""
import argparse
import json
import math
import os
import random
import statistics

from attention_problem import drawn, shaped
from served_tiles import ServedTiles

SHAPES = ("8x2048x16x128,2x8192x16x128,1x32768x16x128,1x512x16x128,1x1024x16x128,1x2048x16x128,1x4096x16x128,"
          "8x2048x32x64,2x8192x32x64,1x32768x32x64,1x512x32x64,1x1024x32x64,1x2048x32x64,1x4096x32x64")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="TILES[:CHOICE]")
    parser.add_argument("--shapes", default=SHAPES, help="B x S x H x D, or H/G for H query heads on G key heads")
    parser.add_argument("--masks", default="full,causal")
    parser.add_argument("--directions", default="forward,backward")
    parser.add_argument("--choice", default="best")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json")
    parser.add_argument("--drawn", type=int, default=0, metavar="POINTS")
    parser.add_argument("--seed", type=int, default=1, help="of --drawn")
    arguments = parser.parse_args()
    builds, choices = {}, {}
    for word in arguments.programs:
        program, _, choice = word.partition(":")
        builds[os.path.basename(word)] = ServedTiles(program)
        choices[os.path.basename(word)] = choice or arguments.choice
    if len(builds) != len(arguments.programs):
        parser.error("the programs' file names, or their choices, must differ")
    first = next(iter(builds))
    rows, ratios = [], {}
    problems = drawn(arguments.seed, arguments.drawn) if arguments.drawn > 0 else [
        shaped(word) for word in arguments.shapes.split(",")]
    for problem in problems:
        for mask in arguments.masks.split(","):
            causal = mask == "causal"
            for build in builds.values():
                build.ask(problem.asked(causal))
            for direction in arguments.directions.split(","):
                work = problem.flops(causal, direction)
                calls = max(1, min(20, round(2e-3 / (work / 4e14))))
                times = {name: [] for name in builds}
                for turn in range(arguments.rounds + 1):
                    for name in random.sample(list(builds), len(builds)):
                        seconds = builds[name].seconds(direction, choices[name], calls)
                        if turn > 0:
                            times[name].append(seconds)
                rates = {name: work / statistics.median(values) for name, values in times.items()}
                for name, rate in rates.items():
                    rows.append({"build": name, "direction": direction, **problem.record(), "mask": mask,
                                 "flops_s": rate, "kernel": builds[name].variants[choices[name], direction],
                                 "seconds": times[name]})
                    ratios.setdefault((name, direction, problem.width, mask), []).append(rate / rates[first])
                print(f"{direction:8s} {problem} {mask:6s} TFLOP/s: " +
                      "  ".join(f"{name} {rate * 1e-12:.1f} ({rate / rates[first]:.3f})"
                                for name, rate in rates.items()), flush=True)
    for (name, direction, width, mask), values in sorted(ratios.items()):
        if name != first:
            mean = math.exp(statistics.fmean(map(math.log, values)))
            print(f"{name}: {direction} D={width} {mask} {mean:.3f} x {first}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
