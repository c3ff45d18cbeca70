#!/usr/bin/env python3
"""Predicted and measured side by side over sequence lengths and rank counts, as a markdown table on stdout.

    plots/compare.py DIR                 DIR/compare-S65536-P4.json, ...: what cplab compare --json wrote
    plots/compare.py DIR --peers FILE... beside what other tools measured on the same problems
    plots/compare.py                     this text (scripts/figures.sh runs every script here)

FILE: what scripts/peer_context_parallel.py writes, one for each rank count. A column for each of its rotate
methods holds the rows of the same sequence, ranks and direction; a row that could not be run is "failed".
S is the longest sequence. Errors are predicted / measured - 1, exposed communication is the mean over ranks.
"""
import argparse
import json
import re
import sys
from pathlib import Path

COLUMNS = ["S", "P", "predicted (ms)", "measured (ms)", "error (%)", "forward (%)", "backward (%)",
           "exposed, predicted (ms)", "exposed, measured (ms)",
           "peak, predicted (GiB)", "peak, measured (GiB)"]


def fail(message):
    sys.exit(f"compare.py: {message}")


def load(path):
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{path}: {error}")


def read_comparisons(folder):
    """{(tokens, ranks): result} of the files in `folder`, in order."""
    found = {}
    for path in Path(folder).glob("compare-S*-P*.json"):
        match = re.fullmatch(r"compare-S(\d+)-P(\d+)\.json", path.name)
        if not match:
            continue
        size = int(match[1]), int(match[2])
        result = load(path)
        if result.get("schema") != "cplab.compare.1":
            fail(f"{path}: no result of cplab compare")
        inside = tokens_of(result["scenario"]["problem"]), result["scenario"]["parallel"]["ranks"]
        if inside != size:
            fail(f"{path}: holds {inside[0]} tokens on {inside[1]} ranks")
        found[size] = result
    if not found:
        fail(f"{folder}: no compare-S<tokens>-P<ranks>.json in it")
    return dict(sorted(found.items()))


def tokens_of(problem):
    return problem["sequence"] if "sequence" in problem else max(problem["lengths"])


def read_peers(paths, comparisons):
    """{column: {(tokens, ranks, direction): text}}; fails for a peer that measured another problem."""
    peers = {}
    for path in paths:
        peer = load(path)
        try:
            if peer["schema"] != "cplab.peer.1":
                fail(f"{path}: no result of scripts/peer_context_parallel.py")
            for result in comparisons.values():
                expect_same(path, peer["problem"], result["scenario"]["problem"])
            for row in peer["rows"]:
                cells = peers.setdefault(f"{peer['peer']}, {row['rotate']} (ms)", {})
                text = "failed" if "error" in row else ms(row["time_s"])
                cells[row["sequence"], row["ranks"], row["direction"]] = text
        except (KeyError, TypeError) as error:
            fail(f"{path}: {error!r} in a result of scripts/peer_context_parallel.py")
    return peers


def expect_same(path, theirs, ours):
    for key in ("batch", "heads", "head_size", "dtype", "mask"):
        if theirs[key] != ours.get(key):
            fail(f"{path}: {key} is {theirs[key]}, in the comparisons {ours.get(key)}")
    if ours["kv_heads"] != ours["heads"] or ours["value_size"] != ours["head_size"]:
        fail(f"{path}: measured with as many key heads as query heads and one head size, the comparisons not")


def ms(seconds):
    return "-" if seconds is None else f"{seconds * 1e3:.3f}"


def percent(error):
    return "-" if error is None else f"{error * 100:+.1f}"


def gib(count):
    return f"{count / 2**30:.2f}"


def cells_of(size, result):
    segments = {segment["name"]: segment for segment in result["segments"]}
    predicted, measured = result["predicted"], result["measured"]
    exposed = segments["exposed_communication"]
    return [
        *map(str, size),
        ms(predicted["time_s"]),
        ms(measured["time_s"]),
        percent(result["time_error"]),
        *(percent(segments[name]["error"]) if name in segments else "-" for name in ("forward", "backward")),
        ms(exposed["predicted_s"]),
        ms(exposed["measured_s"]),
        gib(predicted["peak_bytes"]),
        gib(measured["peak_bytes"]),
    ]


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("folder", nargs="?", help="of compare-S<tokens>-P<ranks>.json")
    parser.add_argument("--peers", metavar="FILE", nargs="+", default=[], help="what other tools measured")
    options = parser.parse_args()
    if not options.folder:
        parser.print_help(sys.stderr)
        return
    comparisons = read_comparisons(options.folder)
    peers = read_peers(options.peers, comparisons)
    rows = [[*COLUMNS, *peers]]
    rows.append(["---:"] * len(rows[0]))
    for size, result in comparisons.items():
        direction = result["scenario"]["problem"]["direction"]
        rows.append(cells_of(size, result) + [cells.get((*size, direction), "-") for cells in peers.values()])
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
