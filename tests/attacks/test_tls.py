"""Groups 15 and 16: hellos, certificates and cookies of the wrong kind."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import tempfile
import unittest

from arena import attacks
from fortress import ADMIN, Fortress, bearer, declared
from program import PATIENCE_SECONDS, Reply

OURS = "URI:spiffe://falaj.local/service/worker"


def made(folder, name, san, issuer=None, days="1", subject="/CN=worker", more=()):
    """A PEM file with a key and its certificate: self-signed, or signed by `issuer`'s."""
    path = os.path.join(folder, name)
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-keyout", path + ".key", "-out", path + ".crt", "-days", days]
    words += ["-subj", subject, *more]
    if san:
        words += ["-addext", "subjectAltName=" + san]
    if issuer:
        words += ["-CA", issuer + ".crt", "-CAkey", issuer + ".key"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(path + ".pem", "w") as out:
        for part in (".key", ".crt"):
            with open(path + part) as text:
                out.write(text.read())
    return path + ".pem"


class Channel(Fortress):
    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.TemporaryDirectory(prefix="falaj-tls-")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.keys.cleanup()

    def context(self):
        return ssl.create_default_context(cafile=self.server.authority)

    def ask(self, context, method="GET", path="/api/v1/whoami", body=None, headers=None):
        """The reply, or None when there was no connection to ask over."""
        link = http.client.HTTPSConnection(
            *self.server.address(), timeout=PATIENCE_SECONDS, context=context
        )
        try:
            link.request(method, path, body and json.dumps(body), headers or {})
            reply = link.getresponse()
            return Reply(reply.status, reply.read(), dict(reply.getheaders()))
        except (OSError, http.client.HTTPException):
            return None
        finally:
            link.close()


def limited(version):
    def context(self):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.load_verify_locations(self.server.authority)
        made.set_ciphers("ALL:@SECLEVEL=0")
        made.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        made.maximum_version = version
        return made

    return context


def suite(ciphers):
    """TLS 1.2's suites only: a hello that would be glad of anything older."""

    def context(self):
        made = limited(ssl.TLSVersion.TLSv1_2)(self)
        made.set_ciphers(ciphers)
        return made

    return context


HELLOS = {
    "TLS 1.0": limited(ssl.TLSVersion.TLSv1),
    "TLS 1.1": limited(ssl.TLSVersion.TLSv1_1),
    "TLS 1.2": limited(ssl.TLSVersion.TLSv1_2),
    "TLS 1.2 without authentication": suite("aNULL:@SECLEVEL=0"),
    "TLS 1.2 with RSA exchange": suite("kRSA:@SECLEVEL=0"),
    "TLS 1.2 with CBC": suite("AES128-SHA:@SECLEVEL=0"),
}
PLAIN = {
    "plain HTTP": b"GET /api/v1/objects HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an SSL 2 hello": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + b"\0" * 40,
    "an SSL 3 hello": b"\x16\x03\x00\x00\x2f\x01\x00\x00\x2b\x03\x00" + b"\0" * 41,
    "a heartbeat": b"\x18\x03\x03\x00\x03\x01\x40\x00",
    "an alert first": b"\x15\x03\x03\x00\x02\x02\x28",
    "a record of 64 KiB": b"\x16\x03\x01\xff\xff" + b"\x01" * 65_535,
    "a record of nothing": b"\x16\x03\x01\x00\x00" * 50,
    "a hello cut short": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an SSH banner": b"SSH-2.0-OpenSSH_9.2\r\n",
}


def channel():
    for name, context in HELLOS.items():

        def attack(self, context=context):
            self.assertIsNone(self.ask(context(self), headers=bearer(self.admin)), "it was spoken")

        yield name, attack
    for name, data in PLAIN.items():

        def attack(self, data=data):
            with socket.create_connection(self.server.address(), timeout=PATIENCE_SECONDS) as link:
                try:
                    link.sendall(data)
                    link.shutdown(socket.SHUT_WR)
                    answer = b"".join(iter(lambda: link.recv(65536), b""))
                except OSError:
                    answer = b""
            self.assertNotIn(b'objects":', answer)
            self.assertNotIn(b" 200 ", answer[:20])
            self.says_nothing_internal(answer)

        yield name, attack


@attacks(channel())
class Hellos(Channel):
    def test_TLS_1_3_is_spoken(self):
        """The control."""
        reply = self.ask(self.context(), headers=bearer(self.admin))
        self.assertEqual(reply.status, 200, reply.text)

    def test_no_ticket_brings_back_an_earlier_connection(self):
        context = self.context()
        with socket.create_connection(self.server.address(), timeout=PATIENCE_SECONDS) as link:
            with context.wrap_socket(link, server_hostname="127.0.0.1") as first:
                first.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                first.recv(4096)
                kept = first.session
        self.assertFalse(kept and kept.has_ticket, "a ticket was given")


# Certificates that no authority of this deployment made; each says what it is not.
STRANGERS = {
    "one that signs itself": lambda f: made(f, "self", OURS),
    "one that signs itself as the authority": lambda f: made(
        f, "ca", "URI:spiffe://falaj.local", subject="/CN=falaj.local authority"
    ),
    "one of another authority": lambda f: made(f, "leaf", OURS, issuer=authority(f)),
    "one of an administrator": lambda f: made(
        f, "root", "URI:spiffe://falaj.local/user/root", subject="/CN=root"
    ),
    "one by its common name": lambda f: made(f, "cn", "", subject="/CN=service:worker"),
    "one of another domain": lambda f: made(
        f, "domain", "URI:spiffe://evil.example/service/worker"
    ),
    "one of a domain that begins alike": lambda f: made(
        f, "prefix", "URI:spiffe://falaj.local.evil.example/service/worker"
    ),
    "one of two names": lambda f: made(f, "two", OURS + ",URI:spiffe://falaj.local/service/admin"),
    "one of a name that climbs": lambda f: made(
        f, "climb", "URI:spiffe://falaj.local/service/../user/root"
    ),
    "one of a name in capitals": lambda f: made(
        f, "caps", "URI:SPIFFE://FALAJ.LOCAL/service/worker"
    ),
    "one with a DNS name only": lambda f: made(f, "dns", "DNS:falaj.local"),
}


def authority(folder):
    path = os.path.join(folder, "evil")
    if not os.path.exists(path + ".pem"):
        made(folder, "evil", "", subject="/CN=evil authority")
    return path


def strangers():
    for name, make in STRANGERS.items():

        def attack(self, make=make):
            context = self.context()
            context.load_cert_chain(make(self.keys.name))
            reply = self.ask(context)
            if reply is not None:
                self.assertEqual(reply.status, 401, reply.text)

        yield name, attack


# Names that an administrator's request for a certificate may not bring in.
SERVICES = [
    "",
    ".",
    "..",
    "../user/root",
    "a/b",
    "a b",
    "a\nb",
    "a%2fb",
    "a" * 300,
    "*",
    "a?b",
    "a#b",
]


def services():
    for number, name in enumerate(SERVICES):

        def attack(self, name=name):
            body = {"service": name, "request": self.request()}
            return self.send("POST", "/api/v1/certificates", body, bearer(self.admin))

        yield f"a service named {number} {name[:12]!r}", attack


@attacks(list(strangers()) + list(services()))
class Certificates(Channel):
    def request(self, subject="/CN=x"):
        """A signing request that is in order."""
        path = os.path.join(self.keys.name, "asked")
        words = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        words += ["-nodes", "-keyout", path + ".key", "-out", path + ".csr", "-subj", subject]
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
        with open(path + ".csr") as text:
            return text.read()

    def worker(self):
        body = {"service": "worker", "request": self.request()}
        issued = self.server.good("POST", "/api/v1/certificates", body)
        path = os.path.join(self.keys.name, "worker.pem")
        with open(os.path.join(self.keys.name, "asked.key")) as key, open(path, "w") as out:
            out.write(key.read() + issued["chain"])
        self.before = self.state()
        return path

    def test_a_certificate_of_ours_is_known_and_opens_nothing_by_itself(self):
        """The control, and that being known is not being allowed."""
        context = self.context()
        context.load_cert_chain(self.worker())
        self.assertEqual(self.ask(context).status, 200)
        self.assertEqual(self.ask(context, path="/api/v1/audit").status, 403)
        body = declared("Model", "planted", "payments", description="x")
        self.assertIn(self.ask(context, "PUT", "/api/v1/objects", body).status, (403, 404))
        body = {"service": "root", "request": self.request()}
        self.assertEqual(self.ask(context, "POST", "/api/v1/certificates", body).status, 403)

    def test_nobody_but_an_administrator_has_one_made(self):
        body = {"service": "worker", "request": self.request()}
        for who in ("mallory", "reader", None):
            self.refused(self.attack(who, "POST", "/api/v1/certificates", body))
            self.refused(self.attack(who, "POST", "/api/v1/certificates:renew", body))

    def test_a_request_that_is_none(self):
        for text in ("", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n", "A" * 100_000):
            body = {"service": "worker", "request": text}
            self.refused(self.send("POST", "/api/v1/certificates", body, bearer(self.admin)))


CHANGE = ("PUT", "/api/v1/objects", declared("Model", "planted", "payments", description="x"))
COOKIES = {
    "no CSRF token": lambda s: {"Cookie": s.cookie},
    "an empty CSRF token": lambda s: {"Cookie": s.cookie, "X-Falaj-CSRF": ""},
    "a wrong CSRF token": lambda s: {"Cookie": s.cookie, "X-Falaj-CSRF": "A" * len(s.csrf)},
    "another's CSRF token": lambda s: {"Cookie": s.cookie, "X-Falaj-CSRF": s.other_csrf},
    "a CSRF token cut short": lambda s: {"Cookie": s.cookie, "X-Falaj-CSRF": s.csrf[:-1]},
    "a CSRF token in a cookie": lambda s: {"Cookie": s.cookie + "; X-Falaj-CSRF=" + s.csrf},
    "a CSRF token alone": lambda s: {"X-Falaj-CSRF": s.csrf},
    "another site": lambda s: {**s.signed_in(), "Origin": "https://evil.example"},
    "a page of no origin": lambda s: {**s.signed_in(), "Origin": "null"},
    "another port": lambda s: {**s.signed_in(), "Origin": "https://127.0.0.1:1"},
    "a rebound name": lambda s: {**s.signed_in(), "Host": "evil.example"},
    "a flipped cookie": lambda s: {**s.signed_in(), "Cookie": s.cookie[:-2] + "AA"},
    "a cookie cut short": lambda s: {**s.signed_in(), "Cookie": s.cookie[:-4]},
    "a cookie without its prefix": lambda s: {
        **s.signed_in(),
        "Cookie": s.cookie.replace("__Host-", "", 1),
    },
    "two cookies": lambda s: {**s.signed_in(), "Cookie": "__Host-falaj=AAAA; " + s.cookie[:-1]},
    "a cookie of one who left": lambda s: {"Cookie": s.left, "X-Falaj-CSRF": s.left_csrf},
    "a cookie of an old password": lambda s: {"Cookie": s.worn, "X-Falaj-CSRF": s.worn_csrf},
}


def cookies():
    for name, headers in COOKIES.items():
        yield name, lambda self, headers=headers: self.send(*CHANGE, headers(self))


@attacks(cookies())
class Sessions(Fortress):
    @classmethod
    def sign_in(cls, name, password):
        reply = cls.server.request("POST", "/api/v1/session", {"name": name, "password": password})
        assert reply.status == 200, reply.text
        cookie = reply.headers["Set-Cookie"].split(";")[0]
        return cookie, reply.value["csrf"], reply.headers["Set-Cookie"]

    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        people = {name: f"the password of {name}" for name in ("left", "worn", "other")}
        for name, password in people.items():
            server.good("POST", "/api/v1/users", {"name": name, "password": password})
        server.headers = {}
        cls.cookie, cls.csrf, cls.whole = cls.sign_in("root", ADMIN)
        _, cls.other_csrf, _ = cls.sign_in("other", people["other"])
        cls.left, cls.left_csrf, _ = cls.sign_in("left", people["left"])
        cls.worn, cls.worn_csrf, _ = cls.sign_in("worn", people["worn"])
        server.headers = {"Cookie": cls.left, "X-Falaj-CSRF": cls.left_csrf}
        server.good("DELETE", "/api/v1/session")
        server.headers = bearer(cls.admin)
        server.good("PATCH", "/api/v1/users/worn", {"password": "a password that is new"})

    def signed_in(self):
        return {"Cookie": self.cookie, "X-Falaj-CSRF": self.csrf}

    def test_the_console_s_own_page_may(self):
        """The control: what every request above differs from."""
        change = (CHANGE[0], CHANGE[1] + "?dry_run=true", CHANGE[2])
        self.assertEqual(self.send(*change, self.signed_in()).status, 200)
        for word in ("HttpOnly", "Secure", "SameSite=Strict", "Path=/"):
            self.assertIn(word, self.whole)
        self.assertNotIn("Domain", self.whole)


if __name__ == "__main__":
    unittest.main()
