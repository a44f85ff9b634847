"""OpenVINO behind falaj/runtime.h: built as its guide says, served beside ONNX Runtime, equal."""

import concurrent.futures
import glob
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "attacks"))
import onnx_bytes as onnx  # noqa: E402

PROGRAM = os.environ["FALAJ_BINARY"]
PACKAGES = glob.glob(str(ROOT / "build/runtime_peers/lib/python*/site-packages/openvino"))
if not PACKAGES:
    print("skipped: third_party/runtime_peers.txt is not installed (tools/peers)")
    raise SystemExit(77)


def network(seed, width=24):
    """A small network of two inputs: MatMul, Add, Relu, MatMul, Softmax."""
    dice = random.Random(seed)

    def weights(name, *dims):
        count = dims[0] * (dims[1] if len(dims) > 1 else 1)
        return onnx.tensor(name, dims, onnx.floats(*(dice.gauss(0, 1) for _ in range(count))))

    nodes = [
        onnx.node("MatMul", ["x", "a"], ["h1"]),
        onnx.node("Add", ["h1", "b"], ["h2"]),
        onnx.node("Relu", ["h2"], ["h3"]),
        onnx.node("MatMul", ["h3", "c"], ["h4"]),
        onnx.node("Softmax", ["h4"], ["y"]),
    ]
    tensors = [weights("a", 2, width), weights("b", width), weights("c", width, 2)]
    return onnx.model(onnx.graph(nodes, tensors))


class OpenVino(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="falaj-openvino-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        library = cls.folder + "/libfalaj_openvino.so"
        subprocess.run([ROOT / "runtimes/openvino/build", PACKAGES[0], library], check=True)
        setting = f"openvino={library}:gone={cls.folder}/gone.so"
        cls.log = open(cls.folder + "/log", "wb")
        cls.addClassCleanup(cls.log.close)
        cls.server = subprocess.Popen(
            [PROGRAM, "dev", "--data", cls.folder + "/data", "--port", "0"],
            env={**os.environ, "FALAJ_SERVING_RUNTIMES": setting},
            stdout=subprocess.PIPE,
            stderr=cls.log,
        )
        cls.url = cls.server.stdout.readline().decode().split()[1]
        cls.addClassCleanup(cls.stop)
        cls.falaj("models", "import", cls.write("net.onnx", network(1)), "--model", "net")
        cls.deploy("theirs", runtime="openvino")
        cls.deploy("ours")
        cls.wait_for("theirs", "ready")
        cls.wait_for("ours", "ready")

    @classmethod
    def stop(cls):
        cls.server.terminate()
        cls.server.wait(timeout=10)
        cls.server.stdout.close()

    @classmethod
    def write(cls, name, content):
        path = os.path.join(cls.folder, name)
        pathlib.Path(path).write_bytes(content)
        return path

    @classmethod
    def falaj(cls, *words):
        done = subprocess.run(
            [PROGRAM, *words, "--server", cls.url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert done.returncode == 0, (words, done.stdout.decode())
        return done.stdout.decode()

    @classmethod
    def deploy(cls, name, model="net", **more):
        spec = {"model": model, "version": 1, **more}
        declared = {"apiVersion": "falaj.dev/v1", "kind": "Deployment",
                    "metadata": {"name": name}, "spec": spec}  # fmt: skip
        # JSON is YAML.
        cls.falaj("apply", "-f", cls.write(name + ".yaml", json.dumps(declared).encode()))

    @classmethod
    def wait_for(cls, name, state):
        """The reconciler's word about a deployment, once it is this state."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            listed = json.loads(cls.falaj("deployments", "-o", "json"))
            listed = listed.get("deployments", listed) if isinstance(listed, dict) else listed
            found = next((each for each in listed if each["name"] == name), None)
            if found and found["state"] == state:
                return found
            assert cls.server.poll() is None, "the server ended"
        raise AssertionError((name, state, listed))

    def infer(self, deployment, rows):
        cells = [value for row in rows for value in row]
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(rows), 2],
                            "data": cells}]}  # fmt: skip
        request = urllib.request.Request(
            f"{self.url}/v2/models/{deployment}/infer",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        answer = json.load(urllib.request.urlopen(request))
        self.assertEqual([each["name"] for each in answer["outputs"]], ["y"])
        self.assertEqual(answer["outputs"][0]["shape"], [len(rows), 2])
        return answer["outputs"][0]["data"]

    def test_both_runtimes_answer_alike(self):
        dice = random.Random(7)
        for count in (1, 2, 17, 300):
            rows = [(dice.uniform(-3, 3), dice.uniform(-3, 3)) for _ in range(count)]
            theirs, ours = self.infer("theirs", rows), self.infer("ours", rows)
            for left, right in zip(theirs, ours, strict=True):
                self.assertAlmostEqual(left, right, places=5)
            self.assertGreater(len(set(theirs)), 1)

    def test_rows_of_many_callers_stay_apart(self):
        rows = [(i / 10, -i / 7) for i in range(60)]
        alone = [self.infer("ours", [row]) for row in rows]
        with concurrent.futures.ThreadPoolExecutor(8) as callers:
            together = list(callers.map(lambda row: self.infer("theirs", [row]), rows))
        for left, right in zip(together, alone, strict=True):
            self.assertAlmostEqual(left[0], right[0], places=5)

    def test_metadata_is_what_the_model_declares(self):
        for name in ("theirs", "ours"):
            found = json.load(urllib.request.urlopen(f"{self.url}/v2/models/{name}"))
            self.assertEqual(
                found["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
            )

    def test_wrong_shapes_are_refused_as_elsewhere(self):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3],
                                "data": [1, 2, 3]}]}  # fmt: skip
            urllib.request.urlopen(
                f"{self.url}/v2/models/theirs/infer", json.dumps(body).encode()
            )
        self.assertEqual(refused.exception.code, 400)
        self.assertIn("unexpected shape", refused.exception.read().decode())
        refused.exception.close()

    def test_a_runtime_that_is_not_there_is_named(self):
        self.deploy("lost", runtime="gone")
        self.assertIn("gone.so", self.wait_for("lost", "failed")["error"])
        self.deploy("unknown", runtime="nobody")
        error = self.wait_for("unknown", "failed")["error"]
        self.assertIn("no runtime 'nobody'", error)
        self.assertIn("openvino", error)


if __name__ == "__main__":
    unittest.main()
