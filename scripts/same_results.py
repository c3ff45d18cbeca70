#!/usr/bin/env python3
"""Are the results of two builds the same? Runs a list of commands with both programs and compares what they print and
the JSON that they write, but for what names the build.

    scripts/same_results.py OLD NEW [--added KEY ...] [--scenarios DIR]

OLD, NEW   the two programs (build/release/cplab of two checkouts)
--added    keys that the new program's JSON may have and the old one's does not; they are left out before comparing
           (in "operands", say, the key "operand" of every access)
Exit code: 0 the same, 1 something differs (the first differences are printed).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

SCENARIOS = ["ring", "ring-small", "ring-64", "packed", "ring-h200", "published/te-p2p-memory", "faults/packed-odd",
             "faults/ring", "faults/many-merges"]
OPTIONS = ["kv_slots=3", 'kv_slots="all"', "compute_lanes=1", 'merge="fused"', 'merge="deferred"',
           'tile_inputs="copy"', 'transport="copy"', 'gradient_wire_dtype="nominal"', "overlap=false"]
FAULTS = ["ring-slot-reuse", "drop-wait", "stale-kv", "dropped-receive", "naive-merge", "identity"]


def commands():
    """Deterministic ones: no command that measures."""
    yield ["list"]
    for scenario in SCENARIOS:
        for command in ("show", "check", "simulate"):
            yield [command, scenario]
    for option in OPTIONS:
        for command in ("show", "check", "simulate", "verify"):
            yield [command, "ring-small", "--set", "schedule." + option]
    for fault in FAULTS:
        yield ["verify", "faults/ring", "--inject", fault]
    yield ["reproduce", "te-p2p-memory"]


def without(value, keys):
    """The JSON value without the given keys, at any depth."""
    if isinstance(value, dict):
        return {k: without(v, keys) for k, v in value.items() if k not in keys}
    if isinstance(value, list):
        return [without(v, keys) for v in value]
    return value


def first_difference(old, new, path=""):
    """Where two JSON values differ, as text; None if nowhere."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in list(old) + [k for k in new if k not in old]:
            if key not in old or key not in new:
                return f"{path}.{key}: only in the {'new' if key in new else 'old'} result"
            found = first_difference(old[key], new[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            found = first_difference(a, b, f"{path}[{i}]")
            if found:
                return found
        return None
    return None if old == new else f"{path}: {str(old)[:60]} became {str(new)[:60]}"


def result(program, command, folder, scenarios):
    file = os.path.join(folder, "result.json")
    if os.path.exists(file):
        os.remove(file)
    environment = dict(os.environ, CPLAB_SCENARIOS=scenarios)
    run = subprocess.run([program, *command, "--json", file], capture_output=True, text=True, env=environment,
                         check=False)
    written = None
    if os.path.exists(file):
        with open(file, encoding="utf-8") as stream:
            written = json.load(stream)
    return run.returncode, run.stdout, written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--added", nargs="*", default=[])
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--scenarios", default=os.path.join(here, "scenarios"))
    arguments = parser.parse_args()
    count = differing = 0
    texts = 0
    with tempfile.TemporaryDirectory() as folder:
        for command in commands():
            count += 1
            old = result(arguments.old, command, folder, arguments.scenarios)
            new = result(arguments.new, command, folder, arguments.scenarios)
            drop = set(arguments.added) | {"versions", "given"}
            found = None
            if old[0] != new[0]:
                found = f"exit code {old[0]} became {new[0]}"
            elif (old[2] is None) != (new[2] is None):
                found = "only one of them writes a result"
            else:
                found = first_difference(without(old[2], drop), without(new[2], drop))
            texts += old[1] != new[1]
            if found:
                differing += 1
                print(f"{' '.join(command)}: {found}")
    print(f"{count} commands, {differing} with other results; the text of {texts} differs")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
