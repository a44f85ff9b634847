"""kill -9 of the server in the middle of everything it does: nothing acknowledged is lost, nothing
is half there, and the next start goes on by itself."""
import http.client
import os
import threading
import unittest

import shop
from program import (ProgramTest, at_random_moment, rounds, seeded, wait_for_end, wait_until)

GONE = (OSError, http.client.HTTPException)


class Ingest(ProgramTest):
    """Every batch has a row of every customer: the newest is seen whole or not at all."""

    BATCHES = 400

    def test_what_is_there_is_a_whole_number_of_acknowledged_batches(self):
        chance = seeded(self.id())
        server = self.server().start()
        shop.open_shop(server)
        reached = 0
        for _ in range(rounds(12)):
            acknowledged = self.send_until_killed(server, chance, reached)
            server.start()
            reached = self.check(server, acknowledged)
        self.assertGreater(reached, 0)
        self.check_against_undisturbed(server, reached)

    def send_until_killed(self, server, chance, reached):
        """Sends batches after `reached` until the kill; how many were acknowledged in all."""
        acknowledged = [reached]

        def send():
            try:
                for batch in range(reached + 1, self.BATCHES):
                    server.ingest("visits", shop.visits(batch, second=batch))
                    acknowledged[0] = batch
            except (*GONE, TypeError, AttributeError):
                pass  # Killed: the server has no address any more.

        sender = threading.Thread(target=send)
        sender.start()
        at_random_moment(chance, 0.4)
        server.kill()
        sender.join()
        return acknowledged[0]

    def check(self, server, acknowledged):
        """Offline and online hold the same: all acknowledged, at most the one in flight more."""
        batches = server.rows("visits") / shop.CUSTOMERS - 1
        self.assertIn(batches, (acknowledged, acknowledged + 1))
        server.wait_ready("shop")
        seen = {each["features"]["batch"] for each in shop.predict(server)}
        self.assertEqual(seen, {batches}, "online differs from offline, or is half there")
        self.assertEqual(os.listdir(os.path.join(server.data, "blobs/staging")), [])
        self.assertEqual(os.listdir(os.path.join(server.data, "uploads")), [])
        self.assertTrue(server.audit_holds())
        return int(batches)

    def check_against_undisturbed(self, server, reached):
        """Labels after the last batch: the frozen bytes are those of a server never killed."""
        quiet = self.server().start()
        shop.stock(quiet)
        for batch in range(1, reached + 1):
            quiet.ingest("visits", shop.visits(batch, second=batch))
        ids = set()
        for each in (server, quiet):
            each.ingest("bought", shop.labels(day=2))
            ids.add(each.good("POST", "/api/v1/training-sets/shop:freeze", {})["data_sha256"])
        self.assertEqual(len(ids), 1, "the bytes differ from those of an undisturbed server")


class Freeze(ProgramTest):
    def test_a_frozen_set_is_there_whole_or_not_at_all(self):
        chance = seeded(self.id())
        base = self.server().start()
        base.apply(*shop.features())
        for batch in range(20):
            base.ingest("visits", shop.visits(batch, second=batch, customers=5_000))
        base.ingest("bought", shop.labels(customers=5_000))
        self.assertEqual(base.stop(), 0)
        quiet = self.server(data=self.copy_of(base.data)).start()
        wanted = quiet.good("POST", "/api/v1/training-sets/shop:freeze", {})
        quiet.kill()
        for _ in range(rounds(8)):
            self.one_round(self.server(data=self.copy_of(base.data)), chance, wanted)

    def one_round(self, server, chance, wanted):
        server.start()
        answered = []

        def freeze():
            try:
                answered.append(server.good("POST", "/api/v1/training-sets/shop:freeze", {}))
            except GONE:
                pass

        asker = threading.Thread(target=freeze)
        asker.start()
        at_random_moment(chance, 0.15)
        server.kill()
        asker.join()
        server.start()
        there = server.get("/api/v1/training-sets")["training_sets"]
        self.assertIn(len(there), (1,) if answered else (0, 1))
        again = server.good("POST", "/api/v1/training-sets/shop:freeze", {})
        for key in ("id", "data_sha256"):  # The sealed file itself has its own name each time.
            self.assertEqual(again[key], wanted[key])
        self.assertEqual(len(server.get("/api/v1/training-sets")["training_sets"]), 1)
        self.assertEqual(os.listdir(os.path.join(server.data, "blobs/staging")), [])
        self.assertTrue(server.audit_holds())
        server.kill()


class Train(ProgramTest):
    def test_a_killed_server_takes_its_engine_along_and_trains_again(self):
        server = self.server().start()
        shop.stock(server)
        server.apply(shop.train_job("long", rounds=1000))
        started = server.train("long")
        engine = server.engine()
        server.kill()
        self.assertTrue(wait_for_end(engine, 10), "the engine outlived its server")
        server.start()
        job = server.job_ended(started["job"])
        self.assertEqual((job["status"], job["attempts"]), ("succeeded", 2), job["error"])
        run = server.get(f"/api/v1/runs/{started['run']}")
        self.assertEqual(run["status"], "finished")
        self.assertEqual(len(server.get("/api/v1/models/shop")["versions"]), 1)
        self.assertTrue(server.audit_holds())

    def test_a_server_that_always_dies_does_not_train_for_ever(self):
        server = self.server().start()
        shop.stock(server)
        server.apply(shop.train_job("long", rounds=1000))
        started = server.train("long")
        for _ in range(3):
            server.engine()
            server.kill()
            server.start()
        job = server.job_ended(started["job"])
        self.assertEqual((job["status"], job["attempts"]), ("failed", 3))
        self.assertIn("FJ-4002", job["error"])
        self.assertEqual(server.get(f"/api/v1/runs/{started['run']}")["status"], "failed")
        # It goes on with the next one.
        self.assertEqual(server.job_ended(server.train("train")["job"])["status"], "succeeded")


class Register(ProgramTest):
    def test_a_version_is_registered_once(self):
        """The kill falls between the engine's end and the job's."""
        chance = seeded(self.id())
        base = self.server().start()
        shop.stock(base)
        self.assertEqual(base.stop(), 0)
        for _ in range(rounds(10)):
            server = self.server(data=self.copy_of(base.data)).start()
            started = server.train("train")
            wait_for_end(server.engine())
            at_random_moment(chance, 0.03)
            server.kill()
            server.start()
            job = server.job_ended(started["job"])
            self.assertEqual(job["status"], "succeeded", job["error"])
            model = server.get("/api/v1/models/shop")
            self.assertEqual([each["version"] for each in model["versions"]], [1])
            self.assertEqual(len(server.audited("model.register")), 1)
            run = server.get(f"/api/v1/runs/{started['run']}")
            self.assertEqual((run["status"], run["outputs"]["model"]["version"]), ("finished", 1))
            self.assertTrue(server.audit_holds())
            server.kill()

    def test_a_start_of_a_run_is_never_left_hanging(self):
        """The kill falls around the request that creates the run and its job."""
        chance = seeded(self.id())
        base = self.server().start()
        shop.stock(base)
        self.assertEqual(base.stop(), 0)
        for _ in range(rounds(8)):
            server = self.server(data=self.copy_of(base.data)).start()
            self.ask_and_kill(server, chance)
            server.start()
            for job in server.get("/api/v1/jobs")["jobs"]:
                server.job_ended(job["id"])
            for run in server.get("/api/v1/runs")["runs"]:
                self.assertIn(run["status"], ("finished", "failed"), run)
            server.kill()

    @staticmethod
    def ask_and_kill(server, chance):
        connection = http.client.HTTPConnection(*server.address(), timeout=10)
        connection.request("POST", "/api/v1/train-jobs/train:run", b"{}")
        at_random_moment(chance, 0.02)
        server.kill()
        connection.close()


class Promote(ProgramTest):
    """The loop retrains, compares and promotes; the server dies while it does."""

    WINDOW = 200

    def with_open_alarm(self):
        """A stopped server's folder: version 1 serves, the world has turned, labels are missing."""
        server = self.server("--set", "monitor.interval=50ms").start()
        shop.open_shop(server)
        server.apply(
            shop.thing("Monitor", "watch", deployment="shop", window=f"{self.WINDOW} rows",
                       drift={"method": "psi", "threshold": 0.2, "of": "1 in 1"}),
            shop.thing("Policy", "loop", on="drift", monitor="watch", then="promote",
                       retrain={"job": "train", "window": "30d", "labels_min": 900},
                       gate={"metric": "auc", "window": "1d", "no_worse_by": 0.002}))
        server.ingest("visits", shop.visits(1, day=10, scale=4.0))
        shop.predict(server)
        wait_until(lambda: server.get("/api/v1/alarms")["alarms"], "the alarm")
        self.assertEqual(server.stop(), 0)
        return server.data

    def test_the_better_version_is_promoted_once_whenever_the_server_dies(self):
        chance = seeded(self.id())
        base = self.with_open_alarm()
        last_moments = ["loop.retrain", "job.submit", "model.register", "run.end", "job.end",
                        "loop.promote", None, None]
        for number in range(rounds(len(last_moments))):
            action = last_moments[number % len(last_moments)]
            server = self.server("--set", "monitor.interval=50ms", data=self.copy_of(base)).start()
            with self.subTest(kill_after=action or "a random moment"):
                self.one_round(server, chance, action)
            server.kill()

    def one_round(self, server, chance, action):
        before = {each: len(server.audited(each)) for each in (action,) if each}
        # The turned world: two days to learn from, then one to be compared on.
        for day in (11, 12, 14):
            server.ingest("bought", shop.labels(day=day, turned=True))
        if action is None:
            at_random_moment(chance, 1.0)
        else:
            wait_until(lambda: len(server.audited(action)) > before[action], action)
            at_random_moment(chance, 0.01)
        server.kill()
        server.start()
        wait_until(lambda: server.get("/api/v1/models/shop")["aliases"]["champion"] == 2,
                   "version 2 to be promoted")
        server.wait_ready("shop")
        wait_until(lambda: server.deployment("shop")["version"] == 2, "version 2 to serve")
        self.assertEqual(len(server.get("/api/v1/models/shop")["versions"]), 2)
        self.assertEqual(len(server.audited("loop.retrain")), 1)
        self.assertEqual(len(server.audited("loop.promote")), 1)
        compared = server.get("/api/v1/policies")["policies"][0]["snapshot"]
        self.assertGreater(compared["candidate_auc"], compared["champion_auc"])
        self.assertTrue(server.audit_holds())
        for entry in server.audited("loop."):
            server.good("POST", f"/api/v1/audit/{entry['sequence']}:replay", {})


if __name__ == "__main__":
    unittest.main()
