"""`falaj serve` from outside: what it speaks, to whom, and what a fresh install gives away."""
import http.client
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import unittest

from program import PATIENCE_SECONDS, ProgramTest

OPENSSL = shutil.which("openssl")


def openssl(*words, cwd, text=""):
    done = subprocess.run([OPENSSL, *words], cwd=cwd, input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS)
    return done.returncode, done.stdout.decode(errors="replace")


class TlsTest(ProgramTest):
    def production(self, *flags, **more):
        return self.server(*flags, mode="serve", **more)

    def hello(self, server, *words):
        """`openssl s_client` with those words; all that it printed."""
        host, port = server.address()
        return openssl("s_client", "-connect", f"{host}:{port}", "-CAfile", server.authority,
                       *words, cwd=self.folder)[1]


@unittest.skipUnless(OPENSSL, "the openssl program is not installed")
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
        for host in ("0.0.0.0", "::", "192.0.2.1"):
            with self.subTest(host):
                self.refused(self.production("--set", f"server.host={host}"), "FJ-7003")

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
