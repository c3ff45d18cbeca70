#!/usr/bin/env python3
"""What a scan of states costs beside the work on tokens, simulated: two markdown tables on stdout.

    scripts/scan_study.py [SCENARIO]      linear-scan by default, from the root; the program is $CPLAB

First the length: as many tokens a rank as the column says, 8 ranks; how much longer a step takes than on one rank that
has as many tokens and exchanges nothing. Then the ranks, through NCCL: at 4096 tokens a rank, what of the time that
lasp_blelloch saves against lasp_fuse_parallel, which has the same kernels and a chain that they stand in,
lasp_ring_decoupled saves too. That one has the chain, with the kernels taken out of it: the share of decoupling. The
rest is the tree's.
"""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PROGRAM = os.environ.get("CPLAB", "build/release/cplab")
APART = {"schedule.inter": "apart", "schedule.overlap": "false", "schedule.chunk": 256}
ALGORITHMS = {
    "lasp_fuse_parallel": {},
    "lasp_ring_decoupled": APART,
    "lasp_blelloch": APART,
    "lasp_kogge_stone": APART,
    "lasp_all_gather": APART,
    "lasp_zeco": APART,
}
LENGTHS = [1024, 4096, 16384, 65536, 262144, 1048576]
RANKS = [4, 8, 16, 32, 64, 128]


def simulated(scenario, algorithm, ranks, tokens, transport="nccl"):
    sets = {"parallel.algorithm": algorithm, "parallel.ranks": ranks, "problem.sequence": ranks * tokens,
            "schedule.transport": transport, **ALGORITHMS[algorithm]}
    arguments = [PROGRAM, "simulate", scenario, "--json", "-", "--quiet"]
    arguments += [f"--set={key}={value}" for key, value in sets.items()]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"scan_study.py: {error}")
    if done.returncode != 0:
        sys.exit(f"scan_study.py: {algorithm}, {ranks} ranks, {tokens} tokens: {done.stderr.strip()}")
    return json.loads(done.stdout)["time_s"]


def name_of(tokens):
    return f"{tokens // 1024}K" if tokens < 1 << 20 else f"{tokens >> 20}M"


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        sys.exit(__doc__.strip())
    scenario = sys.argv[1] if len(sys.argv) == 2 else "linear-scan"
    with ThreadPoolExecutor(2) as pool:
        alone = dict(zip(LENGTHS, pool.map(lambda n: simulated(scenario, "lasp_blelloch", 1, n), LENGTHS)))
        cases = [(a, n, t) for a in ALGORITHMS for n in LENGTHS for t in ("nccl", "copy")]
        by_length = dict(zip(cases, pool.map(lambda case: simulated(scenario, case[0], 8, *case[1:]), cases)))
        pairs = [(a, p) for a in ALGORITHMS for p in RANKS]
        by_ranks = dict(zip(pairs, pool.map(lambda pair: simulated(scenario, pair[0], pair[1], 4096), pairs)))
    print("Beyond the work on tokens, in per cent of it; 8 ranks:\n")
    table(["tokens a rank", *(name_of(n) for n in LENGTHS)],
          [["the work (ms)", *(f"{alone[n] * 1e3:.2f}" for n in LENGTHS)],
           *([f"`{a}`, {t}", *(f"{100 * (by_length[a, n, t] / alone[n] - 1):.1f}" for n in LENGTHS)]
             for t in ("nccl", "copy") for a in ALGORITHMS)])
    print("\nMilliseconds at 4K tokens a rank, and the share of lasp_blelloch's gain that is decoupling:\n")

    def share(ranks):
        coupled = by_ranks["lasp_fuse_parallel", ranks]
        return (coupled - by_ranks["lasp_ring_decoupled", ranks]) / (coupled - by_ranks["lasp_blelloch", ranks])

    table(["ranks", *(str(p) for p in RANKS)],
          [*([f"`{a}`", *(f"{by_ranks[a, p] * 1e3:.2f}" for p in RANKS)] for a in ALGORITHMS),
           ["decoupling", *(f"{share(p):.0%}".replace("%", " %") for p in RANKS)]])


if __name__ == "__main__":
    main()
