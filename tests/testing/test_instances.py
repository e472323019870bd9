"""Instances with their arms in other orders, and with near ties."""

import dataclasses

import numpy as np
import pytest

import jaxelim as je
from jaxelim.testing.report import World
from jaxelim.testing.rules import NEAR, orders, variants


def test_each_arm_is_best_somewhere_with_its_own_settings():
    family = je.Gaussian([1.0, 2.0, 3.0])
    each = orders(je.BestArm(), je.Instance.unstructured([0.3, 0.2, 0.1], family))
    assert sorted(int(one.means.argmax()) for one in each) == [0, 1, 2]
    for one in each:
        assert np.allclose(one.family.std, 4 - 10 * one.means)


def test_stacks_move_with_their_arms():
    past = je.Recorded([[0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0, 1]])
    instance = je.Instance.unstructured(source=past, family=je.Bernoulli())
    each = orders(je.BestArm(), instance)
    assert [[stack.size for stack in one.source.rewards] for one in each] == [
        [3, 4, 5], [5, 3, 4], [4, 5, 3]]  # fmt: skip


def test_linear_arms_batches_and_refused_orders():
    arms = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    each = orders(je.BestArm(), je.Instance(arms, [1.0, 0.0]))
    assert sorted(int(one.means.argmax()) for one in each) == [0, 1, 2]
    many = je.Instance(np.eye(3), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert orders(je.BestArm(), many) == list(many)

    class FirstIsBest(je.BestArm):
        def check(self, arms, theta):
            if np.argmax(arms @ theta):
                raise je.errors.ArgumentError("theta", theta, "a first arm that is best")

    assert len(orders(FirstIsBest(), many[0])) == 1


def tried(problem, instance):
    """The instances beside the own ones, by the words about them."""
    own, tenth, *others = variants(World(None, problem, instance, delta=0.5))
    assert own[1] == tenth[1] and tenth[3] == {"delta": 0.05}
    return {words: each[0] for words, each, _, _ in others}


def test_near_ties_keep_the_answer():
    instance = je.Instance.unstructured([0.9, 0.2, 0.6], je.Bernoulli())
    for problem in (je.BestArm(), je.TopM(2), je.Thresholding(0.5)):
        close = tried(problem, instance)[", gaps times 0.05"]
        assert np.array_equal(close.means.argsort(), [1, 2, 0])
        assert np.isclose(np.ptp(close.means), NEAR * 0.7)
    assert np.array_equal(close.means > 0.5, [True, False, True])
    assert not tried(je.BestArm(), je.Instance(np.eye(2), [[1.0, 0.0]]))
    linear = je.Instance(np.eye(2) + 0.1, [1.0, 0.0])
    assert list(tried(je.BestArm(), linear)) == [", gaps times 0.05"]
    assert not tried(je.Thresholding(0.5), linear)


def test_equal_rivals_have_the_mean_of_the_second():
    instance = je.Instance.unstructured([0.2, 0.9, 0.6, 0.1], je.Bernoulli(), costs=[1, 2, 3, 4])
    found = tried(je.BestArm(), instance)[", equal rivals"]
    assert found.means.tolist() == [0.6, 0.9, 0.6, 0.6] and found.family == je.Bernoulli()
    assert found == je.Instance.unstructured(found.means, je.Bernoulli(), costs=[1, 2, 3, 4])
    assert ", equal rivals" not in tried(je.TopM(2), instance)
    skewed = je.families.Betas([(1, 2), (2, 1), (1, 3)])
    assert not tried(je.BestArm(), je.Instance.unstructured(source=skewed, family=je.Bounded()))


# Hard instances

@dataclasses.dataclass(frozen=True)
class Counts(je.Bernoulli):
    """Means of at least 2: one end."""

    low, high = 2.0, np.inf


@pytest.mark.parametrize("problem", [je.BestArm(), je.TopM(2), je.Thresholding(0.2)], ids=repr)
@pytest.mark.parametrize("family", [je.Gaussian(), je.Bernoulli()], ids=repr)
@pytest.mark.parametrize("arms", [3, 6])
def test_hard_instances(problem, family, arms):
    for all_near in (False, True):
        made = je.testing.hard_instance(problem, family, arms, all_near=all_near)
        means = made.means
        centre = {"thresholding": 0.2}.get(problem.name, 0.5 if family.name == "bernoulli" else 0)
        near = np.abs(means - centre) < 1e-3
        one = 1 if problem.name == "thresholding" else 2
        assert near.sum() == (arms if all_near else one) and made.family == family
        best = {"best-arm": 1, "top-m": 2, "thresholding": (arms + 1) // 2}[problem.name]
        assert (means > centre).sum() == best and (means[-best:] > centre).all()
        assert (np.abs(means - centre)[~near] > 0.1).all()


def test_hard_instances_with_one_end():
    made = je.testing.hard_instance(je.BestArm(), Counts(), 4)
    assert (made.means > 2).all() and made.means.argmax() == 3
    assert np.ptp(made.means[-2:]) == pytest.approx(1e-4) and made.means[0] < 2.2


@pytest.mark.parametrize("arguments, name", [
    (dict(arms=1), "arms"), (dict(gap=0), "gap"), (dict(gap=np.inf), "gap"),
])  # fmt: skip
def test_bad_arguments(arguments, name):
    with pytest.raises(je.errors.ArgumentError, match=f"^{name}: "):
        je.testing.hard_instance(je.BestArm(), **arguments)
