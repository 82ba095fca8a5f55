"""How a job of the laboratory is made to behave badly while it runs: what it finds in DIR/ill.RANK is obeyed from the
next step on: "slow 2" (every step takes twice the work), "leak 50" (MB per second), "away 1" (no step is begun: the rank
sleeps as long as the order stands), "busy 1" (the same, but it computes), "stat 1" (the same, but it asks for the
attributes of the files in DIR/many), "map 80" (MB per second of DIR/mapped.RANK), "garbage 1" (each step begins with
a search for garbage among so many million objects, or with none of them only among the youngest), "compute 12" (each
step computes so many milliseconds longer), "wait 12" (the same, but it waits, as for an accelerator), "input 80" (the
data loader takes so many milliseconds for each batch), "import 40" (each step begins with the import of so many modules
of DIR/modules that it has not imported yet)."""
import gc
import itertools
import mmap
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor


class Illness:
    """Reads DIR/ill.RANK once per step."""

    def __init__(self, path):
        self.path, self.lost, self.last = path, [], time.monotonic()
        self.folder, self.mapped, self.touched = os.path.dirname(path), None, 0
        self.kept: list = []
        self.modules = None  # names of those that are left
        self.batch_seconds = 0.0  # of the data loader, for each batch

    def order(self) -> tuple[str, str]:
        try:
            with open(self.path) as file:
                kind, amount = file.read().split()
                return kind, amount
        except (OSError, ValueError):
            return "", "1"

    def instead_of_a_step(self, kind: str):
        if kind == "away":
            time.sleep(0.1)
        elif kind == "busy":
            sum(range(1_000_000))
        else:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(os.stat, [entry.path for entry in os.scandir(os.path.join(self.folder, "many"))]))

    def read_more(self, size: int):
        """Touches the next pages of the file that it maps."""
        if self.mapped is None:
            with open(os.path.join(self.folder, "mapped." + self.path.rpartition(".")[2]), "rb") as file:
                self.mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        end = min(len(self.mapped), self.touched + size)
        sum(self.mapped[at] for at in range(self.touched, end, mmap.PAGESIZE))
        self.touched = end

    def search_for_garbage(self, objects: int):
        if not self.kept:
            self.kept = [[] for _ in range(objects)]
        gc.collect(2 if objects else 0)

    def import_modules(self, count: int):
        if self.modules is None:
            folder = os.path.join(self.folder, "modules")
            sys.path.insert(0, folder)
            self.modules = iter(sorted(name.removesuffix(".py") for name in os.listdir(folder)))
        for name in itertools.islice(self.modules, count):
            __import__(name)  # as the statement does, with its marks for tracing; importlib has none

    def step(self) -> int:
        """How often the step is to be taken."""
        now, before, self.last = time.monotonic(), self.last, time.monotonic()
        kind, amount = self.order()
        while kind in ("away", "busy", "stat"):
            self.instead_of_a_step(kind)
            kind, amount = self.order()
        if kind == "leak":
            size = int(float(amount) * 1e6 * (now - before))
            self.lost.append(bytearray(os.urandom(1)) * size)
        if kind == "map":
            self.read_more(int(float(amount) * 1e6 * (now - before)))
        if kind == "garbage":
            self.search_for_garbage(int(float(amount) * 1e6))
        if kind == "import":
            self.import_modules(int(amount))
        if kind == "compute":
            end = time.thread_time() + float(amount) * 1e-3
            while time.thread_time() < end:
                sum(range(1000))
        if kind == "wait":
            time.sleep(float(amount) * 1e-3)
        self.batch_seconds = float(amount) * 1e-3 if kind == "input" else 0.0
        return int(amount) if kind == "slow" else 1
