"""Instances of a check: other orders of the arms, near ties, equal rivals, hard ones.

On one instance alone a fixed answer may be right, and so may a stop after no evidence.
"""

import dataclasses
from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Family, Problem
from jaxelim.errors import JaxelimError, UnsupportedError
from jaxelim.families import Gaussian
from jaxelim.instances.instance import Instance

MOST = 8
"""Most orders of one instance's arms."""

NEAR = 0.05
"""Gaps of the instances with near ties, over those of the instance that they are made of."""


def easy_instance(structure: str) -> Instance:
    """A small instance of a structure, with Gaussian rewards, on which runs are short."""
    if structure == "unstructured":
        return Instance(np.eye(4), [1.2, 0.5, -0.6, -1.0], name="easy, unstructured")
    angles = np.array([0.1, 0.9, 2.2, 3.5, 4.4])
    return Instance(np.stack([np.cos(angles), np.sin(angles)], 1), [1.5, 0.5], name="easy, linear")


def accepted(problem: Problem, instance: Instance) -> bool:
    """Whether the problem has a right answer there."""
    try:
        problem.check_arms(instance.arms)
        problem.check(instance.arms, instance.theta)
    except JaxelimError:
        return False
    return True


def orders(problem: Problem, instance: Instance) -> list[Instance]:
    """The instance, and its arms rotated: with up to `MOST` arms each is first once.

    A batch gives its instances as they are. An order that the problem refuses is left out.
    """
    if instance.batched:
        return list(instance)
    shifts = np.unique(np.linspace(0, instance.K, MOST, endpoint=False).astype(int))[1:]
    others = [_rotated(instance, int(shift)) for shift in shifts]
    return [instance, *(other for other in others if accepted(problem, other))]


def _rotated(instance: Instance, shift: int) -> Instance:
    """The instance with its arms, and settings of each arm, moved by `shift` places."""

    def moved(one: Any) -> Any:
        if not dataclasses.is_dataclass(one):
            return one
        fields = {x.name: getattr(one, x.name) for x in dataclasses.fields(one)}
        return dataclasses.replace(one, **{  # type: ignore[type-var]
            name: x[-shift:] + x[:-shift] for name, x in fields.items()
            if isinstance(x, tuple) and len(x) == instance.K})  # fmt: skip

    turned = "arms" if instance.structure == "linear" else "theta"
    return instance.replace(**{
        turned: np.roll(getattr(instance, turned), shift, 0),
        "family": moved(instance.family), "source": moved(instance.source),
        "costs": None if instance.costs is None else np.roll(instance.costs, shift),
    })  # fmt: skip


def variants(problem: Problem, instance: Instance, delta: float, steps: int) -> list[tuple]:
    """What a rule is tried on: words, orders of an instance, whether runs end, arguments.

    It is the instance, at delta and a tenth of it. For best arm, top m and signs it is the
    instance with its gaps times `NEAR`, too. For best arm it is the one whose arms but the best
    have the mean of the second: a rule may starve one of equal rivals.
    """
    mixed = orders(problem, instance)
    found: list[tuple] = [("", mixed, True, {}), (", delta/10", mixed, True, {"delta": delta / 10})]
    level, linear = getattr(problem, "level", None), instance.structure == "linear"
    known = problem.name in ("best-arm", "top-m", "thresholding") and not (linear and level)
    if instance.batched or not known:
        return found
    means = instance.means
    centre, ordered = means.mean() if level is None else level, np.sort(means)
    second, best = ordered[[-2 % means.size, -1]]
    near, equal = centre + NEAR * (means - centre), np.where(means == best, best, second)
    few = {"max_samples": min(steps, 300 + 2 * instance.K)}
    others = [(f", gaps times {NEAR}", near, False, few), (", equal rivals", equal, True, {})]
    for words, of_arms, ends, other in others[: 1 if linear or problem.name != "best-arm" else 2]:
        try:
            theta = NEAR * instance.theta if linear else instance.family.link(of_arms)
            one = instance.replace(theta=theta)
        except JaxelimError:  # the source has means of its own
            continue
        found.append((words, orders(problem, one), ends, other))
    return found


def means_at(family: Family, z: Any) -> np.ndarray:
    """Means inside the family's range, increasing in z."""
    low, high = getattr(family, "low", -np.inf), getattr(family, "high", np.inf)
    z = np.asarray(z, float)
    if np.isfinite(high - low):
        return low + (high - low) / (1 + np.exp(-2 * z))
    if np.isfinite(low):
        return low + np.exp(1.5 * z)
    return high - np.exp(-1.5 * z) if np.isfinite(high) else 3 * z


def hard_instance(
    problem: Problem,
    family: Family | None = None,
    arms: int = 4,
    gap: float = 1e-4,
    all_near: bool = False,
) -> Instance:
    """An unstructured instance with one true piece, or all, within `gap` of its boundary.

    With one, the other arms are far off and soon settled: the best arm and one rival,
    the m-th arm and the next, or one arm at the level. With all, every mean is `gap`
    from every other, or from the level, at most. The centre is the level for signs.
    Else it is the middle of the family's range: 0 if it has no ends, 1 above its only
    one. The better arms come last, since ties go to the first.

    Args:
        problem: best arm, top m or signs.
        family: of the rewards; None: Gaussian(1.0).
        arms: K >= 2, or 1 for signs.
        gap: between near means, > 0.
        all_near: whether all arms are near.

    Raises:
        UnsupportedError: another problem.
        ArgumentError: arms or gap is out of range.
    """
    gap = checks.real("gap", gap, low=0, open=True)
    family = Gaussian() if family is None else family
    signs = problem.name == "thresholding"
    arms = checks.integer("arms", arms, low=1 if signs else 2)
    if not signs and problem.name not in ("best-arm", "top-m"):
        allowed = "best-arm, top-m, thresholding; for others give an instance"
        raise UnsupportedError("problem", problem, allowed)
    centre = problem.level if signs else float(means_at(family, 0))  # type: ignore[attr-defined]
    ends = (getattr(family, "low", -np.inf), getattr(family, "high", np.inf))
    room = np.abs(np.array(ends, float) - centre)
    far = 4 * room.min() if np.isfinite(room).any() else 3 * np.max(getattr(family, "std", 1.0))
    below, above = np.where(np.isfinite(room), 0.9 * room, far)
    place = np.arange(arms) - arms + ((arms + 1) // 2 if signs else problem.m)
    near = (place == 0) | ((place == -1) & (not signs)) | all_near
    means = np.where(place >= 0, above, -below)
    means = centre + np.where(near, gap * np.where(place >= 0, 0.5, -0.5), means)
    name = "all near" if all_near else "one near"
    return Instance(np.eye(arms), means, name=name, family=family)
