"""tools/run_demo as ./dev run uses it, over a small stand-in for the program."""

import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = """#!/usr/bin/env python3
import pathlib, signal, sys
if sys.argv[1] == "demo":
    print("demo on", sys.argv[3])
    sys.exit({demo_code})
if {fails}:
    sys.exit("error: port in use")
def stop(*_):
    pathlib.Path("stopped").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready http://127.0.0.1:1", flush=True)
while True:
    signal.pause()
"""


class RunDemoTest(unittest.TestCase):
    def setUp(self):
        self.tree = Path(tempfile.mkdtemp(prefix="run-demo-"))
        self.addCleanup(shutil.rmtree, self.tree)
        for folder in ("tools", "build/release"):
            (self.tree / folder).mkdir(parents=True)
        shutil.copy(ROOT / "tools/run_demo", self.tree / "tools")

    def stand_in(self, demo_code=0, fails=False):
        program = self.tree / "build/release/falaj"
        program.write_text(STAND_IN.format(demo_code=demo_code, fails=fails))
        program.chmod(0o755)

    def run_demo(self, once):
        return subprocess.run([self.tree / "tools/run_demo", once], capture_output=True, text=True,
                              timeout=30)

    def test_once_ends_with_the_demos_exit_code_and_stops_the_server(self):
        for code in (0, 1, 6):
            self.stand_in(demo_code=code)
            done = self.run_demo("true")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("demo on http://127.0.0.1:1", done.stdout)
            self.assertTrue((self.tree / "stopped").exists())
            (self.tree / "stopped").unlink()

    def test_says_when_the_server_never_becomes_ready(self):
        self.stand_in(fails=True)
        done = self.run_demo("true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("port in use", done.stderr)
        self.assertIn("before it was ready", done.stderr)

    def test_keeps_serving_until_interrupted(self):
        self.stand_in()
        process = subprocess.Popen([self.tree / "tools/run_demo", "false"], text=True,
                                   stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.stdout.close)
        try:
            lines = iter(process.stdout.readline, "")
            self.assertTrue(any(line.startswith("serving ") for line in lines))
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=30), 130)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        self.assertTrue((self.tree / "stopped").exists())


if __name__ == "__main__":
    unittest.main()
