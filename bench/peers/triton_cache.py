"""Triton's own HTTP and gRPC servers and response cache. usage: triton_cache.py FOLDER COLUMNS

Runs with the Python of build/race_triton, whose pytriton package has the binary. The model `bench`
answers y = x + x in its Python backend; a request that was answered before is answered from the
cache, without leaving the binary. FOLDER is made new.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytriton
from onnx_peer import announce, free_ports

MODEL = """
import triton_python_backend_utils as utils

class TritonPythonModel:
    def execute(self, requests):
        replies = []
        for request in requests:
            x = utils.get_input_tensor_by_name(request, "x").as_numpy()
            replies.append(utils.InferenceResponse([utils.Tensor("y", x + x)]))
        return replies
"""
CONFIG = """
name: "bench"
backend: "python"
max_batch_size: 64
input [ {{ name: "x" data_type: TYPE_FP32 dims: [ {columns} ] }} ]
output [ {{ name: "y" data_type: TYPE_FP32 dims: [ {columns} ] }} ]
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
response_cache {{ enable: true }}
"""


def main():
    folder, columns = Path(sys.argv[1]), int(sys.argv[2])
    home = Path(pytriton.__file__).parent / "tritonserver"
    shutil.rmtree(folder, ignore_errors=True)
    version = folder / "bench/1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (folder / "bench/config.pbtxt").write_text(CONFIG.format(columns=columns))
    stubs = home / f"python_backend_stubs/{sys.version_info[0]}.{sys.version_info[1]}"
    shutil.copy(stubs / "triton_python_backend_stub", folder / "bench")
    http, grpc = free_ports(2)
    server = subprocess.Popen(
        [home / "bin/tritonserver", f"--model-repository={folder}",
         f"--backend-directory={home / 'backends'}", f"--cache-directory={home / 'caches'}",
         "--cache-config=local,size=67108864", "--http-address=127.0.0.1",
         "--grpc-address=127.0.0.1", f"--http-port={http}", f"--grpc-port={grpc}",
         "--allow-metrics=false", "--log-verbose=0"],
        stdout=sys.stderr,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    announce(f"http://127.0.0.1:{http}", "/v2/models/bench/ready", grpc=grpc)
    sys.exit(server.wait())


if __name__ == "__main__":
    main()
