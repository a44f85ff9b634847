"""tritonclient, unmodified, over HTTP and gRPC, waiting and not: metadata and inference on the
demo's model."""

import asyncio
import json
import os
import queue
import subprocess
import tempfile
import unittest

import numpy
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton
import tritonclient.http.aio as triton_http_aio
from served import Served
from served_demo import PROGRAM, ServedDemo
from tritonclient.utils import InferenceServerException

DEMO = None


def setUpModule():
    global DEMO
    DEMO = ServedDemo().__enter__()
    unittest.addModuleCleanup(DEMO.__exit__, None, None, None)


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.demo = DEMO
        reply = cls.demo.post(
            f"/api/v1/deployments/fraud:predict?explain=true&project={cls.demo.result['project']}",
            {"entity": {"customer_id": 42, "merchant_id": 7}},
        )
        cls.ours = reply["predictions"][0]
        cls.version = str(reply["version"])
        model = cls.demo.get(f"/api/v1/models/fraud?project={cls.demo.result['project']}")
        cls.order = model["versions"][0]["signature"]["features"]

    def row(self):
        values = [self.ours["features"][name] for name in self.order]
        return numpy.array([[numpy.nan if v is None else v for v in values]], dtype=numpy.float32)

    def in_and_out(self, library, matrix, **more):
        data = library.InferInput("input", list(matrix.shape), "FP32")
        data.set_data_from_numpy(matrix)
        return [data], [library.InferRequestedOutput("probabilities", **more)]

    def check(self, result):
        scores = result.as_numpy("probabilities")
        self.assertEqual(scores.shape, (1, 2))
        self.assertAlmostEqual(float(scores[0, 1]), self.ours["score"], places=6)


class TritonHttp(Demo):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = triton.InferenceServerClient(cls.demo.url.removeprefix("http://"))
        cls.addClassCleanup(cls.client.close)

    def infer(self, matrix, binary=True, **more):
        data = triton.InferInput("input", list(matrix.shape), "FP32")
        data.set_data_from_numpy(matrix, binary_data=binary)
        outputs = [triton.InferRequestedOutput("probabilities", binary_data=binary)]
        return self.client.infer("fraud", [data], outputs=outputs, **more)

    def test_health(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("fraud"))
        self.assertFalse(self.client.is_model_ready("nothing"))

    def test_metadata(self):
        self.assertEqual(self.client.get_server_metadata()["name"], "falaj")
        metadata = self.client.get_model_metadata("fraud")
        self.assertEqual(metadata["name"], "fraud")
        self.assertIn(self.version, metadata["versions"])
        self.assertEqual(
            metadata["inputs"],
            [{"name": "input", "datatype": "FP32", "shape": [-1, len(self.order)]}],
        )
        self.assertIn("probabilities", [output["name"] for output in metadata["outputs"]])

    def test_config_and_repository(self):
        self.assertEqual(self.client.get_model_config("fraud")["name"], "fraud")
        names = [entry["name"] for entry in self.client.get_model_repository_index()]
        self.assertIn("fraud", names)

    def test_infer_gives_the_score_of_predict_by_entity(self):
        for binary in (True, False):
            scores = self.infer(self.row(), binary).as_numpy("probabilities")
            self.assertEqual(scores.shape, (1, 2))
            self.assertAlmostEqual(float(scores[0, 1]), self.ours["score"], places=6)

    def test_a_batch_answers_row_by_row(self):
        batch = numpy.repeat(self.row(), 17, axis=0)
        scores = self.infer(batch, request_id="batch-17")
        self.assertEqual(scores.get_response()["id"], "batch-17")
        self.assertEqual(scores.get_response()["model_version"], self.version)
        self.assertTrue(
            numpy.all(scores.as_numpy("probabilities") == scores.as_numpy("probabilities")[0])
        )

    def test_statistics_count_rows(self):
        before = self.client.get_inference_statistics("fraud")["model_stats"][0]["inference_count"]
        self.infer(numpy.repeat(self.row(), 5, axis=0))
        after = self.client.get_inference_statistics("fraud")["model_stats"][0]["inference_count"]
        self.assertEqual(int(after) - int(before), 5)

    def test_errors_are_the_clients_own(self):
        with self.assertRaisesRegex(InferenceServerException, "unknown model"):
            data = triton.InferInput("input", [1, 1], "FP32")
            data.set_data_from_numpy(numpy.zeros((1, 1), numpy.float32))
            self.client.infer("nothing", [data])
        with self.assertRaisesRegex(InferenceServerException, "shape"):
            self.infer(numpy.zeros((1, 3), numpy.float32))

    def test_packed_both_ways(self):
        batch = numpy.repeat(self.row(), 5000, axis=0)
        plain = self.infer(batch).as_numpy("probabilities")
        for coding in ("gzip", "deflate"):
            packed = self.infer(
                batch,
                request_compression_algorithm=coding,
                response_compression_algorithm=coding,
            )
            self.assertTrue(numpy.array_equal(packed.as_numpy("probabilities"), plain))

    def test_classes(self):
        inputs, outputs = self.in_and_out(triton, self.row(), class_count=1)
        found = self.client.infer("fraud", inputs, outputs=outputs).as_numpy("probabilities")
        value, index = found[0, 0].decode().split(":")
        self.assertAlmostEqual(float(value), max(self.ours["score"], 1 - self.ours["score"]), 5)
        self.assertEqual(int(index), int(self.ours["score"] >= 0.5))

    def test_load_and_unload(self):
        self.client.unload_model("fraud")
        self.assertFalse(self.client.is_model_ready("fraud"))
        with self.assertRaises(InferenceServerException):
            self.infer(self.row())
        self.client.load_model("fraud")
        self.assertTrue(self.client.is_model_ready("fraud"))
        with self.assertRaisesRegex(InferenceServerException, "unknown model"):
            self.client.load_model("nothing")

    def test_many_at_once(self):
        client = triton.InferenceServerClient(self.demo.url.removeprefix("http://"), concurrency=8)
        inputs, outputs = self.in_and_out(triton, self.row())
        waiting = [client.async_infer("fraud", inputs, outputs=outputs) for _ in range(200)]
        for each in waiting:
            self.check(each.get_result())
        client.close()

    def test_asyncio(self):
        async def ask():
            async with triton_http_aio.InferenceServerClient(
                self.demo.url.removeprefix("http://")
            ) as client:
                self.assertTrue(await client.is_server_ready())
                self.assertEqual((await client.get_model_metadata("fraud"))["name"], "fraud")
                inputs, outputs = self.in_and_out(triton_http_aio, self.row())
                answers = [client.infer("fraud", inputs, outputs=outputs) for _ in range(20)]
                return await asyncio.gather(*answers)

        for result in asyncio.run(ask()):
            self.check(result)


class TritonGrpc(Demo):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = triton_grpc.InferenceServerClient(cls.demo.grpc)
        cls.addClassCleanup(cls.client.close)

    def test_health_and_metadata(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("fraud"))
        self.assertFalse(self.client.is_model_ready("nothing"))
        self.assertEqual(self.client.get_server_metadata().name, "falaj")
        metadata = self.client.get_model_metadata("fraud", self.version)
        self.assertEqual(list(metadata.versions), [self.version])
        self.assertEqual(list(metadata.inputs[0].shape), [-1, len(self.order)])
        config = self.client.get_model_config("fraud").config
        self.assertEqual((config.name, list(config.input[0].dims)), ("fraud", [len(self.order)]))
        names = [model.name for model in self.client.get_model_repository_index().models]
        self.assertIn("fraud", names)

    def test_infer_gives_the_score_of_predict_by_entity(self):
        inputs, outputs = self.in_and_out(triton_grpc, self.row())
        result = self.client.infer("fraud", inputs, outputs=outputs, request_id="one")
        self.check(result)
        self.assertEqual(result.get_response().id, "one")
        self.assertEqual(result.get_response().model_version, self.version)
        for coding in ("gzip", "deflate"):
            self.check(
                self.client.infer("fraud", inputs, outputs=outputs, compression_algorithm=coding)
            )

    def test_statistics_count_rows(self):
        def count():
            return self.client.get_inference_statistics("fraud").model_stats[0].inference_count

        before = count()
        inputs, outputs = self.in_and_out(triton_grpc, numpy.repeat(self.row(), 5, axis=0))
        self.client.infer("fraud", inputs, outputs=outputs)
        self.assertEqual(count() - before, 5)

    def test_a_receipt_holds_without_the_server(self):
        inputs, outputs = self.in_and_out(triton_grpc, self.row())
        result = self.client.infer(
            "fraud", inputs, outputs=outputs, headers={"x-falaj-receipt": "1"}
        )
        response = result.get_response()
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/receipt", "w") as out:
                out.write(response.parameters["falaj_receipt"].string_param)
            with open(folder + "/answered", "wb") as out:
                out.write(b"".join(response.raw_output_contents))
            key = subprocess.check_output([PROGRAM, "audit", "key", "--server", self.demo.url])
            verify = os.path.join(os.path.dirname(PROGRAM), "falaj-verify")
            words = [verify, "receipt", "receipt", "--key", key.decode().strip()]
            said = subprocess.check_output([*words, "--answered", "answered"], cwd=folder)
            self.assertIn(f"model fraud version {self.version},".encode(), said)

    def test_kept_answers_are_told_and_counted(self):
        declared = {
            "kind": "Deployment",
            "metadata": {"name": "kept", "project": self.demo.result["project"]},
            "spec": {"model": "fraud", "version": int(self.version), "cache": {"bytes": "1Mi"}},
        }
        subprocess.run(
            [PROGRAM, "apply", "-f", "-", "--server", self.demo.url],
            input=json.dumps(declared).encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        self.client.load_model("kept")
        self.assertTrue(self.client.get_model_config("kept").config.response_cache.enable)
        inputs, outputs = self.in_and_out(triton_grpc, self.row())
        replies = [self.client.infer("kept", inputs, outputs=outputs) for _ in range(3)]
        words = [
            reply.get_response().parameters["falaj_cache"].string_param for reply in replies
        ]
        self.assertEqual(words, ["miss", "hit", "hit"])
        for reply in replies:
            self.check(reply)
        stats = self.client.get_inference_statistics("kept").model_stats[0]
        self.assertEqual((stats.inference_count, stats.execution_count), (1, 1))
        self.assertEqual(stats.inference_stats.success.count, 3)
        self.assertEqual(stats.inference_stats.cache_hit.count, 2)
        self.assertEqual(stats.inference_stats.cache_miss.count, 1)

    def test_a_large_batch(self):
        batch = numpy.repeat(self.row(), 300_000, axis=0)
        inputs, outputs = self.in_and_out(triton_grpc, batch)
        scores = self.client.infer("fraud", inputs, outputs=outputs).as_numpy("probabilities")
        self.assertEqual(scores.shape, (300_000, 2))

    def test_a_stream_answers_in_order_and_tells_errors_inside(self):
        answers = queue.Queue()
        client = triton_grpc.InferenceServerClient(self.demo.grpc)
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        inputs, outputs = self.in_and_out(triton_grpc, self.row())
        for i in range(50):
            client.async_stream_infer("fraud", inputs, outputs=outputs, request_id=str(i))
        client.async_stream_infer("nothing", inputs, outputs=outputs)
        client.async_stream_infer("fraud", inputs, outputs=outputs, request_id="after")
        for i in range(50):
            result, error = answers.get(timeout=30)
            self.assertIsNone(error)
            self.assertEqual(result.get_response().id, str(i))
            self.check(result)
        self.assertRegex(str(answers.get(timeout=30)[1]), "unknown model")
        self.assertEqual(answers.get(timeout=30)[0].get_response().id, "after")
        client.stop_stream()
        client.close()

    def test_errors_are_the_clients_own(self):
        inputs, _ = self.in_and_out(triton_grpc, numpy.zeros((1, 3), numpy.float32))
        with self.assertRaisesRegex(InferenceServerException, "NOT_FOUND.*unknown model"):
            self.client.infer("nothing", inputs)
        with self.assertRaisesRegex(InferenceServerException, "INVALID_ARGUMENT.*shape"):
            self.client.infer("fraud", inputs)
        with self.assertRaisesRegex(InferenceServerException, "no sequence|keep no state"):
            self.client.infer("fraud", inputs, sequence_id=7)

    def test_asyncio(self):
        async def ask():
            async with triton_grpc_aio.InferenceServerClient(self.demo.grpc) as client:
                self.assertTrue(await client.is_model_ready("fraud"))
                inputs, outputs = self.in_and_out(triton_grpc_aio, self.row())
                answers = [client.infer("fraud", inputs, outputs=outputs) for _ in range(50)]
                return await asyncio.gather(*answers)

        for result in asyncio.run(ask()):
            self.check(result)


class TritonGrpcSecured(unittest.TestCase):
    """`falaj serve`: TLS 1.3, and the gate that HTTP has."""

    @classmethod
    def setUpClass(cls):
        cls.served = Served().start()
        cls.addClassCleanup(cls.served.remove)
        address = cls.served.process.stdout.readline().decode().split()[1]
        cls.served.set_up("amal")
        made = cls.served.falaj("tokens", "add", "--lifetime", "1h", "-o", "json")
        cls.token = {"authorization": "Bearer " + json.loads(made)["token"]}
        cls.client = triton_grpc.InferenceServerClient(
            address, ssl=True, root_certificates=cls.served.authority
        )
        cls.addClassCleanup(cls.client.close)

    def test_who_shows_nothing_learns_nothing(self):
        self.assertTrue(self.client.is_server_live())
        for ask in (self.client.get_model_repository_index, lambda: self.client.load_model("x")):
            with self.assertRaisesRegex(InferenceServerException, "UNAUTHENTICATED"):
                ask()
        wrong = {"authorization": "Bearer nothing"}
        with self.assertRaisesRegex(InferenceServerException, "UNAUTHENTICATED"):
            self.client.get_model_repository_index(headers=wrong)

    def test_who_shows_a_token_is_answered(self):
        index = self.client.get_model_repository_index(headers=self.token)
        self.assertEqual(list(index.models), [])
        with self.assertRaisesRegex(InferenceServerException, "NOT_FOUND"):
            self.client.get_model_metadata("nothing", headers=self.token)


if __name__ == "__main__":
    unittest.main()
