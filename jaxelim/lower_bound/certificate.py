"""Bounds on H_p and on H* that hold whatever the rounding; on the host, in float64.

For a vector v and weights w, with rho = u - V_w v and V_w near the identity,

    u' V_w^-1 u = 2 u'v - v'V_w v + rho' V_w^-1 rho,

so an error of v enters squared. This bounds H_p(w), and min_p H_p(w) <= H*. For any
mixture q and any vectors D_p,

    H* <= max_k sum_p q_p g_p^2 (phi_k . D_p)^2 / (2 (y_p . D_p)^2),

since theta - D_p g_p/(y_p . D_p) is on the boundary of piece p. That needs no inverse.
All products carry bounds of their rounding. (Higham 2002, section 3.1)
"""

from typing import NamedTuple

import numpy as np

from jaxelim.lower_bound.exact import EPS, ExactInstance, reached
from jaxelim.lower_bound.pieces import Pieces

_MOST_NUMBERS = 2**21  # of an array, in one part of a batch


class Space(NamedTuple):
    """I instances in coordinates with V_w near the identity, and bounds of their errors."""

    arms: np.ndarray  # [I, K, r]
    arms_error: np.ndarray
    directions: np.ndarray  # [I, P, r]
    directions_error: np.ndarray
    design: np.ndarray  # [I, r, r] V_w
    design_error: np.ndarray
    gaps: np.ndarray  # [I, P] y . theta - c; 0 on padding
    gaps_error: np.ndarray
    whole: np.ndarray  # [I] bool: all directions that the features reach have coordinates


class Bounds(NamedTuple):
    """Bounds of I instances."""

    low: np.ndarray  # [I, P] below H_p(w); inf on padding, 0 where nothing is known
    high: np.ndarray  # [I, P] above it
    lower: np.ndarray  # [I] below max_w min_p H_p(w) + c . w, over the simplex
    upper: np.ndarray  # [I] above it; inf where nothing is known

    @property
    def information(self) -> np.ndarray:
        """The middle of the bounds of H_p(w): [I, P]."""
        known = np.isfinite(self.high) & np.isfinite(self.low)
        return np.where(known, self.low + (np.where(known, self.high, 0) - self.low) / 2, self.low)


def rounded_space(
    arms: np.ndarray, theta: np.ndarray, pieces: Pieces, weights: np.ndarray
) -> Space:
    """The coordinates of float64 products, for I instances and weights [I, K].

    A direction may be a rounded difference of two arms.
    """
    K, d = arms.shape[1:]
    y, valid = pieces.directions, pieces.valid
    size, magnitude = y @ theta[..., None], np.abs(y) @ np.abs(theta)[..., None]
    gaps = np.where(valid, size[..., 0] - pieces.offsets, 0)
    gaps_error = (d + 3) * EPS * (magnitude[..., 0] + np.abs(pieces.offsets))
    _, s, vt = np.linalg.svd(np.sqrt(weights)[..., None] * arms, full_matrices=False)
    kept = s > max(K, d) * EPS * s[:, :1]
    whole = np.array([row.all() or _all(x, row.sum()) for x, row in zip(arms, kept, strict=True)])
    move = np.swapaxes(vt, 1, 2) * (kept / np.where(kept, s, 1))[:, None]
    abs_move = np.abs(move)
    phi, phi_error = arms @ move, d * EPS * (np.abs(arms) @ abs_move)
    u, u_error = y @ move, (d + 2) * EPS * (np.abs(y) @ abs_move)
    weighted = np.swapaxes(phi * weights[..., None], 1, 2)
    spread = np.abs(weighted) @ (2 * phi_error + (K + 3) * EPS * np.abs(phi))
    square = np.swapaxes(phi_error * weights[..., None], 1, 2) @ phi_error
    error = (spread + np.swapaxes(spread, 1, 2)) / 2 + square
    design = weighted @ phi + np.eye(s.shape[1]) * ~kept[:, None]
    return Space(phi, phi_error, u, u_error, design, error, gaps, gaps_error, whole)


def _all(arms: np.ndarray, count: int) -> bool:
    """Whether so many coordinates are all that features [K, d] reach."""
    map = reached(arms)
    return map is not None and map.shape[1] == count


def exact_space(instance: ExactInstance, weights: np.ndarray) -> Space:
    """The coordinates of an exact instance, for weights [K] above 0; with a leading axis 1."""
    at = instance.whitened(weights)
    rounded = (at.arms.rounded(), at.directions.rounded(), at.gram(weights).rounded(), at.margins)
    phi, y, design, gaps = (x[None] for x in rounded)
    phi_error, y_error, design_error, gaps_error = (EPS * np.abs(x) for x in (phi, y, design, gaps))
    return Space(
        phi, phi_error, y, y_error, design, design_error, gaps, gaps_error, np.ones(1, bool)
    )


def bounds(
    space: Space, valid: np.ndarray, weights: np.ndarray, mixture=None, bonus=None,
    noise_std: float = 1.0, costs=None,
) -> Bounds:  # fmt: skip
    """Bound H_p(w) and H* from a pair (w, q).

    Args:
        space: the coordinates of I instances, for these weights.
        valid: [I, P] bool.
        weights: [I, K], not negative, above 0 in all.
        mixture: [I, P], not negative, or None: no upper bound.
        bonus: [I, K] c, or None.
        noise_std: standard deviation of the noise.
        costs: [I, K] of pulls, or None: all are 1. Weights are numbers of pulls, and H* is
            over those with sum_k c_k w_k = 1.
    """
    size, K = weights.shape
    step = max(_MOST_NUMBERS // max(K * valid.shape[1], 1), 1)
    some = {"mixture": mixture, "bonus": bonus, "costs": costs}
    parts = []
    for start in range(0, size, step):
        part = slice(start, start + step)
        more = {name: None if x is None else x[part] for name, x in some.items()}
        own = Space(*(x[part] for x in space))
        with np.errstate(all="ignore"):
            parts.append(_bounds(own, valid[part], weights[part], noise_std=noise_std, **more))
    return Bounds(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _bounds(space: Space, valid, weights, mixture, bonus, noise_std, costs) -> Bounds:
    phi, phi_error, u, u_error, design, design_error, gaps, gaps_error, whole = space
    r, K = design.shape[-1], weights.shape[1]
    gaps, gaps_error = gaps / noise_std, gaps_error / noise_std + EPS * np.abs(gaps / noise_std)
    away = np.linalg.norm(design - np.eye(r), axis=(1, 2))
    away = (away + np.linalg.norm(design_error, axis=(1, 2))) * (1 + r * r * EPS)
    known = whole & (away < 0.5)
    design = np.where(known[:, None, None], design, np.eye(r))
    v = u @ np.linalg.inv(design)
    abs_v = np.abs(v)
    error = design_error + (2 * r + 4) * EPS * np.abs(design)
    image, slack = v @ design, abs_v @ error
    along = np.sum(u * v, -1)
    along_error = np.sum((u_error + (r + 2) * EPS * np.abs(u)) * abs_v, -1)
    left = np.abs(u - image) + u_error + slack + EPS * np.abs(u)
    rest = np.sum(left**2, -1) / (1 - away[:, None]) * (1 + (r + 9) * EPS)
    norm = 2 * along - np.sum(v * image, -1)
    norm_error = 2 * along_error + np.sum(slack * abs_v, -1) + 4 * EPS * np.abs(along)
    top, bottom = gaps + gaps_error, np.maximum(gaps - gaps_error, 0)
    least, most = norm - norm_error, norm + norm_error + rest
    inside = valid & known[:, None]
    low = np.where(inside, bottom**2 / (2 * most) * (1 - 8 * EPS), np.where(valid, 0, np.inf))
    high = np.where(inside & (least > 0), top**2 / (2 * least) * (1 + 8 * EPS), np.inf)
    spent = weights if costs is None else costs * weights
    total, cost = spent.sum(1), 0.0 if bonus is None else np.sum(bonus * weights, 1)
    lower = (low.min(1) + cost * (1 - K * EPS)) / total * (1 - (K + 2 + (costs is not None)) * EPS)
    if mixture is None:
        return Bounds(low, high, lower, np.full(len(lower), np.inf))
    cross = np.abs(v @ np.swapaxes(phi, 1, 2))  # [I, P, K]
    cross += abs_v @ np.swapaxes(phi_error + (r + 1) * EPS * np.abs(phi), 1, 2)
    sure = inside & (along > along_error)
    q = np.where(sure, mixture, 0)
    share = q * (top / np.where(sure, along - along_error, 1)) ** 2 / 2
    slope = np.sum(share[..., None] * cross**2, 1) / q.sum(1)[:, None]
    slope = slope * (1 + (2 * valid.shape[1] + 16) * EPS)
    if costs is not None:
        slope = slope / costs * (1 + EPS)
    upper = np.max(slope + (0 if bonus is None else bonus), 1) * (1 + EPS)
    upper = np.where(np.isfinite(upper), upper, np.inf)
    return Bounds(low, high, np.where(np.isfinite(lower), lower, 0), upper)
