"""A simulation's settings without its runs, which experiments store."""

import dataclasses
from typing import Any

import numpy as np

from jaxelim import checks
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.instances.instance import Instance
from jaxelim.simulation.experiment import Engine, Experiment
from jaxelim.thresholds.basic import Heuristic


@dataclasses.dataclass(frozen=True)
class Cell:
    """A simulation without its runs; the fields but the name are arguments of `je.simulate`.

    Args:
        name: readable, such as "table1/bai/LinGapE/watched".
        stopping: all observers of the same runs.
        delta: one or several, on one trajectory if the rule ignores delta.
    """

    name: str
    instance: Instance
    problem: Problem
    rule: SamplingRule
    stopping: tuple[StoppingRule, ...]
    elimination: Any = None
    delta: tuple[float, ...] = (0.01,)
    seed: int = 0
    max_samples: int = checks.MAX_SAMPLES
    threshold: Any = Heuristic()  # noqa: RUF009 (frozen)
    ridge: float | None = 1.0
    record: tuple[str, ...] = ()
    initial_pulls: int | None = None
    batch: int = 1
    delay: Any = 0

    def call(self, runs: np.ndarray) -> Experiment:
        """The call of some of its runs; one device computes a block."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del fields["name"]
        return Experiment(**fields, runs=runs, engine=Engine(devices=1))
