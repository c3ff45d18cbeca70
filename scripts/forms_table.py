#!/usr/bin/env python3
"""Which form of attention runs with which algorithm, and in which reader: the tables of docs/21-forms.md.

    scripts/forms_table.py [PROGRAM]                         the tables, as markdown
    scripts/forms_table.py [PROGRAM] --verify gpu FILE.json [--forms WORD,...]
                                                             verifies every cell on a GPU, or those of forms with one
                                                             of these words in their name, and writes what it said
    scripts/forms_table.py --times RECORD.json               what its runs took, as markdown

A cell has a letter for each reader that takes the form: c `cplab check`, s `cplab simulate`, v `cplab verify` on a CPU
(outputs and gradients against the reference), g `cplab verify --device gpu`, as the records in scenarios/measured/ have
it.
A dot is a refusal, exit code 2 with a message that says what is legal; what else the exit code is, stands there.
"""
import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Of a cell that several have the last.
RECORDS = [ROOT / "scenarios/measured" / name for name in ("h200-2026-11-29-forms.json", "h200-2026-11-30-forms.json")]
BASE = "scenarios/forms.toml"
PACKED = "--unset problem.sequence --set problem.lengths=[100,30,126]"

SOFTMAX = {
    "causal": "",
    "every key": "--set problem.mask=full",
    "window": "--set problem.window=[64,0]",
    "packed": PACKED,
    "packed and padded": PACKED + " --set problem.padded_lengths=[104,32,128]",
    "one key head": "--set problem.kv_heads=1",
    "softcap": "--set problem.softcap=30",
    "sinks": "--set problem.sink=head",
    "bias alibi": "--set problem.bias=alibi",
    "bias in buckets": "--set problem.bias=buckets --set problem.buckets=32",
    "bias of keys": "--set problem.bias=keys",
    "full bias": "--set problem.bias=full",
    "prefix": "--set problem.prefix=64",
    "groups": "--set problem.groups=[[10,30],[100,180]]",
    "chunks": "--set problem.chunk=64",
    "rectangles": "--set problem.mask=none --set problem.mask_rectangles=[[0,128,0,128,\"full\"],"
                  "[128,256,64,256,\"causal\"]]",
    "cross attention": "--set problem.mask=full --set problem.kv_sequence=192",
    "cross, causal": "--set problem.kv_sequence=320 --set problem.align=bottom_right",
    # Of 256 queries the first 64 see no key, and stand before the first one.
    "cross, sinks": "--set problem.kv_sequence=192 --set problem.align=bottom_right --set problem.sink=head",
    "cross, softcap": "--set problem.kv_sequence=320 --set problem.align=bottom_right --set problem.softcap=30",
    "cross, alibi": "--set problem.kv_sequence=192 --set problem.align=bottom_right --set problem.bias=alibi",
    "cross, buckets": "--set problem.mask=full --set problem.kv_sequence=320 --set problem.align=bottom_right "
                      "--set problem.bias=buckets --set problem.buckets=32",
    "cross, bias of keys": "--set problem.kv_sequence=320 --set problem.align=bottom_right --set problem.bias=keys",
    "cross, full bias": "--set problem.kv_sequence=192 --set problem.align=top_left --set problem.bias=full "
                        "--set problem.sink=head",
    "decoding": "--set problem.sequence=1 --set problem.kv_sequence=256 --set problem.align=bottom_right "
                "--set problem.direction=forward --set parallel.placement=contiguous",
    "MLA": "--set problem.kv_heads=8 --set problem.kv_latent=64 --set problem.rope_size=32",
    "MLA, latent": "--set problem.kv_heads=8 --set problem.kv_latent=64 --set problem.rope_size=32 "
                   "--set schedule.travels=latent",
    "heads of 192, 128": "--set problem.head_size=192 --set problem.value_size=128",
    "heads of 576, 512": "--set problem.kv_heads=1 --set problem.head_size=576 --set problem.value_size=512",
    "heads of 80": "--set problem.head_size=80",
}
LINEAR_BASE = "--set problem.attention=linear --set problem.kv_heads=8 "
LINEAR = {
    "decay": LINEAR_BASE + "--set problem.slopes=alibi",
    "gate of heads": LINEAR_BASE + "--set problem.transition=head",
    "gate of columns": LINEAR_BASE + "--set problem.transition=column",
    "delta rule": LINEAR_BASE + "--set problem.transition=matrix",
    "delta rule, gate of heads": LINEAR_BASE + "--set problem.transition=matrix --set problem.gate=head",
    "convolution": LINEAR_BASE + "--set problem.slopes=alibi --set problem.convolution=4",
    "delta rule, convolution": LINEAR_BASE + "--set problem.transition=matrix --set problem.gate=head "
                               "--set problem.convolution=4",
    "packed": LINEAR_BASE + PACKED + " --set problem.slopes=alibi",
    "packed delta rule": LINEAR_BASE + PACKED + " --set problem.transition=matrix",
    "packed, convolution": LINEAR_BASE + PACKED + " --set problem.slopes=alibi --set problem.convolution=4",
}
DYNAMIC_BASE = "--set problem.attention=dynamic_mask --set problem.bias=keys "
DYNAMIC = {
    "top k": DYNAMIC_BASE + "--set problem.keep=top_k --set problem.top_k=64 --set problem.block=8",
    "relu": DYNAMIC_BASE + "--set problem.keep=relu",
}
READERS = {"c": "check", "s": "simulate", "v": "verify"}


def command(program, reader, algorithm, form):
    """The arguments that ask the reader for the form with the algorithm."""
    return [program, *reader.split(), BASE, "--set", f"parallel.algorithm={algorithm}", *form.split()]


def exit_code(arguments):
    """(exit code, last line that was said)."""
    result = subprocess.run(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    return result.returncode, lines[-1] if lines else ""


def algorithms(program):
    listed = subprocess.run([program, "list", "algorithms", "--json", "-"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                            check=True)
    return [a["name"] for a in json.loads(listed.stdout)["algorithms"]]


def cell(program, algorithm, form, record):
    letters = ""
    for letter, reader in READERS.items():
        code, said = exit_code(command(program, reader, algorithm, form))
        if code == 2:
            return "·"
        letters += letter if code == 0 else f"{letter}{code}"
        if code not in (0, 2):
            print(f"{reader}: {algorithm}: {form}: {said}", file=sys.stderr)
    return letters + ("g" if record.get(f"{algorithm}: {form}") == 0 else "")


def print_table(program, names, forms, record, workers):
    cells = {(form, name): workers.submit(cell, program, name, settings, record)
             for form, settings in forms.items() for name in names}
    told = {key: value.result() for key, value in cells.items()}
    taken = [name for name in names if any(told[form, name] != "·" for form in forms)]
    print("| form | " + " | ".join(name.replace("_", " ") for name in taken) + " | settings |")
    print("|---|" + "---|" * len(taken) + "---|")
    for form, settings in forms.items():
        print(f"| {form} | " + " | ".join(told[form, name] for name in taken) + f" | `{settings}` |")


def said_on_gpu(program, name, form):
    """The exit code of verify on one GPU that has all ranks; None where the form is refused."""
    if exit_code(command(program, "check", name, form))[0] == 2:
        return None
    on_gpu = "verify --device gpu --ranks-per-gpu 4 --timeout 60"
    code, last = exit_code([*command(program, on_gpu, name, form), "--set", "schedule.transport=copy"])
    if code:
        print(f"{name}: {form}: exit {code}: {last}", file=sys.stderr)
    return code


def verify_on_gpu(program, names, file, words):
    forms = [settings for table in (SOFTMAX, LINEAR, DYNAMIC) for name, settings in table.items()
             if not words or any(word in name for word in words.split(","))]
    with concurrent.futures.ThreadPoolExecutor(6) as workers:
        cells = {f"{name}: {form}": workers.submit(said_on_gpu, program, name, form) for form in forms for name in names}
    codes = {key: cell.result() for key, cell in cells.items() if cell.result() is not None}
    asked = "--query-gpu=name,driver_version,clocks.max.sm,power.limit"
    try:
        machine = subprocess.run(["nvidia-smi", asked, "--format=csv,noheader"], stdout=subprocess.PIPE, text=True,
                                 check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"forms_table.py: which GPU this is, nvidia-smi does not say: {error}") from error
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True)
    record = {"machine": machine.stdout.strip(), "version": version.stdout.strip(), "codes": codes}
    pathlib.Path(file).write_text(json.dumps(record, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def print_times(runs):
    """The runs by name, the mean of the rounds in which they took turns."""
    rounds = {}
    for run in runs:
        rounds.setdefault(run["run"], []).append(run)
    print("| tokens, heads | forward (ms) | backward (ms) | both (ms) | kernels |")
    print("|---|---:|---:|---:|---|")
    for name, of_name in rounds.items():
        mean = lambda number: sum(map(number, of_name)) / len(of_name)
        forward, backward = (mean(lambda run: run["phases"][phase]) for phase in ("forward", "backward"))
        kernels = ", ".join(variant.removeprefix("attend ").removeprefix("attend_backward ")
                            for variant in of_name[0]["variants"])
        print(f"| {name} | {forward:.2f} | {backward:.2f} | {mean(lambda run: run['ms']):.2f} | {kernels} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=str(ROOT / "build/release/cplab"))
    parser.add_argument("--verify", nargs=2, metavar=("DEVICE", "FILE"))
    parser.add_argument("--forms", metavar="WORDS", default="")
    parser.add_argument("--times", metavar="RECORD")
    arguments = parser.parse_args()
    if arguments.times:
        print_times(json.loads(pathlib.Path(arguments.times).read_text(encoding="utf-8"))["runs"])
        return
    program = str(pathlib.Path(arguments.program).resolve())
    names = algorithms(program)
    if arguments.verify:
        verify_on_gpu(program, names, arguments.verify[1], arguments.forms)
        return
    record = {}
    for file in RECORDS:
        record |= json.loads(file.read_text(encoding="utf-8"))["codes"]
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        for index, forms in enumerate([SOFTMAX, LINEAR, DYNAMIC]):
            if index:
                print()
            print_table(program, names, forms, record, workers)


if __name__ == "__main__":
    main()
