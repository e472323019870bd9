"""The instance that a call's runs are computed on."""

from typing import TYPE_CHECKING

import numpy as np

from jaxelim.contracts.traits import KNOWN_STOPPING
from jaxelim.instances.arms import Arms
from jaxelim.numerics.jacobi import least_squares
from jaxelim.thresholds.mixture import Mixture

if TYPE_CHECKING:
    from jaxelim.simulation.experiment import Experiment


def computed(call: "Experiment") -> Arms:
    """The instance of a call in the coordinates of its computation.

    Without a ridge, d linearly independent arms are the basis of other coordinates, of
    which some may be there several times. In those coordinates theta is their means, V is
    diagonal, and choices that tie on paper tie to the last digit. They are taken where
    nothing reads coordinates: the rule, the problem and every stopping rule. A mixture
    keeps the given ones: it has another test for unstructured instances.
    """
    instance = call.instance
    linear = instance.structure == "linear" and instance.family.design and call.ridge == 0
    free = call.rule.traits.basis_free and not call.problem.uses_theta
    free = free and not isinstance(call.threshold, Mixture)
    if not (linear and free and all(rule.name in KNOWN_STOPPING for rule in call.stopping)):
        return instance
    truth, arms = instance.truth, np.array(instance.arms)
    theta = None if truth is None else np.array(truth.theta)
    for i in np.ndindex(arms.shape[:-2]):
        kinds, kind = _kinds(arms[i])
        if len(kinds) == instance.d:  # they span R^d: see `Gaussian.ridge_of`
            arms[i] = np.eye(instance.d)[kind]
            if truth is not None and theta is not None:
                theta[i] = truth.means[i][kinds]
    if np.array_equal(arms, instance.arms):
        return instance
    if truth is None:
        return Arms(arms, instance.family, instance.names, costs=instance.costs)
    return truth.replace(arms=arms, theta=theta)


def in_the_given_coordinates(call: "Experiment", theta_hat: np.ndarray) -> np.ndarray:
    """An estimate [d] of theta in the coordinates of the call's instance, not a batch."""
    if call.computed is call.instance:
        return theta_hat
    arms = call.instance.arms
    return least_squares(arms[_kinds(arms)[0]], theta_hat)


def _kinds(arms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each set of equal arms, in order; and the place among them of each arm."""
    _, first, kind = np.unique(arms, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[kind.reshape(-1)]
