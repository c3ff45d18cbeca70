#!/usr/bin/env python3
"""Predicted and measured side by side over sequence lengths and rank counts, as a markdown table on stdout.

    plots/compare.py DIR                 DIR/compare-S65536-P4.json, ...: what cplab compare --json wrote
    plots/compare.py DIR --beside DIR2   rows of DIR; columns named "beside.error" and so on are of DIR2
    plots/compare.py DIR --peers FILE... beside what other tools measured on the same problems
    plots/compare.py DIR --summary       mean, median and largest |error|, ours and the null model's; bytes by
                                         which peak memory is off, of the rank where it is off most
    plots/compare.py                     this text (scripts/figures.sh runs every script here)

FILE: what scripts/peer_context_parallel.py writes, one for each rank count. A column for each of its rotate
methods holds the rows of the same sequence, ranks and direction; a row that could not be run is "failed".
Tokens are of the longest sequence. Errors are predicted / measured - 1, exposed communication is the mean over ranks.
"compute alone" is the error of the null model: compute of the rank that computes longest, as predicted, and nothing else.
"""
import argparse
import json
import re
import statistics
import sys
from pathlib import Path

COLUMNS = ("tokens,ranks,predicted,measured,error,null,forward,backward,exposed_predicted,exposed_measured,"
           "peak_predicted,peak_measured,peers")
FULL = "tokens,ranks,predicted,measured,error,null,forward,backward,exposed_predicted,exposed_measured,peer"
BRIEF = "tokens,ranks,predicted,measured,error,null,peer"


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


def tokens_text(count):
    return f"{count // 1024}K" if count % 1024 == 0 else str(count)


def segment(result, name, key):
    return next((each[key] for each in result["segments"] if each["name"] == name), None)


# Of a comparison: title, cell.
CELLS = {
    "predicted": ("predicted (ms)", lambda r: ms(r["predicted"]["time_s"])),
    "measured": ("measured (ms)", lambda r: ms(r["measured"]["time_s"])),
    "error": ("error (%)", lambda r: percent(r["time_error"])),
    "null": ("compute alone (%)", lambda r: percent(r["compute_alone_error"])),
    "forward": ("forward (%)", lambda r: percent(segment(r, "forward", "error"))),
    "backward": ("backward (%)", lambda r: percent(segment(r, "backward", "error"))),
    "exposed_predicted": ("exposed, predicted (ms)", lambda r: ms(segment(r, "exposed_communication", "predicted_s"))),
    "exposed_measured": ("exposed, measured (ms)", lambda r: ms(segment(r, "exposed_communication", "measured_s"))),
    "peak_predicted": ("peak, predicted (GiB)", lambda r: gib(r["predicted"]["peak_bytes"])),
    "peak_measured": ("peak, measured (GiB)", lambda r: gib(r["measured"]["peak_bytes"])),
}


def columns_of(names, comparisons, beside, peers):
    """(title, {size: cell}) of each column; "peers" are all of them, "peer" the first."""
    for name in names:
        source, plain = (beside, name[len("beside."):]) if name.startswith("beside.") else (comparisons, name)
        if name == "tokens":
            yield "tokens", {size: tokens_text(size[0]) for size in comparisons}
        elif name == "ranks":
            yield "GPUs", {size: str(size[1]) for size in comparisons}
        elif name in ("peers", "peer"):
            for title, cells in list(peers.items())[:None if name == "peers" else 1]:
                yield title if name == "peers" else f"{title.split()[0].rstrip(',')} (ms)", {size: cells.get((*size, result["scenario"]["problem"]["direction"]), "-")
                              for size, result in comparisons.items()}
        elif plain in CELLS and source is not None:
            title, cell = CELLS[plain]
            if source is beside:
                title = f"{next(iter(beside.values()))['scenario']['schedule']['transport']}: {title}"
            yield title, {size: cell(r) for size, r in source.items()}
        else:
            fail(f"no column {name}; legal: tokens, ranks, peer, peers, {', '.join(CELLS)}, and with --beside "
                 "these with beside. before them")


def print_table(rows):
    rows.insert(1, ["---:"] * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def print_summary(comparisons):
    """A line for each rank count, and one for all with several ranks."""
    counts = sorted({ranks for _, ranks in comparisons})
    several = [count for count in counts if count > 1]
    groups = [[count] for count in counts] + ([several] if len(several) > 1 else [])
    rows = [["GPUs", "runs", *(f"{whose}: {what} (%)" for whose in ("error", "compute alone")
                               for what in ("mean", "median", "largest")), "peak memory: largest (bytes)"]]
    for group in groups:
        some = [result for (_, ranks), result in comparisons.items() if ranks in group]
        row = [", ".join(map(str, group)), str(len(some))]
        for key in ("time_error", "compute_alone_error"):
            sizes = [abs(result[key]) * 100 for result in some]
            row += [f"{value:.2f}" for value in (statistics.mean(sizes), statistics.median(sizes), max(sizes))]
        rows.append([*row, str(max(abs(result["rank_memory_error_bytes"]) for result in some))])
    print_table(rows)


def main():
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("folder", nargs="?", help="of compare-S<tokens>-P<ranks>.json")
    parser.add_argument("--beside", metavar="DIR2", help="of the same runs over another link")
    parser.add_argument("--peers", metavar="FILE", nargs="+", default=[], help="what other tools measured")
    parser.add_argument("--columns", default=COLUMNS, help=f"default: {COLUMNS}; full: {FULL}; brief: "
                        f"{BRIEF}")
    parser.add_argument("--ranks", help="these rank counts only: 1,4")
    parser.add_argument("--summary", action="store_true", help="sizes of errors instead of rows")
    options = parser.parse_args()
    if not options.folder:
        parser.print_help(sys.stderr)
        return
    comparisons = read_comparisons(options.folder)
    if options.ranks:
        wanted = [int(ranks) for ranks in options.ranks.split(",")]
        comparisons = {size: result for size, result in comparisons.items() if size[1] in wanted}
    if options.summary:
        print_summary(comparisons)
        return
    beside = read_comparisons(options.beside) if options.beside else None
    names = {"full": FULL, "brief": BRIEF}.get(options.columns, options.columns).split(",")
    columns = list(columns_of(names, comparisons, beside, read_peers(options.peers, comparisons)))
    print_table([[title for title, _ in columns],
                 *([cells.get(size, "-") for _, cells in columns] for size in comparisons)])


if __name__ == "__main__":
    main()
