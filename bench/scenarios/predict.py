"""Prediction by entity id against FastAPI + onnxruntime, same model, 16 keep-alive clients.

Ours finds the features of (customer, merchant) and predicts; the peer is handed those features in
its request, so it does less. The load generator (wrk, one thread) is the same for both.
"""

import json
import random
import statistics
import subprocess
import urllib.request

from arena import Refused, call

TITLE = "prediction by entity id, 16 keep-alive clients, against FastAPI + onnxruntime"
UNIT = "req/s"
TOLERANCE = 1e-6
ENTITIES, CHECKED, SECONDS = 2000, 50, 3


class Contestant:
    """Takes requests at `url`; `bodies` are what the clients post, in turn."""

    def __init__(self, arena, program, path: str, bodies: list[dict], prediction_of):
        self.arena, self.program, self.prediction_of = arena, program, prediction_of
        self.url, self.bodies = program.url + path, bodies
        self.file = arena.work / f"{program.process.pid}.bodies"
        self.file.write_text("".join(json.dumps(b) + "\n" for b in bodies))
        self.p50s: list[float] = []
        self.cpu: list[float] = []

    @property
    def extra(self) -> dict:
        return {"p50_ms": statistics.median(self.p50s[1:]),
                "cpu_us": statistics.median(self.cpu[1:])}

    def wrk(self) -> list:
        """The load: the file's bodies in turn; what follows it are further headers."""
        script = self.arena.root / "bench/peers/post_lines.lua"
        return ["wrk", "-t1", "-c16", f"-d{SECONDS}s", "-s", str(script), self.url, "--",
                str(self.file)]

    def ask(self, body):
        return call(self.url, body)

    def round(self):
        cpu_before = self.program.cpu_seconds()
        done = subprocess.run(self.wrk(), capture_output=True, text=True, check=True)
        told = json.loads(done.stdout.strip().splitlines()[-1])
        if told["failed"]:
            raise Refused(f"{self.url}: {told['failed']} of {told['requests']} requests failed")
        self.p50s.append(told["p50_ms"])
        cpu = self.program.cpu_seconds() - cpu_before
        self.cpu.append(cpu / told["requests"] * 1e6)
        answer = [self.prediction_of(self.ask(body)) for body in self.bodies[:CHECKED]]
        return told["requests"] / told["seconds"], answer

    def close(self):
        pass  # The arena stops the programs.


class World:
    """One demo: a trained and deployed model, and entities that are known online."""

    def __init__(self, arena):
        self.data = arena.work / "data"
        self.server = arena.serve(arena.falaj, "dev", "--data", self.data, "--port", 0,
                                  "--grpc-port", 0)
        told = arena.run_json(arena.falaj, "demo", "--server", self.server.url, "-o", "json")
        self.url, self.project = self.server.url, told["project"]
        # Without its policy: a retraining in the middle of a race would take a core.
        self.api("objects/Policy/fraud_loop", method="DELETE")
        chosen = random.Random(7)
        self.entities = [{"customer_id": chosen.randint(1, 4000),
                          "merchant_id": chosen.randint(1, 200)} for _ in range(ENTITIES)]
        deployed = self.predict(self.entities[:1])["version"]
        version = next(v for v in self.api("models/fraud")["versions"] if v["version"] == deployed)
        self.columns = version["signature"]["features"]
        self.deployed, self.work = deployed, arena.work

    @property
    def model(self):
        """The served file, for the peer: in the data folder it is sealed."""
        path = self.work / "fraud.onnx"
        if not path.exists():
            url = f"{self.url}/api/v1/models/fraud/versions/{self.deployed}/onnx"
            with urllib.request.urlopen(f"{url}?project={self.project}", timeout=60) as reply:
                path.write_bytes(reply.read())
        return path

    def api(self, path: str, body=None, method=None):
        joint = "&" if "?" in path else "?"
        return call(f"{self.url}/api/v1/{path}{joint}project={self.project}", body, method)

    def predict(self, entities: list[dict]) -> dict:
        return self.api("deployments/fraud:predict?explain=true", {"entities": entities})

    def features(self) -> list[list]:
        rows = []
        for at in range(0, ENTITIES, 500):
            for told in self.predict(self.entities[at:at + 500])["predictions"]:
                rows.append([told["features"][name] for name in self.columns])
        return rows


def world_of(arena) -> World:
    if not hasattr(arena, "world"):
        arena.world = World(arena)
    return arena.world


def ours(arena):
    world = world_of(arena)
    path = f"/api/v1/deployments/fraud:predict?project={world.project}"
    return Contestant(arena, world.server, path, [{"entity": e} for e in world.entities],
                      lambda reply: reply["predictions"][0]["score"])


def peer(arena):
    world = world_of(arena)
    bodies = [{"features": row} for row in world.features()]
    program = arena.serve(arena.python, arena.root / "bench/peers/fastapi_onnx.py", world.model)
    return Contestant(arena, program, "/predict", bodies,
                      lambda reply: reply["prediction"])
