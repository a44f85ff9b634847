"""A redis-server of its own for a test, set up as Falaj asks for, on a free port of 127.0.0.1.

    python3 redis_server.py COMMAND...   runs the command with FALAJ_STORAGE_... naming the server
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

SKIPPED = 77  # What ctest takes for "not tried".


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

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *words):
        """The reply as a text, as redis-cli prints it."""
        told = ["redis-cli", "-p", str(self.port), *words]
        return subprocess.run(told, capture_output=True, check=True).stdout.decode().strip()

    def rows(self):
        """How many fields lie in all the hashes of online rows."""
        return sum(int(self.ask("HLEN", key)) for key in self.ask("KEYS", "falaj:rows:*").split())

    def bytes(self):
        """Everything that it keeps on disk."""
        found = b""
        for at, _, names in os.walk(self.folder):
            for name in names:
                with open(os.path.join(at, name), "rb") as file:
                    found += file.read()
        return found


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
