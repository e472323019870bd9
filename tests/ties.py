"""Random instances where choices tie, and the runs on them that the layout changes: none."""

import dataclasses
from collections.abc import Iterator

import numpy as np

import jaxelim as je

ARMS, DIMENSIONS, TOP = 6, 3, 2
RUNS, LONGEST = 16, 300
PROBLEMS: tuple[je.contracts.Problem, ...] = (je.BestArm(), je.TopM(TOP), je.Thresholding(0.1))
DEFAULT = je.Engine(devices=1, shrink=False)
OPTIONS = {
    "one lane": {"shrink": True, "chunk": 16},
    "lanes, chunk, devices": {"lanes": 48, "chunk": 20, "devices": 2},
}

# Kinds of instances. Each is made of random arms [K, d] and theta [d].


def _random(rng: np.random.Generator, arms: int = ARMS, d: int = DIMENSIONS):
    return rng.normal(size=(arms, d)), rng.normal(size=d)


def _with_copy(rng: np.random.Generator, problem: je.contracts.Problem, d: int, shift: float):
    """One arm twice, `shift` apart; not one that would leave the answer open."""
    arms, theta = _random(rng, ARMS - 1, d)
    order = np.argsort(-(arms @ theta))
    again = {"best-arm": order[1], "top-m": order[0]}.get(problem.name, order[2])
    return np.concatenate([arms, arms[[again]] + shift * rng.normal(size=(1, d))]), theta


def independent(rng, problem):
    """As many arms as dimensions."""
    return je.Instance(*_random(rng, ARMS, ARMS))


def duplicated(rng, problem):
    """As many arms as dimensions, and one of them again."""
    return je.Instance(*_with_copy(rng, problem, ARMS - 1, 0.0))


def near(rng, problem):
    """Two arms 1e-8 apart."""
    return je.Instance(*_with_copy(rng, problem, DIMENSIONS, 1e-8))


def scaled(rng, problem):
    """One arm twice, and one coordinate 10^4 times as large."""
    arms, theta = _with_copy(rng, problem, DIMENSIONS, 0.0)
    scale = np.array([1e4, 1.0, 1.0])
    return je.Instance(arms * scale, theta / scale)


def basis(rng, problem):
    """Unstructured, Gaussian."""
    return je.Instance.unstructured(rng.normal(size=ARMS))


def coins(rng, problem):
    """Unstructured, Bernoulli."""
    return je.Instance.unstructured(rng.uniform(0.05, 0.95, ARMS), je.Bernoulli())


KINDS = (independent, duplicated, near, scaled, basis, coins)


def simulated(instance, problem, rule, layout, **settings) -> np.ndarray:
    """Samples, pulls and answers of each run: [run, numbers]."""
    native = rule.traits.stopping == ("native",)
    usual = dict(delta=0.1, runs=RUNS, max_samples=LONGEST, seed=5,
                 stopping=je.Native() if native else je.LLR())  # fmt: skip
    found = je.simulate(instance, problem, rule, engine=layout, progress=False, **usual | settings)
    return np.concatenate([found.samples[0, 0, :, None], found.pulls[0, 0], found.answer[0, 0]], 1)


def changed(instance, problem, rule) -> Iterator[tuple[str, int, int]]:
    """Each option, with the number of runs and of those that it changes; none if undefined."""
    try:
        known = simulated(instance, problem, rule, DEFAULT)
    except je.errors.ArgumentError:
        return
    for name, option in OPTIONS.items():
        layout = dataclasses.replace(DEFAULT, **option)
        found = simulated(instance, problem, rule, layout)
        yield name, len(known), int((found != known).any(1).sum())
