"""Top-two rules: draws and shares, names."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim import catalogue, scope
from jaxelim.contracts.pieces import Pairs
from jaxelim.contracts.views import ArmContext
from jaxelim.families import draws
from jaxelim.families.arm import ArmEvidence, Stat
from jaxelim.lanes import LaneOps
from tests.calls import NAMES

PAPERS = {
    "ttts": je.TTTS(), "t3c": je.T3C(), "ebtc": je.EBTC(), "ebtci": je.EBTCI(),
    "tstc": je.TSTC(), "tstci": je.TSTCI(), "ttucb": je.TTUCB(),
}  # fmt: skip


N = 40_000


def law(family, counts, means, seed=3):
    """N draws of the posterior, [K, N]."""
    with scope.engine():
        keys = draws.rule_key(draws.key(seed), jnp.arange(N), jnp.ones(N, jnp.int32))
        wide = [jnp.broadcast_to(jnp.asarray(x, float)[:, None], (len(x), N))
                for x in (counts, means)]  # fmt: skip
        return np.asarray(jax.jit(family.posterior)(keys, *wide))


POSTERIORS = {
    "bernoulli": (je.Bernoulli(), [1, 1, 7, 400], [0.0, 1.0, 2 / 7, 0.3],
                  lambda n, m: stats.beta(1 + n * m, 1 + n - n * m)),
    "poisson": (je.Poisson(), [1, 3, 50], [0.0, 1 / 3, 2.0],
                lambda n, m: stats.gamma(n * m + 0.5, scale=1 / n)),
    "exponential": (je.Exponential(), [1, 3, 50], [0.1, 1.0, 2.0],
                    lambda n, m: stats.invgamma(n, scale=n * m)),
    "gaussian": (je.Gaussian(), [1, 3, 50], [0.1, -1.0, 2.0],
                 lambda n, m: stats.norm(m, n**-0.5)),
    "by-arm": (je.Gaussian([1.0, 0.5]), [2, 8], [0.1, -1.0],
               lambda n, m: stats.norm(m, {2: 1.0, 8: 0.5}[n] / n**0.5)),
}  # fmt: skip


@pytest.mark.parametrize("name", POSTERIORS)
def test_draws_have_the_posteriors_law(name):
    """Kolmogorov's test on n = 40000 draws of each arm; arms are uncorrelated.

    Each of 15 p-values is above 1e-8, which luck breaks with probability 2e-7. A
    distribution function off by 0.016 is seen. Correlations are below 7/sqrt(n).
    """
    family, counts, means, known = POSTERIORS[name]
    drawn = law(family, counts, means)
    for k, (n, m) in enumerate(zip(counts, means, strict=True)):
        assert stats.kstest(drawn[k], known(n, m).cdf).pvalue > 1e-8, k
    ranks = np.corrcoef(stats.rankdata(drawn, axis=1))
    assert np.abs(ranks[~np.eye(len(counts), dtype=bool)]).max() < 7 / N**0.5


def test_keys_follow_seed_run_and_t():
    """And the draws of a lane are those of its key alone."""

    @jax.jit
    def all_of(seed, another, runs, t):
        keys = draws.rule_key(seed, runs, t)
        again, other = draws.rule_key(seed, runs[2:], t[2:]), draws.rule_key(another, runs, t)
        wide = draws.normal(draws.fold(keys, 4), jnp.zeros((9, 3)))
        alone = draws.normal(draws.fold(keys[1], 4), jnp.zeros(9))
        return *map(jax.random.key_data, (keys, again, other)), wide, alone

    with scope.engine():
        given = draws.key(2**40 + 7), draws.key(8), jnp.arange(3), jnp.array([5, 5, 6])
        made, again, other, wide, alone = map(np.asarray, all_of(*given))
    np.testing.assert_array_equal(made[2:], again)
    assert len(np.unique(np.concatenate([made, other]), axis=0)) == 6
    np.testing.assert_allclose(wide[:, 1], alone, rtol=1e-14)


@pytest.mark.parametrize("mean", [0.0, 0.3, 1.0])
def test_the_directed_share_of_equal_means(mean):
    """n_j/(n_i + n_j), also at the ends of the range."""
    counts, exists = jnp.array([3.0, 5.0]), jnp.array([False, True])
    space = ArmContext(LaneOps(), jnp.eye(2))
    stat, pieces = Stat(counts, jnp.array([mean, mean])), Pairs(jnp.int32(0), exists)
    evidence = ArmEvidence(je.Bernoulli(), space, pieces, stat, counts)
    i, j = jnp.int32(0), jnp.int32(1)
    seen = SimpleNamespace(evidence=evidence)
    assert float(je.Bernoulli().share(seen, i, j)) == pytest.approx(5 / 8)
    assert float(je.Bernoulli().share(seen, j, i)) == pytest.approx(3 / 8)


def test_names_of_papers():
    assert PAPERS["tstc"] == je.T3C() and je.TTUCB().select == "tracking"
    assert {rule.share for rule in PAPERS.values()} == {0.5}
    for name, rule in PAPERS.items():
        assert catalogue.made("rule", name) == rule
        assert eval(repr(rule), NAMES) == rule and name.upper() in je.__all__
    assert catalogue.made("rule", "t3c('ids', select='tracking')") == je.T3C("ids", "tracking")
    assert catalogue.made("rule", "top-two('ucb')") == je.TopTwo("ucb")
    assert "key" in je.T3C().traits.reads and "key" not in je.EBTCI().traits.reads
