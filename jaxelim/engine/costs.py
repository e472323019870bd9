"""What a compiled program costs, measured over all calls of this process."""

import threading

import numpy as np


class Costs:
    """Measurements of a program. Threads that share the program may take them at once.

    Attributes:
        compilation: seconds, the longest.
        pace: seconds a sample of a live lane, at best; inf until it is measured.
        saved: seconds that one lane would have saved, over all calls.
        seconds, samples: of all lanes, while each of them had a run.
        in_turn: whether runs one after the other take less time than in this program of
            many lanes; None until one lane has tried.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.compilation, self.pace, self.saved = 0.0, np.inf, 0.0
        self.seconds, self.samples = 0.0, 0
        self.in_turn: bool | None = None

    def compiled(self, seconds: float) -> None:
        """Note a compilation."""
        with self._lock:
            self.compilation = max(self.compilation, seconds)

    def paced(self, pace: float) -> None:
        """Note a pace."""
        with self._lock:
            self.pace = min(self.pace, pace)

    def worked(self, seconds: float, samples: int) -> None:
        """Note samples that were drawn while each lane had a run."""
        with self._lock:
            self.seconds, self.samples = self.seconds + seconds, self.samples + samples

    def judge(self, single: "Costs") -> None:
        """Decide `in_turn`, once: by the mean times a sample, and those of one lane."""
        with self._lock:
            if self.in_turn is None and self.samples and single.samples:
                mean = single.seconds / single.samples
                self.in_turn = mean * self.samples < self.seconds

    def save(self, seconds: float) -> bool:
        """Note what one lane would have saved; whether all of it exceeds a compilation."""
        with self._lock:
            self.saved = self.saved + seconds
            return self.saved > self.compilation
