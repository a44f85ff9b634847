"""What guards us in tools/deps: a changed package is refused, bundled symbols get hidden."""

import ctypes
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("deps", str(ROOT / "tools/deps"))
deps = importlib.util.module_from_spec(importlib.util.spec_from_loader("deps", loader))
loader.exec_module(deps)


class DepsTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="deps-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def test_refuses_a_package_with_another_hash(self):
        package = self.folder / "x.whl"
        package.write_bytes(b"not what was pinned")
        with self.assertRaisesRegex(SystemExit, "SHA-256"):
            deps.check_hash(package, "0" * 64)

    def test_every_pin_names_version_hash_and_licence(self):
        texts = [path.read_text() for path in (ROOT / "third_party").glob("*.toml")]
        for name, pin in tomllib.loads("\n".join(texts)).items():
            with self.subTest(name):
                self.assertRegex(pin["sha256"], re.compile(r"\A[0-9a-f]{64}\Z"))
                self.assertTrue(pin["version"] and pin["license"] and pin["why"])

    def test_hidden_symbol_is_gone_and_the_library_still_works(self):
        source = self.folder / "x.c"
        source.write_text("int bundled(void) { return 7; }\nint api(void) { return bundled(); }\n")
        library = self.folder / "libx.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        counts = deps.hide_symbols.hide([library], {"*": "^bundled$"})
        self.assertEqual(counts, {"libx.so": 1})
        opened = ctypes.CDLL(str(library))
        self.assertEqual(opened.api(), 7)
        self.assertFalse(hasattr(opened, "bundled"))

    def test_symbol_that_a_sister_library_imports_stays(self):
        (self.folder / "a.c").write_text("int shared_part(void) { return 1; }\n")
        (self.folder / "b.c").write_text(
            "int shared_part(void);\nint b(void) { return shared_part(); }\n")
        libraries = []
        for name in ("a", "b"):
            libraries.append(self.folder / f"lib{name}.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", libraries[-1],
                            self.folder / f"{name}.c"], check=True)
        counts = deps.hide_symbols.hide(libraries, {"liba.so": "shared_part"})
        self.assertEqual(counts, {"liba.so": 0, "libb.so": 0})


if __name__ == "__main__":
    unittest.main()
