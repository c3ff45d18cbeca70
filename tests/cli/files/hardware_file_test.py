#!/usr/bin/env python3
"""scripts/hardware_file.py: what it writes is a hardware file that `cplab simulate` takes and reads as meant.

    tests/cli/files/hardware_file_test.py CPLAB    CPLAB: the built program
"""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BASE = ROOT / "scenarios" / "hardware" / "h200x4-cudnn.toml"
CPLAB = ""

KINDS = ("attend", "attend_backward")
SEQUENCES = (512, 4096)


def attend_seconds(kind, mask, sequence):
    """Canned: 300 TFLOP/s, a backward pass four times as long, a causal one 0.6 times."""
    return 4 * 16 * 128 * sequence**2 / 300e12 * (4 if kind == KINDS[1] else 1) * (0.6 if mask == "causal" else 1)


MEASURED = {
    "schema": "cplab.measurement.1", "date": "2026-11-21", "gpu": "NVIDIA H200", "gpus": 4, "sms": 132,
    "capacity_bytes": 150_000_000_000, "l2_bytes": 52_428_800,
    "environment": {"driver": "580.1", "cuda": "13.0", "nccl": "2.28.9", "NCCL_NVLS_ENABLE": "0"},
    "fixed": {"context_bytes": 500_000_000, "context_source": "NVML", "communicator_bytes": 400_000_000},
    "copy_bytes_s": 4.2e12,
    "attention": [{"class": kind, "variant": f"{kind} mma bf16 128", "dtype": "bf16", "head_size": 128, "mask": mask,
                   "tile_rows": 128,
                   "points": [{"batch": 1, "sequence": s, "heads": 16, "seconds": attend_seconds(kind, mask, s)}
                              for s in SEQUENCES]}
                  for kind in KINDS for mask in ("full", "causal")],
    "curves": [{"class": kind, "variant": kind, "operands": "bf16",
                "points": [{"bytes": 65536, "seconds": 3e-6}, {"bytes": 131072, "seconds": 2.9e-6},
                           {"bytes": 268435456, "seconds": 8e-5}]}
               for kind in ("row_dot", "merge", "copy", "cast", "add", "fill")],
    "messages": [{"kind": kind, "transport": transport, "path": "intra", "group": group, "busy": "all",
                  "channels": 16 if transport == "nccl" else 0,
                  "channels_by_bytes": [{"bytes": 4096, "channels": 2}, {"bytes": 268435456, "channels": 16}],
                  "points": [{"bytes": 4096, "seconds": 1e-5}, {"bytes": 268435456, "seconds": 9e-4}]}
                 for kind, transport in (("exchange", "nccl"), ("exchange", "copy"), ("all_gather", "nccl"))
                 for group in (4, 2)],
    "host": {"kernel_launch_s": 2.5e-6, "tiny_kernel_launch_s": 2e-6, "communication_launch_s": 7e-6,
             "copy_launch_s": 4e-6, "launch_latency_s": 0, "sync_s": 3e-6, "back_to_back_s": 1e-6,
             "dependency_s": 1.2e-6, "graph_launch_s": 9e-6, "graph_call_s": 5e-6, "graph_step_s": 1.5e-6,
             "graph_node_s": 0.5e-6},
    "interference": [{"class": kind, "beside": beside, "alone_s": [1e-3, 1e-3], "beside_s": [1.2e-3, 1.2e-3],
                      "slowdown": 1.2, "channels": 16 if beside == "nccl" else 0}
                     for kind in (*KINDS, "merge") for beside in ("nccl", "copy")],
    "left_out": [],
}

SCENARIO = """
[problem]
batch = 1
sequence = {sequence}
heads = 16
head_size = 128
dtype = "bf16"
mask = "full"
direction = "forward"
[parallel]
ranks = {ranks}
algorithm = "ring"
placement = "contiguous"
[hardware]
file = "{hardware}"
"""


LINEAR = """
[problem]
attention = "linear"
slopes = "alibi"
sequence = {sequence}
heads = 16
head_size = 128
dtype = "bf16"
mask = "causal"
direction = "{direction}"
[parallel]
ranks = {ranks}
algorithm = "{algorithm}"
[hardware]
file = "linear.toml"
"""


class HardwareFile(unittest.TestCase):
    """Each case in a folder of its own."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def convert(self, measured, *options):
        (self.path / "measured.json").write_text(json.dumps(measured))
        return subprocess.run([sys.executable, ROOT / "scripts" / "hardware_file.py", self.path / "measured.json",
                               "--base", BASE, *(options or ("--name", "canned"))],
                              capture_output=True, text=True, check=False)

    def test_rates_of_the_same_gpu_are_kept(self):
        base = ROOT / "scenarios" / "hardware" / "h200x4.toml"
        converted = self.convert(MEASURED, "--name", "canned", "--base", base)
        self.assertEqual(converted.returncode, 0, converted.stderr)
        kept, rates = (tomllib.loads(text)["rates"] for text in (converted.stdout, base.read_text()))
        self.assertEqual(kept.keys(), rates.keys())
        for key, value in rates["hopper_backward"].items():
            self.assertAlmostEqual(kept["hopper_backward"][key], value, delta=1e-4 * value)
        other = self.convert(MEASURED | {"gpu": "NVIDIA B200"}, "--name", "canned", "--base", base)
        self.assertNotIn("rates", tomllib.loads(other.stdout))

    def simulate(self, measured, sequence, ranks):
        converted = self.convert(measured)
        self.assertEqual(converted.returncode, 0, converted.stderr)
        hardware = self.path / "canned.toml"
        hardware.write_text(converted.stdout)
        scenario = self.path / "scenario.toml"
        scenario.write_text(SCENARIO.format(sequence=sequence, ranks=ranks, hardware=hardware))
        result = subprocess.run([CPLAB, "simulate", scenario, "--json", "-", "--operations", "--quiet"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout), converted.stdout

    def test_a_measured_point_of_linear_attention_comes_back(self):
        measured = copy.deepcopy(MEASURED)
        measured["chunks"] = [
            {"class": kind, "variant": kind, "dtype": "bf16", "head_size": 128, "value_size": 128, "chunk": 256,
             "states": states, "points": [{"tokens": n, "heads": 16, "seconds": seconds * n / 4096} for n in (4096, 32768)]}
            for kind, states, seconds in (("local", [], 41e-6), ("state", ["state"], 23e-6))]
        converted = self.convert(measured)
        self.assertEqual(converted.returncode, 0, converted.stderr)
        (self.path / "canned.toml").write_text(converted.stdout)
        (self.path / "scenario.toml").write_text("""
[problem]
attention = "linear"
slopes = "alibi"
sequence = 4096
heads = 16
head_size = 128
dtype = "bf16"
mask = "causal"
direction = "forward"
[parallel]
ranks = 1
algorithm = "lasp_fuse_parallel"
[hardware]
file = "canned.toml"
""")
        done = subprocess.run([CPLAB, "simulate", self.path / "scenario.toml", "--json", "-", "--operations", "--quiet"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        operations = {op["kind"]: op for op in json.loads(done.stdout)["operations"]}
        for kind, seconds in (("local", 41e-6), ("state", 23e-6)):
            self.assertAlmostEqual(operations[kind]["end_s"] - operations[kind]["start_s"], seconds, delta=1e-3 * seconds)
            self.assertEqual(operations[kind]["origin"], "measured")
        self.assertEqual(operations["inter"]["origin"], "assumed")

    def linear_operations(self, hardware, algorithm, ranks, direction):
        """Of rank 0, 4096 tokens: (kind, seconds, origin) of each operation of linear attention."""
        (self.path / "linear.toml").write_text(hardware)
        (self.path / "scenario.toml").write_text(LINEAR.format(sequence=4096 * ranks, ranks=ranks, algorithm=algorithm,
                                                               direction=direction))
        done = subprocess.run([CPLAB, "simulate", self.path / "scenario.toml", "--json", "-", "--operations", "--quiet"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [(op["kind"], op["end_s"] - op["start_s"], op["origin"]) for op in json.loads(done.stdout)["operations"]
                if op["rank"] == 0 and op["kind"] in ("local", "local_backward", "state", "scan", "inter")]

    def test_cuts_and_results_of_linear_attention_are_told_apart(self):
        def chunk(kind, cut, length, states, results, seconds):
            return {"class": kind, "variant": f"linear_{kind}", "dtype": "bf16", "head_size": 128, "value_size": 128,
                    "chunk": length, "cut": cut, "states": states, "results": results,
                    "points": [{"tokens": 4096, "heads": 16, "seconds": seconds}]}

        measured = copy.deepcopy(MEASURED) | {"messages": []}
        base = tomllib.loads(BASE.read_text())
        measured["gpu"] = base["gpu"]["name"]
        measured["chunks"] = [chunk("local", "serial", 0, ["final_state"], [], 3e-4),
                              chunk("local", "sliced", 0, ["carry", "final_state"], [], 5e-4),
                              chunk("local_backward", "serial", 0, [], [], 9e-4),
                              chunk("local_backward", "sliced", 0, ["carry", "dcarry"], [], 15e-4),
                              chunk("inter", "serial", 0, ["carry"], ["out"], 11e-4),
                              chunk("inter", "serial", 0, ["carry"], ["dq"], 12e-4),
                              chunk("inter", "serial", 0, ["dcarry"], ["dk"], 13e-4),
                              chunk("inter", "serial", 0, ["dcarry"], ["dv"], 14e-4),
                              chunk("inter", "blocked", 256, ["state", "carry"], ["out"], 2e-4),
                              chunk("scan", "blocked", 256, ["state", "final_state"], [], 2e-5)]
        added = self.convert(measured, "--add", "--no-fp16")
        self.assertEqual(added.returncode, 0, added.stderr)
        tables = tomllib.loads(added.stdout)["kernel"][len(base["kernel"]):]
        self.assertEqual(len(tables), len(measured["chunks"]))
        self.assertEqual((tables[0]["cut"], tables[0]["chunk"], tables[0]["states"]), ("serial", 0, ["final_state"]))
        self.assertEqual(tables[5]["results"], ["dq"])
        # All of it again: the file has it already, whatever the chunks.
        (self.path / "more.toml").write_text(added.stdout)
        measured["chunks"][8]["chunk"] = 4096
        again = self.convert(measured, "--add", "--no-fp16", "--base", self.path / "more.toml")
        self.assertEqual(again.stdout, added.stdout)
        self.assertEqual(again.stderr.count("left as it is"), len(measured["chunks"]))
        # Rank 0 sends what leaves forward; backward nothing leaves it.
        wanted = {"lasp_cache": [("local", 3e-4), ("inter", 11e-4), ("local_backward", 9e-4), ("inter", 12e-4),
                                 ("inter", 13e-4), ("inter", 14e-4)],
                  "lasp_fuse": [("local", 5e-4), ("local_backward", 15e-4)]}
        for algorithm, times in wanted.items():
            found = self.linear_operations(added.stdout, algorithm, 2, "forward+backward")
            self.assertEqual([kind for kind, _, _ in found], [kind for kind, _ in times])
            for (kind, seconds, origin), (_, time) in zip(found, times):
                self.assertAlmostEqual(seconds / time, 1, places=4, msg=f"{algorithm} {kind}")
                self.assertEqual(origin, "measured", f"{algorithm} {kind}")
        found = {kind: (seconds, origin) for kind, seconds, origin in
                 self.linear_operations(added.stdout, "lasp_fuse_parallel", 2, "forward")}
        for kind, time in (("inter", 2e-4), ("scan", 2e-5)):
            self.assertAlmostEqual(found[kind][0] / time, 1, places=3)
            self.assertEqual(found[kind][1], "measured")
        # Another GPU's kernels are not added; results that no states give are refused by the reader.
        other = self.convert(measured | {"gpu": "NVIDIA X1"}, "--add")
        self.assertEqual((other.returncode, other.stdout), (2, ""))
        self.assertIn("NVIDIA X1", other.stderr)
        (self.path / "linear.toml").write_text(added.stdout.replace('results = ["dq"]', 'results = ["dv"]'))
        refused = subprocess.run([CPLAB, "simulate", self.path / "scenario.toml", "--quiet"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn('"dstate" or "dcarry"', refused.stderr)

    def test_a_measured_point_comes_back(self):
        result, _ = self.simulate(MEASURED, sequence=512, ranks=1)
        attend = [op for op in result["operations"] if op["kind"] == "attend"]
        self.assertEqual(len(attend), 1)
        wanted = attend_seconds("attend", "full", 512)
        self.assertAlmostEqual(attend[0]["end_s"] - attend[0]["start_s"], wanted, delta=1e-4 * wanted)
        self.assertEqual(attend[0]["origin"], "measured")

    def test_points_at_the_highest_clock_have_tables_of_their_own(self):
        """Where the base says when the clock falls; else all points are of a GPU under load."""
        measured = copy.deepcopy(MEASURED)
        for table in measured["attention"]:
            for point in table["points"]:
                point["settled"] = point["sequence"] == 4096
        without = self.path / "without.toml"
        without.write_text(re.sub(r"\[burst\]\n(.+\n)*", "", BASE.read_text()))
        with_burst = self.path / "with.toml"
        with_burst.write_text(without.read_text() + '\n[burst]\nseconds = 0.055\nspeed = 1.13\norigin = "assumed"\n')
        for base, wanted in ((without, [([512, 4096], True)]), (with_burst, [([4096], True), ([512], False)])):
            converted = self.convert(measured, "--name", "canned", "--base", base)
            self.assertEqual(converted.returncode, 0, converted.stderr)
            tables = [table for table in tomllib.loads(converted.stdout)["kernel"]
                      if table["class"] == "attend" and table["dtype"] == "bf16" and table["mask"] == "full"]
            self.assertEqual([(table["sequence"], table.get("sustained", True)) for table in tables], wanted)

    def test_all_sections_are_measured(self):
        result, text = self.simulate(MEASURED, sequence=16384, ranks=4)
        self.assertNotIn('source = "not measured', text)
        assumed = [block for block in text.split("\n\n") if 'origin = "assumed"' in block and "fp16" not in block]
        # The vendor's links, and what stands beside kernels that this canned measurement leaves out.
        for block in assumed:
            self.assertTrue(block.startswith(("[node]", "[[interference]]")), block)
        self.assertEqual(result["origins"]["assumed"], 0)

    def test_noise_is_lifted_and_named(self):
        _, text = self.simulate(MEASURED, sequence=512, ranks=1)
        self.assertIn("seconds = [3e-06, 3e-06, 8e-05]", text)
        self.assertIn("lifted to that of the point before, at bytes: 131072", text)

    def test_multiprocessors_are_not_counted_twice(self):
        _, text = self.simulate(MEASURED, sequence=512, ranks=1)
        rows = {}
        for block in text.split("\n\n"):
            if block.startswith("[[interference]]"):
                lines = dict(line.split(" = ", 1) for line in block.splitlines() if " = " in line)
                rows[lines["class"].strip('"'), lines["beside"].strip('"')] = float(lines["slowdown"])
        self.assertAlmostEqual(rows["attend", "nccl"], 1.2 * (132 - 16) / 132, places=3)
        self.assertEqual(rows["attend", "copy"], 1.2)
        self.assertEqual(rows["merge", "nccl"], 1.2)

    def test_one_gpu_takes_the_rest_from_the_base(self):
        alone = copy.deepcopy(MEASURED)
        alone |= {"gpus": 1, "messages": [], "interference": [], "left_out": ["messages: one GPU"]}
        alone["host"] |= {"communication_launch_s": 0, "copy_launch_s": 0}
        alone["fixed"]["communicator_bytes"] = 0
        result, text = self.simulate(alone, sequence=512, ranks=1)
        self.assertGreater(result["time_s"], 0)
        self.assertIn("from the base file: communication_launch_s, copy_launch_s", text)
        self.assertIn('kind = "all_to_all"', text)

    def test_collectives_are_added_to_a_file_that_lacks_them(self):
        # The base has the exchanges and the gather of 4; of the collectives of 2 it has none.
        measured = copy.deepcopy(MEASURED)
        barrier = {"kind": "barrier", "transport": "nccl", "path": "intra", "group": 2, "channels": 1,
                   "channels_by_bytes": [], "points": [{"bytes": 1, "seconds": 8e-6}]}
        measured["messages"] += [copy.deepcopy(measured["messages"][5]) | {"kind": kind}
                                 for kind in ("reduce_scatter", "all_to_all", "all_reduce")] + [barrier]
        added = self.convert(measured, "--add")
        self.assertEqual(added.returncode, 0, added.stderr)
        base = BASE.read_text()
        self.assertTrue(added.stdout.startswith(base.rstrip("\n")))
        before, after = tomllib.loads(base)["message"], tomllib.loads(added.stdout)["message"]
        self.assertEqual(after[:len(before)], before)
        self.assertEqual([(t["kind"], t["transport"], t["group"]) for t in after[len(before):]],
                         [("exchange", "nccl", 2), ("exchange", "copy", 2), ("all_gather", "nccl", 2),
                          ("reduce_scatter", "nccl", 2), ("all_to_all", "nccl", 2), ("all_reduce", "nccl", 2),
                          ("barrier", "nccl", 2)])
        self.assertEqual(added.stderr.count("left as it is"), 3)
        hardware = self.path / "added.toml"
        hardware.write_text(added.stdout)
        scenario = self.path / "scenario.toml"
        scenario.write_text(SCENARIO.format(sequence=512, ranks=2, hardware=hardware))
        result = subprocess.run([CPLAB, "simulate", scenario, "--quiet"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_parts_of_linear_attention_are_added_to_a_file_that_lacks_them(self):
        def row(direction, seconds):
            return {"direction": direction, "tokens": 4096, "heads": 16, "D": 128, "E": 64, "chunk_tokens": 256,
                    "parts_s": {part: {"median": s} for part, s in seconds.items()},
                    "kernels": {part: f"{part} hopper" for part in seconds}}

        record = {"schema": "cplab.linear_attention.1", "date": "2026-11-22", "machine_before": {"name": "NVIDIA H200"},
                  "limits": {"copy_bytes_s": {"median": 4.2e12}},
                  "rows": [row("forward", {"state": 1e-5, "scan": 9e-6, "local": 2e-5}),
                           row("backward", {"reverse_state": 1.1e-5, "reverse_scan": 9e-6, "local_backward": 5e-5})]}
        base = tomllib.loads(BASE.read_text())
        # The base is another GPU ("H200" by the vendor's figures): assumed, longer by the rates of a copy.
        longer = 4.2e12 / base["gpu"]["copy_bytes_s"]
        added = self.convert(record, "--add", "--no-fp16")
        self.assertEqual(added.returncode, 0, added.stderr)
        tables = tomllib.loads(added.stdout)["kernel"][len(base["kernel"]):]
        self.assertEqual([(t["class"], t["states"], t["chunk"], t["origin"]) for t in tables],
                         [("state", ["state"], 256, "assumed"), ("local", ["state"], 256, "assumed"),
                          ("state", ["dstate"], 256, "assumed"), ("local_backward", ["state", "dstate"], 256, "assumed")])
        for table, seconds in zip(tables, (1e-5, 2e-5, 1.1e-5, 5e-5)):
            self.assertAlmostEqual(table["seconds"][0] / (seconds * longer), 1, places=4)
        # The same GPU: measured, as it stands.
        record["machine_before"]["name"] = base["gpu"]["name"]
        same = tomllib.loads(self.convert(record, "--add", "--no-fp16").stdout)["kernel"][len(base["kernel"]):]
        self.assertEqual([(t["seconds"], t["origin"], t["date"]) for t in same],
                         [([s], "measured", "2026-11-22") for s in (1e-5, 2e-5, 1.1e-5, 5e-5)])

    def test_bad_input_is_exit_2(self):
        fast = copy.deepcopy(MEASURED)
        fast["messages"][0]["points"][1]["seconds"] = 268435456 / 450e9
        cases = {"schema": MEASURED | {"schema": "other"}, "faster than": fast,
                 "'sms'": {k: v for k, v in MEASURED.items() if k != "sms"}}
        for word, measured in cases.items():
            result = self.convert(measured)
            self.assertEqual(result.returncode, 2, word)
            self.assertIn(word, result.stderr)
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    CPLAB = sys.argv.pop(1)
    unittest.main()
