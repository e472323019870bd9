"""The twin of Gaussian runs with unknown variances: a plain NumPy float64 reference.

m_k = mean and v_k = sum (x - m_k)^2/N_k of all rewards of arm k, recomputed from the
rewards at every check. f_k = N_k - 1, or N_k for degrees "glr". Labels, answers and
masks are those of tests.twin.families.

The cost of a pair is the least over the roots of its cubic, which are eigenvalues here.
`pair_by_grid` does without the cubic: it is the least of a grid over the common mean,
polished by golden section around the two lowest local minima of the grid.
"""

from types import SimpleNamespace

import numpy as np

from tests.twin import families
from tests.twin.pending import Pending
from tests.twin.thresholds import heuristic

_NEAR = 10.0 ** -np.arange(1.0, 13.0, 0.5)
GRID = np.unique(np.concatenate([np.linspace(0, 1, 201), _NEAR, 1 - _NEAR]))
GOLDEN = (5**0.5 - 1) / 2


def half_log(mean, v, u):
    """log(1 + (m - u)^2/v)/2."""
    return np.log1p((mean - u) ** 2 / v) / 2


def _cost(f_a, v_a, f_b, v_b, gap, share):
    """The cost at u = m_b + share gap."""
    of_a, of_b = (np.log1p((gap * x) ** 2 / v) / 2 for x, v in ((1 - share, v_a), (share, v_b)))
    return f_a * of_a + f_b * of_b


def pair(f_a, a, v_a, f_b, b, v_b):
    """L of {mu_a <= mu_b}: 0 unless a > b, v_a > 0 and v_b > 0; arrays [Q]."""
    costs = (a > b) & (v_a > 0) & (v_b > 0)
    out = np.zeros(len(a))
    f_a, f_b, v_a, v_b, gap = (x[costs] for x in (f_a, f_b, v_a, v_b, a - b))
    if not gap.size:
        return out
    # f_a (s - 1)(s^2 + B) + f_b s ((s - 1)^2 + A) = 0 for the share s, A and B over gap^2
    A, B, total = v_a / gap**2, v_b / gap**2, f_a + f_b
    powers = [-(f_a + 2 * f_b), f_a * B + f_b * (1 + A), -f_a * B]  # of s^2, s, 1
    matrix = np.zeros((gap.size, 3, 3))
    matrix[:, 1, 0] = matrix[:, 2, 1] = 1
    matrix[:, 0] = -np.stack(powers, 1) / total[:, None]
    shares = np.clip(np.linalg.eigvals(matrix).real, 0, 1)
    given = [x[:, None] for x in (f_a, v_a, f_b, v_b, gap)]
    out[costs] = _cost(*given, shares).min(1)
    return out


def pair_by_grid(f_a, a, v_a, f_b, b, v_b):
    """The same without the cubic; a > b and positive variances."""

    def cost(share):
        return _cost(f_a, v_a, f_b, v_b, a - b, share)

    values = np.stack([cost(share) for share in GRID])
    padded = np.pad(values, [(1, 1)] + [(0, 0)] * a.ndim, constant_values=np.inf)
    low_there = (values <= padded[:-2]) & (values <= padded[2:])
    order = np.argsort(np.where(low_there, values, np.inf), axis=0)[:2]
    least = values.min(0)
    for at in order:
        low, high = GRID[np.maximum(at - 1, 0)], GRID[np.minimum(at + 1, GRID.size - 1)]
        for _ in range(60):
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            better = cost(left) < cost(right)
            low, high = np.where(better, low, left), np.where(better, right, high)
        least = np.minimum(least, cost((low + high) / 2))
    return least


def level(f, mean, v, line, above):
    """L of {mu <= line} if `above`, else of {mu >= line}; 0 where v = 0."""
    other = (mean > line if above else mean < line) and v > 0
    return f * half_log(mean, v, line) if other else 0.0


def bounds(means, variances, freedom, beta):
    """m -+ sqrt(v (exp(2 beta/f) - 1)); infinite where v = 0."""
    known = (variances > 0) & (freedom > 0)
    radius = np.full(means.shape, np.inf)
    wide = np.expm1(2 * beta / freedom[known])
    radius[known] = np.sqrt(variances[known] * wide)
    return means - radius, means + radius


class Problem(families.Problem):
    """The problem, with the costs of this page; `look` sets what they read."""

    def look(self, rewards, degrees, pulls=None):
        """Counts, means, variances and freedom of lists of rewards per arm.

        Counts and freedom are those of `pulls` [K] where some rewards are pending.
        """
        self.counts = np.array([len(x) for x in rewards])
        self.means = np.array([np.mean(x) for x in rewards])
        squares = [np.sum((np.array(x) - np.mean(x)) ** 2) for x in rewards]
        equal = np.array([len(set(x)) == 1 for x in rewards])
        self.variances = np.where(equal, 0.0, squares / self.counts)
        self.counts = self.counts if pulls is None else pulls
        self.freedom = self.counts - (1.0 if degrees == "free" else 0.0)

    def ratios(self, labels, counts, means):
        """L of the pieces: [Q]."""
        f, m, v = self.freedom, self.means, self.variances
        if self.kind == "osi":
            return np.array([level(f[k], m[k], v[k], self.level, s == 1) for k, s in labels])
        i, k = labels[:, 0], labels[:, 1]
        return pair(f[i], m[i], v[i], f[k], m[k], v[k])


def lucb(problem, beta, waiting, pulls):
    """The next arm, the answer to stop with or None, and the arm that waits or None."""
    if waiting is not None:
        return waiting, None, None
    answer = problem.answer(problem.means)
    labels = problem.pieces(answer)
    lower, upper = bounds(problem.means, problem.variances, problem.freedom, beta)
    first, second = labels[:, 0], labels[:, 1]
    if problem.kind == "osi":
        overlaps = np.where(second == 1, problem.level - lower[first], upper[first] - problem.level)
    else:
        overlaps = upper[second] - lower[first]
    largest = np.argmax(overlaps)
    stop = answer if overlaps[largest] <= 0 else None
    b, c = labels[largest]
    if problem.kind == "osi":
        return b, stop, None
    if pulls == 2:
        return b, stop, c
    return (b if problem.counts[b] < problem.counts[c] else c), stop, None


def run(
    mu, std, problem, rule, *, noise, delta=0.1, beta=heuristic, stopping=("llr",), pulls=1,
    max_samples=None, initial_pulls=2, degrees="free", batch=1, delay=0,
):  # fmt: skip
    """One trajectory, up to the last stop, the cap or the noise's end.

    Args:
      mu, std: means [K] and standard deviations, a number or [K].
      problem: ("bai",), ("topm", m) or ("osi", level).
      rule: "uniform" or "lucb"; the latter always applies its native test. Or an object
        with choose(problem, t, labels).
      noise: standard normals [T]; sample s has reward mu + std noise[s] of its arm.
      pulls: 1 or 2, for lucb.
      initial_pulls: rounds of all arms before the first check.
      degrees: "free" or "glr".
      batch, delay: of rewards that wait; see `tests.twin.pending`.

    Returns:
      As `tests.twin.families.run`.
    """
    mu = np.asarray(mu, float)
    K = len(mu)
    std = np.broadcast_to(np.asarray(std, float), K)
    cap = len(noise) if max_samples is None else min(max_samples, len(noise))
    problem = Problem(problem, K)
    kinds = {"llr": families.Llr, "selective": families.SETS[problem.kind],
             "full": families.SETS[problem.kind]}  # fmt: skip
    sets = {name: kinds[name](problem, name == "full") for name in stopping if name != "native"}
    tests, stops, arms, waiting = dict.fromkeys(stopping, 0), {}, [], None
    rewards, pulled = [[] for _ in range(K)], np.zeros(K, int)
    pending, first = Pending(initial_pulls * K, batch, delay), True

    def draw(k):
        reward = mu[k] + std[k] * noise[len(arms)]
        arms.append(int(k))
        pulled[k] += 1
        return reward

    def close(name, answer, stopped):
        stops[name] = SimpleNamespace(
            samples=len(arms), answer=answer.copy(), stopped=stopped, pulls=pulled.copy(),
            tests=tests[name],
        )  # fmt: skip

    for s in range(initial_pulls * K):
        rewards[s % K].append(draw(s % K))
    while True:
        t, group = len(arms), pending.entering(len(arms))
        for k, reward in group:
            rewards[k].append(reward)
        tests_now, first = bool(group) or first, False
        problem.look(rewards, degrees)
        entered = problem.counts.sum()
        for name, pieces in sets.items():
            if name not in stops and tests_now:
                answer, tested = pieces.update(problem.counts, problem.means, beta(entered, delta))
                tests[name] += tested
                if answer is not None:
                    close(name, answer, True)
        still = [name for name in stopping if name not in stops]
        if not still:
            break
        problem.look(rewards, degrees, pulled.copy())
        arm, native = t % K, None
        if not isinstance(rule, str):
            labels = problem.pieces(problem.answer(problem.means))
            arm = rule.choose(problem, t + 1, labels)
        elif rule == "lucb":
            arm, native, waiting = lucb(problem, beta(t + 1, delta), waiting, pulls)
        native = native if tests_now else None
        if native is not None or t == cap:
            for name in still:
                answer = problem.answer(problem.means) if native is None else native
                close(name, answer, native is not None)
            break
        pending.chosen(t + 1, arm, draw(arm))
    return SimpleNamespace(arms=np.array(arms), stops=stops)
