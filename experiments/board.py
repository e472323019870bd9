"""Progress of the blocks of an experiment: bars at a terminal, lines elsewhere."""

import sys
import threading
import time
from typing import Any

import numpy as np
from tqdm import tqdm

from jaxelim.store import ranges

EVERY = 60.0
"""Seconds without a finished block after which progress is printed, without bars."""


class Board:
    """Progress: runs done, samples per second and time left, per block and in total.

    Shows bars at a terminal. Elsewhere prints a line per finished block, and one after
    each minute without any.

    Args:
        total: all runs.
        done: runs that existed at the start.
        blocks: blocks to compute.
        workers: blocks computed concurrently.
    """

    def __init__(self, total: int, done: int, blocks: int, workers: int):
        self._total, self._done, self._blocks = total, done, blocks
        self._finished = self._samples = self._computed = 0
        self._began = time.perf_counter()
        self._lock = threading.Lock()
        # worker: finished runs and drawn samples of its block
        self._at_work: dict[int, tuple[int, int]] = {}
        self._parts: dict[int, Any] = {}  # worker: its block
        self._said = self._began
        self._bars: list[tqdm] = []
        if sys.stderr.isatty():
            self._bars = [_bar(total=total, initial=done, desc="all", position=0)]
            self._add_bars(workers)

    def _add_bars(self, workers: int) -> None:
        """Have a bar for each of so many workers; a cluster's number can grow."""
        for place in range(len(self._bars), 1 + workers):
            self._bars.append(_bar(total=0, position=place, leave=False))

    def begin(self, worker: int, part: Any) -> None:
        """Record that a worker begins a block."""
        with self._lock:
            self._parts[worker] = part
            if self._bars:
                self._add_bars(1 + worker)
                self._bars[1 + worker].reset(part.runs.size)
                self._bars[1 + worker].set_description(f"{part.job.name} {ranges(part.runs)}")

    def update(self, worker: int, runs: int, samples: int, seconds: float) -> None:
        """Record the finished runs and drawn samples of a worker's block."""
        with self._lock:
            self._at_work[worker] = runs, samples
            if self._bars:
                under_way = np.sum(list(self._at_work.values()), 0)
                everything = (
                    self._done + self._computed + under_way[0],
                    self._samples + under_way[1],
                    self._seconds(),
                )
                own = runs, samples, seconds
                for bar, (count, drawn, took) in zip(
                    (self._bars[1 + worker], self._bars[0]), (own, everything), strict=True
                ):
                    bar.set_postfix_str(_rate(drawn, took), refresh=False)
                    bar.update(count - bar.n)
            elif time.perf_counter() > self._said + EVERY:
                self._say_how_far()

    def _say_how_far(self) -> None:
        runs, samples = np.sum(list(self._at_work.values()), 0)
        runs, samples, self._said = (
            self._computed + runs,
            self._samples + samples,
            time.perf_counter(),
        )
        left = self._left(runs) if runs else "unknown time"
        blocks = (
            f"{part.job.name} {self._at_work.get(worker, (0, 0))[0]} of {part.runs.size} runs"
            for worker, part in sorted(self._parts.items())
        )
        everything = (
            f"{self._done + runs} of {self._total} runs, "
            f"{_rate(samples, self._seconds())}; {left} left"
        )
        print(f"{everything}; at work: {', '.join(blocks)}", file=sys.stderr, flush=True)

    def end(self, worker: int, part: Any, work: dict, seconds: float) -> None:
        """Record that a block is finished and stored."""
        with self._lock:
            self._ended(worker, part, work, seconds)

    def _ended(self, worker: int, part: Any, work: dict, seconds: float) -> None:
        self._at_work.pop(worker, None)
        self._parts.pop(worker, None)
        self._said = time.perf_counter()
        self._finished += 1
        self._computed += part.runs.size
        samples = int(work.get("samples_drawn", 0))
        self._samples += samples
        if not self._bars:
            print(
                f"[{self._finished}/{self._blocks}] {part.job.name} runs {ranges(part.runs)}: "
                f"{seconds:.1f} s, {_rate(samples, work.get('seconds', seconds))}; "
                f"{self._left(self._computed)} left",
                file=sys.stderr,
                flush=True,
            )

    def close(self) -> None:
        """Close the bars."""
        for bar in reversed(self._bars or ()):
            bar.close()

    def _left(self, runs: int) -> str:
        return _clock(self._seconds() / runs * (self._total - self._done - runs))

    def _seconds(self) -> float:
        return time.perf_counter() - self._began


def _bar(**more: Any) -> tqdm:
    return tqdm(file=sys.stderr, dynamic_ncols=True, unit="run", smoothing=0, **more)


def _rate(samples: float, seconds: float) -> str:
    return f"{samples / max(seconds, 1e-9) / 1e6:.2f} M samples/s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {rest} s"
        if minutes
        else f"{rest} s"
    )
