"""Nodes of a launch that know each other by the certificates of a deployment: who may join."""
import os
import re
import shutil
import socket
import subprocess
import unittest

from program import PATIENCE_SECONDS, PROGRAM, ProgramTest, environment
from required import needs

OPENSSL = shutil.which("openssl")


class LaunchTls(ProgramTest):
    def setUp(self):
        super().setUp()
        self.authority, self.issue = self.deployment()
        self.secret = os.path.join(self.folder, "launch.key")

    def deployment(self):
        """Another authority each time: its file, and what has a certificate issued."""
        authority, issue, _ = self.deployed()
        return authority, issue

    def deployed(self):
        """The same, and what calls its `falaj certificates`."""
        server = self.server(mode="serve").start()
        token = server.set_up()
        where = ("--server", server.url, "--ca", server.authority)
        own = {**environment(), "XDG_CONFIG_HOME": self.folder, "FALAJ_TOKEN": token}

        def certificates(*words):
            code, text = self.falaj("certificates", *words, *where, env=own)
            self.assertEqual(code, 0, text)
            return text

        def issue(name):
            path = os.path.join(self.folder, f"{self.made}-{name}.pem")
            certificates("issue", name, "--out", path)
            return path

        return server.authority, issue, certificates

    def listen(self, *more, workers="2", address="127.0.0.1"):
        """A coordinator of one worker that waits for another; its process and its port."""
        run = subprocess.Popen(
            [PROGRAM, "launch", "--workers", workers, "--listen", f"{address}:0", "--host",
             "127.0.0.1", "--node", "first", "--secret", self.secret, "--silence", "30s", *more,
             "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(), cwd=self.folder)
        self.addCleanup(lambda: (run.kill(), run.communicate()))
        said = ""
        for line in run.stderr:
            said += line
            found = re.search(r"join at port (\d+)", line)
            if found:
                return run, found[1], said
        self.fail(f"it never listened: {said}")

    def join(self, port, *more, secret=None, **env):
        return self.falaj("launch", "--join", f"127.0.0.1:{port}", "--node", "second", "--silence",
                          "30s", "--secret", secret or self.secret, *more,
                          env={**environment(), **env})

    def test_two_nodes_of_one_deployment_form_a_gang_and_others_do_not_join(self):
        own = ("--certificate", self.issue("first"), "--ca", self.authority)
        second = self.issue("second")
        foreign_authority, issue_foreign = self.deployment()
        foreign = issue_foreign("second")
        run, port, _ = self.listen(*own)
        for wrong, why in (((), "no certificate"),
                           (("--certificate", foreign, "--ca", foreign_authority), "of others"),
                           (("--certificate", foreign, "--ca", self.authority), "of others"),
                           (("--certificate", second, "--ca", self.authority, "--peer",
                             "spiffe://falaj.local/service/other"), "somebody else")):
            code, text = self.join(port, *wrong)
            self.assertNotEqual(code, 0, f"{why}: {text}")
        self.assertIn("it is spiffe://falaj.local/service/first, which no --peer names", text)
        # By its environment, as a job's node is told.
        code, text = self.join(port, FALAJ_LAUNCH_CERTIFICATE=second,
                               FALAJ_LAUNCH_CA=self.authority,
                               FALAJ_LAUNCH_PEER="spiffe://falaj.local/service/other,"
                                                 "spiffe://falaj.local/service/first")
        self.assertEqual(code, 0, text)
        self.assertIn("the coordinator is spiffe://falaj.local/service/first", text)
        out, said = run.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(run.returncode, 0, said)
        self.assertIn("[0] rank 0 of 2", out)
        self.assertIn("[1] rank 1 of 2", out)
        self.assertIn("accepted spiffe://falaj.local/service/second from 127.0.0.1", said)
        self.assertIn("it says, unproven: spiffe://falaj.local/service/second", said)

    def test_a_coordinator_takes_the_nodes_that_it_names(self):
        ids = "spiffe://falaj.local/service/"
        own = ("--certificate", self.issue("first"), "--ca", self.authority)
        run, port, _ = self.listen(*own, "--peer", ids + "second", "--peer", ids + "third",
                                   workers="3")
        code, text = self.join(port, "--certificate", self.issue("fourth"), "--ca", self.authority)
        self.assertNotEqual(code, 0, text)
        joined = [subprocess.Popen(
            [PROGRAM, "launch", "--join", f"127.0.0.1:{port}", "--node", name, "--silence", "30s",
             "--secret", self.secret, "--certificate", self.issue(name), "--ca", self.authority],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment(), cwd=self.folder) for name in ("second", "third")]
        for each in joined:
            self.addCleanup(lambda each=each: (each.kill(), each.wait()))
        out, said = run.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(run.returncode, 0, said)
        self.assertIn("rank 2 of 3", out)
        for each in joined:
            self.assertEqual(each.wait(timeout=PATIENCE_SECONDS), 0)
        self.assertIn(f"it is {ids}fourth, which no --peer names", said)

    def test_who_was_revoked_is_refused_by_the_servers_list(self):
        authority, issue, certificates = self.deployed()
        own = ("--certificate", issue("first"), "--ca", authority)
        second = ("--certificate", issue("second"), "--ca", authority)
        third = ("--certificate", issue("third"), "--ca", authority)
        revoked = os.path.join(self.folder, "revoked.json")

        def write_list():
            with open(revoked + ".new", "w") as out:
                out.write(certificates("list", "-o", "json"))
            os.rename(revoked + ".new", revoked)

        write_list()
        run, port, _ = self.listen(*own, "--revoked", revoked)
        certificates("revoke", "second")
        write_list()
        code, text = self.join(port, *second)
        self.assertNotEqual(code, 0, text)
        code, text = self.join(port, *third)
        self.assertEqual(code, 0, text)
        _, said = run.communicate(timeout=PATIENCE_SECONDS)
        self.assertEqual(run.returncode, 0, said)
        self.assertIn("it is spiffe://falaj.local/service/second, revoked", said)

    def test_a_key_that_others_may_read_is_refused(self):
        path = self.issue("first")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        for mode in (0o640, 0o604):
            os.chmod(path, mode)
            code, text = self.falaj("launch", "--workers", "2", "--listen", "127.0.0.1:0",
                                    "--secret", self.secret, "--certificate", path, "--ca",
                                    self.authority, "--", "true")
            self.assertEqual(code, 4, text)
            self.assertIn(f"chmod 600 '{path}'", text)

    @needs(OPENSSL, "the openssl program is not installed")
    def test_it_speaks_tls_1_3_only_and_only_to_who_shows_a_certificate(self):
        first, second = self.issue("first"), self.issue("second")
        _, port, _ = self.listen("--certificate", first, "--ca", self.authority)

        def hello(*words):
            done = subprocess.run(
                [OPENSSL, "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", self.authority,
                 *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS)
            return done.stdout.decode(errors="replace")

        mine = ("-cert", second, "-key", second)
        self.assertIn("TLSv1.3", hello("-tls1_3", *mine))
        self.assertIn("Cipher is (NONE)", hello("-tls1_2", *mine))
        self.assertIn("certificate required", hello("-tls1_3", "-ign_eof"))
        with socket.create_connection(("127.0.0.1", int(port)), PATIENCE_SECONDS) as plain:
            plain.sendall(b"FALAJLN1" + b"n" * 32)
            heard = b"".join(iter(lambda: plain.recv(65536), b""))
        self.assertNotIn(b"FALAJLN1", heard, "nothing of ours is said in clear")

    def test_beyond_loopback_the_secret_alone_is_not_enough(self):
        words = ("--secret", self.secret, "--", "true")
        for where in (("--workers", "2", "--listen", "0.0.0.0:0"), ("--join", "192.0.2.1:9")):
            code, text = self.falaj("launch", *where, *words)
            self.assertEqual(code, 2, text)
            self.assertIn("falaj certificates issue", text)
            self.assertIn("--secret-only", text)
            self.assertNotIn("join at port", text)
        self.assertFalse(os.path.exists(self.secret), "nothing was begun")

    def test_beyond_loopback_the_secret_alone_must_be_asked_for_and_is_warned_of(self):
        _, _, said = self.listen("--secret-only", address="0.0.0.0")
        self.assertIn("WARNING", said)
        _, _, said = self.listen("--certificate", self.issue("first"), "--ca", self.authority,
                                 address="0.0.0.0")
        self.assertNotIn("WARNING", said)
        _, _, said = self.listen()
        self.assertNotIn("WARNING", said)

    def test_files_that_cannot_be_used_are_named_before_anything_starts(self):
        code, text = self.falaj("launch", "--workers", "2", "--listen", "127.0.0.1:0", "--secret",
                                self.secret, "--certificate", "nowhere.pem", "--ca",
                                self.authority, "--", "true")
        self.assertEqual(code, 3, text)
        self.assertIn("nowhere.pem", text)
        code, text = self.falaj("launch", "--workers", "2", "--listen", "127.0.0.1:0", "--secret",
                                self.secret, "--ca", self.authority, "--", "true")
        self.assertEqual(code, 1, text)
        self.assertIn("certificate of their own", text)


if __name__ == "__main__":
    unittest.main()
