"""Proves the harness on something whose winner is known: a formula against a loop."""

import time

TITLE = "the harness itself: the sum of squares by formula against a loop"
UNIT = "s"
COUNT = 200_000


class Formula:
    def round(self):
        begin = time.perf_counter()
        total = COUNT * (COUNT + 1) * (2 * COUNT + 1) // 6
        return time.perf_counter() - begin, {"count": COUNT, "total": total}

    def close(self):
        pass


class Loop(Formula):
    def round(self):
        begin = time.perf_counter()
        total = 0
        for n in range(1, COUNT + 1):
            total += n * n
        return time.perf_counter() - begin, {"count": COUNT, "total": total}


def ours(_arena):
    return Formula()


def peer(_arena):
    return Loop()
