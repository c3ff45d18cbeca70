#!/usr/bin/env python3
"""cmake --install: a prefix of its own and a DESTDIR, the installed program with its scenarios, its manual page and the
shell's completion.

    tests/cli/install_test.py CMAKE BUILD    BUILD: the build folder, with the program built
"""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

CMAKE, BUILD = "", ""
SCHEMAS = ("advise calibrate check compare demo explain kernels list new reproduce run show simulate sweep tune "
           "verify").split()


def environment(**more):
    """Without what would tell the program where its scenarios are."""
    names = {name: value for name, value in os.environ.items() if name not in ("CPLAB_SCENARIOS", "DESTDIR", "COLUMNS")}
    return names | more


class Install(unittest.TestCase):
    """One installation for all cases."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.prefix = cls.root / "prefix"
        cls.install(cls.prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def install(cls, prefix, **more):
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", str(prefix)], env=environment(**more), check=True,
                       stdout=subprocess.DEVNULL)

    def run_program(self, prefix, *arguments, expected=0):
        result = subprocess.run([prefix / "bin" / "cplab", *arguments], env=environment(), cwd=self.root, text=True,
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, expected, result.stderr)
        return result.stdout

    def check_tree(self, prefix):
        for name in ("bin/cplab", "share/cplab/scenarios/ring.toml", "share/cplab/scenarios/hardware/h100x8.toml",
                     "share/cplab/scenarios/models/llama3-70b.json", "share/doc/cplab/06-files.md",
                     "share/doc/cplab/LICENSE", "share/man/man1/cplab.1",
                     "share/bash-completion/completions/cplab", "share/zsh/site-functions/_cplab"):
            self.assertTrue((prefix / name).is_file(), name)
        names = sorted(path.stem for path in (prefix / "share/cplab/schemas").iterdir())
        self.assertEqual(names, SCHEMAS)
        for name in names:
            schema = json.loads((prefix / f"share/cplab/schemas/{name}.json").read_text())
            self.assertEqual(schema["$id"], f"urn:cplab:{name}")

    def test_prefix(self):
        """The installed program finds its scenarios, machines and models from its own place."""
        self.check_tree(self.prefix)
        self.assertIn("ring-small", self.run_program(self.prefix, "list", "scenarios"))
        self.assertIn("h100x8", self.run_program(self.prefix, "simulate", "ring-small", "--hardware", "h100x8"))

    def test_destdir(self):
        """Staged for a package: nothing outside of DESTDIR, and the tree may be moved."""
        stage = self.root / "stage"
        self.install("/usr", DESTDIR=str(stage))
        self.assertEqual([path.name for path in stage.iterdir()], ["usr"])
        moved = self.root / "moved"
        shutil.move(stage / "usr", moved)
        self.check_tree(moved)
        self.assertIn("ring-small", self.run_program(moved, "list", "scenarios"))
        # SimGrid's module is the installed one.
        result = subprocess.run([moved / "bin" / "cplab", "simulate", "ring-small", "--hardware", "h100x8", "--set",
                                 "simulate.engine=simgrid"], env=environment(LD_DEBUG="libs"), cwd=self.root, text=True,
                                capture_output=True, check=True)
        self.assertIn(f"calling init: {moved.resolve()}/lib/cplab/libcplab_simgrid.so",
                      result.stderr.replace("bin/../", ""))

    @unittest.skipUnless(shutil.which("groff"), "no groff here")
    def test_manual(self):
        """The manual page sets without a warning, and says what --help says."""
        page = self.prefix / "share/man/man1/cplab.1"
        result = subprocess.run(["groff", "-man", "-ww", "-Tascii", page], text=True, capture_output=True, check=True)
        self.assertEqual(result.stderr, "")
        for word in ("NAME", "cplab simulate", "--hardware", "problem.mask", "schedule.kv_slots", "ring"):
            self.assertIn(word, re.sub(".\x08", "", result.stdout))

    def complete(self, line):
        """What bash's completion function answers to a line with the cursor at its end."""
        script = ('source "$1"; COMP_WORDBREAKS=$\' \\t\\n"\\\'><=;|&(:\'; COMP_LINE=$2; COMP_POINT=${#COMP_LINE}; _cplab; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        path = f"{self.prefix / 'bin'}:{os.environ['PATH']}"
        result = subprocess.run(["bash", "-c", script, "bash",
                                 self.prefix / "share/bash-completion/completions/cplab", line],
                                env=environment(PATH=path), text=True, capture_output=True, check=True)
        return result.stdout.split()

    def test_completion(self):
        """Commands, options, scenarios, machines, keys of --set and their values."""
        self.assertEqual(self.complete("cplab simul"), ["simulate"])
        self.assertIn("ring-small", self.complete("cplab check ring"))
        self.assertIn("--hardware", self.complete("cplab simulate ring --"))
        self.assertIn("h200x4", self.complete("cplab simulate ring --hardware "))
        self.assertEqual(self.complete("cplab check ring --set problem.mas"), ["problem.mask=", "problem.mask_rectangles="])
        self.assertEqual(self.complete("cplab check ring --set problem.mask=ca"), ["causal"])
        self.assertEqual(self.complete("cplab check ring --set parallel.algorithm=hier"), ["hierarchical"])
        self.assertEqual(self.complete("cplab run ring --save "), [])

    def test_completion_typed(self):
        """The same in an interactive bash: what is typed is completed on the line."""
        process, terminal = pty.fork()
        if process == 0:
            os.environ.update(PATH=f"{self.prefix / 'bin'}:{os.environ['PATH']}", TERM="dumb", PS1="> ")
            os.environ.pop("CPLAB_SCENARIOS", None)
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        try:
            os.write(terminal, f"source {self.prefix}/share/bash-completion/completions/cplab\n".encode())
            os.write(terminal, b"echo ready$((1+1))\n")
            self.read_until(terminal, "ready2")
            os.write(terminal, b"cplab check ring-sm\t--set problem.dt\tbf1\t")
            self.read_until(terminal, "cplab check ring-small --set problem.dtype=bf16")
        finally:
            os.kill(process, 9)
            os.waitpid(process, 0)
            os.close(terminal)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_completion_zsh(self):
        """In an interactive zsh: commands, scenarios, options and their values, keys of --set, files."""
        folder = self.root / "zsh"
        folder.mkdir()
        (folder / "some-plan.json").touch()
        process, terminal = pty.fork()
        if process == 0:
            os.environ.update(PATH=f"{self.prefix / 'bin'}:{os.environ['PATH']}", TERM="dumb", COLUMNS="200",
                              HOME=str(self.prefix))
            os.environ.pop("CPLAB_SCENARIOS", None)
            os.chdir(folder)
            os.execvp("zsh", ["zsh", "-f", "-i"])
        try:
            # Ctrl-X shows the line as zsh has it, and empties it.
            os.write(terminal, f"fpath=({self.prefix}/share/zsh/site-functions $fpath)\n".encode() +
                     b"autoload -Uz compinit && compinit -u -D\n"
                     b"line() { print -r -- \"[$BUFFER]\"; BUFFER= }; zle -N line; bindkey '^X' line\n"
                     b"echo ready$((1+1))\n")
            self.read_until(terminal, "ready2")
            for typed, completed in [
                    ("cplab simul\t", "cplab simulate "),
                    ("cplab check ring-sm\t", "cplab check ring-small "),
                    ("cplab simulate ring --hardwa\t", "cplab simulate ring --hardware "),
                    ("cplab run ring --dev\tg\t", "cplab run ring --device gpu "),
                    ("cplab run ring --device=g\t", "cplab run ring --device=gpu "),
                    ("cplab check ring --set pro\tdt\tbf1\t", "cplab check ring --set problem.dtype=bf16 "),
                    ("cplab check ring --set 'problem.dty\t", "cplab check ring --set 'problem.dtype="),
                    ("cplab check ring --set parallel.algorithm=hier\t",
                     "cplab check ring --set parallel.algorithm=hierarchical "),
                    ("cplab simulate ring --algorithms ring,all_g\t", "cplab simulate ring --algorithms ring,all_gather "),
                    ("cplab check --plan some\t", "cplab check --plan some-plan.json "),
                    ("cplab check --plan=some\t", "cplab check --plan=some-plan.json "),
                    ("~/bin/cplab simul\t", "~/bin/cplab simulate ")]:
                with self.subTest(typed):
                    os.write(terminal, typed.encode() + b"\x18")
                    self.read_until(terminal, f"[{completed}]")
        finally:
            os.kill(process, 9)
            os.waitpid(process, 0)
            os.close(terminal)

    def read_until(self, terminal, wanted):
        """What the terminal shows, until it shows that."""
        shown, end = "", time.monotonic() + 30
        while wanted not in shown.replace("\x07", ""):
            self.assertLess(time.monotonic(), end, shown)
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 4096).decode(errors="replace")
        return shown


if __name__ == "__main__":
    CMAKE, BUILD = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
