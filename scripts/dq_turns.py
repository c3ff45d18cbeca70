#!/usr/bin/env python3
"""What the ordered backward (kernels/cuda/hopper/backward_fused/dq_turns.cuh) should lose to waiting for its turn.

    scripts/dq_turns.py [--turn 1.7] [--handover 1.6] [--walk down|up] [--jitter 0.05] [--shapes 2x8192x16x128,...]

A model on the host, no measurement. 132 multiprocessors take tiles of 128 keys, longest first, as the tile scheduler
gives them out; a tile walks over its blocks of queries, from the last one down or from the first one up; the block's dq
is added when the tile before has added to the same queries, and been heard of, --handover microseconds after it began
to; the dq of a tile's blocks is added --turn microseconds after that of the block before at least; one block's dq may
wait while the next is computed. Printed: the rate of the ordered walk over that of additions in any order, full and
causal.

A block takes 2.1 us (head size 128) or 2.6 us (64), which an H200 had for additions in any order. With these, and 2.85
us from one addition of a thread to its next (a poll 0.7, the addition 1, a fence and an atomic with an answer 1.2, one
after the other), the model comes within 0.05 (root of the mean square) of what the H200 had in order, over any order:

    shape, ordered / any order   measured full  causal   --turn 2.85 full  causal
    8x2048x16x128                         0.74    0.77               0.74    0.76
    2x8192x16x128                         0.76    0.73               0.74    0.74
    1x512x16x128                          0.74    0.85               0.68    0.80
    1x2048x16x128                         0.74                       0.72
    8x2048x32x64                          0.86    0.88               0.92    0.93
    2x8192x32x64                          0.99    0.84               0.91    0.91
    1x512x32x64                           0.78                       0.73

How long the handover takes these shapes hardly say: 1.0 to 2.0 us fit alike. With the poll beside the addition, and no
answer to wait for, the H200 had 0.76 to 0.84 at head size 128: --turn 2.5 to 2.75, where 1.7 had been expected. The
fence was still one after the other with the addition, and the poll too wherever it came too early. Since then one
thread adds (1.2 us a block: the addition and three barriers), and another fences, counts and polls (1.4 to 2.0: 0.5 to
1, 0.7 and the next block's cells). The default is the mean of that. The H200 then had 0.93 to 1.03 at 8192 full keys and
more, as here, but 0.81 to 0.85 causal, where this says 0.97 to 0.99: something of causal walks is not in the model.
"""
import argparse
import heapq
import random

MULTIPROCESSORS = 132
CACHE_BYTES = 32 << 20  # heads_per_group_cache in kernels/work/measured_constants.hpp
BLOCK_US = {64: 2.6, 128: 2.1}  # 128 keys x 128 or 64 queries, on an H200
READ_US, BEGIN_US, END_US = 1.0, 2.0, 0.5  # until staged dq has been added; a tile's first products; its last ones
SHAPES = ("8x2048x16x128,2x8192x16x128,1x512x16x128,1x1024x16x128,1x2048x16x128,1x4096x16x128,16x1024x16x128,"
          "8x2048x32x64,2x8192x32x64,1x512x32x64,1x1024x32x64,1x2048x32x64,1x4096x32x64")


def tiles_in_order(batch, sequence, heads, width, causal):
    """(head, sequence, first block, end of blocks) of each tile, as they are taken."""
    queries = 128 if width == 64 else 64
    blocks = -(-sequence // queries)
    listed = [(b, 128 * j // queries if causal else 0, blocks)
              for b in range(batch) for j in range(-(-sequence // 128))]
    listed.sort(key=lambda tile: tile[1] - tile[2])
    group = min(max(CACHE_BYTES // (4 * batch * sequence * width), 1), heads)
    for first in range(0, heads, group):
        for b, begin, end in listed:
            for head in range(first, min(first + group, heads)):
                yield head, b, begin, end


def duration_us(shape, causal, arguments, ordered):
    """When the last tile is done. Tiles wait for earlier ones alone, so that one after the other can be followed."""
    draw = random.Random(1)
    tiles = list(tiles_in_order(*shape, causal))
    free = [0.0] * min(MULTIPROCESSORS, len(tiles))
    turn = {}  # when the next tile may add to a block
    for head, b, begin, end in tiles:
        walk = range(begin, end) if arguments.walk == "up" or not ordered else range(end - 1, begin - 1, -1)
        ready, added, again = heapq.heappop(free) + BEGIN_US, 0.0, 0.0
        for block in walk:
            ready = max(ready + BLOCK_US[shape[3]] * (1 + draw.gauss(0, arguments.jitter)), added + READ_US)
            added = max(ready, again, turn.get((head, b, block), 0.0)) if ordered else ready
            again = added + arguments.turn  # when this thread may begin to add once more
            turn[head, b, block] = added + arguments.handover
        heapq.heappush(free, max(ready, added) + END_US)
    return max(free)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turn", type=float, default=1.7)
    parser.add_argument("--handover", type=float, default=1.6)
    parser.add_argument("--walk", choices=("down", "up"), default="down")
    parser.add_argument("--jitter", type=float, default=0.05)
    parser.add_argument("--shapes", default=SHAPES, help="B x S x H x D")
    arguments = parser.parse_args()
    for word in arguments.shapes.split(","):
        shape = tuple(map(int, word.split("x")))
        rates = {mask: duration_us(shape, mask == "causal", arguments, False) /
                 duration_us(shape, mask == "causal", arguments, True) for mask in ("full", "causal")}
        print(f"{word:16s}" + "".join(f"  {mask} {rate:.2f}" for mask, rate in rates.items()))


if __name__ == "__main__":
    main()
