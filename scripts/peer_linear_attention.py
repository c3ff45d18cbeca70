#!/usr/bin/env python3
"""Our linear attention beside flash-linear-attention's on one GPU, in one run: forward and backward.

    scripts/peer_linear_attention.py --ours build/gpu/tests/gpu/tiles [--out FILE] [--rounds N] [--shapes N,N,...]

bf16, one sequence of N tokens, 16 heads, a decay for each; random data. Ours: the states of chunks, their scan and what
the rows of chunks read from both (`tiles --serve-linear`, a process of its own); theirs: chunk_simple_gla with g_gamma
(which is what lightning_attn calls) from the folder FLA_DIR (scripts/gpu/pack_fla.sh), its backward with PyTorch's
autograd. Launches are hidden behind other work, several calls stand between two events, the order is drawn anew in every
round; medians and spreads over rounds. The rates of a copy and of a matrix product are measured in the same rounds.

A row's `bound` is the time of the decomposition's bytes at the copy's rate, or of its products at the matrix product's,
whichever is longer; `minimum_bytes` is what any algorithm must move: every operand once.
"""
import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import subprocess
import sys

import torch

from gpu_power import gpu_index
from served_tiles import ServedTiles

# Tokens, D, E, tokens of a chunk: chunks times heads fill the multiprocessors of an H200 once or in few whole waves.
SHAPES = [(4096, 128, 128, 512), (65536, 128, 128, 8192), (1 << 20, 128, 128, 1 << 14),
          (4096, 128, 64, 256), (65536, 128, 64, 4096), (1 << 20, 128, 64, 1 << 14)]
HEADS = 16
BLOCK = 64  # tokens whose pairs are computed
PARTS = {"forward": ["state", "scan", "local"], "backward": ["reverse_state", "reverse_scan", "local_backward"]}


def work_of(tokens, D, E, chunk, direction):
    """Bytes and FLOPs of the decomposition in one direction, the bytes of its states, and the least bytes."""
    rows, widths = tokens * HEADS, D + E
    backward = direction == "backward"
    # Read and written: k, v and then q, k, v, out; backward q, dout and then dout, v, k, dq and q, k, v, dout, dk, dv.
    moved = 2 * rows * widths * (6 if backward else 3)
    flops = rows * (2 * BLOCK * widths * (3 if backward else 1) + 2 * D * E * (6 if backward else 3))
    states = 4 * (tokens // chunk) * HEADS * D * E * (5 if backward else 4)
    minimum = 2 * rows * (4 * D + 3 * E if backward else 2 * D + 2 * E)
    return {"bytes": moved, "flops": flops, "state_bytes": states, "minimum_bytes": minimum}


def fla_calls(tokens, D, E):
    """(forward, backward): functions of no arguments that queue one call each."""
    if os.environ["FLA_DIR"] not in sys.path:
        sys.path.insert(0, os.environ["FLA_DIR"])
    from fla.ops.simple_gla import chunk_simple_gla

    def make(width):
        return torch.randn((1, tokens, HEADS, width), dtype=torch.bfloat16, device="cuda")

    q, k, v = make(D).requires_grad_(), make(D).requires_grad_(), make(E).requires_grad_()
    dout = make(E)
    slopes = torch.exp2(-8 * torch.arange(1, HEADS + 1, device="cuda", dtype=torch.float32) / HEADS)

    def forward():
        with torch.no_grad():
            return chunk_simple_gla(q, k, v, g_gamma=-slopes, scale=1.0)

    out, _ = chunk_simple_gla(q, k, v, g_gamma=-slopes, scale=1.0)

    def backward():
        torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    return forward, backward


def time_of(call, calls):
    """Seconds of one of `calls` calls in a row, their launches hidden."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(int(4e6 + 2e6 * calls))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def ceilings():
    """Functions that time a copy (bytes/s, read and written) and a matrix product in bf16 (FLOP/s), on random data."""
    source = torch.randn(1 << 30, dtype=torch.bfloat16, device="cuda")
    target = torch.empty_like(source)
    a, b = (torch.randn((8192, 8192), dtype=torch.bfloat16, device="cuda") for _ in range(2))
    return {"copy_bytes_s": lambda: 4 * source.numel() / time_of(lambda: target.copy_(source), 4),
            "product_flops_s": lambda: 2 * 8192 ** 3 / time_of(lambda: torch.mm(a, b), 4)}


def machine():
    if not shutil.which("nvidia-smi"):
        return {}
    query = "name,uuid,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,temperature.gpu"
    values = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader", f"--id={gpu_index()}"],
                            capture_output=True, text=True, check=False).stdout.strip().split(", ")
    return dict(zip(query.split(","), values))


def rounds_of(timed, rounds):
    """{name: what its function returned in every round}, in an order drawn anew each time; one round warms up."""
    results = {name: [] for name in timed}
    for number in range(rounds + 1):
        order = list(timed)
        random.shuffle(order)
        for name in order:
            value = timed[name]()
            if number > 0:
                results[name].append(value)
    return results


def summary(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", metavar="TILES", required=True, help="the program tiles")
    parser.add_argument("--out", default="-")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shapes", default="", help="numbers in the list of shapes, from 0; all by default")
    parser.add_argument("--chunk", type=int, default=0, help="tokens of a chunk, instead of the list's")
    options = parser.parse_args()
    peer = "FLA_DIR" in os.environ
    if not peer:
        print("no FLA_DIR: ours alone", file=sys.stderr)
    numbers = [int(n) for n in options.shapes.split(",")] if options.shapes else range(len(SHAPES))
    ours = ServedTiles(options.ours, "--serve-linear")
    limits = {name: summary(values) for name, values in rounds_of(ceilings(), options.rounds).items()}
    torch.cuda.empty_cache()
    before = machine()
    rows = []

    def save():  # after every shape: what compiles for long may be cut short
        result = {"schema": "cplab.linear_attention.1", "date": datetime.date.today().isoformat(),
                  "machine_before": before, "machine_after": machine(), "cuda": torch.version.cuda,
                  "pytorch": torch.__version__, "peer": "flash-linear-attention 0.6.0" if peer else None,
                  "limits": limits, "rounds": options.rounds, "rows": rows}
        text = json.dumps(result, indent=1) + "\n"
        if options.out == "-":
            sys.stdout.write(text)
        else:
            with open(options.out, "w", encoding="utf-8") as file:
                file.write(text)

    for tokens, D, E, chunk in (SHAPES[n] for n in numbers):
        chunk = options.chunk or chunk
        calls = max(1, min(8, (1 << 18) // tokens))
        ours.ask(f"linear {tokens} {HEADS} {D} {E} {chunk}")
        timed = {}
        for direction, parts in PARTS.items():
            for part in [direction] + parts:
                timed["ours", part] = lambda part=part: ours.seconds_of_part(part, calls)
        if peer:
            for direction, call in zip(PARTS, fla_calls(tokens, D, E)):
                timed["fla", direction] = lambda call=call: time_of(call, calls)
        times = {key: summary(values) for key, values in rounds_of(timed, options.rounds).items()}
        for direction, parts in PARTS.items():
            work = work_of(tokens, D, E, chunk, direction)
            bound = max(work["bytes"] / limits["copy_bytes_s"]["median"],
                        work["flops"] / limits["product_flops_s"]["median"])
            mine = times["ours", direction]
            row = {"direction": direction, "tokens": tokens, "heads": HEADS, "D": D, "E": E, "chunk_tokens": chunk,
                   "ours_s": mine, "parts_s": {part: times["ours", part] for part in parts},
                   "kernels": {part: ours.variants[part] for part in parts}, **work, "bound_s": bound,
                   "share_of_bound": bound / mine["median"]}
            text = f"{direction:8} N={tokens:<8} D={D} E={E:<4} ours {mine['median'] * 1e6:9.1f} us"
            if peer:
                row["fla_s"] = times["fla", direction]
                row["fla_over_ours"] = row["fla_s"]["median"] / mine["median"]
                text += f"  fla {row['fla_s']['median'] * 1e6:9.1f} us ({row['fla_over_ours']:.2f} x)"
            print(f"{text}  bound {bound * 1e6:9.1f} us, share {row['share_of_bound']:.3f}  " +
                  " ".join(f"{part} {times['ours', part]['median'] * 1e6:.1f}" for part in parts), file=sys.stderr)
            rows.append(row)
        ours.ask("end")
        del timed
        torch.cuda.empty_cache()
        if options.out != "-" or len(rows) == 2 * len(numbers):
            save()


if __name__ == "__main__":
    main()
