"""Finds C++ functions and their lengths, well enough for formatted code, without a compiler."""

import bisect
import re
from typing import NamedTuple

# Comments, raw strings, strings and characters: blanked out, so that braces inside do not count.
QUIET = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s"]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
NOT_A_FUNCTION = re.compile(
    r"^(?:export\s+)?(?:inline\s+)?(?:namespace|enum|extern\s*$)\b|^extern\s*$"
    r"|^(?:template\s*<.*>\s*)?(?:class|struct|union)\b(?![^{]*\)\s*(?:const|noexcept|override)?$)",
    re.S)
ACCESS = re.compile(r"\s*(?:(?:public|private|protected)\s*:(?!:)\s*)*")
MEMBER_INITIALISER = re.compile(r"\)\s*(?:noexcept\s*)?:\s(?:.*,\s*)?[\w:<>]+\s*$", re.S)
NAME = re.compile(r"((?:[\w~]+::)*(?:operator\s*\S+?|~?\w+))\s*\(")


class Function(NamedTuple):
    name: str
    line: int
    lines: int


def blank(text: str) -> str:
    """The same text, same line breaks, with everything that is not code replaced by spaces."""
    def spaces(found: re.Match) -> str:
        return re.sub(r"[^\n]", " ", found[0])
    return PREPROCESSOR.sub(spaces, QUIET.sub(spaces, text))


def opens_function(head: str) -> bool:
    """Whether a brace after `head` (the text since the last ; { or }) opens a function body."""
    head = head.strip()
    if not head or "(" not in head or NOT_A_FUNCTION.match(head):
        return False
    before = head.split("(", 1)[0].rstrip()
    if "=" in before and "operator" not in before:
        return False  # An initialiser.
    return bool(re.search(r"\)|\]", head))


def is_initialiser(head: str) -> bool:
    """Whether a brace after `head` holds a value inside a function's head: f(T x = {}), x_{1}."""
    return head.count("(") > head.count(")") or bool(MEMBER_INITIALISER.search(head))


def data_lines(text: str) -> list[int]:
    """Offsets of line breaks inside raw strings: data, which is not counted as code."""
    return [match.start() + at for match in QUIET.finditer(text) if match[0].startswith("R")
            for at, char in enumerate(match[0]) if char == "\n"]


def name_of(head: str) -> str:
    found = NAME.search(re.sub(r"^\s*template\s*<[^;{]*?>\s", "", head))
    if not found:
        return "?"
    macro = re.match(r"(TEST(?:_[FP])?)\s*\(([^)]*)\)", head.strip())
    if macro:
        return ".".join(part.strip() for part in macro[2].split(","))
    return re.sub(r"\s+", "", found[1])


def functions(text: str) -> list[Function]:
    """Every function body at namespace or class level; a lambda belongs to the one around it."""
    code, data = blank(text), data_lines(text)
    found: list[Function] = []
    depth, head_at, body = 0, 0, None  # body: (depth outside, name, first offset)
    member = None  # Depth outside the braces of an initialiser: B() : x_{1} {
    for token in re.finditer(r"[{};]", code):
        at = token.start()
        if token[0] == "{":
            head_at = ACCESS.match(code, head_at).end()
            head = code[head_at:at]
            if body is None and member is None and is_initialiser(head):
                member = depth
            elif body is None and opens_function(head):
                body = (depth, name_of(head), head_at)
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if body and depth == body[0]:
                line = code.count("\n", 0, body[2]) + 1
                lines = code.count("\n", body[2], at) + 1
                lines -= bisect.bisect(data, at) - bisect.bisect(data, body[2])
                found.append(Function(body[1], line, lines))
                body = None
            if member == depth:
                member = None
                continue
        if member is None:
            head_at = at + 1
    return found
