"""Sources of rewards: their draws and means, certificates, files, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families import Betas, Normal, Points
from jaxelim.lanes import PLAIN


def test_draws_are_those_of_the_distributions():
    """20,000 draws of each of three points, and of a Beta: six standard errors, 2e-9 of luck."""
    points = Points([0, 1, 5], [[0.5, 0.3, 0.2], [0.2, 0, 0.8]])
    betas = Betas([(0.5, 0.5), (4, 2)], -1, 1)
    for source, family in ((points, je.Bounded(0, 5)), (betas, je.Bounded(-1, 1))):
        u = (np.arange(20_000) + np.random.default_rng(0).random(20_000)) / 20_000
        instance = je.Instance.unstructured(source=source, family=family)
        with scope.engine():
            nature = jax.tree.map(lambda x: jnp.asarray(x[0]), source.nature(instance))
            arms = jnp.asarray(np.repeat([0, 1], 20_000).astype(np.int32))
            x = np.asarray(source.draw(PLAIN, nature, arms, arms, jnp.asarray(np.tile(u, 2))))
        for arm, own in enumerate(x.reshape(2, -1)):
            assert abs(own.mean() - source.means[arm]) <= 6 * own.std() / 20_000**0.5
            if source is points:
                shares = [(own == point).mean() for point in (0, 1, 5)]
                np.testing.assert_allclose(shares, source.probabilities[arm], atol=0.02)


def test_means_of_betas():
    source = Betas([(0.5, 0.5), (4, 2), (0.05, 3)])
    np.testing.assert_allclose(source.means, [0.5, 2 / 3, 0.05 / 3.05], atol=2e-5)


@pytest.mark.slow
def test_a_source_is_certified():
    source = Betas([(4, 1), (1, 2)])
    instance = je.Instance.unstructured(source=source, family=je.Gaussian(0.5))
    assert je.testing.check(instance).verdict == "passed"


@pytest.mark.parametrize("call, words", [
    (lambda: Points([0, 1], [[0.5, 0.6], [0.5, 0.5]]), "sum to 1"),
    (lambda: Points([0, 1], [[1.5, -0.5], [0.5, 0.5]]), "at least 0"),
    (lambda: Points([0, 1, 1], [[0.5, 0.5]] * 2), "S as of"),
    (lambda: Betas([(1, 0), (1, 1)]), "0.01"), (lambda: Betas([(1, 1, 1)] * 2), "two numbers"),
    (lambda: Betas([(1, 1)] * 2, 1, 0), "above low"),
    (lambda: Normal(0.0), "from 1e-100 to 1e[+]100"),
    (lambda: Normal([1.0, 1, -1, 1]), "-1 is not"), (lambda: Normal(np.ones((2, 2))), "shape"),
])  # fmt: skip
def test_bad_settings(call, words):
    with pytest.raises(je.errors.ArgumentError, match=words):
        call()


def test_bad_instances():
    source = Points([0, 2], [[0.8, 0.2], [0.6, 0.4]])
    for means, family, words in (
        ([1, 1.7], je.Poisson(), "the source"), (None, je.Bounded(), "support.*0 to 1"),
    ):  # fmt: skip
        with pytest.raises(je.errors.JaxelimError, match=words):
            je.Instance.unstructured(means, family, source=source)
