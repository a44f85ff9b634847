"""Groups 11–13, 15, 16, 23, 25 and 26 over gRPC: who may not call, and what no client sends."""

import socket
import ssl
import struct
import unittest
import urllib.parse
import zlib

import http2
import test_identity
from arena import Arena, attacks
from fortress import Federated
from http2 import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RESET, SETTINGS,
                   WINDOW, field, frame, framed, head, integer, part)

SERVICE = "/inference.GRPCInferenceService/"
INFER = SERVICE + "ModelInfer"
LIVE = SERVICE + "ServerLive"
# What a refusal may say: cancelled, malformed, not found, denied, too much, not known, nobody.
REFUSED = (1, 3, 5, 7, 8, 12, 16)
# Every method that is about somebody's, with where its message names the model.
METHODS = {
    "ModelMetadata": 1,
    "ModelConfig": 1,
    "ModelReady": 1,
    "ModelStatistics": 1,
    "ModelInfer": 1,
    "ModelStreamInfer": 1,
    "RepositoryModelLoad": 2,
    "RepositoryModelUnload": 2,
}
LISTS = ("ModelStatistics", "RepositoryIndex")
SHOP = part(1, "shop")  # What each model that they list begins with: both tenants' have one name.


class Caller(Federated):
    """Calls the `falaj serve` of two tenants."""

    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        cls.wear_out()

    def connection(self):
        return http2.Connection(self.server.grpc(), self.server.authority)

    def call(self, method, message=b"", headers=None):
        sent = [(name.lower(), value) for name, value in (headers or {}).items()]
        with self.connection() as link:
            return link.call(SERVICE + method, message, sent)

    def as_service(self, who, method, message):
        known = {"authorization": "Bearer " + self.tokens[who]} if who else {}
        return self.call(method, message, {**known, "triton_grpc_error": "true"})


def turned_away(self, answer):
    """Refused before anything was read; or the head itself was no head."""
    self.assertTrue(answer.status in (16, 8) or answer.reset is not None, answer.headers)
    self.assertEqual(answer.messages, [])
    said = urllib.parse.unquote(answer.text).encode()
    self.says_nothing_internal(said)
    self.assertNotIn(self.admin.encode(), said)


def strangers():
    asked = part(1, "payments.shop")
    for name, credential in test_identity.CREDENTIALS.items():
        yield f"with {name}", lambda self, credential=credential: self.call(
            "ModelInfer", asked, credential(self)
        )
    for name, headers in test_identity.FORGED.items():
        yield f"with {name} forged", lambda self, headers=headers: self.call(
            "ModelMetadata", asked, headers
        )
    for name, made in test_identity.TOKENS.items():
        yield f"with a jwt {name}", lambda self, made=made: self.call(
            "ModelInfer", asked, {"authorization": "Bearer " + made(self.issuer)}
        )
    for method, number in METHODS.items():
        yield f"{method} without a token", lambda self, method=method, number=number: self.call(
            method, part(number, "payments.shop")
        )
    for method in LISTS:
        yield f"{method} of all without a token", lambda self, method=method: self.call(method)


@attacks(strangers(), turned_away)
class Strangers(Caller):
    def test_the_good_tokens_are_let_in(self):
        """The control: what every credential above differs from."""
        for token in (self.admin, self.tokens["mallory"]):
            answer = self.call(
                "ModelMetadata", part(1, "shop.shop"), {"authorization": "Bearer " + token}
            )
            self.assertEqual(answer.status, 0, answer.headers)
        for method in LISTS:
            answer = self.call(method, b"", {"authorization": "Bearer " + self.admin})
            self.assertEqual(b"".join(answer.messages).count(SHOP), 2, "there are two tenants")

    def test_a_token_that_is_revoked_in_the_middle_of_a_stream_ends_it(self):
        token = self.service("leaving")
        self.server.apply(self.grant("leaving", "editor", {"project": "shop"}))
        with self.connection() as link:
            stream = link.begin(
                SERVICE + "ModelStreamInfer", [("authorization", "Bearer " + token)]
            )
            link.data(stream, framed(part(1, "shop.shop")), last=False)
            while not link.answers[stream].messages:
                link.take(*link.read_frame())
            listed = self.server.get("/api/v1/users/service:leaving/tokens")["tokens"]
            path = f"/api/v1/users/service:leaving/tokens/{listed[0]['id']}"
            self.server.good("DELETE", path)
            link.data(stream, framed(part(1, "shop.shop")), last=False)
            self.assertEqual(link.wait(stream).status, 16)
        self.before = self.state()  # The service is new, and is meant to be.

    def test_older_tls_and_other_protocols_find_nobody(self):
        name, _, port = self.server.grpc().rpartition(":")
        for change in ({"maximum_version": ssl.TLSVersion.TLSv1_2}, {"alpn": ["http/1.1"]}):
            context = ssl.create_default_context(cafile=self.server.authority)
            for key, value in change.items():
                if key == "alpn":
                    context.set_alpn_protocols(value)
                else:
                    setattr(context, key, value)
            with self.assertRaises(OSError, msg=change):
                with socket.create_connection((name, int(port)), timeout=30) as link:
                    with context.wrap_socket(link, server_hostname=name) as spoken:
                        spoken.sendall(http2.PREFACE + frame(SETTINGS, 0, 0))
                        if not spoken.recv(1):
                            raise ConnectionError("closed")


def hidden(self, answers):
    """What another tenant has is answered as what nobody has."""
    theirs, nobodys = answers
    self.assertIn(theirs.status, (*REFUSED, 0), theirs.headers)
    for answer, name in ((theirs, "payments.shop"), (nobodys, "payments.nothing")):
        answer.said = urllib.parse.unquote(answer.text).replace(name, "X").replace(
            name.partition(".")[2], "X"
        )
        self.says_nothing_internal(answer.said.encode())
    self.assertEqual((theirs.status, theirs.said, theirs.messages),
                     (nobodys.status, nobodys.said, nobodys.messages))
    self.assertTrue(theirs.status != 0 or theirs.messages == [b""], theirs.messages)


def reaching():
    # By method: who unloads comes after all who ask whether it is ready.
    for method, number in METHODS.items():
        for who in ("mallory", "reader", "approver"):

            def attack(self, who=who, method=method, number=number):
                return [
                    self.as_service(who, method, part(number, name))
                    for name in ("payments.shop", "payments.nothing")
                ]

            yield f"{who} calls {method} of another tenant", attack


@attacks(reaching(), hidden)
class Reaching(Caller):
    def test_lists_show_ones_own_only(self):
        for method in LISTS:
            answer = self.as_service("mallory", method, b"")
            self.assertEqual(answer.status, 0, answer.headers)
            self.assertEqual(b"".join(answer.messages).count(SHOP), 1, method)

    def test_roles_count_within_ones_own_tenant(self):
        named = part(1, "shop.shop")
        self.assertEqual(self.as_service("reader", "ModelInfer", named).status, 7)
        self.assertEqual(self.as_service("reader", "ModelStreamInfer", named).status, 7)
        for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
            self.assertEqual(self.as_service("mallory", method, part(2, "shop.shop")).status, 7)

    def test_one_stream_does_not_carry_a_right_from_one_model_to_another(self):
        with self.connection() as link:
            stream = link.begin(
                SERVICE + "ModelStreamInfer",
                [("authorization", "Bearer " + self.tokens["mallory"])],
            )
            link.data(stream, framed(part(1, "shop.shop")) + framed(part(1, "payments.shop")))
            answer = link.wait(stream)
        self.assertEqual(len(answer.messages), 2)
        self.assertNotIn(b"not found", answer.messages[0])
        self.assertIn(b"not found", answer.messages[1])


# ---- Frames ------------------------------------------------------------------------------------


def resets(link):
    """Each stream is begun and taken back at once (CVE-2023-44487)."""
    block = head(INFER, link.host)
    for number in range(20_000):
        stream = 2 * number + 1
        if not link.send(frame(HEADERS, END_HEADERS, stream, block)
                         + frame(RESET, 0, stream, struct.pack(">I", 8))):
            return


def made_to_reset(link):
    """The server is made to reset each stream by itself (CVE-2025-8671)."""
    block = head(INFER, link.host)
    for number in range(20_000):
        stream = 2 * number + 1
        if not link.send(frame(HEADERS, END_HEADERS, stream, block)
                         + frame(WINDOW, 0, stream, struct.pack(">I", 0))):
            return


def continued(link, more):
    """A head that does not end (CVE-2024-28182)."""
    link.frame(HEADERS, 0, 1, head(INFER, link.host))
    for number in range(20_000):
        if not link.frame(CONTINUATION, 0, 1, more(number)):
            return


def table_bomb(link):
    """One large entry of the table, named again and again: 60 KiB become 200 MiB."""
    link.answers[1] = http2.Answer()
    link.frame(HEADERS, END_HEADERS | END_STREAM, 1,
               head(INFER, link.host) + field("x-bomb", "b" * 3900, first=0x40))
    link.wait(1)
    link.answers[3] = http2.Answer()
    block = head(INFER, link.host) + integer(62, 7, 0x80) * 50_000
    link.frame(HEADERS, END_STREAM, 3, block[:16_000])
    for at in range(16_000, len(block), 16_000):
        last = at + 16_000 >= len(block)
        link.frame(CONTINUATION, END_HEADERS if last else 0, 3, block[at:at + 16_000])
    return link.wait(3)


def flood(made):
    def send(link):
        for number in range(20_000):
            if not link.send(made(number)):
                return
    return send


# What must end the connection.
FATAL = {
    "rapid resets": resets,
    "resets that the server is made to send": made_to_reset,
    "a head that goes on and on": lambda link: continued(
        link, lambda n: field(f"x-{n}", "y" * 100)),
    "a head that goes on with nothing": lambda link: continued(link, lambda n: b""),
    "a flood of settings": flood(lambda n: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1000 + n))),
    "a flood of pings": flood(lambda n: frame(PING, 0, 0, struct.pack(">Q", n))),
    "an entry that the table has not": lambda link: link.frame(
        HEADERS, END_HEADERS, 1, integer(4000, 7, 0x80)),
    "a number that does not end": lambda link: link.frame(
        HEADERS, END_HEADERS, 1, b"\xff" * 40 + b"\x01"),
    "a table of four gigabytes": lambda link: link.frame(
        HEADERS, END_HEADERS, 1, integer(0xFFFFFFFF, 5, 0x20) + head(LIVE, link.host)),
    "a text that is longer than its frame": lambda link: link.frame(
        HEADERS, END_HEADERS, 1, b"\x00" + integer(1 << 20, 7) + b"x"),
    "Huffman padding that is none": lambda link: link.frame(
        HEADERS, END_HEADERS, 1, b"\x00\x81\x00\x01y"),
    "a continuation of nothing": lambda link: link.frame(CONTINUATION, END_HEADERS, 1, b""),
    "another stream inside a head": lambda link: link.send(
        frame(HEADERS, 0, 1, head(LIVE, link.host)) + frame(DATA, 0, 1, b"x")),
    "data on no stream": lambda link: link.frame(DATA, 0, 0, b"x"),
    "data on a stream that is idle": lambda link: link.frame(DATA, 0, 5, b"x"),
    "a head of the server's number": lambda link: link.frame(
        HEADERS, END_HEADERS, 2, head(LIVE, link.host)),
    "a frame beyond the limit": lambda link: link.frame(DATA, 0, 1, b"x" * 20_000),
    "settings of a length that is none": lambda link: link.frame(SETTINGS, 0, 0, b"12345"),
    "a window of no size": lambda link: link.frame(
        SETTINGS, 0, 0, struct.pack(">HI", 4, 0xFFFFFFFF)),
    "a window beyond its end": lambda link: link.frame(
        WINDOW, 0, 0, struct.pack(">I", 0x7FFFFFFF)),
    "a promise of the client": lambda link: link.frame(5, END_HEADERS, 1, b"\0\0\0\2"),
}


def fatal():
    for name, attack in FATAL.items():

        def run(self, attack=attack):
            with self.connection() as link:
                attack(link)
                link.wait_for_close()
                self.assertFalse(link.open)

        yield name, run


class Plain(Arena):
    """Frames to a `falaj dev`; after each attack another client is served as before."""

    def connection(self):
        return http2.Connection(self.server.grpc(), seconds=30)

    def tearDown(self):
        with self.connection() as link:
            self.assertEqual(link.call(LIVE).status, 0, "another client is not served")
        super().tearDown()


@attacks(fatal())
class Frames(Plain):
    def memory(self):
        with open(f"/proc/{self.server.pid}/statm") as words:
            return int(words.read().split()[1]) * 4096

    def test_what_is_no_http2_is_cut(self):
        name, _, port = self.server.grpc().rpartition(":")
        plain = b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n"
        for said in (plain, b"\0" * 64, http2.PREFACE[:-2] + b"XX"):
            with socket.create_connection((name, int(port)), timeout=30) as link:
                link.sendall(said)
                told = b""
                while part_of := link.recv(65536):
                    told += part_of
                self.assertNotIn(b"200", told)

    def test_a_table_bomb_is_refused_and_takes_no_room(self):
        before = self.memory()
        with self.connection() as link:
            answer = table_bomb(link)
            self.assertTrue(answer.status == 8 or not link.open, answer.headers)
        self.assertLess(self.memory() - before, 64 << 20)

    def test_more_calls_at_once_than_there_may_be_are_refused(self):
        with self.connection() as link:
            streams = [link.begin(INFER) for _ in range(400)]
            refused = link.wait(streams[-1])
            self.assertTrue(refused.reset == 7 or not link.open, vars(refused))

    def test_unfinished_messages_of_many_connections_leave_room_for_others(self):
        """Nobody's messages fill all the room there is, and never end."""
        message = b"\0" + struct.pack(">I", 60 << 20) + b"x" * (59 << 20)
        links = []
        try:
            for _ in range(5):
                link = self.connection()
                links.append(link)
                self.fill(link, message)
            with self.connection() as honest:
                asked = part(1, "shop") + part(15, b"y" * (40 << 20))
                self.fill_and_end(honest, asked)
        finally:
            for link in links:
                link.link.close()

    def fill(self, link, data):
        """Sends as the windows allow; the server gives them back as it reads."""
        stream, at, room, whole = link.begin(INFER), 0, 1 << 20, 65_535
        while at < len(data) and link.open and not link.answers[stream].ended:
            if min(room, whole) == 0:
                kind, flags, number, payload = link.read_frame()
                if kind == WINDOW and number in (0, stream):
                    more = int.from_bytes(payload, "big")
                    room, whole = room + more * (number != 0), whole + more * (number == 0)
                link.take(kind, flags, number, payload)
                continue
            size = min(http2.FRAME_MAX, room, whole, len(data) - at)
            link.frame(DATA, 0, stream, data[at:at + size])
            at, room, whole = at + size, room - size, whole - size
        return stream

    def fill_and_end(self, link, message):
        stream = self.fill(link, framed(message))
        link.frame(DATA, END_STREAM, stream, b"")
        answer = link.wait(stream)
        self.assertNotEqual(answer.status, 8, answer.text)


def said_no(self, answer):
    self.assertTrue(answer.status in REFUSED or answer.reset is not None, answer.headers)
    self.assertEqual(answer.messages, [])
    self.says_nothing_internal(urllib.parse.unquote(answer.text).encode())


def call(path=INFER, data=framed(part(1, "shop")), metadata=()):
    def attack(self):
        with self.connection() as link:
            stream = link.begin(path, metadata)
            link.data(stream, data)
            return link.wait(stream)
    return attack


def headed(block):
    """A call with that header block."""
    def attack(self):
        with self.connection() as link:
            link.answers[1] = http2.Answer()
            link.frame(HEADERS, END_HEADERS | END_STREAM, 1, block(link.host))
            return link.wait(1)
    return attack


def gzipped(data):
    """The same bytes with any Python: they are seeds as well (test_seeds.py)."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    return (b"\x1f\x8b\x08" + b"\0" * 6 + b"\xff" + body
            + struct.pack("<II", zlib.crc32(data), len(data)))


def packed(data):
    return b"\1" + struct.pack(">I", len(data)) + data


GZIP = [("grpc-encoding", "gzip")]
# What ends the call, and leaves the connection as it was: bytes of a call with its metadata …
MESSAGES = {
    "a message of four gigabytes": (b"\0\xff\xff\xff\xff" + b"x" * 1000, ()),
    "a message cut short": (framed(b"x" * 100)[:50], ()),
    "a message of an unknown flag": (b"\7" + framed(b"")[1:], ()),
    "no message": (b"", ()),
    "a packed message without its coding": (packed(gzipped(b"x")), ()),
    "a packed message that is none": (packed(b"no gzip"), GZIP),
    "a bomb": (packed(gzipped(b"\0" * (80 << 20))), GZIP),
    "a damaged tensor": (framed(part(1, "shop") + part(5, b"\xff\xff")), ()),
    "a field of two gigabytes": (framed(b"\x0a\xff\xff\xff\xff\x07" + b"x"), ()),
    "a number of eleven bytes": (framed(b"\x08" + b"\xff" * 11), ()),
    "groups within groups": (framed(b"\x0b" * 10_000), ()),
}
# … and heads.
HEADS = {
    "a method of nobody": call("/inference.GRPCInferenceService/Nothing"),
    "a path that climbs": call("/inference.GRPCInferenceService/../ModelInfer"),
    "a path that is encoded": call("/inference.GRPCInferenceService/Model%49nfer"),
    "a path with a query": call(INFER + "?project=payments"),
    "a route of HTTP": call("/api/v1/objects"),
    "a web page": call(metadata=[("origin", "https://evil.example")]),
    "a rebound name": headed(lambda host: head(INFER, "evil.example")),
    "an encoding of nobody": call(metadata=[("grpc-encoding", "br")]),
    "a timeout that is none": call(metadata=[("grpc-timeout", "1e9S")]),
    "metadata without measure": call(metadata=[(f"x-{n}", "y" * 10) for n in range(500)]),
    "a name in capitals": headed(lambda host: head(INFER, host, [("X-A", "b")])),
    "a header of the connection": headed(
        lambda host: head(INFER, host, [("transfer-encoding", "chunked")])),
    "two paths": headed(lambda host: head(INFER, host, [(":path", LIVE)])),
    "a pseudo header of nobody": headed(lambda host: field(":x", "y") + head(INFER, host)),
    "a NUL in a value": headed(lambda host: head(INFER, host, [("x-a", "b\0c")])),
    "a line feed in a value": headed(lambda host: head(INFER, host, [("x-a", "b\r\nc: d")])),
}


def calls():
    for name, (data, metadata) in MESSAGES.items():
        yield name, call(data=data, metadata=metadata)
    yield from HEADS.items()


@attacks(calls(), said_no)
class Calls(Plain):
    def test_the_usual_call_is_answered(self):
        """The control: it is refused for what is not there, and for nothing else."""
        with self.connection() as link:
            self.assertEqual(link.call(SERVICE + "ServerMetadata").status, 0)
            self.assertEqual(link.call(SERVICE + "RepositoryIndex").status, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
