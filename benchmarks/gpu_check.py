"""Compares runs of JAX's default device with a CPU's, and times rules: `make gpu-check`.

1. Runs: jobs of `tests.digests`, and traces, in float64 and float32. Where runs part: the
   first pull that differs, and its margin. That is the least relative change of the noise
   that makes the CPU's own run part there or before.
2. Times: rules by lanes, with CUDA graphs and without.
3. A profile: LinGapE's step by kernel.

Without a GPU both sides are the CPU, at small sizes: that shows that the command works,
and no more. All of it goes into one JSON file, and is printed as tables.
"""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.cases import Case, Timing, whole_chunks
from benchmarks.processes import ROOT, MeasurementError, apart
from benchmarks.report import typical, useful

LANES = (8192, 65_536, 1024)  # in the order in which they are timed
PEAK = {"H200": 4.8e12, "H100": 3.35e12}
"""Bytes a second of the memory, by what the device's name contains."""
RULES: dict[str, tuple[dict, float | None]] = {
    "lingape": ({}, 199),
    "lucb": ({"instance": "unstructured-k40"}, 69),
    "lingame": ({}, 1016),
    "lazy-tas": ({}, 146),
    "fws": ({}, 352),
    "tas": ({}, 214),
    "kl-lucb": ({"rule": "lucb", "instance": "0.5, 0.45, 0.4, 0.3", "family": "bernoulli"}, None),
}
"""Cases, and the MB of a step of 8192 lanes (docs/reference/gpu.md), where they were counted."""
NO_GRAPHS = {"XLA_FLAGS": "--xla_gpu_enable_command_buffer="}
JOBS = (
    "lingape linear-d20", "lingape full at sampling", "lingape top-m pair times", "lingape signs",
    "lingape form diagonal", "lingape near-identical arms", "lingame deltas on one trajectory",
    "lingame optimistic top-m at sampling", "fws linear", "lazy-tas linear-d20",
    "lingifa linear top-m", "lucb best-arm native", "lucb signs", "ugape top-m native",
    "racing top-m", "rage linear", "xy-adaptive linear", "oracle linear-d20", "tas D wrapper",
    "family bernoulli kl-lucb",
)  # fmt: skip
TRACES = ("lingape signs", "lucb signs", "lingame deltas on one trajectory", "fws linear",
          "lazy-tas linear-d20", "tas D wrapper")  # fmt: skip
PRECISIONS = ("float64", "float32")
SHOWN = 48
"""Most rows of a table; the file has all."""
SHIFTS = (1e-15, 1e-13, 1e-11, 1e-9, 1e-7)
"""Relative changes of the noise that are tried for a margin."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Compare runs of JAX's default device with a CPU's, and time rules."""

    jobs: int = len(JOBS)
    """Jobs whose runs are compared, the first of the list."""
    traces: int = len(TRACES)
    """Jobs of which one run is compared pull by pull."""
    rules: tuple[str, ...] = tuple(RULES)
    """Rules that are timed."""
    lanes: tuple[int, ...] | None = None
    """Lanes of the timed rules; by default 8192, 65,536 and 1024 on a GPU, 16 on a CPU."""
    chunks: int = 4
    """Length of the timed runs, in chunks of 256 steps."""
    repeats: int = 3
    """Timed calls."""
    minutes: float = 8.0
    """No rule is timed that would begin later."""
    output: Path = Path("build/gpu-check.json")
    """The JSON file."""

    def __post_init__(self) -> None:
        unknown = sorted({*self.rules} - {*RULES})
        if unknown:
            raise ValueError(f"rules: there is no {unknown[0]}; there are {', '.join(RULES)}")


# Runs: computed in a process for each device, compared in this one.


def computed(jobs: list, traces: list, margins: list) -> dict[str, np.ndarray]:
    """What is compared, on JAX's default device.

    Args:
        jobs: names of jobs: their samples, pulls and answers, [run, numbers]; no run where
            float32 is refused.
        traces: (job, run, precision): the arms.
        margins: (job, run, pull): the margin of that pull, 1-based; NaN where there is none.
    """
    import jaxelim as je
    from tests import digests

    known = {job.name: job for job in digests.JOBS}
    found: dict[str, np.ndarray] = {}
    for precision in PRECISIONS:
        for name in jobs:
            job = known[name]
            engine = dataclasses.replace(job.settings["engine"], precision=precision)
            settings = {**job.settings, "engine": engine}
            try:
                run = je.simulate(job.instance, job.problem, job.rule, progress=False, **settings)
            except je.errors.ArgumentError:  # float32, where it cannot tell arms apart
                if precision == "float64":
                    raise
                found[f"runs/{precision}/{name}"] = np.zeros((0, 1))
                continue
            flat = np.concatenate([run.samples[..., None], run.pulls, run.answer], -1)
            found[f"runs/{precision}/{name}"] = np.moveaxis(flat, -2, 0).reshape(flat.shape[-2], -1)
    for name, run, precision in traces:
        found[f"trace/{precision}/{name}/{run}"] = traced(known[name], run, precision).arms
    for name, run, pull in margins:
        found[f"margin/{name}/{run}"] = np.array(margin(known[name], run, pull))
    return found


def traced(job: Any, run: int, precision: str = "float64", **more: Any) -> Any:
    """The trace of a run of a job, at the smallest of its deltas."""
    import jaxelim as je

    kept = ("threshold", "ridge", "elimination", "max_samples", "seed")
    settings = {key: job.settings[key] for key in kept} | more
    return je.trace(
        job.instance, job.problem, job.rule, run=run, delta=float(np.min(job.settings["delta"])),
        stopping=job.settings["elimination"] or je.LLR(),
        engine=je.Engine(lanes=1, devices=1, precision=precision), **settings,
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


def on_device(platform: str | None, *asked: list) -> dict[str, np.ndarray]:
    """`computed` in a process of its own; None: on JAX's default device."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT)}
    if platform is not None:
        settings["JAX_PLATFORMS"] = platform
    with tempfile.TemporaryDirectory(prefix="jaxelim-gpu-") as folder:
        answer = Path(folder) / "runs.npz"
        command = [sys.executable, "-m", "benchmarks.gpu_check", "compute", str(answer)]
        done = subprocess.run(command, cwd=ROOT, env=settings, input=json.dumps(asked), text=True,
                              stderr=subprocess.PIPE, check=False)  # fmt: skip
        if done.returncode or not answer.exists():
            last = " | ".join(done.stderr.strip().splitlines()[-3:])
            raise MeasurementError(f"runs on {platform or 'the device'}: {last}")
        with np.load(answer) as kept:
            return dict(kept)


def compared(jobs: list[str], traces: list[str]) -> list[dict]:
    """Rows of runs, then of traces: of the jobs, and of the first run that parts in float64."""
    here, there = (on_device(platform, jobs, [], []) for platform in (None, "cpu"))
    rows: list[dict] = []
    followed = [(name, 0, precision) for name in traces for precision in PRECISIONS]
    for name in there:
        _, precision, job = name.split("/")
        parted = np.flatnonzero((here[name] != there[name]).any(1))
        rows.append(
            {"job": job, "precision": precision, "runs": len(here[name]), "parted": len(parted)}
        )
        if parted.size and precision == "float64":
            followed.append((job, int(parted[0]), precision))
    here, there = (on_device(platform, [], followed, []) for platform in (None, "cpu"))
    found = []
    for name in there:
        _, precision, job, run = name.split("/")
        first = first_apart(here[name], there[name])
        found.append({"job": job, "precision": precision, "run": int(run),
                      "pulls": len(there[name]), "first apart": first, "margin": None})  # fmt: skip
    parted = [row for row in found if row["first apart"] and row["precision"] == "float64"]
    if parted:
        asked = [(row["job"], row["run"], row["first apart"]) for row in parted]
        margins = on_device("cpu", [], [], asked)
        for row in parted:
            row["margin"] = float(margins[f"margin/{row['job']}/{row['run']}"])
    return rows + found


def first_apart(here: np.ndarray, there: np.ndarray) -> int | None:
    """The first pull (1-based) in which two runs differ; one that ends differs there."""
    common = min(len(here), len(there))
    differ = np.flatnonzero(here[:common] != there[:common])
    if differ.size:
        return int(differ[0]) + 1
    return common + 1 if len(here) != len(there) else None


# Times.


def timed(name: str, lanes: int, graphs: bool, device: str, options: Options) -> dict:
    """One row of times, measured in a process of its own."""
    changes, moved = RULES[name]
    usual = {"rule": name, "max_samples": whole_chunks(options.chunks)}
    case = Case(**{**usual, **changes}, runs=2 * lanes, lanes=lanes)
    environment = None if graphs else NO_GRAPHS
    found = apart(case, Timing(options.repeats), platform=None, environment=environment)
    wall = typical(found, "wall")  # us a useful sample
    step = 1e-6 * wall * lanes * useful(found)  # seconds
    peak = next((rate for part, rate in PEAK.items() if part in device), None)
    lane = None if moved is None else 1e6 * moved / 8192
    return {
        "rule": name,
        "lanes": lanes,
        "graphs": graphs,
        "us/sample": wall,
        "M samples/s": 1 / wall,
        "us/step": 1e6 * step,
        "bytes/lane/step": lane,
        "of peak": None if None in (lane, peak) else lane * lanes / step / peak,
        "state bytes/lane": found["state_bytes_per_lane"] + found["noise_bytes_per_lane"],
        "device MiB": (found.get("device_peak_bytes") or 0) / 2**20 or None,
        "host MiB": found["peak_memory_bytes"] / 2**20,
        "compile s": found["first"]["compile_seconds"],
    }


def profiled(lanes: int, options: Options) -> list[dict]:
    """LinGapE's step by kernel; without graphs, in which kernels have no names."""
    case = Case("lingape", runs=lanes, lanes=lanes, max_samples=whole_chunks(options.chunks))
    found = apart(case, Timing(0, profile=True), platform=None, environment=NO_GRAPHS)
    return found["kernels"]["functions"]


def checked(options: Options) -> dict:
    """Everything: environment, runs, times, the profile, failures."""
    from benchmarks.__main__ import environment

    here, deadline = environment(), time.monotonic() + 60 * options.minutes
    gpu, device = here["device"]["platform"] != "cpu", here["device"]["device"]
    sizes = options.lanes or (LANES if gpu else (16,))
    found: dict[str, Any] = {"environment": here, "gpu": gpu, "runs": [], "times": [],
                             "profile": [], "failed": [], "left out": []}  # fmt: skip

    def attempt(label: str, part: str, measure: Callable[[], list[dict]]) -> None:
        if time.monotonic() > deadline:
            found["left out"].append(label)
            return
        try:
            found[part] += measure()
        except MeasurementError as error:
            found["failed"].append(f"{label}: {error}")

    jobs, traces = list(JOBS[: options.jobs]), list(TRACES[: options.traces])
    attempt("runs", "runs", lambda: compared(jobs, traces))
    if options.rules:
        attempt("profile", "profile", lambda: profiled(sizes[0], options))
    rows = [(lanes, name, True) for lanes in sizes for name in options.rules]
    if gpu:
        rows += [(sizes[0], name, False) for name in options.rules]
    for lanes, name, graphs in rows:
        label = f"{name}, {lanes} lanes{'' if graphs else ', without graphs'}"
        attempt(label, "times", lambda row=(name, lanes, graphs): [timed(*row, device, options)])
    return found


def table(found: dict) -> str:
    """Versions, the tables, and what failed or was left out."""
    from jaxelim.tables import aligned

    here = found["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in here["versions"].items())
    lines = [f"{here['device']['device']} ({here['device']['platform']}); {versions}"]
    if not found["gpu"]:
        lines.append("No GPU: both sides are a CPU, and no figure says anything of a GPU.")
    rows = [{k: "-" if v is None else v for k, v in row.items()}
            for part in ("runs", "times", "profile") for row in found[part]]  # fmt: skip
    for keys in dict.fromkeys(tuple(row) for row in rows):  # one table a kind of row
        lines += ["", *aligned([row for row in rows if tuple(row) == keys][:SHOWN])]
    lines += [f"left out, after the minutes allowed: {label}" for label in found["left out"]]
    return "\n".join([*lines, *(f"FAILED: {words}" for words in found["failed"])])


def main(options: Options) -> int:
    """Check, print and write; the exit status is 1 where a part failed."""
    found = checked(options)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(found, indent=1, default=str))
    print(table(found))
    print(f"\n{options.output}")
    return int(bool(found["failed"]))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="ridge = ")  # the paper's setting
    if sys.argv[1:2] == ["compute"]:
        np.savez(sys.argv[2], **computed(*json.load(sys.stdin)))
        sys.exit(0)
    sys.exit(main(tyro.cli(Options, description=__doc__)))
