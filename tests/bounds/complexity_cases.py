"""A problem of half-spaces, and an independent NumPy computation of H_p."""

import jax.numpy as jnp
import numpy as np

import jaxelim as je


def box(d, half_width=1.0):
    """Whether theta is inside a box of R^d; directions do not depend on features."""
    directions = np.concatenate([-np.eye(d), np.eye(d)])
    inside = jnp.zeros((), jnp.int32)
    offsets = np.full((1, 2 * d), -half_width)
    return je.HalfSpaces(lambda theta: inside, directions[None], offsets)


def half_spaces(problem, arms, theta):
    """y [P, d] and c [P] of {y . lambda <= c}, by the definitions, in the order of the pieces."""
    means = arms @ theta
    if isinstance(problem, je.Thresholding):
        signs = np.where(means > problem.level, 1.0, -1.0)
        return signs[:, None] * arms, signs * problem.level
    order = np.argsort(-means, kind="stable")
    m = getattr(problem, "m", 1)
    y = [arms[i] - arms[k] for i in order[:m] for k in np.sort(order[m:])]
    return np.array(y), np.zeros(len(y))


def information(weights, arms, theta, directions, offsets):
    """H_p(w) and dH_p/dw_k, by the formulas and a plain inverse."""
    inverse = np.linalg.inv(arms.T @ (weights[:, None] * arms))
    gaps = np.maximum(directions @ theta - offsets, 0)
    norm = np.einsum("pd,de,pe->p", directions, inverse, directions)
    closest = theta - (gaps / norm)[:, None] * (directions @ inverse)
    return gaps**2 / (2 * norm), ((theta - closest) @ arms.T) ** 2 / 2
