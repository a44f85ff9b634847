"""kill -9 of the server in the middle of a rollout: it goes on in its step, customers keep their
arms, and every request that a running server took is answered."""
import http.client
import threading
import unittest

import shop
from program import ProgramTest, at_random_moment, rounds, seeded, wait_until

GONE = (OSError, http.client.HTTPException, AttributeError, TypeError)
PREDICT = "/api/v1/deployments/shop:predict"


def rollout():
    return shop.thing(
        "Rollout", "next", deployment="shop", candidate={"version": 2},
        steps=["shadow", "50%"], sticky="customer_id", guard={"floor": "60s"},
        step={"min": "0s", "max": "1d", "requests": 50})


class Rollouts(ProgramTest):
    def ask_all(self, server):
        """Which version answers whom."""
        asked = {}
        for customer in range(shop.CUSTOMERS):
            reply = server.good("POST", PREDICT, {"entity": {"customer_id": customer}})
            asked[customer] = reply["version"]
        return asked

    def status(self, server):
        return server.get("/api/v1/rollouts/next")

    def held_at_half(self, server):
        """Two versions; the second has half of the customers, and is kept there."""
        shop.open_shop(server)
        server.apply(shop.train_job("again", params={"seed": 8}), rollout())
        self.assertEqual(server.job_ended(server.train("again")["job"])["status"], "succeeded")
        server.good("POST", "/api/v1/rollouts/next:start", {})

        def at_half():
            self.ask_all(server)
            return self.status(server)["step"] == 1
        wait_until(at_half, "the step of 50 %")
        server.good("POST", "/api/v1/rollouts/next:hold", {})

    def test_killed_again_and_again_it_stays_in_its_step(self):
        chance = seeded(self.id())
        server = self.server().start()
        self.held_at_half(server)
        step = self.status(server)["step"]
        arms = self.ask_all(server)
        self.assertEqual(set(arms.values()), {1, 2})
        for _ in range(rounds(3)):
            refused = self.ask_until_killed(server, chance)
            self.assertEqual(refused, [])
            server.start()
            server.wait_ready("shop")
            self.assertEqual(self.status(server)["step"], step)
            # Until the candidate is loaded again the champion answers: nobody else, and no error.
            wait_until(lambda: self.ask_all(server) == arms, "everybody to be in their arm")
            self.assertEqual(self.status(server)["state"], "running")
        server.good("POST", "/api/v1/rollouts/next:abort", {})
        self.assertEqual(set(self.ask_all(server).values()), {1})
        server.kill()
        server.start()
        server.wait_ready("shop")
        self.assertEqual(self.status(server)["state"], "aborted")
        self.assertEqual(set(self.ask_all(server).values()), {1})
        self.assertTrue(server.audit_holds())

    def ask_until_killed(self, server, chance):
        """Answers other than 200 that came before the kill."""
        refused = []

        def ask():
            try:
                while True:
                    for customer in range(shop.CUSTOMERS):
                        reply = server.request(
                            "POST", PREDICT, {"entity": {"customer_id": customer}})
                        if reply.status != 200:
                            refused.append(reply.text)
            except GONE:
                pass  # Killed: the server has no address any more.

        client = threading.Thread(target=ask)
        client.start()
        at_random_moment(chance, 0.5)
        server.kill()
        client.join()
        return refused


if __name__ == "__main__":
    unittest.main()
