"""usage: make_events.py FOLDER SPINE_ROWS EVENTS ENTITIES: a spine, and events to aggregate.

Writes spine.parquet (ascending by time) and view0.parquet with one value f0. No two events have one
time. Values are whole numbers, so that sums are exact in every order and engines must agree to the
bit.
"""

import sys
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
from make_views import START, UTC, YEAR


def main():
    folder = Path(sys.argv[1])
    spine_rows, events, entities = map(int, sys.argv[2:5])
    random = numpy.random.default_rng(20_260_602)
    at = numpy.sort(START + random.integers(0, YEAR, spine_rows))
    ids = random.integers(0, entities, spine_rows)
    pyarrow.parquet.write_table(
        pyarrow.table({"id": ids, "at": pyarrow.array(at, UTC)}), folder / "spine.parquet"
    )
    times = START + random.permutation(events) * (YEAR // events)
    columns = {
        "id": random.integers(0, entities, events),
        "at": pyarrow.array(times, UTC),
        "f0": random.integers(1, 100_000, events).astype(float),
    }
    pyarrow.parquet.write_table(
        pyarrow.table(columns),
        folder / "view0.parquet",
        compression="none",
        use_dictionary=False,
    )


if __name__ == "__main__":
    main()
