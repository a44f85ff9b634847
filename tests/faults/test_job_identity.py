"""A command's own identity, from inside its sandbox: good for what it names and nothing else, while
it runs, over restarts of the server."""
import json
import os
import unittest

import shop
from program import ProgramTest

# Asks what it is told to ask, one line of JSON each, by the token that it finds; answers likewise.
ASKER = r"""
import json, os, ssl, sys, urllib.error, urllib.request
trust = ssl.create_default_context(cafile=os.environ["FALAJ_CA"])
for line in open(sys.argv[1]):
    method, path = json.loads(line)
    request = urllib.request.Request(os.environ["FALAJ_SERVER"] + path, method=method,
        data=b"{}" if method == "POST" else None,
        headers={"Authorization": "Bearer " + os.environ["FALAJ_TOKEN"]})
    try:
        with urllib.request.urlopen(request, context=trust) as reply:
            said = [reply.status, reply.read().decode()]
    except urllib.error.HTTPError as refused:
        said = [refused.code, refused.read().decode()]
    except OSError as broken:
        said = [0, str(broken)]
    with open(sys.argv[2], "w") as answer:
        answer.write(json.dumps([os.environ["FALAJ_TOKEN"], *said]) + "\n")
"""
MINE = "/api/v1/training-sets/shop/manifest?project=default"


class Identity(ProgramTest):
    def setUp(self):
        super().setUp()
        self.out = os.path.join(self.folder, "out")
        os.mkdir(self.out)
        self.falaj_server = self.server("--set", "jobs.network=host", "--set",
                                        f"jobs.writable={self.out}", mode="serve").start()
        self.falaj_server.set_up()
        shop.stock(self.falaj_server)
        lab = shop.thing("Project", "lab", zone="local")
        del lab["metadata"]["project"]
        self.falaj_server.apply(lab)

    def asker(self, **more):
        """Submits a command that asks; its id, and a function that has it ask something."""
        asked, answered = (os.path.join(self.out, name) for name in ("asked", "answered"))
        for path in (asked, answered):
            os.mkfifo(path)
        job = self.falaj_server.good("POST", "/api/v1/jobs", {
            "command": ["python3", "-c", ASKER, asked, answered], "network": True, **more})["id"]
        self.questions = open(asked, "w", buffering=1)
        self.addCleanup(self.questions.close)

        def ask(method, path):
            self.questions.write(json.dumps([method, path]) + "\n")
            with open(answered) as answer:
                self.token, status, text = json.load(answer)
            return status, text

        return job, ask

    def shown(self, token):
        """What the server says to who shows the token from outside."""
        kept = self.falaj_server.headers
        self.falaj_server.headers = {"Authorization": f"Bearer {token}"}
        try:
            return self.falaj_server.request("GET", "/api/v1/whoami").status
        finally:
            self.falaj_server.headers = kept

    def test_it_reads_what_it_named_and_nothing_of_anybody_else(self):
        job, ask = self.asker(inputs=["TrainingSet/shop"])
        status, text = ask("GET", "/api/v1/whoami")
        self.assertEqual((status, json.loads(text)["id"]), (200, f"job:{job}"), text)
        status, text = ask("GET", MINE)
        self.assertEqual(status, 200, text)
        for method, path in (("GET", MINE.replace("default", "lab")),
                             ("GET", "/api/v1/models/shop?project=default"),
                             ("GET", "/api/v1/models/shop?project=lab"),
                             ("GET", f"/api/v1/jobs/{job}"),
                             ("GET", "/api/v1/audit"),
                             ("POST", "/api/v1/training-sets/shop:freeze?project=default"),
                             ("POST", "/api/v1/feature-views/visits:push?project=default"),
                             ("POST", "/api/v1/jobs?project=default"),
                             ("POST", "/api/v1/tokens")):
            status, text = ask(method, path)
            self.assertIn(status, (403, 404), f"{method} {path}: {text}")
        self.questions.close()
        self.assertEqual(self.falaj_server.job_ended(job)["status"], "succeeded")
        self.assertEqual(self.shown(self.token), 401, "it has ended")

    def test_who_names_nothing_learns_who_it_is_and_no_more(self):
        job, ask = self.asker()
        self.assertEqual(ask("GET", "/api/v1/whoami")[0], 200)
        self.assertIn(ask("GET", MINE)[0], (403, 404))
        self.falaj_server.good("POST", f"/api/v1/jobs/{job}:cancel", {})
        self.assertEqual(self.falaj_server.job_ended(job)["status"], "cancelled")
        self.assertEqual(self.shown(self.token), 401)

    def test_it_is_known_again_by_a_server_that_was_killed_meanwhile(self):
        server = self.falaj_server
        job, ask = self.asker(inputs=["TrainingSet/shop"])
        self.assertEqual(ask("GET", MINE)[0], 200)
        before = self.token
        server.port = server.address()[1]  # It must be found again where it was.
        server.kill()
        self.assertEqual(ask("GET", MINE)[0], 0, "nobody is there")
        server.start()
        status, text = ask("GET", MINE)
        self.assertEqual(status, 200, text)
        self.assertEqual(self.token, before)
        self.assertIn(ask("GET", MINE.replace("default", "lab"))[0], (403, 404))
        self.questions.close()
        self.assertEqual(server.job_ended(job)["status"], "succeeded")
        self.assertEqual(self.shown(before), 401)

    def test_nobody_gets_through_a_job_what_he_may_not_do_himself(self):
        server = self.falaj_server
        server.good("POST", "/api/v1/services", {"name": "runner"})
        server.apply(
            {"apiVersion": "falaj.dev/v1", "kind": "Grant", "metadata": {"name": "runs"},
             "spec": {"to": ["service:runner"], "actions": ["jobs.submit", "jobs.read"],
                      "on": {"project": "default"}}},
            {"apiVersion": "falaj.dev/v1", "kind": "Grant", "metadata": {"name": "reads"},
             "spec": {"to": ["service:runner"], "actions": ["features.read"],
                      "on": {"project": "default", "kind": "TrainingSet", "name": "shop"}}})
        token = server.good("POST", "/api/v1/users/service:runner/tokens", {})["token"]
        kept, server.headers = server.headers, {"Authorization": f"Bearer {token}"}
        body = {"command": ["true"]}
        mine = server.request("POST", "/api/v1/jobs", {**body, "inputs": ["TrainingSet/shop"]})
        self.assertEqual(mine.status, 202, mine.text)
        for wider in ({"inputs": ["Model/shop"]}, {"outputs": ["Model/shop"]},
                      {"inputs": ["TrainingSet/shop", "FeatureView/visits"]}):
            refused = server.request("POST", "/api/v1/jobs", {**body, **wider})
            self.assertIn(refused.status, (403, 404), refused.text)
        server.headers = kept
        self.assertEqual(server.job_ended(mine.value["id"])["status"], "succeeded")

    def test_what_is_taken_from_its_submitter_is_taken_from_it(self):
        server = self.falaj_server
        service = server.good("POST", "/api/v1/services", {"name": "runner"})["id"]
        grant = lambda name, on, *actions: {
            "apiVersion": "falaj.dev/v1", "kind": "Grant", "metadata": {"name": name},
            "spec": {"to": ["service:runner"], "actions": list(actions), "on": on}}
        runs = grant("runs", {"project": "default"}, "jobs.submit", "jobs.read")
        reads = grant("reads", {"project": "default", "kind": "TrainingSet", "name": "shop"},
                      "features.read")
        server.apply(runs, reads)
        token = server.good("POST", "/api/v1/users/service:runner/tokens", {})["token"]
        kept, server.headers = server.headers, {"Authorization": f"Bearer {token}"}
        job, ask = self.asker(inputs=["TrainingSet/shop"])
        server.headers = kept
        self.assertEqual(ask("GET", MINE)[0], 200)
        server.good("DELETE", "/api/v1/objects/Grant/reads")
        self.assertIn(ask("GET", MINE)[0], (403, 404), "at once")
        self.assertEqual(ask("GET", "/api/v1/whoami")[0], 200, "it is still who it is")
        server.apply(reads)
        self.assertEqual(ask("GET", MINE)[0], 200)
        server.good("PATCH", f"/api/v1/users/{service}", {"state": "disabled"})
        self.assertIn(ask("GET", MINE)[0], (403, 404), "who is disabled may do nothing")
        self.questions.close()
        self.assertEqual(server.job_ended(job)["status"], "succeeded")
        self.assertNotIn("submitter", server.get(f"/api/v1/jobs/{job}")["payload"])

    def test_a_network_is_for_who_asks_and_where_it_is_granted(self):
        server = self.falaj_server
        alone = server.good("POST", "/api/v1/jobs", {
            "command": ["sh", "-c", 'test -n "$FALAJ_TOKEN" && test -z "$FALAJ_SERVER"']})
        self.assertEqual(server.job_ended(alone["id"])["status"], "succeeded")
        closed = self.server(mode="serve").start()
        closed.set_up()
        refused = closed.request("POST", "/api/v1/jobs", {"command": ["true"], "network": True})
        self.assertEqual((refused.status, refused.code), (400, "FJ-1006"), refused.text)
        self.assertIn("jobs.network", refused.text)
        self.refused(self.server("--set", "jobs.network=host"), "FJ-1006")


if __name__ == "__main__":
    unittest.main()
