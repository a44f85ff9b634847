"""`falaj train advise` with a real PyTorch script, and the TrainJob that it writes, run."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "faults"))
from program import ProgramTest  # noqa: E402

WORKERS = pathlib.Path(__file__).resolve().parent / "workers"
SYSTEM_PYTHON = "/usr/bin/python3"  # Has Debian's torch.


class Advise(ProgramTest):
    def test_the_advice_runs(self):
        words = ["--memory", "1536Mi", "--cpus", "2", "--batch", "256", "--batch-max", "1024"]
        script = [SYSTEM_PYTHON, str(WORKERS / "advised.py")]
        code, text = self.falaj("train", "advise", *words, "--out", "job.yaml", "--", *script)
        self.assertEqual(code, 0, text)
        tried = re.findall(r"^tried .*: ([\d.e+]+) samples/s", text, re.M)
        self.assertGreaterEqual(len(tried), 3, text)
        # Old builds die of bf16 on new processors: that is said, and fp32 is advised.
        self.assertNotRegex(text, r"tried fp32.*failed")
        self.assertNotRegex(text, r"tried bf16.*failed: (?!illegal instruction)")
        for layout in ("1 x 2 threads", "1 x 1 threads", "2 x 1 threads"):
            self.assertIn(layout, text)
        with open(self.folder + "/job.yaml") as file:
            self.assertIn("batch: 1024", file.read(), text)
        server = self.server("--set", f"jobs.readable={WORKERS}").start()
        code, text = self.falaj("apply", "-f", "job.yaml", "--server", server.url)
        self.assertEqual(code, 0, text)
        started = server.train("advised")
        job = server.job_ended(started["job"])
        log = server.request("GET", f"/api/v1/jobs/{started['job']}/log").text
        self.assertEqual(job["status"], "succeeded", log)
        self.assertIn("trained 20 steps", log)


if __name__ == "__main__":
    unittest.main()
