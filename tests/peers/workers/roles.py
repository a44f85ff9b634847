"""Programs that speak a framework's rendezvous as the framework does, for those not installed here.

usage: roles.py dmlc|tf|horovod|deepspeed

dmlc: the scheduler gathers every server and worker and tells all who there is; workers push to
every server, which answers with the sum once all have pushed (MXNet's synchronous servers).
tf:   every task of TF_CONFIG's cluster listens where the cluster says it does, and a sum goes round
the ring of workers, the chief first (MultiWorkerMirroredStrategy's ring).
horovod: every rank puts where it listens into the key-value store of each of its three scopes
(global, local, cross), asks for the others' until it is there, and all of them meet in a ring.
deepspeed: reads the hostfile and its --local_rank as DeepSpeed's launcher and init_distributed do.
"""

import json
import os
import socket
import sys
import threading
import urllib.error
import urllib.request


def listen(where):
    return socket.create_server(where)


def connect(where):
    never = threading.Event()
    while True:
        try:
            return socket.create_connection(where)
        except ConnectionRefusedError:  # It is not up yet.
            never.wait(0.02)


def send(peer, value):
    peer.sendall(json.dumps(value).encode() + b"\n")


def receive(peer):
    return json.loads(peer.makefile().readline())


def dmlc():
    role, env = os.environ["DMLC_ROLE"], os.environ
    root = env["DMLC_PS_ROOT_URI"], int(env["DMLC_PS_ROOT_PORT"])
    workers, servers = int(env["DMLC_NUM_WORKER"]), int(env["DMLC_NUM_SERVER"])
    if role == "scheduler":
        door = listen(root)
        peers = [door.accept()[0] for _ in range(workers + servers)]
        told = [receive(peer) for peer in peers]
        where = [each["port"] for each in told if each["role"] == "server"]
        assert len(where) == servers, told
        for peer in peers:
            send(peer, where)
        return
    door = listen(("127.0.0.1", 0)) if role == "server" else None
    scheduler = connect(root)
    send(scheduler, {"role": role, "port": door.getsockname()[1] if door else 0})
    where = receive(scheduler)
    if role == "server":
        pushing = [door.accept()[0] for _ in range(workers)]
        total = sum(receive(peer) for peer in pushing)
        for peer in pushing:
            send(peer, total)
        return
    answers = []
    for port in where:
        peer = connect(("127.0.0.1", port))
        send(peer, int(env["DMLC_TASK_ID"]) + 1)
        answers.append(receive(peer))
    print("pulled", answers, flush=True)


def tf():
    config = json.loads(os.environ["TF_CONFIG"])
    cluster, task = config["cluster"], config["task"]
    ring = cluster.get("chief", []) + cluster["worker"]
    own = cluster[task["type"]][task["index"]]
    at = ring.index(own)

    def place(text):
        host, port = text.rsplit(":", 1)
        return host, int(port)

    door = listen(place(own))
    if at == 0:
        onward = connect(place(ring[1 % len(ring)]))
        send(onward, 1)
        print("sum", receive(door.accept()[0]), "of", len(ring), flush=True)
        return
    before = door.accept()[0]
    send(connect(place(ring[(at + 1) % len(ring)])), receive(before) + at + 1)


def horovod():
    env = os.environ
    assert env["HOROVOD_CONTROLLER"] == env["HOROVOD_CPU_OPERATIONS"] == "gloo"
    base = f"http://{env['HOROVOD_GLOO_RENDEZVOUS_ADDR']}:{env['HOROVOD_GLOO_RENDEZVOUS_PORT']}"
    scopes = {
        "global": ("HOROVOD_RANK", "HOROVOD_SIZE"),
        "local" + env["HOROVOD_CROSS_RANK"]: ("HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
        "cross" + env["HOROVOD_LOCAL_RANK"]: ("HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE"),
    }
    sums = []
    for scope, (rank_name, size_name) in scopes.items():
        rank, size = int(env[rank_name]), int(env[size_name])
        door = listen(("127.0.0.1", 0))
        mine = str(door.getsockname()[1]).encode()
        put = urllib.request.Request(f"{base}/{scope}/{rank}", data=mine, method="PUT")
        urllib.request.urlopen(put).close()
        onward = connect(("127.0.0.1", int(kept(f"{base}/{scope}/{(rank + 1) % size}"))))
        if rank == 0:
            send(onward, 1)
            sums.append(receive(door.accept()[0]))
        else:
            send(onward, receive(door.accept()[0]) + rank + 1)
    print("sums", sums, flush=True)


def kept(url):
    """What somebody puts there, once they have."""
    never = threading.Event()
    while True:
        try:
            with urllib.request.urlopen(url) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            assert error.code == 404, error
            never.wait(0.02)


def deepspeed():
    hosts = {}
    with open(os.environ["FALAJ_HOSTFILE"]) as file:
        for line in file:
            host, slots = line.split()
            hosts[host] = int(slots.removeprefix("slots="))
    local = [word.removeprefix("--local_rank=") for word in sys.argv if "--local_rank" in word]
    assert sum(hosts.values()) == int(os.environ["WORLD_SIZE"]), hosts
    assert local == [os.environ["LOCAL_RANK"]], sys.argv
    print("rank", os.environ["RANK"], "of", sum(hosts.values()), "slots", flush=True)


if __name__ == "__main__":
    {"dmlc": dmlc, "tf": tf, "horovod": horovod, "deepspeed": deepspeed}[sys.argv[1]]()
