"""The commands of cplab as functions: their options are keyword arguments (``--ranks-per-gpu 2`` is
``ranks_per_gpu=2``), ``set`` takes a dict of ``"section.key": value``, ``unset`` a list of keys."""
import atexit
import json
import os
import threading

from . import _cplab
from .errors import EnvironmentError, ScenarioError
from .results import Result, result_of
from .toml_text import toml_text

atexit.register(_cplab.join_left)

EXIT_WRONG, EXIT_USAGE = 1, 2


class Words:
    """The words of a command line, and the texts that stand in it in place of files."""

    def __init__(self, command):
        self.words = [command]
        self.texts = {}

    def subject(self, name, given):
        """Adds what a command is about: a path or a name as it is, anything else as a text called ``name``."""
        self.words.append(self.file(name, given))

    def file(self, name, given):
        if isinstance(given, os.PathLike):
            return os.fspath(given)
        if isinstance(given, str) and not is_text(given):
            return given
        label = f"<{name}>"
        while label in self.texts:
            label = f"<{name} {len(self.texts) + 1}>"
        self.texts[label] = text_of(given)
        return label

    def options(self, options):
        for key, value in options.items():
            option = "--" + key.rstrip("_").replace("_", "-")
            if value is None or value is False:
                continue
            if value is True:
                self.words.append(option)
            elif key in ("set", "unset"):
                self._changes(option, value)
            else:
                several = value if isinstance(value, (list, tuple)) else [value]
                for each in several:
                    self.words += [option, self._option_value(key, each)]

    def _changes(self, option, value):
        pairs = [f"{key}={_set_value(each)}" for key, each in value.items()] if isinstance(value, dict) else value
        for each in [pairs] if isinstance(pairs, str) else pairs:
            self.words += [option, each]

    def _option_value(self, key, value):
        if isinstance(value, dict):  # a model's config.json, a hardware file
            return self.file(key, json.dumps(value) if key == "model" else value)
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)

    def run(self):
        """The command's exit code, standard output and standard error, both as bytes."""
        main = threading.current_thread() is threading.main_thread()
        return _cplab.run_command(self.words, self.texts, main)

    def result(self):
        """Its result. Raises what exit codes 2 and 3 stand for."""
        if "--json" not in self.words:
            self.words += ["--json", "-"]
        code, out, err = self.run()
        if code > EXIT_WRONG or not out:
            raise error_of(code, err)
        return result_of(out, code, self)


def is_text(given):
    """Whether a str is the text of a scenario, a study or a result, and not the name of one."""
    return "\n" in given or given.lstrip().startswith(("{", "["))


def text_of(given):
    if isinstance(given, Result):
        return given.json_text()
    if isinstance(given, bytes):
        return given.decode()
    if isinstance(given, str):
        return given
    if hasattr(given, "plan_dict"):  # cplab.Plan
        return json.dumps(given.plan_dict())
    if not isinstance(given, dict):
        raise TypeError(f"a dict, TOML text, a path, a name, a Plan or a Result is legal, not {type(given).__name__}")
    return json.dumps(given) if "schema" in given and "command" in given else toml_text(given)


def error_of(code, err):
    lines = err.decode(errors="replace").splitlines()
    message = "\n".join(line.removeprefix("cplab: ") for line in lines if not line.startswith("note: "))
    return ScenarioError(message) if code == EXIT_USAGE else EnvironmentError(message)


def _set_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return json.dumps(value)
    return str(value)


def _command(name, given, options, kind="scenario"):
    words = Words(name)
    if given is not None:
        words.subject("plan" if hasattr(given, "plan_dict") else kind, given)
    words.options({"quiet": True, **options})
    return words.result()


def simulate(scenario=None, **options):
    """Predicts time and memory. ``algorithms="all"`` compares algorithms, ``rerun=RESULT`` repeats a result."""
    return _command("simulate", scenario, options)


def check(scenario, **options):
    """Proves the plan right without a clock, or says what is wrong with it (``findings``)."""
    return _command("check", scenario, options)


def show(scenario, **options):
    """The plan itself; every rank with ``rank="all"`` (the default here)."""
    return _command("show", scenario, {"rank": "all", **options})


def run(scenario, **options):
    """Executes and measures; ``device="gpu"`` is the default, ``device="cpu"`` needs none."""
    return _command("run", scenario, options)


def sweep(study, **options):
    """Predicts every point of a study: a dict with ``scenario`` and ``vary``, TOML text, a path, or a name."""
    return _command("sweep", study, options, "study")


def advise(scenario=None, **options):
    """Which layout and algorithm: of a scenario, or ``model=..., gpus=..., sequence=..., hardware=...``."""
    return _command("advise", scenario, options)


def calibrate(out, **options):
    """Measures this machine into the hardware file ``out``; ``budget=0`` measures nothing and needs no GPU."""
    return _command("calibrate", None, {"out": os.fspath(out), **options})


def compare(predicted, measured, **options):
    """A prediction beside a measurement: results of this package, their dicts or JSON, or paths; also traces. What is
    not a result of simulate has to have its operations (``operations=True``)."""
    words = Words("compare")
    for name, given in (("predicted", predicted), ("measured", measured)):
        words.subject(name, given.with_operations() if isinstance(given, Result) else given)
    words.options({"quiet": True, **options})
    return words.result()


def list_(kind="algorithms", **options):
    """What exists: algorithms, placements, scenarios, hardware, models, faults, published, studies."""
    return _command("list", kind, options)


def verify_files(scenario, **options):
    return _command("verify", scenario, options)


def verify(*subject, **options):
    """Of a scenario: checks the plan, executes it (``device="cpu"`` is the default), and compares with the dense
    reference. Of tensors, ``verify(q, k, v, dout, out=..., dq=...)``: compares those, see :func:`cplab.tensors.verify`.
    """
    from . import tensors as own

    if len(subject) > 1 or (subject and own.is_tensor(subject[0])):
        return own.verify(*subject, **options)
    return verify_files(*subject, **options)
