"""Executes analyst.ipynb with nbconvert and holds the texts of its outputs to those in the file; notebook.sh calls it.

    python3 notebook.py [--write]     --write puts the outputs into the file instead
"""
import difflib
import json
import pathlib
import re
import sys

NOTEBOOK = pathlib.Path(__file__).resolve().parent / "analyst.ipynb"
MOST_BYTES = 70_000
_LONG_NUMBER = re.compile(r"\b\d+\.\d{10,}(e[-+]?\d+)?")  # its last digits are the compiler's and the C library's


def texts(outputs):
    """What outputs of a cell say in words, as {kind of text: the text}; pictures say nothing here."""
    said = {}
    for output in outputs:
        parts = {output["name"]: output["text"]} if output["output_type"] == "stream" else output.get("data", {})
        if output["output_type"] == "error":
            parts = {"error": output["ename"] + ": " + output["evalue"]}
        for kind, text in parts.items():
            if not kind.startswith("image/"):
                said[kind] = said.get(kind, "") + "".join(text)
    return {kind: normal(text) for kind, text in said.items()}


def normal(text):
    """With at most nine digits of every number, and without blanks at the ends of lines."""
    shorter = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.9g}", text)
    return "\n".join(line.rstrip() for line in shorter.strip().splitlines())


def differences(name, committed, now):
    """The lines in which the texts of a cell differ, as a diff; a kind that only one of them has is a difference."""
    lines = []
    for kind in sorted({*committed, *now}):
        before, after = committed.get(kind, "").splitlines(), now.get(kind, "").splitlines()
        lines += difflib.unified_diff(before, after, f"{name}: {kind}, committed", f"{name}: {kind}, now", n=1, lineterm="")
    return lines


def executed(path):
    """The notebook, run from its first cell to its last in a kernel of this interpreter; CellExecutionError if one fails."""
    import nbformat
    from nbconvert.preprocessors import ExecutePreprocessor

    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    run = ExecutePreprocessor(timeout=300, kernel_name="python3", record_timing=False)
    run.preprocess(notebook, {"metadata": {"path": str(path.parent)}})
    # What says which interpreter it was, and when, would differ from one machine to the next.
    notebook.metadata = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
                         "language_info": {"name": "python"}}
    return notebook


def main(words):
    if words not in ([], ["--write"]):
        sys.exit(f"usage: {sys.argv[0]} [--write]")
    committed = json.loads(NOTEBOOK.read_text())
    notebook = executed(NOTEBOOK)
    if words:
        import nbformat

        text = nbformat.writes(notebook) + "\n"
        if len(text.encode()) > MOST_BYTES:
            sys.exit(f"{NOTEBOOK}: {len(text.encode())} bytes, more than {MOST_BYTES}: not written")
        NOTEBOOK.write_text(text)
        return 0
    lines = []
    for before, after in zip(committed["cells"], notebook.cells):
        lines += differences(before["id"], texts(before.get("outputs", [])), texts(after.get("outputs", [])))
    if lines:
        print("\n".join(lines))
        print(f"{NOTEBOOK.name}: other texts than those committed; docs/shown/notebook.sh --write renews them",
              file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
