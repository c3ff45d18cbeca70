"""cplab.torch where there is no GPU: what it says, which tokens a rank has, which tensors are read in place. What it
computes is checked on GPUs: scripts/torch_attention.py check."""
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
        from cplab import _cplab
        from cplab.torch import PreparedPlan, _plan_text
        text = _plan_text(scenario, {})
        shown = json.loads(text)
        plan = PreparedPlan.__new__(PreparedPlan)
        plan.rank, plan.world, plan.copies, plan._label = rank, 2, 0, "the plan (ring, 2 ranks, bf16)"
        plan.device, plan.problem = torch.device("cpu"), shown["scenario"]["problem"]
        plan.replica, plan.position = shown["ranks"][rank]["replica"], shown["ranks"][rank]["position"]
        plan._frame = _cplab.PlanFrame(text)
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
                             ([1.0], "q: list; legal")):
            with self.assertRaises(ValueError) as raised:
                plan.fitted("q", tensor, Q)
            self.assertIn(says, str(raised.exception))


if __name__ == "__main__":
    unittest.main()
