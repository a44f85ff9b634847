"""Every attack file is a seed: what the attacks send lies in the corpora of the fuzz targets.

    FALAJ_BINARY=build/release/falaj PYTHONPATH=tests/faults tests/attacks/test_seeds.py --write

Keys and clocks stand still here, so that the same attack is the same file: which key signed it is
nothing to a parser. Seeds of other origin lie beside these, under names without "attack-".
"""

import base64
import hashlib
import json
import os
import re
import sys
import types
import unittest
from unittest import mock

import test_grpc
import test_http
import test_identity
import test_models
import test_paths
from issuer import Issuer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOW = 1_790_000_000
# More of one thing is no other seed, and slows the others down.
BYTES_MAX = 8192


def still(key, message, size):
    """A signature that nobody made, always the same."""
    out, last = b"", key + message
    while len(out) < size:
        last = hashlib.sha256(last).digest()
        out += last
    return out[:size]


class StillKey:
    def __init__(self, name):
        self.name = name.encode()
        self.public = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(self.sign(b"key"))
        self.modulus = self.sign(b"modulus")

    def sign(self, message):
        return still(self.name, message, 256)

    def jwk(self, kid):
        modulus = base64.urlsafe_b64encode(self.modulus).rstrip(b"=").decode()
        return {"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig", "n": modulus, "e": "AQAB"}


class StillIssuer(Issuer):
    def __init__(self):
        self.key, self.stranger = StillKey("issuer"), StillKey("stranger")
        self.url = "https://id.example"


class StillSigner(test_models.Signer):
    def __init__(self, name):
        self.name = name.encode()

    def sign(self, message):
        return still(self.name, message, 70)


# ---- By parser ---------------------------------------------------------------------------------


def jwts():
    issuer = StillIssuer()
    return {name: made(issuer).encode() for name, made in test_identity.TOKENS.items()}


def credentials():
    def token(name):
        return f"fj_t{name:a<11}_" + "A" * 43

    world = types.SimpleNamespace(
        admin=token("admin"),
        tokens={"mallory": token("mallory")},
        **{name: token(name) for name in ("revoked", "disabled", "deleted")},
    )
    made = {name: shown(world) for name, shown in test_identity.CREDENTIALS.items()}
    return {name: "\n".join(headers.values()).encode() for name, headers in made.items() if headers}


def bundles():
    world = types.SimpleNamespace(signer=StillSigner("signer"), stranger=StillSigner("stranger"))
    made = {}
    for name, forged in test_models.FORGERIES.items():
        text = forged(world)[1].get("X-Falaj-Signature")
        if text:
            made[name] = base64.b64decode(text)
    return made


def tars():
    return {name: body for name, body in test_models.FILES.items() if name.startswith("a tar ")}


def documents():
    return {name: body for name, body in test_models.FILES.items() if body.startswith(b"{")}


def targets():
    made = {f"climbs {name}": "/v2/models/" + text for name, text in test_paths.CLIMBS.items()}
    made.update({f"target {name}": target for name, target in test_paths.TARGETS.items()})
    made.update({f"smuggles {name}": text for name, text in test_http.SMUGGLING.items()})
    return {name: t if isinstance(t, bytes) else t.encode() for name, t in made.items()}


def grpc_frames():
    """The coding and the size of parts, then the call's bytes."""
    return {
        name: bytes([1 if metadata else 0, 7]) + data
        for name, (data, metadata) in test_grpc.MESSAGES.items()
    }


def grpc_messages():
    """As ModelInfer's, and as a question about a model."""
    made = {}
    for name, (data, metadata) in test_grpc.MESSAGES.items():
        if not metadata and len(data) > 5:
            made["infer " + name], made["query " + name] = b"\0" + data[5:], b"\1" + data[5:]
    return made


# ---- Proofs, entries and heads of a small log --------------------------------------------------


def leaf(data):
    return hashlib.sha256(b"\0" + data).digest()


def root(leaves):
    """RFC 9162, 2.1.1."""
    if len(leaves) == 1:
        return leaves[0]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root(leaves[:left]) + root(leaves[left:])).digest()


def path(index, leaves):
    """RFC 9162, 2.1.3.1."""
    if len(leaves) == 1:
        return []
    left = 1 << (len(leaves) - 1).bit_length() - 1
    if index < left:
        return path(index, leaves[:left]) + [root(leaves[left:])]
    return path(index - left, leaves[left:]) + [root(leaves[:left])]


LEAVES = [leaf(b"entry %d" % number) for number in range(8)]


def proof_text(nodes, size=len(LEAVES), tree=None, **more):
    tree = (tree or root(LEAVES)).hex() if not isinstance(tree, str) else tree
    nodes = [node.hex() if isinstance(node, bytes) else node for node in nodes]
    return json.dumps({"head": {"root": tree, "size": size}, "proof": nodes, **more}).encode()


def proofs():
    nodes = path(len(LEAVES) // 2, LEAVES)
    flipped = bytes([nodes[1][0] ^ 1]) + nodes[1][1:]
    return {
        "as it is": proof_text(nodes),
        "a node is flipped": proof_text([nodes[0], flipped, *nodes[2:]]),
        "a node is gone": proof_text(nodes[:-1]),
        "the first node is gone": proof_text(nodes[1:]),
        "a node is there twice": proof_text([nodes[0], *nodes]),
        "two nodes change places": proof_text([nodes[1], nodes[0], *nodes[2:]]),
        "nodes turned round": proof_text(nodes[::-1]),
        "a node too many": proof_text([*nodes, root(LEAVES)]),
        "the path of another entry": proof_text(path(1, LEAVES)),
        "no nodes": proof_text([]),
        "the root for a node": proof_text([root(LEAVES)] * len(nodes)),
        "a hundred nodes": proof_text([nodes[0]] * 100),
        "a node cut short": proof_text([nodes[0].hex()[:-2], *nodes[1:]]),
        "a node in capitals": proof_text([nodes[0].hex().upper(), *nodes[1:]]),
        "a node that is no hexadecimal": proof_text(["z" * 64, *nodes[1:]]),
        "a node that is a number": proof_text([7, *nodes[1:]]),
        "the head of a smaller log": proof_text(nodes, 5, root(LEAVES[:5])),
        "a size that is larger": proof_text(nodes, 9),
        "a size of none": proof_text(nodes, 0),
        "a negative size": proof_text(nodes, -8),
        "a size beyond 63 bits": proof_text(nodes, 1 << 63),
        "a size that is text": proof_text(nodes, "8"),
        "a size that is half": proof_text(nodes, 7.5),
        "another log's root": proof_text(nodes, tree=root(LEAVES[::-1])),
        "a root cut short": proof_text(nodes, tree=root(LEAVES).hex()[:-1]),
        "no head": json.dumps({"proof": [node.hex() for node in nodes]}).encode(),
        "two proofs": proof_text(nodes)[:-1] + b',"proof":[]}',
        "cut in the middle": proof_text(nodes)[:150],
    }


ENTRY = (
    b'{"action":"object.apply","actor":"user:dev","at":"2026-11-16T08:30:00.123Z",'
    b'"detail":{"a":[1,2.5,null]},"object":"Zone/ae","project":"","request_id":"r",'
    b'"sequence":7,"v":1}'
)


def entries():
    """What a log's tampered lines look like to who reads one of them."""
    return {
        "a digit is turned": ENTRY.replace(b'"sequence":7', b'"sequence":8'),
        "another moment": ENTRY.replace(b"08:30", b"08:31"),
        "a moment that is none": ENTRY.replace(b"11-16", b"13-46"),
        "a moment without its zone": ENTRY.replace(b'123Z"', b'123"'),
        "a line without its end": ENTRY[:-5],
        "two entries in a line": ENTRY + ENTRY,
        "a line feed behind it": ENTRY + b"\n",
        "a blank inside": ENTRY.replace(b":", b": ", 1),
        "fields in another order": b'{"v":1,' + ENTRY[1:].replace(b',"v":1', b""),
        "a field twice": ENTRY.replace(b'"v":1', b'"v":1,"v":1'),
        "a field too many": ENTRY.replace(b'"v":1', b'"v":1,"z":1'),
        "no actor": ENTRY.replace(b'"actor":"user:dev",', b""),
        "an actor that is a list": ENTRY.replace(b'"user:dev"', b'["user:dev"]'),
        "another version": ENTRY.replace(b'"v":1', b'"v":2'),
        "a negative number": ENTRY.replace(b'"sequence":7', b'"sequence":-7'),
        "a number beyond 64 bits": ENTRY.replace(b'"sequence":7', b'"sequence":' + b"9" * 30),
        "a number with a zero before it": ENTRY.replace(b'"sequence":7', b'"sequence":07'),
        "a number of another spelling": ENTRY.replace(b"2.5", b"2.50"),
        "a NUL": ENTRY.replace(b"Zone/ae", b"Zone\\u0000ae"),
        "half of a pair": ENTRY.replace(b"Zone/ae", b"\\ud800"),
        "not UTF-8": ENTRY.replace(b"Zone/ae", b"\xff\xfe"),
        "a detail that is deep": ENTRY.replace(b'[1,2.5,null]', b"[" * 500 + b"]" * 500),
        "a clock that went forward": ENTRY.replace(b'"detail"', b'"clock_behind":-5,"detail"'),
    }


def heads():
    with open(os.path.join(ROOT, "src/crypto/corpus/checkpoint/signed"), "rb") as file:
        signed = file.read()
    body, _, signature = signed.partition(b"\n\n")
    lines = body.split(b"\n")
    return {
        "a size is turned": signed.replace(b"\n7\n", b"\n8\n"),
        "a size with a zero before it": signed.replace(b"\n7\n", b"\n07\n"),
        "a negative size": signed.replace(b"\n7\n", b"\n-7\n"),
        "a size beyond 64 bits": signed.replace(b"\n7\n", b"\n" + b"9" * 30 + b"\n"),
        "another log": signed.replace(b"falaj/test", b"falaj/rest", 1),
        "another root": signed.replace(lines[2], base64.b64encode(root(LEAVES))),
        "a root cut short": signed.replace(lines[2], lines[2][:-4]),
        "no signature": body + b"\n\n",
        "the signature twice": signed + signature,
        "a signature cut short": signed[:-9] + b"\n",
        "a signature that is turned": signed.replace(signature[30:32], signature[31:29:-1]),
        "a signature of nobody": signed.replace("— falaj".encode(), "— evil".encode()),
        "a hyphen for the dash": signed.replace("—".encode(), b"-"),
        "no line between": signed.replace(b"\n\n", b"\n"),
        "lines of another system": signed.replace(b"\n", b"\r\n"),
        "no line feed at the end": signed.rstrip(b"\n"),
        "a line too many": signed.replace(b"\n\n", b"\nmore\n\n", 1),
        "a NUL": signed.replace(b"falaj/test\n", b"falaj\0test\n", 1),
    }


CORPORA = {
    "src/onnx/corpus/foreign": lambda: test_models.FILES,
    "src/onnx/corpus/trees": lambda: test_models.FILES,
    "src/jobs/oci/corpus/image": tars,
    "src/base/corpus/json": documents,
    "src/crypto/corpus/jwt": jwts,
    "src/crypto/corpus/checkpoint": heads,
    "src/security/identity/corpus/credentials": credentials,
    "src/security/signing/corpus/model_signature": bundles,
    "src/security/audit/corpus/proof": proofs,
    "src/security/audit/corpus/entry": entries,
    "src/net/corpus/router": targets,
    "src/net/http2/corpus/grpc_messages": grpc_frames,
    "src/api/inference/corpus/grpc_infer": grpc_messages,
}


def seeds():
    """{path: bytes} of everything that the attacks send."""
    made = {}
    with mock.patch("time.time", return_value=NOW):
        for folder, attacks in CORPORA.items():
            for name, body in attacks().items():
                slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
                where = f"{folder}/attack-{slug}"
                assert where not in made, where
                made[where] = body[:BYTES_MAX]
    return made


def kept():
    """Those that lie there."""
    found = {}
    for folder in CORPORA:
        for name in os.listdir(os.path.join(ROOT, folder)):
            if name.startswith("attack-"):
                with open(os.path.join(ROOT, folder, name), "rb") as file:
                    found[f"{folder}/{name}"] = file.read()
    return found


class Seeds(unittest.TestCase):
    def test_every_attack_file_is_a_seed(self):
        made, found = seeds(), kept()
        missing, stale = sorted(made.keys() - found.keys()), sorted(found.keys() - made.keys())
        self.assertEqual((missing, stale), ([], []), "run with --write")
        for where, body in made.items():
            self.assertEqual(found[where], body, where + ": run with --write")

    def test_each_parser_has_more_than_a_handful(self):
        for folder, attacks in CORPORA.items():
            few = 2 if attacks in (tars, documents) else 10
            self.assertGreaterEqual(len(attacks()), few, folder)

    def test_the_untouched_proof_leads_to_its_root(self):
        """The control: the tampered ones differ from one that holds."""
        at, index = LEAVES[4], 4
        for node in path(4, LEAVES):
            pair = at + node if index % 2 == 0 else node + at
            at, index = hashlib.sha256(b"\1" + pair).digest(), index // 2
        self.assertEqual(at, root(LEAVES))


def write():
    made = seeds()
    for where in kept().keys() - made.keys():
        os.remove(os.path.join(ROOT, where))
    for where, body in made.items():
        with open(os.path.join(ROOT, where), "wb") as out:
            out.write(body)
    print(f"{len(made)} seeds")


if __name__ == "__main__":
    if "--write" in sys.argv:
        write()
    else:
        unittest.main(verbosity=2)
