"""MLServer's own clients, unmodified: `mlserver infer`, its codecs over REST, its gRPC stubs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import grpc
import mlserver.types
import numpy
import requests
from mlserver.codecs import NumpyCodec, NumpyRequestCodec, StringCodec
from mlserver.grpc import converters, dataplane_pb2, dataplane_pb2_grpc
from served_models import ServedModels

SERVED = None
ROWS = numpy.array([[1.5, -2.0], [0.1, 3e30], [0.0, 4.0]], numpy.float32)


def setUpModule():
    global SERVED
    SERVED = ServedModels().__enter__()
    unittest.addModuleCleanup(SERVED.__exit__, None, None, None)


def request(rows, **more):
    return mlserver.types.InferenceRequest(inputs=[NumpyCodec.encode_input("x", rows)], **more)


class MLServerBatch(unittest.TestCase):
    """`mlserver infer`: a file of requests, a line each, and a file of answers."""

    def infer(self, lines, *words, model="twice"):
        with tempfile.TemporaryDirectory() as folder:
            given, made = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
            given.write_text("".join(line + "\n" for line in lines))
            address = SERVED.url.removeprefix("http://")
            subprocess.run(
                [sys.executable, "-B", "-c", "from mlserver.cli import main; main()", "infer",
                 "-u", address, "-m", model, "-i", given, "-o", made, "--workers", "4", *words],
                check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            answers = [json.loads(line) for line in made.read_text().splitlines()]
        return sorted(answers, key=lambda answer: answer["parameters"]["batch_index"])

    def check(self, answers):
        self.assertEqual(len(answers), 20)
        for i, answer in enumerate(answers):
            told = mlserver.types.InferenceResponse(**answer)
            self.assertEqual((told.id, told.model_name), (f"r-{i}", "twice"))
            got = NumpyCodec.decode_output(told.outputs[0])
            self.assertEqual(got.tobytes(), (ROWS * 2 * (i + 1)).tobytes())

    def test_a_file_of_requests(self):
        lines = [request(ROWS * (i + 1), id=f"r-{i}").model_dump_json() for i in range(20)]
        self.check(self.infer(lines))
        self.check(self.infer(lines, "--binary-data"))
        self.check(self.infer(lines, "--batch-size", "7"))

    def test_a_request_that_is_refused_is_told_in_its_place(self):
        lines = [request(ROWS).model_dump_json(), request(ROWS[:, :1]).model_dump_json()]
        good, bad = self.infer(lines, "--retries", "1")
        self.assertEqual(len(good["outputs"]), 1)
        self.assertIn("unexpected shape for input 'x'", json.dumps(bad))


class MLServerRest(unittest.TestCase):
    """As its documentation asks a model: a codec, requests, a codec."""

    def ask(self, model, asked):
        reply = requests.post(f"{SERVED.url}/v2/models/{model}/infer", json=asked.model_dump())
        self.assertEqual(reply.status_code, 200, reply.text)
        return mlserver.types.InferenceResponse(**reply.json())

    def test_numbers(self):
        answer = self.ask("twice", request(ROWS, id="one"))
        self.assertEqual((answer.id, answer.model_version), ("one", "1"))
        # JSON's numbers are the shortest that give the same bits back.
        got = NumpyCodec.decode_output(answer.outputs[0])
        self.assertEqual(got.tobytes(), (ROWS * 2).tobytes())

    def test_a_whole_request_by_codec(self):
        asked = NumpyRequestCodec.encode_request(ROWS)  # It names its input itself.
        asked.inputs[0].name = "x"
        answer = self.ask("twice", asked)
        self.assertEqual(NumpyRequestCodec.decode_response(answer).tolist(), (ROWS * 2).tolist())

    def test_texts(self):
        text = StringCodec.encode_input("in_BYTES", ["سلام", "two words"], use_bytes=False)
        text.shape = [1, 2]  # The model's; the codec makes a column.
        answer = self.ask("echo_bytes", mlserver.types.InferenceRequest(inputs=[text]))
        self.assertEqual(StringCodec.decode_output(answer.outputs[0]), ["سلام", "two words"])

    def test_metadata_in_its_types(self):
        server = mlserver.types.MetadataServerResponse(**requests.get(SERVED.url + "/v2").json())
        self.assertEqual(server.name, "falaj")
        told = requests.get(SERVED.url + "/v2/models/twice").json()
        model = mlserver.types.MetadataModelResponse(**told)
        self.assertEqual((model.inputs[0].name, model.inputs[0].shape), ("x", [-1, 2]))
        index = requests.post(SERVED.url + "/v2/repository/index", json={"ready": True}).json()
        items = mlserver.types.RepositoryIndexResponse(root=index).root
        self.assertIn(("twice", "READY"), [(each.name, str(each.state)) for each in items])


class MLServerGrpc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        channel = grpc.insecure_channel(SERVED.grpc)
        cls.addClassCleanup(channel.close)
        cls.stub = dataplane_pb2_grpc.GRPCInferenceServiceStub(channel)

    def test_health_and_metadata(self):
        self.assertTrue(self.stub.ServerLive(dataplane_pb2.ServerLiveRequest()).live)
        self.assertTrue(self.stub.ServerReady(dataplane_pb2.ServerReadyRequest()).ready)
        for name, ready in (("twice", True), ("nothing", False)):
            asked = dataplane_pb2.ModelReadyRequest(name=name)
            self.assertEqual(self.stub.ModelReady(asked).ready, ready)
        told = self.stub.ModelMetadata(dataplane_pb2.ModelMetadataRequest(name="twice"))
        model = converters.ModelMetadataResponseConverter.to_types(told)
        self.assertEqual((model.name, model.inputs[0].shape), ("twice", [-1, 2]))

    def test_raw_and_typed_contents_answer_alike(self):
        for raw in (False, True):
            asked = converters.ModelInferRequestConverter.from_types(
                request(ROWS, id="one"), model_name="twice", use_raw=raw
            )
            told = self.stub.ModelInfer(asked)
            answer = converters.ModelInferResponseConverter.to_types(told)
            self.assertEqual((answer.id, answer.model_name), ("one", "twice"))
            got = NumpyCodec.decode_output(answer.outputs[0])
            self.assertEqual(got.tobytes(), (ROWS * 2).tobytes())

    def test_texts(self):
        text = StringCodec.encode_input("in_BYTES", ["سلام", "two words"])
        text.shape = [1, 2]
        asked = converters.ModelInferRequestConverter.from_types(
            mlserver.types.InferenceRequest(inputs=[text]), model_name="echo_bytes"
        )
        answer = converters.ModelInferResponseConverter.to_types(self.stub.ModelInfer(asked))
        self.assertEqual(StringCodec.decode_output(answer.outputs[0]), ["سلام", "two words"])

    def test_errors_are_grpcs(self):
        asked = converters.ModelInferRequestConverter.from_types(request(ROWS), "nothing")
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(asked)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_the_repository(self):
        index = self.stub.RepositoryIndex(dataplane_pb2.RepositoryIndexRequest())
        self.assertIn("twice", [model.name for model in index.models])
        name = "echo_fp64"
        self.stub.RepositoryModelUnload(
            dataplane_pb2.RepositoryModelUnloadRequest(model_name=name)
        )
        asked = dataplane_pb2.ModelReadyRequest(name=name)
        self.assertFalse(self.stub.ModelReady(asked).ready)
        self.stub.RepositoryModelLoad(dataplane_pb2.RepositoryModelLoadRequest(model_name=name))
        self.assertTrue(self.stub.ModelReady(asked).ready)


if __name__ == "__main__":
    unittest.main()
