"""The whole walk, from an empty folder to a promoted model."""

import time

from arena import Refused

TITLE = "falaj demo from an empty folder"
ROUNDS = 1


def measure(arena) -> dict:
    begin = time.perf_counter()
    server = arena.serve(arena.falaj, "dev", "--data", arena.work / "data", "--port", 0,
                         "--grpc-port", 0)
    told = arena.run_json(arena.falaj, "demo", "--server", server.url, "-o", "json")
    seconds = time.perf_counter() - begin
    if not told.get("promoted_version"):
        raise Refused(f"the demo promoted no version: {told}")
    return {"seconds": seconds, "rss_at_end_mb": server.rss_megabytes()}
