"""A training process is killed, starved or stuck: the job says so, and the server goes on."""
import os
import signal
import unittest

import shop
from program import ProgramTest, wait_for_end


def environment_of(pid):
    """Of a running process; its owner, or root where it hides from its owner, may read it."""
    with open(f"/proc/{pid}/environ", "rb") as variables:
        pairs = variables.read().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


class Engine(ProgramTest):
    def setUp(self):
        super().setUp()
        self.falaj_server = self.server().start()
        shop.stock(self.falaj_server)

    def goes_on(self):
        server = self.falaj_server
        self.assertTrue(server.answers())
        self.assertEqual(server.job_ended(server.train("train")["job"])["status"], "succeeded")
        self.assertEqual(len(server.get("/api/v1/models/shop")["versions"]), 1)
        self.assertTrue(server.audit_holds())

    def failed_with(self, started, code):
        server = self.falaj_server
        job = server.job_ended(started["job"])
        self.assertEqual(job["status"], "failed", job)
        self.assertIn(code, job["error"])
        run = server.get(f"/api/v1/runs/{started['run']}")
        self.assertEqual(run["status"], "failed")
        self.assertIn(code, run["error"])
        self.assertEqual(server.audited("model.register"), [])
        return job

    def test_killed_once_it_is_tried_again(self):
        server = self.falaj_server
        server.apply(shop.train_job("long", rounds=1000))
        started = server.train("long")
        os.kill(server.engine(), signal.SIGKILL)
        job = server.job_ended(started["job"])
        self.assertEqual((job["status"], job["attempts"]), ("succeeded", 2), job["error"])
        self.assertEqual(len(server.get("/api/v1/models/shop")["versions"]), 1)

    def test_killed_every_time_it_fails(self):
        server = self.falaj_server
        server.apply(shop.train_job("long", rounds=10_000))
        started = server.train("long")
        for _ in range(3):
            engine = server.engine()
            os.kill(engine, signal.SIGKILL)
            self.assertTrue(wait_for_end(engine))
        job = self.failed_with(started, "FJ-4002")
        self.assertEqual(job["attempts"], 3)
        self.goes_on()

    def test_its_identity_is_its_own_and_ends_with_it(self):
        server = self.falaj_server
        server.apply(shop.train_job("long", rounds=10_000))
        started = server.train("long")
        token = environment_of(server.engine())["FALAJ_TOKEN"]

        def reply(path, method="GET", body=None):
            server.headers = {"Authorization": "Bearer " + token}
            try:
                return server.request(method, path, body)
            finally:
                server.headers = {}

        def asked(*words):
            return reply(*words).status

        self.assertEqual(reply("/api/v1/whoami").value["id"], "job:" + started["job"])
        self.assertEqual(asked("/api/v1/training-sets/shop/manifest"), 200)
        self.assertEqual(asked(f"/api/v1/runs/{started['run']}"), 200)
        # Nothing else of its own project, of another, or of the platform.
        other = server.train("train")
        for path in (f"/api/v1/runs/{other['run']}", "/api/v1/training-sets/other/manifest",
                     "/api/v1/training-sets/shop/manifest?project=other", "/api/v1/overview",
                     "/api/v1/objects/FeatureView/visits", "/api/v1/audit", "/metrics",
                     f"/api/v1/jobs/{started['job']}"):
            self.assertIn(asked(path), (403, 404), path)
        self.assertIn(asked(f"/api/v1/jobs/{started['job']}:cancel", "POST", {}), (403, 404))
        self.assertIn(asked("/api/v1/tokens", "POST", {}), (403, 404))
        server.good("POST", f"/api/v1/jobs/{started['job']}:cancel", {})
        self.assertEqual(server.job_ended(started["job"])["status"], "cancelled")
        self.assertEqual(asked("/api/v1/whoami"), 401)
        self.assertEqual(asked(f"/api/v1/runs/{started['run']}"), 401)

    def test_out_of_memory(self):
        server = self.falaj_server
        # A histogram of 4095 bins for each of 4096 leaves is 256 MiB; the job is given 64.
        server.ingest("visits", shop.visits(1, day=2, customers=20_000))
        server.ingest("bought", shop.labels(day=3, customers=20_000))
        server.good("POST", "/api/v1/training-sets/shop:freeze", {})
        greedy = {"num_leaves": 4096, "max_bin": 4095, "min_data_in_leaf": 1}
        server.apply(shop.train_job("starved", rounds=50, params=greedy, memory="64Mi"))
        self.failed_with(server.train("starved"), "FJ-4003")
        self.goes_on()

    def test_hanging_past_its_time(self):
        server = self.falaj_server
        server.apply(shop.train_job("stuck", rounds=10_000, time_max="2s"))
        started = server.train("stuck")
        engine = server.engine()
        os.kill(engine, signal.SIGSTOP)
        self.failed_with(started, "FJ-4004")
        self.assertTrue(wait_for_end(engine), "the stopped process was left behind")
        self.goes_on()


if __name__ == "__main__":
    unittest.main()
