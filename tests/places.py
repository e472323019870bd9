"""Instances and problems that the library and the twin both have."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import jaxelim as je
from tests import twin

STD = [0.8, 0.5, 1.0, 0.9, 0.6]  # a run is in units of the largest
REFERENCE = 3.0
PRICES = np.array([1.0, 8.0, 1.0, 1.0])


@dataclasses.dataclass(frozen=True)
class Place:
    """A batch of instances for the library, each a world of the twin; what problems ask there."""

    instance: je.Instance
    worlds: list
    level: float
    slack: float = 0.0
    reference: float | None = None
    m: int = 2
    ridge: float | None = None
    items: Any = None
    near_items: Any = None


# Linear Gaussian rewards.


def features(K, d, kind="random", count=4, seed=7):
    """Random arms and parameters, with theta so long that most runs stop."""
    rng = np.random.default_rng([seed, K, d])
    theta = 2.0 * rng.normal(size=(count, d))
    if kind == "unstructured":
        return np.broadcast_to(np.eye(K), (count, K, K)), theta
    arms = rng.normal(size=(count, K, d))
    means = np.einsum("ikd,id->ik", arms, theta)
    first, second = np.argsort(-means, 1)[:, :2].T
    lowest = np.argmin(means, 1)
    for i in range(count):
        if kind == "near-equal":  # the second arm is 1e-9 below the best arm or the worst
            beside = first[i] if i % 2 else lowest[i]
            arms[i, second[i]] = arms[i, beside] - 1e-9 * theta[i] / np.linalg.norm(theta[i])
        if kind == "identical":
            arms[i, second[i]] = arms[i, lowest[i]]
    return arms, theta


def linear(K, d, kind="random", m=2, ridge=1.0, noise_std=1.0, prices=None):
    arms, theta = features(K, d, kind)
    rng = np.random.default_rng([8, K, d])
    items = rng.normal(size=(4, d))
    near = np.concatenate([items, items[:1] + 1e-6 * rng.normal(size=(1, d))])
    near[[0, 4]] -= 3.0 * theta[:1] / np.linalg.norm(theta[0])  # the pair is seldom the best one's
    given = None if prices is None else prices / prices.mean()
    worlds = [twin.Linear(*one, noise_std, ridge, given) for one in zip(arms, theta, strict=True)]
    instance = je.Instance(arms, theta, noise_std, costs=prices)
    return Place(instance, worlds, 0.3, reference=REFERENCE, m=m, ridge=ridge, items=items,
                 near_items=near)  # fmt: skip


# Independent arms: two instances each, with ends of the range and equal means.


def arms(family, kind, means, level, slack, source=None, prices=None, ridge=None):
    instance = je.Instance.unstructured(means, family, source=source, costs=prices)
    return Place(instance, [kind(mu) for mu in means], level, slack, level, ridge=ridge)


NORMAL = [[2.0, -0.5, -1.5, 1.1, 0.0], [-1.0, 2.0, -1.5, 1.2, 0.9]]
COINS = [[0.9, 0.2, 0.25, 0.65, 0.0], [0.05, 1.0, 0.1, 0.8, 0.7]]
COUNTS = [[3.0, 0.5, 0.6, 2.0, 0.0], [0.1, 4.0, 0.3, 1.2, 2.2]]
TIMES = [[3.0, 0.5, 0.6, 1.4, 0.1], [0.1, 4.0, 0.3, 1.2, 2.2]]


def unknown(degrees):
    family = je.GaussianUnknownVariance(degrees)
    kind = lambda mu: twin.UnknownVariance(mu, STD, degrees)  # noqa: E731
    return arms(family, kind, NORMAL, 0.3, 0.4, je.families.Normal(STD))


def logistic(K, d):
    """Score gaps as of `features`, in a shorter theta."""
    phi, theta = features(K, d, "unstructured" if K == d else "random", count=2, seed=9)
    phi, theta = (phi, 0.6 * theta) if K == d else (phi / np.sqrt(d), 1.2 * theta)
    instance = je.Instance(phi, theta, family=je.Logistic())
    worlds = [twin.Logistic(*one) for one in zip(phi, theta, strict=True)]
    items = np.random.default_rng(10).normal(size=(4, d))
    return Place(instance, worlds, 0.45, items=items)


def shipped(name, m=1):
    one = je.load_instance(name)
    instance = je.Instance(one.arms[None], one.theta[None])
    return Place(instance, [twin.Linear(one.arms, one.theta)], 0.0, m=m, ridge=1.0)


PLACES: dict[str, Callable[[], Place]] = {
    "bernoulli": lambda: arms(je.Bernoulli(), twin.Bernoulli, COINS, 0.45, 0.2),
    "poisson": lambda: arms(je.Poisson(), twin.Poisson, COUNTS, 1.3, 0.4),
    "exponential": lambda: arms(je.Exponential(), twin.Exponential, TIMES, 1.1, 0.5),
    "gaussian": lambda: arms(je.Gaussian(), twin.Gaussian, NORMAL, 0.3, 0.4, ridge=0.0),
    "by-arm": lambda: arms(
        je.Gaussian(STD), lambda mu: twin.Gaussian(mu, STD), NORMAL, 0.3, 0.4
    ),
    "unknown": lambda: unknown("free"),
    "unknown, glr": lambda: unknown("glr"),
    "logistic": lambda: logistic(5, 3),
    "logistic basis": lambda: logistic(4, 4),
    "priced coins": lambda: arms(
        je.Bernoulli(), lambda mu: twin.Bernoulli(mu, PRICES / PRICES.mean()),
        [[0.9, 0.5, 0.45, 0.1], [0.2, 0.85, 0.6, 0.3]], 0.55, 0.1, prices=PRICES,
    ),
    "priced linear": lambda: linear(4, 2, noise_std=0.5, ridge=0.0, prices=PRICES),
    "priced basis": lambda: linear(4, 4, "unstructured", ridge=0.0, prices=PRICES),
    "one coin": lambda: arms(je.Bernoulli(), twin.Bernoulli, [[0.8], [0.3]], 0.45, 0.2),
    "one arm": lambda: arms(je.Gaussian(), twin.Gaussian, [[0.9], [-0.2]], 0.3, 0.4, ridge=0.0),
    "linear": lambda: linear(6, 3),
    "K = d": lambda: linear(4, 4),
    "K = d + 1": lambda: linear(5, 4, ridge=0.0),
    "unstructured": lambda: linear(5, 5, "unstructured"),
    "unstructured, 7": lambda: linear(7, 7, "unstructured", m=3, noise_std=0.4, ridge=0.0),
    "near-equal": lambda: linear(6, 3, "near-equal"),
    "identical": lambda: linear(6, 4, "identical", m=3),
    "K >> d": lambda: linear(9, 2, m=3, noise_std=0.5),
    "linear-d10-topm": lambda: shipped("linear-d10-topm", 3),
    "unstructured-k40-osi": lambda: shipped("unstructured-k40-osi"),
}  # fmt: skip
ARMS = tuple(PLACES)[:7]
"""Independent arms of one unknown each; the Gaussian ones of one variance run as linear ones."""


@functools.cache
def place(name):
    return PLACES[name]()


PROBLEMS = {
    "bai": lambda at: (je.BestArm(), ("bai",)),
    "topm": lambda at: (je.TopM(at.m), ("topm", at.m)),
    "osi": lambda at: (je.Thresholding(at.level), ("osi", at.level)),
    "slack": lambda at: (je.BestArm(epsilon=at.slack), ("slack", at.slack)),
    "reference": lambda at: (je.BestArm(reference=at.reference), ("reference", at.reference)),
    "items": lambda at: (je.BestArm(items=at.items), ("items", at.items)),
    "zone": lambda at: (
        je.Thresholding(at.level, epsilon=at.slack), ("osi", at.level, at.slack)
    ),
    "reference zone": lambda at: (
        je.BestArm(at.slack, reference=at.reference), ("reference", at.reference, at.slack)
    ),
    "near items": lambda at: (je.BestArm(items=at.near_items), ("items", at.near_items)),
}
