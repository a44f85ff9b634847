"""tools/mutate: a planted fault changes what the program does, and an unfit entry is refused."""

import os
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
mutate = SourceFileLoader("mutate", str(ROOT / "tools" / "mutate")).load_module()

SOURCE = """#include <cstdio>
bool may(int age) { return age >= 18; }
int main() { std::puts(may(17) ? "yes" : "no"); return may(17) ? 1 : 0; }
"""
FAULT = {
    "id": "anyone-may",
    "file": "x.cc",
    "number": 7,
    "text": "return <<age >= 18>>;",
    "becomes": "true",
    "filter": "*",
}


class MutateTest(unittest.TestCase):
    def refused(self, source, faults, why):
        with self.assertRaisesRegex(SystemExit, why):
            mutate.planted_copy(source, faults)

    def test_only_the_chosen_fault_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "x.cc"
            copy.write_text(mutate.planted_copy(SOURCE, [FAULT]))
            program = str(Path(folder) / "x")
            subprocess.run([os.environ.get("CXX", "c++"), str(copy), "-o", program], check=True)
            for number, passed in ((0, True), (6, True), (7, False)):
                self.assertEqual(mutate.run_test(program, FAULT, number, folder)[0], passed)

    def test_an_entry_that_no_longer_fits_is_refused(self):
        self.refused(SOURCE.replace("18", "21"), [FAULT], "stands 0 times")
        self.refused(SOURCE + SOURCE, [FAULT], "stands 2 times")
        self.refused(SOURCE, [{**FAULT, "text": "return age >= 18;"}], "mark one expression")
        inside = {**FAULT, "id": "other", "number": 8, "text": "return <<age>> >= 18;"}
        self.refused(SOURCE, [FAULT, inside], "overlap")

    def test_every_listed_fault_is_whole(self):
        faults = mutate.read_list([], (1, 1))
        self.assertGreaterEqual(len(faults), 40)
        for fault in faults:
            self.assertTrue((ROOT / fault["file"]).is_file(), fault["file"])
            self.assertEqual(
                set(fault), {"id", "file", "text", "becomes", "test", "filter", "number"}
            )
        shares = [fault["id"] for k in (1, 2, 3) for fault in mutate.read_list([], (k, 3))]
        self.assertEqual(sorted(shares), sorted(fault["id"] for fault in faults))


if __name__ == "__main__":
    unittest.main()
