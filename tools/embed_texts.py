#!/usr/bin/env python3
"""Turns small text files into a C++ source that carries them.

usage: tools/embed_texts.py OUT.cc HEADER FUNCTION FILE...

OUT.cc defines FUNCTION, declared in HEADER as returning a span of {name, text}; the name is the
file's own without its folder. It is written only when its text changes.
"""

import sys
from pathlib import Path


def literal(data: bytes) -> str:
    """The bytes as string literals, a line each; octal escapes have a fixed width."""
    lines = data.decode("utf-8").splitlines(keepends=True)
    return "\n".join(
        '    "'
        + "".join(
            f"\\{b:03o}" if b < 32 or b > 126 or chr(b) in '"\\?' else chr(b)
            for b in line.encode("utf-8")
        )
        + '"'
        for line in lines
    )


def render(header: str, function: str, files: list[Path]) -> str:
    namespace, _, name = function.rpartition("::")
    rows = "\n".join(
        f'    {{"{path.name}",\n{literal(path.read_bytes())}}},' for path in sorted(files)
    )
    return f"""// Made by tools/embed_texts.py.
#include "{header}"
namespace {namespace} {{
std::span<const EmbeddedText> {name}() {{
  static constexpr EmbeddedText kTexts[] = {{
{rows}
  }};
  return kTexts;
}}
}}  // namespace {namespace}
"""


def main() -> None:
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    text = render(sys.argv[2], sys.argv[3], [Path(name) for name in sys.argv[4:]])
    if not out.exists() or out.read_text() != text:
        out.write_text(text)


if __name__ == "__main__":
    main()
