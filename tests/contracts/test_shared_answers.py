"""Problems of one's own: several answers with one public form, pieces made from a shape."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import jaxelim as je
from jaxelim.testing import ContractError, check

LUCK = 1e-6
ONE = je.Engine(devices=1)


@dataclasses.dataclass(frozen=True)
class BestHalf(je.contracts.Problem):
    """Whether the best arm is among the first `size` arms."""

    size: int = 2
    name = "best-half"
    shared_answers = True

    def answer(self, seen):
        return jnp.argmax(seen.means)

    def public(self, seen, answer):
        return jnp.stack([answer < self.size, answer >= self.size])

    def width(self, arms):
        return 2

    def shape(self, seen, answer):
        inside = jnp.arange(len(seen.means)) < self.size
        return je.contracts.Pairs(answer, inside != (answer < self.size))


class Unique(BestHalf):
    """The same, but it says that each answer has a public form of its own."""

    name = "unique"
    shared_answers = False


@pytest.mark.slow
def test_the_contract():
    assert "walks of its set" in str(check(BestHalf()))
    with pytest.raises(ContractError, match="another answer is False"):
        check(Unique())


@pytest.mark.slow
def test_stops_on_the_right_half():
    """The two best arms tie inside their half. n = 400 runs at delta = 0.1; 79 errors or more
    come by luck with probability below 1e-6 at a rate of 0.1, so a rate of 0.28 is seen."""
    instance = je.Instance(np.eye(4), [1.0, 1.0, 0.2, 0.0])
    stopping = je.LLR(), je.SelectiveElimination(), je.FullElimination()
    found = je.simulate(instance, BestHalf(), je.LinGapE(), delta=0.1, runs=400, stopping=stopping,
                        engine=ONE)  # fmt: skip
    assert found.stopped.all() and found.answer.shape == (3, 1, 400, 2)
    llr, selective, full = found.samples[:, 0]
    assert (full <= selective).all() and (selective <= llr).all() and (selective < llr).any()
    errors = (~found.correct).sum(-1)
    assert errors.max() <= stats.binom.isf(LUCK, 400, 0.1)
    with pytest.raises(je.errors.ArgumentError):  # best arm has no unique answer there
        je.simulate(instance, je.BestArm(), je.LinGapE(), runs=2)


def test_there_is_no_lower_bound():
    instance = je.Instance(np.eye(4), [1.0, 0.5, 0.2, 0.0])
    with pytest.raises(je.errors.UnsupportedError, match="^problem: .*several share one"):
        je.complexity(instance, BestHalf())


class OutOfRange(BestHalf):
    """Its answer is no arm from the 60th sample on."""

    name = "out-of-range"

    def shape(self, seen, answer):
        shape = super().shape(seen, answer)
        return je.contracts.Pairs(jnp.where(seen.means[0] > 0.9, 7, shape.first), shape.exists)


def test_arms_of_a_shape_out_of_range_end_the_run():
    instance = je.Instance(np.eye(3), [1.0, 0.5, 0.0])
    with pytest.raises(je.errors.ArgumentError, match="^problem: .*it gave 7 after"):
        je.simulate(instance, OutOfRange(), je.Uniform(), runs=4, engine=ONE)


@pytest.mark.parametrize("members", [
    dict(shape=lambda self, seen, answer: jnp.arange(3) != answer), dict(width=lambda self, k: k),
], ids="".join)  # fmt: skip
def test_methods_that_return_something_else(members):
    problem = type("Odd", (BestHalf,), members)()
    with pytest.raises(je.errors.ArgumentError, match="^problem: .* returned "):
        je.simulate(je.Instance(np.eye(3), [1.0, 0.5, 0.0]), problem, je.Uniform(), runs=2)
