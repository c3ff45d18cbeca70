"""Tables of a hardware file as text, for hardware_file.py."""
import json


class BadInput(Exception):
    """The measurement or the base file lacks what is needed."""


def quoted(value):
    return json.dumps(value, ensure_ascii=False)  # a TOML basic string has JSON's escapes


def number(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or float(value).is_integer() and abs(value) < 2**53:
        return str(int(value))
    return f"{value:.5g}"


def toml(value):
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return number(value)


class Writer:
    """Collects the lines of a hardware file."""

    def __init__(self, measured, machine):
        self.lines = []
        self.machine = machine
        self.date = measured["date"]
        environment = measured["environment"]
        self.versions = f"CUDA {environment.get('cuda', '?')}, NCCL {environment.get('nccl', '?')}"

    def table(self, heading, entries, origin, comment=""):
        self.lines += ["", heading] + ([f"# {comment}"] if comment else [])
        self.lines += [f"{key} = {toml(value)}" for key, value in entries.items()]
        self.lines += [f"{key} = {toml(value)}" for key, value in origin.items()]

    def measured(self, tool, source=""):
        origin = {"origin": "measured", "tool": f"cplab measure: {tool}", "machine": self.machine,
                  "date": self.date}
        return origin | ({"source": source} if source else {})

    def copied(self, heading, table, comment):
        self.table(heading, table, {}, comment)  # its origin is among its keys


def assumed(source):
    return {"origin": "assumed", "source": source}


def without_origin(table):
    return {k: v for k, v in table.items() if k not in ("origin", "tool", "machine", "date", "source")}


def rising(points, by="bytes"):
    """bytes, seconds, and the bytes of the points that noise had put below an earlier one."""
    amounts, seconds, lifted = [], [], []
    for point in sorted(points, key=lambda p: p[by]):
        if point["seconds"] <= 0:
            raise BadInput(f"a time of {point['seconds']} s at {point[by]} bytes")
        amounts.append(point[by])
        if seconds and point["seconds"] < seconds[-1]:
            lifted.append(number(point[by]))
        seconds.append(max(point["seconds"], seconds[-1] if seconds else 0))
    note = "times lifted to that of the point before, at bytes: " + ", ".join(lifted) if lifted else ""
    return amounts, seconds, note
