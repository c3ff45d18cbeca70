#!/usr/bin/env python3
"""What a tile of the forward kernel for Hopper costs, from times with each tile height forced.

    tiles --heights > heights.json && scripts/fit_tile_costs.py heights.json [--sms 132] [--keep BEYOND,MASKED]
    scripts/fit_tile_costs.py --self-check      on times made from known constants

The JSON is a list of {"batch", "sequence", "heads", "head_size", "causal", "rows", "seconds"}, `rows` the height, and
perhaps "together", how many thread blocks share a multiprocessor: each of them counts as one. The
model is that of tile_times() and makespan() in kernels/work/tile_cuts.cpp: a tile is as long as its blocks of 128 keys
(half of them counted for the tile, half in the mean of its groups of 64 rows), plus `beyond`, plus `masked` for each
block in which not all pairs are live; a unit of length costs a time of its own for
each head size and height; the tiles of all heads are given to the multiprocessors, the longest first; a launch takes
`launch` seconds beside, which no choice depends on. `beyond`, `masked`, `launch` and the costs are those of the least
squares of the relative error. Printed are these constants, which stand in kernels/work/measured_constants.hpp (but for
`launch`), and what the choice by them loses on every shape. --keep: `beyond` and `masked` as given, since the costs of
the other kernels were fitted with those that stand in the source.
"""
import argparse
import heapq
import json
import math
import random
import sys

BLOCK, GROUP = 128, 64


def met(begin, end, sequence, causal, block=BLOCK):
    """(blocks, masked blocks) that rows [begin, end) meet: sequences lie one after the other. In blocks of 128, whatever
    `block` the kernel walks over."""
    blocks = masked = 0
    for number in range(begin // sequence, (end - 1) // sequence + 1):
        first = max(begin - number * sequence, 0)
        last = min(end - number * sequence, sequence) - 1
        here = -(-(last + 1 if causal else sequence) // block)
        blocks += here
        masked += here - (first + 1 if causal else sequence) // block
    return blocks * block / BLOCK, masked * block / BLOCK


def parts_of(batch, sequence, causal, rows, block=BLOCK):
    """[(blocks, masked blocks)] of each tile of one head, half those of the tile, half the mean of its groups of rows."""
    tiles = []
    for begin in range(0, batch * sequence, rows):
        end = min(batch * sequence, begin + rows)
        groups = [met(row, min(row + GROUP, end), sequence, causal, block) for row in range(begin, end, GROUP)]
        whole = met(begin, end, sequence, causal, block)
        tiles.append(tuple((whole[n] + sum(group[n] for group in groups) / len(groups)) / 2 for n in (0, 1)))
    return tiles


def makespan(lengths, sms):
    """Of (length, how many) tiles on so many multiprocessors, the longest first."""
    free = [0.0] * sms
    for length, count in sorted(lengths, reverse=True):
        if free[0] == max(free):  # all at once, until there are fewer tiles than multiprocessors
            free = [free[0] + count // sms * length] * sms
            count %= sms
        for _ in range(count):
            heapq.heapreplace(free, free[0] + length)
    return max(free)


class Model:
    """Predicted times of all measurements, each in units of its height's cost."""

    def __init__(self, measurements, sms):
        self.sms = [sms * m.get("together", 1) for m in measurements]
        self.seconds = [m["seconds"] for m in measurements]
        self.kinds = [(m["head_size"], m["rows"]) for m in measurements]
        self.counts = []  # of each measurement: {(blocks, masked): tiles}
        for m in measurements:
            counts = {}
            for part in parts_of(m["batch"], m["sequence"], m["causal"], m["rows"]):
                counts[part] = counts.get(part, 0) + m["heads"]
            self.counts.append(counts)

    def units(self, beyond, masked):
        return [makespan([(part[0] + beyond + masked * part[1], count) for part, count in counts.items()], sms)
                for counts, sms in zip(self.counts, self.sms)]

    def launch_and_costs(self, units):
        """(seconds of a launch, {(head size, height): seconds a unit}), of the smallest sum of e^2 where e = (launch +
        cost x units) / seconds - 1. With a = units / seconds and w = 1 / seconds the best cost of a kind is
        sum(a (1 - launch w)) / sum(a^2), which leaves a quadratic function of launch."""
        sums = {}  # of each kind: a, a^2, w, w^2, a w
        for kind, unit, seconds in zip(self.kinds, units, self.seconds):
            a, w = unit / seconds, 1 / seconds
            sums[kind] = [x + y for x, y in zip(sums.get(kind, [0] * 5), (a, a * a, w, w * w, a * w))]
        above = math.fsum(w - aw * a / aa for a, aa, w, ww, aw in sums.values())
        below = math.fsum(ww - aw * aw / aa for a, aa, w, ww, aw in sums.values())
        launch = max(above / below, 0) if below > 0 else 0
        return launch, {kind: (a - launch * aw) / aa for kind, (a, aa, w, ww, aw) in sums.items()}

    def errors(self, beyond, masked):
        """(seconds of a launch, costs, relative error of each measurement)."""
        units = self.units(beyond, masked)
        launch, costs = self.launch_and_costs(units)
        return launch, costs, [(launch + costs[k] * u) / s - 1 for k, u, s in zip(self.kinds, units, self.seconds)]

    def fit(self):
        """(beyond, masked): from the best point of a coarse grid, by ever smaller steps along and across the axes."""
        known = {}

        def squares(at):
            if at not in known:
                known[at] = math.fsum(e * e for e in self.errors(*at)[2]) if min(at) >= 0 else math.inf
            return known[at]

        step = 0.5
        best = min(((step * i, step * j) for i in range(9) for j in range(5)), key=squares)
        while step > 0.005:
            near = [(best[0] + i * step, best[1] + j * step) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            better = min(near, key=squares)
            if squares(better) < squares(best):
                best = better
            else:
                step /= 2
        return best


def by_shape(measurements, values):
    """{(head size, causal, batch, sequence, heads): {height: value}}."""
    shapes = {}
    for m, value in zip(measurements, values):
        key = (m["head_size"], m["causal"], m["batch"], m["sequence"], m["heads"])
        shapes.setdefault(key, {})[m["rows"]] = value
    return shapes


def print_fit(measurements, sms, keep=None):
    model = Model(measurements, sms)
    beyond, masked = keep or model.fit()
    launch, costs, errors = model.errors(beyond, masked)
    print(f"{len(measurements)} times, {sms} multiprocessors: {beyond:.2f} units beyond the keys, {masked:.2f} a masked "
          f"block, {launch * 1e6:.2f} us a launch")
    print("head size  rows   us a unit   times   error: rms   worst")
    for kind, cost in sorted(costs.items(), reverse=True):
        own = [error for error, its in zip(errors, model.kinds) if its == kind]
        rms = math.sqrt(math.fsum(e * e for e in own) / len(own))
        print(f"{kind[0]:9}  {kind[1]:4}  {cost * 1e6:10.3f}  {len(own):6}  {rms * 100:9.1f} %  "
              f"{max(own, key=abs) * 100:+5.1f} %")
    print("shape, and of each height: measured us, predicted us; what the prediction takes loses to the fastest")
    measured = by_shape(measurements, model.seconds)
    predicted = by_shape(measurements, [s * (1 + e) for s, e in zip(model.seconds, errors)])
    for key, times in sorted(measured.items()):
        head_size, causal, batch, sequence, heads = key
        taken = min(predicted[key], key=predicted[key].get)
        columns = "  ".join(f"{rows}: {times[rows] * 1e6:.1f}, {predicted[key][rows] * 1e6:.1f}"
                            for rows in sorted(times, reverse=True))
        print(f"D={head_size:<4} {'causal' if causal else 'full':6} B={batch} S={sequence:<6} H={heads:<3} {columns}  "
              f"takes {taken}: {(times[taken] / min(times.values()) - 1) * 100:.1f} %")


def self_check():
    """Exits with 1 unless known constants are found again, with and without noise."""
    bad = []

    def check(what, value, wanted, tolerance):
        if not abs(value - wanted) <= tolerance:
            bad.append(f"{what} is {value}, not {wanted}")

    # By hand: 256 rows, tiles of 192 (2 blocks, both masked; its groups 1, 1 and 2, one masked each) and 64; two
    # sequences of 96 in tiles of 128 (the first tile 2 and 2; its groups 1 and, in both sequences, 2).
    for got, wanted in ((parts_of(1, 256, True, 192), [((2 + 4 / 3) / 2, 1.5), (2, 1)]),
                        (parts_of(1, 256, False, 128), [(2, 0)] * 2),
                        (parts_of(2, 96, True, 128), [(1.75, 1.75), (1, 1)]),
                        (parts_of(1, 200, False, 128), [(2, 1)] * 2)):
        if got != wanted:
            bad.append(f"tiles are {got}, not {wanted}")
    check("3 tiles of 2 and 2 of 1 on 2", makespan([(1.0, 2), (2.0, 3)], 2), 4, 0)
    check("7 tiles on 3", makespan([(1.5, 7)], 3), 4.5, 0)
    costs = {(64, 192): 1.5e-6, (64, 128): 1.1e-6, (64, 64): 0.9e-6, (128, 128): 1.4e-6, (128, 64): 1.2e-6}
    shapes = [(1, 512), (1, 1024), (1, 2048), (1, 4096), (8, 2048)]
    noise = random.Random(1)
    for beyond, masked, launch, spread in ((1.5, 0.5, 3e-6, 0), (0.7, 1.1, 0, 0), (1.5, 0.5, 3e-6, 0.01)):
        measurements = [{"batch": batch, "sequence": sequence, "heads": 2048 // head_size, "head_size": head_size,
                         "causal": causal, "rows": rows, "seconds": 1,
                         "together": 2 if (head_size, rows) == (64, 64) else 1}
                        for head_size, rows in costs for batch, sequence in shapes for causal in (False, True)]
        model = Model(measurements, 132)
        model.seconds = [(launch + costs[kind] * units) * (1 + noise.uniform(-spread, spread))
                         for kind, units in zip(model.kinds, model.units(beyond, masked))]
        found = model.fit()
        tolerance = 0.01 + 20 * spread
        check("beyond", found[0], beyond, tolerance)
        check("masked", found[1], masked, tolerance)
        found_launch, found_costs, _ = model.errors(*found)
        check("launch in us", found_launch * 1e6, launch * 1e6, 4 * tolerance)
        for kind, cost in found_costs.items():
            check(f"the cost of {kind} over the true one", cost / costs[kind], 1, 0.003 + 3 * spread)
    for line in bad:
        print("fit_tile_costs.py --self-check:", line, file=sys.stderr)
    sys.exit(1 if bad else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", nargs="?", metavar="JSON", help="of `tiles --heights`; - is stdin")
    parser.add_argument("--sms", type=int, default=132, help="multiprocessors of the GPU (132)")
    parser.add_argument("--keep", metavar="BEYOND,MASKED", help="these two are not fitted")
    parser.add_argument("--self-check", action="store_true")
    options = parser.parse_args()
    if options.self_check:
        self_check()
    if options.measured is None:
        parser.error("a JSON of measured times is needed")
    keep = None
    if options.keep is not None:
        try:
            beyond, masked = keep = tuple(map(float, options.keep.split(",")))
        except ValueError:
            parser.error(f"--keep {options.keep}: two numbers are needed, as 1.32,0.41")
        if min(beyond, masked) < 0:
            parser.error(f"--keep {options.keep}: neither may be negative")
    if options.measured == "-":
        measurements = json.load(sys.stdin)
    else:
        with open(options.measured, encoding="utf-8") as file:
            measurements = json.load(file)
    print_fit(measurements, options.sms, keep)


if __name__ == "__main__":
    main()
