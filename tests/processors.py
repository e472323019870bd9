"""The same small jobs on other processors' libraries and instruction sets, and what parts.

    python -m tests.processors hash JOB ...    compute jobs here, print a hash of each run
    python -m tests.processors table [JOB ...] compute them in every setting, print a table

OpenBLAS takes the kernels that OPENBLAS_CORETYPE names, XLA the instructions that
--xla_cpu_max_isa allows.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import jaxelim as je
from tests.jobs import BEST, D20, K40, LLR, NATIVE, SAMPLED, Job, one_run, optimum, simulation

ROOT = Path(__file__).parents[1]
LIBRARIES = ("Haswell", "SkylakeX", "Zen")
INSTRUCTIONS = ("SSE4_2", "AVX", "AVX2", "AVX512")
FUSED = ("AVX2", "AVX512")
"""The sets with fused multiply-adds; the others round twice."""


def jobs() -> dict[str, Job]:
    """What to compute, by name."""
    arms = np.random.default_rng(0).normal(size=(12, 5))
    d5 = je.Instance(arms, 2 * np.random.default_rng(1).normal(size=5))
    coins = je.Instance(arms[:6, :3], [0.9, -0.7, 0.4], family=je.Logistic())
    four = je.Instance.unstructured([1.0, 0.6, 0.4, 0.0])

    def runs(name, instance, rule, count, **settings):
        usual = dict(delta=0.1, stopping=LLR, max_samples=20_000, ridge=None, engine=je.Engine())
        return simulation(name, instance, BEST, rule, runs=count, **usual | settings)

    long = dict(SAMPLED, delta=0.01, ridge=1.0, max_samples=200_000)
    mixed = dict(SAMPLED, max_samples=100_000, threshold=je.Mixture())
    found = (
        one_run("LinGame, run 115", D20, BEST, je.LinGame(), run=115, **long),
        runs("LinGame", D20, je.LinGame(), 120, **long),
        runs("LinGame, Mixture", D20, je.LinGame(), 60, **mixed),
        runs("LinGapE, Mixture", D20, je.LinGapE(), 40, **mixed),
        runs("FWS", d5, je.FWS(), 30, ridge=1.0, **SAMPLED),
        runs("Lazy TaS", d5, je.LazyTaS(), 30, ridge=1.0, **SAMPLED),
        runs("RAGE", d5, je.RAGE(steps=500), 20, stopping=NATIVE),
        runs("XY-Adaptive", d5, je.XYAdaptive(), 20, stopping=NATIVE),
        runs("Track-and-Stop", d5, je.TrackAndStop(), 20, ridge=1.0, **SAMPLED),
        runs("Track-and-Stop, K = 40", K40, je.TrackAndStop(), 4, max_samples=3000),
        runs("OptimisticTaS", d5, je.OptimisticTaS(), 30, max_samples=3000),
        runs("OptimisticTaS, K = 4", four, je.OptimisticTaS(), 50, max_samples=3000),
        runs("logistic FWS", coins, je.FWS(), 20, max_samples=5000),
        runs("logistic Track-and-Stop", coins, je.TrackAndStop(), 6, max_samples=1000),
        optimum("H* linear", D20, BEST), optimum("H* unstructured", K40, BEST),
        optimum("H* logistic", coins, BEST),
    )  # fmt: skip
    return {job.name: job for job in found}


def hashes(job: Job) -> list[str]:
    """Of each run all arrays, to the last bit."""
    arrays = [np.asarray(x) for x in job.call(job)[0].values() if x is not None]
    each = (b"".join(x[run].tobytes() for x in arrays) for run in range(len(arrays[0])))
    return [hashlib.sha256(one).hexdigest()[:16] for one in each]


def runs_avx512() -> bool:
    """Whether this processor has AVX-512; where nothing says so, it is taken not to."""
    known = Path("/proc/cpuinfo")
    return known.exists() and "avx512f" in known.read_text().split()


def settings(instructions: Sequence[str] = INSTRUCTIONS) -> dict[str, dict[str, str]]:
    """The environment of each setting, by its name; the first is what others are compared with."""
    libraries = [name for name in LIBRARIES if name != "SkylakeX" or runs_avx512()]
    one = {name: {"OPENBLAS_CORETYPE": name} for name in libraries}
    return {**one, **{name: {"XLA_FLAGS": f"--xla_cpu_max_isa={name}"} for name in instructions}}


def computed(names: Sequence[str], extra: dict[str, str]) -> dict[str, list[str]]:
    """The hashes of jobs, computed in a process of its own with these variables."""
    other = ("XLA_FLAGS", "OPENBLAS_CORETYPE", "JAX_COMPILATION_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in other}
    # Programs for other instructions are no programs of the caller's cache.
    if "XLA_FLAGS" not in extra and (cache := os.environ.get("JAX_COMPILATION_CACHE_DIR")):
        kept["JAX_COMPILATION_CACHE_DIR"] = cache
    done = subprocess.run(
        [sys.executable, "-m", "tests.processors", "hash", *names], cwd=ROOT, check=True,
        env={**kept, "PYTHONPATH": str(ROOT), **extra}, stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout)


def parted(found: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, int]]:
    """Of each job and setting the runs that differ from the first setting's."""
    first = next(iter(found.values()))
    return {
        job: {name: sum(a != b for a, b in zip(hashes, of[job], strict=True))
              for name, of in found.items()}
        for job, hashes in first.items()
    }  # fmt: skip


def main() -> None:
    word, *names = sys.argv[1:]
    known = jobs()
    names = names or list(known)
    if word == "hash":
        print(json.dumps({name: hashes(known[name]) for name in names}))
        return
    found = {}
    for setting, extra in settings().items():
        found[setting] = computed(names, extra)
        print(setting, file=sys.stderr, flush=True)
    runs = next(iter(found.values()))
    print("| runs that part | runs |", " | ".join(found), "|")
    print("|---|---:|" + "---:|" * len(found))
    for job, counts in parted(found).items():
        print(f"| {job} | {len(runs[job])} |", " | ".join(map(str, counts.values())), "|")


if __name__ == "__main__":
    main()
