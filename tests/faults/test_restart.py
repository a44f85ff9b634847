"""The program is replaced under load: SIGUSR2, and nobody's request fails.

A client here sends nothing twice. It opens another connection when the server has said, with an
answer, that it closes this one; a gRPC client, when it was told to go (GOAWAY) before its call was
looked at, as the protocol has it.
"""
import http.client
import json
import os
import signal
import struct
import threading
import traceback
import unittest

import http2
import shop
from program import PROGRAM, ProgramTest, rounds, wait_until

CUSTOMERS = 5
PREDICT = "/api/v1/deployments/shop:predict"
LIVE = "/inference.GRPCInferenceService/ServerLive"
BROKEN = (OSError, http.client.HTTPException, AssertionError)


class Client(threading.Thread):
    """Asks over and over; `failures` is everything that was not the right answer."""

    def __init__(self, server, pause=0.0):
        super().__init__(daemon=True)
        self.server, self.pause = server, pause
        self.over, self.failures, self.asked, self.opened = threading.Event(), [], 0, 0

    def run(self):
        try:
            while not self.over.is_set() and not self.failures:
                self.ask()
                self.asked += 1
                self.over.wait(self.pause)
        except BROKEN as broken:
            self.failures.append(f"{type(self).__name__}: {broken!r}\n{traceback.format_exc()}")

    def end(self):
        self.over.set()
        self.join()
        return self.failures


class HttpClient(Client):
    def __init__(self, server, expected, **more):
        super().__init__(server, **more)
        self.expected, self.connection = expected, None

    def ask(self):
        if self.connection is None:
            self.connection = self.server.connect()
            self.opened += 1
        self.connection.request("POST", PREDICT, json.dumps(shop.entities(CUSTOMERS)),
                                {**self.server.headers, "Content-Type": "application/json"})
        reply = self.connection.getresponse()
        text = reply.read()
        if reply.status != 200 or json.loads(text)["predictions"] != self.expected:
            self.failures.append(f"{reply.status} {text[:300]}")
        if reply.getheader("Connection") == "close":
            self.connection.close()
            self.connection = None


class GrpcClient(Client):
    def __init__(self, server, address, authority=None, **more):
        super().__init__(server, **more)
        self.address, self.authority, self.connection = address, authority, None

    def connect(self):
        self.connection = http2.Connection(self.address, self.authority)
        self.connection.last = None  # The last call that a server which says goodbye has seen.
        self.opened += 1
        take = self.connection.take

        def watched(kind, flags, stream, payload):
            if kind == http2.GOAWAY:
                self.connection.last = struct.unpack(">I", payload[:4])[0]
            take(kind, flags, stream, payload)
        self.connection.take = watched

    def ask(self):
        if self.connection is None or self.connection.last is not None:
            self.connect()
        stream = self.connection.begin(LIVE)
        self.connection.data(stream, http2.framed(b""))
        answer = self.connection.wait(stream)
        if answer.status == 0:
            return
        last = self.connection.last
        if answer.ended or last is None or stream <= last:
            self.failures.append(f"call {stream} of {last}: {answer.status} {answer.text}")


class Restart(ProgramTest):
    def opened(self, *flags, **more):
        server = self.server(*flags, **more).start()
        if server.mode == "serve":
            server.set_up()
        shop.open_shop(server)
        return server

    def predictions(self, server):
        return server.good("POST", PREDICT, shop.entities(CUSTOMERS))["predictions"]

    def started(self, server):
        return server.get("/version")["started_at"]

    def restart(self, server):
        before = self.started(server)
        server.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: self.started(server) != before, "the next program")

    def load(self, server, grpc_authority=None):
        expected = self.predictions(server)
        clients = [HttpClient(server, expected) for _ in range(3)]
        clients.append(HttpClient(server, expected, pause=0.3))
        clients += [GrpcClient(server, server.grpc(), grpc_authority, pause=0.01)
                    for _ in range(2)]
        for client in clients:
            client.start()
        return clients

    def held(self, server, times, **more):
        pid, clients = server.pid, self.load(server, **more)
        before = {client: client.opened for client in clients}
        starts = {self.started(server)}
        for _ in range(times):
            self.restart(server)
            starts.add(self.started(server))
        # Those who rest between two questions have asked the last program too.
        counts = {client: client.asked for client in clients}
        wait_until(lambda: all(client.asked > counts[client] or client.failures
                               for client in clients), "an answer for everybody")
        for client in clients:
            self.assertEqual(client.end(), [], server.tail())
            self.assertGreater(client.opened, before[client])
        self.assertEqual(len(starts), times + 1)
        self.assertIsNone(server.process.poll())
        with open(os.path.join(server.data, "falaj.lock")) as lock:
            self.assertEqual(int(lock.read()), pid, "the same process")
        entries = server.audited("server.restart")
        self.assertEqual(len(entries), times)
        self.assertTrue(server.audit_holds())
        self.assertEqual(server.stop(), 0)

    def test_five_times_under_load_without_a_failed_request(self):
        self.held(self.opened(), rounds(5))

    def test_with_tls_too(self):
        server = self.opened(mode="serve")
        self.held(server, 2, grpc_authority=server.authority)

    def test_a_program_that_would_not_start_is_not_started(self):
        link = os.path.join(self.folder, "falaj")
        config = os.path.join(self.folder, "falaj.yaml")
        os.symlink(PROGRAM, link)
        with open(config, "w") as out:
            out.write("log: {level: info}\n")
        server = self.server("--config", config, program=link).start()
        before, said = self.started(server), 0

        def refused(why):
            nonlocal said
            said += 1
            server.process.send_signal(signal.SIGUSR2)
            entries = wait_until(
                lambda: (lambda found: found if len(found) == said else None)(
                    server.audited("server.restart")), "a refusal")
            reasons = [entry["detail"].get("refused", "") for entry in entries]
            self.assertTrue(any(why in reason for reason in reasons), reasons)
            self.assertEqual(self.started(server), before, "it serves on")

        with open(config, "w") as out:
            out.write("log: {levle: info}\n")
        refused("log.level")
        with open(config, "w") as out:
            out.write("log: {level: info}\n")
        os.remove(link)
        refused("falaj would not start")
        with open(link, "w") as out:
            out.write("#!/bin/sh\necho schema 1\n")
        os.chmod(link, 0o755)
        refused("it is older")
        os.remove(link)
        os.symlink(PROGRAM, link)
        self.restart(server)
        self.assertEqual(server.stop(), 0)

    def test_commands_run_on_and_who_waits_for_one_is_answered(self):
        out = os.path.join(self.folder, "out")
        os.mkdir(out)
        gate = os.path.join(out, "gate")
        os.mkfifo(gate)
        server = self.server("--set", f"jobs.writable={out}").start()
        job = server.good("POST", "/api/v1/jobs",
                          {"command": ["sh", "-c", f"read word < {gate}; test $word = go"]})["id"]
        wait_until(lambda: server.get(f"/api/v1/jobs/{job}")["status"] == "running", "the command")
        waited = []
        path = f"/api/v1/jobs/{job}:wait?seconds=25"
        waiter = threading.Thread(target=lambda: waited.append(server.request("GET", path)))
        waiter.start()
        self.restart(server)
        waiter.join()
        self.assertEqual(waited[0].status, 200, waited[0].text)
        with open(gate, "w") as word:
            word.write("go\n")
        ended = server.job_ended(job)
        self.assertEqual(ended["status"], "succeeded", ended)
        self.assertEqual(ended["attempt"], 1, "it was never begun again")

    def test_what_the_next_program_inherits_is_no_childs(self):
        server = self.server().start()
        self.restart(server)
        self.restart(server)
        with open(f"/proc/{server.pid}/environ", "rb") as variables:
            started_with = variables.read()
        self.assertIn(b"FALAJ_INHERITED_SOCKETS=", started_with, "the test looks at the right one")
        look = "env; ls -l /proc/self/fd"
        job = server.good("POST", "/api/v1/jobs", {"command": ["sh", "-c", look]})
        ended = server.job_ended(job["id"])
        self.assertEqual(ended["status"], "succeeded", ended)
        printed = server.request("GET", f"/api/v1/jobs/{job['id']}/log").text
        self.assertNotIn("INHERITED", printed)
        self.assertNotIn("socket:", printed)


if __name__ == "__main__":
    unittest.main()
