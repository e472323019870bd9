"""Instances of a check: the arms in other orders, and arms that nearly tie.

On one instance alone a fixed answer may be right, and so may a stop after no evidence.
"""

import dataclasses

import numpy as np

from jaxelim.contracts import Family, Problem
from jaxelim.errors import JaxelimError
from jaxelim.families import Recorded
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
    rest: dict = dict(name=instance.name, family=_in_order(instance.family, order), costs=costs)
    if instance.structure == "unstructured":
        return Instance(instance.arms, instance.theta[order], **rest)
    return Instance(instance.arms[order], instance.theta, **rest)


def _in_order(family: Family, order: np.ndarray) -> Family:
    """The family with its settings of each arm in this order."""
    if isinstance(family, Recorded):
        stacks = [family.rewards[k] for k in order]
        return Recorded(stacks, family.order, family=_in_order(family.family, order))
    arms = len(order)
    if family.for_arms(arms + 1) == family or not dataclasses.is_dataclass(family):
        return family
    fields = {field.name: getattr(family, field.name) for field in dataclasses.fields(family)}
    moved = {
        name: tuple(value[k] for k in order)
        for name, value in fields.items()
        if isinstance(value, tuple) and len(value) == arms
    }
    return dataclasses.replace(family, **moved)


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

    None for a problem that is not best arm, top m or signs, a batch, and recorded rewards.
    """
    known = problem.name in ("best-arm", "top-m", "thresholding")
    if not known or instance.batched or isinstance(instance.family, Recorded):
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

    None for another problem than best arm, linear arms, a batch, and a family that has the
    means.
    """
    known = problem.name == "best-arm" and instance.structure == "unstructured"
    if not known or instance.batched:
        return None
    best = int(np.argmax(instance.means))
    means = np.full(instance.K, np.sort(instance.means)[-2])
    means[best] = instance.means[best]
    try:
        return Instance.unstructured(means, instance.family, costs=instance.costs)
    except JaxelimError:
        return None
