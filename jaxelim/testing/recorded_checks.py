"""The laws of the draws of recorded rewards: for `jaxelim.testing`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.families import Recorded
from jaxelim.families.recorded import Stacks
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.testing.family_checks import ERRORS
from jaxelim.testing.report import require
from jaxelim.testing.settings import check_docstring, check_repr
from jaxelim.testing.whole_runs import check_whole_runs

_RUNS = 8
_LONGEST = 20_000  # the longest stack that is drawn whole


def check_settings(family: Recorded) -> str:
    """The docstring, and the repr where it has all rewards."""
    check_docstring(Recorded)
    sizes = [stack.size for stack in family.rewards]
    if "sha256" not in repr(family):
        check_repr(family)
    return f"{len(sizes)} stacks of {min(sizes)} to {max(sizes)} rewards, order {family.order!r}"


def check_draws(family: Recorded, rng: np.random.Generator, draws: int) -> str:
    """Without replacement each reward once; the first pull has the stack's mean."""
    instance = Instance.unstructured(family.means, family)
    source = Stacks(family.order)
    nature = jax.tree.map(lambda x: jnp.asarray(x[0]), source.nature(instance))

    @jax.jit
    def rewards(arm: Any, pull: Any, noise: Any) -> Any:
        arm = jnp.broadcast_to(arm, noise.shape)
        pull = jnp.broadcast_to(pull, noise.shape)
        over = source.used_up(LaneOps(), nature, arm, pull)
        over = jnp.zeros(noise.shape, bool) if over is None else over
        return source.draw(LaneOps(), nature, arm, pull, noise) * family.scale, over

    for arm, stack in enumerate(family.rewards):
        n, word = stack.size, f"the stack of arm {arm}"
        keys = rng.integers(2**64, size=draws, dtype=np.uint64)
        at = jnp.int32(arm)
        first, _ = map(np.asarray, rewards(at, jnp.int32(0), keys))
        require(np.isin(first, stack / family.scale * family.scale).all(),
                f"{word}: a reward is not in it")  # fmt: skip
        if family.order != "given":
            off = abs(first.mean() - stack.mean())
            allowed = ERRORS * stack.std() / draws**0.5 + 1e-9 * np.abs(stack).max()
            require(off <= allowed, f"{word}: first rewards have mean {first.mean():.6g}")
        if family.order != "bootstrap" and n <= _LONGEST:
            key, pull = (x.ravel() for x in np.meshgrid(keys[:_RUNS], np.arange(n, dtype=np.int32)))
            whole, over = map(np.asarray, rewards(at, pull, key))
            ordered = np.sort(whole.reshape(n, _RUNS), 0)
            require(not over.any() and np.allclose(ordered, np.sort(stack)[:, None], 1e-12),
                    f"{word}: {n} pulls are not its rewards, each once")  # fmt: skip
            require(rewards(at, jnp.int32(n), keys[:1])[1].all(), f"{word}: it is never used up")
    seen = (ERRORS + 3) / draws**0.5
    return f"draws come from the stacks; seen is a bias of {seen:.2g} deviations of a first reward"


def check_runs(family: Recorded, rng: np.random.Generator) -> str:
    """Whole runs; none where the order is given, of which there is one."""
    if family.order == "given":
        return "one run alone has the given order"
    return check_whole_runs(Instance.unstructured(family.means, family), rng)
