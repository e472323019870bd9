"""The values of H_p at one allocation, with two derivatives; of one run.

H_p is concave and homogeneous of degree one: H_p(w) = sum_k w_k dH_p/dw_k. Off live pieces it is
finite. `curvature(q, pull)`, of arguments [Q] that are not negative, is the positive
semi-definite matrix -sum_p q_p d2H_p/dw2 + sum_p pull_p dH_p/dw dH_p/dw': [K, K].
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxelim.matrices import product


class Bent(NamedTuple):
    """Where each second derivative is minus a product B B': of rank one for independent arms."""

    value: Array  # [Q]
    gradient: Array  # [K, Q]
    bend: Array  # [K, Q], or [K, Q, r]: B of each piece

    def curvature(self, mixture: Array, pull: Array | None = None) -> Array:
        bend = self.bend
        scaled = bend * mixture.reshape((1, -1) + (1,) * (bend.ndim - 2))
        inner = product(scaled.reshape(len(bend), -1), bend.reshape(len(bend), -1).T)
        if pull is None:
            return inner
        return inner + product(self.gradient * pull[None, :], self.gradient.T)

    def by(self, costs: Array | None) -> "Bent":
        """The same by weights in units of `costs` [K]; None: as it is."""
        if costs is None:
            return self
        of_bend = costs.reshape((-1,) + (1,) * (self.bend.ndim - 1))
        return Bent(self.value, self.gradient / costs[:, None], self.bend / of_bend)

    def over(self, unit: Array) -> "Bent":
        """The same of H_p over a unit []."""
        return Bent(self.value / unit, self.gradient / unit, self.bend * jnp.sqrt(1 / unit))


class Crossed(NamedTuple):
    """Linear features: cross_kp = phi_k' V_w^-1 y_p."""

    value: Array  # [Q]
    gradient: Array  # [K, Q]
    cross: Array  # [K, Q]
    gram: Array  # [K, K] phi_j' V_w^-1 phi_k
    push: Array  # [Q] (g_p/n_p)^2, n_p = ||y_p||^2 in V_w^-1

    def over(self, unit: Array) -> "Crossed":
        """The same of H_p over a unit []."""
        value, gradient = self.value / unit, self.gradient / unit
        return self._replace(value=value, gradient=gradient, push=self.push / unit)

    def curvature(self, mixture: Array, pull: Array | None = None) -> Array:
        h = jnp.where(self.value > 0, 2 * mixture / jnp.where(self.value > 0, self.value, 1), 0)
        inner = product(self.cross * (mixture * self.push)[None, :], self.cross.T)
        return inner * self.gram + product(
            self.gradient * (-h if pull is None else pull - h)[None, :], self.gradient.T
        )


Derivatives = Bent | Crossed
