"""Shows tools/crossbind catching two libraries that answer for each other, and the real ones clean.

With PROGRAM_UNDER_TEST set, the real check runs on that program with PROGRAM_ARGUMENTS, which must
open ONNX Runtime, LightGBM, XGBoost and Arrow in one process.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AS_SHIPPED = ROOT / "build/peers/lib/python3.11/site-packages/pyarrow"
CODEC = "int codec(void) {{ return {value}; }}\nint use_{name}(void) {{ return codec(); }}\n"
MAIN = ("int use_left(void);\nint use_right(void);\n"
        "int main(void) { return use_left() + use_right() == 0; }\n")
OPENER = """#include <dlfcn.h>
#include <stdio.h>
int main(int count, char** names) {
  for (int i = 1; i < count; ++i)
    if (!dlopen(names[i], RTLD_NOW | RTLD_GLOBAL)) return puts(dlerror()), 1;
  return 0;
}
"""


def crossbind(*command):
    return subprocess.run([sys.executable, ROOT / "tools/crossbind", *command],
                          capture_output=True, text=True)


class CrossbindTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="crossbind-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def compile(self, name, text, *flags):
        source = self.folder / f"{name}.c"
        source.write_text(text)
        subprocess.run(["cc", "-o", self.folder / name, source, *flags], check=True)
        return self.folder / name

    def program_over_two_libraries(self, *flags):
        """Both libraries define codec(), as two vendors who bundle the same code do."""
        for name, value in (("left", 1), ("right", 2)):
            self.compile(f"lib{name}.so", CODEC.format(name=name, value=value), "-shared",
                         "-fPIC", *flags)
        return self.compile("main", MAIN, f"-L{self.folder}", "-lleft", "-lright",
                            f"-Wl,-rpath,{self.folder}")

    def test_catches_a_symbol_taken_from_an_unrelated_library(self):
        done = crossbind(self.program_over_two_libraries())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("libright.so -> libleft.so", done.stderr)
        self.assertIn("codec", done.stderr)

    def test_passes_when_each_library_keeps_its_own_copy(self):
        done = crossbind(self.program_over_two_libraries("-Wl,-Bsymbolic"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_refuses_a_program_that_fails(self):
        done = crossbind(self.compile("broken", "int main(void) { return 3; }\n"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 3", done.stderr)

    def test_fetched_libraries_do_not_bind_across_each_other(self):
        libraries = ROOT / "build/deps/lib"
        names = [libraries / n for n in ("libparquet.so", "libarrow_compute.so",
                                         "libonnxruntime.so", "lib_lightgbm.so", "libxgboost.so")]
        opener = self.compile("opener", OPENER)
        # OpenSSL first, as in our program: the copy inside Arrow must not be taken for it.
        done = crossbind(opener, "libssl.so.3", *names)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(AS_SHIPPED.is_dir(), "no build/peers")
    def test_catches_arrow_as_its_vendor_ships_it(self):
        parquet = next(AS_SHIPPED.glob("libparquet.so.*"))
        done = crossbind(self.compile("opener", OPENER), parquet, "libssl.so.3")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"libssl.so.3 -> {parquet.name}", done.stderr)

    @unittest.skipUnless("PROGRAM_UNDER_TEST" in os.environ, "no program given")
    def test_our_program_with_every_library_open(self):
        arguments = shlex.split(os.environ.get("PROGRAM_ARGUMENTS", "doctor --libraries"))
        done = crossbind(os.environ["PROGRAM_UNDER_TEST"], *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
