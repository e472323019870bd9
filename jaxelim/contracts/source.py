"""The contract of a source of rewards."""

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jax import Array

from jaxelim.contracts.views import Tree
from jaxelim.errors import UnsupportedError, undefined
from jaxelim.lanes import LaneOps

if TYPE_CHECKING:
    from jaxelim.contracts.family import Family
    from jaxelim.instances.instance import Instance


class Source:
    """What the rewards of runs are drawn from, where the family does not draw them.

    A frozen dataclass of settings. `draw` and `lengths` are traced, lanes last; the other
    methods run on the host. Rewards are in units of `instance.family.scale`.
    """

    name: ClassVar[str] = ""
    noise: ClassVar[str] = "uniform"  # what `draw` is given: on [0, 1), or "normal", or "run"
    dependence: str = ""  # why rewards of an arm are no independent draws; empty: they are

    @property
    def means(self) -> np.ndarray | None:
        """The means of the arms, [K]; None: those of the instance, whatever they are."""
        return None

    def law(self, family: "Family") -> str:
        """`Family.law` of these rewards, tested as that family's."""
        if self.dependence:
            return self.dependence
        if family.any_law:
            return family.stated_law()
        return f"the law of rewards from {self.name} is not that of {family!r}"

    def static_part(self) -> "Source":
        """The source without its arrays, which `nature` returns; equal ones share a program."""
        return self

    def check(self, instance: "Instance") -> None:
        """Refuse an instance for which there are no rewards; its means have been checked."""

    def check_runs(self, runs: np.ndarray, initial_pulls: int) -> None:
        """Refuse run indices or initial pulls that there are no rewards for."""

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The rewards that each arm may have and their probabilities, [K, S] each."""
        allowed = "a source of points, such as Points: H* is that of their distribution"
        raise UnsupportedError("source", self, allowed)

    def nature(self, instance: "Instance") -> Tree:
        """What `draw` needs: NumPy arrays [instance, ..]."""
        raise undefined(self, "nature(instance)")

    def draw(self, lanes: LaneOps, nature: Any, arm: Array, pull: Array, noise: Array) -> Array:
        """The reward of an arm, []; `pull` [] int32: its number of earlier pulls."""
        raise undefined(self, "draw(lanes, nature, arm, pull, noise)")

    def lengths(self, nature: Any) -> Array | None:
        """The number of rewards that each arm has, [K] int32, at least 1; None: they never end.

        The mean of these rewards is the arm's. An arm whose rewards are used up is not pulled.
        """
        return None
