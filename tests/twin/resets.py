"""Section 6: elimination at sampling with resets."""

import numpy as np

from tests.twin.problems import llr


class Resets:
    """The setting `elimination=Resets("selective")`.

    Args:
      alpha: None, or a function of (t, delta).
      t0: None, or a number.
    """

    def __init__(self, rule="selective", alpha=None, t0=None):
        self.full = rule == "full"
        self.alpha, self.t0 = alpha, t0


class ResetSets:
    """Helper and last (section 6): masks over labels; resets at t = ceil(t0^(2^j))."""

    def __init__(self, problem, settings, beta):
        self.problem, self.full = problem, settings.full
        constants = getattr(beta, "constants", None)
        if constants is None and settings.alpha is None:
            raise ValueError("this threshold has no c1, c2, x0: give alpha")
        self.alpha = settings.alpha or paper_alpha(beta)
        t0 = settings.t0 or max(2.0, np.sqrt(constants[2]) if constants else 0.0)
        self.reset_times = {int(np.ceil(t0 ** (2**j))) for j in range(6) if t0 ** (2**j) < 1e15}
        shape = {"bai": (problem.K,), "topm": (problem.K, problem.K), "osi": (problem.K, 2)}[
            problem.kind
        ]
        self.helper = np.ones(shape, bool)
        self.last = np.ones(shape, bool)

    def _where(self, labels):
        return (labels[:, 1],) if self.problem.kind == "bai" else (labels[:, 0], labels[:, 1])

    def update(self, stats, delta):
        if stats.t in self.reset_times:
            self.last = self.helper
            self.helper = np.ones_like(self.helper)
        labels = self.problem.all_pieces() if self.full else self.problem.pieces(stats.answer)
        y, c = self.problem.halfspaces(labels)
        gone = labels[llr(y, c, stats.theta, stats.inverse) > self.alpha(stats.t, delta)]
        self.helper[self._where(gone)] = False

    def keeps(self, labels):
        return (self.helper & self.last)[self._where(labels)]


def paper_alpha(beta):
    """(sqrt(beta + (4 c2 - c1) log t) + 4 sqrt((c2/c1) beta(t, 1/t^2)))^2."""

    def alpha(t, delta):
        c1, c2, _ = beta.constants
        first = np.sqrt(beta(t, delta) + (4.0 * c2 - c1) * np.log(t))
        return (first + 4.0 * np.sqrt(c2 / c1 * beta(t, float(t) ** -2))) ** 2

    return alpha
