"""A training process with 200 MB of state, for bench/scenarios/checkpoint.py.

usage: checkpoint_worker.py buffers|plain|torch FOLDER

For every line on standard input it changes the state a little, saves it, and prints one JSON line:
how long the training thread stood still, and the hash of what it had. `torch` is torch.save into
FOLDER. The others save into $FALAJ_CKPT_DIR: `plain` by torch.save and a rename, `buffers` by a
copy into one of two files in memory that live as long as the process, and a link to it.
"""

import hashlib
import json
import mmap
import os
import sys
import time

import torch

TENSORS, SIZE = 25, 2_000_000  # 25 of 8 MB


class Buffer:
    """A file in memory whose pages stay. It is free when nobody else holds a link to it."""

    def __init__(self, path: str, size: int):
        self.path = path
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.truncate(self.file, size)
        self.view = torch.frombuffer(mmap.mmap(self.file, size), dtype=torch.float32)
        self.view.zero_()

    def free(self) -> bool:
        return os.fstat(self.file).st_nlink == 1


class BufferSaver:
    def __init__(self, folder: str):
        self.folder = folder
        self.buffers = [Buffer(f"{folder}/.buffer{i}", TENSORS * SIZE * 4) for i in range(2)]

    def save(self, state: dict, number: int) -> None:
        while not (free := [b for b in self.buffers if b.free()]):
            time.sleep(0.001)  # Two saves wait for the disk: this one has to, too.
        at = 0
        for tensor in state.values():
            free[0].view[at : at + tensor.numel()].copy_(tensor)
            at += tensor.numel()
        staged = f"{self.folder}/save{number}.tmp"
        os.link(free[0].path, staged)
        os.rename(staged, f"{self.folder}/save{number}")


class TorchSaver:
    def __init__(self, folder: str):
        self.folder = folder

    def save(self, state: dict, number: int) -> None:
        staged = f"{self.folder}/save{number}.tmp"
        torch.save(state, staged)
        os.rename(staged, f"{self.folder}/save{number}")


def digest(state: dict) -> str:
    whole = hashlib.sha256()
    for tensor in state.values():
        whole.update(memoryview(tensor.numpy()).cast("B"))
    return whole.hexdigest()


def main(how: str, folder: str) -> None:
    torch.manual_seed(1)
    state = {f"layer{i}": torch.rand(SIZE) for i in range(TENSORS)}
    target = folder if how == "torch" else os.environ["FALAJ_CKPT_DIR"]
    saver = BufferSaver(target) if how == "buffers" else TorchSaver(target)
    for number, _ in enumerate(sys.stdin, 1):
        state["layer0"].add_(1)
        begin = time.perf_counter()
        saver.save(state, number)
        stall = time.perf_counter() - begin
        print(json.dumps({"stall": stall, "sha256": digest(state)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
