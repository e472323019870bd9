"""A job to kill: `python -m tests.store.store_worker FOLDER KILLS SEED`.

It never starts JAX, so it may fork. Children run a small job of cheap cells into a
folder until it is done. They are killed with SIGKILL at random moments, every third
time during a write. New folders follow until the number of kills is reached. The counts
are printed as JSON (see test_store.py).
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import xarray as xr

from experiments import cells
from jaxelim import store
from jaxelim.simulation.jobs import Job

RUNS, BLOCK = 18, 6


class Cheap:
    """A cell whose runs are functions of (seed, run index), without simulation."""

    def __init__(self, name: str = "cheap/one", seed: int = 0, arms: int = 40):
        self.name, self.seed, self.arms, self.asked = name, seed, arms, []

    def settings(self) -> dict:
        return store.canonical({"seed": self.seed, "arms": self.arms})

    def job(self, runs: np.ndarray) -> Job:
        return Job(self.name, self.settings(), lambda _: self, runs, program=self.arms)

    def compute(self, runs: np.ndarray, progress=None) -> tuple[xr.Dataset, dict]:
        self.asked.append(runs)
        drawn = [
            np.random.default_rng([self.seed, run]).integers(1, 10**6, (2, 1, self.arms))
            for run in runs
        ]
        pulls = np.stack(drawn, 2).astype(np.int32)
        dims = ("stopping", "delta", "run")
        data = {
            "samples": (dims, pulls.sum(-1), {"units": "samples"}),
            "stopped": (dims, pulls[..., 0] > 1000),
            "correct": (dims, pulls[..., 1] > 1000),
            "pulls": ((*dims, "arm"), pulls),
        }
        return xr.Dataset(data, {"stopping": ["llr", "selective"], "delta": [0.01], "run": runs}), {
            "samples_drawn": 1
        }


def jobs() -> list[Cheap]:
    return [Cheap(), Cheap("cheap/two", seed=1, arms=60)]


def options(folder: Path) -> cells.Options:
    return cells.Options(runs=RUNS, block=BLOCK, output=folder, workers=0)


def slowly() -> None:
    """Write in small pieces with pauses, so that many moments fall within a write."""
    write, fsync = os.write, os.fsync

    def pieces(handle, contents):
        time.sleep(0.005)
        return write(handle, contents[:4096])

    def flush(handle):
        time.sleep(0.01)
        fsync(handle)

    os.write, os.fsync = pieces, flush


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Finished blocks: name -> (inode, time of last change); a rewrite changes it."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in (folder / "blocks").glob("*.nc")
    }


def wait_for_a_write(folder: Path) -> None:
    """Wait until a block is being written, at most a second."""
    end = time.monotonic() + 1
    while time.monotonic() < end and not list((folder / "blocks").glob(".*.nc.*.part")):
        time.sleep(0.001)


def main(folder: Path, kills: int, seed: int) -> None:
    # What a write imports comes before the fork, not in every child.
    store.Block("x", {}, *Cheap().compute(np.arange(2))).encoded()
    rng = random.Random(seed)
    seen = {"kills": 0, "in_write": 0, "resumed": 0, "lost": 0, "rewritten": 0, "folders": []}
    place = 0
    while seen["kills"] < kills:
        here, place = folder / str(place), place + 1
        attempt = 0
        while True:
            attempt += 1
            before = contents(here) if here.exists() else {}
            child = os.fork()
            if child == 0:
                sys.stderr = open(os.devnull, "w")  # noqa: SIM115
                slowly()
                cells.run_cells(jobs(), options(here))
                os._exit(0)
            if seen["kills"] < kills:
                time.sleep(rng.uniform(0.02, 0.4))
                if seen["kills"] % 3 == 0:
                    wait_for_a_write(here)
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            after = contents(here) if here.exists() else {}
            seen["lost"] += sum(name not in after for name in before)
            seen["rewritten"] += sum(after.get(name) != stamp for name, stamp in before.items())
            if os.WIFSIGNALED(status):
                seen["kills"] += 1
                seen["resumed"] += attempt > 1
                seen["in_write"] += bool(here.exists() and list((here / "blocks").glob(".*.part")))
            else:
                assert status == 0, status
                break
        seen["folders"].append(str(here))
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
