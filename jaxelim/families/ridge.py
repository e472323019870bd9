"""The ridge of a run with linear Gaussian rewards: checked, and warned of."""

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxelim import scope
from jaxelim.errors import ArgumentError, RidgeWarning, warn
from jaxelim.thresholds.basic import LinearThreshold
from jaxelim.thresholds.values import values

if TYPE_CHECKING:
    from jaxelim.instances.arms import Arms

_WORST_CONDITION = 1e10  # of V after the initial pulls, for ridge=None


def ridge_of(ridge: float | None, instance: "Arms", threshold: Any) -> float:
    """The ridge lambda of V as given; for None that of a `LinearThreshold`, else 0.

    Raises:
        ArgumentError: the ridge differs from the threshold's. Or the ridge is 0 and the
            arms do not span R^d. Or the ridge is None and V is ill-conditioned after
            the initial pulls.
    """
    if isinstance(threshold, LinearThreshold):
        if ridge is not None and ridge != threshold.ridge:
            allowed = f"None or {threshold.ridge}: the ridge of the threshold, {threshold!r}"
            raise ArgumentError("ridge", ridge, allowed)
        return threshold.ridge
    if ridge is not None and ridge > 0:
        return ridge
    arms = instance.arms.reshape(-1, instance.K, instance.d)
    for i, features in enumerate(arms if instance.batched else arms[:1]):
        rank = np.linalg.matrix_rank(features)
        if rank < instance.d:
            note = f"the arms of instance {i} span {rank} of {instance.d} dimensions"
            raise ArgumentError("ridge", ridge, "a number above 0, or arms that span R^d", note)
        singular = np.linalg.svd(features, compute_uv=False)
        condition = (singular[0] / singular[-1]) ** 2
        if ridge is None and condition > _WORST_CONDITION:
            note = f"V of instance {i} has condition {condition:.1e} after the initial pulls"
            allowed = f"a number: None needs a condition of at most {_WORST_CONDITION:.0e}"
            raise ArgumentError("ridge", ridge, allowed, note)
    return 0.0


def warn_of_ridge(ridge: float, instance: "Arms", threshold: Any, delta: float) -> None:
    """Warn where the bias of a ridge exceeds what the threshold allows for at t = K.

    Nobody knows where theta is not known.
    """
    if instance.truth is None:
        return
    theta = instance.truth.theta.reshape(-1, instance.d)
    norm = np.linalg.norm(theta, axis=1).max() / instance.noise_std
    if isinstance(threshold, LinearThreshold) and threshold.theta_bound >= norm:
        return
    with scope.engine():
        beta = float(values(threshold, np.array([float(instance.K)]), delta)[0])
    bias, room = ridge**0.5 * norm, (2 * beta) ** 0.5
    if bias > room:
        warn(
            f"ridge = {ridge:g} may make answers wrong: sqrt(ridge) ||theta||/noise_std = "
            f"{bias:.3g} exceeds sqrt(2 beta(K, delta)) = {room:.3g}, so the threshold does not "
            "cover its bias. Take ridge=None (0 where the arms span R^d), or a LinearThreshold "
            f"with theta_bound >= {norm:.3g}.",
            RidgeWarning,
        )
