#!/usr/bin/env python3
"""Pictures of plans for the lessons: lanes and edges, a race with the edge that is missing in red, memory over time.

    plots/lesson_plans.py          writes docs/figures/lesson-{plan,race,memory}.svg from what `show --json`,
                                   `check --json` and `simulate --operations` say with the program named by CPLAB
"""
import re

from lib.plans import forward
from lib.program import answer, settings
from lib.svg import COMMUNICATION, COMPUTE, FAINT, INK, RED, Picture

COLORS = {"exchange": COMMUNICATION, "merge": "#4f7fae"}


def short(operation_id):
    return operation_id.rsplit("/", 1)[1]


def operands(op):
    """What an operation reads and writes, in few letters."""
    if op["parts"]:
        return "to {}, from {}".format(*[part["peer"] for part in op["parts"]])
    keys = [r for r in op["reads"] if r["operand"] == "k"]
    if keys:
        slot = keys[0]["box"]["slot"][0]
        return "own keys" if keys[0]["buffer"] == "kv" else f"reads slot {slot}"
    return f"part {op['reads'][0]['box']['slot'][0]}"


def receives(op):
    for part in op["parts"]:
        if not part["send"]:
            return f"into slot {part['view']['box']['slot'][0]}"
    return ""


class Lanes:
    """Where the operations stand: by lane (down) and program order (across)."""

    def __init__(self, operations, top):
        self.operations = operations
        self.lanes = sorted({self.lane(op) for op in operations}, key=lambda lane: (lane[0] != "comm", lane[1]))
        self.top, self.rows = top, {lane: top + n * 96 for n, lane in enumerate(self.lanes)}
        self.places = {op["id"]: (84 + n * 72, self.rows[self.lane(op)]) for n, op in enumerate(operations)}

    @staticmethod
    def lane(op):
        return op["lane"]["kind"], op["lane"]["index"]

    def draw_lines(self, p):
        for lane, y in self.rows.items():
            p.text(12, y + 26, f"{lane[0]} {lane[1]}", 11, bold=True)
            p.line(84, y + 22, 84 + 72 * len(self.operations), y + 22, "#d8d8d8", 1)

    def draw_edge(self, p, before, after, stroke=INK, thick=1.2, dash=""):
        (x1, y1), (x2, y2) = self.places[before], self.places[after]
        down = y2 > y1
        p.curve(x1 + 44, y1 + (44 if down else 0), x2 + 20, y2 + (-1 if down else 45), stroke, thick, dash)

    def draw_boxes(self, p, marked=()):
        for op in self.operations:
            (x, y), mark = self.places[op["id"]], op["id"] in marked
            p.box(x, y, 66, 44, COLORS.get(op["kind"], COMPUTE), RED if mark else "#ffffff", thick=3 if mark else 1)
            ink = INK if op["parts"] else "#ffffff"
            p.text(x + 33, y + 13, f"{short(op['id'])} {op['kind']}", 9, "middle", ink, True)
            p.text(x + 33, y + 26, operands(op), 8, "middle", ink)
            p.text(x + 33, y + 38, receives(op), 8, "middle", ink)


RING = "faults/ring"


def edges(operations):
    return {(before, op["id"]) for op in operations for before in op["after"]}


def draw_plan():
    operations = forward(answer("show", RING)["ranks"][0])
    p = Picture(820, 330, "The forward of rank 0 of a ring: lanes and edges")
    p.text(12, 24, "Rank 0 of 4: ten operations in program order, on three lanes; an arrow is an edge of the plan", 12,
           bold=True)
    lanes = Lanes(operations, 46)
    lanes.draw_lines(p)
    for before, after in sorted(edges(operations)):
        lanes.draw_edge(p, before, after)
    lanes.draw_boxes(p)
    p.text(12, 318, "Left to right: the order of issue, not time. A lane runs its own operations in that order without edges.",
           10, fill="#555555")
    p.say(f"{len(operations)} operations, edges " + ", ".join(f"{short(a)} to {short(b)}" for a, b in
                                                             sorted(edges(operations), key=lambda e: (e[1], e[0]))))
    p.save("lesson-plan")


def draw_race():
    finding = answer("check", RING, "--inject", "ring-slot-reuse")["findings"][0]
    rank = finding["rank"]
    right = forward(answer("show", RING)["ranks"][rank])
    wrong = forward(answer("show", RING, "--inject", "ring-slot-reuse")["ranks"][rank])
    pair = re.findall(r"\d+/forward/\d+", finding["message"])[:2]
    missing = edges(right) - edges(wrong)
    p = Picture(820, 360, "A race: two operations on one slot, and the edge that is missing")
    p.text(12, 24, f"Rank {rank} with ring-slot-reuse: the exchange may overwrite the slot that the tile still reads", 12,
           bold=True)
    lanes = Lanes(wrong, 46)
    lanes.draw_lines(p)
    for before, after in sorted(edges(wrong)):
        lanes.draw_edge(p, before, after, FAINT)
    for before, after in sorted(missing):
        lanes.draw_edge(p, before, after, RED, 2.6, "6 3")
        p.say(f"missing: {short(before)} to {short(after)}")
    lanes.draw_boxes(p, pair)
    p.text(12, 320, f"Red frames: the two operations of the finding \"{finding['kind']}\". Red dashes: the edge that the right "
           "plan has.", 10, fill=RED)
    p.text(12, 338, "Grey: the edges that are left. No chain of them, and of lanes, leads from one frame to the other.", 10,
           fill="#555555")
    p.say(f"{finding['kind']}: {' and '.join(pair)}")
    p.save("lesson-race")


MEMORY = ("ring", *settings(problem__sequence="16K"))
CATEGORIES = {"input": "#c9d3de", "output": "#8fa9c4", "working": "#4f7fae"}


def lifetimes(rank, times):
    """[(buffer, begin, end)] in seconds: an input lives from the start of the phase that reads it, an output to the end."""
    begin, end = {}, {}
    for op in rank["operations"]:
        views = op["reads"] + op["writes"] + [part["view"] for part in op["parts"]]
        for name in {view["buffer"] for view in views}:
            begin[name] = min(begin.get(name, (op["phase"], times[op["id"]][0])), (op["phase"], times[op["id"]][0]),
                              key=lambda at: at[1])
            end[name] = max(end.get(name, 0), times[op["id"]][1])
    last = max(end.values())
    turn = min(start for name, (start, _) in times.items() if "/backward/" in name)
    for buffer in rank["buffers"]:
        name, category = buffer["name"], buffer["category"]
        if name not in begin:
            continue
        phase, first = begin[name]
        if category == "input":
            first = 0 if phase == "forward" else turn
        yield buffer, first, last if category != "working" else end[name]


def draw_memory():
    number = answer("simulate", *MEMORY)["peak_rank"]
    rank = answer("show", *MEMORY)["ranks"][number]
    done = answer("simulate", *MEMORY, "--operations")
    times = {op["id"]: (op["start_s"], op["end_s"]) for op in done["operations"] if op["rank"] == number}
    lives = list(lifetimes(rank, times))
    p = Picture(780, 430, "Where the buffers of one rank lie in its arena, and when")
    p.text(12, 24, f"Rank {number} of 8, 16K tokens, forward and backward: every buffer from its first use to its last", 12,
           bold=True)
    left, top, wide, high = 76, 44, 660, 320
    most, last = rank["arena_bytes"], max(end for _, _, end in lives)
    for buffer, begin, end in lives:
        x, y = left + wide * begin / last, top + high * (1 - (buffer["offset"] + buffer["bytes"]) / most)
        width, height = wide * (end - begin) / last, high * buffer["bytes"] / most
        p.box(x, y, width, height, CATEGORIES[buffer["category"]], "#ffffff")
        if height > 9:
            p.text(x + 4, y + min(height - 3, height / 2 + 4), f"{buffer['name']} {buffer['bytes'] / 2**20:g}",
                   9 if height > 12 else 8, fill="#ffffff" if buffer["category"] == "working" else INK)
        p.say(f"{buffer['name']}: {buffer['bytes'] / 2**20:g} MiB")
    turn = done["phases"][0]["time_s"]
    p.line(left + wide * turn / last, top, left + wide * turn / last, top + high + 6, INK, 1, "4 3")
    p.text(left + wide * turn / last, top + high + 20, "every rank is through the forward", 10, "middle")
    p.line(left, top + high, left + wide, top + high)
    for mark in range(0, int(most / 2**20) + 1, 32):
        y = top + high * (1 - mark * 2**20 / most)
        p.line(left - 4, y, left, y)
        p.text(left - 8, y + 4, mark, 9, "end")
    p.text(22, top + high / 2, "offset in the arena (MiB)", 10, "middle", turn=-90)
    p.text(left, top + high + 20, "0", 10)
    p.text(left + wide, top + high + 20, f"{last * 1e3:.2f} ms", 10, "end")
    for n, (category, color) in enumerate(CATEGORIES.items()):
        p.box(left + n * 90, 404, 10, 10, color)
        p.text(left + n * 90 + 15, 413, category, 10)
    p.text(left + 290, 413, f"peak {done['peak_bytes'] / 2**20:g} MiB, arena {most / 2**20:g} MiB", 10, bold=True)
    p.say(f"peak {done['peak_bytes'] / 2**20:g} MiB")
    p.save("lesson-memory")


def main():
    draw_plan()
    draw_race()
    draw_memory()


if __name__ == "__main__":
    main()
