"""The laws of the draws of a source: for `jaxelim.testing`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim.errors import ArgumentError
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.testing.family_checks import ERRORS, _noise
from jaxelim.testing.report import require
from jaxelim.testing.settings import check_docstring, check_repr
from jaxelim.testing.whole_runs import check_whole_runs

_RUNS = 8
_LONGEST = 20_000  # an arm that is used up within so many pulls is drawn whole


def check_settings(instance: Instance, rng: np.random.Generator) -> str:
    """The docstring, and the repr where it has all numbers."""
    source = instance.source
    check_docstring(type(source))
    if "sha256" not in repr(source):
        check_repr(source)
    return f"the source {source!r} of rewards tested as {instance.family!r}"


def check_draws(instance: Instance, rng: np.random.Generator, draws: int) -> str:
    """First rewards have the mean of their arm; so have those until an arm is used up, exactly."""
    source: Any = instance.source
    family, scale = instance.family, instance.family.scale
    nature = jax.tree.map(lambda x: jnp.asarray(x[0]), source.nature(instance))

    @jax.jit
    def rewards(arm: Any, pull: Any, noise: Any) -> Any:
        arm, pull = (jnp.broadcast_to(x, noise.shape).astype(jnp.int32) for x in (arm, pull))
        over = source.used_up(LaneOps(), nature, arm, pull)
        over = jnp.zeros(noise.shape, bool) if over is None else over
        return source.draw(LaneOps(), nature, arm, pull, noise) * scale, over

    for arm, mean in enumerate(instance.means):
        noise = rng.integers(2**64, size=draws, dtype=np.uint64)
        if source.noise != "run":
            noise = _noise(source, rng, draws)
        first, _ = map(np.asarray, rewards(arm, 0, noise))
        try:
            family.check_rewards(first)
        except ArgumentError as error:
            require(False, f"arm {arm}: a reward is refused: {error}")
        small = 1e-9 * np.abs(first).max()
        if np.ptp(first) > 0:
            allowed = ERRORS * first.std() / draws**0.5 + small
            words = f"arm {arm}: first rewards have mean {first.mean():.6g}, not {mean:.6g}"
            require(abs(first.mean() - mean) <= allowed, words)
        pulls = np.arange(_LONGEST)
        ended = np.flatnonzero(rewards(arm, pulls, np.resize(noise, _LONGEST))[1])
        if ended.size:
            n = int(ended[0])
            require(n > 0 and ended.size == _LONGEST - n, f"arm {arm}: it is used up, then not")
            pull, key = (x.ravel() for x in np.meshgrid(pulls[:n], noise[:_RUNS]))
            whole = np.asarray(rewards(arm, pull, key)[0]).reshape(_RUNS, n)
            words = f"arm {arm}: its {n} rewards until it is used up have other means than {mean:g}"
            require((np.abs(whole.mean(1) - mean) <= small).all(), words)
    seen = (ERRORS + 3) / draws**0.5
    return f"draws have the arms' means; seen is a bias of {seen:.2g} deviations of a first reward"


def check_runs(instance: Instance, rng: np.random.Generator) -> str:
    """Whole runs; none of a source with one run."""
    assert instance.source is not None
    try:
        instance.source.check_runs(np.arange(2), 1)
    except ArgumentError as error:
        return f"no runs: {error.allowed}"
    return check_whole_runs(instance, rng)
