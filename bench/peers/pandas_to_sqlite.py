"""The usual way to load a table without a platform: pandas reads Parquet and writes to SQLite.

usage: pandas_to_sqlite.py FILE.parquet DATABASE
Prints {"seconds": s, "answer": {...}}: the time from opening the file to the committed table, and
what a reader then finds: rows, distinct customers, newest event time in seconds.
"""

import json
import sqlite3
import sys
import time
from datetime import datetime

import pandas


def main():
    file, database = sys.argv[1:]
    begin = time.perf_counter()
    connection = sqlite3.connect(database)
    # As people write it, without an index: a reader by key then scans, but the load is quicker.
    pandas.read_parquet(file).to_sql("rows", connection, index=False, if_exists="replace")
    connection.commit()
    seconds = time.perf_counter() - begin
    rows, keys, newest = connection.execute(
        "select count(*), count(distinct customer_id), max(at) from rows").fetchone()
    answer = {"rows": rows, "keys": keys, "newest": datetime.fromisoformat(newest).timestamp()}
    print(json.dumps({"seconds": seconds, "answer": answer}))


if __name__ == "__main__":
    main()
