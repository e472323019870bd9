"""Studies: the public call `study`, and its results by rule, instance and problem."""

import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from jaxelim import catalogue, checks
from jaxelim.contracts import Problem, SamplingRule
from jaxelim.errors import ArgumentError
from jaxelim.instances import load_instance
from jaxelim.instances.instance import Instance
from jaxelim.simulation import api
from jaxelim.simulation.experiment import Experiment, Settings, of_truth, takes_settings
from jaxelim.simulation.results.descriptions import FORMAT, dataset_of, write
from jaxelim.simulation.results.result import Result
from jaxelim.simulation.results.summaries import compared, cut_off, numbered, of_several, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxelim.tables import Table

AXES = ("rule", "instance", "problem")  # of a study, in the order of its keys
Key = tuple[str, str, str]
LONGEST = 40  # characters of a description that serves as a name
OF_A_RULE = sorted(Settings.__annotations__.keys() - {"runs", "seed", "engine", "noise"})
"""Arguments of `simulate` that an entry of `rules` may have for itself."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Study:
    """The result of `study`: a `Result` for each rule, instance and problem.

    `study["LinGapE"]` is the result of a rule where there is one instance and problem.
    Else `study["LinGapE", "linear-d10", "BestArm"]`, where axes of one name may be left out.

    Attributes:
        results: by (rule, instance, problem). An interrupted study, or one that was read
            from a store, may lack some.
    """

    results: Mapping[Key, Result]

    @staticmethod
    def of(results: Iterable[tuple[Key, Result | None]]) -> "Study":
        """A study of results by their names; each instance of a batch is one of its own."""
        singles: dict[Key, Result] = {}
        for (rule, instance, problem), result in results:
            if result is not None and not result.batched:
                singles[rule, instance, problem] = result
            elif result is not None:
                for i in range(result.instance.size):
                    singles[rule, f"{instance}[{i}]", problem] = result.of_instance(i)
        return Study(singles)

    def _names(self, axis: int) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key[axis] for key in self.results))

    rules = property(lambda self: self._names(0), doc="The names of the rules.")
    instances = property(lambda self: self._names(1), doc="The names of the instances.")
    problems = property(lambda self: self._names(2), doc="The names of the problems.")

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Key]:
        """The keys of the results."""
        return iter(self.results)

    def __getitem__(self, key: str | tuple[str, ...]) -> Result:
        """A result, by the names of its rule, instance and problem, in this order.

        Names may be left out where one result has the others.

        Raises:
            ArgumentError: there is no such name; or several results have these names, or none.
        """
        names = [key] if isinstance(key, str) else list(key)
        known = [name for axis in range(3) for name in self._names(axis)]
        for name in names:
            checks.choice("key", name, known)
        found = []
        for one in self.results:
            left = iter(one)
            if all(name in left for name in names):  # in their order
                found.append(one)
        if len(found) != 1:
            several = "; ".join(map(", ".join, found[:3]))
            note = f"{len(found)} results have these names" + (f": {several}" if found else "")
            raise ArgumentError("key", key, "the names of one rule, instance and problem", note)
        return self.results[found[0]]

    def select(
        self, rule: Any = None, instance: Any = None, problem: Any = None, stopping: Any = None,
        delta: Any = None,
    ) -> "Study":  # fmt: skip
        """The part of a study with these names, one or several of each axis; None: all.

        Stopping rules and deltas are those of `Result.select`.

        Raises:
            ArgumentError: there is no such name.
        """
        kept = dict(self.results)
        for n, given in enumerate((rule, instance, problem)):
            known = self._names(n)
            names = known if given is None else [given] if isinstance(given, str) else given
            names = [checks.choice(AXES[n], name, known) for name in names]
            kept = {key: result for key, result in kept.items() if key[n] in names}
        if stopping is not None or delta is not None:
            kept = {key: result.select(stopping, delta) for key, result in kept.items()}
        return Study(kept)

    def groups(self) -> list[tuple[dict[str, str], dict[str, Result]]]:
        """For each instance and problem their names, and the results by rule."""
        found = []
        for at in itertools.product(self.instances, self.problems):
            named = {key[0]: one for key, one in self.results.items() if key[1:] == at}
            if named:
                found.append((dict(zip(AXES[1:], at, strict=True)), named))
        return found

    def summary(self) -> "Table":
        """Mean and standard deviation of tau, errors and cost, as of `Result.summary`.

        One row per rule, instance, problem, stopping rule and delta. Axes of one name
        have no column. With costs there is the mean cost. "s" is the work on a result in
        seconds, without compilation, in the first of its rows. Instances of a batch share it.
        """
        from jaxelim.tables import Table  # pandas is slow to import

        rows, cut = [], 0
        axes = {axis: self._names(n) for n, axis in enumerate(AXES)}
        priced = any(result.costs is not None for result in self.results.values())
        for key, result in self.results.items():
            where = {axis: name for axis, name in zip(AXES, key, strict=True)
                     if axis == "rule" or len(axes[axis]) > 1}  # fmt: skip
            cut += cut_off(result)[0]
            seconds = round(float(result.timings["seconds"]), 2)
            for n, row in enumerate(rows_of(result, priced)):
                rows.append({**where, **row, "s": seconds if n == 0 else np.nan})
        notes = [f"{cut} runs were cut off, and are in no mean."] if cut else []
        notes.append("s: seconds of work without compilation, of all stopping rules and deltas.")
        notes += of_several((key[0], result) for key, result in self.results.items())
        words = (names[0] if len(names) == 1 else f"{len(names)} {axis}s"
                 for axis, names in axes.items())  # fmt: skip
        return Table(rows, f"Study of {', '.join(words)}", notes)

    def compare(
        self, baseline: str | None = None, *, level: float = 0.95, by: str = "samples"
    ) -> "Table":
        """Compare the rules, on each instance and problem: see `je.compare`.

        Args:
            baseline: the rule that all others are compared with; None: the first.
            level, by: as of `je.compare`; all rules have the same seeds.

        Raises:
            ArgumentError: there is no such rule; and as `je.compare`.
        """
        baseline = self.rules[0] if baseline is None and self.rules else baseline
        several = {"instance": len(self.instances) > 1, "problem": len(self.problems) > 1}
        groups = [({axis: name for axis, name in where.items() if several[axis]}, named)
                  for where, named in self.groups()]  # fmt: skip
        return compared(groups, baseline, level, by)

    def figure(self, *, log: bool = False) -> "Figure":
        """Draw stopping times, their ratio to log(1/delta), and errors: see `study_figure`."""
        from jaxelim import figures  # matplotlib is slow to import

        return figures.study_figure(self, log=log)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the study to a NetCDF file, with a group for each result: `load_study` reads it.

        Raises:
            ArgumentError, StoreError: as `Result.save`.
        """
        import xarray as xr  # slow to import

        parts = {"/": xr.Dataset(attrs={"jaxelim_study": FORMAT})}
        for n, (key, result) in enumerate(self.results.items()):
            parts[f"/{n}"] = dataset_of(result).assign_attrs(key=json.dumps(key))
        write(path, parts)

    def equals(self, other: "Study") -> bool:
        """Whether both have the same names, and equal results: see `Result.equals`.

        Raises:
            ArgumentError: other is no `Study`.
        """
        if not isinstance(other, Study):
            raise ArgumentError("other", other, "a Study")
        return set(self.results) == set(other.results) and all(
            result.equals(other.results[key]) for key, result in self.results.items()
        )

    def __str__(self) -> str:
        """The summary."""
        return str(self.summary())

    def __repr__(self) -> str:
        counts = {axis: len(self._names(n)) for n, axis in enumerate(AXES)}
        sizes = (f"{n} {axis}{'s' * (n != 1)}" for axis, n in counts.items())
        return f"<Study of {', '.join(sizes)}: {len(self)} results>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


@takes_settings("noise")
def study(
    instances: Any,
    problem: Any = None,
    rules: Any = None,
    *,
    progress: Any = None,
    executor: Any = None,
    block: int | None = None,
    store: str | os.PathLike[str] | None = None,
    **settings: Unpack[Settings],
) -> Study:
    """Run several rules on several instances and problems, as `simulate` does each.

    Every combination has the same seed and runs, so rules are compared on the same noise.
    All combinations are checked before the first runs.

    Args:
        instances: an instance, a batch, the name or the path of one, or several of them,
            in a list or a mapping from names. Each instance of a batch has a result. A
            mapping with the key "instance" gives costs: {"instance": .., "costs": [..]}. Or,
            without problem and rules, experiments by name: `{"a": Experiment(..), ..}`.
        problem: a problem, or several likewise. Also texts, as on the command line: "TopM(3)".
        rules: a sampling rule or its text, or several likewise. A mapping with the key "rule"
            gives a rule arguments of its own: {"rule": LUCB(), "stopping": Native()}. They are
            those of `simulate` but instance, problem, runs, seed and engine.
        settings: all others as of `simulate`. Stopping rules, elimination and threshold may be
            texts.
        progress, executor, block, store: as of `simulate`, for all combinations together.
            `load_store` reads the store.

    Returns:
        A `Study`, with a `Result` for each combination.

    Raises:
        ArgumentError: an argument is wrong, or a combination is not defined. Its class is
            that of `simulate`, and its note names rule, instance and problem.
        Interrupted: Ctrl-C. Its `result` is a `Study` of the finished blocks.
        StoreError, WorkerError, FamilyError, RuleError, SetupError: as `simulate`.

    Example:
        >>> rules = ["lingape", "LUCB(pulls=2)"]
        >>> found = study("linear-d10", "best-arm", rules, runs=100)  # doctest: +SKIP
        >>> print(found.compare(baseline="LUCB"))  # doctest: +SKIP
    """
    calls = places(instances, problem, rules, **settings)
    labels: Any = [dict(zip(AXES, key, strict=True)) for key in calls]
    return api.run_calls(
        list(calls.values()), lambda results: Study.of(zip(calls, results, strict=True)), labels,
        progress, executor, block, store,
    )  # fmt: skip


def places(instances: Any, problem: Any, rules: Any, **shared: Any) -> dict[Key, Experiment]:
    """The calls of a study, checked, by the names of their rule, instance and problem."""
    if problem is None and rules is None:
        return _experiments(instances, shared)
    axes = (_named("rules", rules, _rule), _named("instances", instances, _instance),
            _named("problem", problem, _problem))  # fmt: skip
    found = {}
    for rule, instance, asked in itertools.product(*axes):
        key, (source, one), of = (rule, instance, asked), axes[1][instance], axes[2][asked]
        try:
            of = catalogue.problem_on(source, of) if isinstance(of, str) else of
            settings = catalogue.resolved({**shared, **axes[0][rule]})
            found[key] = Experiment(of_truth(one), of, **settings)
        except ArgumentError as error:
            where = "of rule {!r}, instance {!r}, problem {!r}".format(*key)
            error.note = f"{error.note}; {where}" if error.note else where
            raise
    return found


def _experiments(given: Any, settings: dict[str, Any]) -> dict[Key, Experiment]:
    """Experiments by name, as of a study."""
    several = isinstance(given, Mapping) and given
    if not several or not all(isinstance(one, Experiment) for one in given.values()):
        allowed = "experiments by name; else problem and rules too"
        raise ArgumentError("instances", given, allowed)
    for name, value in settings.items():
        raise ArgumentError(name, value, "nothing: an experiment has its own")
    return {(str(name), one.instance.name or "instance", one.problem.name): one
            for name, one in given.items()}  # fmt: skip


Entry = tuple[Any, str, str]
"""A rule, an instance or a problem of a grid, with a short name and one that says more."""


def _named(argument: str, given: Any, made: Callable[[Any], Entry]) -> dict[str, Any]:
    """Entries by name: one, a sequence, or a mapping from names."""
    if isinstance(given, Mapping) and argument.removesuffix("s") not in given:
        entries = {str(name): made(entry)[0] for name, entry in given.items()}
    else:
        several = isinstance(given, Sequence) and not isinstance(given, str)
        listed = list(map(made, given if several else [given]))
        short = [name for _, name, _ in listed]
        names = [name if short.count(name) == 1 else long for _, name, long in listed]
        entries = dict(zip(numbered(names), (value for value, *_ in listed), strict=True))
    if not entries:
        raise ArgumentError(argument, given, "at least one, alone, in a list or by name")
    return entries


def _rule(entry: Any) -> Entry:
    """A rule and its own arguments: {"rule": .., "stopping": ..}; its text names it."""
    own = dict(entry) if isinstance(entry, Mapping) else {"rule": entry}
    given = own.get("rule")
    rule = own["rule"] = catalogue.made("rule", given)
    for name in own:
        checks.choice("rules", name, ("rule", *OF_A_RULE))
    if not isinstance(rule, SamplingRule):
        allowed = "a sampling rule such as LinGapE(), its text, or a mapping with the key 'rule'"
        raise ArgumentError("rules", rule, allowed)
    short = type(rule).__name__
    return own, short, given if isinstance(given, str) else _long(short, rule)


def _long(short: str, thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= LONGEST else short


def _instance(entry: Any) -> Entry:
    """The name or the path of an instance, if it has one, and the instance."""
    source, single = None, entry
    if isinstance(entry, Mapping):
        for name in entry:
            checks.choice("instances", name, ("instance", "costs"))
        (source, single), *_ = _instance(entry.get("instance"))
        if not isinstance(single, Instance):
            raise ArgumentError("instances", entry, "an instance under the key 'instance'")
        single = single.replace(costs=entry.get("costs", single.costs))
    elif isinstance(entry, str | os.PathLike):
        source, single = os.fspath(entry), load_instance(entry)
    name = getattr(single, "name", None) or "instance"
    return (source, single), name, name


def _problem(entry: Any) -> Entry:
    """A problem, or its text, which is of an instance."""
    if isinstance(entry, str):
        return entry, entry, entry
    if not isinstance(entry, Problem):
        raise ArgumentError("problem", entry, "a problem such as BestArm(), or its text")
    return entry, entry.name, _long(entry.name, entry)
