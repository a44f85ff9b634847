"""Marks chosen dynamic symbols of ELF shared libraries as hidden, in place.

Some vendors' libraries export the third-party code that they bundle (OpenSSL, re2, absl, fmt ...).
In a process that also has another copy, the loader binds calls across the two copies and memory is
corrupted. A symbol whose visibility is STV_HIDDEN in .dynsym is neither exported nor interposed, so
each library keeps its own copy. Only one byte per symbol changes; sizes and offsets stay.
"""

import fnmatch
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SHT_DYNSYM = 11
STB_LOCAL = 0
STV_HIDDEN = 2
SYMBOL = struct.Struct("<IBBHQQ")  # st_name, st_info, st_other, st_shndx, st_value, st_size
SECTION = struct.Struct("<IIQQQQIIQQ")


class Symbol(NamedTuple):
    name: str
    other_at: int  # File offset of st_other, the byte that holds the visibility.
    exported: bool
    imported: bool


def dynamic_symbols(image: bytes | bytearray) -> Iterator[Symbol]:
    """Yields every dynamic symbol of a 64-bit little-endian ELF image."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (sections_at,) = struct.unpack_from("<Q", image, 0x28)
    section_size, section_count = struct.unpack_from("<HH", image, 0x3A)
    sections = [SECTION.unpack_from(image, sections_at + i * section_size)
                for i in range(section_count)]
    table = next(s for s in sections if s[1] == SHT_DYNSYM)
    table_at, table_bytes, strings_at = table[4], table[5], sections[table[6]][4]
    for at in range(table_at + SYMBOL.size, table_at + table_bytes, SYMBOL.size):
        name_at, info, _, section, _, _ = SYMBOL.unpack_from(image, at)
        begin = strings_at + name_at
        name = bytes(image[begin:image.index(b"\0", begin)]).decode("ascii", "replace")
        is_global = info >> 4 != STB_LOCAL
        yield Symbol(name, at + 5, is_global and section != 0, section == 0)


def hide(libraries: list[Path], rules: dict[str, str]) -> dict[str, int]:
    """Hides the symbols that `rules` (file name glob -> regex) select; returns counts per library.

    A symbol that another library of the same list imports stays visible: it is their interface.
    """
    images = {lib: bytearray(lib.read_bytes()) for lib in libraries}
    symbols = {lib: list(dynamic_symbols(image)) for lib, image in images.items()}
    imports = {lib: {s.name for s in symbols[lib] if s.imported} for lib in libraries}
    hidden = {}
    for lib, image in images.items():
        wanted = set().union(*(imports[other] for other in libraries if other != lib))
        regexes = [re.compile(rule) for glob, rule in rules.items()
                   if fnmatch.fnmatch(lib.name, glob)]
        chosen = [s for s in symbols[lib] if s.exported and s.name not in wanted
                  and any(r.search(s.name) for r in regexes)]
        for symbol in chosen:
            image[symbol.other_at] = (image[symbol.other_at] & ~3) | STV_HIDDEN
        lib.write_bytes(image)
        hidden[lib.name] = len(chosen)
    return hidden
