"""The suite itself under test: what it would say of a server with a hole in it."""

import io
import unittest

import test_grpc
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


def all_are_administrators(base):
    """The class against a server where everyone is an administrator and no token is narrowed, and
    where strangers are known. What was answered is held against nothing but the attack's own
    check: a state that an earlier attack changed would make every later test fail."""

    class Planted(base):
        @classmethod
        def prepare(cls, server):
            super().prepare(server)
            server.apply(declared("Grant", "hole", to=["everyone"], role="admin", on="platform"))
            for name, service in (("scoped", "scorer"), ("short", "short")):
                if name in cls.tokens:
                    body = {"label": "wide", "lifetime": "365d"}
                    path = f"/api/v1/users/service:{service}/tokens"
                    cls.tokens[name] = server.good("POST", path, body)["token"]

        def state(self):
            return {}

        def attack(self, who, *request, **headers):
            return super().attack(who or "mallory", *request, **headers)

        def refused(self, reply, allowed=range(400, 500)):
            """As ever, but what is refused for another reason than is expected is set apart."""
            if reply.status >= 400 and reply.status not in allowed:
                self.skipTest(str(reply.status))
            super().refused(reply, allowed)

    return Planted


def unmoved(case):
    """Of the tests, run in the order of their table, those that do not fail: what each says, which
    is "passes" or the status of another refusal than the one that it is about."""
    names = [name for name in vars(case.__mro__[1]) if name.startswith("test_")]
    result = unittest.TestResult()
    unittest.TestSuite(map(case, names)).run(result)
    if result.errors:
        raise AssertionError(f"{result.errors[0][0]}: {result.errors[0][1]}")
    failed = {test._testMethodName for test, _ in result.failures}
    said = {test._testMethodName: why for test, why in result.skipped}
    return {name: said.get(name, "passes") for name in names if name not in failed}


# What is refused to an administrator too; everything else must be let through by the hole.
REFUSED_TO_ALL = {
    test_tenants.Reaching: {
        "test_one_s_own_is_there": "passes",  # A control of what is allowed.
        # No project can be read from it.
        "test_mallory_reads_a_project_with_a_nul": "passes",
        "test_stranger_reads_a_project_with_a_nul": "passes",
        # A frozen set is of one project, whoever asks.
        "test_mallory_would_train_one_s_own_job_on_their_set": "passes",
        # The entry is no decision, a project's zone is for good, data must be kept: who may not
        # is not told so.
        "test_mallory_would_replay_an_entry": "400",
        "test_mallory_would_move_a_project": "409",
        "test_mallory_would_erase_a_person": "422",
        "test_mallory_would_shred": "422",
    },
    test_tenants.Narrow: {
        # Rules of all tokens, and a route that knows the caller's own only.
        "test_a_token_for_two_years": "passes",
        "test_a_token_for_no_time": "passes",
        "test_a_token_of_unknown_scope": "passes",
        "test_another_s_token_is_revoked_as_one_s_own": "passes",
    },
    test_grpc.Reaching: {},
}


class Holes(unittest.TestCase):
    maxDiff = None

    def test_a_grant_to_everyone_is_found_by_all_who_reach(self):
        for base, expected in REFUSED_TO_ALL.items():
            with self.subTest(base.__module__ + "." + base.__name__):
                self.assertEqual(unmoved(all_are_administrators(base)), expected)

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
