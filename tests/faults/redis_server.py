"""A redis-server of its own for a test, set up as Falaj asks for, on a free port of 127.0.0.1.

    python3 redis_server.py COMMAND...   runs the command with FALAJ_STORAGE_... naming the server
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

from required import REQUIRED

SKIPPED = 1 if REQUIRED else 77  # What ctest takes for "not tried"; in CI it was to be tried.


def is_installed():
    return shutil.which("redis-server") is not None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Redis:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="falaj-redis-")
        self.port, self.process = free_port(), None
        self.dumps = []

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self, fsync="always"):
        """Returns once it takes connections. The folder stays the same: so do its rows."""
        words = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
                 "--dir", self.folder, "--save", "", "--appendonly", "yes",
                 "--appendfsync", fsync]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE)
        for line in self.process.stdout:
            if b"Ready to accept connections" in line:
                return self
        raise AssertionError(f"redis-server ended with {self.process.wait()}")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None

    def dump(self):
        """A copy of all that it keeps, as a backup would take it; for set_back()."""
        copy = tempfile.mkdtemp(prefix="falaj-redis-dump-")
        self.dumps.append(copy)
        shutil.copytree(self.folder, copy, dirs_exist_ok=True)
        return copy

    def set_back(self, dump):
        """Stops, takes the copy for its own and starts."""
        self.kill()
        shutil.rmtree(self.folder)
        shutil.copytree(dump, self.folder)
        return self.start()

    def remove(self):
        self.kill()
        for folder in (self.folder, *self.dumps):
            shutil.rmtree(folder, ignore_errors=True)

    def ask(self, *words):
        """The reply as a text, as redis-cli prints it."""
        told = ["redis-cli", "-p", str(self.port), *words]
        return subprocess.run(told, capture_output=True, check=True).stdout.decode().strip()

    def rows(self):
        """How many fields lie in all the hashes of online rows, but for the store's own number."""
        keys = [key for key in self.ask("KEYS", "falaj:rows:*").split() if not self.is_number(key)]
        return sum(int(self.ask("HLEN", key)) for key in keys)

    def is_number(self, key):
        """Whether that hash is the one that says which generation all the others are of."""
        return self.ask("HEXISTS", key, "number") == "1"

    def bytes(self):
        """Everything that it keeps on disk."""
        found = b""
        for at, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(at, name), "rb") as file:
                    found += file.read()
        return found


class Tap:
    """Listens in front of a server and keeps every byte that passes, both ways."""

    def __init__(self, port):
        self.behind, self.heard, self.links = port, bytearray(), []
        self.lock = threading.Lock()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.let_in, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def let_in(self):
        while True:
            try:
                link, _ = self.door.accept()
            except OSError:
                return  # It was closed.
            server = socket.create_connection(("127.0.0.1", self.behind))
            with self.lock:
                self.links += [link, server]
            for one, other in ((link, server), (server, link)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        try:
            while part := one.recv(65536):
                with self.lock:
                    self.heard += part
                other.sendall(part)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # An end was closed.

    def bytes(self):
        with self.lock:
            return bytes(self.heard)

    def close(self):
        self.door.close()
        with self.lock:
            for link in self.links:
                link.close()


def main(command):
    if not is_installed():
        print("redis-server is not installed: ./dev setup")
        return SKIPPED
    redis = Redis()
    try:
        redis.start()
        chosen = {"FALAJ_STORAGE_ONLINE": "redis", "FALAJ_STORAGE_REDIS_URL": redis.url,
                  "FALAJ_STORAGE_REDIS_ZONE": "local"}
        code = subprocess.run(command, env={**os.environ, **chosen}).returncode
        print(f"{redis.rows()} rows in Redis")
        return code
    finally:
        redis.remove()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
