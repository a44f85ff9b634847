"""A real `falaj serve` under attack: TLS, an administrator, two tenants in two zones.

`payments` (zone ae-fin) is what the attacker is after; `shop` (zone eu) is where the attacker, the
service mallory, is an editor in good standing. Nothing that mallory or a stranger does may change
what the administrator sees of either.
"""

import base64
import tempfile

import shop
from arena import Arena
from issuer import Issuer
from program import Server

ADMIN = "correct horse battery"


def declared(kind, name, project=None, **spec):
    metadata = {"name": name, **({"project": project} if project else {})}
    return {"apiVersion": "falaj.dev/v1", "kind": kind, "metadata": metadata, "spec": spec}


def bearer(token):
    return {"Authorization": "Bearer " + token}


def basic(name, password):
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def tenant(project):
    """The shop of tests/faults, in that project."""
    made = [*shop.features(), shop.train_job(), shop.deployment()]
    for each in made:
        each["metadata"]["project"] = project
    return made


class Fortress(Arena):
    @classmethod
    def make_server(cls):
        return Server(cls.folder + "/data", *cls.FLAGS, mode="serve").start()

    @classmethod
    def prepare(cls, server):
        cls.admin = server.set_up(password=ADMIN)
        server.apply(
            declared("Zone", "ae", regime="uae-pdpl"),
            declared("Zone", "ae-fin", parent="ae", regime="cbuae-consumer"),
            declared("Zone", "eu", regime="gdpr"),
            declared("Project", "payments", zone="ae-fin", purpose="fraud-prevention"),
            declared("Project", "shop", zone="eu", purpose="recommendations"),
        )
        cls.tokens = {name: cls.service(name) for name in ("mallory", "reader", "approver")}
        server.apply(
            cls.grant("mallory", "editor", {"project": "shop"}),
            cls.grant("reader", "viewer", {"project": "shop"}),
            cls.grant("approver", "approver", {"project": "shop"}),
        )
        cls.ids = {project: cls.fill(project) for project in ("payments", "shop")}

    @classmethod
    def service(cls, name, **token):
        """A service of that name; its token."""
        cls.server.good("POST", "/api/v1/services", {"name": name})
        return cls.server.good(
            "POST", f"/api/v1/users/service:{name}/tokens", {"label": name, **token}
        )["token"]

    @classmethod
    def wear_out(cls):
        """Tokens that were good once: revoked, of a disabled service, of a deleted one."""
        for name in ("revoked", "disabled", "deleted"):
            setattr(cls, name, cls.service(name))
        listed = cls.server.get("/api/v1/users/service:revoked/tokens")["tokens"]
        cls.server.good("DELETE", f"/api/v1/users/service:revoked/tokens/{listed[0]['id']}")
        cls.server.good("PATCH", "/api/v1/users/service:disabled", {"state": "disabled"})
        cls.server.good("DELETE", "/api/v1/users/service:deleted")

    @staticmethod
    def grant(name, role, on):
        return declared("Grant", f"{name}-{role}", to=[f"service:{name}"], role=role, on=on)

    @classmethod
    def fill(cls, project):
        """Rows, a frozen set, a finished run and a registered version; their ids."""
        server, at = cls.server, f"?project={project}"
        server.apply(*tenant(project))
        more = f"{at}&format=csv"
        server.good("POST", f"/api/v1/feature-views/visits:ingest{more}", shop.visits(0))
        server.good("POST", f"/api/v1/feature-views/bought:ingest{more}", shop.labels())
        frozen = server.good("POST", f"/api/v1/training-sets/shop:freeze{at}", {})
        started = server.good("POST", f"/api/v1/train-jobs/train:run{at}", {})
        ended = server.job_ended(started["job"])
        assert ended["status"] == "succeeded", ended
        aliases = f"/api/v1/models/shop/aliases/champion{at}"
        server.good("PUT", aliases, {"version": 1, "reason": "first"})
        entry = server.get(f"/api/v1/audit{at}&limit=1")["entries"][0]["sequence"]
        return {**started, "set": frozen["id"], "entry": entry}

    def state(self):
        """All that an attack could have changed, as the administrator sees it."""
        ask, seen = self.server.get, {}
        for project in ("payments", "shop"):
            at = f"?project={project}"
            for what in ("feature-views", "training-sets", "runs", "jobs", "models", "transfers"):
                seen[project, what] = ask(f"/api/v1/{what}{at}")
            seen[project, "keys"] = [
                {k: v for k, v in key.items() if k in ("id", "object", "version", "min_version")}
                for key in ask(f"/api/v1/keys{at}").get("keys", [])
            ]
        seen["objects"] = ask("/api/v1/objects")["objects"]
        seen["users"] = [
            {k: v for k, v in user.items() if "used" not in k and "seen" not in k}
            for user in ask("/api/v1/users")["users"]
        ]
        seen["changes"] = [
            (entry["action"], entry["object"])
            for entry in ask("/api/v1/audit?limit=1000")["entries"]
            # Refused sign-ins are told together, now and then: what was refused, not a change.
            if not entry["action"].startswith(
                ("access.", "audit.", "model.refused", "residency.refuse", "session.",
                 "sign_in.refused")
            )
        ]
        return seen

    def attack(self, who, method, path, body=None, **headers):
        """A request as one of the services, or as a stranger (None)."""
        known = bearer(self.tokens[who]) if who else {}
        return self.send(method, path, body, {**known, **headers})


class Federated(Fortress):
    """With an identity provider, `issuer`, whose tokens are taken."""

    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.TemporaryDirectory(prefix="falaj-issuer-")
        cls.issuer = Issuer(cls.keys.name)
        cls.FLAGS = ("--set", f"security.oidc_issuer={cls.issuer.url}")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.issuer.close()
        cls.keys.cleanup()
