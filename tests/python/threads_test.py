"""Calls from several threads run beside one another and answer what they answer alone; the GIL is free meanwhile."""
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import cplab
from commands_test import SMALL, with_changes


class Threads(unittest.TestCase):
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
