"""What the opponents of bench/scenarios/serving.py share: the model, ports, and saying `ready`."""

import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request


def session(path: str):
    """One thread for a run, as ours has."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def free_ports(count: int) -> list[int]:
    """For servers that cannot choose their own."""
    held = [socket.socket() for _ in range(count)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def say(line: str) -> None:
    sys.__stdout__.write(line + "\n")
    sys.__stdout__.flush()


def announce(url: str, path: str, body: dict | None = None, grpc: int = 0) -> None:
    """From a thread: `ready URL` once `path` is answered, then `grpc ADDRESS` if there is one."""

    def wait() -> None:
        data = None if body is None else json.dumps(body).encode()
        while True:
            request = urllib.request.Request(
                url + path, data, {"Content-Type": "application/json"}
            )
            try:
                urllib.request.urlopen(request, timeout=5).read()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.005)
        say("ready " + url)
        say(f"grpc 127.0.0.1:{grpc}")

    threading.Thread(target=wait, daemon=True).start()
