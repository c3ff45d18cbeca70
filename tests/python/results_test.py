"""Results as objects: keys as attributes, copies, tables, and what a notebook shows."""
import copy
import pickle
import subprocess
import sys
import unittest
import xml.etree.ElementTree as xml

import cplab

try:
    import pandas
except ImportError:
    pandas = None


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = cplab.simulate("ring")

    def test_keys_are_attributes(self):
        self.assertEqual(self.result.schema, "cplab.simulate.1")
        self.assertEqual(self.result.command, "simulate")
        self.assertEqual(self.result.versions.cplab, self.result["versions"]["cplab"])
        self.assertEqual(self.result.ranks[3].rank, 3)
        self.assertEqual(self.result.scenario.parallel.algorithm, "ring")
        with self.assertRaises(AttributeError) as caught:
            self.result.time
        self.assertIn("time_s", str(caught.exception))
        with self.assertRaises(AttributeError):
            self.result.time_s = 1
        self.assertIn("time_s", dir(self.result))
        self.assertIn("time_s=", repr(self.result))

    def test_a_dict_is_a_copy(self):
        changed = self.result.to_dict()
        changed["ranks"][0]["rank"] = 77
        self.assertEqual(self.result.ranks[0].rank, 0)
        self.assertEqual(set(changed["ranks"][0]), set(self.result.ranks[0].keys()))

    def test_pickle_and_copy(self):
        for twin in (pickle.loads(pickle.dumps(self.result)), copy.deepcopy(self.result)):
            self.assertEqual(twin, self.result)
            self.assertEqual(twin.ok, self.result.ok)
            self.assertIs(type(twin), type(self.result))

    def test_tables(self):
        self.assertEqual([row["rank"] for row in self.result.records()], list(range(8)))
        with self.assertRaises(KeyError) as caught:
            self.result.records("operations")
        self.assertIn("ranks", str(caught.exception))
        rows = cplab.simulate("ring", operations=True).records("operations")
        self.assertIn("lane.kind", rows[0])

    @unittest.skipUnless(pandas, "pandas is not installed")
    def test_pandas(self):
        frame = self.result.to_pandas()
        self.assertEqual(len(frame), 8)
        self.assertEqual(frame["time_s"].max(), max(rank.time_s for rank in self.result.ranks))
        points = cplab.sweep({"scenario": "ring", "vary": {"problem.sequence": ["64K", "128K"]}}).to_pandas()
        self.assertEqual(len(points), 2)

    def test_without_pandas_it_says_so(self):
        program = ("import sys; sys.modules['pandas'] = None; import cplab\n"
                   "try: cplab.simulate('ring').to_pandas()\nexcept ImportError as error: print(error)")
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        self.assertIn("pip install pandas", said)

    def test_what_a_notebook_shows(self):
        page = self.result._repr_html_()
        self.assertIn("<table>", page)
        figure = xml.fromstring(page[page.index("<svg"):page.index("</svg>") + 6])
        spans = [each for each in figure.iter("{http://www.w3.org/2000/svg}rect")]
        operations = cplab.simulate("ring", operations=True).operations
        waiting = sum(each.wait_s > 0 for each in operations)
        self.assertEqual(len(spans), len(operations) + waiting)
        self.assertNotIn("operations", self.result)  # the result is what it was
        for other in (cplab.check("ring"), cplab.verify("ring-small"), cplab.list("algorithms"),
                      cplab.sweep({"scenario": "ring", "vary": {"problem.sequence": ["64K"]}}),
                      cplab.advise(model="llama3-8b", gpus=8, sequence="32K", hardware="h100x8", brief=True)):
            self.assertIn("<p>", other._repr_html_())

    def test_names_of_others_are_escaped(self):
        result = type(self.result)({"command": "<script>", "ranks": [{"a<b": "<i>"}]})
        self.assertNotIn("<script>", result._repr_html_())
        self.assertNotIn("<i>", result._repr_html_())


if __name__ == "__main__":
    unittest.main()
