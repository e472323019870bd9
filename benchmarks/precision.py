"""Compare float32 with float64 on the same noise: `python -m benchmarks.precision`."""

import dataclasses
import sys

import numpy as np
import tyro

import jaxelim as je
from jaxelim import catalogue
from jaxelim.cli import use_all_cores
from jaxelim.simulation.results.result import aligned


@dataclasses.dataclass(frozen=True)
class Options:
    """Compare mean stopping times in both precisions, and single runs pull by pull."""

    runs: int = 3000
    """Runs of each rule in each precision."""
    rules: tuple[str, ...] = ("lingape", "lingame")
    """Names that `jaxelim rules` lists."""
    instance: str = "linear-d20"
    """A shipped instance."""
    traces: int = 20
    """Runs compared pull by pull."""
    max_samples: int = 1_000_000
    """Cap on the samples of a run."""
    seed: int = 0
    """Seed of the noise."""


def parting(single: je.Trace, double: je.Trace) -> int | None:
    """The first pull (1-based) at which two traces differ.

    None if they agree over their common length.
    """
    common = min(len(single.arms), len(double.arms))
    apart = np.flatnonzero(single.arms[:common] != double.arms[:common])
    return int(apart[0]) + 1 if apart.size else None


def z_score(one: np.ndarray, other: np.ndarray) -> float:
    """Difference of two means [run] in its standard error, for independent samples."""
    return float(
        (one.mean() - other.mean())
        / np.sqrt(one.var(ddof=1) / one.size + other.var(ddof=1) / other.size)
    )


def compare(name: str, options: Options) -> dict:
    """Compare one rule on best arm, with selective elimination at stopping."""
    instance, problem, rule = (
        je.load_instance(options.instance),
        je.BestArm(),
        catalogue.find_rule(name)(),
    )
    stopping = je.SelectiveElimination()
    found = {
        precision: je.simulate(
            instance,
            problem,
            rule,
            stopping=stopping,
            runs=options.runs,
            seed=options.seed,
            max_samples=options.max_samples,
            ridge=1.0,
            engine=je.Engine(precision=precision),
        )
        for precision in ("float32", "float64")
    }
    single, double = (found[p].samples[0, 0].astype(float) for p in ("float32", "float64"))
    first = []
    for run in range(options.traces):
        length = int(max(single[run], double[run])) + 1
        first.append(
            parting(
                *(
                    je.trace(
                        instance,
                        problem,
                        rule,
                        stopping=stopping,
                        seed=options.seed,
                        run=run,
                        max_samples=max(length, instance.K),
                        ridge=1.0,
                        engine=je.Engine(lanes=1, devices=1, precision=precision),
                    )
                    for precision in ("float32", "float64")
                )
            )
        )
    parted = [pull for pull in first if pull is not None]
    us = {
        p: 1e6 * one.timings["seconds"] * one.layout["devices"] / one.timings["samples_drawn"]
        for p, one in found.items()
    }
    return {
        "rule": name,
        "mean tau, float32": single.mean(),
        "float64": double.mean(),
        "z": z_score(single, double),
        "equal tau": f"{(single == double).mean():.1%}",
        "cut off": int(found["float32"].truncated.sum() + found["float64"].truncated.sum()),
        "errors": int((~found["float32"].correct).sum() + (~found["float64"].correct).sum()),
        "runs that part": f"{len(parted)}/{len(first)}",
        "first differing pull": min(parted) if parted else "-",
        "median": float(np.median(parted)) if parted else float("nan"),
        "us/sample, float32": us["float32"],
        "float64 ": us["float64"],
    }


def main(options: Options) -> int:
    """Print a row per rule; the exit code is 1 if any |z| > 3."""
    use_all_cores()
    rows = [compare(name, options) for name in options.rules]
    print(
        f"{options.instance}, best arm, {options.runs} runs in each precision on the same noise; "
        "a device's wall time a sample"
    )
    print("\n".join(aligned(rows)))
    return int(any(abs(row["z"]) > 3 for row in rows))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
