#!/usr/bin/env python3
"""What a tile of each attention kernel costs, from times of whole calls: what `--choose heuristic` compares kernels by.

    scripts/fit_choice_costs.py                       from the records that kernels/work/measured_constants.hpp names
    scripts/fit_choice_costs.py STUDY.json            from the training shapes of scripts/choice_study.py
    scripts/fit_choice_costs.py --self-check          on times made from known costs

The model is that of kernels/work/predicted_time.cpp: tiles as long as their blocks of 128 rows of the other side
(fit_tile_costs.py) and some more, given to the multiprocessors, times a cost for each kernel, plus the time of a launch.

First the backward kernels for Hopper, each for itself, by shapes from 1 x 512 to 1 x 32768, on an H200, an H100 and both:
least squares of the relative error. In any order and in turn: the cost with full masks and with causal ones; in turn also
a time for every tile of a head that begins together with others, full masks, and queues behind the first. Tiles apart: one
cost. Tiles of full masks that walk in rings, from records of their own: a cost and a time for each launch. How many blocks
a tile takes beside its own was tried by hand: of tiles that add to dq, on an H200 1.4 are best, on an H100, whose memory is
slower, 2.2; of tiles apart it is the number with which choices cost least in both records. The costs in use are up to 5 %
more or less than printed here, again those with which choices cost least: at most 5 % of the time of the fastest kernel
(tests/kernels/choice_record_test.cpp).

Then all kernels of the tables: the median of what the cost would have to be, of shapes with half a wave of tiles or more.
"""
import json
import pathlib
import re
import statistics
import sys
import tomllib

from fit_tile_costs import makespan, parts_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = {card: [f"scenarios/measured/{card.lower()}-2026-11-26/sequences/kernels-{size}.json" for size in (64, 128)]
           for card in ("H200", "H100")}
RINGS = {card: f"scenarios/measured/{card.lower()}-2026-11-26/rings/kernels-128.json" for card in KERNELS}
CONSTANTS = (ROOT / "kernels/work/measured_constants.hpp").read_text()


def measured(name):
    """A constant of the model, which adds it to the costs that are fitted here."""
    return float(re.search(rf'{{"{name}", ([^,]+),', CONSTANTS)[1])


BEYOND, MASKED = measured("tile_cost_beyond_keys"), measured("tile_cost_of_masked_block")
LAUNCH_US, FILL_US, ROWWISE_BYTES_US = measured("launch"), measured("hopper_fill"), measured("rowwise_memory") / 1e6
CACHE_BYTES, TOGETHER_BYTES = 32 << 20, 16 << 20  # heads_per_group_cache and fused_heads_cache_together
SMS, ROW_DOT_US, MEMORY_BYTES_US = 132, 2.4, {"h100": 3e6, "h200": 4.2e6}


def block_of(variant, head_size):
    """How many queries a block has that a tile walks over."""
    in_halves = head_size == 128 and ("fused" in variant or "ordered" in variant)
    return 64 if in_halves else 128


def beside_us(variant, batch, sequence, heads, head_size):
    """What takes its time beside the tiles: the launch, and for the fused kernels zeros in dq."""
    zeros = "fused" in variant or "ordered" in variant
    return LAUNCH_US + (FILL_US + batch * sequence * heads * head_size * 4 / ROWWISE_BYTES_US if zeros else 0)


def span(batch, sequence, heads, causal, rows, block=128, sms=SMS, beyond=BEYOND):
    """Length of the launch in blocks of 128, and its waves."""
    tiles = {}
    for blocks, masked in parts_of(batch, sequence, causal, rows, block):
        length = beyond + blocks + MASKED * masked
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


def of_study(path):
    for shape in json.loads(pathlib.Path(path).read_text())["shapes"]:
        if shape["held_out"]:
            continue
        for candidate in shape["candidates"]:
            if candidate.get("seconds"):
                yield (candidate["variant"], shape["head_size"], shape["causal"], candidate["tile_rows"],
                       shape["batch"], shape["sequence"], shape["heads"], candidate["seconds"])


def of_kernels(path, rings=False):
    """One kernel each (compare_builds.py, builds NAME:KERNEL): (kernel, head size, causal, batch, sequence, heads, us)
    without row_dot, the zeros that the kernel needs before, and the cast of dq behind it, which rings do not need."""
    for entry in json.loads((ROOT / path).read_text()):
        kernel = entry["build"].split(":")[-1]
        batch, sequence, heads, size = entry["shape"]
        elements = batch * sequence * heads * size
        us = statistics.median(entry["seconds"]) * 1e6 - LAUNCH_US
        us -= ROW_DOT_US + 4 * elements / MEMORY_BYTES_US[path.split("/")[2].split("-")[0]]
        if kernel == "fused" or (kernel == "ordered" and not rings):
            us -= LAUNCH_US + 6 * elements / ROWWISE_BYTES_US
        if kernel == "fused":
            us -= FILL_US + 4 * elements / ROWWISE_BYTES_US
        yield kernel, size, entry["mask"] == "causal", batch, sequence, heads, us


def queueing(batch, sequence, heads, size):
    """How many tiles of a head begin together behind the first (tiles_that_queue() in predicted_time.cpp)."""
    row = 8 * size  # bytes of q, dout and dq
    side_by_side = max(TOGETHER_BYTES // (row * sequence), CACHE_BYTES // (row * batch * sequence), 1)
    return min(-(-sequence // 128), -(-SMS // min(heads, side_by_side))) - 1


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


def fit(terms):
    """Factors of the terms of each time, given as shares of it, for which the relative errors are least, and their root
    mean square."""
    count = range(len(terms[0]))
    factors = solve([[sum(t[i] * t[j] for t in terms) for j in count] for i in count],
                    [sum(t[i] for t in terms) for i in count])
    errors = [sum(f * share for f, share in zip(factors, t)) - 1 for t in terms]
    return factors, statistics.fmean(error ** 2 for error in errors) ** 0.5


def summed(points, kernel, size, beyond):
    """(us for 128 queries, full and causal, [us for each tile that queues]), error: of kernels that sum dq."""
    terms = []
    for name, width, causal, batch, sequence, heads, us in points:
        if name != kernel or width != size:
            continue
        block = 64 if size == 128 else 128
        length = span(batch, sequence, heads, causal, 128, block, beyond=beyond)[0] / us
        queue = [0 if causal else queueing(batch, sequence, heads, size) / us] if kernel == "ordered" else []
        terms.append([0 if causal else length, length if causal else 0] + queue)
    return fit(terms)


def in_rings(points, size, beyond):
    """(us for 128 queries, us a launch), error."""
    return fit([[span(batch, sequence, heads, causal, 128, 64, beyond=beyond)[0] / us, 1 / us]
                for name, width, causal, batch, sequence, heads, us in points if name == "ordered" and width == size])


def apart_blocks(batch, sequence, heads, causal, beyond, sms=SMS):
    """Length of a launch of tiles of keys, 4 of 7 products, and then tiles of queries, the other 3, in blocks of 128."""
    parts = sorted(parts_of(batch, sequence, causal, 128, 128), reverse=True)
    return makespan([(share * (beyond + blocks + MASKED * masked), heads)
                     for share in (4 / 7, 3 / 7) for blocks, masked in parts], sms)


def apart(points, size, beyond):
    """(us for 128 rows), error: of tiles of keys and of queries apart."""
    return fit([[apart_blocks(batch, sequence, heads, causal, beyond) / us]
                for name, width, causal, batch, sequence, heads, us in points if name == "tiles-apart" and width == size])


def self_check():
    # 128 full rows: what a tile has beyond its blocks and one block for each of 16 heads, all at once.
    assert abs(span(1, 128, 16, False, 128)[0] - (BEYOND + 1)) < 1e-12
    assert abs(span(1, 128, 133, False, 128)[0] - 2 * (BEYOND + 1)) < 1e-12
    # 66 heads of one tile each: 132 tiles at once, as long as one of keys; of 67 two of queries begin when others end.
    assert abs(apart_blocks(1, 128, 66, False, 0.65) - 1.65 * 4 / 7) < 1e-12
    assert abs(apart_blocks(1, 128, 67, False, 0.65) - 1.65 * 6 / 7) < 1e-12
    # 1 x 2048 of head size 128: 2 MiB a head, 16 heads in 32, so that 9 tiles of a head begin together at most; of
    # 8 x 2048 16 MiB hold 8 heads, and all 16 tiles begin together.
    assert queueing(1, 2048, 16, 128) == 8 and queueing(8, 2048, 16, 128) == 15 and queueing(1, 128, 1, 64) == 0
    made = []
    for sequence in (512, 1024, 4096):
        for causal in (True, False):
            length = span(1, sequence, 16, causal, 128, 64, beyond=1.5)[0]
            queue = 0 if causal else queueing(1, sequence, 16, 128)
            made.append(("ordered", 128, causal, 1, sequence, 16, length * (3 if causal else 2) + 4 * queue))
            made.append(("tiles-apart", 128, causal, 1, sequence, 16, 5 * apart_blocks(1, sequence, 16, causal, 0.7)))
    factors, error = summed(made, "ordered", 128, 1.5)
    assert all(abs(a - b) < 1e-9 for a, b in zip(factors, (2, 3, 4))) and error < 1e-9, (factors, error)
    rings = [("ordered", 128, False, batch, 1024, 16, 6 * span(batch, 1024, 16, False, 128, 64, beyond=1.5)[0] + 7)
             for batch in (1, 2, 8)]
    factors, error = in_rings(rings, 128, 1.5)
    assert all(abs(a - b) < 1e-9 for a, b in zip(factors, (6, 7))) and error < 1e-9, (factors, error)
    factors, error = apart(made, 128, 0.7)
    assert abs(factors[0] - 5) < 1e-9 and error < 1e-9, (factors, error)


def backward():
    beyond, beyond_apart = measured("hopper_fused_beyond"), measured("hopper_apart_beyond")
    print(f"us for 128 rows, tiles {beyond} blocks beyond their own, tiles apart {beyond_apart}; error of the model")
    cards = [[point for path in paths for point in of_kernels(path)] for paths in KERNELS.values()]
    for size in (64, 128):
        for kernel in ("fused", "ordered", "tiles-apart"):
            for name, points in [*zip(KERNELS, cards), ("both", cards[0] + cards[1])]:
                factors, error = (apart(points, size, beyond_apart) if kernel == "tiles-apart"
                                  else summed(points, kernel, size, beyond))
                print(f"{kernel:12} {size:3} {name:5} " + " ".join(f"{factor:6.3f}" for factor in factors) +
                      f"   {error:.1%}")
    cards = [list(of_kernels(path, rings=True)) for path in RINGS.values()]
    for name, points in [*zip(RINGS, cards), ("both", cards[0] + cards[1])]:
        factors, error = in_rings(points, 128, beyond)
        print(f"in rings     128 {name:5} " + " ".join(f"{factor:6.3f}" for factor in factors) + f"   {error:.1%}")


def main():
    if sys.argv[1:] == ["--self-check"]:
        return self_check()
    if len(sys.argv) == 1:
        backward()
        points = list(of_tables("h200x4.toml")) + list(of_tables("h200x4-2026-11-21.toml"))
    else:
        points = list(of_study(sys.argv[1]))
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
