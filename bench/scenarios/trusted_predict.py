"""Prediction under TLS 1.3 with a bearer token, access control and audit, against the bare route.

Ours is `falaj serve` as a firm runs it: TLS, an API token, a decision and the journal of accesses
for every request. The peer is the same program and the same data as `falaj dev` on loopback, plain
HTTP, one user. Same requests, same load generator (wrk, one thread, 16 keep-alive clients).

What is compared is requests per second of the server's own processor time: on two cores the load
generator is the limit, and under TLS it spends more on its own side than the server does. What it
reached is told beside it.
"""

import base64
import importlib.util
import json
import re
import shutil
import ssl
import statistics
import urllib.error
import urllib.request
from pathlib import Path

from arena import Refused

TITLE = "prediction under TLS 1.3 + token + access control + audit, against plain HTTP in dev"
UNIT = "req/s of a core"
TOLERANCE = 0.0  # The same model over the same features.

_spec = importlib.util.spec_from_file_location("predict", Path(__file__).parent / "predict.py")
predict = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(predict)

PASSWORD = "a long phrase for the bench only"


class Caller:
    """Calls with a token and our own authority; what urllib needs to know about a server."""

    def __init__(self, authority: Path | None = None, token: str = ""):
        self.context = ssl.create_default_context(cafile=authority) if authority else None
        self.token = token
        self.authorization = f"Bearer {token}" if token else ""

    def __call__(self, url: str, body=None):
        headers = {"Content-Type": "application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.context) as reply:
                return json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            raise Refused(f"{url}: {error.code}: {error.read()[:500]!r}") from error


class Contestant(predict.Contestant):
    def __init__(self, arena, program, path, bodies, caller):
        super().__init__(
            arena, program, path, bodies, lambda reply: reply["predictions"][0]["score"]
        )
        self.caller = caller
        self.reached: list[float] = []

    def wrk(self) -> list:
        words = super().wrk()
        if self.caller.token:
            words += [f"Authorization: Bearer {self.caller.token}"]
        return words

    @property
    def extra(self) -> dict:
        return {**super().extra, "wrk_per_second": statistics.median(self.reached[1:])}

    def round(self):
        reached, answer = super().round()
        self.reached.append(reached)
        return 1e6 / self.cpu[-1], answer

    def ask(self, body):
        return self.caller(self.url, body)


def administrator(program, log: Path, authority: Path) -> str:
    """Follows the setup link that a fresh `falaj serve` prints; an API token of whom it made."""
    call = Caller(authority)
    found = re.findall(r"/setup#(\S+)", log.read_text(errors="replace"))
    if not found:
        raise Refused("falaj serve printed no setup link")
    account = {"name": "bench", "password": PASSWORD}
    call(program.url + "/api/v1/setup", {"secret": found[-1], **account})
    basic = base64.b64encode(f"bench:{PASSWORD}".encode()).decode()
    call.authorization = f"Basic {basic}"
    return call(program.url + "/api/v1/tokens", {"label": "bench"})["token"]


def worlds(arena):
    """The demo's world once, then two servers on two copies of it."""
    if hasattr(arena, "pair"):
        return arena.pair
    world = predict.world_of(arena)
    world.server.stop()
    copy = arena.work / "trusted"
    shutil.copytree(world.data, copy)
    flags = ("--port", 0, "--grpc-port", 0, "--set", "log.level=warn")
    bare = arena.serve(arena.falaj, "dev", "--data", world.data, *flags)
    trusted = arena.serve(arena.falaj, "serve", "--data", copy, *flags)
    authority = copy / "tls/authority.pem"
    token = administrator(trusted, arena.work / "programs.log", authority)
    arena.pair = (world, bare, trusted, Caller(authority, token))
    return arena.pair


def bodies_and_path(world):
    path = f"/api/v1/deployments/fraud:predict?project={world.project}"
    return path, [{"entity": e} for e in world.entities]


def ours(arena):
    world, _, trusted, caller = worlds(arena)
    path, bodies = bodies_and_path(world)
    return Contestant(arena, trusted, path, bodies, caller)


def peer(arena):
    world, bare, _, _ = worlds(arena)
    path, bodies = bodies_and_path(world)
    return Contestant(arena, bare, path, bodies, Caller())
