"""The limit: ONNX Runtime called in a loop, in this process, one row at a time.

usage: ort_loop.py MODEL.onnx INPUT.bin THREADS SECONDS
INPUT.bin is one row of the model's only input. Prints {"per_s", "p50_ms", "answer"}.
"""

import json
import statistics
import sys
import threading
import time

import numpy
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
asked = session.get_inputs()[0]
shape = [1] + [int(d) for d in asked.shape[1:]]
row = {asked.name: numpy.fromfile(sys.argv[2], numpy.float32).reshape(shape)}
threads, seconds = int(sys.argv[3]), float(sys.argv[4])
times = [[] for _ in range(threads)]


def loop(mine: list) -> None:
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        session.run(None, row)
        mine.append(time.perf_counter() - begin)


session.run(None, row)
runners = [threading.Thread(target=loop, args=(mine,)) for mine in times]
for runner in runners:
    runner.start()
for runner in runners:
    runner.join()
every = [t for mine in times for t in mine]
print(json.dumps({"per_s": len(every) / seconds, "p50_ms": statistics.median(every) * 1e3,
                  "answer": session.run(None, row)[0].reshape(-1).tolist()}))
