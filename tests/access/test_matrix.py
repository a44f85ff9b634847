#!/usr/bin/env python3
"""Asks every declared route and gRPC method as every role, on a project (in its own tenant and in
another's) and on the platform, in an emergency with a reason and without, with a good token, with
none and with an expired one; compares with what the permission table says and with
docs/reference/authorization.md. Records (runs, jobs, audit entries, alarms) are real ones of each
tenant. A row that nobody was let through, or everybody, proves nothing and is a fault.

    FALAJ_BINARY=build/release/falaj tests/access/test_matrix.py [--write]

What is expected is computed here, from docs/reference/permissions.md (role → actions) and each
route's declared target: a second reading of the rules, next to the server's own. Whether the gate
let a request through is asked from the server's list of denials, so that a handler's own "not
found" does not count as one.

With --plant a grant that should not be there is put there: a viewer's, on another tenant's project.
The two columns that it could show in are asked, and it is an error unless every cell that the grant
opens is a fault, and every fault is the viewer's. That is the negative control.
"""

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "faults"))
os.environ.setdefault("FALAJ_BINARY", ROOT + "/build/release/falaj")

import http2  # noqa: E402
import shop  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "reference", "authorization.md")
PERMISSIONS = os.path.join(ROOT, "docs", "reference", "permissions.md")
PROGRAM = os.path.abspath(os.environ["FALAJ_BINARY"])
ROLES = ["viewer", "editor", "approver", "operator", "auditor", "admin", "break-glass"]
TENANTS = ["own", "other"]
PASSWORD = "a long password of the matrix"
REASON = {"X-Falaj-Reason": "the matrix asks"}
SERVICE = "/inference.GRPCInferenceService/"

SHOP = [
    ("Entity", "customer", {"keys": [{"name": "customer_id", "type": "int64"}]}),
    ("Source", "visits", {"format": "csv", "path": "v.csv", "event_time": "at"}),
    (
        "FeatureView",
        "thing",
        {
            "entity": "customer",
            "source": "visits",
            "features": [{"name": "pages", "type": "int64"}, {"name": "bought", "type": "int64"}],
        },
    ),
    ("FeatureService", "thing", {"features": ["thing"]}),
    ("Model", "thing", {"description": "The matrix's"}),
    ("Deployment", "thing", {"model": "thing", "alias": "champion", "features": "thing"}),
    ("Monitor", "thing", {"deployment": "thing", "window": "1h"}),
]


class Server:
    """`falaj serve` in a folder of its own, with an administrator."""

    def __init__(self, folder):
        self.folder = folder
        log = open(os.path.join(folder, "server.log"), "wb")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--data", folder + "/data", "--port", "0", "--grpc-port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
        )
        self.url = ""
        for line in self.process.stdout:
            if line.startswith(b"ready "):
                self.url = line.split()[1].decode()
                break
        assert self.url, self.log()
        self.where = urllib.parse.urlsplit(self.url)
        self.grpc = self.process.stdout.readline().split()[1].decode()
        self.authority = os.path.join(folder, "data", "tls", "authority.pem")
        self.context = ssl.create_default_context(cafile=self.authority)
        self.connection, self.calls, self.asked = None, None, 0

    def log(self):
        with open(os.path.join(self.folder, "server.log"), errors="replace") as text:
            return text.read()

    def setup_secret(self):
        for line in self.log().split("\n"):
            if line.split()[:1] == ["Setup"]:
                return line.split()[1].partition("#")[2]
        raise AssertionError("no setup link:\n" + self.log())

    def ask(self, method, path, body=None, token=None, headers=None):
        """(status, parsed body or text, request id); streams are not read."""
        self.asked += 1
        request_id = f"matrix-{self.asked}"
        sent = {"X-Request-Id": request_id, **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        if token:
            sent["Authorization"] = token if " " in token else "Bearer " + token
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        reply, text = self.exchange(method, path, data, sent)
        try:
            return reply.status, json.loads(text), request_id
        except ValueError:
            return reply.status, text, request_id

    def exchange(self, method, path, data, headers):
        """On the connection that is open; on a new one when the server has closed that."""
        fresh = self.connection is None
        if fresh:
            self.connection = http.client.HTTPSConnection(
                self.where.hostname, self.where.port, timeout=60, context=self.context
            )
        try:
            self.connection.request(method, path, body=data, headers=headers)
            reply = self.connection.getresponse()
            stream = reply.getheader("Content-Type", "").startswith("text/event-stream")
            text = "" if stream else reply.read().decode(errors="replace")
            if stream:
                self.hang_up()
            return reply, text
        except (OSError, http.client.HTTPException):
            self.hang_up()
            if fresh:
                raise
        return self.exchange(method, path, data, headers)

    def hang_up(self):
        self.connection.close()
        self.connection = None

    def call(self, path, message, token, headers=None):
        """(answer, request id) of one gRPC call."""
        self.asked += 1
        request_id = f"matrix-{self.asked}"
        sent = [("x-request-id", request_id), ("triton_grpc_error", "true")]
        sent += [(name.lower(), value) for name, value in (headers or {}).items()]
        if token:
            sent.append(("authorization", "Bearer " + token))
        if self.calls is None or not self.calls.open:
            self.calls = http2.Connection(self.grpc, self.authority)
        return self.calls.call(path, message, sent), request_id

    def good(self, *arguments, **named):
        status, value, _ = self.ask(*arguments, **named)
        assert 200 <= status < 300, (arguments[:2], status, value)
        return value

    def still_runs(self, seconds):
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError("the server ended:\n" + self.log())

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.process.stdout.close()


def role_actions():
    """role → actions, from the generated page."""
    table, columns = {role: set() for role in ROLES}, []
    with open(PERMISSIONS) as page:
        for line in page:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if cells[:2] == ["action", "meaning"]:
                columns = cells[2:]
            elif columns and cells[0].startswith("`"):
                for role, mark in zip(columns, cells[2:]):
                    if mark == "●":
                        table[role].add(cells[0].strip("`"))
    assert columns == ROLES, columns
    return table


class Matrix:
    def __init__(self, server):
        self.server, self.actions = server, role_actions()
        self.tokens, self.records, self.routes, self.faults = {}, {}, [], []
        self.above = {}  # The tokens of who has the roles on the platform.

    # --- the world ---

    def build(self):
        server = self.server
        secret = server.setup_secret()
        server.good(
            "POST",
            "/api/v1/setup",
            {"secret": secret, "name": "root", "password": PASSWORD},
        )
        basic = "Basic " + base64.b64encode(f"root:{PASSWORD}".encode()).decode()
        self.root = server.good(
            "POST", "/api/v1/tokens", {"label": "matrix", "lifetime": "1h"}, token=basic
        )["token"]
        self.expiring = self.service("expired", "1m")  # The shortest there is.
        self.apply([("Project", t, {"zone": "local"}, None) for t in TENANTS])
        for tenant in TENANTS:
            self.apply([(kind, name, spec, tenant) for kind, name, spec in SHOP])
        for role in ROLES:
            self.tokens[role] = self.service(role, "1h")
            self.above[role] = self.service("platform-" + role, "1h")
        self.apply(
            [self.grant(role, role, {"project": "own"}) for role in ROLES]
            + [self.grant("platform-" + role, role, "platform") for role in ROLES]
        )
        if "--plant" in sys.argv:
            self.apply([self.grant("viewer", "viewer", {"project": "other"}, "planted")])
        for tenant in TENANTS:
            self.records[tenant] = self.fill(tenant)
        document = server.good("GET", "/openapi.json", token=self.root)
        for path, methods in sorted(document["paths"].items()):
            for method, route in sorted(methods.items()):
                self.routes.append(
                    (method.upper(), path, route["x-permission"], route["x-target"])
                )
        for each in document["x-grpc"]:
            self.routes.append(("gRPC", each["path"], each["x-permission"], each["x-target"]))

    @staticmethod
    def grant(service, role, on, name=None):
        spec = {"to": [f"service:{service}"], "role": role, "on": on}
        return ("Grant", name or f"{service}-{role}", spec, None)

    def fill(self, tenant):
        """A run, a job, an audit entry and an alarm of that tenant."""
        ask, at = self.server.good, f"?project={tenant}"
        named = [(each["kind"], each["metadata"]["name"], each["spec"]) for each in shop.features()]
        train = shop.train_job(rounds=1)
        named.append((train["kind"], train["metadata"]["name"], train["spec"]))
        self.apply([(*each, tenant) for each in named])
        for view, rows in (("visits", shop.visits(0)), ("bought", shop.labels())):
            path = f"/api/v1/feature-views/{view}:ingest{at}&format=csv"
            ask("POST", path, rows.encode(), token=self.root)
        ask("POST", f"/api/v1/training-sets/shop:freeze{at}", {}, token=self.root)
        started = ask("POST", f"/api/v1/train-jobs/train:run{at}", {}, token=self.root)
        while True:
            job = ask("GET", f"/api/v1/jobs/{started['job']}:wait?seconds=20", token=self.root)
            if job["status"] in ("succeeded", "failed", "cancelled"):
                break
        assert job["status"] == "succeeded", job
        glass = self.service("glass-" + tenant, "1h")
        self.apply([self.grant("glass-" + tenant, "break-glass", {"project": tenant})])
        ask("GET", f"/api/v1/models{at}", token=glass, headers=REASON)
        alarms = ask("GET", f"/api/v1/alarms{at}", token=self.root)["alarms"]
        entries = ask("GET", f"/api/v1/audit{at}&limit=1", token=self.root)["entries"]
        return {
            "Run": started["run"],
            "Job": started["job"],
            "Emergency": str(next(a["id"] for a in alarms if a["kind"] == "break-glass")),
            "AuditEntry": str(entries[0]["sequence"]),
        }

    def apply(self, objects):
        made = []
        for kind, name, spec, project in objects:
            metadata = {"name": name, **({"project": project} if project else {})}
            made.append(
                {"apiVersion": "falaj.dev/v1", "kind": kind, "metadata": metadata, "spec": spec}
            )
        self.server.good("PUT", "/api/v1/objects", {"objects": made}, token=self.root)

    def service(self, name, lifetime):
        self.server.good("POST", "/api/v1/services", {"name": name}, token=self.root)
        return self.server.good(
            "POST",
            f"/api/v1/users/service:{name}/tokens",
            {"label": name, "lifetime": lifetime},
            token=self.root,
        )["token"]

    def wait_for_expiry(self):
        """It was made first; the roles' requests have used up most of its minute."""
        end = time.monotonic() + 90
        while self.server.ask("GET", "/api/v1/whoami", token=self.expiring)[0] != 401:
            assert time.monotonic() < end, "a token of one minute does not expire"
            self.server.still_runs(1)

    # --- one request ---

    def request_of(self, method, path, target, tenant):
        """Path with its placeholders filled, and a body that changes nothing if let through."""
        names = {
            "kind": "Entity",
            "name": "thing",
            "project": tenant,
            "model": f"{tenant}.thing" if "project.name" in target else "thing",
            "alias": "champion",
            "version": "1",
            "id": self.records[tenant].get(target.partition(" ")[0], "no-such-record"),
            "sequence": self.records[tenant]["AuditEntry"],
            "metric": "auc",
            "request_id": "no-such-request",
            "user": "no-such-user",
            "token": "no-such-token",
            "session": "no-such-session",
        }
        if method == "DELETE":
            names["name"] = "no-such-thing"
        filled = path
        while "{" in filled:
            begin, end = filled.index("{"), filled.index("}")
            name = filled[begin + 1 : end]
            filled = filled[:begin] + names.get(name, "no-such-" + name) + filled[end + 1 :]
        body = None
        if method in ("POST", "PUT", "PATCH"):
            body = {"no_such_field": True}
        if target == "each object of the body":
            kind, name, spec = SHOP[0]
            body = {
                "apiVersion": "falaj.dev/v1",
                "kind": kind,
                "metadata": {"name": name, "project": tenant},
                "spec": spec,
            }
        return f"{filled}?project={tenant}", body

    def expected(self, asker, action, target, tenant):
        """Allowed, by a second reading of the rules."""
        role, on, reason = asker
        if target == "nothing" or action in ("account.use", "account.manage"):
            return True
        if action not in self.actions[role] or (role == "break-glass" and not reason):
            return False
        if on == "platform":
            return True
        if target.endswith("of the platform") and "of ?project=" not in target:
            return False
        if target.endswith("of every project, as visible"):
            return True
        return tenant == "own"

    def outcome(self, route, token, tenant, headers=None):
        """'●' let through, or the status of the denial."""
        method, path, _, target = route
        if method == "gRPC":
            return self.grpc_outcome(path, target, token, tenant, headers)
        where, body = self.request_of(method, path, target, tenant)
        status, value, request_id = self.server.ask(method, where, body, token, headers)
        assert status < 500 or status in (501, 503), (route, status, value)
        code = value.get("code") if isinstance(value, dict) else None  # Feast's errors are texts.
        if status == 401 and code != "FJ-7018":  # A handler that wants a certificate.
            return "401"
        if target == "each object of the body":
            return "●" if status == 200 else str(status)
        return str(status) if self.denied(request_id) else "●"

    def denied(self, request_id):
        path = f"/api/v1/access/denials/{request_id}"
        return self.server.ask("GET", path, token=self.root)[0] == 200

    def grpc_outcome(self, path, target, token, tenant, headers):
        message = b""
        if "{model}" in target:
            number = 2 if path.startswith(SERVICE + "RepositoryModel") else 1
            message = http2.part(number, f"{tenant}.thing")
        answer, request_id = self.server.call(path, message, token, headers)
        assert answer.status not in (-1, 13, 15), (path, answer.headers)
        if answer.status == 16:
            return "16"
        if path.endswith("/ModelStreamInfer"):
            request_id += "-1"  # Of its first message.
        if not self.denied(request_id):
            return "●"
        assert answer.status != 0 or answer.messages == [b""], (path, answer.messages)
        return str(answer.status) if answer.status else "false"

    # --- the whole ---

    def run(self):
        """The rows of both tables."""
        asked = [(role, "own", False) for role in ROLES] + [("break-glass", "own", True)]
        cells = {route: [self.pair(route, asker) for asker in asked] for route in self.routes}
        higher = [(role, "platform", False) for role in ROLES] + [("break-glass", "platform", True)]
        above = {route: [self.cell(route, asker, "other") for asker in higher]
                 for route in self.routes}
        for route in self.routes:
            cells[route].append(self.unknown(route, "no token", None))
        self.wait_for_expiry()
        for route in self.routes:
            cells[route].append(self.unknown(route, "expired", self.expiring))
            self.proves_something(route, cells[route] + above[route])
        return tuple(
            [
                f"| `{method}` | `{path}` | `{action}` | {target} | {' | '.join(row)} |"
                for (method, path, action, target), row in table.items()
            ]
            for table in (cells, above)
        )

    def run_planted(self):
        """What the plant should have shown and did not, and what was said of who has none."""
        for route in self.routes:
            for role in ("viewer", "editor"):
                self.pair(route, (role, "own", False))
        viewer = ("viewer", "own", False)
        opened = {
            f"{method} {path}, viewer on own in other: ●, not a denial"
            for method, path, action, target in self.routes
            if self.expected(viewer, action, target, "own")
            and not self.expected(viewer, action, target, "other")
        }
        assert len(opened) > len(self.routes) // 4, "a viewer sees hardly anything"
        missed = ["not found: " + each for each in sorted(opened - set(self.faults))]
        return missed + ["not planted: " + each for each in self.faults if "viewer" not in each]

    def cell(self, route, asker, tenant):
        method, path, action, target = route
        role, on, reason = asker
        token = (self.tokens if on == "own" else self.above)[role]
        got = self.outcome(route, token, tenant, REASON if reason else None)
        want = self.expected(asker, action, target, tenant)
        if (got == "●") != want or got in ("401", "16"):
            wanted = "●" if want else "a denial"
            self.fault(f"{method} {path}, {role} on {on} in {tenant}: {got}, not {wanted}")
        return got

    def pair(self, route, asker):
        """In one's own project / in another's; one mark when they are the same."""
        method, path, _, target = route
        got = {tenant: self.cell(route, asker, tenant) for tenant in TENANTS}
        hidden = "of ?project=" in target and "platform" not in target or "project.name" in target
        if got["other"] in ("403", "7") and hidden:
            self.fault(f"{method} {path}, {asker}: {got['other']} tells that another's exists")
        return got["own"] if got["own"] == got["other"] else f"{got['own']}/{got['other']}"

    def proves_something(self, route, marks):
        """Somebody was let through and somebody was not."""
        known = [mark for mark in marks if mark not in ("401", "16")]
        everyone = route[3] == "nothing" or route[2].startswith("account.")
        if not any("●" in mark for mark in known):
            self.fault(f"{route[0]} {route[1]}: nobody was let through")
        if not everyone and all(mark == "●" for mark in known):
            self.fault(f"{route[0]} {route[1]}: everybody was let through")

    def unknown(self, route, what, token):
        got = self.outcome(route, token, "own")
        refusal = "16" if route[0] == "gRPC" else "401"
        if got != ("●" if route[3] == "nothing" else refusal):
            self.fault(f"{route[0]} {route[1]} with {what}: {got}")
        return got

    def fault(self, text):
        self.faults.append(text)


def table(columns, rows):
    columns = ["method", "path", "action", "on"] + columns
    return "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns) + "\n" + "\n".join(rows)


def page_of(rows, above):
    reason = "break-glass, with a reason"
    return (
        "# Authorization\n\n"
        "Generated and checked by `tests/access/test_matrix.py`: every route and gRPC method of a "
        "running `falaj serve`, asked\nfor records and objects that there are. `●` the gate lets "
        "it through; otherwise the status (of gRPC: 16 nobody, 7 denied,\n5 not found; `false` "
        "where the answer is that). 404 and 5 are what a thing that does not exist answers as "
        "well:\nanother tenant's is not told apart.\n\n"
        "## Roles on one project\n\n"
        "Asked by a service with each role on one project, in that project / in another tenant's; "
        "without a token; with an\nexpired one.\n\n"
        + table(ROLES + [reason, "no token", "expired"], rows)
        + "\n\n## Roles on the platform\n\n"
        "Asked by a service with each role on the platform.\n\n"
        + table(ROLES + [reason], above)
        + "\n"
    )


def main():
    with tempfile.TemporaryDirectory(prefix="falaj-matrix-") as folder:
        server = Server(folder)
        try:
            matrix = Matrix(server)
            matrix.build()
            if "--plant" in sys.argv:
                wrong = matrix.run_planted()
                print(f"{len(matrix.faults)} faults of the plant", *wrong, sep="\n  ")
                return 1 if wrong else 0
            rows, above = matrix.run()
        finally:
            server.stop()
    page = page_of(rows, above)
    print(f"{len(rows)} routes, {server.asked} requests, {len(matrix.faults)} faults")
    for fault in matrix.faults:
        print("  " + fault)
    if "--write" in sys.argv:
        with open(PAGE, "w") as out:
            out.write(page)
    elif not os.path.exists(PAGE) or open(PAGE).read() != page:
        print("docs/reference/authorization.md differs: run with --write and look at the change")
        return 1
    return 1 if matrix.faults else 0


if __name__ == "__main__":
    sys.exit(main())
