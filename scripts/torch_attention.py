#!/usr/bin/env python3
"""cplab.torch.attention in a process of PyTorch: its results against PyTorch's. Its times: peer_torch.py.

    torchrun --nproc-per-node 2 scripts/torch_attention.py [--only NAME]

Algorithms, dtypes and layouts, each held against attention in double on the same inputs: out, dq, dk, dv and lse
may be off, in relative L2 norm, by ALLOWED times what PyTorch's own attention in the same dtype on one GPU is off. Then
what a training step does to a function: q that is a slice of a packed projection, a gradient that is one number expanded,
another stream, inputs that are written at the last moment, layers one behind the other, two backwards of one forward,
checkpoints. Exit code 1 if one of them is wrong.
"""
import argparse
import datetime
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch.utils.checkpoint import checkpoint

import cplab.torch

ALLOWED = 1.5  # the partial results of P ranks are rounded and merged: more roundings than one kernel has, of one size


class Wrong(Exception):
    """A result that is not what it should be."""


class Group:
    """This process among those that torchrun started."""

    def __init__(self):
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", device_id=self.device, timeout=datetime.timedelta(seconds=120))
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def largest(self, values):
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor.tolist()

    def say(self, text):
        if self.rank == 0:
            print(text, file=sys.stderr, flush=True)


def in_group(work):
    """Exit code: what work(group) returns, or 0 for None; 3 where there is no GPU."""
    if not torch.cuda.is_available():
        print(f"{os.path.basename(sys.argv[0])}: no GPU here", file=sys.stderr)
        return 3
    code = work(Group())
    dist.barrier()
    dist.destroy_process_group()
    return code or 0


def random(shape, dtype, seed, device):
    """The same on every rank."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randn(shape, dtype=torch.float32, device=device, generator=generator).to(dtype)


def dense(q, k, v, mask, dtype, sink=None, softcap=0):
    """out [B, S, H, E] and lse [B, H, S] by the formula, in `dtype`; differentiable. sink [H]: one more logit of a row."""
    groups = q.shape[2] // k.shape[2]
    q, k, v = (t.to(dtype).transpose(1, 2) for t in (q, k, v))
    k, v = (t.repeat_interleave(groups, dim=1) for t in (k, v))
    logits = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    logits = logits.masked_fill(~mask, float("-inf"))
    rows = logits
    if sink is not None:
        rows = torch.cat([logits, sink.to(dtype)[None, :, None, None].expand(*logits.shape[:-1], 1)], dim=-1)
    weights = rows.softmax(-1)[..., :logits.shape[-1]]
    return (weights @ v).transpose(1, 2), rows.logsumexp(-1)


def dense_linear(q, k, v, gates, dtype):
    """Linear attention with a factor exp(g) for every token and head, all pairs at once: out [B, S, H, E]."""
    q, k, v = (t.to(dtype).transpose(1, 2) for t in (q, k, v))
    sums = gates.to(dtype).transpose(1, 2).cumsum(-1)
    between = (sums[..., :, None] - sums[..., None, :]).tril()
    return ((q @ k.transpose(2, 3)) * between.exp().tril() @ v).transpose(1, 2)


def mask_of(problem, sequence, device):
    i, j = torch.arange(sequence, device=device)[:, None], torch.arange(sequence, device=device)
    if "lengths" in problem:  # one sample of the packed sequences, which do not see each other
        number = torch.repeat_interleave(torch.arange(len(problem["lengths"])), torch.tensor(problem["lengths"])).to(device)
        return (number[:, None] == number) & (j <= i)
    if problem.get("mask") == "causal":
        seen = j <= i
    else:
        seen = torch.ones(sequence, sequence, dtype=torch.bool, device=device)
    if "window" in problem:
        seen &= i - j <= problem["window"][0]
    return seen


def scenario_of(case, ranks):
    problem = {"batch": 1, "sequence": 1024, "heads": 8, "kv_heads": 8, "head_size": 128, "dtype": "bf16",
               "mask": "causal", "direction": "forward+backward", **case.get("problem", {})}
    parallel = {"ranks": ranks, "algorithm": "ring", "placement": "zigzag", **case.get("parallel", {})}
    if parallel.get("replicas", 1) > 1:  # as many ranks in all
        parallel |= {"replicas": ranks, "ranks": 1}
    problem = {key: value for key, value in problem.items() if value is not None}
    return {"problem": problem, "parallel": parallel, "schedule": case.get("schedule", {})}


def off(found, wanted):
    error = (found.double() - wanted.double()).norm() / wanted.double().norm()
    return error.item() if error == error else 1e30


class Case:
    """One scenario, its inputs on all ranks and what double says of them."""

    def __init__(self, group, case):
        self.group = group
        self.scenario = scenario_of(case, group.ranks)
        problem = self.scenario["problem"]
        h, g, d = (problem[key] for key in ("heads", "kv_heads", "head_size"))
        b, s = (1, sum(problem["lengths"])) if "lengths" in problem else (problem["batch"], problem["sequence"])
        self.dtype = getattr(torch, {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}[problem["dtype"]])
        shapes = ((b, s, h, d), (b, s, g, d), (b, s, g, d), (b, s, h, d))
        self.q, self.k, self.v, self.dout = (random(shape, self.dtype, seed, group.device)
                                             for seed, shape in enumerate(shapes))
        self.plan = cplab.torch.prepare(self.scenario)
        self.sink = random((h,), torch.float32, 4, group.device) if problem.get("sink") else None
        self.linear = problem.get("attention") == "linear"
        self.gates = -random((b, s, h), torch.float32, 5, group.device).abs() * 0.1 if self.linear else None
        self.wanted = self.reference(torch.float64, self.dout)

    def dense(self, leaves, dtype, dout):
        problem = self.scenario["problem"]
        leaves = [t.detach().to(dtype).requires_grad_() for t in leaves]
        if self.linear:
            out = dense_linear(*leaves, dtype)
            gradients = torch.autograd.grad(out, leaves, dout.to(dtype))
            return dict(zip(("out", "dq", "dk", "dv", "dlog_decay"), (out.detach(), *gradients)))
        mask = mask_of(problem, self.q.shape[1], self.group.device)
        out, lse = dense(*leaves[:3], mask, dtype, *leaves[3:], softcap=problem.get("softcap", 0))
        gradients = torch.autograd.grad(out, leaves, dout.to(dtype))
        return dict(zip(("out", "lse", "dq", "dk", "dv", "dsink"), (out.detach(), lse.detach(), *gradients)))

    def reference(self, dtype, dout):
        return self.dense([t for t in (self.q, self.k, self.v, self.sink, self.gates) if t is not None], dtype, dout)

    def of_torch(self, dout):
        """PyTorch's own attention on one GPU, in the dtype: how far a right result may be off."""
        problem = self.scenario["problem"]
        if problem.get("sink") or problem.get("softcap"):
            return self.reference(self.dtype, dout)  # step by step in the dtype: as far off, or farther
        mask = mask_of(problem, self.q.shape[1], self.group.device)
        leaves = [t.detach().requires_grad_() for t in (self.q, self.k, self.v)]
        q, k, v = (t.transpose(1, 2) for t in leaves)
        plain = problem.get("mask") == "causal" and "window" not in problem and "lengths" not in problem
        more = {"is_causal": True} if plain else {"attn_mask": mask}
        groups = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
        out = functional.scaled_dot_product_attention(q, k, v, **more, **groups).transpose(1, 2)
        gradients = torch.autograd.grad(out, leaves, dout)
        return dict(zip(("out", "dq", "dk", "dv"), (out.detach(), *gradients)))

    def shard(self, tensor):
        """Packed sequences have no axis of samples."""
        return self.plan.shard(tensor[0] if "lengths" in self.scenario["problem"] else tensor)

    def shards(self):
        return [self.shard(t).requires_grad_(n < 3) for n, t in enumerate((self.q, self.k, self.v, self.dout))]

    def compare(self, found, what, dout=None):
        """Raises Wrong on all ranks if a result is off on one."""
        wanted = self.wanted if dout is None else self.reference(torch.float64, dout)
        peer = None if self.linear else self.of_torch(self.dout if dout is None else dout)
        errors, allowed = [], []
        for name, tensor in found.items():
            if tensor is None:
                continue
            if name == "lse":
                rows = wanted["lse"].transpose(1, 2)  # [B, S, H]
                own = self.shard(rows).reshape(-1, rows.shape[2]).T
                errors.append(off(tensor, own))
                # Logits are sums of up to 128 products in fp32 (their roundings come to sqrt(128) 2^-24, or 2^-20.5),
                # exp2 and log2 are off by 2^-22: six times that.
                allowed.append(2.0 ** -18)
                continue
            errors.append(off(tensor, wanted[name] if name == "dsink" else self.shard(wanted[name])))
            # PyTorch has no linear attention. Pairs, scaled rows, states and the result are rounded to bf16, by up to
            # 2^-9 each: 2^-7 if all four err alike.
            allowed.append(2.0 ** -7 if self.linear else
                           ALLOWED * self.group.largest([off(peer[name], wanted[name])])[0])
        errors = self.group.largest(errors)
        text = ", ".join(f"{name} {error:.1e} of {most:.1e}" for (name, error, most) in
                         zip([n for n in found if found[n] is not None], errors, allowed))
        self.group.say(f"{what}: {text}")
        if any(error > most for error, most in zip(errors, allowed)):
            raise Wrong(f"{what}: {text}")

    def run(self, q, k, v, dout):
        out, lse = cplab.torch.attention(q, k, v, plan=self.plan, return_lse=True)
        out.backward(dout)
        return out.detach(), lse


def results(out, lse, q, k, v):
    return {"out": out, "lse": lse, "dq": q.grad, "dk": k.grad, "dv": v.grad}


def plain(case, what):
    q, k, v, dout = case.shards()
    if case.linear:
        gates = case.shard(case.gates).requires_grad_()
        out = cplab.torch.attention(q, k, v, log_decay=gates, plan=case.plan)
        out.backward(dout)
        return case.compare({**results(out.detach(), None, q, k, v), "dlog_decay": gates.grad}, what)
    if case.sink is None:
        return case.compare(results(*case.run(q, k, v, dout), q, k, v), what)
    sink = case.sink.clone().requires_grad_()
    out, lse = cplab.torch.attention(q, k, v, sink=sink, plan=case.plan, return_lse=True)
    out.backward(dout)
    case.compare({**results(out.detach(), lse, q, k, v), "dsink": sink.grad}, what)


def packed_projection(case, what):
    """q, k and v as slices of one tensor: q in place, keys and values copied, because they are sent."""
    q, k, v, dout = case.shards()
    together = torch.cat([t.detach() for t in (q, k, v)], dim=2).requires_grad_()
    heads, kv_heads = q.shape[2], k.shape[2]
    parts = together.split([heads, kv_heads, kv_heads], dim=2)
    before = case.plan.copies
    out, lse = case.run(*parts, dout)
    gradients = together.grad.split([heads, kv_heads, kv_heads], dim=2)
    case.compare(dict(zip(("out", "lse", "dq", "dk", "dv"), (out, lse, *gradients))), what)
    if case.plan.copies - before != 2:
        raise Wrong(f"{what}: {case.plan.copies - before} copies, of k and v; q was to be read in place")


def heads_first(case, what):
    """[B, H, S, D], as SDPA has them, and a gradient in that order."""
    q, k, v, dout = case.shards()
    turned = [t.detach().transpose(1, 2).contiguous().requires_grad_() for t in (q, k, v)]
    out, lse = case.run(*[t.transpose(1, 2) for t in turned], dout.transpose(1, 2).contiguous().transpose(1, 2))
    case.compare({"out": out, "lse": lse, **{name: t.grad.transpose(1, 2) for name, t in
                                             zip(("dq", "dk", "dv"), turned)}}, what)


def expanded_gradient(case, what):
    q, k, v, _ = case.shards()
    out = cplab.torch.attention(q, k, v, plan=case.plan)
    out.sum().backward()
    case.compare(results(out.detach(), None, q, k, v), what, torch.ones_like(case.dout))


def late_inputs_on_a_stream(case, what):
    """On a stream that is busy, inputs that are written just before, results that are read at once."""
    shards = case.shards()
    q, k, v, dout = (torch.zeros_like(t).requires_grad_(n < 3) for n, t in enumerate(shards))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        with torch.no_grad():
            for into, values in zip((q, k, v, dout), shards):
                into.copy_(values)
        out, lse = cplab.torch.attention(q, k, v, plan=case.plan, return_lse=True)
        copy = out.detach().clone()
        torch.cuda._sleep(5_000_000)
        out.backward(dout)
        found = {"out": copy, "lse": lse, "dq": q.grad.clone(), "dk": k.grad.clone(), "dv": v.grad.clone()}
        with torch.no_grad():  # behind the plan's reads, on the caller's stream
            for t in (q, k, v, dout):
                t.zero_()
    side.synchronize()
    case.compare(found, what)


def two_streams(case, what):
    """Two calls of one plan on two streams that do not wait for each other: their scratch memory is one."""
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    found = []
    torch.cuda.synchronize()
    for n, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            q, k, v, dout = case.shards()
            if n == 0:
                torch.cuda._sleep(5_000_000)
            out, lse = case.run(q, k, v, dout)
            found.append((out, lse, q, k, v))
    torch.cuda.synchronize()
    for n, each in enumerate(found):
        case.compare(results(*each), f"{what}, stream {n}")


def few_bindings(case, what):
    """More layers than places are remembered: the oldest binding goes while its kernels may still run."""
    kept, case.plan = case.plan, cplab.torch.prepare(case.scenario, keep=2)
    shards = [t.detach() for t in case.shards()]
    queries = [shards[0].clone() for _ in range(8)]
    outs = [cplab.torch.attention(q, *shards[1:3], plan=case.plan) for q in queries for _ in range(2)]
    for out in outs[::5]:
        case.compare({"out": out}, what)
    if case.plan.bindings[1] < len(outs) // 2:
        raise Wrong(f"{what}: {case.plan.bindings} bindings")
    case.plan = kept


def layers(case, what, count=6, steps=3):
    """out of one is added to q of the next; every step finds its tensors where the last one's were, or binds anew."""
    if case.k.shape[2] != case.q.shape[2]:
        return
    whole = (case.q, case.k, case.v)
    mask = mask_of(case.scenario["problem"], case.q.shape[1], case.group.device)

    def gradients(leaves, dout, attend):
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]
        x = leaves[0]
        for _ in range(count):
            x = x + attend(x, leaves[1], leaves[2])
        return torch.autograd.grad(x, leaves, dout)

    wanted = gradients([t.double() for t in whole], case.dout.double(), lambda *of: dense(*of, mask, torch.float64)[0])
    peer = gradients(whole, case.dout, lambda *of: functional.scaled_dot_product_attention(
        *(t.transpose(1, 2) for t in of), is_causal=True).transpose(1, 2))
    shards = [t.detach() for t in case.shards()]
    for _ in range(steps):
        found = gradients(shards[:3], shards[3], lambda *of: cplab.torch.attention(*of, plan=case.plan))
    errors = case.group.largest([off(f, case.plan.shard(w)) for f, w in zip(found, wanted)])
    allowed = [2 * each for each in case.group.largest([off(p, w) for p, w in zip(peer, wanted)])]
    known, bound = case.plan.bindings
    case.group.say(f"{what}: gradients off by {errors} of {allowed}; {bound} bindings, {known} known")
    if any(error > most for error, most in zip(errors, allowed)):
        raise Wrong(f"{what}: {errors} of {allowed}")


def twice_and_checkpoints(case, what):
    q, k, v, dout = case.shards()
    out = cplab.torch.attention(q, k, v, plan=case.plan)
    first = torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)
    second = torch.autograd.grad(out, (q, k, v), dout)
    saved = checkpoint(lambda *of: cplab.torch.attention(*of, plan=case.plan), q, k, v, use_reentrant=False)
    third = torch.autograd.grad(saved, (q, k, v), dout)
    for gradients, name in ((first, "first"), (second, "second"), (third, "checkpoint")):
        case.compare({"out": out.detach(), **dict(zip(("dq", "dk", "dv"), gradients))}, f"{what}, {name}")


def refusals(case, what):
    """ValueErrors that name the tensor and the plan, on all ranks alike."""
    q, k, v, _ = case.shards()
    wrong = {"dtype": (q.float(), k, v), "shape": (q[:, :-1], k, v), "device": (q.cpu(), k, v), "heads": (q, k[:, :, 1:], v)}
    for name, tensors in wrong.items():
        try:
            cplab.torch.attention(*tensors, plan=case.plan)
        except ValueError as error:
            case.group.say(f"{what}, {name}: {error}")
            if "ring" not in str(error):
                raise Wrong(f"{what}, {name}: the plan is not named: {error}") from error
        else:
            raise Wrong(f"{what}, {name}: nothing was said")


CASES = {
    "ring zigzag bf16": {},
    "ring zigzag fp16, 4 key heads, batch 2": {"problem": {"dtype": "fp16", "kv_heads": 4, "batch": 2}},
    "ring contiguous full, heads of 64": {"problem": {"mask": "full", "head_size": 64},
                                          "parallel": {"placement": "contiguous"}},
    "ring window": {"problem": {"window": [100, 0]}},
    "ring sink, softcap": {"problem": {"sink": "head", "softcap": 20}},
    "all_gather": {"parallel": {"algorithm": "all_gather"}, "problem": {"kv_heads": 2}},
    "all_to_all": {"parallel": {"algorithm": "all_to_all", "placement": "contiguous"}, "problem": {"kv_heads": 4}},
    "pass_q": {"parallel": {"algorithm": "pass_q"}},
    "bidirectional": {"parallel": {"algorithm": "bidirectional_ring"}},
    "packed sequences": {"problem": {"batch": None, "sequence": None, "lengths": [304, 640, 80]}},
    "replicas": {"problem": {"batch": 2}, "parallel": {"replicas": 2}},
    "linear, gates of heads": {"problem": {"attention": "linear", "transition": "head"},
                               "parallel": {"algorithm": "affine_all_gather", "placement": "contiguous"}},
    "ring fp32": {"problem": {"dtype": "fp32", "head_size": 32, "sequence": 256}},
}
STEPS = (packed_projection, heads_first, expanded_gradient, late_inputs_on_a_stream, two_streams, few_bindings, layers,
         twice_and_checkpoints, refusals)


def written_plan(group):
    """A plan written in Python: two ranks send each other all keys."""
    from cplab import receive, send

    case = Case(group, {"problem": {"mask": "full"}, "parallel": {"placement": "contiguous"}})
    scenario = {**case.scenario, "problem": {**case.scenario["problem"], "direction": "forward"}}
    written = cplab.Plan(scenario, set={"schedule.transport": "nccl"})
    for b in written.ranks:
        other, guest = 1 - b.position, b.buffer("guest", like=b.kv)
        b.exchange([send(b.kv, to=other), receive(guest, from_=other)])
        part, lse = b.buffer("part", like=b.out), b.buffer("part_lse", like=b.lse, role="wide")
        b.attend(b.tile(b.position, take="all"), b.q, b.kv.k, b.kv.v, b.out, b.lse)
        b.attend(b.tile(other), b.q, guest.k, guest.v, part, lse)
        b.merge(part, lse, b.out, b.lse)
    case.plan = cplab.torch.prepare(written)
    q, k, v, _ = case.shards()
    with torch.no_grad():
        out, lse = cplab.torch.attention(q, k, v, plan=case.plan, return_lse=True)
    case.compare({"out": out, "lse": lse}, "a plan written in Python")


def check(group, only):
    failed = []

    def attempt(function, *arguments):
        try:
            function(*arguments)
        except (Wrong, cplab.ScenarioError, cplab.EnvironmentError) as error:
            failed.append(str(error))
            group.say(f"FAILED: {error}")

    for name, changes in CASES.items():
        if only and only not in name:
            continue
        try:
            case = Case(group, changes)
        except (cplab.ScenarioError, cplab.EnvironmentError) as error:
            failed.append(f"{name}: {error}")
            group.say(f"FAILED: {name}: {error}")
            continue
        attempt(plain, case, name)
        group.say(f"  kernels: {sorted({kernel for phase in ('forward', 'backward') for _, kernel in case.plan.variants(phase) if kernel})}")
        if name == "ring zigzag bf16" or "batch 2" in name:
            for step in STEPS:
                if step is refusals and name != "ring zigzag bf16":
                    continue
                attempt(step, case, f"{name}, {step.__name__}")
    if group.ranks == 2 and not only:
        attempt(written_plan, group)
    group.say(f"{len(failed)} wrong")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name has this")
    arguments = parser.parse_args()
    return in_group(lambda group: check(group, arguments.only))


if __name__ == "__main__":
    sys.exit(main())
