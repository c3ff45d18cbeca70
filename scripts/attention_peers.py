"""Attention of other libraries, as functions that queue one call each. For the scripts beside this file.

PEERS: name -> function(shape, causal) -> (forward, backward), with shape (B, S, H, D), bf16, random operands. Those
named *_packed have the same sequences one behind the other, [B S, H, D], and call what the library has for sequences of
any length. cudnn and flash are backends of PyTorch's scaled_dot_product_attention, triton is its flex_attention,
compiled, fa4 is FlashAttention 4 (scripts/gpu/pack_fa4.sh; folder FA4_DIR).
"""
import inspect
import os
import sys

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel


def calls_of(attend, make):
    """(forward, backward) of attend(q, k, v), whose operands, and the gradient of its result, make() draws."""
    q, k, v = (make().requires_grad_() for _ in range(3))
    dout = make()

    def forward():
        return attend(q, k, v)

    out = forward()

    def backward():
        torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)

    return forward, backward


def random(shape):
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def heads_first(shape):
    """(B, H, S, D) as a view of (B, S, H, D): rows of all heads side by side in memory, as everywhere here."""
    return lambda: random(shape).transpose(1, 2)


def side_by_side(shape):
    return lambda: random(shape)


def packed(shape):
    batch, sequence, heads, width = shape
    return lambda: random((batch * sequence, heads, width))


def begins(shape):
    """Where the packed sequences begin, and the end of the last."""
    batch, sequence = shape[:2]
    return torch.arange(0, (batch + 1) * sequence, sequence, dtype=torch.int32, device="cuda")


def backend(which):
    def make(shape, causal):
        def attend(q, k, v):
            with sdpa_kernel([which]):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return calls_of(attend, heads_first(shape))

    return make


def cudnn_packed(shape, causal):
    """PyTorch's nested tensors, which hand their offsets to cuDNN."""
    offsets, sequence = begins(shape).to(torch.int64), shape[1]

    def nested():
        return torch.nested.nested_tensor_from_jagged(packed(shape)(), offsets, min_seqlen=sequence,
                                                      max_seqlen=sequence).detach()

    def attend(q, k, v):
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return functional.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                                           is_causal=causal).transpose(1, 2)

    return calls_of(attend, nested)


def flash_packed(shape, causal):
    from torch.nn.attention.varlen import varlen_attn
    at, sequence = begins(shape), shape[1]
    # PyTorch 2.11 has is_causal, later ones a window.
    has_flag = "is_causal" in inspect.signature(varlen_attn).parameters
    mask = {"is_causal": causal} if has_flag else {"window_size": (-1, 0 if causal else -1)}
    return calls_of(lambda q, k, v: varlen_attn(q, k, v, at, at, sequence, sequence, **mask), packed(shape))


def triton(shape, causal):
    """Compiles for a while."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    sequence = shape[1]
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, sequence, sequence, device="cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    return calls_of(lambda q, k, v: compiled(q, k, v, block_mask=mask), heads_first(shape))


def fa4_functions():
    folder = os.environ["FA4_DIR"]
    for path in (folder, folder + "/nvidia_cutlass_dsl/dsl_packages"):
        if path not in sys.path:
            sys.path.insert(0, path)
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func
    return flash_attn_func, flash_attn_varlen_func


def first_of(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def fa4(shape, causal, deterministic=False):
    attend, _ = fa4_functions()
    return calls_of(lambda q, k, v: first_of(attend(q, k, v, causal=causal, deterministic=deterministic)),
                    side_by_side(shape))


def fa4_packed(shape, causal):
    _, attend = fa4_functions()
    at, sequence = begins(shape), shape[1]
    return calls_of(lambda q, k, v: first_of(attend(q, k, v, cu_seqlens_q=at, cu_seqlens_k=at, max_seqlen_q=sequence,
                                                    max_seqlen_k=sequence, causal=causal)), packed(shape))


PEERS = {
    "cudnn": backend(SDPBackend.CUDNN_ATTENTION),
    "flash": backend(SDPBackend.FLASH_ATTENTION),
    "triton": triton,
    "fa4": fa4,
    "fa4_deterministic": lambda shape, causal: fa4(shape, causal, deterministic=True),
    "cudnn_packed": cudnn_packed,
    "flash_packed": flash_packed,
    "fa4_packed": fa4_packed,
}


def needs_fa4(name):
    return name.startswith("fa4")
