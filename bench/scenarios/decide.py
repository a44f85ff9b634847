"""One authorization decision in a large firm's policy: 10 000 grants, 500 groups, 200 projects."""

import json
import subprocess

TITLE = "authorization decision: 10 000 grants, 500 groups, 200 projects"


def measure(arena) -> dict:
    subprocess.run(["ninja", "-C", arena.build, "decide_bench"], check=True, capture_output=True)
    program = arena.build / "src/security/decide_bench"
    reply = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    return {"p50_us": reply["p50_us"], "p99_us": reply["p99_us"], "p999_us": reply["p999_us"]}
