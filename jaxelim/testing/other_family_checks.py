"""The laws of a reward family that is no `OneParameter`: for `jaxelim.testing`.

Checks are as in `family_checks`. Such a family declares `low` and `high`, the range of
its means, and has statistics and evidence of its own.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.contracts import Family
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.testing import family_checks
from jaxelim.testing.report import require
from jaxelim.testing.whole_runs import check_whole_runs

METHODS = ("nature", "draw", "start", "update", "evidence", "interval")
"""What such a family has to define, beside `low` and `high`."""


def complete(family: Any) -> bool:
    """Whether it is a family with all that these checks call,"""
    own = all(getattr(type(family), name, None) is not getattr(Family, name) for name in METHODS)
    ranged = hasattr(family, "low") and hasattr(family, "high")
    return isinstance(family, Family) and own and ranged


def check_draws(family: Any, rng: np.random.Generator, draws: int) -> str:
    """Rewards have the mean of their arm, by seven standard errors."""
    means = family_checks.inside(family, rng, 3)
    nature = family_checks._natures(family, Instance.unstructured(means, family))
    noise = family_checks._noise(family, rng, draws)

    @jax.jit
    def rewards(arm, noise):
        pull = jnp.zeros(noise.shape, jnp.int32)
        return family.draw(LaneOps(), nature, arm + pull, pull, noise)

    for arm, mean in enumerate(means):
        x = np.asarray(rewards(jnp.int32(arm), jnp.asarray(noise)))
        require(x.shape == noise.shape and np.isfinite(x).all(), f"mean {mean:.6g}: rewards {x}")
        off = abs(x.mean() - mean) / (x.std() / draws**0.5)
        sentence = f"rewards of mean {mean:.6g} have mean {x.mean():.6g}, {off:.1f} errors off"
        require(off <= family_checks.ERRORS, sentence)
    seen = (family_checks.ERRORS + 3) / draws**0.5
    return f"n = {draws} rewards at each of 3 means; seen is a bias of {seen:.2g} deviations"


def check_runs(family: Any, rng: np.random.Generator) -> str:
    """Whole runs: the order of the three stops, errors, and a run alone as in a batch."""
    if np.isfinite(family.high - family.low):
        means = family.low + (family.high - family.low) * np.array([0.85, 0.5, 0.3, 0.15])
    else:
        middle = float(np.median(family_checks.inside(family, np.random.default_rng(0), 9)))
        end = family.low if np.isfinite(family.low) else family.high
        means = middle - np.arange(4)
        if np.isfinite(end):  # gaps that shrink towards it
            means = end + (middle - end) * 2.0 ** np.array([2, 1, 0, -1])
    return check_whole_runs(Instance.unstructured(means, family), rng)
