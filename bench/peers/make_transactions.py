"""usage: make_transactions.py FILE.parquet ROWS: card payments, the same for the same ROWS."""

import sys

import numpy
import pyarrow
import pyarrow.parquet


def main():
    path, rows = sys.argv[1], int(sys.argv[2])
    random = numpy.random.default_rng(20_260_101)
    start = numpy.datetime64("2026-01-01T00:00:00", "us").astype("int64")
    # Distinct times: every customer has exactly one newest row.
    at = start + random.permutation(rows) * 1_000_000
    utc = pyarrow.timestamp("us", tz="UTC")
    table = pyarrow.table({
        "customer_id": random.integers(1, rows // 20, rows),
        "amount": numpy.round(random.lognormal(3.5, 1.0, rows), 2),
        "merchant_risk": random.random(rows),
        "items": random.integers(1, 12, rows),
        "at": pyarrow.array(at, utc),
        "loaded_at": pyarrow.array(at + 60_000_000, utc),
    })
    pyarrow.parquet.write_table(table, path, compression="zstd")


if __name__ == "__main__":
    main()
