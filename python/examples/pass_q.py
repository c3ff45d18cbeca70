"""Ring pass-Q, forward: queries travel, and what they get where they come to goes home to be merged."""
import cplab
from cplab import receive, send


def pass_q(scenario):
    plan = cplab.Plan(scenario)
    for b in plan.ranks:
        forward(b, plan.P)
    return plan


def forward(b, P):
    queries, total = b.buffer("q_slots", like=b.q, slots=2), b.buffer("out_sum", like=b.out, role="wide")
    out, out_home = b.buffer("out_part", like=b.out, slots=2), b.buffer("out_received", like=b.out, slots=2)
    lse = b.buffer("lse_part", like=b.lse, role="wide", slots=2)
    lse_home = b.buffer("lse_received", like=b.lse, role="wide", slots=2)

    def part(of, visit, rows):
        return of.slot(visit % 2).first_rows(rows)

    def guest(visit):  # the queries that are here at a visit meet our keys
        return b.tile(b.position, take="live" if visit else "all", queries_of=(b.position - visit) % P)

    def host(visit):  # our queries are there at that visit
        return b.tile((b.position + visit) % P)

    held = b.q
    for visit in range(P + 2):
        b.step(visit)
        messages = []
        if visit + 1 < P:
            coming = queries.slot(visit % 2)
            messages += [send(held, to=b.position + 1), receive(coming, from_=b.position - 1)]
        done = visit - 1  # the results of that visit go home now
        for mine, theirs in ((out, out_home), (lse, lse_home)) if 1 <= done < P else ():
            leaving, arriving = len(guest(done).q), len(host(done).q)
            if leaving:
                messages.append(send(part(mine, done, leaving), to=b.position - done))
            if arriving:
                messages.append(receive(part(theirs, done, arriving), from_=b.position + done))
        b.exchange(messages)
        tile = guest(visit) if visit < P else None
        if tile:
            q, k, rows = tile.q, tile.k, len(tile.q)
            here = (part(out, visit, rows), part(lse, visit, rows)) if visit else (total, b.lse)
            b.attend(tile, held.rows(q), b.kv.k.rows(k), b.kv.v.rows(k), *here)
        if visit + 1 < P:
            held = coming
        home = host(visit - 2) if 3 <= visit else None
        if home:
            q, rows = home.q, len(home.q)
            b.merge(part(out_home, visit - 2, rows), part(lse_home, visit - 2, rows), total.rows(q), b.lse.rows(q))
    b.cast(total, b.out)
