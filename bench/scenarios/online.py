"""Online reads over HTTP and JSON against `feast serve` with its SQLite store: the same requests in
Feast's own form, 50 features of 5 views, one key each, 16 keep-alive clients.

FALAJ_ONLINE_KEYS=1000000 makes the tables large; the peer then needs hours to fill its own.
"""

import os
import random

from arena import call
from scenarios.predict import Contestant

TITLE = "online features, 50 of 5 views, 16 keep-alive clients, against feast serve (SQLite)"
UNIT = "req/s"
TOLERANCE = 1e-12
KEYS = int(os.environ.get("FALAJ_ONLINE_KEYS", "2000"))
VIEWS, FEATURES, REQUESTS = 5, 10, 2000


def thing(kind, name, **spec):
    return {"apiVersion": "falaj.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def objects():
    made = [
        thing("Entity", "key", keys=[{"name": "key", "type": "int64"}]),
        thing("FeatureService", "all", features=[f"view{view}" for view in range(VIEWS)]),
        thing("Source", "tables", format="parquet", path="x.parquet", event_time="event_timestamp"),
    ]
    for view in range(VIEWS):
        names = [f"v{view}_f{feature}" for feature in range(FEATURES)]
        features = [{"name": name, "type": "float64"} for name in names]
        made.append(
            thing(
                "FeatureView",
                f"view{view}",
                entity="key",
                source="tables",
                ttl="365d",
                features=features,
            )
        )
    return made


def values_of(reply):
    """Feature → value, whatever the order of the columns."""
    names = reply["metadata"]["feature_names"]
    return {name: result["values"] for name, result in zip(names, reply["results"])}


def bodies():
    chosen = random.Random(11)
    return [
        {"feature_service": "all", "entities": {"key": [chosen.randrange(KEYS)]}}
        for _ in range(REQUESTS)
    ]


def tables_of(arena):
    folder = arena.work / "tables"
    if not folder.exists():
        folder.mkdir(parents=True)
        arena.run_json(
            "bash",
            "-c",
            f"'{arena.python}' '{arena.root}/bench/peers/make_online.py' "
            f"'{folder}' {KEYS} && echo '{{}}'",
        )
    return folder


def ours(arena):
    folder = tables_of(arena)
    server = arena.serve(
        arena.falaj, "dev", "--data", arena.work / "data", "--port", 0, "--grpc-port", 0
    )
    call(server.url + "/api/v1/objects", {"objects": objects()}, "PUT")
    for view in range(VIEWS):
        arena.run_json(
            arena.falaj,
            "ingest",
            f"view{view}",
            "-f",
            folder / f"view{view}.parquet",
            "--server",
            server.url,
            "-o",
            "json",
        )
    return Contestant(arena, server, "/get-online-features", bodies(), values_of)


def peer(arena):
    folder = tables_of(arena)
    python = arena.root / "build/feast_peers/bin/python"
    server = arena.serve(python, "-W", "ignore", arena.root / "bench/peers/feast_server.py", folder)
    return Contestant(arena, server, "/get-online-features", bodies(), values_of)
