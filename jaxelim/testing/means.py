"""Means of a family, their divergence, and what draws their rewards: for `jaxelim.testing`."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxelim.errors import ArgumentError
from jaxelim.families import OneParameter
from jaxelim.instances.instance import Instance
from jaxelim.testing.instances import means_at
from jaxelim.testing.report import require

Generator = np.random.Generator


def is_exact(family: Any) -> bool:
    return isinstance(family, OneParameter) and family.exponential


def of(family: Any, means: Any) -> Instance:
    """An instance of these means, [K] or [I, K], the settings repeated for K arms."""
    return Instance.unstructured(means, family.for_arms(np.shape(means)[-1]))


def allowed(family: Any, means: Any) -> bool:
    """Whether `check` allows these means."""
    try:
        of(family, np.resize(means, max(2, np.size(means))))
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
    each_own = family.per_pull(jnp.ones(k))
    return np.ones(k) if each_own is None else np.asarray(each_own)


def divergence(family: Any, x: Any, y: Any) -> Array:
    """d(x, y), the loss of the shift y - x."""
    return family.loss(family.kind(jnp.ones_like(x), x), y - x)


@cache
def compiled_divergence(family: Any) -> Callable:
    """d(x, y) of numbers or arrays that broadcast, compiled."""
    return jax.jit(lambda x, y: divergence(family, *jnp.broadcast_arrays(x, y)))


def natures(family: Any, instance: Instance) -> list[Any]:
    """Of each instance of a batch."""
    nature = family.nature(instance)
    return [jax.tree.map(lambda x: jnp.asarray(np.asarray(x)[i]), nature)  # noqa: B023
            for i in range(len(instance.unbatched))]  # fmt: skip


def noise_of(family: Any, rng: Generator, shape: Any) -> np.ndarray:
    return rng.random(shape) if family.noise == "uniform" else rng.standard_normal(shape)
