"""Section 7: the sampling rule, and choices that several rules share.

`choose(stats, t, active)` returns the next arm, or Stop(answer) if the native test
holds. t is the index of the next sample; `active(answer)` the labels of an answer's
active pieces. `reads` is the number of pieces tested by the last choice. `native` says
whether the rule has its own stopping test.
"""

import abc

import numpy as np

from tests.twin.problems import squared_norms, top


class Stop:
    """A native stop, with the rule's answer."""

    def __init__(self, answer):
        self.answer = answer


class Rule(abc.ABC):
    """A sampling rule; `start` is called once, after the initial pulls."""

    native = False
    reads = 0

    def __init__(self, problem, delta, beta, theta, **settings):
        self.problem, self.delta, self.beta, self.theta = problem, delta, beta, theta
        self.phi, self.K, self.d = problem.phi, problem.K, problem.d
        self.configure(**settings)

    def configure(self):  # noqa: B027 (not every rule has settings)
        """Set the rule's settings."""

    def start(self, stats):  # noqa: B027 (nor a state)
        """Initialize the rule's state."""

    @abc.abstractmethod
    def choose(self, stats, t, active):
        """The next arm, or Stop(answer)."""

    def needs(self, *kinds, unstructured=False):
        if self.problem.kind not in kinds:
            raise ValueError(f"{type(self).__name__} is for {kinds}")
        if unstructured and not np.array_equal(self.phi, np.eye(self.K)):
            raise ValueError(f"{type(self).__name__} is for unstructured bandits")


def most_informative(stats, phi, y):
    """The arm k with the least ||y|| in (V + phi_k phi_k')^-1.

    By Sherman-Morrison the square decreases by
    (phi_k' V^-1 y)^2 / (1 + phi_k' V^-1 phi_k): the arm with the largest decrease.
    """
    return int(
        np.argmax((phi @ stats.inverse @ y) ** 2 / (1.0 + squared_norms(phi, stats.inverse)))
    )


def most_ambiguous(B, m):
    """J, b, c and, for every j, the m-th largest B_ij over i != j (LinGIFA, UGapE).

    B [K, K] holds the gap bounds.
    """
    K = len(B)
    mth = np.array([np.sort(np.delete(B[:, j], j))[-m] for j in range(K)])
    J = np.sort(top(-mth, m))
    outside = np.setdiff1d(np.arange(K), J)
    b = J[np.argmax([B[outside, j].max() for j in J])]
    c = outside[np.argmax(B[outside, b])]
    return J, int(b), int(c), mth
