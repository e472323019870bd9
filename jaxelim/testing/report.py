"""What a check says: the laws that held, those that are broken, and rates of wrong answers."""

import dataclasses
import re
from typing import Any

import numpy as np
from scipy import stats

from jaxelim.contracts import Family
from jaxelim.errors import ArgumentError, JaxelimError
from jaxelim.simulation.api import simulate
from jaxelim.simulation.results.confidence import rate
from jaxelim.simulation.results.descriptions import known
from jaxelim.simulation.results.result import Result
from jaxelim.stopping import LLR, FullElimination, SelectiveElimination
from jaxelim.text import parse

STOPS = (LLR(), SelectiveElimination(), FullElimination())

BOUND = 1e-8  # the chance that a bound of a rate is wrong; a law has fewer than a hundred of them
ERRORS = 7  # standard errors by which an average may be off: by luck with probability below 1e-9


class ContractError(JaxelimError, AssertionError):
    """Laws that a thing of one's own has to keep are broken: a sentence of each.

    Attributes:
        report: the `Report`, with what else was found; None of a part of a check.
    """

    report: "Report | None" = None


@dataclasses.dataclass(frozen=True)
class ErrorRate:
    """How often one stopping rule ended with a wrong answer.

    Attributes:
        what: the runs, in words.
        stopping: the name of the stopping rule.
        errors, runs, truncated: numbers of runs: wrong, all, and cut off, which is no error.
        delta: the error probability of the runs.
        ends: whether the runs are meant to end before they are cut off.
    """

    what: str
    stopping: str
    errors: int
    runs: int
    truncated: int
    delta: float
    ends: bool = True

    @property
    def bounds(self) -> tuple[float, float]:
        """Exact bounds of the rate (Clopper-Pearson), each wrong with probability 1e-8."""
        return rate(self.errors, self.runs, 1 - 2 * BOUND)[1:]

    @property
    def seen(self) -> float:
        """The least rate that is called above delta with probability 0.999."""
        most = stats.binom.isf(BOUND, self.runs, self.delta)
        return float(stats.beta.ppf(0.999, most + 1, max(self.runs - most, 1e-9)))

    @property
    def verdict(self) -> str:
        """Whether the rate is above delta: "above", "at most" or "undecided"."""
        low, high = self.bounds
        return "above" if low > self.delta else "at most" if high <= self.delta else "undecided"

    def __str__(self) -> str:
        low, high = self.bounds
        word = {"above": "above delta", "at most": "at most delta", "undecided": "not above delta, "
                f"as far as seen: a rate of {self.seen:.2g} would be"}[self.verdict]  # fmt: skip
        said = f"{self.what}, {self.stopping}: {self.errors} errors in {self.runs} runs at delta = "
        said += f"{self.delta:g}, rate {low:.4f} to {high:.4f}: {word}"
        if self.truncated:
            said += f"; {self.truncated} runs were cut off, which count as no error"
        if self.truncated == self.runs:
            said += ": no run stopped, so the rate says nothing of answers"
        elif 2 * self.truncated > self.runs and self.ends:
            said += ", so the rate says little: try more steps=, or mend what is checked"
        return said


@dataclasses.dataclass(frozen=True)
class Report:
    """What was checked. It prints as text: a verdict, what was tried, a line for each law.

    Attributes:
        subject: the repr of what was checked.
        tried: on what.
        held: the laws that held, a sentence each, with the smallest defect that is seen.
        unseen: what the check cannot see.
        broken: the laws that are broken; a report with some is that of a `ContractError`.
        rates: of wrong answers.
    """

    subject: str
    tried: str
    held: tuple[str, ...]
    unseen: str
    broken: tuple[str, ...] = ()
    rates: tuple[ErrorRate, ...] = ()

    @property
    def verdict(self) -> str:
        """Of the whole check, in a few words."""
        cut = [one for one in self.rates if one.ends and one.truncated]
        if self.broken or not cut:
            return f"{len(self.broken)} laws are broken" if self.broken else "passed"
        most = max(cut, key=lambda one: one.truncated / one.runs)
        return f"passed, but {most.truncated} of {most.runs} runs ({most.what}) were cut off"

    def __str__(self) -> str:
        lines = [f"{self.subject}: {self.verdict}", f"tried: {self.tried}"]
        lines += [f"not shown: {self.unseen}", *(f"broken: {one}" for one in self.broken)]
        return "\n  ".join([*lines, *self.held, *map(str, self.rates)])


@dataclasses.dataclass
class World:
    """What a thing is checked on: arguments of `check`, what is drawn, and the rates so far."""

    thing: Any
    problem: Any = None
    instance: Any = None
    rule: Any = None
    stopping: Any = STOPS
    delta: float = 0.1
    runs: int = 100
    steps: int = 3000
    draws: int = 100_000
    seed: int = 0
    call: dict[str, Any] = dataclasses.field(default_factory=dict)  # more, as in `simulate`
    rates: list[ErrorRate] = dataclasses.field(default_factory=list)
    rng: np.random.Generator = dataclasses.field(default_factory=lambda: np.random.default_rng(0))

    def but(self, **fields: Any) -> "World":
        """The same with other fields; it counts rates with this one."""
        return dataclasses.replace(self, **fields)

    def simulate(self, **other: Any) -> Result:
        """Runs, with some arguments of `simulate` replaced."""
        call: dict[str, Any] = dict(
            instance=self.instance, problem=self.problem, rule=self.rule, stopping=self.stopping,
            delta=self.delta, runs=self.runs, seed=self.seed, max_samples=self.steps, **self.call)
        return simulate(**{**call, **other})

    @property
    def place(self) -> str:
        """The instance in words."""
        return self.instance.name or self.instance.structure


def require(holds: Any, sentence: str, **columns: Any) -> None:
    """Raise a ContractError unless all of `holds` are true, a bool or an array of them.

    It says the sentence, formatted with the entries of columns, arrays that broadcast with
    `holds`, at the first place that is wrong.
    """
    bad, *arrays = np.broadcast_arrays(~np.asarray(holds, bool), *columns.values())
    if bad.any():
        entries = {name: x.ravel()[bad.argmax()] for name, x in zip(columns, arrays, strict=True)}
        raise ContractError(sentence.format(**entries) if columns else sentence)


def settings(world: World) -> str:
    """A class of settings: its repr is read back, and its docstring has its fields."""
    thing, kind = world.thing, type(world.thing)
    frozen = getattr(vars(kind).get("__dataclass_params__"), "frozen", False)
    require(frozen or not isinstance(thing, Family), f"{kind.__name__} is no frozen dataclass: "
            "write @dataclasses.dataclass(frozen=True)")  # fmt: skip
    if "sha256" not in repr(thing):
        try:
            back = parse(repr(thing), "repr", {kind.__name__: kind}, known())
        except ArgumentError as error:
            raise ContractError(f"its repr is not read back: {error}") from error
        same = back == thing and hash(back) == hash(thing)
        require(same, f"its repr {thing!r} is read as something else, or hashes otherwise")
    doc = kind.__doc__ or ""
    args = re.split(r"\n\s*(?:Raises|Returns|Examples?):", doc.partition("Args:")[2])[0]
    said = re.findall(r"\w+", " ".join(re.findall(r"^\s+(\w+(?:, \w+)*): ", args, re.M)))
    fields = sorted(field.name for field in dataclasses.fields(kind) if field.init)
    require(doc.strip(), f"{kind.__name__} has no docstring")
    require(sorted(said) == fields, f"Args: in the docstring of {kind.__name__} describes {said}, "
            f"its fields are {fields}")  # fmt: skip
    return "a frozen dataclass; its repr is read back, its docstring describes its fields"
