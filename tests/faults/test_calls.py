"""The k-th call to the disk or for memory fails, in the middle of everything that must not be lost.

For each scenario and each k: the operation fails cleanly or the process stops; after kill -9 and a
start on a sound disk, what was acknowledged is there, what was not is there whole or not at all,
and the same operation works. Every run takes a share of the k's by the seed; FALAJ_CALLS_SWEEP=1
takes every k of the disk's calls, and FALAJ_CALLS_ONLY=ingest,freeze some scenarios only.
"""

import errno
import http.client
import json
import mmap
import os
import struct
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attacks"))

import onnx_bytes
import shop
from program import PATIENCE_SECONDS, PROGRAM, ProgramTest, environment, seeded

SHIM = os.environ.get("FALAJ_FAIL_CALLS", "")
SWEEP = os.environ.get("FALAJ_CALLS_SWEEP") == "1"
ONLY = [name for name in os.environ.get("FALAJ_CALLS_ONLY", "").split(",") if name]
GONE = (OSError, http.client.HTTPException)
WRITES, READS, MEMORY = 1, 2, 3
# (what is counted, errno, whether it lasts, how many k's a run takes)
FAULTS = {
    "EIO once": (WRITES, errno.EIO, 0, 2),
    "EIO for good": (WRITES, errno.EIO, 1, 1),
    "ENOSPC once": (WRITES, errno.ENOSPC, 0, 1),
    "ENOSPC for good": (WRITES, errno.ENOSPC, 1, 1),
    "EIO of a read": (READS, errno.EIO, 0, 1),
    "ENOMEM": (MEMORY, errno.ENOMEM, 0, 2),
}
SWEPT_MEMORY = 12  # k's of the calls for memory in a sweep: there are tens of thousands.


class Calls:
    """The page that the shim counts on."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "calls")
        with open(self.path, "wb") as out:
            out.write(b"\0" * 4096)
        self.file = open(self.path, "r+b")
        self.page = mmap.mmap(self.file.fileno(), 4096)

    def arm(self, kind, at=0, error=0, lasts=0):
        self.page[8:48] = struct.pack("<5Q", at, error, lasts, 0, 0)
        self.page[0:8] = struct.pack("<Q", kind)

    def disarm(self):
        """(calls counted, calls failed)"""
        self.page[0:8] = struct.pack("<Q", 0)
        return struct.unpack("<2Q", self.page[32:48])

    def words(self, disk):
        """Before a command that shall run over the shim."""
        return ["env", f"LD_PRELOAD={SHIM}", f"FALAJ_DISK={disk}", f"FALAJ_CALLS={self.path}"]

    def close(self):
        self.page.close()
        self.file.close()


class Scenario:
    """One operation on a server; n makes each try a new one."""

    mode = "dev"

    def prepare(self, server):
        shop.stock(server)

    def act(self, server, n):
        """Does it; a reply below 300 acknowledges it."""
        raise NotImplementedError

    def there(self, server, n):
        """How often its effect is there, whole: 0 or 1. Fails when it is there in part."""
        raise NotImplementedError


class Apply(Scenario):
    """An object, its audit entry and the log's tree, in one commit."""

    def prepare(self, server):
        pass

    def made(self, n):
        return shop.thing("Model", f"m{n}", description="x")

    def act(self, server, n):
        return server.request("PUT", "/api/v1/objects", self.made(n))

    def there(self, server, n):
        made = self.made(n)
        name, kind = made["metadata"]["name"], made["kind"]
        listed = server.get(f"/api/v1/objects?kind={kind}")["objects"]
        objects = sum(each["metadata"]["name"] == name for each in listed)
        entries = server.get("/api/v1/audit?action=object.apply&limit=1000")["entries"]
        written = sum(each["object"].split("/")[-1] == name for each in entries)
        assert objects == written, f"{objects} objects, {written} audit entries"
        return objects


class Grant(Apply):
    def made(self, n):
        spec = {"to": ["service:s"], "role": "viewer", "on": {"project": "default"}}
        made = shop.thing("Grant", f"g{n}", **spec)
        del made["metadata"]["project"]
        return made


class Ingest(Scenario):
    QUARANTINED = ""

    def prepare(self, server):
        shop.stock(server)
        self.known = server.rows("visits")

    def act(self, server, n):
        csv = shop.visits(n, day=2, second=n) + self.QUARANTINED
        return server.request("POST", "/api/v1/feature-views/visits:ingest?format=csv", csv)

    def there(self, server, n):
        rows = server.rows("visits")
        more = rows - self.known
        assert more in (0, shop.CUSTOMERS), f"{more} of {shop.CUSTOMERS} rows"
        self.known = rows
        frozen = server.request("POST", "/api/v1/training-sets/shop:freeze", {})
        assert frozen.status == 200, frozen.text
        return more // shop.CUSTOMERS


class Blobs(Ingest):
    """A segment and a quarantine: two blobs and the commit that names them."""

    QUARANTINED = "x,y,z,w\n" * 50


class Freeze(Scenario):
    def body(self, n):
        return {"to": shop.moment(2, n)}

    def act(self, server, n):
        return server.request("POST", "/api/v1/training-sets/shop:freeze", self.body(n))

    def there(self, server, n):
        sets = server.get("/api/v1/training-sets")["training_sets"]
        found = [each for each in sets if each.get("to", "").startswith(shop.moment(2, n)[:19])]
        again = server.good("POST", "/api/v1/training-sets/shop:freeze", self.body(n))
        assert not found or found[0]["id"] == again["id"]
        return len(found)


class Register(Scenario):
    """A model from elsewhere: a child opens it, the blobs are kept, a version is signed."""

    def prepare(self, server):
        shop.stock(server)
        self.known = 0

    def act(self, server, n):
        kind = "application/octet-stream"
        return server.request(
            "POST", "/api/v1/models/m/versions:import", onnx_bytes.doubled(), kind
        )

    def there(self, server, n):
        models = server.get("/api/v1/models")["models"]
        versions = [each["versions"] for each in models if each["name"] == "m"]
        count = len(versions[0]) if versions else 0
        assert count == len(server.audited("model.register")), "a version without its entry"
        more, self.known = count - self.known, count
        for version in range(1, count + 1):
            server.good("GET", f"/api/v1/models/m/versions/{version}/signature")
        return more


class Promote(Scenario):
    def prepare(self, server):
        shop.open_shop(server)
        ended = server.job_ended(server.train("train")["job"])
        assert ended["status"] == "succeeded", ended
        self.alias = 1

    def act(self, server, n):
        body = {"version": 3 - self.alias, "reason": f"try {n}"}
        return server.request("PUT", "/api/v1/models/shop/aliases/champion", body)

    def there(self, server, n):
        alias = server.get("/api/v1/models/shop")["aliases"]["champion"]
        entries = server.get("/api/v1/audit?action=model.&limit=1000")["entries"]
        written = sum(f'"try {n}"' in json.dumps(each["detail"]) for each in entries)
        moved = int(alias != self.alias)
        assert moved == written, f"moved {moved} times, {written} audit entries"
        self.alias = alias
        server.wait_ready("shop")
        shop.predict(server, 3)
        return moved


class Rotate(Scenario):
    """The project's key is made anew, what it protects is wrapped again."""

    def prepare(self, server):
        shop.stock(server)
        self.version = self.now(server)

    @staticmethod
    def now(server):
        keys = server.get("/api/v1/keys?project=default")["keys"]
        return max(each.get("version", 0) for each in keys if not each.get("object"))

    def act(self, server, n):
        return server.request("POST", "/api/v1/keys:rotate?project=default", {"zone": "local"})

    def there(self, server, n):
        version = self.now(server)
        moved, self.version = version - self.version, version
        frozen = server.request(
            "POST", "/api/v1/training-sets/shop:freeze", {"to": shop.moment(3, n)}
        )
        assert frozen.status == 200, frozen.text
        return moved


class Token(Scenario):
    mode = "serve"

    def prepare(self, server):
        server.set_up()

    def act(self, server, n):
        return server.request("POST", "/api/v1/tokens", {"label": f"token {n}", "lifetime": "1h"})

    def there(self, server, n):
        tokens = server.get("/api/v1/tokens")["tokens"]
        return sum(each["label"] == f"token {n}" for each in tokens)


class User(Token):
    def act(self, server, n):
        return server.request("POST", "/api/v1/services", {"name": f"service{n}"})

    def there(self, server, n):
        users = server.get("/api/v1/users")["users"]
        return sum(each["name"] == f"service{n}" for each in users)


SCENARIOS = {
    "audit append": Apply,
    "grant change": Grant,
    "ingest": Ingest,
    "blob write": Blobs,
    "freeze": Freeze,
    "register": Register,
    "promote": Promote,
    "key rotation": Rotate,
    "token creation": Token,
    "user creation": User,
}


@unittest.skipUnless(SHIM, "FALAJ_FAIL_CALLS does not name the shim")
class KthCall(ProgramTest):
    def tries(self, name, calls, counted):
        """(fault, k) in the order in which they are tried."""
        chance = seeded(f"calls {name}")
        for fault, (kind, _, _, share) in FAULTS.items():
            most = counted[kind]
            if SWEEP and kind != MEMORY:
                chosen = range(1, most + 1)
            else:
                count = min(SWEPT_MEMORY if SWEEP else share, most)
                chosen = sorted(chance.sample(range(1, most + 1), count))
            for k in chosen:
                yield fault, k

    def one_scenario(self, name):
        if ONLY and name not in ONLY:
            self.skipTest("not asked for")
        scenario, calls = SCENARIOS[name](), Calls(self.folder)
        self.addCleanup(calls.close)
        data = os.path.join(self.folder, "data")
        server = self.server(data=data, mode=scenario.mode, prefix=calls.words(data)).start()
        scenario.prepare(server)
        counted = {}
        for n, kind in enumerate((WRITES, READS, MEMORY), 1):
            calls.arm(kind)
            reply = scenario.act(server, n)
            counted[kind] = calls.disarm()[0]
            self.assertLess(reply.status, 300, reply.text)
            self.assertEqual(scenario.there(server, n), 1)
        self.assertGreater(counted[WRITES], 0)
        outcomes = {"acknowledged": 0, "refused": 0, "stopped": 0, "not reached": 0}
        for n, (fault, k) in enumerate(self.tries(name, calls, counted), 4):
            with self.subTest(fault=fault, k=k):
                outcomes[self.one_try(server, scenario, calls, n, FAULTS[fault], k)] += 1
        print(
            f"{name}: {counted[WRITES]} writes, {counted[READS]} reads, "
            f"{counted[MEMORY]} allocations; {outcomes}",
            flush=True,
        )
        self.assertGreater(outcomes["refused"] + outcomes["stopped"], 0, "no fault was ever felt")

    def one_try(self, server, scenario, calls, n, fault, k):
        kind, error, lasts, _ = fault
        calls.arm(kind, k, error, lasts)
        try:
            reply = scenario.act(server, n)
            outcome = "acknowledged" if reply.status < 300 else "refused"
        except GONE:
            outcome = "stopped"
        _, failed = calls.disarm()
        if outcome == "refused":
            self.assertRegex(reply.code, r"FJ-\d{4}", reply.text)
        server.kill()
        server.start()
        seen = scenario.there(server, n)
        self.assertIn(seen, (1,) if outcome == "acknowledged" else (0, 1))
        self.assertTrue(server.audit_holds())
        if os.path.isdir(os.path.join(server.data, "blobs/staging")):
            self.assertEqual(os.listdir(os.path.join(server.data, "blobs/staging")), [])
        if not seen:
            again = scenario.act(server, n)
            self.assertLess(again.status, 300, again.text)
            self.assertEqual(scenario.there(server, n), 1)
        return outcome if failed else "not reached"


def scenarios():
    for name in SCENARIOS:

        def test(self, name=name):
            self.one_scenario(name)

        setattr(KthCall, "test_" + name.replace(" ", "_"), test)


scenarios()


@unittest.skipUnless(SHIM, "FALAJ_FAIL_CALLS does not name the shim")
class WholeProgram(ProgramTest):
    """A command, or a start, from its first call to its last."""

    def sweep(self, name, run, check):
        """run(n) → exit code over the shim; check(n, code) after it."""
        if ONLY and name not in ONLY:
            self.skipTest("not asked for")
        calls = Calls(self.folder)
        self.addCleanup(calls.close)
        counted, outcomes = {}, {}
        for kind in (WRITES, READS, MEMORY):
            calls.arm(kind)
            code = run(calls, kind)
            counted[kind] = calls.disarm()[0]
            check(kind, code)
            self.assertEqual(code, 0)
        test = KthCall()
        for n, (fault, k) in enumerate(KthCall.tries(test, name, calls, counted), 4):
            kind, error, lasts, _ = FAULTS[fault]
            with self.subTest(fault=fault, k=k):
                calls.arm(kind, k, error, lasts)
                code = run(calls, n)
                calls.disarm()
                outcomes[code] = outcomes.get(code, 0) + 1
                check(n, code)
        print(
            f"{name}: {counted[WRITES]} writes, {counted[READS]} reads, "
            f"{counted[MEMORY]} allocations; exit codes {outcomes}",
            flush=True,
        )
        self.assertGreater(len(outcomes), 1, "no fault was ever felt")

    def test_migrate(self):
        """The first start makes every table; the next one finds them, or makes them."""

        def run(calls, n):
            data = os.path.join(self.folder, f"new-{n}")
            server = self.server(data=data, prefix=calls.words(data))
            ended = server.launch()
            if ended is None:
                server.kill()
                return 0
            return ended[0]

        def check(n, code):
            server = self.server(data=os.path.join(self.folder, f"new-{n}")).start()
            self.assertTrue(server.audit_holds())
            server.apply(shop.thing("Model", "m", description="x"))
            server.kill()

        self.sweep("migrate", run, check)

    def test_backup(self):
        """A backup is whole and says so, or there is none."""
        server = self.server().start()
        shop.stock(server)
        self.assertEqual(server.stop(), 0)

        def run(calls, n):
            out = os.path.join(self.folder, f"copy-{n}")
            command = [*calls.words(self.folder), PROGRAM, "backup", "--data", server.data]
            done = subprocess.run(
                [*command, "--out", out, "--zone", "local"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_SECONDS,
                env=environment(),
            )
            return done.returncode

        def check(n, code):
            out = os.path.join(self.folder, f"copy-{n}")
            if code == 0:
                with open(os.path.join(out, "BACKUP.json")) as text:
                    self.assertGreater(len(json.load(text)["files"]), 5)
            if os.path.exists(out):
                done, text = self.falaj("audit", "verify", "--data", out)
                self.assertEqual(done, 0, text)
            self.assertTrue(code == 0 or not os.path.exists(out), "a backup that failed is there")

        self.sweep("backup", run, check)


@unittest.skipUnless(SHIM, "FALAJ_FAIL_CALLS does not name the shim")
class Control(KthCall):
    """A server that acknowledges what it did not keep is found."""

    def test_a_lost_write_is_noticed(self):
        class Lies(Apply):
            def act(self, server, n):
                reply = super().act(server, n)
                if n > 3 and reply.status >= 300:
                    reply.status = 200
                return reply

        scenario, calls = Lies(), Calls(self.folder)
        self.addCleanup(calls.close)
        data = os.path.join(self.folder, "data")
        server = self.server(data=data, prefix=calls.words(data)).start()
        with self.assertRaises(AssertionError):
            for n, k in enumerate(range(1, 6), 4):
                self.one_try(server, scenario, calls, n, (WRITES, errno.ENOSPC, 1, 1), k)


for each in [name for name in dir(KthCall) if name.startswith("test_")]:
    setattr(Control, each, None)


if __name__ == "__main__":
    unittest.main()
