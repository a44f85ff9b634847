"""Runs what a page tells people to type: files from named blocks, commands from ```sh blocks."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

PAGE, PROGRAM = sys.argv[1], os.path.abspath(os.environ["FALAJ_BINARY"])


def blocks(text):
    """(language, name, content) of each fenced block."""
    return re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def main():
    folder = tempfile.mkdtemp(prefix="falaj-docs-")
    os.makedirs(folder + "/bin")
    os.symlink(PROGRAM, folder + "/bin/falaj")
    command = [PROGRAM, "dev", "--data", folder + "/data", "--port", "0", "--grpc-port", "0"]
    with open(folder + "/log", "wb") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        url = server.stdout.readline().decode().split()[1]
        env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "FALAJ_SERVER": url}
        del env["FALAJ_BINARY"]
        ran = 0
        with open(PAGE) as page:
            found = blocks(page.read())
        for language, name, content in found:
            if name:
                with open(f"{folder}/{name}", "w") as out:
                    out.write(content)
            if language != "sh":
                continue
            for line in content.strip().split("\n"):
                print("$", line, flush=True)
                subprocess.run(["bash", "-c", line], cwd=folder, env=env, check=True)
                ran += 1
        assert ran > 0, "the page has no commands"
        print(f"{ran} commands ran")
    finally:
        server.terminate()
        server.wait(timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
