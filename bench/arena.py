"""What a scenario works with: programs to start and stop, and the comparison of answers."""

import json
import math
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path


class Refused(Exception):
    """The race does not count: the answers differ, or a contestant failed."""


def clock_ticks(pid: int) -> tuple[int, int]:
    """Of user and system time: of its own threads, and of the children it waited for."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12]), int(words[13]) + int(words[14])


class Program:
    """A child process that prints `ready URL` once it serves."""

    def __init__(self, command: list, log: Path, environment: dict | None = None):
        self.command = [str(c) for c in command]
        self.log = log.open("ab")
        begin = time.perf_counter()
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=environment)
        self.url = ""
        for line in self.process.stdout:
            if line.startswith("ready "):
                self.url = line.split()[1]
                break
        self.ready_seconds = time.perf_counter() - begin
        if not self.url:
            code = self.process.wait()
            raise Refused(f"{' '.join(self.command)} ended with {code} before it was ready; "
                          f"its log:\n{log.read_text(errors='replace')[-2000:]}")

    def rss_megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        """User and system time so far, of all its threads: what a busy machine does not distort."""
        return clock_ticks(self.process.pid)[0] / os.sysconf("SC_CLK_TCK")

    def family_cpu_seconds(self) -> float:
        """The same with the processes it started and theirs, whether they ended or not."""
        ticks, left = 0, [self.process.pid]
        while left:
            pid = left.pop()
            try:
                own, ended_children = clock_ticks(pid)
                tasks = list(Path(f"/proc/{pid}/task").iterdir())
                for task in tasks:
                    left += map(int, (task / "children").read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended meanwhile: its parent knows its time once it waited for it.
            ticks += own + ended_children
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> float:
        """Asks it to end, waits, and says how long that took; harmless when it ended already."""
        begin = time.perf_counter()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
        self.log.close()
        return time.perf_counter() - begin


class Engine:
    """A process that answers each line that it is told, a spine to join, with a line of JSON."""

    def __init__(self, *command):
        self.process = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def join(self, spine) -> dict:
        self.process.stdin.write(f"{spine}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Refused(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Arena:
    def __init__(self, root: Path, build: Path, work: Path):
        self.root, self.build, self.work = root, build, work
        self.falaj = build / "falaj"
        self.python = root / "build/peers/bin/python"
        self.programs: list[Program] = []

    def built(self, target: str, path: str) -> Path:
        """A program of ours that is only built for a race."""
        program = self.build / path
        if not program.exists():
            command = ["ninja", "-C", str(self.build), target]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return program

    def run_wards(self, what: str, count: int) -> dict:
        """What src/exec/wards_bench.cc measures, in a folder that was empty."""
        folder = self.work / "wards"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return self.run_json(self.built("wards_bench", "src/exec/wards_bench"), what, folder, count)

    def serve(self, *arguments, environment: dict | None = None) -> Program:
        """Starts a program and waits for its `ready` line; it ends with the arena at the latest."""
        program = Program(list(arguments), self.work / "programs.log", environment)
        self.programs.append(program)
        return program

    def run_json(self, *command, timeout: float = 600) -> dict:
        """Runs a command that prints one JSON object last."""
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True,
                              timeout=timeout)
        if done.returncode != 0:
            raise Refused(f"{' '.join(map(str, command))} ended with {done.returncode}:\n"
                          f"{done.stderr[-2000:]}")
        return json.loads(done.stdout[done.stdout.index("{"):])

    def close(self) -> None:
        for program in self.programs:
            program.stop()
        self.programs.clear()


def call(url: str, body: dict | None = None, method: str | None = None):
    """One HTTP call with JSON in and out; an error status raises Refused with the reply."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"},
                                     method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read() or b"null")
    except urllib.error.HTTPError as error:
        raise Refused(f"{url}: {error.code}: {error.read()[:500]!r}") from error


def first_difference(ours, peer, tolerance: float, path: str = "answer") -> str | None:
    """Where two answers (numbers, text, lists, objects) differ; None when they are equal."""
    number = (int, float)
    if isinstance(ours, number) and isinstance(peer, number):
        if ours == peer or (math.isnan(ours) and math.isnan(peer)):
            return None
        close = abs(ours - peer) <= tolerance * max(1.0, abs(ours), abs(peer))
        return None if close else f"{path}: ours {ours!r}, peer {peer!r}"
    if isinstance(ours, list | tuple) and isinstance(peer, list | tuple):
        if len(ours) != len(peer):
            return f"{path}: ours has {len(ours)} entries, peer {len(peer)}"
        pairs = ((f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(ours, peer)))
    elif isinstance(ours, dict) and isinstance(peer, dict):
        if ours.keys() != peer.keys():
            return f"{path}: ours has {sorted(ours)}, peer {sorted(peer)}"
        pairs = ((f"{path}.{k}", ours[k], peer[k]) for k in ours)
    else:
        return None if ours == peer else f"{path}: ours {ours!r}, peer {peer!r}"
    for inner, a, b in pairs:
        found = first_difference(a, b, tolerance, inner)
        if found:
            return found
    return None


def spoil(answer):
    """A slightly wrong copy of an answer: its last value changes, its shape does not."""
    if isinstance(answer, bool):
        return not answer
    if isinstance(answer, int | float):
        return answer + max(1, abs(answer) // 100)
    if isinstance(answer, str):
        return answer + "?"
    if isinstance(answer, list | tuple) and answer:
        return [*answer[:-1], spoil(answer[-1])]
    if isinstance(answer, dict) and answer:
        last = list(answer)[-1]
        return {**answer, last: spoil(answer[last])}
    return ["spoiled"]
