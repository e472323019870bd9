"""Checks and figures on allocations and bounds: `python -m experiments.allocations`.

All parts run by default; name some to run fewer.

- bracket: H* of the paper's eight instance-problems between linear programs, and the
  authors' allocations.
- gradients: derivatives against differences on random instances.
- example: the claims of the two-dimensional example.
- design: the hardest instance and the best extra arm.
- regret: information regret of several rules, and the bounds it gives.
- runs: stopping times between their bounds, and pulls beside w*.
- practical: mean stopping times of the oracle over the practical bound.

Parts design, regret and runs, and w* itself, are drawn into OUTPUT.
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
from experiments.figures import information_regret_figure
from jaxelim import cli, figures
from jaxelim import lower_bound as cx
from jaxelim.files import make_folder, writable_file
from jaxelim.instances import two_dimensional
from jaxelim.lower_bound.bounds import region_of
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

DRAWN = {"bracket": ("allocation",), "design": ("design",), "regret": ("regret",),
         "runs": ("tau", "survival", "pulls")}  # fmt: skip
"""The figures of each part."""
Part = Literal["bracket", "gradients", "example", "design", "regret", "runs", "practical"]


@dataclasses.dataclass(frozen=True)
class Allocations:
    """Checks and figures on allocations and bounds."""

    parts: tyro.conf.Positional[tuple[Part, ...]] = (
        "bracket",
        "gradients",
        "example",
        "design",
        "regret",
        "runs",
        "practical",
    )
    """Parts to run."""
    count: int = 200
    """Random instances, for gradients."""
    runs: int = 200
    """Runs per rule, for runs."""
    length: int = 20_000
    """Samples of the traces, for regret."""
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
        "instance              problem                 H*               gap      steps   "
        "LP bracket, relative   theirs"
    )
    rng = np.random.default_rng(0)
    for name, kind, problem in SHIPPED:
        instance = je.load_instance(name)
        found = je.complexity(instance, problem, 1e-10)
        pieces = problem.half_spaces(instance.arms, instance.theta)
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
        theirs = je.allocation_value(instance, problem, theirs / theirs.sum()) / found.value - 1
        print(
            f"{name:21s} {problem!r:23s} {found.value:.10e} {found.gap:.1e} "
            f"{found.iterations:4d}     "
            f"[{low / found.value - 1:+.1e}, {-solved.fun - 1:+.1e}]   {theirs:+.1e}"
        )
    instance = je.load_instance("linear-d20")
    save(
        config,
        figures.allocation_figure(je.complexity(instance, je.BestArm(), 1e-10), "linear-d20"),
        "allocation",
    )


def differences(function, x, step):
    """Fourth-order central differences of function: [N, *x.shape] -> [N, ...].

    Returns:
        [x.size, ...].
    """
    basis = step * np.eye(x.size).reshape(-1, *x.shape)
    far, near, near_, far_ = np.split(
        function(np.concatenate([x + s * basis for s in (-2, -1, 1, 2)])), 4
    )
    return (far - 8 * near + 8 * near_ - far_) / (12 * step)


def gradients(config: Allocations, step: float = 1e-4) -> None:
    """Print the largest relative errors of the derivatives, and what was excluded."""
    rng = np.random.default_rng(0)
    worst, excluded = np.zeros(2), []
    for i in range(config.count):
        problem = (je.BestArm(), je.TopM(2), je.Thresholding())[i % 3]
        linear = i % 2 == 0
        arms = rng.standard_normal((6, 3)) if linear else np.eye(5)
        theta = rng.standard_normal(arms.shape[1])
        found = je.complexity_gradients(je.Instance(arms, theta), problem)

        def solved(thetas, problem=problem, arms=arms):
            return je.complexity(je.Instance(arms, thetas), problem, 1e-12)

        def moved(features, problem=problem, theta=theta):
            return je.complexity(
                je.Instance(features, np.tile(theta, (len(features), 1))), problem, 1e-12
            )

        scale = min(1.0, np.min(np.abs(problem.half_spaces(arms, theta)[0] @ theta)))
        h = step * scale
        for exact, function, x in (
            (found.value_theta, solved, theta),
            (found.value_arms, moved, arms),
        ):
            numeric = differences(lambda z, f=function: f(z).value, x, h)
            worst[0] = max(worst[0], np.abs(exact.ravel() - numeric).max() / np.abs(numeric).max())
        if not found.stable or found.margin < 1e-3:
            excluded.append(
                (
                    i,
                    "linear" if linear else "unstructured",
                    repr(problem),
                    f"margin {found.margin:.1e}",
                )
            )
            continue
        for exact, function, x in (
            (found.allocation_theta, solved, theta),
            (found.allocation_arms, moved, arms),
        ):
            numeric = differences(lambda z, f=function: f(z).allocation, x, h).T
            # w* may not depend on theta (one active piece): errors below 1e-6 then pass
            error = np.abs(exact.reshape(numeric.shape) - numeric).max() / max(
                np.abs(numeric).max(), 1e-6
            )
            worst[1] = max(worst[1], error)
    print(
        f"gradients: {config.count} instances: largest relative error {worst[0]:.1e} for H*, "
        f"{worst[1]:.1e} for w*"
    )
    print(f"  excluded for w*: {len(excluded)} (active set within 1e-3 of a change)")
    for one in excluded:
        print("   ", *one)


def example(config: Allocations) -> None:
    """Check the two-dimensional example: H_k against H_2, and near-optimal allocations.

    Source: the paper's appendix on the example.
    """
    rng = np.random.default_rng(0)
    print(
        "example: H_k/(((1 - eps)/eps)^2 H_2), the least over 1000 random w and k > 2, "
        "is at least 1;\n  the least H_k over Omega_(eps^2/16) is at least 1/64 = 0.015625: "
        "its certified lower value and the one attained"
    )
    for eps in (0.3, 0.1, 0.03, 0.01):
        instance = two_dimensional(5, eps)
        region = region_of(instance, je.BestArm())
        values = region.information(rng.dirichlet(np.ones(5), 1000))
        ratio = np.min(values[:, 1:] / values[:, :1]) / ((1 - eps) / eps) ** 2
        lower, upper = cx.least_information(region, eps**2 / 16)
        bounds = je.elimination_bounds(instance, je.BestArm())
        print(
            f"  eps {eps}: H*/(eps^2/8) - 1 = {region.value / (eps**2 / 8) - 1:+.1e}, "
            f"ratio {ratio:.4f}, "
            f"least H_k in [{lower[1:].min():.4f}, {upper[1:].min():.4f}]; "
            f"bounds at R = 0: LLR {bounds.llr}, full {bounds.full.tolist()}"
        )


def design(config: Allocations) -> None:
    """Find the hardest theta in a ball and the best extra arm, on a plane instance."""
    angles = np.linspace(0, np.pi, 5)
    instance = je.Instance(np.stack([np.cos(angles), np.sin(angles)], 1), [1.0, 0.7])
    directions, _ = je.BestArm().half_spaces(instance.arms, instance.theta)
    radius = 0.5 * np.min(directions @ instance.theta / np.linalg.norm(directions, axis=1))
    hard = je.hardest_instance(instance, je.BestArm(), radius, steps=60)
    extra = je.best_extra_arm(instance, je.BestArm(), steps=60)
    print(f"design: hardest instance within {radius:.3f}: T* {hard.before:.2f} -> {hard.after:.2f}")
    print(
        f"  best extra arm {np.round(extra.features, 3).tolist()}: "
        f"T* {extra.before:.2f} -> {extra.after:.2f}, "
        f"weight {extra.weight:.3f}"
    )
    save(config, figures.design_figure(instance, hard, extra), "design")


def never(t, delta):
    """A threshold that no run reaches, for traces whose pulls alone matter."""
    return 1e9 + 0 * t


def regret(config: Allocations) -> None:
    """Compute R(t) of five runs per rule, and the theorem's bounds with the largest."""
    instance, problem = two_dimensional(5, 0.1), je.BestArm()
    times = np.unique(np.geomspace(5, config.length, 150).astype(int))
    value, drawn = float(je.complexity(instance, problem, 1e-10).value), {}
    print(
        f"regret: two-dimensional example, K = 5, eps = 0.1; "
        f"R after {config.length} samples over H*, and bounds with it"
    )
    for name, rule in (
        ("none", None),
        ("Oracle", je.Oracle()),
        ("LinGame", je.LinGame()),
        ("FWS", je.FWS()),
        ("LinGapE", je.LinGapE()),
    ):
        given = None
        if rule is not None:
            common = dict(threshold=never, max_samples=config.length, ridge=1.0)
            traces = [je.trace(instance, problem, rule, run=run, **common) for run in range(5)]
            each = [je.information_regret(one, instance, problem, times) for one in traces]
            drawn[name] = times, np.stack([one.regret for one in each])
            given = cx.InformationRegret(times, drawn[name][1].max(0), value)
        bounds = je.elimination_bounds(instance, problem, 0.01, regret=given)
        last = given(config.length) / value if given else 0.0
        print(
            f"  {name:8s} R/H* = {last:7.1f}   LLR {bounds.llr}, "
            f"selective {bounds.selective.tolist()}, "
            f"full {bounds.full.tolist()}, f = {bounds.difference:.0f}"
        )
    save(config, information_regret_figure(drawn, value), "regret")


def runs(config: Allocations) -> None:
    """Compare stopping times with the bounds, and pulls with w*, on linear-d10."""
    instance, problem, delta = je.load_instance("linear-d10"), je.BestArm(), 0.01
    found = je.complexity(instance, problem, 1e-10)
    lower, practical = (
        je.sample_bound(delta, found),
        je.practical_time(delta, found),
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
    return je.price(instance, problem, share / share.sum())


def practical(config: Allocations) -> None:
    """Print the oracle's mean stopping time over the practical bound."""
    two = je.Instance.unstructured([0.5, 0.0], name="two arms")
    print(f"practical: mean tau of the oracle over T* beta, {config.runs} runs")
    for instance in [*map(je.load_instance, ("linear-d10", "linear-d20", "unstructured-k40")), two]:
        found = je.complexity(instance, je.BestArm())
        for delta in (0.1, 0.01, 1e-4, 1e-8):
            time = je.practical_time(delta, found, je.Heuristic())
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
        {
            "bracket": bracket,
            "gradients": gradients,
            "example": example,
            "design": design,
            "regret": regret,
            "runs": runs,
            "practical": practical,
        }[name](config)


if __name__ == "__main__":
    cli.use_all_cores()
    sys.exit(cli.guarded("allocations", lambda: main(tyro.cli(Allocations, description=__doc__))))
