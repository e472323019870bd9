"""Section 7: the sampling rules without a native test.

`choose(seen, t, active)` returns the next arm; t is the index of the next sample, and
`active(answer)` gives the labels of an answer's active pieces. A native test that holds sets
`stop` to its answer. `reads` is the number of pieces tested by the last choice.
"""

import math

import numpy as np

from tests.twin.allocations import FLOOR, maximin, piece_weights, unique, weights_of
from tests.twin.worlds import squared_norms, top

EPS = np.finfo(float).eps


def clear(x, exact=True):
    """Whether rounding cannot decide which entry is the largest; exact ties are clear or not."""
    if not exact and np.sum(x == x.max()) > 1:
        return False
    others = x.max() - x[x < x.max()]
    return others.size == 0 or others.min() > 1e-9 * max(abs(x.max()), 1e-9)


class Rule:
    """A sampling rule; `start` is called once, after the initial pulls.

    follow: arms of another program, for choices that rounding decides. With it `sure` turns
    False where several choices are right, up to rounding.
    """

    native = False  # whether it has a test of its own
    reads = 0
    sure = True
    stop = None

    def __init__(self, pieces, delta, beta, world, follow=None, **settings):
        self.pieces, self.K, self.world, self.follow = pieces, pieces.K, world, follow
        self.delta, self.beta = delta, beta
        self.configure(**settings)

    def configure(self):
        """Set the rule's settings."""

    def start(self, seen):
        """Initialize the rule's state."""

    def mask(self, chosen):
        """An answer of these arms or items."""
        return np.isin(np.arange(self.pieces.P), list(chosen))

    def doubt(self, sure):
        """Note whether a choice is sure; `sure` is a function, as it takes time."""
        if self.follow is not None:
            self.sure &= bool(sure())


class Uniform(Rule):
    """Round robin."""

    def choose(self, seen, t, active):
        return (t - 1) % self.K


class LinGapE(Rule):
    """Xu et al. 2018, m-LinGapE, and its form for thresholding.

    It takes the most uncertain active piece, then the most informative arm for it.
    """

    def choose(self, seen, t, active):
        c = np.sqrt(2.0 * (np.log(1.0 / self.delta) + 2.0 * np.log(t + 1.0)))
        labels = active(seen.answer)
        self.reads = len(labels)
        y, offset = seen.halfspaces(labels)
        index = -(y @ seen.theta - offset) + c * seen.norms(y)
        return most_informative(seen, y[np.argmax(index)])


class LinGifa(Rule):
    """Reda et al. 2021, BAI, items and Top-m; it reads all pairs of candidates, no pieces."""

    def choose(self, seen, t, active):
        c, z = np.sqrt(2.0 * self.beta(t, self.delta)), seen.z
        B = np.zeros((len(z), len(z)))
        for j in range(len(z)):
            y = z - z[j]
            B[:, j] = y @ seen.theta + c * seen.norms(y)
        _, b, c_arm, _ = most_ambiguous(B, self.pieces.m)
        return most_informative(seen, z[b] - z[c_arm])


def most_informative(seen, y):
    """The arm k with the least ||y|| in (V + phi_k phi_k')^-1, by Sherman-Morrison."""
    lost = 1.0 + squared_norms(seen.phi, seen.inverse)
    return int(np.argmax((seen.phi @ seen.inverse @ y) ** 2 / lost))


def most_ambiguous(B, m):
    """J, b, c and, for every j, the m-th largest of the gap bounds B_ij over i != j."""
    K = len(B)
    mth = np.array([np.sort(np.delete(B[:, j], j))[-m] for j in range(K)])
    J = np.sort(top(-mth, m))
    outside = np.setdiff1d(np.arange(K), J)
    b = J[np.argmax([B[outside, j].max() for j in J])]
    c = outside[np.argmax(B[outside, b])]
    return J, int(b), int(c), mth


class LinGame(Rule):
    """Degenne et al. 2020: greedy, or with optimistic gains; AdaHedge, C-tracking."""

    def configure(self, optimistic=False):
        self.optimistic = optimistic

    def start(self, seen):
        self.L, self.Delta, self.W = np.zeros(self.K), 0.01, seen.counts.astype(float)

    def choose(self, seen, t, active):
        eta = np.log(self.K) / self.Delta
        w = np.exp(-eta * (self.L - self.L.min()))
        w = w / w.sum()
        inside, labels = np.maximum(w, FLOOR), active(seen.answer)
        self.reads = len(labels)
        p = np.argmin(seen.values(labels, inside))
        gain = seen.gradients(labels[p : p + 1], inside)[0]
        if self.optimistic:
            width = np.sqrt(2.0 * np.log(t)) * seen.norms(seen.phi)
            gain = (np.sqrt(2.0 * gain) + width) ** 2 / 2.0
        loss = -gain
        mix = loss.min() - np.log(np.sum(w * np.exp(-eta * (loss - loss.min())))) / eta
        self.L = self.L + loss
        self.Delta += w @ loss - mix
        self.W = self.W + seen.shares(w)
        behind = seen.counts - self.W
        if self.follow is not None and t - 1 < len(self.follow):
            k = int(self.follow[t - 1])
            if behind[k] <= behind.min() + 1e-9:
                return k
        return int(np.argmin(behind))


class Fws(Rule):
    """Frank-Wolfe sampling, Wang et al. 2021; `games`: the rows of each matrix game."""

    def start(self, seen):
        spent = seen.counts if self.world.prices is None else seen.counts * self.world.prices
        self.x, self.games, self.even = spent / spent.sum(), [], True

    def tied(self, seen):
        labels = self.pieces.of(seen.answer)
        margins = self.pieces.margins(labels, seen.candidates)
        return self.pieces.kind != "topm" and np.any(margins <= EPS)

    def choose(self, seen, t, active):
        z, rounds, self.reads = np.full(self.K, 1.0 / self.K), t // self.K, 0
        if int(np.sqrt(rounds)) ** 2 != rounds and not self.tied(seen):
            labels = active(seen.answer)
            self.reads, self.even = len(labels), False
            grads = seen.gradients(labels, self.x)
            f = grads @ self.x
            near = np.flatnonzero(f < f.min() + float(t) ** -0.9 / self.K)
            self.games.append(len(near))
            if len(near) == 1:
                z = np.eye(self.K)[np.argmax(grads[near[0]])]
                self.doubt(lambda: clear(grads[near[0]]))
            else:
                payoffs = grads[near] - f[near, None]
                z = maximin(payoffs)[0]
                self.doubt(lambda: unique(payoffs))
        self.x = ((t - 1) * self.x + z) / t
        due = seen.per_price(self.x) / seen.counts
        # Ties of some arms are of equal weights, which each program rounds in its own way; but
        # as long as z is uniform, of equal costs too.
        same = self.even or np.ptp(due) == 0
        self.doubt(lambda: same or np.sum(due > due.max() * (1 - 1e-9)) == 1)
        return int(np.argmax(due))


class LazyTas(Rule):
    """Jedra and Proutiere 2020; the allocation is solved when t is a power of two."""

    def start(self, seen):
        self.spanner, self.c0 = self.world.spanner()
        self.first, self.w = seen.t, np.full(self.K, 1.0 / self.K)
        self.W = np.zeros(self.K)

    def improve(self, seen, labels):
        w = self.w
        for i in range(1, 1001):
            inside = np.maximum(w, FLOOR)
            values = seen.values(labels, inside)
            p = np.argmin(values)
            slope = seen.gradients(labels[p : p + 1], inside)[0]
            self.doubt(lambda v=values, s=slope: clear(-v, seen.exact) and clear(s, seen.exact))
            w = w * (i / (i + 1)) + np.eye(self.K)[np.argmax(slope)] / (i + 1)
            if 1.0 / ((i + 1) * np.linalg.norm(w)) < 0.001:
                break
        self.w, self.reads = w, i * len(labels)

    def choose(self, seen, t, active):
        self.reads = 0
        if t & (t - 1) == 0:
            self.improve(seen, active(seen.answer))
        self.W = self.W + seen.shares(self.w)
        if seen.least() < self.c0 * np.sqrt(t):
            return int(self.spanner[(t - 1 - self.first) % len(self.spanner)])
        self.doubt(lambda: clear(self.W - seen.counts))
        return int(np.argmin(seen.counts - self.W))


class Tracking(Rule):
    """What follows an allocation that the library finds by another method."""

    def tracked(self, seen, target):
        """The lowest index of the least N_k - target_k, within 1e-6 counted as equal.

        Ties are sure between arms with equal targets alone, and there not for w* of top m and of
        references. The library rounds other w* to multiples of 2^-30: 1e-7 is enough for these.
        """
        due, kind = seen.counts - target, self.pieces.kind
        rounded = seen.exact and kind in ("bai", "osi") and self.world.prices is None
        near, equal = (1e-7, 1e-9) if rounded else (1e-6, 1e-7)
        tied = np.flatnonzero(due <= due.min() + near)
        even = bool(np.ptp(target[tied]) < equal) and (rounded or kind == "slack")
        self.doubt(lambda: tied.size == 1 or even)
        return int(tied[0])


class Oracle(Tracking):
    """D-tracking of w*, given as `weights` or solved for at the truth."""

    def configure(self, weights=None):
        self.w, self.given = weights, weights is not None
        if not self.given:
            truth = self.world.truth(self.pieces)
            labels = self.pieces.of(truth.answer, truth.means)
            self.w = truth.shares(weights_of(truth, labels, None)[0])

    def choose(self, seen, t, active):
        target = (t - 1) * np.asarray(self.w, float)
        return int(np.argmin(seen.counts - target)) if self.given else self.tracked(seen, target)


class Tas(Tracking):
    """Garivier and Kaufmann 2016; starved arms have N_k <= sqrt(t - 1) - K/2."""

    def configure(self, tracking="D", every=1):
        self.tracking, self.every = tracking, every

    def start(self, seen):
        self.w, self.W, self.calls = np.full(self.K, 1 / self.K), seen.counts.astype(float), 0

    def choose(self, seen, t, active):
        if self.calls % self.every == 0:
            self.w, certain = weights_of(seen, active(seen.answer), self.w, active)
            self.doubt(lambda: certain)
        self.calls += 1
        w, starved = seen.shares(self.w), seen.counts <= np.sqrt(t - 1) - self.K / 2
        if starved.any():
            w = starved / starved.sum()
        self.W = self.W + w
        return self.tracked(seen, self.W if self.tracking == "C" else (t - 1) * w)


class OptimisticTas(Tracking):
    """Degenne et al. 2019: w* with a bonus of (t, ||phi_k||_{V^-1} [K]); C-tracking only."""

    def configure(self, bonus=None):
        self.bonus = bonus or (lambda t, norms: np.sqrt(2.0 * np.log(t)) * norms)

    def start(self, seen):
        self.W = seen.counts.astype(float)

    def choose(self, seen, t, active):
        bonus = seen.per_price(self.bonus(t, seen.norms(seen.phi)))
        self.W = self.W + seen.shares(piece_weights(seen, active(seen.answer), bonus))
        return self.tracked(seen, self.W)


LEVEL = 1.2 * 2.2
"""The upper bounds of a UCB leader are at level LEVEL log t."""


class TopTwo(Rule):
    """A leader, a challenger, and which of them is pulled.

    Random numbers are given: `draw(counts, means, t, n)` is the n-th posterior draw of
    sample t, [K], and `chance(t)` a uniform.
    """

    def configure(self, leader="eb", challenger="tc", share=0.5, select="sampling",
                  draw=None, chance=None):  # fmt: skip
        self.leader, self.challenger, self.share, self.select = leader, challenger, share, select
        self.draw, self.chance = draw, chance
        self.due, self.taken = [0.0] * self.K, [0] * self.K

    def least(self, seen, labels):
        """The label of least L, or of least L plus the log counts of its arms."""
        costs, kind = seen.values(labels), self.pieces.kind
        if self.challenger == "tci":
            logs = np.append(np.log(seen.counts), 0.0)  # a reference has none
            costs = costs + logs[labels[:, 0 if kind == "osi" else 1]]
            if kind == "topm":
                costs = costs + logs[labels[:, 0]]
        self.doubt(lambda: clear(-costs))
        return labels[np.argmin(costs)]

    def top(self, scores, playing):
        """The playing arm of the largest score."""
        scores = np.asarray(scores)[playing]
        self.doubt(lambda: clear(scores))
        return playing[int(np.argmax(scores))]

    def choose(self, seen, t, active):
        labels = active(seen.answer)
        if self.pieces.kind == "osi":
            return int(self.least(seen, labels)[0])
        best = np.flatnonzero(seen.answer)[:1].tolist()
        playing = sorted({*best, *labels[:, 1].tolist()})
        if self.leader == "eb":
            piece = self.least(seen, labels)
        else:
            if self.leader == "ucb":
                scores = seen.bounds(LEVEL * math.log(t))[1]
            else:
                scores = self.draw(seen.counts, seen.means, t, 0)
            i = self.top(scores, playing)
            piece = self.least(seen, np.array([(i, k) for k in playing if k != i]))
        i, j = (min(piece),) * 2 if self.K in piece else piece
        if self.challenger == "rs":
            j = self.redrawn(seen, t, i, playing, j)
        return int(i if self.leads(seen, int(i), int(j), t) else j)

    def redrawn(self, seen, t, i, playing, otherwise):
        for n in range(1, 201):
            other = self.top(self.draw(seen.counts, seen.means, t, n), playing)
            if other != i:
                return other
        return otherwise

    def ids(self, seen, i, j):
        """w_i loss_i/(w_i loss_i + w_j loss_j) where both arms meet; w_j/(w_i + w_j) in a tie."""
        n, world = self.world.weights(seen.counts), self.world
        behind = not self.pieces.slack and seen.means[i] <= seen.means[j]
        ends = (j, i) if behind else (i, j)
        moved = dict(zip(ends, world.meet(seen, *ends, n), strict=True))
        own, other = (n[k] * world.loss(seen, k, moved[k]) for k in (i, j))
        apart = (self.pieces.slack or seen.means[i] != seen.means[j]) and own + other > 0
        return own / (own + other) if apart else n[j] / (n[i] + n[j])

    def leads(self, seen, i, j, t):
        """Whether the leader is pulled."""
        q = self.ids(seen, i, j) if self.share == "ids" else self.share
        if self.select == "sampling":
            u = self.chance(t)
            self.doubt(lambda: abs(u - q) > 1e-9)
            return u < q
        if i == j:  # no turn of a pair, where the reference is one of the two
            return True
        self.due[i] += q
        self.doubt(lambda: self.share != "ids" or abs(self.taken[i] - self.due[i]) > 1e-9)
        if self.taken[i] <= self.due[i]:
            self.taken[i] += 1
            return True
        return False
