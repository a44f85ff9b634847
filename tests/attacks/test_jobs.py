"""Group 28: a job whose code is the attacker's. The training library is replaced by hostile.c, so
that a real job of a real server tries it all in its own sandbox."""

import os
import re
import subprocess
import tempfile
import unittest

import shop
from arena import Arena, attacks
from program import PROGRAM, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "hostile.c")
REAL = os.path.realpath(os.path.join(os.path.dirname(PROGRAM), "..", "deps", "lib"))
SECRET = "what only the server's environment knows"


def names_of_tries():
    with open(SOURCE) as text:
        return re.findall(r'say\("(\w+)"', text.read())


class HostileJobs(Arena):
    @classmethod
    def setUpClass(cls):
        cls.libraries = tempfile.TemporaryDirectory(prefix="falaj-hostile-")
        real = os.environ.get("FALAJ_LIBRARY_DIR", REAL)
        for name in os.listdir(real):
            if name != "lib_lightgbm.so":
                os.symlink(os.path.join(real, name), os.path.join(cls.libraries.name, name))
        kept = dict(os.environ)
        os.environ.update(FALAJ_LIBRARY_DIR=cls.libraries.name, SERVERS_OWN_SECRET=SECRET)
        try:
            super().setUpClass()
        finally:
            os.environ.clear()
            os.environ.update(kept)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.libraries.cleanup()

    @classmethod
    def run_hostile(cls, mode, **resources):
        """Starts a job on a library that was built to do that; what the server said."""
        canary = os.path.join(cls.folder, "canary")
        with open(canary, "w") as out:
            out.write("of this machine")
        words = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]
        words += [os.path.join(cls.libraries.name, "lib_lightgbm.so"), SOURCE, f"-D{mode}"]
        words += [f"-DPORT={cls.server.address()[1]}", f'-DDATA="{cls.server.data}"']
        words += [f'-DCANARY="{canary}"', f'-DGHOST_NAME="ghost{os.getpid()}"']
        subprocess.run(words, check=True)
        cls.server.apply(shop.train_job(mode.lower(), **resources))
        return cls.server.train(mode.lower())

    def log_of(self, job, pattern):
        def found():
            return re.search(pattern, self.server.request("GET", f"/api/v1/jobs/{job}/log").text)

        return wait_until(found, f"{pattern!r} in the job's log")

    def state(self):
        # Jobs and runs come and go here; what they must not touch is the rest.
        seen = super().state()
        return {key: seen[key] for key in ("views", "sets", "models")}


def tries():
    for name in names_of_tries():

        def attack(self, name=name):
            self.assertEqual(self.tried.get(name), "refused", f"a job could {name}")

        yield name, attack


@attacks(tries())
class Tries(HostileJobs):
    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        started = cls.run_hostile("TRIES")
        ended = server.job_ended(started["job"])
        assert ended["status"] == "failed", ended
        log = server.request("GET", f"/api/v1/jobs/{started['job']}/log").text
        assert "all tried" in log, log
        cls.tried = dict(re.findall(r"try (\w+) (\w+)", log))

    def test_nothing_was_left_behind(self):
        for path in ("/tmp", "/var/tmp", "/dev/shm", "/etc", self.folder):
            self.assertFalse(os.path.exists(os.path.join(path, "falaj-escaped")), path)
        with open(os.path.join(self.folder, "canary")) as text:
            self.assertEqual(text.read(), "of this machine")


class Limits(HostileJobs):
    def running(self, name):
        """Whether a process of that name, or a program of that folder's, is alive."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as text:
                    if text.read().strip() == name:
                        return True
            except OSError:
                pass
        return False

    def cancelled(self, started):
        self.server.good("POST", f"/api/v1/jobs/{started['job']}:cancel", {})
        self.assertEqual(self.server.job_ended(started["job"])["status"], "cancelled")

    def test_a_fork_bomb_meets_its_limit_and_goes_with_its_job(self):
        started = self.run_hostile("BOMB")
        made = int(self.log_of(started["job"], r"forked (\d+)").group(1))
        self.assertLess(made, 64, "the limit of jobs.processes_max does not bind")
        self.assertGreater(made, 8)
        group = self.server.engine()
        self.assertTrue(self.server.answers())
        self.cancelled(started)

        def gone():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/stat") as text:
                        if text.read().rpartition(")")[2].split()[2] == str(group):
                            return False
                except OSError:
                    pass
            return True

        wait_until(gone, "every process of the bomb to end")

    def test_a_process_that_left_its_group_does_not_outlive_its_job(self):
        started = self.run_hostile("GHOST")
        self.log_of(started["job"], "haunting")
        self.assertTrue(self.running(f"ghost{os.getpid()}"))
        self.cancelled(started)
        wait_until(lambda: not self.running(f"ghost{os.getpid()}"), "the ghost to go")

    def test_a_job_that_takes_all_memory_is_ended_and_the_server_is_not(self):
        started = self.run_hostile("HOG", memory="256Mi")
        ended = self.server.job_ended(started["job"])
        self.assertEqual(ended["status"], "failed", ended)
        self.assertIn("FJ-4003", ended["error"])

    def test_a_job_that_never_ends_is_ended(self):
        started = self.run_hostile("GHOST", time_max="2s")
        ended = self.server.job_ended(started["job"])
        self.assertIn("FJ-4004", ended["error"], ended)
        wait_until(lambda: not self.running(f"ghost{os.getpid()}"), "the ghost to go")


if __name__ == "__main__":
    unittest.main()
