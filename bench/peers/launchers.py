"""The two launchers that are raced: how each starts two workers of a command."""

import subprocess
from pathlib import Path

# Debian's PyTorch 1.13: its launcher runs on Python 3.11 only with both redirections. It looks
# after its workers every 5 s unless told otherwise; 0.1 s is what newer ones do.
TORCHRUN = ["/usr/bin/python3", "-m", "torch.distributed.run", "--standalone",
            "--nproc_per_node", "2", "--monitor_interval", "0.1",
            "-r", "1", "-t", "1", "--no_python"]


def ours(arena, restarts: int, *command) -> list:
    return [str(arena.falaj), "launch", "--workers", "2", "--restarts", str(restarts), "--",
            *map(str, command)]


def peer(arena, restarts: int, *command) -> list:
    return [*TORCHRUN, "--max_restarts", str(restarts), "--log_dir", str(arena.work / "torchrun"),
            *map(str, command)]


def start(words: list, log: Path) -> subprocess.Popen:
    with log.open("ab") as out:
        return subprocess.Popen(words, stdout=out, stderr=out)
