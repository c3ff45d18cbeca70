#!/usr/bin/env python3
"""What `cplab simulate SCENARIO --algorithms all` says, as a markdown table on stdout.

    scripts/families.py SCENARIO [COLUMN,...]      such as families-8, from the root; the program is $CPLAB

Of the placements only the scenario's own, and of strides one contiguous as published. Rows that may be the fastest (their
band reaches down into the band of the row with the least time) are marked * and come first, both groups in the order of
`cplab list`, so no order says who wins. What refuses the scenario has the reason as its row. Exposed communication is of
the rank that has most of it; imbalance is the longest compute of a rank over the mean.
"""
import json
import os
import subprocess
import sys

PROGRAM = os.environ.get("CPLAB", "build/release/cplab")


def fail(message):
    sys.exit(f"families.py: {message}")


def result_of(*arguments):
    try:
        done = subprocess.run([PROGRAM, *arguments, "--json", "-", "--quiet"], capture_output=True, text=True, check=False)
    except OSError as error:
        fail(error)
    return json.loads(done.stdout) if done.returncode == 0 else fail(done.stderr.strip())


def ms(seconds):
    return f"{seconds * 1e3:.1f}" if seconds * 1e3 >= 10 else f"{seconds * 1e3:.2f}"


def gib(count):
    return f"{count / 2**30:.2f}"


def binds(row):
    """Shares of the chain that ends last, the largest first, down to a twentieth."""
    shares = sorted(row["chain"].items(), key=lambda item: -item[1])
    return ", ".join(f"{use.replace('_', ' ')} {share:.0%}".replace("%", " %") for use, share in shares if share >= 0.05)


COLUMNS = {
    "time": ("time (ms)", lambda r: ms(r["time_s"])),
    "low": ("low", lambda r: ms(r["low_s"])),
    "high": ("high", lambda r: ms(r["high_s"])),
    "wait": ("exposed: wait (ms)", lambda r: ms(r["exposed_wait_s"])),
    "transfer": ("transfer (ms)", lambda r: ms(r["exposed_transfer_s"])),
    "sent": ("sent (GiB)", lambda r: gib(r["sent_bytes"])),
    "peak": ("peak (GiB)", lambda r: gib(r["peak_bytes"])),
    "imbalance": ("imbalance", lambda r: f"{r['imbalance']:.2f}"),
    "binds": ("what binds", binds),
}


def shown(row, placement):
    return row["placement"] == placement or (row["placement"] == "contiguous" and row["options"].get("head_stride") == "1")


def text_of(row, placement):
    options = [value if key == "inner_order" else f"{key}={value}" for key, value in row["options"].items()]
    return " ".join([f"`{row['algorithm']}`", *options, *([] if row["placement"] == placement else [row["placement"]])])


def in_listed_order(rows, names):
    """As `cplab list` has the algorithms; of one, by order of teams, own placement first, then by size."""
    def key(row):
        options = row["options"]
        sizes = int(options.get("inner_ranks", options.get("head_stride", 0)))
        return names.index(row["algorithm"]), options.get("inner_order", ""), row["placement"] == "contiguous", sizes
    return sorted(rows, key=key)


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        fail(__doc__.split("\n\n")[1].strip())
    columns = arguments[1].split(",") if len(arguments) == 2 else list(COLUMNS)
    for column in columns:
        if column not in COLUMNS:
            fail(f"no column {column}; legal: {', '.join(COLUMNS)}")
    table = result_of("simulate", arguments[0], "--algorithms", "all")
    placement = table["scenario"]["parallel"]["placement"]
    listed = [each["name"] for each in result_of("list", "algorithms")["algorithms"]
              if placement in each["placements"]]
    mine = {kind: in_listed_order([row for row in table[kind] if row["algorithm"] in listed and shown(row, placement)],
                                  listed) for kind in ("rows", "refused")}
    print("| | algorithm | " + " | ".join(COLUMNS[column][0] for column in columns) + " |")
    print("| --- | --- |" + "".join(" :--- |" if column == "binds" else " ---: |" for column in columns))
    for mark in (True, False):
        for row in mine["rows"]:
            if row["may_be_fastest"] == mark:
                cells = [COLUMNS[column][1](row) for column in columns]
                print("| " + " | ".join(["\\*" if mark else "", text_of(row, placement), *cells]) + " |")
    for row in mine["refused"]:
        print(f"| | {text_of(row, placement)} | " + row["reason"] + " |" * len(columns))


if __name__ == "__main__":
    main(sys.argv[1:])
