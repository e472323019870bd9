"""Families of independent arms: units, draws, evidence by its definition, their certificate."""

import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import expon, poisson

import jaxelim as je
from jaxelim import scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext
from jaxelim.families.arm import ArmEvidence, Stat
from jaxelim.lanes import LaneOps
from jaxelim.testing import families
from jaxelim.testing.report import World
from jaxelim.testing.rules import means_at
from tests.calls import NAMES
from tests.families.family_cases import Geometric
from tests.testing import faults


def test_one_standard_deviation_is_the_linear_family():
    for one in (je.Gaussian(), je.Gaussian(2), je.Gaussian(std=0.5), je.Gaussian(np.float64(3))):
        assert type(one) is je.Gaussian and isinstance(one.std, float)
        assert eval(repr(one), NAMES) == one
    by_arm = je.Gaussian([1, 2.5])
    assert by_arm.std == (1.0, 2.5) and repr(by_arm) == "Gaussian(std=[1.0, 2.5])"
    assert by_arm == je.Gaussian((1.0, 2.5)) == je.Gaussian(np.array([1.0, 2.5]))
    assert len({by_arm, je.Gaussian([1.0, 2.5]), je.Gaussian([2.5, 1.0]), je.Gaussian()}) == 3


def test_the_numbers_of_a_run_do_not_depend_on_the_unit():
    """A run computes in units of the largest std."""
    settled = je.Gaussian([1e-3, 4e-3]).settled()
    assert settled.std == (0.25, 1.0) and settled.scale == 1
    instance = je.Instance.unstructured([1.0, 2.0], je.Gaussian([1e-3, 4e-3]))
    nature = settled.nature(instance)
    np.testing.assert_allclose(nature["mean"], [[250, 500]])
    np.testing.assert_allclose(nature["std"], [[0.25, 1]])


def drawn(family, means, noise):
    """Rewards [K, n] of all arms from the same noise [n]."""
    nature = np.asarray(family.nature(je.Instance.unstructured(means, family)))[0]
    with scope.engine():
        given = jnp.asarray(nature), jnp.asarray(noise)
        zero = jnp.zeros(noise.shape, jnp.int32)

        @jax.jit
        def of(k, nature, noise):
            return family.draw(LaneOps(), nature, zero + k, zero, noise)

        return np.stack([of(np.int32(k), *given) for k in range(len(means))])


def test_rewards_are_quantiles():
    """Of SciPy's distributions; a larger mean has the larger or equal reward."""
    noise = np.concatenate([[0], np.random.default_rng(1).random(500)])
    ends, means = np.append(noise, 1 - 2.0**-53), np.array([0, 1e-9, 0.2, 0.21, 0.5, 1])
    np.testing.assert_array_equal(drawn(je.Bernoulli(), means, ends), ends < means[:, None])
    means = np.array([0, 1e-9, 0.2, 0.21, 3, 40, 999.0])
    counts = drawn(je.Poisson(), means, noise)
    np.testing.assert_array_equal(counts, poisson.ppf(noise, means[:, None]).clip(0))
    means = np.array([1e-9, 0.2, 0.21, 3, 1e9])
    times = drawn(je.Exponential(), means, ends)
    known = expon.ppf(ends, scale=means[:, None])
    np.testing.assert_allclose(times[:, 1:], known[:, 1:], rtol=1e-13)
    assert (times > 0).all()
    for one in (counts, times):
        assert (np.diff(one, axis=0) >= 0).all() and np.isfinite(one).all()


def test_the_table_of_a_large_mean():
    """It ends where 1 - P(X <= k) < 2^-53; the last uniform has a reward inside."""
    family = je.Poisson()
    table = family.nature(je.Instance.unstructured([1000.0, 0.0], family))
    assert table.shape[:2] == (1, 2) and 1200 < table.shape[2] < 1400
    assert (np.diff(table) >= 0).all() and table.max() <= 1
    last = drawn(family, [1000.0, 0.0], np.array([1 - 2.0**-53]))
    assert poisson.sf(last[0], 1000.0) < 2.0**-53 <= poisson.sf(last[0] - 2, 1000.0)
    assert last[1] == 0


def test_exponential_loss_far_from_the_mean():
    """log(1 + r) - r/(1 + r), r = by/m, for tiny and for huge means."""
    with scope.engine():
        m, by = jnp.asarray([1e-300, 1.0, 1.0]), jnp.asarray([1.0, 1e-8 - 1, 0])
        found = np.asarray(je.Exponential().loss(Stat(m, m), by))
    known = [300 * math.log(10) - 1, 1e8 - 1 - 8 * math.log(10), 0]
    np.testing.assert_allclose(found, known, rtol=1e-8)


def test_pairs_without_weight_have_finite_bends():
    """Second derivatives of H_p at weights 0 of both arms: 0, as its value and gradient."""
    with scope.engine():
        means, weights = jnp.asarray([0.7, 0.5, 0.2]), jnp.asarray([0.0, 0.0, 1.0])
        shape = Pairs(jnp.int32(0), jnp.asarray([False, True, True]))
        space = ArmContext(LaneOps(), jnp.eye(3))
        stat = Stat(weights, means)
        evidence = ArmEvidence(je.Bernoulli(), space, shape, stat, weights)
        found = evidence.with_derivatives().weighted(weights).derivatives()
    chex.assert_tree_all_finite(found)
    np.testing.assert_array_equal(found.value[1:], 0)


def test_rewards_at_an_excluded_end_are_seen():
    """Noise 0 gives an exponential reward of 0, where d(0, y) is infinite."""

    def draw(self, lanes, nature, arm, pull, noise):
        return -lanes.take(nature, arm) * jnp.log1p(-noise)

    world = World(faults.subclass(je.Exponential, name="wrong", draw=draw)(), draws=1000)
    words = "end of the range that is"
    with scope.engine(), pytest.raises(je.testing.ContractError, match=words):
        families.draws(world)


def test_a_capped_range_is_drawn_from():
    """Means that `check` refuses are drawn again."""

    def check(self, instance):
        je.families.OneParameter.check(self, instance)
        if np.any(instance.means > 2.5):
            raise je.errors.ArgumentError("theta", instance.means, "means up to 2.5")

    family = faults.subclass(Geometric, name="wrong", check=check)()
    with scope.engine():
        for seed in range(20):
            means = families.inside(family, np.random.default_rng(seed), 9)
            assert means.shape == (9,) and means.max() <= 2.5
    assert np.all(np.diff(means_at(family, [-2.0, 0.0, 1.0])) > 0)
