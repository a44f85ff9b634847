"""Where attacks are fought: one real server a class, and a look at all it holds before and after.

An attack is a function that returns the reply (or nothing when the connection itself was refused);
`attacks` turns a table of them into one named test each. A test fails when the answer is not a
refusal, when anything changed, when the reply names something internal, or when the server or its
log suffered.
"""

import json
import re
import shutil
import socket
import ssl
import tempfile
import unittest
from collections import Counter

import shop
from program import PATIENCE_SECONDS, Reply, Server

# What no client may ever read in an answer.
INTERNAL = re.compile(
    rb"/(?:home|root|tmp|work|var|usr|proc)/|metadata\.db|SELECT |INSERT |sqlite|rocksdb"
    rb"|\.cc:\d+|0x[0-9a-f]{8,}|std::|Traceback|root:x:0",
    re.IGNORECASE,
)


def connected(server):
    """A socket to the server, over TLS where it speaks nothing else."""
    link = socket.create_connection(server.address(), timeout=PATIENCE_SECONDS)
    if server.mode == "dev":
        return link
    context = ssl.create_default_context(cafile=server.authority)
    return context.wrap_socket(link, server_hostname=server.address()[0])


def raw(server, data, half_close=True, limit=1 << 20):
    """Sends bytes as they are and reads until the server has said all it will."""
    with connected(server) as link:
        try:
            link.sendall(data)
            if half_close and server.mode == "dev":
                link.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # Refused before all was sent: the reply is still to be read.
        answer = b""
        try:
            while len(answer) < limit:
                part = link.recv(65536)
                if not part:
                    break
                answer += part
                if b"text/event-stream" in answer[:4096]:
                    break  # It has no end.
        except OSError:
            pass
    return answer


def statuses(answer):
    """The status of every reply in the bytes of a connection."""
    return [int(code) for code in re.findall(rb"(?:^|\n)HTTP/1\.[01] (\d{3}) ", answer)]


class Arena(unittest.TestCase):
    """Subclasses say how the server is prepared."""

    FLAGS = ()

    @classmethod
    def prepare(cls, server):
        shop.stock(server)

    @classmethod
    def make_server(cls):
        return Server(cls.folder + "/data", *cls.FLAGS).start()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="falaj-attack-")
        cls.server = cls.make_server()
        cls.prepare(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def state(self):
        """All that an attack could have changed."""
        ask = self.server.get
        return {
            "objects": ask("/api/v1/objects")["objects"],
            "views": ask("/api/v1/feature-views")["views"],
            "sets": ask("/api/v1/training-sets")["training_sets"],
            "runs": ask("/api/v1/runs")["runs"],
            "models": ask("/api/v1/models")["models"],
            "changes": [
                entry["action"]
                for entry in ask("/api/v1/audit?limit=1000")["entries"]
                if not entry["action"].startswith(("access.", "audit.", "model.refused"))
            ],
        }

    # What the test before saw last; an attack is held against that.
    last = None

    def setUp(self):
        self.before = self.state() if self.last is None else self.last

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), self.server.tail())
        now = type(self).last = self.state()
        if now == self.before:
            return
        # By name only: the difference of two whole states takes longer to print than to find.
        parts = [name for name in now if now[name] != self.before[name]] if self.before else now
        old, new = (Counter(state["changes"]) for state in (self.before or now, now))
        came, went = dict(new - old), dict(old - new)
        self.fail(f"a refused attack changed {parts}: {came} came, {went} went")

    def says_nothing_internal(self, body):
        found = INTERNAL.search(body)
        self.assertIsNone(found, f"the answer names {found and found.group()!r}: {body[:400]!r}")

    def refused(self, reply, statuses_allowed=range(400, 500)):
        self.assertIn(reply.status, statuses_allowed, reply.text[:400])
        self.says_nothing_internal(reply.body)

    def send(self, method, path, body=None, headers=None):
        """One request with a raw path: nothing is normalised on the way."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        lines = [
            f"{method} ".encode()
            + (path if isinstance(path, bytes) else path.encode())
            + b" HTTP/1.1"
        ]
        sent = {
            "Host": "%s:%d" % self.server.address(),
            "Connection": "close",
            "Content-Type": "application/json",
            **(headers or {}),
        }
        if body is not None:
            sent["Content-Length"] = str(len(body))
        lines += [f"{name}: {value}".encode() for name, value in sent.items() if value is not None]
        answer = raw(self.server, b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""), False)
        head, _, rest = answer.partition(b"\r\n\r\n")
        found = statuses(head)
        self.assertTrue(found, f"no reply to {lines[0]!r}")
        told = [line.partition(": ") for line in head.decode("latin-1").split("\r\n")[1:]]
        return Reply(found[0], rest, {name: value for name, _, value in told})


def attacks(table, check=None):
    """Adds test_<name> to a class for each (name, attack) of the table; attack(self) → reply."""

    def decorate(cls):
        for name, attack in table:

            def test(self, attack=attack):
                reply = attack(self)
                if reply is not None:
                    (check or type(self).refused)(self, reply)

            name = "test_" + re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
            assert not hasattr(cls, name), name
            setattr(cls, name, test)
        return cls

    return decorate
