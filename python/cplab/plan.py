"""Plans written in Python, in the words of the builder: buffers, views, attend, exchange, merge."""
import json

from . import _cplab, commands
from .rows import Rows, runs_of

WIDE, NOMINAL = "wide", "nominal"
_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp64": 8}


def compute(index=0):
    """A lane for kernels: what is on one lane runs in its order."""
    return {"kind": "compute", "index": index}


def comm(index=0):
    """A lane for messages."""
    return {"kind": "comm", "index": index}


def send(view, to):
    """One side of a message: ``to`` is the peer's position in the group."""
    return True, view, to


def receive(view, from_):
    return False, view, from_


class View:
    """A box of a buffer, narrowed axis by axis; ``k`` and ``v`` are the two planes of one that holds both."""

    def __init__(self, buffer, slot, rows, heads, width):
        self.buffer, self._slot, self._rows, self._heads, self._width = buffer, slot, rows, heads, width

    def slot(self, index):
        if not 0 <= index < self.buffer["axes"][0]["size"]:
            raise ValueError(f"{self.name}: slot {index} of {self.buffer['axes'][0]['size']}")
        return View(self.buffer, (index, index + 1), self._rows, self._heads, self._width)

    def rows(self, rows):
        """These rows of the buffer: a Rows, a tile's q_rows or k_rows, or ranges (begin, count, step)."""
        return View(self.buffer, self._slot, [tuple(each) for each in rows], self._heads, self._width)

    def first_rows(self, count):
        return self.rows([(0, count, 1)])

    def heads(self, begin, end):
        return View(self.buffer, self._slot, self._rows, (begin, end), self._width)

    def columns(self, begin, end):
        return View(self.buffer, self._slot, self._rows, self._heads, (begin, end))

    @property
    def k(self):
        return self.columns(0, self._planes())

    @property
    def v(self):
        return self.columns(self._planes(), self.buffer["axes"][3]["size"])

    @property
    def name(self):
        return self.buffer["name"]

    def _planes(self):
        if not self.buffer["planes"]:
            raise ValueError(f"{self.name}: holds one tensor, not keys and values")
        return self.buffer["planes"]

    def count(self):
        return sum(count for _, count, _ in self._rows)

    def elements(self):
        slots, heads, width = (end - begin for begin, end in (self._slot, self._heads, self._width))
        return slots * self.count() * heads * width

    def to_dict(self):
        return {"buffer": self.name, "box": {"slot": list(self._slot), "rows": [list(each) for each in self._rows],
                                             "heads": list(self._heads), "width": list(self._width)}}


class Tile:
    """The work between queries and keys: the rows of either side that take part, and the segments in places of
    these. False if no pair is live."""

    def __init__(self, q_rows, k_rows, segments, pairs):
        self.q_rows, self.k_rows, self.segments, self.pairs = q_rows, k_rows, segments, pairs

    @property
    def q(self):
        """q_rows as a set; ValueError where they lie at another step than 1."""
        return Rows(self.q_rows)

    @property
    def k(self):
        return Rows(self.k_rows)

    def __bool__(self):
        return bool(self.segments)


class Plan:
    """A plan for the problem and the placement of a scenario, whose algorithm is written here instead.

    ``ranks`` holds a :class:`Rank` for each rank of the world; what they are told is the plan. Event edges and
    addresses are derived, unless an operation is given ``after`` or a buffer ``offset``: then all of them are as given.
    """

    def __init__(self, scenario, **options):
        shown = commands.show(scenario, **{"rank": 0, **options})
        self._frame_text = shown.json_text()
        given = shown.to_dict()
        self.scenario, self.groups = given["scenario"], given["groups"]
        self._padding = given["placement_padding_tokens"]
        self.problem, parallel = self.scenario["problem"], self.scenario["parallel"]
        if self.problem["attention"] != "softmax" or any(
                self.problem.get(key) not in (None, "none", 0) for key in ("bias", "sink", "kv_latent")):
            raise ValueError("problem: cplab.Plan writes softmax attention without bias, sink or latent keys")
        self._frame = _cplab.PlanFrame(self._frame_text)
        self.P = parallel["ranks"]
        own = [each for each in given["ranks"][0]["buffers"] if each["category"] in ("input", "output")]
        self._given_edges = self._given_offsets = False
        world = [rank for group in self.groups[:parallel["replicas"]] for rank in group["ranks"]]
        self.ranks = [None] * len(world)
        for replica, group in enumerate(self.groups[:parallel["replicas"]]):
            for position, rank in enumerate(group["ranks"]):
                self.ranks[rank] = Rank(self, rank, replica, position, group, own)

    def runs(self, position, replica=0, keys=False):
        """The token runs that a position of the group holds: (sequence, row, rows, tokens, position, stride, row_step)."""
        return self._frame.runs(replica, position, keys)

    def tile(self, q, k, take="live"):
        """The tile between two lists: token runs, or rows (see ``cplab.rows.runs_of``). ``take``: which rows are in
        it; live, queries (all of them, so that a store defines every row of out), keys, or all."""
        sides = [each if each and isinstance(each[0], tuple) and len(each[0]) == 7 else runs_of(each) for each in (q, k)]
        q_rows, k_rows, segments, pairs = self._frame.tile(*sides, take)
        return Tile(q_rows, k_rows, segments, pairs)

    def plan_dict(self):
        """The plan as ``cplab show --json`` writes one, which every command takes that takes --plan."""
        derive = [] if self._given_edges else ["after"]
        derive += [] if self._given_offsets else ["offset"]
        return {"schema": "cplab.plan.1", "command": "show", "scenario": self.scenario, "derive": derive,
                "placement_padding_tokens": self._padding, "groups": self.groups,
                "ranks": [rank.to_dict(derive) for rank in self.ranks]}

    def to_json(self):
        return json.dumps(self.plan_dict())

    def check(self, **options):
        return commands.check(self, **options)

    def simulate(self, **options):
        return commands.simulate(self, **options)

    def verify(self, **options):
        return commands.verify(self, **options)

    def run(self, **options):
        return commands.run(self, **options)


class Rank:
    """What one rank does, told in program order. The problem's own buffers are there: q, kv, out, lse, and for a
    backward dout, dq, dkv."""

    def __init__(self, plan, rank, replica, position, group, own):
        self.plan, self.rank, self.replica, self.position, self.group = plan, rank, replica, position, group
        self.buffers, self.operations = [], []
        self._phase, self._step, self._ordinal, self._starts = "forward", 0, 0, []
        self.rows = plan._frame.rows(replica, False)
        self.key_rows = plan._frame.rows(replica, True)
        for each in own:
            setattr(self, each["name"], self._add({key: value for key, value in each.items() if key != "offset"}))

    # ---- buffers

    def buffer(self, name, like, role=NOMINAL, slots=1, rows=None, category="working", offset=None, slab=None):
        """A buffer with the heads and columns of the view ``like``, of so many slots and rows (default: its own)."""
        axes = [each["size"] for each in like.buffer["axes"]]
        axes[0], axes[1] = slots, axes[1] if rows is None else rows
        made = {"name": name, "role": role, "category": category, "layout": like.buffer["layout"],
                "axes": [{"name": axis, "size": size} for axis, size in zip(("slot", "rows", "heads", "width"), axes)],
                "planes": like.buffer["planes"]}
        made["bytes"] = axes[0] * axes[1] * axes[2] * axes[3] * self._element_bytes(role)
        if slab is not None:
            made["slab"] = slab
        if offset is not None:
            made["offset"], self.plan._given_offsets = offset, True
        return self._add(made)

    def _add(self, buffer):
        if any(each["name"] == buffer["name"] for each in self.buffers):
            raise ValueError(f"rank {self.rank} has a buffer named {buffer['name']!r} already")
        self.buffers.append(buffer)
        slots, rows, heads, width = (each["size"] for each in buffer["axes"])
        return View(buffer, (0, slots), [(0, rows, 1)], (0, heads), (0, width))

    def _element_bytes(self, role):
        dtype = self.plan.problem["dtype"]
        return _BYTES[dtype] if role == NOMINAL or dtype == "fp64" else 4

    # ---- where what follows stands

    def step(self, number):
        self._step = number

    def phase(self, name):
        self._phase, self._ordinal, self._step = name, 0, 0

    # ---- tiles

    def tile(self, owner, take="live", queries_of=None):
        """Between the queries of this rank (or of position ``queries_of``) and the keys that position ``owner`` holds."""
        queries = self.position if queries_of is None else queries_of
        return self.plan.tile(self.plan.runs(queries, self.replica), self.plan.runs(owner, self.replica, keys=True),
                              take)

    # ---- attention

    def attend(self, tile, q, k, v, out, lse, mode="store", lane=None, **more):
        """``mode="merge"``: into what out and lse hold already."""
        return self._attention("attend", tile, [("q", q), ("k", k), ("v", v)], [("out", out, mode), ("lse", lse, mode)],
                               lane, more)

    def attend_backward(self, tile, q, k, v, dout, lse, delta, dq, dk, dv, dq_mode="store", dk_mode="store", lane=None,
                        **more):
        return self._attention(
            "attend_backward", tile,
            [("q", q), ("k", k), ("v", v), ("dout", dout), ("lse", lse), ("delta", delta)],
            [("dq", dq, dq_mode), ("dk", dk, dk_mode), ("dv", dv, dk_mode)], lane, more)

    def _attention(self, kind, tile, reads, writes, lane, more):
        problem, heads = self.plan.problem, reads[0][1]._heads
        d, e = problem["head_size"], problem["value_size"]
        per_pair = 2 * (d + e) if kind == "attend" else 2 * (3 * d + 2 * e)
        fields = {"value": problem["scale"], "heads": list(heads), "flops": tile.pairs * (heads[1] - heads[0]) * per_pair,
                  "segments": [{"q": [s[0], s[1]], "k": [s[2], s[3]], "offset": s[4], "left": s[5], "right": s[6]}
                               for s in tile.segments]}
        if problem.get("softcap"):
            fields["softcap"] = problem["softcap"]
        return self._emit(kind, reads, writes, lane or compute(), {**fields, **more})

    # ---- operations on rows

    def row_dot(self, dout, out, delta, lane=None, **more):
        return self._emit("row_dot", [("dout", dout), ("out", out)], [("delta", delta, "store")], lane, more)

    def merge(self, part_out, part_lse, out, lse, lane=None, **more):
        """A partial result, normalised by its own lse, into another."""
        return self._emit("merge", [("part_out", part_out), ("part_lse", part_lse)],
                          [("out", out, "merge"), ("lse", lse, "merge")], lane, more)

    def copy(self, from_, into, lane=None, **more):
        return self._emit("copy", [("from", from_)], [("into", into, "store")], lane, more)

    def cast(self, from_, into, lane=None, **more):
        return self._emit("cast", [("from", from_)], [("into", into, "store")], lane, more)

    def add(self, from_, into, lane=None, **more):
        return self._emit("add", [("from", from_)], [("into", into, "add")], lane, more)

    def fill(self, into, value, lane=None, **more):
        return self._emit("fill", [], [("into", into, "store")], lane, {"value": value, **more})

    # ---- communication

    def exchange(self, messages, lane=None, **more):
        """Sends and receives posted together; those of two peers match in order. Without messages there is none."""
        return self.communicate("exchange", messages, lane, **more) if messages else None

    def communicate(self, kind, messages, lane=None, transport=None, **more):
        """Also all_gather, reduce_scatter and all_to_all: for every member of the group a send and a receive. Without
        ``transport`` over what ``schedule.transport`` of the scenario says, if it says nccl, else over copy."""
        if transport is None:
            transport = "nccl" if self.plan.scenario["schedule"].get("transport") == "nccl" else "copy"
        ranks = self.group["ranks"]
        parts = [{"send": sends, "peer": ranks[peer % len(ranks)], "view": view.to_dict()}
                 for sends, view, peer in messages]
        sent = sum(view.elements() * self._element_bytes(view.buffer["role"]) for sends, view, _ in messages if sends)
        return self._emit(kind, [], [], lane or comm(),
                          {"parts": parts, "bytes": sent, "transport": transport, "group": self.group["name"], **more})

    def wait_for_start(self, operation):
        """What comes next begins no sooner than that operation, on another lane, has started."""
        self._starts.append(operation)

    def _emit(self, kind, reads, writes, lane, fields):
        total = sum(self._bytes_of(view) for _, view in reads)
        total += sum(self._bytes_of(view) * (1 if mode == "store" else 2) for _, view, mode in writes)
        operation = {
            "id": f"{self.rank}/{self._phase}/{self._ordinal}", "phase": self._phase, "step": self._step,
            "lane": lane or compute(), "kind": kind, "transport": "nccl", "group": None,
            "reads": [{"operand": name, **view.to_dict()} for name, view in reads],
            "writes": [{"operand": name, **view.to_dict(), "mode": mode} for name, view, mode in writes],
            "parts": [], "segments": [], "heads": [0, 0], "after": [], "after_started": self._starts, "flops": 0,
            "bytes": total}
        self.plan._given_edges |= "after" in fields
        operation.update(fields)
        self._starts, self._ordinal = [], self._ordinal + 1
        self.operations.append(operation)
        return operation["id"]

    def _bytes_of(self, view):
        return view.elements() * self._element_bytes(view.buffer["role"])

    def to_dict(self, derive):
        named = {view["buffer"] for operation in self.operations
                 for view in operation["reads"] + operation["writes"] + [part["view"] for part in operation["parts"]]}
        buffers = [each for each in self.buffers if each["name"] in named or each["category"] in ("input", "output")]
        made = {"rank": self.rank, "replica": self.replica, "position": self.position, "buffers": buffers,
                "operations": [{key: value for key, value in each.items() if key != "after" or "after" not in derive}
                               for each in self.operations]}
        if "offset" not in derive:
            made["arena_bytes"] = max(each["offset"] + each["bytes"] for each in buffers)
        return made
