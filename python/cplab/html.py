"""What a notebook shows of a result: a headline, a table, and a timeline as inline SVG. No script, no network."""
from html import escape

MOST_ROWS = 64    # of a table
MOST_RANKS = 16   # of a timeline
MOST_SPANS = 6000  # of a timeline: more are too fine to be seen

_COLORS = {
    "attend": "#2f6fb5", "attend_backward": "#1d4a80", "merge": "#7a9fce", "exchange": "#d9822b",
    "all_gather": "#c9651b", "reduce_scatter": "#a84c12", "all_to_all": "#e0a040", "all_reduce": "#8f5a1e",
    "copy": "#4c9a6a", "cast": "#83bf9b", "add": "#63ab80", "fill": "#a9d3ba", "row_dot": "#8e6bb0",
}
_OTHER = "#8a8f98"


def short(data):
    """A dict in one line: figures as they are, of lists and dicts how many they hold."""
    parts = []
    for key, value in data.items():
        if isinstance(value, dict):
            text = "{...}"
        elif isinstance(value, list):
            text = f"[{len(value)}]"
        else:
            text = repr(value)
        parts.append(f"{key}={text}")
    return ", ".join(parts)


def number(value):
    """A figure as people read it; units are in the names of keys."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return " ".join(number(each) for each in value)
    return "" if value is None else str(value)


def time_text(seconds):
    for scale, unit in ((1, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return f"{seconds / scale:.3f} {unit}"
    return f"{seconds / 1e-6:.2f} \u00b5s"


def headline(result):
    data = result._data
    parts = [f"<b>{escape(str(data.get('command', 'cplab')))}</b>"]
    parallel = data.get("scenario", {}).get("parallel") if isinstance(data.get("scenario"), dict) else None
    if parallel:
        parts.append(escape(f"{parallel.get('algorithm')}, {parallel.get('placement')}, {parallel.get('ranks')} ranks"))
    if "machine" in data:
        parts.append(escape(f"on {data['machine']}"))
    if "time_s" in data:
        parts.append(escape(time_text(data["time_s"])))
    if "low_s" in data:
        parts.append(escape(f"(between {time_text(data['low_s'])} and {time_text(data['high_s'])})"))
    if "fits" in data:
        parts.append("fits" if data["fits"] else "<b>does not fit</b>")
    if not result.ok:
        parts.append("<b>wrong</b>")
    return "<p>" + " \u00b7 ".join(parts) + "</p>"


def table(rows):
    if not rows:
        return ""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f"<th>{escape(key)}</th>" for key in keys)
    body = []
    for row in rows[:MOST_ROWS]:
        body.append("<tr>" + "".join(f"<td>{escape(number(row.get(key)))}</td>" for key in keys) + "</tr>")
    more = f"<p>{len(rows) - MOST_ROWS} rows more</p>" if len(rows) > MOST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{more}"


def timeline(operations):
    """A row for every lane of every rank, time to the right. Waiting for a peer is paler."""
    ranks = sorted({each["rank"] for each in operations})[:MOST_RANKS]
    shown = [each for each in operations if each["rank"] in ranks]
    if not shown:
        return ""
    lanes = sorted({(e["rank"], e["lane"]["kind"] != "compute", e["lane"]["kind"], e["lane"]["index"]) for e in shown})
    row_of = {(rank, kind, index): at for at, (rank, _, kind, index) in enumerate(lanes)}
    end = max(each["end_s"] for each in shown) or 1.0
    left, wide, high = 110, 860, 14
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + wide + 10}" height="{high * len(lanes) + 24}" '
             'font-family="sans-serif" font-size="10" role="img">']
    for (rank, kind, index), row in row_of.items():
        name = f"rank {rank} {kind}" + (f" {index}" if index else "")
        parts.append(f'<text x="{left - 6}" y="{row * high + 10}" text-anchor="end" fill="currentColor">{escape(name)}'
                     "</text>")
    widest = sorted(shown, key=lambda e: e["end_s"] - e["start_s"], reverse=True)[:MOST_SPANS]
    for each in widest:
        parts += _span(each, row_of, left, wide / end, high)
    bottom = high * len(lanes) + 16
    parts.append(f'<text x="{left}" y="{bottom}" fill="currentColor">0</text>')
    parts.append(f'<text x="{left + wide}" y="{bottom}" text-anchor="end" fill="currentColor">{time_text(end)}</text>')
    return "".join(parts) + "</svg>"


def _span(each, row_of, left, scale, high):
    row = row_of[(each["rank"], each["lane"]["kind"], each["lane"]["index"])]
    x, width = left + each["start_s"] * scale, (each["end_s"] - each["start_s"]) * scale
    color = _COLORS.get(each["kind"], _OTHER)
    title = f"{each['id']} {each['kind']} {time_text(each['end_s'] - each['start_s'])}"
    wait = min(each.get("wait_s", 0) * scale, width)
    shapes = []
    if wait > 0:
        shapes.append(f'<rect x="{x:.2f}" y="{row * high + 1}" width="{wait:.2f}" height="{high - 3}" fill="{color}" '
                      f'opacity="0.3"><title>{escape(title)}: waits</title></rect>')
    shapes.append(f'<rect x="{x + wait:.2f}" y="{row * high + 1}" width="{max(width - wait, 0.3):.2f}" '
                  f'height="{high - 3}" fill="{color}"><title>{escape(title)}</title></rect>')
    return shapes


def page(result):
    try:
        rows = result.records()
    except KeyError:
        rows = []
    operations = result._timeline()
    all_ranks = len({each["rank"] for each in operations}) if operations else 0
    more = f"<p>of {all_ranks} ranks the first {MOST_RANKS}</p>" if all_ranks > MOST_RANKS else ""
    return headline(result) + table(rows) + (timeline(operations) if operations else "") + more
