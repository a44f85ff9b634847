"""The kernel gives no random bytes: nothing is made that should have been a secret, and nothing is
acknowledged. The server stops, and its next start finds everything as it was."""

import errno
import os
import signal
import unittest

from program import PATIENCE_SECONDS
from scenarios import SCENARIOS, Calls, ShimTest, add_tests

RANDOM = 5


class NoEntropy(ShimTest):
    def one_scenario(self, name, scenario):
        calls = self.page(Calls)
        server = self.served(scenario, calls)
        calls.arm(RANDOM)
        drawn = self.watched(server, scenario, 1, calls.disarm)[0]
        self.assertGreater(drawn, 0, "the control: it draws random bytes when there are some")
        for n, error in enumerate((errno.EIO, errno.ENOSYS), 2):
            with self.subTest(error=errno.errorcode[error]):
                calls.arm(RANDOM, 1, error, lasts=1)
                outcome = self.acted(server, scenario, n)
                self.assertIn(outcome, ("stopped", "refused"))
                code = server.process.wait(timeout=PATIENCE_SECONDS)
                self.assertEqual(code, -signal.SIGABRT, server.tail())
                self.assertGreater(calls.disarm()[1], 0)
                server.kill()
                server.start()
                self.assertEqual(scenario.there(server, n), 0, "nothing was made")
                self.check_after(server, scenario, n, outcome)


add_tests(NoEntropy, {name: SCENARIOS[name] for name in
                      ("ingest", "key rotation", "token creation", "user creation")})


class FirstStart(ShimTest):
    def test_makes_no_keys_of_nothing(self):
        calls = self.page(Calls)
        data = os.path.join(self.folder, "data")
        server = self.server(data=data, prefix=calls.words(data))
        calls.arm(RANDOM, 1, errno.EIO, lasts=1)
        ended = server.launch()
        self.assertIsNotNone(ended, "it serves with keys that are no secret")
        self.assertNotEqual(ended[0], 0)
        self.assertGreater(calls.disarm()[1], 0)
        server.start()
        self.assertTrue(server.audit_holds())


if __name__ == "__main__":
    unittest.main()
