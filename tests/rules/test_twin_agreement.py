"""The engine against the NumPy twin on random small instances.

Every row of `ROWS` is one compiled program: a batch of instances times a few rows of
noise. The engine plays it in one call and the twin run by run. All results must be
equal, not close, since one different choice changes them all. They are samples,
answers, pulls, elimination times, both counts of tests, and stops. A new rule needs one
more row.
"""

import dataclasses
import zlib
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from tests import twin

INSTANCES, RUNS, PULLS = 4, 2, 250
LEVEL, REFERENCE = 0.3, 3.0


@dataclasses.dataclass(frozen=True)
class Shape:
    """A batch of random instances of K arms in d dimensions, and m for top m."""

    K: int
    d: int
    m: int
    kind: str = "random"
    ridge: float = 1.0
    noise_std: float = 1.0

    def instance(self, seed: int) -> je.Instance:
        """Random features and parameters, with theta so long that most runs stop."""
        rng = np.random.default_rng(seed)
        theta = 2.0 * rng.normal(size=(INSTANCES, self.d))
        if self.kind == "unstructured":
            return je.Instance(np.eye(self.K), theta, self.noise_std)
        arms = rng.normal(size=(INSTANCES, self.K, self.d))
        means = np.einsum("ikd,id->ik", arms, theta)
        first, second = np.argsort(-means, 1)[:, :2].T
        lowest = np.argmin(means, 1)
        for i in range(INSTANCES):
            if self.kind == "near-equal":
                # Move the second arm 1e-9 below the best arm or the worst.
                beside = first[i] if i % 2 else lowest[i]
                arms[i, second[i]] = arms[i, beside] - 1e-9 * theta[i] / np.linalg.norm(theta[i])
            if self.kind == "identical":
                arms[i, second[i]] = arms[i, lowest[i]]
        return je.Instance(arms, theta, self.noise_std)


SHAPES = {
    "K = d": Shape(4, 4, 2),
    "K = d + 1": Shape(5, 4, 2, ridge=0.0),
    "unstructured": Shape(5, 5, 2, "unstructured"),
    "near-equal": Shape(6, 3, 2, "near-equal"),
    "identical": Shape(6, 4, 3, "identical"),
    "K >> d": Shape(9, 2, 3, noise_std=0.5),
}

PROBLEMS = {
    "best-arm": lambda shape: (je.BestArm(), ("bai",)),
    "top-m": lambda shape: (je.TopM(shape.m), ("topm", shape.m)),
    "thresholding": lambda shape: (je.Thresholding(LEVEL), ("osi", LEVEL)),
    "best-or-none": lambda shape: (je.BestArm(reference=REFERENCE), ("reference", REFERENCE)),
}


def weights(shape):
    """Oracle allocations, one per instance, each with an arm of weight 0."""
    w = np.random.default_rng(7).dirichlet(np.ones(shape.K), size=INSTANCES)
    w[:, -1] = 0.0
    return w / w.sum(1, keepdims=True)


RULES = {
    "uniform": lambda shape: (je.Uniform(), [{}] * INSTANCES),
    "oracle": lambda shape: (je.Oracle(weights(shape)), [{"weights": w} for w in weights(shape)]),
    "lingape": lambda shape: (je.LinGapE(), [{}] * INSTANCES),
    "lingame": lambda shape: (je.LinGame(), [{}] * INSTANCES),
    "optimistic lingame": lambda shape: (
        je.OptimisticLinGame(),
        [{"optimistic": True}] * INSTANCES,
    ),
    "fws": lambda shape: (je.FWS(), [{}] * INSTANCES),
    "lazy_tas": lambda shape: (je.LazyTaS(), [{}] * INSTANCES),
    "lucb": lambda shape: (je.LUCB(), [{}] * INSTANCES),
    "lingifa": lambda shape: (je.LinGIFA(), [{}] * INSTANCES),
}
"""The engine's rule and the twin's settings per instance.

The last word of a name is the twin's name of the rule.
"""

STOPPING = {"llr": je.LLR(), "selective": je.SelectiveElimination(), "full": je.FullElimination()}


def log_inverse(t, delta):
    """A threshold so low that one early test may eliminate everything."""
    return jnp.zeros_like(t) - jnp.log(delta)


THRESHOLDS = {
    "heuristic": (je.Heuristic(), twin.heuristic),
    "log(1/delta)": (log_inverse, lambda t, delta: -np.log(delta)),
}

USUAL, WIDE = (0.05,), (0.9, 0.01)
# Greedy LinGame on differences is left out for linear arms with K = d: its choices tie
# exactly. phi_k' V_w^-1 (phi_i - phi_j) is 0 for every other arm k, and equal weights
# on i and j give equal gains.
ROWS: list[tuple[str, str, str, str | None, tuple[float, ...], str]] = [
    # rule, problem, shape, elimination at sampling, deltas, threshold
    ("uniform", "best-arm", "near-equal", None, WIDE, "log(1/delta)"),
    ("uniform", "top-m", "K >> d", None, WIDE, "log(1/delta)"),
    ("uniform", "thresholding", "K = d", None, WIDE, "log(1/delta)"),
    ("oracle", "best-arm", "K = d + 1", None, USUAL, "heuristic"),
    ("oracle", "top-m", "identical", None, USUAL, "heuristic"),
    ("oracle", "thresholding", "unstructured", None, USUAL, "heuristic"),
    ("lingape", "best-arm", "near-equal", None, WIDE, "heuristic"),
    ("lingape", "best-arm", "K >> d", "selective", USUAL, "heuristic"),
    ("lingape", "best-arm", "unstructured", "full", USUAL, "heuristic"),
    ("lingape", "top-m", "identical", None, USUAL, "heuristic"),
    ("lingape", "top-m", "unstructured", "selective", USUAL, "heuristic"),
    ("lingape", "top-m", "near-equal", "full", USUAL, "heuristic"),
    ("lingape", "thresholding", "K = d + 1", None, USUAL, "heuristic"),
    ("lingape", "thresholding", "identical", "selective", USUAL, "heuristic"),
    ("lingape", "thresholding", "K = d", "full", USUAL, "heuristic"),
    ("lingame", "best-arm", "identical", None, WIDE, "heuristic"),
    ("lingame", "best-arm", "K >> d", "selective", USUAL, "heuristic"),
    ("lingame", "best-arm", "near-equal", "full", USUAL, "heuristic"),
    ("lingame", "top-m", "unstructured", None, USUAL, "heuristic"),
    ("lingame", "top-m", "K = d + 1", "selective", USUAL, "heuristic"),
    ("lingame", "top-m", "K >> d", "full", USUAL, "heuristic"),
    ("lingame", "thresholding", "K = d", None, USUAL, "heuristic"),
    ("lingame", "thresholding", "unstructured", "selective", USUAL, "heuristic"),
    ("optimistic lingame", "best-arm", "K = d", None, USUAL, "heuristic"),
    ("fws", "best-arm", "K >> d", "selective", USUAL, "heuristic"),
    ("lazy_tas", "thresholding", "K = d + 1", "selective", USUAL, "heuristic"),
    ("lucb", "top-m", "unstructured", "selective", USUAL, "heuristic"),
    ("lingifa", "top-m", "identical", None, USUAL, "heuristic"),
    ("uniform", "best-or-none", "K >> d", None, WIDE, "log(1/delta)"),
    ("uniform", "best-or-none", "unstructured", None, WIDE, "log(1/delta)"),
    ("lingape", "best-or-none", "K = d + 1", "full", USUAL, "heuristic"),
    ("lingame", "best-or-none", "identical", "selective", USUAL, "heuristic"),
    ("optimistic lingame", "best-or-none", "K = d", None, USUAL, "heuristic"),
    ("fws", "best-or-none", "near-equal", "selective", USUAL, "heuristic"),
    ("lazy_tas", "best-or-none", "K = d + 1", None, USUAL, "heuristic"),
]


def label(row) -> str:
    rule, problem, shape, elimination, _, _ = row
    return f"{rule}, {problem}, {shape}, {elimination}"


SLOW = (
    "uniform, top-m, K >> d, None",
    "oracle, top-m, identical, None",
    "lingape, top-m, near-equal, full",
    "lingame, best-arm, identical, None",
    "lingame, top-m, K >> d, full",
    "lingame, thresholding, unstructured, selective",
    "lingame, thresholding, K = d, None",
    "lingape, top-m, unstructured, selective",
    "lingame, top-m, unstructured, None",
    "lingame, best-arm, K >> d, selective",
    "lingape, thresholding, identical, selective",
    "uniform, thresholding, K = d, None",
    "uniform, best-or-none, K >> d, None",
    "lingame, best-or-none, identical, selective",
    "optimistic lingame, best-or-none, K = d, None",
    "lazy_tas, best-or-none, K = d + 1, None",
)
"""Rows covered by other rows, one part at a time; most of the compile time."""


@pytest.mark.slow_rows(
    "optimistic lingame, best-arm, K = d, None",
    "fws, best-arm, K >> d, selective",
    "lazy_tas, thresholding, K = d + 1, selective",
    "lucb, top-m, unstructured, selective",
    "lingifa, top-m, identical, None",
    "uniform, best-or-none, unstructured, None",
)
@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.slow] if label(row) in SLOW else []) for row in ROWS],
    ids=label,
)
def test_agreement(row):
    rule_name, problem_name, shape_name, elimination, deltas, threshold_name = row
    shape = SHAPES[shape_name]
    seed = zlib.crc32(label(row).encode())
    instance = shape.instance(seed)
    noise = np.random.default_rng([1, seed]).standard_normal((RUNS, PULLS))
    problem, twins_problem = PROBLEMS[problem_name](shape)
    rule, settings = RULES[rule_name](shape)
    threshold, beta = THRESHOLDS[threshold_name]
    names = (elimination,) if elimination else ("llr", "selective", "full")

    ours = je.simulate(
        instance,
        problem,
        rule,
        delta=deltas,
        stopping=tuple(STOPPING[name] for name in names),
        runs=RUNS,
        noise=noise,
        elimination=STOPPING[elimination] if elimination else None,
        threshold=threshold,
        ridge=shape.ridge,
        record=("pair_times",),
        engine=je.Engine(devices=1),
    )
    assert ours.samples.shape == (INSTANCES, len(names), len(deltas), RUNS)

    for i, d, r in np.ndindex(INSTANCES, len(deltas), RUNS):
        theirs = twin.run(
            instance.arms[i],
            instance.theta[i],
            twins_problem,
            rule_name.split()[-1],
            noise=noise[r],
            delta=deltas[d],
            beta=beta,
            stopping=names,
            elimination=elimination,
            ridge=shape.ridge,
            noise_std=shape.noise_std,
            **settings[i],
        )
        for s, name in enumerate(names):
            compare(ours, (i, s, d, r), theirs.stops[name], name)


FIELDS = (
    "samples",
    "stopped",
    "truncated",
    "answer",
    "pulls",
    "elimination_times",
    "tests_stopping",
    "tests_sampling",
)


def compare(ours: je.Result, at: tuple, theirs: Any, name: str) -> None:
    for field in FIELDS:
        if field == "elimination_times" and name == "llr":
            continue  # nothing is eliminated; the array is from the eliminating observers
        np.testing.assert_array_equal(
            getattr(ours, field)[at], getattr(theirs, field), f"{field} of {name} at {at}"
        )
