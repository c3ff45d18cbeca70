"""Plans on PyTorch's tensors, in a training step: ``cplab.torch.attention(q, k, v, plan=plan)`` under torchrun.

    import cplab.torch
    plan = cplab.torch.prepare(scenario)            # once, on every rank of the group
    out = cplab.torch.attention(q, k, v, plan=plan)  # of this rank's tokens; out.backward(...) runs the plan's backward

The plan runs on the caller's tensors (DLPack, nothing is copied) and on the current stream; its messages go through the
NCCL that PyTorch has loaded. GPUs alone: elsewhere ``prepare`` raises cplab.EnvironmentError.
"""
import hashlib
import json

import torch

from . import _cplab, commands
from .errors import EnvironmentError, ScenarioError

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}
# What a plan calls a caller's tensor: buffer and plane, of -1 the whole buffer.
_NAMES = {("kv", 0): "k", ("kv", 1): "v"}
_ALIGNMENT = 16  # bytes, of addresses and of distances between rows and between heads


def prepare(scenario, *, group=None, device=None, deterministic=False, keep=256, **options):
    """The plan of a scenario, or a cplab.Plan, ready to run on the ranks of ``group`` (default: all of them).

    Collective: every rank of the group calls it with the same scenario. It makes NCCL's communicators and connections, and
    the memory that the plan needs beside the caller's tensors. ``device``: this rank's GPU (default: the current one).
    ``deterministic``: kernels that give the same bits in every run. ``keep``: of how many sets of places of its tensors each
    phase remembers what it was bound to. Other keywords are options of ``cplab.show``, such as ``set``. Raises
    cplab.ScenarioError for what is wrong with the scenario or does not fit the group, on all ranks what one of them finds.
    """
    if not _cplab.have_gpu_code():
        raise EnvironmentError("cplab.torch: this build of cplab has no GPU code; a wheel that is built where nvcc is has it")
    if not torch.cuda.is_available():
        raise EnvironmentError("cplab.torch: PyTorch finds no GPU here; cplab.run and cplab.verify execute plans on the CPU")
    return PreparedPlan(scenario, group, device, deterministic, keep, options)


def attention(q, k=None, v=None, *, plan, return_lse=False, **more):
    """Attention of this rank's tokens, as the plan has it: differentiable in every tensor that the plan differentiates.

    q [B, S, H, D], k [B, S, G, D] and v [B, S, G, E], where S counts this rank's tokens of each sample in the order of the
    plan's placement (``plan.shard``), or with both axes as one, as packed batches have them: [tokens, H, D]. Returns out,
    like q with E columns, and with ``return_lse`` also the log of the row sums, [H, tokens], fp32. Other inputs of the plan
    (sink, log_decay, beta, ...) are keywords, in the shape that ``plan.tensors`` says; gradients of those that are no
    tokens' own (dsink) are sums over the plan's ranks already.

    What lies so that a kernel can read it is read in place: q and the output's gradient, if no message takes them, at any
    distance of rows and heads (multiples of 16 bytes); k, v and the others without gaps. What lies otherwise is copied
    first; ``plan.copies`` counts that. ValueError, with the tensor's name and the plan's, for another shape, dtype or device.
    """
    if not isinstance(plan, PreparedPlan):
        raise TypeError(f"plan: {type(plan).__name__}; legal: what cplab.torch.prepare(scenario) returns")
    given = {"q": q, "k": k, "v": v, **more}
    wanted = [plan.name_of(each) for each in plan.tensors["forward"] if each["category"] == "input"]
    for name, tensor in given.items():
        if name not in wanted and tensor is not None:
            raise ValueError(f"{name}: {plan} takes no such tensor; legal: {', '.join(wanted)}")
    for name in wanted:
        if given.get(name) is None:
            raise ValueError(f"{name}: {plan} needs it")
    if return_lse and not any(each["buffer"] == "lse" for each in plan.tensors["forward"]):
        raise ValueError(f"return_lse: {plan} has no lse")
    out, lse = _Attention.apply(plan, wanted, *[given[name] for name in wanted])
    return (out, lse) if return_lse else out


class PreparedPlan:
    """A plan with its communicators and memory on this rank; made by :func:`prepare`."""

    def __init__(self, scenario, group, device, deterministic, keep, options):
        self.rank, self.world, self.group, self.copies = 0, 1, group, 0
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self.rank, self.world = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        if self.rank < 0:
            raise ValueError("group: this process is not in it")
        text, world_id, error = "", b"", None
        try:  # all that a rank can fail in alone, before any of them goes into what needs the others
            self.device = _gpu(device)
            text = _plan_text(scenario, options)
            self._read(text)
            world_id = _cplab.TensorRun.make_id() if self.rank == 0 and self.world > 1 else b""
        except RuntimeError as found:
            error = found if isinstance(found, EnvironmentError) else EnvironmentError(str(found))
        except Exception as found:  # noqa: BLE001  (whatever it is, the others have to hear of it)
            error = found
        world_id = self._agreed(world_id, error)
        with torch.cuda.device(self.device):
            torch.cuda.empty_cache()  # the plan's arena is allocated for a moment, beside PyTorch's own memory
            try:
                self._run = _cplab.TensorRun(text, self.rank, self.device.index, world_id, deterministic, keep)
            except ValueError as found:
                raise ScenarioError(str(found)) from None
            except RuntimeError as found:
                raise EnvironmentError(str(found)) from None
        self.tensors = {phase: self._run.tensors(phase) for phase in ("forward", "backward")}
        self._scratch = torch.empty(max(self._run.scratch_bytes, 1), dtype=torch.uint8, device=self.device)

    def _read(self, text):
        shown = json.loads(text)
        parallel, self.problem = shown["scenario"]["parallel"], shown["scenario"]["problem"]
        self._label = f"the plan ({parallel['algorithm']}, {len(shown['ranks'])} ranks, {self.problem['dtype']})"
        if len(shown["ranks"]) != self.world:
            raise ScenarioError(f"parallel.ranks: {self} is for {len(shown['ranks'])} processes, one for each rank, and "
                                f"the group has {self.world}")
        own = shown["ranks"][self.rank]
        for buffer in own["buffers"]:
            width = self.problem["head_size"] + self.problem["value_size"]
            if buffer["category"] == "input" and buffer["planes"] and (
                    buffer["name"] != "kv" or buffer["axes"][3]["size"] != width):
                raise ScenarioError(f"problem: {self} has keys and values that are no two tensors ({buffer['name']}): latent "
                                    "keys, and biases beside them, are not run on a framework's tensors")
        self.replica, self.position = own["replica"], own["position"]
        self._frame = _cplab.PlanFrame(text)
        self._samples = {}  # of queries and of keys, once they are counted
        # What ranks have to agree in; paths and versions may differ between hosts.
        same = [shown["ranks"], shown["groups"], *(shown["scenario"].get(key) for key in ("problem", "parallel", "schedule"))]
        self._digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()

    def _agreed(self, world_id, error):
        """The first rank's id. What one rank fails in, all of them raise, and so they do if their plans differ."""
        if self.world == 1:
            if error is not None:
                raise error
            return world_id
        own = (None, self._digest, world_id) if error is None else ((type(error).__name__, str(error)), "", world_id)
        everybody = [None] * self.world
        torch.distributed.all_gather_object(everybody, own, group=self.group)
        if error is not None:
            raise error
        for rank, (failure, _, _) in enumerate(everybody):
            if failure is not None:
                raise {"EnvironmentError": EnvironmentError}.get(failure[0], ScenarioError)(f"rank {rank}: {failure[1]}")
        for rank, (_, digest, _) in enumerate(everybody):
            if digest != everybody[0][1]:
                raise ScenarioError(f"rank {rank} has another plan than rank 0: prepare() needs the same scenario on all ranks")
        return everybody[0][2]

    def __str__(self):
        return self._label

    @staticmethod
    def name_of(tensor):
        return _NAMES.get((tensor["buffer"], tensor["plane"]), tensor["buffer"])

    @property
    def differentiable(self):
        return bool(self.tensors["backward"])

    def variants(self, phase="forward"):
        """Of the operations of the phase as it was queued last, (operation, kernel) in program order."""
        return self._run.variants(phase)

    @property
    def bindings(self):
        """How often the tensors lay where they had lain before, and how often the plan was bound to new places."""
        return self._run.known, self._run.bound

    # ---- tokens

    def _lengths(self, keys):
        """Of the sequences as tensors have them, padding included."""
        own, problem = keys and any(key in self.problem for key in ("kv_sequence", "kv_lengths")), self.problem
        packed = problem.get("kv_padded_lengths" if own else "padded_lengths") or problem.get(
            "kv_lengths" if own else "lengths")
        return packed or [problem["kv_sequence" if own else "sequence"]] * problem["batch"]

    def _runs(self, keys):
        return self._frame.runs(self.replica, self.position, keys)

    def tokens(self, keys=False):
        """Of this rank's rows, in order: the number of the token in all samples one after the other; -1: padding."""
        starts = [0]
        for each in self._lengths(keys):
            starts.append(starts[-1] + each)
        rows = torch.full((self._frame.rows(self.replica, keys),), -1, dtype=torch.long)
        for sequence, row, _, valid, position, stride, step in self._runs(keys):
            places = torch.arange(valid)
            rows[row + places * step] = starts[sequence] + position + places * stride
        return rows

    def samples(self, keys=False):
        """How many samples this rank has equal rows of, one behind the other; 0: its rows are no such shares."""
        if keys not in self._samples:
            self._samples[keys] = self._count_samples(keys)
        return self._samples[keys]

    def _count_samples(self, keys):
        if self.problem.get("lengths"):
            return 0
        rows = self._frame.rows(self.replica, keys)
        own = sorted({run[0] for run in self._runs(keys)})
        if not own or rows % len(own):
            return 0
        share = rows // len(own)
        inside = all(own.index(run[0]) == run[1] // share == (run[1] + max(run[2] - 1, 0) * run[6]) // share
                     for run in self._runs(keys))
        return len(own) if inside else 0

    def shard(self, tensor, keys=False):
        """This rank's tokens of a tensor of all, [B, S, ...], or [T, ...] of packed batches: [samples, tokens, ...], or where
        there are no equal shares of samples [rows, ...]. Padding is 0."""
        tokens = self.tokens(keys).to(tensor.device)
        flat = tensor if self.problem.get("lengths") else tensor.flatten(0, 1)
        own = flat[tokens.clamp(min=0)]
        own[tokens < 0] = 0
        samples = self.samples(keys)
        return own.unflatten(0, (samples, -1)) if samples else own

    # ---- running

    def run(self, phase, named):
        """Queues the phase; ``named`` has the tensors by name, those that it writes among them."""
        arrays = [named[self.name_of(each)] for each in self.tensors[phase]]
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream(self.device).cuda_stream
            self._run.queue(phase, arrays, self._scratch, stream)

    def fitted(self, name, tensor, wanted):
        """The tensor as [rows, heads, width], in place where that is possible. ValueError that names it."""
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{name}: {type(tensor).__name__}; legal for {self}: a tensor of PyTorch")
        dtype = _DTYPES[wanted["dtype"]]
        if tensor.dtype != dtype:
            raise ValueError(f"{name}: dtype {tensor.dtype}; {self} takes {dtype}")
        if tensor.device != self.device:
            raise ValueError(f"{name}: on {tensor.device}; {self} runs on {self.device}")
        tensor = tensor.detach()
        if name not in ("q", "k", "v", "dout"):
            return self._flat(name, tensor, wanted)
        shape = (wanted["rows"], wanted["heads"], wanted["width"])
        samples = self.samples(keys=name in ("k", "v"))
        legal = [[samples, shape[0] // samples, *shape[1:]]] if samples else []
        legal.append(list(shape))
        if list(tensor.shape) not in legal:
            raise ValueError(f"{name}: shape {list(tensor.shape)}; {self} takes {' or '.join(map(str, legal))}")
        return self._placed(tensor, shape, wanted)

    def _placed(self, tensor, shape, wanted):
        unit = _ALIGNMENT // tensor.element_size()
        aligned = tensor.data_ptr() % _ALIGNMENT == 0
        if aligned and tensor.is_contiguous():
            return tensor.view(shape)
        if aligned and wanted["any_strides"]:
            try:
                rows = tensor.view(shape)
            except RuntimeError:
                rows = None
            if rows is not None and rows.stride(2) == 1 and all(
                    rows.stride(axis) > 0 and rows.stride(axis) % unit == 0 for axis in (0, 1)):
                return rows
        self.copies += 1
        return tensor.clone(memory_format=torch.contiguous_format).view(shape)

    def _flat(self, name, tensor, wanted):
        """Other inputs are [rows, heads, width], or have their rows as q has them; axes of extent 1 may be left out."""
        axes = [wanted["heads"], wanted["rows"]] if wanted["heads_first"] else [wanted["rows"], wanted["heads"]]
        samples = self.samples()
        legal = [[*axes, wanted["width"]]]
        if samples and not wanted["heads_first"] and wanted["rows"] % samples == 0:
            legal.append([samples, axes[0] // samples, axes[1], wanted["width"]])
        plain = [[size for size in shape if size != 1] for shape in legal]
        if [size for size in tensor.shape if size != 1] not in plain or wanted["slots"] != 1:
            raise ValueError(f"{name}: shape {list(tensor.shape)}; {self} takes {' or '.join(map(str, legal))}")
        if not tensor.is_contiguous() or tensor.data_ptr() % _ALIGNMENT:
            self.copies += 1
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        return tensor.view(-1)

    def new(self, wanted):
        """Memory for what a phase writes."""
        if wanted["category"] == "saved":
            return torch.empty(wanted["bytes"], dtype=torch.uint8, device=self.device)
        size = (wanted["heads"], wanted["rows"]) if wanted["heads_first"] else (wanted["rows"], wanted["heads"])
        return torch.empty(wanted["slots"] * size[0] * size[1] * wanted["width"], dtype=_DTYPES[wanted["dtype"]],
                           device=self.device)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, plan, names, *inputs):
        named = {}
        for wanted in plan.tensors["forward"]:
            name = plan.name_of(wanted)
            if wanted["category"] == "input":
                named[name] = plan.fitted(name, inputs[names.index(name)], wanted)
            else:
                named[name] = plan.new(wanted)
        plan.run("forward", named)
        ctx.plan, ctx.names = plan, names
        ctx.shapes = [(each.shape, each.dtype) for each in inputs]
        kept = [plan.name_of(each) for each in plan.tensors["backward"]]
        ctx.kept = [name for name in dict.fromkeys(kept) if name in named]
        q = inputs[names.index("q")]
        width = next(each["width"] for each in plan.tensors["forward"] if each["buffer"] == "out")
        out = named["out"].view(*q.shape[:-1], width)
        ctx.set_materialize_grads(False)
        lse = _lse_of(plan, named)
        if plan.differentiable and any(each.requires_grad for each in inputs):
            named["out"] = out
            if lse is not None:
                named["lse"] = lse
            ctx.save_for_backward(*[named[name] for name in ctx.kept])
        if lse is not None:
            ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dout, _dlse):
        plan = ctx.plan
        if dout is None:
            return None, None, *[None] * len(ctx.names)
        if not plan.differentiable:
            raise ScenarioError(f"problem.direction: {plan} has no backward; legal: \"forward+backward\"")
        named = dict(zip(ctx.kept, ctx.saved_tensors))
        for wanted in plan.tensors["backward"]:
            name = plan.name_of(wanted)
            if name == "dout":
                named[name] = plan.fitted(name, dout, wanted)
            elif name in named:
                named[name] = named[name].view(-1) if wanted["category"] == "output" else named[name]
            elif wanted["category"] in ("input", "saved"):
                raise ScenarioError(f"{name}: the backward of {plan} reads it, and its forward neither reads nor writes it")
            else:
                named[name] = plan.new(wanted)
        plan.run("backward", named)
        gradients = _gradients_of(plan, named)
        return None, None, *[_like(gradients.get("d" + name), shape, dtype)
                             for name, (shape, dtype) in zip(ctx.names, ctx.shapes)]


def _lse_of(plan, named):
    for wanted in plan.tensors["forward"]:
        if wanted["buffer"] == "lse":
            return named["lse"].view(wanted["heads"], wanted["rows"])
    return None


def _gradients_of(plan, named):
    """By name; the gradients of keys and values are the two planes of one buffer."""
    gradients = dict(named)
    for wanted in plan.tensors["backward"]:
        if wanted["buffer"] != "dkv":
            continue
        keys = next(each for each in plan.tensors["forward"] if (each["buffer"], each["plane"]) == ("kv", 0))
        count = keys["rows"] * keys["heads"] * keys["width"]
        gradients["dk"], gradients["dv"] = named["dkv"][:count], named["dkv"][count:]
    return gradients


def _like(gradient, shape, dtype):
    return None if gradient is None else gradient.view(shape).to(dtype)


def _gpu(device):
    device = torch.device("cuda") if device is None else torch.device(device)
    if device.type != "cuda":
        raise ValueError(f"device: {device}; legal: a GPU")
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def _plan_text(scenario, options):
    if hasattr(scenario, "plan_dict"):
        if options:
            raise TypeError(f"{', '.join(options)}: a cplab.Plan is written already; legal: the options of cplab.Plan(...)")
        return json.dumps(scenario.plan_dict())
    options = dict(options)
    changes = options.pop("set", None) or {}
    if not isinstance(changes, dict):
        changes = dict(each.split("=", 1) for each in ([changes] if isinstance(changes, str) else changes))
    # Another layer's tensors come between the phases; and no other link reaches a framework's tensors.
    defaults = {"schedule.transport": "nccl", "schedule.between": "layers"}
    return commands.show(scenario, set={**defaults, **changes}, **options).json_text()
