"""The analyst's notebook (docs/shown/analyst.ipynb) is whole, and its cells say here what is committed. nbconvert executes
it in docs/shown/notebook.sh; this is the same without Jupyter, cell by cell, but for the figure."""
import ast
import contextlib
import io
import json
import os
import pathlib
import re
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "shown"
sys.path.insert(0, str(FOLDER))
import notebook  # noqa: E402

try:
    import pandas
except ImportError:
    pandas = None


def said_by(source, names):
    """What a code cell prints and what its last expression shows, as texts by their kind."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(last, "cell", "eval"), names) if last else None
    said = {"stdout": out.getvalue()} if out.getvalue() else {}
    if value is not None:
        said["text/plain"] = repr(value)
        if hasattr(value, "_repr_html_"):
            said["text/html"] = value._repr_html_()
    return {kind: notebook.normal(text) for kind, text in said.items()}


class Notebook(unittest.TestCase):
    def setUp(self):
        self.text = notebook.NOTEBOOK.read_text()
        self.cells = json.loads(self.text)["cells"]
        self.code = [cell for cell in self.cells if cell["cell_type"] == "code"]

    def test_it_is_executed_and_names_no_machine(self):
        self.assertLess(len(self.text.encode()), notebook.MOST_BYTES)
        self.assertEqual([cell["execution_count"] for cell in self.code], list(range(1, len(self.code) + 1)))
        self.assertEqual(len({cell["id"] for cell in self.cells}), len(self.cells))
        for cell in self.code:
            self.assertEqual(cell["metadata"], {})  # no times of day
            self.assertTrue(cell["outputs"], cell["id"])
            for output in cell["outputs"]:
                self.assertNotIn("error", output["output_type"], cell["id"])
                self.assertNotEqual(output.get("name"), "stderr", cell["id"])
        self.assertIsNone(re.search(r'[" (](/home|/root|/tmp|/usr|/opt|/Users)/', self.text))

    @unittest.skipUnless(pandas, "pandas is not installed")
    def test_its_cells_say_what_is_committed(self):
        names, pictures = {}, 0
        before = os.getcwd()
        pandas.set_option("display.max_columns", 20)  # as in a notebook: here pandas asks the terminal
        os.chdir(FOLDER)
        try:
            for cell in self.code:
                committed = notebook.texts(cell["outputs"])
                if any(kind.startswith("image/") for output in cell["outputs"] for kind in output.get("data", {})):
                    pictures += 1  # needs Matplotlib, and Jupyter to show it
                    ast.parse("".join(cell["source"]))
                    continue
                self.assertEqual(notebook.differences(cell["id"], committed, said_by("".join(cell["source"]), names)), [])
        finally:
            os.chdir(before)
        self.assertEqual(pictures, 1)


if __name__ == "__main__":
    unittest.main()
