#!/usr/bin/env python3
"""How much is lost by each of the four ways to choose a kernel, against measuring every candidate.

    scripts/choice_study.py measure OUT.json [--program build/release/cplab] [--seconds 240] [--rounds 14]
    scripts/choice_study.py table STUDY.json [--chosen-by OTHER.json]
    scripts/choice_study.py --self-check                 on a record whose answer is known

`measure` needs a GPU: `cplab tune --choose autotune --fresh` checks and times every candidate of each shape, forward and
backward, at random in rounds; shapes that would begin after the time are left out, and named. `table` prints for each way
the geometric mean and the worst of regret, time over that of the fastest candidate less 1, and what was gained over
`static`. Of the samples every other one is for choosing, the rest for judging, so that nobody chooses by the noise that
he is judged by. static: what the table of kernels takes. heuristic: what the model predicts to be fastest. hybrid: the
fastest measured among the model's three (the table's among them). autotune: the fastest measured. first: the first kernel
of the table, in its largest tiles. Held out: shapes with a sequence, a head count or a batch that no table has the costs
of the model were fitted to. --chosen-by: the choices of autotune and hybrid are those of another record (another GPU),
judged by the times of this one; so are those of the model, which are the same everywhere.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WAYS = ("first", "static", "heuristic", "hybrid", "autotune")
LEAST_ADVANTAGE, FEW = 1.01, 3


def shape(batch, sequence, heads, kv_heads, head_size, causal, held_out, deterministic=False):
    return dict(batch=batch, sequence=sequence, heads=heads, kv_heads=kv_heads, head_size=head_size, causal=causal,
                held_out=held_out, deterministic=deterministic)


def shapes():
    """Those that tell most first."""
    trained = [shape(1, s, 4096 // (2 * d), 4096 // (2 * d), d, c, False) for s in (1024, 4096) for d in (128, 64)
               for c in (True, False)]
    held = [shape(1, 768, 16, 16, 128, True, True), shape(1, 640, 4, 4, 128, False, True),
            shape(1, 1500, 12, 4, 64, True, True), shape(3, 1111, 8, 8, 128, True, True),
            shape(1, 2800, 32, 8, 128, True, True), shape(1, 6000, 8, 2, 64, False, True),
            shape(6, 333, 16, 16, 64, False, True), shape(1, 256, 64, 8, 128, True, True),
            shape(1, 5000, 5, 5, 128, False, True), shape(2, 3000, 24, 4, 128, True, True),
            shape(1, 10000, 10, 10, 128, True, True), shape(1, 1900, 3, 1, 64, True, True),
            shape(12, 700, 6, 6, 128, True, True), shape(1, 200, 7, 7, 64, False, True)]
    return (held[:8] + [dict(s, deterministic=True) for s in held[:6]] + trained[:4] + held[8:] +
            [dict(s, deterministic=True) for s in trained[:4] + held[8:]] + trained[4:])


def command_for(program, at, folder, rounds):
    values = {"problem.batch": at["batch"], "problem.sequence": at["sequence"], "problem.heads": at["heads"],
              "problem.kv_heads": at["kv_heads"], "problem.head_size": at["head_size"],
              "problem.mask": '"causal"' if at["causal"] else '"full"', "parallel.ranks": 1,
              "parallel.placement": '"contiguous"'}
    sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    return [program, "tune", "ring-h200", *sets, "--choose", "autotune", "--fresh", "--choices", f"{folder}/choices.json",
            "--rounds", str(rounds), "--json", f"{folder}/tune.json", "--quiet",
            *(["--deterministic"] if at["deterministic"] else [])]


def measure(arguments):
    began, record = time.monotonic(), {"shapes": [], "left_out": [], "failed": []}
    with tempfile.TemporaryDirectory() as folder:
        for at in shapes():
            if time.monotonic() - began > arguments.seconds:
                record["left_out"].append(at)
                continue
            start = time.monotonic()
            command = command_for(arguments.program, at, folder, arguments.rounds)
            try:
                run = subprocess.run(command, capture_output=True, text=True, timeout=90)
                code, said = run.returncode, run.stderr[-800:]
            except subprocess.TimeoutExpired:
                code, said = 124, "90 s are up"
            result = Path(folder, "tune.json")
            if not result.exists():
                record["failed"].append({"shape": at, "exit": code, "said": said})
                print(f"failed: {at}: exit {code}: {said}", file=sys.stderr)
                if len(record["failed"]) > 3 and not record["shapes"]:
                    break
                continue
            tuned = json.loads(result.read_text())
            result.unlink()
            record["machine"] = tuned["machine"]
            for choice in tuned["choices"]:
                candidates = [dict(c, seconds=c["median_s"] or None) for c in choice["tried"]]
                record["shapes"].append({**at, "call": choice["call"], "exit": code, "findings": tuned["findings"],
                                         "wall_s": time.monotonic() - start, "candidates": candidates})
            print(f"{len(record['shapes'])} calls, {time.monotonic() - began:.0f} s", file=sys.stderr)
    Path(arguments.record).write_text(json.dumps(record, indent=1) + "\n")
    return 0 if record["shapes"] and not record["failed"] else 1


def halves(candidate):
    """(for choosing, for judging); none: it was not timed."""
    samples = candidate["samples"]
    if len(samples) < 2:
        return None
    return statistics.median(samples[0::2]), statistics.median(samples[1::2])


def fastest(candidates, seconds):
    """As `cplab tune` takes it: the table's keeps its place where another is hardly faster."""
    return min(candidates, key=lambda c: seconds(c) * (1 if c["of_table"] else LEAST_ADVANTAGE))["variant"]


def chosen(call):
    """The variant that each way takes, by the samples for choosing."""
    timed = [c for c in call["candidates"] if halves(c)]
    table = next(c for c in call["candidates"] if c["of_table"])
    by_model = sorted(call["candidates"], key=lambda c: c["predicted_s"])
    few = [table] + [c for c in by_model if c is not table][:FEW - 1]
    return {"first": call["candidates"][0]["variant"], "static": table["variant"], "heuristic": by_model[0]["variant"],
            "hybrid": fastest([c for c in few if halves(c)] or [table], lambda c: (halves(c) or (0, 0))[0]),
            "autotune": fastest(timed, lambda c: halves(c)[0])}


def regrets(record, other=None):
    """[(call, {way: regret})]; calls with fewer than two timed candidates, or whose choice was not timed, have none."""
    elsewhere = {(c["call"], c["sequence"]): c for c in other["shapes"]} if other else {}
    rows = []
    for call in record["shapes"]:
        judged = {c["variant"]: halves(c)[1] for c in call["candidates"] if halves(c)}
        if len(judged) < 2:
            continue
        ways = chosen(call)
        if other:
            there = elsewhere.get((call["call"], call["sequence"]))
            if there is None or sum(1 for c in there["candidates"] if halves(c)) < 2:
                continue
            ways.update({way: chosen(there)[way] for way in ("hybrid", "autotune")})
        least = min(judged.values())
        rows.append((call, {way: judged[v] / least - 1 for way, v in ways.items() if v in judged}))
    return rows


def mean(values):
    """Geometric, of 1 + x, less 1."""
    return math.exp(statistics.fmean(math.log1p(v) for v in values)) - 1


def summary(rows):
    lines = ["| calls | number | way | regret, mean (%) | worst (%) | over static: mean (%) | best (%) |",
             "|---|---:|---|---:|---:|---:|---:|"]
    groups = {"held out": lambda c: c["held_out"], "in the tables": lambda c: not c["held_out"],
              "forward": lambda c: c["call"].startswith("attend "),
              "backward": lambda c: c["call"].startswith("attend_backward") and not c["deterministic"],
              "backward, the same bits": lambda c: c["call"].startswith("attend_backward") and c["deterministic"]}
    for name, belongs in groups.items():
        inside = [regret for call, regret in rows if belongs(call)]
        for way in WAYS:
            known = [r for r in inside if way in r and "static" in r]
            if not known:
                continue
            gains = [(1 + r["static"]) / (1 + r[way]) - 1 for r in known]
            lines.append(f"| {name} | {len(known)} | {way} | {100 * mean([r[way] for r in known]):.2f} | "
                         f"{100 * max(r[way] for r in known):.2f} | {100 * mean(gains):+.2f} | {100 * max(gains):+.2f} |")
    return lines


def per_call(rows):
    lines = ["| call | " + " | ".join(f"{way} (%)" for way in WAYS) + " |", "|---|" + "---:|" * len(WAYS)]
    for call, regret in rows:
        lines.append(f"| {call['call']} | " + " | ".join(
            f"{100 * regret[way]:.1f}" if way in regret else "not timed" for way in WAYS) + " |")
    return lines


def table(arguments):
    record = json.loads(Path(arguments.record).read_text())
    other = json.loads(Path(arguments.chosen_by).read_text()) if arguments.chosen_by else None
    rows = regrets(record, other)
    wrong = [f"{call['call']}: {c['variant']}: {c['reason']}" for call in record["shapes"] for c in call["candidates"]
             if c["standing"] in ("wrong", "refused")]
    print("\n".join(summary(rows) + [""] + per_call(rows)))
    print(f"\n{len(record['left_out'])} shapes left out, {len(record['failed'])} failed")
    for line in wrong:
        print("wrong or refused: " + line)
    return 0


def self_check():
    """Three kernels of 1, 2 and 4 us; the table takes the second, the model the third, and calls the first fourth of
    four, so that hybrid never sees it."""
    def candidate(name, us, predicted, of_table=False, timed=True):
        return {"variant": name, "of_table": of_table, "predicted_s": predicted, "standing": "timed",
                "samples": [us * 1e-6] * 4 if timed else []}
    call = {"call": "attend x", "sequence": 1, "held_out": True, "deterministic": False, "candidates": [
        candidate("a", 1, 9), candidate("b", 2, 5, True), candidate("c", 4, 1), candidate("d", 3, 2)]}
    (_, regret), = regrets({"shapes": [call]})
    assert {way: round(r, 9) for way, r in regret.items()} == {
        "first": 0, "static": 1, "heuristic": 3, "hybrid": 1, "autotune": 0}, regret
    # Chosen by the even samples, judged by the odd ones: a looks fastest and is not.
    call["candidates"][0]["samples"] = [1e-6, 3e-6] * 2
    (_, regret), = regrets({"shapes": [call]})
    assert round(regret["autotune"], 9) == 0.5 and regret["static"] == 0, regret
    # Chosen on another machine, where c is fastest.
    there = json.loads(json.dumps(call))
    there["candidates"][2]["samples"] = [1e-7] * 4
    (_, regret), = regrets({"shapes": [call]}, {"shapes": [there]})
    assert round(regret["autotune"], 9) == 1 and round(regret["hybrid"], 9) == 1, regret
    # 1 % is no advantage over the table's.
    call["candidates"][0]["samples"] = [1.99e-6] * 4
    assert chosen(call)["autotune"] == "b"
    assert abs(mean([1, 3]) - (math.sqrt(8) - 1)) < 1e-12
    assert len(summary(regrets({"shapes": [call]}))) == 2 + 2 * len(WAYS)
    first = command_for("cplab", shapes()[0], "/tmp", 3)
    assert first[:3] == ["cplab", "tune", "ring-h200"] and "problem.sequence=768" in first
    assert sum(s["held_out"] for s in shapes()) > len(shapes()) // 2
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-check", action="store_true")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("measure")
    run.add_argument("record")
    run.add_argument("--program", default="build/release/cplab")
    run.add_argument("--seconds", type=float, default=240)
    run.add_argument("--rounds", type=int, default=14)
    show = commands.add_parser("table")
    show.add_argument("record")
    show.add_argument("--chosen-by")
    arguments = parser.parse_args()
    if arguments.self_check:
        return self_check()
    if arguments.command is None:
        parser.error("measure or table")
    return measure(arguments) if arguments.command == "measure" else table(arguments)


if __name__ == "__main__":
    sys.exit(main())
