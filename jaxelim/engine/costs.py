"""What a compiled program costs, measured over all calls of this process."""

import threading

import numpy as np


class Costs:
    """Measurements of a program. Threads that share the program may take them at once.

    Attributes:
        compilation: seconds, the longest.
        pace: seconds a sample of a live lane, at best; inf until it is measured.
        saved: seconds that one lane would have saved, over all calls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.compilation, self.pace, self.saved = 0.0, np.inf, 0.0

    def compiled(self, seconds: float) -> None:
        """Note a compilation."""
        with self._lock:
            self.compilation = max(self.compilation, seconds)

    def paced(self, pace: float) -> None:
        """Note a pace."""
        with self._lock:
            self.pace = min(self.pace, pace)

    def save(self, seconds: float) -> bool:
        """Note what one lane would have saved; whether all of it exceeds a compilation."""
        with self._lock:
            self.saved = self.saved + seconds
            return self.saved > self.compilation
