#!/usr/bin/env python3
"""Packed batches of documents on 64 simulated H100, under each placement: imbalance, bytes, time, memory.

    scripts/document_placements.py CPLAB [--ranks 64] [--tokens 1048576] [--batches 3] [--seed 1] [--csv FILE]
    scripts/document_placements.py CPLAB --measured RECORD [--hardware h200x2]
    scripts/document_placements.py --self-check

Documents are drawn one after the other until a batch has so many tokens (the last one is cut there), from three
distributions of lengths, in tokens, at least 128:
  log-normal   median 4096, sigma 1.2, at most 256K
  pareto       least 2048, tail exponent 1.1, at most 1M
  mixed        4K and 128K, with equally many tokens in each
With a record of runs on GPUs the batch of that record is predicted, beside the median of what was measured.
A row is the mean over the batches: imbalance is the longest time that a rank computes over the mean of all; sent is
what all ranks send, peak the largest live peak of a rank. 32 query heads, 8 key heads of 128, bf16, causal, forward and
backward.
"""
import argparse
import csv
import json
import random
import statistics
import subprocess
import sys

LEAST = 128
WAYS = (("zigzag", "ring", "zigzag", ()),
        ("stream", "all_gather", "stream", ("schedule.gather=needed",)),
        ("hybrid", "ring", "hybrid", ()),
        ("balanced", "all_gather", "balanced", ()),
        ("dynamic", "all_gather", "dynamic", ()))
COLUMNS = ("documents", "placement", "algorithm", "imbalance", "sent_gib", "time_ms", "exposed_ms", "peak_gib")


def log_normal(rng):
    return min(int(4096 * rng.lognormvariate(0, 1.2)), 256 << 10)


def pareto(rng):
    return min(int(2048 * rng.paretovariate(1.1)), 1 << 20)


def mixed(rng):
    return 4096 if rng.random() < 32 / 33 else 128 << 10


DISTRIBUTIONS = (("log-normal", log_normal), ("pareto", pareto), ("mixed", mixed))


def batch(draw, tokens, rng):
    """Lengths that sum to `tokens`, in the order they were drawn."""
    lengths = []
    left = tokens
    while left > 0:
        lengths.append(min(left, max(LEAST, draw(rng))))
        left -= lengths[-1]
    return lengths


def simulate(cplab, lengths, ranks, algorithm, placement, options, hardware="h100x64"):
    sets = ["problem.lengths=[" + ",".join(map(str, lengths)) + "]", "problem.heads=32", "problem.kv_heads=8",
            "problem.head_size=128", "problem.dtype=bf16", "problem.mask=causal", f"parallel.ranks={ranks}",
            f"parallel.algorithm={algorithm}", f"parallel.placement={placement}", *options]
    command = [cplab, "simulate", "-", "--hardware", hardware, "--json", "-", "--quiet"]
    for each in sets:
        command += ["--set", each]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{placement}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def row_of(name, way, results):
    def mean(value):
        return statistics.fmean(value(r) for r in results)

    def imbalance(result):
        computed = [rank["compute_s"] for rank in result["ranks"]]
        return max(computed) / statistics.fmean(computed)

    label, algorithm = way[0], way[1]
    return dict(zip(COLUMNS, (
        name, label, algorithm, mean(imbalance),
        mean(lambda r: sum(rank["sent_bytes"] for rank in r["ranks"])) / 2**30,
        mean(lambda r: r["time_s"]) * 1e3,
        mean(lambda r: max(rank["exposed_communication_s"] for rank in r["ranks"])) * 1e3,
        mean(lambda r: r["peak_bytes"]) / 2**30), strict=True))


def beside_measured(cplab, path, hardware):
    """Per placement: predicted with its band, and the median over rounds of what a record measured."""
    with open(path, encoding="utf-8") as file:
        runs = [json.loads(line) for line in file]
    lengths = runs[0]["scenario"]["problem"]["lengths"]
    print("| placement | algorithm | measured_ms | predicted_ms | low_ms | high_ms | error |")
    print("|" + " --- |" * 7)
    for label, algorithm, placement, options in WAYS:
        times = [run["time_s"] for run in runs if run["scenario"]["parallel"]["placement"] == placement]
        ranks = runs[0]["scenario"]["parallel"]["ranks"]
        said = simulate(cplab, lengths, ranks, algorithm, placement, options, hardware)
        measured = statistics.median(times)
        figures = (measured, said["time_s"], said["low_s"], said["high_s"])
        print(f"| {label} | {algorithm} | " + " | ".join(f"{1e3 * each:.2f}" for each in figures) +
              f" | {100 * (said['time_s'] / measured - 1):+.1f} % |")


def line_of(row):
    return "| " + " | ".join(value if isinstance(value, str) else f"{value:.2f}" for value in row.values()) + " |"


def self_check():
    for _, draw in DISTRIBUTIONS:
        lengths = batch(draw, 1 << 20, random.Random(7))
        assert sum(lengths) == 1 << 20 and min(lengths[:-1]) >= LEAST
        assert lengths == batch(draw, 1 << 20, random.Random(7))
    tokens = batch(mixed, 1 << 30, random.Random(1))
    share = sum(n for n in tokens if n > 4096) / sum(tokens)
    assert 0.45 < share < 0.55, share
    print("self-check ok")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cplab", nargs="?")
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=1 << 20)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv")
    parser.add_argument("--measured")
    parser.add_argument("--hardware", default="h200x2")
    parser.add_argument("--self-check", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_check:
        return self_check()
    if not arguments.cplab:
        parser.error("CPLAB is missing")
    if arguments.measured:
        return beside_measured(arguments.cplab, arguments.measured, arguments.hardware)
    rows = []
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for name, draw in DISTRIBUTIONS:
        rng = random.Random(arguments.seed)
        batches = [batch(draw, arguments.tokens, rng) for _ in range(arguments.batches)]
        for way in WAYS:
            results = [simulate(arguments.cplab, lengths, arguments.ranks, *way[1:]) for lengths in batches]
            rows.append(row_of(name, way, results))
            print(line_of(rows[-1]), flush=True)
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    return None


if __name__ == "__main__":
    main()
