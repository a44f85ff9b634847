"""KServe's own clients, unmodified: InferenceRESTClient (V2 and V1) and InferenceGRPCClient."""

import json
import logging
import unittest

import grpc
import httpx
import numpy
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput
from served import Served
from served_models import ServedModels

SERVED = None
ROWS = numpy.array([[1.5, -2.0], [0.1, 3e30], [0.0, -0.0]], numpy.float32)
VALUES = {
    "BOOL": numpy.array([[True, False]]),
    "UINT8": numpy.array([[0, 255]], numpy.uint8),
    "INT32": numpy.array([[-(2**31), 2**31 - 1]], numpy.int32),
    "INT64": numpy.array([[-(2**63), 2**63 - 1]], numpy.int64),
    "FP16": numpy.array([[1.5, -65504.0]], numpy.float16),
    "FP32": numpy.array([[0.1, -3.4e38]], numpy.float32),
    "FP64": numpy.array([[0.1, -1.7e308]], numpy.float64),
    "BYTES": numpy.array([["سلام".encode(), b"two words"]], numpy.object_),
}


def setUpModule():
    global SERVED
    logging.disable(logging.ERROR)  # The clients log what they raise.
    SERVED = ServedModels().__enter__()
    unittest.addModuleCleanup(SERVED.__exit__, None, None, None)


def request(model, matrix, datatype="FP32", name="x", binary=True, **more):
    data = InferInput(name, list(matrix.shape), datatype)
    data.set_data_from_numpy(matrix, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[data], **more)


def echoed(datatype, **more):
    matrix = VALUES[datatype]
    return request("echo_" + datatype.lower(), matrix, datatype, "in_" + datatype, **more)


class Clients(unittest.IsolatedAsyncioTestCase):
    def same(self, output, expected):
        self.assertEqual(output.shape, list(expected.shape))
        got = output.as_numpy()
        if got.dtype == numpy.object_:  # JSON has texts where binary has bytes.
            got = [each if isinstance(each, bytes) else each.encode() for each in got.flatten()]
            self.assertEqual(got, list(expected.flatten()))
        else:
            self.assertEqual(got.tobytes(), expected.tobytes())


class KServeRest(Clients):
    async def asyncSetUp(self):
        self.client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=30))
        self.addAsyncCleanup(self.client.close)

    async def infer(self, asked, **more):
        return await self.client.infer(SERVED.url, asked, model_name=asked.model_name, **more)

    async def test_health(self):
        self.assertIs(await self.client.is_server_live(SERVED.url), True)
        self.assertIs(await self.client.is_server_ready(SERVED.url), True)
        self.assertTrue(await self.client.is_model_ready(SERVED.url, "twice"))
        self.assertFalse(await self.client.is_model_ready(SERVED.url, "nothing"))

    async def test_json_and_binary_answer_alike(self):
        for binary in (False, True):
            for back in (False, True):
                asked = request("twice", ROWS, binary=binary, request_id="r-1",
                                parameters={"binary_data_output": back})  # fmt: skip
                headers = {}
                answer = await self.infer(asked, response_headers=headers)
                self.assertEqual((answer.id, answer.model_name), ("r-1", "twice"))
                self.assertEqual([output.name for output in answer.outputs], ["y"])
                self.same(answer.outputs[0], ROWS + ROWS)
                self.assertEqual("inference-header-content-length" in headers, back)

    async def test_every_type_comes_back(self):
        for datatype, expected in VALUES.items():
            for binary in (True, False):
                if datatype == "FP16" and not binary:
                    continue  # The client refuses to send it.
                asked = echoed(datatype, binary=binary,
                               parameters={"binary_data_output": binary})  # fmt: skip
                with self.subTest(datatype=datatype, binary=binary):
                    answer = await self.infer(asked)
                    self.assertEqual(answer.outputs[0].datatype, datatype)
                    self.same(answer.outputs[0], expected)

    async def test_outputs_are_chosen_one_by_one(self):
        chosen = RequestedOutput("y", parameters={"binary_data": True})
        answer = await self.infer(request("twice", ROWS, request_outputs=[chosen]))
        self.same(answer.outputs[0], ROWS + ROWS)
        chosen = RequestedOutput("z")
        with self.assertRaisesRegex(httpx.HTTPStatusError, "unexpected inference output 'z'.*400"):
            await self.infer(request("twice", ROWS, request_outputs=[chosen]))

    async def test_errors_have_our_words(self):
        with self.assertRaisesRegex(httpx.HTTPStatusError, "unknown model: 'nothing'.*404"):
            await self.infer(request("nothing", ROWS))
        with self.assertRaisesRegex(httpx.HTTPStatusError, "unexpected shape for input 'x'.*400"):
            await self.infer(request("twice", ROWS[:, :1]))
        with self.assertRaisesRegex(httpx.HTTPStatusError, "400"):
            await self.infer(request("twice", ROWS.astype(numpy.float64), "FP64"))

    async def test_a_model_that_is_unloaded(self):
        SERVED.load("echo_bool", "unload")
        try:
            self.assertFalse(await self.client.is_model_ready(SERVED.url, "echo_bool"))
            with self.assertRaisesRegex(httpx.HTTPStatusError, "503"):
                await self.infer(echoed("BOOL"))
            async with InferenceRESTClient(RESTConfig(protocol="v1")) as first:
                self.assertFalse(await first.is_model_ready(SERVED.url, "echo_bool"))
        finally:
            SERVED.load("echo_bool")
        self.assertTrue(await self.client.is_model_ready(SERVED.url, "echo_bool"))


class KServeV1(Clients):
    """Of V1 but its liveness, which asks for `/`: the console is there."""

    async def asyncSetUp(self):
        self.client = InferenceRESTClient(RESTConfig(timeout=30))  # Its default is V1.
        self.addAsyncCleanup(self.client.close)

    async def test_rows_in_rows_out(self):
        told = await self.client.infer(
            SERVED.url, {"instances": [[1, 2], [0.5, -4]]}, model_name="twice"
        )
        self.assertEqual(told["predictions"], [[2, 4], [1, -8]])

    async def test_ready(self):
        self.assertIs(await self.client.is_model_ready(SERVED.url, "twice"), True)
        with self.assertRaisesRegex(httpx.HTTPStatusError, "unknown model.*404"):
            await self.client.is_model_ready(SERVED.url, "nothing")

    async def test_what_is_no_list_is_refused(self):
        with self.assertRaisesRegex(httpx.HTTPStatusError, "400"):
            await self.client.infer(SERVED.url, {"instances": 7}, model_name="twice")


class KServeGrpc(Clients):
    async def asyncSetUp(self):
        self.client = InferenceGRPCClient(SERVED.grpc, timeout=30)
        self.addAsyncCleanup(self.client.close)

    async def test_health(self):
        self.assertTrue(await self.client.is_server_live())
        self.assertTrue(await self.client.is_server_ready())
        self.assertTrue(await self.client.is_model_ready("twice"))
        self.assertFalse(await self.client.is_model_ready("nothing"))

    async def test_raw_and_typed_contents_answer_alike(self):
        for binary in (True, False):  # False: typed contents.
            answer = await self.client.infer(
                request("twice", ROWS, binary=binary, request_id="r-2")
            )
            self.assertEqual((answer.id, answer.model_version), ("r-2", "1"))
            self.same(answer.outputs[0], ROWS + ROWS)

    async def test_every_type_comes_back(self):
        for datatype, expected in VALUES.items():
            for binary in (True, False):
                if datatype == "FP16" and not binary:
                    continue
                with self.subTest(datatype=datatype, binary=binary):
                    answer = await self.client.infer(echoed(datatype, binary=binary))
                    self.same(answer.outputs[0], expected)

    async def test_errors_are_grpcs(self):
        for asked, code, words in (
            (request("nothing", ROWS), grpc.StatusCode.NOT_FOUND, "unknown model"),
            (request("twice", ROWS[:, :1]), grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape"),
        ):
            with self.assertRaises(grpc.aio.AioRpcError) as caught:
                await self.client.infer(asked)
            self.assertEqual(caught.exception.code(), code)
            self.assertIn(words, caught.exception.details())

    async def test_a_refusal_is_not_tried_again(self):
        """The client retries UNAVAILABLE up to three times; what we refuse says not to."""
        SERVED.load("echo_uint8", "unload")
        try:
            with self.assertRaises(grpc.aio.AioRpcError) as caught:
                await self.client.infer(echoed("UINT8"))
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
            told = dict(caught.exception.trailing_metadata())
            self.assertEqual(told.get("grpc-retry-pushback-ms"), "-1")
        finally:
            SERVED.load("echo_uint8")


class KServeSecured(Clients):
    """`falaj serve`: TLS 1.3 and a token, through what the clients take for them."""

    @classmethod
    def setUpClass(cls):
        cls.served = Served().start()
        cls.addClassCleanup(cls.served.remove)
        cls.address = cls.served.process.stdout.readline().decode().split()[1]
        cls.served.set_up("amal")
        made = cls.served.falaj("tokens", "add", "--lifetime", "1h", "-o", "json")
        cls.token = {"authorization": "Bearer " + json.loads(made)["token"]}

    async def test_rest(self):
        config = RESTConfig(protocol="v2", verify=self.served.context)
        async with InferenceRESTClient(config) as client:
            self.assertTrue(await client.is_server_ready(self.served.url))
            for headers, status in ((None, "401"), (self.token, "404")):
                with self.assertRaisesRegex(httpx.HTTPStatusError, status):
                    await client.infer(
                        self.served.url, request("x", ROWS), model_name="x", headers=headers
                    )

    async def test_grpc(self):
        async with InferenceGRPCClient(
            self.address, use_ssl=True, root_certificates=self.served.authority
        ) as client:
            self.assertTrue(await client.is_server_live())
            for headers, code in (
                (None, grpc.StatusCode.UNAUTHENTICATED),
                (tuple(self.token.items()), grpc.StatusCode.NOT_FOUND),
            ):
                with self.assertRaises(grpc.aio.AioRpcError) as caught:
                    await client.infer(request("x", ROWS), headers=headers)
                self.assertEqual(caught.exception.code(), code)


if __name__ == "__main__":
    unittest.main()
