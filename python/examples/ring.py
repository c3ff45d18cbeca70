"""Ring attention: K and V travel from rank to rank; backward, their gradients follow one visit behind, until home."""
import cplab
from cplab import Rows, receive, send


def ring(scenario):
    plan = cplab.Plan(scenario)
    for b in plan.ranks:
        slots = b.buffer("kv_slots", like=b.kv, slots=2)
        last = forward(b, plan.P, slots)
        if "backward" in plan.problem["direction"]:
            backward(b, plan.P, slots, last)
    return plan


def forward(b, P, slots):
    total, held, coming = b.buffer("out_sum", like=b.out, role="wide"), b.kv, None
    for visit in range(P):
        b.step(visit)
        if visit + 1 < P:
            coming = slots.slot(visit % 2)
            b.exchange([send(held, to=b.position + 1), receive(coming, from_=b.position - 1)])
        tile = b.tile((b.position - visit) % P, take="live" if visit else "all")
        q, k, mode = tile.q, tile.k, "merge" if visit else "store"
        if tile:
            b.attend(tile, b.q.rows(q), held.k.rows(k), held.v.rows(k), total.rows(q), b.lse.rows(q), mode)
        held, last = coming, held
    b.cast(total, b.out)
    return last


def backward(b, P, slots, held):
    b.phase("backward")
    touched, delta, dq = Rows(), b.buffer("delta", b.lse, role="wide"), b.buffer("dq_sum", b.dq, role="wide")
    sums, apart = b.buffer("dkv_slots", like=b.kv, role="wide", slots=2), b.buffer("dkv_tile", like=b.kv, role="wide")
    b.row_dot(b.dout, b.out, delta)
    for visit in range(P):
        b.step(visit)
        owner, hop = (b.position + 1 + visit) % P, (b.position - 1, b.position + 1)
        here, coming = sums.slot((visit + 1) % 2), slots.slot((visit + P - 1) % 2)
        messages = [send(held, to=hop[0]), receive(coming, from_=hop[1])] if visit + 1 < P else []
        messages += [send(sums.slot(visit % 2), to=hop[0]), receive(here, from_=hop[1])] if visit else []
        b.exchange(messages)
        tile = b.tile(owner, take="all" if visit + 1 == P else "live")
        q, k = tile.q, tile.k
        if touched and q - touched:
            b.fill(dq.rows(q - touched), 0)
        into = (apart if visit else here).rows(k)
        b.attend_backward(tile, b.q.rows(q), held.k.rows(k), held.v.rows(k), b.dout.rows(q), b.lse.rows(q),
                          delta.rows(q), dq.rows(q), into.k, into.v, dq_mode="add" if touched else "store")
        touched |= q
        # What earlier holders of these sums have written is added to; the rest is not there yet.
        seen = Rows.union(b.tile(owner, queries_of=(owner - 1 - each) % P).k for each in range(visit))
        for rows, combine in ((k & seen, b.add), (k - seen, b.copy)):
            if rows and visit:
                combine(apart.rows(rows), here.rows(rows))
        held = coming
    b.cast(here, b.dkv)
    b.step(P)
    b.cast(dq, b.dq)
