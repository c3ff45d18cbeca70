#!/usr/bin/env python3
"""The names of a training or serving framework's arguments, from its source: what decide/emit may write for it.

    scripts/framework_arguments.py CHECKOUT FRAMEWORK VERSION > tests/decide/arguments/FRAMEWORK.txt
    scripts/framework_arguments.py --self-check

CHECKOUT is a folder with the framework's source (of a package without a repository at hand, what its archive unpacks
to); nothing in it is run. A line of the output is a name and the file that declares it; of all that a framework has,
names about parallelism, batches, memory, precision and attention. VERSION (a release, or a commit with its date) stands
in the first line, with the repository. Sources are read as Python's syntax trees, so a name that a program makes up at
run time is not found.
"""
import ast
import re
import sys
import tempfile
from pathlib import Path

SUBJECTS = re.compile(
    r"parallel|batch|bsz|seq|length|model.len|token|context|recompute|checkpointing|activation|offload|shard|zero|stage"
    r"|fsdp|fp8|fp4|fp16|bf16|dtype|precision|quant|lora|tuner|loss|entropy|fused|liger|tiled|chunk|window|sliding"
    r"|softmax|expert|moe|attn|attention|padding|packing|balance|cp.comm|dcp|-cp|interleave|strategy|_size|-size"
    r"|deepspeed|optimizer|max.num|max.running|ckpt.format|callbacks|override_|accumulation|^(engine|optim)=")
REPOSITORY = {
    "megatron": "NVIDIA/Megatron-LM", "torchtitan": "pytorch/torchtitan", "verl": "verl-project/verl",
    "ms-swift": "modelscope/ms-swift", "deepspeed": "deepspeedai/DeepSpeed", "vllm": "vllm-project/vllm",
    "sglang": "sgl-project/sglang", "transformers": "huggingface/transformers"}
# Where the folder of a package lies in its repository, for what was unpacked from a package's archive.
ABOVE = {"sglang": "python/", "transformers": "src/"}


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def words(node):
    """The strings of a list, a tuple, or of one string."""
    parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def keyword(call, name):
    return next((item.value for item in call.keywords if item.arg == name), None)


def calls(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", None)) == name:
            yield node


def added(tree):
    """What add_argument is called with: options that begin with two dashes."""
    for call in calls(tree, "add_argument"):
        for argument in call.args:
            yield from (word for word in words(argument) if word.startswith("--"))


def classes(root, patterns):
    """name -> (class, file) of all classes in the files; of classes of one name the first."""
    found = {}
    for path in (path for pattern in patterns for path in sorted(root.glob(pattern))):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, (node, path))
    return found


def fields(node):
    """(name, annotation, default) of what a class declares with a type."""
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id, item.annotation, item.value


def inherited(name, found):
    """(field, annotation, default, file) of a class and of those it derives from."""
    if name not in found:
        return
    node, path = found[name]
    for base in node.bases:
        yield from inherited(getattr(base, "id", ""), found)
    for field in fields(node):
        yield (*field, path)


def default_of(value):
    """A field's default, and the option names that its metadata give it."""
    if not isinstance(value, ast.Call):
        return value, []
    metadata = keyword(value, "metadata")
    names = []
    if metadata is not None:
        for node in ast.walk(metadata):
            if isinstance(node, ast.Dict):
                for key, item in zip(node.keys, node.values):
                    if isinstance(key, ast.Constant) and key.value == "arg_names":
                        names = words(item)
    return keyword(value, "default"), names


def megatron(root):
    """Options added one by one, and those made from the fields of configuration classes, less what is excluded."""
    path = root / "megatron/training/arguments.py"
    found = classes(root, ["megatron/core/model_parallel_config.py", "megatron/core/transformer/transformer_config.py",
                           "megatron/training/config/*.py"])
    tree = tree_of(path)
    for name in added(tree):
        yield name, path
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        lists = {node.targets[0].id: words(node.value) for node in ast.walk(function)
                 if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
        for call in calls(function, "ArgumentGroupFactory"):
            excluded = keyword(call, "exclude")
            skip = [] if excluded is None else lists.get(getattr(excluded, "id", ""), words(excluded))
            for field, _, value, file in inherited(call.args[0].id, found):
                default, names = default_of(value)
                dashed = field.replace("_", "-")
                if isinstance(default, ast.Constant) and default.value is True and not names:
                    names = ["--no-" + dashed, "--disable-" + dashed]
                for name in [] if field in skip else names or ["--" + dashed]:
                    yield name, file


def nested_config(path, owner):
    """The fields of class Config inside `owner`."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for inner in node.body:
                if isinstance(inner, ast.ClassDef) and inner.name == "Config":
                    yield from fields(inner)


def torchtitan(root):
    """--SECTION.FIELD of the trainer's configuration, and the sub-commands that choose among classes of a section."""
    trainer, config = root / "torchtitan/trainer.py", root / "torchtitan/config/configs.py"
    shared = classes(root, ["torchtitan/config/configs.py"])
    for section, annotation, _ in nested_config(trainer, "Trainer"):
        for field, *_ in inherited(getattr(annotation, "id", ""), shared):
            yield f"--{section}.{field}", config
    for file in ("torchtitan/distributed/activation_checkpoint.py",):
        for call in calls(tree_of(root / file), "subcommand"):
            yield "activation-checkpoint:" + words(call.args[0])[0], root / file
    loss = root / "torchtitan/components/loss.py"
    for owner in [node.name for node in tree_of(loss).body if isinstance(node, ast.ClassDef)]:
        for field, *_ in nested_config(loss, owner):
            yield f"--loss.{field}", loss


def yaml_keys(path):
    """Dotted keys of a YAML file of mappings, by indentation."""
    above = []
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"( *)([A-Za-z_]\w*):", line)
        if match:
            above = [(depth, key) for depth, key in above if depth < len(match[1])] + [(len(match[1]), match[2])]
            yield ".".join(key for _, key in above)


def verl(root):
    """Keys of the trainer of supervised fine-tuning, and of the groups of files that it composes."""
    folder = root / "verl/trainer/config"
    for key in yaml_keys(folder / "sft_trainer_engine.yaml"):
        yield key, folder / "sft_trainer_engine.yaml"
    for group in ("engine", "model", "optim"):
        for path in sorted((folder / group).glob("*.yaml")):
            yield f"{group}={path.stem}", path
            for key in yaml_keys(path):
                yield f"{group}.{key}", path


def option_fields(root, patterns):
    """--FIELD of every class of the files."""
    for node, path in classes(root, patterns).values():
        for field, *_ in fields(node):
            yield "--" + field, path


def ms_swift(root):
    yield from option_fields(root, ["swift/megatron/arguments/megatron*_args.py"])
    yield from option_fields(root, ["swift/arguments/base_args/*.py", "swift/arguments/sft_args.py",
                                    "swift/arguments/tuner_args.py", "swift/trainers/arguments.py"])


def transformers(root):
    yield from option_fields(root, ["transformers/training_args.py"])


def deepspeed(root):
    """Dotted keys of the JSON configuration."""
    runtime = root / "deepspeed/runtime"

    def constants(path, under=""):
        for node in tree_of(path).body:
            for word in words(node.value) if isinstance(node, ast.Assign) else []:
                if re.fullmatch(r"[a-z][a-z_0-9]*", word) and word + "." != under:
                    yield under + word, path

    def model(path, name, under):
        for field, *_ in inherited(name, classes(path.parent, [path.name])):
            yield under + field, path

    yield from constants(runtime / "constants.py")
    yield from constants(runtime / "activation_checkpointing/config.py", "activation_checkpointing.")
    yield from model(runtime / "zero/config.py", "DeepSpeedZeroConfig", "zero_optimization.")
    yield from model(runtime / "zero/offload_config.py", "DeepSpeedZeroOffloadOptimizerConfig",
                     "zero_optimization.offload_optimizer.")
    yield from model(runtime / "precision_config.py", "DeepSpeedBF16Config", "bf16.")
    yield from model(runtime / "precision_config.py", "DeepSpeedFP16Config", "fp16.")
    yield from model(runtime / "tensor_parallel/config.py", "TPTrainingConfig", "tensor_parallel.")
    for call in calls(tree_of(root / "deepspeed/module_inject/auto_ep_config.py"), "get"):
        if getattr(call.func.value, "id", "") == "param_dict":
            yield "expert_parallel." + words(call.args[0])[0], root / "deepspeed/module_inject/auto_ep_config.py"
    for node in ast.walk(tree_of(runtime / "config.py")):  # `"KEY" in config`
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            for word in words(node.left):
                yield word, runtime / "config.py"


def vllm(root):
    path = root / "vllm/engine/arg_utils.py"
    for name in added(tree_of(path)):
        yield name, path


def sglang(root):
    """--FIELD with dashes, unless its metadata name it otherwise or keep it off the command line."""
    for path in sorted(root.glob("sglang/srt/arg_groups/fields/*.py")):
        for node in (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)):
            for field, annotation, _ in fields(node):
                metadata = list(calls(annotation, "Arg"))
                if any(keyword(call, "no_cli") is not None for call in metadata):
                    continue
                given = [keyword(call, "cli_name") for call in metadata]
                names = [word for item in given if item is not None for word in words(item)]
                names = names or ["--" + field.replace("_", "-")]
                for call in metadata:
                    names += words(keyword(call, "aliases") or ast.List(elts=[]))
                for name in names:
                    yield name, path


READERS = {"megatron": megatron, "torchtitan": torchtitan, "verl": verl, "ms-swift": ms_swift, "deepspeed": deepspeed,
           "vllm": vllm, "sglang": sglang, "transformers": transformers}


def self_check():
    """Small sources of each form, whose arguments are known."""
    sources = {
        "megatron/training/arguments.py": """
def groups(parser):
    exclude = ["hidden_size"]
    ArgumentGroupFactory(Layers, exclude=exclude).build_group(parser)
    parser.add_argument('--seq-length', '-s', type=int)
    parser.add_argument('positional')
""",
        "megatron/core/model_parallel_config.py": "class Parallel:\n  tensor_size: int = 1\n",
        "megatron/core/transformer/transformer_config.py": """
class Layers(Parallel):
    hidden_size: int = 0
    fused: bool = True
    fp8: str = field(default=None, metadata={"argparse_meta": {"arg_names": ["--fp8-format"]}})
""",
        "verl/trainer/config/sft_trainer_engine.yaml": "# no: 1\ndata:\n  batch: 1\n  more:\n    length: 2\nrest: 3\n",
        "verl/trainer/config/engine/fsdp.yaml": "fsdp_size: -1  # all\n",
        "sglang/srt/arg_groups/fields/a.py": """
class A(Struct):
    tp_size: A[int, Arg(aliases=["--tensor-size"])] = 1
    dtype: A[str, "help"] = ""
    inner: A[int, Arg(no_cli=True)] = 0
""",
    }
    expected = {
        megatron: ["--disable-fused", "--fp8-format", "--no-fused", "--seq-length", "--tensor-size"],
        verl: ["data", "data.batch", "data.more", "data.more.length", "engine.fsdp_size", "engine=fsdp", "rest"],
        sglang: ["--dtype", "--tensor-size", "--tp-size"],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in sources.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for reader, names in expected.items():
            found = sorted(name for name, _ in reader(Path(folder)))
            if found != names:
                sys.exit(f"{reader.__name__}: {found}, not {names}")
    print("self-check passed")


def main():
    if sys.argv[1:] == ["--self-check"]:
        self_check()
        return
    if len(sys.argv) != 4 or sys.argv[2] not in READERS:
        sys.exit(f"usage: {sys.argv[0]} CHECKOUT {'|'.join(READERS)} VERSION")
    root, framework, version = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    above = ABOVE.get(framework, "")
    root = root / above if (root / above).is_dir() else root
    where = {(name, above + path.relative_to(root).as_posix()) for name, path in READERS[framework](root)
             if SUBJECTS.search(name.lower())}
    if not where:
        sys.exit(f"{sys.argv[0]}: {root} declares no arguments where {framework} had them")
    print(f"# {REPOSITORY[framework]} {version}")
    for name, path in sorted(where):
        print(name, path)


if __name__ == "__main__":
    main()
