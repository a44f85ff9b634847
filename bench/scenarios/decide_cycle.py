"""The scheduler's decision cycle in a large cluster: everything at once, then cycle after cycle in
which a hundred jobs came and went, with reasons and start times, on one thread.
"""

import json
import subprocess

TITLE = "decision cycle: 10 000 nodes, 80 000 GPUs, 1 000 queues, 100 000 waiting pods"
CYCLES = 200
FIGURES = ("cold_s", "cycle_median_s", "cycle_p99_s", "pods_per_s", "rss_mb")


def measure(arena) -> dict:
    subprocess.run(["ninja", "-C", arena.build, "scheduler_bench"], check=True, capture_output=True)
    program = arena.build / "src/scheduler/scheduler_bench"
    reply = json.loads(
        subprocess.run([program, str(CYCLES)], check=True, capture_output=True).stdout)
    return {name: reply[name] for name in FIGURES}
