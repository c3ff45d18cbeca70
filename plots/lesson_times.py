#!/usr/bin/env python3
"""Pictures of predicted times for the lessons: a gather and its strides, one attention operation, bands of algorithms.

    plots/lesson_times.py          writes docs/figures/lesson-{strides,cost,bands}.svg from what `simulate --json` says
                                   with the program named by CPLAB, and from its hardware file
"""
import math

from lib.program import answer, hardware, settings
from lib.svg import COMMUNICATION, COMPUTE, FAINT, INK, PALE, Picture

STRIDES = ("families-8", *settings(problem__sequence="16K", problem__direction="forward"))


def draw_strides():
    p = Picture(760, 270, "One gather, or one for each key head")
    p.text(16, 24, "Rank 0 of 8, 16K tokens, 8 key heads, forward: what its two lanes do", 12, bold=True)
    sides = []
    for name in ("all_gather", "head_strided"):
        done = answer("simulate", *STRIDES, *settings(parallel__algorithm=name), "--operations")
        sides.append((name, done, [op for op in done["operations"] if op["rank"] == 0]))
    last = max(done["time_s"] for _, done, _ in sides)
    left, wide = 96, 630
    for n, (name, done, operations) in enumerate(sides):
        top = 64 + n * 94
        exposed = done["ranks"][0]["exposed_communication_s"]
        p.text(16, top - 12, f"{name}: {done['time_s'] * 1e3:.3f} ms, of which {exposed * 1e3:.3f} ms of rank 0 are exposed "
               "communication", 11)
        p.say(f"{name}: {done['time_s'] * 1e3:.3f} ms, exposed {exposed * 1e3:.3f} ms")
        for row, kind in enumerate(("comm", "compute")):
            p.text(88, top + row * 26 + 15, kind, 10, "end")
            for op in (op for op in operations if op["lane"]["kind"] == kind):
                x = left + wide * op["start_s"] / last
                p.box(x, top + row * 26, max(wide * (op["end_s"] - op["start_s"]) / last, 0.8), 22,
                      COMMUNICATION if kind == "comm" else COMPUTE, "#ffffff", thick=0.5)
    p.line(left, 234, left + wide, 234)
    for tenth in range(0, int(last * 1e4) + 1, 2):
        x = left + wide * tenth * 1e-4 / last
        p.line(x, 234, x, 238)
        p.text(x, 250, f"{tenth / 10:g}", 9, "middle")
    p.text(left + wide, 264, "ms", 9, "end")
    p.save("lesson-strides")


def draw_cost():
    """One attention operation of lesson 13: its parts in time, and its tiles in waves over the multiprocessors."""
    heads, sequence = 16, 8192
    words = settings(problem__sequence=sequence, problem__heads=heads, problem__kv_heads=heads, problem__mask="full",
                     problem__direction="forward", parallel__ranks=1)
    [op] = answer("simulate", "ring", *words, "--operations")["operations"]
    machine = hardware("h100x8")
    sms, host = machine["gpu"]["sms"], machine["host"]
    tiles = heads * sequence // 128
    waves = math.ceil(tiles / sms)
    issue, latency = host["kernel_launch_s"] * 1e6, host["launch_latency_s"] * 1e6
    start, end = op["start_s"] * 1e6, op["end_s"] * 1e6
    assert abs(start - issue - latency) < 1e-3
    p = Picture(760, 330, "One attention operation: issue, latency, launch, waves of tiles")
    p.text(16, 24, f"One attention operation: {tiles} tiles on {sms} multiprocessors are {waves} waves", 12, bold=True)
    left, top, wide, high = 90, 60, 640, 150
    for wave in range(waves):
        x = left + wave * wide / waves
        full = min(sms, tiles - wave * sms)
        p.box(x, top, wide / waves - 2, high, PALE)
        p.box(x, top + high * (1 - full / sms), wide / waves - 2, high * full / sms, COMPUTE)
        p.text(x + wide / waves / 2, top + high / 2, f"{full} tiles", 10, "middle", "#ffffff")
    p.text(84, top + 10, f"{sms} SMs", 10, "end")
    p.text(84, top + high, "0", 10, "end")
    p.text(left, top + high + 16, f"each wave {wave_us(machine):.3f} us", 10)
    scale = 12
    y = 262
    p.text(84, y + 14, "first us", 10, "end")
    at = left
    for name, length, color in (("issue", issue, FAINT), ("latency", latency, "#d0d0d0"),
                                ("launch", launch_us(machine), "#4f7fae"), ("waves", 30, COMPUTE)):
        p.box(at, y, length * scale, 20, color, "#ffffff")
        p.text(at + 4, y + 14, name, 9, fill="#ffffff" if name != "latency" else INK)
        p.text(at, y + 34, f"{(at - left) / scale:.1f}", 9, fill="#555555")
        at += length * scale
    p.text(left, 318, f"start {start:.1f} us, end {end:.2f} us", 10, bold=True)
    p.say(f"{tiles} tiles, {waves} waves, start {start:.3f} us, end {end:.4f} us")
    p.save("lesson-cost")


def points_of(machine, mask):
    """{(batch, sequence): us} of the forward tables with heads of 128, 16 of them."""
    return {(b, s): 1e6 * seconds for table in machine["kernel"]
            if table["class"] == "attend" and table["mask"] == mask and table["head_size"] == 128
            and table["dtype"] == "bf16"
            for b, s, seconds in zip(table["batch"], table["sequence"], table["seconds"])}


def launch_us(machine):
    full = points_of(machine, "full")
    return 2 * full[1, 512] - full[1, 1024]


def wave_us(machine):
    return (points_of(machine, "full")[2, 8192] - launch_us(machine)) / 16


BANDS = ("families-8", *settings(problem__sequence="8K"), "--algorithms",
         "ring,all_gather,all_to_all,hierarchical,pass_q,tree")


def draw_bands():
    rows, seen = [], set()
    for row in answer("simulate", *BANDS)["rows"]:  # of each algorithm the fastest
        if row["algorithm"] not in seen:
            seen.add(row["algorithm"])
            rows.append(row)
    p = Picture(760, 100 + 34 * len(rows), "Predictions with their bands")
    p.text(16, 24, "8K tokens on 8 GPUs: each algorithm at its fastest, between low and high", 12, bold=True)
    left, wide, most = 140, 560, max(row["high_s"] for row in rows)
    first = rows[0]
    reach = left + wide * first["high_s"] / most
    p.box(left + wide * first["low_s"] / most, 40, reach - left - wide * first["low_s"] / most, 34 * len(rows), "#e8f0f8")
    for n, row in enumerate(rows):
        y = 60 + n * 34
        low, at, high = (left + wide * row[key] / most for key in ("low_s", "time_s", "high_s"))
        color = COMPUTE if row["may_be_fastest"] else FAINT
        p.text(130, y + 4, f"{'* ' if row['may_be_fastest'] else ''}{row['algorithm']}", 11, "end")
        p.line(low, y, high, y, color, 5)
        p.box(at - 2, y - 8, 4, 16, INK)
        p.text(high + 6, y + 4, f"{row['time_s'] * 1e3:.3f} ms", 9, fill="#555555")
        p.say(f"{row['algorithm']}: {row['time_s'] * 1e3:.3f} ms ({row['low_s'] * 1e3:.3f} to {row['high_s'] * 1e3:.3f})"
              + (", may be the fastest" if row["may_be_fastest"] else ""))
    bottom = 48 + 34 * len(rows)
    p.line(left, bottom, left + wide, bottom)
    for half in range(0, int(most * 2e3) + 1):
        p.text(left + wide * half / 2e3 / most, bottom + 14, f"{half / 2:g}", 9, "middle")
    p.text(left + wide + 26, bottom + 14, "ms", 9)
    p.text(16, bottom + 36, "Shaded: the band of the fastest. *: a band that reaches down into it, so that this one may be "
           "the fastest.", 10, fill="#555555")
    p.save("lesson-bands")


def main():
    draw_strides()
    draw_cost()
    draw_bands()


if __name__ == "__main__":
    main()
