#!/usr/bin/env python3
"""Runs a .walk script: a user's session, over the command line and the HTTP API of a real server.

    # a comment
    file NAME            writes a file from the following lines, which begin with "| "
    ok ARGS              falaj ARGS must succeed
    exit N ARGS          falaj ARGS must end with exit code N
    show ARGS            falaj ARGS must succeed and print what stands between ---- and a blank line
    http METHOD PATH [BODY]    a request; "-> STATUS" is the next line. BODY @FILE sends a file
    ~ TEXT               what the command or request before printed must contain TEXT
    !~ TEXT              … must not contain TEXT
    run PROGRAM ARGS     any program, in the script's folder; must succeed (python3, truncate …)
    peer SCRIPT ARGS     the same with the Python of build/peers, which has pyarrow
    restart              SIGTERM, then the same folder again
    kill                 SIGKILL, then the same folder again
    stop                 SIGTERM; `start` starts it again

In expected text `*` stands for anything on the line. Commands run in the script's own empty folder
with FALAJ_SERVER set; nothing else is shared with any other test.
"""

import fnmatch
import http.client
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse

START_SECONDS = 30
STEP_SECONDS = 120


class Failed(Exception):
    pass


class Server:
    def __init__(self, program, folder):
        self.program, self.folder, self.process, self.url = program, folder, None, None

    def start(self):
        log = open(os.path.join(self.folder, "server.log"), "ab")
        self.process = subprocess.Popen(
            [
                self.program,
                "dev",
                "--data",
                os.path.join(self.folder, "data"),
                "--port",
                "0",
                "--grpc-port",
                "0",
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=self.folder,
        )
        for line in self.process.stdout:
            if line.startswith(b"ready "):
                self.url = line.split()[1].decode()
                return
        raise Failed("the server ended before it was ready:\n" + self.tail())

    def end(self, number):
        if self.process is None:
            return
        self.process.send_signal(number)
        code = self.process.wait(timeout=10)
        self.process.stdout.close()
        self.process = None
        if number == signal.SIGTERM and code != 0:
            raise Failed(f"the server ended with {code} on SIGTERM:\n" + self.tail())

    def tail(self):
        with open(os.path.join(self.folder, "server.log"), errors="replace") as log:
            return "".join(log.readlines()[-20:])


class Walk:
    def __init__(self, program, script):
        self.program = os.path.abspath(program)
        self.folder = tempfile.mkdtemp(prefix="falaj-walk-")
        self.server = Server(self.program, self.folder)
        self.output, self.steps = "", 0
        with open(script) as text:
            self.lines = text.read().split("\n")
        self.at = 0

    def environment(self):
        keep = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith("FALAJ_") or k == "FALAJ_LIBRARY_DIR"
        }
        keep["PATH"] = os.path.dirname(self.program) + os.pathsep + keep.get("PATH", "")
        return {**keep, "FALAJ_SERVER": self.server.url or "", "NO_COLOR": "1"}

    def falaj(self, words):
        done = subprocess.run(
            [self.program, *words],
            cwd=self.folder,
            env=self.environment(),
            timeout=STEP_SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.output = (done.stdout + done.stderr).decode(errors="replace")
        return done.returncode, done.stdout.decode(errors="replace")

    def expect(self, condition, message):
        if not condition:
            raise Failed(
                f"{message}\n--- it printed:\n{self.output}--- server log:\n{self.server.tail()}"
            )

    def block(self, prefix):
        taken = []
        while self.at < len(self.lines) and self.lines[self.at].startswith(prefix):
            line = self.lines[self.at]
            taken.append(line[2:] if len(line) > 1 else "")
            self.at += 1
        return taken

    def do_file(self, rest):
        path = os.path.join(self.folder, rest)
        with open(path, "w", newline="") as out:
            out.write("".join(line + "\n" for line in self.block("|")))

    def do_ok(self, rest):
        code, _ = self.falaj(shlex.split(rest))
        self.expect(code == 0, f"exit code {code}, wanted 0")

    def do_exit(self, rest):
        wanted, _, command = rest.partition(" ")
        code, _ = self.falaj(shlex.split(command))
        self.expect(code == int(wanted), f"exit code {code}, wanted {wanted}")

    def do_show(self, rest):
        code, printed = self.falaj(shlex.split(rest))
        self.expect(code == 0, f"exit code {code}, wanted 0")
        self.expect(
            self.at < len(self.lines) and self.lines[self.at] == "----",
            "show needs ---- on the next line",
        )
        self.at += 1
        wanted = []
        while self.at < len(self.lines) and self.lines[self.at] != "":
            wanted.append(self.lines[self.at])
            self.at += 1
        got = printed.rstrip("\n").split("\n")
        same = len(got) == len(wanted) and all(
            fnmatch.fnmatchcase(" ".join(g.split()), " ".join(w.split()).replace("[", "[[]"))
            for g, w in zip(got, wanted)
        )
        self.expect(same, "wanted:\n" + "\n".join(wanted))

    def do_http(self, rest):
        method, path, *body = rest.split(" ", 2)
        data = body[0].encode() if body else None
        if data is not None and data.startswith(b"@"):
            with open(os.path.join(self.folder, data[1:].decode()), "rb") as source:
                data = source.read()
        where = urllib.parse.urlsplit(self.server.url)
        connection = http.client.HTTPConnection(where.hostname, where.port, timeout=STEP_SECONDS)
        connection.request(
            method, path, body=data, headers={"Content-Type": "application/json"} if data else {}
        )
        reply = connection.getresponse()
        self.output = reply.read().decode(errors="replace") + "\n"
        connection.close()
        line = self.lines[self.at] if self.at < len(self.lines) else ""
        self.expect(line.startswith("-> "), "http needs '-> STATUS' on the next line")
        self.at += 1
        self.expect(reply.status == int(line[3:]), f"status {reply.status}, wanted {line[3:]}")

    def do_contains(self, rest):
        self.expect(
            fnmatch.fnmatchcase(
                self.output.replace("\n", " "), "*" + rest.replace("[", "[[]") + "*"
            ),
            f"does not contain: {rest}",
        )

    def do_lacks(self, rest):
        self.expect(rest not in self.output, f"must not contain: {rest}")

    def do_run(self, rest):
        done = subprocess.run(
            shlex.split(rest),
            cwd=self.folder,
            env=self.environment(),
            timeout=STEP_SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.output = done.stdout.decode(errors="replace")
        self.expect(done.returncode == 0, f"exit code {done.returncode}, wanted 0")

    def do_peer(self, rest):
        self.do_run(f"{os.environ['PEERS_PYTHON']} -B {rest}")

    def again(self, number):
        self.server.end(number)
        self.server.start()

    def step(self, line):
        word, _, rest = line.partition(" ")
        acts = {
            "file": self.do_file,
            "ok": self.do_ok,
            "exit": self.do_exit,
            "show": self.do_show,
            "http": self.do_http,
            "~": self.do_contains,
            "!~": self.do_lacks,
            "run": self.do_run,
            "peer": self.do_peer,
            "restart": lambda _: self.again(signal.SIGTERM),
            "kill": lambda _: self.again(signal.SIGKILL),
            "stop": lambda _: self.server.end(signal.SIGTERM),
            "start": lambda _: self.server.start(),
        }
        if word not in acts:
            raise Failed(f"unknown word '{word}'")
        acts[word](rest)
        self.steps += 1

    def go(self, script):
        try:
            self.server.start()
            while self.at < len(self.lines):
                number, line = self.at + 1, self.lines[self.at]
                self.at += 1
                if line.strip() == "" or line.startswith("#"):
                    continue
                try:
                    self.step(line)
                except (Failed, subprocess.TimeoutExpired, OSError) as failure:
                    print(f"{script}:{number}: {line}\n{failure}")
                    return 1
            self.server.end(signal.SIGTERM)
            print(f"{os.path.basename(script)}: {self.steps} steps")
            return 0
        finally:
            if self.server.process is not None:
                self.server.process.kill()
                self.server.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(Walk(sys.argv[1], sys.argv[2]).go(sys.argv[2]))
