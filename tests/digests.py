"""Digests of the results of a fixed list of small jobs, to compare two commits.

    python -m tests.digests record FILE        run all jobs and write their digests
    python -m tests.digests compare FILE       run them again, print the differences
    python -m tests.digests compare FILE OTHER compare two files, run nothing

`--jobs NAME ...` selects the jobs whose name contains one of these. The exit status of
`compare` is 1 on any difference, else 0.

Rounding differs between processors, versions of JAX and XLA_FLAGS, and one last digit
may change a pull of some jobs. To compare two commits, record and compare on one
machine. Set JAX_NUM_CPU_DEVICES=2 NPROC=1, no XLA_FLAGS.

A digest covers the values and the shape of an array, not its type: booleans, integers
and floats are widened first. Floats are rounded to 9 digits of the array's largest
entry. The jobs are in `tests.jobs`.
"""

import os

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("NPROC", "1")

import argparse
import hashlib
import json
import math
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxelim.engine import REVISION
from tests.jobs import JOBS, Job

ROOT = Path(__file__).parents[1]
DIGITS = 9


def canonical(array: Any) -> np.ndarray:
    """An array as bool, int64 or float64, floats to `DIGITS` digits of the largest."""
    x = np.asarray(array)
    if x.dtype.kind == "b":
        return x
    if x.dtype.kind in "iu":
        return x.astype("<i8")
    x = x.astype("<f8")
    largest = np.max(np.abs(x[np.isfinite(x)]), initial=0.0)
    if largest == 0:
        return x + 0.0
    unit = 10.0 ** (math.floor(math.log10(largest)) + 1 - DIGITS)
    return np.round(x / unit) + 0.0  # no negative zeros


def digest(array: Any) -> dict:
    """SHA-256 of an array [run, ...], and the first digits of each run's."""

    def sha256(x: np.ndarray) -> str:
        head = f"{x.dtype.kind}{list(x.shape)}".encode()
        return hashlib.sha256(head + np.ascontiguousarray(x).tobytes()).hexdigest()

    x = canonical(array)
    runs = " ".join(sha256(run)[:8] for run in x)
    return {"sha256": sha256(x), "shape": list(x.shape), "runs": runs}


def run_job(job: Job) -> dict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays, numbers = job.call(job)
    digests = {name: None if x is None else digest(x) for name, x in arrays.items()}
    return {"arrays": digests, "numbers": numbers}


def environment() -> dict:
    """The machine and the versions that the digests depend on."""
    # The function of `benchmarks` would import the library's inside.
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "backend": jax.default_backend(),
        "devices": len(jax.devices()),
        "flags": os.environ.get("XLA_FLAGS", ""),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "revision": REVISION,
        "commit": subprocess.getoutput(f"git -C '{ROOT}' describe --always --dirty"),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def chosen(name: str, words: Sequence[str] | None) -> bool:
    """Whether a name contains one of the words; or none are given."""
    return not words or any(word in name for word in words)


def made(words: Sequence[str] | None = None) -> dict:
    """Run the jobs and print a line for each, with its processor time.

    Returns:
        {environment, jobs, failed}.
    """
    found: dict = {"environment": environment(), "jobs": {}, "failed": {}}
    for job in (job for job in JOBS if chosen(job.name, words)):
        began = time.process_time()
        try:
            found["jobs"][job.name] = run_job(job)
            numbers = found["jobs"][job.name]["numbers"]
            shown = ", ".join(f"{key} {value}" for key, value in numbers.items() if key != "plan")
        except Exception as error:  # the other jobs go on
            shown = f"failed: {type(error).__name__}: {error}".splitlines()[0]
            found["failed"][job.name] = shown
        print(f"  {job.name} ({time.process_time() - began:.1f} s): {shown}", flush=True)
    return found


def as_text(found: dict) -> str:
    here = json.dumps(found["environment"], indent=1)
    lines = (f"{json.dumps(name)}: {json.dumps(job)}" for name, job in found["jobs"].items())
    jobs = ",\n".join(lines)
    return f'{{"environment": {here},\n"jobs": {{\n{jobs}\n}}}}\n'


# Comparison.


def differences(there: dict, here: dict) -> str:
    """Arrays of a job that differ, and at how many runs; empty if none does."""
    said = []
    for name in sorted({*there["arrays"], *here["arrays"]}):
        one, other = there["arrays"].get(name), here["arrays"].get(name)
        if one == other:
            continue
        if one is None or other is None:
            both = ["nothing" if x is None else "an array" for x in (one, other)]
            said.append(f"{name} ({both[0]} before, {both[1]} now)")
        elif one["shape"] != other["shape"]:
            said.append(f"{name} (shape {one['shape']} before, {other['shape']} now)")
        else:
            runs = list(zip(one["runs"].split(), other["runs"].split(), strict=True))
            said.append(f"{name} ({sum(a != b for a, b in runs)} of {len(runs)} runs)")
    means = [job["numbers"].get("mean samples") for job in (there, here)]
    if said and means[0] != means[1]:
        said.append(f"mean samples {means[0]} before, {means[1]} now")
    return ", ".join(said)


def compared(there: dict, here: dict, words: Sequence[str] | None = None) -> tuple[list[str], bool]:
    """The lines of a comparison, and whether all jobs are equal."""
    lines = []
    for key in ("processor", "backend", "flags", "jax", "numpy", "revision"):
        one, other = (found["environment"].get(key) for found in (there, here))
        if one != other:
            lines.append(f"{key}: {one!r} before, {other!r} now")
    failed = here.get("failed", {})
    names = list(dict.fromkeys([*there["jobs"], *here["jobs"], *failed]))
    names = [name for name in names if chosen(name, words)]
    width = max(map(len, names), default=0)
    counts = dict.fromkeys(("equal", "differ", "failed", "only before", "only now"), 0)
    for name in names:
        if name in failed:
            kind, said = "failed", failed[name]
        elif name not in here["jobs"]:
            kind = said = "only before"
        elif name not in there["jobs"]:
            kind = said = "only now"
        else:
            said = differences(there["jobs"][name], here["jobs"][name]) or "equal"
            kind = "equal" if said == "equal" else "differ"
        counts[kind] += 1
        lines.append(f"{name.ljust(width)}  {said}")
    shown = [f"{n} {kind}" for kind, n in counts.items() if n or kind in ("equal", "differ")]
    lines.append(f"{len(names)} jobs: {', '.join(shown)}")
    return lines, bool(names) and counts["equal"] == len(names)


def main(arguments: Sequence[str] | None = None) -> int:
    title = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m tests.digests", description=title)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="run the jobs, write their digests")
    compare = commands.add_parser("compare", help="run them again, or take a second file")
    record.add_argument("file", type=Path)
    compare.add_argument("file", type=Path)
    compare.add_argument("other", type=Path, nargs="?")
    for one in (record, compare):
        one.add_argument("--jobs", nargs="+", metavar="NAME", help="jobs with this in their name")
    options = parser.parse_args(arguments)

    if options.command == "record":
        options.file.parent.mkdir(parents=True, exist_ok=True)
        found = made(options.jobs)
        if found.pop("failed") or not found["jobs"]:
            print("nothing written: a job failed, or none has such a name")
            return 1
        options.file.write_text(as_text(found))
        print(f"{len(found['jobs'])} jobs: wrote {options.file}")
        return 0
    there = json.loads(options.file.read_text())
    here = json.loads(options.other.read_text()) if options.other else made(options.jobs)
    lines, equal = compared(there, here, options.jobs)
    print("\n".join(lines))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
