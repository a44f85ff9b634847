"""The suite itself under test: what it would say of a server with a hole in it."""

import io
import unittest

import test_identity
import test_tenants
from arena import Arena, attacks
from fortress import declared
from program import Reply


def failures_of(case):
    """How many of the class's tests fail, and how many there are."""
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    return len({str(test) for test, _ in result.failures + result.errors}), result.testsRun


def planted(base, hole):
    """The class with a hole in the server that it attacks."""

    class Planted(base):
        @classmethod
        def prepare(cls, server):
            super().prepare(server)
            server.apply(hole)

    return Planted


class Holes(unittest.TestCase):
    def test_a_grant_to_everyone_is_found_by_who_reaches(self):
        hole = declared("Grant", "hole", to=["everyone"], role="admin", on="platform")
        failed, run = failures_of(planted(test_tenants.Reaching, hole))
        self.assertGreater(failed, run // 4, "a grant to everyone went unnoticed")

    def test_a_tenant_that_is_shared_is_found(self):
        hole = declared(
            "Grant", "hole", to=["service:mallory"], role="viewer", on={"project": "payments"}
        )
        failed, _ = failures_of(planted(test_tenants.Reaching, hole))
        self.assertGreater(failed, 10)

    def test_a_server_that_takes_any_credential_is_found(self):
        class Open(test_identity.Credentials):
            def send(self, method, path, body=None, headers=None):
                return super().send(method, path, body, dict(self.server.headers))

        failed, run = failures_of(Open)
        self.assertGreater(failed, run * 3 // 4)


class Checks(unittest.TestCase):
    """What `attacks` and Arena say of one reply each."""

    def failed(self, attack, change=lambda case: None):
        class Case(Arena):
            changed = []

            @classmethod
            def prepare(cls, server):
                pass

            def state(self):
                return {"changed": len(self.changed)}

        def both(case):
            change(case)
            return attack

        return failures_of(attacks([("it", both)])(Case))[0]

    def test_what_is_let_through_fails(self):
        self.assertEqual(self.failed(Reply(200, b"{}", {})), 1)

    def test_an_error_of_the_server_fails(self):
        self.assertEqual(self.failed(Reply(500, b"{}", {})), 1)

    def test_a_refusal_that_names_something_internal_fails(self):
        self.assertEqual(self.failed(Reply(404, b"no such file /var/lib/falaj/x", {})), 1)

    def test_a_refusal_after_which_something_is_different_fails(self):
        self.assertEqual(self.failed(Reply(403, b"{}", {}), lambda case: case.changed.append(1)), 1)

    def test_a_refusal_passes(self):
        self.assertEqual(self.failed(Reply(403, b"{}", {})), 0)


if __name__ == "__main__":
    unittest.main()
