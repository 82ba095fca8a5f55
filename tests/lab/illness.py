"""How a job of the laboratory is made to behave badly while it runs: what it finds in DIR/ill.RANK is obeyed from the
next step on: "slow 2" (every step takes twice the work), "leak 50" (MB per second)."""
import os
import time


class Illness:
    """Reads DIR/ill.RANK once per step."""

    def __init__(self, path):
        self.path, self.lost, self.last = path, [], time.monotonic()

    def step(self) -> int:
        """How often the step is to be taken."""
        now, before, self.last = time.monotonic(), self.last, time.monotonic()
        try:
            with open(self.path) as file:
                kind, amount = file.read().split()
        except (OSError, ValueError):
            return 1
        if kind == "leak":
            size = int(float(amount) * 1e6 * (now - before))
            self.lost.append(bytearray(os.urandom(1)) * size)
        return int(amount) if kind == "slow" else 1
