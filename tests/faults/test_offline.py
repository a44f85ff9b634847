"""A stopped server's folder is checked with every kind of vault; without its key it is not."""

import os
import shutil
import subprocess
import unittest

from program import ProgramTest, environment
from required import needs

MODULE = "/usr/lib/softhsm/libsofthsm2.so"
ZONE = {"apiVersion": "falaj.dev/v1", "kind": "Zone", "metadata": {"name": "ae"}, "spec": {}}


class OfflineTest(ProgramTest):
    def secret(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
            out.write(text + "\n")
        return path

    def run_and_stop(self, *flags):
        server = self.server(*flags).start()
        server.apply(ZONE)
        self.assertEqual(server.stop(), 0)
        return server.data

    def verify(self, data, *flags):
        return self.falaj("audit", "verify", "--data", data, *flags, env=environment())

    def doctor(self, data, *flags):
        return self.falaj("doctor", "--data", data, *flags, env=environment())

    def holds(self, data, *flags):
        code, text = self.verify(data, *flags)
        self.assertEqual(code, 0, text)
        self.assertIn("the log holds", text)
        code, text = self.doctor(data, *flags)
        self.assertEqual(code, 0, text)
        self.assertIn("log holds", text)

    def refuses(self, data, *flags):
        code, text = self.verify(data, *flags)
        self.assertNotEqual(code, 0, text)
        self.assertIn("FJ-704", text)
        code, text = self.doctor(data, *flags)
        self.assertEqual(code, 1, text)


class Files(OfflineTest):
    def test_with_the_machine_key(self):
        self.holds(self.run_and_stop())

    def test_with_a_passphrase(self):
        flags = ("--set", "keys.passphrase_file=" + self.secret("right", "correct horse"))
        data = self.run_and_stop(*flags)
        self.holds(data, *flags)
        self.refuses(data)
        self.refuses(data, "--set", "keys.passphrase_file=" + self.secret("wrong", "battery"))
        config = os.path.join(self.folder, "falaj.yaml")
        with open(config, "w") as out:
            out.write("keys:\n  passphrase_file: " + os.path.join(self.folder, "right") + "\n")
        self.holds(data, "--config", config)

    def test_a_log_shorter_than_what_its_signer_signed_is_an_old_copy(self):
        server = self.server().start()
        self.assertEqual(server.stop(), 0)
        old = self.copy_of(server.data)
        server.start()
        server.apply(ZONE)
        self.assertEqual(server.stop(), 0)
        shutil.rmtree(os.path.join(old, "signer"))
        shutil.copytree(os.path.join(server.data, "signer"), os.path.join(old, "signer"))
        code, text = self.verify(old)
        self.assertNotEqual(code, 0, text)
        self.assertIn("FJ-7051", text)

    def test_an_old_copy_of_all_is_noticed_by_a_signer_that_lies_elsewhere(self):
        apart = ("--set", "audit.signer_dir=" + os.path.join(self.folder, "apart"))
        server = self.server().start()  # Its memory moves when the folder is named later.
        self.assertEqual(server.stop(), 0)
        self.assertTrue(os.path.exists(os.path.join(server.data, "signer", "key")))
        server.flags = [*server.flags, *apart]
        server.start()
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(os.path.join(server.data, "signer")))
        self.holds(server.data, *apart)
        old = self.copy_of(server.data)
        server.start()
        server.apply(ZONE)
        self.assertEqual(server.stop(), 0)
        self.holds(server.data, *apart)

        shutil.rmtree(server.data)
        shutil.copytree(old, server.data)
        ended = server.launch()
        self.assertIsNotNone(ended, "it started from yesterday's folder")
        self.assertIn("FJ-7051", ended[1])
        code, text = self.verify(server.data, *apart)
        self.assertNotEqual(code, 0, text)
        self.assertIn("FJ-7051", text)

    def test_a_backup_brings_a_signer_that_lies_elsewhere(self):
        memory = os.path.join(self.folder, "apart")
        server = self.server("--set", "audit.signer_dir=" + memory).start()
        server.apply(ZONE)
        self.assertEqual(server.stop(), 0)
        copy = os.path.join(self.folder, "backup")
        code, text = self.falaj("backup", "--data", server.data, "--zone", "ae", "--out", copy,
                                "--set", "audit.signer_dir=" + memory)
        self.assertEqual(code, 0, text)
        for name in ("key", "state.json"):
            with open(os.path.join(memory, name), "rb") as live:
                with open(os.path.join(copy, "signer", name), "rb") as kept:
                    self.assertEqual(kept.read(), live.read())
        self.holds(copy)


@needs(os.path.exists(MODULE) and shutil.which("softhsm2-util"), "SoftHSM2 is not installed")
class Hardware(OfflineTest):
    def setUp(self):
        super().setUp()
        tokens = os.path.join(self.folder, "tokens")
        os.mkdir(tokens)
        self.conf = os.path.join(self.folder, "softhsm2.conf")
        with open(self.conf, "w") as out:
            out.write(f"directories.tokendir = {tokens}\nobjectstore.backend = file\n")
        os.environ["SOFTHSM2_CONF"] = self.conf
        self.addCleanup(os.environ.pop, "SOFTHSM2_CONF")
        subprocess.run(
            [
                "softhsm2-util",
                "--init-token",
                "--free",
                "--label",
                "falaj",
                "--pin",
                "4711",
                "--so-pin",
                "87654321",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def token(self, pin):
        return (
            "--set",
            "keys.vault=pkcs11",
            "--set",
            f"keys.pkcs11_module={MODULE}",
            "--set",
            "keys.pkcs11_token=falaj",
            "--set",
            "keys.pkcs11_pin_file=" + self.secret(f"pin-{pin}", pin),
        )

    def test_with_a_token(self):
        flags = self.token("4711")
        data = self.run_and_stop(*flags)
        self.holds(data, *flags)
        self.refuses(data)
        self.refuses(data, *self.token("1174"))


if __name__ == "__main__":
    unittest.main()
