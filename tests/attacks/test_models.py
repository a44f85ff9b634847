"""Groups 6–10: model files that lie about what they are, and signatures that do not fit."""

import base64
import hashlib
import io
import json
import os
import pickle
import subprocess
import tarfile
import tempfile
import unittest
import zipfile

import onnx_bytes as onnx
from arena import Arena, attacks

IMPORT = "/api/v1/models/stolen/versions:import"
OCTETS = {"Content-Type": "application/octet-stream"}


UNPICKLED = "/tmp/falaj-was-unpickled"


class Payload:
    """Runs when somebody unpickles it; the file it would make tells on them."""

    def __reduce__(self):
        return os.mkdir, (UNPICKLED,)


def zipped(*names):
    """The same bytes at any time: they are seeds as well (test_seeds.py)."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), "{}")
    return out.getvalue()


def tarred(name, linked=None):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        if linked:
            member.type, member.linkname = tarfile.SYMTYPE, linked
        archive.addfile(member)
    return out.getvalue()


def outside(location, offset=None):
    entries = onnx.data(13, onnx.data(1, "location") + onnx.data(2, location))
    if offset is not None:
        entries += onnx.data(13, onnx.data(1, "offset") + onnx.data(2, str(offset)))
    return onnx.one_weight([1], b"", more=entries + onnx.integer(14, 1))


FILES = {
    "a pickle of protocol 0": pickle.dumps(Payload(), 0),
    "a pickle of protocol 1": pickle.dumps(Payload(), 1),
    "a pickle of protocol 2": pickle.dumps(Payload(), 2),
    "a pickle of protocol 4": pickle.dumps(Payload(), 4),
    "a pickle of protocol 5": pickle.dumps(Payload(), 5),
    "a joblib bundle": b"ZF0x" + b"0" * 32,
    "a compressed joblib file": b"\x78\x9c" + b"\0" * 32,
    "a keras archive": zipped("config.json", "metadata.json", "model.weights.h5"),
    "a torch archive": zipped("archive/data.pkl", "archive/version"),
    "a model archive": zipped("MAR-INF/MANIFEST.json", "handler.py"),
    "a zip that climbs": zipped("../../etc/cron.d/x"),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + b"\0" * 64,
    "a tar that climbs": tarred("../../etc/x"),
    "a tar with a link": tarred("model.onnx", "/etc/passwd"),
    "a gzip file": b"\x1f\x8b\x08" + b"\0" * 32,
    "a NumPy file": b"\x93NUMPY\x01\0" + b"\0" * 64,
    "a GGUF of absurd counts": b"GGUF\x03\0\0\0" + b"\xff" * 16,
    "safetensors with a header beyond the file": b"\xff" * 7 + b"\x7f" + b"{}",
    "a program": b"\x7fELF" + b"\0" * 64,
    "a script": b"#!/bin/sh\nid\n",
    "nothing": b"",
    "one byte": b"\x08",
    "XGBoost's JSON with more": b'{"learner":{},"version":[3],"__reduce__":1}',
    "JSON that is deep": b'{"a":' * 100_000,
    "external data outside": outside("../../etc/passwd"),
    "external data nested": outside("a/../../b"),
    "external data absolute": outside("/etc/passwd"),
    "external data at an absurd offset": outside("w.bin", 1 << 62),
    "external data of the process": outside("/proc/self/environ"),
    "a tensor that wraps 64 bits": onnx.one_weight([1 << 33, 1 << 33], b""),
    "a tensor of negative size": onnx.one_weight([-4], b""),
    "a tensor larger than its data": onnx.one_weight([1 << 40], onnx.floats(1)),
    "a tensor smaller than its data": onnx.one_weight([1], onnx.floats(1, 2)),
    "a tensor of no known type": onnx.one_weight([1], onnx.floats(1), element=99),
    "a thousand dimensions": onnx.one_weight([1] * 1000, onnx.floats(1)),
    "graphs ten thousand deep": onnx.nested(300),
    "a cycle": onnx.model(
        onnx.graph([onnx.node("Add", ["x", "b"], ["a"]), onnx.node("Add", ["a", "a"], ["b"])])
    ),
    "an output nobody computes": onnx.model(onnx.graph([onnx.node("Identity", ["x"], ["z"])])),
    "a value computed twice": onnx.model(onnx.graph([onnx.node("Identity", ["x"], ["y"])] * 2)),
    "an operator of another domain": onnx.model(
        onnx.graph([onnx.node("Evil", ["x"], ["y"], domain="com.evil")])
    ),
    "an operator set of another domain": onnx.model(
        onnx.graph([onnx.node("Identity", ["x"], ["y"])]), domain="com.evil"
    ),
    "an operator that is not there": onnx.model(onnx.graph([onnx.node("Evil", ["x"], ["y"])])),
    "functions of its own": onnx.doubled() + onnx.data(25, onnx.data(1, "f")),
    "a training program": onnx.doubled() + onnx.data(20, b""),
    "an unknown field": onnx.doubled() + onnx.data(1000, b"x"),
    "two graphs": onnx.doubled() + onnx.data(7, onnx.graph([])),
    "no graph": onnx.integer(1, 8),
    "a length of two gigabytes": onnx.integer(1, 8) + b"\x3a\xff\xff\xff\xff\x07",
    "a varint without end": b"\x08" + b"\xff" * 64,
    "a cut model": onnx.doubled()[:-5],
    "a model with a tail": onnx.doubled() + b"\xff\xff\xff",
    "memory without measure": onnx.model(
        onnx.graph(
            [
                onnx.node("ConstantOfShape", ["s"], ["c"]),
                onnx.node("ReduceMax", ["c"], ["m"]),
                onnx.node("Add", ["x", "m"], ["y"]),
            ],
            [onnx.tensor("s", [1], (1 << 34).to_bytes(8, "little"), element=7)],
        )
    ),
}


def files():
    for name, body in FILES.items():
        yield name, lambda self, body=body: self.send("POST", IMPORT, body, OCTETS)
    yield "a name that climbs", lambda self: self.send(
        "POST", "/api/v1/models/..%2f..%2fx/versions:import", onnx.doubled(), OCTETS
    )
    yield "a bundle that is no base64", lambda self: self.send(
        "POST", IMPORT, onnx.doubled(), {**OCTETS, "X-Falaj-Signature": "{}"}
    )


@attacks(files())
class Files(Arena):
    def tearDown(self):
        super().tearDown()
        self.assertFalse(os.path.exists(UNPICKLED), "somebody unpickled the model")

    def test_a_model_that_is_one_is_taken_in(self):
        """The control: the same way works for a file without fault."""
        reply = self.send("POST", "/api/v1/models/honest/versions:import", onnx.doubled(), OCTETS)
        self.assertEqual(reply.status, 201, reply.text)
        self.before = self.state()


class Signer:
    """A P-256 key and what it signs, by the openssl command."""

    def __init__(self, folder, name):
        self.key, self.public = f"{folder}/{name}.key", f"{folder}/{name}.pem"
        make = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        subprocess.run([*make, "-out", self.key], check=True, stderr=subprocess.DEVNULL)
        subprocess.run(
            ["openssl", "pkey", "-in", self.key, "-pubout", "-out", self.public], check=True
        )

    def sign(self, message):
        return subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self.key],
            input=message,
            stdout=subprocess.PIPE,
            check=True,
        ).stdout

    def bundle(self, files, **changes):
        """The headers that carry a bundle over {name: bytes}."""
        digests = {name: hashlib.sha256(body).digest() for name, body in sorted(files.items())}
        whole = hashlib.sha256(b"".join(digests.values())).hexdigest()
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "m", "digest": {"sha256": whole}}],
            "predicateType": "https://model_signing/signature/v1.0",
            "predicate": {
                "resources": [
                    {"name": name, "algorithm": "sha256", "digest": digest.hex()}
                    for name, digest in digests.items()
                ],
                "serialization": {
                    "method": "files",
                    "hash_type": "sha256",
                    "allow_symlinks": False,
                    "ignore_paths": [],
                },
            },
            **changes.get("statement", {}),
        }
        if "meant" in changes:  # As another Falaj signs: it says what for.
            meant = {"project": "default", "zone": "local", "purpose": "", **changes["meant"]}
            model = meant.pop("model", "stolen")
            statement["subject"][0]["name"] = f"{meant['project']}.{model}"
            statement["predicate"]["falaj"] = meant
        kind = "application/vnd.in-toto+json"
        payload = json.dumps(statement).encode()
        signature = self.sign(
            b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
        )
        bundle = {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": ""}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": kind,
                "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
            },
        }
        change = changes.get("bundle")
        if change:
            change(bundle)
        text = base64.b64encode(json.dumps(bundle).encode()).decode()
        return {**OCTETS, "X-Falaj-Signature": text}


MODEL = onnx.doubled()


def no_signature(bundle):
    bundle["dsseEnvelope"]["signatures"] = []


def two_signatures(bundle):
    bundle["dsseEnvelope"]["signatures"] *= 2


def empty_signature(bundle):
    bundle["dsseEnvelope"]["signatures"] = [{"sig": "", "keyid": ""}]


def another_payload_type(bundle):
    bundle["dsseEnvelope"]["payloadType"] = "application/json"


def another_media_type(bundle):
    bundle["mediaType"] = "application/json"


def own_key_in_the_bundle(bundle):
    bundle["verificationMaterial"] = {
        "x509CertificateChain": {"certificates": [{"rawBytes": "AA=="}]}
    }
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(b"{}").decode()


# What stands in for the good bundle of the good file.
FORGERIES = {
    "no bundle": lambda s: (MODEL, OCTETS),
    "an unknown signer": lambda s: (MODEL, s.stranger.bundle({"model.onnx": MODEL})),
    "one byte flipped": lambda s: (
        MODEL.replace(b"Add", b"Sub"),
        s.signer.bundle({"model.onnx": MODEL}),
    ),
    "another model's signature": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": onnx.one_weight([1], onnx.floats(1))}),
    ),
    "a file under another name": lambda s: (MODEL, s.signer.bundle({"weights.onnx": MODEL})),
    "a file too many": lambda s: (MODEL, s.signer.bundle({"model.onnx": MODEL, "extra.bin": b"x"})),
    "a name that climbs": lambda s: (MODEL, s.signer.bundle({"../model.onnx": MODEL})),
    "no files": lambda s: (MODEL, s.signer.bundle({})),
    "a statement about something else": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, statement={"predicateType": "x"}),
    ),
    "a subject that is not the files": lambda s: (
        MODEL,
        s.signer.bundle(
            {"model.onnx": MODEL},
            statement={"subject": [{"name": "m", "digest": {"sha256": "0" * 64}}]},
        ),
    ),
    "a bundle for another model": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, meant={"model": "other"}),
    ),
    "a bundle for another purpose": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, meant={"purpose": "marketing"}),
    ),
    "a bundle for another zone": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, meant={"zone": "elsewhere"}),
    ),
    "a pickle with no bundle": lambda s: (b"\x80\x04\x95" + b"x" * 60, OCTETS),
    "no signature": lambda s: (MODEL, s.signer.bundle({"model.onnx": MODEL}, bundle=no_signature)),
    "two signatures": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, bundle=two_signatures),
    ),
    "an empty signature": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, bundle=empty_signature),
    ),
    "another payload type": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, bundle=another_payload_type),
    ),
    "another media type": lambda s: (
        MODEL,
        s.signer.bundle({"model.onnx": MODEL}, bundle=another_media_type),
    ),
    "a key that came with it": lambda s: (
        MODEL,
        s.stranger.bundle({"model.onnx": MODEL}, bundle=own_key_in_the_bundle),
    ),
}


def forgeries():
    for name, forged in FORGERIES.items():

        def attack(self, forged=forged):
            body, headers = forged(self)
            return self.send("POST", IMPORT, body, headers)

        yield name, attack


def refused_and_written_down(self, reply):
    self.refused(reply)
    entries = self.server.audited("model.refused")
    self.assertEqual(len(entries), self.refusals + 1, "the refusal left no entry")
    self.assertEqual(entries[0]["detail"]["code"], "FJ-7061", entries[0])


@attacks(forgeries(), refused_and_written_down)
class Signatures(Arena):
    def setUp(self):
        super().setUp()
        self.refusals = len(self.server.audited("model.refused"))

    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.TemporaryDirectory(prefix="falaj-signers-")
        cls.signer, cls.stranger = Signer(cls.keys.name, "a"), Signer(cls.keys.name, "b")
        cls.FLAGS = ("--set", f"security.model_signers={cls.signer.public}")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.keys.cleanup()

    def test_the_good_bundle_is_taken(self):
        """The control: what every forgery above differs from."""
        reply = self.send(
            "POST",
            "/api/v1/models/good/versions:import",
            MODEL,
            self.signer.bundle({"model.onnx": MODEL}),
        )
        self.assertEqual(reply.status, 201, reply.text)
        self.before = self.state()

    def test_a_bundle_for_this_model_is_taken(self):
        """The control of those that are meant for something else."""
        reply = self.send(
            "POST",
            "/api/v1/models/meant/versions:import",
            MODEL,
            self.signer.bundle({"model.onnx": MODEL}, meant={"model": "meant"}),
        )
        self.assertEqual(reply.status, 201, reply.text)
        self.before = self.state()


if __name__ == "__main__":
    unittest.main()
