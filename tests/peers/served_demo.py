"""A real server with the demo walked on it, for tests of real clients."""

import json
import os
import shutil
import subprocess
import tempfile
import urllib.request

PROGRAM = os.environ["FALAJ_BINARY"]


class ServedDemo:
    """with ServedDemo() as demo: demo.url, demo.result (the demo's closing object)."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="falaj-peers-")
        self.server = subprocess.Popen(
            [PROGRAM, "dev", "--data", self.folder + "/data", "--port", "0", "--grpc-port", "0"],
            stdout=subprocess.PIPE,
            stderr=open(self.folder + "/log", "wb"),
        )
        self.url = self.server.stdout.readline().decode().split()[1]
        self.grpc = self.server.stdout.readline().decode().split()[1]
        done = subprocess.run(
            [PROGRAM, "demo", "--server", self.url, "-o", "json"],
            stdout=subprocess.PIPE,
            check=True,
        )
        self.result = json.loads(done.stdout)
        return self

    def get(self, path):
        return json.load(urllib.request.urlopen(self.url + path))

    def post(self, path, body):
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request))

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait(timeout=10)
        self.server.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
