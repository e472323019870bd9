"""`jaxelim instances list` and `describe`, and the arguments that commands share."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxelim import catalogue, checks, instances
from jaxelim.bounds import complexity, kl_bound, practical_time, sample_bound
from jaxelim.instances.instance import Instance
from jaxelim.simulation.experiment import Settings as Given


def text(what: str, argument: str = "") -> Any:
    """The help of an argument, with the names that its text may have."""
    names = f" One of {', '.join(catalogue.names(argument))}." if argument else ""
    return tyro.conf.arg(help=what + names)


_PROBLEM = (
    "As in Python, such as 'BestArm(epsilon=0.1)' or 'TopM(3)'. Also best-item, for the items of "
    "the instance's file, and top-m, for its usual m."
)
RULE = "A sampling rule, such as 'lucb(pulls=2)' or, of your own, 'module:Class(..)'."
_FAMILY = (
    "Rewards of this family at the instance's means, of logistic at its theta, such as "
    "'Bounded(0, 5)'; default: the instance's own."
)
_SOURCE = (
    "What rewards are drawn from, such as 'normal(2.5)'; default: that of the file, or the family "
    "at the arms' means."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compiles:
    """What commands that compile programs have in common."""

    cache: bool = True
    """Keep compiled programs for later commands, in the folder JAX_COMPILATION_CACHE_DIR or
    in the user's cache folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Compiles):
    """What `run` and `live new` have in common."""

    problem: Annotated[str, text(_PROBLEM, "problem")] = "best-arm"
    rule: Annotated[str, text(RULE, "rule")] = "lingape"
    elimination: Annotated[str, text("Elimination at sampling.", "elimination")] = "none"
    threshold: Annotated[str, text("", "threshold")] = "heuristic"
    costs: tuple[float, ...] = ()
    """What a pull of each arm costs, in any unit; default: the costs in the file, or none."""
    ridge: float | None = None
    """The ridge lambda of the design matrix, for linear arms; default: 0."""
    initial_pulls: int | None = None
    """Pulls of each arm before the first check; default: the least that the rewards allow."""
    seed: int = 0
    """Seed of the noise, and of the rule's own random choices."""

    def settings(self) -> dict[str, Any]:
        """Those that `simulate` and `LiveRun` take by name; texts made to what they say."""
        names = [one.name for one in dataclasses.fields(self) if one.name in Given.__annotations__]
        return catalogue.resolved({name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class OnInstance:
    """An instance, and what it may have in place of the file's."""

    instance: Annotated[str, tyro.conf.Positional]
    """A shipped instance (see `jaxelim instances list`) or the path of a JSON file."""
    family: Annotated[str | None, text(_FAMILY, "family")] = None
    source: Annotated[str | None, text(_SOURCE, "source")] = None

    def made(self, costs: tuple[float, ...]) -> Instance:
        """The instance, with what is asked for."""
        changes: dict[str, Any] = {name: catalogue.made(name, text) for name in ("family", "source")
                                   if (text := getattr(self, name)) is not None}  # fmt: skip
        return instances.load_instance(self.instance).replace(
            **changes, **({"costs": costs} if costs else {})
        )


@dataclasses.dataclass(frozen=True)
class List:
    """List the shipped instances."""

    def act(self) -> None:
        """Print the table."""
        from jaxelim.tables import aligned  # pandas is slow to import

        found = map(instances.describe, instances.names())
        rows = [{"name": one.name, "arms": one.K, "dimensions": one.d, "structure": one.structure,
                 "problems": ", ".join(one.problems), "m": one.m or "-", "used in": one.used_in}
                for one in found]  # fmt: skip
        print("\n".join(aligned(rows)))


@dataclasses.dataclass(frozen=True)
class Describe(OnInstance, Compiles):
    """H*, T*, the lower bounds and the optimal allocation of an instance."""

    problem: Annotated[str, text(_PROBLEM, "problem")] = "best-arm"
    costs: tuple[float, ...] = ()
    """What a pull of each arm costs; default: the costs in the file, or none."""
    delta: float = 0.01
    """Error probability, for the bounds."""
    gap: float = 1e-8
    """Relative duality gap to solve to."""
    figure: Path | None = None
    """Draw w* and H_p by piece into this file."""

    def act(self) -> None:
        """Solve, and print."""
        from jaxelim import figures  # matplotlib is slow to import

        checks.real("delta", self.delta, low=0, high=1, open=True)
        if self.figure is not None:
            figures.figure_file("figure", self.figure)
        instance = self.made(self.costs)
        problem: Any = catalogue.problem_on(self.instance, self.problem)
        solved = complexity(instance, problem, gap=self.gap)
        right = problem.right_answers(instance.means)
        print(f"{problem!r} on {self.instance}: K = {instance.K}, d = {instance.d}")
        print(
            f"  H* = {float(solved.value):.8g} per {solved.unit}, T* = {float(solved.time):.6g}, "
            f"duality gap {float(solved.gap):.1e} H*"
        )
        kl = float(kl_bound(self.delta, solved, right))
        words = (
            f"{right} right answers: as delta falls, E[tau] >= T* log(1/delta) (1 + o(1)); "
            f"at delta = {self.delta}: E[tau] >= kl((1 - delta)/{right}, delta)/H* = {kl:.1f}"
        )
        if right == 1:
            bound = float(sample_bound(self.delta, solved))
            words = (
                f"at delta = {self.delta}: E[tau] >= log(1/(2.4 delta))/H* = {bound:.1f}, "
                f"kl(delta, 1 - delta)/H* = {kl:.1f}"
            )
        print(f"  {words}")
        if solved.costs is None:
            practical = practical_time(self.delta, solved)
            print(f"  practical bound, the first t >= T* log((1 + t)/delta): {practical}")
        else:
            print("  T* and the bounds are in units of cost, weights are shares of it")
        weights = solved.allocation
        largest = weights.argsort()[::-1][:10]
        print("  largest weights: " + ", ".join(f"{k}: {weights[k]:.4f}" for k in largest))
        if self.figure is not None:
            figures.save(figures.allocation_figure(solved, str(self.instance)), self.figure)
            print(f"wrote {self.figure}")
