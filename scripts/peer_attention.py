#!/usr/bin/env python3
"""Times of PyTorch's attention on one GPU: cuDNN, and its flash backend, forward and the whole backward call.

    scripts/peer_attention.py [--out FILE] [--rounds N] [--backends cudnn,flash]

bf16, random data, (B, S, H, D) with S rows of H heads side by side in memory; TFLOP/s as 4 B H S S D forward and 10
backward, halved for causal. The launch cost is hidden behind a waiting kernel, several calls stand between two events,
the order of all candidates is drawn anew in every round; medians over rounds. Shapes as in `tiles --bench`.
"""
import argparse
import json
import random
import statistics
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = [(8, 2048, 16, 128), (2, 8192, 16, 128), (1, 32768, 16, 128), (8, 2048, 32, 64), (2, 8192, 32, 64),
          (1, 32768, 32, 64), (1, 512, 16, 128), (1, 1024, 16, 128), (1, 2048, 16, 128), (1, 4096, 16, 128),
          (1, 512, 32, 64), (1, 1024, 32, 64), (1, 2048, 32, 64), (1, 4096, 32, 64)]
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def candidate(shape, causal, backend):
    """(forward, backward): functions of no arguments that queue one call each."""
    batch, sequence, heads, width = shape
    make = lambda: torch.randn((batch, sequence, heads, width), dtype=torch.bfloat16, device="cuda").transpose(1, 2)
    q, k, v = (make().requires_grad_() for _ in range(3))
    dout = make()

    def forward():
        with sdpa_kernel([BACKENDS[backend]]):
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    out = forward()

    def backward():
        torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    return forward, backward


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="-")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--backends", default="cudnn")
    options = parser.parse_args()
    rows = []
    for shape in SHAPES:
        batch, sequence, heads, width = shape
        for causal in (False, True):
            flops = 4 * batch * heads * sequence * sequence * width / (2 if causal else 1)
            calls = max(1, min(8, int(4e12 / flops)))
            candidates = {}
            for backend in options.backends.split(","):
                forward, backward = candidate(shape, causal, backend)
                candidates[backend, "forward"] = forward
                candidates[backend, "backward"] = backward
            times = {name: [] for name in candidates}
            for number in range(options.rounds + 1):
                order = list(candidates)
                random.shuffle(order)
                for name in order:
                    seconds = time_of(candidates[name], calls)
                    if number > 0:  # the first round warms up
                        times[name].append(seconds)
            for (backend, direction), seconds in times.items():
                median = statistics.median(seconds)
                rate = flops * (2.5 if direction == "backward" else 1) / median
                rows.append({"backend": backend, "direction": direction, "shape": shape, "causal": causal,
                             "seconds": median, "flops_s": rate})
                print(f"{backend:6} {direction:8} B={batch} S={sequence:<6} H={heads} D={width:<4} "
                      f"{'causal' if causal else 'full':6} {median * 1e3:9.3f} ms {rate * 1e-12:7.1f} TFLOP/s",
                      file=sys.stderr)
            del candidates, forward, backward
            torch.cuda.empty_cache()
    result = {"schema": "cplab.peer_attention.1", "pytorch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
              "gpu": torch.cuda.get_device_name(), "rows": rows}
    text = json.dumps(result, indent=1) + "\n"
    if options.out == "-":
        sys.stdout.write(text)
    else:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
