"""The twin of Bernoulli runs: a plain NumPy float64 reference of the reward family.

`run` takes the other families too, from `tests.twin.arm_families`.

One arm per mean, m_k = S_k/N_k, no ridge; the reward is 1 where the noise is below the
mean. Every check recomputes everything from counts and sums. Indices are 0-based, ties
go to the lowest index. Answers are bool [K].

The label of a piece is (i, k) for {mu_i <= mu_k}. For thresholding it is (k, s):
{mu_k <= level} for s = 1 and {mu_k >= level} for s = 0.

Compare at a level other than 1/2. There m and 1 - m are exact mirror images at equal
counts, so their overlaps tie and rounding decides.
"""

import math
from types import SimpleNamespace

import numpy as np

from tests.twin.pending import Pending
from tests.twin.thresholds import heuristic


def g(r):
    """(1 + r) log(1 + r) - r, r >= -1; a series below 0.01."""
    if abs(r) < 0.01:
        return r**2 * (1/2 - r/6 + r**2/12 - r**3/20 + r**4/30 - r**5/42 + r**6/56)
    return (1 + r) * math.log(1 + r) - r if r > -1 else 1.0


def poisson(x, y):
    """P(x, y) = y g((x - y)/y); inf at y = 0, or 0 if x is 0 too."""
    if y == 0:
        return math.inf if x > 0 else 0.0
    return y * g((x - y) / y)


def divergence(x, y):
    """d(x, y) = P(x, y) + P(1 - x, 1 - y)."""
    return poisson(x, y) + poisson(1 - x, 1 - y)


def pair(n_a, a, n_b, b):
    """L of {mu_a <= mu_b}."""
    if not a > b:
        return 0.0
    u = min(max(b + (a - b) * n_a / (n_a + n_b), b), a, 1 - 2.0**-53)
    return n_a * divergence(a, u) + n_b * divergence(b, u)


def level(n, mean, line, above):
    """L of {mu <= line} if `above`, else of {mu >= line}."""
    other = mean > line if above else mean < line
    return n * divergence(mean, line) if other else 0.0


def bound(mean, radius, end):
    """The mean furthest towards `end`, 0 or 1, within the radius, by 64 bisections."""
    inner, outer = mean, end
    for _ in range(64):
        middle = inner + (outer - inner) / 2
        if divergence(mean, middle) <= radius:
            inner = middle
        else:
            outer = middle
    return inner


def bounds(means, radii):
    """L and U of every arm."""
    both = [[bound(m, r, end) for m, r in zip(means.tolist(), radii.tolist(), strict=True)]
            for end in (0.0, 1.0)]
    return np.array(both)


class Problem:
    """("bai",), ("topm", m) or ("osi", level): answers and labels of their pieces."""

    def __init__(self, spec, K):
        self.kind, self.K = spec[0], K
        self.m = {"bai": 1, "topm": spec[-1], "osi": None}[self.kind]
        self.level = spec[1] if self.kind == "osi" else None

    def answer(self, means):
        if self.kind == "osi":
            return means >= self.level
        answer = np.zeros(self.K, bool)
        answer[np.argsort(-means, kind="stable")[: self.m]] = True
        return answer

    def pieces(self, answer):
        """The pieces of one answer in lexicographic order: int [Q, 2]."""
        if self.kind == "osi":
            return np.array([(k, int(answer[k])) for k in range(self.K)])
        inside, outside = np.flatnonzero(answer), np.flatnonzero(~answer)
        return np.array([(i, k) for i in inside for k in outside])

    def ordered_pairs(self):
        """(i, k) for all i != k."""
        return np.array([(i, k) for i in range(self.K) for k in range(self.K) if i != k])

    def bounds(self, counts, means, beta):
        """L and U of every arm."""
        return bounds(means, beta / counts)

    def ratios(self, labels, counts, means):
        """L of the pieces: [Q]."""
        n, m = counts.tolist(), means.tolist()
        if self.kind == "osi":
            return np.array([level(n[k], m[k], self.level, s == 1) for k, s in labels])
        return np.array([pair(n[i], m[i], n[k], m[k]) for i, k in labels])


class Llr:
    """LLR stopping: all pieces of the empirical answer must be refuted at once."""

    def __init__(self, problem, full=False):
        self.problem = problem

    def update(self, counts, means, beta):
        """The answer to stop with or None, and the number of pieces tested."""
        answer = self.problem.answer(means)
        ratios = self.problem.ratios(self.problem.pieces(answer), counts, means)
        return (answer if ratios.min() > beta else None), len(ratios)


class Arms:
    """Best arm: a mask. Arm k is eliminated by the best arm, or (full) by any arm."""

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.active = np.ones(problem.K, bool)

    def update(self, counts, means, beta):
        answer = self.problem.answer(means)
        labels = self.problem.ordered_pairs() if self.full else self.problem.pieces(answer)
        labels = labels[self.active[labels[:, 1]]]
        if len(labels):
            fallen = self.problem.ratios(labels, counts, means) > beta
            self.active[labels[fallen, 1]] = False
        if self.active.sum() > 1:
            return None, len(labels)
        return (self.active.copy() if self.active.any() else answer), len(labels)


class Pairs:
    """Top m: worse[j, k], k is known worse than j. Arms with K - m worse are found."""

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.worse = np.zeros((problem.K, problem.K), bool)

    def found(self):
        return self.worse.sum(1) >= self.problem.K - self.problem.m

    def update(self, counts, means, beta):
        labels = self.problem.ordered_pairs()
        if not self.full:
            labels = self.problem.pieces(self.problem.answer(means))
        known = self.found()[labels[:, 0]] | self.worse[labels[:, 0], labels[:, 1]]
        labels = labels[~known]
        if len(labels):
            fallen = labels[self.problem.ratios(labels, counts, means) > beta]
            self.worse[fallen[:, 0], fallen[:, 1]] = True
        found = self.found()
        if found.sum() < self.problem.m:
            return None, len(labels)
        return self.problem.answer(np.where(found, means, -np.inf)), len(labels)


class Signs:
    """Thresholding: a mask and the signs found. Selective and full coincide."""

    def __init__(self, problem, full):
        self.problem = problem
        self.active, self.above = np.ones(problem.K, bool), np.zeros(problem.K, bool)

    def update(self, counts, means, beta):
        labels = self.problem.pieces(self.problem.answer(means))[self.active]
        if len(labels):
            fallen = labels[self.problem.ratios(labels, counts, means) > beta]
            self.active[fallen[:, 0]] = False
            self.above[fallen[:, 0]] = fallen[:, 1] == 1
        return (None if self.active.any() else self.above.copy()), len(labels)


SETS = {"bai": Arms, "topm": Pairs, "osi": Signs}


class Uniform:
    """Round robin: the arm of sample t is (t - 1) mod K."""

    native = False

    def __init__(self, problem, beta, pulls):
        self.K = problem.K

    def choose(self, counts, means, t):
        return (t - 1) % self.K, None


class Lucb:
    """KL-LUCB: the two arms whose intervals overlap most; radius beta(t)/N, next t.

    One pull: the less pulled of b and c (ties: c). Two pulls: b, then c without a
    check. Pieces of thresholding have one arm, so two pulls equal one. It stops if the
    largest overlap is <= 0.
    """

    native = True

    def __init__(self, problem, beta, pulls):
        self.problem, self.beta, self.pulls = problem, beta, pulls
        self.waiting = None

    def choose(self, counts, means, t):
        """The next arm, and the answer to stop with or None."""
        if self.waiting is not None:
            arm, self.waiting = self.waiting, None
            return arm, None
        answer = self.problem.answer(means)
        labels = self.problem.pieces(answer)
        lower, upper = self.problem.bounds(counts, means, self.beta(t))
        first, second = labels[:, 0], labels[:, 1]
        if self.problem.kind == "osi":
            line = self.problem.level
            overlaps = np.where(second == 1, line - lower[first], upper[first] - line)
        else:
            overlaps = upper[second] - lower[first]
        largest = np.argmax(overlaps)
        stop = answer if overlaps[largest] <= 0 else None
        b, c = labels[largest]
        if self.problem.kind == "osi":
            return b, stop
        if self.pulls == 2:
            self.waiting = c
            return b, stop
        return (b if counts[b] < counts[c] else c), stop


RULES = {"uniform": Uniform, "lucb": Lucb}


def run(
    mu,
    problem,
    rule,
    *,
    noise,
    delta=0.1,
    beta=heuristic,
    stopping=("llr",),
    pulls=1,
    max_samples=None,
    family=None,
    batch=1,
    delay=0,
):
    """One trajectory, up to the last stop, the cap or the noise's end.

    At t samples the stopping rules are checked with beta(t, delta). Then the rule
    chooses sample t + 1 with beta(t + 1, delta), and its native test stops all rules
    still open. The cap comes last; its stops have the empirical answer.

    Args:
      mu: means [K], in [0, 1].
      problem: ("bai",), ("topm", m) or ("osi", level).
      rule: "uniform" or "lucb"; the latter always applies its native test.
      noise: uniforms on [0, 1), [T]; sample s has reward 1 if noise[s] < mu of its arm.
      delta: the error probability.
      beta: threshold of (t, delta): `heuristic` or `gk16` of tests.twin.
      stopping: any of "llr", "selective", "full", "native".
      pulls: 1 or 2, for lucb.
      max_samples: the cap; None: the length of the noise.
      batch, delay: of rewards that wait; see `tests.twin.pending`.
      family: of `tests.twin.arm_families`; None: Bernoulli.

    Returns:
      A namespace: `arms` pulled [T], `rewards` [T], and `stops`. The latter maps each
      stopping rule's name to its samples, answer, stopped, pulls [K] and tests.
    """
    mu = np.asarray(mu, float)
    K = len(mu)
    if pulls not in (1, 2):
        raise ValueError("pulls is 1 or 2")
    cap = len(noise) if max_samples is None else min(max_samples, len(noise))
    if cap < K:
        raise ValueError("the cap and the noise must cover the initial pulls")
    problem = Problem(problem, K) if family is None else family.problem(problem, K)
    sampler = RULES[rule](problem, lambda t: beta(t, delta), pulls)
    if "native" in stopping and not sampler.native:
        raise ValueError(f"{rule} has no native stopping rule")
    looks = {"llr": Llr, "selective": SETS[problem.kind], "full": SETS[problem.kind]}
    sets = {name: looks[name](problem, name == "full") for name in stopping if name != "native"}
    tests, stops = dict.fromkeys(stopping, 0), {}
    counts, known, sums = np.zeros(K, int), np.zeros(K, int), np.zeros(K)
    pulled, rewards, pending = [], [], Pending(K, batch, delay)

    def enter(k, reward):
        known[k] += 1
        sums[k] += reward

    def pull(k):
        z = noise[len(pulled)]
        reward = float(z < mu[k]) if family is None else family.draw(k, mu[k], z)
        counts[k] += 1
        pulled.append(int(k))
        rewards.append(reward)
        return reward

    def close(name, answer, stopped):
        stops[name] = SimpleNamespace(
            samples=len(pulled),
            answer=answer.copy(),
            stopped=stopped,
            pulls=counts.copy(),
            tests=tests[name],
        )

    for k in range(K):
        enter(k, pull(k))
    first = True
    while True:
        t, group = len(pulled), pending.entering(len(pulled))
        for k, reward in group:
            enter(k, reward)
        means, tests_now, first = sums / known, bool(group) or first, False
        for name, pieces in sets.items():
            if name not in stops and tests_now:
                answer, tested = pieces.update(known, means, beta(known.sum(), delta))
                tests[name] += tested
                if answer is not None:
                    close(name, answer, True)
        still = [name for name in stopping if name not in stops]
        if not still:
            break
        arm, native = sampler.choose(counts, means, t + 1)
        native = native if tests_now else None
        if native is not None or t == cap:
            for name in still:
                close(name, problem.answer(means) if native is None else native, native is not None)
            break
        reward = pull(arm)
        pending.chosen(len(pulled), arm, reward)
    return SimpleNamespace(arms=np.array(pulled), rewards=np.array(rewards), stops=stops)
