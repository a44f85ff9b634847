"""Short processes a second, from being asked for to being ended and recorded on the disk.

Both are given one array of jobs and may run PLACES of them at a time. Ours: the server over HTTP,
each command in a sandbox and a control group of its own with limits of processor time, memory and
processes; each beginning and end is a synced event, each end an entry of the audit log. The peer is
a single-node Slurm when there is one: FALAJ_SLURM names the folder where Debian's packages
slurmctld, slurmd, slurm-client and slurm-wlm-basic-plugins are unpacked ("/" if installed); no
sandbox, no control groups, recorded by its job completion log, no accounting database. Without it
the peer is `xargs -P`, which limits and records nothing: a floor, not an equal.

`/bin/true` is not nothing: its loader and C library ask the processor what it can do, and where a
hypervisor answers that takes longer than our whole part. So each round also runs a program of one
system call, without a C library (`bare_jobs_per_s`).
"""

import os
import shutil
import socket
import statistics
import subprocess
import time
import urllib.request
from pathlib import Path

from arena import Refused, call

TITLE = "1,000 × /bin/true, submitted to finished and recorded"
UNIT = "jobs/s"
COUNT = 1000
PLACES = 64  # Jobs at a time.
BARE = "void _start(void) { __asm__ volatile(\"mov $60, %eax; xor %edi, %edi; syscall\"); }\n"


def bare_program(folder: Path) -> Path:
    """Ends at once, by the system call `exit`."""
    folder.mkdir(parents=True, exist_ok=True)
    source, program = folder / "bare.c", folder / "bare"
    source.write_text(BARE)
    subprocess.run(["cc", "-O2", "-static", "-nostdlib", "-o", program, source], check=True)
    return program


class Contestant:
    """Runs COUNT jobs of a command and says how many ended; both commands in each round."""

    def __init__(self, bare: Path):
        self.bare, self.rates, self.bare_rates = bare, [], []

    @property
    def extra(self) -> dict:
        return {
            "jobs_per_s": statistics.median(self.rates[1:] or self.rates),
            "bare_jobs_per_s": statistics.median(self.bare_rates[1:] or self.bare_rates),
        }

    def round(self):
        rates = []
        for command in ("/bin/true", str(self.bare)):
            begin = time.perf_counter()
            ended = self.run_all(command)
            rates.append(COUNT / (time.perf_counter() - begin))
        self.rates.append(rates[0])
        self.bare_rates.append(rates[1])
        return rates[0], {"ended": ended}


def wait_for(count_ended) -> int:
    begin = time.perf_counter()
    while (ended := count_ended()) < COUNT:
        if time.perf_counter() - begin > 240:
            raise Refused(f"only {ended} of {COUNT} jobs in 240 s")
        time.sleep(0.03)
    return ended


class Ours(Contestant):
    """A server as users have it: HTTP, sandbox, limits, audit log, everything synced."""

    def __init__(self, arena):
        folder = arena.work / "job_rate"
        shutil.rmtree(folder, ignore_errors=True)
        super().__init__(bare_program(arena.work / "job_rate_bare"))
        settings = [f"jobs.waiting_max={10 * COUNT}", f"jobs.node_cpus={PLACES}",
                    f"jobs.readable={self.bare.parent}"]
        words = [word for setting in settings for word in ("--set", setting)]
        self.program = arena.serve(
            arena.falaj, "dev", "--data", folder, "--port", 0, "--grpc-port", 0, *words
        )

    def ended(self) -> int:
        with urllib.request.urlopen(self.program.url + "/metrics", timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        wanted = 'falaj_jobs_ended_total{type="command",status="succeeded"}'
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith(wanted))

    def run_all(self, command: str) -> int:
        before = self.ended()
        body = {
            "count": COUNT,
            "command": [command],
            "resources": {"cpus": 1, "memory": "8Mi"},
        }
        call(self.program.url + "/api/v1/job-arrays", body)
        return wait_for(lambda: self.ended() - before)

    def close(self):
        pass  # The arena stops the program.


class Xargs(Contestant):
    """Two at a time on any machine: more are not quicker for such short ones."""

    @property
    def extra(self) -> dict:
        return super().extra | {"is_slurm": 0.0}

    def run_all(self, command: str) -> int:
        numbers = "\n".join(map(str, range(COUNT)))
        words = ["xargs", "-P", str(os.cpu_count() or 2), "-n", "1", command]
        subprocess.run(words, input=numbers, text=True, check=True)
        return COUNT

    def close(self):
        pass


def free_ports(count: int) -> list[int]:
    """All open at once, so that they differ."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm(Contestant):
    """slurmctld and slurmd on loopback with a configuration made for short jobs."""

    def __init__(self, root: Path, folder: Path, bare: Path):
        super().__init__(bare)
        self.root, self.folder = root, folder
        self.libraries = root / "usr/lib/x86_64-linux-gnu"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.records = folder / "completed"
        self.environment = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "LD_LIBRARY_PATH": f"{self.libraries}/slurm-wlm:{self.libraries}",
        }
        (folder / "slurm.conf").write_text(self.configuration())
        steps = self.program("slurmstepd")
        self.processes = [
            self.daemon("slurmctld"),
            self.daemon("slurmd", "-N", "bench", "-d", steps),
        ]
        self.wait_until_idle()

    @property
    def extra(self) -> dict:
        return super().extra | {"is_slurm": 1.0}

    def program(self, name: str) -> str:
        for place in (f"usr/sbin/{name}-wlm", f"usr/sbin/{name}", f"usr/bin/{name}"):
            if (self.root / place).exists():
                return str(self.root / place)
        raise Refused(f"there is no {name} under {self.root}")

    def configuration(self) -> str:
        control, node = free_ports(2)
        host = socket.gethostname().split(".")[0]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        lines = {
            "ClusterName": "bench",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": control,
            "SlurmdPort": node,
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/none",
            "CredType": "cred/none",
            "PluginDir": self.libraries / "slurm-wlm",
            "StateSaveLocation": self.folder / "state",
            "SlurmdSpoolDir": self.folder / "spool",
            "SlurmctldPidFile": self.folder / "slurmctld.pid",
            "SlurmdPidFile": self.folder / "slurmd.pid",
            "SlurmctldLogFile": self.folder / "slurmctld.log",
            "SlurmdLogFile": self.folder / "slurmd.log",
            "JobCompType": "jobcomp/filetxt",
            "JobCompLoc": self.records,
            "ProctrackType": "proctrack/pgid",
            "TaskPlugin": "task/none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "SchedulerType": "sched/builtin",
            "SchedulerParameters": "default_queue_depth=10000,sched_min_interval=1000,"
            "batch_sched_delay=0",
            "MaxArraySize": 10001,
            "MaxJobCount": 50000,
            "MinJobAge": 2,
            "ReturnToService": 2,
            "SlurmctldParameters": "idle_on_node_suspend",
            "SlurmdParameters": "config_overrides",  # As many places as were named.
        }
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        text += f"NodeName=bench NodeHostname={host} NodeAddr=127.0.0.1 CPUs={PLACES} "
        text += f"RealMemory={memory // 2} State=UNKNOWN\n"
        return text + "PartitionName=bench Nodes=bench Default=YES MaxTime=INFINITE State=UP\n"

    def daemon(self, name: str, *arguments):
        (self.folder / "state").mkdir(exist_ok=True)
        (self.folder / "spool").mkdir(exist_ok=True)
        log = (self.folder / f"{name}.out").open("ab")
        command = [self.program(name), "-D", "-f", str(self.folder / "slurm.conf"), *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def run(self, name: str, *arguments) -> str:
        done = subprocess.run(
            [self.program(name), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode != 0:
            raise Refused(f"{name} ended with {done.returncode}: {done.stderr[-1000:]}")
        return done.stdout

    def wait_until_idle(self):
        for _ in range(300):
            try:
                if self.run("sinfo", "-h", "-o", "%T").strip() == "idle":
                    return
            except Refused:
                pass
            time.sleep(0.2)
        logs = "".join(p.read_text(errors="replace")[-800:] for p in self.folder.glob("*.log"))
        self.close()
        raise Refused(f"Slurm did not come up: {logs}")

    def completed(self) -> int:
        if not self.records.exists():
            return 0
        return sum("JobState=COMPLETED" in line for line in self.records.open())

    def run_all(self, command: str) -> int:
        before = self.completed()
        file = self.folder / "command.sh"
        file.write_text(f"#!/bin/sh\nexec {command}\n")
        self.run("sbatch", f"--array=0-{COUNT - 1}", "-o", "/dev/null", "-D", "/", str(file))
        return wait_for(lambda: self.completed() - before)

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ours(arena):
    return Ours(arena)


def peer(arena):
    root = os.environ.get("FALAJ_SLURM")
    bare = bare_program(arena.work / "job_rate_bare")
    return Slurm(Path(root), arena.work / "slurm", bare) if root else Xargs(bare)
