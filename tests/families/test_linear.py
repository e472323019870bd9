"""Linear Gaussian rewards: the ridge, invariance to offsets, the cache of products."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.errors import ArgumentError
from jaxelim.evidence.half_spaces import LinearContext
from jaxelim.evidence.linear import LinearEvidence, SquareDesign, weighted
from jaxelim.families.gaussian import CrossCache
from jaxelim.lanes import LaneOps
from tests.calls import checked, planned
from tests.engine.test_invariance import INSTANCE

FLAT = je.Instance([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]], [1.0, 0.2, 0.0])


def test_the_largest_gain_of_linear_arms():
    """max over theta in an ellipsoid of (phi_k . (theta - lambda))^2/2, by its two ends."""
    rng = np.random.default_rng(3)
    arms, theta, level = rng.standard_normal((4, 2)), np.array([1.0, 0.3]), 1.7
    counts = np.array([3.0, 5.0, 2.0, 4.0])
    best = int(np.argmax(arms @ theta))
    with scope.engine():
        space = LinearContext(LaneOps(), jnp.asarray(arms))
        shape = Pairs(jnp.int32(best), jnp.arange(4) != best)
        given = jnp.asarray(arms @ theta), jnp.asarray(theta)
        seen = LinearEvidence.of(space, shape, weighted(space, jnp.asarray(counts)), *given)
        view: Any = SimpleNamespace(time=jnp.exp(jnp.float64(level)), linear=seen)
        found = [je.OptimisticLinGame().gain(view, seen, jnp.int32(k)) for k in range(4)]
    inverse = np.linalg.inv((arms.T * counts) @ arms)
    for k in set(range(4)) - {best}:
        y = arms[best] - arms[k]
        moved = inverse @ y * (y @ theta) / (y @ inverse @ y)
        spread = np.sqrt(2 * level * np.einsum("kd,de,ke->k", arms, inverse, arms))
        np.testing.assert_allclose(found[k], (np.abs(arms @ moved) + spread) ** 2 / 2, rtol=1e-9)


def test_a_ridge_of_none_is_zero_where_the_arms_span():
    spanning = je.Instance([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], [1.0, 0.3])
    batch = je.Instance([np.eye(2), [[1.0, 1.0], [2.0, 2.0]]], [[1.0, 0.0], [1.0, 0.0]])
    for instance, given, known in (
        (spanning, {}, 0), (spanning, {"ridge": None}, 0), (spanning, {"ridge": 0.5}, 0.5),
        (FLAT, {"ridge": 1}, 1),
    ):  # fmt: skip
        assert checked(instance, je.BestArm(), je.Uniform(), **given).ridge == known
    first = r"^ridge: got None \(the arms of instance 0 span 2 of 3 dimensions\)"
    for instance, words in ((FLAT, first), (batch, "instance 1 span 1 of 2")):
        with pytest.raises(ArgumentError, match=words):
            checked(instance, je.BestArm(), je.Uniform())
    with pytest.raises(ArgumentError, match="^ridge: got None"):
        je.trace(FLAT, je.BestArm(), je.Uniform(), max_samples=20)


MEANS = np.array([0.5, 0.3, 0.1, 0.0, -0.4, 0.25])
SHIFTED = [(je.FWS(), je.TopM(2)), (je.LazyTaS(), je.BestArm()), (je.TTTS(), je.BestArm()),
           (je.LinGame(), je.BestArm())]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("rule, problem", SHIFTED)
def test_the_first_200_pulls_do_not_depend_on_an_offset_of_the_means(rule, problem):
    for seed in range(3):
        first, *others = (
            je.trace(je.Instance(np.eye(6), MEANS + offset), problem, rule, max_samples=206,
                     seed=seed).arms
            for offset in (0.0, 1.0, 100.0, 1e4)
        )  # fmt: skip
        for arms in others:
            np.testing.assert_array_equal(arms, first)


B, K, D = 6, 9, 4


def world(rng, owned):
    """Features, and the design after one pull of every arm."""
    features = rng.normal(size=(K, D, B) if owned else (K, D))
    each = np.broadcast_to(features if owned else features[..., None], (K, D, B))
    v = np.einsum("kdb,keb->deb", each, each) + np.eye(D)[..., None]
    v_inv = np.moveaxis(np.linalg.inv(np.moveaxis(v, -1, 0)), 0, -1)
    g = np.einsum("kdb,deb,keb->kb", each, v_inv, each)
    return jnp.asarray(features), SquareDesign(jnp.asarray(g), jnp.asarray(v_inv))


@pytest.mark.parametrize("m", [None, 3])
@pytest.mark.parametrize("owned", [False, True])
def test_cached_products_equal_recomputed_ones(m, owned):
    rng = np.random.default_rng(0)
    with scope.engine():
        features, design = world(rng, owned)
        shape = (B,) if m is None else (m, B)
        arms = jnp.asarray(rng.integers(0, K, shape), jnp.int32)
        kept = CrossCache.nothing(arms, design.g)
        assert kept.cross.shape == (K, *shape) and np.all(kept.arms == -1)

        @jax.jit
        def step(flag, design, kept, arms, arm, weight):
            space = LinearContext(LaneOps(flag), features)
            kept = kept.of(space, design, arms)
            after, gain, _ = design.add(space, arm, weight)
            return kept, design.cross(space, arms), after, kept.after(space, gain, arm)

        renewed = 0
        for t in range(60):
            # two steps of three change no arm
            changes = (rng.random(shape) < 0.1) & (t % 3 == 0)
            arms = jnp.where(changes, jnp.asarray(rng.integers(0, K, shape), jnp.int32), arms)
            stale = np.asarray(kept.arms != arms)
            renewed += stale.sum()
            # an idle lane pulls with weight 0
            weight = jnp.asarray(rng.random(B) < 0.8, float)
            arm = jnp.asarray(rng.integers(0, K, B), jnp.int32)
            given = kept
            kept, anew, design, kept_on = step(jnp.int32(1), design, kept, arms, arm, weight)
            np.testing.assert_array_equal(kept.arms, arms)
            np.testing.assert_allclose(kept.cross, anew, rtol=0, atol=1e-13)
            # A lane whose arms are unchanged keeps its numbers to the last bit.
            same = ~np.broadcast_to(stale, kept.cross.shape)
            both = (np.asarray(one.cross)[same] for one in (kept, given))
            np.testing.assert_array_equal(*both)
            still = np.asarray(weight) == 0
            np.testing.assert_array_equal(kept_on.cross[..., still], kept.cross[..., still])
            kept = kept_on
        assert np.size(arms) < renewed < 60 * np.size(arms) / 4
        nothing = dataclasses.replace(kept, arms=jnp.full_like(kept.arms, -1))
        found = step(jnp.int32(1), design, nothing, arms, arms.reshape(-1, B)[0], weight)
        np.testing.assert_allclose(found[0].cross, found[1], rtol=0, atol=1e-13)


def test_which_problems_cache_products():
    """None for identity features, near-identical arms or pieces other than pairs."""
    near = je.Instance(np.vstack([INSTANCE.arms, INSTANCE.arms[3] + 1e-9]), INSTANCE.theta)
    settings = dict(delta=[0.1], stopping=(je.LLR(),), elimination=None, runs=2,
                    max_samples=100, engine=je.Engine(devices=1))  # fmt: skip
    for instance, problem, kept in (
        (INSTANCE, je.BestArm(), True), (INSTANCE, je.TopM(5), True),
        (INSTANCE, je.Thresholding(0.01), False), (near, je.BestArm(), False),
        (je.Instance(np.eye(5), np.linspace(1, 0, 5)), je.BestArm(), False),
    ):  # fmt: skip
        with scope.engine():
            spec, inputs, queue = planned((instance, problem, je.Uniform()), settings)
            stats = engine.Program(spec, inputs).empty(inputs, queue).lane.stats
        assert (getattr(stats, "products", None) is not None) == kept
