"""A frozen training set leaves encrypted; pyarrow opens it with the key, and only with the key."""

import os
import pathlib
import sys
import unittest

import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
import shop  # noqa: E402
from program import ProgramTest  # noqa: E402


class Export(ProgramTest):
    def setUp(self):
        super().setUp()
        self.running = self.server().start()
        self.manifest = shop.stock(self.running)
        self.out = os.path.join(self.folder, "shop.parquet")
        self.key_file = os.path.join(self.folder, "shop.key")

    def export(self, *more):
        return self.falaj("export-set", "shop", "--server", self.running.url, "--out", self.out,
                          "--key-file", self.key_file, *more)

    def properties(self, key, prefix):
        return pe.create_decryption_properties(footer_key=key, aad_prefix=prefix)

    def test_pyarrow_reads_it_with_the_key(self):
        code, text = self.export()
        self.assertEqual(code, 0, text)
        self.assertIn(self.manifest["id"], text)
        self.assertEqual(os.stat(self.key_file).st_mode & 0o777, 0o600)
        with open(self.key_file) as file:
            key = bytes.fromhex(file.read().strip())
        prefix = self.manifest["id"].encode()
        table = pq.read_table(self.out, decryption_properties=self.properties(key, prefix))
        self.assertEqual(table.num_rows, self.manifest["rows"])
        for column in (*self.manifest["features"], self.manifest["label"], "split"):
            self.assertIn(column, table.column_names)
        self.assertEqual(set(table["split"].to_pylist()), {"train", "valid"})
        with open(self.out, "rb") as file:
            raw = file.read()
        self.assertEqual((raw[:4], raw[-4:]), (b"PARE", b"PARE"))
        self.assertNotIn(b"pages", raw)
        for wrong in ((bytes(32), prefix), (key, b"another set")):
            with self.assertRaises(Exception):
                pq.read_table(self.out, decryption_properties=self.properties(*wrong))
        with self.assertRaises(Exception):
            pq.read_table(self.out)
        changed = bytearray(raw)
        changed[len(raw) // 2] ^= 1
        with open(self.out, "wb") as file:
            file.write(changed)
        with self.assertRaises(Exception):
            pq.read_table(self.out, decryption_properties=self.properties(key, prefix))

    def test_it_is_audited_and_never_overwrites(self):
        self.assertEqual(self.export()[0], 0)
        self.assertEqual(len(self.running.audited("data.export")), 1)
        self.assertEqual(self.export()[0], 5)
        os.unlink(self.out)
        self.assertEqual(self.export("--id", "0" * 64)[0], 3)
        self.assertEqual(len(self.running.audited("data.export")), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
