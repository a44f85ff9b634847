"""Aggregates over windows against DuckDB.

Count, sum, mean, min and max over 1, 7, 30 and 90 days before each row of a spine: 20 aggregates,
over 50 M events of 500 k entities in a year, for 1 M spine rows; FALAJ_BENCH_SCALE (default 0.02)
scales all three. The peer holds the events in memory, sorted by key and time beforehand; ours reads
its segments from files, in clear (src/features/join_bench.cc). The peer is asked in three ways
(bench/peers/window_sql.py) and counted by the quickest of them. All answers must have the same hash
for every column, in the order of the spine, before a time counts.
"""

import os
import shutil
import subprocess

from arena import Engine, Refused

TITLE = "20 aggregates over windows, against DuckDB"
SCALE = float(os.environ.get("FALAJ_BENCH_SCALE", "0.02"))
SPINE, EVENTS, ENTITIES = int(1e6 * SCALE), int(5e7 * SCALE), int(5e5 * SCALE)
DAYS = (1, 7, 30, 90)
WAYS = ("joined", "framed", "unrolled")


class Race:
    def __init__(self, arena):
        self.folder = arena.work / "windows"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.spine = self.folder / "spine.parquet"
        subprocess.run([arena.root / "tools/peers", "race"], check=True)
        python = arena.root / "build/race_peers/bin/python"
        peers = arena.root / "bench/peers"
        sizes = map(str, (SPINE, EVENTS, ENTITIES))
        subprocess.run([python, peers / "make_events.py", self.folder, *sizes], check=True)
        bench = arena.built("join_bench", "src/features/join_bench")
        arena.run_json(bench, "import", self.folder, self.folder / "view0.parquet")
        self.engines = {"ours": Engine(bench, "windows", self.folder, 4096, *DAYS)}
        told = {}
        for way in WAYS:
            engine = Engine(python, peers / "window_sql.py", way, self.folder, *DAYS)
            told[way] = engine.join(self.spine)
            if way == WAYS[0] or told[way]["seconds"] < told[self.way]["seconds"]:
                if "duckdb" in self.engines:
                    self.engines["duckdb"].close()
                self.engines["duckdb"], self.way = engine, way
            else:
                engine.close()
        ours = self.engines["ours"].join(self.spine)
        for way in WAYS:
            check(ours, told[way], way)
        self.turn = 0


def check(ours: dict, peer: dict, way: str):
    if peer["hashes"] != ours["hashes"]:
        wrong = [c for c, h in ours["hashes"].items() if peer["hashes"].get(c) != h]
        raise Refused(f"duckdb ({way}) answers otherwise in {wrong[:5]}")


RACE = None


def measure(arena) -> dict:
    global RACE
    RACE = RACE or Race(arena)
    RACE.turn += 1
    names = list(RACE.engines) if RACE.turn % 2 else list(RACE.engines)[::-1]
    told = {name: RACE.engines[name].join(RACE.spine) for name in names}
    ours, duckdb = told["ours"], told["duckdb"]
    check(ours, duckdb, RACE.way)
    return {
        "windows_s": ours["seconds"],
        "duckdb_s": duckdb["seconds"],
        "x_duckdb": duckdb["seconds"] / ours["seconds"],
        "cpu_s": ours["cpu_seconds"],
        "duckdb_cpu_s": duckdb["cpu_seconds"],
        "x_duckdb_cpu": duckdb["cpu_seconds"] / ours["cpu_seconds"],
        "rss_mb": ours["rss_mb"],
        "duckdb_rss_mb": duckdb["rss_mb"],
    }
