#!/usr/bin/env python3
"""The JSON of tests/gpu's program `measure` as a hardware file.

    scripts/hardware_file.py MEASURED.json --name h200x4 --machine "4 x H200, NVSwitch" \\
        --base scenarios/hardware/h200x4.toml > scenarios/measured/h200x4.toml
    scripts/hardware_file.py MEASURED.json --add --base scenarios/hardware/h200x4.toml > new.toml
    scripts/hardware_file.py linear-attention.json --add --base scenarios/hardware/h200x4.toml > new.toml
    scripts/hardware_file.py MEASURED.json --replace --base scenarios/hardware/h200x4.toml > new.toml

--add writes the base as it stands and behind it the measured [[message]] tables that it lacks (kind, transport,
path and group size) and the tables of linear attention that it lacks (class, sizes, cut, states and results,
whatever their chunks); those that it has are named on stderr and left as they are. Of what
scripts/peer_linear_attention.py has written it adds local, local_backward and state, forward and reverse; scans not:
they take other times for as many bytes. A base of another GPU gets them marked assumed, longer as its memory is slower.
--replace writes the base without its [[kernel]] tables of kernels that were measured again (attention: class and
variant; of bytes: class), and behind it the measured ones; linear attention it leaves as it is.
--base is a hardware file that says what the JSON does not: link_bytes_s of [node] and [network] (the vendor's
figures), peak_flops, and whatever was left out of the measurement. A section made up from both is marked
assumed; whole tables taken from the base keep the origin they have there.
--no-fp16 leaves out the fp16 tables, which are the bf16 times marked assumed (the same tensor-core rate, the
same bytes).

What is done to the numbers: a curve that falls by noise is lifted to its highest time so far (a hardware file
may not descend; the points lifted are named in a comment); the slow-down of attention beside NCCL is divided by
sms / (sms - channels), because the simulator takes those multiprocessors away itself; where the base has [burst],
attention whose samples were over before the clock fell gets a table of its own, sustained = false. Exit 2 if the JSON or the
base is not what it should be.
"""
import argparse
import json
import math
import sys
import tomllib

from hardware_toml import BadInput, Writer, assumed, number, quoted, rising, without_origin

ATTENTION = ("attend", "attend_backward")


def write_node(out, measured, base):
    links = base["node"]["link_bytes_s"]
    out.table("[node]", {"gpus": measured["gpus"], "link_bytes_s": links},
              assumed("link_bytes_s as in the base file; the number of GPUs is that of the machine measured"))
    if "network" in base:
        network = dict(base["network"])
        levels = network.pop("level", [])
        out.copied("[network]", network, "from the base file")
        for level in levels:
            out.copied("[[network.level]]", level, "")


def write_gpu(out, measured, base):
    gpu = without_origin(base["gpu"])
    capability = measured["environment"].get("compute_capability") or gpu.get("compute_capability")
    entries = {"name": measured["gpu"], "sms": measured["sms"]}
    if capability:
        entries["compute_capability"] = capability
    entries |= {"capacity_bytes": measured["capacity_bytes"],
               "copy_bytes_s": measured["copy_bytes_s"] or gpu["copy_bytes_s"],
               "peak_flops": gpu["peak_flops"]}
    if measured["copy_bytes_s"]:
        out.table("[gpu]", entries, out.measured("cudaMemcpyAsync of 640 MiB, read plus write"),
                  "peak_flops: the vendor's figures, from the base file")
    else:
        out.table("[gpu]", entries, assumed("copy_bytes_s was not measured: from the base file"))


def write_rates(out, measured, base):
    """How fast the attention kernels are, as the base says of the same GPU; of another one a file is better silent."""
    if base["gpu"]["name"] != measured["gpu"]:
        return
    rates = base.get("rates", {})
    own = {key: value for key, value in rates.items() if not isinstance(value, dict)}
    if own:
        out.copied("[rates]", own, "from the base file")
    for section, entries in rates.items():
        if isinstance(entries, dict):
            out.table(f"[rates.{section}]", entries, {})


def write_host(out, measured, base):
    keys = ("kernel_launch_s", "communication_launch_s", "copy_launch_s", "launch_latency_s", "dependency_s",
            "sync_s", "graph_launch_s", "graph_node_s")
    host = measured["host"] or {}
    may_be_zero = ("launch_latency_s", "dependency_s", "sync_s", "graph_launch_s", "graph_node_s")
    found = {k: host[k] for k in keys if k in host and (host[k] > 0 or k in may_be_zero)}
    entries = {k: found.get(k, base["host"][k]) for k in keys}
    if "run_ahead" in base["host"]:
        entries["run_ahead"] = base["host"]["run_ahead"]
    tool = "host clock around launches, one thread per GPU, all at once"
    if len(found) == len(keys):
        out.table("[host]", entries, out.measured(tool), "run_ahead is the driver's queue, not measured")
    else:
        missing = ", ".join(k for k in keys if k not in found)
        out.table("[host]", entries, assumed(f"from the base file: {missing}; the others measured: {tool}"))


def write_fixed(out, measured, base):
    fixed = measured["fixed"]
    bytes_ = fixed["context_bytes"] + fixed["communicator_bytes"]
    if fixed["context_bytes"] <= 0:
        out.table("[fixed]", {"bytes": base["fixed"]["bytes"]}, assumed("not measured: from the base file"))
    elif fixed["communicator_bytes"] <= 0:
        out.table("[fixed]", {"bytes": bytes_},
                  assumed(f"a context alone, measured: {fixed['context_source']}; no communicator was made"))
    else:
        out.table("[fixed]", {"bytes": bytes_},
                  out.measured("context: " + fixed["context_source"] + "; NCCL: cudaMemGetInfo"),
                  f"context {fixed['context_bytes']}, NCCL for {measured['gpus']} ranks "
                  f"{fixed['communicator_bytes']}")


def write_environment(out, measured):
    out.table("[environment]", {quoted(k): v for k, v in measured["environment"].items()}, {})


def for_dtypes(out, entries, origin, comment, with_fp16):
    out.table("[[kernel]]", entries, origin, comment)
    if with_fp16:
        out.table("[[kernel]]", entries | {"dtype": "fp16"},
                  assumed("as bf16: the same tensor-core rate, the same bytes"))


KERNEL_TOOL = "events around calls queued behind a waiting kernel, median; operands rotate beyond L2"


def write_chunk_table(out, table, with_fp16):
    """A class of linear attention; cut and results are in measurements that have other cuts than blocked."""
    keys = ("class", "variant", "dtype", "head_size", "value_size", "cut", "chunk", "states", "results")
    entries = {key: table[key] for key in keys if table.get(key, []) != []}
    entries |= {"l2": "cold"}
    entries |= {key: [p[key] for p in table["points"]] for key in ("tokens", "heads", "seconds")}
    for_dtypes(out, entries, out.measured(KERNEL_TOOL), "", with_fp16)


def is_sustained(point, burst_s):
    """Whether a point was measured under load. Measurements before 2026-11-28 do not say: there, whether their load
    until the median sample ended was longer than the time before the clock falls."""
    if "settled" in point:
        return point["settled"] or burst_s == 0
    seconds = point["seconds"]
    if seconds > 0.01:
        return 0.2 > burst_s
    calls = min(max(math.ceil(0.04 / seconds), 10), 100)
    samples = 3 if seconds > 0.002 else 5
    return (samples // 2 + 1) * calls * seconds > burst_s


def write_attention(out, measured, base, with_fp16):
    burst_s = base.get("burst", {}).get("seconds", 0)
    for table in measured["attention"]:
        for sustained in (True, False):
            points = [p for p in table["points"] if is_sustained(p, burst_s) == sustained]
            if not points:
                continue
            entries = {"class": table["class"], "variant": table["variant"], "dtype": "bf16",
                       "head_size": table["head_size"], "mask": table["mask"]}
            if table["tile_rows"] > 0:
                entries["tile_rows"] = table["tile_rows"]
            entries |= {"sms": measured["sms"], "l2": "cold"}
            if not sustained:
                entries["sustained"] = False
            entries |= {key: [p[key] for p in points] for key in ("batch", "sequence", "heads", "seconds")}
            for_dtypes(out, entries, out.measured(KERNEL_TOOL), "", with_fp16)


def write_curves(out, measured, with_fp16):
    for table in measured["curves"]:
        amounts, seconds, comment = rising(table["points"])
        entries = {"class": table["class"], "variant": table["variant"], "dtype": "bf16", "l2": "cold",
                   "bytes": amounts, "seconds": seconds}
        for_dtypes(out, entries, out.measured(f"{KERNEL_TOOL}; {table['operands']}"), comment, with_fp16)


def write_kernels(out, measured, base, with_fp16):
    write_attention(out, measured, base, with_fp16)
    chunks = measured.get("chunks", [])  # measurements of before have none
    for table in chunks:
        write_chunk_table(out, table, with_fp16)
    write_curves(out, measured, with_fp16)
    there = {t["class"] for t in measured["attention"] + measured["curves"] + chunks}
    for table in base.get("kernel", []):
        if table["class"] not in there:
            out.copied("[[kernel]]", table, "from the base file")


def write_measured_messages(out, tables, base):
    link = base["node"]["link_bytes_s"]
    for table in tables:
        amounts, seconds, comment = rising(table["points"])
        if table["kind"] == "exchange":
            for amount, time in zip(amounts, seconds):
                if time <= amount / link:
                    raise BadInput(f"{table['transport']} exchange of {number(amount)} bytes in {time} s is faster "
                                   f"than node.link_bytes_s of the base file, {link:.4g}")
        entries = {"kind": table["kind"], "transport": table["transport"], "path": table["path"],
                   "group": table["group"]}
        tool = f"back-to-back calls on all ranks, a thread each, launches hidden; {out.versions}"
        if table["transport"] == "nccl":
            if table["channels"] < 1:
                raise BadInput(f"{table['kind']} of {table['group']}: no channels were probed")
            entries["channels"] = table["channels"]
            tool += "; channels: multiprocessors a blocked call holds, at the largest message"
            probes = ", ".join(f"{number(p['bytes'])}: {p['channels']}" for p in table["channels_by_bytes"])
            comment = f"channels by bytes: {probes}" + ("; " + comment if comment else "")
        out.table("[[message]]", entries | {"bytes": amounts, "seconds": seconds}, out.measured(tool), comment)


def write_messages(out, measured, base):
    write_measured_messages(out, measured["messages"], base)
    there = {(t["kind"], t["transport"]) for t in measured["messages"]}
    for table in base.get("message", []):
        if (table["kind"], table["transport"]) not in there or table.get("cuda_graph") or \
                table["path"] != "intra":
            out.copied("[[message]]", table, "from the base file")


def write_interference(out, measured, base):
    sms = measured["sms"]
    for row in measured["interference"]:
        slowdown, note = row["slowdown"], ""
        if row["beside"] == "nccl" and row["class"] in ATTENTION:
            slowdown *= (sms - row["channels"]) / sms
            note = f"; without what {row['channels']} of {sms} multiprocessors explain"
            if row["channels"] < 1:
                note = "; multiprocessors of NCCL included: they were not measured"
        medians = ", ".join(f"{a * 1e3:.4g} ms, {b * 1e3:.4g} ms" for a, b in zip(row["alone_s"], row["beside_s"]))
        out.table("[[interference]]", {"class": row["class"], "beside": row["beside"],
                                       "slowdown": round(max(1.0, slowdown), 4)},
                  out.measured("alone, beside, alone, beside a ring shift of all GPUs" + note),
                  f"alone, beside, twice: {medians}; slower by {row['slowdown']:.4f}")
    there = {(r["class"], r["beside"]) for r in measured["interference"]}
    for row in base.get("interference", []):
        if (row["class"], row["beside"]) not in there:
            out.copied("[[interference]]", row, "from the base file")


def require_schema(measured):
    if measured.get("schema") != "cplab.measurement.1":
        raise BadInput(f"schema is {measured.get('schema')!r}, not 'cplab.measurement.1'")


def operands_of(table):
    """What tells a table of linear attention from others, whatever its chunks: class, sizes, cut, operands."""
    return (table["class"], table["head_size"], table.get("value_size", table["head_size"]),
            table.get("cut", "blocked"), *(tuple(sorted(table.get(k, []))) for k in ("states", "results")))


def with_measured(measured, base, text, machine, with_fp16):
    """The text of the base and the measured messages and tables of linear attention that it lacks; what it has."""
    require_schema(measured)

    def key(table):
        return table["kind"], table["transport"], table["path"], table["group"]

    there = {key(table) for table in base.get("message", []) if not table.get("cuda_graph")}
    out = Writer(measured, machine)
    write_measured_messages(out, [t for t in measured["messages"] if key(t) not in there], base)
    kept = [" ".join(map(str, key(t))) for t in measured["messages"] if key(t) in there]
    chunks = measured.get("chunks", [])
    if chunks and base["gpu"]["name"] != measured["gpu"]:
        raise BadInput(f"kernels of {measured['gpu']} are not those of the base, {base['gpu']['name']}")
    had = {operands_of(t) for t in base.get("kernel", []) if "tokens" in t}
    for table in chunks:
        if operands_of(table) not in had:
            write_chunk_table(out, table, with_fp16)
    kept += sorted({" ".join(map(str, operands_of(t))) for t in chunks if operands_of(t) in had})
    return text.rstrip("\n") + "\n" + "".join(line + "\n" for line in out.lines), kept


def replaced(measured, base, text, machine, with_fp16):
    """The text of the base with the measured kernels in place of its own."""
    require_schema(measured)
    if base["gpu"]["name"] != measured["gpu"]:
        raise BadInput(f"kernels of {measured['gpu']} are not those of the base, {base['gpu']['name']}")

    def key(table):
        return (table["class"], table["variant"]) if table["class"] in ATTENTION else table["class"]

    new = {key(t) for t in measured["attention"] + measured["curves"]}
    parts = text.split("\n\n")  # a table each
    kept = [part for part in parts if not part.startswith("[[kernel]]") or
            key(tomllib.loads(part)["kernel"][0]) not in new]
    out = Writer(measured, machine)
    write_attention(out, measured, base, with_fp16)
    write_curves(out, measured, with_fp16)
    return "\n\n".join(kept).rstrip("\n") + "\n" + "".join(line + "\n" for line in out.lines)


# Parts of linear attention's decomposition: their class, and the states that they have.
PARTS = {"state": ("state", ["state"]), "reverse_state": ("state", ["dstate"]), "local": ("local", ["state"]),
         "local_backward": ("local_backward", ["state", "dstate"])}


def with_chunks(record, path, base, text, machine, with_fp16):
    """The text of the base and the tables of linear attention in the record that it lacks; what it has already."""
    def key(table):
        return (table["class"], table["head_size"], table.get("value_size", table["head_size"]), table["chunk"],
                tuple(table["states"]))

    gpu = record["machine_before"]["name"]
    same = base["gpu"]["name"] == gpu
    longer = 1 if same else record["limits"]["copy_bytes_s"]["median"] / base["gpu"]["copy_bytes_s"]
    tables = {}
    for row in record["rows"]:
        for part, time in row["parts_s"].items():
            if part not in PARTS:
                continue
            kind, states = PARTS[part]
            table = {"class": kind, "variant": row["kernels"][part], "dtype": "bf16", "head_size": row["D"],
                     "value_size": row["E"], "chunk": row["chunk_tokens"], "states": states, "tokens": [], "heads": [],
                     "seconds": []}
            table = tables.setdefault(key(table), table)
            for name, value in ("tokens", row["tokens"]), ("heads", row["heads"]), ("seconds", time["median"] * longer):
                table[name].append(value)
    out = Writer({"date": record["date"], "environment": {}}, machine or f"1 x {gpu}")
    origin = out.measured("scripts/peer_linear_attention.py: events around calls in a row, launches hidden; median",
                          path)
    if not same:
        origin = assumed(f"measured on one {gpu} ({path}), times {longer:.3g}: the ratio of the rates of a copy")
    there = {key(t) for t in base.get("kernel", []) if "states" in t and "chunk" in t}
    for each in tables:
        if each not in there:
            for_dtypes(out, tables[each], origin, "", with_fp16)
    kept = [" ".join(map(str, each)) for each in tables if each in there]
    return text.rstrip("\n") + "\n" + "".join(line + "\n" for line in out.lines), kept


def hardware_file(measured, base, name, machine, with_fp16):
    require_schema(measured)
    out = Writer(measured, machine)
    out.lines = [f"# {machine}, as measured on {out.date}. Written by scripts/hardware_file.py.",
                 "# docs/05-cost-model.md says how the tables are used."]
    out.lines += [f"# left out: {text}" for text in measured["left_out"]]
    out.lines += ["", f"name = {quoted(name)}"]
    write_node(out, measured, base)
    write_gpu(out, measured, base)
    write_rates(out, measured, base)
    write_host(out, measured, base)
    if "burst" in base:
        out.copied("[burst]", base["burst"], "from the base file")
    write_fixed(out, measured, base)
    write_environment(out, measured)
    write_kernels(out, measured, base, with_fp16)
    write_messages(out, measured, base)
    write_interference(out, measured, base)
    return "\n".join(out.lines) + "\n"


def machine_of(arguments, measured):
    return arguments.machine or f"{measured['gpus']} x {measured['gpu']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", help="JSON of `measure`, - for stdin")
    parser.add_argument("--base", required=True, help="hardware file for what was not measured")
    parser.add_argument("--name", help="of the machine; needed without --add")
    parser.add_argument("--add", action="store_true", help="the base, and the messages or kernels that it lacks")
    parser.add_argument("--replace", action="store_true", help="the base, with the measured kernels for its own")
    parser.add_argument("--machine", help="default: the number and name of the GPUs")
    parser.add_argument("--no-fp16", action="store_true")
    arguments = parser.parse_args()
    if not arguments.add and not arguments.replace and not arguments.name:
        parser.error("--name is needed without --add and --replace")
    try:
        if arguments.measured == "-":
            measured = json.load(sys.stdin)
        else:
            with open(arguments.measured, encoding="utf-8") as file:
                measured = json.load(file)
        with open(arguments.base, encoding="utf-8") as file:
            text = file.read()
        base = tomllib.loads(text)
        if "include" in base:
            sys.exit(f"hardware_file.py: --base includes {base['include']}: name that file")
        if arguments.add:
            if measured.get("schema") == "cplab.linear_attention.1":
                text, kept = with_chunks(measured, arguments.measured, base, text, arguments.machine,
                                         not arguments.no_fp16)
            else:
                text, kept = with_measured(measured, base, text, machine_of(arguments, measured),
                                           not arguments.no_fp16)
            sys.stdout.write(text)
            for table in kept:
                print(f"hardware_file: the base has {table}: left as it is", file=sys.stderr)
            return 0
        machine = machine_of(arguments, measured)
        if arguments.replace:
            sys.stdout.write(replaced(measured, base, text, machine, not arguments.no_fp16))
            return 0
        sys.stdout.write(hardware_file(measured, base, arguments.name, machine, not arguments.no_fp16))
    except KeyError as error:
        print(f"hardware_file: no {error} where one is needed", file=sys.stderr)
        return 2
    except (OSError, ValueError, BadInput) as error:
        print(f"hardware_file: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
