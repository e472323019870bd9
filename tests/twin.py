"""A plain NumPy float64 reading of docs/definitions.md, the slow reference that the JAX engine is held against.

Section numbers are that page's. One call of `run` plays one trajectory and observes any number of stopping
rules on it. Nothing is updated incrementally: at every check V is summed from the counts and inverted, and ||y||^2 is
y' V^-1 y with y formed first. Indices are 0-based; ties go to the lowest index unless a docstring says otherwise.

A half-space is named by a pair of integers, its label: (j, k) is y = phi_j - phi_k for BAI and Top-m; (k, s) is
y = +phi_k (s = 1) or -phi_k (s = 0) for signs. Label arrays are int [P, 2], in lexicographic order.
An answer is a bool [K]: the best arm, the m best arms, or the arms whose mean is at least the level.
"""

import itertools
from types import SimpleNamespace

import numpy as np
from scipy.optimize import linprog

EPS = np.finfo(float).eps


# Section 2: problems, answers, pieces.


def top(values, m):
    """Indices of the m largest values, best first, ties to the lowest index."""
    return np.argsort(-np.asarray(values), kind="stable")[:m]


class Problem:
    """("bai",), ("topm", m) or ("osi", level): the answer map and the pieces of each answer (section 2)."""

    def __init__(self, phi, spec):
        self.phi = phi
        self.K, self.d = phi.shape
        self.kind = spec[0]
        self.m = {"bai": 1, "topm": spec[-1], "osi": None}[self.kind]
        self.level = (spec[1] if len(spec) > 1 else 0.0) if self.kind == "osi" else 0.0

    def answer(self, means):
        """The answer of a vector of means."""
        if self.kind == "osi":
            return means >= self.level
        answer = np.zeros(self.K, bool)
        answer[top(means, self.m)] = True
        return answer

    def pieces(self, answer):
        """Labels of the pieces of `answer`: K - 1 (BAI), m (K - m) (Top-m), K (OSI)."""
        if self.kind == "osi":
            return np.column_stack([np.arange(self.K), answer.astype(int)])
        inside, outside = np.flatnonzero(answer), np.flatnonzero(~answer)
        return np.column_stack([np.repeat(inside, len(outside)), np.tile(outside, len(inside))])

    def all_pieces(self):
        """Labels of every half-space that is a piece of some answer."""
        second = 2 if self.kind == "osi" else self.K
        labels = np.array(list(itertools.product(range(self.K), range(second))))
        return labels if self.kind == "osi" else labels[labels[:, 0] != labels[:, 1]]

    def all_answers(self):
        """Every answer, as bool arrays; only for problems small enough."""
        if self.kind == "osi":
            chosen = itertools.product([False, True], repeat=self.K)
            return [np.array(signs) for signs in chosen]
        answers = []
        for arms in itertools.combinations(range(self.K), self.m):
            answer = np.zeros(self.K, bool)
            answer[list(arms)] = True
            answers.append(answer)
        return answers

    def halfspaces(self, labels):
        """Directions y [P, d] and offsets c [P]; the piece is {lambda : y . lambda <= c}."""
        first, second = labels[:, 0], labels[:, 1]
        if self.kind == "osi":
            sign = 2.0 * second - 1.0
            return sign[:, None] * self.phi[first], sign * self.level
        return self.phi[first] - self.phi[second], np.zeros(len(labels))


def squared_norms(y, inverse):
    """||y||^2 in the metric of `inverse`, one per row of y."""
    return np.sum((y @ inverse) * y, axis=1)


def llr(y, c, theta, inverse):
    """LLR of half-spaces (section 2): max(y . theta - c, 0)^2 / (2 ||y||^2), 0 where y = 0."""
    gap = np.maximum(y @ theta - c, 0.0)
    norm = squared_norms(y, inverse)
    return np.divide(gap**2, 2.0 * norm, out=np.zeros(len(y)), where=norm > 0)


def gradients(phi, y, c, theta, inverse):
    """(phi_k . (theta - lambda_p))^2 / 2 [P, K], lambda_p the closest point of hyperplane p (theta where y = 0)."""
    norm = squared_norms(y, inverse)
    scale = np.divide(y @ theta - c, norm, out=np.zeros(len(y)), where=norm > 0)
    return (scale[:, None] * (y @ inverse @ phi.T)) ** 2 / 2.0


# Section 3: thresholds. `constants` are c1, c2 and x0 of section 6, where the threshold has them.


def heuristic(t, delta):
    """log((1 + t)/delta)."""
    return np.log((1.0 + t) / delta)


heuristic.constants = (1.0, np.log(3.0) / np.log(2.0), 1.0)


def gk16(t, delta):
    """log((1 + log t)/delta)."""
    return np.log((1.0 + np.log(t)) / delta)


def linear(d, L, S, ridge=1.0):
    """(sqrt(log(1/delta) + (d/2) log(1 + t L^2/(ridge d))) + S sqrt(ridge/2))^2."""

    def beta(t, delta):
        width = np.log(1.0 / delta) + d / 2.0 * np.log(1.0 + t * L**2 / (ridge * d))
        return (np.sqrt(width) + S * np.sqrt(ridge / 2.0)) ** 2

    return beta


def loglog(C=1.0, C_prime=1.0):
    """f(C' t^2/delta) with f(x) = log x + C log log x."""

    def beta(t, delta):
        x = C_prime * float(t) ** 2 / delta
        return np.log(x) + C * np.log(np.log(x))

    beta.constants = (2.0, 2.0 * (C + 1.0), np.exp(2.0) / C_prime)
    return beta


# Section 4: elimination. Each set has: update(stats, threshold) -> pieces tested; answer(stats) -> the answer if it
# stops, else None; keeps(labels) -> which half-spaces are still active; size, the traces' `active`; times, 0 for never.


class Stats:
    """What a check sees (section 1, step 3a): everything follows from the counts and the sums of rewards per arm."""

    def __init__(self, problem, counts, sums, ridge):
        phi = problem.phi
        self.t = int(counts.sum())
        self.counts, self.sums = counts, sums
        self.V = ridge * np.eye(problem.d) + (phi.T * counts) @ phi
        self.inverse = np.linalg.inv(self.V)
        self.theta = self.inverse @ (phi.T @ sums)
        self.means = phi @ self.theta
        self.answer = problem.answer(self.means)


class Nothing:
    """No elimination: LLR stopping (section 5) tests every piece of the empirical answer."""

    def __init__(self, problem):
        self.problem = problem
        self.size = 0 if problem.kind == "topm" else problem.K
        self.times = np.zeros((problem.K,) * (2 if problem.kind == "topm" else 1), int)

    def update(self, stats, threshold):
        y, c = self.problem.halfspaces(self.problem.pieces(stats.answer))
        self.stops = np.min(llr(y, c, stats.theta, stats.inverse)) > threshold
        return len(y)

    def answer(self, stats):
        return stats.answer if self.stops else None


class BaiArms:
    """One mask of active arms; an arm is dropped by i_hat (selective) or by any arm, dropped ones too (full)."""

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.active = np.ones(problem.K, bool)
        self.times = np.zeros(problem.K, int)

    def update(self, stats, threshold):
        K = self.problem.K
        judges = np.arange(K) if self.full else np.flatnonzero(stats.answer)
        labels = np.array([(i, j) for j in np.flatnonzero(self.active) for i in judges if i != j]).reshape(-1, 2)
        y, c = self.problem.halfspaces(labels)
        for j in labels[llr(y, c, stats.theta, stats.inverse) > threshold, 1]:
            self.active[j] = False
            self.times[j] = stats.t
        return len(labels)

    def answer(self, stats):
        if self.size > 1:
            return None
        return self.active.copy() if self.size == 1 else stats.answer

    def keeps(self, labels):
        return self.active[labels[:, 1]]

    @property
    def size(self):
        return int(self.active.sum())


class TopmPairs:
    """worse[j, k]: k is known worse than j; found[j]: at least K - m arms are. Found arms are tested no more."""

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.worse = np.zeros((problem.K, problem.K), bool)
        self.times = np.zeros((problem.K, problem.K), int)

    @property
    def found(self):
        return self.worse.sum(axis=1) >= self.problem.K - self.problem.m

    def update(self, stats, threshold):
        labels = self.problem.all_pieces() if self.full else self.problem.pieces(stats.answer)
        labels = labels[~self.found[labels[:, 0]] & ~self.worse[labels[:, 0], labels[:, 1]]]
        y, c = self.problem.halfspaces(labels)
        for j, k in labels[llr(y, c, stats.theta, stats.inverse) > threshold]:
            self.worse[j, k] = True
            self.times[j, k] = stats.t
        return len(labels)

    def answer(self, stats):
        if self.found.sum() < self.problem.m:
            return None
        return self.problem.answer(np.where(self.found, stats.means, -np.inf))

    def keeps(self, labels):
        return ~self.worse[labels[:, 0], labels[:, 1]]

    @property
    def size(self):
        return int(self.worse.sum())


class OsiArms:
    """One mask of active arms and the signs found; selective and full coincide."""

    def __init__(self, problem, full):
        self.problem = problem
        self.active = np.ones(problem.K, bool)
        self.signs = np.zeros(problem.K, bool)
        self.times = np.zeros(problem.K, int)

    def update(self, stats, threshold):
        labels = self.problem.pieces(stats.answer)[self.active]
        y, c = self.problem.halfspaces(labels)
        for k, sign in labels[llr(y, c, stats.theta, stats.inverse) > threshold]:
            self.active[k] = False
            self.signs[k] = sign
            self.times[k] = stats.t
        return len(labels)

    def answer(self, stats):
        return None if self.active.any() else self.signs.copy()

    def keeps(self, labels):
        return self.active[labels[:, 0]]

    @property
    def size(self):
        return int(self.active.sum())


class Definition:
    """The general definition: a set of active pieces per answer, the paper's P_t^stp(i).

    Selective: only the empirical answer's set shrinks, and it stops when that set is empty.
    Full: every answer's set shrinks, and it stops when any is empty; the answer is the empirical one if its set is
    empty, else the first empty one in lexicographic order. `times` is kept per (answer, piece), in a dictionary.
    """

    def __init__(self, problem, full):
        self.problem, self.full = problem, full
        self.sets = {}
        self.times = {}
        if full:
            for answer in problem.all_answers():
                self._pieces(answer)

    def _pieces(self, answer):
        name = tuple(answer.tolist())
        if name not in self.sets:
            self.sets[name] = self.problem.pieces(answer)
        return self.sets[name]

    def update(self, stats, threshold):
        self._pieces(stats.answer)
        tests = 0
        for name in self.sets if self.full else [tuple(stats.answer.tolist())]:
            labels = self.sets[name]
            y, c = self.problem.halfspaces(labels)
            gone = llr(y, c, stats.theta, stats.inverse) > threshold
            for piece in labels[gone].tolist():
                self.times[name, tuple(piece)] = stats.t
            self.sets[name] = labels[~gone]
            tests += len(labels)
        return tests

    def answer(self, stats):
        if len(self._pieces(stats.answer)) == 0:
            return stats.answer
        empty = [np.array(name) for name in self.sets if len(self.sets[name]) == 0]
        return empty[0] if self.full and empty else None

    @property
    def size(self):
        return sum(len(labels) for labels in self.sets.values())


def elimination_set(problem, name):
    """The state behind a stopping rule's name."""
    if name in ("llr", "native"):
        return Nothing(problem)
    full = name.startswith("full")
    if name.endswith("definition"):
        return Definition(problem, full)
    return {"bai": BaiArms, "topm": TopmPairs, "osi": OsiArms}[problem.kind](problem, full)


# Section 6: elimination at sampling with resets.


class Resets:
    """The setting `elimination=Resets("selective")`; alpha is a function of (t, delta) and t0 a number, where given."""

    def __init__(self, rule="selective", alpha=None, t0=None):
        self.full = rule == "full"
        self.alpha, self.t0 = alpha, t0


class ResetSets:
    """Helper and last (section 6): masks over labels, `helper` restarted at t = ceil(t0^(2^j))."""

    def __init__(self, problem, settings, beta):
        self.problem, self.full = problem, settings.full
        constants = getattr(beta, "constants", None)
        if constants is None and settings.alpha is None:
            raise ValueError("this threshold has no c1, c2, x0: give alpha")
        self.alpha = settings.alpha or paper_alpha(beta)
        t0 = settings.t0 or max(2.0, np.sqrt(constants[2]) if constants else 0.0)
        self.reset_times = {int(np.ceil(t0 ** (2**j))) for j in range(6) if t0 ** (2**j) < 1e15}
        shape = {"bai": (problem.K,), "topm": (problem.K, problem.K), "osi": (problem.K, 2)}[problem.kind]
        self.helper = np.ones(shape, bool)
        self.last = np.ones(shape, bool)

    def _where(self, labels):
        return (labels[:, 1],) if self.problem.kind == "bai" else (labels[:, 0], labels[:, 1])

    def update(self, stats, delta):
        if stats.t in self.reset_times:
            self.last = self.helper
            self.helper = np.ones_like(self.helper)
        labels = self.problem.all_pieces() if self.full else self.problem.pieces(stats.answer)
        y, c = self.problem.halfspaces(labels)
        gone = labels[llr(y, c, stats.theta, stats.inverse) > self.alpha(stats.t, delta)]
        self.helper[self._where(gone)] = False

    def keeps(self, labels):
        return (self.helper & self.last)[self._where(labels)]


def paper_alpha(beta):
    """(sqrt(beta + (4 c2 - c1) log t) + 4 sqrt((c2/c1) beta(t, 1/t^2)))^2."""

    def alpha(t, delta):
        c1, c2, _ = beta.constants
        first = np.sqrt(beta(t, delta) + (4.0 * c2 - c1) * np.log(t))
        return (first + 4.0 * np.sqrt(c2 / c1 * beta(t, float(t) ** -2))) ** 2

    return alpha


# Section 8: the optimal allocation.


def best_allocation(phi, y, c, theta, bonus=None, tolerance=1e-6, max_iterations=500):
    """max over the simplex of min_p H_p(w, theta) + w . bonus, by cutting planes.

    H_p(w) is the least value of a linear function of w over the points of the hyperplane, so each closest point gives
    an upper bound gradient . w that is tight where it was taken; an LP maximises the bounds' minimum. New bounds are
    taken halfway between the LP's point and the best w so far, which keeps V_w invertible, and only for pieces that
    come within twice the least. Returns w, its value, the LP's upper bound on the optimum, and the iterations; the
    relative gap of the two is at most `tolerance`, or it raises.
    """
    K = len(phi)
    bonus = np.zeros(K) if bonus is None else bonus
    w, best_w, best = np.full(K, 1.0 / K), None, -np.inf
    cuts = np.zeros((0, K))
    for iteration in range(1, max_iterations + 1):
        grads = gradients(phi, y, c, theta, np.linalg.inv((phi.T * w) @ phi)) + bonus
        values = grads @ w
        if values.min() > best:
            best, best_w = values.min(), w
        cuts = np.vstack([cuts, grads[values <= 2.0 * values.min()]])
        point, upper = maximin(cuts)
        if upper - best <= tolerance * abs(upper):
            return best_w, best, upper, iteration
        w = 0.5 * (best_w + point)
    raise ArithmeticError(f"allocation between {best} and {upper} after {max_iterations} iterations")


def maximin(payoffs):
    """The matrix game max over z in the simplex of min over rows of payoffs @ z, as a linear program: z and the value.

    Payoffs are scaled to size 1: the solver's tolerances are absolute.
    """
    rows, K = payoffs.shape
    scale = np.max(np.abs(payoffs))
    if scale == 0.0:
        return np.full(K, 1.0 / K), 0.0
    cost, total = np.append(np.zeros(K), -1.0), np.append(np.ones(K), 0.0)[None]
    below = np.column_stack([-payoffs / scale, np.ones(rows)])
    box = [(0.0, None)] * K + [(None, None)]
    # HiGHS now and then gives up at the tight tolerance; its default is the fallback.
    for tolerance in (1e-10, 1e-7):
        options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
        solved = linprog(cost, below, np.zeros(rows), total, [1.0], box, method="highs", options=options)
        if solved.x is not None:
            break
    else:
        raise ArithmeticError(solved.message)
    return solved.x[:K], solved.x[K] * scale


# Section 7: sampling rules. choose(stats, t, active) returns the next arm, or Stop(answer) where the native test holds.
# t is the index of the sample about to be drawn; active(answer) the labels of the active pieces of an answer.
# `reads` is the number of pieces read by the last choice. `native` says whether the rule has a test of its own.


class Stop:
    """A native stop, with the rule's answer."""

    def __init__(self, answer):
        self.answer = answer


class Rule:
    """A sampling rule; `start` is called once after the initial pulls (section 1, step 2)."""

    native = False
    reads = 0

    def __init__(self, problem, delta, beta, theta, **settings):
        self.problem, self.delta, self.beta, self.theta = problem, delta, beta, theta
        self.phi, self.K, self.d = problem.phi, problem.K, problem.d
        self.configure(**settings)

    def configure(self):
        """Takes the rule's settings."""

    def start(self, stats):
        """Makes the rule's state."""

    def choose(self, stats, t, active):
        raise NotImplementedError

    def needs(self, *kinds, unstructured=False):
        if self.problem.kind not in kinds:
            raise ValueError(f"{type(self).__name__} is for {kinds}")
        if unstructured and not np.array_equal(self.phi, np.eye(self.K)):
            raise ValueError(f"{type(self).__name__} is for unstructured bandits")


class Uniform(Rule):
    """Round robin."""

    def choose(self, stats, t, active):
        return (t - 1) % self.K


class Oracle(Rule):
    """D-tracking of w*, given as `weights` or solved for on the true theta."""

    def configure(self, weights=None):
        if weights is None:
            y, c = self.problem.halfspaces(self.problem.pieces(self.problem.answer(self.phi @ self.theta)))
            weights = best_allocation(self.phi, y, c, self.theta)[0]
        self.w = np.asarray(weights, float)

    def choose(self, stats, t, active):
        return int(np.argmin(stats.counts - (t - 1) * self.w))


def most_informative(stats, phi, y):
    """The arm k with the least ||y|| in (V + phi_k phi_k')^-1.

    By Sherman-Morrison the square falls by (phi_k' V^-1 y)^2 / (1 + phi_k' V^-1 phi_k); the arm with the largest fall.
    """
    return int(np.argmax((phi @ stats.inverse @ y) ** 2 / (1.0 + squared_norms(phi, stats.inverse))))


class LinGapE(Rule):
    """Xu et al. 2018, m-LinGapE, and its form for signs: the most uncertain active piece, then the arm for it."""

    def choose(self, stats, t, active):
        c = np.sqrt(2.0 * (np.log(1.0 / self.delta) + 2.0 * np.log(t + 1.0)))
        labels = active(stats.answer)
        self.reads = len(labels)
        y, offset = self.problem.halfspaces(labels)
        index = -(y @ stats.theta - offset) + c * np.sqrt(squared_norms(y, stats.inverse))
        return most_informative(stats, self.phi, y[np.argmax(index)])


class LinGame(Rule):
    """Degenne et al. 2020 (greedy), or with optimistic gains; AdaHedge over the arms, C-tracking.

    V_w takes max(w, 1e-12), in V_w only: AdaHedge's weights underflow and V_w would be singular.
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
    """Frank-Wolfe sampling, Wang et al. 2021; the matrix game is solved as a linear program.

    "To machine precision" is |difference| <= eps = 2.2e-16. `games` lists the number of rows of every matrix game,
    one entry per choice that is not uniform.
    """

    def start(self, stats):
        self.x = stats.counts / stats.t
        self.games = []

    def _degenerate(self, means):
        if self.problem.kind == "bai":
            return np.sum(np.abs(means - means.max()) <= EPS) > 1
        return self.problem.kind == "osi" and bool(np.any(np.abs(means - self.problem.level) <= EPS))

    def choose(self, stats, t, active):
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
    """Jedra and Proutiere 2020; the allocation is recomputed when t is a power of two."""

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
        total = self.w.copy()  # i w: whole pulls are added, so that arms chosen equally often stay tied
        for i in range(1, 1001):
            inverse = np.linalg.inv((self.phi.T * (total / i)) @ self.phi)
            p = np.argmin(llr(y, c, stats.theta, inverse))
            k = np.argmax(gradients(self.phi, y[p : p + 1], c[p : p + 1], stats.theta, inverse)[0])
            total[k] += 1.0
            w = total / (i + 1)
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
    """Track-and-Stop, Garivier and Kaufmann 2016: best_allocation of theta_hat at the first and each `every`-th choice.

    Forced exploration "wrapper": the uniform weights over the arms with N_k <= sqrt(t - 1) - K/2, where there are any,
    take the place of w in the tracking. "paper": where some N_k < sqrt(t), pull argmin N_k; C-tracking adds w all the
    same.
    """

    def configure(self, tracking="D", exploration="wrapper", every=1, tolerance=1e-6):
        self.tracking, self.exploration, self.every, self.tolerance = tracking, exploration, every, tolerance

    def start(self, stats):
        self.W = stats.counts.astype(float)
        self.calls = 0

    def choose(self, stats, t, active):
        self.reads = 0
        if self.calls % self.every == 0:
            labels = active(stats.answer)
            y, c = self.problem.halfspaces(labels)
            self.w, _, _, steps = best_allocation(self.phi, y, c, stats.theta, tolerance=self.tolerance)
            self.reads = steps * len(labels)
        self.calls += 1
        w = self.w
        starved = stats.counts <= np.sqrt(t - 1) - self.K / 2
        if self.exploration == "wrapper" and starved.any():
            w = starved / starved.sum()
        self.W = self.W + w
        if self.exploration == "paper" and np.any(stats.counts < np.sqrt(t)):
            return int(np.argmin(stats.counts))
        goal = self.W if self.tracking == "C" else (t - 1) * w
        return int(np.argmin(stats.counts - goal))


class OptimisticTas(Rule):
    """Degenne et al. 2019: best_allocation with the bonus w . c, C-tracking, no forced exploration.

    `bonus` is a function of (t, ||phi_k||_{V^-1} [K]); by default sqrt(2 log t) times the norms.
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


def most_ambiguous(B, m):
    """J, b, c and the m-th largest B_ij over i != j for every j, from the gap bounds B [K, K] (LinGIFA, UGapE)."""
    K = len(B)
    mth = np.array([np.sort(np.delete(B[:, j], j))[-m] for j in range(K)])
    J = np.sort(top(-mth, m))
    outside = np.setdiff1d(np.arange(K), J)
    b = J[np.argmax([B[outside, j].max() for j in J])]
    c = outside[np.argmax(B[outside, b])]
    return J, int(b), int(c), mth


class LinGifa(Rule):
    """Reda et al. 2021, BAI and Top-m; it reads every pair of arms, and no active pieces."""

    def configure(self):
        self.needs("bai", "topm")

    def choose(self, stats, t, active):
        c = np.sqrt(2.0 * self.beta(t, self.delta))
        B = np.zeros((self.K, self.K))
        for j in range(self.K):
            y = self.phi - self.phi[j]
            B[:, j] = y @ stats.theta + c * np.sqrt(squared_norms(y, stats.inverse))
        _, b, c_arm, _ = most_ambiguous(B, self.problem.m)
        return most_informative(stats, self.phi, self.phi[b] - self.phi[c_arm])


class Lucb(Rule):
    """Kalyanakrishnan et al. 2012, unstructured; the means are R/N. Native stop: upper(c) <= lower(b)."""

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
    """Kaufmann and Kalyanakrishnan 2013, BAI and Top-m, unstructured; one acceptance or discard before each round.

    T is the set of the m best means of all arms, discarded ones too, less the accepted. Where accepting and discarding
    clear by equally much, the arm is accepted.
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
    """Fiez et al. 2019, BAI: phases of a rounded design, then the arms beaten by some active arm are dropped."""

    native = True

    def configure(self):
        self.needs("bai")

    def start(self, stats):
        self.active = np.arange(self.K)
        self.phase = 0
        self.left = np.zeros(self.K, int)

    def _design(self, Y):
        """Frank-Wolfe for min over the simplex of max over Y of ||y||^2 in the design's inverse.

        Returns the design and rho; rho is that of the design that the last step was taken from, as the traces have it.
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
        Y = np.array([self.phi[i] - self.phi[j] for i, j in itertools.combinations(self.active, 2)])
        w, rho = self._design(Y)
        delta_before = self.delta / max(self.phase - 1, 1) ** 2
        scale = 8.0 * 4.0 ** (self.phase - 1) * rho * 1.1
        samples = int(max(np.ceil(scale * np.log(2.0 * self.K**2 / delta_before)), 20 * np.sum(w > 0)))
        self.left = self._round(w, samples)

    def _end(self, stats):
        width = 2.0 * np.log(2.0 * self.K**2 / (self.delta / self.phase**2))
        kept = []
        for i in self.active:
            y = self.phi[[j for j in self.active if j != i]] - self.phi[i]
            norm = squared_norms(y, stats.inverse)
            if not np.any((norm > 0) & (np.sqrt(norm * width) <= y @ stats.theta)):
                kept.append(i)
        self.active = np.array(kept)

    def choose(self, stats, t, active):
        if not self.left.any():
            if self.phase > 0:
                self._end(stats)
            if len(self.active) == 1:
                answer = np.zeros(self.K, bool)
                answer[self.active] = True
                return Stop(answer)
            self._begin()
        k = int(np.argmax(self.left))
        self.left[k] -= 1
        return k


class XyAdaptive(Rule):
    """Soare et al. 2014, BAI: every 10 steps the arm that best shrinks the differences of the active arms.

    The test for a new phase comes before each of these choices, and only then.
    """

    native = True

    def configure(self, alpha=0.1):
        self.needs("bai")
        self.alpha = alpha

    def start(self, stats):
        self.active = np.arange(self.K)
        self.rho, self.rho_old, self.t_old = 1.0, 1.0, self.K
        self.repeat = 0

    def _unbeaten(self, stats, t):
        kept = []
        for i in range(self.K):
            y = np.delete(self.phi, i, axis=0) - self.phi[i]
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
                answer = np.zeros(self.K, bool)
                answer[self.active] = True
                return Stop(answer)
        if self.repeat == 0:
            Y = np.array([self.phi[i] - self.phi[j] for i, j in itertools.combinations(self.active, 2)])
            fall = (Y @ stats.inverse @ self.phi.T) ** 2 / (1.0 + squared_norms(self.phi, stats.inverse))
            worst = np.max(squared_norms(Y, stats.inverse)[:, None] - fall, axis=0)
            self.arm, self.rho = int(np.argmin(worst)), worst.min()
        self.repeat = (self.repeat + 1) % 10
        return self.arm


RULES = {
    "uniform": Uniform,
    "oracle": Oracle,
    "lingape": LinGapE,
    "lingame": LinGame,
    "fws": Fws,
    "lazy_tas": LazyTas,
    "tas": Tas,
    "optimistic_tas": OptimisticTas,
    "lingifa": LinGifa,
    "lucb": Lucb,
    "ugape": UGapE,
    "racing": Racing,
    "rage": Rage,
    "xy_adaptive": XyAdaptive,
}


# Section 1: one run.


class Observer:
    """One stopping rule watching the trajectory (section 5)."""

    def __init__(self, problem, name):
        self.name = name
        self.set = elimination_set(problem, name)
        self.active = []
        self.tests_stopping = 0
        self.open = True

    def check(self, stats, threshold, tests_sampling):
        if self.name != "native":
            self.tests_stopping += self.set.update(stats, threshold)
            answer = self.set.answer(stats)
        self.active.append(self.set.size)
        if self.name != "native" and answer is not None:
            self.close(stats, answer, tests_sampling)

    def close(self, stats, answer, tests_sampling, stopped=True):
        self.open = False
        self.record = SimpleNamespace(
            samples=stats.t,
            stopped=stopped,
            truncated=not stopped,
            answer=answer.copy(),
            pulls=stats.counts.copy(),
            active=np.array(self.active),
            elimination_times=self.set.times,
            tests_stopping=self.tests_stopping,
            tests_sampling=tests_sampling,
        )


def run(
    arms,
    theta,
    problem,
    rule,
    *,
    noise,
    delta=0.01,
    beta=heuristic,
    stopping=("llr",),
    elimination=None,
    ridge=1.0,
    noise_std=1.0,
    max_samples=20000,
    **settings,
):
    """One trajectory of `rule`, up to the last of the stopping rules, the cap or the end of the noise (section 1).

    Args:
      arms: features [K, d]; theta: [d]; noise: standard normals [T], sample s has reward mean + noise_std * noise[s].
      problem: ("bai",), ("topm", m), ("osi", level) or ("osi",).
      rule: a name of RULES, `settings` its own settings.
      stopping: any of "llr", "native", "selective", "full", "selective-definition", "full-definition".
      elimination: at sampling; None, "selective" or "full" (the set of that stopping rule, never reset), or a Resets.

    A rule that stops natively ends the run for every stopping rule still open. Where no active piece of the answer is
    left at sampling, all its pieces are active.

    Returns a namespace: arms and rewards of every pull, theta_hat_0 at t = K, the sampling rule's object, `active` of
    the first stopping rule, and `stops`, a dictionary from each stopping rule's name to its record. An elimination time
    of 0 means never; `tests_sampling` counts the choices that were followed by a pull.
    """
    phi = np.asarray(arms, float)
    theta = np.asarray(theta, float) / noise_std
    if problem[0] == "osi" and len(problem) > 1:
        problem = ("osi", problem[1] / noise_std)
    problem = Problem(phi, problem)
    K, mu = problem.K, phi @ theta
    cap = min(max_samples, len(noise))
    if cap < K:
        raise ValueError("the cap and the noise must cover the initial pulls")

    counts, sums = np.zeros(K, int), np.zeros(K)
    pulled, rewards = [], []

    def pull(k):
        reward = mu[k] + noise[len(pulled)]
        counts[k] += 1
        sums[k] += reward
        pulled.append(k)
        rewards.append(reward * noise_std)

    for k in range(K):
        pull(k)
    sampler = RULES[rule](problem, delta, beta, theta, **settings)
    if "native" in stopping and not sampler.native:
        raise ValueError(f"{rule} has no native stopping rule")
    observers = [Observer(problem, name) for name in stopping]
    if isinstance(elimination, Resets):
        sets = ResetSets(problem, elimination, beta)
    else:
        sets = elimination and elimination_set(problem, elimination)

    def active(answer):
        labels = problem.pieces(answer)
        if sets:
            kept = labels[sets.keeps(labels)]
            labels = kept if len(kept) else labels
        return labels

    theta_hat_0 = None
    tests_sampling = 0
    while True:
        stats = Stats(problem, counts.copy(), sums.copy(), ridge)
        if theta_hat_0 is None:
            theta_hat_0 = stats.theta
            sampler.start(stats)
        t, threshold = stats.t, beta(stats.t, delta)
        if sets:
            sets.update(stats, delta if isinstance(elimination, Resets) else threshold)
        for observer in observers:
            if observer.open:
                observer.check(stats, threshold, tests_sampling)
        open_observers = [observer for observer in observers if observer.open]
        if not open_observers or (t == cap and not sampler.native):
            choice = None
        else:
            choice = sampler.choose(stats, t + 1, active)
        if isinstance(choice, Stop):
            for observer in open_observers:
                observer.close(stats, choice.answer, tests_sampling)
            break
        if not open_observers or t == cap:
            for observer in open_observers:
                observer.close(stats, stats.answer, tests_sampling, stopped=False)
            break
        tests_sampling += sampler.reads
        pull(choice)

    return SimpleNamespace(
        arms=np.array(pulled),
        rewards=np.array(rewards),
        theta_hat_0=theta_hat_0,
        sampler=sampler,
        active=observers[0].record.active,
        stops={observer.name: observer.record for observer in observers},
    )
