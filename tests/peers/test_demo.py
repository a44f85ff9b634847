"""The demo's closing object says what the walk promises."""

import json
import urllib.request
import unittest

from served_demo import ServedDemo


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.demo = ServedDemo().__enter__()
        cls.addClassCleanup(cls.demo.__exit__, None, None, None)
        cls.result = cls.demo.result

    def test_rows_are_counted_and_bad_ones_explained(self):
        self.assertEqual(self.result["rows_ingested"], 190_000)
        self.assertEqual(self.result["rows_quarantined"], 14)
        self.assertEqual(len(self.result["quarantine_examples"]), 14)
        self.assertTrue(all(row["reason"] for row in self.result["quarantine_examples"]))
        self.assertEqual(self.result["training_rows"], 60_000)

    def test_the_shift_is_seen_and_the_calm_is_not(self):
        self.assertTrue(self.result["drift_detected"])
        self.assertLess(self.result["drift"]["before"]["worst"], 0.2)
        self.assertGreater(self.result["drift"]["after"]["worst"], 0.2)

    def test_a_better_model_was_promoted_and_serves(self):
        self.assertEqual(self.result["action"]["kind"], "promote")
        self.assertGreater(self.result["promoted_version"], self.result["first_version"])
        self.assertGreater(self.result["auc_after"], self.result["auc_before"])
        deployments = self.demo.get(f"/api/v1/deployments?project={self.result['project']}")
        (fraud,) = deployments["deployments"]
        self.assertEqual(fraud["version"], self.result["promoted_version"])
        self.assertEqual(fraud["errors"], 0)

    def test_the_audit_verifies_and_names_each_step(self):
        self.assertTrue(self.demo.post("/api/v1/audit:verify", {})["ok"])
        entries = self.demo.get("/api/v1/audit?limit=1000&order=oldest")["entries"]
        actions = [entry["action"] for entry in entries]
        for action in (
            "object.apply",
            "features.ingest",
            "monitor.alarm",
            "loop.retrain",
            "loop.evaluate",
            "loop.promote",
        ):
            self.assertIn(action, actions)

    def test_metrics_are_prometheus_text(self):
        with urllib.request.urlopen(self.demo.url + "/metrics") as reply:
            text = reply.read().decode()
        self.assertIn("falaj_serving_requests_total{", text)
        self.assertIn("falaj_monitoring_dropped_total 0", text)

    def test_openapi_lists_the_routes(self):
        with urllib.request.urlopen(self.demo.url + "/openapi.json") as reply:
            document = json.load(reply)
        self.assertEqual(document["openapi"], "3.1.0")
        operation = document["paths"]["/api/v1/deployments/{name}:predict"]["post"]
        self.assertEqual(operation["x-permission"], "serving.predict")


if __name__ == "__main__":
    unittest.main()
