"""Five tables of ten features each, one row a key, as Parquet: usage: make_online.py FOLDER KEYS"""

import sys
from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

VIEWS, FEATURES = 5, 10


def main():
    folder, keys = sys.argv[1], int(sys.argv[2])
    now = datetime.now(timezone.utc).replace(microsecond=0)
    for view in range(VIEWS):
        chance = np.random.default_rng(view)
        columns = {
            "key": pa.array(np.arange(keys, dtype=np.int64)),
            "event_timestamp": pa.array([now] * keys, pa.timestamp("us", tz="UTC")),
        }
        for feature in range(FEATURES):
            columns[f"v{view}_f{feature}"] = pa.array(chance.random(keys))
        pq.write_table(pa.table(columns), f"{folder}/view{view}.parquet")


main()
