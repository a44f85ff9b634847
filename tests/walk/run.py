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
    serve                as the first line: the server is `falaj serve` (TLS, a sign-in), not `dev`
    type TEXT            what the next command reads from standard input
    keep NAME            $NAME stands for the last word of what was printed, from here on
    set NAME TEXT        an environment variable for the commands that follow; without TEXT: none
    header NAME: TEXT    sent with every http request that follows; `header` alone: none

In expected text `*` stands for anything on the line. $SETUP is the setup link of `falaj serve`.
Commands run in the script's own empty folder
with FALAJ_SERVER set; nothing else is shared with any other test.
"""

import fnmatch
import http.client
import os
import shlex
import shutil
import signal
import ssl
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
        self.mode, self.setup, self.authority = "dev", "", ""

    def start(self):
        log = open(os.path.join(self.folder, "server.log"), "ab")
        self.process = subprocess.Popen(
            [
                self.program,
                self.mode,
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
                self.read_banner()
                return
        raise Failed("the server ended before it was ready:\n" + self.tail())

    def read_banner(self):
        """The newest start's setup link and authority, from what it printed for a person."""
        with open(os.path.join(self.folder, "server.log"), errors="replace") as log:
            banner = log.read().rpartition("  Falaj ")[2]
        for line in banner.split("\n"):
            words = line.split()
            if words[:1] == ["Authority"]:
                self.authority = words[1]
            if words[:1] == ["Setup"]:
                self.setup = words[1]

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
        self.output, self.steps, self.typed = "", 0, None
        self.kept, self.variables, self.headers = {}, {}, {}
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
        keep["XDG_CONFIG_HOME"] = os.path.join(self.folder, "config")
        if self.server.authority:
            keep["FALAJ_CA"] = self.server.authority
        return {**keep, "FALAJ_SERVER": self.server.url or "", "NO_COLOR": "1", **self.variables}

    def standard_input(self):
        typed, self.typed = self.typed, None
        return {"input": typed.encode()} if typed is not None else {"stdin": subprocess.DEVNULL}

    def falaj(self, words):
        done = subprocess.run(
            [self.program, *words],
            cwd=self.folder,
            env=self.environment(),
            timeout=STEP_SECONDS,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **self.standard_input(),
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
        connection = self.connect(where.hostname, where.port)
        headers = {"Content-Type": "application/json"} if data else {}
        connection.request(method, path, body=data, headers={**headers, **self.headers})
        reply = connection.getresponse()
        self.output = reply.read().decode(errors="replace") + "\n"
        self.reply_headers = reply.getheaders()
        connection.close()
        line = self.lines[self.at] if self.at < len(self.lines) else ""
        self.expect(line.startswith("-> "), "http needs '-> STATUS' on the next line")
        self.at += 1
        self.expect(reply.status == int(line[3:]), f"status {reply.status}, wanted {line[3:]}")

    def connect(self, host, port):
        if self.server.mode == "dev":
            return http.client.HTTPConnection(host, port, timeout=STEP_SECONDS)
        authority = os.path.join(self.folder, "data", "tls", "authority.pem")
        context = ssl.create_default_context(cafile=authority)
        return http.client.HTTPSConnection(host, port, timeout=STEP_SECONDS, context=context)

    def do_type(self, rest):
        self.typed = rest + "\n"

    def do_keep(self, rest):
        words = self.output.replace('"', " ").split()
        self.expect(bool(words), "nothing was printed")
        self.kept[rest] = words[-1]

    def do_set(self, rest):
        name, _, value = rest.partition(" ")
        self.variables.pop(name, None)
        if value:
            self.variables[name] = value

    def do_header(self, rest):
        name, _, value = rest.partition(": ")
        self.headers = {**self.headers, name: value} if name else {}

    def with_kept(self, line):
        for name, value in {**self.kept, "SETUP": self.server.setup}.items():
            line = line.replace("$" + name, value)
        return line

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
        word, _, rest = self.with_kept(line).partition(" ")
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
            "serve": lambda _: None,
            "type": self.do_type,
            "keep": self.do_keep,
            "set": self.do_set,
            "header": self.do_header,
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
            first = [line for line in self.lines if line.strip() and not line.startswith("#")][:1]
            self.server.mode = "serve" if first == ["serve"] else "dev"
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
