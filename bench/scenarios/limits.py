"""Limits of a process under the warden: how far a hog of processor time and one of memory are from
what they were given. A hog that gets less is counted as off, too.
"""

TITLE = "a hog held to half a processor for 10 s, one held to 512 MiB: off by how many per cent"


def measure(arena) -> dict:
    figures = arena.run_wards("limits", 10)
    return {name: figures[name] for name in ("cpu_off_percent", "memory_off_percent")}
