#!/usr/bin/env python3
"""Fits the parameters of `cplab reproduce lasp-throughput` that say "fitted", on the rows of its first table alone.

    scripts/fit_lasp_throughput.py            from the root; the program is $CPLAB

Nelder and Mead's simplex over the logarithms of the parameters, from the values of the file; the smallest sum of
squared log(ours / published). Prints the values, for scenarios/published/lasp-throughput.toml; changes no file.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(os.environ.get("CPLAB", "build/release/cplab"))
SCENARIO = "published/lasp-throughput.toml"
ROUNDS = 150


def parameters_of(text):
    """Name -> value of those that are fitted."""
    found = re.findall(r"\[published\.parameter\.(\w+)\]\nvalue = (\S+)\norigin = \"(\w+)\"", text)
    return {name: float(value) for name, value, origin in found if origin == "fitted"}


def with_values(text, values):
    for name, value in values.items():
        text = re.sub(rf"(\[published\.parameter\.{name}\]\nvalue = )\S+", rf"\g<1>{value:.6e}", text)
    return text


def rows_of(folder, text):
    with open(os.path.join(folder, SCENARIO), "w", encoding="utf-8") as file:
        file.write(text)
    done = subprocess.run([PROGRAM, "reproduce", "lasp-throughput", "--json", "-", "--quiet"], capture_output=True, text=True,
                          check=False, env={**os.environ, "CPLAB_SCENARIOS": folder})
    if done.returncode != 0:
        sys.exit(f"fit_lasp_throughput.py: {done.stderr.strip()}")
    rows = json.loads(done.stdout)["rows"]
    first = rows[0]["label"].split(",")[0]
    return [row for row in rows if row["label"].startswith(first + ",")]


def simplex(cost, start, rounds):
    """The best of `rounds` steps from `start`, each coordinate first moved by a third."""
    points = [(cost(start), start)]
    for i in range(len(start)):
        moved = start[:i] + [start[i] + 0.3] + start[i + 1:]
        points.append((cost(moved), moved))
    for _ in range(rounds):
        points.sort(key=lambda point: point[0])
        worst_cost, worst = points[-1]
        centre = [sum(point[i] for _, point in points[:-1]) / (len(points) - 1) for i in range(len(start))]

        def along(factor, centre=centre, worst=worst):
            point = [c + factor * (c - w) for c, w in zip(centre, worst)]
            return cost(point), point

        reflected = along(1)
        if reflected[0] < points[0][0]:
            points[-1] = min(reflected, along(2))
        elif reflected[0] < points[-2][0]:
            points[-1] = reflected
        else:
            nearer = along(0.5 if reflected[0] < worst_cost else -0.5)
            if nearer[0] < min(worst_cost, reflected[0]):
                points[-1] = nearer
            else:
                best = points[0][1]
                points[1:] = [(cost(p), p) for p in ([(a + b) / 2 for a, b in zip(best, point)] for _, point in points[1:])]
    return min(points)


def main():
    if len(sys.argv) != 1:
        sys.exit(__doc__.strip())
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "scenarios")
    with open(os.path.join(root, SCENARIO), encoding="utf-8") as file:
        text = file.read()
    names, start = zip(*parameters_of(text).items())
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "published"))
        os.symlink(os.path.abspath(os.path.join(root, "hardware")), os.path.join(folder, "hardware"))

        def cost(point):
            values = dict(zip(names, map(math.exp, point)))
            return sum(math.log(row["ours"] / row["published"]) ** 2 for row in rows_of(folder, with_values(text, values)))

        best_cost, best = simplex(cost, [math.log(value) for value in start], ROUNDS)
        for name, value in zip(names, best):
            print(f"{name} = {math.exp(value):.3g}")
        print(f"rms log error {math.sqrt(best_cost / len(rows_of(folder, text))):.4f}")


if __name__ == "__main__":
    main()
