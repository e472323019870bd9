"""Checks and figures on allocations and bounds: `python -m experiments.allocations`.

All parts run by default; name some to run fewer.

- bracket: H* of the paper's eight instance-problems between linear programs, and the
  authors' allocations.
- runs: stopping times between their bounds, and pulls beside w*.
- practical: mean stopping times of the oracle over the practical bound.

Part runs, and w* itself, are drawn into OUTPUT.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Literal

import numpy as np
import tyro
from scipy.optimize import linprog

import jaxelim as je
from experiments import paper
from jaxelim import cli, figures
from jaxelim.files import make_folder, writable_file
from jaxelim.simulation.results.result import BIASED

SHIPPED = [
    ("linear-d10", "bai", je.BestArm()),
    ("linear-d10-topm", "topm", je.TopM(3)),
    ("linear-d20", "bai", je.BestArm()),
    ("linear-d20", "topm", je.TopM(5)),
    ("linear-d20-osi", "osi", je.Thresholding()),
    ("unstructured-k40", "bai", je.BestArm()),
    ("unstructured-k40", "topm", je.TopM(3)),
    ("unstructured-k40-osi", "osi", je.Thresholding()),
]

DRAWN = {"bracket": ("allocation",), "runs": ("tau", "survival", "pulls")}
"""The figures of each part."""
Part = Literal["bracket", "runs", "practical"]


@dataclasses.dataclass(frozen=True)
class Allocations:
    """Checks and figures on allocations and bounds."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = ("bracket", "runs", "practical")
    """Parts to run."""
    runs: int = 200
    """Runs per rule, for runs."""
    output: Path = Path("results")
    """Folder of the figures."""
    dpi: int = 150
    """Dots per inch of the PNGs."""
    endings: tuple[Literal["png", "pdf"], ...] = ("png", "pdf")
    """Kinds of files to write."""


def save(config: Allocations, figure, name: str) -> None:
    """Write one figure and print its files."""
    print("  wrote", *figures.save(figure, config.output / name, config.dpi, config.endings))


def tangents(weights, arms, theta, directions, offsets):
    """H_p(w) [P] and dH_p/dw_k [P, K] by a plain inverse, without the library."""
    inverse = np.linalg.inv(arms.T @ (weights[:, None] * arms))
    gaps = directions @ theta - offsets
    images = directions @ inverse
    norm = np.sum(images * directions, axis=1)
    return gaps**2 / (2 * norm), (gaps / norm)[:, None] ** 2 * (images @ arms.T) ** 2 / 2


def bracket(config: Allocations) -> None:
    """Print brackets of H* and draw w*.

    Any w bounds H* from below. A linear program over cuts at the solution and around it
    bounds H* from above.
    """
    print("bracket: H* between linear programs; H of the authors' weights, relative to it")
    print(
        "instance              problem                 H*               gap    "
        "LP bracket, relative   theirs"
    )
    rng = np.random.default_rng(0)
    for name, kind, problem in SHIPPED:
        instance = je.load_instance(name)
        found = je.complexity(instance, problem, 1e-10)
        pieces = found.pieces.y[0], found.pieces.c[0]
        cuts, low, w = [], 0.0, found.allocation
        K = instance.K
        for _ in range(6):
            level, slope = tangents(w, instance.arms, instance.theta, *pieces)
            low = max(low, level.min())
            cuts.append(slope / found.value)
            w = 0.9999 * found.allocation + 1e-4 * rng.dirichlet(np.ones(K))
        rows = np.concatenate(cuts)
        solved = linprog(
            np.append(np.zeros(K), -1),
            A_ub=np.hstack([-rows, np.ones((len(rows), 1))]),
            b_ub=np.zeros(len(rows)),
            A_eq=[np.append(np.ones(K), 0)],
            b_eq=[1],
        )
        theirs = paper.oracle_weights(name, kind)
        theirs = (
            je.bounds.information(instance, problem, theirs / theirs.sum()) / found.value - 1
        )
        print(
            f"{name:21s} {problem!r:23s} {found.value:.10e} {found.gap:.1e} "
            "  "
            f"[{low / found.value - 1:+.1e}, {-solved.fun - 1:+.1e}]   {theirs:+.1e}"
        )
    instance = je.load_instance("linear-d20")
    save(
        config,
        figures.allocation_figure(je.complexity(instance, je.BestArm(), 1e-10), "linear-d20"),
        "allocation",
    )


def runs(config: Allocations) -> None:
    """Compare stopping times with the bounds, and pulls with w*, on linear-d10."""
    instance, problem, delta = je.load_instance("linear-d10"), je.BestArm(), 0.01
    found = je.complexity(instance, problem, 1e-10)
    lower, practical = (
        je.bounds.sample_bound(delta, found),
        je.bounds.practical_time(delta, found),
    )
    rules = {"LinGapE": je.LinGapE(), "Oracle": je.Oracle(), "Uniform": je.Uniform()}
    results = {
        name: je.simulate(
            instance, problem, rule, delta=delta, runs=config.runs, stopping=je.LLR(), ridge=1.0
        )
        for name, rule in rules.items()
    }
    print(
        f"runs: linear-d10, best arm, delta = {delta}, {config.runs} runs: "
        f"lower bound {lower:.0f}, practical {practical}"
    )
    for name, result in results.items():
        ratio, distance = result.efficiency()
        print(
            f"  {name:8s} tau over the lower bound {np.nanmean(ratio):.2f}, "
            f"pulls from w* {np.nanmean(distance):.3f} (total variation), "
            f"price of the mean pulls {float(price(instance, problem, result)):.3f}, "
            f"cut off {result.truncated.sum()}"
        )
    if any(result.truncated.any() for result in results.values()):
        print(f"  runs that were cut off are in no mean of tau, and {BIASED}")
    save(config, figures.tau_figure(results, float(lower), practical), "tau")
    save(config, figures.survival_figure(results, float(lower)), "survival")
    save(config, figures.pulls_figure(results, found.allocation), "pulls")


def price(instance, problem, result) -> np.ndarray:
    """The price of the mean shares of the pulls."""
    share = (result.pulls[0, 0] / result.samples[0, 0][:, None]).mean(0)
    best = je.complexity(instance, problem, 1e-10).value
    return best / je.bounds.information(instance, problem, share / share.sum())


def practical(config: Allocations) -> None:
    """Print the oracle's mean stopping time over the practical bound."""
    two = je.Instance.unstructured([0.5, 0.0], name="two arms")
    print(f"practical: mean tau of the oracle over T* beta, {config.runs} runs")
    for instance in [*map(je.load_instance, ("linear-d10", "linear-d20", "unstructured-k40")), two]:
        found = je.complexity(instance, je.BestArm())
        for delta in (0.1, 0.01, 1e-4, 1e-8):
            time = je.bounds.practical_time(delta, found, je.Heuristic())
            done = je.simulate(
                instance, je.BestArm(), je.Oracle(), delta=delta, runs=config.runs, seed=1
            )
            tau = done.samples / time
            print(
                f"  {instance.name:18s} delta = {delta:g}: {tau.mean():.3f} "
                f"+- {tau.std() / tau.size**0.5:.3f}"
            )


def main(config: Allocations) -> None:
    make_folder(config.output)
    for name in [name for part in config.parts for name in DRAWN.get(part, ())]:
        for ending in config.endings:
            writable_file("output", config.output / f"{name}.{ending}")
    for name in config.parts:
        {"bracket": bracket, "runs": runs, "practical": practical}[name](config)


if __name__ == "__main__":
    cli.use_all_cores()
    sys.exit(cli.guarded("allocations", lambda: main(tyro.cli(Allocations, description=__doc__))))
