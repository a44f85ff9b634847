"""usage: window_sql.py joined|framed|unrolled FOLDER DAYS...

Aggregates the events in windows before each row of a spine as DuckDB does it: the events in memory,
sorted by key and time beforehand, untimed. Three ways to write it, the best of which is the peer:
joined: the spine joined with its longest windows by range, shorter ones by FILTER.
framed: spine and events in one relation, a window frame for each length.
unrolled: a join by range and a GROUP BY for each length.
Each line of the input is a spine file, answered by a JSON line: seconds, those of processors, peak
memory, and a hash of every column in the order of the spine.
"""

import json
import resource
import sys
import time

import duckdb
from asof_join import as_numpy, hashes

DAY = 86_400_000_000_000
FUNCTIONS = {"count": "count(*)", "sum": "sum(f0)", "mean": "avg(f0)", "min": "min(f0)"}
FUNCTIONS |= {"max": "max(f0)"}


def joined(windows):
    longest = max(windows)
    taken = [
        f"{f.replace('(*)', '(e.t)')} FILTER (e.t > s.t - {d * DAY}) AS w{d}_{name}"
        for d in windows
        for name, f in FUNCTIONS.items()
    ]
    return (
        f"SELECT s.n, {', '.join(taken)} FROM spine s LEFT JOIN events e ON s.id = e.id "
        f"AND e.t <= s.t AND e.t > s.t - {longest * DAY} GROUP BY s.n"
    )


def framed(windows):
    # What is a row of the spine counts for nothing; one without time is no event.
    taken = [
        f"{f.replace('(*)', '(f0)')} OVER w{d} AS w{d}_{name}"
        for d in windows
        for name, f in FUNCTIONS.items()
    ]
    frames = [
        f"w{d} AS (PARTITION BY id ORDER BY t RANGE BETWEEN {d * DAY - 1} PRECEDING "
        "AND CURRENT ROW)"
        for d in windows
    ]
    return (
        f"SELECT * EXCLUDE (id, t, f0) FROM (SELECT *, {', '.join(taken)} FROM "
        "(SELECT NULL::BIGINT AS n, id, t, f0 FROM events UNION ALL "
        "SELECT n, id, t, NULL FROM spine) "
        f"WINDOW {', '.join(frames)}) WHERE n IS NOT NULL"
    )


def unrolled(windows):
    parts = []
    for d in windows:
        taken = ", ".join(
            f"{f.replace('(*)', '(e.t)')} AS w{d}_{name}" for name, f in FUNCTIONS.items()
        )
        parts.append(
            f"(SELECT s.n, {taken} FROM spine s LEFT JOIN events e ON s.id = e.id "
            f"AND e.t <= s.t AND e.t > s.t - {d * DAY} GROUP BY s.n) g{d}"
        )
    return f"SELECT * FROM {parts[0]} " + " ".join(f"JOIN {p} USING (n)" for p in parts[1:])


def main():
    way, folder = globals()[sys.argv[1]], sys.argv[2]
    windows = list(map(int, sys.argv[3:]))
    db = duckdb.connect(config={"threads": 2})
    db.execute("SET TimeZone = 'UTC'")
    db.execute(
        'CREATE TABLE events AS SELECT id, epoch_ns("at") AS t, f0 FROM '
        f"read_parquet('{folder}/view0.parquet') ORDER BY id, t"
    )
    for line in sys.stdin:
        db.execute(
            "CREATE OR REPLACE TABLE spine AS SELECT file_row_number AS n, id, "
            f"epoch_ns(\"at\") AS t FROM read_parquet('{line.strip()}', file_row_number = true)"
        )
        begin, cpu = time.perf_counter(), time.process_time()
        db.execute(f"CREATE OR REPLACE TABLE answer AS {way(windows)}")
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        names = ", ".join(f"w{d}_{name}" for d in windows for name in FUNCTIONS)
        found = db.sql(f"SELECT {names} FROM answer ORDER BY n").to_arrow_table()
        columns = {name: as_numpy(found.column(name)) for name in found.column_names}
        told = {"seconds": seconds, "cpu_seconds": cpu, "rss_mb": rss}
        print(json.dumps(told | {"hashes": hashes(columns)}), flush=True)


if __name__ == "__main__":
    main()
