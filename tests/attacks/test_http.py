"""Groups 15 and 23: other people's pages, rebound names, and requests that end in two places."""

import unittest

from arena import Arena, attacks, raw, statuses

POST = b"POST /api/v1/objects HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SECOND = b"DELETE /api/v1/objects/Model/shop HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def cross_site():
    hosts = {
        "a rebound name": "evil.example",
        "a name that begins like ours": "127.0.0.1.evil.example",
        "a name that ends like ours": "evil.localhost.example",
        "an empty host": "",
        "a host with userinfo": "127.0.0.1@evil.example",
        "a decimal address": "2130706433",
        "an unclosed bracket": "[::1",
        "a port that is none": "127.0.0.1:99999999",
    }
    for name, host in hosts.items():
        yield f"host {name}", lambda self, host=host: self.send(
            "GET", "/api/v1/models", headers={"Host": host}
        )
    origins = {
        "another site": "https://evil.example",
        "null": "null",
        "another port": "http://127.0.0.1:1",
        "another scheme": "https://{host}",
        "a prefix": "http://{host}.evil.example",
        "a file": "file://",
    }
    for name, origin in origins.items():

        def attack(self, origin=origin):
            host = "%s:%d" % self.server.address()
            return self.send(
                "DELETE", "/api/v1/objects/Model/shop", headers={"Origin": origin.format(host=host)}
            )

        yield f"origin {name}", attack


@attacks(cross_site())
class CrossSite(Arena):
    pass


SMUGGLING = {
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 60\r\n\r\n",
    "two equal lengths": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": POST + b"Content-Length: 0, 60\r\n\r\n",
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a hexadecimal length": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "a length beyond 64 bits": POST + b"Content-Length: 18446744073709551617\r\n\r\n{}",
    "an encoding in capitals with a tab": POST + b"Transfer-Encoding:\tchunked, identity\r\n\r\n",
    "an unknown encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two encodings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "encoding twice": POST
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Content-Length : 2\r\n\r\n{}",
    "a folded header": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "line feeds alone": POST.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\n{}",
    "a chunk size that wraps": POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}",
    "a negative chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
    "a chunk without its end": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX0\r\n\r\n",
    "chunks in HTTP 1.0": POST.replace(b"1.1", b"1.0")
    + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": POST + b"Host: evil.example\r\nContent-Length: 0\r\n\r\n",
    "no host": b"GET /api/v1/models HTTP/1.1\r\n\r\n",
    "a NUL in a header": POST + b"X-A: a\0b\r\nContent-Length: 0\r\n\r\n",
    "a control character in a name": POST + b"X\x01A: a\r\nContent-Length: 0\r\n\r\n",
    "an empty header name": POST + b": a\r\nContent-Length: 0\r\n\r\n",
    "an unknown version": b"GET / HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n",
    "the preface of HTTP 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": b"BREW /api/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a method with a trailing space": b"GET  /api/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "connect": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "trace": b"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
    "binary rubbish": bytes(range(256)) * 8,
    "a header of a megabyte": POST + b"X-A: " + b"a" * (1 << 20) + b"\r\n\r\n",
    "ten thousand headers": POST + b"X-A: b\r\n" * 10_000 + b"\r\n",
    "a target of a megabyte": b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a body above the limit": POST + b"Content-Length: 99999999999\r\n\r\n",
}


def smuggling():
    for name, first in SMUGGLING.items():

        def attack(self, first=first):
            # What follows must never be taken for a request of its own.
            answer = raw(self.server, first + SECOND)
            self.says_nothing_internal(answer)
            for status in statuses(answer):
                self.assertGreaterEqual(status, 400, answer[:300])
            self.assertLessEqual(len(statuses(answer)), 1, answer[:600])

        yield name, attack


@attacks(smuggling())
class Smuggling(Arena):
    pass


class ManyChunks(Arena):
    def test_two_hundred_thousand_tiny_chunks(self):
        body = b"1\r\n \r\n" * 200_000 + b"0\r\n\r\n"
        answer = raw(
            self.server,
            POST.replace(b"POST", b"PUT") + b"Transfer-Encoding: chunked\r\n\r\n" + body,
            half_close=False,
            limit=1,
        )
        self.assertTrue(answer)


if __name__ == "__main__":
    unittest.main()
