#!/usr/bin/env python3
"""Times of PyTorch's context_parallel (experimental), the peer that a user would pick instead.

    torchrun --nproc-per-node 4 scripts/peer_context_parallel.py --out peers.json
    python -m torch.distributed.run --nproc-per-node 4 scripts/peer_context_parallel.py --sequences 16384,65536

B=1, H=16, D=128, bf16, causal with head-tail balance. Forward, and forward with backward; rotate methods allgather
and alltoall; medians over the iterations of the time of the slowest rank, by the host's clock between barriers with
the device synchronized, and by device events. extra_peak_mib: the peak of allocated memory over a call, less what
was allocated before it (q, k, v and the output's gradient). First, at a short sequence, the output and the
gradients are compared with those of one GPU: so that it is context parallelism that is timed.

Written for PyTorch 2.11. Where its interface differs, or the backend refuses, the run says so and exits 3; nothing
is replaced by anything else. A sequence that fails is reported and the others go on (exit 1 at the end).
"""
import argparse
import datetime
import importlib
import json
import os
import statistics
import sys
import time

B, H, D = 1, 16, 128
CHECKED_SEQUENCE = 4096
CHECKED_ERROR = 0.02  # relative L2: both sides round to bf16 (2^-9 each) in P, dS and in every partial result


class Unsupported(Exception):
    """This PyTorch is not what the benchmark was written for."""


def load_torch():
    """torch, and by name the parts of its experimental interface, wherever this version keeps them."""
    try:
        import torch
        import torch.distributed
        import torch.nn.functional
        from torch.distributed.device_mesh import init_device_mesh
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError as error:
        raise Unsupported(f"no PyTorch with device meshes and SDPA backends: {error}") from error
    parts = {"init_device_mesh": init_device_mesh, "SDPBackend": SDPBackend, "sdpa_kernel": sdpa_kernel}
    experimental = "torch.distributed.tensor.experimental"
    for module in (experimental, experimental + "._context_parallel._attention", experimental + "._attention"):
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        # _cp_options has no public name; it says whether head-tail balance is on (the default).
        for name in ("context_parallel", "set_rotate_method", "context_parallel_unshard", "_cp_options"):
            if hasattr(found, name):
                parts.setdefault(name, getattr(found, name))
    missing = {"context_parallel", "set_rotate_method", "context_parallel_unshard", "_cp_options"} - parts.keys()
    if missing:
        raise Unsupported(f"PyTorch {torch.__version__}: nothing in {experimental} is named "
                          + ", ".join(sorted(missing)))
    if not getattr(parts["_cp_options"], "enable_load_balance", False):
        raise Unsupported(f"PyTorch {torch.__version__}: _cp_options.enable_load_balance is not on")
    return torch, parts


class Bench:
    """One rank."""

    def __init__(self, arguments):
        self.torch, self.parts = load_torch()
        torch, backends, sdpa_kernel = self.torch, self.parts["SDPBackend"], self.parts["sdpa_kernel"]
        names = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
        if not hasattr(backends, names[arguments.backend]):
            raise Unsupported(f"PyTorch {torch.__version__} has no backend {names[arguments.backend]}")
        self.backend = lambda: sdpa_kernel([getattr(backends, names[arguments.backend])])
        if not torch.cuda.is_available():
            raise Unsupported("no GPU")
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            if name not in os.environ:
                raise Unsupported(f"{name} is not set: start with torchrun --nproc-per-node N")
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(self.device)
        # A rank that fails alone leaves the others waiting in a collective: this is how long at most.
        torch.distributed.init_process_group("nccl", device_id=self.device, timeout=datetime.timedelta(seconds=120))
        self.rank, self.ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        if self.ranks < 2:
            raise Unsupported("context parallelism needs at least 2 ranks")
        self.mesh = self.parts["init_device_mesh"]("cuda", (self.ranks,), mesh_dim_names=("cp",))
        self.warmup, self.iterations = arguments.warmup, arguments.iterations

    def sdpa(self, q, k, v):
        # Looked up in its module at every call, because context_parallel replaces the function there.
        return self.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    def random(self, sequence, seed):
        generator = self.torch.Generator(device=self.device).manual_seed(seed)
        return self.torch.randn((B, H, sequence, D), dtype=self.torch.bfloat16, device=self.device,
                                generator=generator)

    def largest(self, values):
        tensor = self.torch.tensor(values, dtype=self.torch.float64, device=self.device)
        self.torch.distributed.all_reduce(tensor, op=self.torch.distributed.ReduceOp.MAX)
        return tensor.tolist()

    def any_failed(self, failed):
        return self.largest([1.0 if failed else 0.0])[0] > 0

    def in_context(self, buffers):
        """The context, which shards `buffers` (axis 2) in place, in head-tail order."""
        return self.parts["context_parallel"](self.mesh, buffers=list(buffers), buffer_seq_dims=[2] * len(buffers),
                                              no_restore_buffers=set(buffers))

    def check(self):
        """The largest relative error of output and gradients against attention on one GPU."""
        torch = self.torch
        full = [self.random(CHECKED_SEQUENCE, seed) for seed in range(4)]  # the same on every rank
        alone = [t.clone().requires_grad_() for t in full[:3]]
        with self.backend():
            wanted_out = self.sdpa(*alone)
            wanted_out.backward(full[3])
        wanted = [wanted_out.detach()] + [t.grad for t in alone]
        shards = [t.clone() for t in full]
        with self.in_context(shards):
            local = [t.detach().clone().requires_grad_() for t in shards[:3]]
            if local[0].shape[2] != CHECKED_SEQUENCE // self.ranks:
                raise Unsupported(f"context_parallel left {local[0].shape[2]} of {CHECKED_SEQUENCE} tokens on a rank "
                                  f"of {self.ranks}")
            with self.backend(), torch.enable_grad():
                out = self.sdpa(*local)
                out.backward(shards[3].detach().clone())
            found = self.parts["context_parallel_unshard"](
                self.mesh, [out.detach()] + [t.grad for t in local], [2] * 4)
        errors = [((a.double() - b.double()).norm() / b.double().norm()).item() for a, b in zip(found, wanted)]
        # NaN is no small error; it would also vanish in a maximum.
        return self.largest([e if e == e else 1e30 for e in errors])

    def measure(self, sequence, backward):
        """Seconds of a call by host and by events, and the extra peak; medians of maxima over ranks."""
        torch = self.torch
        local = sequence // self.ranks
        tensors = [self.random(local, 100 * self.rank + i) for i in range(4)]
        balanced = torch.zeros((1, 1, 2 * self.ranks, 1), device=self.device)  # something for the context to shard
        with self.in_context([balanced]), torch.enable_grad(), self.backend():
            q, k, v = (t.requires_grad_(backward) for t in tensors[:3])

            def call():
                for t in (q, k, v):
                    t.grad = None
                out = self.sdpa(q, k, v)
                if backward:
                    out.backward(tensors[3])

            for _ in range(self.warmup):
                call()
            torch.cuda.synchronize()
            for t in (q, k, v):
                t.grad = None
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            call()
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            host, device = [], []
            for _ in range(self.iterations):
                torch.distributed.barrier()
                torch.cuda.synchronize()
                started = time.perf_counter()
                begin.record()
                call()
                end.record()
                torch.cuda.synchronize()
                host.append(time.perf_counter() - started)
                device.append(begin.elapsed_time(end) * 1e-3)
        host, device = self.largest(host), self.largest(device)
        return {"time_s": statistics.median(host), "device_time_s": statistics.median(device),
                "extra_peak_mib": self.largest([float(peak)])[0] / 2**20, "iterations": self.iterations}

    def row(self, sequence, rotate, backward):
        """One measurement; the error's text in it if any rank failed."""
        row = {"sequence": sequence, "ranks": self.ranks, "rotate": rotate,
               "direction": "forward+backward" if backward else "forward"}
        error = result = None
        try:
            if sequence % (2 * self.ranks) != 0:
                raise ValueError(f"{sequence} is no multiple of 2 x {self.ranks}, which head-tail balance needs")
            result = self.measure(sequence, backward)
        except Exception as problem:  # whatever PyTorch throws is recorded in the row
            error = f"{type(problem).__name__}: {problem}"
        # An error that hits all ranks alike (memory, shapes) gets here on all of them.
        if self.any_failed(error is not None):
            return row | {"error": error or "another rank failed"}
        return row | result


def save(result, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


def run(arguments):
    bench = Bench(arguments)
    torch = bench.torch
    say = print if bench.rank == 0 else lambda *_, **__: None
    cudnn = torch.backends.cudnn.version()
    result = {"schema": "cplab.peer.1", "peer": "PyTorch context_parallel", "pytorch": torch.__version__,
              "cuda": torch.version.cuda, "cudnn": cudnn, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
              "gpu": torch.cuda.get_device_name(), "ranks": bench.ranks, "backend": arguments.backend,
              "date": datetime.date.today().isoformat(),
              "problem": {"batch": B, "heads": H, "head_size": D, "dtype": "bf16", "mask": "causal",
                          "placement": "head-tail"},
              "warmup": bench.warmup, "checks": [], "rows": []}
    ok = True
    for rotate in ("allgather", "alltoall"):
        bench.parts["set_rotate_method"](rotate)
        errors = bench.check()
        result["checks"].append({"sequence": CHECKED_SEQUENCE, "rotate": rotate,
                                 "rel_l2": dict(zip(("out", "dq", "dk", "dv"), errors)), "tolerance": CHECKED_ERROR})
        if max(errors) > CHECKED_ERROR:
            raise Unsupported(f"{rotate}: out, dq, dk, dv are off by {errors} (relative) at {CHECKED_SEQUENCE} tokens")
        for sequence in arguments.sequences:
            for backward in (False, True):
                row = bench.row(sequence, rotate, backward)
                ok = ok and "error" not in row
                result["rows"].append(row)
                if bench.rank == 0 and arguments.out != "-":
                    save(result, arguments.out)  # at once: a later size may end the process
                text = row.get("error") or f"{row['time_s'] * 1e3:.3f} ms, {row['extra_peak_mib']:.0f} MiB extra"
                say(f"{rotate} S={sequence} {row['direction']}: {text}", file=sys.stderr)
                torch.cuda.empty_cache()
    if bench.rank == 0 and arguments.out == "-":
        json.dump(result, sys.stdout, indent=1)
        print()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return 0 if ok else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", default="16384,32768,65536,131072",
                        type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--backend", choices=("cudnn", "flash"), default="cudnn")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=11)
    parser.add_argument("--out", default="-", help="JSON; - is stdout")
    arguments = parser.parse_args()
    if arguments.iterations < 10 or arguments.warmup < 1:
        parser.error("at least 10 iterations and 1 warm-up")
    try:
        return run(arguments)
    except Unsupported as error:
        print(f"peer_context_parallel: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
