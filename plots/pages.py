#!/usr/bin/env python3
"""Screenshots of the pages that --html writes: docs/figures/page-NAME.png. Leaves them as they are where there is no
Chromium (scripts/setup.sh browser). Their numbers are held to the JSON results by tests/browser/pages.py.

    plots/pages.py [NAME ...]        from the repository root; CPLAB names the program
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "lib"))
from browser import browse, chromium  # noqa: E402
from figure import folder, shrink  # noqa: E402
from timeline import HARDWARE, RECORD, RUN  # noqa: E402

PROGRAM = os.environ.get("CPLAB", "build/release/cplab")
# Name, height in pixels, words of the command. {0} and {1}: the files that prepare() makes.
PAGES = [
    ("simulate", 1000, ["simulate", "ring"]),
    ("simulate-64", 1000, ["simulate", "ring-64"]),
    ("simulate-1024", 1000, ["simulate", "ring-64", "--set", "parallel.ranks=1024", "--set", "problem.sequence=8M", "--set",
                             "parallel.algorithm=hierarchical", "--set", "schedule.inner_ranks=8"]),
    ("run", 900, ["run", "ring-small", "--device", "cpu"]),
    ("check", 900, ["check", "ring"]),
    ("compare", 900, ["compare", "{0}", "{1}"]),
    ("sweep", 1250, ["sweep", "degrees"]),
    ("advise", 1250, ["advise", "--model", "llama3-70b", "--gpus", "64", "--sequence", "128K", "--hardware", "h100x64"]),
]


def call(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")


def prepare(work):
    """The run that README shows, and its prediction."""
    call("scripts/campaign.py", "unpack", RECORD, work)
    measured, predicted = f"{work}/{RUN}", f"{work}/predicted.json"
    call("scripts/gpu/prediction.sh", measured, HARDWARE, predicted)
    return [predicted, measured]


def shoot(name, height, words, work):
    page, out = Path(work) / f"{name}.html", folder() / f"page-{name}.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    call(PROGRAM, *words, "--quiet", "--html", str(page))
    browse(page, f"{work}/profile", f"--screenshot={out.resolve()}", "--virtual-time-budget=10000", size=(1280, height))
    shrink(out)
    print(out, file=sys.stderr)


def main(names):
    if "CPLAB_FIGURES" in os.environ:
        return  # figures are drawn to be compared by what their SVG says, which a screenshot does not
    if not chromium():
        print("pages: left as they are, no Chromium here (scripts/setup.sh browser installs it)", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as work:
        files = prepare(work) if not names or "compare" in names else ["", ""]
        for name, height, words in PAGES:
            if not names or name in names:
                shoot(name, height, [word.format(*files) for word in words], work)


if __name__ == "__main__":
    main(sys.argv[1:])
