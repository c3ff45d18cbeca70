"""Tensors of the caller's own against the reference: right ones are right, of a wrong one the place is named."""
import itertools
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


def attend(q, k, v, causal):
    """PyTorch's attention, which takes [B, H, S, D]."""
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return out.transpose(1, 2)


def pytorch_attention(dtype, heads, kv_heads, causal, ones=False):
    """Inputs of PyTorch, and what its attention and its autograd make of them; with `ones`, of the sum of all of out."""
    random = torch.Generator().manual_seed(11)
    q, k, v = (torch.randn(B, S, each, D, generator=random).to(dtype).requires_grad_()
               for each in (heads, kv_heads, kv_heads))
    out = attend(q, k, v, causal)
    dout = torch.ones((), dtype=dtype).expand(out.shape) if ones else torch.randn(out.shape, generator=random).to(dtype)
    out.backward(dout)
    return q, k, v, dout, {"out": out, "dq": q.grad, "dk": k.grad, "dv": v.grad}


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

    def test_sums_that_are_declared(self):
        """dv of one key head, added up in fp16 over 16 query heads and 8 blocks of queries."""
        heads, blocks = 16, 8
        random = numpy.random.default_rng(3)
        q, k, v, dout = (random.standard_normal((1, S, each, D)).astype(numpy.float16) for each in (heads, 1, 1, heads))
        logits = numpy.einsum("bshd,btd->bhst", q.astype(float), k[:, :, 0].astype(float)) * D**-0.5
        logits = numpy.where(numpy.tril(numpy.ones((S, S), bool)), logits, -numpy.inf)
        p = numpy.exp(logits) / numpy.exp(logits).sum(-1, keepdims=True)
        dv = numpy.zeros(v.shape, numpy.float16)
        for head, rows in itertools.product(range(heads), numpy.split(numpy.arange(S), blocks)):
            of_block = numpy.einsum("bst,bse->bte", p[:, head, rows], dout[:, rows, head].astype(float))
            dv[:, :, 0] += of_block.astype(numpy.float16)
        self.assertFalse(cplab.verify(q, k, v, dout, dv=dv, **self.layout).ok)
        sums = {"dkv": heads * blocks}
        result = cplab.verify(q, k, v, dout, dv=dv, sums=sums, **self.layout)
        self.assertTrue(result.ok, result.findings)
        self.assertIn("dkv=128", " ".join(result.notes))
        dv[0, 20, 0, 5] += 0.5
        self.assertFalse(cplab.verify(q, k, v, dout, dv=dv, sums=sums, **self.layout).ok)
        for wrong in ({"dk": 3}, {"dkv": 0}, {"dkv": "many"}):
            with self.assertRaisesRegex(cplab.ScenarioError, '--sums: "dk.*" is not legal; legal: out=N, dq=N, dkv=N'):
                cplab.verify(q, k, v, dout, dv=dv, sums=wrong, **self.layout)

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

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_attention(self):
        """Of scaled_dot_product_attention and its autograd: views that are transposed and require gradients."""
        for dtype, heads, kv_heads, causal in itertools.product(
                (torch.float16, torch.bfloat16, torch.float32, torch.float64), (8,), (8, 2, 1), (True, False)):
            with self.subTest(dtype=dtype, kv_heads=kv_heads, causal=causal):
                q, k, v, dout, results = pytorch_attention(dtype, heads, kv_heads, causal)
                mask = "causal" if causal else "full"
                # dk and dv are summed in dtype, over the query heads of a key head and blocks of 32 queries.
                sums = {"dkv": heads // kv_heads * (S // 32)}
                result = cplab.verify(q, k, v, dout, **results, mask=mask, ranks=4, placement="zigzag", sums=sums)
                self.assertTrue(result.ok, result.findings)
                self.assertEqual(len(result.tensors), 4 * 4)
                wrong = results["dk"].clone()
                wrong[0, 5, kv_heads - 1] *= 1.2
                finding, = cplab.verify(q, k, v, dout, **{**results, "dk": wrong}, mask=mask, sums=sums).findings
                self.assertTrue(finding.message.startswith("dk:"), finding.message)
                self.assertIn(f"head {kv_heads - 1}", finding.message)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_sums_in_dtype_are_to_be_declared(self):
        q, k, v, dout, results = pytorch_attention(torch.bfloat16, 16, 1, True)
        found = cplab.verify(q, k, v, dout, **results, mask="causal").findings
        self.assertEqual({each.message[:3] for each in found}, {"dk:", "dv:"})
        declared = cplab.verify(q, k, v, dout, **results, mask="causal", sums={"dkv": 16 * (S // 32)})
        self.assertTrue(declared.ok, declared.findings)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_lse(self):
        q, k, v = (torch.from_numpy(each).transpose(1, 2) for each in self.inputs[:3])
        k, v = (each.repeat_interleave(H // G, 1) for each in (k, v[..., :D]))
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)[:2]
        self.assertFalse(lse.is_contiguous())
        shared = [each.transpose(1, 2) for each in (q, k, v)]
        self.assertTrue(cplab.verify(*shared, out=out.transpose(1, 2), lse=lse, **self.layout).ok)
        finding, *_ = cplab.verify(*shared, lse=lse + 1e-4, **self.layout).findings
        self.assertTrue(finding.message.startswith("lse:"), finding.message)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_pytorch_strides(self):
        """Inputs may be expanded, results may be strided; a result that is expanded cannot have been computed."""
        q, k, v, dout, results = pytorch_attention(torch.float32, 4, 2, True, ones=True)
        self.assertEqual(dout.stride(), (0, 0, 0, 0))
        self.assertTrue(cplab.verify(q, k, v, dout, **results, **self.layout).ok)
        one = k[:, :, :1]
        shared = cplab.verify(q, one.expand(-1, -1, 2, -1), v, out=attend(q, one.repeat(1, 1, 2, 1), v, True), **self.layout)
        self.assertTrue(shared.ok, shared.findings)
        apart = torch.empty(*results["out"].shape[:-1], 2 * D)[..., ::2].copy_(results["out"].detach())
        self.assertTrue(cplab.verify(q, k, v, out=apart, **self.layout).ok)
        negated = torch.complex(torch.zeros_like(apart), -apart).conj().imag
        self.assertTrue(negated.is_neg())
        self.assertTrue(cplab.verify(q, k, v, out=negated, **self.layout).ok)
        with self.assertRaisesRegex(ValueError, "^dv: stride 0 on axis 2"):
            cplab.verify(q, k, v, dout, dv=results["dv"][:, :, :1].expand(-1, -1, 2, -1), **self.layout)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_what_is_no_such_tensor_of_pytorch(self):
        q, k, v, dout, results = pytorch_attention(torch.float32, 4, 2, True)
        out = results["out"].detach()
        rows = [each.detach() for each in (q[0], q[0])]
        cases = {
            "out: dtype int64": {"out": out.long()},
            "out: dtype complex64": {"out": out.to(torch.complex64)},
            "out: dtype float8_e4m3fn": {"out": out.to(torch.float8_e4m3fn)},
            "out: shape [1, 4, 64, 16]; legal: [1, 64, 4, 16]": {"out": out.transpose(1, 2)},
            "out: a tensor on meta": {"out": out.to("meta")},
            "out: a tensor on cpu of layout torch.sparse_coo": {"out": out.to_sparse()},
            "out: a tensor on cpu of layout torch.jagged": {
                "out": torch.nested.nested_tensor(rows, layout=torch.jagged)},
            "q: shape [64, 4, 16]; legal: 4 axes": {"q": q[0], "out": out},
            "k: a sequence of 32, and 64 of q": {"k": k[:, :32], "v": v[:, :32], "out": out},
        }
        for begins, changed in cases.items():
            inputs = [changed.pop(name, given) for name, given in (("q", q), ("k", k), ("v", v))]
            with self.subTest(begins), self.assertRaises(ValueError) as caught:
                cplab.verify(*inputs, **changed, **self.layout)
            self.assertTrue(str(caught.exception).startswith(begins), str(caught.exception))

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_the_dtype_that_was_computed_in(self):
        q, k, v, _, results = pytorch_attention(torch.bfloat16, 4, 2, True)
        wide = [each.float() for each in (q, k, v)]  # as autocast takes them
        self.assertFalse(cplab.verify(*wide, out=results["out"], **self.layout).ok)
        for dtype in ("bf16", "bfloat16", torch.bfloat16):
            result = cplab.verify(*wide, out=results["out"], dtype=dtype, **self.layout)
            self.assertTrue(result.ok, result.findings)
            self.assertEqual(result.scenario.problem.dtype, "bf16")
        self.assertFalse(cplab.verify(*wide, out=results["out"], dtype=numpy.float16, **self.layout).ok)
        with self.assertRaisesRegex(ValueError, "^dtype = torch.int8; legal: fp16"):
            cplab.verify(*wide, out=results["out"], dtype=torch.int8, **self.layout)


if __name__ == "__main__":
    unittest.main()
