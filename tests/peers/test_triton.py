"""tritonclient.http, unmodified: metadata and inference on the demo's model."""

import unittest

import numpy
import tritonclient.http as triton
from served_demo import ServedDemo
from tritonclient.utils import InferenceServerException


class TritonHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.demo = ServedDemo().__enter__()
        cls.addClassCleanup(cls.demo.__exit__, None, None, None)
        cls.client = triton.InferenceServerClient(cls.demo.url.removeprefix("http://"))
        cls.addClassCleanup(cls.client.close)
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


if __name__ == "__main__":
    unittest.main()
