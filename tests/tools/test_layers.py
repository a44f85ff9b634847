"""Plants each kind of fault that tools/layers must catch, one at a time, in a small clean tree."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLEAN = {
    "src/base/result.h": "#pragma once\n#include <string>\n",
    "src/table/arrow/parquet.cc": '#include <parquet/api/reader.h>\n#include "base/result.h"\n',
    "src/storage/kv.h": '#pragma once\n#include "base/result.h"\n',
    "src/storage/kv_test.cc": '#include "storage/kv.h"\n#include <gtest/gtest.h>\n',
    "src/storage/internal/page.h": '#pragma once\n',
    "src/storage/pages.cc": '#include "storage/internal/page.h"\n#include <sys/stat.h>\n',
    "src/features/online.cc": '#include "storage/kv.h"\n#include "base/result.h"\n',
    "src/app/wire.cc": '#include "config/load.h"\n#include "storage/kv.h"\n',
    "src/features/CMakeLists.txt": "falaj_module(features DEPS base storage table)\n",
    "include/falaj/runtime.h": "#include <stdint.h>\n",
    "tests/faults/writer.h": "#pragma once\n",
    "tests/faults/writer.cc": '#include "writer.h"\n#include "storage/kv.h"\n',
    "apps/falaj/main.cc": '#include "app/run.h"\n',
}


class LayersTest(unittest.TestCase):
    def setUp(self):
        self.tree = Path(tempfile.mkdtemp(prefix="layers-"))
        self.addCleanup(shutil.rmtree, self.tree)
        for name, text in CLEAN.items():
            self.plant(name, text)
        (self.tree / "tools").mkdir()
        shutil.copy(ROOT / "tools/layers.toml", self.tree / "tools")

    def plant(self, name, text):
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text)

    def run_layers(self):
        return subprocess.run([sys.executable, ROOT / "tools/layers", "--root", self.tree],
                              capture_output=True, text=True)

    def assert_caught(self, name, text, *words):
        self.plant(name, text)
        done = self.run_layers()
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in (name, *words):
            self.assertIn(word, done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1, "exactly the planted fault: " + done.stdout)

    def test_passes_a_clean_tree(self):
        done = self.run_layers()
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_catches_an_upward_include(self):
        self.assert_caught("src/base/clock.cc", '#include "storage/kv.h"\n', "points up")

    def test_catches_a_sideways_include(self):
        self.assert_caught("src/net/server.cc", '#include "storage/kv.h"\n', "points sideways")

    def test_catches_it_in_a_test_too(self):
        self.assert_caught("src/base/clock_test.cc", '#include "exec/pool.h"\n', "points up")

    def test_catches_a_third_party_header_outside_its_adapter(self):
        self.assert_caught("src/features/ingest.cc", "#include <arrow/api.h>\n", "src/table/arrow")
        (self.tree / "src/features/ingest.cc").unlink()
        self.assert_caught("src/net/router.cc", "#include <boost/beast.hpp>\n", "src/net/http")

    def test_catches_a_restricted_kernel_header(self):
        self.assert_caught("src/net/jail.cc", "#include <linux/landlock.h>\n", "src/exec")

    def test_catches_an_unknown_third_party_header(self):
        self.assert_caught("src/net/fast.cc", "#include <folly/Range.h>\n", "unknown header")

    def test_catches_a_handler_that_touches_storage(self):
        self.assert_caught("src/api/native/rows.cc", '#include "storage/kv.h"\n', "never")

    def test_catches_config_outside_app_and_cli(self):
        self.assert_caught("src/serving/pool.cc", '#include "config/load.h"\n', "app and cli")

    def test_catches_another_modules_internal_header(self):
        self.assert_caught("src/features/scan.cc", '#include "storage/internal/page.h"\n',
                           "internal header of storage")

    def test_catches_scheduler_including_more_than_base(self):
        self.assert_caught("src/scheduler/place.cc", '#include "table/schema.h"\n', "only: base")

    def test_catches_a_module_without_a_rank(self):
        self.assert_caught("src/helpers/strings.h", "#pragma once\n", "no rank")

    def test_catches_a_cmake_dependency_that_points_up(self):
        self.assert_caught("src/exec/CMakeLists.txt", "falaj_module(exec DEPS base storage)\n",
                           "DEPS storage", "points up")

    def test_the_c_abi_header_includes_no_module(self):
        self.assert_caught("include/falaj/extra.h", '#include "table/schema.h"\n', "points up")


if __name__ == "__main__":
    unittest.main()
