"""Commands over crashes of the server: none is lost, none runs twice under one attempt.

FALAJ_JOBS_FULL=1 runs 1,000 jobs with 50 kills, a burst of 100,000 submissions and a log of 10 GB;
the default is a small share of the same.
"""
import collections
import http.client
import os
import threading
import unittest

from program import ProgramTest, at_random_moment, seeded, wait_until

FULL = os.environ.get("FALAJ_JOBS_FULL") == "1"
JOBS, KILLS = (1000, 50) if FULL else (60, 5)
BURST, ROOM = (100_000, 1000) if FULL else (30, 10)
LOG_BYTES = 10_000_000_000 if FULL else 40_000_000
OVER = ("succeeded", "failed", "cancelled")


class Commands(ProgramTest):
    def setUp(self):
        super().setUp()
        self.out = os.path.join(self.folder, "out")
        os.mkdir(self.out)

    def jobs_server(self, *more):
        return self.server("--set", f"jobs.writable={self.out}", *more)

    def body(self, name):
        script = f'echo "$FALAJ_ATTEMPT" >> {self.out}/{name}'
        return {"command": ["sh", "-c", script], "name": name,
                "resources": {"cpus": 0.2, "memory": "32Mi"}}

    def lines(self, name):
        with open(os.path.join(self.out, name)) as file:
            return file.read().split()

    def test_killed_again_and_again_no_job_is_lost_or_run_twice(self):
        chance = seeded("jobs")
        server = self.jobs_server("--set", "jobs.waiting_max=2000").start()
        taken = {}
        lock = threading.Lock()
        over = threading.Event()

        def submit():
            # A job without an answer may or may not be there: only what was taken counts.
            for number in range(JOBS):
                name = f"job-{number}"
                while name not in taken and not over.is_set():
                    with lock:
                        try:
                            reply = server.request("POST", "/api/v1/jobs", self.body(name))
                        except (OSError, http.client.HTTPException):
                            continue
                        self.assertIn(reply.status, (202, 429, 503), reply.text)
                        if reply.status == 202:
                            taken[name] = reply.value["id"]

        client = threading.Thread(target=submit)
        client.start()
        try:
            for _ in range(KILLS):
                at_random_moment(chance, 0.4)
                server.process.kill()
                with lock:
                    server.kill()
                    server.start()
        finally:
            client.join()
            over.set()
        self.assertEqual(len(taken), JOBS)
        self.check_all(server, taken)

    def check_all(self, server, taken):
        left = set(taken.values())

        def all_over():
            # Each by its id: the list is bounded, and one that is missing there is lost.
            left.difference_update([job for job in left if self.state(server, job) in OVER])
            return not left
        wait_until(all_over, "all jobs to end", 600)
        runs = collections.Counter()
        for name, job in taken.items():
            state = server.get(f"/api/v1/jobs/{job}")
            self.assertEqual(state["status"], "succeeded", state)
            mine = [line for line in self.lines(name) if line.startswith(job + "-")]
            self.assertIn(f"{job}-{state['attempt']}", mine, "its last attempt ran")
            for line in self.lines(name):
                runs[line] += 1
        twice = {attempt: count for attempt, count in runs.items() if count > 1}
        self.assertEqual(twice, {}, "no attempt ran twice")
        self.assertTrue(server.audit_holds())

    @staticmethod
    def state(server, job):
        return server.get(f"/api/v1/jobs/{job}")["status"]

    def test_a_burst_past_the_limit_is_answered_429_and_loses_nothing(self):
        server = self.jobs_server("--set", f"jobs.waiting_max={ROOM}", "--set", "jobs.node_cpus=1")
        server.start()
        blocker = server.good("POST", "/api/v1/jobs", {"command": ["sleep", "1000"]})["id"]
        wait_until(lambda: server.get(f"/api/v1/jobs/{blocker}")["status"] == "running", "it runs")
        taken, answers = [], collections.Counter()
        for i in range(BURST):
            reply = server.request("POST", "/api/v1/jobs", self.body(f"job-{i}"))
            answers[reply.status, reply.code if reply.status == 429 else ""] += 1
            if reply.status == 202:
                taken.append(reply.value["id"])
        self.assertEqual(answers, {(202, ""): ROOM, (429, "FJ-4005"): BURST - ROOM})
        server.good("POST", f"/api/v1/jobs/{blocker}:cancel", {})
        for job in taken:
            self.assertEqual(server.job_ended(job)["status"], "succeeded")

    def test_a_command_that_fills_the_disk_is_ended_and_its_files_go(self):
        server = self.jobs_server("--set", "jobs.disk_max=64Mi").start()
        many = "while true; do i=$((i + 1)); head -c 1000000 /dev/zero > f$i || exit 1; done"
        scripts = {
            "one file": "cat /dev/zero > f",
            "many files": many,
            "many names": "while true; do i=$((i + 1)); mkdir d$i; : > d$i/f; done",
        }
        for what, script in scripts.items():
            with self.subTest(what):
                body = {"command": ["sh", "-c", script], "resources": {"disk": "8Mi"}}
                job = server.job_ended(server.good("POST", "/api/v1/jobs", body)["id"])
                self.assertEqual((job["status"], job["code"]), ("failed", "FJ-4008"), job)
                self.assertIn("8.0 MiB", job["error"])
        too_much = {"command": ["true"], "resources": {"disk": "65Mi"}}
        self.assertEqual(server.request("POST", "/api/v1/jobs", too_much).code, "FJ-1006")
        # What a server that died at the wrong moment left goes with the next start.
        left = os.path.join(server.jobs_folder(), f"{job['id']}-1")
        server.kill()
        os.makedirs(os.path.join(left, "deep"))
        open(left + ".log", "w").close()
        server.start()
        gone = lambda: not (os.path.exists(left) or os.path.exists(left + ".log"))
        wait_until(gone, "the left-over folder to go")

    def test_a_command_that_misbehaves_is_held(self):
        server = self.jobs_server().start()

        def run(script, **more):
            body = {"command": ["sh", "-c", script], **more}
            return server.job_ended(server.good("POST", "/api/v1/jobs", body)["id"])

        hungry = run("exec tail /dev/zero", resources={"memory": "64Mi"})
        self.assertEqual((hungry["status"], hungry["code"]), ("failed", "FJ-4003"), hungry)
        stuck = run("trap '' TERM; sleep 1000 & wait; sleep 1000", time_max="200ms")
        self.assertEqual((stuck["status"], stuck["code"]), ("failed", "FJ-4004"), stuck)
        loud = run(f"yes falaj | head -c {LOG_BYTES}")
        self.assertEqual(loud["status"], "succeeded", loud)
        self.assertGreater(loud["result"]["log_bytes_cut"], LOG_BYTES - 10_000_000)
        log = server.request("GET", f"/api/v1/jobs/{loud['id']}/log").text
        self.assertLessEqual(len(log), 64 * 1024)
        nosy = run(f"cat {server.data}/keys.sealed")
        self.assertEqual(nosy["status"], "failed", "the data folder is not its")
        self.assertTrue(server.answers())


if __name__ == "__main__":
    unittest.main()
