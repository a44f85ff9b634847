"""kill -9 while rows are pushed by several clients: what was acknowledged is there, online and
offline, whole, and late rows have not come back over newer ones."""

import http.client
import threading
import unittest

import shop
from program import ProgramTest, at_random_moment, rounds, seeded

GONE = (OSError, http.client.HTTPException, TypeError, AttributeError)
CLIENTS = 4


class Push(ProgramTest):
    def test_no_acknowledged_push_is_lost(self):
        chance = seeded(self.id())
        server = self.server().start()
        server.apply(*shop.features())
        acknowledged = [0] * CLIENTS
        self.log = []
        for _ in range(rounds(5)):
            tried = self.push_until_killed(server, chance, acknowledged)
            server.start()
            self.check(server, acknowledged, tried)
            acknowledged = tried
        self.assertGreater(sum(acknowledged), 0)
        self.replay(server, chance)
        self.assertTrue(server.audit_holds())

    def push_until_killed(self, server, chance, acknowledged):
        """Each client pushes its own customer's rows, one after another; how many were acknowledged
        goes to `acknowledged`, the last that may have been taken is returned."""
        tried = list(acknowledged)

        def read():
            try:
                while True:
                    self.read_some(server)
            except GONE:
                pass

        def push(client):
            try:
                while True:
                    number = tried[client] + 1
                    tried[client] = number
                    server.good(
                        "POST",
                        "/api/v1/feature-views/visits:push",
                        {"rows": self.rows(client, number)},
                    )
                    acknowledged[client] = number
            except GONE:
                pass

        clients = [threading.Thread(target=push, args=(each,)) for each in range(CLIENTS)]
        clients.append(threading.Thread(target=read))
        for each in clients:
            each.start()
        at_random_moment(chance, 0.6)
        server.kill()
        for each in clients:
            each.join()
        return tried

    @staticmethod
    def rows(client, number):
        """Row `number`, and one that is late: it has the number but an old time."""
        new = {"customer_id": client, "at": shop.moment(2, number), "pages": 1.0, "batch": number}
        return [new, {**new, "at": shop.moment(1, number), "batch": -number}]

    def read_some(self, server):
        """Reads every client's customer and keeps what was answered."""
        entities = [{"customer_id": each} for each in range(CLIENTS)]
        reply = server.good(
            "POST",
            "/api/v1/feature-services/shop:read",
            {"entities": entities, "features": ["batch"]},
        )
        for row in reply["rows"]:
            self.log.append((row["entity"], reply["at"], reply["commit"], row["values"][0]))

    def replay(self, server, chance):
        """What was read before the kills is what the segments say of that time and commit."""
        self.assertGreater(len(self.log), 0)
        for entity, at, commit, value in chance.sample(self.log, min(len(self.log), 100)):
            told = server.good(
                "POST",
                "/api/v1/feature-views/visits:explain",
                {"entity": entity, "at": at, "commit": commit},
            )
            there = told["features"]["batch"] if told["status"] == "PRESENT" else None
            self.assertEqual(there, value, (entity, at, commit))

    def check(self, server, acknowledged, tried):
        reply = server.good(
            "POST",
            "/api/v1/feature-services/shop:read",
            {"entities": [{"customer_id": each} for each in range(CLIENTS)], "features": ["batch"]},
        )
        total = 0
        for client, row in enumerate(reply["rows"]):
            there = row["values"][0] or 0
            self.assertIn(
                there,
                range(acknowledged[client], tried[client] + 1),
                f"client {client}: {acknowledged[client]} acknowledged",
            )
            tried[client] = there  # The one in flight was taken, or it is pushed again.
            total += there
        self.assertEqual(server.rows("visits"), 2 * total, "offline differs from online")


if __name__ == "__main__":
    unittest.main()
