"""A PyTorch training script that `falaj train advise` can try: the contract in a few lines."""

import contextlib
import json
import os
import time

import torch
import torch.distributed as dist

params = json.loads(os.environ["FALAJ_PARAMS"])
steps = int(os.environ.get("FALAJ_ADVISE_STEPS", "20"))
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
dist.init_process_group("gloo")
own = params["batch"] // dist.get_world_size()
model = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
lower = params["precision"] == "bf16"
for step in range(1, steps + 1):
    x = torch.randn(own, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16) if lower else contextlib.nullcontext():
        loss = (ddp(x).squeeze(1) - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if "FALAJ_ADVISE_REPORT" in os.environ:
        with open(os.environ["FALAJ_ADVISE_REPORT"], "a") as report:
            line = {"step": step, "samples": own, "at": time.monotonic()}
            report.write(json.dumps(line) + "\n")
print("trained", steps, "steps with", params, flush=True)
