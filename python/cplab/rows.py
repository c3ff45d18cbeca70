"""Rows of a buffer as ranges [begin, count, step], and sets of them."""


class Rows:
    """Ascending, disjoint ranges of step 1: what takes part in a tile, and what is left of it."""

    def __init__(self, ranges=()):
        self.ranges = []
        for begin, count, step in sorted(tuple(each) for each in ranges):
            if step != 1:
                raise ValueError(f"rows [{begin}, {count}, {step}]: a set of rows has step 1")
            self._append(begin, count)

    @staticmethod
    def range(begin, count):
        return Rows([(begin, count, 1)])

    @staticmethod
    def union(several):
        return Rows([each for rows in several for each in rows])

    def _append(self, begin, count):
        if count <= 0:
            return
        if self.ranges and begin <= self.ranges[-1][0] + self.ranges[-1][1]:
            last = self.ranges[-1]
            self.ranges[-1] = (last[0], max(last[1], begin + count - last[0]), 1)
        else:
            self.ranges.append((begin, count, 1))

    def _combined(self, other, keeps):
        edges = sorted({edge for rows in (self, other) for b, n, _ in rows.ranges for edge in (b, b + n)})
        return Rows([(a, b - a, 1) for a, b in zip(edges, edges[1:]) if keeps(a in self, a in other)])

    def __contains__(self, row):
        return any(begin <= row < begin + count for begin, count, _ in self.ranges)

    def __or__(self, other):
        return self._combined(other, lambda a, b: a or b)

    def __and__(self, other):
        return self._combined(other, lambda a, b: a and b)

    def __sub__(self, other):
        return self._combined(other, lambda a, b: a and not b)

    def __eq__(self, other):
        return isinstance(other, Rows) and self.ranges == other.ranges

    __hash__ = None

    def __bool__(self):
        return bool(self.ranges)

    def __len__(self):
        return sum(count for _, count, _ in self.ranges)

    def __iter__(self):
        return iter(self.ranges)

    def __repr__(self):
        return f"Rows({self.ranges})"


def runs_of(rows):
    """Token runs of a list of rows: a position in sequence 0, a pair (sequence, position), or None for padding."""
    runs = []  # sequence, row, rows, valid, position, stride, row_step
    for row, token in enumerate(rows):
        if token is None:
            if not runs:
                raise ValueError("row 0: a list of rows begins with a token")
            runs[-1][2] += 1
            continue
        sequence, position = token if isinstance(token, tuple) else (0, token)
        if runs:
            last = runs[-1]
            stride = position - last[4] if last[2] == 1 else last[5]
            goes_on = last[0] == sequence and last[2] == last[3] and stride > 0
            if goes_on and position == last[4] + last[3] * stride:
                last[2], last[3], last[5] = last[2] + 1, last[3] + 1, stride
                continue
        runs.append([sequence, row, 1, 1, position, 1, 1])
    return [tuple(run) for run in runs]
