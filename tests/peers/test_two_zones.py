"""The residency guide, done: two projects in two zones, an identity provider, an HSM of files.

Every file and every command of docs/guides/residency.md, from the half hour to the crossing, in its
order, on a real server with the guide's own OpenID Connect provider and SoftHSM2; then what the
guide promises is asked of it.
"""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "faults"))

from required import needs  # noqa: E402
from served import PROGRAM  # noqa: E402
from test_oidc import Browser, free_port  # noqa: E402

GUIDE = os.path.join(HERE, "../../docs/guides/residency.md")
PACKAGES = os.path.join(HERE, "../../console/node_modules")
MODULE = "/usr/lib/softhsm/libsofthsm2.so"
PASSWORD = "correct horse battery\n"
# What the test starts by itself, to know when it is ready and to stop it.
LONG_RUNNING = ("npm install", "node provider.mjs", "falaj serve")


def guide_part():
    with open(GUIDE) as guide:
        text = guide.read()
    return text[text.index("## Half an hour") : text.index("## The ten exits")]


def guide_files():
    """The files that the guide shows, by the name in their first line."""
    named = r"```(?:yaml|js)\n(?:#|//) (\S+\.(?:yaml|mjs))\n(.*?)```"
    return dict(re.findall(named, guide_part(), re.S))


def guide_commands():
    """(command, exit code that its comment tells) of every line of every block of commands."""
    lines = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", guide_part(), re.S | re.M):
        for line in [] if language else block.strip().split("\n"):
            command, _, comment = line.partition(" # ")
            told = re.search(r"exit code (\d)", comment)
            lines.append((command.rstrip(), int(told.group(1)) if told else 0))
    return [each for each in lines if not each[0].startswith(LONG_RUNNING)]


@needs(shutil.which("softhsm2-util") and os.path.exists(MODULE), "no SoftHSM2 here")
class TwoZones(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="falaj-two-zones-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.port, cls.provider_port = free_port(), free_port()
        cls.url = f"https://127.0.0.1:{cls.port}"
        cls.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("FALAJ_")},
            "PATH": os.path.dirname(os.path.abspath(PROGRAM)) + os.pathsep + os.environ["PATH"],
            "SOFTHSM2_CONF": cls.folder + "/softhsm2.conf",
            "HOME": cls.folder,
            "FALAJ_SERVER": cls.url,
            "FALAJ_CA": "data/tls/authority.pem",
        }
        cls.environment.pop("XDG_CONFIG_HOME", None)
        for name, text in guide_files().items():
            cls.write(name, cls.with_ports(text))
        cls.write("typed", PASSWORD)
        os.symlink(PACKAGES, cls.folder + "/node_modules")
        cls.commands = guide_commands()
        starts = [line.startswith("export FALAJ_SERVER") for line, _ in cls.commands]
        split = starts.index(True)
        cls.do_guide(cls.commands[:split])
        cls.start_provider()
        cls.start()
        cls.outputs = cls.do_guide(cls.commands[split:])

    @classmethod
    def with_ports(cls, text):
        return text.replace("7070", str(cls.port)).replace("9000", str(cls.provider_port))

    @classmethod
    def write(cls, name, text):
        with open(
            os.path.join(cls.folder, name), "w", opener=lambda p, f: os.open(p, f, 0o600)
        ) as out:
            out.write(text)

    @classmethod
    def do_guide(cls, commands):
        """All in one shell, as a reader has one; what each printed, by its line."""
        quarantine = "$(grep -oh 'falaj quarantine [0-9a-f]*' out.* | tail -1 | cut -d' ' -f3)"
        script = ""
        for number, (line, _) in enumerate(commands):
            if line.startswith("falaj setup"):
                link = re.findall(r"https://\S+/setup#\S+", cls.logged())[0]
                line = re.sub(r"'https.*?'", f"'{link}'", line)
            line = cls.with_ports(line).replace("quarantine ID", "quarantine " + quarantine)
            script += f"{{ {line}\n}} < typed > out.{number} 2>&1\necho $? > code.{number}\n"
        subprocess.run(["bash", "-c", script], cwd=cls.folder, env=cls.environment, check=True)
        outputs = {}
        for number, (line, code) in enumerate(commands):
            with open(f"{cls.folder}/code.{number}") as told:
                got = int(told.read())
            with open(f"{cls.folder}/out.{number}") as told:
                printed = told.read()
            assert got == code, (line, got, printed)
            outputs[line] = printed
        return outputs

    @classmethod
    def logged(cls):
        with open(cls.folder + "/log") as log:
            return log.read()

    @classmethod
    def start_provider(cls):
        cls.provider = subprocess.Popen(
            ["node", "provider.mjs"],
            cwd=cls.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        cls.addClassCleanup(cls.stop, cls.provider)
        assert cls.provider.stdout.readline() == b"ready\n", "the guide's provider does not start"

    @staticmethod
    def stop(process):
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()

    @classmethod
    def start(cls):
        with open(cls.folder + "/log", "ab") as log:
            cls.server = subprocess.Popen(
                [PROGRAM, "serve", "--data", "data", "--config", "falaj.yaml"],
                cwd=cls.folder,
                env=cls.environment,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        cls.addClassCleanup(cls.stop, cls.server)
        ready = cls.server.stdout.readline()
        assert ready.startswith(b"ready "), cls.logged()
        cls.context = ssl.create_default_context(cafile=cls.folder + "/data/tls/authority.pem")

    @classmethod
    def falaj(cls, *words, code=0):
        done = subprocess.run(
            [PROGRAM, *words],
            cwd=cls.folder,
            env=cls.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, (words, done.returncode, done.stdout)
        return done.stdout

    def callback(self, browser, person):
        """Through the provider's forms, to the address that brings the browser back."""
        url = self.url + "/auth/login"
        for _ in range(16):
            if url.startswith(self.url + "/auth/callback"):
                return url
            status, headers, body = browser.get(url)
            if status == 200:  # A form: who, and then whether Falaj may know.
                prompt = re.search(r'name="prompt" value="(\w+)"', body).group(1)
                form = {"prompt": prompt, "login": person, "password": "any"}
                data = urllib.parse.urlencode(form).encode()
                try:
                    with browser.opener.open(urllib.request.Request(url, data)) as reply:
                        status, headers = reply.status, dict(reply.getheaders())
                except urllib.error.HTTPError as moved:
                    with moved:
                        status, headers = moved.code, dict(moved.headers)
            self.assertIn(status, (302, 303), url)
            url = urllib.parse.urljoin(url, headers["Location"])
        raise AssertionError("too many redirects")

    def browser(self, person="amal"):
        browser = Browser(self.context)
        self.assertEqual(browser.get(self.callback(browser, person))[0], 302)
        return browser

    def views(self, browser, project):
        status, _, body = browser.get(f"{self.url}/api/v1/feature-views?project={project}")
        return status, json.loads(body)

    def said(self, command):
        return next(out for line, out in self.outputs.items() if line.startswith(command))

    def test_1_what_the_guide_says_of_its_commands(self):
        self.assertRegex(self.said("falaj zones"), r"ae-fin +ae +cbuae-consumer .* payments")
        keys = self.said("falaj keys list")
        self.assertIn("pkcs11", keys)
        self.assertRegex(keys, r"payments/FeatureView/customer_activity +ae-fin")
        self.assertRegex(keys, r"\w{12} +ae-fin +20")
        self.assertRegex(self.said("as lena list Project"), "not shown, .*: 1 ")
        self.assertIn("FJ-7031", self.said("as lena list FeatureView"))
        self.assertIn("but not where you are", self.said("as lena can-i"))
        self.assertIn("FJ-7031", self.said("as lena apply"))
        self.assertIn("no Transfer leads to 'eu'", self.said("falaj zones decide export"))
        self.assertIn("somebody else must approve", self.said("falaj transfers approve"))
        self.assertIn("in force", self.said("falaj transfers -p"))
        self.assertIn("many", self.said("as lena quarantine"))
        self.assertIn("FJ-7032", self.said("as lena get"))
        self.assertRegex(self.outputs["falaj ledger"], r"export +ae-fin +eu +group-risk +1 +[1-9]")

    def test_2_a_refusal_can_be_asked_about(self):
        told = re.search(r"why-denied (\w+)", self.said("as lena list FeatureView"))
        self.assertIsNotNone(told)
        self.assertIn("stays in 'ae-fin'", self.falaj("why-denied", told.group(1)))

    def test_3_the_provider_says_who_and_its_groups_where(self):
        browser = self.browser()
        who = json.loads(browser.get(self.url + "/api/v1/whoami")[2])
        self.assertEqual((who["groups"], who["zone"]), (["everybody", "risk"], "ae-fin"))
        self.assertRegex(self.falaj("users", "list"), r"oidc:amal .* active +20")
        status, views = self.views(browser, "payments")
        self.assertEqual((status, views["views"][0]["rows"]), (200, 1))
        status, refused = self.views(browser, "shop")
        self.assertEqual((status, refused["code"]), (403, "FJ-7031"))

        # Her own zone is nearer than her group's; her session ends with the change.
        self.falaj("users", "zone", "oidc:amal", "eu")
        self.assertEqual(self.views(browser, "payments")[0], 401)
        browser = self.browser()
        self.assertEqual(self.views(browser, "shop")[0], 200)
        status, refused = self.views(browser, "payments")
        self.assertEqual(status, 403)
        self.assertIn("stays in 'ae-fin'", refused["detail"])
        self.falaj("users", "zone", "oidc:amal")

        # Whoever was disabled is told so on a page.
        self.falaj("users", "disable", "oidc:amal")
        browser = Browser(self.context)
        status, headers, page = browser.get(
            self.callback(browser, "amal"), headers={"Accept": "text/html"}
        )
        self.assertGreaterEqual(status, 400)
        self.assertTrue(headers["Content-Type"].startswith("text/html"), headers)
        self.assertIn("administrator", page)
        self.falaj("users", "enable", "oidc:amal")

    def test_4_the_entry_of_a_crossing_says_as_many_bytes_as_the_ledger(self):
        self.again()
        rows = json.loads(self.falaj("ledger", "-p", "payments", "-o", "json"))["rows"]
        crossed = sum(row["bytes"] for row in rows if row["transfer"] == "group-risk")
        listed = json.loads(self.falaj("audit", "list", "--action", "transfer", "-o", "json"))
        sent = [e for e in listed["entries"] if e["action"] == "transfer.sent"]
        numbers = [str(entry["sequence"]) for entry in sent]
        shown = [json.loads(self.falaj("audit", "show", n, "-o", "json")) for n in numbers]
        self.assertGreater(crossed, 0)
        self.assertEqual(sum(entry["detail"]["bytes"] for entry in shown), crossed)

    def again(self):
        self.stop(self.server)
        self.start()

    def test_5_the_root_of_each_zone_is_in_the_hsm(self):
        self.falaj("keys", "rotate", "--zone", "ae-fin")
        self.stop(self.server)
        # The settings of the server open the folder for other commands; without them they say so.
        words = ("audit", "verify", "--data", "data")
        self.falaj(*words, "--config", "falaj.yaml")
        self.assertIn("--config", self.falaj(*words, code=1))
        serve = ("serve", "--data", "data", "--config", "falaj.yaml")
        os.rename(self.folder + "/tokens", self.folder + "/elsewhere")
        os.mkdir(self.folder + "/tokens")
        out = self.falaj(*serve, code=1)
        self.assertIn("FJ-7040", out)
        self.assertIn("SOFTHSM2_CONF", out)
        os.rmdir(self.folder + "/tokens")
        os.rename(self.folder + "/elsewhere", self.folder + "/tokens")
        # Half a provider does not start either.
        for setting in ("security.oidc_ca_file=nofile", "security.oidc_client_id="):
            out = self.falaj(*serve, "--set", setting, code=1)
            self.assertIn(setting.partition("=")[0], out)
        self.start()
        self.assertEqual(self.views(self.browser(), "payments")[0], 200)

    def test_6_the_setup_link_works_where_the_public_address_does_not_yet(self):
        words = ("serve", "--data", "fresh", "--port", "0", "--grpc-port", "0")
        public = ("--set", "server.public_url=https://falaj.example")

        def started():
            with open(self.folder + "/fresh.log", "wb") as log:
                server = subprocess.Popen(
                    [PROGRAM, *words, *public],
                    cwd=self.folder,
                    env=self.environment,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            self.addCleanup(self.stop, server)
            url = server.stdout.readline().split()[1].decode()
            with open(self.folder + "/fresh.log") as log:
                return server, url, log.read()

        server, url, banner = started()
        link = re.search(r"Setup +(\S+)", banner).group(1)
        self.assertTrue(link.startswith(url + "/setup#"), (link, url))
        # An address that is named wins over the link's.
        away = "https://falaj.example/setup#" + link.partition("#")[2]
        setup = [PROGRAM, "setup", away, "--user", "root", "--server", url]
        subprocess.run(
            [*setup, "--ca", "fresh/tls/authority.pem"],
            cwd=self.folder,
            env=self.environment,
            input=PASSWORD.encode(),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.stop(server)
        self.assertRegex(started()[2], r"Console +https://falaj.example\n")


if __name__ == "__main__":
    unittest.main()
