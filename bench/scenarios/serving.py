"""Inference over the wire against ONNX Runtime in a loop, against FastAPI, against itself without
batching, and under twice the load that it can do.

Models are made here: `small` (32 → 64 → 1, about 10 µs), `mid` (four convolutions, about 7 ms),
`wide` (three layers of 1,024, whose weights one row must read as a whole). Ratios over 1 are in our
favour, except for the loops, where 1 is the limit.
"""

import json
import random
import socket
import statistics
import struct
import subprocess
import threading
import time

from arena import Refused, call

TITLE = "inference over the wire: nearness to the limit, batching, overload"
SECONDS = 4
SLO_MS = 50


# ---- ONNX, as much as is needed ------------------------------------------------------------------


def varint(n: int) -> bytes:
    out = b""
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number: int, value) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def weights(name: str, shape: list[int], seed: int) -> bytes:
    chosen = random.Random(seed)
    count = 1
    for dim in shape:
        count *= dim
    scale = (count / shape[0]) ** -0.5
    values = struct.pack(f"<{count}f", *(chosen.gauss(0, scale) for _ in range(count)))
    return b"".join(field(1, d) for d in shape) + field(2, 1) + field(8, name) + field(9, values)


def info(name: str, shape: list) -> bytes:
    dims = b"".join(field(1, field(2, d) if isinstance(d, str) else field(1, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, dims)))


def integers(name: str, values: list[int]) -> bytes:
    return field(5, field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7))


def node(op: str, inputs: list[str], output: str, attributes: bytes = b"") -> bytes:
    return field(1, b"".join(field(1, i) for i in inputs) + field(2, output) + field(4, op)
                 + attributes)


def model(nodes: list[bytes], initial: list[bytes], given: bytes, made: bytes) -> bytes:
    graph = (b"".join(nodes) + field(2, "bench") + b"".join(field(5, i) for i in initial)
             + field(11, given) + field(12, made))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def layers(sizes: list[int]) -> bytes:
    nodes, initial, last = [], [], "input"
    for i, (inward, outward) in enumerate(zip(sizes, sizes[1:])):
        initial.append(weights(f"w{i}", [inward, outward], i))
        end = "score" if i + 2 == len(sizes) else f"h{i}"
        nodes.append(node("MatMul", [last, f"w{i}"], end if end == "score" else f"m{i}"))
        if end != "score":
            nodes.append(node("Relu", [f"m{i}"], end))
        last = end
    return model(nodes, initial, info("input", ["N", sizes[0]]), info("score", ["N", sizes[-1]]))


def convolutions() -> tuple[bytes, int]:
    side, channels = 64, [4, 64, 64, 64, 64]
    nodes, initial, last = [], [], "input"
    for i, (inward, outward) in enumerate(zip(channels, channels[1:])):
        initial.append(weights(f"w{i}", [outward, inward, 3, 3], i))
        nodes.append(node("Conv", [last, f"w{i}"], f"c{i}", integers("pads", [1, 1, 1, 1])))
        nodes.append(node("Relu", [f"c{i}"], f"h{i}"))
        last = f"h{i}"
    nodes.append(node("GlobalAveragePool", [last], "pooled"))
    nodes.append(node("Flatten", ["pooled"], "score"))
    given = info("input", ["N", channels[0], side, side])
    return model(nodes, initial, given, info("score", ["N", channels[-1]])), channels[0] * side ** 2


# ---- Asking ------------------------------------------------------------------------------------


class Model:
    def __init__(self, arena, name: str, onnx: bytes, shape: list[int]):
        count = 1
        for dim in shape:
            count *= dim
        chosen = random.Random(3)
        self.name, self.shape = name, shape
        self.values = [chosen.uniform(-1, 1) for _ in range(count)]
        row = struct.pack(f"<{count}f", *self.values)
        head = json.dumps({"inputs": [{"name": "input", "shape": [1, *shape], "datatype": "FP32",
                                       "parameters": {"binary_data_size": len(row)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        self.file, self.row = arena.work / f"{name}.onnx", arena.work / f"{name}.row"
        self.body, self.head = arena.work / f"{name}.body", len(head)
        self.file.write_bytes(onnx)
        self.row.write_bytes(row)
        self.body.write_bytes(head + row)

    def loop(self, arena, threads: int, cores: str) -> dict:
        return arena.run_json("taskset", "-c", cores, arena.python,
                              arena.root / "bench/peers/ort_loop.py", self.file, self.row, threads,
                              SECONDS)

    def wrk(self, arena, url: str, deployment: str, clients: int, cores: str) -> dict:
        script = arena.root / "bench/peers/post_lines.lua"
        command = ["taskset", "-c", cores, "wrk", "-t1", f"-c{clients}", f"-d{SECONDS}s", "-s",
                   script, f"{url}/v2/models/{deployment}/infer", "--", self.body,
                   f"Inference-Header-Content-Length: {self.head}"]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True)
        told = json.loads(done.stdout.strip().splitlines()[-1])
        if told["failed"]:
            raise Refused(f"{deployment}: {told['failed']} of {told['requests']} requests failed")
        return {"per_s": told["requests"] / told["seconds"], **told}

    def check(self, url: str, deployment: str, answer: list[float]) -> None:
        flat = {"name": "input", "shape": [1, *self.shape], "datatype": "FP32", "data": self.values}
        ours = call(f"{url}/v2/models/{deployment}/infer", {"inputs": [flat]})
        got = ours["outputs"][0]["data"]
        if any(struct.pack("<f", a) != struct.pack("<f", b) for a, b in zip(got, answer)):
            raise Refused(f"{deployment}: the answers differ")


def deploy(arena, server, model: Model) -> None:
    """`NAME`, and `NAME-alone` whose requests never run together."""
    subprocess.run([str(arena.falaj), "models", "import", str(model.file), "--model", model.name,
                    "--server", server.url], check=True, stdout=subprocess.DEVNULL)
    told = [{"apiVersion": "falaj.dev/v1", "kind": "Deployment",
             "metadata": {"name": model.name + suffix, "project": "default"},
             "spec": {"model": model.name, "version": 1, "slo": {"p99": slo}, "batch": batch}}
            for suffix, batch, slo in (("", "auto", "10s"), ("-alone", "never", "10s"),
                                       ("-slo", "auto", f"{SLO_MS}ms"))]
    call(server.url + "/api/v1/objects", {"objects": told}, "PUT")
    for suffix in ("", "-alone", "-slo"):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                call(f"{server.url}/v2/models/{model.name}{suffix}/ready")
                break
            except Refused:
                time.sleep(0.1)


def overload(model: Model, url: str, per_s: float) -> dict:
    """Open loop, Poisson arrivals: what was answered within the SLO, from when it was due."""
    host, port = url.removeprefix("http://").split(":")
    body = model.body.read_bytes()
    head = (f"POST /v2/models/{model.name}-slo/infer HTTP/1.1\r\nHost: localhost\r\n"
            f"Inference-Header-Content-Length: {model.head}\r\nContent-Length: {len(body)}\r\n\r\n")
    message = head.encode() + body
    chosen, due, at = random.Random(4), [], 0.5
    while at < SECONDS + 0.5:
        at += chosen.expovariate(per_s)
        due.append(at)
    lock, taken, good, refused, late = threading.Lock(), [0], [0], [0], [0]
    begin = time.perf_counter()

    def client() -> None:
        link = socket.create_connection((host, int(port)))
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            with lock:
                if taken[0] == len(due):
                    return
                mine = due[taken[0]]
                taken[0] += 1
            time.sleep(max(0.0, begin + mine - time.perf_counter()))
            link.sendall(message)
            reply = b""
            while b"\r\n\r\n" not in reply:
                reply += link.recv(65536)
            lines, _, rest = reply.partition(b"\r\n\r\n")
            left = int(lines.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(rest)
            while left > 0:
                left -= len(link.recv(65536))
            took = (time.perf_counter() - begin - mine) * 1e3
            with lock:
                outcome = refused if b" 503 " in lines.split(b"\r\n")[0] else (
                    good if took <= SLO_MS else late)
                outcome[0] += 1

    clients = [threading.Thread(target=client) for _ in range(64)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    return {"good_per_s": good[0] / SECONDS, "refused": refused[0], "late": late[0]}


def measure(arena) -> dict:
    server = arena.serve(arena.falaj, "dev", "--data", arena.work / f"data-{time.time_ns()}",
                         "--port", 0, "--grpc-port", 0)
    conv, count = convolutions()
    small = Model(arena, "small", layers([32, 64, 1]), [32])
    mid = Model(arena, "mid", conv, [4, 64, 64])
    wide = Model(arena, "wide", layers([256, 1024, 1024, 1024, 8]), [256])
    figures = {}
    for each in (small, mid, wide):
        deploy(arena, server, each)
    limit = mid.loop(arena, 2, "0,1")
    mid.check(server.url, "mid", limit["answer"])
    ours = mid.wrk(arena, server.url, "mid", 8, "0,1")
    figures["mid_to_loop"] = ours["per_s"] / limit["per_s"]
    figures["mid_per_s"] = ours["per_s"]
    limit = mid.loop(arena, 1, "0,1")
    one = mid.wrk(arena, server.url, "mid", 1, "0,1")
    figures["mid_p50_to_loop"] = one["p50_ms"] / limit["p50_ms"]

    subprocess.run(["taskset", "-acp", "0", str(server.process.pid)], check=True,
                   stdout=subprocess.DEVNULL)
    limit = small.loop(arena, 1, "0")
    small.check(server.url, "small", limit["answer"])
    figures["small_to_loop"] = (small.wrk(arena, server.url, "small", 64, "1")["per_s"]
                                / limit["per_s"])
    for each in (small, wide):
        together = each.wrk(arena, server.url, each.name, 64, "1")["per_s"]
        alone = each.wrk(arena, server.url, each.name + "-alone", 64, "1")["per_s"]
        figures[f"{each.name}_batching_gain"] = together / alone
        figures[f"{each.name}_per_s"] = together
    lone = [small.wrk(arena, server.url, name, 1, "1")["p50_ms"]
            for name in ("small", "small-alone", "small-alone", "small")]
    figures["lone_p50"] = statistics.mean(lone[::3]) / statistics.mean(lone[1:3])
    subprocess.run(["taskset", "-acp", "0,1", str(server.process.pid)], check=True,
                   stdout=subprocess.DEVNULL)
    capacity = mid.wrk(arena, server.url, "mid-alone", 8, "0,1")["per_s"]
    told = overload(mid, server.url, 2 * capacity)
    figures["overload_goodput"] = told["good_per_s"] / capacity
    figures["overload_late"] = told["late"]
    figures["overload_refused"] = told["refused"]
    server.stop()
    return figures
