"""The twin of "is any arm above the level?": a plain NumPy float64 reading of the definitions.

An answer is an arm, or K for none. Labels of pieces are (k, 1) for {mu_k <= level} and
(k, 0) for {mu_k >= level}. Everything is recomputed at every check.
"""

import math
from types import SimpleNamespace

import numpy as np

from tests.twin import weighing


class Problem(weighing.Problem):
    """Answers and pieces, for one family and costs."""

    def __init__(self, level, K, family, costs):
        super().__init__(("osi", level), K, weighing.FAMILIES[family], costs)

    def of(self, answer):
        """The pieces of an answer."""
        if answer < self.K:
            return [(answer, 1)]
        return [(k, 0) for k in range(self.K)]

    def leading(self, counts, means):
        """The arm of most evidence among those at or above the level; K if there is none."""
        above = np.flatnonzero(means >= self.level)
        if not above.size:
            return self.K
        against = self.ratios([(k, 1) for k in above], counts, means)
        return int(above[np.argmax(against)])


class Sides:
    """Both sides of every arm, with the times at which they were refuted."""

    def __init__(self, problem, name):
        self.problem, self.name = problem, name
        self.times = np.zeros((problem.K, 2), int)

    def update(self, counts, means, beta):
        """The answer to stop with or None, and the number of pieces tested."""
        problem = self.problem
        lead = problem.leading(counts, means)
        if self.name == "llr":
            ratios = problem.ratios(problem.of(lead), counts, means)
            return (lead if ratios.min() > beta else None), len(ratios)
        every = [(k, s) for k in range(problem.K) for s in (0, 1)]
        labels = every if self.name == "full" else problem.of(lead)
        labels = [(k, s) for k, s in labels if not self.times[k, s]]
        for (k, s), ratio in zip(labels, problem.ratios(labels, counts, means), strict=True):
            if ratio > beta:
                self.times[k, s] = counts.sum()
        proven = np.flatnonzero(self.times[:, 1])
        if proven.size:
            return int(proven[np.argmax(means[proven])]), len(labels)
        return (problem.K if self.times[:, 0].all() else None), len(labels)


class Uniform:
    """Round robin."""

    def __init__(self, problem):
        self.problem, self.K = problem, problem.K

    def choose(self, counts, means, t):
        return (t - 1) % self.K


class TopTwo(Uniform):
    """The arm of the leading answer, or that of least evidence where it is none."""

    penalty = 0

    def choose(self, counts, means, t):
        labels = self.problem.of(self.problem.leading(counts, means))
        arms = np.array([k for k, _ in labels])
        costs = self.problem.ratios(labels, counts, means) + self.penalty * np.log(counts[arms])
        return int(arms[np.argmin(costs)])


class TopTwoLogs(TopTwo):
    """The same with log counts."""

    penalty = 1


class Tas(Uniform):
    """Track-and-Stop: the arm of largest d(m_k, level)/c_k above, else w_k ~ c_k/d."""

    def choose(self, counts, means, t):
        problem, level = self.problem, self.problem.level
        slope = np.array([problem.family.divergence(float(m), level) for m in means])
        slope = slope / problem.costs
        above = means >= level
        if above.any():
            w = np.arange(self.K) == np.argmax(np.where(above, slope, -1))
        else:
            w = (1 / slope) / (1 / slope).sum()
        starved = counts <= math.sqrt(t - 1) - self.K / 2
        w = starved / starved.sum() if starved.any() else np.round(w * 2.0**30) / 2.0**30
        return int(np.argmin(counts - (t - 1) * w))


RULES = {"uniform": Uniform, "eb-tc": TopTwo, "eb-tci": TopTwoLogs, "tas": Tas}


def run(mu, family, level, rule, *, noise, costs=None, delta, beta, stopping):
    """One trajectory up to the last stop or the noise's end; as `tests.twin.slack.run`."""
    mu, K = np.asarray(mu, float), len(mu)
    costs = np.ones(K) if costs is None else np.asarray(costs)
    known = weighing.FAMILIES[family]
    problem = Problem(level, K, family, costs)
    sets = {name: Sides(problem, name) for name in stopping}
    tests, stops = dict.fromkeys(stopping, 0), {}
    counts, sums, arms = np.zeros(K, int), np.zeros(K), []

    def pull(k):
        sums[k] += known.draw(mu[k], math.sqrt(costs[k]), float(noise[len(arms)]))
        counts[k] += 1
        arms.append(int(k))

    for k in range(K):
        pull(k)
    sampler = RULES[rule](problem)
    while True:
        t, means = len(arms), sums / counts
        for name, sides in sets.items():
            if name in stops:
                continue
            answer, tested = sides.update(counts, means, beta(t, delta))
            tests[name] += tested
            ended = answer is not None or t == len(noise)
            if ended:
                shown = problem.leading(counts, means) if answer is None else answer
                stops[name] = SimpleNamespace(
                    samples=t, stopped=answer is not None, answer=np.arange(K) == shown,
                    pulls=counts.copy(), tests_stopping=tests[name], times=sides.times.copy(),
                )  # fmt: skip
        if len(stops) == len(sets):
            return SimpleNamespace(arms=np.array(arms), stops=stops)
        pull(sampler.choose(counts, means, t + 1))
