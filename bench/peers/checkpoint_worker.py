"""A training process with 200 MB of weights, for bench/scenarios/checkpoint.py.

usage: checkpoint_worker.py behind|plain|torch|synced FOLDER

For every line on standard input it trains a step, saves, trains another, and prints one JSON line:
how long the training thread stood still for saving, how much longer than the step before the step
took during which it was saved, and the hash of what it had. `torch` is torch.save into FOLDER,
`synced` the same with an fsync. The others save into $FALAJ_CKPT_DIR: `plain` by torch.save and a
rename, `behind` by checkpoint_saver.py.
"""

import hashlib
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../src/cli/texts"))
from checkpoint_saver import Saver, state_bytes  # noqa: E402

LAYERS, WIDTH, BATCH = 25, 1414, 8  # 25 of 8 MB


class Behind(Saver):
    def __init__(self, folder: str, state: dict):
        super().__init__(folder, state_bytes(state))


class TorchSaver:
    def __init__(self, folder: str, _state: dict):
        self.folder = folder

    def save(self, name: str, state: dict) -> None:
        staged = f"{self.folder}/{name}.tmp"
        torch.save(state, staged)
        self.sync(staged)
        os.rename(staged, f"{self.folder}/{name}")

    def sync(self, staged: str) -> None:
        pass

    def fence(self) -> None:
        pass


class SyncedSaver(TorchSaver):
    def sync(self, staged: str) -> None:
        file = os.open(staged, os.O_RDONLY)
        os.fsync(file)
        os.close(file)


SAVERS = {"behind": Behind, "plain": TorchSaver, "torch": TorchSaver, "synced": SyncedSaver}


def digest(state: dict) -> str:
    whole = hashlib.sha256()
    for tensor in state.values():
        whole.update(memoryview(tensor.numpy()).cast("B"))
    return whole.hexdigest()


def main(how: str, folder: str) -> None:
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers)
    state = {name: value.detach() for name, value in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(BATCH, WIDTH)
    target = os.environ["FALAJ_CKPT_DIR"] if how in ("behind", "plain") else folder
    saver = SAVERS[how](target, state)

    def gradients() -> float:
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        return time.perf_counter() - begin

    for number, _ in enumerate(sys.stdin, 1):
        quiet = gradients()
        optimizer.step()
        had = digest(state)
        begin = time.perf_counter()
        saver.save(f"save{number}", state)
        stall = time.perf_counter() - begin
        busy = gradients()
        begin = time.perf_counter()
        saver.fence()
        stall += time.perf_counter() - begin
        optimizer.step()
        print(json.dumps({"stall": stall, "slower": busy - quiet, "sha256": had}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
