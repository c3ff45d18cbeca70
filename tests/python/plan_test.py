"""Plans written in Python: the examples equal the algorithms of the house operation by operation, and are right."""
import copy
import json
import pathlib
import sys
import unittest

import cplab
from cplab.rows import Rows, runs_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "examples"))
from pass_q import pass_q  # noqa: E402
from pipeline import pipeline  # noqa: E402
from ring import ring  # noqa: E402

PROBLEM = {"batch": 1, "sequence": 96, "heads": 4, "kv_heads": 2, "head_size": 16, "value_size": 24, "dtype": "bf16",
           "mask": "causal"}
MACHINE = {"file": "hardware/h100x8.toml"}


def scenario_of(algorithm, ranks, placement="zigzag", schedule=None, **problem):
    return {"problem": {**PROBLEM, **problem}, "schedule": schedule or {}, "hardware": MACHINE,
            "parallel": {"ranks": ranks, "algorithm": algorithm, "placement": placement}}


def ring_scenario(ranks, placement="zigzag", **problem):
    return scenario_of("ring", ranks, placement, {"merge": "fused", "compute_lanes": 1, "rotation": "whole"}, **problem)


def operations_of(shown):
    return [[each for each in rank["operations"]] for rank in shown["ranks"]]


def right(result):
    return result.ok, [finding.to_dict() for finding in result.findings]


class SameAsOurs(unittest.TestCase):
    maxDiff = None

    def compare(self, plan, scenario, sizes=True):
        """Derived edges and addresses: what the reader of the plan fills in is what our builder derives."""
        ours, theirs = cplab.show(scenario).to_dict(), cplab.show(plan).to_dict()
        for rank, (mine, written) in enumerate(zip(operations_of(ours), operations_of(theirs))):
            for a, b in zip(mine, written):
                self.assertEqual(a, b, f"rank {rank}")
            self.assertEqual(len(mine), len(written))
        for mine, written in zip(ours["ranks"], theirs["ranks"]) if sizes else ():
            self.assertEqual(*({each["name"]: each["bytes"] for each in rank["buffers"]} for rank in (mine, written)))

    def test_ring(self):
        for ranks in (3, 4, 5, 8):
            for placement in ("zigzag", "striped"):
                for direction in ("forward", "forward+backward"):
                    with self.subTest(ranks=ranks, placement=placement, direction=direction):
                        scenario = ring_scenario(ranks, placement, direction=direction)
                        self.compare(ring(scenario), scenario)

    def test_ring_of_packed_and_full(self):
        for problem in ({"mask": "full"}, {"batch": 2, "sequence": 101}, {"window": [40, 0]}):
            with self.subTest(problem):
                scenario = ring_scenario(4, **problem)
                if "window" in problem:
                    self.assertEqual(right(ring({**scenario, "problem": {**scenario["problem"],
                                                                         "direction": "forward"}}).verify()), (True, []))
                    continue
                self.compare(ring(scenario), scenario)

    def test_pass_q(self):
        for ranks in (3, 4, 6):
            scenario = scenario_of("pass_q", ranks, direction="forward")
            self.compare(pass_q(scenario), scenario, sizes=False)  # ours are no larger than what a rank receives


class Read(unittest.TestCase):
    def test_every_reader(self):
        for plan in (ring(ring_scenario(4)), pass_q(scenario_of("pass_q", 4, direction="forward")),
                     pipeline(scenario_of("ring", 2, direction="forward"))):
            self.assertEqual(right(plan.check()), (True, []))
            self.assertEqual(right(plan.verify()), (True, []))
            for seed in range(3):
                self.assertEqual(right(plan.verify(order=f"random:{seed}")), (True, []))
            self.assertGreater(plan.simulate().time_s, 0)
            self.assertEqual(len(plan.run(device="cpu", iterations=1, warmup=0).ranks), plan.P)

    def test_pipeline_hides_its_messages(self):
        scenario = scenario_of("ring", 2, direction="forward", sequence=65536, heads=32, kv_heads=8, head_size=128,
                               value_size=128)
        for mask in ("causal", "full"):
            scenario["problem"]["mask"] = mask
            result = pipeline(scenario).simulate()
            self.assertLess(max(rank.exposed_communication_s for rank in result.ranks), 0.02 * result.time_s)

    def test_a_missing_hop_is_found(self):
        plan = ring(ring_scenario(4, direction="forward"))
        rank = plan.ranks[2]
        rank.operations = [each for each in rank.operations if each["kind"] != "exchange" or each["step"] != 1]
        result = plan.check()
        self.assertFalse(result.ok)
        self.assertTrue({finding.rank for finding in result.findings} & {1, 2, 3})
        self.assertIn("unmatched", {finding.kind for finding in result.findings})

    def test_a_wrong_tile_is_found(self):
        plan = cplab.Plan(ring_scenario(4, direction="forward"))
        for b in plan.ranks:
            b.attend(b.tile(b.position, take="all"), b.q, b.kv.k, b.kv.v, b.out, b.lse)
        result = plan.check()
        self.assertEqual({finding.kind for finding in result.findings}, {"coverage"})
        self.assertFalse(plan.verify().ok)

    def test_given_edges_are_taken_as_they_are(self):
        for given, ok in ((True, True), (False, False)):
            plan = cplab.Plan(scenario_of("ring", 1, placement="contiguous", direction="forward"))
            b, = plan.ranks
            total = b.buffer("sum", like=b.out, role="wide")
            first = b.attend(b.tile(0, take="all"), b.q, b.kv.k, b.kv.v, total, b.lse, lane=cplab.compute(0), after=[])
            b.cast(total, b.out, lane=cplab.compute(1), after=[first] if given else [])
            self.assertEqual(plan.check().ok, ok)

    def test_a_malformed_one_is_an_error(self):
        plan = ring(ring_scenario(4))
        plan.ranks[1].operations[3]["reads"][0]["buffer"] = "nobody"
        with self.assertRaises(cplab.ScenarioError) as caught:
            plan.check()
        self.assertIn("<plan>", str(caught.exception))
        self.assertIn("nobody", str(caught.exception))
        with self.assertRaises(ValueError):
            plan.ranks[0].buffer("kv_slots", like=plan.ranks[0].kv)
        with self.assertRaises(ValueError):
            cplab.Plan("lasp")
        with self.assertRaises(ValueError):
            plan.ranks[0].kv.slot(1)

    def test_the_file_is_one_of_show(self):
        plan = ring(ring_scenario(3))
        again = cplab.check(json.loads(plan.to_json()))
        self.assertEqual(again.to_dict()["sent_bytes"], plan.check().to_dict()["sent_bytes"])


class RowsOf(unittest.TestCase):
    def test_sets(self):
        a, b = Rows([(0, 8, 1), (8, 2, 1), (20, 5, 1)]), Rows([(4, 18, 1)])
        for combined, keeps in ((a | b, set.union), (a & b, set.intersection), (a - b, set.difference)):
            of = [{row for begin, count, _ in rows for row in range(begin, begin + count)} for rows in (a, b, combined)]
            self.assertEqual(of[2], keeps(of[0], of[1]))
        self.assertEqual(a.ranges, [(0, 10, 1), (20, 5, 1)])
        self.assertFalse(a - a)

    def test_runs_of_lists(self):
        self.assertEqual(runs_of([4, 5, 6]), [(0, 0, 3, 3, 4, 1, 1)])
        self.assertEqual(runs_of([1, 5, 9, 2]), [(0, 0, 3, 3, 1, 4, 1), (0, 3, 1, 1, 2, 1, 1)])
        self.assertEqual(runs_of([(0, 7), (0, 8), None, (1, 0)]), [(0, 0, 3, 2, 7, 1, 1), (1, 3, 1, 1, 0, 1, 1)])

    def test_tiles_of_lists_have_the_pairs_of_the_mask(self):
        plan = cplab.Plan(ring_scenario(1, "contiguous", direction="forward"))
        for q, k in (([0, 1, 2, 3], [0, 1, 2, 3]), ([3, 7, 11], [0, 1, 2, 3, 4, 5, 6, 7]), ([9, 4, 5], [5, 6, 0, 1, 2])):
            tile = plan.tile(q, k)
            self.assertEqual(tile.pairs, sum(a >= b for a in q for b in k))


if __name__ == "__main__":
    unittest.main()
