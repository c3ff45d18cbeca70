"""Two GPUs, K and V of the other one in pieces: each piece is attended while the next is under way."""
import cplab
from cplab import Rows, comm, compute, receive, send

PIECES = 4


def pipeline(scenario):
    plan = cplab.Plan(scenario)
    if plan.P != 2:
        raise ValueError("parallel.ranks: this pipeline is of two GPUs")
    for b in plan.ranks:
        other, total = 1 - b.position, b.buffer("out_sum", like=b.out, role="wide")
        whole = b.tile(other).k_rows  # what this rank needs of the other's keys, and what the other needs of its own
        wanted = b.tile(b.position, queries_of=other).k_rows
        pieces = b.buffer("kv_pieces", like=b.kv)
        posted = [post(b, other, piece, wanted, whole, pieces) for piece in range(min(2, PIECES))]
        own = b.tile(b.position, take="all")
        b.attend(own, b.q, b.kv.k, b.kv.v, total, b.lse, lane=compute())
        for piece in range(PIECES):
            b.step(piece + 1)
            rows = cut(whole, piece)
            if piece + len(posted) < PIECES:
                post(b, other, piece + len(posted), wanted, whole, pieces)
            tile = b.plan.tile(b.plan.runs(b.position), part_of(b, other, rows)) if rows else None
            if tile:
                q, k = tile.q_rows, tile.k_rows
                b.attend(tile, b.q.rows(q), pieces.k.rows(k), pieces.v.rows(k), total.rows(q), b.lse.rows(q), mode="merge")
        b.cast(total, b.out)
    return plan


def cut(ranges, piece):
    """The piece's share of some rows."""
    rows = [row for begin, count, _ in ranges for row in range(begin, begin + count)]
    share = rows[piece * len(rows) // PIECES:(piece + 1) * len(rows) // PIECES]
    return Rows([(row, 1, 1) for row in share])


def part_of(b, owner, rows):
    """The token runs of the owner's keys that lie in these rows."""
    runs = []
    for sequence, row, count, valid, position, stride, _ in b.plan.runs(owner, keys=True):
        for begin, n, _ in Rows.range(row, count) & rows:
            skipped = begin - row
            runs.append((sequence, begin, n, max(0, min(valid - skipped, n)), position + skipped * stride, stride, 1))
    return runs


def post(b, other, piece, wanted, whole, pieces):
    going, coming = cut(wanted, piece), cut(whole, piece)
    return b.exchange([send(b.kv.rows(going), to=other)] * bool(going)
                      + [receive(pieces.rows(coming), from_=other)] * bool(coming), lane=comm())
