#!/usr/bin/env python3
"""What binds the backward of each measured shape, and what choosing among kernels brought there.

    scripts/regimes.py [--shapes]      a table of the records that page 14 names; --shapes: a line for every call
    scripts/regimes.py --self-check

A call needs 10 S S D FLOPs a head (half of it for causal) and, with 16-bit tensors, at least 16 S D bytes: q, k, v, out
and its gradient read, dq, dk, dv written. Fewer tiles of 128 keys than multiprocessors: nothing of the GPU is full, and
one tile's time binds. Else FLOPs for each byte against what the GPU does (989 TFLOP/s by the data sheet, bytes/s as
copied in the record): fewer, and memory binds; more, and the tensor cores do. Columns: calls; FLOPs for each such byte;
rate by these FLOPs, and by these bytes as a share of those copied; calls of which every candidate was timed; how much
less time than static, the table's kernel, the fastest took; how much less than the mma.sync kernels static took.
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

from choice_study import halves, regrets

ROOT = Path(__file__).resolve().parent.parent / "scenarios/measured"
PEAK_FLOPS, SMS, TILE = 989e12, 132, 128
CLASSES = ("tensor cores", "memory", "one tile")


def flops_of(call):
    return (5 if call["causal"] else 10) * call["batch"] * call["heads"] * call["sequence"] ** 2 * call["head_size"]


def bytes_of(call):
    return 8 * call["batch"] * call["sequence"] * (call["heads"] + call["kv_heads"]) * call["head_size"]


def binds(call, copy_bytes_s):
    if call["batch"] * call["heads"] * -(-call["sequence"] // TILE) < SMS:
        return "one tile"
    return "memory" if flops_of(call) / bytes_of(call) < PEAK_FLOPS / copy_bytes_s else "tensor cores"


def of_rounds(records):
    """Calls of side-by-side records of dense batches: the kernel that the table takes, each call once."""
    calls = {}
    for row in (row for record in records for row in record["rows"]):
        if row["candidate"] == "best" and row["direction"] == "backward" and "shape" in row:
            batch, sequence, heads, head_size = row["shape"]
            call = dict(batch=batch, sequence=sequence, heads=heads, kv_heads=row.get("kv_heads", heads),
                        head_size=head_size, causal=row["causal"])
            calls.setdefault(tuple(call.values()), dict(call, seconds=row["seconds"]))
    return calls.values()


def of_study(record):
    """Calls of a study of choices, with what the fastest kernel gains on the table's and the table's on mma.sync."""
    for call, regret in regrets(record):
        if not call["call"].startswith("attend_backward"):
            continue
        timed = {c["variant"]: halves(c)[1] for c in call["candidates"] if halves(c)}
        table = next(halves(c)[1] for c in call["candidates"] if c["of_table"])
        mma = next(s for name, s in timed.items() if " mma " in name)
        yield dict(call, seconds=table, gain=1 - 1 / (1 + regret["static"]), before=1 - table / mma)


def span(values, digits=0):
    low, high = (f"{f(values):.{digits}f}" for f in (min, max))
    return low if low == high else f"{low} to {high}"


def line(name, calls, copy_bytes_s):
    chosen = [c for c in calls if "gain" in c]
    gain = f"{100 * statistics.fmean(c['gain'] for c in chosen):.1f}, {100 * max(c['gain'] for c in chosen):.1f}"
    cells = [name, str(len(calls)), span([flops_of(c) / bytes_of(c) for c in calls]),
             span([flops_of(c) / c["seconds"] * 1e-12 for c in calls]),
             span([100 * bytes_of(c) / c["seconds"] / copy_bytes_s for c in calls]), f"{len(chosen)}", gain,
             span([100 * c["before"] for c in chosen])]
    return "| " + " | ".join(cells) + " |"


def table(calls, copy_bytes_s, shapes=False):
    rows = ["| what binds | calls | FLOPs a byte | TFLOP/s | bytes/s (%) | calls | fastest: mean, most (%) | "
            "static (%) |", "|---|" + "---:|" * 7]
    for name in CLASSES:
        inside = [c for c in calls if binds(c, copy_bytes_s) == name]
        rows.append(line(name, inside, copy_bytes_s))
        for c in inside if shapes else []:
            shape = (f"{c['batch']} x {c['sequence']}, {c['heads']}/{c['kv_heads']} x {c['head_size']}, "
                     f"{'causal' if c['causal'] else 'full'}{', same bits' if c.get('deterministic') else ''}")
            rates = (f"{flops_of(c) / c['seconds'] * 1e-12:.0f} | "
                     f"{100 * bytes_of(c) / c['seconds'] / copy_bytes_s:.1f}")
            gain = f"{100 * c['gain']:.1f} | {100 * c['before']:.0f}" if "gain" in c else "|"
            rows.append(f"| {shape} | | {flops_of(c) / bytes_of(c):.0f} | {rates} | | {gain} |")
    return rows


def read(name):
    return json.loads((ROOT / name).read_text())


def self_check():
    call = dict(batch=1, sequence=8192, heads=16, kv_heads=16, head_size=128, causal=False, seconds=1)
    assert flops_of(call) / bytes_of(call) == 0.625 * 8192
    # 989 / 4 is 247 FLOPs a byte: 395.6 tokens of full mask, 791.2 of causal.
    for sequence, causal, expected in ((395, False, "memory"), (396, False, "tensor cores"), (791, True, "memory"),
                                       (792, True, "tensor cores")):
        assert binds(dict(call, sequence=sequence, causal=causal, batch=9), 4e12) == expected
    assert binds(dict(call, sequence=1024), 4e12) == "one tile"  # 128 tiles
    assert span([1, 2.4]) == "1 to 2" and span([1, 1.2]) == "1"
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-check", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_check:
        return self_check()
    peers = map(json.loads, (ROOT / "h200-2026-11-29-peers.jsonl").read_text().splitlines())
    calls = [*of_rounds(each["record"] for each in peers if each["kind"] == "peer"),
             *of_study(read("h200x2-2026-11-23-choices.json"))]
    copy_bytes_s = read("h200-2026-11-23-copies.json")["copy_bytes_s"]
    print("\n".join(table(calls, copy_bytes_s, arguments.shapes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
