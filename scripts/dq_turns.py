#!/usr/bin/env python3
"""What the ordered backward (kernels/cuda/hopper/backward_fused/dq_turns.cuh) should lose to waiting for its turn.

    scripts/dq_turns.py [--former] [--shapes 2x8192x16x128,...] [--jitter 0.08] [--add 1.0] [--fence 0.4] ...

A model on the host, no measurement. 132 multiprocessors take tiles of 128 keys as the tile scheduler gives them out:
groups of heads one after the other, the tiles of a sequence together; where tiles are uneven from the list's last
tile to its first and upward, but for the ending of the last group (kernels/work/turns.hpp, HeadGroups). Consumers
stage the dq of a block in the last quarter of the next one, as soon as that of the block before is in memory. One
thread polls for the block's turn. Another adds it, fences and counts. A count is seen by the poll that reaches memory
after it. Printed: the rate over that of additions in any order, full and causal; beside it, where a record has the
shape, the same of whole calls (all that is not in the model added to both sides), and what was measured.

--former is the kernel that scripts/gpu/round.sh measured on 2026-11-22: all tiles as listed, downward, and the thread
that polls also fences and counts, so that it polls for the next block only when it has. It hits the record within 0.03
(root of the mean square of 28 ratios). The costs are from its profiles: a poll 0.5 to 0.7 us, a fence 0.4, an addition
1.0 to 1.2. Together a tile is 3.0 us behind the one before in the same cell, which 1 x 512 and 1 x 1024 full say
directly: 3 and 7 such waits are the 10 and 23 us that they lost.
"""
import argparse
import heapq
import json
import math
import pathlib
import random
import statistics

MULTIPROCESSORS = 132
CACHE_BYTES, TOGETHER_BYTES = 32 << 20, 16 << 20  # heads_per_group_cache and fused_heads_cache_together
BLOCK_US = {64: 2.5, 128: 2.05}  # 128 keys x 128 or 64 queries, on an H200
BEGIN_US, END_US = 1.5, 2.5  # of a tile: before its first block, after its last
MASKED_US = 0.3  # more for a block on the diagonal
BARRIER_US = 0.1  # from an arrival to the thread that waits
STAGED = 0.75  # the part of a block after which dq of the block before is staged
RECORD = pathlib.Path(__file__).parent.parent / "scenarios/measured/h200x2-2026-11-22/round/deterministic.json"
SHAPES = ("1x512x16x128,1x1024x16x128,1x2048x16x128,1x4096x16x128,8x2048x16x128,2x8192x16x128,1x32768x16x128,"
          "1x512x32x64,1x1024x32x64,1x2048x32x64,1x4096x32x64,8x2048x32x64,2x8192x32x64,1x32768x32x64")


def listed_tiles(batch, sequence, width, causal):
    """(sequence, first block, end of blocks) of each tile, sequence by sequence, longest first."""
    queries = 128 if width == 64 else 64
    blocks = -(-sequence // queries)
    return [(b, 128 * j // queries if causal else 0, blocks) for b in range(batch) for j in range(-(-sequence // 128))]


def longest_first(tiles):
    return sorted(tiles, key=lambda tile: tile[1] - tile[2])


def heads_together(shape, causal, ending):
    """How many heads are side by side, in groups of equal size (fused_heads_per_group(), head_groups())."""
    batch, sequence, heads, width = shape
    half = 2 if causal and width == 128 else 1
    side_by_side = max(CACHE_BYTES // half // (8 * batch * sequence * width),
                       TOGETHER_BYTES // half // (8 * sequence * width) if batch > 1 else 0, 1)
    most = max(min(side_by_side, heads // 2 if causal and ending == 0 else heads), 1)
    return -(-heads // -(-heads // most))


def taken_tiles(shape, causal, former):
    """(head, sequence, first block, end of blocks, upward) of each tile, as they are taken."""
    batch, sequence, heads, width = shape
    listed = listed_tiles(batch, sequence, width, causal)
    ending = 0
    if former:
        listed = longest_first(listed)
        group = max(min(CACHE_BYTES // (8 * batch * sequence * width), heads), 1)
    else:
        if causal and batch > 1:
            # As few sequences end the launch as keep half of the multiprocessors busy for longer than one tile is.
            longest = max(end - begin for _, begin, end in listed)
            of_one = sum(end - begin for b, begin, end in listed if b == 0) / longest
            last = min(int(MULTIPROCESSORS / 2 / (of_one * heads_together(shape, causal, 1))) + 1, batch)
            ending = (batch - last) * len(listed) // batch
            listed[ending:] = longest_first(listed[ending:])
        group = heads_together(shape, causal, ending)
    for first in range(0, heads, group):
        upward = len(listed) if first + group < heads else ending
        if former or not causal:
            upward = 0
        for place in [*reversed(range(upward)), *range(upward, len(listed))]:
            for head in range(first, min(first + group, heads)):
                yield head, *listed[place], place < upward


class Turns:
    """The two threads of a multiprocessor that wait for turns and add, and since when they are free."""

    def __init__(self, arguments, draw, counted):
        self.arguments, self.draw, self.counted = arguments, draw, counted
        self.polls = self.adds = 0.0

    def add(self, cell, following, staged):
        """Adds a block staged at that time; returns when its shared memory is free again. following: the next cell."""
        a, turn = self.arguments, self.counted.get(cell, 0.0)
        missed = max(math.ceil((turn - self.polls - a.poll / 2) / a.poll), 0)
        called = self.polls + (missed + 1) * a.poll + BARRIER_US
        begun = max(staged + BARRIER_US, called, self.adds)
        written = begun + a.add * (1 + abs(self.draw.gauss(0, a.jitter)))
        if not a.former:
            self.polls = max(called + 0.15, self.adds)  # two blocks ahead it does not look
            self.adds = written + BARRIER_US + a.fence
            self.counted[cell] = self.adds + a.count
            return written + BARRIER_US
        passed = max(written + BARRIER_US, called + 0.15) + a.poll / 2 + a.fence  # half a poll is under way
        next_turn = max(self.counted.get(following, 0.0), called + 0.15)
        self.polls = next_turn - BARRIER_US if following and next_turn + a.poll <= written else passed
        self.adds = written
        self.counted[cell] = passed + a.count
        return written + BARRIER_US


def duration_us(shape, causal, arguments, ordered):
    """When the last tile is done. Tiles wait for earlier ones alone, so that one after the other can be followed."""
    draw, block_us, counted = random.Random(1), BLOCK_US[shape[3]], {}
    tiles = list(taken_tiles(shape, causal, arguments.former))
    free = [(0.0, n) for n in range(min(MULTIPROCESSORS, len(tiles)))]
    turns = [Turns(arguments, draw, counted) for _ in free]
    emptied = [0.0] * len(free)
    for head, b, begin, end, upward in tiles:
        now, at = heapq.heappop(free)
        now += BEGIN_US
        cells = [(head, b, n) for n in (range(begin, end) if upward else range(end - 1, begin - 1, -1))] + [None]
        for n, cell in enumerate(cells):
            takes = block_us * (1 + abs(draw.gauss(0, arguments.jitter))) if cell else 0.4 * END_US
            if cell and causal and cell[2] < begin + 128 // (128 if shape[3] == 64 else 64):
                takes += MASKED_US
            part = STAGED if cell else 1
            if n > 0:
                staged = max(now + part * takes, emptied[at])
                now = staged - part * takes
                emptied[at] = turns[at].add(cells[n - 1], cell, staged) if ordered else staged + arguments.add
            now += takes
        heapq.heappush(free, (now + 0.6 * END_US, at))
    return max(free)[0]


def measured(shape, mask):
    """Seconds in any order and in turn, or nothing."""
    found = {row["build"]: statistics.median(row["seconds"]) for row in json.loads(RECORD.read_text())
             if row["shape"] == list(shape) and row["mask"] == mask and row["direction"] == "backward"}
    return [1e6 * found[f"tiles:{kernel}"] for kernel in ("best", "deterministic")] if len(found) > 1 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--former", action="store_true")
    parser.add_argument("--poll", type=float, default=0.7, help="of a count in memory, there and back")
    parser.add_argument("--add", type=float, default=1.0, help="until dq has been written")
    parser.add_argument("--fence", type=float, default=0.4)
    parser.add_argument("--count", type=float, default=0.35, help="until memory has counted")
    parser.add_argument("--jitter", type=float, default=0.08)
    parser.add_argument("--shapes", default=SHAPES, help="B x S x H x D")
    arguments = parser.parse_args()
    for word in arguments.shapes.split(","):
        shape = tuple(map(int, word.split("x")))
        line = f"{word:15s}"
        for mask in ("full", "causal"):
            alone, turns = (duration_us(shape, mask == "causal", arguments, ordered) for ordered in (False, True))
            line += f"  {mask} {alone / turns:.2f}"
            if times := measured(shape, mask):
                line += f" call {times[0] / (times[0] + turns - alone):.2f} measured {times[0] / times[1]:.2f}"
        print(line)


if __name__ == "__main__":
    main()
