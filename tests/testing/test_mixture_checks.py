"""The check of a family's mixtures: families that pass, and faults that it finds."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxelim as je
from jaxelim import scope
from jaxelim.families.gaussian import Gaussian
from jaxelim.testing import ContractError
from jaxelim.testing.mixture_checks import check_mixture
from tests.families.family_cases import Proven

DRAWS = 40_000
RIGHT = Gaussian.log_mixture


def checked(family) -> str:
    with scope.engine():
        return check_mixture(family, np.random.default_rng(3), DRAWS)


def _for_arms(self, arms):
    return type(self)(tuple(np.resize(self.std, arms).tolist()))


def _with_the_largest(self, stat, at, c):
    """The mean of the mixture and of the largest likelihood ratio."""
    largest = stat.n / stat.cost * (stat.mean - at) ** 2 / 2
    return jnp.logaddexp(RIGHT(self, stat, at, c), largest) - np.log(2)


def faulty(log_mixture):
    """Gaussians by arm with another `log_mixture`."""
    members = {"log_mixture": log_mixture, "for_arms": _for_arms}
    kind = dataclasses.make_dataclass("Faulty", [], bases=(Gaussian,), namespace=members,
                                      frozen=True, repr=False)  # fmt: skip
    return kind((1.0, 2.0))


@pytest.mark.parametrize("family", [
    je.Gaussian(std=[1.0, 2.0]),
    *(pytest.param(family, marks=pytest.mark.slow)
      for family in (je.Bernoulli(), je.Poisson(), je.Exponential())),
], ids=repr)  # fmt: skip
def test_right_families_pass(family):
    """Each law fails a right family by luck with probability below 1e-9; it sees 0.2."""
    assert "convex in the" in checked(family)


def test_a_mixture_that_is_least_at_the_estimate():
    """It passes; what falls everywhere does not. Its runs have a proof, and end."""
    assert "least at the estimate" in checked(Proven())

    class Falls(Proven):
        def log_mixture(self, stat, at, c):
            value = super().log_mixture(stat, at, c)
            return jnp.where(at > stat.mean, -at, value)

    with pytest.raises(ContractError, match="does not fall up to that mean and rise from there"):
        checked(Falls())
    instance = je.Instance.unstructured([3.0, 1.0, 0.5], Proven())
    found = je.simulate(instance, je.BestArm(), je.LUCB(), threshold=je.Mixture(), delta=0.05,
                        runs=20, max_samples=3000)  # fmt: skip
    assert found.proven is True and found.stopped.all() and (~found.correct).sum() <= 5


FAULTS = {
    "half of the largest likelihood ratio": (_with_the_largest, "exp(log_mixture) has mean"),
    "too large by 20%": (
        lambda *of: RIGHT(*of) + np.log(1.2), "the largest log-likelihood ratio"),
    "1.5 times": (lambda *of: 1.5 * RIGHT(*of), "the largest log-likelihood ratio"),
    "capped, so not convex": (lambda *of: RIGHT(*of).clip(max=-0.01), "not convex"),
    "not a number where it is large": (
        lambda *of: jnp.where(of[3] == 3, np.nan, RIGHT(*of)), "it has to be finite"),
    "one prior alone": (lambda *of: RIGHT(*of)[..., :1], "log_mixture returns an array"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault):
    log_mixture, sentence = FAULTS[fault]
    with pytest.raises(ContractError) as caught:
        checked(faulty(log_mixture))
    assert sentence in str(caught.value)
