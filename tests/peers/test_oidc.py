"""Signing in by a real OpenID Connect provider: the console's code flow and bearer tokens."""

import base64
import http.client
import http.cookiejar
import json
import os
import socket
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from served import Served

HERE = os.path.dirname(os.path.abspath(__file__))


def free_port():
    """A port that nobody has now: both sides must know each other's before they start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Provider:
    def __init__(self, redirect):
        self.port, self.redirect, self.process = free_port(), redirect, None
        self.issuer = f"http://127.0.0.1:{self.port}"

    def start(self, key="first", offset=0):
        self.stop()
        options = {"port": self.port, "redirect": self.redirect, "key": key, "offset": offset}
        self.process = subprocess.Popen(
            ["node", os.path.join(HERE, "oidc_provider.mjs"), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout.readline() == b"ready\n", "the provider does not start"

    def stop(self):
        if self.process is None:
            return
        self.process.terminate()
        self.process.wait(timeout=10)
        self.process.stdout.close()
        self.process = None

    def token(self, resource="urn:falaj"):
        """An access token for a program, by client credentials."""
        basic = base64.b64encode(b"robot:robots+secret").decode()
        form = {"grant_type": "client_credentials", "resource": resource, "scope": "api"}
        request = urllib.request.Request(
            self.issuer + "/token",
            urllib.parse.urlencode(form).encode(),
            {"Authorization": "Basic " + basic},
        )
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)["access_token"]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Browser:
    """Follows redirects by hand and keeps cookies, like a person's browser."""

    def __init__(self, context):
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(
            NoRedirect,
            urllib.request.HTTPCookieProcessor(self.jar),
            urllib.request.HTTPSHandler(context=context),
        )

    def get(self, url, method="GET", headers=None):
        request = urllib.request.Request(url, method=method, headers=headers or {})
        try:
            with self.opener.open(request) as reply:
                return reply.status, dict(reply.getheaders()), reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers), error.read().decode()

    def account(self, provider, name):
        """Who the provider takes this browser's person for."""
        cookie = http.cookiejar.Cookie(
            0, "account", name, None, False, "127.0.0.1", True, False, "/", True,
            False, None, True, None, None, {},
        )  # fmt: skip
        self.jar.set_cookie(cookie)

    def follow(self, url, until):
        """The first address that begins with `until`, not opened."""
        for _ in range(12):
            if url.startswith(until):
                return url
            status, headers, body = self.get(url)
            assert status in (302, 303), (status, url, body)
            url = urllib.parse.urljoin(url, headers["Location"])
        raise AssertionError("too many redirects")


class OidcTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.port = free_port()
        cls.url = f"https://127.0.0.1:{cls.port}"
        cls.provider = Provider(cls.url + "/auth/callback")
        cls.provider.start()
        cls.addClassCleanup(cls.provider.stop)
        cls.served = Served(cls.port)
        cls.folder = cls.served.folder
        secret = os.path.join(cls.folder, "secret")
        with open(secret, "w") as out:
            out.write("a secret: of + the console\n")
        os.chmod(secret, 0o600)
        settings = {
            "security.oidc_issuer": cls.provider.issuer,
            "security.oidc_client_id": "console",
            "security.oidc_client_secret_file": secret,
            "server.public_url": cls.url,
        }
        cls.served.flags = [w for pair in settings.items() for w in ("--set", "=".join(pair))]
        cls.served.start()
        cls.addClassCleanup(cls.served.remove)
        cls.context = cls.served.context
        cls.served.set_up("root")

    def whoami(self, token):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context)
        connection.request("GET", "/api/v1/whoami", headers={"Authorization": "Bearer " + token})
        reply = connection.getresponse()
        body = json.load(reply)
        connection.close()
        return reply.status, body

    def begin(self, browser, return_to="/models"):
        start = self.url + "/auth/login?return_to=" + urllib.parse.quote(return_to)
        return browser.follow(start, self.url + "/auth/callback")

    def session(self, browser):
        return json.loads(browser.get(self.url + "/api/v1/session")[2])

    def test_a_person_signs_in_to_the_console(self):
        browser = Browser(self.context)
        self.assertFalse(self.session(browser)["signed_in"])
        self.assertTrue(self.session(browser)["provider"])
        callback = self.begin(browser)
        status, headers, _ = browser.get(callback)
        self.assertEqual((status, headers["Location"]), (302, "/models"))
        session = self.session(browser)
        self.assertTrue(session["signed_in"])
        self.assertEqual(session["user"]["name"], "amal@example.com")
        self.assertEqual(session["user"]["groups"], ["everybody", "risk"])
        self.assertTrue(session["user"]["id"].startswith("user:o_"))
        self.assertEqual(session["user"]["credential"], "session")
        # A change needs the page's own token; signing out is a change.
        where = self.url + "/api/v1/session"
        self.assertEqual(browser.get(where, "DELETE")[0], 403)
        self.assertEqual(browser.get(where, "DELETE", {"X-Falaj-CSRF": "guess"})[0], 403)
        self.assertTrue(self.session(browser)["signed_in"])
        self.assertEqual(browser.get(where, "DELETE", {"X-Falaj-CSRF": session["csrf"]})[0], 200)
        self.assertFalse(self.session(browser)["signed_in"])

    def test_the_session_cookie_is_out_of_reach_of_scripts_and_other_sites(self):
        browser = Browser(self.context)
        headers = browser.get(self.begin(browser))[1]
        cookies = [c for c in browser.jar if c.name == "__Host-falaj"]
        self.assertEqual(len(cookies), 1)
        self.assertTrue(cookies[0].secure)
        self.assertIn("HttpOnly", cookies[0]._rest)
        self.assertEqual(cookies[0]._rest.get("SameSite"), "Strict")
        self.assertEqual(headers["Cache-Control"], "no-store")

    def test_a_code_and_state_are_good_once_and_in_one_browser(self):
        browser, other = Browser(self.context), Browser(self.context)
        callback = self.begin(browser)
        self.assertEqual(other.get(callback)[0], 401)  # A forwarded link: spent and refused.
        self.assertEqual(browser.get(callback)[0], 401)
        callback = self.begin(browser)
        self.assertEqual(browser.get(callback)[0], 302)
        replayed = browser.get(callback)
        self.assertEqual(replayed[0], 401)
        self.assertIn("FJ-7011", replayed[2])
        # A fresh state with a code that was used before: the provider refuses the code.
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(callback).query)["code"][0]
        fresh = urllib.parse.urlsplit(self.begin(browser))
        query = {k: v[0] for k, v in urllib.parse.parse_qs(fresh.query).items()}
        query["code"] = code
        stolen = fresh._replace(query=urllib.parse.urlencode(query)).geturl()
        self.assertEqual(browser.get(stolen)[0], 503)
        for query in ("", "?code=x", "?state=x", "?code=x&state=x", "?error=access_denied"):
            self.assertEqual(browser.get(self.url + "/auth/callback" + query)[0], 401, query)

    def test_it_returns_to_this_server_only(self):
        for target in ("//evil.example", "https://evil.example/", "/\\evil.example", "models"):
            browser = Browser(self.context)
            status, headers, _ = browser.get(self.begin(browser, target))
            self.assertEqual((status, headers["Location"]), (302, "/"), target)

    def test_the_code_is_bound_to_this_sign_in(self):
        """PKCE: a challenge of its own each time; without its verifier a code is worth nothing."""
        browser = Browser(self.context)
        start = self.url + "/auth/login?return_to=/"
        challenges = set()
        for _ in range(2):
            location = browser.get(start)[1]["Location"]
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(location).query)
            self.assertEqual(query["code_challenge_method"], ["S256"])
            self.assertRegex(query["code_challenge"][0], "^[A-Za-z0-9_-]{43}$")
            self.assertNotIn("code_verifier", query)
            challenges.add(query["code_challenge"][0])
        self.assertEqual(len(challenges), 2)
        # Somebody has the code and even the client's secret: the provider wants the verifier.
        callback = urllib.parse.urlsplit(self.begin(browser))
        form = {
            "grant_type": "authorization_code",
            "code": urllib.parse.parse_qs(callback.query)["code"][0],
            "redirect_uri": self.url + "/auth/callback",
        }
        basic = base64.b64encode(b"console:a+secret%3A+of+%2B+the+console").decode()
        for verifier in ({}, {"code_verifier": "x" * 43}):
            request = urllib.request.Request(
                self.provider.issuer + "/token",
                urllib.parse.urlencode({**form, **verifier}).encode(),
                {"Authorization": "Basic " + basic},
            )
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            with refused.exception as error:
                self.assertEqual((error.code, json.load(error)["error"]), (400, "invalid_grant"))

    def test_groups_of_the_provider_have_roles_here(self):
        grant = os.path.join(self.folder, "grant.yaml")
        with open(grant, "w") as out:
            out.write(
                "kind: Grant\nmetadata: {name: risk-builds}\n"
                "spec: {to: [group:risk], role: editor, on: {project: default}}\n"
            )
        amal, omar = Browser(self.context), Browser(self.context)
        for browser, name in ((amal, "amal"), (omar, "omar")):
            browser.account(self.provider, name)
            self.assertEqual(browser.get(self.begin(browser))[0], 302)
        self.assertEqual(self.session(amal)["user"]["name"], "amal@example.com")
        self.assertEqual(self.session(omar)["user"]["name"], "omar@example.com")
        self.assertEqual(self.session(omar)["user"]["groups"], [])
        runs = self.url + "/api/v1/runs"

        def rights(browser):
            mine = json.loads(browser.get(self.url + "/api/v1/access:mine")[2])
            return set(mine["projects"].get("default", {"all": []})["all"]), mine["platform"]

        self.assertNotEqual(amal.get(runs)[0], 200, "a group without a grant opens nothing")
        self.served.falaj("apply", "-f", grant)
        self.assertEqual(amal.get(runs)[0], 200)
        self.assertNotEqual(omar.get(runs)[0], 200, "another person of the same provider")
        self.assertIn("training.run", rights(amal)[0])
        self.assertNotIn("models.promote", rights(amal)[0], "an editor, and no more")
        self.assertNotIn("audit.read", rights(amal)[1])
        self.served.falaj("delete", "grant", "risk-builds")
        self.assertNotEqual(amal.get(runs)[0], 200, "and it ends with the grant")

    def test_a_program_uses_its_access_token(self):
        status, who = self.whoami(self.provider.token())
        self.assertEqual((status, who["name"], who["credential"]), (200, "robot", "oidc"))
        status, refused = self.whoami(self.provider.token("urn:somebody-else"))
        self.assertEqual((status, refused["code"]), (401, "FJ-7013"))
        self.assertIn("another audience", refused["detail"])
        token = self.provider.token()
        head, payload, signature = token.split(".")
        for bad in (f"{head}.{payload}.", f"{head}.{payload}.{signature[:-4]}AAAA", "a.b.c"):
            self.assertEqual(self.whoami(bad)[0], 401)

    def test_wrong_clocks(self):
        for offset, status, code in ((30, 200, ""), (300, 401, "FJ-7013"), (-7200, 401, "FJ-7012")):
            self.provider.start(offset=offset)
            got, body = self.whoami(self.provider.token())
            self.assertEqual((got, body.get("code", "")), (status, code), offset)
        self.provider.start()

    def test_zz_rotated_keys_and_a_provider_that_is_down(self):
        before = self.provider.token()
        self.assertEqual(self.whoami(before)[0], 200)
        self.provider.stop()
        # Known keys still hold; a browser is told plainly.
        self.assertEqual(self.whoami(before)[0], 200)
        browser = Browser(self.context)
        # Its addresses are known already, so the way there is still shown.
        self.assertIn(browser.get(self.url + "/auth/login")[0], (302, 503))
        self.provider.start(key="second")
        after = self.provider.token()
        # At most one fetch in half a minute, whatever key ids are asked for: the new key is either
        # believed at once or refused until then, and never breaks what held before.
        never, began = threading.Event(), time.monotonic()
        while True:
            status, body = self.whoami(after)
            if status == 200:
                break
            self.assertEqual((status, body["code"]), (401, "FJ-7013"))
            self.assertLess(time.monotonic() - began, 60, "the new key is never believed")
            never.wait(0.5)
        self.assertEqual(self.whoami(before)[0], 200, "proven while its key held")
        # A server that starts now asks at once, and knows the new key alone.
        self.served.stop()
        self.served.start()
        status, body = self.whoami(after)
        self.assertEqual(status, 200, body)
        self.assertEqual(self.whoami(before)[0], 401, "the provider has given this key up")


if __name__ == "__main__":
    unittest.main()
