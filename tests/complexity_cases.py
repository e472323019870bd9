"""Problems and instances that the tests of the complexity package share, and an independent NumPy reading of H_p."""

from dataclasses import dataclass

import numpy as np

from jaxelim.instance import Instance


@dataclass(frozen=True)
class Best:
    """The set of the m largest means, told by its half-spaces alone."""

    m: int = 1

    def half_spaces(self, arms, theta):
        order = np.argsort(-(arms @ theta), kind="stable")
        top, rest = np.sort(order[: self.m]), np.sort(order[self.m :])
        directions = (arms[top][:, None] - arms[rest][None]).reshape(-1, arms.shape[1])
        return directions, np.zeros(len(directions))


@dataclass(frozen=True)
class Signs:
    """On which side of the level every mean is."""

    level: float = 0.0

    def half_spaces(self, arms, theta):
        signs = np.where(arms @ theta >= self.level, 1.0, -1.0)
        return signs[:, None] * arms, signs * self.level


@dataclass(frozen=True)
class Box:
    """A user's own: is theta inside a box of R^d? Its directions do not move with the features."""

    half_width: float = 1.0

    def half_spaces(self, arms, theta):
        eye = np.eye(arms.shape[1])
        return np.concatenate([-eye, eye]), np.full(2 * len(eye), -self.half_width)


def two_dimensional(K, eps, seed=0):
    angle = np.random.default_rng(seed).uniform(np.pi + 0.05, 1.5 * np.pi - 0.05, K - 2)
    arms = np.concatenate([np.eye(2), np.stack([np.cos(angle), np.sin(angle)], 1)])
    return Instance(arms, [1.0, 1.0 - eps])


def information(weights, arms, theta, directions, offsets):
    """H_p(w) and dH_p/dw_k, by the formulas and a plain inverse."""
    inverse = np.linalg.inv(arms.T @ (weights[:, None] * arms))
    gaps = np.maximum(directions @ theta - offsets, 0)
    norm = np.einsum("pd,de,pe->p", directions, inverse, directions)
    closest = theta - (gaps / norm)[:, None] * (directions @ inverse)
    return gaps**2 / (2 * norm), ((theta - closest) @ arms.T) ** 2 / 2
