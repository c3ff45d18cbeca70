#!/usr/bin/env python3
"""Every fault of `cplab list faults` on a device: is it found as it says, and do the numbers show it?

    scripts/gpu/faults.py CPLAB [--device gpu] [--seeds N] [--only NAME] [-- OPTIONS OF VERIFY]

Injects each fault that names the device into its own example, once for every seed (of --jitter on a GPU, of --order on
the CPU), and prints a line for each: exit codes, whether the declared finding came, with how many seeds the numbers were
wrong or the execution hung. Faults of a substitute tile are the CPU's. Exit code 1 if a fault was not found as it says.
"""
import argparse
import json
import subprocess
import sys


def verify(arguments, fault, seed):
    how = ["--jitter", str(seed)] if arguments.device == "gpu" else ["--order", f"random:{seed}"]
    command = [arguments.cplab, "verify", fault["scenario"], "--inject", fault["name"], "--device", arguments.device,
               "--timeout", "10", "--json", "-", "--quiet", *how, *arguments.options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    try:
        return done.returncode, json.loads(done.stdout)["findings"]
    except ValueError:
        print(done.stderr.strip(), file=sys.stderr)
        return done.returncode, []


def is_declared(finding, expected):
    return finding["kind"] == expected["kind"] and all(
        expected[key] is None or finding[key] == expected[key] for key in ("rank", "operation"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cplab")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="gpu")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only")
    # What stands behind "--" is cut off here: versions of argparse differ in what they make of it.
    own = sys.argv[1:]
    cut = own.index("--") if "--" in own else len(own)
    arguments = parser.parse_args(own[:cut])
    arguments.options = own[cut + 1:]
    listed = subprocess.run([arguments.cplab, "list", "faults", "--json", "-", "--quiet"], capture_output=True,
                            text=True, check=True)
    missed = 0
    for fault in json.loads(listed.stdout)["faults"]:
        if arguments.device not in fault["devices"] or arguments.only not in (None, fault["name"]):
            continue
        codes, shown, declared = [], 0, True
        for seed in range(1, arguments.seeds + 1):
            code, findings = verify(arguments, fault, seed)
            codes.append(code)
            if fault["expected"] is None:
                declared &= code == 0
            else:
                declared &= code == 1 and any(is_declared(f, fault["expected"]) for f in findings)
            shown += any(f["kind"] == "numerics" or "execution hangs" in f["message"] for f in findings)
        missed += not declared
        print(f"{fault['name']}: exit codes {codes}; {'as declared' if declared else 'NOT AS DECLARED'}; "
              f"shown by the execution with {shown} of {arguments.seeds} seeds", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
