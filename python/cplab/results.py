"""Results: the keys of a command's JSON as attributes, tables for pandas, and what a notebook shows."""
import json

from . import html


class Record:
    """A part of a result: its keys are attributes, and ``record["key"]`` is the same."""

    __slots__ = ("_data",)

    def __init__(self, data):
        object.__setattr__(self, "_data", data)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return _wrapped(self._data[name])
        except KeyError:
            raise AttributeError(f"no key {name!r}; there are: {', '.join(self._data)}") from None

    def __setattr__(self, name, value):
        raise AttributeError(f"{name}: a result is read, not written; to_dict() is yours to change")

    def __getitem__(self, name):
        return _wrapped(self._data[name])

    def __contains__(self, name):
        return name in self._data

    def __iter__(self):
        return iter(self._data)

    def __len__(self):
        return len(self._data)

    def __eq__(self, other):
        return self._data == (other._data if isinstance(other, Record) else other)

    __hash__ = None

    def __dir__(self):
        return sorted({*super().__dir__(), *(key for key in self._data if key.isidentifier())})

    def __getstate__(self):
        return self._data

    def __setstate__(self, data):
        object.__setattr__(self, "_data", data)

    def keys(self):
        return self._data.keys()

    def to_dict(self):
        """A deep copy as plain dicts and lists."""
        return json.loads(json.dumps(self._data))

    def __repr__(self):
        return f"{type(self).__name__}({html.short(self._data)})"


def _wrapped(value):
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_wrapped(each) for each in value]
    return value


class Result(Record):
    """What a command answers. ``schema``, ``command``, ``versions`` and ``scenario`` (as it was resolved) are there
    for every command that has one; the others are named in the subclass."""

    __slots__ = ("_code", "_words", "_drawn")
    table = None  # the key of the records that to_pandas() takes by itself

    schema: str
    command: str
    versions: Record
    scenario: Record
    notes: list

    def __init__(self, data, code=0, words=None):
        super().__init__(data)
        object.__setattr__(self, "_code", code)
        object.__setattr__(self, "_words", words)
        object.__setattr__(self, "_drawn", None)

    @property
    def ok(self):
        """False where the program's exit code is 1: it ran, and what it found is wrong or not what ``strict`` asks."""
        return self._code == 0 and self._data.get("ok", True)

    def json_text(self):
        """The result as JSON, which every command of the program takes that takes a file of it."""
        return json.dumps(self._data)

    def records(self, table=None):
        """One table of the result as a list of dicts, those within a record as ``outer.inner``."""
        tables = [key for key, value in self._data.items() if _is_table(value)]
        name = table or self.table or next(iter(tables), None)
        if name not in self._data or not _is_table(self._data[name]):
            raise KeyError(f"{name}: no table of this result; there are: {', '.join(tables) or 'none'}")
        return [_flat(row) for row in self._data[name]]

    def to_pandas(self, table=None):
        """A DataFrame of one table, such as "ranks" or "operations". ImportError where pandas is not installed."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_pandas() needs pandas (pip install pandas); records() gives the same rows "
                              "without it") from None
        return pandas.DataFrame(self.records(table))

    def _timeline(self):
        return None

    def with_operations(self):
        """The dict of the result, with every operation and its times where there are any."""
        operations = self._timeline()
        return self._data if operations is None else {**self._data, "operations": operations}

    def _repr_html_(self):
        return html.page(self)

    def __getstate__(self):
        return self._data, self._code

    def __setstate__(self, state):
        self.__init__(*state)


def _is_table(value):
    return isinstance(value, list) and (not value or isinstance(value[0], dict))


def _flat(row, prefix=""):
    flat = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


class Timed(Result):
    """Of simulate and run. Times in seconds, sizes in bytes; ``operations`` where they were asked for."""

    __slots__ = ()
    table = "ranks"

    time_s: float
    phases: list
    ranks: list
    peak_bytes: int
    peak_rank: int
    peak_buffers: list
    capacity_bytes: int
    fits: bool
    headroom_bytes: int
    messages: int
    host_syncs: int

    def _timeline(self):
        return self._data.get("operations")


class Simulation(Timed):
    __slots__ = ()

    low_s: float
    high_s: float
    origins: Record

    def _timeline(self):
        """A prediction names its operations when they are first wanted: it is computed again, with them."""
        if "operations" in self._data or "ranks" not in self._data or self._words is None:
            return self._data.get("operations")
        if self._drawn is None:
            again = type(self._words)(self._words.words[0])
            again.words, again.texts = [*self._words.words, "--operations"], self._words.texts
            object.__setattr__(self, "_drawn", again.result()._data["operations"])
        return self._drawn


class Run(Timed):
    __slots__ = ()

    times_s: list


class Check(Result):
    __slots__ = ()
    table = "findings"

    findings: list
    rounds: int
    messages: int
    flops: list
    sent_bytes: list


class Verification(Result):
    __slots__ = ()
    table = "tensors"

    tensors: list
    findings: list


class Shown(Result):
    __slots__ = ()
    table = "ranks"

    ranks: list


class Sweep(Result):
    __slots__ = ()
    table = "points"

    points: list
    refused: list


class Advice(Result):
    __slots__ = ()
    table = "candidates"

    candidates: list
    changes: list
    refused: list


class Comparison(Result):
    __slots__ = ()
    table = "segments"

    time_error: float
    segments: list
    memory_error_bytes: int


_CLASSES = {
    "simulate": Simulation, "run": Run, "check": Check, "verify": Verification, "show": Shown, "sweep": Sweep,
    "advise": Advice, "compare": Comparison,
}


def result_of(text, code, words):
    """The typed result of a command's JSON."""
    data = json.loads(text)
    return _CLASSES.get(data.get("command"), Result)(data, code, words)
