"""The commands as functions: the same answers as the program's, and its sentences where something is wrong."""
import copy
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import cplab

PROGRAM = os.environ.get("CPLAB_PROGRAM")
SMALL = {
    "problem": {"batch": 1, "sequence": 96, "heads": 4, "kv_heads": 2, "head_size": 16, "dtype": "fp32",
                "mask": "causal"},
    "parallel": {"ranks": 4, "algorithm": "ring", "placement": "zigzag"},
    "hardware": {"file": "hardware/h100x8.toml"},
}


def of_program(*words):
    done = subprocess.run([PROGRAM, *words, "--json", "-", "--quiet"], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def with_changes(scenario, **changes):
    changed = copy.deepcopy(scenario)
    for key, value in changes.items():
        section, name = key.split("__")
        changed[section][name] = value
    return changed


class SameAsTheProgram(unittest.TestCase):
    @unittest.skipUnless(PROGRAM, "no program to compare with")
    def test_a_named_scenario(self):
        for command in ("simulate", "check", "show"):
            words = [command, "ring-small"] + (["--rank", "all"] if command == "show" else [])
            code, theirs, _ = of_program(*words)
            ours = getattr(cplab, command)("ring-small")
            self.assertEqual(code, 0)
            self.assertTrue(ours.ok)
            self.assertEqual(ours.to_dict(), theirs, command)

    @unittest.skipUnless(PROGRAM, "no program to compare with")
    def test_options_and_changes(self):
        _, theirs, _ = of_program("simulate", "ring", "--operations", "--set", "problem.sequence=64K", "--set",
                                  "problem.window=[1024, 0]", "--unset", "schedule.kv_slots")
        ours = cplab.simulate("ring", operations=True, unset=["schedule.kv_slots"],
                              set={"problem.sequence": "64K", "problem.window": [1024, 0]})
        self.assertEqual(ours.to_dict(), theirs)

    def test_dict_text_and_path_are_one_scenario(self):
        text = """
[problem]
batch = 1
sequence = 96
heads = 4
kv_heads = 2
head_size = 16
dtype = "fp32"
mask = "causal"
[parallel]
ranks = 4
algorithm = "ring"
placement = "zigzag"
[hardware]
file = "hardware/h100x8.toml"
"""
        from_dict = cplab.simulate(SMALL)
        from_text = cplab.simulate(text)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mine.toml")
            path.write_text(text)
            from_path = cplab.simulate(path)
        self.assertEqual(from_dict.time_s, from_text.time_s)
        self.assertEqual(from_dict.time_s, from_path.time_s)
        self.assertEqual(from_dict.scenario, from_text.scenario)
        self.assertEqual(from_dict.scenario.problem.sequence, 96)

    def test_verify_and_run_execute(self):
        right = cplab.verify(SMALL)
        self.assertTrue(right.ok)
        self.assertEqual({each.tensor for each in right.tensors}, {"out", "lse", "dq", "dk", "dv"})
        ran = cplab.run(SMALL, device="cpu", iterations=2, warmup=0)
        self.assertEqual(len(ran.times_s), 2)

    def test_sweep_of_a_dict(self):
        study = {"scenario": SMALL, "vary": {"parallel.ranks": [2, 4], "problem.sequence": [96, 192, 384]}}
        swept = cplab.sweep(study, workers=2)
        self.assertEqual(len(swept.points), 6)
        alone = cplab.simulate(with_changes(SMALL, parallel__ranks=2, problem__sequence=384))
        times = [each.time_s for each in swept.points
                 if each["set"]["parallel.ranks"] in (2, "2") and each["set"]["problem.sequence"] in (384, "384")]
        self.assertEqual(times, [alone.time_s])

    def test_compare_takes_results(self):
        first = cplab.simulate("ring", set={"problem.sequence": "64K"})
        second = cplab.simulate("ring", set={"problem.sequence": "64K"})
        self.assertEqual(cplab.compare(first, second).time_error, 0)
        self.assertNotIn("operations", first)
        measured = cplab.simulate("ring", set={"problem.sequence": "96K"}, operations=True)
        self.assertEqual(cplab.compare(first, measured), cplab.compare(first, measured.to_dict()))
        self.assertLess(cplab.compare(first, measured.json_text()).time_error, 0)
        with self.assertRaises(cplab.ScenarioError) as caught:
            cplab.compare(first.to_dict(), measured)
        self.assertIn("<predicted>: no operations", str(caught.exception))

    def test_advise_of_a_model(self):
        advice = cplab.advise(model="llama3-8b", gpus=8, sequence="32K", hardware="h100x8", brief=True)
        self.assertGreater(advice.candidates[0].time_s, 0)
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
                  "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
                  "num_key_value_heads": 8, "vocab_size": 128256}
        own = cplab.advise(model=config, gpus=8, sequence="32K", hardware="h100x8", brief=True)
        self.assertEqual(own.candidates[0].time_s, advice.candidates[0].time_s)

    def test_hardware_may_be_a_dict(self):
        larger_memory = {"schema": "cplab.hardware.1", "include": "h100x8", "gpu": {"capacity_bytes": 1 << 40}}
        known = cplab.simulate("ring")
        larger = cplab.simulate("ring", hardware=larger_memory)
        self.assertGreater(larger.capacity_bytes, known.capacity_bytes)

    def test_calibrate_measures_nothing_without_a_budget(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "mine.toml")
            cplab.calibrate(out, budget=0, base="h100x8")
            self.assertTrue("[calibration]" in out.read_text())
            self.assertEqual(cplab.simulate("ring", hardware=out).machine, "mine")

    def test_list(self):
        names = {each["name"] for each in cplab.list("algorithms").records()}
        self.assertIn("ring", names)


class Wrong(unittest.TestCase):
    def test_a_wrong_key_is_named_with_the_nearest(self):
        with self.assertRaises(cplab.ScenarioError) as caught:
            cplab.simulate(with_changes(SMALL, problem__head=4))
        message = str(caught.exception)
        self.assertIn("<scenario>:", message)
        self.assertIn("head", message)
        self.assertIsInstance(caught.exception, ValueError)

    @unittest.skipUnless(PROGRAM, "no program to compare with")
    def test_the_sentence_is_the_programs(self):
        code, _, err = of_program("simulate", "ring", "--set", "parallel.algorithm=rign")
        self.assertEqual(code, 2)
        with self.assertRaises(cplab.ScenarioError) as caught:
            cplab.simulate("ring", set={"parallel.algorithm": "rign"})
        self.assertEqual("cplab: " + str(caught.exception), err.strip())

    def test_an_unknown_option(self):
        with self.assertRaises(cplab.ScenarioError) as caught:
            cplab.simulate("ring", operation=True)
        self.assertIn("--operations", str(caught.exception))

    def test_what_the_machine_lacks(self):
        with mock.patch.dict(os.environ, CPLAB_MEMORY="1M"), self.assertRaises(cplab.EnvironmentError) as caught:
            cplab.check("ring")
        self.assertIn("memory", str(caught.exception))
        self.assertTrue(cplab.check("ring").ok)

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "a GPU is here")
    def test_run_without_a_gpu_says_so(self):
        with self.assertRaises(cplab.EnvironmentError) as caught:
            cplab.run("ring-small")
        self.assertIn("GPU", str(caught.exception))

    def test_wrong_is_a_result(self):
        wrong = cplab.check("faults/ring", inject="ring-slot-reuse")
        self.assertFalse(wrong.ok)
        self.assertEqual(wrong.findings[0].kind, "race")
        strict = cplab.simulate("ring", strict=True, set={"problem.sequence": 1000003})
        self.assertFalse(strict.ok)

    def test_what_has_no_toml_form(self):
        with self.assertRaises(TypeError) as caught:
            cplab.simulate({"problem": {"heads": object()}})
        self.assertIn("problem.heads", str(caught.exception))
        with self.assertRaises(TypeError):
            cplab.simulate(17)


class Often(unittest.TestCase):
    def test_200_points_in_a_loop(self):
        start, worked = time.monotonic(), time.process_time()
        times = [cplab.simulate("ring", set={"problem.sequence": 16384 + 512 * i}).time_s for i in range(200)]
        elapsed, worked = time.monotonic() - start, time.process_time() - worked
        print(f"200 points of ring, 8 ranks: {elapsed:.2f} s, of which the processor worked {worked:.2f} s")
        self.assertEqual(len(set(times)), 200)
        self.assertLess(worked, 4)  # the time of a machine that others use too says nothing

    def test_nothing_is_left_from_call_to_call(self):
        first = cplab.simulate(SMALL).to_dict()
        for i in range(250):
            with self.assertRaises(cplab.ScenarioError):
                cplab.simulate(with_changes(SMALL, problem__sequence=-i))
            cplab.check(with_changes(SMALL, problem__mask="full"))
            cplab.simulate("ring-small", seed=i)
            self.assertEqual(cplab.simulate(SMALL).to_dict(), first)


if __name__ == "__main__":
    unittest.main()
