"""Live runs of rules on tiny instances, beside the simulated runs that they repeat."""

import dataclasses
import math
from typing import Any

import numpy as np

import jaxelim as je
from jaxelim import catalogue

LINEAR = je.Instance(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]), [1.5, 0.4], noise_std=2.0)
COINS = je.Instance.unstructured([0.9, 0.3, 0.2], je.Bernoulli())
TOP = je.Instance.unstructured([1.6, 1.2, 0.0, -0.4])

NAMES = ("red", "green", "blue")


def coins(arms: Any = NAMES, **changes: Any) -> je.LiveRun:
    """A live run of coins in turn, with the default threshold."""
    given: dict[str, Any] = dict(family=je.Bernoulli(), stopping=je.SelectiveElimination())
    return je.LiveRun(arms, je.BestArm(), je.Uniform(), **{**given, **changes})


@dataclasses.dataclass(frozen=True)
class Case:
    """A simulated run."""

    instance: je.Instance
    problem: Any
    rule: Any
    stopping: Any = je.SelectiveElimination()
    elimination: Any = None
    delta: float = 0.1
    seed: int = 3
    run: int = 5
    initial_pulls: int | None = None
    threshold: Any = je.Heuristic()

    @property
    def _common(self) -> dict[str, Any]:
        names = ("stopping", "elimination", "delta", "seed", "run", "initial_pulls", "threshold")
        return {name: getattr(self, name) for name in names}

    def traced(self, **changes: Any) -> je.Trace:
        """The simulated run."""
        given = {"max_samples": 4000, **self._common, **changes}
        return je.trace(self.instance, self.problem, self.rule, **given)

    def live(self, arms: Any = None, **changes: Any) -> je.LiveRun:
        """A live run with the same arguments."""
        arms = self.instance.arms if arms is None else arms
        given = {"family": self.instance.family, **self._common, **changes}
        return je.LiveRun(arms, self.problem, self.rule, **given)


def of_rule(kind: type) -> Case:
    """The case of a registered rule: with elimination at sampling where it has one."""
    traits = kind.traits
    linear = traits.families is not None
    instance = LINEAR if "linear" in traits.structures and linear else COINS
    rule = kind(weights=[0.5, 0.3, 0.2]) if kind is je.Oracle else kind()
    stopping: Any = je.SelectiveElimination()
    if "selective" not in traits.stopping:
        stopping = je.Native()
    elimination = je.SelectiveElimination() if traits.elimination else None
    if rule.traits.native == "always":
        stopping, elimination = je.Native(), None
    return Case(instance, je.BestArm(), rule, stopping, elimination)


EASY = je.Instance(LINEAR.arms, [3.0, 0.4])
BY_RULE = {name: of_rule(kind) for name, kind in catalogue.rules().items()}
BY_RULE["xy-adaptive"] = dataclasses.replace(BY_RULE["xy-adaptive"], instance=EASY)
SELECTIVE = je.SelectiveElimination()
OTHERS = {
    "resets": Case(TOP, je.TopM(2), je.LinGapE(), elimination=je.Resets(
        je.FullElimination(), alpha=je.Heuristic(), t0=3.0)),
    "lucb-pairs": Case(COINS, je.BestArm(), je.LUCB(pulls=2), SELECTIVE, SELECTIVE),
    "items": Case(LINEAR, je.BestArm(items=[[1.0, 0.2], [0.1, 1.0]]), je.RAGE(), je.Native()),
}  # fmt: skip
DEFAULT = dict(threshold=je.Mixture())
PROVEN = {
    "signs": Case(je.Instance.unstructured([1.6, 0.9, -0.4], je.Gaussian(std=[1.0, 2.0, 0.5])),
                  je.Thresholding(0.3), je.Uniform(), **DEFAULT),
    "full": Case(je.Instance.unstructured([1.6, 0.9, -0.4]), je.BestArm(), je.Uniform(),
                 je.FullElimination(), **DEFAULT),
    "items, mixture": Case(LINEAR, je.BestArm(items=[[1.0, 0.2], [0.1, 1.0]]), je.Uniform(),
                           **DEFAULT),
    "slack": Case(je.Instance.unstructured([2.0, 1.9, 0.5], je.Poisson()), je.BestArm(epsilon=0.4),
                  je.EBTCI(), je.LLR(), **DEFAULT),
    "native": Case(je.Instance.unstructured([1.6, 0.9, -0.4]), je.BestArm(), je.Racing(),
                   je.Native(), **DEFAULT),
    "exponential": Case(je.Instance.unstructured([3.0, 1.0, 0.5], je.Exponential()), je.BestArm(),
                        je.TTUCB(), **DEFAULT),
    "unknown variance": Case(
        je.Instance.unstructured([2.0, 0.0, -0.5], je.GaussianUnknownVariance()), je.BestArm(),
        je.EBTCI(), initial_pulls=3, **DEFAULT),
}  # fmt: skip
"""Runs with the default threshold of live runs."""
CASES = {**BY_RULE, **OTHERS, **PROVEN}


def same_run(live: je.LiveRun, traced: je.Trace) -> None:
    """Assert that a live run ended as the simulated one."""
    assert live.stopped and traced.stopped
    assert live.samples == traced.samples
    np.testing.assert_array_equal(live.answer, traced.answer)
    np.testing.assert_array_equal(live.counts, traced.pulls)
    if traced.elimination_times is not None:
        np.testing.assert_array_equal(live.elimination_times, traced.elimination_times)


def traces(run: je.LiveRun) -> int:
    """How many programs the functions of a run were compiled to."""
    return sum(one.jit._cache_size() for one in run._fold.programs.values())


def fed(live: je.LiveRun, traced: je.Trace, last: int | None = None) -> None:
    """Tell a live run the simulated rewards, one by one, and compare every pull."""
    for s in range(live.told, traced.samples if last is None else last):
        assert not live.stopped, s
        arm = live.ask()
        assert arm == traced.arms[s] and live.ask() == arm, s
        live.tell(arm, traced.rewards[s])


def log_pair(n_i: int, n_k: int, off: float) -> float:
    """log of the mixture of a pair of arms, `off` from the difference of their means."""
    c = np.array([3.0, 10, 30, 100, 300, 1000])
    a, b = n_i**2 / (n_i + c), n_k**2 / (n_k + c)
    one = a * b / (a + b) * off**2 / 2 - (np.log1p(n_i / c) + np.log1p(n_k / c)) / 2
    return math.log(np.mean(np.exp(one)))


def log_one(n: int, off: float) -> float:
    """log of the mixture of one arm, `off` from its mean."""
    c = np.array([3.0, 10, 30, 100, 300, 1000])
    return math.log(np.mean(np.exp(n * n / (n + c) / 2 * off**2 - np.log1p(n / c) / 2)))
