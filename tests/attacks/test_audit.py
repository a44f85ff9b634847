"""Groups 10, 31–33 and 35: whoever holds the disk or the evidence changes the past."""

import glob
import os
import shutil
import subprocess
import unittest

import shop
from arena import attacks
from program import PROGRAM, ProgramTest, environment
from required import needs

VERIFY = os.path.join(os.path.dirname(PROGRAM), "falaj-verify")


def lines_of(path):
    with open(path) as text:
        return text.read().splitlines(keepends=True)


def written(path, lines):
    os.chmod(path, 0o600)
    with open(path, "w") as out:
        out.writelines(lines)


def entries(bundle):
    found = sorted(glob.glob(bundle + "/**/entries*", recursive=True))
    assert found, os.listdir(bundle)
    return found[0]


def on_lines(change):
    """A tampering with the lines of the entries."""

    def tamper(self, bundle):
        path = entries(bundle)
        written(path, change(lines_of(path)))

    return tamper


def digit(line):
    """The line with one digit of its content turned into another."""
    at = next(i for i, each in enumerate(line) if each.isdigit() and i > 20)
    return line[:at] + str((int(line[at]) + 1) % 10) + line[at + 1 :]


def in_file(name, change):
    def tamper(self, bundle):
        found = sorted(glob.glob(f"{bundle}/**/{name}", recursive=True))
        assert found, name
        with open(found[0], "rb") as file:
            data = file.read()
        os.chmod(found[0], 0o600)
        with open(found[0], "wb") as out:
            out.write(change(data))

    return tamper


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def removed(name):
    def tamper(self, bundle):
        found = sorted(glob.glob(f"{bundle}/**/{name}", recursive=True))
        assert found, name
        os.remove(found[0])

    return tamper


def added(self, bundle):
    with open(os.path.join(bundle, "more.json"), "w") as out:
        out.write("{}")


def others(what):
    """Puts a part of another log's bundle in its place."""

    def tamper(self, bundle):
        for path in filter(os.path.isfile, glob.glob(f"{self.foreign}/**/{what}", recursive=True)):
            target = os.path.join(bundle, os.path.relpath(path, self.foreign))
            if os.path.exists(target):
                os.chmod(target, 0o600)
            shutil.copyfile(path, target)

    return tamper


def older(what):
    """Puts the same part of an earlier bundle of this log in its place."""

    def tamper(self, bundle):
        for path in glob.glob(f"{self.earlier}/**/{what}", recursive=True):
            target = os.path.join(bundle, os.path.relpath(path, self.earlier))
            if os.path.exists(target):
                os.chmod(target, 0o600)
            shutil.copyfile(path, target)

    return tamper


TAMPERINGS = {
    "an entry is flipped": on_lines(lambda all: [*all[:2], digit(all[2]), *all[3:]]),
    "the first entry is flipped": on_lines(lambda all: [digit(all[0]), *all[1:]]),
    "the last entry is flipped": on_lines(lambda all: [*all[:-1], digit(all[-1])]),
    "an entry is deleted": on_lines(lambda all: all[:3] + all[4:]),
    "the first entry is deleted": on_lines(lambda all: all[1:]),
    "the tail is cut": on_lines(lambda all: all[:-1]),
    "half of it is cut": on_lines(lambda all: all[: len(all) // 2]),
    "all of it is cut": on_lines(lambda all: []),
    "an entry is inserted": on_lines(lambda all: all[:3] + [all[1]] + all[3:]),
    "an entry is appended": on_lines(lambda all: all + [all[-1]]),
    "two entries change places": on_lines(lambda all: [all[1], all[0], *all[2:]]),
    "the last two change places": on_lines(lambda all: [*all[:-2], all[-1], all[-2]]),
    "an entry takes another's place": on_lines(lambda all: [*all[:4], all[2], *all[5:]]),
    "a line without its end": on_lines(lambda all: [*all[:-1], all[-1][:-5]]),
    "the manifest is flipped": in_file("*anifest*", flipped),
    "the manifest is gone": removed("*anifest*"),
    "a report is flipped": in_file("inventory.json", flipped),
    "a report is gone": removed("inventory.json"),
    "a file is added": added,
    "another log's entries": others("entries*"),
    "another log's manifest": others("*anifest*"),
    "another log's everything but the key": others("*"),
    "an earlier manifest": older("*anifest*"),
}


def tamperings():
    for name, tamper in TAMPERINGS.items():

        def attack(self, tamper=tamper):
            copy = os.path.join(self.folder, "tampered")
            shutil.copytree(self.bundle, copy)
            tamper(self, copy)
            code, text = self.verified(copy)
            self.assertNotEqual(code, 0, text)
            self.assertNotIn("Everything that was checked holds", text)

        yield name, attack


@attacks(tamperings())
@needs(os.path.exists(VERIFY), "falaj-verify is not built")
class Evidence(ProgramTest):
    """The bundle of a small log, and what falaj-verify says of it once it was touched."""

    @classmethod
    def setUpClass(cls):
        case = ProgramTest()
        ProgramTest.setUp(case)
        cls.case = case
        cls.kept, cls.foreign = os.path.join(case.folder, "key"), os.path.join(case.folder, "other")
        cls.earlier, cls.bundle = (os.path.join(case.folder, name) for name in ("first", "bundle"))
        server, other = case.server().start(), case.server().start()
        shop.stock(server)
        server.apply(shop.thing("Model", "elsewhere", description="x"))
        shop.stock(other)
        cls.exported(server, cls.earlier)
        server.apply(shop.thing("Model", "later", description="x"))
        cls.exported(server, cls.bundle)
        cls.exported(other, cls.foreign)
        code, text = case.falaj("audit", "key", "--server", server.url)
        assert code == 0, text
        with open(cls.kept, "w") as out:
            out.write(text)
        server.kill()
        other.kill()

    @classmethod
    def exported(cls, server, folder):
        server.good("POST", "/api/v1/audit:sign", {})
        code, text = cls.case.falaj("evidence", "export", "--out", folder, "--server", server.url)
        assert code == 0, text

    @classmethod
    def tearDownClass(cls):
        cls.case.doCleanups()

    def verified(self, folder):
        done = subprocess.run(
            [VERIFY, "bundle", folder, "--key", self.kept],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
        )
        return done.returncode, done.stdout.decode(errors="replace")

    def test_the_bundle_as_it_is_holds(self):
        """The control."""
        code, text = self.verified(self.bundle)
        self.assertEqual(code, 0, text)


def copied(source, target):
    if os.path.isdir(target):
        shutil.rmtree(target)
    elif os.path.exists(target):
        os.remove(target)
    if os.path.isdir(source):
        shutil.copytree(source, target)
    elif os.path.exists(source):
        shutil.copyfile(source, target)


def database(name):
    """A database with what belongs to it."""
    return [name, name + "-wal", name + "-shm"]


def swapped(folder, *names):
    def swap(self, data):
        for name in names:
            copied(os.path.join(getattr(self, folder), name), os.path.join(data, name))

    return swap


def everything_but_the_signer(self, data):
    for name in os.listdir(data):
        if name != "signer":
            copied(os.path.join(self.yesterday, name), os.path.join(data, name))


def gone(name):
    def remove(self, data):
        path = os.path.join(data, name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    return remove


STORES = {
    "yesterday's database": swapped("yesterday", *database("metadata.db")),
    "yesterday's everything but the signer": everything_but_the_signer,
    "another's database": swapped("stranger", *database("metadata.db")),
    "another's keys": swapped("stranger", *database("keys.db")),
    "another's root key": swapped("stranger", "keys.sealed"),
    "another's database and keys": swapped(
        "stranger", *database("metadata.db"), *database("keys.db")
    ),
    "no keys": gone("keys.db"),
    "no database": gone("metadata.db"),
    "another's online rows": swapped("stranger", "online"),
    "another's signer": swapped("stranger", "signer"),
}


def stores():
    for name, swap in STORES.items():

        def attack(self, swap=swap):
            data = self.copy_of(self.today)
            swap(self, data)
            server = self.server(data=data)
            ended = server.launch()
            if ended is not None:
                self.assertEqual(ended[0], 1, ended[1])
                self.assertRegex(ended[1], "FJ-(7051|7052|7001|704[0-3]|8005|8006|7053|0010)")
                return
            # It started: then what was swapped is of no consequence, or said.
            self.assertEqual(server.get("/api/v1/objects")["objects"], self.objects)
            reply = server.request("POST", "/api/v1/deployments/shop:predict", shop.entities(3))
            if reply.status == 200:
                self.assertEqual(reply.value["predictions"], self.answers)

        yield name, attack


def moved(change):
    """A blob that is not what its name says; found by whoever reads it."""

    def attack(self):
        server = self.server(data=self.copy_of(self.today)).start()
        views = server.get("/api/v1/training-sets")["training_sets"]
        folder = os.path.join(server.data, "blobs/blobs")
        target = glob.glob(os.path.join(folder, "*", views[0]["data"]))[0]
        others = [
            path
            for path in glob.glob(os.path.join(folder, "*", "*"))
            if path != target and os.path.isfile(path)
        ]
        os.chmod(target, 0o600)
        change(target, sorted(others, key=os.path.getsize), self)
        job = server.job_ended(server.train("train")["job"])
        self.assertEqual(job["status"], "failed", "it trained on other bytes")
        self.assertRegex(job["error"], "FJ-(8006|7043|3004|3001)")
        self.assertEqual(len(server.get("/api/v1/models/shop")["versions"]), 1)

    return attack


def cut(path, share):
    os.truncate(path, int(os.path.getsize(path) * share))


def append(path, data):
    with open(path, "ab") as out:
        out.write(data)


def segments_swapped(path, *_):
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        third = len(data) // 3
        data[third : 2 * third], data[2 * third : 3 * third] = (
            data[2 * third : 3 * third],
            data[third : 2 * third],
        )
        file.seek(0)
        file.write(data)


MOVED = {
    "another blob of the project": lambda t, all, s: shutil.copyfile(all[0], t),
    "the largest blob of the project": lambda t, all, s: shutil.copyfile(all[-1], t),
    "the same set of another server": lambda t, all, s: shutil.copyfile(s.foreign_set, t),
    "half of it": lambda t, all, s: cut(t, 0.5),
    "all but its end": lambda t, all, s: cut(t, 0.99),
    "nothing of it": lambda t, all, s: cut(t, 0),
    "it and more": lambda t, all, s: append(t, b"\0" * 16),
    "it twice": lambda t, all, s: append(t, open(t, "rb").read()),
    "its parts in another order": segments_swapped,
}


@attacks(
    [*stores(), *((f"moved ciphertext {name}", moved(change)) for name, change in MOVED.items())]
)
class Disk(ProgramTest):
    """The data folder of a stopped server, in the hands of somebody else."""

    @classmethod
    def setUpClass(cls):
        case = ProgramTest()
        ProgramTest.setUp(case)
        cls.case = case
        server = case.server().start()
        shop.open_shop(server)
        assert server.stop() == 0
        cls.yesterday = case.copy_of(server.data)
        server.start()
        server.apply(shop.thing("Model", "later", description="x"))
        server.good("POST", "/api/v1/audit:sign", {})
        server.wait_ready("shop")
        cls.objects = server.get("/api/v1/objects")["objects"]
        cls.answers = server.good("POST", "/api/v1/deployments/shop:predict", shop.entities(3))[
            "predictions"
        ]
        assert server.stop() == 0
        cls.today = server.data
        other = case.server().start()
        frozen = shop.stock(other)
        other.good("POST", "/api/v1/audit:sign", {})
        assert other.stop() == 0
        cls.stranger = other.data
        cls.foreign_set = glob.glob(f"{other.data}/blobs/blobs/*/{frozen['data']}")[0]

    @classmethod
    def tearDownClass(cls):
        cls.case.doCleanups()

    def test_the_folder_as_it_is_starts(self):
        """The control."""
        server = self.server(data=self.copy_of(self.today)).start()
        self.assertEqual(server.get("/api/v1/objects")["objects"], self.objects)
        self.assertTrue(server.audit_holds())


if __name__ == "__main__":
    unittest.main()
