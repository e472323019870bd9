"""Section 7: the sampling rules without a native stopping test."""

import numpy as np

from tests.twin.problems import gradients, llr, squared_norms
from tests.twin.rule import Rule, most_ambiguous, most_informative
from tests.twin.solver import best_allocation, maximin

EPS = np.finfo(float).eps


class Uniform(Rule):
    """Round robin."""

    def choose(self, stats, t, active):
        return (t - 1) % self.K


class Oracle(Rule):
    """D-tracking of w*, given as `weights` or solved for at the true theta."""

    def configure(self, weights=None):
        if weights is None:
            y, c = self.problem.halfspaces(
                self.problem.pieces(self.problem.answer(self.problem.z @ self.theta))
            )
            weights = best_allocation(self.phi, y, c, self.theta)[0]
        self.w = np.asarray(weights, float)

    def choose(self, stats, t, active):
        return int(np.argmin(stats.counts - (t - 1) * self.w))


class LinGapE(Rule):
    """Xu et al. 2018, m-LinGapE, and its form for thresholding.

    It takes the most uncertain active piece, then the most informative arm for it.
    """

    def choose(self, stats, t, active):
        c = np.sqrt(2.0 * (np.log(1.0 / self.delta) + 2.0 * np.log(t + 1.0)))
        labels = active(stats.answer)
        self.reads = len(labels)
        y, offset = self.problem.halfspaces(labels)
        index = -(y @ stats.theta - offset) + c * np.sqrt(squared_norms(y, stats.inverse))
        return most_informative(stats, self.phi, y[np.argmax(index)])


class LinGame(Rule):
    """Degenne et al. 2020: greedy, or with optimistic gains; AdaHedge, C-tracking.

    V_w uses max(w, 1e-12), since AdaHedge's weights underflow and V_w would be
    singular.
    """

    def configure(self, optimistic=False):
        self.optimistic = optimistic

    def start(self, stats):
        self.L, self.Delta = np.zeros(self.K), 0.01
        self.W = stats.counts.astype(float)

    def choose(self, stats, t, active):
        eta = np.log(self.K) / self.Delta
        w = np.exp(-eta * (self.L - self.L.min()))
        w = w / w.sum()

        labels = active(stats.answer)
        self.reads = len(labels)
        y, c = self.problem.halfspaces(labels)
        inverse = np.linalg.inv((self.phi.T * np.maximum(w, 1e-12)) @ self.phi)
        p = np.argmin(llr(y, c, stats.theta, inverse))
        gain = gradients(self.phi, y[p : p + 1], c[p : p + 1], stats.theta, inverse)[0]
        if self.optimistic:
            width = np.sqrt(2.0 * np.log(t) * squared_norms(self.phi, stats.inverse))
            gain = (np.sqrt(2.0 * gain) + width) ** 2 / 2.0

        loss = -gain
        mix = loss.min() - np.log(np.sum(w * np.exp(-eta * (loss - loss.min())))) / eta
        self.L = self.L + loss
        self.Delta += w @ loss - mix
        self.W = self.W + w
        return int(np.argmin(stats.counts - self.W))


class Fws(Rule):
    """Frank-Wolfe sampling, Wang et al. 2021; the matrix game is a linear program.

    "To machine precision" is |difference| <= eps = 2.2e-16. `games` lists the number of
    rows of every matrix game, one entry per choice that is not uniform.
    """

    def start(self, stats):
        self.x = stats.counts / stats.t
        self.games = []

    def _degenerate(self, means):
        if self.problem.kind in ("bai", "items"):
            means = means if self.problem.kind == "bai" else self.problem.z @ self.theta_hat
            return np.sum(np.abs(means - means.max()) <= EPS) > 1
        if self.problem.kind == "reference":
            y, c = self.problem.halfspaces(self.problem.pieces(self.problem.answer(means)))
            return bool(np.any(y @ self.theta_hat - c <= EPS))
        return self.problem.kind == "osi" and bool(
            np.any(np.abs(means - self.problem.level) <= EPS)
        )

    def choose(self, stats, t, active):
        self.theta_hat = stats.theta
        r = float(t) ** -0.9 / self.K
        rounds = t // self.K
        self.reads = 0
        if int(np.sqrt(rounds)) ** 2 == rounds or self._degenerate(stats.means):
            z = np.full(self.K, 1.0 / self.K)
        else:
            labels = active(stats.answer)
            self.reads = len(labels)
            y, c = self.problem.halfspaces(labels)
            inverse = np.linalg.inv((self.phi.T * self.x) @ self.phi)
            grads = gradients(self.phi, y, c, stats.theta, inverse)
            f = grads @ self.x
            near = np.flatnonzero(f < f.min() + r)
            self.games.append(len(near))
            if len(near) == 1:
                z = np.zeros(self.K)
                z[np.argmax(grads[near[0]])] = 1.0
            else:
                z = maximin(grads[near] - f[near, None])[0]
        self.x = ((t - 1) * self.x + z) / t
        return int(np.argmax(self.x / stats.counts))


class LazyTas(Rule):
    """Jedra and Proutiere 2020; the allocation is solved when t is a power of two."""

    def start(self, stats):
        self.spanner = []
        for k in range(self.K):
            if np.linalg.matrix_rank(self.phi[[*self.spanner, k]]) > len(self.spanner):
                self.spanner.append(k)
        A = self.phi[self.spanner].T @ self.phi[self.spanner]
        self.c0 = np.linalg.eigvalsh(A)[0] / np.sqrt(self.d)
        self.w = np.full(self.K, 1.0 / self.K)
        self.W = np.zeros(self.K)
        self.i0 = 0

    def _improve(self, stats, labels):
        y, c = self.problem.halfspaces(labels)
        w = self.w
        for i in range(1, 1001):
            inverse = np.linalg.inv((self.phi.T * w) @ self.phi)
            p = np.argmin(llr(y, c, stats.theta, inverse))
            k = np.argmax(gradients(self.phi, y[p : p + 1], c[p : p + 1], stats.theta, inverse)[0])
            w = w * (i / (i + 1)) + np.eye(self.K)[k] / (i + 1)
            if 1.0 / ((i + 1) * np.linalg.norm(w)) < 0.001:
                break
        self.w = w
        self.reads = i * len(labels)

    def choose(self, stats, t, active):
        self.reads = 0
        if t & (t - 1) == 0:
            self._improve(stats, active(stats.answer))
        self.W = self.W + self.w
        explore = np.linalg.eigvalsh(stats.V)[0] < self.c0 * np.sqrt(t)
        k = self.spanner[self.i0] if explore else int(np.argmin(stats.counts - self.W))
        self.i0 = (self.i0 + 1) % self.d
        return k


class Tas(Rule):
    """Track-and-Stop, Garivier and Kaufmann 2016.

    best_allocation of theta_hat is solved at the first and each `every`-th choice.
    Uniform weights over the arms with N_k <= sqrt(t - 1) - K/2 are tracked, if there are any.
    """

    def configure(self, tracking="D", every=1, tolerance=1e-6):
        self.tracking, self.every, self.tolerance = tracking, every, tolerance

    def start(self, stats):
        self.W = stats.counts.astype(float)
        self.calls = 0

    def choose(self, stats, t, active):
        self.reads = 0
        if self.calls % self.every == 0:
            labels = active(stats.answer)
            y, c = self.problem.halfspaces(labels)
            self.w, _, _, steps = best_allocation(
                self.phi, y, c, stats.theta, tolerance=self.tolerance
            )
            self.reads = steps * len(labels)
        self.calls += 1
        w = self.w
        starved = stats.counts <= np.sqrt(t - 1) - self.K / 2
        if starved.any():
            w = starved / starved.sum()
        self.W = self.W + w
        goal = self.W if self.tracking == "C" else (t - 1) * w
        return int(np.argmin(stats.counts - goal))


class OptimisticTas(Rule):
    """Degenne et al. 2019: best_allocation with the bonus w . c; C-tracking only.

    `bonus` is a function of (t, ||phi_k||_{V^-1} [K]), by default sqrt(2 log t) times
    the norms.
    """

    def configure(self, bonus=None, tolerance=1e-6):
        self.bonus = bonus or (lambda t, norms: np.sqrt(2.0 * np.log(t)) * norms)
        self.tolerance = tolerance

    def start(self, stats):
        self.W = stats.counts.astype(float)

    def choose(self, stats, t, active):
        labels = active(stats.answer)
        y, c = self.problem.halfspaces(labels)
        bonus = self.bonus(t, np.sqrt(squared_norms(self.phi, stats.inverse)))
        self.w, _, _, steps = best_allocation(self.phi, y, c, stats.theta, bonus, self.tolerance)
        self.reads = steps * len(labels)
        self.W = self.W + self.w
        return int(np.argmin(stats.counts - self.W))


class LinGifa(Rule):
    """Reda et al.

    2021, BAI, items and Top-m; it reads every pair of candidates, no active pieces.
    """

    def configure(self):
        self.needs("bai", "items", "topm")

    def choose(self, stats, t, active):
        c = np.sqrt(2.0 * self.beta(t, self.delta))
        z = self.problem.z
        B = np.zeros((len(z), len(z)))
        for j in range(len(z)):
            y = z - z[j]
            B[:, j] = y @ stats.theta + c * np.sqrt(squared_norms(y, stats.inverse))
        _, b, c_arm, _ = most_ambiguous(B, self.problem.m)
        return most_informative(stats, self.phi, z[b] - z[c_arm])
