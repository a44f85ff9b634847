"""falaj-verify: entries of an evidence bundle checked a second, by its own code in one thread."""

import os
import re
import subprocess

TITLE = "falaj-verify: a bundle of 1,000,000 entries"
TEST = "Verifier.reads_a_long_log_and_says_how_quickly"


def measure(arena) -> dict:
    build = arena.falaj.parent
    subprocess.run(["ninja", "-C", str(build), "verify_test"], check=True,
                   stdout=subprocess.DEVNULL)
    text = subprocess.run([str(build / "apps/falaj-verify/verify_test"), "--gtest_filter=" + TEST],
                          env={**os.environ, "FALAJ_VERIFY_ENTRIES": "1000000"}, check=True,
                          capture_output=True, text=True).stdout
    found = re.search(r"1000000 entries verified in (\S+) s, (\S+) s of processor", text)
    # By processor time, so that neighbours on the machine do not decide; it has one thread.
    return {"entries_per_cpu_s": 1e6 / float(found.group(2)),
            "entries_per_s": 1e6 / float(found.group(1))}
