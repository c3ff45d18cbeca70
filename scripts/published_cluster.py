#!/usr/bin/env python3
"""What `cplab reproduce magi-cluster --json REPORT.json` found, as files.

    published_cluster.py hardware REPORT.json    > scenarios/hardware/published-h100x64.toml
    published_cluster.py predictions REPORT.json > scenarios/published/magi-cluster-predictions.csv
    published_cluster.py table PREDICTIONS.csv   the same as a table of markdown

The hardware file is h100x64.toml without its kernels, with the published ones and the fitted constants. Where it does not
exist yet, `hardware` without a report writes one with every constant as the scenario has it before any time is seen.
"""
import csv
import json
import pathlib
import re
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCENARIOS = ROOT / "scenarios"
CHARTS = {"full_forward": ("attend", "full"), "full_backward": ("attend_backward", "full"),
          "causal_forward": ("attend", "causal"), "causal_backward": ("attend_backward", "causal")}
ALL_TO_ALL_BYTES = [4096, 268435456]

HEAD = """\
# Nodes of 8 x H100 as in MagiAttention's charts (docs/11-published.md): FlashAttention 3, and the element-wise kernels of the
# frameworks around it. Five constants are fitted to times of 8 GPUs alone (cplab reproduce magi-cluster); nobody here has
# run on this cluster, whose network is not published: one NIC of 400 Gb/s a GPU is assumed.
# Written by scripts/published_cluster.py hardware; the other sections are those of h100x64.toml.
"""


def published():
    cluster = tomllib.loads((SCENARIOS / "published/magi-cluster.toml").read_text())
    node = tomllib.loads((SCENARIOS / "published/magi-cp8.toml").read_text())
    return cluster, node


def constants_of(report):
    cluster, _ = published()
    found = {name: pair[0] for name, pair in cluster["published"]["constants"].items()}
    if report:
        scale = {"GB/s": 1e9}
        for row in report["rows"]:
            match = re.fullmatch(r"constant (\w+)", row["label"])
            if match:
                found[match[1]] = row["ours"] * scale.get(row["unit"], 1)
    return found


def kernel_tables(constants):
    """Seconds at the published rates; from 64K on as those of 16K and 32K say, 1 / rate linear in 1 / sequence."""
    cluster, node = published()
    problem, kernel = cluster["problem"], node["published"]["kernel"]
    heads, size = problem["heads"], problem["head_size"]
    for chart, (kind, mask) in CHARTS.items():
        rates, sequence = list(kernel[chart]), list(kernel["sequence"])
        last, growth = 1 / rates[-1], 1 / rates[-2] - 1 / rates[-1]
        longest = sequence[-1]
        for times in (2, 4, 8, 16):
            rate = 1 / (last - growth * (1 - 1 / times))
            rates.append(rate * constants["far_keys"] if chart == "full_forward" else rate)
            sequence.append(times * longest)
        seconds = []
        for s, rate in zip(sequence, rates):
            area = s * s if mask == "full" else s * (s + 1) / 2
            flops = 4 * area * heads * size * (1 if kind == "attend" else 2.5)
            seconds.append(flops / (rate * 1e12) * constants["slower"])
        backward = 'rows = "both"\n' if kind == "attend_backward" else ""
        yield (f'[[kernel]]\nclass = "{kind}"\nvariant = "FlashAttention 3"\ndtype = "bf16"\nhead_size = {size}\n'
               f'mask = "{mask}"\n{backward}batch = {[1] * len(sequence)}\nsequence = {sequence}\n'
               f'heads = {[heads] * len(sequence)}\nseconds = [{", ".join(f"{s:.5e}" for s in seconds)}]\n'
               'origin = "assumed"\nsource = "published rates to 32K, times slower; from 64K on after 16K and 32K'
               f'{", times far_keys" if chart == "full_forward" else ""}"\n')


def elementwise(constants):
    sums, moved = constants["arithmetic"], constants["copies"]
    rows = {"merge": sums, "add": sums, "maximum": sums, "copy": moved, "cast": moved, "fill": moved}
    text = "".join(f"{name} = {value:.4f}\n" for name, value in rows.items())
    return ("[elementwise]\n" + text + 'apart = true\ngathers = true\norigin = "assumed"\n'
            'source = "fitted: arithmetic, copies; apart and gathers as the authors\' program does"\n')


def all_to_all(constants):
    startup_s = published()[0]["published"]["all_to_all"]["startup_s"]
    seconds = ", ".join(f"{startup_s + b / constants['all_to_all']:.5e}" for b in ALL_TO_ALL_BYTES)
    return (f'[[message]]\nkind = "all_to_all"\ntransport = "nccl"\npath = "intra"\ngroup = 8\nchannels = 16\n'
            f'whole = true\nbytes = {ALL_TO_ALL_BYTES}\nseconds = [{seconds}]\norigin = "assumed"\n'
            'source = "fitted: all_to_all; start-up and channels as all_gather"\n')


def hardware(report):
    constants = constants_of(report)
    text = (SCENARIOS / "hardware/h100x64.toml").read_text()
    text = text[text.index("\n[node]") + 1:]
    blocks = re.split(r"\n(?=\[)", text.rstrip("\n") + "\n")
    first = [b for b in blocks if not b.startswith("[[")]
    messages = [b for b in blocks if b.startswith("[[message]]")]
    beside = [b for b in blocks if b.startswith("[[interference]]")]
    parts = [HEAD + '\nname = "published-h100x64"\nkernels_of = "FlashAttention 3"\n', *first, elementwise(constants),
             *kernel_tables(constants), *messages, all_to_all(constants), *beside]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def predictions(report):
    lines = ["ranks,method,mask,direction,predicted_ms"]
    for row in report["rows"]:
        match = re.fullmatch(r"cp (\d+) (\w+) (full|causal) (forward|backward)", row["label"])
        if match:
            lines.append(",".join([*match.groups(), f"{row['ours']:.2f}"]))
    return "\n".join(lines) + "\n"


def table(file):
    rows = list(csv.DictReader(open(file, encoding="utf-8")))
    charts = [("full", "forward"), ("full", "backward"), ("causal", "forward"), ("causal", "backward")]
    lines = ["| GPUs | method | " + " | ".join(" ".join(c) for c in charts) + " |", "|---|---|" + "---:|" * 4]
    for key in dict.fromkeys((r["ranks"], r["method"]) for r in rows):
        times = {(r["mask"], r["direction"]): r["predicted_ms"] for r in rows if (r["ranks"], r["method"]) == key}
        lines.append(f"| {key[0]} | {key[1]} | " + " | ".join(times[c] for c in charts) + " |")
    return "\n".join(lines) + "\n"


def main():
    what, files = sys.argv[1], sys.argv[2:]
    if what == "table":
        text = table(files[0])
    else:
        report = json.loads(pathlib.Path(files[0]).read_text()) if files else None
        text = hardware(report) if what == "hardware" else predictions(report)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
