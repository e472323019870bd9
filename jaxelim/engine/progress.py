"""Progress of long work, for a person at a terminal."""

import sys
import time
from typing import Any

from tqdm import tqdm


class Progress:
    """Runs done, samples per second and time left.

    Args:
        show: False for nothing, True for a bar on standard error, or a callable of (runs done, runs in all, samples so far,
            seconds so far), called at every look.
        total: runs in all.
    """

    def __init__(self, show: Any, total: int):
        self._began, self._total = time.perf_counter(), total
        self._call = show if callable(show) else None
        bar = bool(show) and self._call is None
        self._bar = tqdm(total=total, unit="run", file=sys.stderr, dynamic_ncols=True) if bar else None

    def update(self, finished: int, samples: int) -> None:
        """`finished` runs and `samples` samples so far."""
        seconds = time.perf_counter() - self._began
        if self._call is not None:
            self._call(finished, self._total, samples, seconds)
        if self._bar is not None:
            self._bar.set_postfix_str(f"{samples / max(seconds, 1e-9) / 1e6:.2f} M samples/s", refresh=False)
            self._bar.update(finished - self._bar.n)

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()
