"""The point-in-time join against DuckDB's ASOF join and Polars' join_asof.

A spine of 1 M rows, 5 views of 10 features and 10 M rows, 100 k entities, a time to live of 30 d;
FALAJ_BENCH_SCALE (default 0.1) scales rows and entities. The peers hold the views in memory, sorted
beforehand; ours reads its segments from files, in clear (src/features/join_bench.cc). All answers
must have the same hash for every column, in the order of the spine, before a time counts.
tiny: 50 spine rows. raw: from Parquet files, our sorting and writing of segments included.
"""

import json
import os
import shutil
import subprocess

from arena import Refused

TITLE = "point-in-time join, 5 views of 10 features, against DuckDB and Polars"
SCALE = float(os.environ.get("FALAJ_BENCH_SCALE", "0.1"))
SPINE, VIEW_ROWS, ENTITIES = int(1e6 * SCALE), int(1e7 * SCALE), int(1e5 * SCALE)
VIEWS, FEATURES, TTL_SECONDS = 5, 10, 30 * 86_400


class Engine:
    """A process that joins the spine of each line that it is told."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def join(self, spine) -> dict:
        self.process.stdin.write(f"{spine}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Refused(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Race:
    def __init__(self, arena):
        self.folder = arena.work / "features"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        subprocess.run([arena.root / "tools/peers", "race"], check=True)
        python = arena.root / "build/race_peers/bin/python"
        peers = arena.root / "bench/peers"
        subprocess.run(
            [
                python,
                peers / "make_views.py",
                self.folder,
                *map(str, (SPINE, VIEWS, FEATURES, VIEW_ROWS, ENTITIES)),
            ],
            check=True,
        )
        bench = arena.built("join_bench", "src/features/join_bench")
        self.imported = arena.run_json(
            bench, "import", self.folder, *(self.folder / f"view{i}.parquet" for i in range(VIEWS))
        )["seconds"]
        self.engines = {"ours": Engine(bench, "join", self.folder, TTL_SECONDS, 4096)}
        for name in ("duckdb", "polars"):
            self.engines[name] = Engine(
                python, peers / "asof_join.py", name, self.folder, VIEWS, FEATURES, TTL_SECONDS
            )
        raw = Engine(
            python, peers / "asof_join.py", "duckdb-raw", self.folder, VIEWS, FEATURES, TTL_SECONDS
        )
        self.raw = raw.join(self.folder / "spine.parquet")
        raw.close()
        self.turn = 0

    def all_join(self, spine: str) -> dict:
        """Everybody in turn, in an order that changes; equal answers or none counts."""
        self.turn += 1
        names = list(self.engines) if self.turn % 2 else list(self.engines)[::-1]
        told = {name: self.engines[name].join(self.folder / spine) for name in names}
        for name in names:
            if told[name]["hashes"] != told["ours"]["hashes"]:
                wrong = [
                    c for c, h in told["ours"]["hashes"].items() if told[name]["hashes"].get(c) != h
                ]
                raise Refused(f"{spine}: {name} answers otherwise in {wrong[:5]}")
        return told


RACE = None


def measure(arena) -> dict:
    global RACE
    RACE = RACE or Race(arena)
    told = RACE.all_join("spine.parquet")
    tiny = RACE.all_join("tiny.parquet")
    if RACE.raw["hashes"] != told["ours"]["hashes"]:
        raise Refused("duckdb on the raw files answers otherwise")
    ours, seconds = told["ours"], {name: one["seconds"] for name, one in told.items()}
    raw = RACE.imported + ours["seconds"]
    return {
        "join_s": ours["seconds"],
        "duckdb_s": seconds["duckdb"],
        "polars_s": seconds["polars"],
        "x_duckdb": seconds["duckdb"] / ours["seconds"],
        "x_polars": seconds["polars"] / ours["seconds"],
        "rss_mb": ours["rss_mb"],
        "duckdb_rss_mb": told["duckdb"]["rss_mb"],
        "tiny_ms": tiny["ours"]["seconds"] * 1e3,
        "tiny_duckdb_ms": tiny["duckdb"]["seconds"] * 1e3,
        "tiny_x_duckdb": tiny["duckdb"]["seconds"] / tiny["ours"]["seconds"],
        "raw_s": raw,
        "raw_duckdb_s": RACE.raw["seconds"],
        "raw_x_duckdb": RACE.raw["seconds"] / raw,
    }
