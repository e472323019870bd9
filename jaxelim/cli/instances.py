"""`jaxelim instances list` and `describe`, and the options that commands share."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from jaxelim import catalogue, checks, instances
from jaxelim.bounds import complexity
from jaxelim.bounds.bounds import in_words
from jaxelim.cli import Command, Compiles, write
from jaxelim.instances.instance import Instance
from jaxelim.simulation.experiment import Settings as Given


def text(what: str, argument: str) -> Any:
    """The help of an argument, with the names that its text may have."""
    return tyro.conf.arg(help=f"{what} One of {', '.join(catalogue.names(argument))}.".strip())


Rule = Annotated[str, text(
    "A sampling rule, such as 'lucb(pulls=2)' or, of your own, 'module:Class(..)'.", "rule"
)]  # fmt: skip
Threshold = Annotated[str, text("", "threshold")]


class OfProblem(Compiles):
    """What `run`, `live new` and `instances describe` have in common."""

    problem: Annotated[str, text(
        "As in Python, such as 'BestArm(epsilon=0.1)' or 'TopM(3)'. Also best-item, for the items "
        "of the instance's file, and top-m, for its usual m.", "problem"
    )] = "best-arm"  # fmt: skip
    costs: tuple[float, ...] = ()
    """What a pull of each arm costs, in any unit; default: the costs in the file, or none."""


class Settings(OfProblem):
    """What `run` and `live new` have in common."""

    rule: Rule = "lingape"
    elimination: Annotated[str, text("Elimination at sampling.", "elimination")] = "none"
    threshold: Threshold = "heuristic"
    ridge: float | None = None
    """The ridge lambda of the design matrix, for linear arms; default: 0."""
    initial_pulls: int | None = None
    """Pulls of each arm before the first check; default: the least that the rewards allow."""
    seed: int = 0
    """Seed of the noise, and of the rule's own random choices."""

    def settings(self) -> dict[str, Any]:
        """Those that `simulate` and `LiveRun` take by name; texts made to what they say."""
        given = {name: one for name, one in vars(self).items() if name in Given.__annotations__}
        return catalogue.resolved(given)


class OnInstance(OfProblem):
    """An instance, and what it may have in place of the file's."""

    instance: Annotated[str, tyro.conf.Positional]
    """A shipped instance (see `jaxelim instances list`) or the path of a JSON file."""
    family: Annotated[str | None, text(
        "Rewards of this family at the instance's means, of logistic at its theta, such as "
        "'Bounded(0, 5)'; default: the instance's own.", "family"
    )] = None  # fmt: skip
    source: Annotated[str | None, text(
        "What rewards are drawn from, such as 'normal(2.5)'; default: that of the file, or the "
        "family at the arms' means.", "source"
    )] = None  # fmt: skip

    def made(self) -> tuple[Instance, Any]:
        """The instance, with what is asked for, and the problem."""
        changes = {name: catalogue.made(name, one) for name in ("family", "source", "costs")
                   if (one := getattr(self, name)) not in (None, ())}  # fmt: skip
        instance = instances.load_instance(self.instance).replace(**changes)
        return instance, catalogue.problem_on(self.instance, self.problem)


class List(Command):
    """List the shipped instances."""

    def act(self) -> None:
        from jaxelim.tables import aligned  # pandas is slow to import

        rows = [{"name": one.name, "arms": one.K, "dimensions": one.d, "structure": one.structure,
                 "problems": ", ".join(one.problems), "m": one.m or "-", "used in": one.used_in}
                for one in map(instances.describe, instances.names())]  # fmt: skip
        print("\n".join(aligned(rows)))


class Describe(OnInstance):
    """H*, T*, the lower bounds and the optimal allocation of an instance."""

    delta: float = 0.01
    """Error probability, for the bounds."""
    gap: float = 1e-8
    """Relative duality gap to solve to."""
    figure: Path | None = None
    """Draw w* and H_p by piece into this file."""

    def act(self) -> None:
        from jaxelim import figures  # matplotlib is slow to import

        delta = checks.real("delta", self.delta, low=0, high=1, open=True)
        self.check_files()
        instance, problem = self.made()
        solved = complexity(instance, problem, gap=self.gap)
        head = f"{problem!r} on {self.instance}: K = {instance.K}, d = {instance.d}"
        print(head, *in_words(delta, solved, problem.right_answers(instance.means)), sep="\n  ")
        drawn = figures.allocation_figure
        write(self.figure, lambda path: figures.save(drawn(solved, self.instance), path))
