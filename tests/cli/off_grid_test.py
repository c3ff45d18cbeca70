#!/usr/bin/env python3
"""scripts/gpu/off_grid.py: draws the same points from the same seed, predicts before it measures, and goes on when a
point fails.

    tests/cli/off_grid_test.py CPLAB    CPLAB: the built program
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu" / "off_grid.py"
CPLAB = ""

# The program, but runs on two GPUs over nccl die, as where NCCL is missing, and nothing runs before predicted.json lies.
STUB = """#!/bin/bash
if [ "$1" = run ]; then
  [ -s "{out}/predicted.json" ] || {{ echo "measured before predicted" >&2; exit 2; }}
  if grep -q 'transport = "nccl"' "$2"; then echo "no NCCL here" >&2; exit 3; fi
fi
exec "{cplab}" "$@"
"""


class OffGrid(unittest.TestCase):
    """Each case in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        self.program = CPLAB

    def call(self, *arguments, expected=0):
        environment = os.environ | {"CPLAB": str(self.program), "CPLAB_SCENARIOS": str(ROOT / "scenarios")}
        result = subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], env=environment, text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, expected, result.stdout + result.stderr)
        return result.stdout

    def record(self, name):
        return json.loads((self.out / name).read_text())

    def points(self, seed):
        self.call("predict", self.out, "--seed", seed, "--work", self.out)
        return self.record("predicted.json")["points"]

    def test_points_follow_from_the_seed_and_hold_every_kind(self):
        points = self.points("a")
        self.assertEqual(points, self.points("a"))
        self.assertNotEqual([p["problem"] for p in points], [p["problem"] for p in self.points("b")])
        self.assertEqual(len(points), 18)
        for point in points:
            problem, predicted = point["problem"], point["predicted"]
            self.assertNotIn("failed", predicted)
            tokens = sum(problem["lengths"]) if "lengths" in problem else problem["sequence"]
            self.assertTrue(3 * 1024 <= tokens <= 128 * 1024)
            self.assertTrue(8 <= problem["heads"] <= 32 and problem["heads"] % problem["kv_heads"] == 0)
            self.assertLessEqual(predicted["time_s"], 0.25)
            self.assertTrue(0 < predicted["null_s"] <= predicted["time_s"])
        self.assertEqual({p["parallel"]["placement"] for p in points}, {"zigzag", "contiguous", "striped"})
        self.assertEqual({p["problem"]["mask"] for p in points}, {"causal", "full"})
        self.assertEqual({(p["parallel"]["ranks"], p["schedule"]["transport"]) for p in points},
                         {(1, "copy"), (2, "copy"), (2, "nccl")})
        for key in ("lengths", "window"):
            self.assertGreaterEqual(sum(key in p["problem"] for p in points), 3)
        self.assertGreaterEqual(sum(p["problem"].get("batch", 1) > 1 for p in points), 3)

    def test_what_is_too_long_is_drawn_again_and_counted(self):
        self.call("predict", self.out, "--most-s", "0.002", "--work", self.out)
        points = self.record("predicted.json")["points"]
        self.assertGreater(sum(p["drawn_again"] for p in points), 0)
        self.assertLessEqual(max(p["predicted"]["time_s"] for p in points), 0.002)

    def test_a_point_that_fails_is_recorded_and_the_others_run(self):
        self.program = self.out / "stub"
        self.program.write_text(STUB.format(out=self.out, cplab=CPLAB))
        self.program.chmod(0o755)
        small = ("--device", "cpu", "--tokens", 30, 60, "--warmup", 0, "--iterations", 2, "--points", 8)
        self.call("campaign", self.out, "--work", self.out, *small)
        record = self.record("record.json")
        failed = [p for p in record["points"] if p["schedule"]["transport"] == "nccl"]
        self.assertTrue(failed)
        for point in record["points"]:
            if point in failed:
                self.assertEqual(point["measured"], {"failed": "exit 3: no NCCL here"})
                continue
            measured, errors = point["measured"], point["errors"]
            self.assertAlmostEqual(errors["time"], point["predicted"]["time_s"] / measured["time_s"] - 1)
            self.assertAlmostEqual(errors["null"], point["predicted"]["null_s"] / measured["time_s"] - 1)
            self.assertEqual(set(errors["phases"]), {"forward", "backward"})
            self.assertEqual(errors["peak_bytes"], 0)
            self.assertEqual(len(measured["times_s"]), 2)
        self.assertIn("commit", record["versions"])
        table = self.call("table", self.out / "record.json")
        self.assertEqual(table, (self.out / "table.md").read_text())
        self.assertEqual(table.count("| failed |"), len(failed))
        done = len(record["points"]) - len(failed)
        brief = self.call("table", self.out / "record.json", "--brief").splitlines()
        self.assertEqual(brief[2].split(" | ")[:2], ["| all", str(done)])
        # By number of GPUs, though the form "one GPU" is called as a family of --draw families.
        self.assertIn("| 1 GPU", [row.split(" | ")[0] for row in brief])
        self.assertNotIn("| one GPU", [row.split(" | ")[0] for row in brief])
        self.assertIn(f"to the byte: in {done} of {done} points", table)

    def test_when_the_time_is_over_the_rest_is_not_run(self):
        self.call("campaign", self.out, "--device", "cpu", "--tokens", 30, 60, "--points", 2, "--budget-s", -1,
                  expected=1)
        self.assertEqual({p["measured"]["failed"] for p in self.record("record.json")["points"]},
                         {"not run: -1 s were over"})


if __name__ == "__main__":
    CPLAB = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
