"""Calls from several threads run beside one another and answer what they answer alone; the GIL is free meanwhile."""
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import cplab
from commands_test import SMALL, with_changes


STUDY = {"scenario": "ring-small", "vary": {"problem.sequence": [64, 128, 192, 256],
                                            "parallel.algorithm": ["ring", "all_gather"]}}
FIRST_CALLS = f"""
import threading, cplab
together = threading.Barrier(6)
def call(i):
    together.wait()
    for name in ("ring", "hierarchical", "all-to-all")[i // 2:]:
        answers.append(cplab.sweep({STUDY}, workers=3) if i % 2 else cplab.simulate(name))
answers = []
threads = [threading.Thread(target=call, args=(i,)) for i in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(answers))
"""


class Threads(unittest.TestCase):
    def test_sweeps_fork_beside_other_calls(self):
        """A process of a sweep has only the thread that forked it: it must not wait for what others were about."""
        alone = cplab.sweep(STUDY, workers=3).to_dict()
        over = threading.Event()

        def simulate():
            while not over.is_set():
                cplab.simulate("ring-64", set={"problem.sequence": "64K"})

        with ThreadPoolExecutor(3) as pool:
            busy = [pool.submit(simulate) for _ in range(2)]
            sweeps = [pool.submit(lambda: cplab.sweep(STUDY, workers=3).to_dict()) for _ in range(20)]
            answers = [each.result(timeout=60) for each in sweeps]
            over.set()
            for each in busy:
                each.result()
        self.assertEqual(answers, 20 * [alone])

    def test_first_calls_of_a_process_beside_sweeps(self):
        for _ in range(3):
            ended = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True, timeout=60)
            self.assertEqual((ended.stdout, ended.stderr), ("12\n", ""))

    def test_answers_are_those_of_calls_alone(self):
        def work(i):
            scenario = with_changes(SMALL, problem__sequence=96 + 8 * (i % 10), parallel__ranks=2 + i % 4)
            engine = {"set": {"simulate.engine": "simgrid"}} if i % 5 == 0 else {}
            return cplab.simulate(scenario, **engine).to_dict(), cplab.check(scenario).to_dict()

        alone = [work(i) for i in range(60)]
        with ThreadPoolExecutor(8) as pool:
            beside = list(pool.map(work, range(60)))
        self.assertEqual(alone, beside)

    def test_texts_and_errors_stay_with_their_call(self):
        def work(i):
            if i % 2:
                return cplab.simulate(with_changes(SMALL, problem__sequence=64 + i)).scenario.problem.sequence
            try:
                cplab.simulate(with_changes(SMALL, problem__heads=-i))
            except cplab.ScenarioError as error:
                return f"{-i}" in str(error)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(work, range(200)))
        self.assertEqual(answers, [64 + i if i % 2 else True for i in range(200)])

    def test_verify_beside_verify(self):
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda i: cplab.verify(SMALL, seed=i % 3).to_dict(), range(8)))
        for i, result in enumerate(results):
            self.assertTrue(result["ok"])
            self.assertEqual(result["tensors"], results[i % 3]["tensors"])

    def test_python_goes_on_meanwhile(self):
        for thread_of_call in (None, 1):  # in the main thread, and in another
            counted, done = 0, threading.Event()

            def count():
                nonlocal counted
                while not done.is_set():
                    counted += 1
                    time.sleep(0.001)

            counter = threading.Thread(target=count)
            counter.start()
            call = lambda: cplab.verify("ring-small", set={"problem.sequence": 600})
            start = time.monotonic()
            if thread_of_call is None:
                call()
            else:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(call).result()
            elapsed = time.monotonic() - start
            done.set()
            counter.join()
            self.assertGreater(counted, 20 * elapsed, f"{counted} steps in {elapsed} s")


if __name__ == "__main__":
    unittest.main()
