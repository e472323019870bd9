"""The twin of rules that evaluate H at weights, on families with one parameter.

A plain NumPy float64 reading of the specification: k-learner, FWS, Lazy Track-and-Stop,
Track-and-Stop and the oracle. A run has one arm per mean, m_k =
S_k/N_k, no ridge. Everything is recomputed at every check. Indices are 0-based, ties go
to the lowest index. Labels of pieces are those of `tests.twin.families`; the pieces of
top m come in the order of the means of the answer's arms.

A family is a `Family`: its divergence d(x, y), a draw, and the largest value of u. Arms
may have costs c_k (sigma_k^2 of unit Gaussians); n_k = N_k/c_k.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, linprog, minimize

from tests.twin import families as stops
from tests.twin.pending import Pending
from tests.twin.solver import maximin
from tests.twin.thresholds import heuristic

FLOOR = 1e-12
EPS = np.finfo(float).eps


def h(r):
    """r - log(1 + r), r > -1; a series below 0.01."""
    if abs(r) < 0.01:
        return r**2 * (1/2 - r/3 + r**2/4 - r**3/5 + r**4/6 - r**5/7 + r**6/8)
    return r - math.log(1 + r)


class Family(NamedTuple):
    """What the twin knows of a family."""

    divergence: Callable  # d(x, y)
    draw: Callable  # (mu, sigma, noise) -> reward
    low: float  # ends of the range of means
    high: float
    most: float = math.inf  # u is at most this


FAMILIES = {
    "bernoulli": Family(
        stops.divergence, lambda mu, _, u: float(u < mu), 0.0, 1.0, 1 - 2.0**-53
    ),
    "poisson": Family(stops.poisson, lambda mu, _, u: quantile(mu, u), 0.0, math.inf),
    "exponential": Family(
        lambda x, y: h((x - y) / y), lambda mu, _, u: max(-mu * math.log1p(-u), 1e-300),
        0.0, math.inf,
    ),
    "gaussian": Family(
        lambda x, y: (x - y) ** 2 / 2, lambda mu, sigma, z: mu + sigma * z, -math.inf, math.inf
    ),
}  # fmt: skip


def quantile(mu, u):
    """The least k with P(X <= k) > u, X of the Poisson distribution of mean mu."""
    k, mass = 0, math.exp(-mu)
    total = mass
    while total <= u:
        k += 1
        mass *= mu / k
        total += mass
    return float(k)


class Problem(stops.Problem):
    """Answers, pieces, values of H and their gradients, for one family and costs."""

    def __init__(self, spec, K, family, costs):
        super().__init__(spec, K)
        self.family, self.costs = family, costs

    def by_rank(self, labels, means):
        """The labels, those of the larger mean of the answer first."""
        if self.kind != "topm":
            return labels
        return labels[np.lexsort((labels[:, 1], labels[:, 0], -means[labels[:, 0]]))]

    def closest(self, label, weights, means):
        """The closest point of a piece: arms and their means there; {} if H is 0."""
        d, (i, k) = self.family, label
        if self.kind == "osi":
            away = means[i] > self.level if k == 1 else means[i] < self.level
            return {int(i): self.level} if away else {}
        a, b = float(means[i]), float(means[k])
        if not a > b:
            return {}
        n_a, n_b = weights[i] / self.costs[i], weights[k] / self.costs[k]
        u = min(max(b + (a - b) * n_a / (n_a + n_b), b), a, d.most)
        return {int(i): u, int(k): u}

    def gradient(self, label, weights, means):
        """dH/dw: [K]."""
        slope = np.zeros(self.K)
        for arm, u in self.closest(label, weights, means).items():
            slope[arm] = self.family.divergence(float(means[arm]), u) / self.costs[arm]
        return slope

    def value(self, label, weights, means):
        """H at the weights."""
        return float(
            sum(
                weights[arm] / self.costs[arm] * self.family.divergence(float(means[arm]), u)
                for arm, u in self.closest(label, weights, means).items()
            )
        )

    def ratios(self, labels, counts, means):
        return np.array([self.value(label, counts, means) for label in labels])

    def bound(self, mean, radius, upper):
        """The mean furthest from `mean` with divergence at most `radius`."""
        end = self.family.high if upper else self.family.low
        if not math.isfinite(end):
            step = 1.0
            while self.family.divergence(mean, mean + (step if upper else -step)) <= radius:
                step *= 2
            end = mean + (step if upper else -step)
        inner, outer = mean, end
        for _ in range(100):
            middle = inner + (outer - inner) / 2
            if self.family.divergence(mean, middle) <= radius:
                inner = middle
            else:
                outer = middle
        return inner

    def bounds(self, counts, means, level):
        """L and U at radius level/n."""
        return np.array([
            [self.bound(float(m), level * c / n, upper)
             for m, c, n in zip(means, self.costs, counts, strict=True)]
            for upper in (False, True)
        ])  # fmt: skip


def active(sets, labels):
    """The labels that an elimination set still has."""
    if isinstance(sets, stops.Arms):
        return labels[sets.active[labels[:, 1]]]
    if isinstance(sets, stops.Pairs):
        return labels[~sets.worse[labels[:, 0], labels[:, 1]]]
    return labels[sets.active[labels[:, 0]]]


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
    """A rule: `choose(counts, means, t, labels)` gives the arm of sample t.

    `sure` turns False where several choices are right, up to rounding.
    """

    sure = True
    follow = None  # arms of another program, for choices that rounding decides
    solved = False  # whether it tracks w*

    def __init__(self, problem, counts, truth, **settings):
        self.problem, self.K, self.truth = problem, problem.K, truth
        self.start(counts.astype(float), **settings)

    def start(self, counts):
        """Set up; counts [K] after the first pulls."""

    def tracked(self, counts, target):
        """The lowest index of the least N_k - target_k, within 1e-6 counted as equal.

        w* is found by another method than the library's, so ties that are exact on paper
        differ in their last digits. They are sure between arms with equal targets alone,
        and there not for w* of top m, which the library does not round. It rounds other w*
        to multiples of 2^-30, so that 1e-7 is enough for these.
        """
        due, rounded = counts - target, self.problem.kind != "topm"
        near, equal = (1e-7, 1e-9) if self.solved and rounded else (1e-6, 1e-6)
        tied = np.flatnonzero(due <= due.min() + near)
        even = bool(np.ptp(target[tied]) < equal)
        self.sure &= tied.size == 1 or ((rounded or not self.solved) and even)
        return int(tied[0])

    def cheapest(self, labels, weights, means):
        """The piece of least H, and all values of H."""
        values = self.problem.ratios(labels, weights, means)
        return labels[np.argmin(values)], values


class KLearner(Rule):
    """AdaHedge over arms against the cheapest piece; C-tracking."""

    def start(self, counts):
        self.losses, self.gap, self.W = np.zeros(self.K), 0.01, counts.copy()

    def choose(self, counts, means, t, labels):
        rate = math.log(self.K) / self.gap
        w = np.exp(-rate * (self.losses - self.losses.min()))
        w = w / w.sum()
        inside = np.maximum(w, FLOOR)
        label, _ = self.cheapest(labels, inside, means)
        loss = -self.problem.gradient(label, inside, means)
        mixed = loss.min() - math.log(np.sum(w * np.exp(-rate * (loss - loss.min())))) / rate
        self.losses, self.gap = self.losses + loss, self.gap + (w @ loss - mixed)
        self.W = self.W + w
        behind = counts - self.W
        if self.follow is not None and counts.sum() < len(self.follow):
            k = int(self.follow[counts.sum()])
            if behind[k] <= behind.min() + 1e-9:
                return k
        return int(np.argmin(behind))


class Fws(Rule):
    """One Frank-Wolfe step a pull. `rows` lists the sizes of the matrix games."""

    def start(self, counts):
        self.x, self.rows = counts / counts.sum(), []

    def tied(self, means):
        if self.problem.kind == "bai":
            return np.sum(means >= means.max() - EPS) > 1
        return self.problem.kind == "osi" and np.any(np.abs(means - self.problem.level) <= EPS)

    def choose(self, counts, means, t, labels):
        z = np.full(self.K, 1 / self.K)
        if math.isqrt(t // self.K) ** 2 != t // self.K and not self.tied(means):
            _, values = self.cheapest(labels, self.x, means)
            near = labels[values < values.min() + t**-0.9 / self.K]
            grads = np.array([self.problem.gradient(label, self.x, means) for label in near])
            self.rows.append(len(near))
            if len(near) == 1:
                z = np.eye(self.K)[np.argmax(grads[0])]
                self.sure &= clear(grads[0])
            else:
                self.sure &= unique(grads - (grads @ self.x)[:, None])
                z = maximin(grads - (grads @ self.x)[:, None])[0]
        self.x = ((t - 1) * self.x + z) / t
        self.sure &= clear(self.x / counts)
        return int(np.argmax(self.x / counts))


class LazyTas(Rule):
    """Lazy Track-and-Stop: Frank-Wolfe where t is a power of two; explores all arms in turn."""

    def start(self, counts):
        self.w, self.W = np.full(self.K, 1 / self.K), np.zeros(self.K)

    def improve(self, means, labels):
        w = self.w
        for i in range(1, 1001):
            inside = np.maximum(w, FLOOR)
            label, values = self.cheapest(labels, inside, means)
            slope = self.problem.gradient(label, inside, means)
            self.sure &= clear(-values) and clear(slope)
            k = np.argmax(slope)
            w = w * (i / (i + 1)) + np.eye(self.K)[k] * (1 / (i + 1))
            if 1 / ((i + 1) * np.sqrt(np.sum(w**2))) < 0.001:
                break
        self.w = w

    def choose(self, counts, means, t, labels):
        if t & (t - 1) == 0:
            self.improve(means, labels)
        self.W = self.W + self.w
        if np.min(counts / self.problem.costs) < math.sqrt(t) / math.sqrt(self.K):
            return (t - 1 - self.K) % self.K
        self.sure &= clear(self.W - counts)
        return int(np.argmin(counts - self.W))


def best_arm_weights(problem, means, among):
    """w* of best arm over the arms `among`, by bisection on the runner-up's share.

    z_a = x_a/(1 + x_a) in (0, 1): the weight of a in u_a. Ties for the best share all.
    """
    d, c, K = problem.family.divergence, problem.costs, problem.K
    i = max(among, key=lambda k: (means[k], -k))
    tied = [k for k in among if means[k] == means[i]]
    if len(tied) > 1:
        return np.isin(np.arange(K), tied) / len(tied)
    rivals = sorted((k for k in among if k != i), key=lambda k: -means[k])
    top = float(means[i])

    def parts(z, a):
        m = float(means[a])
        u = min(max(top - (top - m) * z, m), top, problem.family.most)
        return d(top, u), d(m, u)

    def level(z, a):
        first, second = parts(z, a)
        return first + z / (1 - z) * second

    def shares(z_b):
        """z of every rival where the runner-up's is z_b."""
        found, y = {rivals[0]: z_b}, level(z_b, rivals[0])
        for a in rivals[1:]:
            if means[a] == means[rivals[0]]:
                found[a] = z_b
            else:
                found[a] = brentq(lambda z, a=a: level(z, a) - y, 0.0, z_b, xtol=1e-17, rtol=1e-15)
        return found

    def excess(z_b):
        total = 0.0
        for a, z in shares(z_b).items():
            first, second = parts(z, a)
            total += c[a] / c[i] * first / second
        return total - 1

    found = shares(brentq(excess, 1e-12, 1 - 1e-12, xtol=1e-17, rtol=1e-15))
    w = np.zeros(K)
    w[i] = c[i]
    for a, z in found.items():
        w[a] = c[a] * z / (1 - z)
    return w / w.sum()


def piece_weights(problem, means, labels, tolerance=1e-5):
    """w* over any pieces, by cutting planes, then by sequential quadratic programs.

    Each gradient bounds H from above everywhere.
    """
    cuts, w, best, best_w = np.zeros((0, problem.K)), np.full(problem.K, 1 / problem.K), -1.0, None
    for _ in range(500):
        grads = np.array([problem.gradient(label, np.maximum(w, FLOOR), means) for label in labels])
        values = grads @ w
        if values.min() > best:
            best, best_w = values.min(), w
        cuts = np.vstack([cuts, grads[values <= 2 * values.min()]])
        point, upper = maximin(cuts)
        if upper - best <= tolerance * upper:
            return polished(problem, means, labels, best_w, best)
        w = (best_w + point) / 2
    raise ArithmeticError(f"between {best} and {upper}")


def polished(problem, means, labels, w, value):
    """The most accurate w near the given one: maximise s subject to H_p(w) >= s."""
    inside = lambda x: np.maximum(x[:-1], FLOOR)  # noqa: E731
    grads = lambda x: np.array(  # noqa: E731
        [np.append(problem.gradient(label, inside(x), means) / value, -1) for label in labels]
    )
    total = {"type": "eq", "fun": lambda x: x[:-1].sum() - 1,
             "jac": lambda x: np.append(np.ones(problem.K), 0.0)}  # fmt: skip
    above = {"type": "ineq", "fun": lambda x: grads(x)[:, :-1] @ x[:-1] - x[-1], "jac": grads}
    start, toward = np.append(w, 1.0), np.append(np.zeros(problem.K), -1.0)
    found = minimize(
        lambda x: -x[-1], start, jac=lambda _: toward, method="SLSQP", constraints=[total, above],
        bounds=[(0, 1)] * problem.K + [(0, None)], options={"ftol": 1e-15, "maxiter": 200},
    )  # fmt: skip
    better = found.x[:-1] / found.x[:-1].sum()
    return better if problem.ratios(labels, np.maximum(better, FLOOR), means).min() >= value else w


def weights_of(problem, means, labels, last):
    """w* over the active pieces, by kind; `last` where it is not defined."""
    if len(labels) == 0:
        return last
    if problem.kind == "osi":
        slopes = problem.ratios(labels, np.ones(problem.K), means)
        w = np.zeros(problem.K)
        w[labels[:, 0]] = slopes == 0 if slopes.min() == 0 else 1 / np.maximum(slopes, 1e-300)
        return w / w.sum()
    if problem.kind == "bai":
        return best_arm_weights(problem, means, [int(labels[0, 0]), *labels[:, 1].tolist()])
    if np.any(means[labels[:, 0]] <= means[labels[:, 1]]):
        return last
    return piece_weights(problem, means, labels)


class Tas(Rule):
    """Track-and-Stop; `tracking` "D" or "C"."""

    solved = True

    def start(self, counts, tracking="D", every=1):
        self.tracking, self.every = tracking, every
        self.w, self.W, self.calls = np.full(self.K, 1 / self.K), counts.copy(), 0

    def choose(self, counts, means, t, labels):
        if self.calls % self.every == 0:
            self.w = weights_of(self.problem, means, labels, self.w)
        self.calls += 1
        w, starved = self.w, counts <= math.sqrt(t - 1) - self.K / 2
        if starved.any():
            w = starved / starved.sum()
        self.W = self.W + w
        return self.tracked(counts, self.W if self.tracking == "C" else (t - 1) * w)


class Oracle(Rule):
    """D-tracking of w* at the true means."""

    solved = True

    def start(self, counts):
        labels = self.problem.pieces(self.problem.answer(self.truth))
        self.w = weights_of(self.problem, self.truth, labels, None)

    def choose(self, counts, means, t, labels):
        return self.tracked(counts, (t - 1) * self.w)


RULES = {"k-learner": KLearner, "fws": Fws, "lazy-tas": LazyTas, "tas": Tas,
         "oracle": Oracle}  # fmt: skip


def run(mu, family, spec, rule, *, noise, costs=None, delta=0.1, beta=heuristic,
        stopping=("llr",), elimination=None, settings=(), initial=1,
        follow=None, batch=1, delay=0):  # fmt: skip
    """One trajectory, up to the last stop or the noise's end.

    Args:
      mu: means [K].
      family: a name in `FAMILIES`.
      spec: ("bai",), ("topm", m) or ("osi", level).
      rule: a name in `RULES`, or a `Rule`.
      noise: uniforms, or normals of Gaussian rewards: [T].
      costs: c_k [K], of Gaussian rewards; None: 1.
      delta, beta: the error probability and the threshold of (t, delta).
      stopping: any of "llr", "selective", "full".
      elimination: None, or the one stopping rule whose set sampling reads.
      settings: of the rule, as a dictionary.
      initial: pulls of each arm at the start, in rounds.
      follow: another program's arms; the k-learner takes the next of them where rounding
        alone decides. Gaussian gains of a best arm and its rival are equal at equal
        weights.
      batch, delay: of rewards that wait; see `tests.twin.pending`.

    Returns:
      A namespace: `arms` [T], `rewards` [T], the rule, `sure`, up to which sample the
      choices are the only right ones, and `stops` by name: samples, answer, stopped,
      pulls [K], tests.
    """
    mu = np.asarray(mu, float)
    K, costs = len(mu), np.ones(len(mu)) if costs is None else np.asarray(costs, float)
    known = FAMILIES[family]
    problem = Problem(spec, K, known, costs)
    kinds = {"llr": stops.Llr, "selective": stops.SETS[spec[0]], "full": stops.SETS[spec[0]]}
    sets = {name: kinds[name](problem, name == "full") for name in stopping}
    tests, ended = dict.fromkeys(stopping, 0), {}
    counts, entered, sums = np.zeros(K, int), np.zeros(K, int), np.zeros(K)
    arms, rewards, pending = [], [], Pending(initial * K, batch, delay)

    def enter(k, reward):
        entered[k] += 1
        sums[k] += reward

    def pull(k):
        reward = known.draw(mu[k], math.sqrt(costs[k]), float(noise[len(arms)]))
        counts[k] += 1
        arms.append(int(k))
        rewards.append(reward)
        return reward

    for n in range(initial * K):
        enter(n % K, pull(n % K))
    kind = RULES[rule] if isinstance(rule, str) else rule
    sampler, sure = kind(problem, counts, mu, **dict(settings)), initial * K
    sampler.follow, first = follow, True
    while True:
        t, group = len(arms), pending.entering(len(arms))
        for k, reward in group:
            enter(k, reward)
        means = sums / entered
        for name, pieces in sets.items():
            if name not in ended:
                answer = None
                if group or first:
                    answer, tested = pieces.update(entered, means, beta(entered.sum(), delta))
                    tests[name] += tested
                if answer is not None or t == len(noise):
                    ended[name] = SimpleNamespace(
                        samples=t, stopped=answer is not None, pulls=counts.copy(),
                        answer=problem.answer(means) if answer is None else answer.copy(),
                        tests=tests[name],
                    )  # fmt: skip
        if len(ended) == len(stopping):
            return SimpleNamespace(
                arms=np.array(arms), rewards=np.array(rewards), stops=ended, rule=sampler,
                sure=sure,
            )  # fmt: skip
        first, labels = False, problem.by_rank(problem.pieces(problem.answer(means)), means)
        if elimination is not None:
            labels = active(sets[elimination], labels)
        arm = sampler.choose(counts, means, t + 1, labels)
        pending.chosen(t + 1, arm, pull(arm))
        sure += sampler.sure
