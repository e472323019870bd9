"""Means of a family, their divergence, and rewards, for the laws of families and sources."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import ArgumentError
from jaxelim.families import OneParameter
from jaxelim.instances.instance import Instance
from jaxelim.lanes import LaneOps
from jaxelim.testing.instances import means_at
from jaxelim.testing.report import Generator, require


def is_exact(family: Any) -> bool:
    """Whether the loss is a divergence, which fixes the law of the rewards."""
    return isinstance(family, OneParameter) and family.exponential


def instance_of(family: Any, means: Any) -> Instance:
    """An instance of these means, [K], the settings repeated for K arms."""
    return Instance.unstructured(means, family.for_arms(len(means)))


def allowed(family: Any, means: Any) -> bool:
    """Whether `check` allows these means."""
    try:
        instance_of(family, np.resize(means, max(2, np.size(means))))
    except ArgumentError:
        return False
    return True


def inside(family: Any, rng: Generator, n: int) -> np.ndarray:
    """Means inside the range that `check` allows: [n]."""
    means = means_at(family, np.clip(rng.normal(size=8 * n), -3, 3))
    if not allowed(family, means[:n]):
        means = np.array([mean for mean in means if allowed(family, mean)])
    require(means.size >= n, "check refuses means inside the range, and most of those drawn")
    return means[:n]


def ends(family: Any) -> np.ndarray:
    """The ends of the range that are means."""
    inner = inside(family, np.random.default_rng(0), 1)[0]
    both = [end for end in (family.low, family.high) if np.isfinite(end)]
    return np.array([end for end in both if allowed(family, [end, inner])])


def with_ends(family: Any, rng: Generator, n: int) -> np.ndarray:
    """Means inside the range; where its ends are means, a quarter of them ends: [n]."""
    means, at = inside(family, rng, n), ends(family)
    if at.size:
        means[: n // 4] = rng.choice(at, n // 4)
    return rng.permutation(means)


def per_pull(family: Any, k: int) -> np.ndarray:
    """What a pull adds to the weight of each of k arms: [k]."""
    own = family.per_pull(jnp.ones(k))
    return np.ones(k) if own is None else np.asarray(own)


def divergence(family: Any, x: Any, y: Any) -> Array:
    """d(x, y), the loss of the shift y - x."""
    x, y = jnp.broadcast_arrays(x, y)
    return family.loss(family.kind(jnp.ones_like(x), x), y - x)


def drawn(instance: Instance, rng: Generator, n: int, last: int = 2**15) -> np.ndarray:
    """n rewards of each arm, [K, n], at pulls 0, 1, 3, 7, .. up to `last`, that can be."""
    family: Any = instance.family
    origin, k = family if instance.source is None else instance.source, instance.K
    nature = jax.tree.map(lambda x: jnp.asarray(x[0]), origin.nature(instance))
    if origin.noise == "run":
        z = rng.integers(2**64, size=(k, n + 2), dtype=np.uint64)
    elif origin.noise == "uniform":
        z = rng.random((k, n + 2))
        z[:, :2] = 0.0, 1 - 2.0**-53
    else:
        z = rng.standard_normal((k, n + 2))
        z[:, :2] = -8.0, 8.0
    arm = np.arange(z.size, dtype=np.int32) // (n + 2)
    pull = np.minimum(2 ** (np.arange(z.size, dtype=np.int32) % 16) - 1, last)

    some = np.arange(16) * (z.size // 16)

    @jax.jit
    def draw(nature: Any, arm: Any, pull: Any, z: Any) -> Any:
        x = origin.draw(LaneOps(), nature, arm, pull, z)
        if instance.source is not None:  # such instances come one at a time
            return x, x[some]
        own = jax.tree.map(lambda x: jnp.broadcast_to(x[..., None], (*x.shape, 16)), nature)
        return x, origin.draw(LaneOps(), own, arm[some], pull[some], z[some])

    x, few = map(np.asarray, draw(nature, arm, pull, jnp.asarray(z.ravel())))
    have, want = f"{x.dtype}{list(x.shape)}", f"float64[{z.size}]"
    require(have == want, f"rewards are {have}; they have to be {want}")
    require(x[some] == few, "rewards are others where each lane has a nature of its own, at the "
            "last axis")  # fmt: skip
    require(np.isfinite(x), "rewards are not finite, for noise {z}", z=z.ravel())
    if instance.source is None:
        out = np.setdiff1d([family.low, family.high], ends(family))
        require(~np.isin(x, out), "a reward is at an end of the range that is no mean")
    x = x.reshape(k, n + 2) * (1.0 if instance.source is None else family.scale)
    try:
        family.check_rewards(x)
    except ArgumentError as error:
        require(False, f"rewards are out of the range: {error}")
    return x[:, 2:]  # the first two are of extreme noise


def drawn_at(family: Any, means: np.ndarray, rng: Generator, n: int) -> np.ndarray:
    """`drawn` of a family at these means."""
    return drawn(instance_of(family, means), rng, n)
