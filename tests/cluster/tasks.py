"""Cells for clusters, without simulation; and a client to be killed or interrupted.

`python -m tests.cluster.tasks FOLDER [option ...]` runs slow cells into a folder, with
the options of the experiments.
"""

import dataclasses
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import jaxelim as je
from experiments import cells
from tests.store.store_worker import Cheap

RUNS, BLOCK = 16, 2


class Slow(Cheap):
    """A cheap cell whose blocks take a while; the first and the last may take longer."""

    def __init__(self, name="slow", seed=0, arms=40, seconds=0.3, first=0.0, last=0.0):
        super().__init__(name, seed, arms)
        self.seconds, self.first, self.last = seconds, first, last

    def compute(self, runs, progress=None):
        seconds = self.seconds
        if runs[0] == 0 and self.first:
            seconds = self.first
        if runs[-1] == RUNS - 1 and self.last:
            seconds = self.last
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.05)
            if progress is not None:
                progress(1, runs.size, 10, 0.1)
        return super().compute(runs)


class Killer(Slow):
    """Its block of run 4 ends every worker."""

    def compute(self, runs, progress=None):
        if 4 in runs:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute(runs, progress)


class Hoarder(Slow):
    """Its block of run 4 takes a gigabyte and keeps it."""

    def compute(self, runs, progress=None):
        if 4 in runs:
            kept = [np.ones(2**24) for _ in range(8)]
            time.sleep(30)
            del kept
        return super().compute(runs, progress)


class Refused(Slow):
    def compute(self, runs, progress=None):
        raise je.ArgumentError("seed", self.seed, "another")


def two(**more) -> list[Slow]:
    return [Slow("slow/one", **more), Slow("slow/two", seed=1, arms=60, **more)]


@dataclasses.dataclass(frozen=True)
class Options(cells.Options):
    """The options of `main`."""

    runs: int = RUNS
    block: int = BLOCK
    seconds: float = 0.3
    """Time of each block."""
    first: float = 0.0
    """Time of the first block of each cell; 0: as the others."""
    last: float = 0.0
    """Time of the last block of each cell; 0: as the others."""


def main(arguments: list[str] | None = None) -> int:
    def act(options: Options) -> None:
        jobs = two(seconds=options.seconds, first=options.first, last=options.last)
        print("kept", cells.run_cells(jobs, options), flush=True)

    return cells.script(Options, act, arguments)


if __name__ == "__main__":
    sys.exit(main(["--output", str(Path(sys.argv[1])), *sys.argv[2:]]))
