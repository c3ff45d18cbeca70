"""`tiles --serve` as an object: one line asked and one answered. For the scripts beside this file."""
import os
import subprocess
import sys


class ServedTiles:
    """One process of the program; asked for a problem ("shape B S H D full|causal", and others), then for times."""

    def __init__(self, program, option="--serve"):
        self.process = subprocess.Popen([program, option], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.variants = {}  # kernels, by (choice, direction)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit(f"{os.path.basename(sys.argv[0])}: {line}: tiles ended with code {self.process.wait()}")
        return answer

    def seconds_of_part(self, part, calls):
        """Of --serve-linear."""
        seconds, variant = self.ask(f"part {part} {calls}").split(" ", 1)
        self.variants[part] = variant
        return float(seconds)

    def seconds(self, direction, choice, calls):
        seconds, variant = self.ask(f"time {direction} {choice} {calls}").split(" ", 1)
        self.variants[choice, direction] = variant
        return float(seconds)
