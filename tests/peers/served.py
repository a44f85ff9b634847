"""`falaj serve` in a folder of its own, with an administrator and the command line as theirs."""

import os
import shutil
import ssl
import subprocess
import tempfile

PROGRAM = os.environ["FALAJ_BINARY"]
PASSWORD = "correct horse battery: staple"


class Served:
    """start() and stop() any number of times over the same data; remove() at the end."""

    def __init__(self, port=0):
        self.folder = tempfile.mkdtemp(prefix="falaj-served-")
        self.port, self.flags, self.process = port, [], None
        self.authority = self.folder + "/data/tls/authority.pem"

    def start(self):
        log = open(self.folder + "/log", "ab")
        words = ["serve", "--data", self.folder + "/data", "--port", str(self.port), *self.flags]
        self.process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=log)
        log.close()
        ready = self.process.stdout.readline().decode()
        assert ready.startswith("ready "), self.log()
        self.url = ready.split()[1]
        self.context = ssl.create_default_context(cafile=self.authority)
        return self

    def log(self):
        with open(self.folder + "/log", errors="replace") as text:
            return text.read()

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=10)
        self.process.stdout.close()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def set_up(self, name):
        """Makes the first administrator and signs the command line in as them."""
        lines = [line.split() for line in self.log().split("\n")]
        link = next(words[1] for words in lines if words[:1] == ["Setup"])
        self.falaj("setup", link, "--user", name, typed=PASSWORD)
        self.falaj("login", "--user", name, typed=PASSWORD)

    def falaj(self, *words, typed=""):
        """What the command printed; it must succeed."""
        environment = {
            **os.environ,
            "XDG_CONFIG_HOME": self.folder + "/config",
            "FALAJ_SERVER": self.url,
            "FALAJ_CA": self.authority,
        }
        done = subprocess.run(
            [PROGRAM, *words],
            input=typed + "\n",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, (words[:1], done.stdout, done.stderr)
        return done.stdout
