"""The twin of best arm with slack epsilon: a plain NumPy float64 reading of the specification.

Right answers: every arm within epsilon of the best. The piece (i, k) is {mu_k >= mu_i +
epsilon}. Its cost is the least n_i d(m_i, x) + n_k d(m_k, x + epsilon); x is found by
plain bisection. Everything is recomputed at every check.
"""

import math
from types import SimpleNamespace

import numpy as np

from tests.twin import weighing
from tests.twin.thresholds import heuristic

VARIANCE = {
    "bernoulli": lambda y: y * (1 - y), "poisson": lambda y: y, "exponential": lambda y: y**2,
    "gaussian": lambda y: 1.0,
}  # fmt: skip


class Problem(weighing.Problem):
    """Best arm with slack, for one family and costs."""

    def __init__(self, epsilon, K, family, costs):
        super().__init__(("bai",), K, weighing.FAMILIES[family], costs)
        self.epsilon, self.variance = epsilon, VARIANCE[family]

    def closest(self, label, weights, means):
        i, k = label
        a, b, e, V = float(means[i]), float(means[k]), self.epsilon, self.variance
        if not (a - b) + e > 0:
            return {}
        n_a, n_b = weights[i] / self.costs[i], weights[k] / self.costs[k]
        low = max(b - e, self.family.low)
        high = max(min(a, self.family.high - e), low)
        for _ in range(200):
            x = low + (high - low) / 2
            if n_a * (x - a) * V(x + e) + n_b * (x + e - b) * V(x) < 0:
                low = x
            else:
                high = x
        x = low + (high - low) / 2
        return {int(i): x, int(k): min(x + e, self.family.most)}

    def right(self, means):
        """The answers without a piece that costs 0."""
        return np.flatnonzero(means - means.max() + self.epsilon > 1e-9)

    def of(self, arm):
        """The pieces of an answer."""
        return self.pieces(np.arange(self.K) == arm)


class Llr:
    """All pieces of the empirical best arm must be refuted at once."""

    def __init__(self, problem, full):
        self.problem = problem

    def update(self, counts, means, beta):
        best = int(np.argmax(means))
        ratios = self.problem.ratios(self.problem.of(best), counts, means)
        return (best if ratios.min() > beta else None), len(ratios)


class PairMask:
    """A K x K mask of pieces; an arm is found when all its pieces are refuted."""

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.refuted = np.eye(problem.K, dtype=bool)

    def update(self, counts, means, beta):
        """The answer to stop with or None, and the number of pieces tested."""
        rows = range(self.problem.K) if self.full else [int(np.argmax(means))]
        labels = [(i, k) for i in rows for k in range(self.problem.K) if not self.refuted[i, k]]
        for label, ratio in zip(labels, self.problem.ratios(labels, counts, means), strict=True):
            self.refuted[label] |= ratio > beta
        found = np.flatnonzero(self.refuted.all(1))
        best = int(found[np.argmax(means[found])]) if found.size else None
        return best, len(labels)


SETS = {"llr": Llr, "selective": PairMask, "full": PairMask}


class Rule:
    """`choose` returns the next arm, and the answer to stop with or None."""

    sure = True

    def __init__(self, problem, beta, counts, truth):
        self.problem, self.beta, self.K = problem, beta, problem.K
        self.start(counts, truth)

    def start(self, counts, truth):
        """Set up, after the first pulls."""


class Uniform(Rule):
    """Round robin."""

    def choose(self, counts, means, t):
        return (t - 1) % self.K, None


class Lucb(Rule):
    """The rival of largest U; it stops once U_c - L_b <= epsilon."""

    pulls, waiting = 1, None

    def choose(self, counts, means, t):
        if self.waiting is not None:
            arm, self.waiting = self.waiting, None
            return arm, None
        lower, upper = self.problem.bounds(counts, means, self.beta(t))
        b = int(np.argmax(means))
        c = max((k for k in range(self.K) if k != b), key=lambda k: (upper[k], -k))
        stop = b if upper[c] - lower[b] <= self.problem.epsilon else None
        if self.pulls == 2:
            self.waiting = c
            return b, stop
        return (b if counts[b] < counts[c] else c), stop


class LucbTwice(Lucb):
    """It pulls b and then c before it looks again."""

    pulls = 2


def best_weights(problem, means):
    """w* of the right answer of largest H*, ties to the lowest; H*; whether that is clear."""
    found = []
    for i in problem.right(means):
        w = weighing.piece_weights(problem, means, problem.of(i))
        found.append(
            (problem.ratios(problem.of(i), np.maximum(w, 1e-12), means).min(), w, means[i])
        )
    best = max(value for value, _, _ in found)
    near = [one for one in found if one[0] > best * (1 - 1e-6)]
    return near[0][1], best, len({mean for _, _, mean in near}) == 1


class Tas(Rule):
    """Track-and-Stop: D-tracking of w* at the estimates, with forced exploration."""

    def choose(self, counts, means, t):
        w, _, clear = best_weights(self.problem, means)
        self.sure &= clear
        starved = counts <= math.sqrt(t - 1) - self.K / 2
        if starved.any():
            w = starved / starved.sum()
        return self.tracked(counts, (t - 1) * w), None

    def tracked(self, counts, target):
        """The lowest index of the least N_k - target_k; not sure within 1e-6 of another."""
        due = counts - target
        near = np.flatnonzero(due <= due.min() + 1e-6)
        self.sure &= near.size == 1 or bool(np.ptp(target[near]) < 1e-7)
        return int(near[0])


class Oracle(Tas):
    """D-tracking of w* at the true means."""

    def start(self, counts, truth):
        self.w = best_weights(self.problem, truth)[0]

    def choose(self, counts, means, t):
        return self.tracked(counts, (t - 1) * self.w), None


class TopTwo(Rule):
    """EB-TC with slack: the best empirical arm leads half of its turns, by tracking."""

    share, penalty = 0.5, 0

    def start(self, counts, truth):
        self.due, self.taken = np.zeros(self.K), np.zeros(self.K)

    def choose(self, counts, means, t):
        i = int(np.argmax(means))
        labels = self.problem.of(i)
        rivals = np.array([k for _, k in labels])
        costs = self.problem.ratios(labels, counts, means) + self.penalty * np.log(counts[rivals])
        self.sure &= weighing.clear(-costs)
        piece = labels[int(np.argmin(costs))]
        j, q = piece[1], self.share
        if q is None:
            moved, known = self.problem.closest(piece, counts, means), self.problem.family
            own, other = (
                counts[k] / self.problem.costs[k] * known.divergence(float(means[k]), moved[k])
                for k in (i, j)
            )
            q = own / (own + other)
            self.sure &= abs(self.taken[i] - self.due[i] - q) > 1e-9
        return self.turn(i, j, q), None

    def turn(self, i, j, q):
        """Which of leader and challenger is pulled, at a share q of the leader."""
        self.due[i] += q
        if self.taken[i] > self.due[i]:
            return j
        self.taken[i] += 1
        return i


class TopTwoIds(TopTwo):
    """The same with log counts, and the share of the two parts of L."""

    share, penalty = None, 1


RULES = {
    "uniform": Uniform, "lucb": Lucb, "lucb-2": LucbTwice, "tas": Tas, "oracle": Oracle,
    "eb-tc": TopTwo, "eb-tci, ids": TopTwoIds,
}  # fmt: skip


def run(mu, family, epsilon, rule, *, noise, costs=None, delta=0.1, beta=heuristic,
        stopping=("llr",), sets=None):  # fmt: skip
    """One trajectory, up to the last stop or the noise's end.

    Args:
      mu: means [K].
      family: a name in `weighing.FAMILIES`.
      epsilon: the slack, above 0.
      rule: a name in `RULES`; the test of lucb ends all open runs.
      noise: uniforms, or normals of Gaussian rewards: [T].
      costs: c_k [K], of Gaussian rewards; None: 1.
      stopping: any of "llr", "selective", "full", "native".
      sets: stopping rules by name, in place of `SETS`.

    Returns:
      A namespace: `arms` and `rewards` [T], `sure`, up to which sample the choices are the
      only right ones, `bounded`, how often an estimate was an end of the range or tied, and
      `stops` by name: samples, answer, stopped, pulls [K], tests.
    """
    mu = np.asarray(mu, float)
    K = len(mu)
    costs, known = np.ones(K) if costs is None else np.asarray(costs), weighing.FAMILIES[family]
    problem = Problem(epsilon, K, family, costs)
    kinds = SETS if sets is None else sets
    open_sets = {name: kinds[name](problem, name == "full") for name in stopping if name in kinds}
    tests, stops, bounded = dict.fromkeys(stopping, 0), {}, 0
    counts, sums, arms, rewards = np.zeros(K, int), np.zeros(K), [], []

    def pull(k):
        rewards.append(known.draw(mu[k], math.sqrt(costs[k]), float(noise[len(arms)])))
        counts[k] += 1
        sums[k] += rewards[-1]
        arms.append(int(k))

    def close(name, answer, stopped):
        stops[name] = SimpleNamespace(
            samples=len(arms),
            answer=np.arange(K) == answer,
            stopped=stopped,
            pulls=counts.copy(),
            tests=tests[name],
        )

    for k in range(K):
        pull(k)
    sampler, sure = RULES[rule](problem, lambda t: beta(t, delta), counts, mu), K
    while True:
        t, means = len(arms), sums / counts
        bounded += len(set(means.tolist()) | {known.low, known.high}) < K + 2
        for name, pieces in open_sets.items():
            if name not in stops:
                answer, tested = pieces.update(counts, means, beta(t, delta))
                tests[name] += tested
                if answer is not None:
                    close(name, answer, True)
        still = [name for name in stopping if name not in stops]
        if not still:
            break
        arm, native = sampler.choose(counts, means, t + 1)
        if native is not None or t == len(noise):
            for name in still:
                close(name, int(np.argmax(means)) if native is None else native, native is not None)
            break
        pull(arm)
        sure += sampler.sure
    return SimpleNamespace(
        arms=np.array(arms), rewards=np.array(rewards), stops=stops, sure=sure, bounded=bounded
    )
