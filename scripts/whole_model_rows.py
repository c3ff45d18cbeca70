#!/usr/bin/env python3
"""Predicts published steps of whole models with `cplab advise` and prints them beside what was measured.

    scripts/whole_model_rows.py [ROWS.csv] [--cplab PATH] [--only TEXT] [--summary] [--terms]

Without a path: scenarios/published/whole-model-rows.csv, one value a row. Rows of one id are one run. Each run whose
configuration is published becomes a scenario; the others are listed with the reason. --only takes ids or systems,
separated by commas; --summary leaves the rows out; --terms adds what a step is made of. Errors are of the time:
positive where the prediction is slower, whatever the metric. A row is inside where its measured value is inside the
band. Standard library only.
"""
import argparse
import collections
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ROWS = ROOT / "scenarios/published/whole-model-rows.csv"
GIB = 1 << 30

MACHINES = {"B200": "b200x8", "GB200": "gb200-nvl72", "GB300": "gb300-nvl72", "H100": "h100x8", "H200": "h200x8",
            "H800": "h800x8", "A100": "a100x8"}
PRESETS = {"Llama3-405B": "llama3-405b", "Llama3.1-405B": "llama3-405b", "Llama3-70B": "llama3-70b",
           "Llama3.1-70B": "llama3-70b", "Llama3-8B": "llama3-8b", "Llama3.1-8B": "llama3-8b"}
LLAMA2_7B = {"layers": 32, "hidden": 4096, "ffn": 11008, "vocabulary": 32000, "heads": 32, "gated": True}


# An H100 whose attention is FlashAttention 2: 370 and 310 TFLOP/s at best (arXiv 2407.08608).
FLASH_2 = """name = "h100x8 with FlashAttention 2"
kernels_of = "FlashAttention 2"
[node]
gpus = 8
link_bytes_s = "450GB/s"
[network]
nic_bytes_s = "400Gb/s"
[gpu]
name = "H100 SXM 80GB"
sms = 132
compute_capability = "9.0"
capacity_bytes = "79G"
copy_bytes_s = 3.01e12
peak_flops = { bf16 = 989e12, fp16 = 989e12, fp8 = 1979e12, fp32 = 67e12, fp64 = 67e12 }
[efficiency]
attend = 0.37
attend_backward = 0.31
gemm = 0.68
source = "arXiv 2407.08608; gemm as h100x8.toml"
"""


class Run:
    """All published values of one id."""

    def __init__(self, rows):
        self.rows = rows
        self.first = rows[0]
        self.id, self.use = self.first["id"], self.first["use"]
        self.values = {row["metric"]: (float(row["value"]), row["unit"]) for row in rows}

    def __getitem__(self, key):
        return self.first[key] or ""

    def number(self, key, otherwise):
        text = self.first[key] or ""
        return int(text) if text.isdigit() else otherwise


def why_not(run):
    """Why the run is not predicted; empty where it is."""
    system, scope, model = run["system"], run["scope"], run["model"]
    if scope in ("collective", "layer"):
        return "no step: an exchange alone" if scope == "collective" else "no step: a layer's exchange, shape not stated"
    if scope == "dit_step" or model.startswith("Wan"):
        return "a diffusion transformer: attention without a mask, no causal language model"
    if system == "vLLM":
        return "time to the first token of concurrent requests: queueing is most of it"
    if system == "transformers":
        return "eager attention, which stores all scores: time and memory grow with the square of the length"
    if system == "prime-rl":
        return "batch, and LoRA or full training, not stated"
    if system == "ms-swift":
        return "GPU, adapter rank and accumulation not stated"
    if "dynamic CP" in system:
        return "the thread's smoke test gives no model"
    if system == "Megatron-Bridge" and not run["gbs"]:
        return "global batch, and so the pipeline's bubble, and recompute not stated"
    if system not in SYSTEMS:
        return f"no recipe of {system} is written down here"
    return "" if model == "Llama2-7B" or preset_of(run) else f"no preset for {model}"


def preset_of(run):
    """Name of the shipped config, and how many of its layers (0: all)."""
    model = run["model"]
    cut = re.fullmatch(r"(.*)-(\d+)L", model)
    name = cut[1] if cut else model
    preset = (PRESETS.get(name, name.lower()), int(cut[2]) if cut else 0)
    return preset if (ROOT / f"scenarios/models/{preset[0]}.json").exists() else None


def base(run):
    model = dict(LLAMA2_7B)
    if preset_of(run):
        preset, layers = preset_of(run)
        model = {"preset": preset, "layers": layers} if layers else {"preset": preset}
    training = {"gpus": run.number("gpus", 1), "sequence": run.number("seq", 0),
                "micro_batch": run.number("mbs", 1), "tp": run.number("tp", 1), "cp": run.number("cp", 1),
                "pp": run.number("pp", 1), "zero": 1, "recompute": "none"}
    if run.number("ep", 1) > 1:
        training["ep"] = run.number("ep", 1)
    return model, training


def algorithm_of(run):
    for word, algorithm in (("a2a+p2p", "usp"), ("ulysses+ring", "usp"), ("gather", "all_gather"), ("a2a", "all_to_all"), ("ulysses", "all_to_all"), ("p2p", "ring"), ("ring", "ring")):
        if word in run["method"]:
            return algorithm
    return ""


def megatron(run, training):
    """Megatron-LM, Bridge, NeMo: distributed optimizer, nothing recomputed."""
    dtype = run["dtype"].lower()
    training["dtype"] = "fp4" if "fp4" in dtype else "fp8" if "fp8" in dtype else "bf16"
    if run.number("vpp", 1) > 1 and training["pp"] > 1:
        training["pipeline_chunks"] = run.number("vpp", 1)
    if run["fsdp"] not in ("", "0"):
        training["zero"] = 3
    training["dp"] = training["gpus"] // (training["tp"] * training["cp"] * training["pp"])
    batch = run.number("gbs", 0)
    if "long_sequence" in run["source"]:
        # gpus as printed do not go with its own degrees, nor with a batch of at least one row a replica.
        training["dp"] = run.number("dp", 1)
        training["gpus"] = training["dp"] * training["tp"] * training["cp"]
    if "SimuMax" in run["system"]:
        training["overlap_tensor"] = False  # Megatron's own default; NeMo's and Bridge's recipes turn it on
        batch = 4 * training["dp"]
    else:
        # As their recipes say (scripts/performance/configs of Megatron-Bridge): gradients are reduced in bf16, and
        # exchanges of tp are overlapped but with NVFP4.
        training["gradient_dtype"] = "bf16"
        training["overlap_tensor"] = training["dtype"] != "fp4"
    training["tokens_per_step"] = batch * training["sequence"]


def trl(run, training):
    """FSDP2 over the CP ranks, all in bf16: only so do 30.5e9 parameters on 8 GPUs take less than 46 GB."""
    training.update(zero=3, recompute="full", fused_kernels=False, gradient_dtype="bf16",
                    master_dtype="none", optimizer_dtype="bf16", loss_chunks=max(1, training["sequence"] // training["cp"] // 2048),
                    offload_checkpoints=True, dp=training["gpus"] // training["cp"],
                    tokens_per_step=training["sequence"])


def accelerate(run, training):
    """DeepSpeed ZeRO-3. The source has the optimizer on the host; what 1 and 4 GPUs take (n102, n104: 51 GB of 4.02e9
    parameters are spread, 12.7 bytes each) says that it is on the GPUs, beside bf16 weights and gradients."""
    training.update(zero=3, recompute="full", gradient_dtype="bf16", fused_kernels=False, dp=1,
                    tokens_per_step=8 * training["sequence"])


def alst(run, training):
    """DeepSpeed ZeRO-3 with the optimizer on the host and layers recomputed; the note says what else."""
    note = run["note"].split(";")[0]
    everything = note.startswith(("all", "+ both"))
    if "no Ulysses" in note:
        training["cp"] = 1
    training.update(zero=3, recompute="full", offload_optimizer=True, fused_kernels=False,
                    dp=training["gpus"] // training["cp"])
    training["tokens_per_step"] = training["sequence"] * training["dp"]
    if "baseline" not in note:  # Liger's fused loss comes first in their order
        training["loss_chunks"] = max(1, training["sequence"] // training["cp"] // 2048)
    if everything or "tiled" in note or training["sequence"] // training["cp"] > 500000:  # no other way holds them
        training["feed_forward_chunks"] = max(1, training["sequence"] // training["cp"] // run.number("hidden", 1))
    training["offload_checkpoints"] = everything or ("checkpoint offload" in note and "no checkpoint" not in note)
    training["offload_parameters"] = run.number("gpus", 1) == 1 and run["gpu"] == "H100"


SYSTEMS = {"Megatron-LM (SimuMax bench)": megatron, "Megatron-Bridge": megatron, "NeMo": megatron,
           "TRL (torch CP, FSDP2)": trl, "HF Accelerate+DeepSpeed": accelerate, "ArcticTraining ALST": alst}


def toml(sections):
    text = ""
    for name, table in sections.items():
        text += f"[{name}]\n"
        for key, value in table.items():
            text += f"{key} = {json.dumps(value)}\n"
    return text


class Refused(Exception):  # with what cplab says of a scenario that cannot be
    pass


def predict(cplab, sections, machine, algorithm):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(toml(sections))
        file.flush()
        command = [cplab, "advise", file.name, "--hardware", machine, "--brief", "--quiet", "--json", "-"]
        for key in ("micro_batch", "loss_chunks"):  # else it looks for others where a layout does not fit
            command += ["--over", f"{key}={sections['training'].get(key, 1)}"]
        if algorithm and sections["training"]["cp"] > 1:
            command += ["--over", f"algorithm={algorithm}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    if done.returncode not in (0, 2):
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}{toml(sections)}")
    if done.returncode:
        raise Refused(done.stderr.strip().split(": ", 2)[-1])
    result = json.loads(done.stdout)
    if not result["candidates"]:
        raise Refused("; ".join(refusal["reason"] for refusal in result["refused"]))
    return result["candidates"][0]


def model_flops_per_token(run):
    """What the source's own TFLOP/s count: 6 FLOPs a parameter but the input embedding, and attention's products.

    Until release 25.07 over all pairs of tokens, later over the causal half; rows that print tokens a second too agree
    with it within 2 %.
    """
    preset = preset_of(run)
    config = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008,
              "vocab_size": 32000}
    if preset:
        config = json.loads((ROOT / f"scenarios/models/{preset[0]}.json").read_text())
    hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    layers = preset[1] or layers if preset else layers
    kv_heads, size = config.get("num_key_value_heads", heads), config.get("head_dim") or hidden // heads
    width, words = config["intermediate_size"], config["vocab_size"]
    if "num_experts_per_tok" in config:
        width = config.get("moe_intermediate_size", width) * config["num_experts_per_tok"]
    layer = hidden * size * (2 * heads + 2 * kv_heads) + 3 * hidden * width
    pairs = run.number("seq", 0) * (1 if run["system"] == "NeMo" else 0.5)
    return 6 * (layers * layer + hidden * words) + 12 * layers * heads * size * pairs


# One published value beside ours.
Comparison = collections.namedtuple("Comparison", "run metric measured unit predicted error inside")


def step_times(run, step):
    """(metric, predicted, low, high) of a step's time, low and high by the time."""
    time_s, low_s, high_s = step["time_s"], step["low_s"], step["high_s"]
    rate = step["tokens"] / time_s
    for metric, (_, unit) in run.values.items():
        if metric == "step_time":
            scale = 1e3 if unit == "ms" else 1
            yield metric, time_s * scale, low_s / time_s, high_s / time_s, False
        elif metric == "tokens_per_s_per_gpu":
            yield metric, step["tokens_s_gpu"], low_s / time_s, high_s / time_s, True
        elif metric == "model_tflops_per_gpu" and "tokens_per_s_per_gpu" not in run.values:
            yield (metric, step["tokens_s_gpu"] * model_flops_per_token(run) / 1e12, low_s / time_s, high_s / time_s, True)
        elif metric == "tokens_per_s":
            yield metric, rate, low_s / time_s, high_s / time_s, True


def allocated_bytes(run, step):
    """Peaks are the allocator's: without context, and without fragments unless all of the device was read."""
    by_kind = {part["kind"]: part["bytes"] for part in step["memory"]}
    total = step["memory_bytes"]
    if "gpu_mem_used" in run.values:
        return total
    return total - by_kind.get("context", 0) - by_kind.get("fragmentation", 0)


def compare(run, cplab):
    model, training = base(run)
    SYSTEMS[run["system"]](run, training)
    machine, algorithm = MACHINES[run["gpu"]], algorithm_of(run)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        if "FA2" in run["note"] and run["gpu"] == "H100":
            file.write(FLASH_2)
            file.flush()
            machine = file.name
        return compare_on(run, cplab, {"model": model, "training": training}, machine, algorithm)


def compare_on(run, cplab, sections, machine, algorithm):
    training = sections["training"]
    step = predict(cplab, sections, machine, algorithm)
    found = []
    for metric, predicted, low, high, inverse in step_times(run, step):
        measured, unit = run.values[metric]
        ratio = measured / predicted
        time_ratio = 1 / ratio if inverse else ratio  # measured time over ours
        found.append(Comparison(run, metric, measured, unit, predicted, 1 / time_ratio - 1, low <= time_ratio <= high))
    for metric in ("peak_alloc", "peak_mem", "gpu_mem_used"):
        if metric in run.values:
            measured, unit = run.values[metric]
            predicted = allocated_bytes(run, step) / (GIB if unit == "GiB" else 1e9)
            found.append(Comparison(run, metric, measured, unit, predicted, predicted / measured - 1, None))
    capacity = step["memory_bytes"] + step["headroom_bytes"]
    if "fits" in run.values:
        measured, unit = run.values["fits"]
        found.append(Comparison(run, "fits", measured, unit, float(step["fits"]), None, None))
    if "max_seq_that_fits" in run.values:
        measured, unit = run.values["max_seq_that_fits"]
        shorter = dict(training, sequence=training["sequence"] // 2)
        shorter["tokens_per_step"] = shorter["sequence"]
        shorter["tokens_per_step"] *= shorter["dp"]
        for chunks in ("loss_chunks", "feed_forward_chunks"):
            if shorter.get(chunks, 1) > 1:
                shorter[chunks] = max(1, shorter[chunks] // 2)
        half = predict(cplab, dict(sections, training=shorter), machine, algorithm)
        slope = (step["memory_bytes"] - half["memory_bytes"]) / (training["sequence"] - shorter["sequence"])
        longest = training["sequence"] + (capacity - step["memory_bytes"]) / slope
        found.append(Comparison(run, "fits at that length", 1, "bool", float(step["fits"]), None, None))
        found.append(Comparison(run, "longest row that fits", measured, unit, longest, longest / measured - 1, None))
    return found, step, training


SHORT = {"Megatron-LM (SimuMax bench)": "Megatron", "Megatron-Bridge": "Bridge", "TRL (torch CP, FSDP2)": "TRL",
         "HF Accelerate+DeepSpeed": "DeepSpeed", "ArcticTraining ALST": "ALST"}


def length_text(run):
    tokens = run.number("seq", 0)
    return f"{tokens // 1024}K" if tokens % 1024 == 0 else str(tokens)


def layout_text(training):
    text = " ".join(f"{key}{training[key]}" for key in ("tp", "cp", "pp") if training[key] > 1)
    if training.get("pipeline_chunks", 1) > 1:
        text += f"x{training['pipeline_chunks']}"
    return (text + (" fsdp" if training["zero"] == 3 else "")).strip() or "dp"


def number(value):
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def print_rows(results, unpredicted, terms):
    print(f"{'id':<5} {'use':<5} {'run':<44} {'metric':<21} {'measured':>10} {'predicted':>10} {'error':>7} band")
    for found, step, training in results:
        for each in found:
            run = each.run
            what = (f"{SHORT.get(run['system'], run['system'])} {run['model']} {length_text(run)} {run['gpu']} "
                    f"{run['dtype']} {layout_text(training)}")
            error = "" if each.error is None else f"{100 * each.error:+.1f} %"
            inside = "" if each.inside is None else "inside" if each.inside else "outside"
            if each.inside is not None and not step["fits"]:
                inside += ", does not fit"
            print(f"{run.id:<5} {run.use:<5} {what[:44]:<44} {each.metric:<21} {number(each.measured):>10} "
                  f"{number(each.predicted):>10} {error:>7} {inside}".rstrip())
        if terms:
            print("      " + ", ".join(f"{t['name']} {t['seconds']:.3g}" for t in step["terms"]) +
                  f" | band {step['low_s'] / step['time_s']:.2f} {step['high_s'] / step['time_s']:.2f}")
            print("      " + ", ".join(f"{p['kind']} {p['bytes'] / 1e9:.3g}" for p in step["memory"]) + " GB")
    reasons = {}
    for run, reason in unpredicted:
        reasons.setdefault((run["system"], reason), []).append(run.id)
    for (system, reason), ids in reasons.items():
        print(f"not predicted: {system}: {reason}: {' '.join(ids)}")


TIMES = ("step_time", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "tokens_per_s")


def agreement(rows):
    """Pairs whose order we have right, of those that differ by more than the noise of 3 %."""
    right = pairs = 0
    for i, a in enumerate(rows):
        for b in rows[:i]:
            if a.metric != b.metric or abs(a.measured / b.measured - 1) < 0.03:
                continue
            pairs += 1
            right += (a.measured > b.measured) == (a.predicted > b.predicted)
    return right, pairs


def summary_line(label, rows):
    errors = [100 * each.error for each in rows]
    inside = [each.inside for each in rows if each.inside is not None]
    right, pairs = agreement(rows)
    bands = f"{sum(inside)} of {len(inside)}" if inside else ""
    order = f"{right} of {pairs}" if pairs else ""
    median = statistics.median(abs(e) for e in errors)
    print(f"{label:<58} {len(rows):>4} {median:>8.1f} {statistics.mean(errors):>+7.1f} {order:>10} {bands:>9}".rstrip())


def configuration(run):  # what makes two rows runs of the same, but for the release
    return tuple(run[key] for key in ("model", "gpu", "gpus", "cp", "tp", "pp", "seq", "dtype", "method"))


def print_summary(comparisons):
    print(f"{'group':<58} {'rows':>4} {'median %':>8} {'mean %':>7} {'order':>10} {'in band':>9}")
    times = [c for c in comparisons if c.metric in TIMES]
    memory = [c for c in comparisons if c.metric in ("peak_alloc", "peak_mem", "gpu_mem_used")]
    lengths = [c for c in comparisons if c.metric == "longest row that fits"]
    for title, chosen in (("time", times), ("memory", memory), ("longest row", lengths)):
        groups = {}
        for each in chosen:
            run = each.run
            groups.setdefault((run["system"].split(" (")[0], run["gpu"], run["dtype"].split("-")[0]), []).append(each)
        for key, rows in sorted(groups.items()):
            summary_line(f"{title}: {' '.join(key)}", rows)
        seen = {configuration(each.run) for each in chosen if each.run.use == "fit"}
        for use in ("fit", "check"):
            rows = [each for each in chosen if each.run.use == use]
            if rows:
                summary_line(f"{title}: all marked {use}", rows)
        rows = [each for each in chosen if each.run.use == "check" and configuration(each.run) not in seen]
        if rows:
            summary_line(f"{title}: marked check, configured as no fitted row is", rows)
    theirs = [each for each in times if "sim_step_time" in each.run.values]
    if theirs:
        errors = [100 * (c.run.values["sim_step_time"][0] / c.measured - 1) for c in theirs]
        print(f"{'time: SimuMax itself, its rows with CP':<58} {len(theirs):>4} "
              f"{statistics.median(abs(e) for e in errors):>8.1f} {statistics.mean(errors):>+7.1f}")
        summary_line("time: ours on the same rows", theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="?", default=str(ROWS))
    parser.add_argument("--cplab", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--terms", action="store_true")
    arguments = parser.parse_args()
    cplab = arguments.cplab or str(ROOT / "build/release/cplab")
    by_id = {}
    for row in csv.DictReader(pathlib.Path(arguments.rows).read_text().splitlines()):
        by_id.setdefault(row["id"], []).append(row)
    runs = [Run(rows) for rows in by_id.values()]
    if only := [text for text in arguments.only.split(",") if text]:
        runs = [run for run in runs if any(text == run.id or text in run["system"] for text in only)]
    unpredicted, results = [(run, why_not(run)) for run in runs if why_not(run)], []
    for run in runs:
        if why_not(run):
            continue
        try:
            results.append(compare(run, cplab))
        except Refused as refused:
            unpredicted.append((run, str(refused)))
    if not arguments.summary:
        print_rows(results, unpredicted, arguments.terms)
        print()
    print_summary([each for found, _, _ in results for each in found if each.error is not None])
    return 0


if __name__ == "__main__":
    sys.exit(main())
