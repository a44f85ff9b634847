"""Memory of models: what does not fit is refused before it is loaded; others take turns."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "attacks"))
import onnx_bytes as onnx  # noqa: E402
import shop  # noqa: E402
from program import ProgramTest, wait_until  # noqa: E402

MIB = 1 << 20


def wide(mebibytes, sign=1.0):
    """y = x · A · B with weights of so many mebibytes, nearly all of them zero."""
    width = mebibytes * MIB // 16
    first = onnx.struct.pack("<f", sign)
    weights = first + bytes(width * 8 - 4)
    nodes = [onnx.node("MatMul", ["x", "a"], ["h"]), onnx.node("MatMul", ["h", "b"], ["y"])]
    tensors = [onnx.tensor("a", (2, width), weights), onnx.tensor("b", (width, 2), weights)]
    return onnx.model(onnx.graph(nodes, tensors))


class Memory(ProgramTest):
    def bring(self, server, model, content):
        path = f"/api/v1/models/{model}/versions:import"
        reply = server.request("POST", path, content, "application/octet-stream")
        self.assertEqual(reply.status, 201, reply.text)

    def serve(self, server, name, version=1, **spec):
        server.apply(shop.thing("Deployment", name, model=name, version=version, batch="never",
                                **spec))

    def ask(self, server, name):
        return server.request("POST", f"/v2/models/{name}/infer", {"inputs": [
            {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [3, 0]}]})

    def figure(self, server, name):
        lines = server.request("GET", "/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def test_a_version_that_does_not_fit_is_refused_and_the_old_one_serves_on(self):
        server = self.server("--set", "serving.memory=40Mi").start()
        self.bring(server, "m", onnx.doubled())
        self.serve(server, "m")
        server.wait_ready("m")
        self.assertGreater(server.deployment("m")["memory_bytes"], 0)
        self.bring(server, "m", wide(32))
        self.serve(server, "m", version=2)
        wait_until(lambda: server.deployment("m")["state"] == "failed", "the refusal")
        entry = server.deployment("m")
        self.assertEqual(entry["version"], 1)
        self.assertIn("model 'm' version 2 needs about 97", entry["error"])
        self.assertIn("serving.memory", entry["error"])
        self.assertEqual(self.ask(server, "m").value["outputs"][0]["data"], [6, 0])
        self.assertGreaterEqual(self.figure(server, "falaj_serving_memory_refused_total"), 1)
        self.assertEqual(server.audited("deployment.fail")[0]["detail"]["still_serving"], 1)

    def test_models_that_may_leave_take_turns(self):
        server = self.server("--set", "serving.memory=52Mi").start()
        for name in ("a", "b"):
            self.bring(server, name, wide(16, 2.0))
            self.serve(server, name, scale={"when_full": "unload"})
        server.wait_ready("a")
        wait_until(lambda: server.deployment("b")["state"] == "idle", "the second to wait")
        wait_until(lambda: self.ask(server, "b").status == 200, "the first to have rested a second")
        self.assertEqual(self.ask(server, "b").value["outputs"][0]["data"], [12, 0])
        self.assertEqual(self.figure(server, "falaj_serving_memory_unloads_total"), 1)
        wait_until(lambda: self.ask(server, "a").status == 200, "its turn again")
        reasons = [each["detail"]["reason"] for each in server.audited("deployment.idle")]
        self.assertTrue(reasons and set(reasons) == {"memory"}, reasons)

    def test_many_models_do_not_make_many_threads(self):
        server = self.server("--set", "serving.threads=4").start()

        def threads():
            return len(os.listdir(f"/proc/{server.process.pid}/task"))

        for number in range(6):
            self.bring(server, f"m{number}", wide(1))
            self.serve(server, f"m{number}")
            server.wait_ready(f"m{number}")
            self.assertEqual(self.ask(server, f"m{number}").status, 200)
            if number == 0:
                first = threads()
        self.assertLess(threads(), first + 4, "a pool of three more threads each would show")


if __name__ == "__main__":
    unittest.main()
