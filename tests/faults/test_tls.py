"""`falaj serve` from outside: what it speaks, to whom, and what a fresh install gives away."""
import base64
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import unittest

from program import PATIENCE_SECONDS, ProgramTest, environment
from required import needs

OPENSSL = shutil.which("openssl")


def openssl(*words, cwd, text=""):
    done = subprocess.run([OPENSSL, *words], cwd=cwd, input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS)
    return done.returncode, done.stdout.decode(errors="replace")


class TlsTest(ProgramTest):
    def falaj(self, *words, token="", **more):
        own = {"XDG_CONFIG_HOME": self.folder, **({"FALAJ_TOKEN": token} if token else {})}
        return super().falaj(*words, env={**environment(), **own}, **more)

    def production(self, *flags, **more):
        return self.server(*flags, mode="serve", **more)

    def ask(self, server, method, path, certificate, body=None):
        connection = server.connect(certificate)
        try:
            connection.request(method, path, body and json.dumps(body))
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read() or b"null")
        finally:
            connection.close()

    def hello(self, server, *words):
        """`openssl s_client` with those words; all that it printed."""
        host, port = server.address()
        return openssl("s_client", "-connect", f"{host}:{port}", "-CAfile", server.authority,
                       *words, cwd=self.folder)[1]


@needs(OPENSSL, "the openssl program is not installed")
class Protocol(TlsTest):
    def test_speaks_1_3_with_a_believable_chain_and_refuses_every_older_version(self):
        server = self.production().start()
        good = self.hello(server, "-tls1_3")
        self.assertIn("Verify return code: 0 (ok)", good)
        self.assertIn("TLS_AES_256_GCM_SHA384", good)
        self.assertIn("No ALPN", good)
        for version in ("-tls1_2", "-tls1_1", "-tls1"):
            refused = self.hello(server, version, "-cipher", "ALL:@SECLEVEL=0")
            self.assertIn("no peer certificate available", refused, version)
            self.assertIn("Cipher is (NONE)", refused, version)

    def test_gives_nothing_to_resume_with(self):
        server = self.production().start()
        host, port = server.address()
        saved = os.path.join(self.folder, "session.pem")
        request = f"GET /livez HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
        _, text = openssl("s_client", "-connect", f"{host}:{port}", "-CAfile", server.authority,
                          "-quiet", "-ign_eof", "-sess_out", saved, cwd=self.folder, text=request)
        self.assertIn("200 OK", text)
        self.assertFalse(os.path.exists(saved) and os.path.getsize(saved), "a session was given")

    def test_a_foreign_authority_with_our_names_is_refused(self):
        server = self.production().start()
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", "key.pem", "-out", "cert.pem", "-days", "1", "-subj", "/CN=admin",
                "-addext", "subjectAltName=URI:spiffe://falaj.local/service/admin",
                cwd=self.folder)
        both = os.path.join(self.folder, "both.pem")
        with open(both, "w") as out:
            for name in ("key.pem", "cert.pem"):
                with open(os.path.join(self.folder, name)) as part:
                    out.write(part.read())
        connection = server.connect(certificate=both)
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            connection.request("GET", "/livez")
            connection.getresponse()
        connection.close()
        self.assertTrue(server.answers())

    def test_plain_http_is_told_to_use_https(self):
        server = self.production().start()
        with socket.create_connection(server.address(), timeout=PATIENCE_SECONDS) as plain:
            plain.sendall(b"GET /api/v1/objects HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b"".join(iter(lambda: plain.recv(65536), b""))
        self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer[:100])
        self.assertIn(b"https://", answer)

    def test_a_client_that_does_not_know_the_authority_is_told_how_to(self):
        server = self.production().start()
        code, text = self.falaj("list", "--server", server.url)
        self.assertEqual(code, 4, text)
        self.assertIn("--ca", text)


class Handshakes(TlsTest):
    def test_a_slow_handshake_is_cut_and_nobody_else_waits(self):
        server = self.production("--set", "server.header_timeout=200ms").start()
        with socket.create_connection(server.address(), timeout=PATIENCE_SECONDS) as slow:
            slow.sendall(b"\x16\x03\x01")
            self.assertTrue(server.answers())
            self.assertEqual(slow.recv(100), b"")

    def test_a_thousand_half_open_handshakes_keep_nobody_out(self):
        server = self.production().start()
        held = []
        try:
            for i in range(1000):
                held.append(socket.create_connection(server.address(), timeout=PATIENCE_SECONDS))
                if i % 2:
                    held[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            for _ in range(10):
                self.assertTrue(server.answers())
        finally:
            for each in held:
                each.close()
        self.assertTrue(server.answers())


class Certificates(TlsTest):
    def test_the_authority_survives_a_restart_and_a_kill(self):
        server = self.production().start()
        with open(server.authority) as file:
            first = file.read()
        server.kill()
        server.start()
        self.assertTrue(server.answers())
        self.assertEqual(server.stop(), 0)
        server.start()
        with open(server.authority) as file:
            self.assertEqual(file.read(), first)

    def test_given_files_are_used_and_read_again_when_they_change(self):
        own = self.production().start()
        chain, key = (os.path.join(self.folder, name) for name in ("chain.pem", "key.pem"))

        def make(days):
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", key, "-out", chain, "-days", str(days), "-subj",
                    "/CN=ours", "-addext", "subjectAltName=IP:127.0.0.1", cwd=self.folder)
        make(1)
        own.stop()
        server = self.production("--set", f"server.tls_cert={chain}", "--set",
                                 f"server.tls_key={key}", data=own.data)
        server.authority = chain
        server.start()
        self.assertTrue(server.answers())
        kept = server.connect()
        kept.request("GET", "/livez")
        self.assertEqual(kept.getresponse().read()[:0], b"")
        make(2)
        shown = ssl.get_server_certificate(server.address())
        with open(chain) as file:
            wanted = file.read()
        # Connections made before go on; new ones see the new certificate within a tick.
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / 0.2)):
            if shown.strip() == wanted.strip():
                break
            pause.wait(0.2)
            shown = ssl.get_server_certificate(server.address())
        self.assertEqual(shown.strip(), wanted.strip())
        kept.request("GET", "/livez")
        self.assertEqual(kept.getresponse().status, 200)
        kept.close()

    def test_files_that_do_not_fit_stop_the_start(self):
        missing = os.path.join(self.folder, "none.pem")
        text = self.refused(self.production("--set", f"server.tls_cert={missing}", "--set",
                                            f"server.tls_key={missing}"), "FJ-")
        self.assertIn("server.tls_cert", text)


class Processes(TlsTest):
    """Two programs of one deployment: the second proves itself by certificate only."""

    def issue(self, server, token, name):
        """By the command line, as an administrator would; the PEM file with key and chain."""
        path = os.path.join(self.folder, name + ".pem")
        code, text = self.falaj("certificates", "issue", name, "--out", path, "--server",
                                server.url, "--ca", server.authority, token=token)
        self.assertEqual(code, 0, text)
        self.assertIn(f"spiffe://falaj.local/service/{name}", text)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        return path

    def test_a_process_is_known_by_its_certificate_and_gets_what_it_was_granted(self):
        server = self.production().start()
        pem = self.issue(server, server.set_up(), "scraper")
        who = "service:spiffe://falaj.local/service/scraper"
        status, account = self.ask(server, "GET", "/api/v1/whoami", pem)
        self.assertEqual((status, account["id"]), (200, who), account)
        self.assertEqual(self.ask(server, "GET", "/api/v1/audit", pem)[0], 403)
        server.apply({"apiVersion": "falaj.dev/v1", "kind": "Grant",
                      "metadata": {"name": "scraper"},
                      "spec": {"to": [who], "role": "auditor", "on": "platform"}})
        status, audit = self.ask(server, "GET", "/api/v1/audit", pem)
        self.assertEqual(status, 200, audit)
        issued = [e for e in audit["entries"] if e["action"] == "certificate.issue"]
        self.assertEqual(len(issued), 1)
        self.assertEqual(issued[0]["object"], "Certificate/spiffe://falaj.local/service/scraper")

    def test_only_an_administrator_has_certificates_issued(self):
        server = self.production().start()
        token = server.set_up()
        pem = self.issue(server, token, "worker")
        request = {"service": "admin", "request": "x"}
        self.assertEqual(self.ask(server, "POST", "/api/v1/certificates", pem, request)[0], 403)
        server.headers = {}
        self.assertEqual(server.request("POST", "/api/v1/certificates", request).status, 401)
        # Renewal goes by the certificate itself: a token has none to renew.
        server.headers = {"Authorization": f"Bearer {token}"}
        self.assertEqual(
            server.request("POST", "/api/v1/certificates:renew", {"request": "x"}).code, "FJ-7018")

    def test_a_certificate_renews_itself_under_its_own_name_only(self):
        server = self.production().start()
        pem = self.issue(server, server.set_up(), "worker")
        code, text = self.falaj("certificates", "renew", pem, "--server", server.url, "--ca",
                                server.authority)
        self.assertEqual(code, 0, text)
        self.assertIn("not yet due", text)
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", "fresh.key", "-out", "fresh.csr", "-subj", "/CN=admin", "-addext",
                "subjectAltName=URI:spiffe://falaj.local/service/admin", cwd=self.folder)
        with open(os.path.join(self.folder, "fresh.csr")) as file:
            asked = file.read()
        status, made = self.ask(server, "POST", "/api/v1/certificates:renew", pem,
                                {"request": asked})
        self.assertEqual(status, 200, made)
        # What the request says about names counts for nothing.
        self.assertEqual(made["id"], "spiffe://falaj.local/service/worker")
        self.assertNotIn("admin", made["id"])
        fresh = os.path.join(self.folder, "fresh.pem")
        with open(os.path.join(self.folder, "fresh.key")) as key, open(fresh, "w") as out:
            out.write(key.read() + made["chain"])
        self.assertEqual(self.ask(server, "GET", "/api/v1/whoami", fresh)[0], 200)

    def test_a_stolen_certificate_is_revoked_at_once_and_renews_nothing(self):
        server = self.production().start()
        token = server.set_up()
        stolen, other = (self.issue(server, token, name) for name in ("worker", "scraper"))
        kept = server.connect(stolen)  # A connection that was open before.
        self.addCleanup(kept.close)

        def ask_on_it():
            kept.request("GET", "/api/v1/whoami")
            reply = kept.getresponse()
            return reply.status, json.loads(reply.read())

        self.assertEqual(ask_on_it()[0], 200)
        where = ("--server", server.url, "--ca", server.authority)
        who = "spiffe://falaj.local/service/worker"
        code, text = self.falaj("certificates", "revoke", who, *where, token=token)
        self.assertEqual(code, 0, text)
        self.assertEqual(ask_on_it()[1]["code"], "FJ-7018")
        self.assertEqual(self.ask(server, "GET", "/api/v1/whoami", stolen)[1]["code"], "FJ-7018")
        status, answer = self.ask(server, "POST", "/api/v1/certificates:renew", stolen,
                                  {"request": "x"})
        self.assertEqual((status >= 400, answer["code"]), (True, "FJ-7018"), answer)
        self.assertEqual(self.ask(server, "GET", "/api/v1/whoami", other)[0], 200)
        code, text = self.falaj("certificates", "list", *where, token=token)
        self.assertRegex(text, r"worker .*20\d\d-.*20\d\d-.*20\d\d-")

    def test_another_deployments_process_is_a_stranger(self):
        ours, theirs = self.production().start(), self.production().start()
        pem = self.issue(theirs, theirs.set_up(), "worker")
        self.assertEqual(self.ask(theirs, "GET", "/api/v1/whoami", pem)[0], 200)
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            self.ask(ours, "GET", "/livez", pem)


class FirstMinute(TlsTest):
    """A fresh install is safe: no default secret, loopback only, TLS and an identity, sealed."""

    def listening(self, pid):
        """The addresses on which that process listens, from the kernel."""
        inodes = set()
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        found = []
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{table}") as rows:
                for row in list(rows)[1:]:
                    fields = row.split()
                    if fields[3] == "0A" and fields[9] in inodes:
                        found.append(fields[1].split(":")[0])
        return found

    def test_it_listens_on_loopback_only(self):
        for mode in ("dev", "serve"):
            server = self.server(mode=mode).start()
            self.assertEqual(set(self.listening(server.pid)), {"0100007F"}, mode)

    def test_it_refuses_other_addresses_before_there_is_an_administrator(self):
        passphrase = os.path.join(self.folder, "passphrase")
        with open(passphrase, "w") as out:
            out.write("a phrase that only this test knows")
        os.chmod(passphrase, 0o600)
        for host in ("0.0.0.0", "::", "192.0.2.1"):
            with self.subTest(host):
                flags = ("--set", f"server.host={host}")
                self.refused(self.production(*flags), "FJ-7040")  # A key beside the data.
                flags += ("--set", f"keys.passphrase_file={passphrase}")
                self.refused(self.production(*flags), "FJ-7003")

    def test_nobody_gets_in_without_an_identity(self):
        server = self.production().start()
        for path in ("/api/v1/objects", "/api/v1/audit", "/api/v1/jobs", "/metrics",
                     "/v2/repository/index"):
            reply = server.request("GET", path)
            self.assertIn(reply.status, (401, 403, 404, 405), (path, reply.text))
        for name, password in (("admin", "admin"), ("admin", "password"), ("admin", ""), ("", ""),
                               ("falaj", "falaj"), ("root", "root"), ("user:dev", "")):
            basic = base64.b64encode(f"{name}:{password}".encode()).decode()
            server.headers = {"Authorization": f"Basic {basic}"}
            reply = server.request("GET", "/api/v1/objects")
            self.assertIn(reply.status, (401, 403, 422, 429), (name, password, reply.text))
            self.assertIn(reply.code, ("FJ-7010", "FJ-7011", "FJ-7016"), (name, password))
        server.headers = {}
        self.assertEqual(server.request("GET", "/livez").status, 200)

    def test_what_it_leaves_on_disk_is_for_its_owner_and_holds_no_key(self):
        server = self.production().start()
        self.assertEqual(server.stop(), 0)
        self.assertEqual(stat.S_IMODE(os.stat(server.data).st_mode), 0o700)
        for folder, _, files in os.walk(server.data):
            for name in files:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    self.assertNotRegex(file.read(), rb"BEGIN (EC |RSA )?PRIVATE KEY", path)

    def test_it_prints_the_fingerprint_that_clients_can_pin(self):
        server = self.production().start()
        with open(server.log) as log:
            pin = re.search(r"sha256:[0-9a-f]{64}", log.read()).group()
        code, text = self.falaj("certificates", "authority", "--server", server.url, "--ca", pin)
        self.assertEqual(code, 0, text)
        with open(server.authority) as file:
            self.assertEqual(text.strip(), file.read().strip())
        wrong = "sha256:" + "0" * 64
        code, text = self.falaj("certificates", "authority", "--server", server.url, "--ca", wrong)
        self.assertEqual(code, 4, text)


if __name__ == "__main__":
    unittest.main()
