"""Our scheduling policy against the baselines on one history, in one process.

FALAJ_TRACE names the history: the first half of the public Philly table, for which the limits
stand, or a CSV of `falaj simulate generate`. FALAJ_NODES (60) sets the size of the fleet. The
figures are ratios: under 1 ours is smaller.
"""

import json
import os
import subprocess

from arena import Refused

TITLE = "scheduling: our policy against the baselines on one history"


def replay(arena) -> dict:
    trace = os.environ.get("FALAJ_TRACE")
    if not trace:
        raise Refused("set FALAJ_TRACE to a CSV of jobs; `falaj simulate generate` makes one up")
    nodes = os.environ.get("FALAJ_NODES", "60")
    words = ["simulate", "--trace", trace, "--nodes", nodes, "-o", "json"]
    done = subprocess.run([str(arena.falaj), *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(arena) -> dict:
    reply = replay(arena)
    ours = next(p for p in reply["policies"] if p["policy"] == "falaj")
    ratios = reply["ratios_of_falaj"]
    figures = {
        "jct_to_las": ratios["las"]["jct_mean"],
        "jct_to_las_decades": ratios["las_decades"]["jct_mean"],
        "jct_to_greedy": ratios["greedy_fifo"]["jct_mean"],
        "jct_to_easy": ratios["easy_backfill_oracle"]["jct_mean"],
        "jct_to_srsf": ratios["srsf_oracle"]["jct_mean"],
        "p99_to_las": ratios["las"]["jct_p99"],
        "large_to_greedy": ratios["greedy_fifo"]["large_slowdown"],
        "preemptions_per_job": ours["preemptions_per_job"],
        "jain": ours["jain"],
        "replay_s": max(p["replay_seconds"] for p in reply["policies"]),
    }
    return figures
