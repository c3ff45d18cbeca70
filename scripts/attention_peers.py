"""Attention of other libraries, as functions that queue one call each. For the scripts beside this file.

PEERS: name -> function(problem, causal) -> (forward, backward) of an attention_problem.Problem, bf16, random operands:
[B, S, H, D] of sequences of one length. Those named *_packed have the sequences one behind the other, [rows, H, D], and
call what the library has for sequences of any length. cudnn and flash are backends of PyTorch's scaled_dot_product_attention, triton is its flex_attention,
compiled, fa4 is FlashAttention 4 (scripts/gpu/pack_fa4.sh; folder FA4_DIR).
"""
import inspect
import itertools
import os
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel


def calls_of(attend, tensor, problem, shape_of_heads):
    """(forward, backward) of attend(q, k, v): tensors of tensor(shape), shaped by the heads of queries and of keys."""
    of_queries, of_keys = shape_of_heads(problem.heads), shape_of_heads(problem.kv_heads)
    q, k, v = (tensor(shape).requires_grad_() for shape in (of_queries, of_keys, of_keys))
    dout = tensor(of_queries)

    def forward():
        return attend(q, k, v)

    out = forward()

    def backward():
        torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    return forward, backward


def random(shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def heads_first(shape):
    """[B, H, S, D] as a view of [B, S, H, D]: rows of all heads side by side in memory, as everywhere here."""
    return random(shape).transpose(1, 2)


def side_by_side(problem):
    return lambda heads: (len(problem.lengths), problem.lengths[0], heads, problem.width)


def packed(problem):
    return lambda heads: (problem.rows, heads, problem.width)


def begins(problem):
    """Where the packed sequences begin, and the end of the last."""
    return torch.tensor([0, *itertools.accumulate(problem.lengths)], dtype=torch.int32, device="cuda")


def grouped(problem):
    return {"enable_gqa": True} if problem.kv_heads != problem.heads else {}


def backend(which):
    def make(problem, causal):
        def attend(q, k, v):
            with sdpa_kernel([which]):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped(problem))

        return calls_of(attend, heads_first, problem, side_by_side(problem))

    return make


def cudnn_packed(problem, causal):
    """PyTorch's nested tensors, which hand their offsets to cuDNN."""
    offsets = begins(problem).to(torch.int64)

    def nested(shape):
        return torch.nested.nested_tensor_from_jagged(random(shape), offsets, min_seqlen=min(problem.lengths),
                                                      max_seqlen=max(problem.lengths)).detach()

    def attend(q, k, v):
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                                           is_causal=causal, **grouped(problem)).transpose(1, 2)

    return calls_of(attend, nested, problem, packed(problem))


def flash_packed(problem, causal):
    from torch.nn.attention.varlen import varlen_attn
    at, longest = begins(problem), max(problem.lengths)
    # PyTorch 2.11 has is_causal, later ones a window.
    has_flag = "is_causal" in inspect.signature(varlen_attn).parameters
    mask = {"is_causal": causal} if has_flag else {"window_size": (-1, 0 if causal else -1)}
    return calls_of(lambda q, k, v: varlen_attn(q, k, v, at, at, longest, longest, **mask), random, problem,
                    packed(problem))


def triton(problem, causal):
    """Compiles for a while."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    sequence = problem.lengths[0]
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, sequence, sequence, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return calls_of(lambda q, k, v: compiled(q, k, v, block_mask=mask, **grouped(problem)), heads_first, problem,
                    side_by_side(problem))


def fa4_functions():
    folder = os.environ["FA4_DIR"]
    for path in (folder, folder + "/nvidia_cutlass_dsl/dsl_packages"):
        if path not in sys.path:
            sys.path.insert(0, path)
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func
    return flash_attn_func, flash_attn_varlen_func


def first_of(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def fa4(problem, causal, deterministic=False):
    attend, _ = fa4_functions()
    return calls_of(lambda q, k, v: first_of(attend(q, k, v, causal=causal, deterministic=deterministic)), random,
                    problem, side_by_side(problem))


def fa4_packed(problem, causal):
    _, attend = fa4_functions()
    at, longest = begins(problem), max(problem.lengths)
    return calls_of(lambda q, k, v: first_of(attend(q, k, v, cu_seqlens_q=at, cu_seqlens_k=at, max_seqlen_q=longest,
                                                    max_seqlen_k=longest, causal=causal)), random, problem,
                    packed(problem))


PEERS = {
    "cudnn": backend(SDPBackend.CUDNN_ATTENTION),
    "flash": backend(SDPBackend.FLASH_ATTENTION),
    "triton": triton,
    "fa4": fa4,
    "fa4_deterministic": lambda problem, causal: fa4(problem, causal, deterministic=True),
    "cudnn_packed": cudnn_packed,
    "flash_packed": flash_packed,
    "fa4_packed": fa4_packed,
}


def needs_fa4(name):
    return name.startswith("fa4")
