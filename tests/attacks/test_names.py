"""Groups 20–22 and 25: names that a shell, a query or a log would take for commands."""

import json
import unittest

import shop
from arena import Arena, attacks

SHELL = [
    "$(id)",
    "`id`",
    "a;id",
    "a|id",
    "a&&id",
    "a\nid",
    "--help",
    "a b",
    "a'b",
    'a"b',
    "*",
    "~root",
    "a\\b",
    "${HOME}",
    "<a>",
    "a\u202eb",
    "a" * 300,
    "",
    ".",
    "..",
    "CON:",
    "%s%n",
]
QUERY = [
    "' OR '1'='1",
    "1; DROP TABLE objects--",
    "x' UNION SELECT 1--",
    "%' --",
    "\\'; --",
    "a\0b",
    "🦊' OR 1=1 --",
    "1/**/OR/**/1=1",
]


def names():
    for number, text in enumerate(SHELL):
        for kind in ("Model", "TrainJob"):

            def attack(self, text=text, kind=kind):
                made = shop.train_job() if kind == "TrainJob" else shop.thing("Model", "m")
                made["metadata"]["name"] = text
                return self.send("PUT", "/api/v1/objects", made)

            yield f"{kind} named {number} {text[:12]}", attack


def columns():
    """A column may be called anything that is printable: it is data, and only ever quoted."""
    for number, text in enumerate(SHELL):

        def column(self, text=text):
            feature = {"name": text, "type": "float64"}
            view = shop.thing(
                "FeatureView", "x", entity="customer", source="visits_file", features=[feature]
            )
            return self.send("PUT", "/api/v1/objects?dry_run=true", view)

        yield f"column named {number} {text[:12]}", column


def taken_as_data(self, reply):
    self.assertIn(reply.status, (200, 400), reply.text[:300])
    self.says_nothing_internal(reply.body)


@attacks(columns(), taken_as_data)
class Columns(Arena):
    pass


@attacks(names())
class Names(Arena):
    pass


def quoted(text):
    return "".join(f"%{byte:02x}" for byte in text.encode())


def filters():
    paths = {
        "object": "/api/v1/objects?kind={}",
        "audit action": "/api/v1/audit?action={}",
        "audit object": "/api/v1/audit?object={}",
        "runs": "/api/v1/runs?project={}",
    }
    for name, path in paths.items():
        for number, text in enumerate(QUERY):
            yield f"{name} {number}", lambda self, path=path, text=text: self.send(
                "GET", path.format(quoted(text))
            )


def finds_nothing(self, reply):
    """Refused, or answered as a search for something that does not exist."""
    self.says_nothing_internal(reply.body)
    self.assertIn(reply.status, (200, 400, 403, 404), reply.text[:300])
    if reply.status == 200:
        for value in json.loads(reply.body).values():
            self.assertFalse(isinstance(value, list) and value, reply.text[:300])


@attacks(filters(), finds_nothing)
class Filters(Arena):
    pass


LINES = {
    "a line feed": "a\nfake=1",
    "a carriage return": "a\rfake",
    "a terminal escape": "\x1b[2J\x1b[31mfake",
    "fake JSON": '","level":"error","message":"fake',
    "a bell": "\x07",
    "a unicode line separator": "a\u2028fake",
}


class LogLines(Arena):
    """Whatever a client sends, one request is one line, and no control character reaches it."""

    FLAGS = ("--set", "log.format=json", "--set", "log.level=debug")

    def check(self, **sent):
        self.send(
            sent.get("method", "GET"),
            sent.get("path", "/api/v1/models/none"),
            headers=sent.get("headers"),
        )
        with open(self.server.log, "rb") as log:
            for line in log.read().splitlines():
                self.assertFalse(any(byte < 32 or byte == 127 for byte in line), line)
                if line.startswith(b"{"):
                    self.assertNotEqual(json.loads(line).get("message"), "fake")


def lines():
    for name, text in LINES.items():

        def in_path(self, text=text):
            self.check(path="/api/v1/models/" + quoted(text))

        def in_query(self, text=text):
            self.check(path="/api/v1/models?project=" + quoted(text))

        def in_header(self, text=text):
            if "\n" in text or "\r" in text:
                text = quoted(text)
            self.check(
                headers={
                    "X-Request-Id": text.encode().decode("latin-1"),
                    "User-Agent": text.encode().decode("latin-1"),
                }
            )

        yield f"path {name}", in_path
        yield f"query {name}", in_query
        yield f"header {name}", in_header


LogLines = attacks(lines())(LogLines)


if __name__ == "__main__":
    unittest.main()
