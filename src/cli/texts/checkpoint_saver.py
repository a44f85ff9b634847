"""Saves the state of a training process into $FALAJ_CKPT_DIR behind its back.

    saver = Saver(os.environ["FALAJ_CKPT_DIR"], state_bytes(state))
    for step in …:
        loss = forward(); loss.backward()
        saver.fence()              # The weights may change now.
        optimizer.step()
        if step % 100 == 0:
            saver.save(f"step{step}", state)

The copy is made by a thread while the next step looks for its gradients, which only reads the
weights: training stands still for as long as the copy takes longer than that. It goes into one of
two files in memory that live as long as the process; a file is free when its link count is one
again. Nothing is visible before it is whole. Needs nothing but `data_ptr()` and sizes of tensors in
main memory that are contiguous (PyTorch's on the CPU are; others: give their addresses).
"""

import ctypes
import mmap
import os
import queue
import threading
import time


def state_bytes(state: dict) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in state.values())


class Buffer:
    """A file in memory whose pages stay."""

    def __init__(self, path: str, size: int):
        self.path = path
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.truncate(self.file, size)
        self.pages = mmap.mmap(self.file, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        ctypes.memset(self.address, 0, size)

    def free(self) -> bool:
        return os.fstat(self.file).st_nlink == 1


class Saver:
    def __init__(self, folder: str, size: int):
        self.folder, self.size = folder, size
        self.buffers = [Buffer(f"{folder}/.buffer{i}", size) for i in range(2)]
        self.work: queue.SimpleQueue = queue.SimpleQueue()
        self.copied = threading.Event()
        self.copied.set()
        threading.Thread(target=self.run, daemon=True).start()

    def save(self, name: str, state: dict) -> None:
        """Begins to save; the state must not change before the next fence()."""
        if state_bytes(state) != self.size:
            raise ValueError("the state has another size than the saver was made for")
        self.fence()
        self.copied.clear()
        parts = [(t.data_ptr(), t.numel() * t.element_size()) for t in state.values()]
        self.work.put((name, parts))

    def fence(self) -> None:
        """Returns when what was saved last has been copied."""
        self.copied.wait()

    def run(self) -> None:
        while True:
            name, parts = self.work.get()
            while not (free := [b for b in self.buffers if b.free()]):
                time.sleep(0.001)  # Two saves wait for the disk: this one has to, too.
            at = free[0].address
            for address, size in parts:
                ctypes.memmove(at, address, size)  # Without Python's lock.
                at += size
            os.link(free[0].path, f"{self.folder}/{name}.tmp")
            os.rename(f"{self.folder}/{name}.tmp", f"{self.folder}/{name}")
            self.copied.set()
