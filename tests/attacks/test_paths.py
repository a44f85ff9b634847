"""Groups 1–3: paths that climb, encodings that hide them, targets that two parsers read apart."""

import unittest

from arena import Arena, attacks

# A parameter of every kind of route that takes one; {} is where the attack goes.
ROUTES = {
    "object": "/api/v1/objects/Source/{}",
    "quarantine": "/api/v1/quarantine/{}",
    "run": "/api/v1/runs/{}",
    "job log": "/api/v1/jobs/{}/log",
    "model": "/api/v1/models/{}",
    "tensor model": "/v2/models/{}",
    "model version": "/v2/models/none/versions/{}",
    "console file": "/assets/{}",
    "training set": "/api/v1/training-sets/{}/manifest",
    "monitor": "/api/v1/monitors/{}/histograms",
}
CLIMBS = {
    "plain": "../../../../etc/passwd",
    "encoded dots": "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "encoded slashes": "..%2f..%2f..%2fetc%2fpasswd",
    "encoded twice": "%252e%252e%252f%252e%252e%252fetc%252fpasswd",
    "backslashes": "..\\..\\..\\etc\\passwd",
    "encoded backslashes": "..%5c..%5cetc%5cpasswd",
    "NUL": "shop%00.onnx",
    "overlong UTF-8": "%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
    "absolute": "%2fetc%2fpasswd",
}


def climbs():
    for route, path in ROUTES.items():
        for climb, text in CLIMBS.items():
            target = path.format(text)
            yield f"{route} {climb}", lambda self, target=target: self.send("GET", target)


TARGETS = {
    "fragment": "/api/v1/models/shop#/../../x",
    "encoded fragment": "/api/v1/models/shop%23x",
    "encoded question mark": "/api/v1/models/shop%3fproject=default",
    "userinfo": "http://user@127.0.0.1/api/v1/models",
    "absolute of another host": "http://evil.example/api/v1/models",
    "two slashes": "//evil.example/api/v1/models",
    "asterisk": "*",
    "authority form": "evil.example:443",
    "no slash": "api/v1/models",
    "file": "file:///etc/passwd",
    "control character": "/api/v1/models/\x01",
    "not UTF-8": b"/api/v1/models/\xff\xfe",
    "broken escape": "/api/v1/models/%zz",
    "cut escape": "/api/v1/models/%2",
    "semicolon": "/api/v1/models/shop;a=b",
}


def targets():
    for name, target in TARGETS.items():
        yield name, lambda self, target=target: self.send("GET", target)


@attacks(climbs())
class Climbing(Arena):
    pass


@attacks(targets())
class Targets(Arena):
    pass


if __name__ == "__main__":
    unittest.main()
