"""The real program under test: start it, talk to it, kill it, and wait for what it does.

Nothing here waits a fixed time for something to be true: `wait_until` polls a condition up to a
deadline, and a process's end is waited for through its pidfd.
"""
import base64
import hashlib
import http.client
import json
import os
import random
import re
import select
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.parse

PROGRAM = os.path.abspath(os.environ["FALAJ_BINARY"])
# More rounds for a long run: FALAJ_FAULT_ROUNDS=100. The default keeps the whole stage short.
ROUNDS = int(os.environ.get("FALAJ_FAULT_ROUNDS", "0"))
# Longer than anything takes on a loaded machine; a passing test never uses it up.
PATIENCE_SECONDS = 90
STOP_SECONDS = 10


def rounds(usual):
    return ROUNDS or usual


def wait_until(condition, what, seconds=PATIENCE_SECONDS):
    """Returns the first true value of condition(); fails naming `what` after the deadline."""
    never = threading.Event()
    for _ in range(int(seconds / 0.02)):
        value = condition()
        if value:
            return value
        never.wait(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


def wait_for_end(pid, seconds=PATIENCE_SECONDS):
    """True once the process has ended, zombies included; False at the deadline."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def at_random_moment(chance, most_seconds):
    """A fault strikes at a moment drawn from the seeded `chance`, not at a convenient one."""
    select.select([], [], [], chance.uniform(0, most_seconds))


def children_of(pid):
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/children") as children:
                found += [int(child) for child in children.read().split()]
        except OSError:
            pass
    return found


def environment():
    """Ours, without settings of the person who runs the tests."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith("FALAJ_") or k == "FALAJ_LIBRARY_DIR"}
    return {**kept, "NO_COLOR": "1"}


class Reply:
    def __init__(self, status, body, headers):
        self.status, self.body, self.headers = status, body, headers

    @property
    def text(self):
        return self.body.decode(errors="replace")

    @property
    def value(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The FJ code of a problem document; "" for any other body."""
        try:
            return self.value.get("code", "")
        except (ValueError, AttributeError):
            return ""


class Server:
    """`falaj dev` in its own folder. start() returns when it said ready, or fails with its log.

    mode="serve" starts the production server; its authority is then in `authority`.
    """

    def __init__(self, data, *flags, prefix=(), port=0, mode="dev", program=PROGRAM):
        self.data, self.flags, self.prefix, self.port = data, flags, list(prefix), port
        self.program = program
        self.mode, self.authority = mode, os.path.join(data, "tls", "authority.pem")
        self.headers = {}  # Sent with every request.
        self.grpc_address = None
        self.log, self.process, self.url = data + ".log", None, None

    def launch(self):
        """Starts the process; the exit code and what it printed if it ends before it is ready."""
        command = [*self.prefix, self.program, self.mode, "--data", self.data, "--port",
                   str(self.port), "--grpc-port", "0", *self.flags]
        with open(self.log, "ab") as log:
            at = log.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log,
                                            stdout=subprocess.PIPE, env=environment())
        for line in self.process.stdout:
            if line.startswith(b"ready "):
                self.url = line.split()[1].decode()
                return None
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self.forget()
        with open(self.log, "rb") as log:
            log.seek(at)
            return code, log.read().decode(errors="replace")

    def start(self):
        ended = self.launch()
        if ended is not None:
            raise AssertionError(f"the server ended with {ended[0]}, never ready:\n{ended[1]}")
        return self

    def jobs_folder(self):
        """Where folders and logs of running jobs lie: in memory."""
        name = hashlib.sha256(os.path.realpath(self.data).encode()).hexdigest()[:16]
        return f"/dev/shm/falaj-jobs-{os.geteuid()}-{name}/jobs"

    @property
    def pid(self):
        return self.process.pid

    def forget(self):
        self.process.stdout.close()
        self.process, self.url, self.grpc_address = None, None, None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.forget()

    def stop(self):
        """SIGTERM; the exit code, which is 0 when nothing was wrong."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=STOP_SECONDS)
        self.forget()
        return code

    def tail(self):
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-20:])

    def address(self):
        where = urllib.parse.urlsplit(self.url)
        return where.hostname, where.port

    def grpc(self):
        """Where gRPC is answered, as host:port; the line that follows "ready"."""
        if self.grpc_address is None:
            self.grpc_address = self.process.stdout.readline().split()[1].decode()
        return self.grpc_address

    def set_up(self, name="root", password="correct horse battery"):
        """Follows the setup link of a fresh production server; requests then carry a token."""
        with open(self.log, errors="replace") as log:
            secret = re.findall(r"/setup#(\S+)", log.read())[-1]
        self.good("POST", "/api/v1/setup", {"secret": secret, "name": name, "password": password})
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        self.headers = {"Authorization": f"Basic {basic}"}
        token = self.good("POST", "/api/v1/tokens", {"label": "tests"})["token"]
        self.headers = {"Authorization": f"Bearer {token}"}
        return token

    def connect(self, certificate=None):
        """A new connection; over TLS it shows the client certificate of that PEM file."""
        if self.mode == "dev":
            return http.client.HTTPConnection(*self.address(), timeout=PATIENCE_SECONDS)
        context = ssl.create_default_context(cafile=self.authority)
        if certificate:
            context.load_cert_chain(certificate)
        return http.client.HTTPSConnection(
            *self.address(), timeout=PATIENCE_SECONDS, context=context)

    def request(self, method, path, body=None, kind="application/json"):
        """One request on its own connection. OSError or HTTPException when no reply comes."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        if isinstance(body, str):
            body = body.encode()
        connection = self.connect()
        try:
            headers = {**self.headers, **({"Content-Type": kind} if body else {})}
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return Reply(reply.status, reply.read(), dict(reply.getheaders()))
        finally:
            connection.close()

    def get(self, path):
        return self.good("GET", path)

    def good(self, method, path, body=None):
        """The parsed reply of a request that must succeed."""
        reply = self.request(method, path, body)
        if reply.status >= 300:
            raise AssertionError(f"{method} {path}: {reply.status} {reply.text}\n{self.tail()}")
        return reply.value

    def apply(self, *objects):
        return self.good("PUT", "/api/v1/objects", {"objects": list(objects)})

    def ingest(self, view, csv):
        return self.good("POST", f"/api/v1/feature-views/{view}:ingest?format=csv", csv)

    def rows(self, view):
        views = self.get("/api/v1/feature-views")["views"]
        return next(each["rows"] for each in views if each["view"] == view)

    def job_ended(self, job):
        """The job once it has ended, by the server's long poll."""
        def ended():
            value = self.get(f"/api/v1/jobs/{job}:wait?seconds=5")
            return value if value["status"] in ("succeeded", "failed", "cancelled") else None
        return wait_until(ended, f"job {job} to end")

    def train(self, name):
        return self.good("POST", f"/api/v1/train-jobs/{name}:run", {})

    def engine(self):
        """The pid of the training child, once it runs the engine."""
        def running():
            for child in children_of(self.pid):
                try:
                    with open(f"/proc/{child}/cmdline", "rb") as words:
                        if words.read().split(b"\0")[1:3] == [b"engine", b"train"]:
                            return child
                except OSError:
                    pass
            return None
        return wait_until(running, "the training process")

    def audit_holds(self):
        return self.good("POST", "/api/v1/audit:verify", {})["ok"]

    def audited(self, action):
        return self.get(f"/api/v1/audit?action={action}&limit=1000")["entries"]

    def deployment(self, name):
        listed = self.get("/api/v1/deployments")["deployments"]
        return next((each for each in listed if each["name"] == name), {"state": "absent"})

    def wait_ready(self, name):
        wait_until(lambda: self.deployment(name)["state"] == "ready", f"deployment {name}")

    def answers(self):
        return self.request("GET", "/livez").status == 200


class ProgramTest(unittest.TestCase):
    """Gives every test an empty folder, and leaves no server behind."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="falaj-faults-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.made = 0

    def server(self, *flags, data=None, **more):
        self.made += 1
        server = Server(data or os.path.join(self.folder, f"data-{self.made}"), *flags, **more)
        self.addCleanup(server.kill)
        return server

    def copy_of(self, data):
        self.made += 1
        target = os.path.join(self.folder, f"data-{self.made}")
        shutil.copytree(data, target)
        return target

    def falaj(self, *words, **more):
        """Exit code and everything printed."""
        more.setdefault("env", environment())
        done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE_SECONDS, cwd=self.folder,
                              **more)
        return done.returncode, done.stdout.decode(errors="replace")

    def refused(self, server, code, exit_code=1):
        """The server must end before it is ready, with that exit code, naming the code."""
        ended = server.launch()
        self.assertIsNotNone(ended, "it started, and should have refused")
        self.assertEqual(ended[0], exit_code, ended[1])
        self.assertIn(code, ended[1])
        self.assertEqual(len(re.findall(r"FJ-\d{4}", ended[1])), 1, ended[1])
        return ended[1]


def seeded(name):
    """Same moments in every run of the same test; FALAJ_FAULT_SEED draws others."""
    return random.Random(f"{name}/{os.environ.get('FALAJ_FAULT_SEED', '1')}")
