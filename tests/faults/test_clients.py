"""Clients send nonsense, too much, too slowly or all at once: each gets its code."""
import os
import resource
import select
import socket
import unittest

import shop
from program import PATIENCE_SECONDS, ProgramTest, wait_until

OBJECTS = "/api/v1/objects"
INGEST = "/api/v1/feature-views/visits:ingest?format="


class Malformed(ProgramTest):
    """One server for all; a copy of its state before and after must be equal."""

    def setUp(self):
        super().setUp()
        self.running = self.server().start()
        self.manifest = shop.stock(self.running)
        self.before = self.state()

    def tearDown(self):
        self.assertTrue(self.running.answers(), self.running.tail())
        self.assertEqual(self.state(), self.before, "something refused was kept")
        self.assertTrue(self.running.audit_holds())
        super().tearDown()

    def state(self):
        return (self.running.get(OBJECTS)["objects"], self.running.rows("visits"),
                self.running.get("/api/v1/training-sets")["training_sets"])

    def refuses(self, method, path, body, codes, status=400):
        reply = self.running.request(method, path, body)
        self.assertEqual(reply.status, status, reply.text[:500])
        self.assertIn(reply.code, codes, reply.text[:500])
        self.assertTrue(reply.value["detail"] and reply.value["next_step"])
        return reply

    def test_json(self):
        zone = b'{"apiVersion":"falaj.dev/v1","kind":"Zone","metadata":{"name":"%s"},"spec":%s}'
        cases = {
            "truncated": (zone % (b"a", b"{}"))[:-3],
            "not JSON": b"kind: Zone",
            "a NUL": zone % (b"a\0b", b"{}"),
            "a huge number": zone % (b"a", b'{"retention":1e999999}'),
            "a number beyond 64 bits": zone % (b"a", b'{"retention":%s}' % (b"9" * 30)),
            "text after it": zone % (b"a", b"{}") + b"{}",
        }
        for name, body in cases.items():
            with self.subTest(name):
                self.refuses("PUT", OBJECTS, body, ("FJ-1001", "FJ-1005", "FJ-1006", "FJ-1011"))
        self.refuses("PUT", OBJECTS, zone % (b"a\xff\xfe", b"{}"), ("FJ-1007",))
        self.refuses("PUT", OBJECTS, b"[" * 100_000, ("FJ-1008",))
        self.refuses("PUT", OBJECTS, b'{"a":' * 100_000, ("FJ-1008",))
        self.refuses("PUT", OBJECTS, zone % (b"a", b'{"parrent":"b"}'), ("FJ-1003",))
        self.refuses("PUT", OBJECTS, zone % (b"a", b'[]'), ("FJ-1005",))
        self.refuses("PUT", OBJECTS, zone % (b"a\\u0000b", b"{}"), ("FJ-1001",))

    def test_yaml_over_the_command_line(self):
        cases = {
            "truncated": (b"kind: Zone\nmetadata: {name: [a\n", "FJ-1002"),
            "a NUL": (b"kind: Zone\nmetadata: {name: a\0b}\n", "FJ-10(02|07|10)"),
            "broken UTF-8": (b"kind: Zone\nmetadata: {name: \xff\xfe}\n", "FJ-10(02|07)"),
            "deep": (b"a: " + b"[" * 20_000 + b"]" * 20_000 + b"\n", "FJ-10(02|08)"),
            "aliases": (b"a: &x [1]\nb: [*x, *x]\n", "FJ-1002"),
            "twice": (b"kind: Zone\nkind: Zone\nmetadata: {name: a}\n", "FJ-1012"),
            "wrong type": (b"kind: [Zone]\nmetadata: {name: a}\n", "FJ-1005"),
        }
        for name, (text, code) in cases.items():
            with self.subTest(name):
                path = os.path.join(self.folder, "file.yaml")
                with open(path, "wb") as out:
                    out.write(text)
                exit_code, printed = self.falaj("apply", "-f", path, "--server", self.running.url)
                self.assertEqual(exit_code, 1, printed)
                self.assertRegex(printed, code)

    def test_csv(self):
        head = b"customer_id,at,pages,batch\n"
        row = b"1,2026-01-01T00:00:00Z,1,1\n"
        cases = {
            "empty": (b"", ("FJ-3001", "FJ-3002", "FJ-3003")),
            "a head alone": (head, ("FJ-3003",)),
            "a missing column": (b"customer_id,at\n1,2026-01-01T00:00:00Z\n", ("FJ-3002",)),
            "a NUL": (head + b"1,2026-01-01T00:00:00Z,1\x00,1\n", ("FJ-3001", "FJ-3003")),
            "a huge number": (head + row[:-2] + b"9" * 400 + b"\n", ("FJ-3003",)),
            "no number": (head + b"1,2026-01-01T00:00:00Z,much,1\n", ("FJ-3003",)),
            "an open quote": (head + b'1,2026-01-01T00:00:00Z,"1,1\n', ("FJ-3001", "FJ-3003")),
            "a column twice": (b"customer_id,at,at,pages,batch\n" + row, ("FJ-3001", "FJ-3002")),
        }
        for name, (body, codes) in cases.items():
            with self.subTest(name):
                self.refuses("POST", INGEST + "csv", body, codes)

    def test_parquet(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        with open(os.path.join(root, "src/table/arrow/corpus/parquet/plain"), "rb") as file:
            whole = file.read()
        self.assertEqual(whole[:4], b"PAR1", "the control: this is a Parquet file")
        cases = {"half": whole[:len(whole) // 2], "no footer": whole[:-8],
                 "a head alone": whole[:4],
                 "no head": whole[len(whole) // 2:], "not Parquet": b"x" * 1000,
                 "a footer too long": whole[:-8] + b"\xff\xff\xff\x7fPAR1"}
        for name, body in cases.items():
            with self.subTest(name):
                self.refuses("POST", INGEST + "parquet", body, ("FJ-3001",))

    def test_predictions(self):
        path = "/api/v1/deployments/shop:predict"
        self.refuses("POST", path, b'{"entity":', ("FJ-1001", "FJ-5003"), status=400)
        self.assertEqual(self.running.request("POST", "/api/v1/deployments/no:predict",
                                              shop.entities(1)).status, 404)


class Limits(ProgramTest):
    def test_a_body_over_the_limit_is_refused_before_it_is_read(self):
        server = self.server("--set", "server.body_max=64Ki").start()
        server.apply(*shop.features())
        reply = server.request("POST", INGEST + "csv", b"x" * 200_000)
        self.assertEqual((reply.status, reply.code), (413, "FJ-1009"), reply.text)
        with socket.create_connection(server.address(), PATIENCE_SECONDS) as raw:
            raw.sendall(b"POST " + (INGEST + "csv").encode() + b" HTTP/1.1\r\n"
                        b"Host: 127.0.0.1:%d\r\n"
                        b"Content-Length: 9000000000000\r\n\r\n" % server.address()[1])
            self.assertIn(b" 413 ", raw.recv(4096).split(b"\r\n")[0])
        self.assertEqual(os.listdir(os.path.join(server.data, "uploads")), [])

    def test_a_slow_client_is_cut_and_others_are_served_meanwhile(self):
        server = self.server("--set", "server.header_timeout=200ms").start()
        with socket.create_connection(server.address(), PATIENCE_SECONDS) as slow:
            slow.sendall(b"GET /livez HTTP/1.1\r\nHost: ")
            self.assertTrue(server.answers())
            reply = b""
            while part := slow.recv(4096):
                reply += part
        self.assertIn(b" 408 ", reply.split(b"\r\n")[0])

    def test_an_endless_header_is_refused(self):
        server = self.server().start()
        with socket.create_connection(server.address(), PATIENCE_SECONDS) as raw:
            try:
                raw.sendall(b"GET /livez HTTP/1.1\r\nX: " + b"a" * 1_000_000)
            except OSError:
                pass  # It may close before all is sent.
            try:
                line = raw.recv(4096).split(b"\r\n")[0]
            except ConnectionResetError:
                line = b""
        self.assertTrue(line == b"" or b" 431 " in line, line)
        self.assertTrue(server.answers())


class Crowd(ProgramTest):
    WANTED, SPARE = 10_000, 300

    def test_ten_thousand_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        count = min(self.WANTED, hard - self.SPARE)
        if count < self.WANTED:
            print(f"{count} connections: RLIMIT_NOFILE is {hard}")
        server = self.server().start()
        crowd = [socket.create_connection(server.address(), PATIENCE_SECONDS) for _ in range(count)]
        self.addCleanup(lambda: [each.close() for each in crowd])
        self.assertTrue(server.answers())
        # The last one, the first one and one between are served too; none was quietly dropped.
        for each in (crowd[-1], crowd[0], crowd[count // 2]):
            each.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.address()[1])
            self.assertIn(b" 200 ", each.recv(4096).split(b"\r\n")[0])
        for each in crowd:
            each.close()
        self.assertTrue(server.answers())
        self.assertEqual(server.stop(), 0)

    def test_past_its_limit_a_server_refuses_and_recovers(self):
        server = self.server("--set", "server.connections_max=20").start()
        crowd = [socket.create_connection(server.address(), PATIENCE_SECONDS) for _ in range(60)]
        # Those over the limit hear 503 or are closed: readable at once, without asking anything.
        refused = select.select(crowd, [], [], PATIENCE_SECONDS)[0]
        self.assertTrue(refused)
        for each in crowd:
            each.close()
        def served():
            try:
                return server.answers()
            except OSError:
                return False
        wait_until(served, "the server to answer again")


if __name__ == "__main__":
    unittest.main()
