"""Groups 29 and 30: bytes of one zone look for a way into another."""

import unittest

import onnx_bytes as onnx
import shop
from arena import attacks
from fortress import ADMIN, Fortress, basic, bearer, declared, tenant

EXITS = [
    "write",
    "serve",
    "schedule",
    "replicate",
    "export",
    "backup",
    "webhook",
    "metric",
    "log",
    "dump",
]
GROUND = {
    "ground": "central-bank-approval",
    "evidence": {"regulator-approval": "CB-1", "customer-consent": "f"},
}


def transfer(name="out", **changes):
    spec = {"from": "ae-fin", "to": "eu", "expires": "2200-01-01", **GROUND, **changes}
    return declared(
        "Transfer", name, "payments", **{k: v for k, v in spec.items() if v is not None}
    )


def decisions():
    for leaves in EXITS:
        for to in ("eu", "ae", "mars", ""):

            def attack(self, leaves=leaves, to=to):
                body = {"exit": leaves, "from": "ae-fin", "to": to}
                reply = self.send(
                    "POST", "/api/v1/zones:decide?project=payments", body, self.as_admin()
                )
                if reply.status >= 400:
                    self.refused(reply)
                else:
                    self.assertFalse(reply.value.get("allowed", True), reply.text)

            yield f"{leaves} to {to or 'nowhere'}", attack


class Zoned(Fortress):
    def as_admin(self):
        return dict(self.server.headers)


@attacks(decisions())
class Exits(Zoned):
    def test_inside_is_allowed(self):
        """The control: the same question about the zone itself."""
        for leaves in EXITS:
            body = {"exit": leaves, "from": "ae-fin", "to": "ae-fin"}
            reply = self.send(
                "POST", "/api/v1/zones:decide?project=payments", body, self.as_admin()
            )
            self.assertTrue(reply.value["allowed"], reply.text)


DECLARED = {
    "a project moves": declared("Project", "payments", zone="eu", purpose="fraud-prevention"),
    "a project loses its zone": declared("Project", "payments", purpose="fraud-prevention"),
    "a project of no zone": declared("Project", "new"),
    "a project of a zone that is not there": declared("Project", "new", zone="mars"),
    "a zone moves under another": declared("Zone", "ae-fin", parent="eu", regime="cbuae-consumer"),
    "a zone changes its regime": declared("Zone", "ae-fin", parent="ae", regime="gdpr"),
    "a zone of a regime that is not there": declared("Zone", "de", regime="gdrp"),
    "a zone that is its own parent": declared("Zone", "loop", parent="loop"),
    "a set for another purpose": declared(
        "TrainingSet",
        "ads",
        "payments",
        service="shop",
        purpose="marketing",
        spine={"view": "bought", "label": "bought"},
    ),
    "a webhook in the clear": declared(
        "Webhook", "w", "payments", url="http://hooks.example/x", zone="ae-fin"
    ),
    "a webhook to this machine": declared(
        "Webhook", "w", "payments", url="https://127.0.0.1/x", zone="ae-fin"
    ),
    "a webhook to a neighbour": declared(
        "Webhook", "w", "payments", url="https://169.254.169.254/latest", zone="ae-fin"
    ),
    "a webhook of a zone that is not there": declared(
        "Webhook", "w", "payments", url="https://hooks.example.com/x", zone="mars"
    ),
    "a transfer on no ground": transfer(ground=None),
    "a transfer on another regime's ground": transfer(ground="adequacy-decision"),
    "a transfer that is over": transfer(expires="2020-01-01"),
    "a transfer that never ends": transfer(expires=None),
    "a transfer to nowhere": transfer(to="mars"),
    "a transfer of another's zone": transfer(**{"from": "eu", "to": "ae"}),
    "a transfer that covers the log": transfer(exits=["log"]),
    "a transfer of an exit that is none": transfer(exits=["window"]),
}
# Declared is harmless, as long as it can never be approved.
NOT_APPROVED = {
    "without evidence": {"evidence": {}},
    "with half the evidence": {"evidence": {"regulator-approval": "CB-1"}},
    "on another regime's ground": {"ground": "adequacy-decision"},
    "when it is over": {"expires": "2020-01-01"},
}


def declarations():
    for name, made in DECLARED.items():

        def attack(self, made=made):
            reply = self.send("PUT", "/api/v1/objects", made, self.as_admin())
            if made["kind"] == "Transfer" and reply.status < 300:
                return self.never_counts(made)
            return reply

        yield name, attack
    for name, changes in NOT_APPROVED.items():

        def attack(self, changes=changes):
            made = transfer("unapproved", **changes)
            if self.send("PUT", "/api/v1/objects", made, self.as_admin()).status >= 300:
                return None
            return self.never_counts(made)

        yield f"approved {name}", attack


@attacks(declarations())
class Declarations(Zoned):
    def never_counts(self, made):
        """It stands there, is refused its approval, opens nothing, and goes away again."""
        name = made["metadata"]["name"]
        at = f"/api/v1/transfers/{name}:approve?project=payments"
        reply = self.send("POST", at, {}, self.as_admin())
        body = {"exit": "export", "from": "ae-fin", "to": "eu"}
        asked = self.send("POST", "/api/v1/zones:decide?project=payments", body, self.as_admin())
        self.assertTrue(asked.status >= 400 or not asked.value["allowed"], asked.text)
        self.server.good("DELETE", f"/api/v1/objects/Transfer/{name}?project=payments")
        self.before["changes"] = self.state()["changes"]
        return reply

    def test_who_declares_does_not_approve(self):
        self.server.apply(transfer("own"))
        try:
            reply = self.send(
                "POST", "/api/v1/transfers/own:approve?project=payments", {}, self.as_admin()
            )
            self.refused(reply)
        finally:
            self.server.good("DELETE", "/api/v1/objects/Transfer/own?project=payments")
            self.before["changes"] = self.state()["changes"]


class Elsewhere(Zoned):
    """The machine stands in `eu`: nothing of ae-fin may be on it."""

    FLAGS = ("--set", "zone.executor=eu")

    @classmethod
    def fill(cls, project):
        if project == "payments":
            # Declared by somebody who is there; on this machine even declarations are refused.
            there = cls.service("there")
            cls.server.good("PATCH", "/api/v1/users/service:there", {"zone": "ae-fin"})
            cls.server.apply(cls.grant("there", "admin", "platform"))
            own, cls.server.headers = cls.server.headers, bearer(there)
            cls.server.apply(*tenant(project))
            cls.server.headers = own
            return {}
        return super().fill(project)

    def state(self):
        """Not even the administrator reads the data of ae-fin here."""
        ask = self.server.get
        self.refused(self.server.request("GET", "/api/v1/feature-views?project=payments"))
        return {
            "objects": ask("/api/v1/objects")["objects"],
            "runs": ask("/api/v1/runs?project=shop"),
        }

    def check(self, method, path, body):
        reply = self.send(method, path, body, self.as_admin())
        self.refused(reply)
        self.assertEqual(reply.code, "FJ-7031", reply.text)

    def test_nothing_is_declared(self):
        self.check("PUT", "/api/v1/objects", {"objects": list(tenant("payments"))})

    def test_rows_are_not_written(self):
        at = "/api/v1/feature-views/visits:ingest?project=payments&format=csv"
        self.check("POST", at, shop.visits(0))

    def test_a_set_is_not_frozen(self):
        reply = self.send(
            "POST", "/api/v1/training-sets/shop:freeze?project=payments", {}, self.as_admin()
        )
        self.refused(reply)

    def test_a_job_is_not_scheduled(self):
        reply = self.send(
            "POST", "/api/v1/train-jobs/train:run?project=payments", {}, self.as_admin()
        )
        self.refused(reply)

    def test_a_model_is_not_kept(self):
        headers = {**self.as_admin(), "Content-Type": "application/octet-stream"}
        at = "/api/v1/models/shop/versions:import?project=payments"
        reply = self.send("POST", at, onnx.doubled(), headers)
        self.refused(reply)
        self.assertEqual(reply.code, "FJ-7031", reply.text)


# Reads its set over the API; ends with 0 when it has it, and otherwise by the status.
READER = """
import os, ssl, sys, urllib.error, urllib.request
known = ssl.create_default_context(cafile=os.environ["FALAJ_CA"])
ask = urllib.request.Request(os.environ["FALAJ_SERVER"] + sys.argv[1])
ask.add_header("Authorization", "Bearer " + os.environ["FALAJ_TOKEN"])
try:
    urllib.request.urlopen(ask, context=known).read()
except urllib.error.HTTPError as refused:
    sys.exit(refused.code % 100)
"""


class Networks(Zoned):
    """A job with this machine's network, which leads to `eu`."""

    FLAGS = ("--set", "jobs.network=host", "--set", "jobs.network_zone=eu")

    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        server.apply(cls.grant("approver", "approver", {"project": "payments"}))

    @classmethod
    def fill(cls, project):
        server, at = cls.server, f"?project={project}"
        server.apply(*tenant(project))
        for view, rows in (("visits", shop.visits(0)), ("bought", shop.labels())):
            server.good("POST", f"/api/v1/feature-views/{view}:ingest{at}&format=csv", rows)
        server.good("POST", f"/api/v1/training-sets/shop:freeze{at}", {})
        return {}

    def submit(self, project="payments", **more):
        path = f"/api/v1/training-sets/shop/manifest?project={project}"
        body = {"command": ["python3", "-c", READER, path], "network": True,
                "inputs": ["TrainingSet/shop"], "attempts_max": 1, **more}
        return self.send("POST", f"/api/v1/jobs?project={project}", body, self.as_admin())

    def ended(self, reply):
        self.assertEqual(reply.status, 202, reply.text)
        return self.server.job_ended(reply.value["id"])

    def crossed(self, exits):
        """Flows and bytes of payments that crossed by these exits."""
        rows = [row for row in self.server.get("/api/v1/zones/ledger?project=payments")["rows"]
                if row["transfer"] and row["exit"] in exits]
        return sum(row["flows"] for row in rows), sum(row["bytes"] for row in rows)

    def refusals(self):
        entries = self.server.get("/api/v1/audit?action=residency.refuse&limit=1000")["entries"]
        return [entry for entry in entries if entry["object"] == "TrainingSet/shop"]

    def test_what_it_names_does_not_leave(self):
        before = len(self.refusals())
        reply = self.submit()
        self.refused(reply)
        self.assertEqual(reply.code, "FJ-7031", reply.text)
        self.assertIn("stays in 'ae-fin'", reply.text)
        told = self.refusals()
        self.assertEqual(len(told), before + 1)
        self.assertEqual((told[0]["detail"]["exit"], told[0]["detail"]["to"]), ("export", "eu"))

    def test_nor_by_an_array(self):
        body = {"command": ["true"], "network": True, "inputs": ["TrainingSet/shop"], "count": 3}
        reply = self.send("POST", "/api/v1/job-arrays?project=payments", body, self.as_admin())
        self.refused(reply)
        self.assertEqual(reply.code, "FJ-7031", reply.text)

    def test_where_the_network_leads_it_may_read(self):
        """The control: data of `eu`, and data of `ae-fin` without a network."""
        self.assertEqual(self.ended(self.submit("shop"))["status"], "succeeded")
        alone = self.ended(self.submit(command=["true"], network=False))
        self.assertEqual(alone["status"], "succeeded", alone)
        self.before = self.state()

    def test_a_transfer_lets_it_and_counts_it(self):
        covers = {"objects": ["TrainingSet/shop"], "expires": "2200-01-01"}
        self.server.apply(transfer("net", exits=["export"], **covers))
        self.refused(self.submit())  # Nobody approved it.
        approve = "/api/v1/transfers/net:approve?project=payments"
        self.assertEqual(self.attack("approver", "POST", approve, {}).status, 200)
        self.assertEqual(self.crossed(("export", "serve")), (0, 0))
        job = self.ended(self.submit())
        self.assertEqual(job["status"], "failed", "it left with what it read by another exit")
        self.assertEqual(self.crossed(("export",))[0], 1)
        self.assertEqual(self.crossed(("serve",)), (0, 0))
        uses = self.server.get("/api/v1/audit?action=transfer.use&limit=1000")["entries"]
        self.assertEqual([use["actor"] for use in uses], [f"job:{job['id']}"])
        self.assertEqual(uses[0]["detail"]["object"], "TrainingSet/shop")

        self.server.apply(transfer("net", exits=["export", "serve"], **covers))
        self.refused(self.submit())  # A changed one needs a new approval.
        self.assertEqual(self.attack("approver", "POST", approve, {}).status, 200)
        job = self.ended(self.submit())
        self.assertEqual(job["status"], "succeeded", job)
        flows, read = self.crossed(("serve",))
        self.assertEqual(flows, 1)
        self.assertGreater(read, 100, "the bytes that it read")
        self.server.good("DELETE", "/api/v1/objects/Transfer/net?project=payments")
        self.refused(self.submit())
        self.before = self.state()


class UndeclaredNetworks(Networks):
    """The same, where nobody said where the network leads: a regime may refuse that."""

    FLAGS = ("--set", "jobs.network=host")

    def test_what_it_names_does_not_leave(self):
        reply = self.submit()
        self.refused(reply)
        self.assertEqual(reply.code, "FJ-7031", reply.text)
        self.assertIn("declares no zone", reply.text)

    def test_a_transfer_lets_it_and_counts_it(self):
        """None leads to nowhere."""
        self.server.apply(transfer("net"))
        approve = "/api/v1/transfers/net:approve?project=payments"
        self.assertEqual(self.attack("approver", "POST", approve, {}).status, 200)
        self.refused(self.submit())
        self.server.good("DELETE", "/api/v1/objects/Transfer/net?project=payments")
        self.before = self.state()


class Auditor(Zoned):
    """May read the log of the whole platform, and is in `eu`."""

    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        cls.tokens["ines"] = cls.service("ines")
        server.good("PATCH", "/api/v1/users/service:ines", {"zone": "eu"})
        server.apply(cls.grant("ines", "auditor", "platform"))
        server.good("POST", "/api/v1/users", {"name": "gita", "password": ADMIN})
        server.apply(declared("Group", "berlin", members=["user:gita"], zone="eu"))

    def check(self, method, path):
        reply = self.attack("ines", method, path)
        self.refused(reply)
        self.assertEqual(reply.code, "FJ-7031", reply.text)
        self.assertNotIn("ingest", reply.text)
        return reply.text

    def test_who_is_somewhere_by_a_group_is_told_so_whomever_they_ask(self):
        """The control: where the caller is, which decides all of this, is no secret from them."""
        own = basic("gita", ADMIN)
        for path in ("/api/v1/whoami", "/api/v1/session"):
            said = self.send("GET", path, headers=own).value
            self.assertEqual(said.get("user", said)["zone"], "eu", path)
        body = {"name": "gita", "password": ADMIN}
        self.assertEqual(self.send("POST", "/api/v1/session", body).value["user"]["zone"], "eu")

    def test_nobody_says_themselves_where_they_are(self):
        self.server.apply(
            declared("Grant", "ines-people", to=["service:ines"], actions=["identity.write"],
                     on="platform"))
        reply = self.attack("ines", "PATCH", "/api/v1/users/service:ines", {"zone": "ae-fin"})
        self.refused(reply)
        self.assertIn("nobody declares", reply.text)
        self.check("GET", "/api/v1/audit?project=payments")
        self.server.good("DELETE", "/api/v1/objects/Grant/ines-people")
        self.before["changes"] = self.state()["changes"]

    def test_evidence_does_not_take_the_log_across(self):
        self.check("POST", "/api/v1/evidence")

    def test_nor_do_the_entries_alone(self):
        self.check("GET", "/api/v1/evidence/entries?first=1&limit=5000")

    def test_lists_of_the_platform_leave_the_other_zone_out(self):
        for path, rows in (
            ("/api/v1/zones/ledger", "rows"),
            ("/api/v1/keys", "keys"),
            ("/api/v1/audit?limit=1000", "entries"),
        ):
            mine = self.attack("ines", "GET", path).value[rows]
            all_rows = self.server.get(path)[rows]
            self.assertNotIn("payments", {row["project"] for row in mine}, path)
            self.assertIn("shop", {row["project"] for row in mine}, path)
            self.assertIn("payments", {row["project"] for row in all_rows}, path)

    def test_a_project_that_is_no_more_keeps_its_zone(self):
        project = declared("Project", "a-gone", zone="ae-fin", purpose="fraud-prevention")
        self.server.apply(project, declared("Model", "m", "a-gone"))
        self.server.good("DELETE", "/api/v1/objects/Model/m?project=a-gone")
        self.server.good("DELETE", "/api/v1/objects/Project/a-gone")
        # The first by name, before default and payments.
        self.assertIn("'a-gone'", self.check("POST", "/api/v1/evidence"))
        self.check("GET", "/api/v1/audit?project=a-gone")
        gone = self.server.get("/api/v1/audit?project=a-gone")["entries"]
        self.assertGreater(len(gone), 0, "the control: who is here reads them")
        self.check("GET", f"/api/v1/audit/{gone[0]['sequence']}")
        moved = declared("Project", "a-gone", zone="eu", purpose="fraud-prevention")
        self.refused(self.send("PUT", "/api/v1/objects", moved, self.as_admin()))
        self.before["changes"] = self.state()["changes"]

    def test_who_is_nowhere_else_has_it(self):
        """The control: an administrator on this machine."""
        entries = self.server.good("POST", "/api/v1/evidence", {})["entries"]
        self.assertGreater(entries, 10)
        reply = self.send("GET", "/api/v1/evidence/entries?first=1&limit=10", None, self.as_admin())
        self.assertEqual(reply.text.count("\n"), 10)
        self.before["changes"] = self.state()["changes"]


if __name__ == "__main__":
    unittest.main()
