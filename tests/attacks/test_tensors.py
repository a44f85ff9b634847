"""Group 24: tensors and entity ids that ask for the impossible."""

import json
import struct
import unittest

import shop
from arena import Arena, attacks, raw, statuses

INFER = "/v2/models/shop/infer"
PREDICT = "/api/v1/deployments/shop:predict"


def tensor(shape, data, datatype="FP32", name="input", **more):
    return {"inputs": [{"name": name, "shape": shape, "datatype": datatype, "data": data, **more}]}


BODIES = {
    "a terabyte of output": tensor([1 << 38, 2], []),
    "a shape that wraps 64 bits": tensor([1 << 32, 1 << 32], []),
    "a negative dimension": tensor([-1, 2], [1, 2]),
    "a dimension beyond 63 bits": '{"inputs":[{"name":"input","shape":[9223372036854775808,2],'
    '"datatype":"FP32","data":[1]}]}',
    "a fractional dimension": tensor([1.5, 2], [1, 2, 3]),
    "less data than the shape": tensor([2, 2], [1, 2]),
    "more data than the shape": tensor([1, 2], [1, 2, 3]),
    "a column too many": tensor([1, 3], [1, 2, 3]),
    "another type": tensor([1, 2], [1, 2], "INT64"),
    "no such type": tensor([1, 2], [1, 2], "FP7"),
    "texts for numbers": tensor([1, 2], ["1", "2"]),
    "bytes": tensor([1, 2], ["a", "b"], "BYTES"),
    "objects for numbers": tensor([1, 2], [{"a": 1}, {}]),
    "no such input": tensor([1, 2], [1, 2], name="other"),
    "an input twice": {"inputs": tensor([1, 2], [1, 2])["inputs"] * 2},
    "no inputs": {"inputs": []},
    "inputs that are no list": {"inputs": {"name": "input"}},
    "deep nesting": '{"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32","data":'
    + "[" * 5000
    + "1"
    + "]" * 5000
    + "}]}",
    "a number beyond float": tensor([1, 2], [1e300, 1]),
    "an output that is not there": {
        **tensor([1, 2], [1, 2]),
        "outputs": [{"name": "../../etc/passwd"}],
    },
    "binary sizes that are not there": tensor([1, 2], [1, 2], parameters={"binary_data_size": 8}),
    "shared memory of another": tensor(
        [1, 2], [1, 2], parameters={"shared_memory_region": "other", "shared_memory_byte_size": 8}
    ),
    "not JSON": b"\x00\x01\x02",
    "cut JSON": b'{"inputs":[{"name":"input"',
}


def bodies():
    for name, body in BODIES.items():
        yield name, lambda self, body=body: self.send("POST", INFER, body)


def binary():
    """A JSON head and bytes behind it, with sizes that disagree."""
    head = {"name": "input", "shape": [1, 2], "datatype": "FP32"}
    row = struct.pack("<2f", 1, 2)
    for name, size, announced, tail in (
        ("head longer than the body", 8, "99999", row),
        ("head of nothing", 8, "0", row),
        ("a negative head", 8, "-1", row),
        ("a head that is no number", 8, "ten", row),
        ("bytes missing", 8, None, row[:4]),
        ("bytes left over", 8, None, row + row),
        ("a size of another shape", 16, None, row + row),
        ("a negative size", -8, None, row),
        ("a size that wraps", 1 << 63, None, row),
    ):

        def attack(self, size=size, announced=announced, tail=tail):
            text = json.dumps(
                {"inputs": [{**head, "parameters": {"binary_data_size": size}}]}
            ).encode()
            return self.send(
                "POST",
                INFER,
                text + tail,
                {"Inference-Header-Content-Length": announced or str(len(text))},
            )

        yield f"binary {name}", attack


IDS = {
    "no entities": {},
    "entities that are no list": {"entities": 7},
    "a key that is not there": {"entities": {"merchant_id": 1}},
    "a list for a key": {"entities": {"customer_id": [1, 2]}},
    "an object for a key": {"entities": {"customer_id": {"$ne": 0}}},
    "a key twice": '{"entities":{"customer_id":1,"customer_id":2}}',
    "a key beyond 64 bits": '{"entities":{"customer_id":99999999999999999999}}',
    "a fractional key": {"entities": {"customer_id": 1.5}},
    "a text for a number": {"entities": {"customer_id": "1 OR 1=1"}},
    "too many entities": {"entities": [{"customer_id": 1}] * 200_000},
    "deep entities": '{"entities":' + "[" * 5000 + "]" * 5000 + "}",
}


def ids():
    for name, body in IDS.items():
        yield f"ids {name}", lambda self, body=body: self.send("POST", PREDICT, body)


class Served(Arena):
    @classmethod
    def prepare(cls, server):
        shop.open_shop(server)


@attacks([*bodies(), *binary(), *ids()])
class Tensors(Served):
    pass


class Storms(Served):
    """Values that no rule forbids: answered, and the next caller notices nothing."""

    def test_nan_and_infinity(self):
        for value in ("NaN", "Infinity", "-Infinity", "1e39", "-0.0"):
            body = (
                '{"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32",'
                f'"data":[{value},1]}}]}}'
            )
            reply = self.send("POST", INFER, body)
            self.assertIn(reply.status, (200, 400))
            self.says_nothing_internal(reply.body)
        special = struct.pack("<4f", float("nan"), float("inf"), float("-inf"), -0.0)
        head = json.dumps(
            {
                "inputs": [
                    {
                        "name": "input",
                        "shape": [2, 2],
                        "datatype": "FP32",
                        "parameters": {"binary_data_size": 16},
                    }
                ]
            }
        ).encode()
        reply = self.send(
            "POST", INFER, head + special, {"Inference-Header-Content-Length": str(len(head))}
        )
        self.assertEqual(reply.status, 200, reply.text)

    def test_a_batch_of_ten_million_rows_is_too_large(self):
        length = 80_000_200
        head = f"POST {INFER} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n"
        answer = raw(self.server, head.encode(), half_close=False, limit=1)
        self.assertTrue(answer.startswith(b"H"))


if __name__ == "__main__":
    unittest.main()
