"""A model that nobody asks for is unloaded, and whoever asks next is held, not refused."""
import threading
import unittest

import shop
from program import ProgramTest, wait_until

PREDICT = "/api/v1/deployments/shop:predict"
CUSTOMERS = 3


class Idle(ProgramTest):
    def wait_idle(self, server):
        wait_until(lambda: server.deployment("shop")["state"] == "idle", "the model to be unloaded")

    def wakes(self, server):
        name = "falaj_serving_idle_wakes_total{"
        lines = server.request("GET", "/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def test_requests_that_find_it_idle_are_answered_by_one_load(self):
        server = self.server().start()
        shop.open_shop(server)
        expected = server.good("POST", PREDICT, shop.entities(CUSTOMERS))["predictions"]
        declared = shop.deployment()
        declared["spec"]["scale"] = {"idle": "1s"}
        server.apply(declared)
        self.wait_idle(server)
        entry = server.deployment("shop")
        self.assertEqual((entry["version"], entry["error"]), (1, ""))
        # Looking does not wake it: it would answer, so it is ready.
        for path in ("/readyz", "/v2/health/ready", "/v2/models/shop/ready", "/v1/models/shop",
                     "/v2/models/shop/stats"):
            self.assertEqual(server.request("GET", path).status, 200, path)
        self.assertEqual(self.wakes(server), 0)

        # From now on it stays once it is loaded; that alone loads nothing.
        declared["spec"]["scale"] = {"idle": "1h"}
        server.apply(declared)
        self.assertEqual(server.deployment("shop")["state"], "idle")
        replies = []
        asking = [threading.Thread(target=lambda: replies.append(
            server.request("POST", PREDICT, shop.entities(CUSTOMERS)))) for _ in range(12)]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
        self.assertEqual([reply.status for reply in replies], [200] * 12)
        for reply in replies:
            self.assertEqual(reply.value["predictions"], expected)
        self.assertEqual(self.wakes(server), 1)
        self.assertEqual(len(server.audited("deployment.idle")), 1)

    def test_metadata_of_an_idle_model_loads_it(self):
        server = self.server().start()
        shop.open_shop(server)
        declared = shop.deployment()
        declared["spec"]["scale"] = {"idle": "1s"}
        server.apply(declared)
        self.wait_idle(server)
        self.assertEqual(server.get("/v2/models/shop")["name"], "shop")
        self.assertEqual(self.wakes(server), 1)


if __name__ == "__main__":
    unittest.main()
