"""What a loose gap costs Track-and-Stop: stopping times at gap 1e-6 and `EvidenceGap(0.1)`.

    python -m benchmarks.evidence_gap                      all three instances
    python -m benchmarks.evidence_gap linear-d10 --runs 50

Both rules run on the same noise: run r draws the same normal at every t. A row has the
ratio of mean stopping times, its standard error by the delta method on pairs, and
whether it is at most 1 + 2 standard errors.
"""

import argparse
from collections.abc import Sequence

import numpy as np

import jaxelim as je

ROWS = {"linear-d10": 400, "linear-d20": 100, "unstructured-k40": 400}
"""Instances, and numbers of runs."""


def ratio(new: np.ndarray, old: np.ndarray) -> tuple[float, float]:
    """mean(new)/mean(old) of pairs [runs], and its standard error."""
    found = new.mean() / old.mean()
    return found, float(np.std(new - found * old, ddof=1) / old.mean() / len(old) ** 0.5)


def row(name: str, runs: int, max_samples: int = 1_000_000) -> str:
    """One line: both rules on an instance."""
    rules = {"1e-6": je.TrackAndStop(gap=1e-6), "evidence": je.TrackAndStop()}
    found = {
        key: je.simulate(
            je.load_instance(name), je.BestArm(), rule, delta=0.01, runs=runs, seed=1,
            stopping=je.LLR(), max_samples=max_samples, ridge=1.0,
        )
        for key, rule in rules.items()
    }  # fmt: skip
    old, new = (found[key].samples.ravel().astype(float) for key in rules)
    mean, error = ratio(new, old)
    cut = sum(int(one.truncated.sum()) for one in found.values())
    solves = [
        0.0 if one.solves is None else one.solves.sum() / one.samples.sum()
        for one in found.values()
    ]
    return (
        f"{name:18s} {runs:4d} runs: tau {old.mean():.0f} at 1e-6, {new.mean():.0f} by evidence; "
        f"ratio {mean:.4f} +- {error:.4f}, at most 1 + 2 s.e.: {mean <= 1 + 2 * error}; "
        f"solves a sample {solves[0]:.3f}, {solves[1]:.3f}; "
        f"errors {sum(int((~one.correct).sum()) for one in found.values())}, cut off {cut}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    title = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidence_gap", description=title)
    parser.add_argument("names", nargs="*", metavar="INSTANCE", help="default: all three")
    parser.add_argument("--runs", type=int, help="runs of each; default: 400, 100 and 400")
    parser.add_argument("--max-samples", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    for name in options.names or ROWS:
        print(row(name, options.runs or ROWS.get(name, 100), options.max_samples), flush=True)


if __name__ == "__main__":
    main()
