"""The residency guide, done: two projects in two zones, an identity provider, an HSM of files.

Every command of docs/guides/residency.md's half hour, on a real server with a real OpenID Connect
provider and SoftHSM2; then what the guide promises is asked of it.
"""

import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import unittest

from served import PROGRAM
from test_oidc import Browser, Provider, free_port

HERE = os.path.dirname(os.path.abspath(__file__))
GUIDE = os.path.join(HERE, "../../docs/guides/residency.md")
MODULE = "/usr/lib/softhsm/libsofthsm2.so"
PASSWORD = "correct horse battery\n"


def guide_files():
    """The YAML files that the guide shows, by the name in their first line."""
    with open(GUIDE) as guide:
        blocks = re.findall(r"```yaml\n# (\S+\.yaml)\n(.*?)```", guide.read(), re.S)
    return dict(blocks)


@unittest.skipUnless(shutil.which("softhsm2-util") and os.path.exists(MODULE), "no SoftHSM2 here")
class TwoZones(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="falaj-two-zones-")
        cls.port = free_port()
        cls.url = f"https://127.0.0.1:{cls.port}"
        cls.provider = Provider(cls.url + "/auth/callback")
        cls.provider.start()
        os.mkdir(cls.folder + "/tokens")
        cls.write("softhsm2.conf", f"directories.tokendir = {cls.folder}/tokens\n")
        cls.write("oidc-secret", "a secret: of + the console\n")
        cls.write("pin", "4711\n")
        cls.write("rows.csv", "customer_id,at,amount\n1,2026-01-01T00:00:00Z,5\n")
        cls.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("FALAJ_")},
            "SOFTHSM2_CONF": cls.folder + "/softhsm2.conf",
            "HOME": cls.folder,
            "FALAJ_SERVER": cls.url,
            "FALAJ_CA": "data/tls/authority.pem",
        }
        subprocess.run(
            "softhsm2-util --init-token --free --label falaj --pin 4711 --so-pin 87654321".split(),
            env=cls.environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        files = guide_files()
        settings = files.pop("falaj.yaml")
        settings = settings.replace("https://id.example/realms/bank", cls.provider.issuer)
        settings = settings.replace("https://falaj.example:7070", cls.url)
        settings = settings.replace("falaj-console", "console").replace("7070", str(cls.port))
        cls.write("falaj.yaml", settings)
        for name, text in files.items():
            cls.write(name, text)
        cls.start()
        link = re.findall(r"https://\S+/setup#\S+", cls.logged())[0]
        cls.falaj("setup", link, "--user", "root", typed=PASSWORD)
        cls.falaj("login", "--user", "root", typed=PASSWORD)

    @classmethod
    def write(cls, name, text):
        with open(
            os.path.join(cls.folder, name), "w", opener=lambda p, f: os.open(p, f, 0o600)
        ) as out:
            out.write(text)

    @classmethod
    def logged(cls):
        with open(cls.folder + "/log") as log:
            return log.read()

    @classmethod
    def start(cls):
        cls.log = open(cls.folder + "/log", "ab")
        cls.server = subprocess.Popen(
            [PROGRAM, "serve", "--data", "data", "--config", "falaj.yaml"],
            cwd=cls.folder,
            env=cls.environment,
            stdout=subprocess.PIPE,
            stderr=cls.log,
        )
        ready = cls.server.stdout.readline()
        assert ready.startswith(b"ready "), cls.logged()
        cls.context = ssl.create_default_context(cafile=cls.folder + "/data/tls/authority.pem")

    @classmethod
    def tearDownClass(cls):
        cls.provider.stop()
        cls.server.terminate()
        cls.server.wait(timeout=10)
        cls.server.stdout.close()
        cls.log.close()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def falaj(cls, *words, code=0, typed=None):
        done = subprocess.run(
            [PROGRAM, *words],
            cwd=cls.folder,
            env=cls.environment,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, (words, done.returncode, done.stdout)
        return done.stdout

    def browser(self):
        browser = Browser(self.context)
        status = browser.get(browser.follow(self.url + "/auth/login", self.url + "/auth/callback"))
        self.assertEqual(status[0], 302)
        return browser

    def views(self, browser, project):
        status, _, body = browser.get(f"{self.url}/api/v1/feature-views?project={project}")
        return status, json.loads(body)

    def test_the_half_hour_of_the_guide(self):
        for name in ("firm.yaml", "who.yaml", "data.yaml"):
            self.falaj("apply", "-f", name)
        self.assertRegex(self.falaj("zones"), r"ae-fin +ae +cbuae-consumer .* payments")
        self.falaj("groups", "zone", "risk", "ae-fin")
        self.falaj("ingest", "customer_activity", "-p", "payments")
        keys = self.falaj("keys", "list", "-p", "payments")
        self.assertIn("pkcs11", keys)
        self.assertRegex(keys, r"payments/FeatureView/customer_activity +ae-fin")

        # The provider's group says where amal is, and so what may be given to her.
        browser = self.browser()
        who = json.loads(browser.get(self.url + "/api/v1/whoami")[2])
        self.assertEqual((who["groups"], who["zone"]), (["everybody", "risk"], "ae-fin"))
        status, views = self.views(browser, "payments")
        self.assertEqual((status, views["views"][0]["rows"]), (200, 1))
        status, refused = self.views(browser, "shop")
        self.assertEqual((status, refused["code"]), (403, "FJ-7031"))

        # Her own zone is nearer than her group's; her session ends with the change.
        self.falaj("users", "zone", "oidc:amal@example.com", "eu")
        self.assertEqual(self.views(browser, "payments")[0], 401)
        browser = self.browser()
        self.assertEqual(self.views(browser, "shop")[0], 200)
        status, refused = self.views(browser, "payments")
        self.assertEqual((status, refused["code"]), (403, "FJ-7031"))
        self.assertIn("stays in 'ae-fin'", refused["detail"])
        self.falaj("users", "zone", "oidc:amal@example.com")

        # Nothing crossed; a transfer would be the only way.
        self.assertIn("crossed zones: 0 bytes", self.falaj("ledger"))
        out = self.falaj("zones", "decide", "export", "--to", "eu", "-p", "payments", code=4)
        self.assertIn("no Transfer leads to 'eu'", out)
        self.falaj("apply", "-f", "transfer.yaml")
        out = self.falaj("transfers", "approve", "group-risk", "-p", "payments", code=4)
        self.assertIn("somebody else must approve", out)

        # The root of each zone is in the HSM: without it the folder does not open.
        self.falaj("keys", "rotate", "--zone", "ae-fin")
        self.server.terminate()
        self.server.wait(timeout=10)
        self.server.stdout.close()
        self.log.close()
        os.rename(self.folder + "/tokens", self.folder + "/elsewhere")
        os.mkdir(self.folder + "/tokens")
        done = subprocess.run(
            [PROGRAM, "serve", "--data", "data", "--config", "falaj.yaml"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FJ-7040", done.stdout)
        os.rmdir(self.folder + "/tokens")
        os.rename(self.folder + "/elsewhere", self.folder + "/tokens")
        self.start()
        self.assertEqual(self.views(self.browser(), "payments")[0], 200)


if __name__ == "__main__":
    unittest.main()
