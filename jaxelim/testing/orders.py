"""Instances of a check: the arms in other orders, and arms that nearly tie.

On one instance alone a fixed answer may be right, and so may a stop after no evidence.
"""

import dataclasses
from typing import Any

import numpy as np

from jaxelim.contracts import Problem
from jaxelim.errors import JaxelimError
from jaxelim.instances.instance import Instance

MOST = 8
"""Most orders of one instance's arms."""

NEAR = 0.05
"""Gaps of the instances with near ties, over those of the instance that they are made of."""


def orders(problem: Problem, instance: Instance) -> list[Instance]:
    """The instance, and its arms rotated: with up to `MOST` arms each is first once.

    A batch gives its instances as they are. An order that the problem refuses is left out.
    """
    if instance.batched:
        return list(instance)
    shifts = np.unique(np.linspace(0, instance.K, MOST, endpoint=False).astype(int))
    others = [rotated(instance, int(shift)) for shift in shifts if shift]
    return [instance, *(other for other in others if accepted(problem, other))]


def rotated(instance: Instance, shift: int) -> Instance:
    """The instance with its arms, and settings of each arm, moved by `shift` places."""
    order = np.roll(np.arange(instance.K), shift)
    costs = None if instance.costs is None else instance.costs[order]
    rest: dict = {name: _in_order(getattr(instance, name), order) for name in ("family", "source")}
    rest |= dict(name=instance.name, costs=costs)
    if instance.structure == "unstructured":
        return Instance(instance.arms, instance.theta[order], **rest)
    return Instance(instance.arms[order], instance.theta, **rest)


def _in_order(one: Any, order: np.ndarray) -> Any:
    """A family or a source with its settings of each arm in this order."""
    if not dataclasses.is_dataclass(one) or isinstance(one, type):
        return one
    arms, fields = len(order), {x.name: getattr(one, x.name) for x in dataclasses.fields(one)}
    moved = {
        name: tuple(value[k] for k in order)
        for name, value in fields.items()
        if isinstance(value, tuple) and len(value) == arms
    }
    return dataclasses.replace(one, **moved)


def accepted(problem: Problem, instance: Instance) -> bool:
    """Whether the problem has a right answer there."""
    try:
        problem.check_arms(instance.arms)
        problem.check(instance.arms, instance.theta)
    except JaxelimError:
        return False
    return True


def near(problem: Problem, instance: Instance) -> Instance | None:
    """The instance with its gaps times `NEAR`: the same answer, far from settled.

    None for a problem that is not best arm, top m or signs, a batch, and with a source.
    """
    known = problem.name in ("best-arm", "top-m", "thresholding")
    if not known or instance.batched or instance.source is not None:
        return None
    level = getattr(problem, "level", None)
    if instance.structure == "linear":
        if level:
            return None
        return Instance(instance.arms, NEAR * instance.theta, None, None, instance.family)
    centre = instance.means.mean() if level is None else level
    means = centre + NEAR * (instance.means - centre)
    return Instance.unstructured(means, instance.family)


def equal_rivals(problem: Problem, instance: Instance) -> Instance | None:
    """The instance with the mean of the second arm for all but the best: a rule may starve one.

    None for another problem than best arm, linear arms, a batch, and a source that has the
    means.
    """
    known = problem.name == "best-arm" and instance.structure == "unstructured"
    if not known or instance.batched:
        return None
    best = int(np.argmax(instance.means))
    means = np.full(instance.K, np.sort(instance.means)[-2])
    means[best] = instance.means[best]
    try:
        return Instance.unstructured(
            means, instance.family, source=instance.source, costs=instance.costs
        )
    except JaxelimError:
        return None
