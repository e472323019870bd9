"""Commands about instances and rules: `jaxelim complexity`, `rules`, `instances`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxelim import catalogue, checks, instances
from jaxelim.bounds import complexity, kl_bound, practical_time, sample_bound
from jaxelim.cli.live_runs import FAMILIES, Compiles
from jaxelim.contracts import Problem
from jaxelim.errors import ArgumentError
from jaxelim.families import SOURCES
from jaxelim.instances.instance import Instance
from jaxelim.tables import aligned

_FAMILY = (
    "Rewards of this family at the instance's means, of logistic at its theta; default: the "
    f"instance's own. One of {FAMILIES}"
)

_SOURCE = (
    "What rewards are drawn from, such as normal:2.5; default: that of the file, or the family at "
    f"the arms' means. One of {', '.join(SOURCES)}"
)


@dataclasses.dataclass(frozen=True)
class Asked(Compiles):
    """An instance, and the problem on it."""

    instance: Annotated[str, tyro.conf.Positional]
    """A shipped instance (see `jaxelim instances`) or the path of a JSON file."""
    problem: str = "best-arm"
    """best-arm, best-or-none, best-item, top-m or thresholding. best-item: of the items
    in the file."""
    m: int | None = None
    """Number of arms to find, for top-m; default: the usual m of the instance."""
    level: float | None = None
    """The level, for thresholding and best-or-none: its reference; default: 0."""
    epsilon: float = 0.0
    """The slack of best-arm: any arm within it of the largest mean is right."""
    family: Annotated[str | None, tyro.conf.arg(help=_FAMILY)] = None
    family_setting: tuple[str, ...] = ()
    """The family's own settings, NAME=VALUE, as `--family-setting std=2.5`."""
    source: Annotated[str | None, tyro.conf.arg(help=_SOURCE)] = None
    source_setting: tuple[str, ...] = ()
    """The source's own settings, NAME=VALUE."""
    costs: tuple[float, ...] = ()
    """What a pull of each arm costs, in any unit; default: the costs in the file, or none."""

    def asked_instance(self) -> Instance:
        """The instance, with the family and the source that are asked for."""
        instance = instances.load_instance(self.instance)
        family, source = instance.family, instance.source
        if self.family is not None:
            family = catalogue.find_family(self.family, self.family_setting)
        elif self.family_setting:
            raise ArgumentError("family_setting", self.family_setting, "none without --family")
        if self.source is not None:
            source = catalogue.find_source(self.source, self.source_setting)
        elif self.source_setting:
            raise ArgumentError("source_setting", self.source_setting, "none without --source")
        numbers = instance.arms, instance.theta, None, instance.name
        costs = self.costs or instance.costs
        return Instance(*numbers, family, source=source, costs=costs)

    def asked_problem(self) -> Problem:
        """The problem, with the items of the file for best-item; m is the usual one.

        Raises:
            ArgumentError: m is missing and the instance has no usual one.
        """
        asked = self.problem, self.m, self.level, self.epsilon
        return catalogue.problem_on(self.instance, *asked)


@dataclasses.dataclass(frozen=True)
class Hardness(Asked):
    """H*, T*, the lower bounds and the optimal allocation of an instance."""

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
        instance = self.asked_instance()
        problem: Any = self.asked_problem()
        solved = complexity(instance, problem, gap=self.gap)
        bound, kl = (float(f(self.delta, solved)) for f in (sample_bound, kl_bound))
        right = len(problem.right(instance.means)) if problem.epsilon else 1
        practical = practical_time(self.delta, solved)
        print(f"{problem!r} on {self.instance}: K = {instance.K}, d = {instance.d}")
        print(
            f"  H* = {float(solved.value):.8g} per {solved.unit}, T* = {float(solved.time):.6g}, "
            f"duality gap {float(solved.gap):.1e} H*"
        )
        if right > 1:
            kl = float(kl_bound(self.delta, solved, right))
            print(
                f"  {right} right answers: as delta falls, E[tau] >= T* log(1/delta) (1 + o(1)); "
                f"at delta = {self.delta}: E[tau] >= kl((1 - delta)/{right}, delta)/H* = {kl:.1f}"
            )
        else:
            print(
                f"  at delta = {self.delta}: E[tau] >= log(1/(2.4 delta))/H* = {bound:.1f}, "
                f"kl(delta, 1 - delta)/H* = {kl:.1f}"
            )
        if solved.costs is None:
            print(f"  practical bound, the first t >= T* log((1 + t)/delta): {practical}")
        else:
            print("  T* and the bounds are in units of cost, weights are shares of it")
        weights = solved.allocation
        largest = weights.argsort()[::-1][:10]
        print("  largest weights: " + ", ".join(f"{k}: {weights[k]:.4f}" for k in largest))
        if self.figure is not None:
            figures.write(figures.allocation_figure(solved, str(self.instance)), self.figure)
            print(f"wrote {self.figure}")


@dataclasses.dataclass(frozen=True)
class Rules:
    """List the sampling rules."""

    markdown: bool = False
    """As a Markdown table."""

    def act(self) -> None:
        """Print the table."""
        rows = catalogue.rule_rows()
        print(catalogue.markdown(rows) if self.markdown else "\n".join(aligned(rows)))


@dataclasses.dataclass(frozen=True)
class Instances:
    """List the shipped instances."""

    def act(self) -> None:
        """Print the table."""
        rows = [
            {
                "name": shipped.name,
                "arms": shipped.K,
                "dimensions": shipped.d,
                "structure": shipped.structure,
                "problems": ", ".join(shipped.problems),
                "m": shipped.m or "-",
                "used in": shipped.used_in,
            }
            for shipped in map(instances.describe, instances.names())
        ]
        print("\n".join(aligned(rows)))
