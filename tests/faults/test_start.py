"""A start that cannot go well says why, with its code, and changes nothing."""
import os
import shutil
import socket
import subprocess
import unittest

import shop
from program import PROGRAM, ProgramTest, environment


def may_mount():
    """Whether a mount namespace of our own is allowed; the machine's mounts stay as they are."""
    done = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


NO_MOUNT = "mounting is not permitted here: needs root or CAP_SYS_ADMIN"


def inside_mount(folder, how):
    """Words before a command that then sees `folder` mounted as `how`, and nobody else does."""
    return ["unshare", "--mount", "sh", "-c", f'mount {how} "$0" && exec "$@"', folder]


class Settings(ProgramTest):
    def test_an_unknown_setting_names_the_nearest(self):
        text = self.refused(self.server("--set", "server.prot=1"), "FJ-1013", 2)
        self.assertIn("server.prot", text)
        self.assertIn("server.port", text)

    def test_an_unknown_key_of_a_file_is_refused(self):
        path = os.path.join(self.folder, "falaj.yaml")
        with open(path, "w") as out:
            out.write("log: {levle: debug}\n")
        text = self.refused(self.server("--config", path), "FJ-1013")
        self.assertIn("log.level", text)

    def test_a_value_out_of_bounds_names_its_bounds(self):
        text = self.refused(self.server("--set", "server.threads=0"), "FJ-1006", 2)
        self.assertIn("server.threads", text)

    def test_a_value_of_the_wrong_type_is_refused(self):
        self.refused(self.server("--set", "jobs.time_max=soon"), "FJ-1011", 2)

    def test_listening_beyond_loopback_is_refused(self):
        for host in ("0.0.0.0", "::", "192.0.2.1"):
            with self.subTest(host):
                self.refused(self.server("--set", f"server.host={host}"), "FJ-7003")


class Port(ProgramTest):
    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            server = self.server(port=port)
            self.assertIn(str(port), self.refused(server, "FJ-8007"))
        # The folder is not left locked, nor spoilt.
        again = self.server(data=server.data).start()
        self.assertTrue(again.answers())


class Folder(ProgramTest):
    def test_a_folder_that_another_process_holds_is_refused(self):
        first = self.server().start()
        text = self.refused(self.server(data=first.data), "FJ-8001")
        self.assertIn(first.data, text)
        self.assertTrue(first.answers(), "the first server must not notice")
        first.kill()
        self.assertTrue(self.server(data=first.data).start().answers(), "a dead one holds nothing")

    def test_a_folder_of_a_newer_version_is_left_alone(self):
        server = self.server().start()
        self.assertEqual(server.stop(), 0)
        version = os.path.join(server.data, "version")
        with open(version) as old:
            self.assertEqual(old.read(), "falaj-data 1\n")
        with open(version, "w") as newer:
            newer.write("falaj-data 2\n")
        before = self.names_and_sizes(server.data)
        self.refused(server, "FJ-8004")
        self.assertEqual(self.names_and_sizes(server.data), before)

    def test_a_folder_that_is_a_file_is_refused(self):
        path = os.path.join(self.folder, "file")
        with open(path, "w") as out:
            out.write("not a folder\n")
        self.assertIn(path + " is not a folder", self.refused(self.server(data=path), "FJ-0006"))

    def test_a_signer_that_cannot_be_started_is_said(self):
        server = self.server()
        log = os.path.join(server.data, "signer.log")
        os.makedirs(log)  # Where its log should be written.
        self.assertIn(log, self.refused(server, "FJ-7053"))
        os.rmdir(log)
        self.assertTrue(server.start().audit_holds())

    @unittest.skipUnless(may_mount(), NO_MOUNT)
    def test_a_read_only_disk_is_said(self):
        folder = os.path.join(self.folder, "disk")
        os.mkdir(folder)
        server = self.server(data=folder, prefix=inside_mount(folder, "-t tmpfs -o ro none"))
        self.assertIn(folder, self.refused(server, "FJ-8002"))

    @unittest.skipUnless(may_mount(), NO_MOUNT)
    def test_a_used_folder_on_a_read_only_disk_is_said(self):
        server = self.server().start()
        server.stop()
        server.prefix = inside_mount(server.data, f'--bind -o ro "{server.data}"')
        self.refused(server, "FJ-8002")

    @unittest.skipUnless(may_mount(), NO_MOUNT)
    def test_a_machine_without_control_groups_says_so_and_goes_on_saying_it(self):
        server = self.server(prefix=inside_mount("/sys/fs/cgroup", "-t tmpfs none")).start()
        self.assertEqual(server.get("/readyz"), {"status": "degraded"})
        self.assertIn("cgroup-memory", server.get("/version")["jobs_without"])
        with open(server.log) as log:
            self.assertRegex(log.read(), "ERROR.*less protection.*cgroup-memory")
        command = [*server.prefix, PROGRAM, "doctor", "--data", os.path.join(self.folder, "none")]
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment(), timeout=60)
        self.assertRegex(done.stdout.decode(), "job sandbox +warn .*not granted: cgroup-memory")
        # A job still runs, under what there is.
        shop.stock(server)
        self.assertEqual(server.job_ended(server.train("train")["job"])["status"], "succeeded")

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_a_folder_of_another_user_is_said(self):
        # The user must reach the program; a checkout under a private folder would hide it.
        program = os.path.join(self.folder, "falaj")
        shutil.copy(PROGRAM, program)
        os.chmod(self.folder, 0o755)
        folder = os.path.join(self.folder, "owned")
        os.mkdir(folder, 0o755)
        done = subprocess.run([program, "dev", "--data", folder, "--port", "0"], user=65534,
                              group=65534, extra_groups=[], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=30, cwd="/")
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 1, text)
        self.assertIn("FJ-8002", text)
        self.assertIn(folder, text)

    @unittest.skipUnless(may_mount(), NO_MOUNT)
    def test_a_full_disk_is_said(self):
        folder = os.path.join(self.folder, "disk")
        os.mkdir(folder)
        for size in ("4k", "32k", "128k"):
            with self.subTest(size):
                how = f"-t tmpfs -o size={size} none"
                server = self.server(data=folder, prefix=inside_mount(folder, how))
                self.refused(server, "FJ-8003")

    @staticmethod
    def names_and_sizes(folder):
        found = {}
        for where, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(where, name)
                found[path] = os.path.getsize(path)
        return found


class FullLater(ProgramTest):
    """The disk fills while it serves: what was acknowledged stays, the rest is refused."""

    @unittest.skipUnless(may_mount(), NO_MOUNT)
    def test_an_ingest_that_does_not_fit_is_refused_and_the_server_goes_on(self):
        folder = os.path.join(self.folder, "disk")
        os.mkdir(folder)
        server = self.server(data=folder, prefix=inside_mount(folder, "-t tmpfs -o size=8m none"))
        server.start()
        server.apply(*shop.features())
        accepted, refusal = 0, None
        for batch in range(200):
            reply = server.request("POST", "/api/v1/feature-views/visits:ingest?format=csv",
                                   shop.visits(batch, second=batch, customers=5_000))
            if reply.status != 200:
                refusal = reply
                break
            accepted += reply.value["rows_accepted"]
        self.assertIsNotNone(refusal, "the disk never filled")
        self.assertIn(refusal.code, ("FJ-8003", "FJ-1009"), refusal.text)
        self.assertGreater(accepted, 0)
        self.assertTrue(server.answers())
        # Past the commit only the online copy can fail; the reply then says that the rows are kept.
        kept = 5_000 if "is kept" in refusal.value["detail"] else 0
        self.assertEqual(server.rows("visits"), accepted + kept)
        self.assertTrue(server.audit_holds())


if __name__ == "__main__":
    unittest.main()
