"""Instances for H*, each with the worlds of the twin, and a problem of half-spaces."""

import functools

import jax.numpy as jnp
import numpy as np

import jaxelim as je
from tests import twin
from tests.places import PLACES, Place

STD = (1.0, 2.0, 0.5, 1.5, 0.8)
PRICES = np.array([1.0, 3.0, 0.4, 2.0, 0.7])
FAMILIES = {
    "bernoulli": (je.Bernoulli(), twin.Bernoulli),
    "poisson": (je.Poisson(), twin.Poisson),
    "exponential": (je.Exponential(), twin.Exponential),
    "by-arm": (je.Gaussian(STD), lambda mu, prices=None: twin.Gaussian(mu, STD, prices)),
}  # fmt: skip


def means_of(name, seed, size, edges=True):
    """Means [size, 5] without ties: apart by 0.01, and by 0.02 from the level 0.43."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < size:
        m = rng.uniform(0.05, 0.95, 5)
        if edges and name in ("bernoulli", "poisson") and len(found) % 2:
            m[rng.integers(5)] = 0.0
            if name == "bernoulli" and len(found) % 4 == 1:
                m[np.argmax(m)] = 1.0
        if np.diff(np.sort(m)).min() > 0.01 and np.abs(m - 0.43).min() > 0.02:
            found.append(m)
    return np.array(found)


@functools.cache
def place(name):
    """Of `tests.places`, or random means of a family, with costs where the name ends so."""
    if name in PLACES:
        return PLACES[name]()
    kind, _, priced = name.removeprefix("random ").partition(", ")
    family, world = FAMILIES[kind]
    means, prices = means_of(kind, 3, 8, edges=not priced), PRICES if priced else None
    instance = je.Instance.unstructured(means, family, costs=prices)
    return Place(instance, [world(m, prices=prices) for m in means], 0.43, 0.15, 0.43)


def box(d, half_width=1.0):
    """Whether theta is inside a box of R^d; directions do not depend on features."""
    directions = np.concatenate([-np.eye(d), np.eye(d)])
    inside = jnp.zeros((), jnp.int32)
    offsets = np.full((1, 2 * d), -half_width)
    return je.HalfSpaces(lambda theta: inside, directions[None], offsets)
