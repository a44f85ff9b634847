"""MLflow's own HTTP code signs in here by MLflow's own variables, over TLS.

Only who is asking is looked at (GET /api/v1/whoami): whatever MLflow's client sends as
MLFLOW_TRACKING_USERNAME, _PASSWORD and _TOKEN must be understood as it is.
"""

import json
import os
import unittest

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"

from mlflow.utils.credentials import get_default_host_creds  # noqa: E402
from mlflow.utils.rest_utils import http_request  # noqa: E402
from served import PASSWORD, Served  # noqa: E402

VARIABLES = ("USERNAME", "PASSWORD", "TOKEN", "SERVER_CERT_PATH", "INSECURE_TLS")


class MlflowSignIn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served().start()
        cls.addClassCleanup(cls.served.remove)
        cls.served.set_up("amal")
        made = cls.served.falaj("tokens", "add", "--lifetime", "1h", "-o", "json")
        cls.token = json.loads(made)["token"]

    def setUp(self):
        self.clear()
        self.addCleanup(self.clear)

    @staticmethod
    def clear():
        for name in VARIABLES:
            os.environ.pop("MLFLOW_TRACKING_" + name, None)

    def whoami(self, **variables):
        """(status, answer) as MLflow's client with these variables gets it."""
        self.clear()
        variables.setdefault("SERVER_CERT_PATH", self.served.authority)
        for name, value in variables.items():
            os.environ["MLFLOW_TRACKING_" + name] = value
        reply = http_request(
            get_default_host_creds(self.served.url),
            "/api/v1/whoami",
            "GET",
            max_retries=0,
            timeout=30,
        )
        return reply.status_code, reply.json()

    def test_basic_by_password(self):
        status, who = self.whoami(USERNAME="amal", PASSWORD=PASSWORD)
        self.assertEqual((status, who["name"], who["credential"]), (200, "amal", "password"))

    def test_basic_by_token(self):
        for name in ("amal", "token"):
            status, who = self.whoami(USERNAME=name, PASSWORD=self.token)
            self.assertEqual((status, who["name"]), (200, "amal"), name)
            self.assertEqual(who["credential"], "token")

    def test_bearer(self):
        status, who = self.whoami(TOKEN=self.token)
        self.assertEqual((status, who["name"]), (200, "amal"))
        self.assertEqual(who["credential"], "token")

    def test_wrong_ones_are_refused(self):
        flipped = self.token[:-1] + ("A" if self.token[-1] != "A" else "E")
        wrong = [
            {},
            {"USERNAME": "amal", "PASSWORD": "wrong horse battery"},
            {"USERNAME": "omar", "PASSWORD": PASSWORD},
            {"USERNAME": "omar", "PASSWORD": self.token},
            {"TOKEN": flipped},
            {"TOKEN": "nonsense"},
        ]
        for variables in wrong:
            status, answer = self.whoami(**variables)
            self.assertEqual(status, 401, variables)
            self.assertIn("code", answer)
            self.assertNotIn("name", answer)

    def test_a_server_without_a_known_certificate_is_not_talked_to(self):
        os.environ["MLFLOW_TRACKING_TOKEN"] = self.token
        with self.assertRaises(Exception) as failed:
            http_request(
                get_default_host_creds(self.served.url), "/api/v1/whoami", "GET", max_retries=0
            )
        self.assertIn("certificate verify failed", str(failed.exception))


if __name__ == "__main__":
    unittest.main()
