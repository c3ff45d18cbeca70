#!/usr/bin/env python3
"""One campaign of measurements as one file of JSON lines, which scenarios/measured keeps.

    scripts/campaign.py pack FOLDER FILE.jsonl [--only PATTERN]... [--without KEY]...
                                                    what the scripts of a campaign wrote
    scripts/campaign.py unpack FILE.jsonl FOLDER    its files again
    scripts/campaign.py schedule RUN.json           options that give `cplab simulate` the run's schedule, a word a line

A line is {"kind", "name", "record"}: the name of the file, and what was in it; of a file that is no JSON, "text".
Kinds: prediction, run, peer, environment, other. --only takes those files alone, --without leaves a key of the results
out, such as operations. scenarios/measured/INDEX.toml says what each campaign shows, and who reads it.
"""
import argparse
import json
import sys
from pathlib import Path

KINDS = {"cplab.simulate": "prediction", "cplab.run": "run", "cplab.peer": "peer", "cplab.attention": "peer"}


def kind_of(path, record):
    if path.suffix != ".json":
        return "environment" if path.name == "nvidia-smi.txt" else "other"
    schema = record.get("schema", "") if isinstance(record, dict) else ""
    return KINDS.get(schema.rsplit(".", 1)[0], "other")


def lines(path):
    """The lines of a campaign, in order."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def records(path, pattern="*.json"):
    """(name, what was in it) of the files of a campaign whose names fit; of a folder that is not packed yet, too."""
    if Path(path).is_dir():
        return [(file.name, json.loads(file.read_text(encoding="utf-8"))) for file in sorted(Path(path).glob(pattern))]
    return [(line["name"], line["record"]) for line in lines(path) if Path(line["name"]).match(pattern)]


def line_of(path, without):
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return {"kind": kind_of(path, None), "name": path.name, "text": text}
    record = json.loads(text)
    if isinstance(record, dict):
        record = {key: value for key, value in record.items() if key not in without}
    return {"kind": kind_of(path, record), "name": path.name, "record": record}


def pack(folder, file, only, without):
    paths = sorted(path for path in folder.iterdir() if path.is_file() and any(path.match(glob) for glob in only))
    if not paths:
        sys.exit(f"campaign.py: {folder} has none of {', '.join(only)}")
    file.write_text("".join(json.dumps(line_of(path, without), separators=(",", ":")) + "\n" for path in paths),
                    encoding="utf-8")


def unpack(file, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for line in lines(file):
        text = line["text"] if "text" in line else json.dumps(line["record"], indent=1) + "\n"
        (folder / line["name"]).write_text(text, encoding="utf-8")


def schedule(file):
    """JSON writes numbers, booleans and lists as --set takes them."""
    for key, value in json.loads(file.read_text(encoding="utf-8"))["scenario"]["schedule"].items():
        print("--set", f"schedule.{key}={value if isinstance(value, str) else json.dumps(value)}", sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pack", "unpack", "schedule"))
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path, nargs="?")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--without", action="append", default=[])
    arguments = parser.parse_args()
    if (arguments.second is None) != (arguments.what == "schedule"):
        parser.error(f"{arguments.what} takes {'one file' if arguments.second else 'two paths'}")
    if arguments.what == "schedule":
        schedule(arguments.first)
    elif arguments.what == "pack":
        pack(arguments.first, arguments.second, arguments.only or ["*"], arguments.without)
    else:
        unpack(arguments.first, arguments.second)


if __name__ == "__main__":
    main()
