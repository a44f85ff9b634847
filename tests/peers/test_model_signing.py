"""OpenSSF's own tool verifies what this server signed, and refuses what it did not."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "attacks"))
import onnx_bytes  # noqa: E402
from program import PATIENCE_SECONDS, ProgramTest  # noqa: E402

TOOL = os.path.join(os.path.dirname(sys.executable), "model_signing")


class ModelSigning(ProgramTest):
    def setUp(self):
        super().setUp()
        self.running = self.server().start()
        self.model = os.path.join(self.folder, "model")
        os.mkdir(self.model)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as out:
            out.write(content)
        return path

    def verify(self, signature, key):
        """With the publisher's program and a public key, as any receiver of the model would."""
        done = subprocess.run(
            [TOOL, "verify", "key", self.model, "--signature", signature, "--public_key", key],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_SECONDS,
            cwd=self.folder,
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def test_the_tool_agrees_with_our_signature(self):
        made = self.running.request(
            "POST",
            "/api/v1/models/doubled/versions:import",
            onnx_bytes.doubled(),
            "application/octet-stream",
        )
        self.assertEqual(made.status, 201, made.text)
        at = "/api/v1/models/doubled/versions/1/"
        file = self.running.request("GET", at + "onnx").body
        bundle = self.running.get(at + "signature")
        onnx = self.write("model/model.onnx", file)
        signature = self.write("model.sig", json.dumps(bundle).encode())
        key = self.write("key.pem", self.running.get("/api/v1/signing-key")["pem"].encode())
        code, text = self.verify(signature, key)
        self.assertEqual(code, 0, text)
        with self.subTest("another file"):
            self.write("model/model.onnx", file + b"\0")
            self.assertNotEqual(self.verify(signature, key)[0], 0)
            self.write("model/model.onnx", file)
        with self.subTest("one more file"):
            extra = self.write("model/more.txt", b"more")
            self.assertNotEqual(self.verify(signature, key)[0], 0)
            os.unlink(extra)
        with self.subTest("another server's key"):
            other = self.server().start().get("/api/v1/signing-key")["pem"]
            self.assertNotEqual(
                self.verify(signature, self.write("other.pem", other.encode()))[0], 0
            )
        self.assertEqual(self.verify(signature, key)[0], 0, onnx)


if __name__ == "__main__":
    unittest.main()
