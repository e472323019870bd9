"""Run every case in its own process, with its own environment and memory."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Case, Timing

ROOT = Path(__file__).parents[1]


class MeasurementError(Exception):
    """A timing process ended without a result."""


def child(
    module: str, *words: object, devices: int = 1, platform: str | None = "cpu",
    core: int | None = None, environment: dict | None = None, seconds: float | None = None,
) -> str:  # fmt: skip
    """What `python -m module words..` prints, with one thread a device.

    It finds the packages that this process finds, carried in a folder or installed.

    Args:
        devices: CPU devices.
        platform: JAX's platform; None: its default.
        core: the core that it is pinned to; None: all.
        environment: variables added to this process's own.
        seconds: after which it is stopped; None: never.

    Raises:
        MeasurementError: it failed, with its last lines, or was stopped.
    """
    settings = {**os.environ, "NPROC": "1", "JAX_NUM_CPU_DEVICES": str(devices),
                **(environment or {})}  # fmt: skip
    if platform is not None:
        settings["JAX_PLATFORMS"] = platform
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]
    settings["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-m", module, *map(str, words)]
    pinned = None if core is None else lambda: os.sched_setaffinity(0, {core})
    try:
        done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True,
                              timeout=seconds, preexec_fn=pinned, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise MeasurementError(f"it was stopped after {seconds:.0f} s") from None
    if done.returncode:
        last = " | ".join(done.stderr.strip().splitlines()[-3:])
        raise MeasurementError(f"it ended with {done.returncode}: {last}")
    return done.stdout


def apart(case: Case | None, timing: Timing, *, anchor: dict | None = None, **how: Any) -> dict:
    """Time a case in a new process (`benchmarks.measure`).

    Args:
        case: None only asks for the device.
        anchor: the result of `benchmarks.anchor.build`, to run around every call.
        how: devices, platform, environment and seconds, as of `child`.

    Returns:
        The measurements; process_wall_seconds and process_cpu_seconds cover the whole
        process, Python's start included.

    Raises:
        MeasurementError: as `child`; the message begins with the case.
    """
    spec = {
        "case": None if case is None else dataclasses.asdict(case),
        "timing": dataclasses.asdict(timing),
        "anchor": anchor if timing.anchor else None,
    }
    with tempfile.TemporaryDirectory(prefix="jaxelim-bench-") as folder:
        asked, answer = Path(folder) / "spec.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(spec))
        wall, before = time.perf_counter(), os.times()
        try:
            child("benchmarks.measure", str(asked), str(answer), **how)
        except MeasurementError as error:
            raise MeasurementError(f"{case}: {error}") from None
        after = os.times()
        found = json.loads(answer.read_text())
    spent = sum(after[2:4]) - sum(before[2:4])  # of children
    took = time.perf_counter() - wall
    return {**found, "process_wall_seconds": took, "process_cpu_seconds": spent}
