"""Time of a table of the paper in one process and on workers here.

`python -m benchmarks.workers --runs 100`. Processor time is that of all processes, start-up
included. Each way runs twice, and the second time counts: its programs are compiled.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tyro

from benchmarks.processes import ROOT
from jaxelim.tables import aligned


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of the paper in one process, and on workers."""

    name: str = "table4"
    """table1, table3 or table4."""
    runs: int = 100
    """Runs of every cell."""
    workers: int = 2
    """Worker processes."""


def used(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a command with its children."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NPROC": "1"}
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


def arrays(folder: Path) -> list[np.ndarray]:
    """All arrays of the blocks of a folder, in order."""
    found = []
    for path in sorted(folder.glob("blocks/*/*.npz")):
        with np.load(path) as file:
            found += [file[name] for name in file.files if name != "work"]
    return found


def main(config: Table) -> None:
    """Print the times of both ways, and compare their arrays."""
    rows, kept = [], []
    for workers in (0, config.workers):
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(2):
                output = Path(folder) / str(turn)
                command = [sys.executable, "-m", "experiments", config.name, "--runs",
                           str(config.runs), "--workers", str(workers),
                           "--output", str(output)]  # fmt: skip
                wall, processor = used(command)
            kept.append(arrays(output))
        rows.append({"workers": workers, "wall s": wall, "processor s": processor})
    print("\n".join(aligned(rows)))
    equal = len(kept[0]) == len(kept[1]) and all(map(np.array_equal, *kept))
    print("all arrays are equal" if equal else "arrays DIFFER")


if __name__ == "__main__":
    main(tyro.cli(Table))
