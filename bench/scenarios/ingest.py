"""Ingest of a Parquet file against pandas -> SQLite: rows a second, from the file to readable rows.

Ours validates every row, sorts, writes durable segments and publishes the newest row of each key;
the peer reads the file and fills a table. Both must then know the same rows, keys and newest time.
"""

import subprocess
import time
from datetime import datetime

from arena import call

TITLE = "ingest of one Parquet file of 1,000,000 rows, against pandas to SQLite"
UNIT = "rows/s"
ROWS = 1_000_000
PROJECT = "bench"
VIEW_SPEC = {
    "entity": "customer", "source": "payments", "ttl": "3650d",
    "features": [{"name": "amount", "type": "float64", "expect": {"min": 0}},
                 {"name": "merchant_risk", "type": "float64", "expect": {"min": 0, "max": 1}},
                 {"name": "items", "type": "int64", "expect": {"min": 1}}]}


def transactions(arena):
    """The same file for both, made once."""
    file = arena.work / "transactions.parquet"
    if not file.exists():
        subprocess.run([str(arena.python), str(arena.root / "bench/peers/make_transactions.py"),
                        str(file), str(ROWS)], check=True)
    return file


def declared(kind: str, name: str, spec: dict) -> dict:
    metadata = {"name": name} if kind in ("Zone", "Project") else {"name": name, "project": PROJECT}
    return {"apiVersion": "falaj.dev/v1", "kind": kind, "metadata": metadata, "spec": spec}


class Ours:
    """A fresh view each round, so that every round does the same work."""

    def __init__(self, arena):
        self.file = transactions(arena)
        self.server = arena.serve(arena.falaj, "dev", "--data", arena.work / "data", "--port", 0,
                                  "--grpc-port", 0)
        self.count = 0
        self.apply(declared("Zone", "bench-zone", {}),
                   declared("Project", PROJECT, {"zone": "bench-zone"}),
                   declared("Entity", "customer", {"keys": [{"name": "customer_id",
                                                             "type": "int64"}]}),
                   declared("Source", "payments", {"format": "parquet", "path": "t.parquet",
                                                   "event_time": "at",
                                                   "created_time": "loaded_at"}))

    def apply(self, *objects):
        call(f"{self.server.url}/api/v1/objects?project={PROJECT}", {"objects": list(objects)},
             "PUT")

    def round(self):
        self.count += 1
        view = f"payments_{self.count}"
        self.apply(declared("FeatureView", view, VIEW_SPEC))
        url = f"{self.server.url}/api/v1/feature-views/{view}:ingest?format=parquet"
        begin = time.perf_counter()
        subprocess.run(["curl", "-sSf", "-o", "/dev/null", "-X", "POST", "-T", str(self.file),
                        f"{url}&project={PROJECT}"], check=True)
        seconds = time.perf_counter() - begin
        stats = call(f"{self.server.url}/api/v1/feature-views?project={PROJECT}")["views"]
        mine = next(s for s in stats if s["view"] == view)
        newest = datetime.fromisoformat(mine["newest_event"]).timestamp()
        answer = {"rows": mine["rows"], "keys": mine["keys_online"], "newest": newest}
        return ROWS / seconds, answer

    def close(self):
        pass


class Peer:
    def __init__(self, arena):
        self.arena, self.file = arena, transactions(arena)

    def round(self):
        database = self.arena.work / "peer.db"
        database.unlink(missing_ok=True)
        told = self.arena.run_json(self.arena.python,
                                   self.arena.root / "bench/peers/pandas_to_sqlite.py",
                                   self.file, database)
        return ROWS / told["seconds"], told["answer"]

    def close(self):
        pass


def ours(arena):
    return Ours(arena)


def peer(arena):
    return Peer(arena)
