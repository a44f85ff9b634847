"""The k-th call to the disk or for memory fails, in the middle of everything that must not be lost.

For each scenario and each k: the operation fails cleanly or the process stops; after kill -9 and a
start on a sound disk, what was acknowledged is there, what was not is there whole or not at all,
and the same operation works. Every run takes a share of the k's by the seed; FALAJ_CALLS_SWEEP=1
takes every k of the disk's calls, and FALAJ_CALLS_ONLY=ingest,freeze some scenarios only.
"""

import errno
import json
import os
import signal
import subprocess
import unittest

import shop
from program import PATIENCE_SECONDS, PROGRAM, environment, seeded
from scenarios import SCENARIOS, SWEEP, Apply, Calls, ShimTest, add_tests

WRITES, READS, MEMORY = 1, 2, 3
# (what is counted, errno, whether it lasts, how many k's a run takes)
FAULTS = {
    "EIO once": (WRITES, errno.EIO, 0, 2),
    "EIO for good": (WRITES, errno.EIO, 1, 1),
    "ENOSPC once": (WRITES, errno.ENOSPC, 0, 1),
    "ENOSPC for good": (WRITES, errno.ENOSPC, 1, 1),
    "EIO of a read": (READS, errno.EIO, 0, 1),
    "ENOMEM": (MEMORY, errno.ENOMEM, 0, 2),
}
SWEPT_MEMORY = 12  # k's of the calls for memory in a sweep: there are tens of thousands.


def tries(name, counted):
    """(fault, k) in the order in which they are tried."""
    chance = seeded(f"calls {name}")
    for fault, (kind, _, _, share) in FAULTS.items():
        most = counted[kind]
        if SWEEP and kind != MEMORY:
            chosen = range(1, most + 1)
        else:
            count = min(SWEPT_MEMORY if SWEEP else share, most)
            chosen = sorted(chance.sample(range(1, most + 1), count))
        for k in chosen:
            yield fault, k


class OneTry(ShimTest):
    def one_try(self, server, scenario, calls, n, fault, k):
        kind, error, lasts, _ = fault
        calls.arm(kind, k, error, lasts)
        outcome = self.acted(server, scenario, n)
        _, failed = calls.disarm()
        server.kill()
        server.start()
        self.check_after(server, scenario, n, outcome)
        return outcome if failed else "not reached"


class KthCall(OneTry):
    def one_scenario(self, name, scenario):
        calls = self.page(Calls)
        server = self.served(scenario, calls)
        counted = {}
        for n, kind in enumerate((WRITES, READS, MEMORY), 1):
            calls.arm(kind)
            counted[kind] = self.watched(server, scenario, n, calls.disarm)[0]
        self.assertGreater(counted[WRITES], 0)
        outcomes = {"acknowledged": 0, "refused": 0, "stopped": 0, "not reached": 0}
        for n, (fault, k) in enumerate(tries(name, counted), 4):
            with self.subTest(fault=fault, k=k):
                outcomes[self.one_try(server, scenario, calls, n, FAULTS[fault], k)] += 1
        print(
            f"{name}: {counted[WRITES]} writes, {counted[READS]} reads, "
            f"{counted[MEMORY]} allocations; {outcomes}",
            flush=True,
        )
        self.assertGreater(outcomes["refused"] + outcomes["stopped"], 0, "no fault was ever felt")


add_tests(KthCall, SCENARIOS)


class WholeProgram(ShimTest):
    """A command, or a start, from its first call to its last."""

    def sweep(self, name, run, check):
        """run(n) → exit code over the shim; check(n, code) after it."""
        self.only_if_asked(name)
        calls = self.page(Calls)
        counted, outcomes = {}, {}
        for kind in (WRITES, READS, MEMORY):
            calls.arm(kind)
            code = run(calls, kind)
            counted[kind] = calls.disarm()[0]
            check(kind, code)
            self.assertEqual(code, 0)
        for n, (fault, k) in enumerate(tries(name, counted), 4):
            kind, error, lasts, _ = FAULTS[fault]
            with self.subTest(fault=fault, k=k):
                calls.arm(kind, k, error, lasts)
                code = run(calls, n)
                calls.disarm()
                outcomes[code] = outcomes.get(code, 0) + 1
                # SIGABRT is its own: it stops before it acknowledges what is not durable.
                self.assertNotIn(code, (-signal.SIGSEGV, -signal.SIGBUS))
                check(n, code)
        print(
            f"{name}: {counted[WRITES]} writes, {counted[READS]} reads, "
            f"{counted[MEMORY]} allocations; exit codes {outcomes}",
            flush=True,
        )
        self.assertGreater(len(outcomes), 1, "no fault was ever felt")

    def test_migrate(self):
        """The first start makes every table; the next one finds them, or makes them."""

        def run(calls, n):
            data = os.path.join(self.folder, f"new-{n}")
            server = self.server(data=data, prefix=calls.words(data))
            ended = server.launch()
            if ended is None:
                server.kill()
                return 0
            return ended[0]

        def check(n, code):
            server = self.server(data=os.path.join(self.folder, f"new-{n}")).start()
            self.assertTrue(server.audit_holds())
            server.apply(shop.thing("Model", "m", description="x"))
            server.kill()

        self.sweep("migrate", run, check)

    def test_backup(self):
        """A backup is whole and says so, or there is none."""
        server = self.server().start()
        shop.stock(server)
        self.assertEqual(server.stop(), 0)

        def run(calls, n):
            out = os.path.join(self.folder, f"copy-{n}")
            command = [*calls.words(self.folder), PROGRAM, "backup", "--data", server.data]
            done = subprocess.run(
                [*command, "--out", out, "--zone", "local"],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_SECONDS,
                env=environment(),
            )
            return done.returncode

        def check(n, code):
            out = os.path.join(self.folder, f"copy-{n}")
            if code == 0:
                with open(os.path.join(out, "BACKUP.json")) as text:
                    self.assertGreater(len(json.load(text)["files"]), 5)
            if os.path.exists(out):
                done, text = self.falaj("audit", "verify", "--data", out)
                self.assertEqual(done, 0, text)
            self.assertTrue(code == 0 or not os.path.exists(out), "a backup that failed is there")

        self.sweep("backup", run, check)


class Control(OneTry):
    """A server that acknowledges what it did not keep is found."""

    def test_a_lost_write_is_noticed(self):
        class Lies(Apply):
            def act(self, server, n):
                reply = super().act(server, n)
                if n > 3 and reply.status >= 300:
                    reply.status = 200
                return reply

        scenario, calls = Lies(), self.page(Calls)
        server = self.served(scenario, calls)
        with self.assertRaises(AssertionError):
            for n, k in enumerate(range(1, 6), 4):
                self.one_try(server, scenario, calls, n, (WRITES, errno.ENOSPC, 1, 1), k)


if __name__ == "__main__":
    unittest.main()
