#!/usr/bin/env python3
"""Draws every figure of the README and docs/ anew and compares its numbers (the SVG's description, plots/lib/figure.py)
with those of the figure that is kept, and with the table or the lines of the page that shows it.

    tests/docs/figures.py PROGRAM        from the root. Exit 77: no Python here has matplotlib; the lessons' figures,
                                         which need none, were compared all the same.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def description(svg):
    text = pathlib.Path(svg).read_text(encoding="utf-8")
    found = re.search(r"<dc:description>(.*?)</dc:description>", text, flags=re.S)
    return found.group(1).splitlines() if found else []


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def number(pattern, text):
    found = re.search(pattern, text, flags=re.M)
    return found.groups() if found else (f"nothing like {pattern}",)


def cells_of_pair():
    """Predicted, measured, error of the row that the picture draws: 16K on 2 GPUs, of page 7's table over copy."""
    table = page("docs/07-gpus.md").split("h200x2-2026-11-28-ring.jsonl hardware/h200x4.toml copy --columns full", 1)[-1]
    return number(r"^\| 16K \| 2 \| (\S+) \| (\S+) \| (\S+) \|", table)


def checks(says):
    """(what, in the figure, on the page), of what each figure says by its name."""
    text = "\n".join(says["predicted-measured"])
    drawn = (*number(r"^predicted: (\S+) ms", text), *number(r"^measured: (\S+) ms", text),
             *number(r"\(error (\S+) %\)", text))
    yield "page 7, 16K on 2 GPUs", drawn, cells_of_pair()

    for name in ("drawn-predicted", "drawn-errors"):
        for line in says[name]:
            kind, drawn = line.split(": ", 1)[0], re.findall(r"[+-]?[\d.]+", line.split(": ", 1)[1].replace("95 % ", ""))
            row = number(rf"^\| {kind} \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \|", page("README.md"))
            yield f"README.md, {name}, {kind}", drawn, row

    text, five = "\n".join(says["timeline"]), page("docs/05-cost-model.md")
    drawn = (*number(r"^(\S+) ms, of which", text), *number(r"spends (\S+) ms", text))
    yield "page 5", drawn, (*number(r"^on \S+: (\S+) ms \(between", five),
                            *number(r"^exposed communication .*?(\d\S*) ms on the worst rank", five))

    for line in says["choices"]:
        calls, way, mean, worst = re.fullmatch(r"(.+), (\w+): (\S+) % mean, (\S+) % worst", line).groups()
        ways = "hybrid, autotune" if way in ("hybrid", "autotune") else way
        if way != "first":  # which the page leaves out
            row = number(rf"^\| {calls} \| \d+ \| {ways} \| (\S+) \| (\S+) \|", page("docs/14-kernels.md"))
            yield f"page 14, {line}", (mean, worst), row

    text, fifteen = "\n".join(says["dynamic-mask"]), page("docs/15-dynamic-mask.md").replace("\n", " ")
    yield ("page 15, all kept", [str(round(float(n))) for n in number(
        r"^32K tokens, 100 % of the cells kept, bias of pairs: (\S+) ms, of which the two floors (\S+)$", text)],
        number(r"of (\d+) ms with everything kept at 32K tokens they are (\d+)", fifteen))
    yield ("page 15, 2 % kept", number(r"^32K tokens, 2 % of the cells kept, bias of pairs: (\S+) ms", text),
           number(r"of (\S+) ms with 2 % kept", fifteen))


LESSONS = (  # a figure, what it says, its lesson, and where the lesson says the same
    ("lesson-placements", r"^contiguous: (\d+), \d+, \d+, (\d+) pairs$", "02-placements",
     r"rank 0 has (\d+) live\s+pairs and rank 3 has (\d+)"),
    ("lesson-strides", r"^head_strided: (\S+) ms, exposed (\S+) ms$", "04-strides",
     r"^head_stride=1: (\S+) ms\n   exposed communication (\S+) ms$"),
    ("lesson-hierarchy", r"^ring: all (\d+) MiB, between nodes (\d+) MiB$", "06-hierarchy",
     r"^ring: all (\d+) MiB, between nodes (\d+) MiB$"),
    ("lesson-race", r"^missing: (\d+) to (\d+)$", "10-plan", r"the edge (\d+) to (\d+) is"),
    ("lesson-memory", r"^peak (\S+) MiB$", "12-memory", r"dkv_tile 16  =  (\S+)$"),
    ("lesson-cost", r"^(\d+) tiles, (\d+) waves", "13-cost", r"tiles = .* = (\d+)\n[^=]*waves = ceil\(.*?\) = (\d+) "),
    ("lesson-bands", r"^ring: (\S+) ms", "14-prediction", r"^on \S+: (\S+) ms \(between"),
    ("lesson-routes", r"^ring: (\d+) messages", "15-algorithm", r"crosses in every step, (\d+) times"))


def lessons_checks(says):
    """The same of the lessons."""
    for figure, drawn, lesson, on_page in LESSONS:
        found = [word for word in number(on_page, page(f"docs/lessons/{lesson}.md")) if word]
        yield f"lesson {lesson}", number(drawn, "\n".join(says[figure])), found


def shown():
    """The figures that pages show."""
    names = set()
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        names |= set(re.findall(r"!\[[^]]*\]\((?:docs/|\.\./)?figures/([\w-]+)\.(?:svg|png)\)",
                                path.read_text(encoding="utf-8")))
    return names


def is_lesson(name):
    return name.startswith("lesson-")


def main(program):
    python = subprocess.run(["scripts/figures.sh", "--find-python"], cwd=ROOT, capture_output=True, check=False)
    every = python.returncode == 0
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, CPLAB=os.path.abspath(program), CPLAB_FIGURES=folder)
        done = subprocess.run(["scripts/figures.sh", *([] if every else ["--lessons"])], cwd=ROOT, env=environment,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"scripts/figures.sh: exit {done.returncode}: {done.stderr.strip().splitlines()[-1]}")
        drawn = {path.stem: description(path) for path in pathlib.Path(folder).glob("*.svg")}
    kept = {path.stem: description(path) for path in (ROOT / "docs/figures").glob("*.svg")}
    # A picture of a page (plots/pages.py) needs a browser: its numbers are held by tests/browser/pages.py.
    pictures = {path.stem for path in (ROOT / "docs/figures").glob("page-*.png")}
    wrong += [f"{name}: no page shows it, or there is no picture" for name in
              sorted(pictures ^ {name for name in shown() if name.startswith("page-")})]
    for name in sorted(name for name in (shown() | drawn.keys() | kept.keys()) - pictures if every or is_lesson(name)):
        if not drawn.get(name):
            wrong.append(f"{name}: no script draws it, or it says no numbers")
        elif drawn[name] != kept.get(name):
            wrong.append(f"docs/figures/{name}.svg is not what `make figures` draws now: it says {kept.get(name)}, now "
                         f"{drawn[name]}")
        if name not in shown():
            wrong.append(f"{name}: no page shows it")
    if not wrong:
        wrong = [f"{what}: the figure says {', '.join(figure)}; the page {', '.join(on_page)}"
                 for what, figure, on_page in [*(checks(drawn) if every else []), *lessons_checks(drawn)]
                 if list(figure) != list(on_page)]
    print("\n".join(wrong + [f"{len(drawn)} figures"]))
    if not wrong and not every:
        print("skipped: no Python here has matplotlib for the others (scripts/setup.sh figures installs it)")
        return SKIPPED
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
