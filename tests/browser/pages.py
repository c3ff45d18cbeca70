#!/usr/bin/env python3
"""Opens every kind of page (--html) in Debian's Chromium, headless and without network, and uses it: it renders, has no
error on its console, hover, zoom, search and sorting work, and its numbers are those of --json and --operations.

    tests/browser/pages.py PROGRAM [NAME ...]      Exit 77: there is no Chromium (scripts/setup.sh browser installs it).
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "plots/lib"))
from browser import browse, chromium  # noqa: E402

SKIPPED = 77
MEBIBYTE = 1 << 20


class Pages:
    """Makes pages in a folder; each maker returns (page, what drive.js must know)."""

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def cplab(self, *words, code=0):
        done = subprocess.run([self.program, *map(str, words), "--quiet"], cwd=ROOT, capture_output=True, text=True,
                              check=False)
        if done.returncode != code:
            sys.exit(f"cplab {' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()}")

    def result(self, name, *words, code=0):
        page, file = self.folder / f"{name}.html", self.folder / f"{name}.json"
        self.cplab(*words, "--html", page, "--json", file, code=code)
        return page, json.loads(file.read_text(encoding="utf-8"))

    @staticmethod
    def operations(result):
        return {op["id"]: op for op in result["operations"]}

    def timeline(self, name, *words, drawn=None, chain=True, kind="exchange"):
        page, result = self.result(name, *words, "--operations")
        operations = self.operations(result)
        found = sum(kind in op["kind"] for op in operations.values()) if drawn is None else None
        return page, {"operations": [operations, {}], "drawn": drawn or len(operations), "chain": chain,
                      "search": [kind, found], "numbers": 40}

    def simulate_8(self):
        return self.timeline("simulate", "simulate", "ring")

    def simulate_64(self):
        page, known = self.timeline("simulate-64", "simulate", "ring", "--set", "parallel.ranks=64", "--hardware", "h100x64")
        if page.stat().st_size > MEBIBYTE:
            sys.exit(f"{page.name} has {page.stat().st_size} bytes, more than a MiB")
        return page, known

    def simulate_1024(self):
        page, result = self.result("simulate-1024", "simulate", "ring", "--set", "parallel.ranks=1024", "--set",
                                   "problem.sequence=4M", "--hardware", "h100x64", "--set", "parallel.algorithm=all_gather")
        del result
        return page, {"operations": [{}, {}], "drawn": 0, "chain": True, "search": ["all_gather", None], "numbers": 1000, "groups": True,
                      "texts": ["Left out:", "worst", "median", "best"]}

    def run(self):
        return self.timeline("run", "run", "ring-small", "--device", "cpu")

    def check(self):
        page, result = self.result("check", "check", "ring")
        assert result["ok"]
        return page, {"numbers": 10, "texts": ["The plan is right", "What is proved"]}

    def check_wrong(self):
        page, result = self.result("check-wrong", "check", "faults/ring", "--inject", "drop-wait", code=1)
        return page, {"numbers": 1, "texts": ["The plan is wrong", result["findings"][0]["message"][:40]]}

    def compare(self):
        both = []
        for name, words in (("predicted", ()), ("measured", ("--set", "hardware.gpu.sms=120"))):
            file = self.folder / f"{name}.json"
            self.cplab("simulate", "ring", "--operations", "--json", file, *words)
            both.append(file)
        page, _ = self.result("compare", "compare", *both)
        sides = [self.operations(json.loads(file.read_text(encoding="utf-8"))) for file in both]
        found = sum("exchange" in op["kind"] for side in sides for op in side.values())
        return page, {"operations": sides, "drawn": sum(map(len, sides)), "chain": False, "search": ["exchange", found],
                      "numbers": 20}

    def compare_trace(self):
        file, traces = self.folder / "traced.json", self.folder / "traces"
        self.cplab("simulate", "ring", "--operations", "--json", file, "--trace", traces)
        page, _ = self.result("compare-trace", "compare", file, traces / "rank3_trace.json")
        operations = self.operations(json.loads(file.read_text(encoding="utf-8")))
        own = {name: op for name, op in operations.items() if op["rank"] == 3}
        return page, {"operations": [own, {}], "drawn": len(own), "chain": False,
                      "search": ["stream 1", None], "numbers": 20, "texts": ["not compared"]}

    def sweep(self):
        page, _ = self.result("sweep", "sweep", "degrees")
        return page, {"numbers": 20, "texts": ["Time against memory", "Every point"]}

    def advise(self):
        page, _ = self.result("advise", "advise", "--model", "llama3-70b", "--gpus", "64", "--sequence", "128K",
                              "--hardware", "h100x64")
        return page, {"numbers": 50, "texts": ["Run ", "What would change it", "Every candidate"]}


def problems(page, known, folder):
    """Of a copy of the page with drive.js at its end; light, dark and on paper."""
    text = page.read_text(encoding="utf-8")
    drive = (ROOT / "tests/browser/drive.js").read_text(encoding="utf-8")
    catch = ("<script>window.pageErrors = []; window.addEventListener('error', e => pageErrors.push(e.message));"
             "console.error = (...all) => pageErrors.push(all.join(' '));</script>")
    driven = page.with_suffix(".driven.html")
    known = json.dumps(known).replace("<", "\\u003c")
    driven.write_text(text.replace("<head>", "<head>" + catch, 1).replace(
        "</body>", f"<script>const expected = {known};\n{drive}</script></body>"), encoding="utf-8")
    found, papers = [], []
    for options in ((), ("--force-dark-mode",)):
        out, talk = browse(driven, f"{folder}/profile", "--dump-dom", "--virtual-time-budget=20000", *options)
        verdict = re.search(r'<pre id="verdict">(.*?)</pre>', out, flags=re.S)
        if not verdict:
            return [f"no verdict; Chromium says {talk.strip()[-500:]}"]
        says = json.loads(verdict.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        found += says["wrong"] + re.findall(r"CONSOLE.*", talk)
        papers.append(says["paper"])
    if papers[0] == papers[1]:
        found.append(f"light and dark have one background, {papers[0]}")
    paper = page.with_suffix(".pdf")
    browse(page, f"{folder}/profile", f"--print-to-pdf={paper}")
    if not paper.exists() or paper.stat().st_size < 5000:
        found.append("it does not print")
    return found


def main(program, names):
    if not chromium():
        print("skipped: no Chromium here (scripts/setup.sh browser installs it)")
        return SKIPPED
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        pages = Pages(os.path.abspath(program), folder)
        makers = [name for name in vars(Pages) if name not in ("cplab", "result", "operations", "timeline") and name[0] != "_"]
        for name in names or makers:
            page, known = getattr(pages, name)()
            found = problems(page, known, folder)
            wrong += len(found)
            print(f"{name}: {page.stat().st_size} bytes, {'right' if not found else ''}")
            for each in found:
                print(f"  {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
