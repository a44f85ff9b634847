"""What sealing costs: the same program with and without it, the same walk, taking turns.

Each round ingests a file, freezes, trains and registers on fresh objects (end to end, seconds). The
processor time that the program and its children took for a round is kept too: the seconds of a
shared machine spread wider than the limit, the processor's do not; both have the same limit.

"Online read" is measured twice, request by request in turns, so that whatever else the machine does
meets both (milliseconds at the 99th percentile of one client): the bare read of an entity's newest
features (feature-services/S:read), and a prediction by entity id, which is that read and a model.

The program without sealing is tests/plain (falaj_test_plain): nobody can switch the real one off.
Both must know the same rows, give the same features and train the very same model.
"""

import http.client
import json
import statistics
import subprocess
import time
import urllib.parse

from arena import Refused, call
from scenarios.ingest import declared, transactions

TITLE = "training end to end on 1,000,000 rows, sealed against in clear"
UNIT = "s"
PROJECT = "bench"
ASKED = 5000
ROUNDS = 16


class Walker:
    def __init__(self, arena, program, name, rival=None):
        self.rival = rival
        if rival:
            rival.rival = self
        self.file = transactions(arena)
        self.server = arena.serve(program, "dev", "--data", arena.work / name, "--port", 0,
                                  "--grpc-port", 0)
        self.count, self.ingests, self.cpus = 0, [], []
        self.p99s = {"read": [], "predict": []}
        self.apply(declared("Zone", "bench-zone", {}),
                   declared("Project", PROJECT, {"zone": "bench-zone"}),
                   declared("Entity", "customer",
                            {"keys": [{"name": "customer_id", "type": "int64"}]}),
                   declared("Source", "payments", {"format": "parquet", "path": "t.parquet",
                                                   "event_time": "at",
                                                   "created_time": "loaded_at"}))

    @property
    def extra(self) -> dict:
        p99s = {}
        for what, own in self.p99s.items():
            p99, other = (statistics.median(each[1:]) for each in (own, self.rival.p99s[what]))
            p99s |= {f"{what}_p99_ms": p99, f"{what}_p99_more_us": (p99 - other) * 1e3}
        return {**p99s,
                "ingest_s": statistics.median(self.ingests[1:]),
                "cpu_s": statistics.median(self.cpus[1:]),
                "cpu_more_percent": statistics.median(
                    (own / other - 1) * 100
                    for own, other in zip(self.cpus[1:], self.rival.cpus[1:]))}

    def api(self, path, body=None, method=None):
        joint = "&" if "?" in path else "?"
        return call(f"{self.server.url}/api/v1/{path}{joint}project={PROJECT}", body, method)

    def apply(self, *objects):
        self.api("objects", {"objects": list(objects)}, "PUT")

    def declare(self, n):
        features = [{"name": "amount", "type": "float64"},
                    {"name": "merchant_risk", "type": "float64"},
                    {"name": "items", "type": "int64"}]
        self.apply(
            declared("FeatureView", f"pay_{n}", {"entity": "customer", "source": "payments",
                                                 "ttl": "3650d", "features": features}),
            declared("FeatureService", f"svc_{n}",
                     {"features": [{f"pay_{n}": ["amount", "items"]}]}),
            declared("TrainingSet", f"set_{n}", {
                "service": f"svc_{n}", "spine": {"view": f"pay_{n}", "label": "merchant_risk"},
                "split": {"by": "customer_id", "valid": "20%"}}),
            declared("TrainJob", f"job_{n}", {
                "data": {"training_set": f"set_{n}"}, "engine": "lightgbm",
                "params": {"num_leaves": 15, "rounds": 30, "seed": 7},
                "resources": {"threads": 1, "memory": "2Gi", "time_max": "10m"},
                "register": {"model": f"model_{n}", "verify_rows": 100000}}),
            declared("Model", f"model_{n}", {}),
            declared("Deployment", f"dep_{n}", {"model": f"model_{n}", "alias": "champion",
                                                "features": f"svc_{n}"}))

    def round(self):
        self.count += 1
        n = self.count
        self.declare(n)
        cpu_before = self.server.family_cpu_seconds()
        begin = time.perf_counter()
        url = f"{self.server.url}/api/v1/feature-views/pay_{n}:ingest?format=parquet"
        subprocess.run(["curl", "-sSf", "-o", "/dev/null", "-X", "POST", "-T", str(self.file),
                        f"{url}&project={PROJECT}"], check=True)
        self.ingests.append(time.perf_counter() - begin)
        frozen = self.api(f"training-sets/set_{n}:freeze", {})
        started = self.api(f"train-jobs/job_{n}:run", {})
        while True:
            job = self.api(f"jobs/{started['job']}:wait?seconds=20")
            if job["status"] in ("succeeded", "failed", "cancelled"):
                break
        seconds = time.perf_counter() - begin
        self.cpus.append(self.server.family_cpu_seconds() - cpu_before)
        if job["status"] != "succeeded":
            raise Refused(f"{self.server.url}: training {job['status']}: {job['error']}")
        version = self.api(f"models/model_{n}")["versions"][0]
        if self.rival.count == n:
            walkers = (self, self.rival) if n % 2 else (self.rival, self)
            for walker in walkers:
                walker.deploy(n)
            ask_in_turns("read", f"feature-services/svc_{n}:read", walkers)
            ask_in_turns("predict", f"deployments/dep_{n}:predict", walkers)
        return seconds, {"rows": frozen["rows"], "set": frozen["data_sha256"],
                             "auc": version["metrics"]}

    def deploy(self, n):
        self.api(f"models/model_{n}/aliases/champion", {"version": 1, "reason": "bench"}, "PUT")

    def connect(self):
        at = urllib.parse.urlsplit(self.server.url)
        return http.client.HTTPConnection(at.hostname, at.port)

    def close(self):
        pass


def told(reply: dict) -> str:
    """What both must answer alike: rows of features, or scores."""
    rows = reply["rows"] if "rows" in reply else [p["score"] for p in reply["predictions"]]
    return json.dumps(rows)


def ask_in_turns(what, route, walkers):
    """Keeps what the 99th of a hundred requests took, of each."""
    sides = [(walker.connect(), walker, []) for walker in walkers]
    path = f"/api/v1/{route}?project={PROJECT}"
    for i in range(ASKED):
        body = json.dumps({"entities": [{"customer_id": 1 + i % 500}]})
        replies = set()
        for connection, _, times in sides if i % 2 else reversed(sides):
            begin = time.perf_counter()
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read()
            times.append((time.perf_counter() - begin) * 1e3)
            if reply.status != 200:
                raise Refused(f"{route} was answered by {reply.status}")
            replies.add(told(json.loads(text)))
        if len(replies) != 1:
            raise Refused(f"{route}: the answers differ: {sorted(replies)}")
    for connection, walker, times in sides:
        connection.close()
        walker.p99s[what].append(statistics.quantiles(times, n=100)[98])


_sealed = None


def ours(arena):
    global _sealed
    _sealed = Walker(arena, arena.falaj, "sealed")
    return _sealed


def peer(arena):
    return Walker(arena, arena.build / "falaj_test_plain", "clear", rival=_sealed)
