"""The trace of one run."""

import dataclasses
from typing import Any

import numpy as np

from jaxelim.simulation.experiment import in_the_given_coordinates


@dataclasses.dataclass(frozen=True, repr=False)
class Trace:
    """One run, step by step.

    Attributes:
        arms: int32 [samples], every pull in order, the initial ones first.
        rewards: float64 [samples], in the units of the instance.
        active: int32 [checks], what is left at each check, of which the first follows
            the initial pulls. Best arm and thresholding: active arms, or items. Top m:
            ordered pairs known worse. Half-spaces: active pieces. LLR stopping eliminates
            nothing.
        samples: int, samples drawn.
        stopped: bool, whether the stopping rule ended the run.
        answer: bool [K]; [P] of items.
        pulls: int32 [K].
        elimination_times: int32, as in `Result`; None where nothing was recorded.
        theta_hat_0: float64 [d], the estimate after the initial pulls.
    """

    arms: np.ndarray
    rewards: np.ndarray
    active: np.ndarray
    samples: int
    stopped: bool
    answer: np.ndarray
    pulls: np.ndarray
    elimination_times: np.ndarray | None
    theta_hat_0: np.ndarray

    @property
    def truncated(self) -> bool:
        """Whether the run was truncated."""
        return not self.stopped

    @staticmethod
    def of(call: Any, carry: Any) -> "Trace":
        """Build it from a call and the last `Carry` of its run."""
        raw, log, family = carry.out, carry.log, call.instance.family
        k = call.initial_pulls * call.instance.K
        samples = int(raw.samples[0, 0, 0])
        arms = np.concatenate([np.arange(k, dtype=np.int32) % call.instance.K, log.arm[k:samples]])
        rewards = np.concatenate([log.first_rewards, log.reward[k:samples]])
        return Trace(
            arms=arms,
            rewards=rewards.astype(np.float64) * family.scale,
            active=log.remaining[k : samples + 1],
            samples=samples,
            stopped=bool(raw.stopped[0, 0, 0]),
            answer=raw.answer[0, 0, 0],
            pulls=raw.pulls[0, 0, 0],
            elimination_times=None if raw.times[0] is None else raw.times[0][0, 0],
            theta_hat_0=in_the_given_coordinates(call, log.theta_hat_0) * family.scale,
        )

    def __repr__(self) -> str:
        return f"<Trace {self.samples} samples, {'stopped' if self.stopped else 'truncated'}>"
