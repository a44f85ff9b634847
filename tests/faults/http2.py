"""gRPC over HTTP/2, frame by frame: a client that can also do what no honest one does.

Frames are made and read here; only the compressed headers of answers are read by libnghttp2, which
the program is linked with as well.
"""

import ctypes
import ctypes.util
import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
FRAME_MAX = 16384


class _Field(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.POINTER(ctypes.c_char)),
        ("value", ctypes.POINTER(ctypes.c_char)),
        ("name_size", ctypes.c_size_t),
        ("value_size", ctypes.c_size_t),
        ("flags", ctypes.c_uint8),
    ]


class Inflater:
    """Headers of one connection, in the order in which they came."""

    def __init__(self):
        self.library = ctypes.CDLL(ctypes.util.find_library("nghttp2"))
        self.library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.handle = ctypes.c_void_p()
        assert self.library.nghttp2_hd_inflate_new(ctypes.byref(self.handle)) == 0

    def __del__(self):
        self.library.nghttp2_hd_inflate_del(self.handle)

    def read(self, block):
        found, at = [], 0
        while True:
            field, flags = _Field(), ctypes.c_int(0)
            used = self.library.nghttp2_hd_inflate_hd2(
                self.handle,
                ctypes.byref(field),
                ctypes.byref(flags),
                ctypes.c_char_p(block[at:]),
                ctypes.c_size_t(len(block) - at),
                ctypes.c_int(1),
            )
            assert used >= 0, used
            at += used
            if flags.value & 2:  # One was read.
                found.append((field.name[: field.name_size], field.value[: field.value_size]))
            if flags.value & 1:  # All were.
                self.library.nghttp2_hd_inflate_end_headers(self.handle)
                return {name.decode(): value.decode() for name, value in found}


def integer(value, bits, first=0):
    """HPACK's integer with a prefix of so many bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([first | value])
    out, value = bytearray([first | most]), value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + bytes([value]))


def field(name, value, first=0x00):
    """A header as it is: not in the table (0x00), or put into it (0x40)."""
    name, value = (text if isinstance(text, bytes) else text.encode() for text in (name, value))
    return bytes([first]) + integer(len(name), 7) + name + integer(len(value), 7) + value


def head(path, host, metadata=()):
    """A call's header block."""
    fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", path),
        (":authority", host),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *metadata,
    ]
    return b"".join(field(name, value) for name, value in fields)


def framed(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def part(number, value):
    """One field of a protobuf message: bytes or text, or a number."""
    if isinstance(value, int):
        return integer_of(number << 3) + integer_of(value)
    value = value if isinstance(value, bytes) else value.encode()
    return integer_of(number << 3 | 2) + integer_of(len(value)) + value


def integer_of(value):
    out = bytearray()
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes(out + bytes([value]))


class Answer:
    def __init__(self):
        self.headers, self.data, self.reset, self.ended = {}, b"", None, False

    @property
    def status(self):
        """gRPC's status; -1 when the call ended without one."""
        return int(self.headers.get("grpc-status", -1))

    @property
    def text(self):
        return self.headers.get("grpc-message", "")

    @property
    def messages(self):
        found, at = [], 0
        while at + 5 <= len(self.data):
            size = struct.unpack(">I", self.data[at + 1 : at + 5])[0]
            found.append(self.data[at + 5 : at + 5 + size])
            at += 5 + size
        return found


class Connection:
    """One connection; `authority` is the PEM file that it trusts, None: without TLS."""

    def __init__(self, address, authority=None, seconds=90):
        self.host = address
        name, _, port = address.rpartition(":")
        self.link = socket.create_connection((name, int(port)), timeout=seconds)
        if authority:
            context = ssl.create_default_context(cafile=authority)
            context.set_alpn_protocols(["h2"])
            self.link = context.wrap_socket(self.link, server_hostname=name)
        self.inflater, self.next, self.answers = Inflater(), 1, {}
        self.open, self.waiting, self.block = True, b"", b""
        self.send(PREFACE)
        # Answers may be large: the window of a stream, then that of the connection.
        self.frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 30))
        self.frame(WINDOW, 0, 0, struct.pack(">I", 1 << 30))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def send(self, data):
        """False when the server has left."""
        try:
            self.link.sendall(data)
        except OSError:
            self.open = False
        return self.open

    def frame(self, kind, flags, stream, payload=b""):
        return self.send(frame(kind, flags, stream, payload))

    def begin(self, path, metadata=()):
        """A stream whose head is sent; its number."""
        stream, self.next = self.next, self.next + 2
        self.answers[stream] = Answer()
        block, kind = head(path, self.host, metadata), HEADERS
        while len(block) > FRAME_MAX:
            self.frame(kind, 0, stream, block[:FRAME_MAX])
            block, kind = block[FRAME_MAX:], CONTINUATION
        self.frame(kind, END_HEADERS, stream, block)
        return stream

    def data(self, stream, data, last=True):
        for at in range(0, max(len(data), 1), FRAME_MAX):
            end = last and at + FRAME_MAX >= len(data)
            self.frame(DATA, END_STREAM if end else 0, stream, data[at : at + FRAME_MAX])

    def call(self, path, message=b"", metadata=()):
        """The whole of a call with one message."""
        stream = self.begin(path, metadata)
        self.data(stream, framed(message))
        return self.wait(stream)

    def wait(self, stream):
        """Until the call has ended, or the connection has."""
        while self.open and not self.answers[stream].ended:
            self.take(*self.read_frame())
        return self.answers[stream]

    def wait_for_close(self):
        while self.open:
            self.take(*self.read_frame())

    def read_frame(self):
        """(kind, flags, stream, payload); kind is None when there is no more."""
        start = self.exactly(9)
        if not start:
            return None, 0, 0, b""
        stream = int.from_bytes(start[5:], "big") & 0x7FFFFFFF
        return start[3], start[4], stream, self.exactly(int.from_bytes(start[:3], "big"))

    def exactly(self, size):
        while self.open and len(self.waiting) < size:
            try:
                came = self.link.recv(65536)
            except TimeoutError:
                raise AssertionError("the server neither answered nor closed") from None
            except OSError:
                came = b""
            self.open = bool(came)
            self.waiting += came
        found, self.waiting = self.waiting[:size], self.waiting[size:]
        return found if len(found) == size else b""

    def take(self, kind, flags, stream, payload):
        answer = self.answers.setdefault(stream, Answer())
        if kind == SETTINGS and not flags & ACK:
            self.frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self.frame(PING, ACK, 0, payload)
        elif kind in (HEADERS, CONTINUATION):
            self.block += payload
            if flags & END_HEADERS:
                answer.headers.update(self.inflater.read(self.block))
                self.block = b""
        elif kind == DATA:
            answer.data += payload
        elif kind == RESET:
            answer.reset, answer.ended = int.from_bytes(payload, "big"), True
        if kind in (HEADERS, DATA) and flags & END_STREAM:
            answer.ended = True


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload
