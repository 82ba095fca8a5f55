"""How a job of the laboratory is made to behave badly while it runs: what it finds in DIR/ill.RANK is obeyed from the
next step on: "slow 2" (every step takes twice the work), "leak 50" (MB per second), "away 1" (no step is begun: the rank
sleeps as long as the order stands), "busy 1" (the same, but it computes)."""
import os
import time


class Illness:
    """Reads DIR/ill.RANK once per step."""

    def __init__(self, path):
        self.path, self.lost, self.last = path, [], time.monotonic()

    def order(self) -> tuple[str, str]:
        try:
            with open(self.path) as file:
                kind, amount = file.read().split()
                return kind, amount
        except (OSError, ValueError):
            return "", "1"

    def step(self) -> int:
        """How often the step is to be taken."""
        now, before, self.last = time.monotonic(), self.last, time.monotonic()
        kind, amount = self.order()
        while kind in ("away", "busy"):
            time.sleep(0.1) if kind == "away" else sum(range(1_000_000))
            kind, amount = self.order()
        if kind == "leak":
            size = int(float(amount) * 1e6 * (now - before))
            self.lost.append(bytearray(os.urandom(1)) * size)
        return int(amount) if kind == "slow" else 1
