"""How far a run was from optimal: its information regret and its efficiency."""

from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.errors import ArgumentError, UnsupportedError
from jaxelim.instances.instance import Instance
from jaxelim.lower_bound.bounds import samples_at
from jaxelim.lower_bound.optimum import complexity, informations
from jaxelim.lower_bound.pieces import refuse_slack


class InformationRegret:
    """R(t) = t H* - min_p H_p(N_t, theta) of one run, at some times.

    A call with t gives an R for `elimination_bounds`: the largest regret up to t, at
    least 0. A t between two of the times is rounded up to the next. Past the last time
    R is constant.
    """

    def __init__(self, times: np.ndarray, regret: np.ndarray, value: float):
        self.times = times  # [n] int64, samples
        self.regret = regret  # [n] float64
        self.value = value  # H*
        self._bound = np.maximum.accumulate(np.maximum(regret, 0))

    def __call__(self, t: float) -> float:
        index = min(np.searchsorted(self.times, t), len(self.times) - 1)
        return float(self._bound[index])

    def __repr__(self) -> str:
        return f"<InformationRegret: {self.regret[-1]:.4g} after {self.times[-1]} samples>"


def information_regret(
    trace: Any, instance: Instance, problem: Any, times=None
) -> InformationRegret:
    """Compute the information regret R(t) = t H* - min_p H_p(N_t, theta) of one run.

    Args:
        trace: the arms pulled, int [T], in order; or an object that has
            them as `.arms`.
        instance: the instance of the run.
        problem: what the run identified.
        times: int [n], increasing, from 1 to T, in samples; None: at most 200 times,
            evenly spaced on a logarithmic scale.

    Raises:
        ArgumentError: arms that are not indices of the instance's arms, or times
            outside 1..T; and as `complexity`.
        UnsupportedError: a batch, slack, or costs, as R counts samples.

    Reference: Tirinzoni & Degenne (2022), assumption on sampling rules, equation of low
        information regret. R is small for the sampling rules that its theorem on
        elimination times covers.
    """
    _refuse_batch(instance)
    refuse_slack(problem)
    if isinstance(instance, Instance) and instance.costs is not None:
        allowed = "an instance without costs: R(t) counts samples"
        raise UnsupportedError("instance", instance, allowed)
    optimum = complexity(instance, problem, 1e-10)
    arms = np.asarray(getattr(trace, "arms", trace))
    if arms.ndim != 1 or arms.size == 0 or arms.dtype.kind not in "iu":
        raise ArgumentError("trace", trace, "the arms pulled: integers [T], T >= 1, or a trace")
    if arms.min() < 0 or arms.max() >= instance.K:
        raise ArgumentError("trace", trace, f"arms from 0 to {instance.K - 1}")
    if times is None:
        times = np.unique(np.geomspace(1, arms.size, 200).astype(np.int64))
    times = np.asarray(times)
    if (
        times.ndim != 1
        or times.size == 0
        or times.dtype.kind not in "iu"
        or (np.diff(times) <= 0).any()
    ):
        raise ArgumentError("times", times, "increasing integers [n]")
    if times[0] < 1 or times[-1] > arms.size:
        raise ArgumentError("times", times, f"times from 1 to {arms.size}")
    counts = np.zeros((len(times), instance.K))
    steps = np.searchsorted(times, np.arange(1, times[-1] + 1))
    np.add.at(counts, (steps, arms[: times[-1]]), 1)
    counts = np.cumsum(counts, axis=0)
    gathered = np.min(informations(instance, problem, optimum.pieces, counts[None])[0], axis=-1)
    value = float(optimum.value)
    return InformationRegret(times, times * value - gathered, value)


def _refuse_batch(instance) -> None:
    if isinstance(instance, Instance) and instance.batched:
        raise UnsupportedError("instance", instance, "one instance, not a batch")


def efficiency(samples, pulls, delta, value, allocation) -> tuple[np.ndarray, np.ndarray]:
    """Compare stopping times with the lower bound, and pulls with the optimal allocation.

    Args:
        samples: [...] stopping times.
        pulls: [..., K] pulls at the stop.
        delta: error probabilities, broadcast against samples.
        value: H*, broadcast against samples.
        allocation: [K] w*, broadcast against pulls.

    Returns:
        samples over log(1/(2.4 delta))/H*, [...]: 1 is the bound. And the total
        variation distance between pulls/samples and w*, [...] in [0, 1]: half the sum
        of their absolute differences.

    Raises:
        ArgumentError: samples below 1, or a shape of pulls that does not fit.
    """
    samples = checks.real_array("samples", samples)
    pulls = checks.real_array("pulls", pulls)
    if (samples < 1).any():
        raise ArgumentError("samples", samples, "stopping times >= 1")
    if pulls.shape[:-1] != samples.shape:
        raise ArgumentError(
            "pulls",
            pulls,
            f"shape {samples.shape} and an axis of arms",
            f"its shape is {pulls.shape}",
        )
    distance = np.sum(np.abs(pulls / samples[..., None] - allocation), axis=-1) / 2
    return samples / samples_at(delta, value), distance
