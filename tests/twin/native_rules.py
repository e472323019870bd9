"""Section 7: the sampling rules with a native test."""

import itertools

import numpy as np

from tests.twin.rules import Rule, most_ambiguous
from tests.twin.worlds import squared_norms, top


class Lucb(Rule):
    """Kalyanakrishnan et al. 2012, unstructured: the less pulled of the two that overlap most.

    Two pulls: b, then c without a check. It stops if the largest overlap is at most the slack.
    """

    native = True

    def configure(self, pulls=1):
        self.pulls, self.waiting = pulls, None

    def choose(self, seen, t, active):
        if self.waiting is not None:
            arm, self.waiting, self.reads = self.waiting, None, 0
            return arm
        lower, upper = seen.bounds(self.beta(t, self.delta))
        answer, line = self.pieces.answer(seen.averages), self.pieces.level
        labels = active(answer)
        self.reads, (first, second) = len(labels), labels.T
        if self.pieces.kind == "osi":
            overlaps = np.where(second == 1, line - lower[first], upper[first] - line)
        else:
            overlaps = upper[second] - lower[first]
        overlaps = overlaps - self.pieces.slack
        most = np.argmax(overlaps)
        if overlaps[most] <= 0:
            self.stop = answer
        b, c = labels[most]
        if self.pieces.kind == "osi":
            return int(b)
        if self.pulls == 2:
            self.waiting = int(c)
            return int(b)
        return int(b if seen.counts[b] < seen.counts[c] else c)


class UGapE(Rule):
    """Gabillon et al. 2012, BAI and Top-m, unstructured: B_ij = U_i - L_j."""

    native = True

    def choose(self, seen, t, active):
        lower, upper = seen.bounds(self.beta(t, self.delta))
        J, b, c, mth = most_ambiguous(upper[:, None] - lower[None, :], self.pieces.m)
        if np.all(mth[J] <= 0):
            self.stop = self.mask(J)
        return b if seen.counts[b] < seen.counts[c] else c


class Racing(Rule):
    """Kaufmann and Kalyanakrishnan 2013, BAI and Top-m, unstructured.

    Each round of the remaining arms begins with one acceptance or discard. T: the m best means
    of all arms, less the accepted. Accept the best a if the largest U_i of the remaining
    outside T is <= L_a. Discard the worst w if U_w <= the least L_i of T. If both hold, the
    larger margin decides (ties: accept).
    """

    native = True

    def start(self, seen):
        self.remaining, self.accepted, self.discarded = list(range(self.K)), [], []
        self.queue = []

    def change(self, seen, t):
        (lower, upper), means = seen.bounds(self.beta(t, self.delta)), seen.averages
        T = [k for k in np.sort(top(means, self.pieces.m)) if k not in self.accepted]
        best = max(self.remaining, key=lambda k: means[k])
        worst = min(self.remaining, key=lambda k: means[k])
        rest = (upper[k] for k in self.remaining if k not in T)
        accept = lower[best] - max(rest, default=-np.inf)
        discard = min((lower[k] for k in T), default=-np.inf) - upper[worst]
        if accept >= 0 and accept >= discard:
            self.remaining.remove(best)
            self.accepted.append(best)
        elif discard >= 0:
            self.remaining.remove(worst)
            self.discarded.append(worst)

    def choose(self, seen, t, active):
        if not self.queue:
            self.change(seen, t)
            self.queue, m = list(self.remaining), self.pieces.m
            if len(self.accepted) == m:
                self.stop = self.mask(self.accepted)
            elif len(self.discarded) == self.K - m:
                self.stop = self.mask(self.accepted + self.remaining)
        return self.queue.pop(0) if self.queue else None


class Rage(Rule):
    """Fiez et al. 2019, BAI and items: phases of a rounded design; dominated candidates
    are dropped."""

    native = True

    def start(self, seen):
        self.z, self.P = seen.z, self.pieces.P
        self.active, self.phase, self.left = np.arange(self.P), 0, np.zeros(self.K, int)

    def _design(self, phi, Y):
        """Frank-Wolfe for min over w of max over Y of ||y||^2; rho is of the design before."""
        w = np.full(self.K, 1.0 / self.K)
        for n in range(1, 5001):
            inverse = np.linalg.inv((phi.T * w) @ phi)
            norm = squared_norms(Y, inverse)
            rho, y = norm.max(), Y[np.argmax(norm)]
            k = np.argmax((phi @ inverse @ y) ** 2)
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

    def _begin(self, phi):
        self.phase += 1
        w, rho = self._design(phi, differences(self.z, self.active))
        delta_before = self.delta / max(self.phase - 1, 1) ** 2
        scale = 8.0 * 4.0 ** (self.phase - 1) * rho * 1.1
        samples = int(
            max(np.ceil(scale * np.log(2.0 * self.P**2 / delta_before)), 20 * np.sum(w > 0))
        )
        self.left = self._round(w, samples)

    def _end(self, seen):
        width = 2.0 * np.log(2.0 * self.P**2 / (self.delta / self.phase**2))
        self.active = unbeaten(seen, self.z, self.active, width)

    def choose(self, seen, t, active):
        if not self.left.any():
            if self.phase > 0:
                self._end(seen)
            if len(self.active) == 1:
                self.stop = self.mask(self.active)
                return None
            self._begin(seen.phi)
        k = int(np.argmax(self.left))
        self.left[k] -= 1
        return k


class XyAdaptive(Rule):
    """Soare et al. 2014, BAI and items: every 10 steps the arm that best shrinks differences."""

    native = True

    def configure(self, alpha=0.1):
        self.alpha = alpha

    def start(self, seen):
        self.z, self.active = seen.z, np.arange(self.pieces.P)
        self.rho, self.rho_old, self.t_old, self.repeat = 1.0, 1.0, self.K, 0

    def choose(self, seen, t, active):
        if self.repeat == 0 and self.rho / t < self.alpha * self.rho_old / self.t_old:
            width = 2.0 * self.beta(t, self.delta)
            self.active = unbeaten(seen, self.z, np.arange(len(self.z)), width)
            self.rho_old, self.t_old = self.rho, t
            if len(self.active) == 1:
                self.stop = self.mask(self.active)
                return None
        if self.repeat == 0:
            Y = differences(self.z, self.active)
            fall = (Y @ seen.inverse @ seen.phi.T) ** 2 / (
                1.0 + squared_norms(seen.phi, seen.inverse)
            )
            worst = np.max(squared_norms(Y, seen.inverse)[:, None] - fall, axis=0)
            self.arm, self.rho = int(np.argmin(worst)), worst.min()
        self.repeat = (self.repeat + 1) % 10
        return self.arm


def differences(z, active):
    """z_i - z_j of the active candidates, i < j."""
    return np.array([z[i] - z[j] for i, j in itertools.combinations(active, 2)])


def unbeaten(seen, z, among, width):
    """The candidates that none of them beats by sqrt(width) norms of the difference."""
    kept = []
    for i in among:
        y = z[among[among != i]] - z[i]
        norm = squared_norms(y, seen.inverse)
        if not np.any((norm > 0) & (np.sqrt(norm * width) <= y @ seen.theta)):
            kept.append(i)
    return np.array(kept)
