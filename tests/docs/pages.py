#!/usr/bin/env python3
"""Runs every "$ " command in the console blocks of the pages named and compares its output with the page; so too what
stands between <!-- $ COMMAND --> and <!-- end -->: tables that a command prints as markdown.

    tests/docs/pages.py [--fix] [--only blocks|tables] docs/*.md        from the root, with build/release built

--fix writes the real output into the pages; --only: the console blocks, or the tables. Exit 1 if a page differs.
"""
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(command):
    result = subprocess.run(["bash", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, check=False)
    return [line.rstrip() for line in result.stdout.splitlines()]


def checked_block(block, page, differences):
    """The block with the output its commands really give; differences are appended."""
    lines = block.splitlines()
    result = []
    i = 0
    while i < len(lines):
        if not lines[i].startswith("$ "):
            raise SystemExit(f"{page}: a console block begins with a command, not with: {lines[i]}")
        result.append(lines[i])
        command = lines[i][2:]
        i += 1
        while command.endswith("\\"):
            result.append(lines[i])
            command = command[:-1] + lines[i]
            i += 1
        expected = []
        while i < len(lines) and not lines[i].startswith("$ "):
            expected.append(lines[i])
            i += 1
        output = run(command)
        if output != expected:
            differences.append(f"{page}: {command}")
            differences += difflib.unified_diff(expected, output, "page", "now", lineterm="", n=0)
        result += output
    return "```console\n" + "\n".join(result) + "\n```"


def checked_table(command, lines, page, differences):
    output = run(command)
    if output != lines:
        differences.append(f"{page}: {command}")
        differences += difflib.unified_diff(lines, output, "page", "now", lineterm="", n=0)
    return "\n".join([f"<!-- $ {command} -->", *output, "<!-- end -->"])


def main(arguments):
    differences = []
    only = ""
    if "--only" in arguments:
        place = arguments.index("--only")
        only = arguments[place + 1]
        if only not in ("blocks", "tables"):
            raise SystemExit(f"--only {only}: it is blocks or tables")
        arguments = arguments[:place] + arguments[place + 2:]
    pages = [pathlib.Path(a) for a in arguments if a != "--fix"]
    commands = 0
    begins = {"blocks": r"^\$ ", "tables": r"^<!-- \$ "}.get(only, r"^(?:<!-- )?\$ ")
    for page in pages:
        text = page.read_text()
        commands += len(re.findall(begins, text, flags=re.M))
        new = text
        if only != "tables":
            new = re.sub(r"```console\n(.*?)\n```", lambda m: checked_block(m.group(1), page, differences), new,
                         flags=re.S)
        if only != "blocks":
            new = re.sub(r"^<!-- \$ (.*?) -->\n(.*?)^<!-- end -->$",
                         lambda m: checked_table(m.group(1), m.group(2).splitlines(), page, differences), new,
                         flags=re.S | re.M)
        if "--fix" in arguments and new != text:
            page.write_text(new)
    print("\n".join(differences + [f"{commands} commands on {len(pages)} pages"]))
    return 1 if (differences and "--fix" not in arguments) or not commands else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
