#!/usr/bin/env python3
"""Which tile shapes a fused attention backward can have on Hopper, and what binds each.

    scripts/backward_tiles.py [--head-size 128] [--all] [--rows 20] [--json FILE]

A thread block owns `keys` keys, 64 to a consumer warpgroup, and walks blocks of `queries`. Five products for each
score: S, dP, dV, dK, dQ. A wgmma of 64 x N over 16 reads 16 columns of A (64 rows, 2 bytes) from shared memory unless A
is in registers, and of B (N rows) always. So a product of M x N over K costs a warpgroup 2 M K bytes for A and
2 K N (M / 64) for B. What a block of queries x keys costs the thread block, in bytes of shared memory:

  S^T, dP^T   M = 64 keys a warpgroup, N = queries, K = D, A = K or V
  dV, dK      M = 64 keys a warpgroup, N = D, K = queries, A = P^T, dS^T: registers, or with S not transposed shared
              memory, where P is stored as well
  dS          2 bytes a score, written
  dQ          rows: M = queries, K = keys, A = dS, B = K; transposed: M = D, N = queries, A = K^T, B = dS.
              Divided among the warpgroups by M or by N, or done by one warpgroup in turn.
  dQ staged   4 bytes times queries times D, written, and read by the copy engine; direct: vector reductions from
              registers, which pass the same pipe once, and need a row's neighbours in one thread (not transposed)

Cycles a score: the tensor cores do 4096 FLOPs a cycle, 5 * 2 D / 4096; shared memory moves 128 bytes; 16 exponentials.
Registers a thread hold dK and dV (D / 2 each), S and dP (queries / 2 each), then P and dS in 16 bits and dQ. Two
consumer warpgroups can hold 216 beside addresses and counters, three 128 (FlashAttention 4,
AI/SM90_BLOCK_SIZE_TUNING.md). Shared memory: K, V, stages of Q and dO, tiles of dS (two let dQ run a block behind),
staged dQ; 227 KiB less 3 for the rest. Not counted: what TMA writes, 4 D queries bytes a block, the same for all.

Counters of a prototype on an H100 (64 x 128, D = 128, one sequence of 8192, 16 heads, 132 multiprocessors: 8.13 million
scores each): the pipe was busy for 2.79 million cycles with dQ staged and 2.49 with dQ direct. This says 2.67 and 2.41.
Shown for each shape are the most tiles of dS and stages of dO that fit; a shape that reads less comes first.
"""
import argparse
import itertools
import json
from dataclasses import asdict, dataclass

KIB = 1024
SHARED_BYTES = 224 * KIB
REGISTERS = {2: 216, 3: 128}


@dataclass(frozen=True)
class Tile:
    head_size: int
    queries: int
    consumers: int
    transposed_scores: bool  # P and dS are operands in registers
    dq: str  # rows, transposed
    divided_by: str  # of dQ: queries, columns, turns
    staged: bool
    ds_tiles: int
    dout_stages: int

    @property
    def keys(self):
        return 64 * self.consumers


def product(m, n, k, a_in_registers=False):
    """Bytes that one warpgroup reads for m x n over k."""
    return (0 if a_in_registers else 2 * m * k) + 2 * k * n * (m // 64)


def is_possible(tile):
    """wgmma has 64 rows a warpgroup, and N in multiples of 8."""
    d, q, w = tile.head_size, tile.queries, tile.consumers
    if not tile.transposed_scores and (q % (64 * w) != 0):
        return False  # S has queries as rows, 64 or more to a warpgroup
    rows, columns = (q, d) if tile.dq == "rows" else (d, q)
    by_rows = (tile.divided_by == "queries") == (tile.dq == "rows")
    if tile.divided_by != "turns":
        if by_rows:
            rows, rest = divmod(rows, w)
        else:
            columns, rest = divmod(columns, w)
        if rest:
            return False
    if rows % 64 or columns % 8 or columns > 256:
        return False
    return tile.staged or tile.dq == "rows"


def traffic(tile):
    """Bytes of shared memory for a block of queries x keys, by purpose."""
    d, q, w, keys = tile.head_size, tile.queries, tile.consumers, tile.keys
    if tile.transposed_scores:
        scores = w * product(64, q, d)
        gradient = w * product(64, d, q, a_in_registers=True)
    else:
        scores = w * product(q // w, keys, d)
        gradient = w * product(64, d, q)
    rows, columns = (q, d) if tile.dq == "rows" else (d, q)
    by_rows = (tile.divided_by == "queries") == (tile.dq == "rows")
    if tile.divided_by == "turns":
        dq = product(rows, columns, keys)
    elif by_rows:
        dq = w * product(rows // w, columns, keys)
    else:
        dq = w * product(rows, columns // w, keys)
    return {"S": scores, "dP": scores, "dV": gradient, "dK": gradient,
            "P": 0 if tile.transposed_scores else 2 * q * keys, "dS": 2 * q * keys, "dQ": dq,
            "staging": (2 if tile.staged else 1) * 4 * q * d}


def registers(tile):
    d, q, w = tile.head_size, tile.queries, tile.consumers
    own = d  # dK and dV, 64 keys a warpgroup
    scores = q // 2 if tile.transposed_scores else q * tile.keys // w // 128
    operands = q // 4 if tile.transposed_scores else 0
    dq = q * d // 128 // (1 if tile.divided_by == "turns" else w)
    return own + max(2 * scores, 2 * operands + dq)


def shared_bytes(tile):
    d, q, keys = tile.head_size, tile.queries, tile.keys
    return (2 * 2 * keys * d + 2 * q * d * (2 + tile.dout_stages) + 2 * q * keys * tile.ds_tiles +
            (0 if tile.transposed_scores else 2 * q * keys) + (4 * q * d if tile.staged else 0))


def figures(tile):
    scores = tile.queries * tile.keys
    a_score = sum(traffic(tile).values()) / scores
    cycles = {"tensor": 10 * tile.head_size / 4096, "shared": a_score / 128, "exp": 1 / 16}
    return {**asdict(tile), "keys": tile.keys, "bytes_per_score": a_score, "registers": registers(tile),
            "shared_kib": shared_bytes(tile) / KIB, "cycles": cycles, "binds": max(cycles, key=cycles.get),
            "fits": registers(tile) <= REGISTERS[tile.consumers] and shared_bytes(tile) <= SHARED_BYTES}


def check():
    """Figures known from elsewhere."""
    fa4 = Tile(128, 80, 2, True, "transposed", "columns", True, 1, 2)
    parts = {name: size / KIB for name, size in traffic(fa4).items()}
    assert parts == {"S": 72, "dP": 72, "dV": 40, "dK": 40, "P": 0, "dS": 20, "dQ": 72, "staging": 80}, parts
    assert figures(fa4)["bytes_per_score"] == 39.6 and shared_bytes(fa4) == 204 * KIB and registers(fa4) == 208
    ours = Tile(128, 64, 2, True, "rows", "columns", True, 2, 2)
    assert figures(ours)["bytes_per_score"] == 42 and registers(ours) == 192
    assert shared_bytes(ours) == (64 + 64 + 32 + 32) * KIB  # 192; with lse and delta it is 198
    a_multiprocessor = 8192**2 * 16 / 132 / 128
    assert round(figures(ours)["bytes_per_score"] * a_multiprocessor / 1e6, 2) == 2.67
    direct = figures(Tile(128, 64, 2, True, "rows", "columns", False, 1, 2))
    assert round(direct["bytes_per_score"] * a_multiprocessor / 1e6, 2) == 2.41
    assert figures(Tile(64, 128, 2, True, "rows", "queries", True, 2, 2))["bytes_per_score"] == 20


def candidates(head_size):
    for choice in itertools.product((32, 48, 64, 80, 96, 112, 128, 144, 160, 192), (2, 3), (True, False),
                                    ("rows", "transposed"), ("queries", "columns", "turns"), (True, False), (1, 2),
                                    (1, 2)):
        tile = Tile(head_size, *choice)
        if is_possible(tile):
            yield figures(tile)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head-size", type=int, choices=(64, 128), default=128)
    parser.add_argument("--all", action="store_true", help="also what does not fit")
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    check()
    best = {}
    for row in candidates(arguments.head_size):
        if arguments.all or row["fits"]:
            shape = tuple(row[key] for key in ("queries", "keys", "transposed_scores", "dq", "divided_by", "staged"))
            best.setdefault(shape, []).append(row)
    rows = [row for group in best.values() for row in group
            if not any(other is not row and other["fits"] == row["fits"] and other["ds_tiles"] >= row["ds_tiles"] and
                       other["dout_stages"] >= row["dout_stages"] for other in group)]
    rows.sort(key=lambda row: (row["bytes_per_score"], row["divided_by"] == "turns"))
    print("queries keys scores      dQ                    staged dS dO  registers  KiB  bytes/score  cycles/score: "
          "tensor shared exp")
    for row in rows[:arguments.rows]:
        scores = "transposed" if row["transposed_scores"] else "rows"
        dq = f"{row['dq']} by {row['divided_by']}"
        cycles = row["cycles"]
        print(f"{row['queries']:7d} {row['keys']:4d} {scores:11s} {dq:22s} {'yes' if row['staged'] else 'no':5s} "
              f"{row['ds_tiles']:3d} {row['dout_stages']:2d} {row['registers']:10d} {row['shared_kib']:4.0f} "
              f"{row['bytes_per_score']:12.1f}  {cycles['tensor']:20.4f} {cycles['shared']:.4f} {cycles['exp']:.4f} "
              f"{row['binds']}{'' if row['fits'] else ' (does not fit)'}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
