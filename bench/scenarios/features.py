"""The point-in-time join against DuckDB's ASOF join and Polars' join_asof.

A spine of 1 M rows, 5 views of 10 features and 10 M rows, 100 k entities, a time to live of 30 d;
FALAJ_BENCH_SCALE (default 0.1) scales rows and entities. The peers hold the views in memory, sorted
beforehand; ours reads its segments from files, in clear (src/features/join_bench.cc). All answers
must have the same hash for every column, in the order of the spine, before a time counts.
tiny: 50 spine rows. raw: from Parquet files, our sorting and writing of segments included.
"""

import os
import shutil
import subprocess

from arena import Engine, Refused

TITLE = "point-in-time join, 5 views of 10 features, against DuckDB and Polars"
SCALE = float(os.environ.get("FALAJ_BENCH_SCALE", "0.1"))
SPINE, VIEW_ROWS, ENTITIES = int(1e6 * SCALE), int(1e7 * SCALE), int(1e5 * SCALE)
VIEWS, FEATURES, TTL_SECONDS = 5, 10, 30 * 86_400


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
        )
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
    raw = RACE.imported["seconds"] + ours["seconds"]
    raw_cpu = RACE.imported["cpu_seconds"] + ours["cpu_seconds"]
    return {
        "join_s": ours["seconds"],
        "duckdb_s": seconds["duckdb"],
        "polars_s": seconds["polars"],
        "x_duckdb": seconds["duckdb"] / ours["seconds"],
        "x_polars": seconds["polars"] / ours["seconds"],
        "cpu_s": ours["cpu_seconds"],
        "x_duckdb_cpu": told["duckdb"]["cpu_seconds"] / ours["cpu_seconds"],
        "x_polars_cpu": told["polars"]["cpu_seconds"] / ours["cpu_seconds"],
        "rss_mb": ours["rss_mb"],
        "duckdb_rss_mb": told["duckdb"]["rss_mb"],
        "tiny_ms": tiny["ours"]["seconds"] * 1e3,
        "tiny_duckdb_ms": tiny["duckdb"]["seconds"] * 1e3,
        "tiny_x_duckdb": tiny["duckdb"]["seconds"] / tiny["ours"]["seconds"],
        "raw_s": raw,
        "raw_duckdb_s": RACE.raw["seconds"],
        "raw_x_duckdb": RACE.raw["seconds"] / raw,
        "raw_x_duckdb_cpu": RACE.raw["cpu_seconds"] / raw_cpu,
    }
