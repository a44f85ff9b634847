"""Operations whose outcome must not be lost, and the frame of the tests that disturb them.

test_calls.py lets the k-th call of the disk or for memory fail in the middle of one, test_points.py
kills the program at named points of it. Both run it over the shim (fail_calls.c).
"""

import http.client
import json
import mmap
import os
import struct
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attacks"))

import onnx_bytes
import shop
from program import ProgramTest
from required import needs

SHIM = os.environ.get("FALAJ_FAIL_CALLS", "")
SWEEP = os.environ.get("FALAJ_CALLS_SWEEP") == "1"
ONLY = [name for name in os.environ.get("FALAJ_CALLS_ONLY", "").split(",") if name]
GONE = (OSError, http.client.HTTPException)
PAGE_BYTES = 4 << 20  # As the shim's struct control.


class Calls:
    """The page that the shim counts on."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "calls")
        with open(self.path, "wb") as out:
            out.truncate(PAGE_BYTES)
        self.file = open(self.path, "r+b")
        self.page = mmap.mmap(self.file.fileno(), PAGE_BYTES)

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


@needs(SHIM, "FALAJ_FAIL_CALLS does not name the shim")
class ShimTest(ProgramTest):
    """The frame: what runs over the shim, and what must hold afterwards."""

    def only_if_asked(self, name):
        if ONLY and name not in ONLY:
            self.skipTest("not asked for")

    def page(self, kind):
        """Calls, or one that derives from it."""
        page = kind(self.folder)
        self.addCleanup(page.close)
        return page

    def served(self, scenario, page):
        """A server over the shim, ready for the scenario."""
        data = os.path.join(self.folder, "data")
        server = self.server(data=data, mode=scenario.mode, prefix=page.words(data)).start()
        scenario.prepare(server)
        return server

    def watched(self, server, scenario, n, seen):
        """Undisturbed; seen(), asked before anything else is done."""
        reply = scenario.act(server, n)
        result = seen()
        self.assertLess(reply.status, 300, reply.text)
        self.assertEqual(scenario.there(server, n), 1)
        return result

    def acted(self, server, scenario, n):
        try:
            reply = scenario.act(server, n)
        except GONE:
            return "stopped"
        if reply.status < 300:
            return "acknowledged"
        self.assertRegex(reply.code, r"FJ-\d{4}", reply.text)
        return "refused"

    def check_after(self, server, scenario, n, outcome):
        """Of a server that was killed and has started again."""
        seen = scenario.there(server, n)
        self.assertIn(seen, (1,) if outcome == "acknowledged" else (0, 1))
        self.assertTrue(server.audit_holds())
        if os.path.isdir(os.path.join(server.data, "blobs/staging")):
            self.assertEqual(os.listdir(os.path.join(server.data, "blobs/staging")), [])
        if not seen:
            again = scenario.act(server, n)
            self.assertLess(again.status, 300, again.text)
            self.assertEqual(scenario.there(server, n), 1)


def add_tests(case, scenarios):
    """case.one_scenario(name, scenario) becomes a test for each of them."""
    for name, kind in scenarios.items():

        def test(self, name=name, kind=kind):
            self.only_if_asked(name)
            self.one_scenario(name, kind())

        setattr(case, "test_" + name.replace(" ", "_"), test)
