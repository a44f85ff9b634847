#!/usr/bin/env python3
"""Turns the built console into a C++ source that carries its bytes.

usage: tools/embed_console.py DIST OUT.cc [--depfile OUT.d]

DIST is console/dist with its manifest.json (npm run build). OUT.cc defines falaj::api::assets() of
api/console/assets.h. It is written only when its text changes, so that nothing is compiled in vain;
the depfile names every file read.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

CHUNK = 4096  # Bytes a line: long lines are slow to read for tools, short ones for the compiler.
ESCAPES = [f"\\{value:03o}" if value < 32 or value > 126 or chr(value) in '"\\?' else chr(value)
           for value in range(256)]


def literal(data: bytes) -> str:
    """The bytes as adjacent string literals. Octal escapes have a fixed width: no digit joins."""
    lines = ["".join(ESCAPES[byte] for byte in data[at:at + CHUNK])
             for at in range(0, len(data), CHUNK)]
    return "\n".join(f'    "{line}"' for line in lines) or '    ""'


def read_files(dist: Path) -> tuple[list[dict], list[Path]]:
    manifest = dist / "manifest.json"
    if not manifest.is_file():
        sys.exit(f"embed_console: {manifest} is missing: run ./dev build, which builds the console")
    files, read = [], [manifest]
    for entry in sorted(json.loads(manifest.read_text())["files"], key=lambda e: e["path"]):
        plain = dist / entry["path"].lstrip("/")
        paths = [plain, plain.with_name(plain.name + ".gz"), plain.with_name(plain.name + ".br")]
        identity, gzip, br = (path.read_bytes() for path in paths)
        digest = hashlib.sha256(identity).hexdigest()
        if digest != entry["sha256"]:
            sys.exit(f"embed_console: {plain} is not the file of the manifest: run ./dev build")
        files.append({**entry, "identity": identity, "gzip": gzip, "br": br, "etag": digest[:32]})
        read += paths
    return files, read


def render(files: list[dict]) -> str:
    parts = [
        "// Made by tools/embed_console.py from console/dist.",
        '#include "api/console/assets.h"',
        '#pragma GCC diagnostic ignored "-Woverlength-strings"',
        "namespace falaj::api {",
        "namespace {",
    ]
    rows = []
    for number, file in enumerate(files):
        for form in ("identity", "gzip", "br"):
            # The size is written down: the bytes may hold NUL.
            parts.append(f"constexpr char k{form}{number}[] =\n{literal(file[form])};")
        views = ", ".join(f"{{k{form}{number}, {len(file[form])}}}"
                          for form in ("identity", "gzip", "br"))
        rows.append(f'    {{"{file["path"]}", "{file["content_type"]}", "{file["etag"]}",\n'
                    f"     {views}}},")
    parts += ["constexpr Asset kAssets[] = {", *rows, "};", "}  // namespace",
              "std::span<const Asset> assets() { return kAssets; }",
              "}  // namespace falaj::api", ""]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--depfile", type=Path)
    options = parser.parse_args()
    files, read = read_files(options.dist)
    text = render(files)
    if not options.out.is_file() or options.out.read_text() != text:
        options.out.write_text(text)
    if options.depfile:
        options.depfile.write_text(f"{options.out}: " + " ".join(map(str, read)) + "\n")


if __name__ == "__main__":
    main()
