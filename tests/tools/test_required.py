"""What is missing is skipped by people and fails in CI (tests/faults/required.py)."""

import importlib
import os
import pathlib
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "faults"))


def outcome(required, there):
    """(passed, skipped, failed) of a test and of a class of one, as needs() leaves them."""
    with mock.patch.dict(os.environ, {"FALAJ_REQUIRED": "1" if required else ""}):
        needs = importlib.reload(importlib.import_module("required")).needs

    class One(unittest.TestCase):
        @needs(there, "no hammer here")
        def test_one(self):
            pass

    @needs(there, "no hammer here")
    class All(unittest.TestCase):
        def test_all(self):
            pass

    result = unittest.TestResult()
    for case in (One, All):
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    bad = [text for _, text in result.failures + result.errors]
    assert all("no hammer here" in text for text in bad), bad
    return len(result.skipped), len(bad)


class Needs(unittest.TestCase):
    def test_what_is_there_runs(self):
        self.assertEqual(outcome(required=True, there=True), (0, 0))
        self.assertEqual(outcome(required=False, there=True), (0, 0))

    def test_what_is_not_there_is_skipped_by_people_and_fails_in_ci(self):
        self.assertEqual(outcome(required=False, there=False), (2, 0))
        self.assertEqual(outcome(required=True, there=False), (0, 2))

    def test_every_suite_that_needs_something_is_told_by_ctest(self):
        """A suite whose folder does not set it would skip for ever."""
        for folder in ("attacks", "faults", "peers", "walk"):
            text = (ROOT / "tests" / folder / "CMakeLists.txt").read_text()
            self.assertIn("FALAJ_REQUIRED=1", text, folder)


if __name__ == "__main__":
    unittest.main()
