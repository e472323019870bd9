"""Section 7: the sampling rules with a native stopping test."""

import itertools

import numpy as np

from tests.twin.problems import squared_norms, top
from tests.twin.rule import Rule, Stop, most_ambiguous


class Lucb(Rule):
    """Kalyanakrishnan et al. 2012, unstructured; means are R/N.

    Native stop: upper(c) <= lower(b).
    """

    native = True

    def configure(self):
        self.needs("bai", "topm", "osi", unstructured=True)

    def choose(self, stats, t, active):
        means = stats.sums / stats.counts
        radius = np.sqrt(2.0 * self.beta(t, self.delta) / stats.counts)
        answer = self.problem.answer(means)
        labels = active(answer)
        self.reads = len(labels)
        if self.problem.kind == "osi":
            arms = labels[:, 0]
            doubt = radius[arms] - np.abs(means[arms] - self.problem.level)
            return Stop(answer) if doubt.max() <= 0 else int(arms[np.argmax(doubt)])
        upper, lower = means + radius, means - radius
        b, c = labels[np.argmax(upper[labels[:, 1]] - lower[labels[:, 0]])]
        if upper[c] <= lower[b]:
            return Stop(answer)
        return int(b if stats.counts[b] < stats.counts[c] else c)


class UGapE(Rule):
    """Gabillon et al. 2012, BAI and Top-m, unstructured; the means are R/N.

    Native stop: the m-th largest B_ij is <= 0 for every arm j of J.
    """

    native = True

    def configure(self):
        self.needs("bai", "topm", unstructured=True)

    def choose(self, stats, t, active):
        means = stats.sums / stats.counts
        radius = np.sqrt(2.0 * self.beta(t, self.delta) / stats.counts)
        B = (means + radius)[:, None] - (means - radius)[None, :]
        J, b, c, mth = most_ambiguous(B, self.problem.m)
        if np.all(mth[J] <= 0):
            answer = np.zeros(self.K, bool)
            answer[J] = True
            return Stop(answer)
        return b if stats.counts[b] < stats.counts[c] else c


class Racing(Rule):
    """Kaufmann and Kalyanakrishnan 2013, BAI and Top-m, unstructured.

    Each round begins with one acceptance or discard. T is the set of the m best means
    of all arms, discarded ones too, less the accepted. If accepting and discarding have
    equal margins, the arm is accepted.
    """

    native = True

    def configure(self):
        self.needs("bai", "topm", unstructured=True)

    def start(self, stats):
        self.remaining = list(range(self.K))
        self.accepted, self.discarded = [], []
        self.queue = []

    def _one_change(self, stats, t):
        means = stats.sums / stats.counts
        radius = np.sqrt(2.0 * self.beta(t, self.delta) / stats.counts)
        upper, lower = means + radius, means - radius
        T = [k for k in np.sort(top(means, self.problem.m)) if k not in self.accepted]
        best = max(self.remaining, key=lambda k: means[k])
        worst = min(self.remaining, key=lambda k: means[k])
        rivals = [upper[k] for k in self.remaining if k not in T]
        accept = lower[best] - max(rivals, default=-np.inf)
        discard = min((lower[k] for k in T), default=-np.inf) - upper[worst]
        if accept >= 0 and accept >= discard:
            self.remaining.remove(best)
            self.accepted.append(best)
        elif discard >= 0:
            self.remaining.remove(worst)
            self.discarded.append(worst)

    def choose(self, stats, t, active):
        if not self.queue:
            self._one_change(stats, t)
            m = self.problem.m
            if len(self.accepted) == m or len(self.discarded) == self.K - m:
                answer = np.zeros(self.K, bool)
                answer[self.accepted] = True
                if len(self.accepted) < m:
                    answer[self.remaining] = True
                return Stop(answer)
            self.queue = list(self.remaining)
        return self.queue.pop(0)


class Rage(Rule):
    """Fiez et al. 2019, BAI and items: phases of a rounded design; dominated candidates
    are dropped."""

    native = True

    def configure(self):
        self.needs("bai", "items")

    def start(self, stats):
        self.z, self.P = self.problem.z, self.problem.P
        self.active = np.arange(self.P)
        self.phase = 0
        self.left = np.zeros(self.K, int)

    def _design(self, Y):
        """Frank-Wolfe for min over the simplex of max over Y of ||y||^2.

        Returns the design and rho. As in the traces, rho is that of the design before
        the last step.
        """
        w = np.full(self.K, 1.0 / self.K)
        for n in range(1, 5001):
            inverse = np.linalg.inv((self.phi.T * w) @ self.phi)
            norm = squared_norms(Y, inverse)
            rho, y = norm.max(), Y[np.argmax(norm)]
            k = np.argmax((self.phi @ inverse @ y) ** 2)
            step = -w * 2.0 / (n + 2)
            step[k] += 2.0 / (n + 2)
            w = w + step
            if np.linalg.norm(step) / np.linalg.norm(w) < 0.01:
                break
        w = np.where(w < 1e-5, 0.0, w)
        return w / w.sum(), rho

    def _round(self, w, samples):
        """Efficient rounding of samples * w to integers."""
        support = np.flatnonzero(w > 0)
        n = np.zeros(self.K, int)
        n[support] = np.ceil((samples - len(support) / 2) * w[support]).astype(int)
        while n.sum() < samples:
            n[support[np.argmin(n[support] / w[support])]] += 1
        while n.sum() > samples:
            n[support[np.argmax((n[support] - 1) / w[support])]] -= 1
        return n

    def _begin(self):
        self.phase += 1
        Y = np.array([self.z[i] - self.z[j] for i, j in itertools.combinations(self.active, 2)])
        w, rho = self._design(Y)
        delta_before = self.delta / max(self.phase - 1, 1) ** 2
        scale = 8.0 * 4.0 ** (self.phase - 1) * rho * 1.1
        samples = int(
            max(np.ceil(scale * np.log(2.0 * self.P**2 / delta_before)), 20 * np.sum(w > 0))
        )
        self.left = self._round(w, samples)

    def _end(self, stats):
        width = 2.0 * np.log(2.0 * self.P**2 / (self.delta / self.phase**2))
        kept = []
        for i in self.active:
            y = self.z[[j for j in self.active if j != i]] - self.z[i]
            norm = squared_norms(y, stats.inverse)
            if not np.any((norm > 0) & (np.sqrt(norm * width) <= y @ stats.theta)):
                kept.append(i)
        self.active = np.array(kept)

    def choose(self, stats, t, active):
        if not self.left.any():
            if self.phase > 0:
                self._end(stats)
            if len(self.active) == 1:
                answer = np.zeros(self.P, bool)
                answer[self.active] = True
                return Stop(answer)
            self._begin()
        k = int(np.argmax(self.left))
        self.left[k] -= 1
        return k


class XyAdaptive(Rule):
    """Soare et al. 2014, BAI and items: every 10 steps the arm that best shrinks the differences.

    The differences are those of the active arms. The test for a new phase comes before
    each of these choices only.
    """

    native = True

    def configure(self, alpha=0.1):
        self.needs("bai", "items")
        self.alpha = alpha

    def start(self, stats):
        self.z = self.problem.z
        self.active = np.arange(len(self.z))
        self.rho, self.rho_old, self.t_old = 1.0, 1.0, self.K
        self.repeat = 0

    def _unbeaten(self, stats, t):
        kept = []
        for i in range(len(self.z)):
            y = np.delete(self.z, i, axis=0) - self.z[i]
            norm = squared_norms(y, stats.inverse)
            beats = y @ stats.theta >= np.sqrt(2.0 * self.beta(t, self.delta) * norm)
            if not np.any((norm > 0) & beats):
                kept.append(i)
        return np.array(kept)

    def choose(self, stats, t, active):
        if self.repeat == 0 and self.rho / t < self.alpha * self.rho_old / self.t_old:
            self.active = self._unbeaten(stats, t)
            self.rho_old, self.t_old = self.rho, t
            if len(self.active) == 1:
                answer = np.zeros(len(self.z), bool)
                answer[self.active] = True
                return Stop(answer)
        if self.repeat == 0:
            Y = np.array(
                [self.z[i] - self.z[j] for i, j in itertools.combinations(self.active, 2)]
            )
            fall = (Y @ stats.inverse @ self.phi.T) ** 2 / (
                1.0 + squared_norms(self.phi, stats.inverse)
            )
            worst = np.max(squared_norms(Y, stats.inverse)[:, None] - fall, axis=0)
            self.arm, self.rho = int(np.argmin(worst)), worst.min()
        self.repeat = (self.repeat + 1) % 10
        return self.arm
