"""Section 7: what a sampling rule is, and the choices that several of them make.

choose(stats, t, active) returns the next arm, or Stop(answer) where the native test holds. t is the index of the sample about
to be drawn; active(answer) the labels of the active pieces of an answer. `reads` is the number of pieces read by the last
choice. `native` says whether the rule has a test of its own.
"""

import abc

import numpy as np

from tests.twin.problems import squared_norms, top


class Stop:
    """A native stop, with the rule's answer."""

    def __init__(self, answer):
        self.answer = answer


class Rule(abc.ABC):
    """A sampling rule; `start` is called once after the initial pulls (section 1, step 2)."""

    native = False
    reads = 0

    def __init__(self, problem, delta, beta, theta, **settings):
        self.problem, self.delta, self.beta, self.theta = problem, delta, beta, theta
        self.phi, self.K, self.d = problem.phi, problem.K, problem.d
        self.configure(**settings)

    def configure(self):  # noqa: B027 (not every rule has settings)
        """Takes the rule's settings."""

    def start(self, stats):  # noqa: B027 (nor a state)
        """Makes the rule's state."""

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

    By Sherman-Morrison the square falls by (phi_k' V^-1 y)^2 / (1 + phi_k' V^-1 phi_k); the arm with the largest fall.
    """
    return int(
        np.argmax((phi @ stats.inverse @ y) ** 2 / (1.0 + squared_norms(phi, stats.inverse)))
    )


def most_ambiguous(B, m):
    """J, b, c and the m-th largest B_ij over i != j for every j, from the gap bounds B [K, K] (LinGIFA, UGapE)."""
    K = len(B)
    mth = np.array([np.sort(np.delete(B[:, j], j))[-m] for j in range(K)])
    J = np.sort(top(-mth, m))
    outside = np.setdiff1d(np.arange(K), J)
    b = J[np.argmax([B[outside, j].max() for j in J])]
    c = outside[np.argmax(B[outside, b])]
    return J, int(b), int(c), mth
