"""Whether the time of an answer tells another tenant's things from what there is not.

By hand, on a quiet machine (CI measures nothing):

    FALAJ_BINARY=… PYTHONPATH=tests/faults python3 tests/attacks/compare_times.py [PAIRS]

Asks for both in turn, on one connection, as an editor of another project; prints the medians and
the tenths, in microseconds, and by how much the pairs differ.
"""

import statistics
import sys
import time
import unittest

from fortress import Fortress, bearer

PAIRS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1500


def other(identity):
    """An id of the same shape that nothing has."""
    last = "0" if identity[-1] != "0" else "1"
    return identity[:-1] + last


class Times(Fortress):
    def took(self, link, path):
        begun = time.perf_counter_ns()
        link.request("GET", path, headers=bearer(self.tokens["mallory"]))
        reply = link.getresponse()
        reply.read()
        took = time.perf_counter_ns() - begun
        self.assertEqual(reply.status, 404, path)
        return took / 1000

    def compare(self, what, theirs, nobodys):
        link = self.server.connect()
        self.addCleanup(link.close)
        pairs = []
        for i in range(PAIRS + 50):
            # Who goes first takes turns too.
            order = (theirs, nobodys) if i % 2 else (nobodys, theirs)
            times = {path: self.took(link, path) for path in order}
            pairs.append((times[theirs], times[nobodys]))
        pairs = pairs[50:]
        for name, taken in (("theirs", [a for a, _ in pairs]), ("nobody's", [b for _, b in pairs])):
            tenth, *_ = statistics.quantiles(taken, n=10)
            print(f"{what}: {name}: median {statistics.median(taken):.0f}, tenth {tenth:.0f}")
        apart = statistics.median(a - b for a, b in pairs)
        print(f"{what}: apart by {apart:+.1f} in the median pair")

    def test_records(self):
        ids = self.ids["payments"]
        job, run, entry = ids["job"], ids["run"], str(ids["entry"])
        self.compare("a job", f"/api/v1/jobs/{job}", f"/api/v1/jobs/{other(job)}")
        self.compare("a run", f"/api/v1/runs/{run}", f"/api/v1/runs/{other(run)}")
        self.compare("an entry", f"/api/v1/audit/{entry}", "/api/v1/audit/999999")


if __name__ == "__main__":
    unittest.main()
