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
import shop  # noqa: E402
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

    def fetch(self, model, *files):
        """The version's files, its signature and the server's key, as a receiver would get them."""
        at = f"/api/v1/models/{model}/versions/1/"
        for route, name in files:
            self.write("model/" + name, self.running.request("GET", at + route).body)
        signature = self.write("model.sig", json.dumps(self.running.get(at + "signature")).encode())
        key = self.write("key.pem", self.running.get("/api/v1/signing-key")["pem"].encode())
        return signature, key

    def test_the_tool_agrees_with_our_signature_of_an_imported_model(self):
        made = self.running.request(
            "POST",
            "/api/v1/models/doubled/versions:import",
            onnx_bytes.doubled(),
            "application/octet-stream",
        )
        self.assertEqual(made.status, 201, made.text)
        signature, key = self.fetch("doubled", ("onnx", "model.onnx"))
        code, text = self.verify(signature, key)
        self.assertEqual(code, 0, text)
        native = self.running.request("GET", "/api/v1/models/doubled/versions/1/native")
        self.assertEqual(native.status, 404, native.text)

    def test_the_tool_agrees_with_our_signature_of_a_trained_model(self):
        shop.open_shop(self.running)
        signature, key = self.fetch("shop", ("onnx", "model.onnx"), ("native", "model.txt"))
        code, text = self.verify(signature, key)
        self.assertEqual(code, 0, text)
        text_file = os.path.join(self.model, "model.txt")
        with open(text_file, "rb") as file:
            content = file.read()
        for name, changed in (("changed", content + b"\n"), ("cut", content[:-1])):
            with self.subTest(name):
                self.write("model/model.txt", changed)
                self.assertNotEqual(self.verify(signature, key)[0], 0)
        self.write("model/model.txt", content)
        with self.subTest("one more file"):
            extra = self.write("model/more.txt", b"more")
            self.assertNotEqual(self.verify(signature, key)[0], 0)
            os.unlink(extra)
        with self.subTest("another server's key"):
            other = self.server().start().get("/api/v1/signing-key")["pem"]
            wrong = self.write("other.pem", other.encode())
            self.assertNotEqual(self.verify(signature, wrong)[0], 0)
        self.assertEqual(self.verify(signature, key)[0], 0)


if __name__ == "__main__":
    unittest.main()
