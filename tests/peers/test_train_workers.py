"""A TrainJob of PyTorch DDP workers through the server: killed, preempted, never worse for it."""

import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
from program import PROGRAM, ProgramTest, environment, wait_until  # noqa: E402

WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
SYSTEM_PYTHON = "/usr/bin/python3"  # Has Debian's torch.


def declared(kind, name, spec):
    return {"apiVersion": "falaj.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def losses(text):
    """The curve: the last loss that was printed for each step."""
    return {int(s): float(v) for s, v in re.findall(r"\[0\] loss (\d+) (\S+)", text)}


class TrainWorkers(ProgramTest):
    def command(self, name, *more):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        return folder, [SYSTEM_PYTHON, str(WORKERS / "ddp.py"), folder, *more]

    def undisturbed(self):
        _, command = self.command("undisturbed")
        done = subprocess.run(
            [PROGRAM, "launch", "--workers", "2", "--", *command],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return losses(done.stdout)

    def train(self, server, name, command):
        spec = {
            "engine": "command",
            "command": command,
            "workers": {"min": 2, "max": 2, "cpu": 1, "memory": "768Mi"},
            "faults": {"crashes_max": 1, "grace": "30s"},
        }
        server.apply(declared("TrainJob", name, spec))
        return server.train(name)

    def printed(self, server, job):
        return server.request("GET", f"/api/v1/jobs/{job}/log").text

    def wait_for(self, server, job, pattern, count):
        def found():
            hits = re.findall(pattern, self.printed(server, job))
            return hits if len(hits) >= count else None

        try:
            return wait_until(found, f"{count} times {pattern}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it printed:\n{self.printed(server, job)}") from error

    def check(self, server, started, wanted):
        """It succeeded in one attempt that counts, with the wanted curve in its run."""
        job = server.job_ended(started["job"])
        self.assertEqual(job["status"], "succeeded", self.printed(server, started["job"]))
        self.assertEqual(job["attempts"], 1)
        points = server.get(f"/api/v1/runs/{started['run']}/metrics/loss")["points"]
        self.assertEqual([point["step"] for point in points], sorted(wanted))
        for point in points:
            self.assertAlmostEqual(point["value"], wanted[point["step"]], delta=1e-9)
        run = server.get(f"/api/v1/runs/{started['run']}")
        self.assertEqual(run["status"], "finished")
        self.assertEqual(run["outputs"]["checkpoint"]["name"], "state.pt")
        return run

    def test_the_curve_is_that_of_an_undisturbed_run(self):
        wanted = self.undisturbed()
        self.assertEqual(len(wanted), 10)
        server = self.server(
            "--set", f"jobs.readable={WORKERS}:{self.folder}", "--set", "jobs.node_cpus=2"
        ).start()
        with self.subTest("the server dies, then a worker"):
            folder, command = self.command("killed", "5")
            started = self.train(server, "killed", command)
            (pid,) = self.wait_for(server, started["job"], r"\[1\] holding (\d+)", 1)
            server.kill()
            server.start()
            os.kill(int(pid), signal.SIGKILL)
            pathlib.Path(folder, "go").touch()
            run = self.check(server, started, wanted)
            text = self.printed(server, started["job"])
            self.assertIn("post-mortem: [1] failed first of 2 workers", text)
            self.assertIn("[0] from step 5 of world 2", text)
            self.assertEqual(run["outputs"]["launch"]["crashes"], 1)
        with self.subTest("preempted by the owner of the machine"):
            self.preempt(server, wanted)

    def preempt(self, server, wanted):
        at_once = {"preemption": {"min_run": "1ms"}}  # Usually a job runs ten minutes at least.
        server.apply(
            declared("Queue", "own", {"quota": {"cpu": {"nominal": 2}}}),
            declared("SchedulingPolicy", "default", at_once),
        )
        _, command = self.command("preempted", "4")
        started = self.train(server, "preempted", command)
        self.wait_for(server, started["job"], r"holding (\d+)", 2)
        request = {"command": ["true"], "queue": "own", "resources": {"cpus": 2, "memory": "64Mi"}}
        owner = server.good("POST", "/api/v1/jobs", request)
        self.assertEqual(server.job_ended(owner["id"])["status"], "succeeded")
        run = self.check(server, started, wanted)
        events = server.get(f"/api/v1/jobs/{started['job']}/events")["events"]
        self.assertEqual([each["event"] for each in events].count("admitted"), 2)
        text = self.printed(server, started["job"])
        self.assertIn("[0] from step 5 of world 2", text)
        self.assertEqual(run["outputs"]["launch"]["crashes"], 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
