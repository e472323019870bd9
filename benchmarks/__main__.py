"""Run the measurements: `make bench` or `python -m benchmarks --quick`.

docs/explanation/performance.md explains the figures.
"""

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

import tyro

from benchmarks import anchor, live, targets
from benchmarks.measure import ROOT, MeasurementError, Timing, apart
from benchmarks.report import Sitting
from jaxelim import __version__

SectionName = Literal["targets", "alone", "live"]
SECTIONS = {"targets": targets.run, "alone": targets.alone, "live": live.run}


@dataclasses.dataclass(frozen=True)
class Options:
    """Time the engine on this machine."""

    sections: tuple[SectionName, ...] = get_args(SectionName)
    """Sections to measure."""
    quick: bool = False
    """Small sizes: a check in about a minute, with rough figures."""
    rows: tuple[str, ...] = ()
    """Rows of targets and alone; by default all (with --quick a few)."""
    runs: int | None = None
    """Runs, in place of each section's own number."""
    repeats: int | None = None
    """Timed calls, in place of each section's own number; their median is reported."""
    max_samples: int | None = None
    """Cap on a run's samples, in place of each section's own."""
    core: int | None = None
    """Core that pinned measurements run on; by default the last."""
    output: Path | None = None
    """JSON file; by default one named by date and commit in benchmarks/results."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.rows if name not in targets.TARGETS]
        if unknown:
            known = ", ".join(targets.TARGETS)
            raise ValueError(f"rows: there is no {unknown[0]}; there are {known}")
        for name in ("runs", "repeats", "max_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: {value} is less than 1")
        if self.core is not None and self.core not in _cores():
            raise ValueError(f"core: {self.core} is none of those this process may use, {_cores()}")


def _cores() -> list[int]:
    usable = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    return sorted(usable(0))


def _said(*command: str) -> str | None:
    """The first line that a program prints; None if it is missing or fails."""
    if shutil.which(command[0]) is None:
        return None
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def environment() -> dict:
    """Machine, versions and flags that the figures depend on."""
    flags = Path("/proc/cpuinfo")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _said("git", "rev-parse", "HEAD"),
        "changed_since_commit": bool(_said("git", "status", "--porcelain", "--untracked-files=no")),
        "versions": {
            "python": platform.python_version(),
            "jaxelim": __version__,  # which need not be installed
            **{name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
        },
        "processor": _processor(),
        "avx512": "avx512f" in flags.read_text() if flags.exists() else None,
        "cores": len(_cores()),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "compiler": _said("gcc", "--version"),
        "anchor_flags": list(anchor.FLAGS),
        "xla_flags": os.environ.get("XLA_FLAGS"),
        "device": apart(None, Timing(), platform=None),
    }


def main(options: Options) -> int:
    """Measure the sections in order; rewrite the file after each of them."""
    try:
        here = environment()
    except MeasurementError as error:
        print(f"JAX does not start here: {error}", file=sys.stderr)
        return 2
    commit = (here["commit"] or "unknown")[:8]
    named = f"{here['date'][:19].replace(':', '')}-{commit}.json"
    output = options.output or ROOT / "benchmarks" / "results" / named
    output.parent.mkdir(parents=True, exist_ok=True)
    state = f"{commit} and changes" if here["changed_since_commit"] else commit
    print(f"{here['processor']}, {here['cores']} cores, {here['device']['device']}; "
          f"jax {here['versions']['jax']}")  # fmt: skip
    print(f"commit {state}; load average {here['load_average']}")
    found = {"environment": here, "options": {**dataclasses.asdict(options), "output": str(output)},
             "sections": {}}  # fmt: skip
    failed = False
    with tempfile.TemporaryDirectory(prefix="jaxelim-bench-") as folder:
        core = None
        if hasattr(os, "sched_setaffinity"):
            core = _cores()[-1] if options.core is None else options.core
        built = anchor.build(Path(folder)) if {"targets", "alone"} & set(options.sections) else None
        given = {name: getattr(options, name)
                 for name in ("quick", "repeats", "runs", "max_samples", "rows")}  # fmt: skip
        sitting = Sitting(core=core, cores=len(_cores()), anchor=built, **given)
        for name in options.sections:
            print(f"\n{name} ..", flush=True)
            began = time.perf_counter()
            section = SECTIONS[name](sitting)
            found["sections"][name] = {**section.as_json(), "seconds": time.perf_counter() - began}
            output.write_text(json.dumps(found, indent=1, allow_nan=False))
            failed = failed or bool(section.failed)
            print(section, flush=True)
    print(f"\n{output}")
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(tyro.cli(Options, description=__doc__)))
    except KeyboardInterrupt:
        sys.exit(130)
    except ValueError as error:
        sys.exit(f"{error}")
