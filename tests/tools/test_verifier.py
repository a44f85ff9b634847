"""falaj-verify is small enough to be read, and shares no code with what it judges."""

import pathlib
import re
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "apps" / "falaj-verify"
LINES_MAX = 2000


class Verifier(unittest.TestCase):
    def setUp(self):
        every = sorted([*FOLDER.glob("*.h"), *FOLDER.glob("*.cc")])
        self.sources = [path for path in every if not re.search("_(test|fuzz)$", path.stem)]

    def test_has_fewer_lines_than_were_promised(self):
        lines = sum(len(path.read_text().splitlines()) for path in self.sources)
        self.assertGreater(lines, 1000, "not all of it was found")
        self.assertLess(lines, LINES_MAX)

    def test_includes_the_standard_library_libcrypto_and_itself(self):
        own = {path.name for path in self.sources}
        for path in self.sources:
            for quoted, named in re.findall(r'#include (?:"(.+)"|<(.+)>)', path.read_text()):
                if quoted:
                    self.assertIn(quoted, own, path.name)
                else:
                    self.assertRegex(named, r"^(openssl/\w+\.h|[a-z_]+)$", path.name)


if __name__ == "__main__":
    unittest.main()
