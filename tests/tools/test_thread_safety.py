"""tools/thread_safety catches a member read without its lock; and our own sources pass.

With PROGRAM_UNDER_TEST set, the sources of the build around that program are checked.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COUNTER = """#include "base/mutex.h"
class Counter {{
 public:
  int next() {{
    {lock}
    return ++count_;
  }}

 private:
  falaj::Mutex mutex_;
  int count_ FALAJ_GUARDED_BY(mutex_) = 0;
}};
int use(Counter& counter) {{ return counter.next(); }}
"""


def thread_safety(*arguments):
    return subprocess.run([sys.executable, ROOT / "tools/thread_safety", *arguments],
                          capture_output=True, text=True)


class ThreadSafetyTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="thread-safety-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, lock):
        source = self.folder / "counter.cc"
        source.write_text(COUNTER.format(lock=lock))
        entry = {"directory": str(self.folder), "file": str(source),
                 "command": f"c++ -std=c++20 -I{ROOT}/src -c {source}"}
        (self.folder / "compile_commands.json").write_text(json.dumps([entry]))
        return thread_safety("--build", self.folder, source)

    def test_catches_a_read_without_the_lock(self):
        done = self.check("")
        self.assertEqual(done.returncode, 1)
        self.assertIn("count_", done.stdout)

    def test_passes_with_the_lock(self):
        done = self.check("falaj::MutexLock lock(mutex_);")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless("PROGRAM_UNDER_TEST" in os.environ, "no build given")
    def test_our_sources_keep_their_claims(self):
        done = thread_safety("--build", Path(os.environ["PROGRAM_UNDER_TEST"]).parent)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
