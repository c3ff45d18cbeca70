"""An implementation's own results against the reference: tensors of NumPy, PyTorch, or anything that DLPack reads."""
import pathlib
import tempfile

from . import commands

INPUTS, RESULTS = ("q", "k", "v", "dout"), ("out", "lse", "dq", "dk", "dv")
_DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
_PROBLEM = ("mask", "align", "window", "scale", "softcap", "prefix", "chunk", "direction")
_PARALLEL = ("ranks", "algorithm", "placement")


def is_tensor(given):
    return hasattr(given, "__dlpack__") or hasattr(given, "__array__") or hasattr(given, "__array_interface__")


def verify(q, k, v, dout=None, *, scenario=None, dtype=None, **more):
    """Compares results of the caller's own with the dense reference in double, rank by rank and head by head.

    In global order: q [B, S, H, D], k [B, S, G, D], v [B, S, G, E], dout and out [B, S, H, E], lse [B, H, S], and dq, dk,
    dv like q, k, v; at least one of the results. Of any float dtype, device and strides: values are copied. ``dtype``
    is the one that was computed in (default: that of q), and says what roundings are expected; ``sums``, such as
    ``{"dkv": 8}``, how often dq, or dk and dv, were added to while stored in it (PyTorch's are, for every query head of a
    key head). ``mask`` ("causal", "full") has to be given, and ``ranks``, ``algorithm``, ``placement`` if the ranks that
    a fault is on are to be named; or ``scenario``, which says all of it. Other keywords are options of ``cplab verify``,
    such as ``sample``.
    """
    import numpy

    results = {name: more.pop(name) for name in RESULTS if more.get(name) is not None}
    inputs = {name: given for name, given in zip(INPUTS, (q, k, v, dout)) if given is not None}
    if not results:
        raise ValueError(f"nothing to compare: at least one of {', '.join(RESULTS)} is needed")
    backward = any(name in results for name in ("dq", "dk", "dv"))
    if backward and dout is None:
        raise ValueError("dout: needed where dq, dk or dv is given")
    arrays, kinds = {}, {}
    for name, given in {**inputs, **results}.items():
        arrays[name], kinds[name] = _array(numpy, name, given, name in results)
    sizes = _sizes(arrays)
    dtype = _DTYPES.get(_name(dtype), dtype) if dtype else kinds["q"]
    if isinstance(more.get("sums"), dict):
        more["sums"] = ",".join(f"{name}={number}" for name, number in more["sums"].items())
    if dtype not in _DTYPES.values():
        raise ValueError(f"dtype = {dtype!r}; legal: {', '.join(_DTYPES.values())}")
    subject = scenario if scenario is not None else _scenario(sizes, dtype, "dout" in inputs, more)
    stored = numpy.float64 if dtype == "fp64" else numpy.float32
    if not backward and "dout" not in inputs:
        more.setdefault("set", {"problem.direction": "forward"} if scenario is not None else None)
    with tempfile.TemporaryDirectory(prefix="cplab-") as folder:
        for name, array in arrays.items():
            numpy.save(pathlib.Path(folder, name + ".npy"), numpy.ascontiguousarray(array, dtype=stored))
        more.update(inputs=folder, against=folder, tensors=",".join(results))
        return commands.verify_files(subject, **more)


def _array(numpy, name, given, is_result):
    """Its values as an array of NumPy, and the dtype that it has, as cplab calls it. ValueError that names it."""
    if hasattr(given, "detach"):
        kind = _name(given.dtype)
        array, strides = _of_torch(name, given, kind) if kind in _DTYPES else (None, ())
    else:
        array = given if isinstance(given, numpy.ndarray) else _imported(numpy, name, given)
        kind, strides = array.dtype.name, array.strides
        if kind == "bfloat16":  # of ml_dtypes
            array = array.astype(numpy.float32)
    if kind not in _DTYPES:
        raise ValueError(f"{name}: dtype {kind}; legal: {', '.join(_DTYPES)}")
    if is_result:
        for axis, (stride, extent) in enumerate(zip(strides, array.shape)):
            if stride == 0 and extent > 1:
                raise ValueError(f"{name}: stride 0 on axis {axis}: its {extent} elements there are one in memory, which "
                                 "no computation can have written; legal: a tensor of its own (contiguous(), copy())")
    return array, _DTYPES[kind]


def _name(dtype):
    """A dtype of PyTorch, of NumPy or a word, as a word."""
    return getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")


def _of_torch(name, given, kind):
    """The values of a tensor of PyTorch, on any device, and its strides. NumPy has no bf16."""
    try:
        array = given.detach().cpu().resolve_neg()
        return (array.float() if kind == "bfloat16" else array).numpy(), given.stride()
    except (NotImplementedError, RuntimeError, TypeError) as error:  # sparse, nested, on "meta", of a subclass, ...
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{name}: a tensor on {given.device} of layout {given.layout} whose values PyTorch does not give "
                         f"({what}); legal: a dense one with data, such as to_dense() makes") from None


def _imported(numpy, name, given):
    for read in (numpy.asarray, getattr(numpy, "from_dlpack", None)):
        try:
            array = read(given)
        except (TypeError, ValueError, RuntimeError, BufferError):
            continue
        if array.dtype != object:
            return array
    raise ValueError(f"{name}: {type(given).__name__} is no tensor that NumPy or DLPack reads; legal: NumPy, PyTorch, or "
                     "another on the CPU")


def _sizes(arrays):
    q, k, v = arrays["q"], arrays["k"], arrays["v"]
    for name in ("q", "k", "v"):
        if arrays[name].ndim != 4:
            raise ValueError(f"{name}: shape {list(arrays[name].shape)}; legal: 4 axes [batch, sequence, heads, size]")
    (b, s, h, d), (_, t, g, _), e = q.shape, k.shape, v.shape[3]
    if h % max(g, 1) or g == 0:
        raise ValueError(f"k: {g} heads for {h} of q; legal: a divisor of {h}")
    expected = {"k": (b, t, g, d), "v": (b, t, g, e), "dout": (b, s, h, e), "out": (b, s, h, e), "lse": (b, h, s),
                "dq": (b, s, h, d), "dk": (b, t, g, d), "dv": (b, t, g, e)}
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name}: shape {list(arrays[name].shape)}; legal: {list(shape)}, as q is {list(q.shape)}, k "
                             f"{list(k.shape)} and v {list(v.shape)}")
    return {"batch": b, "sequence": s, "kv_sequence": t, "heads": h, "kv_heads": g, "head_size": d, "value_size": e}


def _scenario(sizes, dtype, has_dout, more):
    if "mask" not in more:
        raise ValueError('mask: has to be given; legal: "causal", "full", "none"')
    if sizes["kv_sequence"] != sizes["sequence"] and "align" not in more and more["mask"] == "causal":
        raise ValueError(f"k: a sequence of {sizes['kv_sequence']}, and {sizes['sequence']} of q, under a causal mask; legal: "
                         'as many, or align="top_left" or "bottom_right". Axes are [batch, sequence, heads, size]: what '
                         "has heads first, as for PyTorch's attention, needs transpose(1, 2)")
    problem = {key: value for key, value in sizes.items() if key != "kv_sequence"}
    if sizes["kv_sequence"] != sizes["sequence"]:
        problem["kv_sequence"] = sizes["kv_sequence"]
    problem |= {"dtype": dtype, "direction": "forward+backward" if has_dout else "forward"}
    problem |= {key: more.pop(key) for key in _PROBLEM if key in more}
    parallel = {"ranks": 1, "algorithm": "ring"}
    return {"problem": problem, "parallel": parallel | {key: more.pop(key) for key in _PARALLEL if key in more}}
