"""Results and traces of cplab as lanes of operations, for the scripts that draw them."""
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Slice:
    """One operation; seconds."""

    start: float
    end: float
    wait: float
    communicates: bool
    phase: str
    label: str


@dataclass
class Rank:
    lanes: dict = field(default_factory=dict)  # (kind, index) -> [Slice]
    memory: list = field(default_factory=list)  # (seconds, {category: bytes})


def lane_order(lane):
    return ["compute", "comm", "copy", "host"].index(lane[0]), lane[1]


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def load(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}")


def read_trace(place):
    """{rank: Rank} of a trace of all ranks, or of a folder of rank*_trace.json."""
    paths = [place] if Path(place).is_file() else sorted(Path(place).glob("rank*_trace.json"))
    ranks, lanes = {}, {}
    for event in (event for path in paths for event in load(path)["traceEvents"]):
        rank, track = ranks.setdefault(event["pid"], Rank()), (event["pid"], event["tid"])
        if event["ph"] == "M" and event["name"] == "thread_name":
            words = event["args"]["name"].split()
            if len(words) == 2:  # else a track beside a lane
                lanes[track] = (words[0], int(words[1]))
        elif event["ph"] == "X" and event["cat"] != "wait":
            args, start = event["args"], event["ts"] * 1e-6
            communicates = event["name"].startswith(("nccl", "Memcpy PtoP"))
            label = str(args["step"]) if event["name"].startswith("attend") else ""
            end = start + event["dur"] * 1e-6
            slice_ = Slice(start, end, args["wait_s"], communicates, args["phase"], label)
            rank.lanes.setdefault(lanes[track], []).append(slice_)
        elif event["ph"] == "C" and event["name"] == "live bytes":
            rank.memory.append((event["ts"] * 1e-6, event["args"]))
    if not ranks:
        fail(f"{place}: no rank*_trace.json in it")
    return ranks


def read_operations(path, result):
    """{rank: Rank} of a JSON result with --operations."""
    if "operations" not in result:
        fail(f"{path}: no operations in it (simulate --operations writes them)")
    collectives = {"exchange", "all_gather", "reduce_scatter", "all_to_all", "all_reduce", "barrier"}
    ranks = {}
    for op in result["operations"]:
        lane = (op["lane"]["kind"], op["lane"]["index"])
        phase = op["id"].split("/")[1]
        slice_ = Slice(op["start_s"], op["end_s"], op["wait_s"], op["kind"] in collectives, phase, "")
        ranks.setdefault(op["rank"], Rank()).lanes.setdefault(lane, []).append(slice_)
    return ranks
