"""Inference over the wire: against ONNX Runtime in a loop, against other servers of models, and
against itself. A table of rows, each one thing that serving promises.

BENCH_ROWS=loop_mid,swaps runs only those rows (all: ROWS, below); BENCH_SECONDS (2) is the length of a turn, BENCH_TURNS (3)
how often each side has one. Sides take turns (A B, B A, …), answers are compared first. One thread
for each run of a model, everywhere. Where a row says so the server has core 0 and the load core 1,
and what is compared is requests per second of the server's processor time: what the generator can
send does not enter it. Rows against servers that are not installed (tools/peers servers), or that
do not start here, are not raced, and say so.

Models are made here: `small` (32 → 64 → 1, about 10 µs), `mid` (four convolutions, about 7 ms),
`wide` (three layers of 1,024, whose weights one row must read as a whole), `line` (1,024 → 1),
`fifty` (50 named features → 64 → 1), `twice` (y = x + x).
"""

import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import threading
import time
import urllib.parse

from arena import Refused, call
from inference import (Question, Told, answer_of, convolutions, h2load, in_turns, layers, middle,
                       must_agree, pin, pinned, ratios, twice, with_cpu, wrk)
from scenarios import online

TITLE = "inference over the wire: against the loop, other servers, and itself"
ROUNDS = 1  # Turns are taken inside.
SECONDS = int(os.environ.get("BENCH_SECONDS", "2"))
TURNS = int(os.environ.get("BENCH_TURNS", "3"))
SLO_MS = 50
CLIENTS = 64  # Of rows with a small model: enough that the server always has work.
NOT_RACED: dict[str, str] = {}  # Figure → why; run.py prints them.


# ---- Our server ----------------------------------------------------------------------------------


class Ours:
    """A `falaj dev` of its own, with models brought and deployed as they are asked for."""

    def __init__(self, arena, program=None, data=None):
        self.arena, self.root = arena, arena.root
        self.program = program or arena.falaj
        self.data = data or arena.work / f"data-{time.time_ns()}"
        self.server = arena.serve(self.program, "dev", "--data", self.data, "--port", 0,
                                  "--grpc-port", 0, "--set", "log.level=warn")
        self.url = self.server.url
        self.grpc = self.server.process.stdout.readline().split()[1]

    def run(self, *words) -> None:
        done = subprocess.run([str(w) for w in (self.arena.falaj, *words, "--server", self.url)],
                              capture_output=True, text=True)
        if done.returncode:
            raise Refused(f"falaj {' '.join(map(str, words))}: {done.stderr[-500:]}")

    def apply(self, *objects) -> None:
        call(self.url + "/api/v1/objects", {"objects": list(objects)}, "PUT")

    def deploy(self, question: Question, suffix: str = "", **spec) -> str:
        """`NAME` of the question's model; its file is imported the first time."""
        if not suffix:
            self.run("models", "import", question.file, "--model", question.name)
        name = question.name + suffix
        spec = {"model": question.name, "version": 1, "slo": {"p99": "10s"}, **spec}
        self.apply({"apiVersion": "falaj.dev/v1", "kind": "Deployment",
                    "metadata": {"name": name, "project": "default"}, "spec": spec})
        self.load(name)
        return name

    def load(self, name: str, word: str = "load") -> None:
        call(f"{self.url}/v2/repository/models/{name}/{word}", {})

    def infer(self, name: str) -> str:
        return f"{self.url}/v2/models/{name}/infer"

    def answer(self, name: str, question: Question) -> list[float]:
        return answer_of(self.url, f"/v2/models/{name}/infer", question)

    def rest(self, name: str, asked, clients: int, cores: str) -> Told:
        return with_cpu(self.server, lambda: wrk(self.root, self.infer(name), asked, clients,
                                                 SECONDS, cores))

    def call_grpc(self, name: str, question: Question, clients: int, cores: str) -> Told:
        body = question.as_grpc(name)
        return with_cpu(self.server, lambda: h2load(self.grpc, body, clients, SECONDS, cores))


def ours_of(arena) -> Ours:
    """One for all rows that have nothing special to ask of it."""
    if not hasattr(arena, "ours"):
        arena.ours = Ours(arena)
        folder = arena.work
        mid, shape = convolutions()
        arena.small = Question(folder, "small", layers([32, 64, 1]), [32])
        arena.mid = Question(folder, "mid", mid, shape)
        arena.wide = Question(folder, "wide", layers([256, 1024, 1024, 1024, 8]), [256])
        arena.line = Question(folder, "line", layers([1024, 1]), [1024])
        for each in (arena.small, arena.mid, arena.wide):
            arena.ours.deploy(each)
            arena.ours.deploy(each, "-alone", batch="never")
        arena.ours.deploy(arena.mid, "-slo", slo={"p99": f"{SLO_MS}ms"})
        arena.ours.deploy(arena.line)
    return arena.ours


# ---- Against the loop ----------------------------------------------------------------------------


def loop(arena, question: Question, callers: int, cores: str) -> tuple[Told, list[float]]:
    """ONNX Runtime called in a loop by a C++ program, nothing between two runs."""
    program = arena.built("loop_bench", "src/serving/loop_bench")
    library = arena.root / "build/deps/lib/libonnxruntime.so.1"
    told = arena.run_json(*pinned(cores, [program, library, question.file, question.row, callers,
                                          SECONDS]))
    return Told(told["per_s"], told["p50_ms"], told["p99_ms"],
                round(told["per_s"] * SECONDS), told["cpu_us"]), told["answer"]


def loop_mid(arena) -> dict:
    """8 callers on both cores, the load on them too."""
    ours, mid = ours_of(arena), arena.mid
    pin(ours.server, "0,1")
    must_agree("mid", ours.answer("mid", mid), loop(arena, mid, 1, "0,1")[1])
    asked = mid.as_binary()
    limit, rest, grpc = in_turns(
        TURNS, lambda: loop(arena, mid, 8, "0,1")[0], lambda: ours.rest("mid", asked, 8, "0,1"),
        lambda: ours.call_grpc("mid", mid, 8, "0,1"))
    return {"mid_rest_to_loop": ratios(rest, limit, "per_s"),
            "mid_grpc_to_loop": ratios(grpc, limit, "per_s"),
            "mid_rest_p50_to_loop": ratios(rest, limit, "p50_ms"),
            "mid_grpc_p50_to_loop": ratios(grpc, limit, "p50_ms"),
            "mid_loop_per_s": middle(limit, "per_s"), "mid_rest_per_s": middle(rest, "per_s"),
            "mid_grpc_per_s": middle(grpc, "per_s"), "mid_rest_p99_ms": middle(rest, "p99_ms"),
            "mid_rest_cpu_us": middle(rest, "cpu_us"), "mid_grpc_cpu_us": middle(grpc, "cpu_us")}


def loop_small(arena) -> dict:
    """The server has core 0, as the loop has."""
    ours, small = ours_of(arena), arena.small
    pin(ours.server, "0")
    must_agree("small", ours.answer("small", small), loop(arena, small, 1, "0")[1])
    asked = small.as_binary()
    limit, rest, grpc = in_turns(
        TURNS, lambda: loop(arena, small, 1, "0")[0],
        lambda: ours.rest("small", asked, CLIENTS, "1"),
        lambda: ours.call_grpc("small", small, CLIENTS, "1"))
    return {"small_rest_to_loop": ratios(rest, limit, "per_s"),
            "small_grpc_to_loop": ratios(grpc, limit, "per_s"),
            "small_loop_per_s": middle(limit, "per_s"), "small_rest_per_s": middle(rest, "per_s"),
            "small_grpc_per_s": middle(grpc, "per_s"),
            "small_rest_p50_ms": middle(rest, "p50_ms"), "small_rest_p99_ms": middle(rest, "p99_ms"),
            "small_rest_cpu_us": middle(rest, "cpu_us"),
            "small_grpc_cpu_us": middle(grpc, "cpu_us")}


# ---- Against itself ------------------------------------------------------------------------------


def batching(arena) -> dict:
    """Requests together against each alone; and a request that is the only one."""
    ours = ours_of(arena)
    pin(ours.server, "0")
    figures = {}
    for question in (arena.small, arena.wide):
        name, asked = question.name, question.as_binary()
        together, alone = in_turns(
            TURNS, lambda: ours.rest(name, asked, CLIENTS, "1"),
            lambda: ours.rest(name + "-alone", asked, CLIENTS, "1"))
        figures[f"{name}_batching_gain"] = ratios(together, alone, "per_s")
        figures[f"{name}_together_per_s"] = middle(together, "per_s")
        one, lone = in_turns(2 * TURNS, lambda: ours.rest(name, asked, 1, "1"),
                             lambda: ours.rest(name + "-alone", asked, 1, "1"))
        figures[f"{name}_lone_p50"] = ratios(one, lone, "p50_ms")
    return figures


def features(arena) -> dict:
    """50 features of 5 views by entity id, against the same model with them in the request."""
    ours, keys = Ours(arena), 2000
    folder = online.tables_of(arena)
    ours.apply(*online.objects())
    for view in range(online.VIEWS):
        ours.run("ingest", f"view{view}", "-f", folder / f"view{view}.parquet")
    names = [f"v{v}_f{f}" for v in range(online.VIEWS) for f in range(online.FEATURES)]
    question = Question(arena.work, "fifty", layers([50, 64, 1], names), [50])
    ours.deploy(question, features="all")
    chosen = random.Random(5)
    entities = [{"entity": {"key": chosen.randrange(keys)}} for _ in range(500)]
    path = ours.url + "/api/v1/deployments/fifty:predict"
    supplied, scores = [], []
    for entity in entities:
        told = call(path + "?explain=true", entity)["predictions"][0]
        question.values = [told["features"][name] for name in names]
        scores.append(told["score"])
        supplied.append(question.json())
    for body, score in zip(supplied[:20], scores):
        must_agree("fifty", call(ours.infer("fifty"), body)["outputs"][0]["data"], [score], 1e-6)
    files = {}
    for name, bodies in (("entities", entities), ("supplied", supplied)):
        files[name] = arena.work / f"{name}.lines"
        files[name].write_text("".join(json.dumps(body) + "\n" for body in bodies))
    pin(ours.server, "0")

    def ask(url, name, clients):
        return with_cpu(ours.server, lambda: wrk(arena.root, url, (files[name], []), clients,
                                                 SECONDS, "1"))

    figures = {}
    for clients in (1, 16):
        by_id, given = in_turns(2 * TURNS, lambda: ask(path, "entities", clients),
                                lambda: ask(ours.infer("fifty"), "supplied", clients))
        figures[f"features_p50_{clients}"] = ratios(by_id, given, "p50_ms")
        figures[f"features_p99_{clients}"] = ratios(by_id, given, "p99_ms")
    figures["features_cpu_us"] = middle(by_id, "cpu_us")
    figures["supplied_cpu_us"] = middle(given, "cpu_us")
    ours.server.stop()
    return figures


def poisson(question: Question, url: str, name: str, per_s: float, seconds: float) -> dict:
    """Open loop: what was answered within the SLO, from when it was due."""
    host, port = url.removeprefix("http://").split(":")
    path, headers = question.as_binary()
    body = path.read_bytes()
    head = (f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: localhost\r\n{headers[0]}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    message = head.encode() + body
    chosen, due, at = random.Random(4), [], 0.5
    while at < seconds + 0.5:
        at += chosen.expovariate(per_s)
        due.append(at)
    lock, taken = threading.Lock(), [0]
    counts = {"good": 0, "refused": 0, "late": 0}
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
                in_time = "good" if took <= SLO_MS else "late"
                counts["refused" if b" 503 " in lines.split(b"\r\n")[0] else in_time] += 1

    clients = [threading.Thread(target=client) for _ in range(64)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    return {"good_per_s": counts["good"] / seconds, **counts}


def overload(arena) -> dict:
    """Twice what it can do: answers within 50 ms, against what it can do."""
    ours, mid = ours_of(arena), arena.mid
    pin(ours.server, "0,1")
    figures = {"overload_goodput": [], "overload_late": [], "overload_refused": []}
    for _ in range(TURNS):
        capacity = ours.rest("mid-alone", mid.as_binary(), 8, "0,1").per_s
        told = poisson(mid, ours.url, "mid-slo", 2 * capacity, 2 * SECONDS)
        figures["overload_goodput"].append(told["good_per_s"] / capacity)
        figures["overload_late"].append(told["late"])
        figures["overload_refused"].append(told["refused"])
    return figures


def steady(ours: Ours, name: str, file, seconds: float, rate: int) -> dict:
    """`falaj bench`, open loop: latency counts from when a request was due."""
    done = subprocess.run(
        [str(w) for w in (ours.arena.falaj, "bench", ours.infer(name), "--rate", rate, "--clients",
                          32, "--seconds", seconds, "-f", file, "-o", "json")],
        capture_output=True, text=True)
    told = json.loads(done.stdout)
    if done.returncode or told["errors"] or told.get("unsent"):
        raise Refused(f"{name}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return told


def swaps(arena) -> dict:
    """100 changes of the version that answers, under load; p99 against that without changes."""
    ours = Ours(arena)
    rate, wanted = 4000, int(os.environ.get("BENCH_SWAPS", "100"))
    seconds = max(26 * wanted / 100, 2)
    question = Question(arena.work, "swap", layers([32, 64, 1]), [32])
    ours.run("models", "import", question.file, "--model", "swap")
    other = Question(arena.work, "other", layers([32, 64, 1], seed=9), [32])
    ours.run("models", "import", other.file, "--model", "swap")

    def follow(version: int) -> None:
        call(ours.url + "/api/v1/models/swap/aliases/live", {"version": version}, "PUT")

    follow(1)
    ours.apply({"apiVersion": "falaj.dev/v1", "kind": "Deployment",
                "metadata": {"name": "swap", "project": "default"},
                "spec": {"model": "swap", "alias": "live", "slo": {"p99": "10s"}}})
    ours.load("swap")
    first = ours.answer("swap", question)
    file, told = question.as_json()[0], {}
    before = steady(ours, "swap", file, seconds / 4, rate)
    worker = threading.Thread(
        target=lambda: told.update(steady(ours, "swap", file, seconds, rate)))
    worker.start()
    made, begin = 0, time.monotonic()
    while made < wanted and worker.is_alive():
        time.sleep(max(0.0, begin + made * seconds / (wanted + 4) - time.monotonic()))
        version = 2 - made % 2
        follow(version)  # Deployments that follow it have swapped when this is answered.
        made += 1
        now = call(ours.infer("swap"), question.json())
        if now["model_version"] != str(version) or (
                (now["outputs"][0]["data"] == first) != (version == 1)):
            raise Refused(f"swap {made}: version {now['model_version']} answered, not {version}")
    busy = worker.is_alive()
    worker.join()
    if not told or not busy:
        raise Refused(f"only {made} of {wanted} swaps fitted into the load, or it failed")
    after = steady(ours, "swap", file, seconds / 4, rate)
    ours.server.stop()
    calm = statistics.mean([before["latency_ms"]["p99"], after["latency_ms"]["p99"]])
    return {"swaps": made, "swap_failed": 0, "swap_requests": told["answered"],
            "swap_p99": told["latency_ms"]["p99"] / calm, "swap_p99_ms": told["latency_ms"]["p99"],
            "swap_calm_p99_ms": calm}


def telemetry(arena) -> dict:
    """The program against itself without metrics and without a log of predictions."""
    ours_of(arena)
    quiet = arena.built("falaj_test_quiet", "falaj_test_quiet")
    pair = [Ours(arena), Ours(arena, quiet)]
    for each in pair:
        each.deploy(arena.small)
        pin(each.server, "0")
    must_agree("quiet", *(each.answer("small", arena.small) for each in pair))
    asked = arena.small.as_binary()
    on, off = in_turns(3 * TURNS, *(lambda each=each: each.rest("small", asked, CLIENTS, "1")
                                    for each in pair))
    for each in pair:
        each.server.stop()
    return {"telemetry_per_s": ratios(on, off, "per_s"),
            "telemetry_per_cpu_s": ratios(on, off, "per_cpu_s")}


def cycles(arena) -> dict:
    """Loads and unloads, each with an answer between: what memory stays."""
    ours_of(arena)
    ours = Ours(arena)
    ours.deploy(arena.wide)
    wanted = int(os.environ.get("BENCH_CYCLES", "1000"))
    link = http.client.HTTPConnection(urllib.parse.urlparse(ours.url).netloc)
    body = json.dumps(arena.wide.json())

    def post(path: str, content: str) -> None:
        link.request("POST", path, content, {"Content-Type": "application/json"})
        reply = link.getresponse()
        told = reply.read()
        if reply.status != 200:
            raise Refused(f"{path}: {reply.status}: {told[:300]!r}")

    sizes = []
    for i in range(wanted + 100):
        if i >= 100 and (i - 100) % max(1, wanted // 10) == 0:
            sizes.append(ours.server.rss_megabytes())
        post("/v2/repository/models/wide/unload", "{}")
        post("/v2/repository/models/wide/load", "{}")
        post("/v2/models/wide/infer", body)
    sizes.append(ours.server.rss_megabytes())
    ours.server.stop()
    return {"cycles": wanted, "cycles_rss_growth": sizes[-1] / sizes[0] - 1,
            "cycles_rss_mb": sizes[-1], "cycles_rss_mb_most": max(sizes)}


# ---- Against other servers -----------------------------------------------------------------------


def peer(arena, environment: str, script: str, *words):
    """Another server on core 0, or Refused with what is missing."""
    python = arena.root / f"build/{environment}/bin/python"
    if not python.exists():
        raise Refused("not installed: tools/peers servers")
    program = arena.serve("taskset", "-c", "0", python, "-W", "ignore", "-B",
                          arena.root / "bench/peers" / script, *words)
    program.grpc = ""
    if environment != "peers":
        program.grpc = program.process.stdout.readline().split()[1]
    return program


def mlserver(arena) -> dict:
    """JSON of 1 × 1,024 numbers over REST, the same row over gRPC."""
    ours, line = ours_of(arena), arena.line
    other = peer(arena, "race_mlserver", "mlserver_onnx.py", line.file)
    pin(ours.server, "0")
    must_agree("mlserver", ours.answer("line", line),
               answer_of(other.url, "/v2/models/bench/infer", line), 1e-6)
    asked, url = line.as_json(), other.url + "/v2/models/bench/infer"
    rest, theirs = in_turns(
        TURNS, lambda: ours.rest("line", asked, CLIENTS, "1"),
        lambda: with_cpu(other, lambda: wrk(arena.root, url, asked, CLIENTS, SECONDS, "1")))
    body = line.as_grpc("bench")
    grpc, theirs_grpc = in_turns(
        TURNS, lambda: ours.call_grpc("line", line, CLIENTS, "1"),
        lambda: with_cpu(other, lambda: h2load(other.grpc, body, CLIENTS, SECONDS, "1")))
    other.stop()
    return {"mlserver_rest": ratios(rest, theirs, "per_cpu_s"),
            "mlserver_grpc": ratios(grpc, theirs_grpc, "per_cpu_s"),
            "line_rest_cpu_us": middle(rest, "cpu_us"),
            "mlserver_rest_cpu_us": middle(theirs, "cpu_us"),
            "line_grpc_cpu_us": middle(grpc, "cpu_us"),
            "mlserver_grpc_cpu_us": middle(theirs_grpc, "cpu_us"),
            "mlserver_rest_per_s": middle(theirs, "per_s"),
            "mlserver_grpc_per_s": middle(theirs_grpc, "per_s")}


def small_json(arena, name: str, environment: str, script: str, path: str, features_only) -> dict:
    """1 × 32 numbers as JSON; `features_only`: the peer has a form of its own."""
    ours, small = ours_of(arena), arena.small
    other = peer(arena, environment, script, small.file)
    pin(ours.server, "0")
    url = other.url + path
    if features_only:
        document = {"features": small.values}
        told = call(url, document)
        theirs = [told["prediction"] if isinstance(told, dict) else told]
    else:
        document = small.json()
        theirs = answer_of(other.url, path, small)
    must_agree(name, ours.answer("small", small), theirs, 1e-6)
    asked, given = small.as_json(), small.as_json(document, name)
    mine, others = in_turns(
        TURNS, lambda: ours.rest("small", asked, CLIENTS, "1"),
        lambda: with_cpu(other, lambda: wrk(arena.root, url, given, CLIENTS, SECONDS, "1")))
    other.stop()
    return {name: ratios(mine, others, "per_cpu_s"), f"{name}_cpu_us": middle(others, "cpu_us"),
            f"{name}_per_s": middle(others, "per_s"), f"{name}_p99_ms": middle(others, "p99_ms"),
            "small_json_cpu_us": middle(mine, "cpu_us"), "small_json_per_s": middle(mine, "per_s")}


def fastapi(arena) -> dict:
    return small_json(arena, "fastapi", "peers", "fastapi_onnx.py", "/predict", True)


def litserve(arena) -> dict:
    return small_json(arena, "litserve", "race_servers", "litserve_onnx.py", "/predict", True)


def bentoml(arena) -> dict:
    return small_json(arena, "bentoml", "race_servers", "bentoml_onnx.py", "/predict", True)


def kserve(arena) -> dict:
    return small_json(arena, "kserve", "race_servers", "kserve_onnx.py",
                      "/v2/models/bench/infer", False)


def triton(arena) -> dict:
    """A request whose answer both have kept, over Triton's own HTTP and gRPC servers."""
    ours = ours_of(arena)
    question = Question(arena.work, "twice", twice(32), [32], "x")
    ours.deploy(question, cache={"bytes": "64Mi"})
    other = peer(arena, "race_triton", "triton_cache.py", arena.work / "triton", 32)
    pin(other, "0")
    pin(ours.server, "0")
    path = "/v2/models/bench/infer"
    must_agree("triton", ours.answer("twice", question), answer_of(other.url, path, question))
    asked, body = question.as_binary(), question.as_grpc("bench")
    http_ours, http_theirs = in_turns(
        TURNS, lambda: ours.rest("twice", asked, CLIENTS, "1"),
        lambda: with_cpu(other, lambda: wrk(arena.root, other.url + path, asked, CLIENTS, SECONDS,
                                            "1")))
    grpc_ours, grpc_theirs = in_turns(
        TURNS, lambda: ours.call_grpc("twice", question, CLIENTS, "1"),
        lambda: with_cpu(other, lambda: h2load(other.grpc, body, CLIENTS, SECONDS, "1")))
    stats = call(other.url + "/v2/models/bench/stats")["model_stats"][0]
    hits = stats["inference_stats"]["cache_hit"]["count"]
    other.stop()
    if hits < sum(turn.requests for turn in http_theirs):
        raise Refused(f"triton: only {hits} answers came from its cache")
    return {"triton_http": ratios(http_ours, http_theirs, "per_cpu_s"),
            "triton_grpc": ratios(grpc_ours, grpc_theirs, "per_cpu_s"),
            "cached_http_cpu_us": middle(http_ours, "cpu_us"),
            "triton_http_cpu_us": middle(http_theirs, "cpu_us"),
            "cached_grpc_cpu_us": middle(grpc_ours, "cpu_us"),
            "triton_grpc_cpu_us": middle(grpc_theirs, "cpu_us")}


def first_answer(program, path: str, question: Question, begun: float) -> float:
    body = json.dumps(question.json())
    while True:
        link = http.client.HTTPConnection(urllib.parse.urlparse(program.url).netloc)
        link.request("POST", path, body, {"Content-Type": "application/json"})
        reply = link.getresponse()
        reply.read()
        if reply.status == 200:
            return time.perf_counter() - begun
        time.sleep(0.001)


def start(arena) -> dict:
    """From starting the program to its first answer, with the model in its folder."""
    ours_of(arena)
    data, line = arena.work / "started", arena.line
    made = Ours(arena, data=data)
    made.deploy(line)
    made.server.stop()

    def mine() -> float:
        begun = time.perf_counter()
        again = Ours(arena, data=data)
        took = first_answer(again.server, "/v2/models/line/infer", line, begun)
        again.server.stop()
        return took

    def theirs() -> float:
        begun = time.perf_counter()
        other = peer(arena, "race_mlserver", "mlserver_onnx.py", line.file)
        took = first_answer(other, "/v2/models/bench/infer", line, begun)
        other.stop()
        return took

    quick, slow = in_turns(TURNS, mine, theirs)
    return {"start_to_mlserver": [a / b for a, b in zip(quick, slow)],
            "start_ms": [a * 1e3 for a in quick], "mlserver_start_ms": [b * 1e3 for b in slow]}


# Row → the figures that bench/budgets.toml judges, for what is not raced.
ROWS = {
    loop_mid: ("mid_rest_to_loop", "mid_grpc_to_loop", "mid_rest_p50_to_loop",
               "mid_grpc_p50_to_loop"),
    loop_small: ("small_rest_to_loop", "small_grpc_to_loop"),
    batching: ("small_batching_gain", "wide_batching_gain", "small_lone_p50", "wide_lone_p50"),
    features: ("features_p50_1", "features_p50_16"),
    overload: ("overload_goodput",),
    swaps: ("swaps", "swap_failed", "swap_requests", "swap_p99"),
    telemetry: ("telemetry_per_s", "telemetry_per_cpu_s"),
    cycles: ("cycles", "cycles_rss_growth"),
    start: ("start_to_mlserver",),
    mlserver: ("mlserver_rest", "mlserver_grpc"),
    fastapi: ("fastapi",),
    litserve: ("litserve",),
    bentoml: ("bentoml",),
    kserve: ("kserve",),
    triton: ("triton_http", "triton_grpc"),
}
NEEDS_OTHERS = (start, mlserver, fastapi, litserve, bentoml, kserve, triton)


def measure(arena) -> dict:
    chosen = [name for name in os.environ.get("BENCH_ROWS", "").split(",") if name]
    known = {row.__name__ for row in ROWS}
    if set(chosen) - known:
        raise Refused(f"BENCH_ROWS: there are {', '.join(sorted(known))}")
    figures: dict = {}
    for row, judged in ROWS.items():
        if chosen and row.__name__ not in chosen:
            NOT_RACED.update(dict.fromkeys(judged, "not chosen"))
            continue
        try:
            figures |= row(arena)
        except Refused as refused:
            if row not in NEEDS_OTHERS or "answers differ" in str(refused):
                raise
            NOT_RACED.update(dict.fromkeys(judged, str(refused).splitlines()[0]))
    return figures
