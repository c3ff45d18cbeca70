"""Plans as `cplab show --json` writes them: their views, what messages carry, and who holds whose rows when."""
from collections import defaultdict, deque

BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def ranges(box):
    """Row numbers of a view's box."""
    return [row for begin, count, stride in box["rows"] for row in range(begin, begin + count * stride, stride)]


def forward(rank):
    return [op for op in rank["operations"] if op["phase"] == "forward"]


def sends(rank):
    """(operation, part) of every message that the rank sends to another in the forward."""
    return [(op, part) for op in forward(rank) for part in op["parts"] if part["send"] and part["peer"] != rank["rank"]]


def bytes_of(plan, rank, view):
    """Wire bytes of a view."""
    role = next(b["role"] for b in rank["buffers"] if b["name"] == view["buffer"])
    box = view["box"]
    numbers = len(ranges(box))
    for axis in ("slot", "heads", "width"):
        numbers *= box[axis][1] - box[axis][0]
    dtype = plan["scenario"]["problem"]["dtype"]
    return numbers * (BYTES[dtype] if role == "nominal" else max(BYTES[dtype], 4))


class Walk:
    """Runs the forward of a plan over labels in place of numbers: a slot of a buffer holds the set of ranks whose rows
    or states came into it. `seen` lists (rank, operation, what its operand holds) of attend, and of each receive."""

    def __init__(self, plan, first):
        """first(rank): {(buffer, slot): set} that the rank begins with."""
        self.ranks = {rank["rank"]: deque(forward(rank)) for rank in plan["ranks"]}
        self.held = {rank: dict(first(rank)) for rank in self.ranks}
        self.wire = defaultdict(deque)  # (from, to) -> sets on their way
        self.posted = set()
        self.seen, self.received = [], []
        while any(self.ranks.values()):
            moved = [self.step(rank) for rank in self.ranks]
            if not any(moved):
                raise SystemExit("the plan's forward does not end")

    @staticmethod
    def slot(view):
        return view["buffer"], view["box"]["slot"][0]

    def get(self, rank, view):
        return self.held[rank].get(self.slot(view), frozenset())

    def step(self, rank):
        """True if the rank's next operation could be done."""
        if not self.ranks[rank]:
            return False
        op = self.ranks[rank][0]
        if op["parts"] and not self.exchange(rank, op):
            return False
        self.compute(rank, op)
        self.ranks[rank].popleft()
        return True

    def exchange(self, rank, op):
        if op["id"] not in self.posted:
            self.posted.add(op["id"])
            for part in op["parts"]:
                if part["send"]:
                    self.wire[rank, part["peer"]].append(self.get(rank, part["view"]))
        receives = [part for part in op["parts"] if not part["send"]]
        if any(not self.wire[part["peer"], rank] for part in receives):
            return False
        for part in receives:
            what = self.wire[part["peer"], rank].popleft()
            self.held[rank][self.slot(part["view"])] = what
            self.received.append((rank, op, part["peer"], what))
        return True

    def compute(self, rank, op):
        if op["kind"] == "state":
            self.held[rank][self.slot(op["writes"][0])] = frozenset([rank])
        elif op["kind"] == "copy":
            self.held[rank][self.slot(op["writes"][0])] = self.get(rank, op["reads"][0])
        elif op["kind"] == "combine":
            into = self.slot(op["writes"][0])
            self.held[rank][into] = self.held[rank][into] | self.get(rank, op["reads"][0])
        elif op["kind"] == "attend":
            keys = next(read for read in op["reads"] if read["operand"] == "k")
            self.seen.append((rank, op, self.get(rank, keys)))
