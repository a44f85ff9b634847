"""A real server with small models of every type, for tests of clients of the V2 protocol."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "attacks"))
import onnx_bytes as onnx  # noqa: E402

PROGRAM = os.environ["FALAJ_BINARY"]

# Of the model `types`, which answers what it was given: number of the type in ONNX, shape.
TYPES = {
    "BOOL": (9, (None, 2)),
    "UINT8": (2, (None, 2)),
    "INT32": (6, (None, 2)),
    "INT64": (7, (None, 2)),
    "FP16": (10, (None, 2)),
    "FP32": (1, (None, 2)),
    "FP64": (11, (None, 2)),
    "BYTES": (8, (None, 2)),
}


def echo(types):
    """A model with an input and an output of each type: `out_T` is `in_T`."""
    body = b"".join(onnx.data(1, onnx.node("Identity", [f"in_{t}"], [f"out_{t}"])) for t in types)
    body += onnx.data(2, "echo")
    for way, field in (("in", 11), ("out", 12)):
        for name in types:
            body += onnx.data(field, onnx.value_info(f"{way}_{name}", *TYPES[name]))
    return onnx.model(body)


class ServedModels:
    """with ServedModels() as served: `twice` (y = x + x) and one `echo_T` for each type."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="falaj-models-")
        words = ["--data", self.folder + "/data", "--port", "0", "--grpc-port", "0"]
        with open(self.folder + "/log", "wb") as log:
            self.server = subprocess.Popen(
                [PROGRAM, "dev", *words],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.url = self.server.stdout.readline().decode().split()[1]
        self.grpc = self.server.stdout.readline().decode().split()[1]
        try:
            self.deploy("twice", onnx.doubled())
            for name in TYPES:
                self.deploy("echo_" + name.lower(), echo([name]))
        except BaseException:
            self.__exit__()
            raise
        return self

    def deploy(self, name, content):
        path = f"{self.folder}/{name}.onnx"
        pathlib.Path(path).write_bytes(content)
        self.falaj("models", "import", path, "--model", name)
        declared = {"kind": "Deployment", "metadata": {"name": name, "project": "default"},
                    "spec": {"model": name, "version": 1}}  # fmt: skip
        self.falaj("apply", "-f", "-", typed=json.dumps(declared))
        self.load(name)

    def load(self, name, word="load"):
        """Returns once it is done."""
        url = f"{self.url}/v2/repository/models/{name}/{word}"
        subprocess.run(["curl", "-sSf", "-X", "POST", url], check=True)

    def falaj(self, *words, typed=""):
        subprocess.run(
            [PROGRAM, *words, "--server", self.url],
            input=typed.encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait(timeout=10)
        self.server.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
