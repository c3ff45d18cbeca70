#!/usr/bin/env python3
"""Does the compiled code of Hopper's kernels write registers that a wgmma in flight still reads?

    scripts/registers_in_flight.py FILE.o...              the kernels of these objects (cuobjdump -sass)
    cuobjdump -sass FILE.o | scripts/registers_in_flight.py -

wgmma reads its operand A from registers after it was issued, until a wait says that its batch is complete. ptxas 13.0
was seen to give such registers to something else over a loop's back edge, with no note and wrong results. In the order
of the listing, and around every loop that holds a wgmma once more, each instruction that writes a register is held
against the operands A of the batches that no wait has ended. Exit 1: something is written too early, listed by kernel
and address; 2: no kernels, or no listing; 3: no cuobjdump on the PATH.

A listing is no proof: jumps other than loops are read in the order in which they stand.
"""
import re
import shutil
import subprocess
import sys

INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,5})\*/\s+(.*?)\s*;", re.M)
BRANCH = re.compile(r"\bBRA\b.*?0x([0-9a-f]+)")
MULTIPLY = re.compile(r"HGMMA\S* R\d+, R(\d+), gdesc")
WAIT = re.compile(r"DEPBAR\.LE gsb0, 0x([0-9a-f]+)")
# What writes no register, or a uniform one, or a predicate.
NO_RESULT = re.compile(r"(ST|RED\b|RED\.|BAR|SYNCS|BRA|U[A-Z]|WARP|MEMBAR|FENCE|NOP|EXIT|ISETP|FSETP|R2U|BSYNC|BSSY|CCTL|"
                       r"DEPBAR|ERRBAR|YIELD|NANOSLEEP|PLOP|R2P|CALL|RET)")


def kernels(listing):
    """(name, [(address, instruction)]) of every function."""
    for part in listing.split("Function : ")[1:]:
        yield part.split("\n", 1)[0].strip(), [(int(m[1], 16), m[2]) for m in INSTRUCTION.finditer(part)]


def runs(instructions):
    """Instructions in the order of the listing; then each loop with a wgmma twice, one pass behind the other."""
    at = {address: i for i, (address, _) in enumerate(instructions)}
    yield instructions
    for i, (_, text) in enumerate(instructions):
        branch = BRANCH.search(text)
        begin = at.get(int(branch[1], 16), i) if branch else i
        if begin < i and any("HGMMA" in body for _, body in instructions[begin:i]):
            yield instructions[begin:i + 1] * 2


def written(text):
    """The registers that an instruction writes."""
    words = text.split()
    if words and words[0].startswith("@"):
        words = words[1:]
    if not words or NO_RESULT.match(words[0]):
        return set()
    first = re.match(r"(?:U?P\w+, )?R(\d+)\b", " ".join(words[1:]))
    if not first:
        return set()
    operation = words[0]
    matrices = re.match(r"LDSM\S*\.([24])$", operation)  # a register of each
    if matrices:
        count = int(matrices[1])
    else:
        count = 4 if ".128" in operation else 2 if ".64" in operation or "WIDE" in operation else 1
    return set(range(int(first[1]), int(first[1]) + count))


def too_early(instructions):
    """Addresses and instructions that write what a batch in flight reads."""
    found = {}
    for run in runs(instructions):
        batches, open_batch = [], set()
        for address, text in run:
            if "HGMMA" in text:
                multiply = MULTIPLY.search(text)
                if multiply:
                    open_batch = open_batch | set(range(int(multiply[1]), int(multiply[1]) + 4))
                if "gsb0" in text:  # the last of its batch
                    batches.append(open_batch)
                    open_batch = set()
                continue
            wait = WAIT.search(text)
            if wait:
                left = int(wait[1], 16)
                batches = batches[max(len(batches) - left, 0):] if left else []
                continue
            if written(text) & set().union(open_batch, *batches):
                found[address] = text
    return sorted(found.items())


def listing_of(files):
    if files == ["-"]:
        return sys.stdin.read()
    if not shutil.which("cuobjdump"):
        print("registers_in_flight.py: no cuobjdump on the PATH", file=sys.stderr)
        sys.exit(3)
    listing = ""
    for file in files:
        done = subprocess.run(["cuobjdump", "-sass", file], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"registers_in_flight.py: {file}: {done.stderr.strip()}", file=sys.stderr)
            sys.exit(2)
        listing += done.stdout
    return listing


def main(files):
    if not files or (files[0].startswith("-") and files != ["-"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    count = bad = multiplies = 0
    for name, instructions in kernels(listing_of(files)):
        count += 1
        multiplies += sum("HGMMA" in text for _, text in instructions)
        for address, text in too_early(instructions):
            bad += 1
            print(f"{name}: {address:#06x}: {text}")
    if count == 0:
        print("registers_in_flight.py: no kernels", file=sys.stderr)
        return 2
    print(f"{count} kernels, {multiplies} wgmma, {bad} registers written too early")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
