"""cplab.torch where there is no GPU: what it says, which tokens a rank has, which tensors are read in place. What it
computes is checked on GPUs: scripts/torch_attention.py."""
import json
import unittest

try:
    import torch
except ImportError:
    torch = None

import cplab

SCENARIO = {
    "problem": {"batch": 2, "sequence": 32, "heads": 4, "kv_heads": 2, "head_size": 64, "dtype": "bf16",
                "mask": "causal", "direction": "forward+backward"},
    "parallel": {"ranks": 2, "algorithm": "ring", "placement": "zigzag"},
}
Q = {"buffer": "q", "plane": -1, "category": "input", "written": False, "dtype": "bf16", "heads_first": False, "slots": 1,
     "rows": 32, "heads": 4, "width": 64, "bytes": 16384, "any_strides": True}
K = {**Q, "buffer": "kv", "plane": 0, "heads": 2, "bytes": 8192, "any_strides": False}


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(unittest.TestCase):
    def prepared(self, rank=0, scenario=SCENARIO):
        """Rank `rank`'s plan without what a GPU has of it."""
        from cplab.torch import PreparedPlan, _plan_text
        text = _plan_text(scenario, {})
        plan = PreparedPlan.__new__(PreparedPlan)
        plan.rank, plan.world, plan.copies = rank, len(json.loads(text)["ranks"]), 0
        plan.device = torch.device("cpu")
        plan._read(text)
        return plan

    def test_it_says_what_is_missing(self):
        from cplab import _cplab
        import cplab.torch
        if _cplab.have_gpu_code() and torch.cuda.is_available():
            self.skipTest("a GPU is here")
        with self.assertRaisesRegex(cplab.EnvironmentError, "no GPU"):
            cplab.torch.prepare(SCENARIO)
        with self.assertRaisesRegex(TypeError, "legal: what cplab.torch.prepare"):
            cplab.torch.attention(None, plan=SCENARIO)

    def test_plan_is_one_of_two_calls_over_nccl(self):
        from cplab.torch import _plan_text
        plan = json.loads(_plan_text(SCENARIO, {}))
        self.assertEqual(plan["scenario"]["schedule"]["between"], "layers")
        transports = {op["transport"] for rank in plan["ranks"] for op in rank["operations"]}
        self.assertEqual(transports, {"nccl"})

    def test_tokens_are_those_of_the_placement(self):
        # Zigzag of 2 ranks cuts each sample into 4: rank 0 has the first and the last, rank 1 those between.
        own = [*range(0, 8), *range(24, 32)]
        others = list(range(8, 24))
        for rank, tokens in ((0, own), (1, others)):
            wanted = tokens + [32 + token for token in tokens]
            self.assertEqual(self.prepared(rank).tokens().tolist(), wanted)

    def test_shards_have_the_samples_outermost(self):
        plan = self.prepared(0)
        whole = torch.arange(64).view(2, 32, 1, 1).expand(2, 32, 4, 64)
        shard = plan.shard(whole)
        self.assertEqual(list(shard.shape), [2, 16, 4, 64])
        self.assertEqual(shard[1, 8, 0, 0].item(), 32 + 24)

    def changed(self, problem=(), parallel=()):
        return {"problem": {**SCENARIO["problem"], **dict(problem)}, "parallel": {**SCENARIO["parallel"], **dict(parallel)}}

    def test_packed_sequences_with_padding_between(self):
        scenario = self.changed()
        for key in ("batch", "sequence"):
            del scenario["problem"][key]
        scenario["problem"]["lengths"] = [13, 19]
        both = torch.cat([self.prepared(rank, scenario).tokens() for rank in (0, 1)])
        plan = self.prepared(0, scenario)
        padded = plan.problem.get("padded_lengths") or [13, 19]
        real = [*range(13), *range(padded[0], padded[0] + 19)]
        self.assertEqual(sorted(both[both >= 0].tolist()), real)
        whole = torch.arange(sum(padded))
        shard = plan.shard(whole)
        self.assertEqual(shard[plan.tokens() >= 0].tolist(), plan.tokens()[plan.tokens() >= 0].tolist())
        rows = len(shard)
        q = torch.zeros(rows, 4, 64, dtype=torch.bfloat16)
        self.assertEqual(plan.fitted("q", q, {**Q, "rows": rows}).data_ptr(), q.data_ptr())
        with self.assertRaisesRegex(ValueError, "q: shape"):
            plan.fitted("q", q[None], {**Q, "rows": rows})

    def test_replicas_have_their_own_samples(self):
        scenario = self.changed(parallel={"replicas": 2})
        seen = []
        for rank in range(4):
            plan = self.prepared(rank, scenario)
            self.assertEqual(plan.samples(), 1)
            self.assertEqual(list(plan.shard(torch.zeros(2, 32, 4, 64)).shape), [1, 16, 4, 64])
            seen += plan.tokens().tolist()
        self.assertEqual(sorted(seen), list(range(64)))

    def test_rows_that_are_no_shares_of_samples(self):
        plan = self.prepared(1, self.changed({"sequence": 31}, {"placement": "stream", "ranks": 4}))
        self.assertEqual(plan.samples(), 0)  # the end of the first sample and the beginning of the second
        self.assertEqual(list(plan.shard(torch.zeros(2, 31, 4, 64)).shape), [len(plan.tokens()), 4, 64])

    def test_other_inputs_have_their_shape(self):
        plan = self.prepared()
        sink = {**Q, "buffer": "sink", "dtype": "fp32", "rows": 1, "heads": 4, "width": 1, "bytes": 16}
        wide = torch.zeros(9)
        for tensor, copies in ((torch.zeros(4), 0), (torch.zeros(1, 4, 1), 0), (wide[1:5], 1), (torch.zeros(8)[::2], 2)):
            plan.fitted("sink", tensor, sink)
            self.assertEqual(plan.copies, copies)
        decay = {**Q, "buffer": "log_decay", "dtype": "fp32", "width": 1, "bytes": 512}
        plan.fitted("log_decay", torch.zeros(2, 16, 4), decay)
        for shape in ((2, 4, 16), (4, 32)):  # heads before tokens: as many numbers, another meaning
            with self.assertRaisesRegex(ValueError, "log_decay: shape"):
                plan.fitted("log_decay", torch.zeros(*shape), decay)

    def test_what_one_rank_fails_in_all_of_them_raise(self):
        import threading
        everybody, meet, raised = [None, None], threading.Barrier(2), {}

        def gathered(into, own, group=None):  # torch.distributed.all_gather_object of two threads
            everybody[threading.current_thread().rank] = own
            meet.wait()
            into[:] = everybody
            meet.wait()

        def prepare(rank, error, scenario):
            threading.current_thread().rank = rank
            plan = self.prepared(rank, scenario)
            plan.group = None
            try:
                raised[rank] = plan._agreed(b"id" if rank == 0 else b"", error)
            except Exception as found:
                raised[rank] = found

        def both(error=None, other=SCENARIO):
            threads = [threading.Thread(target=prepare, args=(0, None, SCENARIO)),
                       threading.Thread(target=prepare, args=(1, error, other))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return raised[0], raised[1]

        kept, torch.distributed.all_gather_object = torch.distributed.all_gather_object, gathered
        try:
            self.assertEqual(both(), (b"id", b"id"))
            first, second = both(cplab.EnvironmentError("no GPU 1"))
            self.assertIsInstance(first, cplab.EnvironmentError)
            self.assertEqual((str(first), str(second)), ("rank 1: no GPU 1", "no GPU 1"))
            first, second = both(other=self.changed({"heads": 8}))
            self.assertIn("another plan", str(first))
            self.assertIn("another plan", str(second))
        finally:
            torch.distributed.all_gather_object = kept

    def test_what_is_not_run_is_refused(self):
        from cplab.torch import _plan_text
        latent = self.changed({"kv_latent": 64, "rope_size": 16, "head_size": 48, "kv_heads": 4})
        with self.assertRaisesRegex(cplab.ScenarioError, "latent keys"):
            self.prepared(0, latent)
        with self.assertRaisesRegex(cplab.ScenarioError, "is for 2 processes"):
            plan = self.prepared()
            plan.world = 3
            plan._read(_plan_text(SCENARIO, {}))
        with self.assertRaisesRegex(TypeError, "written already"):
            _plan_text(cplab.Plan({**SCENARIO}), {"set": {"problem.batch": 1}})

    def test_what_can_be_read_in_place_is(self):
        plan = self.prepared()
        together = torch.zeros(2, 16, 8, 64, dtype=torch.bfloat16)
        for q in (torch.zeros(2, 16, 4, 64, dtype=torch.bfloat16), together[:, :, :4], together[:, :, 4:],
                  torch.zeros(32, 4, 64, dtype=torch.bfloat16)):
            fitted = plan.fitted("q", q, Q)
            self.assertEqual(fitted.data_ptr(), q.data_ptr())
            self.assertEqual(list(fitted.shape), [32, 4, 64])
        self.assertEqual(plan.copies, 0)

    def test_what_cannot_is_copied(self):
        plan = self.prepared()
        ones = torch.ones(1, dtype=torch.bfloat16)
        together = torch.randn(2, 16, 6, 64).to(torch.bfloat16)
        turned = torch.randn(2, 4, 16, 64).to(torch.bfloat16).transpose(1, 2)
        shifted = torch.randn(2 * 16 * 4 * 64 + 1).to(torch.bfloat16)[1:].view(2, 16, 4, 64)
        cases = [("dout", ones.expand(2, 16, 4, 64), Q), ("k", together[:, :, 4:], K), ("q", turned, Q),
                 ("q", shifted, Q)]
        for count, (name, tensor, wanted) in enumerate(cases, 1):
            fitted = plan.fitted(name, tensor, wanted)
            self.assertNotEqual(fitted.data_ptr(), tensor.data_ptr())
            self.assertTrue(torch.equal(fitted, tensor.reshape(fitted.shape)))
            self.assertEqual(plan.copies, count)

    def test_errors_name_tensor_and_plan(self):
        plan = self.prepared()
        for tensor, says in ((torch.zeros(2, 16, 4, 64), "q: dtype torch.float32; the plan (ring, 2 ranks, bf16) takes"),
                             (torch.zeros(2, 15, 4, 64, dtype=torch.bfloat16), "takes [2, 16, 4, 64] or [32, 4, 64]"),
                             (torch.zeros(16, 2, 4, 64, dtype=torch.bfloat16), "q: shape [16, 2, 4, 64]"),
                             ([1.0], "q: list; legal")):
            with self.assertRaises(ValueError) as raised:
                plan.fitted("q", tensor, Q)
            self.assertIn(says, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
