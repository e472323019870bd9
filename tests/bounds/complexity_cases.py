"""A user-defined problem, and an independent NumPy computation of H_p."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Box:
    """Whether theta is inside a box of R^d; directions do not depend on features."""

    half_width: float = 1.0

    def half_spaces(self, arms, theta):
        eye = np.eye(arms.shape[1])
        return np.concatenate([-eye, eye]), np.full(2 * len(eye), -self.half_width)


def information(weights, arms, theta, directions, offsets):
    """H_p(w) and dH_p/dw_k, by the formulas and a plain inverse."""
    inverse = np.linalg.inv(arms.T @ (weights[:, None] * arms))
    gaps = np.maximum(directions @ theta - offsets, 0)
    norm = np.einsum("pd,de,pe->p", directions, inverse, directions)
    closest = theta - (gaps / norm)[:, None] * (directions @ inverse)
    return gaps**2 / (2 * norm), ((theta - closest) @ arms.T) ** 2 / 2
