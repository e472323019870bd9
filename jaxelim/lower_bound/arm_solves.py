"""Solves and values of H_p for instances with independent arms, on the host in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxelim import scope
from jaxelim.contracts import Family
from jaxelim.families import GaussianUnknownVariance, OneParameter
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.arms import ArmModel, costless, costs_of, general, kind_of, solve_arms
from jaxelim.lower_bound.pieces import Pieces, has_slack
from jaxelim.lower_bound.solver import Solution
from jaxelim.lower_bound.students import StudentModel, cutting_planes, solve_students

_LANES_CPU, _LANES_OTHER = 8, 256


def model_of(instance: Instance, pieces: Pieces) -> tuple[np.ndarray, ...]:
    """Means [I, K], costs or variances [I, K], directions [I, P, K] and offsets [I, P]."""
    means, family = instance.means.reshape(-1, instance.K), instance.family
    if isinstance(family, GaussianUnknownVariance):
        scales = np.broadcast_to(np.square(family.std), means.shape)
    else:
        assert isinstance(family, OneParameter)
        with scope.float64():
            costs = [costs_of(family, jnp.asarray(row)) for row in means]
        scales = np.stack(jax.device_get(costs))
    return means, scales, pieces.directions, pieces.offsets


def static(instance: Instance) -> Family:
    """The family without costs and variances, which programs take as arrays."""
    family = instance.family
    if isinstance(family, OneParameter):
        return costless(family)
    return GaussianUnknownVariance()


@functools.partial(jax.jit, static_argnames=("family", "kind", "max_iterations"))
def _solve_lanes(
    family, kind, means, scales, directions, offsets, valid, bonus, gap, max_iterations
) -> Solution:
    def one(means, scales, directions, offsets, valid, bonus):
        if isinstance(family, GaussianUnknownVariance):
            model = StudentModel(means, scales, directions, offsets)
            return solve_students(model, valid, bonus, gap, max_iterations)
        model = ArmModel(family, means, scales, directions, offsets, kind)
        return solve_arms(model, kind, valid, bonus, gap, max_iterations)

    return jax.vmap(one)(means, scales, directions, offsets, valid, bonus)


def solve_many_arms(
    instance: Instance, pieces: Pieces, bonus=None, gap=1e-6, max_iterations: int = 100
) -> Solution:
    """`solve_arms` for I instances, in calls of one compiled shape; float64 NumPy.

    Args:
        instance: one instance or a batch.
        pieces: of I instances.
        bonus: [I, K] or None.
        gap: relative duality gap.
        max_iterations: bound on the interior-point steps of each solve.
    """
    given = model_of(instance, pieces)
    size, K = given[0].shape
    kinds = {kind_of(y[valid]) for y, valid in zip(pieces.directions, pieces.valid, strict=True)}
    kind = kinds.pop() if len(kinds) == 1 else "any"
    kind = "slack" if has_slack(pieces) else kind
    kind = kind if bonus is None else general(kind)
    lanes = 1 if size == 1 else _LANES_CPU if jax.default_backend() == "cpu" else _LANES_OTHER
    bonus = np.zeros((size, K)) if bonus is None else bonus
    given, parts = (*given, pieces.valid, bonus), []
    family = static(instance)
    with scope.float64():
        for start in range(0, size, lanes):
            index = np.minimum(np.arange(start, start + lanes), size - 1)
            arrays = [jnp.asarray(array[index]) for array in given]
            parts.append(_solve_lanes(family, kind, *arrays, jnp.float64(gap), max_iterations))
        parts = jax.device_get(parts)
    fields = [
        np.concatenate([np.asarray(x) for x in field])[:size] for field in zip(*parts, strict=True)
    ]
    found = Solution(*fields)
    if isinstance(family, GaussianUnknownVariance):
        for i in np.flatnonzero(~found.converged & (found.value > 0)):
            _finish(found, int(i), [x[i] for x in given], gap)
    return found


@jax.jit
def _cuts(means, variances, directions, offsets, valid, weights):
    model = StudentModel(means, variances, directions, offsets)
    gaps = (jnp.tile(valid, 2) & (model.margins > 0)).astype(means.dtype)
    info = model.information(weights, gaps)
    return info.value, info.gradient


def _finish(found: Solution, i: int, given: list[np.ndarray], gap: float) -> None:
    """Solve instance i of a batch by cutting planes, in place."""
    valid, bonus, start = np.tile(given[4], 2), given[5], np.asarray(found.allocation[i])

    def cuts(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = jax.device_get(_cuts(*arrays, jnp.asarray(weights)))
        return values[valid], slopes.T[valid] + bonus

    with scope.float64():
        arrays = [jnp.asarray(x) for x in given[:5]]
        weights, mixture, value, reached = cutting_planes(cuts, bonus, start, gap)
    if reached < found.gap[i]:
        whole = np.zeros(valid.size)
        whole[valid] = mixture
        found.allocation[i], found.value[i], found.gap[i] = weights, value, reached
        found.mixture[i] = whole.reshape(2, -1).sum(0)
        found.converged[i] = reached <= gap


@functools.partial(jax.jit, static_argnames=("family", "kind"))
def _information_lanes(family, kind, means, scales, directions, offsets, gaps, weights):
    if isinstance(family, GaussianUnknownVariance):
        model = StudentModel(means, scales, directions, offsets)
        both = jnp.tile(gaps, 2)
        values = jax.vmap(lambda w: model.information(w, both).value)(weights)
        return jnp.minimum(*jnp.split(values, 2, axis=1))
    model = ArmModel(family, means, scales, directions, offsets, kind)
    return jax.vmap(lambda w: model.information(w, gaps).value)(weights)


def arm_information(instance: Instance, pieces: Pieces, weights: np.ndarray) -> np.ndarray:
    """H_p(w), inf on padding, float64 NumPy: [I, n, P].

    Args:
        instance: one instance or a batch.
        pieces: of I instances.
        weights: [I, n, K], not negative, of any sum.
    """
    given = model_of(instance, pieces)
    kind, out = "slack" if has_slack(pieces) else "any", []
    with scope.float64():
        for i, w in enumerate(weights):
            means, scales, directions, offsets = (x[i] for x in given)
            margin = directions @ means - offsets
            gaps = (pieces.valid[i] & (margin > 0)).astype(np.float64)
            arrays = map(jnp.asarray, (means, scales, directions, offsets, gaps, w))
            out.append(jax.device_get(_information_lanes(static(instance), kind, *arrays)))
    return np.where(pieces.valid[:, None], np.stack(out), np.inf)
