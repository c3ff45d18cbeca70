#!/usr/bin/env python3
"""Pictures of masks for the lessons: tiles of one rank, placements, the steps of a ring, a window, packed sequences.

    plots/lesson_masks.py          writes docs/figures/lesson-{tiles,placements,ring,window,packed}.svg from what the
                                   program named by CPLAB says of small scenarios
"""
from lib.plans import ranges
from lib.program import answer, mask_rows, settings
from lib.svg import FAINT, INK, PALE, RANKS, Picture

SMALL = ("faults/ring", *settings(problem__sequence=16, problem__heads=1, problem__kv_heads=1, problem__head_size=1,
                                  problem__direction="forward"))


def tiles_of(rank):
    """Of a rank's attend operations in order: (owner of the keys, operation); owners by the ring's rule."""
    attends = [op for op in rank["operations"] if op["kind"] == "attend"]
    return [((rank["rank"] - op["step"]) % 4, op) for op in attends]


def pairs(op):
    """Live pairs: forward work is 4 FLOPs a pair with one head of size 1."""
    return op["flops"] // 4


def grid(picture, x, y, cell, rows, color_of):
    """A mask with a colour for each live pair."""
    side = len(rows[0][0])
    picture.box(x, y, cell * side, cell * len(rows), PALE)
    for i, (cells, ranks) in enumerate(rows):
        for j, live in enumerate(cells):
            if live == "#":
                picture.box(x + j * cell, y + i * cell, cell - 0.6, cell - 0.6, color_of(i, j, ranks))


def draw_tiles():
    rows = mask_rows(*SMALL, *settings(parallel__placement="contiguous"))
    plan = answer("show", *SMALL, *settings(parallel__placement="contiguous"))
    p = Picture(700, 370, "The causal square of 16 tokens on 4 ranks, and the four tiles of rank 3")
    x, y, cell = 110, 60, 18
    owner = [ranks[0] for _, ranks in rows]
    grid(p, x, y, cell, rows, lambda i, j, ranks: RANKS[owner[j]] if owner[i] == 3 else "#c4c4c4")
    for r in range(4):
        p.text(x + (4 * r + 2) * cell, y - 10, f"keys of {r}", anchor="middle")
        p.text(x - 8, y + (4 * r + 2) * cell + 4, f"queries of {r}", anchor="end")
        for k in range(1, 4):
            p.line(x + 4 * k * cell, y, x + 4 * k * cell, y + 16 * cell, "#ffffff", 2)
            p.line(x, y + 4 * k * cell, x + 16 * cell, y + 4 * k * cell, "#ffffff", 2)
    p.box(x, y + 12 * cell, 16 * cell, 4 * cell, "none", INK, thick=1.5)
    p.text(16, 26, "Each tile: 4 queries by the keys of one rank. Grey pairs are other ranks' work.", 12, bold=True)
    p.text(430, y + 6, "rank 3, tile by tile:", bold=True)
    last = y + 20
    for order, (of, op) in enumerate(tiles_of(plan["ranks"][3])):
        top = y + 20 + order * 62
        p.box(430, top, 12, 34, RANKS[of])
        p.text(450, top + 14, f"keys of rank {of}: {pairs(op)} live pairs")
        p.text(450, top + 29, "one result (o, lse) a query", fill="#555555")
        if order:
            p.text(450, top - 9, "merged with those before", size=10, fill="#555555")
            p.line(436, last, 436, top - 2, INK, 1.2, arrow=True)
        last = top + 34
        p.say(f"rank 3, keys of {of}: {pairs(op)} pairs")
    p.line(436, last, 436, last + 26, INK, 1.2, arrow=True)
    p.text(450, last + 24, "out and lse of rank 3's queries", bold=True)
    p.save("lesson-tiles")


def draw_placements():
    p = Picture(760, 330, "Three placements of 16 tokens on 4 ranks and their pairs by step")
    p.text(16, 24, "Which rank holds which of 16 tokens, and how many live pairs it has in each step of a ring", 12,
           bold=True)
    for n, placement in enumerate(("contiguous", "zigzag", "striped")):
        words = settings(parallel__placement=placement)
        rows, plan = mask_rows(*SMALL, *words), answer("show", *SMALL, *words)
        x = 20 + n * 250
        p.text(x, 54, placement, 12, bold=True)
        for token, (_, ranks) in enumerate(rows):
            p.box(x + token * 14, 62, 13, 20, RANKS[ranks[0]])
            if token % 5 == 0:
                p.text(x + token * 14 + 6.5, 96, token, 9, "middle", "#555555")
        steps = [[0] * 4 for _ in range(4)]
        for rank in plan["ranks"]:
            for _, op in tiles_of(rank):
                steps[rank["rank"]][op["step"]] += pairs(op)
        for r, of_steps in enumerate(steps):
            top = 292
            for step, live in enumerate(of_steps):
                height = live * 3
                if not live:
                    continue
                p.box(x + r * 56, top - height, 40, height, RANKS[r], "#ffffff", opacity=1 - 0.2 * step)
                p.text(x + r * 56 + 20, top - height / 2 + 4, live, 9, "middle", "#ffffff" if step < 3 else INK)
                top -= height
            p.text(x + r * 56 + 20, top - 4, sum(of_steps), 11, "middle", bold=True)
            p.text(x + r * 56 + 20, 306, f"rank {r}", 10, "middle")
        p.say(f"{placement}: " + ", ".join(str(sum(s)) for s in steps) + " pairs")
    p.text(20, 324, "Boxes of a bar: steps 0 to 3 from the bottom; a step without a box has no live pair.", 10,
           fill="#555555")
    p.save("lesson-placements")


def live_cells(op):
    """(row of the rank's queries, row of the held keys) of every live pair: the plan's segments, spelled out."""
    q, k = (ranges(next(r["box"] for r in op["reads"] if r["operand"] == name)) for name in ("q", "k"))
    cells = set()
    for s in op["segments"]:
        for i in range(s["q"][1]):
            for j in range(s["k"][1]):
                from_diagonal = j - i - s["offset"]
                if (s["right"] < 0 or from_diagonal <= s["right"]) and (s["left"] < 0 or -from_diagonal <= s["left"]):
                    cells.add((q[s["q"][0] + i], k[s["k"][0] + j]))
    return cells


def draw_ring():
    plan = answer("show", *SMALL, *settings(problem__sequence=32))
    p = Picture(700, 560, "A causal zigzag ring of 4 ranks, step by step")
    p.text(16, 24, "What each rank attends in each step: its 8 queries (down) by the 8 keys it holds (across)", 12,
           bold=True)
    cell, left, top = 11, 90, 70
    for r in range(4):
        p.text(left + r * 150 + 44, 52, f"rank {r}: {4 * r}-{4 * r + 3}, {28 - 4 * r}-{31 - 4 * r}", 10, "middle", RANKS[r],
               True)
    for rank in plan["ranks"]:
        r = rank["rank"]
        for owner, op in tiles_of(rank):
            x, y = left + r * 150, top + op["step"] * 118
            p.box(x, y, 8 * cell, 8 * cell, PALE)
            cells = live_cells(op)
            for i, j in sorted(cells):
                p.box(x + j * cell, y + i * cell, cell - 0.6, cell - 0.6, RANKS[owner])
            p.line(x + 4 * cell, y, x + 4 * cell, y + 8 * cell, "#ffffff", 1.5)
            p.line(x, y + 4 * cell, x + 8 * cell, y + 4 * cell, "#ffffff", 1.5)
            p.text(x + 44, y + 100, f"keys of {owner}: {len(cells)} pairs", 9, "middle", "#555555")
            if op["step"] < 3:
                p.line(x + 92, y + 60, x + 146 if r < 3 else x + 112, y + 118, RANKS[owner], 1.6, arrow=True)
                if r == 3:
                    p.text(x + 96, y + 54, "to rank 0", 9, fill="#555555")
            p.say(f"step {op['step']}, rank {r}: keys of {owner}, {len(cells)} pairs")
    for step in range(4):
        p.text(16, top + step * 118 + 48, f"step {step}", 11, bold=True)
    p.text(16, 548, "An arrow: K and V go to the right neighbour while they are attended here.", 10, fill="#555555")
    p.save("lesson-ring")


WINDOW = ("faults/ring", *settings(problem__sequence=24, problem__window="[5,0]", problem__direction="forward",
                                   parallel__placement="contiguous", schedule__rotation="needed"))


def draw_window():
    rows, plan = mask_rows(*WINDOW), answer("show", *WINDOW)
    p = Picture(700, 360, "A window of 6 keys over 24 tokens on 4 ranks")
    p.text(16, 24, "24 tokens on 4 ranks, each query sees 6 keys; a colour is the rank that holds the key",
           12, bold=True)
    x, y, cell = 90, 50, 12
    owner = [ranks[0] for _, ranks in rows]
    grid(p, x, y, cell, rows, lambda i, j, ranks: RANKS[owner[j]])
    for k in range(1, 4):
        p.line(x + 6 * k * cell, y, x + 6 * k * cell, y + 24 * cell, "#ffffff", 2)
        p.line(x, y + 6 * k * cell, x + 24 * cell, y + 6 * k * cell, "#ffffff", 2)
    for r in range(4):
        p.text(x - 8, y + (6 * r + 3) * cell + 4, f"rank {r}", anchor="end")
    p.text(420, 66, "what travels with rotation = needed", bold=True)
    line = 86
    for rank in plan["ranks"]:
        sent = [part for op in rank["operations"] for part in op["parts"] if part["send"]]
        for part in sent:
            held = ranges(part["view"]["box"])
            p.box(420, line - 9, 10, 10, RANKS[rank["rank"]])
            p.text(436, line, f"rank {rank['rank']} sends rows {held[0]}-{held[-1]} to {part['peer']}")
            p.say(f"rank {rank['rank']} sends {len(held)} of 6 rows to {part['peer']}")
            line += 20
        if not sent:
            p.text(436, line, f"rank {rank['rank']} sends nothing")
            p.say(f"rank {rank['rank']} sends nothing")
            line += 20
    p.text(420, line + 14, "Distances 2 and 3: no live pair,", fill="#555555")
    p.text(420, line + 29, "no tile, no hop.", fill="#555555")
    p.save("lesson-window")


PACKED = ("faults/ring", *settings(problem__lengths="[16,4,4]", problem__direction="forward", parallel__ranks=2))


def draw_packed():
    p = Picture(700, 400, "Three packed sequences on two ranks, zigzag and hybrid")
    p.text(16, 24, "Sequences of 16, 4 and 4 tokens in one row; colours are the ranks that hold the queries", 12, bold=True)
    ways = (("zigzag: every sequence is cut", settings(parallel__placement="zigzag")),
            ("hybrid: two are kept whole", settings(parallel__placement="hybrid", parallel__homes="[-1,1,0]")))
    for n, (name, words) in enumerate(ways):
        rows, plan = mask_rows(*PACKED, *words), answer("show", *PACKED, *words)
        x, y, cell = 30 + n * 340, 64, 12
        p.text(x, 52, name, 11, bold=True)
        grid(p, x, y, cell, rows, lambda i, j, ranks: RANKS[ranks[0]])
        for edge in (16, 20):
            p.line(x, y + edge * cell, x + 24 * cell, y + edge * cell, FAINT, 0.8)
            p.line(x + edge * cell, y, x + edge * cell, y + 24 * cell, FAINT, 0.8)
        for rank in plan["ranks"]:
            sent = sum(len(ranges(part["view"]["box"])) for op in rank["operations"] for part in op["parts"]
                       if part["send"])
            live = sum(len(live_cells(op)) for _, op in tiles_of(rank))
            p.box(x, 362 + rank["rank"] * 16, 10, 10, RANKS[rank["rank"]])
            p.text(x + 16, 371 + rank["rank"] * 16, f"rank {rank['rank']}: {live} live pairs, sends {sent} rows of K and V")
            p.say(f"{name}: rank {rank['rank']} has {live} pairs, sends {sent} rows")
    p.save("lesson-packed")


def main():
    draw_tiles()
    draw_placements()
    draw_ring()
    draw_window()
    draw_packed()


if __name__ == "__main__":
    main()
