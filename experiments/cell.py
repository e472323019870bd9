"""A simulation's settings without its runs, which experiments store."""

import dataclasses
from collections.abc import Hashable
from typing import Any

from jaxelim import checks
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.instances.instance import Instance
from jaxelim.simulation.api import Engine
from jaxelim.simulation.task import StoredCall
from jaxelim.store.settings import REVISION, canonical
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
    precision: str = "float64"
    initial_pulls: int | None = None

    @property
    def pulls(self) -> int:
        """The number of initial pulls of each arm."""
        least = self.instance.family.initial_pulls
        return least if self.initial_pulls is None else self.initial_pulls

    @property
    def arguments(self) -> dict:
        """The arguments of `je.simulate`, but for the runs and the engine."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in fields.items() if name not in ("name", "precision")}

    def settings(self) -> dict:
        """All that decides the numbers of run r, and the revision of the library's numbers.

        One initial pull is left out, as stored blocks do not have it.
        """
        settings = {**self.arguments, "precision": self.precision, "revision": REVISION}
        del settings["initial_pulls"]
        if self.pulls != 1:
            settings["initial_pulls"] = self.pulls
        return canonical(settings)

    @property
    def program(self) -> Hashable:
        """Key of the compiled program: all but numbers, which are its arguments."""
        shape = self.instance.structure, self.instance.arms.shape, len(self.delta)
        kinds = (
            self.instance.family,
            self.problem.static_part(),
            self.rule.static_part(),
            self.stopping,
            self.elimination,
            self.threshold,
        )
        return (*shape, *kinds, self.ridge, self.record, self.precision, self.pulls)

    @property
    def task(self) -> StoredCall:
        """What computes its runs, without the experiments."""
        layout = Engine(precision=self.precision, devices=1)
        return StoredCall({**self.arguments, "engine": layout})
