#!/usr/bin/env python3
"""cplab.torch.attention beside other attention in one process of PyTorch.

    torchrun --nproc-per-node 2 scripts/peer_torch.py --sequences 16384,65536 --out times.json
    FA4_DIR=... torchrun --nproc-per-node 1 scripts/peer_torch.py ...

bf16, causal, B=1, H=16, D=128, forward and forward with backward, in one process by turns: ours (ring, zigzag),
with several ranks beside context_parallel of PyTorch (both ways to rotate, cuDNN), alone beside cuDNN and, with FA4_DIR,
FlashAttention 4 (scripts/gpu/pack_fa4.sh). Medians over rounds of the time of the slowest rank, by events around
several calls. Also what a call costs the host. Results are checked by torch_attention.py; torch_table.py prints a record.
"""
import argparse
import contextlib
import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as functional

import cplab.torch
from peer_attention import environment
from torch_attention import in_group, random, scenario_of

H, D = 16, 128


def rounds_of(group, calls, rounds, per_call_s=0.02):
    """Medians of the slowest rank's seconds of each of `calls`, in turns."""
    counts, samples = {}, {name: [] for name in calls}

    def timed(call, count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with getattr(call, "around", contextlib.nullcontext)():
            dist.barrier()
            torch.cuda.synchronize()
            begin.record()
            for _ in range(count):
                call()
            end.record()
            torch.cuda.synchronize()
        return group.largest([begin.elapsed_time(end) * 1e-3 / count])[0]

    for name, call in calls.items():
        timed(call, 3)
        counts[name] = max(2, int(per_call_s / max(timed(call, 3), 1e-6)))
    for n in range(rounds):
        names = list(calls) if n % 2 == 0 else list(calls)[::-1]
        for name in names:
            samples[name].append(timed(calls[name], counts[name]))
    return {name: {"time_s": statistics.median(each), "least_s": min(each), "most_s": max(each), "calls": counts[name]}
            for name, each in samples.items()}


def leaves_of(group, rows, layout):
    """q, k, v that want gradients and the output's gradient."""
    shape = (1, rows, H, D) if layout == "rows" else (1, H, rows, D)
    made = [random(shape, torch.bfloat16, 17 * group.rank + n, group.device) for n in range(4)]
    return [t.requires_grad_() for t in made[:3]], made[3]


def step_of(attend, leaves, dout, backward):
    def step():
        if not backward:
            with torch.no_grad():
                return attend(*leaves)
        for leaf in leaves:
            leaf.grad = None
        out = attend(*leaves)
        return out.backward(dout)

    return step


def ours(group, sequence, backward, **parallel):
    case = {"problem": {"sequence": sequence, "heads": H, "kv_heads": H}, "parallel": parallel}
    plan = cplab.torch.prepare(scenario_of(case, group.ranks))
    leaves, dout = leaves_of(group, sequence // group.ranks, "rows")
    return step_of(lambda *of: cplab.torch.attention(*of, plan=plan), leaves, dout, backward)


def of_context_parallel(group, sequence, backward, rotate):
    from peer_context_parallel import load_torch
    _, parts = load_torch()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    mesh = parts["init_device_mesh"]("cuda", (group.ranks,), mesh_dim_names=("cp",))
    leaves, dout = leaves_of(group, sequence // group.ranks, "heads")
    balanced = torch.zeros((1, 1, 2 * group.ranks, 1), device=group.device)  # something for the context to shard
    step = step_of(lambda *of: functional.scaled_dot_product_attention(*of, is_causal=True), leaves, dout, backward)

    @contextlib.contextmanager
    def around():  # entered once for several calls
        parts["set_rotate_method"](rotate)
        with parts["context_parallel"](mesh, buffers=[balanced.clone()], buffer_seq_dims=[2]):
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
                yield

    step.around = around
    return step


def of_cudnn(group, sequence, backward):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    leaves, dout = leaves_of(group, sequence, "rows")

    def attend(q, k, v):
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            out = functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return out.transpose(1, 2)

    return step_of(attend, leaves, dout, backward)


def of_fa4(group, sequence, backward):
    from attention_peers import fa4_functions, first_of
    attend, _ = fa4_functions()
    leaves, dout = leaves_of(group, sequence, "rows")
    return step_of(lambda *of: first_of(attend(*of, causal=True)), leaves, dout, backward)


def candidates(group, sequence, backward):
    made = {"cplab ring": ours(group, sequence, backward)}
    if group.ranks == 1:
        made["cuDNN"] = of_cudnn(group, sequence, backward)
        if "FA4_DIR" in os.environ:
            made["FlashAttention 4"] = of_fa4(group, sequence, backward)
        return made
    made["cplab all_gather"] = ours(group, sequence, backward, algorithm="all_gather")
    made["cplab all_to_all"] = ours(group, sequence, backward, algorithm="all_to_all", placement="contiguous")
    for rotate in ("allgather", "alltoall"):
        made[f"context_parallel {rotate}"] = of_context_parallel(group, sequence, backward, rotate)
    return made


def host_costs(group, calls=200):
    """Microseconds of the host for a forward call: of tensors that lay where they had lain, and of new ones."""
    plan = cplab.torch.prepare(scenario_of({"problem": {"sequence": 512, "heads": H, "kv_heads": H}}, group.ranks))
    (q, k, v), _ = leaves_of(group, 512 // group.ranks, "rows")
    fresh = [torch.randn_like(q) for _ in range(calls)]
    costs = {}
    with torch.no_grad():
        for name, queries in (("known", [q] * calls), ("new", fresh), ("known again", [q] * calls)):
            before = plan.bindings
            kept = [cplab.torch.attention(queries[0], k, v, plan=plan)]
            torch.cuda.synchronize()
            dist.barrier()
            began = time.perf_counter()
            for query in queries:
                out = cplab.torch.attention(query, k, v, plan=plan)
                if name == "new":
                    kept.append(out)
            costs[name] = {"host_us": (time.perf_counter() - began) / calls * 1e6,
                           "bound": plan.bindings[1] - before[1], "calls": calls}
            torch.cuda.synchronize()
            group.say(f"{name}: {costs[name]}")
    return costs


def times(group, arguments):
    result = {"schema": "cplab.peer.1", "peer": "attention in a process of PyTorch", "pytorch": torch.__version__,
              "cudnn": torch.backends.cudnn.version(), "nccl": ".".join(map(str, torch.cuda.nccl.version())),
              "gpu": torch.cuda.get_device_name(), "ranks": group.ranks, "environment": environment(None),
              "cplab": cplab.show("ring").versions.to_dict(), "date": datetime.date.today().isoformat(),
              "rounds": arguments.rounds,
              "problem": {"batch": 1, "heads": H, "head_size": D, "dtype": "bf16", "mask": "causal"}, "rows": []}
    result["host"] = host_costs(group)
    for sequence in arguments.sequences:
        for backward in (False, True):
            found = rounds_of(group, candidates(group, sequence, backward), arguments.rounds)
            direction = "forward+backward" if backward else "forward"
            for name, row in found.items():
                result["rows"].append({"sequence": sequence, "direction": direction, "candidate": name, **row})
                group.say(f"{sequence} {direction} {name}: {row['time_s'] * 1e3:.3f} ms "
                          f"({row['least_s'] * 1e3:.3f} to {row['most_s'] * 1e3:.3f})")
            if group.rank == 0 and arguments.out != "-":
                with open(arguments.out, "w", encoding="utf-8") as file:
                    json.dump(result, file, indent=1)
                    file.write("\n")
            torch.cuda.empty_cache()
    if group.rank == 0 and arguments.out == "-":
        print(json.dumps(result, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", default="16384,32768,65536",
                        type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--out", default="-", help="JSON; - is stdout")
    arguments = parser.parse_args()
    return in_group(lambda group: times(group, arguments))


if __name__ == "__main__":
    sys.exit(main())
