"""Real frameworks under `falaj launch`, unmodified: PyTorch DDP, TensorFlow, XGBoost, LightGBM,
Open MPI. TensorFlow is large: `tools/peers frameworks` installs it, or FALAJ_TENSORFLOW_PYTHON
names a Python that has it; without it its test is skipped, and says so."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
from program import PATIENCE_SECONDS, PROGRAM, environment, wait_until  # noqa: E402

WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
SYSTEM_PYTHON = "/usr/bin/python3"  # Has Debian's torch.
FRAMEWORKS = WORKERS.parent.parent.parent / "build/framework_peers/bin/python"
TENSORFLOW_PYTHON = os.environ.get("FALAJ_TENSORFLOW_PYTHON", str(FRAMEWORKS))


class Launched:
    """`falaj launch` in the background; its output is read as it comes."""

    def __init__(self, *words, inside=()):
        self.process = subprocess.Popen(
            [*inside, PROGRAM, "launch", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )
        self.text = ""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.text += line

    def wait_for(self, pattern, count=1):
        def found():
            hits = re.findall(pattern, self.text)
            return hits if len(hits) >= count else None

        try:
            return wait_until(found, f"{count} times {pattern}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it printed:\n{self.text}") from error

    def end(self):
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self.reader.join()
        self.process.stdout.close()
        return code

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.end()


class LaunchTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="falaj-peers-")
        self.addCleanup(shutil.rmtree, self.folder)

    def launch(self, *words, inside=()):
        launched = Launched(*words, inside=inside)
        self.addCleanup(launched.stop)
        return launched

    def finish(self, launched):
        self.assertEqual(launched.end(), 0, launched.text)
        return launched.text


def losses(text):
    """The curve: the last loss that was printed for each step."""
    return {int(s): float(v) for s, v in re.findall(r"\[0\] loss (\d+) (\S+)", text)}


class Ddp(LaunchTest):
    def script(self, name, *more):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        return folder, [SYSTEM_PYTHON, str(WORKERS / "ddp.py"), folder, *more]

    def undisturbed(self):
        _, command = self.script("undisturbed")
        return losses(self.finish(self.launch("--workers", 2, "--", *command)))

    def same_curve(self, got, wanted):
        self.assertEqual(sorted(got), sorted(wanted))
        for step in wanted:
            self.assertAlmostEqual(got[step], wanted[step], delta=1e-9 * max(1, wanted[step]))

    def go(self, folder):
        with open(os.path.join(folder, "go"), "w"):
            pass

    def test_a_killed_worker_and_a_lost_node_leave_the_curve_as_it_is(self):
        wanted = self.undisturbed()
        self.assertEqual(len(wanted), 10)
        self.assertLess(wanted[10], wanted[1])
        with self.subTest("kill -9 of a worker"):
            folder, command = self.script("killed", "5")
            launched = self.launch("--workers", 2, "--restarts", 1, "--", *command)
            (pid,) = launched.wait_for(r"\[1\] holding (\d+)")
            os.kill(int(pid), signal.SIGKILL)
            self.go(folder)
            text = self.finish(launched)
            self.assertIn("post-mortem: [1] failed first of 2 workers", text)
            self.assertIn("[0] from step 5 of world 2", text)
            self.same_curve(losses(text), wanted)
        with self.subTest("four workers on two nodes, one node is lost"):
            self.lose_a_node(wanted)

    def lose_a_node(self, wanted):
        folder, command = self.script("lost", "5")
        first, second, address = self.two_machines()
        secret = os.path.join(self.folder, "secret")
        # The tests' machine may be slow; what is lost here ends its connection.
        common = ["--slots", 2, "--secret", secret, "--secret-only", "--silence", "60s"]
        launched = self.launch(
            "--workers", "2:4", "--listen", f"{address}:0", *common, "--", *command, inside=first
        )
        (port,) = launched.wait_for(r"join at port (\d+)")
        node = self.launch("--join", f"{address}:{port}", "--node", "second", *common,
                           inside=second)
        launched.wait_for(r"\[\d\] holding (\d+)", count=4)
        node.process.kill()
        self.go(folder)
        text = self.finish(launched)
        self.assertIn("[3] from step 0 of world 4", text)
        self.assertRegex(text, r"\[0\] from step 5 of world 2")
        self.assertIn("node second is lost", text)
        self.same_curve(losses(text), wanted)

    def two_machines(self):
        """Words that start a program on each of two machines, and the first one's address.

        Two network namespaces with a cable between them; skipped where that is not permitted.
        """
        holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c",
             "mount -t tmpfs none /run && ip netns add second && ip link set lo up && "
             "ip link add cable type veth peer name eth0 netns second && "
             "ip addr add 10.77.0.1/24 dev cable && ip link set cable up && "
             "ip netns exec second ip addr add 10.77.0.2/24 dev eth0 && "
             "ip netns exec second ip link set eth0 up && "
             "ip netns exec second ip link set lo up && echo made && exec sleep 1000"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        self.addCleanup(holder.stdout.close)
        said = holder.stdout.readline()
        if said != "made\n":
            self.skipTest(f"no network namespaces here: {said.strip()}")
        enter = ["nsenter", "--target", str(holder.pid), "--user", "--net", "--mount",
                 "--preserve-credentials"]
        return enter, [*enter, "ip", "netns", "exec", "second"], "10.77.0.1"

    def test_a_notice_checkpoints_and_the_next_launch_goes_on(self):
        folder, command = self.script("noticed", "4")
        launched = self.launch("--workers", 2, "--", *command)
        launched.wait_for(r"holding (\d+)", count=2)
        launched.process.send_signal(signal.SIGTERM)
        self.assertEqual(launched.end(), 75, launched.text)
        last = max(losses(launched.text))
        again = self.finish(self.launch("--workers", 1, "--", *command))
        self.assertIn(f"[0] from step {last} of world 1", again)
        self.assertEqual(max(losses(again)), 10)


class Boosters(LaunchTest):
    def predictions(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_SECONDS,
                              env=environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(re.search(r"predicted (\[.*\])", done.stdout)[1])

    def compare(self, name):
        script = [sys.executable, str(WORKERS / "boosters.py"), name]
        alone = self.predictions(*script)
        together = self.predictions(PROGRAM, "launch", "--workers", "2", "--", *script)
        self.assertGreater(max(alone) - min(alone), 0.5)
        for one, two in zip(alone, together, strict=True):
            self.assertAlmostEqual(one, two, delta=1e-4)

    def test_xgboost_trains_the_same_model_over_two_workers(self):
        self.compare("xgboost")

    def test_lightgbm_trains_the_same_model_over_two_workers(self):
        self.compare("lightgbm")


class TensorFlow(LaunchTest):
    def test_mirrored_workers_train_as_one(self):
        if not os.path.exists(TENSORFLOW_PYTHON):
            self.skipTest("no TensorFlow here: tools/peers frameworks (274 MB to fetch, 1.6 GB)")
        script = [TENSORFLOW_PYTHON, str(WORKERS / "tensorflow_mirrored.py")]
        done = subprocess.run(script, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        together = self.finish(self.launch("--workers", 2, "--", *script))
        alone = json.loads(re.search(r"losses (\[.*\])", done.stdout)[1])
        self.assertLess(alone[-1], alone[0] / 2)
        found = json.loads(re.search(r"\[0\] losses (\[.*\])", together)[1])
        for one, two in zip(alone, found, strict=True):
            self.assertAlmostEqual(one, two, delta=1e-5)


class Roles(LaunchTest):
    """Frameworks that are not installed here: programs that find each other as they do."""

    def roles(self, name, *words):
        return self.finish(
            self.launch(*words, "--", SYSTEM_PYTHON, str(WORKERS / "roles.py"), name)
        )

    def test_parameter_servers_meet_at_the_scheduler(self):
        text = self.roles("dmlc", "--workers", 3, "--servers", 2)
        for rank in range(3):
            self.assertIn(f"[{rank}] pulled [6, 6]", text)

    def test_asynchronous_parameter_servers_make_nobody_wait(self):
        text = self.roles("dmlc_async", "--workers", 3, "--servers", 2)
        for rank in range(3):
            self.assertIn(f"[{rank}] settled at 6", text)

    def test_tasks_of_tf_config_find_each_other(self):
        self.assertIn("[0] sum 6 of 3", self.roles("tf", "--workers", 3))

    def test_groups_are_the_roles_of_mxnet_and_tensorflow(self):
        groups = ['{"name": "ps", "count": 2}', '{"name": "worker", "count": 3}',
                  '{"name": "scheduler"}']
        text = self.roles("dmlc", *(word for each in groups for word in ("--group", each)))
        for rank in range(3):
            self.assertIn(f"[worker {rank}] pulled [6, 6]", text)
        text = self.roles("tf", "--group", '{"name": "worker", "count": 2}',
                          "--group", '{"name": "chief"}')
        self.assertIn("[chief 0] sum 6 of 3", text)

    def test_horovods_ranks_meet_by_their_key_value_store(self):
        text = self.roles("horovod", "--workers", 3)
        self.assertIn("[0] sums [6, 6, 1]", text)
        for rank in (1, 2):
            self.assertIn(f"[{rank}] sums [1]", text)

    def test_deepspeeds_hostfile_and_argument_agree_with_the_ranks(self):
        text = self.roles("deepspeed", "--workers", 2, "--local-rank-argument")
        for rank in range(2):
            self.assertIn(f"[{rank}] rank {rank} of 2 slots", text)


class Mpi(LaunchTest):
    def test_mpirun_finds_the_hosts(self):
        script = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3",
                  SYSTEM_PYTHON, str(WORKERS / "mpi.py")]
        text = self.finish(self.launch("--workers", 1, "--", *script))
        for rank in range(3):
            self.assertIn(f"[0] mpi rank {rank} of 3 sum 6", text)


if __name__ == "__main__":
    unittest.main()
