"""A small identity provider: a discovery document, keys, and tokens signed as an attacker likes."""

import base64
import hashlib
import hmac
import http.server
import json
import subprocess
import threading
import time


def encoded(data):
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class RsaKey:
    def __init__(self, path):
        self.path = path
        make = ["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
        subprocess.run([*make, "-out", path], check=True, stderr=subprocess.DEVNULL)
        self.public = subprocess.run(
            ["openssl", "pkey", "-in", path, "-pubout"], check=True, stdout=subprocess.PIPE
        ).stdout
        shown = subprocess.run(
            ["openssl", "rsa", "-in", path, "-noout", "-modulus"],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        self.modulus = bytes.fromhex(shown.decode().partition("=")[2].strip())

    def sign(self, message):
        return subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", self.path],
            input=message,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout

    def jwk(self, kid):
        return {
            "kty": "RSA",
            "kid": kid,
            "alg": "RS256",
            "use": "sig",
            "n": encoded(self.modulus),
            "e": "AQAB",
        }


class Issuer:
    """Serves its documents on a port of its own until it is closed."""

    def __init__(self, folder):
        self.key, self.stranger = RsaKey(folder + "/issuer.key"), RsaKey(folder + "/stranger.key")
        self.asked = []
        outer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                body = json.dumps(outer.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def document(self, path):
        if path == "/jwks":
            return {"keys": [self.key.jwk("first")]}
        return {
            "issuer": self.url,
            "authorization_endpoint": self.url + "/authorize",
            "token_endpoint": self.url + "/token",
            "jwks_uri": self.url + "/jwks",
        }

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def claims(self, **changes):
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": "falaj",
            "sub": "robot",
            "iat": now,
            "nbf": now,
            "exp": now + 600,
            **changes,
        }
        return {name: value for name, value in usual.items() if value is not None}

    def claims_text(self):
        return json.dumps(self.claims()).encode()

    def token(self, claims=None, head=None, sign=None, **header):
        """A token; `head` stands in for the whole header text, `sign` for the signature."""
        header = {"alg": "RS256", "typ": "at+jwt", "kid": "first", **header}
        header = {name: value for name, value in header.items() if value is not None}
        first = encoded(head if head is not None else header)
        body = claims if claims is not None else self.claims()
        message = f"{first}.{encoded(body)}".encode()
        made = sign(message) if sign else self.key.sign(message)
        return message.decode() + "." + encoded(made)

    def hmac(self, message):
        return hmac.new(self.key.public, message, hashlib.sha256).digest()
