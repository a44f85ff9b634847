"""tools/embed_console.py: every byte arrives, and what is missing or stale stops the build."""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "embed_console.py"
# Bytes that a careless writer breaks: NUL, quotes, backslash, trigraph, a digit after an escape.
PLAIN = b'\x00"\\??/\x017\n' + bytes(range(256)) * 40


def write_dist(dist: Path) -> None:
    (dist / "index.html").write_bytes(PLAIN)
    (dist / "index.html.gz").write_bytes(b"\x1f\x8bzip")
    (dist / "index.html.br").write_bytes(b"br")
    entry = {"path": "/index.html", "content_type": "text/html",
             "sha256": hashlib.sha256(PLAIN).hexdigest()}
    (dist / "manifest.json").write_text(json.dumps({"files": [entry]}))


def bytes_of(source: str, name: str) -> bytes:
    """What a compiler reads out of the named array."""
    body = re.search(rf"constexpr char {name}\[\] =\n(.*?);\n", source, re.S).group(1)
    text = "".join(re.findall(r'^    "(.*)"$', body, re.M))
    return re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), text.encode("ascii"))


class EmbedConsole(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dist = Path(folder.name) / "dist"
        self.dist.mkdir()
        self.out = Path(folder.name) / "assets.cc"

    def run_tool(self):
        return subprocess.run([sys.executable, "-B", TOOL, self.dist, self.out,
                               "--depfile", f"{self.out}.d"], capture_output=True, text=True)

    def test_every_byte_arrives(self):
        write_dist(self.dist)
        self.assertEqual(self.run_tool().returncode, 0)
        source = self.out.read_text()
        self.assertEqual(bytes_of(source, "kidentity0"), PLAIN)
        self.assertIn(f"{{kidentity0, {len(PLAIN)}}}", source)
        self.assertEqual(bytes_of(source, "kgzip0"), b"\x1f\x8bzip")

    def test_unchanged_files_leave_the_source_alone_and_the_depfile_names_them(self):
        write_dist(self.dist)
        self.run_tool()
        before = self.out.stat().st_mtime_ns
        self.run_tool()
        self.assertEqual(self.out.stat().st_mtime_ns, before)
        named = Path(f"{self.out}.d").read_text()
        for name in ("manifest.json", "index.html", "index.html.gz", "index.html.br"):
            self.assertIn(str(self.dist / name), named)

    def test_a_missing_console_says_what_to_run(self):
        done = self.run_tool()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("run ./dev build", done.stderr)
        self.assertFalse(self.out.exists())

    def test_a_file_that_is_not_the_manifests_is_refused(self):
        write_dist(self.dist)
        (self.dist / "index.html").write_bytes(b"other")
        done = self.run_tool()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("not the file of the manifest", done.stderr)


if __name__ == "__main__":
    unittest.main()
