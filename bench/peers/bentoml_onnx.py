"""BentoML over onnxruntime. usage: bentoml_onnx.py MODEL.onnx

Runs with the Python of build/race_servers: `bentoml serve` with one worker, no log of requests, no
metrics, no traces. `POST /predict {"features": [...]}` answers the prediction.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import bentoml
import numpy
from onnx_peer import announce, free_ports, session


@bentoml.service(
    workers=1,
    metrics={"enabled": False},
    logging={"access": {"enabled": False}},
    resources={"cpu": "1"},
)
class Bench:
    def __init__(self):
        self.session = session(os.environ["BENCH_MODEL"])
        self.given = self.session.get_inputs()[0].name

    @bentoml.api
    async def predict(self, features: list[float]) -> float:
        rows = numpy.array([features], numpy.float32)
        return float(self.session.run(None, {self.given: rows})[0][0, -1])


def main():
    (port,) = free_ports(1)
    here = Path(__file__).resolve()
    server = subprocess.Popen(
        [Path(sys.executable).parent / "bentoml", "serve", f"{here.stem}:Bench",
         "--host", "127.0.0.1", "--port", str(port)],
        cwd=here.parent, stdout=sys.stderr,
        env={**os.environ, "BENCH_MODEL": sys.argv[1], "BENTOML_DO_NOT_TRACK": "True",
             "BENTOML_HOME": sys.argv[1] + ".bentoml", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    count = session(sys.argv[1]).get_inputs()[0].shape[1]
    announce(f"http://127.0.0.1:{port}", "/predict", {"features": [0.0] * count})
    server.wait()


if __name__ == "__main__":
    main()
