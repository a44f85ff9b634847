"""Commands inside OCI images, by the installed OCI runtime: what they see, what holds them, and
what is refused of an image that somebody made to get out of it."""
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import unittest
from pathlib import Path

from program import ProgramTest, wait_until
from required import needs

PROGRAMS = ("sh", "cat", "id", "ls", "sleep", "tail", "touch")


def needed(program):
    """The libraries that a program is loaded with."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [word for word in out.split() if word.startswith("/")]


def layer(*members):
    """A tar archive of (name, bytes | None for a folder | TarInfo)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if content is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def system():
    """A small system: a shell and some programs of this machine, with their libraries."""
    members, seen = [], set()
    for name in PROGRAMS:
        path = shutil.which(name)
        members.append((f"bin/{name}", Path(path).read_bytes()))
        for library in needed(path):
            if library not in seen:
                seen.add(library)
                members.append((library.lstrip("/"), Path(library).read_bytes()))
    return layer(("bin", None), *members, ("etc/secret", b"of the lower layer\n"),
                 ("opt/old/a", b"a"), ("opt/old/b", b"b"))


def special(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return name, info


@needs(shutil.which("runc", path="/usr/sbin:/usr/bin:/usr/local/bin"),
       "there is no runc; ./dev setup installs it")
class Images(ProgramTest):
    def blob(self, data):
        digest = hashlib.sha256(data).hexdigest()
        folder = os.path.join(self.layout, "blobs", "sha256")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, digest), "wb") as file:
            file.write(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def image(self, name, *layers):
        """Writes an image and declares a Runtime for it."""
        self.layout = os.path.join(self.folder, "images", name)
        blobs = [self.blob(gzip.compress(each, 1)) for each in layers]
        config = {"os": "linux", "architecture": "amd64",
                  "config": {"Env": ["PATH=/bin", "TASTE=salt"]},
                  "rootfs": {"type": "layers", "diff_ids":
                             ["sha256:" + hashlib.sha256(each).hexdigest() for each in layers]}}
        manifest = {"schemaVersion": 2, "config": self.blob(json.dumps(config).encode()),
                    "layers": blobs}
        digest = self.blob(json.dumps(manifest).encode())["digest"]
        self.declare(name, self.layout, digest)
        return blobs

    def declare(self, name, layout, digest):
        self.host.apply({"apiVersion": "falaj.dev/v1", "kind": "Runtime",
                         "metadata": {"name": name},
                         "spec": {"image": {"layout": layout, "digest": digest}}})

    def submit(self, name, *command, **more):
        body = {"command": list(command), "runtime": name, **more}
        return self.host.good("POST", "/api/v1/jobs", body)["id"]

    def run_in(self, name, script, **more):
        job = self.host.job_ended(self.submit(name, "sh", "-c", script, **more))
        return job, self.host.request("GET", f"/api/v1/jobs/{job['id']}/log").text

    def test_a_command_runs_inside_its_image_and_its_limits_hold(self):
        self.host = self.server().start()
        upper = layer(("etc/.wh.secret", b""), ("opt/old/.wh..wh..opq", b""), ("opt/old/c", b"c"),
                      ("hello", b"of the upper layer\n"))
        self.image("small", system(), upper)
        job, log = self.run_in("small", "cat /hello; ls /etc /opt/old; echo $TASTE $FALAJ_PROJECT; "
                               "touch /x || echo 'not for writing'; echo 1 > $FALAJ_OUTPUT/one && "
                               "ls $FALAJ_OUTPUT; id -u; cat /proc/net/dev | tail -n +3; exit 7")
        self.assertEqual((job["status"], job["result"]["exit_code"]), ("failed", 7), (job, log))
        lines = log.splitlines()
        self.assertEqual(lines[:6], ["of the upper layer", "/etc:", "", "/opt/old:", "c",
                                     f"salt {job['project']}"], log)
        self.assertIn("not for writing", log)
        self.assertIn("one", lines)
        self.assertTrue(lines[-1].strip().startswith("lo:"), "no network but its own: " + log)
        hungry, log = self.run_in("small", "tail /dev/zero", resources={"memory": "64Mi"})
        self.assertEqual((hungry["status"], hungry["code"]), ("failed", "FJ-4003"), (hungry, log))
        job = self.submit("small", "sleep", "1000")
        wait_until(lambda: self.host.get(f"/api/v1/jobs/{job}")["status"] == "running", "it runs")
        self.host.good("POST", f"/api/v1/jobs/{job}:cancel", {})
        self.assertEqual(self.host.job_ended(job)["status"], "cancelled")
        work = self.host.jobs_folder()
        wait_until(lambda: not os.listdir(work), "its files to go")

    def test_what_no_command_may_do_is_refused_inside_an_image_too(self):
        self.host = self.server().start()
        source = Path(__file__).with_name("escape.c")
        program = os.path.join(self.folder, "escape")
        subprocess.run(["cc", "-static", "-o", program, source], check=True)
        self.image("guarded", system(), layer(("escape", Path(program).read_bytes())))
        job, log = self.run_in("guarded", "/escape")
        self.assertEqual(job["status"], "succeeded", log)
        said = dict(line.split() for line in log.splitlines())
        self.assertEqual(said.pop("internet"), "DONE", log)
        self.assertEqual(set(said.values()), {"refused"}, log)

    def test_what_is_no_sound_image_is_refused(self):
        self.host = self.server().start()
        outside = os.path.join(self.folder, "outside")
        evil = {
            "dots": [layer(("../../outside", b"x"))],
            "through": [layer(special("out", tarfile.SYMTYPE, self.folder)),
                        layer(("out/outside", b"x"))],
            "hard": [layer(special("copy", tarfile.LNKTYPE, "../../../../etc/shadow"))],
            "device": [layer(special("disk", tarfile.BLKTYPE))],
        }
        for name, layers in evil.items():
            with self.subTest(name):
                self.image(name, *layers)
                job = self.host.job_ended(self.submit(name, "sh", "-c", "true"))
                self.assertNotEqual(job["status"], "succeeded")
                self.assertFalse(os.path.exists(outside))
        blobs = self.image("forged", system())
        path = os.path.join(self.layout, "blobs", "sha256", blobs[0]["digest"][7:])
        with open(path, "r+b") as file:
            file.seek(4)  # The time in gzip's head: still a sound file, of the same size.
            file.write(b"!")
        job = self.host.job_ended(self.submit("forged", "sh", "-c", "true"))
        self.assertEqual(job["status"], "cancelled", job)
        listed = self.host.get("/api/v1/jobs")["jobs"]
        builds = [each["id"] for each in listed if each["type"] == "runtime"]
        said = [self.host.request("GET", f"/api/v1/jobs/{each}/log").text for each in builds]
        self.assertTrue(any("is not what its name says" in each for each in said), said)
        os.unlink(path)
        absent = {"command": ["true"], "runtime": "absent"}
        self.declare("absent", "/nowhere", "sha256:" + "0" * 64)
        self.assertEqual(self.host.request("POST", "/api/v1/jobs", absent).code, "FJ-4040")


if __name__ == "__main__":
    unittest.main()
