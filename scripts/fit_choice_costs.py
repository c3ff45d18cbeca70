#!/usr/bin/env python3
"""What a tile of each attention kernel costs, from times of whole calls: what `--choose heuristic` compares kernels by.

    scripts/fit_choice_costs.py                       from the records that kernels/work/measured_constants.hpp names
    scripts/fit_choice_costs.py STUDY.json            from the training shapes of scripts/choice_study.py
    scripts/fit_choice_costs.py --self-check          on times made from known costs

The model is that of kernels/work/predicted_time.cpp: tiles as long as their blocks of 128 rows of the other side
(fit_tile_costs.py), given to the multiprocessors, times a cost for each kernel, plus the time of a launch. The cost is
the median over the shapes of what it would have to be: of shapes with half a wave of tiles or more, since a shorter
launch says little about tiles. Backward kernels that are two functions have one cost for both together. The ordered
backward has three numbers, by least squares of the relative error: a cost with full masks, one with others, and with
full masks a time for every tile of a head but the first, which queues for its turn. The backward of tiles apart, which
are one launch, has two, for which the error is least: a cost, and how many blocks a tile takes beside its own.

The costs of fused and ordered kernels that stand in measured_constants.hpp were fitted with zeros at 4.8 TB/s, where
the model has 4.2 now: printed are costs 0.3 to 0.5 % below those.

Of records before the timed call rounded dq (tests/gpu/bench.cpp): best was the fused kernel then.
"""
import json
import pathlib
import re
import statistics
import sys
import tomllib

from fit_tile_costs import makespan, parts_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
APART = "scenarios/measured/h100-2026-11-25/by-turns/apart.json"
CONSTANTS = (ROOT / "kernels/work/measured_constants.hpp").read_text()


def measured(name):
    """A constant of the model, which adds it to the costs that are fitted here."""
    return float(re.search(rf'{{"{name}", ([^,]+),', CONSTANTS)[1])


BEYOND, MASKED = measured("tile_cost_beyond_keys"), measured("tile_cost_of_masked_block")
LAUNCH_US, FILL_US, ROWWISE_BYTES_US = measured("launch"), measured("hopper_fill"), measured("rowwise_memory") / 1e6
SMS, ROW_DOT_BYTES_US = 132, 3e6


def block_of(variant, head_size):
    """How many queries a block has that a tile walks over."""
    in_halves = head_size == 128 and ("fused" in variant or "ordered" in variant)
    return 64 if in_halves else 128


def beside_us(variant, batch, sequence, heads, head_size):
    """What takes its time beside the tiles: the launch, and for the fused kernels zeros in dq."""
    zeros = "fused" in variant or "ordered" in variant
    return LAUNCH_US + (FILL_US + batch * sequence * heads * head_size * 4 / ROWWISE_BYTES_US if zeros else 0)


def span(batch, sequence, heads, causal, rows, block=128, sms=SMS):
    """Length of the launch in blocks of 128, and its waves."""
    tiles = {}
    for blocks, masked in parts_of(batch, sequence, causal, rows, block):
        length = BEYOND + blocks + MASKED * masked
        tiles[length] = tiles.get(length, 0) + heads
    return makespan(list(tiles.items()), sms), sum(tiles.values()) / sms


def of_tables(name):
    tables = tomllib.loads((ROOT / "scenarios/hardware" / name).read_text())["kernel"]
    for table in tables:
        if not table["class"].startswith("attend") or table["dtype"] != "bf16" or table["origin"] != "measured":
            continue
        for batch, sequence, heads, seconds in zip(*(table[k] for k in ("batch", "sequence", "heads", "seconds"))):
            yield (table["variant"], table["head_size"], table.get("mask") == "causal", table["tile_rows"], batch,
                   sequence, heads, seconds)


def of_bench(path):
    names = {"tiles:best": "attend_backward hopper fused", "tiles:deterministic": "attend_backward hopper ordered"}
    for entry in json.loads((ROOT / path).read_text()):
        if entry["direction"] != "backward" or entry["build"] not in names:
            continue
        batch, sequence, heads, size = entry["shape"]
        yield (f"{names[entry['build']]} bf16 {size}", size, entry["mask"] == "causal", 128, batch, sequence, heads,
               statistics.median(entry["seconds"]))


def of_study(path):
    for shape in json.loads(pathlib.Path(path).read_text())["shapes"]:
        if shape["held_out"]:
            continue
        for candidate in shape["candidates"]:
            if candidate.get("seconds"):
                yield (candidate["variant"], shape["head_size"], shape["causal"], candidate["tile_rows"],
                       shape["batch"], shape["sequence"], shape["heads"], candidate["seconds"])


def solve(matrix, right):
    """Gauss elimination."""
    rows = [row + [value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        pivot = max(range(i, len(rows)), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(len(rows)):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def fit_ordered(points, least=0):
    """(full, masked, us for each tile of a head but the first). A tile with a full mask takes `least` at least, the cost of
    the kernel that adds without turns: its products are the same."""
    terms = []
    for variant, size, causal, rows, batch, sequence, heads, seconds in points:
        us = seconds * 1e6 - beside_us(variant, batch, sequence, heads, size)
        length, _ = span(batch, sequence, heads, causal, rows, block_of(variant, size))
        queue = 0 if causal else -(-sequence // rows) - 1
        terms.append([0 if causal else length / us, length / us if causal else 0, queue / us])
    full, masked, queue = solve([[sum(t[i] * t[j] for t in terms) for j in range(3)] for i in range(3)],
                                [sum(t[i] for t in terms) for i in range(3)])
    if full >= least:
        return full, masked, queue
    return least, masked, sum(t[2] * (1 - least * t[0]) for t in terms) / sum(t[2] ** 2 for t in terms)


def apart_blocks(batch, sequence, heads, causal, beyond, sms=SMS):
    """Length of a launch of tiles of keys, 4 of 7 products, and then tiles of queries, the other 3, in blocks of 128."""
    parts = sorted(parts_of(batch, sequence, causal, 128, 128), reverse=True)
    return makespan([(share * (beyond + blocks + MASKED * masked), heads)
                     for share in (4 / 7, 3 / 7) for blocks, masked in parts], sms)


def fit_apart(calls):
    """(cost, blocks beside, root mean square of the relative error) from calls (batch, sequence, heads, causal, us)."""
    best = None
    for beyond in (step / 100 for step in range(0, 201, 5)):
        costs = [us / apart_blocks(batch, sequence, heads, causal, beyond)
                 for batch, sequence, heads, causal, us in calls]
        middle = statistics.median(costs)
        error = statistics.fmean((middle / cost - 1) ** 2 for cost in costs) ** 0.5
        if best is None or error < best[2]:
            best = (middle, beyond, error)
    return best


def apart_calls(path, size):
    """Of whole calls (compare_builds.py), less row_dot: its bytes at what an H100's memory moves, and a launch."""
    for entry in json.loads((ROOT / path).read_text()):
        batch, sequence, heads, width = entry["shape"]
        if not entry["build"].endswith(":apart") or width != size or entry["direction"] != "backward":
            continue
        row_dot_us = 2.4 + 4 * batch * sequence * heads * width / ROW_DOT_BYTES_US
        yield (batch, sequence, heads, entry["mask"] == "causal",
               statistics.median(entry["seconds"]) * 1e6 - row_dot_us - LAUNCH_US)


def middle_cost(points, variant):
    """As the table of main() has it; 0 without any."""
    costs = [(seconds * 1e6 - beside_us(name, batch, sequence, heads, size)) / length
             for name, size, causal, rows, batch, sequence, heads, seconds in points
             for length, waves in [span(batch, sequence, heads, causal, rows, block_of(name, size))]
             if name == variant and waves >= 0.5]
    return statistics.median(costs) if costs else 0


def self_check():
    times = {(s, c): span(1, s, 16, c, 128)[0] for s in (512, 1024, 4096) for c in (True, False)}
    queue = {(s, c): 0 if c else s // 128 - 1 for s, c in times}
    made = [("", 128, c, 128, 1, s, 16, 1e-6 * (LAUNCH_US + length * (3 if c else 2) + 4 * queue[s, c]))
            for (s, c), length in times.items()]
    assert all(abs(a - b) < 1e-9 for a, b in zip(fit_ordered(made), (2, 3, 4))), fit_ordered(made)
    assert all(abs(a - b) < 1e-9 for a, b in zip(fit_ordered(made, 1.9), (2, 3, 4))), fit_ordered(made, 1.9)
    assert fit_ordered(made, 2.1)[0] == 2.1 and fit_ordered(made, 2.1)[2] < 4, fit_ordered(made, 2.1)
    # 128 full rows: what a tile has beyond its blocks and one block for each of 16 heads, all at once.
    assert abs(span(1, 128, 16, False, 128)[0] - (BEYOND + 1)) < 1e-12
    assert abs(span(1, 128, 133, False, 128)[0] - 2 * (BEYOND + 1)) < 1e-12
    # dq of 1024 rows of 16 heads of 128: 8.39 MB of zeros at 4.2161 TB/s, which no other kernel writes before.
    zeros = beside_us("attend_backward hopper fused bf16 128", 1, 1024, 16, 128) - FILL_US
    assert abs(zeros - beside_us("attend_backward hopper bf16 128", 1, 1024, 16, 128) - 8.388608 / 4.2161) < 1e-9, zeros
    # 66 heads of one tile each: 132 tiles at once, as long as one of keys; of 67 two of queries begin when others end.
    assert abs(apart_blocks(1, 128, 66, False, 0.65) - 1.65 * 4 / 7) < 1e-12
    assert abs(apart_blocks(1, 128, 67, False, 0.65) - 1.65 * 6 / 7) < 1e-12
    made = [(1, s, 16, c, 5 * apart_blocks(1, s, 16, c, 0.7)) for s in (512, 1024, 4096) for c in (True, False)]
    cost, beyond, error = fit_apart(made)
    assert abs(cost - 5) < 1e-9 and beyond == 0.7 and error < 1e-9, (cost, beyond, error)


def main():
    if sys.argv[1:] == ["--self-check"]:
        return self_check()
    if len(sys.argv) > 1:
        points = list(of_study(sys.argv[1]))
    else:
        points = (list(of_tables("h200x4-hopper.toml")) + list(of_tables("h200x4-measured.toml")) +
                  list(of_bench("scenarios/measured/h200x2-2026-11-22/round/deterministic.json")))
    for size in (64, 128):
        ordered = [p for p in points if p[0].startswith("attend_backward hopper ordered") and p[1] == size]
        if len(ordered) >= 6:
            print("ordered, head size {}: full {:.3f}, masked {:.3f}, {:.2f} us for a tile that queues".format(
                size, *fit_ordered(ordered, middle_cost(points, f"attend_backward hopper fused bf16 {size}"))))
        apart = list(apart_calls(APART, size)) if len(sys.argv) == 1 else []
        if apart:
            print("apart, head size {}: {:.2f}, {:.2f} blocks beside, off by {:.0%} in {} calls".format(
                size, *fit_apart(apart), len(apart)))
    costs = {}
    for variant, size, causal, rows, batch, sequence, heads, seconds in points:
        length, waves = span(batch, sequence, heads, causal, rows, block_of(variant, size))
        if waves < 0.5:
            continue
        costs.setdefault(variant, {}).setdefault(causal, []).append(
            (seconds * 1e6 - beside_us(variant, batch, sequence, heads, size)) / length)
    print("us for 128 rows of the other side; the spread is of the model's error")
    for variant, by_mask in sorted(costs.items()):
        every = [cost for each in by_mask.values() for cost in each]
        middle = statistics.median(every)
        masks = ", ".join(f"{'causal' if causal else 'full'} {statistics.median(each):.3f} ({len(each)})"
                          for causal, each in sorted(by_mask.items()))
        print(f"{variant:45} {middle:7.3f}   {masks}   {min(every) / middle - 1:+.0%} to {max(every) / middle - 1:+.0%}")


if __name__ == "__main__":
    main()
