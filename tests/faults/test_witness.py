"""Two real servers: one keeps a log, the other witnesses it, known to each other by certificate."""

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
import unittest

from program import PATIENCE_SECONDS, PROGRAM, wait_until
from test_tls import TlsTest

VERIFIER = os.path.join(os.path.dirname(PROGRAM), "falaj-verify")


class Witnessed(TlsTest):
    def setUp(self):
        super().setUp()
        self.witness = self.production().start()
        self.token = self.witness.set_up()
        self.flags = (
            "--set",
            f"audit.witness={self.witness.url}",
            "--set",
            "audit.origin=falaj/ledger",
        )
        self.ledger = self.production(*self.flags)

    def told(self, server, token, *words):
        """What the command line answers for an administrator of that server."""
        where = ("--server", server.url, "--ca", server.authority)
        code, text = self.falaj(*words, *where, token=token)
        self.assertEqual(code, 0, text)
        return text

    def issue(self, name, path):
        """As the witness's administrator would; the file holds key, certificate and authority."""
        self.told(self.witness, self.token, "certificates", "issue", name, "--out", path)

    def grant(self, name):
        who = f"service:spiffe://falaj.local/service/{name}"
        self.witness.apply(
            {
                "apiVersion": "falaj.dev/v1",
                "kind": "Grant",
                "metadata": {"name": name},
                "spec": {"to": [who], "actions": ["audit.witness"], "on": "platform"},
            }
        )

    def introduce(self):
        """The ledger gets a certificate of the witness's authority before its first start."""
        os.makedirs(os.path.join(self.ledger.data, "tls"), mode=0o700)
        self.issue("ledger", os.path.join(self.ledger.data, "tls", "peer.pem"))
        self.grant("ledger")

    def start(self):
        self.ledger.start()
        self.ledger_token = self.ledger.set_up()

    def grow(self, server, name):
        server.apply(
            {"apiVersion": "falaj.dev/v1", "kind": "Zone", "metadata": {"name": name}, "spec": {}}
        )

    def sign(self, server):
        return server.good("POST", "/api/v1/audit:sign", {})

    def verify(self, what, *words):
        """In a new folder with nothing but the program and what it is given, and no environment."""
        alone = tempfile.mkdtemp(dir=self.folder)
        shutil.copy(VERIFIER, alone)
        given = []
        for word in words:
            if os.path.isdir(word):
                shutil.copytree(word, os.path.join(alone, os.path.basename(word)))
            elif os.path.exists(word):
                shutil.copy(word, alone)
            given.append(os.path.basename(word) if os.path.exists(word) else word)
        done = subprocess.run(
            ["./falaj-verify", what, *given],
            cwd=alone,
            env={},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_SECONDS,
        )
        return done.returncode, done.stdout.decode()

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def witness_key(self):
        return self.told(self.witness, self.token, "audit", "key", "--witness").strip()

    def test_heads_are_cosigned_and_checked_without_either_server(self):
        self.introduce()
        self.start()
        head = self.sign(self.ledger)
        self.assertEqual(head["witness_trouble"], "")
        key, witness = self.file("log.key", head["key"]), self.file("w.key", self.witness_key())
        bundle = os.path.join(self.folder, "bundle")
        self.told(self.ledger, self.ledger_token, "evidence", "export", "--out", bundle)
        pinned = self.witness.audited("witness.pin")
        self.assertEqual([each["object"] for each in pinned], ["Log/falaj/ledger"])
        self.assertEqual(self.ledger.stop(), 0)
        self.assertEqual(self.witness.stop(), 0)
        note = self.file("head.txt", head["checkpoint"])
        code, text = self.verify("checkpoint", note, "--key", key, "--witness", witness)
        self.assertEqual(code, 0, text)
        self.assertIn("falaj/ledger signed", text)
        self.assertIn("cosigned it", text)
        code, text = self.verify("bundle", bundle, "--key", key, "--witness", witness)
        self.assertEqual(code, 0, text)
        self.assertIn("has witnessed the first", text)
        # A cosignature moved to another head, and a witness that never saw this log.
        lines = head["checkpoint"].split("\n")
        lines[1] = str(int(lines[1]) + 1)
        code, _ = self.verify(
            "checkpoint",
            self.file("moved.txt", "\n".join(lines)),
            "--key",
            key,
            "--witness",
            witness,
        )
        self.assertEqual(code, 1)
        stranger = "+".join(["stranger", *self.key_of_nobody()])
        code, text = self.verify(
            "bundle", bundle, "--key", key, "--witness", self.file("s.key", stranger)
        )
        self.assertEqual(code, 1, text)

    def key_of_nobody(self):
        """A well-formed key that nobody has: id and base64 for the name "stranger"."""
        public = bytes([4]) + bytes(range(32))
        key_id = hashlib.sha256(b"stranger\n" + public).digest()[:4]
        return key_id.hex(), base64.b64encode(public).decode()

    def test_a_ledger_set_back_with_its_signer_does_not_start(self):
        self.introduce()
        self.start()
        self.sign(self.ledger)
        self.assertEqual(self.ledger.stop(), 0)
        old = self.copy_of(self.ledger.data)
        headers = self.ledger.headers
        self.ledger.start()
        self.grow(self.ledger, "later")
        seen = self.sign(self.ledger)
        self.assertEqual(seen["witness_trouble"], "")
        self.ledger.kill()
        text = self.refused(self.production(*self.flags, data=old), "FJ-7051")
        self.assertIn("the witness", text)
        self.refuse_fork(old, headers, seen["head"]["size"])

    def refuse_fork(self, old, headers, size):
        """Grown past what the witness saw while nobody looked, it is another log."""
        fork = self.production("--set", "audit.origin=falaj/ledger", data=old)
        fork.headers = headers
        fork.start()
        wait_until(lambda: self.grown_past(fork, size), "the fork to grow")
        head = self.sign(fork)
        proof = fork.get(f"/api/v1/audit/consistency?from={size}")["proof"]
        self.assertEqual(fork.stop(), 0)
        self.refused(self.production(*self.flags, data=old), "FJ-7051")
        # Its operator has every key and goes to the witness himself.
        pem = os.path.join(self.folder, "insider.pem")
        self.issue("insider", pem)
        self.grant("insider")
        before = self.ask(self.witness, "GET", "/api/v1/witness?origin=falaj%2Fledger", pem)[1]
        self.assertGreaterEqual(before["size"], size)
        for claimed in (proof, [], proof[:-1]):
            status, answer = self.ask(
                self.witness,
                "POST",
                "/api/v1/witness",
                pem,
                {"checkpoint": head["checkpoint"], "key": head["key"], "proof": claimed},
            )
            self.assertEqual((status // 100, answer["code"]), (4, "FJ-7054"), answer)
        self.assertEqual(
            self.ask(self.witness, "GET", "/api/v1/witness?origin=falaj%2Fledger", pem)[1], before
        )

    def grown_past(self, server, size):
        self.grow(server, f"fork{self.made}")
        self.made += 1
        return self.sign(server)["head"]["size"] > size + 8

    def test_without_certificate_or_grant_nothing_is_cosigned_and_the_ledger_says_so(self):
        self.start()  # No certificate: it does not even believe the witness's authority.
        head = self.sign(self.ledger)
        self.assertNotEqual(head["witness_trouble"], "")
        note, key = self.file("head.txt", head["checkpoint"]), self.file("log.key", head["key"])
        code, text = self.verify(
            "checkpoint", note, "--key", key, "--witness", self.file("w.key", self.witness_key())
        )
        self.assertEqual(code, 1, text)
        self.assertIn("did not cosign", text)
        self.assertEqual(self.ledger.stop(), 0)
        self.issue("ledger", os.path.join(self.ledger.data, "tls", "peer.pem"))
        self.ledger.start()
        self.assertFalse(os.path.exists(os.path.join(self.ledger.data, "tls", "peer.pem")))
        trouble = self.sign(self.ledger)["witness_trouble"]
        self.assertIn("403", trouble)
        # Granted while both run: the next tick succeeds by itself.
        self.grant("ledger")
        wait_until(
            lambda: self.ledger.get("/api/v1/audit/head")["witness_trouble"] == "",
            "the witness to cosign",
        )

    def test_a_witness_that_was_away_catches_up(self):
        self.introduce()
        self.start()
        self.sign(self.ledger)
        port = self.witness.address()[1]
        self.assertEqual(self.witness.stop(), 0)
        self.grow(self.ledger, "alone")
        self.assertNotEqual(self.sign(self.ledger)["witness_trouble"], "")
        self.witness.port = port
        self.witness.start()
        wait_until(
            lambda: self.ledger.get("/api/v1/audit/head")["witness_trouble"] == "",
            "the witness to cosign again",
        )
        note = self.file("head.txt", self.ledger.get("/api/v1/audit/head")["checkpoint"])
        code, text = self.verify(
            "checkpoint",
            note,
            "--key",
            self.file("log.key", self.sign(self.ledger)["key"]),
            "--witness",
            self.file("w.key", self.witness_key()),
        )
        self.assertEqual(code, 0, text)


if __name__ == "__main__":
    unittest.main()
