"""The restore drill of an evidence bundle: every store comes back, or the evidence is refused."""

import json
import os
import unittest

import shop
from program import ProgramTest


class Drill(ProgramTest):
    def setUp(self):
        super().setUp()
        self.running = self.server().start()
        shop.open_shop(self.running)

    def export(self, name):
        out = os.path.join(self.folder, name)
        code, text = self.falaj("evidence", "export", "--out", out, "--server", self.running.url)
        return code, text, os.path.join(out, "restore", "drill.json")

    def blobs(self):
        found = []
        for folder, _, names in os.walk(os.path.join(self.running.data, "blobs")):
            found += [os.path.join(folder, name) for name in names if len(name) == 64]
        return sorted(found)

    def test_every_store_comes_back(self):
        code, text, path = self.export("bundle")
        self.assertEqual(code, 0, text)
        with open(path) as file:
            drill = json.load(file)
        self.assertTrue(drill["equal"])
        self.assertGreaterEqual(drill["online"]["rows"], shop.CUSTOMERS)
        self.assertEqual(drill["blobs"]["there"], len(self.blobs()))
        self.assertEqual(drill["blobs"]["read"], drill["blobs"]["there"])
        self.assertEqual(drill["models"], 1)
        self.assertGreater(drill["keys"], 3)
        self.assertGreater(drill["audit"]["size"], drill["signed"]["size"] - 1)
        self.assertFalse(os.path.exists(os.path.join(self.running.data, "restore-drill")))
        # The server goes on, and the next drill finds what came since.
        self.running.ingest("visits", shop.visits(1, day=2))
        code, text, path = self.export("again")
        self.assertEqual(code, 0, text)
        with open(path) as file:
            self.assertGreater(json.load(file)["blobs"]["there"], drill["blobs"]["there"])
        self.assertTrue(self.running.audit_holds())

    def test_one_damaged_blob_is_found(self):
        victim = self.blobs()[0]
        os.chmod(victim, 0o600)
        with open(victim, "r+b") as file:
            file.seek(os.path.getsize(victim) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        code, text, path = self.export("bundle")
        self.assertNotEqual(code, 0, text)
        self.assertIn("restore/drill.json", text)
        self.assertIn("FJ-8006", text)
        self.assertFalse(os.path.exists(path))

    def test_a_lost_vault_is_found_while_the_server_still_runs(self):
        os.rename(
            os.path.join(self.running.data, "keys.sealed"), os.path.join(self.folder, "elsewhere")
        )
        code, text, _ = self.export("bundle")
        self.assertNotEqual(code, 0, text)
        self.assertIn("FJ-7040", text)


if __name__ == "__main__":
    unittest.main()
