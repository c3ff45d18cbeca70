"""Answers of cplab, for the scripts that draw the lessons' pictures: its JSON, and the mask that `show` prints."""
import json
import os
import re
import subprocess
import tomllib
from functools import lru_cache

from lib.figure import ROOT
from lib.results import fail

PROGRAM = os.path.abspath(os.environ.get("CPLAB", ROOT / "build/release/cplab"))


@lru_cache(maxsize=None)
def output(*words, allowed=(0,)):
    """What a command prints; 1 (a finding) may be allowed."""
    done = subprocess.run([PROGRAM, *words, "--quiet"], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode not in allowed:
        fail(f"cplab {' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def answer(*words):
    """The JSON of a command; of check also where it finds something."""
    return json.loads(output(*words, "--json", "-", allowed=(0, 1)))


def settings(**keys):
    """--set words: settings(problem__sequence=16) is ("--set", "problem.sequence=16")."""
    words = []
    for key, value in keys.items():
        words += ["--set", f"{key.replace('__', '.')}={value}"]
    return tuple(words)


def mask_rows(*words):
    """[(cells, ranks)] of the mask as `show` draws it, '#' where a pair is live; a group of one token adds no pair and
    makes show draw the mask."""
    text = output("show", *words, "--set", "problem.groups=[[0,1]]")
    rows = re.findall(r"^\|(.*)\| ?(.*)$", text, flags=re.M)
    return [(cells, [int(r) for r in ranks.split()]) for cells, ranks in rows]


def hardware(name):
    return tomllib.loads((ROOT / "scenarios/hardware" / f"{name}.toml").read_text(encoding="utf-8"))
