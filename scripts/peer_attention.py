#!/usr/bin/env python3
"""Our attention kernels beside other libraries' on one GPU, in one run: forward and the whole backward call.

    scripts/peer_attention.py [--ours build/release/tests/gpu/tiles] [--out FILE] [--rounds N] [--energy SECONDS]
                              [--candidates cudnn,fa4,best,...] [--directions forward,backward] [--sizes 128,64]
                              [--shapes long,short,grouped,drawn] [--seed N] [--points N]

bf16, random data, (B, S, H, D) with S rows of H heads side by side in memory; TFLOP/s as 4 B H S S D forward and 10
backward, halved for causal (attention_problem.py). The launch cost is hidden behind other work, several calls stand
between two events, the order of all candidates is drawn anew in every round; medians over rounds, and their range.
Peers: attention_peers.py; best, deterministic, apart and portable are choices of our kernels, timed by `tiles --serve`
in a process of its own, in turn with the others. A peer that a shape cannot be had from is said and left out of that
shape. --shapes short: batches of many short sequences, which peers also take packed (their *_packed). --shapes grouped:
fewer heads of keys. --shapes drawn: problems that nobody tuned to, from --seed: batches, fewer heads of keys, packed
lists, each of which the candidates that can do take. By default: cudnn, best, and fa4 where FA4_DIR says where it is
(scripts/gpu/pack_fa4.sh). Ratios are of rates, ours to each peer's. --energy: afterwards each candidate runs for so
long at the first shape of each head size and mask; joules, watts and clocks are read meanwhile.
"""
import argparse
import datetime
import json
import math
import os
import random
import statistics
import shutil
import subprocess
import sys

import torch

from attention_peers import PEERS, needs_fa4
from attention_problem import GROUPED, LONG, SHORT, batch, drawn
from gpu_power import Power, gpu_index
from served_tiles import ServedTiles

SLOW_TO_MAKE = {"triton": [batch(2, 8192, 16, 128)]}  # compiled for each problem
OURS = ("best", "deterministic", "apart", "portable")


def environment(program):
    """Versions, clocks and the commit of our build, where they can be found."""
    query = "driver_version,uuid,clocks.sm,clocks.max.sm,clocks.max.mem,power.limit"
    facts = {}
    if shutil.which("nvidia-smi"):
        values = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader", f"--id={gpu_index()}"],
                                capture_output=True, text=True).stdout.strip().split(", ")
        facts = dict(zip(query.split(","), values))
    facts["cuda"] = torch.version.cuda
    if program:
        cplab = os.path.join(os.path.dirname(program), "cplab")
        if os.path.exists(cplab):
            facts["cplab"] = subprocess.run([cplab, "--version"], capture_output=True, text=True).stdout.strip()
    return facts


def time_of(call, calls):
    """Seconds of one of `calls` calls in a row, their launches hidden.

    Of many calls only the first are: the others are queued while those run. So the GPU idles for 10 ms at most.
    """
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(int(min(2e6 + 4e5 * calls, 2e7)))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def takes(name, problem):
    """Whether the peer is asked for the problem: packed, batches of short sequences and lists alone."""
    if name.endswith("_packed"):
        return problem.kind == "short" or not problem.is_batch
    return problem.is_batch and problem in SLOW_TO_MAKE.get(name, [problem])


def timed_calls(names, directions, problem, causal, ours, missing):
    """(candidate, direction) -> function of a number of calls that returns the seconds of one."""
    if ours:
        ours.ask(problem.asked(causal))
    timed = {}
    for name in names:
        if name in OURS:
            for direction in directions:
                timed[name, direction] = lambda calls, d=direction, n=name: ours.seconds(d, n, calls)
            continue
        if not takes(name, problem):
            continue
        try:
            made = PEERS[name](problem, causal)
            for direction, call in zip(("forward", "backward"), made):
                if direction in directions:
                    call()
                    timed[name, direction] = lambda calls, call=call: time_of(call, calls)
        except Exception as error:  # a peer's own refusal, of whatever kind: the record names it
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            missing.append({"candidate": name, **problem.record(), "causal": causal, "reason": reason})
            print(f"{name} {problem} {'causal' if causal else 'full'}: left out: {reason}", file=sys.stderr)
            for direction in directions:
                timed.pop((name, direction), None)
    return timed


def measured(timed, problem, causal, rounds):
    """(candidate, direction) -> seconds of every round but the first, which warms up."""
    calls = max(1, min(8, int(4e12 / problem.flops(causal, "forward"))))
    times = {key: [] for key in timed}
    for number in range(rounds + 1):
        order = list(timed)
        random.shuffle(order)
        for key in order:
            seconds = timed[key](calls)
            if number > 0:
                times[key].append(seconds)
    return times


def sustained(timed, problem, causal, seconds, medians):
    """Each candidate alone, for so long: what it takes of the GPU."""
    rows, power = [], Power()
    for (name, direction), call in timed.items():
        calls = max(1, math.ceil(seconds / medians[name, direction]))
        with power:
            each = call(calls)
        flops = problem.flops(causal, direction)
        rows.append({"candidate": name, "direction": direction, **problem.record(), "causal": causal, "calls": calls,
                     "flops_s": flops / each, "watts": power.watts, "sm_clock_hz": power.clock_hz,
                     "flops_j": flops * calls / power.joules, "limit_w": power.limit_w()})
        print(f"{direction:8} {name:13} {problem} {'causal' if causal else 'full':6} {flops / each * 1e-12:5.1f} TFLOP/s "
              f"{power.watts:5.0f} W {power.clock_hz * 1e-9:.2f} GHz {flops * calls / power.joules * 1e-12:.3f} TFLOP/J",
              file=sys.stderr)
    return rows


def geometric_means(rates):
    """(ours, peer, direction, D, causal, kind) -> mean and least ratio of our rate to the peer's.

    rates: (candidate, direction, problem, causal) -> FLOP/s.
    """
    ratios = {}
    for (peer, direction, problem, causal), rate in rates.items():
        if peer in OURS:
            continue
        for name in OURS:
            mine = rates.get((name, direction, problem, causal))
            if mine:
                ratios.setdefault((name, peer, direction, problem.width, causal, problem.kind), []).append(mine / rate)
    return {key: (math.exp(statistics.fmean(map(math.log, values))), min(values)) for key, values in ratios.items()}


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="-")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--energy", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--ours", metavar="TILES", help="the program tiles")
    parser.add_argument("--candidates", default="cudnn,best" + (",fa4" if "FA4_DIR" in os.environ else ""))
    parser.add_argument("--directions", default="forward,backward")
    parser.add_argument("--sizes", default="128,64", help="of heads")
    parser.add_argument("--shapes", default="long,short")
    parser.add_argument("--seed", type=int, default=1, help="of --shapes drawn")
    parser.add_argument("--points", type=int, default=18, help="of --shapes drawn")
    options = parser.parse_args()
    names = options.candidates.split(",")
    for name in names:
        if name not in PEERS and name not in OURS:
            parser.error(f"no candidate {name}; legal: {', '.join([*PEERS, *OURS])}")
        if needs_fa4(name) and "FA4_DIR" not in os.environ:
            parser.error(f"{name} needs FA4_DIR, see scripts/gpu/pack_fa4.sh")
        if name in OURS and not options.ours:
            parser.error(f"{name} needs --ours")
    sets = {"long": LONG, "short": SHORT, "grouped": GROUPED, "drawn": drawn(options.seed, options.points)}
    sizes = [int(size) for size in options.sizes.split(",")]
    for kind in options.shapes.split(","):
        if kind not in sets:
            parser.error(f"no shapes {kind}; legal: {', '.join(sets)}")
    problems = [problem for kind in options.shapes.split(",") for problem in sets[kind] if problem.width in sizes]
    return options, names, options.directions.split(","), problems


def save(options, result):
    text = json.dumps(result, indent=1) + "\n"
    if options.out == "-":
        return sys.stdout.write(text)
    with open(options.out + ".part", "w", encoding="utf-8") as file:  # what is there is whole
        file.write(text)
    return os.replace(options.out + ".part", options.out)


def main():
    options, names, directions, problems = parsed()
    ours = ServedTiles(options.ours) if any(name in OURS for name in names) else None
    rows, missing, energy, seen, rates = [], [], [], set(), {}
    result = {"schema": "cplab.attention.2", "date": datetime.date.today().isoformat(),
              "environment": environment(options.ours), "pytorch": torch.__version__,
              "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name(), "rounds": options.rounds,
              "seed": options.seed, "points": options.points, "rows": rows, "left_out": missing, "energy": energy}
    for problem in problems:
        for causal in (False, True):
            timed = timed_calls(names, directions, problem, causal, ours, missing)
            times = measured(timed, problem, causal, options.rounds)
            medians = {key: statistics.median(seconds) for key, seconds in times.items()}
            first_row = len(rows)
            for (name, direction), median in sorted(medians.items(), key=lambda item: item[0][1]):
                seconds, rate = times[name, direction], problem.flops(causal, direction) / median
                rates[name, direction, problem, causal] = rate
                rows.append({"candidate": name, "direction": direction, **problem.record(), "causal": causal,
                             "kernel": ours.variants.get((name, direction), "") if ours else "", "seconds": median,
                             "least_s": min(seconds), "most_s": max(seconds), "flops_s": rate})
            for direction in directions:
                line = "  ".join(f"{r['candidate']} {r['flops_s'] * 1e-12:5.1f}" for r in rows[first_row:]
                                 if r["direction"] == direction)
                print(f"{direction:8} {problem} {'causal' if causal else 'full':6} TFLOP/s: {line}", file=sys.stderr)
            if options.energy > 0 and (problem.width, causal) not in seen:
                seen.add((problem.width, causal))
                energy += sustained(timed, problem, causal, options.energy, medians)
            result["geometric_means"] = [[*key, mean, least] for key, (mean, least) in
                                         sorted(geometric_means(rates).items())]
            if options.out != "-":
                save(options, result)
            del timed
            torch.cuda.empty_cache()
    for name, peer, direction, width, causal, kind, mean, least in result.get("geometric_means", []):
        print(f"{name:13} / {peer:12} {direction:8} D={width:<4} {'causal' if causal else 'full':6} {kind:5} {mean:.3f}, "
              f"least {least:.3f}", file=sys.stderr)
    if options.out == "-":
        save(options, result)


if __name__ == "__main__":
    main()
