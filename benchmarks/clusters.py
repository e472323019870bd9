"""Time and memory of one process, of workers here and of a cluster started by hand.

`python -m benchmarks.clusters table` runs a table of the paper each way, and compares
the checksums of all arrays. `python -m benchmarks.clusters call` runs one large call of
`simulate` with a store and two workers, interrupts it in the middle and goes on.
Processor time is that of all processes, start-up included; `start` says what that takes.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tyro

from benchmarks.processes import ROOT
from jaxelim.simulation.results.result import aligned
from jaxelim.store import Block

DASK = str(Path(sys.executable).with_name("dask"))
PRELOAD = "jaxelim.cluster.worker"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of the paper in one process, on two workers, and on a cluster by hand."""

    name: str = "table4"
    """table1, table3 or table4."""
    runs: int = 100
    """Runs of every cell."""
    rules: tuple[str, ...] = ()
    """Sampling rules; by default all."""
    problems: tuple[str, ...] = ()
    """Problems; by default all."""
    block: int = 1000
    """Runs of a block."""
    old: Path | None = None
    """A checkout to time beside, whose experiments start their own processes."""


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of `simulate` with a store and two workers, interrupted and continued."""

    runs: int = 10**6
    """Runs of the call."""
    stop_after: int = 30
    """Stored blocks after which it is interrupted."""


def used(command: list[str], folder: Path = ROOT, **more: str) -> tuple[float, float, int]:
    """Wall and processor seconds of a command with its children, and its exit code."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "NPROC": "1", **more}
    began, process = time.perf_counter(), subprocess.Popen(command, cwd=folder, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    return wall, usage.ru_utime + usage.ru_stime, process.returncode


def arrays(folder: Path) -> tuple[int, str]:
    """The number of stored blocks, and a digest of the checksums of their arrays."""
    paths = sorted((folder / "blocks").glob("*.nc"))
    total = hashlib.sha256("".join(Block.read(path).checksum for path in paths).encode())
    return len(paths), total.hexdigest()[:16]


@contextlib.contextmanager
def cluster_by_hand(folder: Path, spent: dict[str, float]) -> Iterator[Path]:
    """A scheduler and two workers on loopback; `spent` gets their processor seconds."""
    file = folder / "scheduler.json"
    here = ("--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [DASK, "scheduler", "--host", "127.0.0.1", "--port", "0", *here]
    worker = [DASK, "worker", "--host", "127.0.0.1", "--nthreads", "1", "--preload", PRELOAD]
    started = [subprocess.Popen(scheduler, env=environment, **quiet)]
    try:
        while not file.exists():
            time.sleep(0.1)
        command = [*worker, "--local-directory", str(folder), *here]
        started += [subprocess.Popen(command, env=environment, **quiet) for _ in range(2)]
        yield file
    finally:
        spent["seconds"] = 0.0
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            spent["seconds"] += usage.ru_utime + usage.ru_stime


def table(options: Table) -> None:
    """Print the times of each way to compute a table."""
    chosen = ["--rules", *options.rules] * bool(options.rules)
    chosen += ["--problems", *options.problems] * bool(options.problems)
    common = [sys.executable, "-m", f"experiments.{options.name}", *chosen]
    sized = ["--runs", str(options.runs), "--block", str(options.block)]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        cache = {"JAX_COMPILATION_CACHE_DIR": str(work / "cache")}

        def one(label: str, *more: str, folder: Path = ROOT, compiled: bool = False) -> None:
            """Time a way; first run it once for its programs, unless they are compiled."""
            output = work / label.replace(" ", "-")
            command = [*common, *sized, *more, "--output"]
            if not compiled:
                used([*command, f"{output}-first"], folder, **cache)
            wall, processor, code = used([*command, str(output)], folder, **cache)
            blocks, digest = arrays(output)
            rows.append({"way": label, "wall s": wall, "processor s": processor, "exit": code,
                         "blocks": blocks, "arrays": digest})  # fmt: skip

        one("one process", "--workers", "0")
        one("--workers 2", "--workers", "2")
        spent: dict[str, float] = {}
        with cluster_by_hand(work, spent) as file:
            one("by hand", "--scheduler-file", str(file), compiled=True)
        rows[-1]["processor s"] += spent["seconds"]
        if options.old is not None:
            one("old processes", folder=options.old)
        code = "import jaxelim.cluster as c\nif __name__ == '__main__':\n with c.local(2): pass"
        start = work / "start.py"
        start.write_text(code)
        wall, processor, _ = used([sys.executable, str(start)], **cache)
        rows.append({"way": "start and end of two workers", "wall s": wall,
                     "processor s": processor, "exit": 0, "blocks": 0, "arrays": ""})  # fmt: skip
    print("\n".join(aligned(rows)))


def simulate(folder: str, runs: int) -> None:
    """One large call, in a process of its own; prints what it took as JSON."""
    import numpy as np

    import jaxelim as je
    from jaxelim import cluster

    angles = np.array([0.0, 0.9, 1.8, 2.7, 3.6])
    instance = je.Instance(np.stack([np.cos(angles), np.sin(angles)], 1), [1.0, 0.3], name="five")
    began = time.perf_counter()
    with cluster.local(2) as client:
        result = je.simulate(
            instance, je.BestArm(), je.LinGapE(), delta=0.05, runs=runs, store=folder,
            executor=client, stopping=(je.LLR(), je.SelectiveElimination()),
        )  # fmt: skip
        told = {
            "wall s": time.perf_counter() - began,
            "samples": int(result.samples.sum()),
            "blocks": result.layout["blocks"],
            "digest": hashlib.sha256(result.samples.tobytes()).hexdigest()[:16],
            "client MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        }
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    told["worker MB"] = children.ru_maxrss / 1e3
    told["processor s"] = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    print(json.dumps(told))


def call(options: Call) -> None:
    """Print what one large call takes, whole, interrupted and continued."""
    code = "import sys\nfrom benchmarks.clusters import simulate\nif __name__ == '__main__':\n"
    code += " simulate(sys.argv[1], int(sys.argv[2]))\n"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "call.py").write_text(code)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        environment["JAX_COMPILATION_CACHE_DIR"] = str(work / "cache")

        def begun(folder: str) -> subprocess.Popen:
            command = [sys.executable, str(work / "call.py"), str(work / folder)]
            return subprocess.Popen(
                [*command, str(options.runs)], env=environment, stdout=subprocess.PIPE, text=True
            )

        def stored(folder: str) -> list[Path]:
            return list((work / folder / "blocks").glob("*.nc"))

        rows = []
        for way in ("whole", "in two"):
            kept = 0
            if way == "in two":
                process = begun(way)
                while len(stored(way)) < options.stop_after and process.poll() is None:
                    time.sleep(0.05)
                process.send_signal(signal.SIGINT)
                process.communicate()
                kept = len(stored(way))
            told = json.loads(begun(way).communicate()[0])
            size = sum(path.stat().st_size for path in stored(way))
            rows.append({"way": way, "kept before": kept, **told, "store MB": size / 1e6})
    print("\n".join(aligned(rows)))


if __name__ == "__main__":
    asked: Table | Call = tyro.cli(Table | Call)  # type: ignore[arg-type]
    table(asked) if isinstance(asked, Table) else call(asked)
