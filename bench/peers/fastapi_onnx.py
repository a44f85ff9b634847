"""The usual way to serve a model: FastAPI on uvicorn (uvloop, httptools) over onnxruntime.

usage: fastapi_onnx.py MODEL.onnx
Given ready-made features, `POST /predict {"features": [...]}` answers `{"prediction": p}`. One
process, like ours. The call is made inside the event loop: for a model of microseconds that is
faster than FastAPI's thread pool. Prints `ready URL` when it serves.
"""

import socket
import sys

import numpy
import onnxruntime
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
input_name = session.get_inputs()[0].name
output_name = session.get_outputs()[-1].name
app = FastAPI()


class Row(BaseModel):
    features: list[float | None]


@app.post("/predict")
async def predict(row: Row):
    values = numpy.array([row.features], dtype=numpy.float32)  # None becomes NaN.
    scores = session.run([output_name], {input_name: values})[0]
    return {"prediction": float(numpy.asarray(scores).reshape(-1)[-1])}


class Announced(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(f"ready http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True)


def main():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="warning",
                            access_log=False)
    Announced(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
