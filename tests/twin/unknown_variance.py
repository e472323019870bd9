"""Costs of pieces with unknown variances, arrays of pairs: the cubic, and without it.

m_k = mean and v_k = sum (x - m_k)^2/N_k of all rewards of arm k. The cost of a pair is the
least over the roots of its cubic, which are eigenvalues here. `pair_by_grid` is the least of a
grid over the common mean, polished by golden section around its two lowest local minima.
"""

import numpy as np

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
