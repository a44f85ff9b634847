"""What bench/scenarios/serving.py asks with: models, requests in each form, and load.

Models are written here byte by byte: `field`, `node` and the like are as much of ONNX as is needed.
A Question is one row for one model, as JSON, as JSON with a binary tensor and as a gRPC message. A
Load is wrk (HTTP) or h2load (gRPC) with so many clients; both wait for each answer.
"""

import json
import math
import random
import re
import statistics
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from arena import Refused, call

# ---- ONNX ----------------------------------------------------------------------------------------


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
    count = math.prod(shape)
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


def model(nodes: list[bytes], initial: list[bytes], given: bytes, made: bytes,
          features: list[str] | None = None) -> bytes:
    graph = (b"".join(nodes) + field(2, "bench") + b"".join(field(5, i) for i in initial)
             + field(11, given) + field(12, made))
    named = b"" if features is None else field(14, field(1, "features")
                                               + field(2, json.dumps(features)))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)) + named


def layers(sizes: list[int], features: list[str] | None = None, seed: int = 0) -> bytes:
    nodes, initial, last = [], [], "input"
    for i, (inward, outward) in enumerate(zip(sizes, sizes[1:])):
        initial.append(weights(f"w{i}", [inward, outward], seed + i))
        end = "score" if i + 2 == len(sizes) else f"h{i}"
        nodes.append(node("MatMul", [last, f"w{i}"], end if end == "score" else f"m{i}"))
        if end != "score":
            nodes.append(node("Relu", [f"m{i}"], end))
        last = end
    return model(nodes, initial, info("input", ["N", sizes[0]]), info("score", ["N", sizes[-1]]),
                 features)


def convolutions() -> tuple[bytes, list[int]]:
    side, channels = 64, [4, 64, 64, 64, 64]
    nodes, initial, last = [], [], "input"
    for i, (inward, outward) in enumerate(zip(channels, channels[1:])):
        initial.append(weights(f"w{i}", [outward, inward, 3, 3], i))
        nodes.append(node("Conv", [last, f"w{i}"], f"c{i}", integers("pads", [1, 1, 1, 1])))
        nodes.append(node("Relu", [f"c{i}"], f"h{i}"))
        last = f"h{i}"
    nodes.append(node("GlobalAveragePool", [last], "pooled"))
    nodes.append(node("Flatten", ["pooled"], "score"))
    shape = [channels[0], side, side]
    return model(nodes, initial, info("input", ["N", *shape]),
                 info("score", ["N", channels[-1]])), shape


def twice(columns: int) -> bytes:
    """y = x + x."""
    return model([node("Add", ["x", "x"], "y")], [], info("x", ["N", columns]),
                 info("y", ["N", columns]))


# ---- Questions -----------------------------------------------------------------------------------


class Question:
    """One row for a model, written to files that the load generators send."""

    def __init__(self, folder: Path, name: str, onnx: bytes, shape: list[int],
                 given: str = "input"):
        count = math.prod(shape)
        chosen = random.Random(3)
        self.name, self.shape, self.given = name, shape, given
        row = struct.pack(f"<{count}f", *(chosen.uniform(-1, 1) for _ in range(count)))
        self.values = list(struct.unpack(f"<{count}f", row))
        self.file, self.row = folder / f"{name}.onnx", folder / f"{name}.row"
        self.file.write_bytes(onnx)
        self.row.write_bytes(row)
        self.folder = folder

    def json(self) -> dict:
        return {"inputs": [{"name": self.given, "shape": [1, *self.shape], "datatype": "FP32",
                            "data": self.values}]}

    def body(self, kind: str, content: bytes) -> Path:
        path = self.folder / f"{self.name}-{kind}.body"
        path.write_bytes(content)
        return path

    def as_json(self, document: dict | None = None, kind: str = "json") -> tuple[Path, list[str]]:
        """A file to post, and the headers that it needs."""
        return self.body(kind, json.dumps(document or self.json()).encode()), []

    def as_binary(self) -> tuple[Path, list[str]]:
        row = self.row.read_bytes()
        head = json.dumps({"inputs": [{"name": self.given, "shape": [1, *self.shape],
                                       "datatype": "FP32",
                                       "parameters": {"binary_data_size": len(row)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        return (self.body("binary", head + row),
                [f"Inference-Header-Content-Length: {len(head)}"])

    def as_grpc(self, model_name: str) -> Path:
        """ModelInferRequest with raw contents, framed."""
        shape = b"".join(varint(d) for d in [1, *self.shape])
        tensor = field(1, self.given) + field(2, "FP32") + field(3, shape)
        message = field(1, model_name) + field(5, tensor) + field(7, self.row.read_bytes())
        return self.body(f"grpc-{model_name}", b"\0" + struct.pack(">I", len(message)) + message)


def answer_of(url: str, path: str, question: Question) -> list[float]:
    """By JSON, in the V2 protocol."""
    return call(url + path, question.json())["outputs"][0]["data"]


def must_agree(name: str, ours: list[float], theirs: list[float], tolerance: float = 0) -> None:
    """The race counts only when both say the same; without a tolerance, to the bit."""
    same = len(ours) == len(theirs) and all(
        struct.pack("<f", a) == struct.pack("<f", b)
        or abs(a - b) <= tolerance * max(1, abs(a), abs(b)) for a, b in zip(ours, theirs))
    if not same:
        raise Refused(f"{name}: the answers differ: ours {ours[:4]}, the other's {theirs[:4]}")


# ---- Load ----------------------------------------------------------------------------------------


@dataclass
class Told:
    """What a turn measured."""

    per_s: float
    p50_ms: float
    p99_ms: float
    requests: int
    cpu_us: float = 0.0  # Of the server, for each request.

    @property
    def per_cpu_s(self) -> float:
        return 1e6 / self.cpu_us


def pinned(cores: str, command: list) -> list[str]:
    return ["taskset", "-c", cores, *map(str, command)]


def finished(command: list) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"{' '.join(map(str, command))}: {done.stderr[-500:]}{done.stdout[-500:]}")
    return done.stdout


def wrk(root: Path, url: str, asked: tuple[Path, list[str]], clients: int, seconds: float,
        cores: str) -> Told:
    path, headers = asked
    out = finished(pinned(cores, ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "-s",
                                  root / "bench/peers/post_lines.lua", url, "--", path, *headers]))
    told = json.loads(out.strip().splitlines()[-1])
    if told["failed"]:
        raise Refused(f"{url}: {told['failed']} of {told['requests']} requests failed")
    return Told(told["requests"] / told["seconds"], told["p50_ms"], told["p99_ms"],
                told["requests"])


def h2load(address: str, body: Path, clients: int, seconds: float, cores: str) -> Told:
    """Of gRPC: replies must be as long as the first, because an error is a reply without a body."""
    log = body.with_suffix(".log")
    log.unlink(missing_ok=True)
    url = f"http://{address}/inference.GRPCInferenceService/ModelInfer"
    out = finished(pinned(cores, [
        "h2load", f"-c{clients}", "-m1", "-t1", f"-D{seconds}", f"--log-file={log}", "-d", body,
        "-H", "content-type: application/grpc", "-H", "te: trailers", url]))
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", out.split("requests: ")[1])}
    data = int(re.search(r"\((\d+)\) data", out.replace(",", "")).group(1))
    # Columns: when it began, the status, how long it took in microseconds.
    took = sorted(int(line.split()[2]) for line in log.read_text().splitlines())
    log.unlink()
    if counts["failed"] or counts["errored"] or counts["timeout"] or not took:
        raise Refused(f"{url}: {out}")
    if data < 10 * counts["succeeded"]:
        raise Refused(f"{url}: {counts['succeeded']} replies have {data} bytes: errors")
    return Told(counts["succeeded"] / seconds, took[len(took) // 2] / 1e3,
                took[len(took) * 99 // 100] / 1e3, counts["succeeded"])


def with_cpu(program, load) -> Told:
    """Runs `load` and adds what the server's processes spent on it."""
    before = program.family_cpu_seconds()
    told = load()
    told.cpu_us = (program.family_cpu_seconds() - before) / told.requests * 1e6
    return told


def pin(program, cores: str) -> None:
    """All threads of the program and of its children, and what they start from now on."""
    left = [program.process.pid]
    while left:
        pid = left.pop()
        subprocess.run(["taskset", "-acp", cores, str(pid)], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            left += map(int, task.read_text().split())


def in_turns(turns: int, *contestants) -> list[list]:
    """Each is called so often: A B, B A, A B …; their results, by contestant."""
    results = [[] for _ in contestants]
    order = list(range(len(contestants)))
    for _ in range(turns):
        for i in order:
            results[i].append(contestants[i]())
        order.reverse()
    return results


def ratios(ours: list, theirs: list, of: str) -> list[float]:
    """Ours over theirs, turn by turn."""
    return [getattr(a, of) / getattr(b, of) for a, b in zip(ours, theirs)]


def middle(turns: list, of: str) -> float:
    return statistics.median(getattr(turn, of) for turn in turns)
