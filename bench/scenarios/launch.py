"""What a launcher costs: two workers that do nothing, from the command to its end.

Each worker appends its rank, and both launchers must have started the same ranks.
"""

import sys
import time
from pathlib import Path

from arena import Refused

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))
import launchers  # noqa: E402

TITLE = "two workers that do nothing, against torchrun"
UNIT = "s"
ROUNDS = 7


class Contestant:
    def __init__(self, arena, name: str, words):
        self.ranks = arena.work / f"{name}.ranks"
        self.log = arena.work / f"{name}.log"
        self.words = words(arena, 0, "sh", "-c", f'echo "$RANK of $WORLD_SIZE" >>{self.ranks}')

    def round(self):
        self.ranks.write_text("")
        begin = time.perf_counter()
        process = launchers.start(self.words, self.log)
        code = process.wait()
        seconds = time.perf_counter() - begin
        if code != 0:
            raise Refused(f"{self.words[0]} ended with {code}; its log is {self.log}")
        return seconds, sorted(self.ranks.read_text().split("\n"))

    def close(self):
        pass


def ours(arena):
    return Contestant(arena, "ours", launchers.ours)


def peer(arena):
    return Contestant(arena, "peer", launchers.peer)
