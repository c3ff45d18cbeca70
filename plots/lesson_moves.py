#!/usr/bin/env python3
"""Pictures of what goes from rank to rank, for the lessons: heads traded for tokens, two levels, a scan, two routes.

    plots/lesson_moves.py          writes docs/figures/lesson-{heads,hierarchy,scan,routes}.svg from the plans of the
                                   program named by CPLAB
"""
from lib.plans import Walk, bytes_of, ranges, sends
from lib.program import answer, settings
from lib.svg import COMMUNICATION, FAINT, INK, PALE, RANKS, RED, Picture


def traded(plan, buffer):
    """{head: receivers} and {row: holder before} of an all_to_all, from its parts."""
    heads, rows = {}, {}
    for rank in plan["ranks"]:
        for op in rank["operations"]:
            if op["phase"] != "forward" or op["kind"] != "all_to_all":
                continue
            for part in op["parts"]:
                view = part["view"]
                if part["send"] and view["buffer"] == f"{buffer}_packed":
                    for head in range(*view["box"]["heads"]):
                        heads.setdefault(head, set()).add(part["peer"])
                if not part["send"] and view["buffer"] == f"{buffer}_traded":
                    for row in ranges(view["box"]):
                        rows[row] = part["peer"]
    return heads, rows


def draw_heads():
    plan = answer("show", "families-4", *settings(parallel__algorithm="all_to_all"))
    p = Picture(700, 330, "Tokens traded for heads")
    p.text(16, 24, "64 tokens (down, in eight chunks) by heads (across); a colour is the rank that holds the piece", 12,
           bold=True)
    left = 60
    for name, buffer in (("Q", "q"), ("K and V", "kv")):
        heads, rows = traded(plan, buffer)
        chunks = [rows[chunk * 8] for chunk in range(8)]
        for after in (False, True):
            p.text(left, 62, f"{name}, {'after' if after else 'before'}", 11, bold=True)
            for c in range(8):
                for h in sorted(heads):
                    x, y = left + h * 30, 72 + c * 26
                    holders = sorted(heads[h]) if after else [chunks[c]]
                    p.box(x, y, 28, 24, RANKS[holders[0]])
                    if len(holders) > 1:
                        p.polygon([(x + 28, y), (x + 28, y + 24), (x, y + 24)], RANKS[holders[1]])
            for h in sorted(heads):
                p.text(left + h * 30 + 14, 296, h, 10, "middle", "#555555")
            if not after:
                x = left + 30 * len(heads) + 6
                p.line(x, 176, x + 36, 176, INK, 1.5, arrow=True)
            left += 30 * len(heads) + 50
        for head, receivers in sorted(heads.items()):
            p.say(f"{name} head {head}: to rank " + ", ".join(map(str, sorted(receivers))))
    for c in (0, 7):
        p.text(52, 88 + c * 26, f"{8 * c}-{8 * c + 7}", 9, "end", "#555555")
    p.text(60, 316, "Two colours in one box: both ranks get that key head, because query heads of both read it.", 10,
           fill="#555555")
    p.save("lesson-heads")


TWO_LEVELS = ("families-64", *settings(parallel__ranks=8, problem__sequence="32K", hardware__node__gpus=4,
                                       problem__direction="forward"))


def draw_hierarchy():
    p = Picture(760, 340, "Who sends how much to whom, 8 ranks in two nodes of four")
    p.text(16, 24, "MiB that a rank (down) sends to another (across) in one forward; boxes are the two nodes", 12, bold=True)
    for n, (name, words) in enumerate((
            ("ring", settings(parallel__algorithm="ring")),
            ("all_to_all", settings(parallel__algorithm="all_to_all")),
            ("hierarchical, inner_ranks = 4", settings(parallel__algorithm="hierarchical", schedule__inner_ranks=4)))):
        plan = answer("show", *TWO_LEVELS, *words)
        sent = [[0] * 8 for _ in range(8)]
        for rank in plan["ranks"]:
            for _, part in sends(rank):
                sent[rank["rank"]][part["peer"]] += bytes_of(plan, rank, part["view"])
        most = max(max(row) for row in sent)
        x, y, cell = 20 + n * 248, 66, 28
        p.text(x, 54, name, 11, bold=True)
        for i, row in enumerate(sent):
            for j, amount in enumerate(row):
                p.box(x + j * cell, y + i * cell, cell - 1, cell - 1, COMMUNICATION if amount else PALE,
                      opacity=0.25 + 0.75 * amount / most if amount else 1)
                if amount:
                    p.text(x + j * cell + 13.5, y + i * cell + 17, f"{amount / 2**20:.0f}", 9, "middle")
        for node in (0, 4):
            p.box(x + node * cell - 0.5, y + node * cell - 0.5, 4 * cell, 4 * cell, "none", INK, thick=1.5)
        across = sum(sent[i][j] for i in range(8) for j in range(8) if i // 4 != j // 4)
        p.text(x, 306, f"all: {sum(map(sum, sent)) / 2**20:.0f} MiB")
        p.text(x, 322, f"between nodes: {across / 2**20:.0f} MiB")
        p.say(f"{name}: all {sum(map(sum, sent)) / 2**20:.0f} MiB, between nodes {across / 2**20:.0f} MiB")
    p.save("lesson-hierarchy")


def covered(what):
    """"0..3" of a set of ranks."""
    if not what:
        return "-"
    low, high = min(what), max(what)
    return str(low) if low == high else f"{low}..{high}"


def draw_scan():
    p = Picture(760, 580, "A scan over 8 ranks, right and as it was published")
    p.text(16, 24, "Which ranks' tokens a state holds after each round (grey: unchanged), and what enters each rank", 12,
           bold=True)
    for n, (name, words) in enumerate((("right", ()), ("as published", ("--inject", "published-down-sweep")))):
        plan = answer("show", "faults/scan", *words)
        walk = Walk(plan, lambda rank: {})
        steps = sorted({op["step"] for _, op, _, _ in walk.received})
        left, top, wide, high = 90, 78 + n * 262, 84, 31
        p.text(16, top - 26, name, 12, bold=True)
        state = {rank: frozenset([rank]) for rank in range(8)}
        for rank in range(8):
            p.text(left + rank * wide, top - 6, f"rank {rank}", 10, "middle", "#555555")
            p.text(left + rank * wide, top + 12, covered(state[rank]), 10, "middle")
        for level, step in enumerate(steps):
            y = top + 12 + (level + 1) * high
            moves = [(rank, peer, what) for rank, op, peer, what in walk.received if op["step"] == step]
            last = step == steps[-1]
            for rank, peer, what in moves:
                wrong = last and what != frozenset(range(rank))
                p.line(left + peer * wide + 6, y - high + 5, left + rank * wide - (18 if what else 10), y - 8,
                       RED if wrong else FAINT, 1.8 if wrong else 1.1, arrow=True)
            arrived = {rank: what for rank, _, what in moves}
            for rank in range(8):
                if rank not in arrived and not last:
                    p.text(left + rank * wide, y, covered(state[rank]), 10, "middle", "#b0b0b0")
            for rank, what in arrived.items():
                now = what if last else state[rank] | what
                wrong = last and what != frozenset(range(rank))
                p.text(left + rank * wide, y, covered(now), 11 if last else 10, "middle", RED if wrong else INK,
                       last or wrong)
                if not last:
                    state[rank] = now
                else:
                    p.say(f"{name}: into rank {rank} {covered(what)}" + (", wrong" if wrong else ""))
            p.text(16, y, "enters" if last else f"round {level}", 9, fill="#555555")
            if last:
                p.text(left, y, "nothing", 10, "middle")
        assert set(walk.held[7][("carry", 0)]) == set(arrived[7])
    p.save("lesson-scan")


def draw_routes():
    p = Picture(720, 330, "Whose keys each rank attends at each visit, ring and double ring")
    p.text(16, 24, "Whose K and V a rank attends, visit by visit; a frame: they have just come from the other node", 12,
           bold=True)
    base = ("families-8", *settings(problem__direction="forward"))
    for n, (name, words) in enumerate((
            ("ring", ()), ("double_ring, node_ranks = 4", settings(parallel__algorithm="double_ring",
                                                                    schedule__node_ranks=4)))):
        plan = answer("show", *base, *words)
        walk = Walk(plan, lambda rank: {("kv", 0): frozenset([rank])})
        x, y, cell = 70 + n * 340, 66, 28
        p.text(x, 54, name, 11, bold=True)
        came = {(rank, what) for rank, _, peer, what in walk.received if peer // 4 != rank // 4}
        visits = [0] * 8
        for rank, op, what in walk.seen:
            owner = min(what)
            place = x + visits[rank] * cell, y + rank * cell
            p.box(*place, cell - 2, cell - 2, RANKS[owner])
            p.text(place[0] + 13, place[1] + 17, owner, 10, "middle", "#ffffff")
            if (rank, what) in came:
                p.box(place[0] + 1, place[1] + 1, cell - 4, cell - 4, "none", INK, thick=2.5)
            visits[rank] += 1
        for rank in range(8):
            p.text(x - 6, y + rank * cell + 17, f"rank {rank}" if n == 0 else rank, 10, "end")
        p.line(x, y + 4 * cell - 1, x + 8 * cell, y + 4 * cell - 1, INK, 0.8, "3 3")
        p.say(f"{name}: {sum(1 for rank, what in came)} messages between nodes")
        p.text(x, y + 8 * cell + 18, f"messages from node to node: {len(came)}")
    p.save("lesson-routes")


def main():
    draw_heads()
    draw_hierarchy()
    draw_scan()
    draw_routes()


if __name__ == "__main__":
    main()
