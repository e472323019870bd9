"""Linear Gaussian rewards: the ridge, invariance to offsets, the cache of products."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import engine, scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import Snapshot
from jaxelim.errors import ArgumentError
from jaxelim.evidence.half_spaces import LinearContext
from jaxelim.evidence.linear import LinearEvidence, weighted
from jaxelim.families.gaussian import LinearGaussian
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


@pytest.mark.parametrize("m", [None, 3])
@pytest.mark.parametrize("owned", [False, True])
def test_cached_products_equal_recomputed_ones(m, owned):
    """The arms i change in every third step alone; an idle lane pulls with weight 0."""
    rng, shape = np.random.default_rng(0), (B,) if m is None else (m, B)
    family = LinearGaussian(form="square", keeps_products=True)
    instance = je.Instance(rng.normal(size=(B, K, D)), np.ones((B, D)))
    arms, tables = instance.arms, family.tables(instance)
    arms, tables = jax.tree.map(lambda x: np.moveaxis(x, 0, -1) if owned else x[0], (arms, tables))

    problem = je.BestArm() if m is None else je.TopM(m)

    @jax.jit
    def step(flag, stats, first, arm, go):
        space = LinearContext(LaneOps(flag), jnp.asarray(arms))
        shape = Pairs(first, jnp.ones((K * np.size(first) // B, B), bool))
        evidence, expected = family.evidence(space, stats, shape), stats.design.cross(space, first)
        seen = Snapshot(family=family, problem=problem, space=space, stats=stats, answer=None,
                        shape=shape, evidence=evidence)  # fmt: skip
        return seen.evidence.cross, expected, family.update(seen, arm, jnp.ones(B), go)

    def drawn(*shape):
        return jnp.asarray(rng.integers(0, K, shape), jnp.int32)

    with scope.engine():
        space = LinearContext(LaneOps(), jnp.asarray(arms))
        stats = family.start(space, problem, jax.tree.map(jnp.asarray, tables), jnp.ones((K, B)))
        kept, first, renewed = stats.products, drawn(*shape), 0
        assert kept.cross.shape == (K, *shape) and np.all(kept.arms == -1)
        for t in range(60):
            first = jnp.where((rng.random(shape) < 0.1) & (t % 3 == 0), drawn(*shape), first)
            stale, go = np.asarray(kept.arms != first), jnp.asarray(rng.random(B) < 0.8)
            renewed += stale.sum()
            cross, expected, stats = step(jnp.int32(1), stats, first, drawn(B), go)
            np.testing.assert_allclose(cross, expected, rtol=0, atol=1e-13)
            # A lane whose arms are unchanged keeps its numbers to the last bit, and so an idle one.
            same, still = ~np.broadcast_to(stale, cross.shape), ~np.asarray(go)
            np.testing.assert_array_equal(np.asarray(cross)[same], np.asarray(kept.cross)[same])
            kept = stats.products
            np.testing.assert_array_equal(kept.arms, first)
            np.testing.assert_array_equal(kept.cross[..., still], cross[..., still])
        assert np.size(first) < renewed < 60 * np.size(first) / 4


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
