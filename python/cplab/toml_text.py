"""A dict as TOML text. Python reads TOML and does not write it."""
import json
import math
import os
import re

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table):
    """The text of a dict of dicts, lists, str, bool, int and float; numbers of NumPy count as such. A TypeError names
    the key of what TOML has no form for."""
    lines = []
    _write_table(table, (), lines)
    return "\n".join(lines) + "\n"


def _write_table(table, path, lines):
    inner = []
    for key, value in table.items():
        if value is None:
            continue  # as an option that is not given
        if isinstance(value, dict):
            inner.append((key, value))
        elif isinstance(value, (list, tuple)) and len(value) > 0 and all(isinstance(each, dict) for each in value):
            inner.extend((key, [each]) for each in value)
        else:
            lines.append(f"{_key(key)} = {_value(value, (*path, key))}")
    for key, value in inner:
        below = (*path, key)
        name = ".".join(_key(part) for part in below)
        one_of_many = isinstance(value, list)
        lines.append(f"[[{name}]]" if one_of_many else f"[{name}]")
        _write_table(value[0] if one_of_many else value, below, lines)


def _key(key):
    text = str(key)
    return text if _BARE.fullmatch(text) else _string(text)


def _string(text):
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _value(value, path):
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):  # a number of NumPy
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return _string(os.fspath(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {_value(v, (*path, k))}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(_value(each, path) for each in value) + "]"
    raise TypeError(f"{'.'.join(str(part) for part in path)}: {type(value).__name__} has no form in TOML; legal: "
                    "str, bool, int, float, lists and dicts of them")
