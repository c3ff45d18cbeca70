"""Every block of docs/22-python.md, one after the other: what it prints is what stands below it.

    python3 page_test.py --fix        writes what they print into the page
"""
import contextlib
import io
import pathlib
import re
import sys
import unittest

try:
    import numpy
except ImportError:
    numpy = None

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "22-python.md"
BLOCK = re.compile(r"```python\n(.*?)```\n```text\n(.*?)```", re.DOTALL)


def printed(page):
    """(what the page says, what the block prints), for each block."""
    names = {}
    for code, expected in BLOCK.findall(page):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, str(PAGE), "exec"), names)
        yield expected, out.getvalue()


class Page(unittest.TestCase):
    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_blocks(self):
        page = PAGE.read_text()
        self.assertEqual(page.count("```python"), len(BLOCK.findall(page)))
        for expected, got in printed(page):
            self.assertEqual(expected, got)


if __name__ == "__main__":
    if "--fix" in sys.argv:
        text = PAGE.read_text()
        real = iter([got for _, got in printed(text)])
        PAGE.write_text(BLOCK.sub(lambda block: f"```python\n{block[1]}```\n```text\n{next(real)}```", text))
    else:
        unittest.main()
