"""Ctrl-C ends a call soon, whatever it does, and the next call is as any other."""
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

LONG = {
    "simulate": 'cplab.simulate("ring-64", set={"parallel.ranks": 1024, "problem.sequence": "64M",'
                ' "hardware.file": "h100x64"})',
    "simulate with SimGrid": 'cplab.simulate("ring-64", set={"parallel.ranks": 64, "simulate.engine": "simgrid",'
                             ' "problem.sequence": "16M"})\n    while True: cplab.simulate("ring-64", '
                             'set={"simulate.engine": "simgrid"})',
    "verify": 'cplab.verify("ring-small", set={"problem.sequence": 20000})',
    "run": 'cplab.run("ring-small", device="cpu", iterations=10**6, timeout=600)',
    "sweep": 'cplab.sweep({"scenario": "ring", "vary": {"problem.sequence": '
             '[1024 * i for i in range(64, 4064)]}}, workers=2)',
    "check": 'cplab.check("ring-64", set={"parallel.ranks": 1024})',
    "loop": 'while True: cplab.simulate("ring")',
}

PROGRAM = """
import signal, sys, time, cplab
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a script ignores it
cplab.simulate("ring")
print("ready", flush=True)
start = time.monotonic()
try:
    {call}
    print("ended by itself", time.monotonic() - start, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    assert cplab.simulate("ring").ok
    print("goes on", flush=True)
"""


class Interrupt(unittest.TestCase):
    def test_every_kind_of_call(self):
        for name, call in LONG.items():
            with self.subTest(name):
                child = subprocess.Popen([sys.executable, "-c", PROGRAM.format(call=call)], stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, start_new_session=True)
                limit = threading.Timer(60, child.kill)
                limit.start()
                try:
                    self.assertEqual(child.stdout.readline().strip(), "ready")
                    time.sleep(1.0)
                    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to the children too
                    sent = time.monotonic()
                    said = child.stdout.readline().strip()
                    waited = time.monotonic() - sent
                    self.assertEqual(said, "interrupted", (name, said))
                    self.assertEqual(child.stdout.readline().strip(), "goes on")
                    print(f"{name}: {waited:.2f} s after Ctrl-C")
                    self.assertLess(waited, 3)
                finally:
                    limit.cancel()
                    child.kill()
                    child.communicate()


if __name__ == "__main__":
    unittest.main()
