#!/usr/bin/env python3
"""Passes CTest's output on as it comes, and before the summary at its end says what took longest: ten tests, of all
tests of the run and of those that ran inside one (the sanitizers'), and ten steps of the build.

    ctest --preset release | scripts/longest.py build/release [MORE_BUILD_FOLDERS]

CTest keeps the seconds of its tests in FOLDER/Testing/Temporary/CTestCostData.txt, Ninja those of its steps in
FOLDER/.ninja_log; both are read here, as the output of a test that passes is not shown.
"""
import pathlib
import re
import sys

SHOWN = 10


def test_seconds(folder):
    """{test: seconds of its last run}"""
    seconds = {}
    try:
        lines = (folder / "Testing/Temporary/CTestCostData.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        return seconds
    for line in lines:
        if line == "---":
            break
        name, _, cost = line.rsplit(" ", 2)
        seconds[f"{folder.name}: {name}"] = float(cost)
    return seconds


def step_seconds(folder):
    """{file: seconds of the step that made it}; of a step that made several files the first."""
    seconds, steps = {}, {}
    try:
        lines = (folder / ".ninja_log").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return seconds
    for line in lines:
        begin, end, _, output, command = line.split("\t")
        if output.endswith(".ninja") or "/" not in output:
            continue
        first = steps.setdefault((begin, end, command), output)
        seconds[f"{folder.name}: {first.replace('CMakeFiles/', '')}"] = (int(end) - int(begin)) / 1000
    return seconds


def longest(seconds, what):
    if not seconds:
        return []
    lines = [f"longest {what}, of {len(seconds)} that took {sum(seconds.values()):.0f} s together:"]
    for name, taken in sorted(seconds.items(), key=lambda item: -item[1])[:SHOWN]:
        lines.append(f"{taken:9.1f} s  {name}")
    return lines


def main(folders):
    held = []  # from a summary on, until it turns out that a test printed it
    for line in sys.stdin:
        if re.match(r"\d+% tests passed", line) or (held and not re.match(r" *\d+/\d+ Test +#", line)):
            held.append(line)
            continue
        sys.stdout.write("".join(held) + line)
        sys.stdout.flush()
        held = []
    tests, steps = {}, {}
    for folder in map(pathlib.Path, folders):
        tests.update(test_seconds(folder))
        steps.update(step_seconds(folder))
    said = longest(tests, "tests") + longest(steps, "steps of the build")
    sys.stdout.write("".join(line + "\n" for line in said) + "".join(held))


if __name__ == "__main__":
    main(sys.argv[1:])
