#!/usr/bin/env python3
"""Asks every declared route as every role, in its own tenant and in another's, with a good token,
with none and with an expired one; compares with what the permission table says and with
docs/reference/authorization.md.

    FALAJ_BINARY=build/release/falaj tests/access/test_matrix.py [--write]

What is expected is computed here, from docs/reference/permissions.md (role → actions) and each
route's declared target: a second reading of the rules, next to the server's own. Whether the gate
let a request through is asked from the server's list of denials, so that a handler's own "not
found" does not count as one.
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
PAGE = os.path.join(ROOT, "docs", "reference", "authorization.md")
PERMISSIONS = os.path.join(ROOT, "docs", "reference", "permissions.md")
PROGRAM = os.path.abspath(os.environ.get("FALAJ_BINARY", ROOT + "/build/release/falaj"))
ROLES = ["viewer", "editor", "approver", "operator", "auditor", "admin", "break-glass"]
TENANTS = ["own", "other"]
PASSWORD = "a long password of the matrix"

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
            [PROGRAM, "serve", "--data", os.path.join(folder, "data"), "--port", "0"],
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
        self.context = ssl.create_default_context(
            cafile=os.path.join(folder, "data", "tls", "authority.pem")
        )
        self.connection, self.asked = None, 0

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
        connection = http.client.HTTPSConnection(
            self.where.hostname, self.where.port, timeout=60, context=self.context
        )
        try:
            connection.request(method, path, body=data, headers=sent)
            reply = connection.getresponse()
            if reply.getheader("Content-Type", "").startswith("text/event-stream"):
                return reply.status, "", request_id
            text = reply.read().decode(errors="replace")
        finally:
            connection.close()
        try:
            return reply.status, json.loads(text), request_id
        except ValueError:
            return reply.status, text, request_id

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
        grants = [
            (
                "Grant",
                f"own-{role}",
                {"to": [f"service:{role}"], "role": role, "on": {"project": "own"}},
                None,
            )
            for role in ROLES
        ]
        self.apply(grants)
        for tenant in TENANTS:
            reply = server.good(
                "GET", f"/api/v1/audit?project={tenant}&limit=1", token=self.root
            )
            self.records[tenant] = str(reply["entries"][0]["sequence"])
        document = server.good("GET", "/openapi.json")
        for path, methods in sorted(document["paths"].items()):
            for method, route in sorted(methods.items()):
                self.routes.append(
                    (method.upper(), path, route["x-permission"], route["x-target"])
                )

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
            "id": "no-such-record",
            "sequence": self.records[tenant],
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

    def expected(self, role, action, target, tenant):
        """Allowed, by a second reading of the rules."""
        if target == "nothing" or action in ("account.use", "account.manage"):
            return True
        if role == "break-glass" or action not in self.actions[role]:
            return False
        if target.endswith("of the platform") and "of ?project=" not in target:
            return False
        if target in ("Run {id}", "Job {id}", "Emergency {id}"):
            return False  # Asked with an id that there is not.
        if target.endswith("of every project, as visible"):
            return True
        return tenant == "own"

    def outcome(self, route, token, tenant, headers=None):
        """'●' let through, or the status of the denial."""
        method, path, _, target = route
        where, body = self.request_of(method, path, target, tenant)
        status, value, request_id = self.server.ask(method, where, body, token, headers)
        assert status < 500 or status in (501, 503), (route, status, value)
        code = value.get("code") if isinstance(value, dict) else None  # Feast's errors are texts.
        if status == 401 and code != "FJ-7018":  # A handler that wants a certificate.
            return "401"
        if target == "each object of the body":
            return "●" if status == 200 else str(status)
        denied = self.server.ask(
            "GET", f"/api/v1/access/denials/{request_id}", token=self.root
        )[0]
        return str(status) if denied == 200 else "●"

    # --- the whole ---

    def run(self):
        cells = {route: [self.pair(route, role) for role in ROLES] for route in self.routes}
        for route in self.routes:
            cells[route].append(self.unknown(route, "no token", None))
        self.wait_for_expiry()
        for route in self.routes:
            cells[route].append(self.unknown(route, "expired", self.expiring))
        return [
            f"| `{method}` | `{path}` | `{action}` | {target} | {' | '.join(row)} |"
            for (method, path, action, target), row in cells.items()
        ]

    def pair(self, route, role):
        """In one's own project / in another's; one mark when they are the same."""
        method, path, action, target = route
        got = {}
        for tenant in TENANTS:
            got[tenant] = self.outcome(route, self.tokens[role], tenant)
            want = self.expected(role, action, target, tenant)
            if (got[tenant] == "●") != want or got[tenant] == "401":
                wanted = "●" if want else "a denial"
                self.fault(f"{method} {path}, {role} in {tenant}: {got[tenant]}, not {wanted}")
        if got["other"] == "403" and "of ?project=" in target and "platform" not in target:
            self.fault(f"{method} {path}, {role}: 403 tells that another tenant's exists")
        return got["own"] if got["own"] == got["other"] else f"{got['own']}/{got['other']}"

    def unknown(self, route, what, token):
        got = self.outcome(route, token, "own")
        if got != ("●" if route[3] == "nothing" else "401"):
            self.fault(f"{route[0]} {route[1]} with {what}: {got}")
        return got

    def fault(self, text):
        self.faults.append(text)


def page_of(rows):
    columns = ["method", "path", "action", "on"] + ROLES + ["no token", "expired"]
    return (
        "# Authorization\n\n"
        "Generated and checked by `tests/access/test_matrix.py`: every route of a running "
        "`falaj serve`, asked by a service\nwith each role on one project, in that project / in "
        "another tenant's, without a token and with an expired one.\n`●` the gate lets it "
        "through; otherwise the status. 404 is what a thing that does not exist answers as well: "
        "another\ntenant's is not told apart. Break-glass is asked without a reason here, and so "
        "refused.\n\n"
        "| " + " | ".join(columns) + " |\n|" + "---|" * len(columns) + "\n" + "\n".join(rows) + "\n"
    )


def main():
    with tempfile.TemporaryDirectory(prefix="falaj-matrix-") as folder:
        server = Server(folder)
        try:
            matrix = Matrix(server)
            matrix.build()
            rows = matrix.run()
        finally:
            server.stop()
    page = page_of(rows)
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
