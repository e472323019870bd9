"""The cost of a sample in each reward family, beside Gaussian rewards of known variance."""

import time

import numpy as np

import jaxelim as je
from benchmarks.report import Section, Sitting, typical

SIZES = (5, 40)
RULES = {
    "uniform": je.Uniform(),
    "k-learner": je.LinGame(),
    "kl-lucb": je.LUCB(),
    "track-and-stop": je.TrackAndStop(),
}
STOPPING = {
    "llr": je.LLR(),
    "selective": je.SelectiveElimination(),
    "full": je.FullElimination(),
}


def instance(family: str, arms: int) -> je.Instance:
    """Equally spaced means; the best a little apart."""
    means = np.append(np.linspace(0.3, 0.1, arms - 1), 0.35)
    kind: je.Family = {
        "gaussian": je.Gaussian(),
        "bernoulli": je.Bernoulli(),
        "poisson": je.Poisson(),
        "exponential": je.Exponential(),
        "unknown-variance": je.GaussianUnknownVariance(),
    }[family]
    return je.Instance.unstructured(means, kind)


def _measured(family: str, arms: int, rule: str, stopping: str, runs: int, cap: int, calls: int):
    """Processor time of calls of one compiled program: all runs have the same length."""

    def call() -> dict:
        began = time.process_time()
        result = je.simulate(
            instance(family, arms), je.BestArm(), RULES[rule], delta=1e-30,
            stopping=STOPPING[stopping], runs=runs, max_samples=cap, ridge=None,
            engine=je.Engine(devices=1),
        )  # fmt: skip
        return {
            "cpu_seconds": time.process_time() - began,
            "samples_drawn": int(result.samples.sum()),
        }

    began = time.perf_counter()
    first = call()
    found = [call() for _ in range(calls)]
    return {"first": first, "calls": found, "process_wall_seconds": time.perf_counter() - began}


def run(sitting: Sitting) -> Section:
    """Time runs that never stop, on best arm, observed by one stopping rule."""
    section = Section("Reward families on best arm: processor time per sample, one device")
    runs = sitting.runs or (64 if sitting.quick else 1000)
    families = ("gaussian", "bernoulli") if sitting.quick else (
        "gaussian", "bernoulli", "poisson", "exponential", "unknown-variance",
    )  # fmt: skip
    for arms in SIZES[:1] if sitting.quick else SIZES:
        cap = sitting.max_samples or (512 if sitting.quick else 2048 if arms == 5 else 1024)
        for rule in list(RULES)[:2] if sitting.quick else RULES:
            plain: dict[str, float] = {}
            for family in families:
                if rule == "track-and-stop" and family in ("gaussian", "unknown-variance"):
                    continue  # another solver; no divergence
                for stopping in STOPPING if rule == "uniform" else ("llr",):

                    def measure(family=family, rule=rule, stopping=stopping, arms=arms, cap=cap):
                        calls = sitting.repeats or 3
                        return _measured(family, arms, rule, stopping, runs, cap, calls)

                    def row(
                        found, family=family, rule=rule, stopping=stopping, arms=arms, plain=plain
                    ):
                        us = typical(found)
                        if family == "gaussian":
                            plain[stopping] = us
                        return {
                            "rule": rule, "K": arms, "family": family, "stopping": stopping,
                            "us/sample": us,
                            "x gaussian": us / plain[stopping] if stopping in plain else None,
                        }  # fmt: skip

                    section.attempt(f"{rule}, K = {arms}, {family}, {stopping}", measure, row)
    section.notes.append("Track-and-Stop solves at every sample, with Newton's method.")
    return section
