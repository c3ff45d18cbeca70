"""The table of a record of off_grid.py, as markdown."""
import math
import statistics

from drawn_families import FAMILIES


def percent(error):
    return "-" if error is None else f"{error * 100:+.1f}"


def row_of(point):
    start = [point["what"], str(point["parallel"]["ranks"]), point["schedule"]["transport"]]
    predicted, measured = point["predicted"], point["measured"]
    if "failed" in predicted:
        return [*start, "failed", "-", "-", "-", "-", "-", "-", "-"]
    times = [f"{predicted['time_s'] * 1e3:.3f}", f"{predicted['null_s'] * 1e3:.3f}"]
    if "failed" in measured:
        return [*start, *times, "failed", "-", "-", "-", "-", "-"]
    errors = point["errors"]
    spread = (measured["highest_s"] - measured["lowest_s"]) / measured["time_s"]
    return [*start, *times, f"{measured['time_s'] * 1e3:.3f}", f"{spread * 100:.1f}", percent(errors["time"]),
            percent(errors["null"]), percent(errors["phases"].get("forward")), percent(errors["phases"].get("backward"))]


def several_runs(point):
    """Zigzag over ranks takes halves of sequences: of several sequences these lie in several runs of rows."""
    problem, parallel = point["problem"], point["parallel"]
    sequences = len(problem["lengths"]) if "lengths" in problem else problem["batch"]
    return parallel["ranks"] > 1 and parallel.get("placement") == "zigzag" and sequences > 1


KINDS = {
    "all": lambda p: True,
    "1 GPU": lambda p: p["parallel"]["ranks"] == 1,
    "2 GPUs over copy": lambda p: p["parallel"]["ranks"] > 1 and p["schedule"]["transport"] == "copy",
    "2 GPUs over nccl": lambda p: p["parallel"]["ranks"] > 1 and p["schedule"]["transport"] == "nccl",
    "batches": lambda p: p["problem"].get("batch", 1) > 1,
    "packed": lambda p: "lengths" in p["problem"],
    "windows": lambda p: "window" in p["problem"],
    "2 GPUs, several sequences, zigzag": several_runs,
    "2 GPUs, all others": lambda p: p["parallel"]["ranks"] > 1 and not several_runs(p),
}


def kinds_of(points):
    """Names of kinds of points and what belongs to each: of points over all families the families."""
    families = {point["form"] for point in points}
    if not families <= set(FAMILIES):  # points of --draw ring, some of whose forms have names of families
        return KINDS
    def named(form):
        return lambda point: point["form"] == form

    return {"all": KINDS["all"]} | {form: named(form) for form in FAMILIES if form in families}


def quantile(sizes, share):
    """The least of them that so large a share does not exceed."""
    return sorted(sizes)[max(0, math.ceil(share * len(sizes)) - 1)]


def summary_rows(points):
    """Of each kind of points: |error| of ours and of the null model, its signed mean, how many lie in the band."""
    for name, belongs in kinds_of(points).items():
        some = [point for point in points if belongs(point)]
        if not some:
            continue
        row = [name, str(len(some))]
        for key in ("time", "null"):
            sizes = [abs(p["errors"][key]) * 100 for p in some]
            row += [f"{statistics.median(sizes):.1f}", f"{quantile(sizes, 0.95):.1f}", f"{max(sizes):.1f}"]
        inside = [p for p in some if p["predicted"]["low_s"] <= p["measured"]["time_s"] <= p["predicted"]["high_s"]]
        row.insert(5, f"{statistics.mean(p['errors']['time'] for p in some) * 100:+.1f}")
        phases = [abs(e) * 100 for p in some for e in p["errors"]["phases"].values() if e is not None]
        yield [*row, f"{max(phases):.1f}" if phases else "-", f"{len(inside)} of {len(some)}"]


def lines(head, rows, left):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join("---" if i in left else "---:" for i in range(len(head))) + "|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def brief_table_of(record):
    """Of each kind of points the errors of the total and the null model's median, and nothing else."""
    head = ["kind", "points", "error, median (%)", "95 % (%)", "largest (%)", "mean (%)", "null model, median (%)"]
    rows = summary_rows([point for point in record["points"] if "errors" in point])
    return "\n".join(lines(head, (row[:len(head)] for row in rows), {0})) + "\n"


def table_of(record):
    head = ["point", "GPUs", "link", "predicted (ms)", "compute alone (ms)", "measured (ms)", "spread (%)", "error (%)",
            "null model (%)", "forward (%)", "backward (%)"]
    done = [point for point in record["points"] if "errors" in point]
    parts = [*lines(head, map(row_of, record["points"]), {0, 2})]
    if done:
        head = ["points", "number", "error, median (%)", "95 % (%)", "largest (%)", "mean (%)",
                "null model, median (%)", "95 % (%)", "largest (%)", "a phase, largest (%)", "in the band"]
        parts += ["", *lines(head, summary_rows(done), {0})]
        wrong = [point for point in done if point["errors"]["peak_bytes"]]
        inside = [p for p in done if p["predicted"]["low_s"] <= p["measured"]["time_s"] <= p["predicted"]["high_s"]]
        parts += ["", f"Measured time between the predicted low and high: in {len(inside)} of {len(done)} points.",
                  f"Peak memory as predicted to the byte: in {len(done) - len(wrong)} of {len(done)} points."]
    failed = [p for p in record["points"] if "errors" not in p]
    parts += [f"Point {p['number']} failed: {p['predicted'].get('failed') or p['measured']['failed']}" for p in failed]
    return "\n".join(parts) + "\n"
