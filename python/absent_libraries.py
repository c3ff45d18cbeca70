#!/usr/bin/env python3
"""Libraries that a library is linked against and that nobody calls: python/absent_libraries.py LIBRARY PATTERN FOLDER

Writes into FOLDER, for each library that LIBRARY needs and whose name PATTERN matches, one of the same soname that
defines what LIBRARY wants of it: functions that hand back their first argument, and zeros for data. LIBRARY then loads
without them; what it would do with them it cannot. Needs nm, objdump and a C compiler (CC).
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def dynamic_symbols(library, which):
    """Name without version, and nm's letter."""
    for line in output("nm", "-D", which, library).splitlines():
        *_, kind, name = line.split()
        yield name.split("@")[0], kind


def needed(library):
    return re.findall(r"^\s*NEEDED\s+(\S+)$", output("objdump", "-p", library), re.MULTILINE)


def places(library):
    """Where the loader finds what the library needs, by soname."""
    return dict(re.findall(r"^\s*(\S+) => (\S+)", output("ldd", library), re.MULTILINE))


def source_of(library, absent, known):
    kinds = {}
    for name in absent:
        kinds.update(dynamic_symbols(known[name], "--defined-only"))
    text = [f"// What {pathlib.Path(library).name} wants of {', '.join(absent)}."]
    for name, _ in dynamic_symbols(library, "--undefined-only"):
        kind = kinds.get(name)
        if kind is None:
            continue
        is_function = kind in "TWi" and not name.startswith(("_ZTV", "_ZTI", "_ZTS", "_ZTT"))
        text.append(f"void* {name}(void* a) {{ return a; }}" if is_function else f"char {name}[4096];")
    return "\n".join(text) + "\n"


def main(library, pattern, folder):
    known = places(library)
    absent = [name for name in needed(library) if re.match(pattern, name) and name in known]
    os.makedirs(folder, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    for at, name in enumerate(absent):
        # All of what is wanted lies in the first: the loader looks for a symbol in all of them.
        source = pathlib.Path(folder, name + ".c")
        source.write_text(source_of(library, absent, known) if at == 0 else f"// {name}: nothing is wanted of it\n")
        subprocess.run([*compiler, "-shared", "-fPIC", "-fno-builtin", "-w", "-O1", "-s", f"-Wl,-soname,{name}", "-o",
                        str(pathlib.Path(folder, name)), str(source)], check=True)
        source.unlink()
    for name in absent:
        print(name)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
