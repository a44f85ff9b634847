"""kill -9 at named points: right before and right after a call on a file of the data folder.

A point is a call and a path, "fsync keys.db-wal" or "rename blobs/blobs/*/*". Which ones an
operation passes is listed by a run without a kill. Then it is done again and the program kills
itself there (fail_calls.c). After a start what was acknowledged is there, what was not is there
whole or not at all, the log verifies, and the same operation works. Every run takes the points that
an operation is named for and a share of the others by the seed; FALAJ_CALLS_SWEEP=1 takes every
point, and FALAJ_CALLS_ONLY=ingest,freeze some scenarios only.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import unittest
from collections import Counter

import shop
from program import PATIENCE_SECONDS, PROGRAM, environment, seeded, wait_for_end
from scenarios import GONE, PAGE_BYTES, SCENARIOS, SWEEP
from scenarios import Apply, Calls, Scenario, ShimTest, add_tests

POINTS = 4
BEFORE, AFTER = 1, 2
NOT_REACHED = "not reached"
MOMENTS = {BEFORE: "before", AFTER: "after"}
SHARE = 2  # Points that a run takes besides those that are named.
# What every run takes, before and after; an operation that does not pass it is not what it was.
COMMIT = ("fsync", "metadata.db-wal")
KEY = ("fsync", "keys.db-wal")
BLOB = ("fsync", "blobs/staging/w*")
PLACE = ("rename", "blobs/blobs/*/*")
NAMED = {
    "audit append": [("write", "metadata.db-wal"), COMMIT],
    "grant change": [COMMIT],
    "ingest": [KEY, BLOB, PLACE, COMMIT],
    "blob write": [BLOB, PLACE, ("fsync", "blobs/blobs/*")],
    "freeze": [BLOB, PLACE, COMMIT],
    "register": [PLACE, COMMIT],
    "promote": [COMMIT],
    "key rotation": [("write", "keys.db-wal"), KEY, COMMIT],
    "token creation": [COMMIT],
    "user creation": [COMMIT],
    "subject shred": [KEY, ("rename", "blobs/generation"), ("remove", "blobs/blobs/*/*"), COMMIT],
    "migrate": [
        ("rename", "machine.key"),
        ("rename", "keys.sealed"),
        COMMIT,
        ("rename", "blobs/generation"),
    ],
    "backup": [("fsync", "copy-*.partial/BACKUP.json"), ("rename", "copy-*")],
    "checkpoint save": [
        ("fsync", "kept-*/.staged-*/weights"),
        ("rename", "kept-*/*-epoch*"),
        ("rename", "kept-*/*-epoch*.json"),
    ],
}
# Every passage of these is a point of its own in a sweep; of the others the first and the last.
STEPS = ("fsync", "rename", "remove", "mkdir", "create")


def class_of(path):
    """Without what differs from run to run: ids, numbers and hashes."""
    return re.sub(r"[0-9a-f]{12,}|[0-9]+", "*", path)


class Points(Calls):
    """The page of the shim, armed with a point instead of a number."""

    def list(self, process=0):
        self.arm_point(process, 0, 0, "", "")

    def arm_point(self, process, moment, at, call, pattern):
        """process 0: the next that starts."""
        self.page[0:8] = struct.pack("<Q", 0)
        self.page[8:48] = struct.pack("<5Q", at, 0, 0, 0, 0)
        self.page[48:64] = struct.pack("<2Q", process, moment)
        self.page[64:600] = struct.pack("<16s512sQ", call.encode(), pattern.encode(), 0)
        self.page[0:8] = struct.pack("<Q", POINTS)

    def listed(self):
        """How often each (call, class of paths) was passed."""
        self.disarm()
        (used,) = struct.unpack("<Q", self.page[592:600])
        assert used < PAGE_BYTES - 600, "more names than the page holds"
        lines = self.page[600 : 600 + used].decode().splitlines()
        words = (line.split(" ", 1) for line in lines)
        return Counter((call, class_of(path)) for call, path in words)


def chosen(name, passed):
    """(call, class, moment, which passage) in the order in which they are tried."""
    named = NAMED[name]
    for point in named:
        assert point in passed, f"{name} does not pass {point}, but {sorted(passed)}"
    every = [
        (*point, moment, at)
        for point, count in sorted(passed.items())
        for at in (range(1, count + 1) if point[0] in STEPS else sorted({1, count}))
        for moment in (BEFORE, AFTER)
    ]
    if SWEEP:
        return every
    first = [each for each in every if is_named(name, each)]
    rest = [each for each in every if each not in first]
    return first + seeded(f"points {name}").sample(rest, min(SHARE, len(rest)))


def is_named(name, point):
    """Whether every run has to be killed there."""
    call, path, _, at = point
    return (call, path) in NAMED[name] and at == 1


class Table:
    """What came of each point; printed at the end."""

    def __init__(self, name, passed):
        self.name, self.passed, self.rows = name, passed, {}

    def add(self, point, outcome):
        """Fails when the operation went past a named point and was not killed there."""
        call, path, moment, _ = point
        row = self.rows.setdefault((call, path), {BEFORE: Counter(), AFTER: Counter()})
        row[moment][outcome] += 1
        if is_named(self.name, point):
            assert outcome != NOT_REACHED, "a named point was passed over"

    def count(self, outcome):
        return sum(each[outcome] for row in self.rows.values() for each in row.values())

    def print(self):
        words = lambda counts: ", ".join(f"{v} {k}" for k, v in sorted(counts.items())) or "-"
        tries = sum(sum(each.values()) for row in self.rows.values() for each in row.values())
        print(f"{self.name}: {len(self.passed)} points, {tries} tries that held")
        for (call, path), row in sorted(self.rows.items()):
            print(f"  {call:8} {path:44} before: {words(row[BEFORE])}; after: {words(row[AFTER])}")
        sys.stdout.flush()


PEOPLE = 1000
SAVE = "cd $FALAJ_CKPT_DIR && mkdir a.tmp && echo weights > a.tmp/w && mv a.tmp a"


class Erase(Scenario):
    """A person leaves: rows out of two views, and shredded a key of their own, a frozen set that
    held them and the checkpoints of a job that learned from it."""

    def prepare(self, server):
        person = shop.thing(
            "Entity",
            "customer",
            keys=[{"name": "customer_id", "type": "int64"}],
            subject_keys=True,
        )
        declared = shop.features
        shop.features = lambda: [person, *declared()[1:]]
        try:
            shop.stock(server)
        finally:
            shop.features = declared
        # A sweep has more tries than the shop has customers, and each takes one of them out.
        rows = {"visits": shop.visits(0, customers=PEOPLE), "bought": shop.labels(customers=PEOPLE)}
        for view, csv in rows.items():
            head, *lines = csv.splitlines()
            server.ingest(view, "\n".join([head, *lines[shop.CUSTOMERS :]]) + "\n")
        server.good("POST", "/api/v1/training-sets/shop:freeze", {"to": shop.moment(4)})
        job = shop.thing("TrainJob", "learns", engine="command", command=["sh", "-c", SAVE])
        job["spec"]["workers"] = {"cpu": 0.1, "memory": "128Mi"}
        job["spec"]["capture"] = {"data": {"training_set": "shop"}}
        server.apply(job)
        self.learn(server)

    def learn(self, server):
        ended = server.job_ended(server.train("learns")["job"])
        assert ended["status"] == "succeeded", ended
        assert self.living(server) == {"TrainingSet/shop", "TrainJob/learns"}
        self.rows = {view: server.rows(view) for view in ("visits", "bought")}

    @staticmethod
    def living(server):
        """The keys that are to be shredded and are not."""
        keys = server.get("/api/v1/keys?project=default")["keys"]
        objects = {key.get("object") for key in keys if not key.get("shredded")}
        return objects & {"TrainingSet/shop", "TrainJob/learns"}

    def act(self, server, n):
        assert n < PEOPLE, "there is nobody left to erase"
        body = {"entity": "customer", "key": {"customer_id": n}, "ground": "erasure-request"}
        return server.request("POST", "/api/v1/subjects:erase?project=default", body)

    def there(self, server, n):
        """Each view is done or untouched; all of it is there when the rest is shredded too."""
        done = 0
        for view, known in self.rows.items():
            rows = server.rows(view)
            assert rows in (known, known - 1), f"{known - rows} rows out of {view}"
            done += known - rows
        read = {"entities": [{"customer_id": n}], "features": ["batch"]}
        seen = server.good("POST", "/api/v1/feature-services/shop:read", read)
        online = seen["rows"][0]["values"][0] is not None
        if online or self.living(server) or done < len(self.rows):
            return 0
        server.good("POST", "/api/v1/training-sets/shop:freeze", {"to": shop.moment(4, n)})
        self.learn(server)
        return 1


SERVED = {**SCENARIOS, "subject shred": Erase}


class OneKill(ShimTest):
    def one_kill(self, server, scenario, points, n, point):
        call, path, moment, at = point
        points.arm_point(server.pid, moment, at, call, path)
        outcome = self.acted(server, scenario, n)
        _, killed = points.disarm()
        if killed:
            self.assertTrue(wait_for_end(server.pid), "it passed the point and lives")
        server.kill()
        server.start()
        self.check_after(server, scenario, n, outcome)
        if not killed:
            return NOT_REACHED
        return "killed" if outcome == "stopped" else "killed, acknowledged"


class NamedPoints(OneKill):
    def one_scenario(self, name, scenario):
        points = self.page(Points)
        server = self.served(scenario, points)
        passed = Counter()
        for n in (1, 2):
            points.list(server.pid)
            passed |= self.watched(server, scenario, n, points.listed)
        table = Table(name, passed)
        self.addCleanup(table.print)
        for n, point in enumerate(chosen(name, passed), 3):
            call, path, moment, at = point
            with self.subTest(point=f"{MOMENTS[moment]} {call} {path}, passage {at}"):
                table.add(point, self.one_kill(server, scenario, points, n, point))
        self.assertGreater(table.count("killed"), 0, "each time it was acknowledged before")


add_tests(NamedPoints, SERVED)


class WholeProgram(ShimTest):
    """A command, or a start, killed from its first call to its last."""

    def sweep(self, name, run, check):
        """run(points, n) → exit code and what was printed; check(n, code, printed) after it."""
        self.only_if_asked(name)
        points = self.page(Points)
        points.list()
        code, printed = run(points, 1)
        passed = points.listed()
        self.assertEqual(code, 0, printed)
        check(1, code, printed)
        table = Table(name, passed)
        self.addCleanup(table.print)
        for n, point in enumerate(chosen(name, passed), 2):
            call, path, moment, at = point
            with self.subTest(point=f"{MOMENTS[moment]} {call} {path}, passage {at}"):
                points.arm_point(0, moment, at, call, path)
                code, printed = run(points, n)
                _, killed = points.disarm()
                self.assertEqual(code, -9 if killed else 0, printed)
                check(n, code, printed)
                table.add(point, "killed" if killed else NOT_REACHED)

    def command(self, points, disk, *words):
        done = subprocess.run(
            [*points.words(disk), PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_SECONDS,
            env=environment(),
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def test_migrate(self):
        """The first start makes every table and key; the next one finds them, or makes them."""
        data = lambda n: os.path.join(self.folder, f"new-{n}")

        def run(points, n):
            server = self.server(data=data(n), prefix=points.words(data(n)))
            ended = server.launch()
            if ended is None:
                server.kill()
                return 0, ""
            return ended

        def check(n, code, printed):
            server = self.server(data=data(n)).start()
            self.assertTrue(server.audit_holds())
            server.apply(shop.thing("Model", "m", description="x"))
            server.kill()
            shutil.rmtree(data(n))

        self.sweep("migrate", run, check)

    def test_backup(self):
        """A backup is whole and says so, or there is none."""
        server = self.server().start()
        shop.stock(server)
        self.assertEqual(server.stop(), 0)
        out = lambda n: os.path.join(self.folder, f"copy-{n}")

        words = lambda n: ("backup", "--data", server.data, "--out", out(n), "--zone", "local")

        def run(points, n):
            return self.command(points, self.folder, *words(n))

        def check(n, code, printed):
            self.assertTrue(code != 0 or os.path.exists(out(n)), "an acknowledged backup is gone")
            if not os.path.exists(out(n)):
                done, text = self.falaj(*words(n))
                self.assertEqual(done, 0, text)
            restored = self.server(data=out(n)).start()
            self.assertTrue(restored.audit_holds())
            self.assertEqual(restored.rows("visits"), shop.CUSTOMERS)
            restored.kill()
            # What it was made from is as it was.
            done, text = self.falaj("audit", "verify", "--data", server.data)
            self.assertEqual(done, 0, text)
            shutil.rmtree(out(n))

        self.sweep("backup", run, check)

    def test_checkpoint_save(self):
        """What was said to be persisted can be read; what was not is whole or not there."""
        folder = lambda n: os.path.join(self.folder, f"kept-{n}")
        save = (
            "mkdir $FALAJ_CKPT_DIR/epoch1.tmp && seq 100000 > $FALAJ_CKPT_DIR/epoch1.tmp/weights"
            " && mv $FALAJ_CKPT_DIR/epoch1.tmp $FALAJ_CKPT_DIR/epoch1"
        )

        def run(points, n):
            words = ("checkpoints", "keep", folder(n), "--", "sh", "-c", save)
            return self.command(points, self.folder, *words)

        def saved(n):
            """Whether it is there; every byte was checked."""
            out = os.path.join(self.folder, f"out-{n}")
            shutil.rmtree(out, ignore_errors=True)
            code, text = self.falaj("checkpoints", "restore", folder(n), "--to", out)
            if code == 3:
                return False
            self.assertEqual(code, 0, text)
            with open(os.path.join(out, "weights")) as weights:
                self.assertEqual(sum(1 for _ in weights), 100000)
            return True

        def check(n, code, printed):
            if "checkpoint epoch1 persisted" in printed:
                self.assertTrue(saved(n), "it was said to be persisted")
            elif os.path.isdir(folder(n)):
                saved(n)
            # The next one takes what waits in memory, or it is saved again.
            done, text = self.falaj("checkpoints", "keep", folder(n), "--", "sh", "-c", save)
            self.assertEqual(done, 0, text)
            self.assertTrue(saved(n))
            done, text = self.falaj("checkpoints", "verify", folder(n))
            self.assertEqual(done, 0, text)

        self.sweep("checkpoint save", run, check)


class Control(OneKill):
    """A server that acknowledges before the point where it is killed is found, and one that never
    comes by it."""

    def test_an_early_acknowledgement_is_noticed(self):
        class Early(Apply):
            def act(self, server, n):
                try:
                    return super().act(server, n)
                except GONE:
                    reply = server.last
                    reply.status = 200
                    return reply

        points, scenario = self.page(Points), Early()
        server = self.served(scenario, points)
        server.last = scenario.act(server, 1)
        point = ("write", "metadata.db-wal", BEFORE, 1)
        with self.assertRaisesRegex(AssertionError, "0 not found in"):
            self.one_kill(server, scenario, points, 2, point)
        self.assertGreater(points.disarm()[1], 0, "it was never killed")

    def test_a_named_point_that_was_passed_over_is_noticed(self):
        class Read(Apply):
            """Does nothing of what the points are named for, and says that it did."""

            def act(self, server, n):
                return server.request("GET", "/api/v1/objects?kind=Model")

            def there(self, server, n):
                return 1

        points, scenario, table = self.page(Points), Read(), Table("blob write", Counter())
        server = self.served(scenario, points)
        for moment in (BEFORE, AFTER):
            point = (*PLACE, moment, 1)
            outcome = self.one_kill(server, scenario, points, 1, point)
            with self.assertRaisesRegex(AssertionError, "passed over"):
                table.add(point, outcome)
        table.add((*PLACE, BEFORE, 2), outcome)  # Further passages may not come again.


if __name__ == "__main__":
    unittest.main()
