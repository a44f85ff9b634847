"""A model in a process of its own may crash and hang: nobody else's answers are held up by it."""
import os
import signal
import unittest

import shop
from program import ProgramTest, children_of, wait_until

CUSTOMERS = 3


def predict(server, deployment):
    return server.request("POST", f"/api/v1/deployments/{deployment}:predict",
                          shop.entities(CUSTOMERS))


def processes_of_models(server):
    found = []
    for child in children_of(server.pid):
        with open(f"/proc/{child}/cmdline", "rb") as words:
            if b"\0model\0" in words.read():
                found.append(child)
    return found


class Isolated(ProgramTest):
    def open(self, *flags):
        """Two deployments of one model, the second in a process of its own."""
        server = self.server(*flags).start()
        shop.open_shop(server)
        declared = shop.deployment()
        declared["metadata"]["name"] = "apart"
        declared["spec"]["runtime"] = "isolated"
        server.apply(declared)
        wait_until(lambda: server.deployment("apart")["state"] == "ready", "the second to be ready")
        self.expected = predict(server, "shop").value["predictions"]
        self.assertEqual(predict(server, "apart").value["predictions"], self.expected)
        return server

    def test_a_process_that_dies_is_replaced(self):
        server = self.open()
        before, = processes_of_models(server)
        os.kill(before, signal.SIGKILL)
        # Whoever asks at once may be refused, with the reason; then it answers again.
        refusals = []

        def answered():
            reply = predict(server, "apart")
            if reply.status != 200:
                refusals.append(reply)
            return reply.status == 200 and reply.value["predictions"] == self.expected

        wait_until(answered, "the model to come back")
        for reply in refusals:
            self.assertEqual((reply.status, reply.value["code"]), (503, "FJ-5003"))
        after, = processes_of_models(server)
        self.assertNotEqual(before, after)
        self.assertIn("falaj_serving_isolated_ends_total 1",
                      server.request("GET", "/metrics").text)

    def test_a_process_that_hangs_holds_up_nobody_else(self):
        server = self.open("--set", "serving.isolated_answer=500ms")
        before, = processes_of_models(server)
        os.kill(before, signal.SIGSTOP)
        late = predict(server, "apart")
        self.assertEqual((late.status, late.value["code"]), (503, "FJ-5003"))
        self.assertIn("did not answer within 500ms", late.value["detail"])
        self.assertEqual(predict(server, "shop").value["predictions"], self.expected)
        wait_until(lambda: predict(server, "apart").status == 200, "the model to come back")
        self.assertNotIn(before, processes_of_models(server))

    def test_it_is_confined_and_goes_with_the_server(self):
        server = self.open()
        process, = processes_of_models(server)
        self.assertNotEqual(os.readlink(f"/proc/{process}/ns/net"),
                            os.readlink("/proc/self/ns/net"))
        with open(f"/proc/{process}/status") as status:
            lines = {name: value.strip() for name, _, value in
                     (line.partition(":") for line in status)}
        self.assertEqual((lines["NoNewPrivs"], lines["Seccomp"]), ("1", "2"))
        server.kill()
        wait_until(lambda: not os.path.exists(f"/proc/{process}"), "the process to end")


if __name__ == "__main__":
    unittest.main()
