"""Section 7 on independent arms: the sampling rules, recomputed from counts and estimates.

`choose(seen, t, labels)` gives the arm of sample t, and the answer to stop with or None;
`seen` is a `worlds.Seen`, `labels` the active pieces of the empirical answer.
"""

import math

import numpy as np
from scipy.optimize import linprog

from tests.twin.arm_weights import FLOOR, weights_of
from tests.twin.solver import maximin

EPS = np.finfo(float).eps
LEVEL = 1.2 * 2.2
"""The upper bounds of a UCB leader are at level LEVEL log t."""


def clear(x):
    """Whether rounding cannot decide which entry is the largest; exact ties are clear."""
    others = x.max() - x[x < x.max()]
    return others.size == 0 or others.min() > 1e-9 * max(abs(x.max()), 1e-9)


def unique(payoffs):
    """Whether only one z maximises the least entry of payoffs @ z over the simplex."""
    z, value = maximin(payoffs)
    slack, K = 1e-8 * np.abs(payoffs).max(), payoffs.shape[1]
    toward = np.random.default_rng(0).normal(size=K)
    ends = [
        linprog(sign * toward, -payoffs, np.full(len(payoffs), slack - value), np.ones((1, K)),
                [1.0], method="highs").x
        for sign in (1, -1)
    ]  # fmt: skip
    return all(end is not None and np.abs(end - z).max() < 1e-4 for end in ends)


class Rule:
    """A rule. `sure` turns False where several choices are right, up to rounding.

    follow: arms of another program, for choices that rounding decides.
    """

    native = False  # whether it has a test of its own
    sure = True

    def __init__(self, problem, beta, truth, follow=None, **settings):
        self.problem, self.K, self.beta = problem, problem.K, beta
        self.truth, self.follow = truth, follow
        self.start(truth.counts.astype(float), **settings)

    def start(self, counts):
        """Set up; counts [K] after the first pulls."""

    def mask(self, arms):
        answer = np.zeros(self.K, bool)
        answer[list(arms)] = True
        return answer


class Uniform(Rule):
    """Round robin."""

    def choose(self, seen, t, labels):
        return (t - 1) % self.K, None


class Lucb(Rule):
    """The two arms whose intervals overlap most; it pulls the less pulled one (ties: c).

    Two pulls: b, then c without a check. It stops if the largest overlap is at most the slack.
    """

    native = True

    def start(self, counts, pulls=1):
        self.pulls, self.waiting = pulls, None

    def choose(self, seen, t, labels):
        if self.waiting is not None:
            arm, self.waiting = self.waiting, None
            return arm, None
        lower, upper = seen.bounds(self.beta(t))
        first, second = labels[:, 0], labels[:, 1]
        signs, line = self.problem.kind == "osi", self.problem.level
        if signs:
            overlaps = np.where(second == 1, line - lower[first], upper[first] - line)
        else:
            overlaps = upper[second] - lower[first] - self.problem.slack
        most = np.argmax(overlaps)
        stop = self.problem.answer(seen.means) if overlaps[most] <= 0 else None
        b, c = labels[most]
        if signs:
            return b, stop
        if self.pulls == 2:
            self.waiting = c
            return b, stop
        return (b if seen.counts[b] < seen.counts[c] else c), stop


class UGapE(Rule):
    """B_ij = U_i - L_j; J holds the m arms of least m-th largest B_ij over i != j.

    It stops when none of these is positive.
    """

    native = True

    def choose(self, seen, t, labels):
        (lower, upper), m = seen.bounds(self.beta(t)), self.problem.m
        B = upper[:, None] - lower[None, :]
        mth = np.array([np.sort(np.delete(B[:, j], j))[-m] for j in range(self.K)])
        J = np.sort(np.argsort(mth, kind="stable")[:m])
        others = np.setdiff1d(np.arange(self.K), J)
        b = J[np.argmax([B[others, j].max() for j in J])]
        c = others[np.argmax(B[others, b])]
        stop = self.mask(J) if np.all(mth[J] <= 0) else None
        return (b if seen.counts[b] < seen.counts[c] else c), stop


class Racing(Rule):
    """Rounds over the remaining arms; one acceptance or discard before each round.

    T: the m best means of all arms, less the accepted. Accept the best a if the largest
    U_i of the remaining outside T is <= L_a. Discard the worst w if U_w <= the least
    L_i of T. If both hold, the larger margin decides (ties: accept).
    """

    native = True

    def start(self, counts):
        self.remaining, self.accepted, self.discarded = list(range(self.K)), [], []
        self.queue = []

    def change(self, seen, t):
        (lower, upper), means = seen.bounds(self.beta(t)), seen.means
        T = [k for k in np.flatnonzero(self.problem.answer(means)) if k not in self.accepted]
        best = max(self.remaining, key=lambda k: means[k])
        worst = min(self.remaining, key=lambda k: means[k])
        rest = (upper[k] for k in self.remaining if k not in T)
        accept = lower[best] - max(rest, default=-np.inf)
        discard = min(lower[k] for k in T) - upper[worst]
        if accept >= 0 and accept >= discard:
            self.remaining.remove(best)
            self.accepted.append(best)
        elif discard >= 0:
            self.remaining.remove(worst)
            self.discarded.append(worst)

    def choose(self, seen, t, labels):
        stop = None
        if not self.queue:
            self.change(seen, t)
            self.queue = list(self.remaining)
            if len(self.accepted) == self.problem.m:
                stop = self.mask(self.accepted)
            elif len(self.discarded) == self.K - self.problem.m:
                stop = self.mask(self.accepted + self.remaining)
        return (self.queue.pop(0) if self.queue else 0), stop


class KLearner(Rule):
    """AdaHedge over arms against the cheapest piece; C-tracking."""

    def start(self, counts):
        self.losses, self.gap, self.W = np.zeros(self.K), 0.01, counts.copy()

    def choose(self, seen, t, labels):
        rate = math.log(self.K) / self.gap
        w = np.exp(-rate * (self.losses - self.losses.min()))
        w = w / w.sum()
        inside = np.maximum(w, FLOOR)
        label = labels[np.argmin(seen.values(labels, inside))]
        loss = -seen.gradient(label, inside)
        mixed = loss.min() - math.log(np.sum(w * np.exp(-rate * (loss - loss.min())))) / rate
        self.losses, self.gap = self.losses + loss, self.gap + (w @ loss - mixed)
        self.W = self.W + w
        behind = seen.counts - self.W
        if self.follow is not None and t - 1 < len(self.follow):
            k = int(self.follow[t - 1])
            if behind[k] <= behind.min() + 1e-9:
                return k, None
        return int(np.argmin(behind)), None


class Fws(Rule):
    """One Frank-Wolfe step a pull."""

    def start(self, counts):
        self.x = counts / counts.sum()

    def tied(self, means):
        if self.problem.kind == "bai":
            return np.sum(means >= means.max() - EPS) > 1
        return self.problem.kind == "osi" and np.any(np.abs(means - self.problem.level) <= EPS)

    def choose(self, seen, t, labels):
        z = np.full(self.K, 1 / self.K)
        if math.isqrt(t // self.K) ** 2 != t // self.K and not self.tied(seen.means):
            values = seen.values(labels, self.x)
            near = labels[values < values.min() + t**-0.9 / self.K]
            grads = np.array([seen.gradient(label, self.x) for label in near])
            if len(near) == 1:
                z = np.eye(self.K)[np.argmax(grads[0])]
                self.sure &= clear(grads[0])
            else:
                payoffs = grads - (grads @ self.x)[:, None]
                self.sure &= unique(payoffs)
                z = maximin(payoffs)[0]
        self.x = ((t - 1) * self.x + z) / t
        due = self.x / seen.counts
        # Ties of some arms are of equal weights, which each program rounds in its own way.
        self.sure &= np.ptp(due) == 0 or np.sum(due > due.max() * (1 - 1e-9)) == 1
        return int(np.argmax(due)), None


class LazyTas(Rule):
    """Lazy Track-and-Stop: Frank-Wolfe where t is a power of two; explores all arms in turn."""

    def start(self, counts):
        self.w, self.W = np.full(self.K, 1 / self.K), np.zeros(self.K)

    def improve(self, seen, labels):
        w = self.w
        for i in range(1, 1001):
            inside = np.maximum(w, FLOOR)
            values = seen.values(labels, inside)
            slope = seen.gradient(labels[np.argmin(values)], inside)
            self.sure &= clear(-values) and clear(slope)
            w = w * (i / (i + 1)) + np.eye(self.K)[np.argmax(slope)] * (1 / (i + 1))
            if 1 / ((i + 1) * np.sqrt(np.sum(w**2))) < 0.001:
                break
        self.w = w

    def choose(self, seen, t, labels):
        if t & (t - 1) == 0:
            self.improve(seen, labels)
        self.W = self.W + self.w
        if np.min(seen.per_cost(seen.counts)) < math.sqrt(t) / math.sqrt(self.K):
            return (t - 1 - self.K) % self.K, None
        self.sure &= clear(self.W - seen.counts)
        return int(np.argmin(seen.counts - self.W)), None


class Tas(Rule):
    """Track-and-Stop; `tracking` "D" or "C"."""

    def start(self, counts, tracking="D", every=1):
        self.tracking, self.every = tracking, every
        self.w, self.W, self.calls = np.full(self.K, 1 / self.K), counts.copy(), 0

    def choose(self, seen, t, labels):
        if self.calls % self.every == 0:
            self.w, certain = weights_of(seen, labels, self.w)
            self.sure &= certain
        self.calls += 1
        w, starved = self.w, seen.counts <= math.sqrt(t - 1) - self.K / 2
        if starved.any():
            w = starved / starved.sum()
        self.W = self.W + w
        return self.tracked(seen.counts, self.W if self.tracking == "C" else (t - 1) * w), None

    def tracked(self, counts, target):
        """The lowest index of the least N_k - target_k, within 1e-6 counted as equal.

        w* is found by another method than the library's, so ties that are exact on paper
        differ in their last digits. They are sure between arms with equal targets alone,
        and there not for w* of top m and of references, which the library does not round.
        It rounds other w* to multiples of 2^-30, so that 1e-7 is enough for these.
        """
        due, rounded = counts - target, self.problem.kind in ("bai", "osi")
        near, equal = (1e-7, 1e-9) if rounded else (1e-6, 1e-7)
        tied = np.flatnonzero(due <= due.min() + near)
        even = bool(np.ptp(target[tied]) < equal) and (rounded or self.problem.kind == "slack")
        self.sure &= tied.size == 1 or even
        return int(tied[0])


class Oracle(Tas):
    """D-tracking of w* at the true means."""

    def start(self, counts):
        labels = self.problem.pieces(self.problem.answer(self.truth.means), self.truth.means)
        self.w = weights_of(self.truth, labels, None)[0]

    def choose(self, seen, t, labels):
        return self.tracked(seen.counts, (t - 1) * self.w), None


class TopTwo(Rule):
    """A leader, a challenger, and which of them is pulled.

    Random numbers are given: `draw(counts, means, t, n)` is the n-th posterior draw of
    sample t, [K], and `chance(t)` a uniform.
    """

    def start(self, counts, leader="eb", challenger="tc", share=0.5, select="sampling",
              draw=None, chance=None):  # fmt: skip
        self.leader, self.challenger, self.share, self.select = leader, challenger, share, select
        self.draw, self.chance = draw, chance
        self.due, self.taken = [0.0] * self.K, [0] * self.K

    def least(self, seen, labels):
        """The label of least L, or of least L plus the log counts of its arms."""
        costs, kind = seen.values(labels), self.problem.kind
        if self.challenger == "tci":
            logs = np.append(np.log(seen.counts), 0.0)  # a reference has none
            costs = costs + logs[labels[:, 0 if kind == "osi" else 1]]
            if kind == "topm":
                costs = costs + logs[labels[:, 0]]
        self.sure &= clear(-costs)
        return labels[np.argmin(costs)]

    def top(self, scores, playing):
        """The playing arm of the largest score."""
        scores = np.asarray(scores)[playing]
        self.sure &= clear(scores)
        return playing[int(np.argmax(scores))]

    def choose(self, seen, t, labels):
        if self.problem.kind == "osi":
            return int(self.least(seen, labels)[0]), None
        best = np.flatnonzero(self.problem.answer(seen.means))[:1].tolist()
        playing = sorted({*best, *labels[:, 1].tolist()})
        if self.leader == "eb":
            piece = self.least(seen, labels)
        else:
            ucb = self.leader == "ucb"
            scores = seen.bounds(LEVEL * math.log(t))[1] if ucb else self.draw(
                seen.counts, seen.means, t, 0
            )  # fmt: skip
            i = self.top(scores, playing)
            piece = self.least(seen, np.array([(i, k) for k in playing if k != i]))
        i, j = (min(piece),) * 2 if self.K in piece else piece
        if self.challenger == "rs":
            j = self.redrawn(seen, t, i, playing, j)
        return int(i if self.leads(seen, int(i), int(j), t) else j), None

    def redrawn(self, seen, t, i, playing, otherwise):
        for n in range(1, 201):
            other = self.top(self.draw(seen.counts, seen.means, t, n), playing)
            if other != i:
                return other
        return otherwise

    def ids(self, seen, i, j):
        """w_i loss_i/(w_i loss_i + w_j loss_j) where both arms meet; w_j/(w_i + w_j) in a tie."""
        n, world = seen.world.weights(seen.counts), seen.world
        if self.problem.slack:
            moved = seen.closest((i, j), n)
        elif seen.means[i] > seen.means[j]:
            moved = dict(zip((i, j), world.meet(seen, i, j, n, 0.0), strict=True))
        else:
            moved = dict(zip((j, i), world.meet(seen, j, i, n, 0.0), strict=True))
        own, other = (n[k] * world.loss(seen, k, moved[k]) for k in (i, j))
        apart = (self.problem.slack or seen.means[i] != seen.means[j]) and own + other > 0
        return own / (own + other) if apart else n[j] / (n[i] + n[j])

    def leads(self, seen, i, j, t):
        """Whether the leader is pulled."""
        q = self.ids(seen, i, j) if self.share == "ids" else self.share
        if self.select == "sampling":
            u = self.chance(t)
            self.sure &= abs(u - q) > 1e-9
            return u < q
        if i == j:  # no turn of a pair, where the reference is one of the two
            return True
        self.due[i] += q
        self.sure &= self.share != "ids" or abs(self.taken[i] - self.due[i]) > 1e-9
        if self.taken[i] <= self.due[i]:
            self.taken[i] += 1
            return True
        return False


RULES = {
    "uniform": Uniform, "lucb": Lucb, "ugape": UGapE, "racing": Racing, "k-learner": KLearner,
    "fws": Fws, "lazy-tas": LazyTas, "tas": Tas, "oracle": Oracle, "top-two": TopTwo,
}  # fmt: skip
