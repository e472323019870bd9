"""Instances with their arms in other orders, and with near ties."""

import numpy as np

import jaxelim as je
from jaxelim.testing.orders import NEAR, near, orders


def test_each_arm_is_best_somewhere_with_its_own_settings():
    family = je.Gaussian([1.0, 2.0, 3.0])
    each = orders(je.BestArm(), je.Instance.unstructured([0.3, 0.2, 0.1], family))
    assert sorted(int(one.means.argmax()) for one in each) == [0, 1, 2]
    for one in each:
        assert np.allclose(one.family.std, 4 - 10 * one.means)


def test_stacks_move_with_their_arms():
    past = je.Recorded([[0, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0, 1]], family=je.Bernoulli())
    each = orders(je.BestArm(), je.Instance.unstructured(past.means, past))
    assert [[stack.size for stack in one.family.rewards] for one in each] == [
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
                raise je.ArgumentError("theta", theta, "a first arm that is best")

    assert len(orders(FirstIsBest(), many[0])) == 1


def test_near_ties_keep_the_answer():
    instance = je.Instance.unstructured([0.9, 0.2, 0.6], je.Bernoulli())
    for problem in (je.BestArm(), je.TopM(2), je.Thresholding(0.5)):
        close = near(problem, instance)
        assert close is not None and np.array_equal(close.means.argsort(), [1, 2, 0])
        assert np.isclose(np.ptp(close.means), NEAR * 0.7)
    assert np.array_equal(close.means > 0.5, [True, False, True])
    assert near(je.BestArm(), je.Instance(np.eye(2), [[1.0, 0.0]])) is None
