"""A training script as people write it: DDP over gloo, a checkpoint every step, 75 on SIGTERM.

usage: ddp.py FOLDER [PAUSE_AT]

At step PAUSE_AT every worker prints its pid and waits for the file FOLDER/go, so that a test can do
something to it at a known moment. State is kept in FOLDER or, where there is one, in
$FALAJ_CKPT_DIR; the curve goes to $FALAJ_METRICS too. The batch is split among however many workers
there are, so the curve of losses does not depend on their number.
"""

import json
import os
import signal
import sys
import threading

import torch
import torch.distributed as dist

STEPS, ROWS, COLUMNS = 10, 16, 4
noticed = False


def on_term(_signal, _frame):
    global noticed
    noticed = True


def batch(step):
    random = torch.Generator().manual_seed(1000 + step)
    x = torch.randn(ROWS, COLUMNS, generator=random, dtype=torch.float64)
    return x, x @ torch.arange(1.0, COLUMNS + 1, dtype=torch.float64)


def save(path, state):
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def report(metric, step, value):
    if "FALAJ_METRICS" in os.environ:
        with open(os.environ["FALAJ_METRICS"], "a") as file:
            file.write(json.dumps({"metric": metric, "step": step, "value": value}) + "\n")


def hold(folder):
    print("holding", os.getpid(), flush=True)
    never = threading.Event()
    while not os.path.exists(os.path.join(folder, "go")) and not noticed:
        never.wait(0.02)


def main(folder, pause_at):
    signal.signal(signal.SIGTERM, on_term)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    model = torch.nn.Linear(COLUMNS, 1).double()
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    kept = os.environ.get("FALAJ_CKPT_DIR")
    path, step = os.path.join(kept or folder, "state.pt"), 0
    restored = os.environ.get("FALAJ_CKPT_RESTORE", "") if kept else path
    if os.path.exists(restored):
        state = torch.load(restored)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    print("from step", step, "of world", world, flush=True)
    while step < STEPS:
        x, y = batch(step)
        loss = ((ddp(x[rank::world]).squeeze(1) - y[rank::world]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        told = torch.stack([loss.detach() / world, torch.tensor(float(noticed)).double()])
        dist.all_reduce(told)
        if rank == 0:
            save(path, {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "step": step})
            print("loss", step, repr(told[0].item()), flush=True)
            report("loss", step, told[0].item())
        if told[1] > 0:
            dist.barrier()
            sys.exit(75)
        if step == pause_at:
            hold(folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1)
