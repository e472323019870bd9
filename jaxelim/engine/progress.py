"""Progress of long work, shown at a terminal."""

import sys
import time
from typing import Any

from tqdm import tqdm


class Progress:
    """Shows finished runs, samples per second and time left.

    Args:
        show: False for nothing, True for a bar on standard error. Or a callable of
            (runs done, runs, samples, seconds), called at every update.
        total: number of runs.
    """

    def __init__(self, show: Any, total: int):
        self._began, self._total = time.perf_counter(), total
        self._call = show if callable(show) else None
        bar = bool(show) and self._call is None
        self._bar = (
            tqdm(total=total, unit="run", file=sys.stderr, dynamic_ncols=True) if bar else None
        )

    def update(self, finished: int, samples: int) -> None:
        """Show `finished` runs and `samples` samples so far."""
        seconds = time.perf_counter() - self._began
        if self._call is not None:
            self._call(finished, self._total, samples, seconds)
        if self._bar is not None:
            self._bar.set_postfix_str(
                f"{samples / max(seconds, 1e-9) / 1e6:.2f} M samples/s", refresh=False
            )
            self._bar.update(finished - self._bar.n)

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
