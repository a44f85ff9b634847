"""Group 25 once more: names that two tenants can both use must not tell one of the other, and names
that callers make up, or that are people's, must not stay in the log for ever."""

import json
import unittest

from fortress import Fortress, declared
from program import wait_until

# A tenant's own administrator, who may declare grants in `shop` and nowhere else.
TENANT = "operator"


class Neighbours(Fortress):
    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        cls.tokens[TENANT] = cls.service(TENANT)
        cls.tokens["teller"] = cls.service("teller")
        server.apply(
            cls.grant(TENANT, "admin", {"project": "shop"}),
            cls.grant("teller", "viewer", {"project": "payments"}),
        )

    def test_a_grant_s_name_that_is_taken_does_not_tell_by_whom(self):
        """Another tenant's, the platform's: the same words, also when nothing would be written."""
        words = set()
        for name in ("teller-viewer", "first-administrator"):
            mine = declared("Grant", name, to=["everyone"], role="viewer", on={"project": "shop"})
            for path in ("/api/v1/objects", "/api/v1/objects?dry_run=true"):
                reply = self.attack(TENANT, "PUT", path, mine)
                self.refused(reply, [403])
                self.assertNotIn("payments", reply.text)
                self.assertNotIn("platform", reply.text)
                words.add((reply.code, reply.value["detail"].replace(name, "NAME")))
            hidden = self.attack(TENANT, "GET", f"/api/v1/objects/Grant/{name}")
            self.assertEqual(hidden.status, 404)
        self.assertEqual(len(words), 1, words)

    def test_who_may_not_grant_does_not_learn_which_names_are_taken(self):
        def told(name):
            mine = declared("Grant", name, to=["everyone"], role="viewer", on={"project": "shop"})
            reply = self.attack("mallory", "PUT", "/api/v1/objects", mine)
            self.refused(reply, [403])
            return reply.value["detail"].replace(name, "NAME")

        self.assertEqual(told("teller-viewer"), told("nobody-has-this"))

    def test_a_grant_of_one_s_own_can_be_declared(self):
        """The control: the same declaration under a free name."""
        mine = declared("Grant", "free", to=["everyone"], role="viewer", on={"project": "shop"})
        reply = self.attack(TENANT, "PUT", "/api/v1/objects?dry_run=true", mine)
        self.assertEqual(reply.status, 200, reply.text)

    def why_denied(self, who, request_id):
        return self.attack(who, "GET", f"/api/v1/access/denials/{request_id}")

    def test_an_id_that_another_chose_too_hides_no_denial(self):
        chosen = {"X-Request-Id": "payreq1"}
        mine = self.attack("teller", "GET", "/api/v1/models?project=shop", **chosen)
        self.refused(mine, [404])
        self.assertEqual(mine.headers["X-Request-Id"], "payreq1")
        theirs = self.attack("mallory", "GET", "/api/v1/runs?project=payments", **chosen)
        self.refused(theirs, [404])
        for who, kind in (("teller", "Model"), ("mallory", "Run")):
            told = self.why_denied(who, "payreq1")
            self.assertEqual(told.status, 200, f"{who}: {told.text}")
            self.assertEqual((told.value["kind"], told.value["request_id"]), (kind, "payreq1"))
            self.assertNotIn("principal", told.value)
        self.assertEqual(self.why_denied("approver", "payreq1").status, 404, "a third")


# What strangers and mallory ask for, and the words of it that are nobody's business for ever.
MADE_UP = {
    "a project": (None, "/api/v1/models?project=omar-khalid-784", ["omar-khalid-784"]),
    "a user": ("mallory", "/api/v1/users/root", ["root"]),
    "a kind and a name": (
        "mallory",
        "/api/v1/objects/Layla0501234567/hassan0501234567?project=payments",
        ["Layla0501234567", "hassan0501234567"],
    ),
    "a record": ("reader", "/api/v1/runs/fatima-784-1980", ["fatima-784-1980"]),
}


class Log(Fortress):
    """What a caller made up, and names of people, are commitments in the audit log."""

    def denials(self):
        entries = self.server.get("/api/v1/audit?limit=1000&action=access.denied")["entries"]
        return {entry["sequence"]: entry for entry in entries}

    def entry_after(self, known):
        return wait_until(lambda: self.denials().keys() - known, "an entry of the denial").pop()

    def test_nothing_that_a_caller_made_up_stands_in_it(self):
        for what, (who, path, words) in MADE_UP.items():
            known = self.denials().keys()
            chosen = "id-of-" + words[0]
            reply = self.attack(who, "GET", path, **{"X-Request-Id": chosen})
            self.refused(reply)
            self.assertEqual(reply.headers["X-Request-Id"], chosen, what)
            number = self.entry_after(known)
            entry = self.server.get(f"/api/v1/audit/{number}")
            texts = {
                opening["text"]
                for opening in self.server.good("POST", f"/api/v1/audit/{number}:open")["openings"]
            }
            self.assertEqual(texts, {chosen, *words}, what)
            for text in texts:
                self.assertNotIn(f'"{text}"', json.dumps(entry), what)
            # Asked about by the id in the log.
            why = self.server.get(f"/api/v1/access/denials/{entry['request_id']}")
            self.assertEqual(why["request_id"], chosen, what)
            self.server.good("POST", f"/api/v1/audit/{number}:erase")
            left = self.server.good("POST", f"/api/v1/audit/{number}:open")["openings"]
            self.assertEqual(left, [], what)
        self.server.good("POST", "/api/v1/audit:verify")

    def test_what_is_declared_is_named(self):
        """The control: the tenant's own auditors see what was tried."""
        known = self.denials().keys()
        self.refused(self.attack("reader", "DELETE", "/api/v1/objects/Model/shop?project=shop"))
        entry = self.server.get(f"/api/v1/audit/{self.entry_after(known)}")
        self.assertEqual(entry["project"], "shop")
        self.assertEqual((entry["detail"]["kind"], entry["detail"]["name"]), ("Model", "shop"))


if __name__ == "__main__":
    unittest.main()
