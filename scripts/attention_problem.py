"""What peer_attention.py and compare_builds.py time: problems that are always the same, and some drawn from a seed."""
import math
import random
from typing import NamedTuple


class Problem(NamedTuple):
    """Sequences of these lengths, one behind the other; queries and keys have the same rows."""
    lengths: tuple
    heads: int
    kv_heads: int
    width: int  # of a head
    kind: str = "long"

    @property
    def is_batch(self):
        """Whether a library's call for dense batches can take it: all sequences have one length."""
        return len(set(self.lengths)) == 1

    @property
    def rows(self):
        return sum(self.lengths)

    def flops(self, causal, direction):
        """4 multiplications and additions a pair of a query and a key, half of them if causal; backward 2.5 times."""
        forward = 4 * self.heads * self.width * sum(length * length for length in self.lengths) / (2 if causal else 1)
        return forward * (2.5 if direction == "backward" else 1)

    def record(self):
        """As keys of a JSON object."""
        batch = {"shape": [len(self.lengths), self.lengths[0], self.heads, self.width]} if self.is_batch else {
            "lengths": list(self.lengths), "heads": self.heads, "width": self.width}
        return {**batch, **({"kv_heads": self.kv_heads} if self.kv_heads != self.heads else {})}

    def asked(self, causal):
        """The line by which `tiles --serve` is asked for it (served_tiles.py)."""
        mask = "causal" if causal else "full"
        if self.is_batch and self.heads == self.kv_heads:
            return f"shape {len(self.lengths)} {self.lengths[0]} {self.heads} {self.width} {mask}"
        return f"packed {self.heads} {self.kv_heads} {self.width} {mask} {' '.join(map(str, self.lengths))}"

    def __str__(self):
        rows = f"{len(self.lengths)} x {self.lengths[0]}" if self.is_batch else (
            f"{len(self.lengths)} packed, {min(self.lengths)} to {max(self.lengths)}, {self.rows} rows")
        heads = f"{self.heads} heads" if self.heads == self.kv_heads else f"{self.heads} heads on {self.kv_heads}"
        return f"({rows}, {heads} of {self.width})"


def batch(count, length, heads, width, kind="long"):
    return Problem((length,) * count, heads, heads, width, kind)


def shaped(word):
    """Of a word like 2x8192x16x128, or 2x8192x16/4x128 with 16 query heads on 4 key heads."""
    count, length, heads, width = word.split("x")
    heads, _, kv_heads = heads.partition("/")
    return Problem((int(length),) * int(count), int(heads), int(kv_heads or heads), int(width), "long")


LONG = [batch(*shape) for shape in (
    (8, 2048, 16, 128), (2, 8192, 16, 128), (1, 32768, 16, 128), (8, 2048, 32, 64), (2, 8192, 32, 64),
    (1, 32768, 32, 64), (1, 512, 16, 128), (1, 1024, 16, 128), (1, 2048, 16, 128), (1, 4096, 16, 128), (1, 512, 32, 64),
    (1, 1024, 32, 64), (1, 2048, 32, 64), (1, 4096, 32, 64))]
SHORT = [batch(*shape, kind="short") for shape in (
    (16, 1024, 16, 128), (32, 512, 16, 128), (64, 256, 16, 128), (16, 1024, 32, 64), (32, 512, 32, 64),
    (64, 256, 32, 64))]
# Fewer heads of keys, as models have them, and as their heads are divided among ranks.
GROUPED = [shaped(word)._replace(kind="grouped") for word in (
    "1x2048x32/8x128", "1x4096x32/8x128", "1x8192x32/8x128", "1x32768x32/8x128", "8x2048x32/8x128", "16x1024x32/8x128",
    "1x8192x64/8x128", "1x2048x8/1x128", "1x8192x8/1x128", "4x2048x8/1x128", "1x16384x4/1x128", "1x4096x32/8x64",
    "1x8192x32/8x64", "8x2048x32/8x64", "1x2048x8/1x64", "1x8192x8/1x64")]
MOST_ROWS = 32768  # of a drawn problem


def log_uniform(draw, least, most):
    return round(math.exp(draw.uniform(math.log(least), math.log(most))))


def drawn(seed, points):
    """Problems that nobody tuned to, from the seed alone: by turns a batch, one with fewer key heads, a packed list.

    Lengths are log-uniform from 200 to 16384 rows and multiples of nothing. A batch is cut, and a list ends, where
    MOST_ROWS are reached. Heads of 128 and of 64 by turns.
    """
    draw, problems = random.Random(seed), []
    for point in range(points):
        form, width = ("batch", "grouped", "packed")[point % 3], (128, 64)[point // 3 % 2]
        heads = draw.choice((8, 12, 16, 20, 24, 32))
        kv_heads = heads // 4 if form == "grouped" else heads
        if form == "packed":
            most, lengths = log_uniform(draw, 4096, MOST_ROWS), []
            while sum(lengths) < most:
                lengths.append(min(log_uniform(draw, 100, 8192), most - sum(lengths)))
        else:
            length = log_uniform(draw, 200, 16384)
            lengths = [length] * min(log_uniform(draw, 1, 32), max(MOST_ROWS // length, 1))
        problems.append(Problem(tuple(lengths), heads, kv_heads, width, "drawn"))
    return problems
