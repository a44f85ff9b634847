"""`feast serve` over the tables of make_online.py in its SQLite store; prints `ready URL` when it
answers. usage: feast_server.py FOLDER

Runs with the Python of build/feast_peers. The server is this process's child and ends with it.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import timedelta

import pandas as pd
from feast import Entity, FeatureService, FeatureStore, FeatureView, Field, FileSource
from feast.types import Float64, Int64

VIEWS, FEATURES = 5, 10


def fill(folder):
    with open(f"{folder}/feature_store.yaml", "w") as config:
        config.write(
            f"project: race\nprovider: local\nregistry: {folder}/registry.db\n"
            f"online_store:\n  type: sqlite\n  path: {folder}/online.db\n"
            "offline_store:\n  type: file\nentity_key_serialization_version: 3\n"
        )
    store = FeatureStore(repo_path=folder)
    entity = Entity(name="key", join_keys=["key"])
    views = []
    for view in range(VIEWS):
        names = [f"v{view}_f{feature}" for feature in range(FEATURES)]
        views.append(
            FeatureView(
                name=f"view{view}",
                entities=[entity],
                ttl=timedelta(days=365),
                schema=[Field(name="key", dtype=Int64)]
                + [Field(name=name, dtype=Float64) for name in names],
                source=FileSource(
                    path=f"{folder}/view{view}.parquet", timestamp_field="event_timestamp"
                ),
            )
        )
    store.apply([entity, *views, FeatureService(name="all", features=views)])
    for view in range(VIEWS):
        store.write_to_online_store(f"view{view}", pd.read_parquet(f"{folder}/view{view}.parquet"))


def main():
    folder = sys.argv[1]
    fill(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # The code that the `feast` command runs, with as many workers as there are cores.
    start = (
        "from feast import FeatureStore; "
        f"FeatureStore(repo_path={folder!r}).serve(host='127.0.0.1', port={port}, type_='http', "
        f"no_access_log=True, workers={os.cpu_count()}, metrics=False, "
        "tls_key_path='', tls_cert_path='', registry_ttl_sec=3600)"
    )
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", start], stdout=sys.stderr, start_new_session=True
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                with urllib.request.urlopen(url + "/health", timeout=5):
                    break
            except OSError:
                time.sleep(0.1)
        print("ready", url, flush=True)
        server.wait()
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


main()
