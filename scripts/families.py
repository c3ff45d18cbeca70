#!/usr/bin/env python3
"""One problem under every algorithm, simulated: a markdown table on stdout.

    scripts/families.py SCENARIO [COLUMN,...]      such as families-8, from the root; the program is $CPLAB

The rows: every algorithm of `cplab list` that knows the scenario's placement, with default options, and besides, some
choices: strides of 1 and 2 key heads, one of them contiguous as published; two levels with every inner_ranks between 1
(that is ring) and all ranks (that is all_to_all), usp in both orders. An algorithm that refuses the scenario has the
reason as its row.

A row is marked * whose band reaches down into the band of the row with the least time: which of the marked is the
fastest is not known. Marked rows come first, both groups in the order of `cplab list`, so no order says who wins.
Exposed communication is of the rank that has most of it; imbalance is the longest compute of a rank over the mean.
"""
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

PROGRAM = os.environ.get("CPLAB", "build/release/cplab")


def fail(message):
    sys.exit(f"families.py: {message}")


def result_of(*arguments):
    """The result as JSON, or what the program says against it."""
    try:
        done = subprocess.run([PROGRAM, *arguments, "--json", "-", "--quiet"], capture_output=True, text=True, check=False)
    except OSError as error:
        fail(error)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()


def simulated(scenario, row):
    words = {"algorithm": "parallel", "placement": "parallel"}
    sets = [f"--set={words.get(key, 'schedule')}.{key}={value}" for key, value in row.items()]
    return result_of("simulate", scenario, *sets)


def rows_of(algorithm, options, ranks):
    """The choices of one algorithm that the table shows."""
    if "head_stride" in options:
        return [{"algorithm": algorithm, **more} for more in
                ({"head_stride": 1}, {"head_stride": 2}, {"head_stride": 1, "placement": "contiguous"})]
    if "inner_ranks" in options:
        orders = options["inner_order"]["legal"] if "inner_order" in options else [None]
        return [{"algorithm": algorithm, "inner_ranks": inner, **({"inner_order": order} if order else {})}
                for order in orders for inner in range(2, ranks) if ranks % inner == 0]
    return [{"algorithm": algorithm}]


def ms(seconds):
    return f"{seconds * 1e3:.1f}" if seconds * 1e3 >= 10 else f"{seconds * 1e3:.2f}"


def gib(count):
    return f"{count / 2**30:.2f}"


def worst(result):
    return max(result["ranks"], key=lambda rank: rank["exposed_communication_s"])


def imbalance(result):
    compute = [rank["compute_s"] for rank in result["ranks"]]
    return max(compute) * len(compute) / sum(compute)


def binds(result):
    """Shares of the chain that ends last, the largest first, down to a twentieth."""
    shares = sorted(result["chain"].items(), key=lambda item: -item[1])
    return ", ".join(f"{use.replace('_', ' ')} {share:.0%}".replace("%", " %") for use, share in shares if share >= 0.05)


COLUMNS = {
    "time": ("time (ms)", lambda r: ms(r["time_s"])),
    "low": ("low", lambda r: ms(r["low_s"])),
    "high": ("high", lambda r: ms(r["high_s"])),
    "wait": ("exposed: wait (ms)", lambda r: ms(worst(r)["exposed_wait_s"])),
    "transfer": ("transfer (ms)", lambda r: ms(worst(r)["exposed_transfer_s"])),
    "sent": ("sent (GiB)", lambda r: gib(max(rank["sent_bytes"] for rank in r["ranks"]))),
    "peak": ("peak (GiB)", lambda r: gib(r["peak_bytes"])),
    "imbalance": ("imbalance", lambda r: f"{imbalance(r):.2f}"),
    "binds": ("what binds", binds),
}


def text_of(row):
    return " ".join([f"`{row['algorithm']}`", *(str(value) if key in ("placement", "inner_order") else f"{key}={value}"
                                                for key, value in row.items() if key != "algorithm")])


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0].startswith("-"):
        fail(__doc__.split("\n\n")[1].strip())
    columns = arguments[1].split(",") if len(arguments) == 2 else list(COLUMNS)
    for column in columns:
        if column not in COLUMNS:
            fail(f"no column {column}; legal: {', '.join(COLUMNS)}")
    scenario = arguments[0]
    plain = result_of("check", scenario)
    if isinstance(plain, str):
        fail(plain)
    rows = []
    for algorithm in result_of("list", "algorithms")["algorithms"]:
        if plain["scenario"]["parallel"]["placement"] not in algorithm["placements"]:
            continue  # such as those for linear attention, which have no zigzag
        options = {option["key"]: option for option in algorithm["options"]}
        rows += rows_of(algorithm["name"], options, plain["scenario"]["parallel"]["ranks"])
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda row: simulated(scenario, row), rows))
    done = [(row, result) for row, result in zip(rows, results) if isinstance(result, dict)]
    if not done:
        fail(results[0])
    high = min((result for _, result in done), key=lambda result: result["time_s"])["high_s"]
    print("| | algorithm | " + " | ".join(COLUMNS[column][0] for column in columns) + " |")
    print("| --- | --- |" + "".join(" :--- |" if column == "binds" else " ---: |" for column in columns))
    for mark in ("*", ""):
        for row, result in done:
            if (result["low_s"] <= high) == bool(mark):
                cells = [COLUMNS[column][1](result) for column in columns]
                print("| " + " | ".join([mark and "\\*", text_of(row), *cells]) + " |")
    for row, result in zip(rows, results):
        if isinstance(result, str):
            print(f"| | {text_of(row)} | " + result.splitlines()[-1] + " |" * len(columns))


if __name__ == "__main__":
    main(sys.argv[1:])
