"""ONNX files written byte by byte: what no well-meaning tool would write."""

import struct


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def integer(field, value):
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def data(field, value):
    if isinstance(value, str):
        value = value.encode()
    return varint(field << 3 | 2) + varint(len(value)) + value


def value_info(name, element=1, shape=(None, 2)):
    dims = b"".join(data(1, data(2, "N") if size is None else integer(1, size)) for size in shape)
    return data(1, name) + data(2, data(1, integer(1, element) + data(2, dims)))


def node(op, inputs, outputs, attributes=b"", domain=""):
    out = b"".join(data(1, each) for each in inputs)
    out += b"".join(data(2, each) for each in outputs)
    return out + data(4, op) + attributes + (data(7, domain) if domain else b"")


def tensor(name, dims, raw, element=1, more=b""):
    out = b"".join(integer(1, size) for size in dims)
    return out + integer(2, element) + data(8, name) + data(9, raw) + more


def graph(nodes, tensors=(), more=b""):
    out = b"".join(data(1, each) for each in nodes) + data(2, "g")
    out += b"".join(data(5, each) for each in tensors)
    return out + data(11, value_info("x")) + data(12, value_info("y")) + more


def model(body, domain="", more=b""):
    opset = data(1, domain) + integer(2, 17)
    return integer(1, 8) + data(8, opset) + data(7, body) + more


def doubled():
    """y = x + x: the model that is accepted."""
    return model(graph([node("Add", ["x", "x"], ["y"])]))


def one_weight(dims, raw, **more):
    weights = tensor("w", dims, raw, **more)
    return model(graph([node("Add", ["x", "w"], ["y"])], [weights]))


def attribute(name, field, value, kind):
    return data(5, data(1, name) + data(field, value) + integer(20, kind))


def nested(depth):
    inner = graph([node("Identity", ["x"], ["y"])])
    for _ in range(depth):
        body = attribute("then_branch", 6, inner, 5)
        inner = graph([node("If", ["x"], ["y"], body)])
    return model(inner)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)
