#!/usr/bin/env python3
"""A line about a measured run of causal attention with 16 heads of 128, forward and backward: its time, TFLOP/s of a GPU
by live pairs, and the attention kernels taken.

    scripts/gpu/run_line.py NAME LENGTHS RANKS RESULT [PREDICTED]

LENGTHS    of the sequences, "[4096, 4096]"
RESULT     what `cplab run --json` wrote
PREDICTED  seconds
"""
import json
import sys

name, lengths, ranks, path = sys.argv[1:5]
with open(path, encoding="utf-8") as file:
    result = json.load(file)
pairs = sum(n * (n + 1) / 2 for n in json.loads(lengths))
flops = 14 * pairs * 16 * 128 / int(ranks)  # 4 forward and 10 backward
predicted = f" (predicted {float(sys.argv[5]) * 1e3:8.3f})" if len(sys.argv) > 5 else ""
kernels = sorted(v["variant"] for v in result["variants"] if v["variant"].startswith("attend"))
print(f"{name:24} {result['time_s'] * 1e3:8.3f} ms{predicted} {flops / result['time_s'] * 1e-12:6.1f} TFLOP/s a GPU  "
      + ", ".join(kernels))
