"""MLServer over onnxruntime, REST and gRPC. usage: mlserver_onnx.py MODEL.onnx

Runs with the Python of build/race_mlserver. At its best for a small model on one core: no worker
processes beside the server, no metrics, no packing of replies, no log of requests. MLServer has no
runtime of its own for ONNX files: this class is the least that one can write. The model is `bench`.
"""

import asyncio
import sys

import numpy
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.settings import ModelParameters
from mlserver.types import InferenceResponse
from onnx_peer import announce, free_ports, session


class OnnxModel(MLModel):
    async def load(self) -> bool:
        self.session = session(self.settings.parameters.uri)
        self.given = self.session.get_inputs()[0].name
        self.made = self.session.get_outputs()[0].name
        return True

    async def predict(self, payload):
        rows = NumpyCodec.decode_input(payload.inputs[0]).astype(numpy.float32, copy=False)
        scores = self.session.run([self.made], {self.given: rows})[0]
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output(self.made, scores)]
        )


async def main():
    http, grpc = free_ports(2)
    settings = Settings(
        debug=False, host="127.0.0.1", http_port=http, grpc_port=grpc, parallel_workers=0,
        metrics_endpoint=None, gzip_enabled=False, load_models_at_startup=False,
    )  # fmt: skip
    model = ModelSettings(
        name="bench", implementation=OnnxModel, parameters=ModelParameters(uri=sys.argv[1])
    )
    announce(f"http://127.0.0.1:{http}", "/v2/models/bench/ready", grpc=grpc)
    await MLServer(settings).start([model])


if __name__ == "__main__":
    import uvloop

    uvloop.install()
    asyncio.run(main())
