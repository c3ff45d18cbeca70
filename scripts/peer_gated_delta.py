#!/usr/bin/env python3
"""Gated delta rules beside flash-linear-attention's on one GPU, in one run: forward and backward.

    scripts/peer_gated_delta.py --cplab build/release/cplab [--out FILE] [--tokens N] [--heads N] [--rounds N]

bf16, one sequence, D = E = 128. Ours: `cplab run` of a plan of one rank, the operations local and local_backward, each a
process of its own; theirs: chunk_gated_delta_rule (one gate a head) and chunk_kda (one a column) from the folder FLA_DIR
(scripts/gpu/pack_fla.sh), the backward by PyTorch's autograd; with a Triton for which theirs refuses to run, it is left
out. Rounds alternate, A B A B; medians over rounds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch

sys.path.insert(0, os.environ["FLA_DIR"])
from fla.ops.gated_delta_rule import chunk_gated_delta_rule  # noqa: E402
from fla.ops.kda import chunk_kda  # noqa: E402


def time_of(call, calls=5):
    """Seconds of one of `calls` calls in a row."""
    call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / calls


def theirs(tokens, heads, gate, with_backward):
    """{"forward": seconds, "backward": seconds}"""
    def make(width, dtype=torch.bfloat16):
        return torch.randn((1, tokens, heads, width), dtype=dtype, device="cuda")

    unit = torch.nn.functional.normalize
    q, k, v = unit(make(128), dim=-1), unit(make(128), dim=-1), make(128)
    g = -0.1 * torch.rand((1, tokens, heads) + ((128,) if gate == "column" else ()), device="cuda")
    beta = torch.rand((1, tokens, heads), device="cuda")
    inputs = [x.requires_grad_() for x in (q, k, v, g, beta)]
    operation = chunk_kda if gate == "column" else chunk_gated_delta_rule

    def forward():
        with torch.no_grad():
            operation(*inputs, scale=1.0)

    times = {"forward": time_of(forward)}
    if not with_backward:
        return times
    out, _ = operation(*inputs, scale=1.0)
    dout = torch.randn_like(out)

    def backward():
        torch.autograd.grad(out, inputs, dout, retain_graph=True)

    try:
        times["backward"] = time_of(backward)
    except RuntimeError as refused:
        print(f"{gate}: {refused}", file=sys.stderr)
    return times


def ours(cplab, tokens, heads, gate):
    with tempfile.TemporaryDirectory() as folder:
        scenario, result = os.path.join(folder, "gated.toml"), os.path.join(folder, "run.json")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(f"""[problem]
attention = "linear"
transition = "matrix"
gate = "{gate}"
sequence = {tokens}
heads = {heads}
head_size = 128
value_size = 128
dtype = "bf16"
mask = "causal"
[parallel]
ranks = 1
algorithm = "affine_all_gather"
[hardware]
file = "hardware/h200x4.toml"
""")
        said = subprocess.run([cplab, "run", scenario, "--quiet", "--operations", "--iterations", "5", "--json", result],
                              capture_output=True, text=True, check=False)
        if said.returncode != 0:
            raise SystemExit(said.stdout + said.stderr)
        with open(result, encoding="utf-8") as file:
            return seconds_of(json.load(file))


def seconds_of(result):
    """From the operations that `run` timed one by one."""
    names = {"local": "forward", "local_backward": "backward"}
    return {names[op["kind"]]: op["end_s"] - op["start_s"] for op in result["operations"] if op["kind"] in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cplab", required=True)
    parser.add_argument("--out", default="-")
    parser.add_argument("--tokens", type=int, default=65536)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gates", default="head,column")
    parser.add_argument("--forward", action="store_true", help="of theirs the forward alone, which is tuned sooner")
    options = parser.parse_args()
    rows = []
    for gate in options.gates.split(","):
        rounds = {"ours": [], "theirs": []}
        for number in range(options.rounds + 1):  # the first one warms up
            for name, measure in (("ours", lambda: ours(options.cplab, options.tokens, options.heads, gate)),
                                  ("theirs", lambda: theirs(options.tokens, options.heads, gate,
                                                                  not options.forward))):
                times = measure()
                torch.cuda.empty_cache()
                if number > 0:
                    rounds[name].append(times)
        row = {"gate": gate, "tokens": options.tokens, "heads": options.heads}
        for name, all_times in rounds.items():
            for direction in all_times[0] if all_times else ():
                row[f"{name}_{direction}_s"] = statistics.median(times[direction] for times in all_times)
        rows.append(row)
        print(json.dumps(row), flush=True)
    if options.out != "-":
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"peer": "flash-linear-attention 0.6.0", "rounds": options.rounds, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
