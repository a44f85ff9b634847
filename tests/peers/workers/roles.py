"""Programs that speak a framework's rendezvous as the framework does, for those not installed here.

usage: roles.py dmlc|dmlc_async|tf|horovod|deepspeed

dmlc: the scheduler gathers every server and worker and tells all who there is; workers push to
every server, which answers with the sum once all have pushed (MXNet's synchronous servers,
kvstore dist_sync).
dmlc_async: the same gathering; a server takes each push by itself and answers at once with what it
has by then (kvstore dist_async). Worker n pushes n + 1 times; the last one is through and has its
answers before another has pushed anything, which synchronous servers would not let it be.
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


def gathered(serve, work):
    """Meets the others where the scheduler is; then `serve`s or `work`s."""
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
        serve(door, workers)
    else:
        work([("127.0.0.1", port) for port in where], int(env["DMLC_TASK_ID"]), workers)


def dmlc():
    def serve(door, workers):
        pushing = [door.accept()[0] for _ in range(workers)]
        total = sum(receive(peer) for peer in pushing)
        for peer in pushing:
            send(peer, total)

    def work(servers, task, workers):
        answers = []
        for server in servers:
            peer = connect(server)
            send(peer, task + 1)
            answers.append(receive(peer))
        print("pulled", answers, flush=True)

    gathered(serve, work)


def dmlc_async():
    def serve(door, workers):
        weights, done = {"sum": 0, "ended": []}, threading.Condition()

        def attend(peer):
            lines = peer.makefile()
            for line in lines:
                push = json.loads(line)
                with done:
                    if push is None:
                        weights["ended"].append(peer)
                        done.notify_all()
                        return
                    weights["sum"] += push
                    send(peer, weights["sum"])

        for _ in range(workers):
            threading.Thread(target=attend, args=(door.accept()[0],), daemon=True).start()
        with done:
            done.wait_for(lambda: len(weights["ended"]) == workers)

    def work(servers, task, workers):
        peers = [connect(server) for server in servers]
        read = [peer.makefile() for peer in peers]

        def push(value):
            for peer in peers:
                send(peer, value)
            return [json.loads(lines.readline()) for lines in read]

        last = task + 1 == workers
        while not last and min(push(0)) < workers:  # Until that one is through.
            pass
        seen = [push(1) for _ in range(task + 1)]
        for answers in zip(*seen):
            assert list(answers) == sorted(set(answers)), f"a push was lost: {seen}"
        assert not last or seen == [[n + 1] * len(peers) for n in range(workers)], seen
        total = workers * (workers + 1) // 2
        while push(0) != [total] * len(peers):  # Until the others' pushes have come, too.
            pass
        for peer in peers:
            send(peer, None)
        print("settled at", total, flush=True)

    gathered(serve, work)


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
    played = {each.__name__: each for each in (dmlc, dmlc_async, tf, horovod, deepspeed)}
    played[sys.argv[1]]()
