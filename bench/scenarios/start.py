"""Start, idle memory, help and stop: what a person feels before any work is done."""

import subprocess
import time

from arena import call

TITLE = "start to ready, idle memory, --help, stop on SIGTERM"


def seconds_of(*command) -> float:
    begin = time.perf_counter()
    subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def start_and_stop(arena, data) -> tuple[float, float, float]:
    """Returns start in ms, idle memory in MB, stop in ms."""
    server = arena.serve(arena.falaj, "dev", "--data", data, "--port", 0, "--grpc-port", 0)
    call(server.url + "/version")
    memory = server.rss_megabytes()
    return server.ready_seconds * 1e3, memory, server.stop() * 1e3


def measure(arena) -> dict:
    measure.count = getattr(measure, "count", 0) + 1
    data = arena.work / f"data-{measure.count}"
    help_ms = seconds_of(arena.falaj, "--help") * 1e3
    first_ms, _, first_stop_ms = start_and_stop(arena, data)  # From an empty folder.
    again_ms, memory, again_stop_ms = start_and_stop(arena, data)
    return {"ready_ms": max(first_ms, again_ms), "idle_rss_mb": memory, "help_ms": help_ms,
            "stop_ms": max(first_stop_ms, again_stop_ms)}
