"""A simulation's settings without its runs: what experiments store, and send to workers."""

import dataclasses
import platform
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jaxelim import checks
from jaxelim.contracts import Problem, SamplingRule, StoppingRule
from jaxelim.instances.instance import Instance
from jaxelim.simulation.api import Engine, simulate
from jaxelim.store.settings import REVISION, canonical
from jaxelim.thresholds.basic import Heuristic

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Cell:
    """One simulation's settings without its runs; fields are those of `je.simulate`.

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

    def settings(self) -> dict:
        """All fields but the name, and the revision of the library's numbers.

        One initial pull is left out, as files of older versions do not have it.
        """
        fields = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("name", "initial_pulls")
        }
        if self.pulls != 1:
            fields["initial_pulls"] = self.pulls
        return canonical({**fields, "revision": REVISION})

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

    def compute(
        self, runs: np.ndarray, progress: Callable[[int, int, int, float], None]
    ) -> "tuple[xr.Dataset, dict]":
        """Compute these runs.

        Returns:
            Arrays with a dimension `run`, and measurements of the work.
        """
        result = simulate(
            self.instance,
            self.problem,
            self.rule,
            delta=self.delta,
            stopping=self.stopping,
            elimination=self.elimination,
            threshold=self.threshold,
            runs=runs,
            seed=self.seed,
            max_samples=self.max_samples,
            ridge=self.ridge,
            record=self.record,
            engine=Engine(precision=self.precision, devices=1),
            progress=progress,
            initial_pulls=self.initial_pulls,
        )
        data = result.to_xarray()
        data.attrs = {}
        versions = {"jax": jax.__version__, "numpy": np.__version__, "machine": platform.machine()}
        return data, {
            **result.timings,
            **{f"plan_{key}": value for key, value in result.layout.items()},
            **versions,
        }
