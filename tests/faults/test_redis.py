"""Online rows in Redis, which is killed, restarted, emptied and set up wrongly under the server:
what was acknowledged is there, errors say what is wrong, and it recovers by itself."""
import json
import os
import sys
import unittest

import redis_server
import shop
from program import ProgramTest, wait_until

READ = "/api/v1/feature-services/shop:read"
PUSH = "/api/v1/feature-views/visits:push"


class RedisFaults(ProgramTest):
    def setUp(self):
        super().setUp()
        self.redis = redis_server.Redis()
        self.addCleanup(self.redis.remove)

    def with_redis(self, *more, data=None):
        return self.server("--set", "storage.online=redis", "--set",
                           f"storage.redis.url={self.redis.url}", "--set",
                           "storage.redis.zone=local", *more, data=data)

    @staticmethod
    def push(server, customer, number):
        row = {"customer_id": customer, "at": shop.moment(2, number), "pages": 1.0,
               "batch": number}
        server.good("POST", PUSH, {"rows": [row]})

    @staticmethod
    def read(server, customer):
        body = {"entities": [{"customer_id": customer}], "features": ["batch"]}
        return server.good("POST", READ, body)["rows"][0]["values"][0]

    @staticmethod
    def log(server):
        with open(server.log, errors="replace") as log:
            return log.read()

    def test_killed_and_restarted_redis(self):
        self.redis.start()
        server = self.with_redis().start()
        server.apply(*shop.features())
        self.push(server, 1, 1)
        wait_until(lambda: self.redis.rows() > 0, "the first row in Redis")
        self.redis.kill()
        # Pushes and reads go on: what is committed is in the segments, what is read in memory.
        self.push(server, 2, 2)
        self.assertEqual(self.read(server, 2), 2)
        told = wait_until(lambda: "FJ-8009" in self.log(server) and self.log(server),
                          "the log to say that rows were not copied")
        self.assertIn(f"Redis at {self.redis.url}", told)
        self.assertIn("online rows not copied yet", told)
        # A start without it says so and does not half-work.
        server.stop()
        code, printed = server.launch()
        self.assertEqual(code, 1)
        self.assertIn("FJ-8009", printed)
        self.assertIn(self.redis.url, printed)
        # With it everything is there, also what it missed.
        self.redis.start()
        before = self.redis.rows()
        server.start()
        self.assertEqual([self.read(server, each) for each in (1, 2)], [1, 2])
        wait_until(lambda: self.redis.rows() > before, "the missed row in Redis")
        self.assertTrue(server.audit_holds())

    def test_it_recovers_without_a_restart(self):
        self.redis.start()
        server = self.with_redis().start()
        server.apply(*shop.features())
        self.push(server, 1, 1)
        wait_until(lambda: self.redis.rows() > 0, "the first row in Redis")
        before = self.redis.rows()
        self.redis.kill()
        self.push(server, 2, 2)
        wait_until(lambda: "online rows not copied yet" in self.log(server), "a failed copy")
        self.redis.start()

        def copied():
            self.push(server, 3, 3)
            return self.redis.rows() >= before + 2
        wait_until(copied, "both missed rows in Redis")

    def test_emptied_redis_is_filled_again(self):
        self.redis.start()
        server = self.with_redis().start()
        server.apply(*shop.features())
        self.push(server, 1, 7)
        wait_until(lambda: self.redis.rows() > 0, "the row in Redis")
        server.stop()
        self.redis.ask("FLUSHALL")
        server.start()
        self.assertEqual(self.read(server, 1), 7)
        wait_until(lambda: self.redis.rows() > 0, "the row in Redis again")

    def test_a_folder_that_was_set_back_does_not_see_later_rows(self):
        self.redis.start()
        server = self.with_redis().start()
        server.apply(*shop.features())
        self.push(server, 1, 1)
        wait_until(lambda: self.redis.rows() > 0, "the first row in Redis")
        server.stop()
        backup = self.copy_of(server.data)
        server.start()
        before = self.redis.rows()
        self.push(server, 1, 9)
        self.push(server, 2, 9)
        wait_until(lambda: self.redis.rows() > before, "the later row in Redis")
        server.stop()
        restored = self.with_redis(data=backup).start()
        self.assertEqual([self.read(restored, each) for each in (1, 2)], [1, None])

    def test_an_old_copy_of_redis_is_refused_and_an_emptied_one_is_filled(self):
        self.redis.start()
        server = self.with_redis().start()
        server.apply(*shop.features())
        self.push(server, 1, 1)
        wait_until(lambda: self.redis.rows() > 0, "the first row in Redis")
        server.stop()
        old = self.redis.dump()
        server.start()
        before = self.redis.rows()
        self.push(server, 2, 2)
        wait_until(lambda: self.redis.rows() > before, "the second row in Redis")
        server.stop()
        newest = self.redis.dump()
        self.redis.set_back(old)
        code, printed = server.launch()
        self.assertEqual(code, 1, printed)
        self.assertIn("FJ-7051", printed)
        self.assertIn("redis is an old copy", printed)
        self.assertIn("storage.redis.prefix", printed)
        # The newest starts; as it does where the server was killed.
        self.redis.set_back(newest)
        server.start()
        server.kill()
        server.start()
        server.stop()
        # Without its number it is no better than an old one; with another's neither.
        number = [key for key in self.redis.ask("KEYS", "falaj:rows:*").split()
                  if self.redis.is_number(key)]
        self.assertEqual(len(number), 1)
        self.redis.ask("HSET", number[0], "number", "7")
        code, printed = server.launch()
        self.assertEqual(code, 1, printed)
        self.redis.ask("DEL", number[0])
        code, printed = server.launch()
        self.assertEqual(code, 1, printed)
        self.assertIn("FJ-7051", printed)
        # What the message says to do.
        for key in self.redis.ask("KEYS", "falaj:*").split():
            self.redis.ask("DEL", key)
        server.start()
        self.assertEqual([self.read(server, each) for each in (1, 2)], [1, 2])

    def test_moving_between_the_engines(self):
        self.redis.start()
        embedded = self.server().start()
        embedded.apply(*shop.features())
        self.push(embedded, 1, 5)
        embedded.stop()
        server = self.with_redis(data=embedded.data).start()
        self.assertEqual(self.read(server, 1), 5)
        self.push(server, 1, 6)
        server.stop()
        embedded.start()
        self.assertEqual(self.read(embedded, 1), 6)

    def test_the_restore_drill_speaks_of_the_folder_only(self):
        self.redis.start()
        server = self.with_redis().start()
        server.apply(*shop.features())
        self.push(server, 1, 1)
        out = os.path.join(self.folder, "bundle")
        code, text = self.falaj("evidence", "export", "--out", out, "--server", server.url)
        self.assertEqual(code, 0, text)
        with open(os.path.join(out, "restore", "drill.json")) as file:
            drill = json.load(file)
        self.assertTrue(drill["equal"])
        self.assertNotIn("online rows", drill["covers"])

    def test_nothing_in_clear_in_redis(self):
        self.redis.start()
        server = self.with_redis().start()
        server.apply(*shop.features())
        self.push(server, 424242, 1)
        wait_until(lambda: self.redis.rows() > 0, "the row in Redis")
        kept = self.redis.bytes()
        self.assertIn(b"falaj:rows:", kept)
        for secret in (b"424242", b"customer_id", b"visits", b"pages"):
            self.assertNotIn(secret, kept)

    def test_a_server_that_could_lose_rows_is_refused(self):
        self.redis.start(fsync="everysec")
        server = self.with_redis()
        code, printed = server.launch()
        self.assertEqual(code, 1)
        self.assertIn("FJ-8010", printed)
        self.assertIn("set appendfsync always", printed)
        server = self.with_redis("--set", "storage.redis.durability=vouched").start()
        self.assertIn("redis durability is not checked", self.log(server))


if __name__ == "__main__":
    if not redis_server.is_installed():
        print("redis-server is not installed: ./dev setup")
        sys.exit(redis_server.SKIPPED)
    unittest.main()
