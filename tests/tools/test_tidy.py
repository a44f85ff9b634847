"""Plants each kind of fault that tools/tidy must catch, one at a time, in a small clean tree."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools/tidy.d"))
import cpp_functions  # noqa: E402

RATCHET = "tools/tidy_ratchet.txt"
CLEAN = {
    "src/base/hash.h": "#pragma once\n#include <string>\nnamespace falaj {\n\n"
                       "int hash(int seed);\n\n}  // namespace falaj\n",
    "src/base/hash_test.cc": '#include "base/hash.h"\n\nint main() { return 0; }\n',
    "tests/walk/walk.py": "def step():\n    return 1\n",
    "docs/start.md": "Run `./dev run`.\n",
}


def function_of(lines, head="int f()"):
    return f"{head} {{\n" + "  g();\n" * (lines - 2) + "}\n"


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.tree = Path(tempfile.mkdtemp(prefix="tidy-"))
        self.addCleanup(shutil.rmtree, self.tree)
        shutil.copy(ROOT / ".clang-format", self.tree)
        for name, text in CLEAN.items():
            self.plant(name, text)

    def plant(self, name, text):
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.invalid",
                        *arguments], cwd=self.tree, check=True, capture_output=True)

    def run_tidy(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "tools/tidy", "--root", self.tree,
                               *arguments], capture_output=True, text=True)

    def assert_clean(self):
        done = self.run_tidy()
        self.assertEqual(done.returncode, 0, done.stdout)

    def assert_caught(self, name, text, *words):
        self.plant(name, text)
        done = self.run_tidy()
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in (name, *words):
            self.assertIn(word, done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1, "exactly the planted fault: " + done.stdout)

    def test_passes_a_clean_tree(self):
        self.assert_clean()

    def test_catches_bad_formatting_also_the_second_time(self):
        self.assert_caught("src/base/a.cc", "int  f( ) ;\n", "not formatted")
        self.assert_caught("src/base/a.cc", "int  f( ) ;\n", "not formatted")
        self.plant("src/base/a.cc", "int f();\n")
        self.assert_clean()

    def test_catches_a_long_line(self):
        self.assert_caught("src/base/a.cc", "// " + "x" * 98 + "\n", "101 columns")

    def test_catches_a_long_function_but_not_one_at_the_limit(self):
        self.plant("src/base/a.cc", function_of(70))
        self.assert_clean()
        self.assert_caught("src/base/a.cc", function_of(71), "71 lines")

    def test_catches_a_long_python_function(self):
        self.assert_caught("tests/walk/long.py", "def f():\n" + "    g()\n" * 70, "71 lines")

    def test_catches_a_long_source_and_a_long_header(self):
        self.assert_caught("src/base/a.cc", "int f();\n" * 801, "801 lines")
        (self.tree / "src/base/a.cc").unlink()
        self.assert_caught("src/base/a.h", "#pragma once\n" + "int f();\n" * 300, "301 lines")

    def test_ratchet_excuses_what_it_lists_and_no_more(self):
        self.plant(RATCHET, "src/base/a.cc f 80\n")
        self.plant("src/base/a.cc", function_of(80))
        self.assert_clean()
        self.assert_caught("src/base/a.cc", function_of(81), "81 lines", "80 is the limit")

    def test_ratchet_must_shrink_with_the_code(self):
        self.plant(RATCHET, "src/base/a.cc f 80\n")
        self.plant("src/base/a.cc", function_of(75))
        self.assertIn("is now 75 lines", self.run_tidy().stdout)
        self.plant("src/base/a.cc", function_of(60))
        self.assertIn("within its limit", self.run_tidy().stdout)
        self.run_tidy("--shrink")
        self.assertEqual((self.tree / RATCHET).read_text().strip(), "")
        self.assert_clean()

    def test_ratchet_may_not_grow(self):
        self.plant(RATCHET, "")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "one")
        self.plant("src/base/a.cc", function_of(80))
        self.plant(RATCHET, "src/base/a.cc f 80\n")
        self.assertIn("may only shrink", self.run_tidy().stdout)
        self.git("add", "-A")
        self.git("commit", "-qm", "two")
        self.assertIn("may only shrink", self.run_tidy().stdout)

    def test_ignores_what_git_ignores(self):
        self.git("init", "-q")
        self.plant(".gitignore", "/build/\n")
        self.plant("build/a.cc", "int  f( ) ;\n")
        self.assert_clean()

    def test_catches_slow_includes_in_a_header(self):
        for header in ("regex", "iostream", "filesystem", "future", "format"):
            self.assert_caught("src/base/a.h", f"#pragma once\n#include <{header}>\n",
                               "header-include")

    def test_catches_leftovers(self):
        for word in ("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"):
            self.assert_caught("src/base/a.cc", f"// {word}: later\n", "leftover")

    def test_catches_sleeps_in_tests_only(self):
        call = "void wait() { us" "leep(10); }\n"
        self.plant("src/base/a.cc", call)
        self.assert_clean()
        self.assert_caught("src/base/a_test.cc", call, "sleep")
        (self.tree / "src/base/a_test.cc").unlink()
        self.assert_caught("tests/walk/a.py", "import time\ntime.sl" "eep(1)\n", "sleep")

    def test_an_allowed_line_says_so(self):
        line = "void wait() { us" "leep(10); }  // tidy:allow(sleep) the slow client under test\n"
        self.plant("src/base/a_test.cc", line)
        self.assert_clean()

    def test_catches_absolute_paths(self):
        for top in ("work", "root", "home"):
            self.assert_caught("docs/a.md", f"see /{top}/me/notes\n", "absolute-path")

    def test_catches_registry_hosts(self):
        for host in ("py" "pi.org", "registry.npm" "js.org", "deb.deb" "ian.org"):
            self.assert_caught("third_party/a.txt", f"https://{host}/x\n", "registry-host")

    def test_catches_a_bare_bool_parameter(self):
        self.assert_caught("src/base/a.h", "#pragma once\nint open(int path, bool create);\n",
                           "bool-parameter")
        for fine in ("void push_bool(bool on);\n",
                     "class A {\n private:\n  void pay(int at, bool late);\n};\n"):
            self.plant("src/base/a.h", "#pragma once\n" + fine)
            self.assert_clean()

    def test_catches_a_try_behind_another_element_of_a_braced_initializer(self):
        self.assert_caught("src/base/a.cc", "Row row{name, FALAJ_" "TRY(read(name))};\n",
                           "try-in-braces")
        for fine in ("Row row{FALAJ_" "TRY(read(name)), name};\n",
                     "if (bad) put(name, FALAJ_" "TRY(read(name)));\n"):
            self.plant("src/base/a.cc", fine)
            self.assert_clean()

    def test_catches_a_header_without_pragma_once(self):
        self.assert_caught("src/base/a.h", "int f();\n", "#pragma once")

    def test_catches_a_large_file(self):
        self.assert_caught("tests/data/a.bin", "\0" * 1_000_001, "too large")


class FunctionLengthTest(unittest.TestCase):
    """The finder must not be fooled by braces in text, nor miss the shapes that we write."""

    def names(self, text):
        return [(f.name, f.lines) for f in cpp_functions.functions(text)]

    def test_braces_in_text_do_not_count(self):
        text = 'int f() {\n  g("}{", \'{\', R"(}}})");  // }\n  /* } */\n}\nint h() {\n}\n'
        self.assertEqual(self.names(text), [("f", 4), ("h", 2)])

    def test_methods_and_constructors_inside_classes(self):
        text = ("namespace a {\nclass B final : public C {\n public:\n  B(int x) : x_(x) {\n  }\n"
                "  int size() const noexcept override {\n    return 1;\n  }\n};\n}\n")
        self.assertEqual(self.names(text), [("B", 2), ("size", 3)])

    def test_member_initialisers_in_braces_are_not_the_body(self):
        text = "A::A(int x)\n    : x_{x},\n      y_{2} {\n  if (x) {\n  }\n}\nint f() {\n}\n"
        self.assertEqual(self.names(text), [("A::A", 6), ("f", 2)])

    def test_default_arguments_in_braces_are_not_the_body(self):
        text = "int f(std::vector<int> x = {}, int y = g()) {\n  if (y) {\n  }\n}\n"
        self.assertEqual(self.names(text), [("f", 4)])

    def test_raw_strings_are_data_and_do_not_count(self):
        text = 'std::string f() {\n  return R"(a\nb\n{\n)";\n}\n'
        self.assertEqual(self.names(text), [("f", 3)])

    def test_templates_and_qualified_names(self):
        text = "template <class T>\nResult<T> Store<T>::get(Key k) && {\n  if (k) {\n  }\n}\n"
        self.assertEqual(self.names(text), [("get", 5)])

    def test_lambdas_belong_to_their_function(self):
        text = "void f() {\n  auto g = [&](int x) {\n    return x;\n  };\n}\n"
        self.assertEqual(self.names(text), [("f", 5)])

    def test_initialisers_and_types_are_no_functions(self):
        text = ("struct P {\n  int x{0};\n};\nconst std::map<int, int> kMap = {\n  {1, f(2)},\n};\n"
                "enum class E {\n  kA,\n};\nconstexpr Table kT{\n  {1, 2},\n};\n")
        self.assertEqual(self.names(text), [])

    def test_gtest_cases_carry_both_names(self):
        self.assertEqual(self.names("TEST(Join, keeps_order) {\n}\n"), [("Join.keeps_order", 2)])


if __name__ == "__main__":
    unittest.main()
