"""Groups 11–14, 17 and 18: strangers, forged and worn-out credentials, guesses by the thousand."""

import concurrent.futures
import contextlib
import glob
import json
import time
import unittest

from arena import attacks
from fortress import ADMIN, Federated, Fortress, basic, bearer, declared

# One request that reads what nobody may see, one that would change something.
REQUESTS = {
    "reads": ("GET", "/api/v1/audit", None),
    "writes": ("PUT", "/api/v1/objects", declared("Model", "planted", "payments", description="x")),
}


def changed(token, at):
    """The token with one character turned into another of its alphabet."""
    return token[:at] + ("a" if token[at] != "a" else "b") + token[at:][1:]


CREDENTIALS = {
    "nothing": lambda s: {},
    "an empty header": lambda s: {"Authorization": ""},
    "a scheme alone": lambda s: {"Authorization": "Bearer"},
    "a scheme and a blank": lambda s: {"Authorization": "Bearer "},
    "an unknown scheme": lambda s: {"Authorization": "Negotiate " + s.admin},
    "the token without a scheme": lambda s: {"Authorization": s.admin},
    "a digest": lambda s: {"Authorization": 'Digest username="root", response="0"'},
    "a token of nobody": lambda s: bearer("fj_abcdefgh_" + "A" * 43),
    "a token cut short": lambda s: bearer(s.admin[:-1]),
    "a token with a tail": lambda s: bearer(s.admin + "A"),
    "a token of another secret": lambda s: bearer(changed(s.admin, -3 + len(s.admin))),
    "a token of another id": lambda s: bearer(changed(s.admin, 4)),
    "a token in capitals": lambda s: bearer(s.admin.upper()),
    "another's id with one's own secret": lambda s: bearer(
        "_".join(s.admin.split("_")[:2]) + "_" + s.tokens["mallory"].split("_", 2)[2]
    ),
    "a revoked token": lambda s: bearer(s.revoked),
    "a token of a disabled service": lambda s: bearer(s.disabled),
    "a token of a deleted service": lambda s: bearer(s.deleted),
    "a token in a cookie": lambda s: {"Cookie": "__Host-falaj=" + s.admin},
    "a token in another header": lambda s: {"X-Api-Key": s.admin, "X-Auth-Token": s.admin},
    "a NUL in the token": lambda s: bearer(s.admin[:10] + "\0" + s.admin[10:]),
    "a token of ten thousand": lambda s: bearer("fj_" + "a" * 10_000),
    "basic that is no base64": lambda s: {"Authorization": "Basic %%%"},
    "basic without a colon": lambda s: {"Authorization": "Basic cm9vdA=="},
    "a name without its password": lambda s: basic("root", ""),
    "a wrong password": lambda s: basic("root", ADMIN + "x"),
    "a password cut short": lambda s: basic("root", ADMIN[:-1]),
    "a password of a megabyte's worth": lambda s: basic("root", "x" * 6_000),
    "the name of a service": lambda s: basic("service:mallory", ADMIN),
    "a name with an injection": lambda s: basic("' OR 1=1 --", "x"),
    "a mechanical name": lambda s: basic("service:setup", ""),
}


def credentials():
    for name, credential in CREDENTIALS.items():
        for what, (method, path, body) in REQUESTS.items():

            def attack(self, credential=credential, method=method, path=path, body=body):
                return self.send(method, path, body, credential(self))

            yield f"{name} {what}", attack
    yield "a token in the address", lambda self: self.send(
        "GET", f"/api/v1/audit?token={self.admin}&access_token={self.admin}"
    )


def turned_away(self, reply):
    self.assertIn(reply.status, (400, 401, 429, 431), reply.text[:300])
    self.says_nothing_internal(reply.body)
    self.assertNotIn(self.admin.encode(), reply.body)


@attacks(credentials(), turned_away)
class Credentials(Fortress):
    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        cls.wear_out()

    def test_the_good_token_is_let_in(self):
        """The control: what every credential above differs from."""
        self.assertEqual(self.send("GET", "/api/v1/audit", headers=bearer(self.admin)).status, 200)


# What a server is, its version and what can be asked of it, is for those whom it knows.
LEARNED = ("/version", "/openapi.json", "/v2", "/metrics", "/api/v1/whoami")
PROBES = {
    "/livez": {"status"}, "/readyz": {"status"}, "/health": {"status"},
    "/v2/health/live": {"live"}, "/v2/health/ready": {"live", "ready"},
}  # And all that they say.


def curious():
    for path in LEARNED:
        for method in ("GET", "HEAD"):
            yield f"{method} {path}", lambda self, m=method, p=path: self.send(m, p)
        yield f"a guessed token on {path}", lambda self, p=path: self.send(
            "GET", p, headers=bearer("fj_abcdefgh_" + "A" * 43)
        )


def learnt_nothing(self, reply):
    self.assertIn(reply.status, (401, 404, 405, 429), reply.text[:300])
    self.says_nothing_internal(reply.body)
    self.assertNotIn(self.version.encode(), reply.body)
    self.assertNotIn(b"/api/v1/", reply.body)


@attacks(curious(), learnt_nothing)
class Strangers(Fortress):
    @classmethod
    def prepare(cls, server):
        super().prepare(server)
        cls.version = server.get("/version")["version"]

    def test_probes_say_how_it_is_and_nothing_else(self):
        for path, words in PROBES.items():
            with self.subTest(path=path):
                reply = self.send("GET", path)
                self.assertEqual(reply.status, 200, reply.text)
                self.assertLessEqual(set(json.loads(reply.body)), words)

    def test_whoever_is_known_is_told(self):
        """The control: any identity, of any grant."""
        known = bearer(self.tokens["reader"])
        for path in ("/version", "/openapi.json", "/v2"):
            with self.subTest(path=path):
                reply = self.send("GET", path, headers=known)
                self.assertEqual(reply.status, 200, reply.text[:300])
                self.assertIn(self.version.encode(), reply.body)


FORGED = {
    "a user of a proxy": {"X-Forwarded-User": "root", "X-Remote-User": "root"},
    "a remote user": {"Remote-User": "root", "X-Authenticated-User": "user:root"},
    "our own word for it": {"X-Falaj-Principal": "user:root", "X-Falaj-User": "root"},
    "a role": {"X-Falaj-Role": "admin", "X-Role": "admin"},
    "a job": {"X-Falaj-Job": "job:1", "X-Falaj-Service": "service:training"},
    "an internal call": {"X-Internal": "1", "X-Falaj-Internal": "true"},
    "an address inside": {"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1"},
    "an address in the standard's words": {"Forwarded": "for=127.0.0.1;proto=https;by=_falaj"},
    "another target": {"X-Original-Url": "/livez", "X-Rewrite-Url": "/livez"},
    "another method": {"X-Http-Method-Override": "GET", "X-Method-Override": "GET"},
    "a certificate's proof": {"X-Ssl-Client-Verify": "SUCCESS", "X-Ssl-Client-S-Dn": "CN=root"},
    "a certificate of a mesh": {
        "X-Forwarded-Client-Cert": "By=spiffe://falaj.local;URI=spiffe://falaj.local/service/root"
    },
    "a trusted program": {"User-Agent": "falaj-internal/1.0", "X-Requested-With": "falaj"},
    "a reason": {"X-Falaj-Reason": "emergency"},
    "a hop that drops the credential": {"Connection": "close, Authorization"},
}


def forged():
    for name, headers in FORGED.items():
        for what, (method, path, body) in REQUESTS.items():

            def attack(self, headers=headers, asked=(method, path, body)):
                return self.send(*asked, headers)

            yield f"stranger with {name} {what}", attack
        yield f"mallory with {name}", lambda self, h=headers: self.attack(
            "mallory", *REQUESTS["writes"], **h
        )


@attacks(forged())
class ForgedHeaders(Fortress):
    pass


def at(seconds):
    return int(time.time()) + seconds


# What an attacker who holds no key of the provider makes of its token; s.issuer is the provider.
TOKENS = {
    "alg none": lambda i: i.token(alg="none", sign=lambda m: b""),
    "alg in another case": lambda i: i.token(alg="None", sign=lambda m: b""),
    "alg none with a signature": lambda i: i.token(alg="none"),
    "no alg": lambda i: i.token(alg=None),
    "HMAC with the public key": lambda i: i.token(alg="HS256", sign=i.hmac),
    "HMAC under the right name": lambda i: i.token(sign=i.hmac),
    "another algorithm of the key": lambda i: i.token(alg="RS512"),
    "an algorithm of another key": lambda i: i.token(alg="ES256"),
    "alg twice": lambda i: i.token(
        head=b'{"alg":"none","alg":"RS256","typ":"at+jwt","kid":"first"}'
    ),
    "alg twice turned": lambda i: i.token(
        head=b'{"alg":"RS256","typ":"at+jwt","kid":"first","alg":"none"}', sign=lambda m: b""
    ),
    "alg that is a list": lambda i: i.token(alg=["RS256"]),
    "a kid that climbs": lambda i: i.token(kid="../../../../dev/null", sign=lambda m: b"\0" * 256),
    "a kid with a query": lambda i: i.token(kid="x' UNION SELECT 'key", sign=i.stranger.sign),
    "a kid of nobody": lambda i: i.token(kid="second", sign=i.stranger.sign),
    "an empty kid": lambda i: i.token(kid="", sign=i.stranger.sign),
    "another's key": lambda i: i.token(sign=i.stranger.sign),
    "a jku": lambda i: i.token(jku="https://evil.example/jwks"),
    "an x5u": lambda i: i.token(x5u="https://evil.example/chain.pem"),
    "its own key": lambda i: i.token(jwk=i.stranger.jwk("first"), sign=i.stranger.sign),
    "crit": lambda i: i.token(crit=["exp"]),
    "zip": lambda i: i.token(zip="DEF"),
    "b64 false": lambda i: i.token(b64=False),
    "the type of an id token": lambda i: i.token(typ="id+jwt"),
    "a token of a logout": lambda i: i.token(typ="logout+jwt"),
    "an expired one": lambda i: i.token(i.claims(exp=at(-120))),
    "one of next year": lambda i: i.token(i.claims(exp=at(366 * 86_400))),
    "one that never ends": lambda i: i.token(i.claims(exp=None)),
    "an exp that is text": lambda i: i.token(i.claims(exp="9999999999")),
    "one not yet valid": lambda i: i.token(i.claims(nbf=at(600))),
    "one made tomorrow": lambda i: i.token(i.claims(iat=at(86_400), nbf=None)),
    "for somebody else": lambda i: i.token(i.claims(aud="another")),
    "for nobody": lambda i: i.token(i.claims(aud=None)),
    "for a list without us": lambda i: i.token(i.claims(aud=["a", "b"])),
    "of another issuer": lambda i: i.token(i.claims(iss="https://evil.example")),
    "of an issuer with a slash": lambda i: i.token(i.claims(iss=i.url + "/")),
    "of no issuer": lambda i: i.token(i.claims(iss=None)),
    "about nobody": lambda i: i.token(i.claims(sub=None)),
    "claims twice": lambda i: i.token(
        (b'{"sub":"root",' + b'"sub":"robot",' + i.claims_text()[1:])
    ),
    "a flipped claim": lambda i: flipped(i.token(), 1),
    "a flipped header": lambda i: flipped(i.token(), 0),
    "a flipped signature": lambda i: flipped(i.token(), 2),
    "no signature": lambda i: i.token().rpartition(".")[0] + ".",
    "two parts": lambda i: i.token().rpartition(".")[0],
    "four parts": lambda i: i.token() + ".AAAA",
    "five parts, encrypted": lambda i: "e30.AAAA.AAAA.AAAA.AAAA",
    "padding": lambda i: i.token() + "==",
    "a blank inside": lambda i: i.token().replace(".", ". ", 1),
    "deep claims": lambda i: i.token(b'{"a":' * 2_000 + b"1" + b"}" * 2_000),
    "a hundred thousand bytes": lambda i: i.token(i.claims(more="x" * 6_000)),
    "rubbish": lambda i: "a.b.c",
}


def flipped(token, part):
    parts = token.split(".")
    middle = len(parts[part]) // 2
    parts[part] = changed(parts[part], middle)
    return ".".join(parts)


def tokens():
    for name, made in TOKENS.items():
        yield name, lambda self, made=made: self.send(
            "GET", "/api/v1/whoami", headers=bearer(made(self.issuer))
        )
    yield "a megabyte", lambda self: self.send(
        "GET", "/api/v1/whoami", headers=bearer(self.issuer.token() + "A" * (1 << 20))
    )


@attacks(tokens(), turned_away)
class Tokens(Federated):
    def tearDown(self):
        super().tearDown()
        self.assertEqual({p for p in self.issuer.asked if "evil" in p or "null" in p}, set())

    def test_the_good_token_is_let_in(self):
        """The control: what every token above differs from."""
        reply = self.send("GET", "/api/v1/whoami", headers=bearer(self.issuer.token()))
        self.assertEqual(reply.status, 200, reply.text)
        self.assertTrue(reply.value["id"].startswith("user:o_"), reply.text)

    def test_a_flood_of_unknown_keys_asks_the_provider_only_now_and_then(self):
        before = len(self.issuer.asked)
        for number in range(40):
            forged = self.issuer.token(kid=f"k{number}", sign=lambda m: b"x" * 256)
            self.refused(self.send("GET", "/api/v1/whoami", headers=bearer(forged)))
        self.assertLessEqual(len(self.issuer.asked) - before, 3)


DEFAULTS = [
    ("admin", "admin"),
    ("admin", "password"),
    ("admin", ""),
    ("", ""),
    ("root", "root"),
    ("root", ""),
    ("falaj", "falaj"),
    ("user:dev", ""),
    ("dev", "dev"),
    ("mlflow", "password1234"),
    ("service:setup", "setup"),
]
SECRETS = {
    "an empty secret": "",
    "a wrong secret": "A" * 43,
    "a secret that is a list": ["a"],
    "no secret": None,
    "a secret of NULs": "\0" * 43,
    "a long secret": "a" * 5_000,
}


def defaults():
    for name, password in DEFAULTS:
        yield f"{name or 'nobody'} with {password or 'nothing'}", lambda self, n=name, p=password: (
            self.send("GET", "/api/v1/objects", headers=basic(n, p))
        )
    for name, secret in SECRETS.items():

        def attack(self, secret=secret):
            body = {"secret": secret, "name": "mallory", "password": "a long password of mine"}
            return self.send("POST", "/api/v1/setup", body)

        yield name, attack


@attacks(defaults())
class FreshInstall(Fortress):
    """Nobody has followed the setup link yet."""

    @classmethod
    def prepare(cls, server):
        pass

    def state(self):
        with open(self.server.log, errors="replace") as log:
            return {"links": log.read().count("/setup#")}

    def test_the_link_of_the_log_works_once(self):
        """The control."""
        self.server.set_up()
        self.addCleanup(setattr, self.server, "headers", {})
        with open(self.server.log, errors="replace") as log:
            secret = log.read().rpartition("/setup#")[2].split()[0]
        body = {"secret": secret, "name": "second", "password": "another long password"}
        self.refused(self.send("POST", "/api/v1/setup", body))


class OneName(Fortress):
    def guess(self, name, password):
        return self.send("POST", "/api/v1/session", {"name": name, "password": password})

    def test_guesses_are_slowed_down_and_say_when_to_come_back(self):
        replies = [self.guess("root", f"guess number {n}") for n in range(12)]
        self.assertEqual({each.status for each in replies[:3]}, {401})
        self.assertEqual(replies[-1].status, 429, replies[-1].text)
        self.assertGreater(int(replies[-1].headers["Retry-After"]), 0)


class ManyNames(OneName):
    test_guesses_are_slowed_down_and_say_when_to_come_back = None

    def test_another_name_each_time_does_not_help(self):
        replies = [self.guess(f"user{n}", "password") for n in range(40)]
        self.assertEqual(replies[-1].status, 429)

    def test_a_flood_of_passwords_keeps_no_token_holder_out(self):
        def flood(number):
            return self.send("GET", "/api/v1/whoami", headers=basic(f"nobody{number}", "x" * 64))

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            pending = [pool.submit(flood, number) for number in range(300)]
            begin = time.monotonic()
            for _ in range(20):
                reply = self.send("GET", "/api/v1/whoami", headers=bearer(self.admin))
                self.assertEqual(reply.status, 200, reply.text)
            elapsed = time.monotonic() - begin
            statuses = {each.result().status for each in pending}
        self.assertLessEqual(statuses, {401, 429, 503})
        self.assertIn(429, statuses)
        self.assertLess(elapsed, 20, "token holders waited for other people's passwords")


class Timing(Fortress):
    def timed(self, headers):
        begin = time.perf_counter()
        self.assertEqual(self.send("GET", "/api/v1/whoami", headers=headers).status, 401)
        return time.perf_counter() - begin

    def spent(self, headers):
        """Nanoseconds of processor that the server spends on a refusal: whatever else the machine
        does takes none of them."""

        def sum_of_threads():
            total = 0
            for task in glob.glob(f"/proc/{self.server.pid}/task/*/schedstat"):
                with contextlib.suppress(OSError), open(task) as text:
                    total += int(text.read().split()[0])
            return total

        begin = sum_of_threads()
        self.timed(headers)
        return sum_of_threads() - begin

    def test_an_unknown_name_costs_as_much_as_a_known_one(self):
        """Four tries in all: the sixth from one address would wait, and cost nothing."""
        for number in range(2):
            body = {"name": f"person{number}", "password": "a password of nobody's business"}
            self.server.good("POST", "/api/v1/users", body)
        rounds = range(2)
        known = min(self.spent(basic(f"person{n}", f"wrong{n}")) for n in rounds)
        unknown = min(self.spent(basic(f"nobody{n}", f"wrong{n}")) for n in rounds)
        token = min(self.spent(bearer(changed(self.admin, 14))) for n in rounds)
        self.before = self.state()
        self.assertLess(token, known / 2, "the control: a hash is the most of it")
        self.assertGreater(unknown, known / 2)
        self.assertLess(unknown, known * 2)

    def test_a_nearly_right_token_takes_as_long_as_a_wrong_one(self):
        wrong, nearly = [], []
        for _ in range(60):
            wrong.append(self.timed(bearer(changed(self.admin, 14))))
            nearly.append(self.timed(bearer(changed(self.admin, len(self.admin) - 2))))
        gap = abs(min(wrong) - min(nearly))
        self.assertLess(gap, 0.002, "the comparison tells how much was right")


if __name__ == "__main__":
    unittest.main()
