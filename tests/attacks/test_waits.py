"""Attacks by waiting: requests that ask for nothing but time must not keep others from answers."""

import json
import os
import select
import signal
import socket
import unittest

import shop
from arena import Arena, statuses
from program import PATIENCE_SECONDS

# More than the threads that the server answers with.
WAITING = 24
# What one caller may have waiting; past it, 429.
EACH_MAX = 64


class Waits(Arena):
    """Everybody waits for one job."""

    @classmethod
    def prepare(cls, server):
        shop.stock(server)
        server.apply(shop.train_job("long", rounds=10000, time_max="5m"))

    def wait_for(self, job):
        link = socket.create_connection(self.server.address(), timeout=PATIENCE_SECONDS)
        self.addCleanup(link.close)
        path = f"/api/v1/jobs/{job}:wait?seconds=25"
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: {link.getpeername()[0]}\r\n\r\n".encode())
        return link

    def answer_of(self, link):
        """The status and the body of what a waiting connection was told."""
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
            part = link.recv(65536)
            if not part:
                break
            answer += part
        return statuses(answer)[0], json.loads(answer.partition(b"\r\n\r\n")[2])

    def test_many_waiting_requests_hold_up_nobody(self):
        job = self.server.train("long")["job"]
        os.kill(self.server.engine(), signal.SIGSTOP)  # It does not end by itself.
        waiting = [self.wait_for(job) for _ in range(WAITING)]
        # Each goes through the pool; were it held by those who wait, one of them would be told
        # first.
        for _ in range(3):
            self.server.get("/api/v1/jobs")
        told, _, _ = select.select(waiting, [], [], 0)
        self.assertEqual(told, [], "a request was answered only after those who wait")
        # Past one caller's share: one is refused at once, whichever was looked at last (the
        # requests come on many connections, in no order); the others still wait.
        waiting += [self.wait_for(job) for _ in range(EACH_MAX - WAITING + 1)]
        refused, _, _ = select.select(waiting, [], [], PATIENCE_SECONDS)
        self.assertEqual([self.answer_of(link)[0] for link in refused], [429])
        self.server.good("POST", f"/api/v1/jobs/{job}:cancel", {})
        for link in waiting:
            if link in refused:
                continue
            status, body = self.answer_of(link)
            self.assertEqual((status, body["status"]), (200, "cancelled"))
        self.before = self.state()  # The job itself was no attack.


if __name__ == "__main__":
    unittest.main()
