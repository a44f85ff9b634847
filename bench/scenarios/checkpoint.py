"""How long training stands still for a checkpoint of 200 MB: our keeper against torch.save.

Ours is copied into a file in memory by a thread, while the next step looks for its gradients
(`falaj checkpoints saver`); `falaj checkpoints keep` persists it with hashes and fsync while
training goes on. The peer is torch.save to the same disk, without fsync. Both are read back from
the disk, and must be what the worker had. The figure is how long the training thread stood still;
further ones: slower_ms, how much longer the step took beside which it was copied than the one
before, and plain_ms, the stall of an unchanged torch.save into $FALAJ_CKPT_DIR.
Needs a Python with torch: FALAJ_TORCH_PYTHON, default python3 (Debian: python3-torch).
"""

import hashlib
import json
import os
import statistics
import subprocess
import time

from arena import Refused

TITLE = "stall of a 200 MB checkpoint: falaj checkpoints keep against torch.save"
UNIT = "ms"
PYTHON = os.environ.get("FALAJ_TORCH_PYTHON", "python3")
READ = "import torch, sys\nfor t in torch.load(sys.argv[1]).values(): " \
       "sys.stdout.buffer.write(t.numpy().tobytes())"


def check_torch():
    found = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, text=True)
    if found.returncode != 0:
        raise Refused(f"{PYTHON} has no torch; install it or set FALAJ_TORCH_PYTHON")


class Worker:
    def __init__(self, arena, how, prefix=()):
        check_torch()
        self.arena, self.how = arena, how
        self.folder = arena.work / f"checkpoints-{how}"
        self.folder.mkdir()
        script = arena.root / "bench/peers/checkpoint_worker.py"
        words = [*prefix, PYTHON, script, how, self.folder]
        self.process = subprocess.Popen([str(w) for w in words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True)
        self.number, self.slower_ms = 0, []

    @property
    def extra(self) -> dict:
        return {"slower_ms": statistics.median(self.slower_ms[1:])}

    def round(self):
        self.number += 1
        self.process.stdin.write("save\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Refused(f"the {self.how} worker ended with {self.process.wait()}")
        said = json.loads(line)
        if self.read_back() != said["sha256"]:
            raise Refused(f"{self.how}: what lies on disk is not what was saved")
        self.slower_ms.append(said["slower"] * 1e3)
        return said["stall"] * 1e3, said["sha256"]

    def read_back(self) -> str:
        return self.digest_of_pickle(self.folder / f"save{self.number}")

    def digest_of_pickle(self, path) -> str:
        out = subprocess.run([PYTHON, "-c", READ, str(path)], capture_output=True, check=True)
        return hashlib.sha256(out.stdout).hexdigest()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=120)


class KeptWorker(Worker):
    def __init__(self, arena, how):
        archive = arena.work / f"checkpoints-{how}-kept"
        super().__init__(arena, how, (arena.falaj, "checkpoints", "keep", archive, "--"))
        self.archive = archive

    def read_back(self) -> str:
        path = self.newest()
        if self.how == "plain":
            return self.digest_of_pickle(path)
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def newest(self) -> str:
        """Where the save of this round lies, once it is persisted."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            done = subprocess.run([self.arena.falaj, "checkpoints", "restore", str(self.archive),
                                   "-o", "json"], capture_output=True, text=True)
            found = json.loads(done.stdout) if done.returncode == 0 else {}
            if found.get("name") == f"save{self.number}":
                return found["path"]
            time.sleep(0.05)
        raise Refused(f"{self.how}: save{self.number} was not persisted within a minute")


class Ours(KeptWorker):
    """The quick way, and beside it what an unchanged script gets."""

    def __init__(self, arena):
        super().__init__(arena, "behind")
        self.plain, self.plain_ms = KeptWorker(arena, "plain"), []

    def round(self):
        self.plain_ms.append(self.plain.round()[0])
        return super().round()

    @property
    def extra(self) -> dict:
        return super().extra | {"plain_ms": statistics.median(self.plain_ms[1:])}

    def close(self):
        self.plain.close()
        super().close()


def ours(arena):
    return Ours(arena)


def peer(arena):
    return Worker(arena, "torch")
