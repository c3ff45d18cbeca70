#!/usr/bin/env python3
"""Our attention kernels beside PyTorch's on one GPU, in one run: forward and the whole backward call.

    scripts/peer_attention.py [--ours build/gpu/tests/gpu/tiles] [--out FILE] [--rounds N]
                              [--candidates cudnn,flash,triton,fa4,best,deterministic,portable]
                              [--directions forward,backward] [--sizes 128,64]

bf16, random data, (B, S, H, D) with S rows of H heads side by side in memory; TFLOP/s as 4 B H S S D forward and 10
backward, halved for causal. The launch cost is hidden behind other work, several calls stand between two events, the
order of all candidates is drawn anew in every round; medians over rounds. cudnn and flash are backends of PyTorch's
scaled_dot_product_attention, triton is its flex_attention, compiled, for one shape; fa4 is FlashAttention 4
(scripts/gpu/pack_fa4.sh; its interface is written in Python, which small shapes feel); best, deterministic and portable
are choices of our kernels, timed by `tiles --serve` in a process of its own, in turn with PyTorch's. Ratios are to
cudnn. Shapes as in `tiles --bench`.
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
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from served_tiles import ServedTiles

SHAPES = [(8, 2048, 16, 128), (2, 8192, 16, 128), (1, 32768, 16, 128), (8, 2048, 32, 64), (2, 8192, 32, 64),
          (1, 32768, 32, 64), (1, 512, 16, 128), (1, 1024, 16, 128), (1, 2048, 16, 128), (1, 4096, 16, 128),
          (1, 512, 32, 64), (1, 1024, 32, 64), (1, 2048, 32, 64), (1, 4096, 32, 64)]
TRITON_SHAPES = [(2, 8192, 16, 128)]  # each takes seconds to compile
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def calls_of(shape, attend, heads_first=False):
    """(forward, backward): functions of no arguments that queue one call each of attend(q, k, v).

    Operands are (B, S, H, D), for which attend may see (B, H, S, D).
    """
    def make():
        made = torch.randn(shape, dtype=torch.bfloat16, device="cuda")
        return made.transpose(1, 2) if heads_first else made

    q, k, v = (make().requires_grad_() for _ in range(3))
    dout = make()

    def forward():
        return attend(q, k, v)

    out = forward()

    def backward():
        torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    return forward, backward


def candidate(shape, causal, backend):
    """calls_of() a backend of PyTorch."""
    def attend(q, k, v):
        with sdpa_kernel([BACKENDS[backend]]):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return calls_of(shape, attend, heads_first=True)


def triton_candidate(shape, causal):
    """calls_of() the kernels that torch.compile writes in Triton for flex_attention. Compiles for a while."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    sequence = shape[1]
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, sequence, sequence, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return calls_of(shape, lambda q, k, v: compiled(q, k, v, block_mask=mask), heads_first=True)


def fa4_candidate(shape, causal):
    """calls_of() FlashAttention 4, from the folder FA4_DIR (scripts/gpu/pack_fa4.sh)."""
    folder = os.environ["FA4_DIR"]
    for path in (folder, folder + "/nvidia_cutlass_dsl/dsl_packages"):
        if path not in sys.path:
            sys.path.insert(0, path)
    from flash_attn.cute import flash_attn_func

    def attend(q, k, v):
        out = flash_attn_func(q, k, v, causal=causal)
        return out[0] if isinstance(out, (tuple, list)) else out

    return calls_of(shape, attend)


COMPILED = {"triton": triton_candidate, "fa4": fa4_candidate}


def environment(program):
    """Versions, clocks and the commit of our build, where they can be found."""
    query = "driver_version,clocks.sm,clocks.max.sm,clocks.max.mem"
    facts = {}
    if shutil.which("nvidia-smi"):
        values = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader", "--id=0"],
                                capture_output=True, text=True).stdout.strip().split(", ")
        facts = dict(zip(query.split(","), values))
    facts["cuda"] = torch.version.cuda
    if program:
        cplab = os.path.join(os.path.dirname(program), "cplab")
        if os.path.exists(cplab):
            facts["cplab"] = subprocess.run([cplab, "--version"], capture_output=True, text=True).stdout.strip()
    return facts


def time_of(call, calls):
    """Seconds of one of `calls` calls in a row, their launches hidden."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(int(2e6 + 4e5 * calls))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def geometric_means(rows):
    """{(candidate, direction, D, causal): mean ratio of rates to cudnn's}."""
    rates = {(r["candidate"], r["direction"], tuple(r["shape"]), r["causal"]): r["flops_s"] for r in rows}
    ratios = {}
    for (candidate, direction, shape, causal), rate in rates.items():
        base = rates.get(("cudnn", direction, shape, causal))
        if base and candidate != "cudnn":
            ratios.setdefault((candidate, direction, shape[3], causal), []).append(rate / base)
    return {key: math.exp(statistics.fmean(map(math.log, values))) for key, values in ratios.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="-")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ours", metavar="TILES", help="the program tiles")
    parser.add_argument("--candidates", default="cudnn,best")
    parser.add_argument("--directions", default="forward,backward")
    parser.add_argument("--sizes", default="128,64", help="of heads")
    options = parser.parse_args()
    names = options.candidates.split(",")
    directions = options.directions.split(",")
    sizes = [int(size) for size in options.sizes.split(",")]
    choices = [name for name in names if name not in BACKENDS and name not in COMPILED]
    if "fa4" in names and "FA4_DIR" not in os.environ:
        parser.error("fa4 needs FA4_DIR, see scripts/gpu/pack_fa4.sh")
    if choices and not options.ours:
        parser.error(f"{choices[0]} needs --ours")
    ours = ServedTiles(options.ours) if choices else None
    rows = []
    for shape in [shape for shape in SHAPES if shape[3] in sizes]:
        batch, sequence, heads, width = shape
        for causal in (False, True):
            mask = "causal" if causal else "full"
            flops = 4 * batch * heads * sequence * sequence * width / (2 if causal else 1)
            calls = max(1, min(8, int(4e12 / flops)))
            if ours:
                ours.ask(f"shape {batch} {sequence} {heads} {width} {mask}")
            timed = {}
            for name in names:
                if name == "triton" and shape not in TRITON_SHAPES:
                    continue
                if name in BACKENDS or name in COMPILED:
                    made = COMPILED[name](shape, causal) if name in COMPILED else candidate(shape, causal, name)
                    for direction, call in zip(("forward", "backward"), made):
                        if direction in directions:
                            timed[name, direction] = lambda call=call: time_of(call, calls)
                else:
                    for direction in directions:
                        timed[name, direction] = lambda d=direction, n=name: ours.seconds(d, n, calls)
            times = {key: [] for key in timed}
            for number in range(options.rounds + 1):
                order = list(timed)
                random.shuffle(order)
                for key in order:
                    seconds = timed[key]()
                    if number > 0:  # the first round warms up
                        times[key].append(seconds)
            for (name, direction), seconds in sorted(times.items(), key=lambda item: item[0][1]):
                median = statistics.median(seconds)
                rate = flops * (2.5 if direction == "backward" else 1) / median
                kernel = ours.variants.get((name, direction), "") if ours else ""
                rows.append({"candidate": name, "direction": direction, "shape": shape, "causal": causal,
                             "kernel": kernel, "seconds": median, "flops_s": rate})
            for direction in directions:
                mine = {r["candidate"]: r for r in rows[-len(timed):] if r["direction"] == direction}
                rates = "  ".join(f"{name} {r['flops_s'] * 1e-12:5.1f}" for name, r in mine.items())
                print(f"{direction:8} B={batch} S={sequence:<6} H={heads} D={width:<4} {mask:6} TFLOP/s: {rates}",
                      file=sys.stderr)
            del timed
            torch.cuda.empty_cache()
    means = geometric_means(rows)
    for (name, direction, width, causal), mean in sorted(means.items()):
        print(f"{name:13} {direction:8} D={width:<4} {'causal' if causal else 'full':6} {mean:.3f} x cudnn",
              file=sys.stderr)
    result = {"schema": "cplab.attention.1", "date": datetime.date.today().isoformat(),
              "environment": environment(options.ours), "pytorch": torch.__version__,
              "cudnn": torch.backends.cudnn.version(),
              "gpu": torch.cuda.get_device_name(), "rounds": options.rounds, "rows": rows,
              "geometric_means": [list(key) + [mean] for key, mean in sorted(means.items())]}
    text = json.dumps(result, indent=1) + "\n"
    if options.out == "-":
        sys.stdout.write(text)
    else:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
