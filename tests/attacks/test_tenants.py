"""Groups 11, 25–27 and 29: one tenant's editor reaches for another tenant's things."""

import concurrent.futures
import json
import re
import unittest

import onnx_bytes as onnx
import shop
from arena import attacks
from fortress import Fortress, bearer, declared, tenant
from program import wait_until

OCTETS = {"Content-Type": "application/octet-stream"}
# What mallory asks for; {} in a path is an id of the other tenant, by its name. Each would be done
# for an administrator, and in this order (test_controls.py): what takes something away comes last.
AT = "?project=payments"
ONE = {"entities": [{"customer_id": 1}]}
ROW = {"inputs": [{"name": "input", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
GROUND = {
    "ground": "central-bank-approval",
    "evidence": {"regulator-approval": "CB-1", "customer-consent": "f"},
    "expires": "2200-01-01",
}


def transfer(name):
    return declared("Transfer", name, "payments", to="eu", **{"from": "ae-fin"}, **GROUND)


READS = {
    "an object": f"/api/v1/objects/Model/shop{AT}",
    "feature views": f"/api/v1/feature-views{AT}",
    "training sets": f"/api/v1/training-sets{AT}",
    "a manifest": f"/api/v1/training-sets/shop/manifest{AT}",
    "a quarantine": "/api/v1/quarantine/{quarantine}" + AT,
    "runs": f"/api/v1/runs{AT}",
    "a run by its id": "/api/v1/runs/{run}",
    "a run's metric": "/api/v1/runs/{run}/metrics/auc",
    "a run by its id under one's own project": "/api/v1/runs/{run}?project=shop",
    "jobs": f"/api/v1/jobs{AT}",
    "a job by its id": "/api/v1/jobs/{job}",
    "a job's log": "/api/v1/jobs/{job}/log",
    "a job's end": "/api/v1/jobs/{job}:wait?seconds=0",
    "models": f"/api/v1/models{AT}",
    "a model": f"/api/v1/models/shop{AT}",
    "a model's file": f"/api/v1/models/shop/versions/1/onnx{AT}",
    "a model's signature": f"/api/v1/models/shop/versions/1/signature{AT}",
    "a model by tensors": "/v2/models/payments.shop",
    "a model's configuration": "/v2/models/payments.shop/config",
    "a model's counts": "/v2/models/payments.shop/stats",
    "deployments": f"/api/v1/deployments{AT}",
    "monitors": f"/api/v1/monitors{AT}",
    "histograms": f"/api/v1/monitors/watch/histograms{AT}",
    "alarms": f"/api/v1/alarms{AT}",
    "policies": f"/api/v1/policies{AT}",
    "the overview": f"/api/v1/overview{AT}",
    "events": f"/api/v1/events{AT}",
    "the log": "/api/v1/audit",
    "the log of the tenant": f"/api/v1/audit{AT}",
    "an entry": "/api/v1/audit/{entry}",
    "a proof of an entry": "/api/v1/audit/{entry}/proof",
    "keys": f"/api/v1/keys{AT}",
    "all keys": "/api/v1/keys",
    "the ledger": f"/api/v1/zones/ledger{AT}",
    "transfers": f"/api/v1/transfers{AT}",
    "users": "/api/v1/users",
    "a user": "/api/v1/users/root",
    "another's tokens": "/api/v1/users/service:reader/tokens",
    "metrics": "/metrics",
    "a project twice": "/api/v1/models?project=payments&project=shop",
    "a project in capitals": "/api/v1/models?project=Payments",
    "a project with a NUL": "/api/v1/models?project=payments%00",
    "a project that climbs": "/api/v1/models?project=shop/../payments",
    "evidence": "/api/v1/evidence/entries",
}
CHANGES = {
    "apply into it": (
        "PUT",
        "/api/v1/objects",
        declared("Model", "planted", "payments", description="x"),
    ),
    "apply into it from one's own": (
        "PUT",
        "/api/v1/objects?project=shop",
        declared("Model", "planted", "payments", description="x"),
    ),
    "apply one's own and the other's together": (
        "PUT",
        "/api/v1/objects",
        {
            "objects": [
                declared("Model", "mine", "shop", description="x"),
                declared("Model", "planted", "payments", description="x"),
            ]
        },
    ),
    "ingest": (
        "POST",
        f"/api/v1/feature-views/visits:ingest{AT}&format=csv",
        shop.visits(1, customers=3),
    ),
    "freeze": ("POST", f"/api/v1/training-sets/shop:freeze{AT}", {}),
    "train": ("POST", f"/api/v1/train-jobs/train:run{AT}", {}),
    "train one's own job on their set": (
        "POST",
        "/api/v1/train-jobs/train:run?project=shop",
        {"training_set_id": "{set}"},
    ),
    "cancel a job": ("POST", "/api/v1/jobs/{running}:cancel", {}),
    "promote": ("PUT", f"/api/v1/models/shop/aliases/champion{AT}", {"version": 1}),
    "predict": ("POST", f"/api/v1/deployments/shop:predict{AT}", ONE),
    "predict by tensors": ("POST", "/v2/models/payments.shop/infer", ROW),
    "export a set": ("POST", f"/api/v1/training-sets/shop:export{AT}", {"key": "0" * 64}),
    "export one's own set, which no editor may": (
        "POST",
        "/api/v1/training-sets/shop:export?project=shop",
        {"key": "0" * 64},
    ),
    "rotate keys": ("POST", f"/api/v1/keys:rotate{AT}", {"zone": "ae-fin"}),
    "rotate the machine's key": ("POST", "/api/v1/keys:rotate", {}),
    "raise keys": ("POST", f"/api/v1/keys:raise{AT}", {"zone": "ae-fin", "min_version": 1}),
    "verify the log": ("POST", "/api/v1/audit:verify", {}),
    "sign the log": ("POST", "/api/v1/audit:sign", {}),
    "replay an entry": ("POST", "/api/v1/audit/{entry}:replay", {}),
    "take the evidence": ("POST", "/api/v1/evidence", {}),
    "witness": ("POST", "/api/v1/witness", {"checkpoint": "{head}", "key": "{key}", "proof": []}),
    "make a user": ("POST", "/api/v1/users", {"name": "eve", "password": "a long enough one"}),
    "make a service": ("POST", "/api/v1/services", {"name": "eve"}),
    "make a token for another": ("POST", "/api/v1/users/service:reader/tokens", {"label": "x"}),
    "be an administrator": (
        "PUT",
        "/api/v1/objects",
        declared("Grant", "me", to=["service:mallory"], role="admin", on="platform"),
    ),
    "be an administrator of one's own project": (
        "PUT",
        "/api/v1/objects",
        declared("Grant", "me", to=["service:mallory"], role="admin", on={"project": "shop"}),
    ),
    "be let into the other": (
        "PUT",
        "/api/v1/objects",
        declared("Grant", "me", to=["everyone"], role="viewer", on={"project": "payments"}),
    ),
    "join a group": (
        "PUT",
        "/api/v1/objects",
        declared("Group", "admins", members=["service:mallory"]),
    ),
    "move a project": ("PUT", "/api/v1/objects", declared("Project", "payments", zone="eu")),
    "make a project": ("PUT", "/api/v1/objects", declared("Project", "mine", zone="eu")),
    "make a zone": ("PUT", "/api/v1/objects", declared("Zone", "anywhere")),
    "declare a transfer of theirs": ("PUT", "/api/v1/objects", transfer("another")),
    "approve": ("POST", f"/api/v1/transfers/out:approve{AT}", {}),
    "change a purpose": (
        "PUT",
        "/api/v1/objects",
        declared("Project", "payments", zone="ae-fin", purpose="marketing"),
    ),
    "erase a person": (
        "POST",
        f"/api/v1/subjects:erase{AT}",
        {"entity": "customer", "key": {"customer_id": 1}, "ground": "erasure-request"},
    ),
    "shred": (
        "POST",
        f"/api/v1/keys:shred{AT}",
        {"object": "Model/shop", "ground": "contract-ended"},
    ),
    "delete": ("DELETE", f"/api/v1/objects/Monitor/watch{AT}", None),
    "set another's password": ("PATCH", "/api/v1/users/root", {"password": "a long enough one"}),
    "disable the administrator": ("PATCH", "/api/v1/users/root", {"state": "disabled"}),
    "delete another service": ("DELETE", "/api/v1/users/service:reader", None),
    "shut everyone out": (
        "PUT",
        "/api/v1/objects",
        declared(
            "Grant",
            "no",
            effect="forbid",
            to=["everyone"],
            actions=["objects.read"],
            on={"project": "payments"},
        ),
    ),
    "take a grant away": ("DELETE", "/api/v1/objects/Grant/reader-viewer", None),
    "take the administrator's away": ("DELETE", "/api/v1/objects/Grant/first-administrator", None),
}


def filled(thing, ids):
    if isinstance(thing, str):
        for name, value in ids.items():
            thing = thing.replace("{%s}" % name, str(value))
    if isinstance(thing, dict):
        thing = {key: filled(value, ids) for key, value in thing.items()}
    return thing


def nameless(reply, name):
    """A reply as a value, without the name that was asked for and the id of the request."""
    text = reply.text.replace(reply.headers["X-Request-Id"], "REQUEST")
    value = json.loads(re.sub(rf"\b{re.escape(name)}\b", "NAME", text))
    if isinstance(value, dict):
        value.pop("request_id", None)
    return value


def reaches():
    for name, path in READS.items():
        for who in ("mallory", None):

            def attack(self, path=path, who=who):
                return self.attack(who, "GET", filled(path, self.ids["payments"]))

            yield f"{who or 'stranger'} reads {name}", attack
    for name, (method, path, body) in CHANGES.items():

        def attack(self, method=method, path=path, body=body):
            ids = self.ids["payments"]
            return self.attack("mallory", method, filled(path, ids), filled(body, ids))

        yield f"mallory would {name}", attack
    yield "mallory would import a model", lambda self: self.attack(
        "mallory", "POST", f"/api/v1/models/shop/versions:import{AT}", onnx.doubled(), **OCTETS
    )


def denied(self, reply):
    """The refusal of who may not, and no other: not of a question that nobody is answered."""
    unreadable = "nul" in self._testMethodName.split("_")
    self.refused(reply, (400,) if unreadable else (401, 403, 404))


@attacks(reaches(), denied)
class Reaching(Fortress):
    @classmethod
    def prepare(cls, server):
        """What the attacks reach for is there: a quarantine, a monitor that has seen a window, a
        transfer that waits for its approval, a job that runs, a head of the log, a deployment."""
        super().prepare(server)
        server.apply(
            declared("Monitor", "watch", "payments", deployment="shop", window="50 rows"),
            transfer("out"),
        )
        rows = shop.visits(1, customers=3) + f"1,{shop.moment(2)},many,1\n"
        path = f"/api/v1/feature-views/visits:ingest{AT}&format=csv"
        told = server.good("POST", path, rows)
        head = server.get("/api/v1/audit/head")
        running = server.good("POST", f"/api/v1/jobs{AT}", {"command": ["sleep", "1000"]})["id"]
        wait_until(lambda: server.get(f"/api/v1/jobs/{running}")["status"] == "running", "it runs")
        answers = f"/api/v1/deployments/shop:predict{AT}"
        many = shop.entities(50)
        wait_until(lambda: server.request("POST", answers, many).status == 200, "the deployment")
        seen = f"/api/v1/monitors/watch/histograms{AT}"
        wait_until(lambda: server.request("GET", seen).status == 200, "a window of the monitor")
        cls.ids["payments"].update(
            quarantine=told["quarantine"], running=running, head=head["checkpoint"], key=head["key"]
        )

    def test_one_s_own_is_there(self):
        """The control: the same requests, at home."""
        for path in ("models", "runs", "jobs", "feature-views"):
            reply = self.attack("mallory", "GET", f"/api/v1/{path}?project=shop")
            self.assertEqual(reply.status, 200, reply.text)
        twice = self.attack("mallory", "GET", "/api/v1/models?project=shop&project=payments")
        once = self.attack("mallory", "GET", "/api/v1/models?project=shop")
        self.assertEqual(twice.body, once.body, "the gate and the handler read two projects")

    def test_another_s_is_answered_like_what_does_not_exist(self):
        """Same status, same words but for the name that was asked for, also when asked why."""
        run = self.ids["payments"]["run"]
        other_run = run[:-1] + ("0" if run[-1] != "0" else "1")
        pairs = [
            ("/api/v1/models/shop?project={}", "payments", "paymentz"),
            ("/api/v1/objects/Model/shop?project={}", "payments", "paymentz"),
            ("/api/v1/jobs?project={}", "payments", "paymentz"),
            ("/v2/models/{}.shop", "payments", "paymentz"),
            ("/api/v1/runs/{}", run, other_run),
            ("/api/v1/audit/{}", "1", "999999999"),
        ]
        for path, theirs, nobodys in pairs:
            first = self.attack("mallory", "GET", path.format(theirs))
            second = self.attack("mallory", "GET", path.format(nobodys))
            self.assertEqual(first.status, second.status, path)
            self.assertEqual(first.code, second.code, path)
            self.assertEqual(sorted(first.headers), sorted(second.headers), path)
            words = [nameless(each, name) for each, name in ((first, theirs), (second, nobodys))]
            self.assertEqual(*words, path)
            whys = [self.why_denied(first, theirs), self.why_denied(second, nobodys)]
            self.assertEqual(*whys, path)
            self.assertIn("reason", whys[0], path)

    def why_denied(self, reply, name):
        """What the caller is told of a denial afterwards, without what they asked for."""
        request = reply.headers["X-Request-Id"]
        asked = self.attack("mallory", "GET", f"/api/v1/access/denials/{request}")
        self.assertEqual(asked.status, 200, f"{name}: {asked.text}")
        told = nameless(asked, name)
        told.pop("at")
        self.assertNotIn("payments", json.dumps(told), name)
        return told

    def test_lists_show_only_one_s_own(self):
        for path in ("/api/v1/objects", "/api/v1/projects", f"/api/v1/objects{AT}&kind=Model"):
            reply = self.attack("mallory", "GET", path)
            self.assertEqual(reply.status, 200, reply.text)
            self.assertNotIn(b"payments", reply.body, path)
        reply = self.attack("mallory", "POST", "/v2/repository/index", {})
        self.assertNotIn(b"payments", reply.body)
        reply = self.attack("mallory", "GET", "/v2/models/stats")
        self.assertNotIn(b"payments", reply.body)


# Who is let in, for less than this.
NARROW = {
    "a viewer ingests": (
        "reader",
        "POST",
        "/api/v1/feature-views/visits:ingest?project=shop&format=csv",
        shop.visits(1, customers=3),
    ),
    "a viewer applies": ("reader", "PUT", "/api/v1/objects", declared("Model", "m", "shop")),
    "a viewer trains": ("reader", "POST", "/api/v1/train-jobs/train:run?project=shop", {}),
    "a viewer predicts": ("reader", "POST", "/api/v1/deployments/shop:predict?project=shop", ONE),
    "a viewer promotes": (
        "reader",
        "PUT",
        "/api/v1/models/shop/aliases/champion?project=shop",
        {"version": 1},
    ),
    "an editor promotes": (
        "mallory",
        "PUT",
        "/api/v1/models/shop/aliases/champion?project=shop",
        {"version": 1},
    ),
    "an approver trains": ("approver", "POST", "/api/v1/train-jobs/train:run?project=shop", {}),
    "an approver applies": ("approver", "PUT", "/api/v1/objects", declared("Model", "m", "shop")),
    "an approver grants": (
        "approver",
        "PUT",
        "/api/v1/objects",
        declared("Grant", "g", to=["service:approver"], role="editor", on={"project": "shop"}),
    ),
    "a scoped token predicts elsewhere": (
        "scoped",
        "POST",
        "/api/v1/deployments/shop:predict?project=payments",
        ONE,
    ),
    "a scoped token reads": ("scoped", "GET", "/api/v1/models?project=shop", None),
    "a scoped token makes a token": (
        "scoped",
        "POST",
        "/api/v1/tokens",
        {"label": "x", "lifetime": "1h"},
    ),
    "a scoped token predicts another": (
        "scoped",
        "POST",
        "/api/v1/deployments/other:predict?project=shop",
        ONE,
    ),
    "a token outlives its maker": (
        "short",
        "POST",
        "/api/v1/tokens",
        {"label": "x", "lifetime": "300d"},
    ),
    "a token for two years": (
        "mallory",
        "POST",
        "/api/v1/tokens",
        {"label": "x", "lifetime": "800d"},
    ),
    "a token for no time": ("mallory", "POST", "/api/v1/tokens", {"label": "x", "lifetime": "0s"}),
    "a token of unknown scope": (
        "mallory",
        "POST",
        "/api/v1/tokens",
        {"label": "x", "lifetime": "1h", "scopes": ["everything"]},
    ),
    "another's token is revoked": (
        "mallory",
        "DELETE",
        "/api/v1/users/service:reader/tokens/{reader}",
        None,
    ),
    "another's token is revoked as one's own": (
        "mallory",
        "DELETE",
        "/api/v1/tokens/{reader}",
        None,
    ),
    "break-glass without a reason": ("oncall", "GET", "/api/v1/audit", None),
    "a service without a grant": ("nobody", "GET", "/api/v1/models?project=shop", None),
}


def narrow():
    for name, (who, method, path, body) in NARROW.items():

        def attack(self, who=who, method=method, path=path, body=body):
            reader = self.tokens["reader"].split("_")[1]
            reply = self.attack(who, method, path.replace("{reader}", reader), body)
            if name == "a token outlives its maker" and reply.status < 300:
                raise AssertionError("it does: " + reply.text)
            return reply

        yield name, attack


@attacks(narrow())
class Narrow(Fortress):
    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        cls.tokens["scoped"] = cls.service(
            "scorer", scopes=["serving.predict@shop/Deployment/shop"]
        )
        cls.tokens["short"] = cls.service("short", lifetime="1h")
        cls.tokens["oncall"] = cls.service("oncall")
        cls.tokens["nobody"] = cls.service("nobody")
        server.apply(
            {**tenant("shop")[-1], "metadata": {"name": "other", "project": "shop"}},
            cls.grant("scorer", "editor", {"project": "shop"}),
            cls.grant("short", "editor", {"project": "shop"}),
            declared("Grant", "glass", to=["service:oncall"], role="break-glass", on="platform"),
        )

    def test_break_glass_with_a_reason_is_let_in_and_written_down(self):
        """The control of the refusal above."""
        asked = {"X-Falaj-Reason": "the pager rang"}
        self.assertEqual(self.attack("oncall", "GET", "/api/v1/audit", **asked).status, 200)
        self.assertTrue(self.server.audited("access.break_glass"))


def plain(name):
    """The declaration of that view of the shop, without labels."""
    return next(each for each in tenant("shop") if each["metadata"]["name"] == name)


# The view `visits` of the shop bears vault=yes, by which everyone is forbidden to read it.
VAULT = {
    "read what a label forbids": ("POST", "/api/v1/feature-views/visits:read?project=shop", ONE),
    "take the label of a forbid off": ("PUT", "/api/v1/objects", plain("visits")),
    "take the label of a forbid off among others": (
        "PUT",
        "/api/v1/objects",
        {"objects": [plain("bought"), plain("visits")]},
    ),
    "change the label of a forbid": (
        "PUT",
        "/api/v1/objects",
        {
            **plain("visits"),
            "metadata": {"name": "visits", "project": "shop", "labels": {"vault": "no"}},
        },
    ),
    "delete what a label forbids": (
        "DELETE",
        "/api/v1/objects/FeatureView/visits?project=shop",
        None,
    ),
    "freeze what a label forbids": ("POST", "/api/v1/training-sets/shop:freeze?project=shop", {}),
    "freeze what a label forbids with a spine of one's own": (
        "POST",
        "/api/v1/training-sets/shop:freeze-with-spine?project=shop&format=csv",
        "customer_id,at,bought\n1,2026-01-01,true\n",
    ),
    "export what was frozen before the label": (
        "POST",
        "/api/v1/training-sets/shop:export?project=shop",
        {"key": "0" * 64},
    ),
}


def vault():
    for name, (method, path, body) in VAULT.items():

        def attack(self, method=method, path=path, body=body):
            return self.attack("mallory", method, path, body)

        yield name, attack


def forbidden(self, reply):
    self.assertEqual(reply.status, 403, reply.text)
    self.refused(reply)


@attacks(vault(), forbidden)
class Vault(Fortress):
    """A forbid that goes by a label holds for who may write what bears it."""

    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        secret = plain("visits")
        secret["metadata"]["labels"] = {"vault": "yes"}
        server.apply(
            secret,
            declared(
                "Grant",
                "mallory-exports",
                to=["service:mallory"],
                actions=["data.export"],
                on={"project": "shop"},
            ),
            declared(
                "Grant",
                "nobody-reads-the-vault",
                effect="forbid",
                to=["everyone"],
                actions=["data.read", "data.export"],
                on={"labels": {"vault": "yes"}},
            ),
        )


class Quotas(Fortress):
    """Group 27: ten tokens of one service are one caller."""

    FLAGS = ("--set", "security.requests_per_second=5")

    @classmethod
    def prepare(cls, server):
        cls.admin = server.set_up()
        server.headers = bearer(cls.admin)
        cls.tokens = {}

    def state(self):
        return {}

    def test_many_tokens_share_one_limit(self):
        made = []
        self.server.good("POST", "/api/v1/services", {"name": "many"})
        for number in range(10):
            reply = None
            while reply is None or reply.status == 429:
                reply = self.server.request(
                    "POST", "/api/v1/users/service:many/tokens", {"label": f"n{number}"}
                )
            made.append(reply.value["token"])
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            replies = list(
                pool.map(
                    lambda n: self.send("GET", "/api/v1/whoami", headers=bearer(made[n % 10])),
                    range(120),
                )
            )
        limited = [each for each in replies if each.status == 429]
        self.assertGreater(len(limited), 60, "ten tokens had ten limits")
        self.assertIn("Retry-After", limited[0].headers)


if __name__ == "__main__":
    unittest.main()
