#!/usr/bin/env python3
"""An engineer's own attention, written without looking at cplab: causal, grouped heads, in blocks of keys that are merged.

    docs/shown/own_attention.py FOLDER OUT [--bug]     reads q.npy, k.npy, v.npy (float32, [B,S,H,D]) of FOLDER and
                                                       writes out.npy and lse.npy; --bug: the last query
                                                       head reads the first key head
"""
import ast
import math
import struct
import sys
from pathlib import Path

BLOCK = 5


def load(path):
    data = Path(path).read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    shape = ast.literal_eval(data[10:10 + length].decode().strip())["shape"]
    return shape, struct.unpack(f"<{math.prod(shape)}f", data[10 + length:])


def save(path, shape, numbers):
    header = str({"descr": "<f4", "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                           + struct.pack(f"<{len(numbers)}f", *numbers))


def tile(query, keys, values, scale):
    """(o, lse) of one query and one block of keys."""
    scores = [scale * sum(a * b for a, b in zip(query, key)) for key in keys]
    top = max(scores)
    weights = [math.exp(s - top) for s in scores]
    total = sum(weights)
    return [sum(w * v[e] for w, v in zip(weights, values)) / total for e in range(len(values[0]))], top + math.log(total)


def merge(a, b):
    lse = max(a[1], b[1]) + math.log1p(math.exp(-abs(a[1] - b[1])))
    wa, wb = math.exp(a[1] - lse), math.exp(b[1] - lse)
    return [x * wa + y * wb for x, y in zip(a[0], b[0])], lse


def main(folder, target, bug):
    (B, S, H, D), q = load(f"{folder}/q.npy")
    (_, _, G, _), k = load(f"{folder}/k.npy")
    (_, _, _, E), v = load(f"{folder}/v.npy")

    def row(x, heads, width, b, s, h):
        begin = ((b * S + s) * heads + h) * width
        return x[begin:begin + width]

    out, lse = [0.0] * (B * S * H * E), [0.0] * (B * H * S)
    for b, s, h in ((b, s, h) for b in range(B) for s in range(S) for h in range(H)):
        g = h // (H // G) if not bug or h < H - 1 else 0
        result = None
        for begin in range(0, s + 1, BLOCK):
            seen = range(begin, min(begin + BLOCK, s + 1))
            part = tile(row(q, H, D, b, s, h), [row(k, G, D, b, j, g) for j in seen],
                        [row(v, G, E, b, j, g) for j in seen], D ** -0.5)
            result = part if result is None else merge(result, part)
        begin = ((b * S + s) * H + h) * E
        out[begin:begin + E] = result[0]
        lse[(b * H + h) * S + s] = result[1]
    Path(target).mkdir(parents=True, exist_ok=True)
    save(f"{target}/out.npy", (B, S, H, E), out)
    save(f"{target}/lse.npy", (B, H, S), lse)


if __name__ == "__main__":
    main(*sys.argv[1:3], "--bug" in sys.argv)
