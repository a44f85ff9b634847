"""One flipped byte on disk is found and named; it never becomes an answer."""
import glob
import os
import unittest

import shop
from program import ProgramTest, wait_until


def blob_path(server, blob):
    return glob.glob(os.path.join(server.data, "blobs/blobs/*", blob))[0]


def flip(path, share=0.5):
    """Turns one bit at `share` of the file."""
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(0, os.SEEK_END)
        at = min(int(file.tell() * share), file.tell() - 1)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


class Blobs(ProgramTest):
    def test_a_segment(self):
        for share in (0.0, 0.3, 0.6, 0.99):
            with self.subTest(share):
                server = self.server().start()
                server.apply(*shop.features())
                segment = server.ingest("visits", shop.visits(0))["segments"][0]
                server.ingest("bought", shop.labels())
                flip(blob_path(server, segment), share)
                reply = server.request("POST", "/api/v1/training-sets/shop:freeze", "{}")
                self.assertEqual(reply.status, 500, reply.text)
                self.assertIn(reply.code, ("FJ-3004", "FJ-8006"))
                self.assertIn(segment, reply.text)
                self.assertEqual(server.get("/api/v1/training-sets")["training_sets"], [])
                self.assertTrue(server.answers())
                server.kill()

    def test_a_training_set(self):
        server = self.server().start()
        manifest = shop.stock(server)
        flip(blob_path(server, manifest["data"]))
        started = server.train("train")
        job = server.job_ended(started["job"])
        self.assertEqual(job["status"], "failed", "it trained on other bytes")
        self.assertRegex(job["error"], "FJ-(8006|3004|3001)")
        self.assertEqual(server.audited("model.register"), [])

    def onnx_of(self, server, version):
        versions = server.get("/api/v1/models/shop")["versions"]
        return next(each["blobs"]["onnx"] for each in versions if each["version"] == version)

    def test_a_model_is_not_deployed_and_the_old_version_stays(self):
        server = self.server("--set", "monitor.interval=50ms").start()
        shop.open_shop(server)
        server.apply(shop.train_job("other", rounds=30))
        self.assertEqual(server.job_ended(server.train("other")["job"])["status"], "succeeded")
        before = shop.predict(server)
        flip(blob_path(server, self.onnx_of(server, 2)))
        server.request("PUT", "/api/v1/models/shop/aliases/champion",
                       {"version": 2, "reason": "a damaged file"})
        shown = wait_until(lambda: server.deployment("shop").get("error"), "the failure")
        self.assertRegex(shown, "FJ-(5002|8006)|hash|blob")
        self.assertEqual(server.deployment("shop")["version"], 1)
        self.assertEqual(shop.predict(server), before)

    def test_a_model_damaged_before_the_start_is_not_served(self):
        server = self.server().start()
        shop.open_shop(server)
        path = blob_path(server, self.onnx_of(server, 1))
        self.assertEqual(server.stop(), 0)
        flip(path)
        server.start()
        shown = wait_until(lambda: server.deployment("shop").get("error"), "the failure")
        self.assertEqual(server.deployment("shop")["state"], "failed", shown)
        reply = server.request("POST", "/api/v1/deployments/shop:predict", shop.entities(1))
        self.assertEqual((reply.status, reply.code), (503, "FJ-5003"), reply.text)


class Database(ProgramTest):
    """A damaged page: the start is refused, or what is read is unharmed or a problem."""

    def test_a_page(self):
        base = self.server().start()
        shop.stock(base)
        whole = self.shown(base)
        self.assertEqual(base.stop(), 0)
        size = os.path.getsize(os.path.join(base.data, "metadata.db"))
        pages, refusals = max(size // 4096, 1), 0
        for page in range(0, pages, max(pages // 12, 1)):
            with self.subTest(page=page):
                refusals += self.damage(base, page, whole)
        self.assertGreater(refusals, 0, "no damaged page was ever noticed")

    @staticmethod
    def shown(server):
        """What a reader sees: the reply to each question, problems included."""
        paths = ("objects", "feature-views", "training-sets", "audit/1", "audit/9")
        return [server.request("GET", "/api/v1/" + path) for path in paths]

    def damage(self, base, page, whole):
        """1 when it was noticed. A reply is the true one, or a problem that says so."""
        data = self.copy_of(base.data)
        with open(os.path.join(data, "metadata.db"), "r+b") as file:
            file.seek(page * 4096)
            file.write(b"\xa5" * 256)
        server = self.server(data=data)
        ended = server.launch()
        if ended is None:
            replies = self.shown(server)
            server.kill()
            noticed = 0
            for reply, true in zip(replies, whole):
                if reply.status == 200:
                    self.assertEqual(reply.value, true.value)
                else:
                    self.assertIn(reply.code, ("FJ-8005", "FJ-7001"), reply.text)
                    noticed = 1
            return noticed
        self.assertEqual(ended[0], 1, ended[1])
        self.assertIn("FJ-8005", ended[1])
        return 1

    def test_a_database_that_is_none(self):
        server = self.server().start()
        self.assertEqual(server.stop(), 0)
        with open(os.path.join(server.data, "metadata.db"), "wb") as file:
            file.write(b"this is no database" * 1000)
        self.refused(server, "FJ-8005")


class Online(ProgramTest):
    def test_rows_on_disk(self):
        base = self.server().start()
        shop.open_shop(base)
        before = shop.predict(base)
        base.kill()  # A clean stop would leave the log empty.
        kinds = ("MANIFEST-*", "CURRENT", "*.sst", "*.log")
        for kind in kinds:
            for share in (0.2, 0.7):
                with self.subTest(kind=kind, share=share):
                    self.damage(base, kind, share, before)

    def damage(self, base, kind, share, before):
        """The start is refused with a code, or every answer is as it was."""
        data = self.copy_of(base.data)
        paths = [each for each in glob.glob(os.path.join(data, "online", kind))
                 if os.path.getsize(each)]
        if kind != "*.sst":  # Small data may not have left the log yet.
            self.assertTrue(paths, f"no {kind} holds anything")
        for path in paths:
            flip(path, share)
        server = self.server(data=data)
        ended = server.launch()
        if ended is not None:
            self.assertEqual(ended[0], 1, ended[1])
            self.assertRegex(ended[1], "FJ-(8005|8006|0010)")
            return
        server.wait_ready("shop")
        self.assertEqual(shop.predict(server), before, "a damaged row was served")
        server.kill()


if __name__ == "__main__":
    unittest.main()
