"""The audit log: durable appends a second with group commit, growth of its tree, verification."""

import json
import subprocess

TITLE = "audit log: 200,000 entries in durable groups of 256, 4 threads; the tree; verify"


def measure(arena) -> dict:
    program = arena.falaj.parent / "src/security/audit_bench"
    if not program.exists():
        subprocess.run(["ninja", "-C", str(arena.falaj.parent), "audit_bench"], check=True,
                       stdout=subprocess.DEVNULL)
    folder = arena.work / "audit"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    text = subprocess.run([str(program), str(folder)], check=True, capture_output=True, text=True)
    figures = json.loads(text.stdout)
    return {name: figures[name] for name in ("append_per_s", "tree_per_s", "verify_per_s")}
