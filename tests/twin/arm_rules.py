"""The twin of rules that compare arms by KL bounds: a plain NumPy float64 reference.

One arm per mean, m_k = S_k/N_k. A `Law` is a one-parameter family, by its divergence
and range. Bounds are found by bisection. Every choice recomputes everything from counts
and sums. Indices are 0-based, ties go to the lowest index.
"""

import dataclasses
import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from tests.twin import families
from tests.twin.thresholds import heuristic


@dataclasses.dataclass(frozen=True)
class Law:
    """A family: d(x, y), the reward of a mean for a noise, the range of means, the costs.

    The reward of arm k is reward(mu_k, noise, c_k); costs None: all are 1.
    """

    divergence: Callable
    reward: Callable
    low: float
    high: float
    costs: tuple | None = None

    def precision(self, counts):
        """n_k = N_k/c_k."""
        return counts / np.ones(len(counts)) if self.costs is None else counts / self.costs

    def bound(self, mean, radius, up):
        """The mean furthest upwards, or downwards, within the radius; up to 200 bisections."""
        inner, outer = mean, self.high if up else self.low
        if not math.isfinite(outer):
            outer = mean + (1.0 if up else -1.0)
            while self.divergence(mean, outer) <= radius:
                outer = mean + 2 * (outer - mean)
        for _ in range(200):
            before, middle = (inner, outer), inner + (outer - inner) / 2
            if self.divergence(mean, middle) <= radius:
                inner = middle
            else:
                outer = middle
            if (inner, outer) == before:  # so it stays
                break
        return inner

    def bounds(self, means, radii):
        """L and U of every arm."""
        both = [(self.bound(m, r, False), self.bound(m, r, True))
                for m, r in zip(means.tolist(), radii.tolist(), strict=True)]
        return np.array(both).T

    def pair(self, n_a, a, n_b, b):
        """L of {mu_a <= mu_b}."""
        if not a > b:
            return 0.0
        u = min(max(b + (a - b) * n_a / (n_a + n_b), b), a)
        if math.isfinite(self.high):
            u = min(u, math.nextafter(self.high, self.low))
        return n_a * self.divergence(a, u) + n_b * self.divergence(b, u)


def exponential(x, y):
    """h((x - y)/y), h(r) = r - log(1 + r), a series below 0.01."""
    if y == 0:
        return math.inf if x > 0 else 0.0
    r = (x - y) / y
    if abs(r) < 0.01:
        return r**2 * (1/2 - r/3 + r**2/4 - r**3/5 + r**4/6 - r**5/7 + r**6/8)
    return r - math.log1p(r) if r > -1 else math.inf


def quantile(mu, u):
    """The least k with P(X <= k) > u, X a Poisson variable of mean mu."""
    k, term = 0, math.exp(-mu)
    total = term
    while total <= u:
        k += 1
        term *= mu / k
        total += term
    return float(k)


def gaussian(std):
    """Unit Gaussians of costs std^2."""
    return Law(lambda x, y: (x - y) ** 2 / 2, lambda mu, z, c: mu + math.sqrt(c) * z,
               -math.inf, math.inf, tuple(one**2 for one in std))


LAWS = {
    "bernoulli": Law(families.divergence, lambda mu, u, _: float(u < mu), 0.0, 1.0),
    "poisson": Law(families.poisson, lambda mu, u, _: quantile(mu, u), 0.0, math.inf),
    "exponential": Law(exponential, lambda mu, u, _: max(-mu * math.log1p(-u), 1e-300),
                       0.0, math.inf),
}


class Problem(families.Problem):
    """("bai",), ("topm", m) or ("osi", level), with the LLRs of a law."""

    def __init__(self, law, spec, K):
        super().__init__(spec, K)
        self.law = law

    def ratios(self, labels, counts, means):
        n, m = self.law.precision(counts).tolist(), means.tolist()
        if self.kind != "osi":
            return np.array([self.law.pair(n[i], m[i], n[k], m[k]) for i, k in labels])
        beyond = [(m[k] > self.level) if s else (m[k] < self.level) for k, s in labels]
        return np.array([n[k] * self.law.divergence(m[k], self.level) if far else 0.0
                         for (k, _), far in zip(labels, beyond, strict=True)])


class Rule:
    """`choose` gets counts, means and t, the index of the next sample.

    It returns the next arm, and the answer to stop with or None.
    """

    native = True

    def __init__(self, problem, beta):
        self.problem, self.beta, self.K, self.m = problem, beta, problem.K, problem.m
        self.law = problem.law

    def bounds(self, counts, means, t):
        return self.law.bounds(means, self.beta(t) / self.law.precision(counts))

    def mask(self, arms):
        answer = np.zeros(self.K, bool)
        answer[list(arms)] = True
        return answer


class Uniform(Rule):
    """Round robin."""

    native = False

    def choose(self, counts, means, t):
        return (t - 1) % self.K, None


class Lucb(Rule):
    """The two arms whose intervals overlap most; it pulls the less pulled one (ties: c)."""

    pulls = 1
    waiting = None

    def choose(self, counts, means, t):
        if self.waiting is not None:
            arm, self.waiting = self.waiting, None
            return arm, None
        answer = self.problem.answer(means)
        lower, upper = self.bounds(counts, means, t)
        if self.problem.kind == "osi":
            line = self.problem.level
            doubt = np.where(answer, line - lower, upper - line)
            return int(np.argmax(doubt)), answer if doubt.max() <= 0 else None
        pairs = [(upper[c] - lower[b], b, c) for b, c in self.problem.pieces(answer)]
        most, b, c = max(pairs, key=lambda one: one[0])
        stop = answer if most <= 0 else None
        if self.pulls == 2:
            self.waiting = c
            return b, stop
        return (b if counts[b] < counts[c] else c), stop


class LucbTwice(Lucb):
    """It pulls b and then c before it looks again."""

    pulls = 2


class UGapE(Rule):
    """B_ij = U_i - L_j; J holds the m arms of least m-th largest B_ij over i != j.

    It stops when none of these is positive.
    """

    def choose(self, counts, means, t):
        lower, upper = self.bounds(counts, means, t)
        B = upper[:, None] - lower[None, :]
        mth = np.array([np.sort(np.delete(B[:, j], j))[-self.m] for j in range(self.K)])
        J = np.sort(np.argsort(mth, kind="stable")[: self.m])
        others = np.setdiff1d(np.arange(self.K), J)
        b = J[np.argmax([B[others, j].max() for j in J])]
        c = others[np.argmax(B[others, b])]
        stop = self.mask(J) if np.all(mth[J] <= 0) else None
        return (b if counts[b] < counts[c] else c), stop


class Racing(Rule):
    """Rounds over the remaining arms; one acceptance or discard before each round.

    T: the m best means of all arms, less the accepted. Accept the best a if the largest
    U_i of the remaining outside T is <= L_a. Discard the worst w if U_w <= the least
    L_i of T. If both hold, the larger margin decides (ties: accept).
    """

    def __init__(self, problem, beta):
        super().__init__(problem, beta)
        self.remaining, self.accepted, self.discarded = list(range(self.K)), [], []
        self.queue = []

    def change(self, counts, means, t):
        lower, upper = self.bounds(counts, means, t)
        best_means = np.flatnonzero(self.problem.answer(means))
        T = [k for k in best_means if k not in self.accepted]
        best = max(self.remaining, key=lambda k: means[k])
        worst = min(self.remaining, key=lambda k: means[k])
        accept = lower[best] - max((upper[k] for k in self.remaining if k not in T),
                                   default=-np.inf)
        discard = min(lower[k] for k in T) - upper[worst]
        if accept >= 0 and accept >= discard:
            self.remaining.remove(best)
            self.accepted.append(best)
        elif discard >= 0:
            self.remaining.remove(worst)
            self.discarded.append(worst)

    def choose(self, counts, means, t):
        stop = None
        if not self.queue:
            self.change(counts, means, t)
            self.queue = list(self.remaining)
            if len(self.accepted) == self.m:
                stop = self.mask(self.accepted)
            elif len(self.discarded) == self.K - self.m:
                stop = self.mask(self.accepted + self.remaining)
        return (self.queue.pop(0) if self.queue else 0), stop


RULES = {"uniform": Uniform, "lucb": Lucb, "lucb-2": LucbTwice, "ugape": UGapE, "racing": Racing}


def run(law, mu, problem, rule, *, noise, delta=0.1, beta=heuristic, stopping=("native",)):
    """One trajectory, up to the last stop or the noise's end; see `families.run`.

    Args:
      law: a Law.
      mu: means [K].
      problem: ("bai",), ("topm", m) or ("osi", level).
      rule: a name of RULES; a native test ends all open runs.
      noise: uniforms [T], or normals.
      stopping: any of "llr", "selective", "full", "native".

    Returns:
      A namespace: `arms` pulled, `rewards`, `bounded` (how often an estimate was an end
      of the range or tied with another) and `stops`, by name: samples, answer, stopped,
      pulls, tests.
    """
    K = len(mu)
    problem = Problem(law, problem, K)
    sampler = RULES[rule](problem, lambda t: beta(t, delta))
    looks = {"llr": families.Llr, "selective": families.SETS[problem.kind],
             "full": families.SETS[problem.kind]}
    sets = {name: looks[name](problem, name == "full") for name in stopping if name != "native"}
    tests, stops, bounded = dict.fromkeys(stopping, 0), {}, 0
    counts, sums, pulled, rewards = np.zeros(K, int), np.zeros(K), [], []

    def pull(k):
        rewards.append(law.reward(mu[k], noise[len(pulled)], law.costs[k] if law.costs else 1.0))
        counts[k] += 1
        sums[k] += rewards[-1]
        pulled.append(int(k))

    def close(name, answer, stopped):
        stops[name] = SimpleNamespace(samples=len(pulled), answer=answer.copy(), stopped=stopped,
                                      pulls=counts.copy(), tests=tests[name])

    for k in range(K):
        pull(k)
    while True:
        t, means = len(pulled), sums / counts
        bounded += len(set(means.tolist()) | {law.low, law.high}) < K + len({law.low, law.high})
        for name, pieces in sets.items():
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
                close(name, problem.answer(means) if native is None else native, native is not None)
            break
        pull(arm)
    return SimpleNamespace(arms=np.array(pulled), rewards=np.array(rewards), stops=stops,
                           bounded=bounded)
