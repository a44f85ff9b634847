"""From `kill -9` of one of two workers to the moment at which both run again.

The workers are shells that write down that they run, so that what is measured is the launcher: to
notice the death, to stop the survivor and to start both again. What a framework needs to import
comes on top of both alike.
"""

import os
import signal
import sys
import time
from pathlib import Path

from arena import Refused

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))
import launchers  # noqa: E402

TITLE = "two workers run again after kill -9 of one, against torchrun --max_restarts"
UNIT = "s"
ROUNDS = 7
PATIENCE_SECONDS = 120


class Contestant:
    def __init__(self, arena, name: str, words):
        self.lines = arena.work / f"{name}.lines"
        self.log = arena.work / f"{name}.log"
        # In a file: torchrun takes $$ in an argument for a macro of its own.
        script = arena.work / f"{name}.sh"
        script.write_text(f'echo "$TORCHELASTIC_RESTART_COUNT $RANK $$" >>{self.lines}\n'
                          "exec sleep 1000\n")
        self.words = words(arena, 3, "sh", script)

    def wait_for(self, attempt: int) -> dict:
        """Rank to pid, once both workers of the attempt run."""
        until = time.perf_counter() + PATIENCE_SECONDS
        while time.perf_counter() < until:
            rows = [line.split() for line in self.lines.read_text().splitlines()]
            found = {int(r): int(p) for a, r, p in (row for row in rows if len(row) == 3)
                     if int(a) == attempt}
            if len(found) == 2:
                return found
            time.sleep(0.0005)
        raise Refused(f"attempt {attempt} did not start; its log is {self.log}")

    def round(self):
        self.lines.write_text("")
        process = launchers.start(self.words, self.log)
        try:
            victim = self.wait_for(0)[1]
            begin = time.perf_counter()
            os.kill(victim, signal.SIGKILL)
            again = self.wait_for(1)
            return time.perf_counter() - begin, sorted(again)
        finally:
            process.terminate()
            process.wait()

    def close(self):
        pass


def ours(arena):
    return Contestant(arena, "ours", launchers.ours)


def peer(arena):
    return Contestant(arena, "peer", launchers.peer)
