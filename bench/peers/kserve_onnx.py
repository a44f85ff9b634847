"""KServe's own model server over onnxruntime, V2 over REST. usage: kserve_onnx.py MODEL.onnx

Runs with the Python of build/race_servers. No gRPC, no log of latencies or requests. The model is
`bench`.
"""

import logging
import sys

path = sys.argv.pop()  # Its import reads the command line.

import kserve  # noqa: E402
import numpy  # noqa: E402
from kserve.protocol.infer_type import InferOutput, InferResponse  # noqa: E402
from onnx_peer import announce, free_ports, session  # noqa: E402


class OnnxModel(kserve.Model):
    def load(self) -> bool:
        self.session = session(path)
        self.given = self.session.get_inputs()[0].name
        self.made = self.session.get_outputs()[0].name
        self.ready = True
        return True

    async def predict(self, payload, headers=None, response_headers=None):
        rows = payload.inputs[0].as_numpy().astype(numpy.float32, copy=False)
        scores = self.session.run([self.made], {self.given: rows})[0]
        output = InferOutput(self.made, list(scores.shape), "FP32")
        output.set_data_from_numpy(scores, binary_data=False)
        return InferResponse(payload.id, self.name, [output])


if __name__ == "__main__":
    (port,) = free_ports(1)
    logging.disable(logging.INFO)
    model = OnnxModel("bench")
    model.load()
    announce(f"http://127.0.0.1:{port}", "/v2/models/bench/ready")
    kserve.ModelServer(
        http_port=port, workers=1, enable_grpc=False, enable_latency_logging=False
    ).start([model])
