#!/usr/bin/env python3
"""What `cplab advise` says of a scenario on 8 to 128 GPUs with rows of 128K and of 1M tokens: a markdown table on stdout.

    scripts/planner_table.py [SCENARIO]      scenarios/planner/llama3-70b.toml by default, from the root; $CPLAB runs

A row is the layout that the answer begins with; where nothing fits, the one that comes nearest, and its memory.
"""
import json
import os
import subprocess
import sys

PROGRAM = os.environ.get("CPLAB", "build/release/cplab")


def answer(scenario, gpus, rows):
    command = [PROGRAM, "advise", scenario, "--brief", "--quiet", "--set", f"training.gpus={gpus}", "--set",
               f"training.sequence={rows}", "--json", "-"]
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(text[text.index("{"):])["candidates"][0]


def layout(best):
    words = [f"{degree}{best[degree]}" for degree in ("tp", "cp", "pp", "dp")] + [f"zero{best['zero']}"]
    if best["recompute"] != "none":
        words.append(best["recompute"])
    if best["loss_chunks"] > 1:
        words.append(f"loss/{best['loss_chunks']}")
    return " ".join(words)


def algorithm(best):
    inner = best["schedule"].get("inner_ranks")
    return f"`{best['algorithm']}`" + (f", inner {inner}" if inner else "")


def main(arguments):
    scenario = arguments[0] if arguments else "scenarios/planner/llama3-70b.toml"
    print("| rows | GPUs | layout | algorithm | step (s) | +- (%) | tokens/s a GPU | GiB a GPU | fits |")
    print("| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | --- |")
    for rows in ("128K", "1M"):
        for gpus in (8, 16, 32, 64, 128):
            best = answer(scenario, gpus, rows)
            band = 100 * (best["high_s"] - best["low_s"]) / 2 / best["time_s"]
            print(f"| {rows} | {gpus} | {layout(best)} | {algorithm(best)} | {best['time_s']:.1f} | {band:.0f} |"
                  f" {best['tokens_s_gpu']:.0f} | {best['memory_bytes'] / 2**30:.1f} |"
                  f" {'yes' if best['fits'] else 'no'} |")


if __name__ == "__main__":
    main(sys.argv[1:])
