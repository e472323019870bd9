"""A live run's arguments, checked before anything compiles; its spec and its inputs."""

import dataclasses
from typing import Any

import jax
import numpy as np

from jaxelim import checks, scope
from jaxelim.contracts import SamplingRule, StoppingRule
from jaxelim.engine import LANE_GROUP, Inputs, Queue, Spec
from jaxelim.errors import ArgumentError
from jaxelim.instances.arms import Arms
from jaxelim.problems.lanewise import traced_shape
from jaxelim.simulation.experiment import LONGEST, Engine, Experiment
from jaxelim.simulation.plan import checked_inputs_of, queue_of, spec_of
from jaxelim.stopping.llr import LLR
from jaxelim.thresholds.mixture import Mixture

MOST_WITH_P_VALUES = 64
"""Most arms of a run that keeps p-values; the work of a look grows with their square."""


@dataclasses.dataclass(frozen=True)
class LiveJob:
    """The checked arguments of a live run, and what its program needs."""

    call: Experiment
    spec: Spec
    inputs: Inputs
    queue: Queue

    @staticmethod
    def checked(
        arms: Arms, *, rule: Any, run: Any, delta: Any = 0.01, stopping: Any = LLR(),  # noqa: B008
        **others: Any,
    ) -> "LiveJob":  # fmt: skip
        """Check the arguments of a `LiveRun` as `simulate` does, but for the truth.

        Raises:
            ArgumentError, UnsupportedError, FamilyError, RuleError: as `simulate`.
        """
        if isinstance(rule, SamplingRule) and "truth" in rule.traits.reads:
            allowed = "a rule that needs no theta, such as an oracle with weights of its own"
            raise ArgumentError("rule", rule, allowed, "nobody knows theta in a live run")
        if not isinstance(stopping, StoppingRule):
            raise ArgumentError("stopping", stopping, "one stopping rule")
        delta = checks.real("delta", delta, low=0, high=1, open=True)
        run = checks.integer("run", run, low=0, high=checks.MAX_RUNS - 1)
        call = Experiment(
            arms, rule=rule, delta=delta, stopping=stopping, runs=np.array([run]),
            max_samples=LONGEST, record=("pair_times",),
            engine=Engine(lanes=LANE_GROUP, devices=1), **others,
        )  # fmt: skip
        layout: Any = dict(lanes=LANE_GROUP, queue=LANE_GROUP, devices=1, one_kernel=False)
        spec = dataclasses.replace(spec_of(call).executed(**layout), evidence=_kept(call))
        with scope.engine():
            inputs = checked_inputs_of(call, spec)
            queue = queue_of(call, spec)[0]
            return LiveJob(call, spec, *jax.device_put((inputs, queue)))

    @property
    def arms(self) -> Arms:
        """The arms."""
        return self.call.instance

    @property
    def first(self) -> int:
        """The number of initial pulls."""
        return self.call.initial_pulls * self.arms.K


def _kept(call: Experiment) -> Mixture | None:
    """The mixture whose largest log e of each piece is kept, for p-values; None: nothing is.

    It is that of the threshold, for pieces that have an index of their own.
    """
    shape = traced_shape(call.problem, call.instance.K, call.instance.d)
    if shape.candidates is None or shape.candidates > MOST_WITH_P_VALUES:
        return None
    return call.threshold if isinstance(call.threshold, Mixture) else None
