"""Ten thousand canary strings go in by every way there is; none may lie anywhere in clear.

After all of it, and again after a kill in the middle of everything, the raw bytes of every file of
the data folder are searched: databases, logs, segments, models, uploads, work folders. Where online
rows are kept in Redis, its files and every byte on the way to it and back are searched too. The
same scan over the same program without sealing (tests/plain) must find canaries by the hundreds in
each store, or it could not find anything.
"""
import http.client
import os
import random
import re
import resource
import subprocess
import unittest

import redis_server
import shop
from program import ProgramTest, wait_until
from required import needs

CANARIES = int(os.environ.get("FALAJ_CANARIES", "10000"))
PUSHES = 20
PATTERN = re.compile(rb"cnry[0-9a-f]{16}")
PLAIN = os.environ.get("FALAJ_PLAIN_BINARY", "")


class Flock:
    """Canaries by the way that they went in."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.ways = {}

    def one(self, way):
        word = f"cnry{self.chance.getrandbits(64):016x}"
        self.ways.setdefault(way, set()).add(word)
        return word

    def count(self):
        return sum(len(words) for words in self.ways.values())


def scan(folder):
    """Every canary in the raw bytes below `folder`: the word, and the files that have it."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                for word in PATTERN.findall(file.read()):
                    found.setdefault(word.decode(), set()).add(os.path.relpath(path, folder))
            if PATTERN.search(name.encode()):
                found.setdefault(name, set()).add(path)
    return found


def declare(server, flock):
    """Labels, descriptions, parameters: what people type into objects."""
    for i in range(20):
        thing = shop.thing("Model", f"m{i}", description=flock.one("spec"))
        thing["metadata"]["labels"] = {"note": flock.one("label"), "team": flock.one("label")}
        server.apply(thing)
    server.apply(
        shop.thing("Entity", "person", keys=[{"name": "person_id", "type": "string"}]),
        shop.thing("Source", "people_file", format="csv", path="people.csv", event_time="at"),
        shop.thing("FeatureView", "people", entity="person", source="people_file",
                   features=[{"name": "score", "type": "float64"},
                             {"name": "city", "type": "string"}]),
        shop.thing("FeatureService", "people", features=["people"]),
        shop.thing("TrainingSet", "people", service="people",
                   spine={"path": "l.csv", "time": "at", "label": "y"}))


def ingest(server, flock, rows):
    """Keys and texts of good rows (segments, online store), raw text of bad ones (quarantine)."""
    keys = []
    for part in range(4):
        lines = ["person_id,at,score,city"]
        for i in range(rows // 4):
            keys.append(flock.one("key"))
            lines.append(f"{keys[-1]},{shop.moment(1, i % 3600)},{i},{flock.one('text')}")
            if i % 4 == 0:
                lines.append(f"{flock.one('quarantine')},never,x,{flock.one('quarantine')}")
        server.ingest("people", "\n".join(lines) + "\n")
    return keys


def freeze(server, flock, keys):
    """A spine with some keys nobody knows; the joined set holds keys and texts of the view."""
    lines = ["person_id,at,y"]
    for i, key in enumerate(keys[:400]):
        lines.append(f"{key},{shop.moment(2)},{i % 2}")
        lines.append(f"{flock.one('spine')},{shop.moment(2)},{i % 2}")
    server.good("POST", "/api/v1/training-sets/people:freeze-with-spine?format=csv",
                "\n".join(lines) + "\n")


def talk(server, flock):
    """Refused requests, reasons, job parameters that fail, predictions for unknown people."""
    for i in range(30):
        word = flock.one("refused")
        server.request("POST", f"/api/v1/train-jobs/{word}:run", {})
        server.request("GET", f"/api/v1/quarantine/{flock.one('refused')}")
        server.request("PUT", "/api/v1/models/shop/aliases/champion",
                       {"version": 1, "reason": flock.one("reason")})
    for i in range(3):
        job = shop.train_job(f"fails{i}", params={"rounds": 1}, memory="64Mi")
        job["metadata"]["labels"] = {"why": flock.one("job label")}
        server.apply(job)
        server.job_ended(server.train(f"fails{i}")["job"])
    for i in range(30):
        server.request("POST", "/v2/models/shop/infer",
                       {"id": flock.one("predict"), "inputs": [{
                           "name": flock.one("predict"), "datatype": "FP32", "shape": [1, 2],
                           "data": [1, 2]}]})
    for i in range(5):
        server.request("POST", "/api/v1/deployments/shop:predict",
                       {"entities": [{"customer_id": i, "note": flock.one("predict")}]})


def push_and_import(server, flock):
    """Rows that are pushed, and files that say they are models."""
    for i in range(PUSHES):
        server.good("POST", "/api/v1/feature-views/people:push",
                    {"rows": [{"person_id": flock.one("push"), "at": shop.moment(4, i),
                               "score": i, "city": flock.one("push")}]})
        server.request("POST", "/api/v1/models/m0/versions:import", flock.one("import") * 100,
                       kind="application/octet-stream")


SAVE = """
echo {0}; echo {0} > mine; echo {0} > $FALAJ_OUTPUT/{0} 2>/dev/null
if [ -n "$FALAJ_CKPT_DIR" ]; then
  mkdir $FALAJ_CKPT_DIR/{0}.tmp; echo {0} > $FALAJ_CKPT_DIR/{0}.tmp/{0}
  mv $FALAJ_CKPT_DIR/{0}.tmp $FALAJ_CKPT_DIR/{0}
  echo '{{"metric": "{0}", "step": 1, "value": 1}}' >> $FALAJ_METRICS
fi
"""


def commands(server, flock):
    """What programs are told, print, write and save; one of them and its workers still run."""
    running = []
    for then in ("exit 0", "exit 3", "exec sleep 1000"):
        script = SAVE.format(flock.one("command")) + then
        job = server.good("POST", "/api/v1/jobs", {
            "command": ["sh", "-c", script], "env": {"NOTE": flock.one("command")},
            "name": "canary"})["id"]
        server.apply(shop.thing("TrainJob", "workers", engine="command",
                                params={"note": flock.one("workers")},
                                workers={"cpu": 0.1, "memory": "64Mi"},
                                faults={"crashes_max": 0, "grace": "1s"},
                                command=["sh", "-c", SAVE.format(flock.one("workers")) + then]))
        workers = server.train("workers")
        if then.startswith("exit"):
            server.job_ended(job)
            server.job_ended(workers["job"])
        else:
            running = [job, workers["job"]]
            kept = os.path.join(server.data, "checkpoints", workers["run"], "archive")
            wait_until(lambda: any(name.endswith(".json") and name[0] == "0"
                                   for name in os.listdir(kept)) if os.path.isdir(kept) else False,
                       "a checkpoint that is kept")
            log = os.path.join(server.jobs_folder(), f"{job}-1.log")
            wait_until(lambda: os.path.exists(log), "the log of a running command")
            if not scan(server.jobs_folder()):
                raise AssertionError("what runs wrote nothing: the scan could not find it")
    return running


def half_upload(server, flock, rows):
    """A body that never ends; the connection stays open so that the server keeps what came."""
    connection = http.client.HTTPConnection(*server.address(), timeout=60)
    connection.putrequest("POST", "/api/v1/feature-views/people:ingest?format=csv")
    connection.putheader("Content-Length", str(1 << 26))
    connection.endheaders()
    lines = ["person_id,at,score,city"]
    lines += [f"{flock.one('upload')},{shop.moment(3)},1,{flock.one('upload')}"
              for _ in range(rows)]
    connection.send(("\n".join(lines) + "\n").encode() * 8)
    return connection


class Canaries(ProgramTest):
    def fill(self, server, seed):
        flock = Flock(seed)
        shop.open_shop(server)
        declare(server, flock)
        rows = CANARIES * 2 // 5
        keys = ingest(server, flock, rows)
        freeze(server, flock, keys)
        talk(server, flock)
        push_and_import(server, flock)
        self.running = commands(server, flock)
        upload = half_upload(server, flock, 150)
        self.addCleanup(upload.close)
        while flock.count() < CANARIES:
            thing = shop.thing("Model", "rest", description=" ".join(
                flock.one("spec") for _ in range(min(200, CANARIES - flock.count()))))
            server.apply(thing)
        return flock

    def places(self, folder, flock):
        """How many canaries of each way lie in clear, and in which files."""
        found = scan(folder)
        ways, files = {}, {}
        for way, words in flock.ways.items():
            hits = words & found.keys()
            if hits:
                ways[way] = len(hits)
        for word, where in found.items():
            for path in where:
                files[path] = files.get(path, 0) + 1
        return ways, files

    def test_none_lies_in_clear_while_it_runs_after_a_kill_and_after_a_restart(self):
        server = self.server().start()
        flock = self.fill(server, 20261116)
        self.assertGreaterEqual(flock.count(), CANARIES)
        self.assertEqual(self.places(server.data, flock), ({}, {}), "while it runs")
        for job in self.running:
            server.good("POST", f"/api/v1/jobs/{job}:cancel", {})
            server.job_ended(job)
        for folder in (server.data, server.jobs_folder()):
            self.assertEqual(self.places(folder, flock), ({}, {}), "when the commands ended")
        job = shop.train_job("long", rounds=2000)
        server.apply(job)
        server.train("long")
        server.engine()  # The training process is under way: its folder is part of the scan.
        self.assertEqual(self.places(server.data, flock), ({}, {}), "while it trains")
        server.kill()
        self.assertEqual(self.places(server.data, flock), ({}, {}), "after a kill")
        server.start()
        self.assertEqual(server.rows("people"), CANARIES * 2 // 5 // 4 * 4 + PUSHES)
        server.stop()
        self.assertEqual(self.places(server.data, flock), ({}, {}), "after a clean end")
        print(f"{flock.count()} canaries by {len(flock.ways)} ways: 0 found")

    def test_the_log_of_the_server_has_none(self):
        server = self.server().start()
        flock = self.fill(server, 5)
        server.stop()
        with open(server.log, "rb") as log:
            text = log.read()
        personal = flock.ways["key"] | flock.ways["text"] | flock.ways["quarantine"]
        self.assertEqual({w for w in personal if w.encode() in text}, set())

    @needs(PLAIN, "the program without sealing was not built: falaj_test_plain")
    def test_without_sealing_the_same_scan_finds_them(self):
        server = self.server(program=os.path.abspath(PLAIN)).start()
        flock = self.fill(server, 20261116)
        server.kill()
        ways, files = self.places(server.data, flock)
        self.assertGreater(ways.get("label", 0), 30)
        self.assertGreater(ways.get("key", 0), 100)
        kinds = {path.split(os.sep)[0] for path in files}
        for kind in ("blobs", "online"):
            self.assertIn(kind, kinds, files)
        self.assertTrue(any(name.startswith("metadata.db") for name in kinds), files)
        hits = sum(ways.values())
        print(f"without sealing: {hits} of {flock.count()} found in {len(files)} files")

    def test_no_process_leaves_its_memory(self):
        """No core file, and no other process of the same user may look into it."""
        server = self.server().start()
        shop.stock(server)
        server.apply(shop.train_job("long", rounds=2000))
        server.train("long")
        engine = server.engine()
        for pid in (server.pid, engine):
            limit = lambda: resource.prlimit(pid, resource.RLIMIT_CORE)
            wait_until(lambda: limit() == (0, 0), f"no core file of process {pid}")
        server.kill()
        # Without capabilities, which let root look into anything.
        bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        control = subprocess.Popen([*bare, "sleep", "600"])
        self.addCleanup(control.wait)
        self.addCleanup(control.kill)
        readable = lambda pid: (
            subprocess.run(
                [*bare, "head", "-c1", f"/proc/{pid}/maps"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ).returncode
            == 0
        )

        def asleep():
            with open(f"/proc/{control.pid}/cmdline", "rb") as words:
                return words.read().startswith(b"sleep")

        wait_until(asleep, "the control process")
        if not readable(control.pid):
            self.skipTest("no process can look into another here")
        guarded = self.server(prefix=bare).start()
        self.assertFalse(readable(guarded.pid))


@needs(redis_server.is_installed(), "redis-server is not installed: ./dev setup")
class ThroughRedis(ProgramTest):
    """Keys and texts of people whose online rows lie in a real Redis."""

    ROWS = 400

    def walk(self, **more):
        """The flock; what was heard on the wire; what Redis has on its disk; what the folder has.

        Rows are written, rewritten by pushes, and read back by a second start. `more` is the
        server's.
        """
        redis = redis_server.Redis()
        self.addCleanup(redis.remove)
        redis.start()
        redis.ask("CONFIG", "SET", "rdbcompression", "no")  # It would hide what it packs.
        tap = redis_server.Tap(redis.port)
        self.addCleanup(tap.close)
        flags = ("storage.online=redis", f"storage.redis.url={tap.url}", "storage.redis.zone=local")
        settings = [word for flag in flags for word in ("--set", flag)]
        server = self.server(*settings, **more).start()
        flock = Flock(6379)
        declare(server, flock)
        keys = ingest(server, flock, self.ROWS)
        push_and_import(server, flock)
        wait_until(lambda: redis.rows() >= self.ROWS + PUSHES, "every row in Redis")
        server.kill()
        written = len(tap.bytes())
        server.start()
        self.assertIn(self.city(server, keys[0]), flock.ways["text"])
        server.stop()
        self.assertGreater(len(tap.bytes()), written, "the second start read nothing")
        redis.ask("SAVE")
        self.assertTrue(os.path.exists(os.path.join(redis.folder, "dump.rdb")))
        return flock, tap.bytes(), redis.bytes(), scan(server.data)

    @staticmethod
    def city(server, person):
        body = {"entities": [{"person_id": person}], "features": ["city"]}
        reply = server.good("POST", "/api/v1/feature-services/people:read", body)
        return reply["rows"][0]["values"][0]

    def test_none_lies_in_redis_or_on_the_way_to_it(self):
        flock, wire, disk, folder = self.walk()
        self.assertIn(b"falaj:rows:", wire)
        self.assertIn(b"falaj:rows:", disk)
        self.assertEqual(PATTERN.findall(wire), [], "on the wire")
        self.assertEqual(PATTERN.findall(disk), [], "in Redis")
        self.assertEqual(folder, {})
        for name in (b"person_id", b"people", b"city", b"score"):
            self.assertNotIn(name, wire)
            self.assertNotIn(name, disk)
        print(f"{flock.count()} canaries, {len(wire)} bytes to and from Redis: 0 found")

    @needs(PLAIN, "the program without sealing was not built: falaj_test_plain")
    def test_without_sealing_the_same_search_finds_them(self):
        flock, wire, disk, _ = self.walk(program=os.path.abspath(PLAIN))
        for where in (wire, disk):
            found = {word.decode() for word in PATTERN.findall(where)}
            self.assertGreater(len(found & flock.ways["key"]), 100)
            self.assertGreater(len(found & flock.ways["text"]), 100)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    unittest.main(verbosity=2)
