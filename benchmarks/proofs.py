"""The cost of a step with a mixture's test, beside one with the heuristic threshold."""

import time

import numpy as np

import jaxelim as je
from benchmarks.report import Section, Sitting, typical

FAMILIES = {
    "gaussian": (je.Gaussian(), (0.5, 0.4, 0.3, 0.2, 0.1), 0.2),
    "bernoulli": (je.Bernoulli(), (0.5, 0.4, 0.3, 0.2, 0.1), 0.35),
    "poisson": (je.Poisson(), (2.0, 1.6, 1.4, 1.2, 1.0), 1.5),
    "exponential": (je.Exponential(), (1.0, 0.8, 0.6, 0.5, 0.4), 0.6),
    "unknown-variance": (je.GaussianUnknownVariance(), (0.5, 0.4, 0.3, 0.2, 0.1), 0.2),
}
"""Each family, five means, and the mean of the 19 others where K = 20."""
RULES = {"uniform": je.Uniform(), "lucb": je.LUCB()}
THRESHOLDS = {"heuristic": je.Heuristic(), "mixture": je.Mixture()}


def instance(family: str, arms: int) -> je.Instance:
    """The instance of a family with 5 or 20 arms."""
    kind, means, other = FAMILIES[family]
    means = means if arms == 5 else (means[0], *(other,) * (arms - 1))
    return je.Instance.unstructured(means, kind)


def _measured(family: str, arms: int, rule: str, runs: int, cap: int, calls: int) -> dict:
    """Processor time of a step of all lanes, by turns under both thresholds.

    A step counts by its samples, those of idle lanes too, so that the ends of calls do not
    count against the shorter runs.
    """

    def call(threshold: str, seed: int) -> dict:
        began = time.process_time()
        result = je.simulate(
            instance(family, arms), je.BestArm(), RULES[rule], delta=0.01, runs=runs, seed=seed,
            threshold=THRESHOLDS[threshold], max_samples=cap, ridge=None,
            engine=je.Engine(devices=1, shrink=False),
        )  # fmt: skip
        return {
            "cpu_seconds": time.process_time() - began,
            "samples_drawn": int(result.timings["samples_computed"]),
            "mean_samples": float(result.samples.mean()),
        }

    began = time.perf_counter()
    first = {name: call(name, 0) for name in THRESHOLDS}
    found = [{name: call(name, 1 + seed) for name in THRESHOLDS} for seed in range(calls)]
    return {"first": first, "calls": found, "process_wall_seconds": time.perf_counter() - began}


def run(sitting: Sitting) -> Section:
    """Time LLR stops on best arm, delta = 0.01, under both thresholds."""
    section = Section("Steps with a mixture's test: processor time per computed sample, one device")
    runs = sitting.runs or (64 if sitting.quick else 1000)
    cap = sitting.max_samples or (4096 if sitting.quick else 200_000)
    for family in list(FAMILIES)[:2] if sitting.quick else FAMILIES:
        for arms in (5,) if sitting.quick else (5, 20):
            for rule in RULES:

                def measure(family=family, arms=arms, rule=rule):
                    return _measured(family, arms, rule, runs, cap, sitting.repeats or 3)

                def row(found, family=family, arms=arms, rule=rule):
                    each = {
                        name: typical({"calls": [one[name] for one in found["calls"]]})
                        for name in THRESHOLDS
                    }
                    ratios = [
                        one["mixture"]["cpu_seconds"] / one["mixture"]["samples_drawn"]
                        / (one["heuristic"]["cpu_seconds"] / one["heuristic"]["samples_drawn"])
                        for one in found["calls"]
                    ]  # fmt: skip
                    return {
                        "family": family, "K": arms, "rule": rule,
                        **{f"{name}, us": us for name, us in each.items()},
                        "ratio": float(np.median(ratios)),
                    }  # fmt: skip

                section.attempt(f"{family}, K = {arms}, {rule}", measure, row)
    section.notes.append("A run looks at few of its times, and only where its LLR is large enough.")
    return section
