"""usage: make_views.py FOLDER SPINE_ROWS VIEWS FEATURES VIEW_ROWS ENTITIES: a spine and views.

Writes spine.parquet (ascending by time), tiny.parquet (50 of its rows) and view0.parquet, …. No two
rows of a view have one key and time, so that every engine has one right answer.
"""

import sys
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet

UTC = pyarrow.timestamp("ns", tz="UTC")
START = 1_767_225_600_000_000_000  # 2026-01-01
YEAR = 365 * 86_400 * 1_000_000_000


def main():
    folder = Path(sys.argv[1])
    spine_rows, views, features, view_rows, entities = map(int, sys.argv[2:7])
    random = numpy.random.default_rng(20_260_601)
    at = numpy.sort(START + random.integers(0, YEAR, spine_rows))
    spine = pyarrow.table(
        {"id": random.integers(0, entities, spine_rows), "at": pyarrow.array(at, UTC)}
    )
    pyarrow.parquet.write_table(spine, folder / "spine.parquet")
    pick = numpy.sort(random.choice(spine_rows, min(50, spine_rows), replace=False))
    pyarrow.parquet.write_table(spine.take(pick), folder / "tiny.parquet")
    for view in range(views):
        step = YEAR // view_rows
        times = START + random.permutation(view_rows) * step + view
        columns = {"id": random.integers(0, entities, view_rows), "at": pyarrow.array(times, UTC)}
        columns |= {f"f{i}": random.random(view_rows) for i in range(features)}
        pyarrow.parquet.write_table(
            pyarrow.table(columns),
            folder / f"view{view}.parquet",
            compression="none",
            use_dictionary=False,
        )


if __name__ == "__main__":
    main()
