"""LitServe over onnxruntime. usage: litserve_onnx.py MODEL.onnx

Runs with the Python of build/race_servers: one server process, one worker, its quick queue. `POST
/predict {"features": [...]}` answers `{"prediction": p}`.
"""

import logging
import sys

import litserve
import numpy
from onnx_peer import announce, free_ports, session


class OnnxApi(litserve.LitAPI):
    def setup(self, device):
        self.session = session(sys.argv[1])
        self.given = self.session.get_inputs()[0].name

    def decode_request(self, request):
        return numpy.array([request["features"]], numpy.float32)

    def predict(self, rows):
        return self.session.run(None, {self.given: rows})[0]

    def encode_response(self, scores):
        return {"prediction": float(scores[0, -1])}


if __name__ == "__main__":
    (port,) = free_ports(1)
    count = session(sys.argv[1]).get_inputs()[0].shape[1]
    announce(f"http://127.0.0.1:{port}", "/predict", {"features": [0.0] * count})
    logging.disable(logging.INFO)
    server = litserve.LitServer(
        OnnxApi(), accelerator="cpu", devices=1, workers_per_device=1, fast_queue=True
    )
    server.run(
        host="127.0.0.1", port=port, num_api_servers=1, log_level="warning",
        generate_client_file=False, access_log=False,
    )  # fmt: skip
