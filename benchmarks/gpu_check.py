"""Compares runs of JAX's default device with a CPU's, and times rules: `make gpu-check`.

1. Runs: jobs of `tests.digests`, and traces. Where runs part: the first pull that differs,
   and its margin. That is the least relative change of the noise that makes the CPU's own
   run part there or before.
2. Times: rules by lanes, with CUDA graphs and without.

Without a GPU both sides are the CPU, at small sizes: that shows that the command works,
and no more. After each part a JSON file and its tables are written to a folder. So a call
that is killed leaves what it had.
"""

import dataclasses
import json
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.measure import Case, MeasurementError, Timing, apart, child, whole_chunks
from benchmarks.report import typical, useful
from jaxelim.store import write_whole
from jaxelim.tables import aligned

LANES = (8192, 65_536, 1024)  # in the order in which they are timed
RULES: dict[str, dict] = {
    "lingape": {},
    "lucb": {"instance": "unstructured-k40"},
    "lingame": {},
    "lazy-tas": {},
    "fws": {},
    "tas": {},
    "kl-lucb": {"rule": "lucb", "instance": "0.5, 0.45, 0.4, 0.3", "family": "bernoulli"},
}
NO_GRAPHS = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}
JOBS = (
    "lingape linear-d20", "lucb best-arm native", "lingame deltas on one trajectory", "fws linear",
    "lazy-tas linear-d20", "tas D", "family bernoulli kl-lucb", "rage linear",
    "xy-adaptive linear", "lingape signs", "lucb signs", "lingape full at sampling",
    "lingape top-m pair times", "lingame optimistic top-m at sampling", "lingifa linear top-m",
    "ugape top-m native", "racing top-m", "oracle linear-d20", "lingape near-identical arms",
)  # fmt: skip
"""Jobs whose runs are compared: first one of each kind of rule."""
TRACES = ("lingape signs", "lucb signs", "lingame deltas on one trajectory", "fws linear",
          "lazy-tas linear-d20", "tas D")  # fmt: skip
"""Jobs of which run 0 is compared pull by pull too."""
SHARE = 0.5
"""Share of the minutes that comparisons of runs may take."""
LONGEST = 60
"""Seconds that one row of times may take: a slow one would take the time of all others."""
AT_ONCE = 6
"""Most jobs at a time: nearly all of a job is compiling, which is a CPU's work."""
TOGETHER = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
SHOWN = 48
"""Most rows of a table; the file has all."""
SHIFTS = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)
"""Relative changes of the noise that are tried for a margin."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Compare runs of JAX's default device with a CPU's, and time rules."""

    jobs: int = len(JOBS)
    """Jobs whose runs are compared, the first of the list."""
    rules: tuple[str, ...] = tuple(RULES)
    """Rules that are timed."""
    lanes: tuple[int, ...] | None = None
    """Lanes of the timed rules; by default 8192, 65,536 and 1024 on a GPU, 16 on a CPU."""
    chunks: int = 4
    """Length of the timed runs, in chunks of 256 steps."""
    repeats: int = 3
    """Timed calls."""
    minutes: float = 8.5
    """The check ends after them, whatever is left out."""
    output: Path = Path("build/gpu-check")
    """The folder of the JSON file and the tables."""

    def __post_init__(self) -> None:
        unknown = sorted({*self.rules} - {*RULES})
        if unknown:
            raise ValueError(f"rules: there is no {unknown[0]}; there are {', '.join(RULES)}")


# Runs: computed in a process for each device, compared in this one.


def computed(name: str, runs: bool, traces: list, margins: list) -> dict[str, np.ndarray]:
    """What is compared of a job, on JAX's default device.

    With `runs` its samples, pulls and answers, "runs" [run, numbers]. Of each run of `traces` its
    arms, "trace/<run>". Of each (run, pull) of `margins` that of the pull, "margin/<run>".
    """
    import jaxelim as je
    from tests import digests

    (job,) = (job for job in digests.JOBS if job.name == name)
    found: dict[str, np.ndarray] = {}
    if runs:
        run = je.simulate(job.instance, job.problem, job.rule, progress=False, **job.settings)
        flat = np.concatenate([run.samples[..., None], run.pulls, run.answer], -1)
        found["runs"] = np.moveaxis(flat, -2, 0).reshape(flat.shape[-2], -1)
    for number in traces:
        found[f"trace/{number}"] = traced(job, number).arms
    for number, pull in margins:
        found[f"margin/{number}"] = np.array(margin(job, number, pull))
    return found


def traced(job: Any, run: int, **more: Any) -> Any:
    """The trace of a run of a job, at the smallest of its deltas."""
    import jaxelim as je

    kept = ("threshold", "ridge", "elimination", "max_samples", "seed")
    settings = {key: job.settings[key] for key in kept} | more
    return je.trace(
        job.instance, job.problem, job.rule, run=run, delta=float(np.min(job.settings["delta"])),
        stopping=job.settings["elimination"] or je.LLR(),
        engine=je.Engine(lanes=1, devices=1), **settings,
    )  # fmt: skip


def margin(job: Any, run: int, pull: int) -> float:
    """The least of `SHIFTS` by which the run parts at this pull (1-based) or before; else NaN.

    Rewards that are not Gaussian do not change with so little noise.
    """
    whole = traced(job, run)
    noise = (whole.rewards - job.instance.means[whole.arms]) / job.instance.noise_std
    sign = np.random.default_rng(0).choice([-1.0, 1.0], noise.shape)

    def arms(shift: float) -> np.ndarray:
        return traced(job, run, noise=noise * (1 + shift * sign)).arms[:pull]

    known = arms(0.0)
    return next((x for x in SHIFTS if not np.array_equal(arms(x), known)), np.nan)


def on_device(platform: str | None, ends: float, *asked: Any) -> dict[str, np.ndarray]:
    """`computed` in a process of its own, which is stopped when time.monotonic() is `ends`.

    The platform None is JAX's default device.
    """
    with tempfile.TemporaryDirectory(prefix="jaxelim-gpu-") as folder:
        answer = Path(folder) / "runs.npz"
        words = "benchmarks.gpu_check", "compute", str(answer), json.dumps(asked)
        child(*words, platform=platform, environment=TOGETHER, seconds=ends - time.monotonic())
        with np.load(answer) as kept:
            return dict(kept)


def compared(name: str, ends: float) -> list[dict]:
    """Rows of a job: of its runs, of run 0 if it is in TRACES, and of the first that parts."""
    sides = None, "cpu"
    first = [0] if name in TRACES else []
    here, there = (on_device(platform, ends, name, True, first, []) for platform in sides)
    parted = np.flatnonzero((here["runs"] != there["runs"]).any(1)).tolist()
    rows: list[dict] = [{"job": name, "runs": len(here["runs"]), "parted": len(parted)}]
    more = [run for run in parted[:1] if run not in first]
    if more:
        for side, platform in zip((here, there), sides, strict=True):
            side |= on_device(platform, ends, name, False, more, [])
    for run in first + more:
        ours, theirs = (side[f"trace/{run}"] for side in (here, there))
        pull, least = first_apart(ours, theirs), None
        if pull is not None:
            asked = [[run, pull]]
            least = float(on_device("cpu", ends, name, False, [], asked)[f"margin/{run}"])
        rows.append({"job": name, "run": run, "pulls": len(theirs), "first apart": pull,
                     "margin": least})  # fmt: skip
    return rows


def first_apart(here: np.ndarray, there: np.ndarray) -> int | None:
    """The first pull (1-based) in which two runs differ; one that ends differs there."""
    common = min(len(here), len(there))
    differ = np.flatnonzero(here[:common] != there[:common])
    if differ.size:
        return int(differ[0]) + 1
    return common + 1 if len(here) != len(there) else None


# Times.


def timed(name: str, lanes: int, graphs: bool, options: Options, ends: float) -> dict:
    """One row of times, measured in a process of its own."""
    usual = {"rule": name, "max_samples": whole_chunks(options.chunks)}
    case = Case(**{**usual, **RULES[name]}, runs=2 * lanes, lanes=lanes)
    environment = None if graphs else NO_GRAPHS
    found = apart(case, Timing(options.repeats), platform=None, environment=environment,
                  seconds=ends - time.monotonic())  # fmt: skip
    wall = typical(found, "wall")  # us a useful sample
    return {
        "rule": name, "lanes": lanes, "graphs": graphs, "us/sample": wall, "M samples/s": 1 / wall,
        "us/step": wall * lanes * useful(found),
        "device MiB": (found.get("device_peak_bytes") or 0) / 2**20 or None,
        "host MiB": found["peak_memory_bytes"] / 2**20,
        "compile s": found["first"]["compile_seconds"],
    }  # fmt: skip


def checked(options: Options) -> dict:
    """Everything: environment, runs, times, failures; written after each part."""
    from benchmarks.__main__ import environment

    began = time.monotonic()
    here, ends = environment(), began + 60 * options.minutes
    gpu = here["device"]["platform"] != "cpu"
    sizes = options.lanes or (LANES if gpu else (16,))
    found: dict[str, Any] = {"environment": here, "gpu": gpu, "runs": [], "times": [],
                             "failed": [], "left out": []}  # fmt: skip
    lock = threading.Lock()

    def attempt(label: str, part: str, ends: float, measure: Callable[[float], list[dict]]) -> None:
        rows, failure = [], ""
        if time.monotonic() < ends:
            try:
                rows = measure(ends)
            except MeasurementError as error:
                failure = f": {error}"
        with lock:
            found[part] += rows
            if not rows and time.monotonic() >= ends:
                found["left out"].append(label)
                failure = ": left out"
            elif failure:
                found["failed"].append(f"{label}{failure}")
            write(found, options.output)
        print(f"{time.monotonic() - began:4.0f} s  {label}{failure}", flush=True)

    def of_job(name: str) -> None:
        until = began + SHARE * (ends - began) if options.rules else ends
        attempt(name, "runs", until, lambda ends: compared(name, ends))

    def of_times(name: str, lanes: int, graphs: bool = True) -> None:
        label = f"{name}, {lanes} lanes{'' if graphs else ', without graphs'}"

        def measure(ends: float) -> list[dict]:
            return [timed(name, lanes, graphs, options, min(ends, time.monotonic() + LONGEST))]

        attempt(label, "times", ends, measure)

    write(found, options.output)
    with ThreadPoolExecutor(max(1, min(AT_ONCE, here["cores"] // 2))) as pool:
        list(pool.map(of_job, JOBS[: options.jobs]))
    rows: list[tuple] = [(name, lanes) for lanes in sizes for name in options.rules]
    rows += [(name, sizes[0], False) for name in options.rules if gpu]
    for row in rows:
        of_times(*row)
    return found


def write(found: dict, folder: Path) -> None:
    """Write what was found so far: `gpu-check.json`, and the tables in `gpu-check.txt`."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "gpu-check.json", json.dumps(found, indent=1, default=str).encode())
    write_whole(folder / "gpu-check.txt", f"{table(found)}\n".encode())


def table(found: dict) -> str:
    """Versions, the tables, and what failed or was left out."""
    here = found["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    lines = [f"{here['device']['device']} ({here['device']['platform']}); {versions}"]
    if not found["gpu"]:
        lines.append("No GPU: both sides are a CPU, and no figure says anything of a GPU.")
    rows = [{k: "-" if v is None else v for k, v in row.items()}
            for part in ("runs", "times") for row in found[part]]  # fmt: skip
    for keys in dict.fromkeys(tuple(row) for row in rows):  # one table a kind of row
        lines += ["", *aligned([row for row in rows if tuple(row) == keys][:SHOWN])]
    lines += [f"left out, for want of time: {label}" for label in found["left out"]]
    return "\n".join([*lines, *(f"FAILED: {words}" for words in found["failed"])])


def main(options: Options) -> int:
    """Check, write and print; 1 where a part failed, 2 where JAX does not start."""
    try:
        found = checked(options)
    except MeasurementError as error:
        print(f"JAX does not start here: {error}", file=sys.stderr)
        return 2
    print(f"\n{table(found)}\n\n{options.output}")
    return int(bool(found["failed"]))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="ridge = ")  # the paper's setting
    if sys.argv[1:2] == ["compute"]:
        np.savez(sys.argv[2], **computed(*json.loads(sys.argv[3])))
        sys.exit(0)
    sys.exit(main(tyro.cli(Options, description=__doc__)))
