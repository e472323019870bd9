"""Best arm with slack: which answers are right, and what stays as it was."""

import numpy as np

import jaxelim as je
from tests.calls import NAMES


def test_what_is_right():
    """Arms within epsilon, up to rounding, in each instance of a batch; no tie is refused."""
    problem = je.BestArm(epsilon=0.1)
    for means in ([0.8, 0.7, 0.7 - 1e-9, 0.3], [0.3, 0.2, 0.1, 0.3], [-0.3, -0.2, -0.1, -0.25]):
        means = np.array(means)
        order = problem.right(means)
        right = np.round(means - means.max() + 0.1, 12) >= 0
        right[2] &= means[2] != 0.7 - 1e-9
        assert set(order) == set(np.flatnonzero(right)) and (np.diff(means[order]) <= 0).all()
        answers = np.eye(4, dtype=bool)
        np.testing.assert_array_equal(problem.correct(answers, answers[0], means), right)
    problem.check(np.eye(2), np.array([1.0, 1.0]))


def test_epsilon_0_is_best_arm():
    plain = je.BestArm()
    for same in (je.BestArm(epsilon=0), je.BestArm(0.0), je.BestArm(epsilon=-0.0)):
        assert type(same) is je.BestArm and same == plain and hash(same) == hash(plain)
        assert repr(same) == "BestArm()" and same.epsilon == 0
    problem = je.BestArm(epsilon=0.25)
    assert eval(repr(problem), NAMES) == problem != je.BestArm(epsilon=0.5)
    assert problem.scaled(2.0).epsilon == 0.125 and isinstance(problem, je.BestArm)
