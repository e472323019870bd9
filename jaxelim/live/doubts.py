"""Whether the rewards of a live run contradict their family."""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from jaxelim.contracts.proofs import GAUSSIAN, UNKNOWN_VARIANCE

if TYPE_CHECKING:
    from jaxelim.live.run import LiveRun

FEWEST = 100
"""Fewest rewards of an arm of which a share of equal ones is judged."""
ALPHA = 1e-5
"""The chance of a false alarm at one look, of the test of the variance."""


def doubt(run: "LiveRun") -> list[str]:
    """Why the rewards are not those of the family, in words; nothing where nothing is found.

    Gaussian and exponential rewards: more than half of 100 or more rewards of an arm are equal.
    Rewards with a density are never equal; rounded to half a standard deviation, with probability
    below 1e-8. Gaussian rewards of a known standard deviation: their variance is larger, by
    the chi-square test at level `ALPHA`.
    """
    family: Any = run._job.call.instance.family
    law = family.stated_law()
    if law not in (GAUSSIAN, UNKNOWN_VARIANCE) and family.name != "exponential":
        return []
    of_arms = _rewards(run)
    for name, rewards in zip(run.names, of_arms, strict=True):
        values, counts = np.unique(rewards, return_counts=True)
        if rewards.size >= FEWEST and counts.max() > rewards.size / 2:
            share, value = counts.max() / rewards.size, values[counts.argmax()]
            return [_doubted(f"{share:.0%} of the rewards of {name} are {value:g}")]
    if law == GAUSSIAN:
        stds = np.broadcast_to(family.std, len(of_arms))
        squares = sum(
            x.size * x.var() / std**2 for x, std in zip(of_arms, stds, strict=True) if x.size
        )
        freedom = sum(max(x.size - 1, 0) for x in of_arms)
        if freedom and scipy.special.chdtrc(freedom, squares) < ALPHA:
            times = (squares / freedom) ** 0.5
            return [_doubted(f"their standard deviation is {times:.3g} times that of {family!r}")]
    return []


def _doubted(what: str) -> str:
    return (
        f"WARNING: {what}. So the rewards are not of this law, and nothing here is proven: not the "
        "answer, p or intervals. Bounded(low, high) needs no law but an interval of the rewards."
    )


def _rewards(run: "LiveRun") -> list[np.ndarray]:
    """The rewards of each arm, in order."""
    of_arms: list[list[float]] = [[] for _ in run.names]
    for event in run._events:
        for k, reward in zip(event.get("tell", ()), event.get("rewards", ()), strict=True):
            of_arms[k].append(reward)
    return list(map(np.array, of_arms))
