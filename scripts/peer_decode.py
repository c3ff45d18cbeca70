#!/usr/bin/env python3
"""One query of each head against many keys, by PyTorch: what a step of decoding takes there.

    scripts/peer_decode.py FOLDER KEYS HEADS KV_HEADS HEAD_SIZE VALUE_SIZE

Writes FOLDER/peer-....json, one for every backend of scaled_dot_product_attention that takes the problem, for two matrix
products with a softmax between them, and for a device copy of as many bytes as keys and values have, which says what
memory gives. bf16, standard normal operands, keys of all heads of a token side by side. Times are the median of rounds of
calls that follow each other, by CUDA events.
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

try:
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    sys.exit(f"peer_decode.py: {error}")

ROUNDS, CALLS = 7, 10
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}


def random(*shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def seconds(call):
    """Of one call, when others follow at once."""
    for _ in range(3):
        call()
    rounds = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        rounds.append(begin.elapsed_time(end) / CALLS * 1e-3)
    return statistics.median(rounds)


def products(q, k, v):
    """The query heads of a key head as rows of a matrix: [G, H / G, D]."""
    scores = torch.softmax(torch.matmul(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5, dim=-1, dtype=torch.float32)
    return torch.matmul(scores.to(v.dtype), v)


def peers(asked):
    """name -> call. Of one key head its query heads are queries of one head: no mask hides anything from the last token."""
    k = random(1, asked.keys, asked.kv_heads, asked.head_size).transpose(1, 2)
    v = random(1, asked.keys, asked.kv_heads, asked.value_size).transpose(1, 2)
    group = asked.heads // asked.kv_heads
    q = random(1, asked.kv_heads, group, asked.head_size)

    def of_backend(backend):
        def call():
            with sdpa_kernel([backend]):
                return functional.scaled_dot_product_attention(q, k, v)
        return call

    def grouped(backend):
        of_heads = q.reshape(1, asked.heads, 1, asked.head_size)

        def call():
            with sdpa_kernel([backend]):
                return functional.scaled_dot_product_attention(of_heads, k, v, enable_gqa=True)
        return call

    calls = {name: of_backend(backend) for name, backend in BACKENDS.items()}
    calls |= {f"{name}, grouped heads": grouped(backend) for name, backend in BACKENDS.items()}
    calls["products"] = lambda: products(q[0], k[0], v[0])
    source = k.transpose(1, 2)
    into = torch.empty_like(source)
    calls["copy"] = lambda: into.copy_(source)
    return calls, 2 * source.numel() * source.element_size()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name in ("keys", "heads", "kv_heads", "head_size", "value_size"):
        parser.add_argument(name, type=int)
    asked = parser.parse_args()
    problem = {name: value for name, value in vars(asked).items() if name != "folder"}
    calls, copied_bytes = peers(asked)
    for name, call in calls.items():
        record = {"schema": "cplab.peer.1", "peer": name, "torch": torch.__version__, **problem}
        try:
            record["time_s"] = seconds(call)
        except RuntimeError as error:  # a backend that does not take the problem
            record["refused"] = str(error).splitlines()[0]
        if name == "copy":
            record["bytes"] = copied_bytes
        file = f"peer-{asked.keys}-{asked.heads}x{asked.kv_heads}-{asked.head_size}-{name.replace(', ', '-')}.json"
        (asked.folder / file.replace(" ", "-")).write_text(json.dumps(record) + "\n", encoding="utf-8")
        print(f"{file}: {record.get('time_s', record.get('refused'))}", flush=True)


if __name__ == "__main__":
    main()
