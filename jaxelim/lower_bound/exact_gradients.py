"""Derivatives of H* and w* where features are badly conditioned, on the host.

With x_p = V_w^-1 y_p, n_p = y_p . x_p, margin g_p, and y_p = sum_k A_pk phi_k,

    dH*/dtheta = sum_p q_p (g_p/n_p) y_p,
    dH*/dphi_k = sum_p q_p ((g_p/n_p) A_pk theta
                            - (g_p/n_p)^2 (A_pk - w_k phi_k . x_p) x_p).

Where features are nearly collinear x_p is large and A_pk - w_k phi_k . x_p is small; it is
0 for independent arms. So that difference is computed to twice the digits of float64.
"""

from typing import Any

import numpy as np

from jaxelim.lower_bound.certificate import bounds, exact_space
from jaxelim.lower_bound.certified import rounded_instance
from jaxelim.lower_bound.exact import EPS, ExactInstance, Integers

_LOST = 1e-6  # relative error of derivatives of w* that counts as lost
_ROUNDED = 1e3 * EPS  # of the derivatives in coordinates where features are well conditioned


def in_coordinates(
    exact: ExactInstance, arms: np.ndarray, theta: np.ndarray, most: int, noise_std: float
) -> tuple[np.ndarray, ...]:
    """Arms [K, d], theta [d], directions [P, d] and offsets [P] of unit noise, rounded.

    Args:
        exact: the instance, in coordinates where its features are well conditioned.
        arms: [K, d] features.
        theta: [d], in the units of the noise.
        most: number of pieces, with padding.
        noise_std: standard deviation of the noise.
    """
    phi, _, pieces = rounded_instance(exact, arms.shape[1], most, noise_std)
    inner = _back(exact, arms) @ theta
    point = np.pad(inner, (0, phi.shape[1] - len(inner)))
    y = pieces.directions
    return phi, point, y, y @ point + pieces.offsets


def _back(exact: ExactInstance, arms: np.ndarray) -> np.ndarray:
    """The map [r, d] of theta to the coordinates: features . theta stay."""
    phi = exact.arms.rounded()
    return np.linalg.solve(phi.T @ phi, phi.T @ arms)


def moved_back(
    part: dict[str, Any], exact: ExactInstance, arms: np.ndarray, theta: np.ndarray,
    directions: np.ndarray, moves: np.ndarray, bonus: np.ndarray, noise_std: float,
) -> dict[str, Any]:  # fmt: skip
    """The derivatives of one instance, by theta and features instead of their coordinates.

    Args:
        part: derivatives in coordinates, and the pair (w, q) that they are taken at.
        exact: the instance in these coordinates.
        arms: [K, d] features.
        theta: [d], in the units of the noise.
        directions: [P, d].
        moves: [P, K] directions as combinations of arms; 0 where they do not move.
        bonus: [K] c.
        noise_std: standard deviation of the noise.
    """
    count = len(exact.margins)
    w, q = np.asarray(part["allocation"]), np.asarray(part["mixture"])[:count]
    at, valid = exact.whitened(w), np.ones((1, count), bool)
    sure = bounds(exact_space(at, w), valid, w[None], q[None], bonus[None], noise_std)
    active = np.flatnonzero(q > EPS * q.max())
    slope = 2 * sure.information[0][active] / (exact.margins[active] / noise_std)  # g_p/n_p
    images, shares = at.images(w, active)
    images = images @ at.map.rounded().T
    rows, q = moves[active], q[active]
    by_gap, by_norm = q * slope, q * slope**2
    left = (Integers.of(rows) - shares).rounded()
    moved = np.einsum("p,pk,d->kd", by_gap, rows, theta)
    moved = moved - np.einsum("p,pk,pd->kd", by_norm, left, images)
    gradients = dict(
        part, value=sure.lower[0], gap=sure.upper[0] / sure.lower[0] - 1 + 4 * EPS,
        value_theta=by_gap @ directions[:count][active], value_arms=moved,
    )  # fmt: skip
    if "allocation_theta" in part:
        map, back = exact.map.rounded(), _back(exact, arms)
        inner = np.asarray(part["allocation_arms"])[..., : len(back)]
        gradients["allocation_theta"] = np.asarray(part["allocation_theta"])[:, : len(back)] @ back
        gradients["allocation_arms"] = inner @ map.T
        # Of the change of weights with the relative change of a feature.
        change = np.abs(gradients["allocation_arms"]).max() * np.abs(arms).max()
        error = _ROUNDED * max(np.abs(inner).max(), 1) * np.abs(map).max() * np.abs(arms).max()
        if not error <= _LOST * max(change, 1):
            gradients["condition"] = np.inf
    return gradients
