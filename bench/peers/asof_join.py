"""usage: asof_join.py duckdb|duckdb-raw|polars FOLDER VIEWS FEATURES TTL_SECONDS

Joins a spine with views as DuckDB (ASOF LEFT JOIN) or Polars (join_asof) do it at their best: views
in memory and sorted beforehand, untimed; duckdb-raw reads the Parquet files within the timed query.
Each line of the input is a spine file, answered by a JSON line: seconds, those of processors, peak
memory, and a hash of every column in the order of the spine.
"""

import hashlib
import json
import resource
import sys
import time

import numpy


def hashes(columns):
    """columns: name → (values with 0 for null, validity)."""
    return {
        name: hashlib.sha256(values.tobytes() + valid.tobytes()).hexdigest()
        for name, (values, valid) in columns.items()
    }


class DuckDb:
    def __init__(self, folder, views, features, ttl, raw):
        import duckdb

        self.views, self.features, self.ttl = views, features, ttl
        self.db = duckdb.connect(config={"threads": 2})
        self.db.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = true")
        for view in range(views):
            kind, order = ("VIEW", "") if raw else ("TABLE", 'ORDER BY id, "at"')
            self.db.execute(
                f"CREATE {kind} view{view} AS SELECT * FROM "
                f"read_parquet('{folder}/view{view}.parquet') {order}"
            )

    def query(self):
        taken, joins = [], []
        for v in range(self.views):
            for f in range(self.features):
                value = f"v{v}.f{f}"
                if self.ttl:
                    value = (
                        f'CASE WHEN epoch_ns(s."at") - epoch_ns(v{v}."at") <= '
                        f"{self.ttl}000000000 THEN {value} END"
                    )
                taken.append(f"{value} AS view{v}__f{f}")
            joins.append(
                f"ASOF LEFT JOIN view{v} v{v} " f'ON s.id = v{v}.id AND s."at" >= v{v}."at"'
            )
        return (
            f"CREATE OR REPLACE TABLE joined AS SELECT s.n, {', '.join(taken)} FROM spine s "
            + " ".join(joins)
        )

    def load(self, spine):
        self.db.execute(
            'CREATE OR REPLACE TABLE spine AS SELECT file_row_number AS n, id, "at" FROM '
            f"read_parquet('{spine}', file_row_number = true)"
        )

    def join(self):
        self.db.execute(self.query())

    def columns(self):
        found = self.db.execute("SELECT * EXCLUDE (n) FROM joined ORDER BY n").to_arrow_table()
        return {name: as_numpy(found.column(name)) for name in found.column_names}


class Polars:
    def __init__(self, folder, views, features, ttl):
        import polars

        self.pl, self.ttl = polars, ttl
        self.views = []
        for view in range(views):
            frame = polars.read_parquet(f"{folder}/view{view}.parquet").sort("at")
            names = {f"f{f}": f"view{view}__f{f}" for f in range(features)}
            self.views.append(frame.rename(names))

    def load(self, spine):
        self.spine = self.pl.read_parquet(spine)  # Ascending by time already.

    def join(self):
        self.joined = self.spine
        for view in self.views:
            self.joined = self.joined.join_asof(
                view,
                on="at",
                by="id",
                strategy="backward",
                check_sortedness=False,
                tolerance=f"{self.ttl}s" if self.ttl else None,
            )

    def columns(self):
        found = self.joined.drop("id", "at").to_arrow()
        return {name: as_numpy(found.column(name)) for name in found.column_names}


def as_numpy(column):
    column = column.combine_chunks()
    return (
        column.fill_null(0).to_numpy(zero_copy_only=False),
        numpy.asarray(column.is_valid()).astype(numpy.uint8),
    )


def main():
    engine, folder = sys.argv[1], sys.argv[2]
    views, features, ttl = map(int, sys.argv[3:6])
    if engine == "polars":
        peer = Polars(folder, views, features, ttl)
    else:
        peer = DuckDb(folder, views, features, ttl, raw=engine == "duckdb-raw")
    for line in sys.stdin:
        peer.load(line.strip())
        begin, cpu = time.perf_counter(), time.process_time()
        peer.join()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        told = {"seconds": seconds, "cpu_seconds": cpu, "rss_mb": rss}
        print(json.dumps(told | {"hashes": hashes(peer.columns())}), flush=True)


if __name__ == "__main__":
    main()
