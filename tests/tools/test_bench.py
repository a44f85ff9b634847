"""The bench harness: it races, it reports, and it refuses a contestant with a wrong answer."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import arena  # noqa: E402
import run  # noqa: E402


def bench(*arguments):
    return subprocess.run([sys.executable, ROOT / "bench/run.py", *arguments],
                          capture_output=True, text=True)


class HarnessTest(unittest.TestCase):
    def test_races_and_writes_the_result(self):
        done = bench("--rounds", "5", "harness_selftest")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("answers equal", done.stdout)
        result = json.loads((ROOT / "build/bench/harness_selftest.json").read_text())
        self.assertEqual(len(result["rounds"]), 4, "the first of five rounds is dropped")
        self.assertLessEqual(result["ratio"]["min"], result["ratio"]["median"])
        self.assertLessEqual(result["ratio"]["median"], result["ratio"]["max"])

    def test_refuses_a_planted_wrong_answer(self):
        done = bench("--plant-wrong-answer", "harness_selftest")
        self.assertEqual(done.returncode, 1)
        self.assertIn("refused", done.stderr)
        self.assertIn("answer.total", done.stderr)
        self.assertNotIn("ratio", done.stdout)

    def test_refuses_too_few_rounds_and_unknown_names(self):
        self.assertNotEqual(bench("--rounds", "4", "harness_selftest").returncode, 0)
        self.assertIn("harness_selftest", bench("no_such").stderr)

    def test_contestants_take_turns(self):
        turns = []

        class Side:
            def __init__(self, name):
                self.name = name

            def round(self):
                turns.append(self.name)
                return 1.0, 0

            def close(self):
                turns.append("close")

        class Scenario:
            UNIT = "s"
            ours = staticmethod(lambda _: Side("A"))
            peer = staticmethod(lambda _: Side("B"))

        run.race(Scenario, None, 5, False)
        self.assertEqual("".join(turns[:10]), "ABBAABBAAB")
        self.assertEqual(turns[10:], ["close", "close"])

    def test_a_missed_budget_is_named(self):
        result = {"kind": "measure", "figures": {"ready_ms": {"median": 301}}}
        self.assertEqual(run.missed_budgets(result, {"ready_ms_max": 301}), [])
        self.assertIn("301", run.missed_budgets(result, {"ready_ms_max": 300})[0])
        self.assertIn("no 'rss'", run.missed_budgets(result, {"rss_max": 1})[0])
        self.assertEqual(run.missed_budgets(result, {"rss_max": 1}, {"rss": "why"}), [])

    def test_figures_of_many_turns_are_spread_as_one(self):
        self.assertEqual(run.spread([[3, 1], 2]), {"median": 2, "min": 1, "max": 3})

    def test_says_beside_each_figure_whether_its_budget_is_met(self):
        result = {"kind": "measure", "figures": {"x": {"median": 2}},
                  "budgets": {"x_min": 3, "y_max": 1}}
        missed = run.missed_budgets(result, {"x_min": 3})
        self.assertEqual(run.verdict("x", result, missed), "   missed (min 3)")
        self.assertEqual(run.verdict("x", result, []), "   met (min 3)")
        self.assertEqual(run.verdict("z", result, []), "")


class ComparisonTest(unittest.TestCase):
    def test_finds_the_first_difference(self):
        same = {"rows": [1, 2.5, "x"], "ok": True}
        self.assertIsNone(arena.first_difference(same, dict(same), 0))
        for other, where in (({"rows": [1, 2.6, "x"], "ok": True}, "answer.rows[1]"),
                             ({"rows": [1, 2.5], "ok": True}, "answer.rows"),
                             ({"rows": [1, 2.5, "y"], "ok": True}, "answer.rows[2]"),
                             ({"rows": [1, 2.5, "x"]}, "answer")):
            self.assertIn(where, arena.first_difference(same, other, 0))

    def test_tolerance_is_what_was_declared(self):
        self.assertIsNone(arena.first_difference(0.5, 0.5 + 1e-7, 1e-6))
        self.assertIsNotNone(arena.first_difference(0.5, 0.5 + 1e-5, 1e-6))

    def test_spoil_changes_every_kind_of_answer(self):
        for answer in (0, 1.5, "x", True, [1, 2], {"a": [1, {"b": 0.25}]}, [], None):
            self.assertIsNotNone(arena.first_difference(arena.spoil(answer), answer, 1e-3))


if __name__ == "__main__":
    unittest.main()
