"""Tensors of the caller's own against the reference: right ones are right, of a wrong one the place is named."""
import unittest

import cplab

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

B, S, H, G, D, E = 1, 64, 4, 2, 16, 24


def attention(q, k, v, dout):
    """Causal attention and its gradients, in double."""
    k, v = (numpy.repeat(each, H // G, axis=2) for each in (k, v))
    logits = numpy.einsum("bshd,bthd->bhst", q, k) * D**-0.5
    logits = numpy.where(numpy.tril(numpy.ones((S, S), bool)), logits, -numpy.inf)
    lse = numpy.log(numpy.exp(logits).sum(-1))
    p = numpy.exp(logits - lse[..., None])
    out = numpy.einsum("bhst,bthe->bshe", p, v)
    dp = numpy.einsum("bshe,bthe->bhst", dout, v)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * D**-0.5
    dq = numpy.einsum("bhst,bthd->bshd", ds, k)
    dk = numpy.einsum("bhst,bshd->bthd", ds, q).reshape(B, S, G, H // G, D).sum(3)
    dv = numpy.einsum("bhst,bshe->bthe", p, dout).reshape(B, S, G, H // G, E).sum(3)
    return {"out": out, "lse": lse, "dq": dq, "dk": dk, "dv": dv}


@unittest.skipUnless(numpy, "NumPy is not installed")
class Tensors(unittest.TestCase):
    def setUp(self):
        random = numpy.random.default_rng(7)
        shapes = ((B, S, H, D), (B, S, G, D), (B, S, G, E), (B, S, H, E))
        self.inputs = [random.standard_normal(shape).astype(numpy.float32) for shape in shapes]
        self.results = attention(*(each.astype(numpy.float64) for each in self.inputs))
        self.layout = {"mask": "causal", "ranks": 4, "placement": "zigzag"}

    def verify(self, **changes):
        return cplab.verify(*self.inputs, **{**self.results, **self.layout, **changes})

    def test_right_ones_are_right(self):
        result = self.verify()
        self.assertTrue(result.ok, result.findings)
        self.assertEqual(len(result.tensors), 5 * 4)
        self.assertTrue(self.verify(dtype="fp32", **{"out": self.results["out"].astype(numpy.float32)}).ok)

    def test_some_of_them(self):
        for name in self.results:
            result = cplab.verify(*self.inputs, **self.layout, **{name: self.results[name]})
            self.assertTrue(result.ok)
            self.assertEqual({each.tensor for each in result.tensors}, {name})
        forward = cplab.verify(*self.inputs[:3], out=self.results["out"], **self.layout)
        self.assertTrue(forward.ok)

    def test_every_wrong_one_is_named_with_rank_and_head(self):
        chunk = S // 8  # of a zigzag over 4 ranks
        for name in self.results:
            for position, rank in ((2 * chunk, 2), (5 * chunk, 2), (7 * chunk + 1, 0)):
                for head in range(self.results[name].shape[1 if name == "lse" else 2]):
                    wrong = self.results[name].copy()
                    at = (0, head, position) if name == "lse" else (0, position, head, 3)
                    wrong[at] += 0.1
                    result = self.verify(**{name: wrong})
                    self.assertFalse(result.ok)
                    self.assertEqual([(each.tensor, each.rank) for each in result.tensors if not each.ok], [(name, rank)])
                    finding, = result.findings
                    self.assertEqual((finding.kind, finding.rank), ("numerics", rank))
                    self.assertTrue(finding.message.startswith(name + ":"), finding.message)
                    self.assertIn(f"head {head} ", finding.message)

    def test_nan_is_wrong(self):
        wrong = self.results["dv"].copy()
        wrong[0, 0, 0, 0] = numpy.nan
        self.assertFalse(self.verify(dv=wrong).ok)

    def test_a_scenario_says_it_too(self):
        scenario = {"problem": {"batch": B, "sequence": S, "heads": H, "kv_heads": G, "head_size": D, "value_size": E,
                                "dtype": "fp32", "mask": "causal"},
                    "parallel": {"ranks": 4, "algorithm": "ring", "placement": "zigzag"}}
        self.assertTrue(cplab.verify(*self.inputs, scenario=scenario, **self.results).ok)

    def test_what_is_no_such_tensor(self):
        q, k, v, dout = self.inputs
        expanded = numpy.broadcast_to(self.results["dk"][:, :, :1], (B, S, G, D))
        cases = {
            "dk: stride 0 on axis 2": lambda: self.verify(dk=expanded),
            "dq: shape": lambda: self.verify(dq=self.results["dq"][:, :-1]),
            "out: dtype int32": lambda: self.verify(out=self.results["out"].astype(numpy.int32)),
            "v: shape": lambda: cplab.verify(q, k, v[0], dout, **self.results, **self.layout),
            "k: 3 heads": lambda: cplab.verify(q, k[:, :, [0, 1, 1]], v, dout, **self.results, **self.layout),
            "dout: needed": lambda: cplab.verify(q, k, v, dq=self.results["dq"], **self.layout),
            "mask: has to be given": lambda: cplab.verify(q, k, v, out=self.results["out"]),
            "nothing to compare": lambda: cplab.verify(q, k, v, **self.layout),
            "lse: shape": lambda: self.verify(lse=self.results["lse"].transpose(0, 2, 1)),
        }
        for begins, call in cases.items():
            with self.subTest(begins), self.assertRaises(ValueError) as caught:
                call()
            self.assertTrue(str(caught.exception).startswith(begins), str(caught.exception))

    def test_any_strides(self):
        q, k, v, dout = self.inputs
        apart = numpy.asfortranarray(q)
        self.assertTrue(cplab.verify(apart, k, v, dout, **self.results, **self.layout).ok)
        self.assertTrue(self.verify(out=numpy.asfortranarray(self.results["out"])).ok)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch(self):
        inputs = [torch.from_numpy(each).bfloat16() for each in self.inputs]
        results = attention(*(each.double().numpy() for each in inputs))
        theirs = {name: torch.from_numpy(each).bfloat16() if name != "lse" else torch.from_numpy(each)
                  for name, each in results.items()}
        result = cplab.verify(*inputs, **theirs, **self.layout)
        self.assertTrue(result.ok, result.findings)
        self.assertEqual(result.scenario.problem.dtype, "bf16")
        theirs["dk"][0, 9, 1] *= 1.5
        self.assertEqual([each.tensor for each in cplab.verify(*inputs, **theirs, **self.layout).findings
                          if not each.message.startswith("dk:")], [])


if __name__ == "__main__":
    unittest.main()
